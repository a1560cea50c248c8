//! One lock from the point of view of a guard: takes, renews and gives back, and never waits for
//! another client.

use lockwatch_guard as guard;
use lockwatch_judge::reading::Unknown;
use lockwatch_watch::redis::reply::{Command, Reply, ServerError};

use super::store::Store;
use super::{Holder, scripts};
use crate::io::Failure;
use crate::text::identity::escape;

/// The error for a key of another type.
const WRONG_TYPE: &[u8] = b"WRONGTYPE";

/// A lock, and who holds it here.
#[derive(Debug)]
pub struct Client {
    store: Store,
    key: Vec<u8>,
    /// The next one after each request to give the lock back.
    holder: Holder,
    /// The hold that was given back last.
    before: Option<Holder>,
    lease_ms: u64,
    is_cluster: bool,
    /// The highest token that this client knows. A counter that was lost goes on above it.
    newest_token: u64,
}

/// Why a request failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// No answer. It may have been carried out all the same.
    Unanswered(Failure),
    /// The server refuses it.
    Refused(ServerError),
    /// Something else is at a key of the lock.
    Foreign {
        /// The key.
        key: Vec<u8>,
        /// Of which type that is.
        found: String,
        /// Of which type it should be.
        expected: &'static str,
    },
}

impl std::fmt::Display for Trouble {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Trouble::Unanswered(failure) => write!(f, "{}: {}", failure.why.name(), failure.detail),
            Trouble::Refused(ServerError { code, detail }) => {
                write!(f, "{} {}", code.escape_ascii(), detail.escape_ascii())
            }
            Trouble::Foreign { key, found, expected } => write!(
                f,
                "WRONGTYPE: the key {} is a {found}, and a lock of Redisson has a {expected} \
                 there; give the lock another key, or delete this one if nothing else uses it",
                escape(key)
            ),
        }
    }
}

impl Client {
    /// A client for the lock under `key` in `store`.
    pub fn new(store: Store, key: Vec<u8>, holder: Holder, lease_ms: u64, cluster: bool) -> Client {
        let is_cluster = cluster;
        Client { store, key, holder, before: None, lease_ms, is_cluster, newest_token: 0 }
    }

    /// Carries out a request of the guard's machine; anything else is no request, and fails.
    pub async fn carry_out(&mut self, request: guard::Action) -> (guard::Reply, Option<Trouble>) {
        let answer = match request {
            guard::Action::Take => self.take().await,
            guard::Action::Renew => {
                let command = scripts::renew(&self.key, self.holder.field(), self.lease_ms);
                self.is_one(command).await.map(|ours| ours_or(ours, guard::Reply::Renewed))
            }
            guard::Action::Look => {
                let command = Command::new([b"HEXISTS", &self.key[..], self.field()]);
                self.is_one(command).await.map(|ours| ours_or(ours, guard::Reply::Held))
            }
            guard::Action::Release => {
                let command = scripts::give_back(&self.key, self.holder.field(), self.is_cluster);
                // It may be carried out late, when its answer is not waited for any more.
                let next = self.holder.next();
                self.before = Some(std::mem::replace(&mut self.holder, next));
                self.is_one(command).await.map(|ours| ours_or(ours, guard::Reply::Released))
            }
            guard::Action::Leave { left_ms } => {
                let command = scripts::renew(&self.key, self.holder.field(), left_ms);
                self.is_one(command).await.map(|ours| ours_or(ours, guard::Reply::Released))
            }
            _ => Ok(guard::Reply::Failed),
        };
        match answer {
            Ok(reply) => (reply, None),
            Err(trouble) => (guard::Reply::Failed, Some(trouble)),
        }
    }

    async fn take(&mut self) -> Result<guard::Reply, Trouble> {
        let floor = self.newest_token;
        let before = self.before.as_ref().map_or("", Holder::field);
        let field = self.holder.field();
        let command = scripts::take(&self.key, field, self.lease_ms, floor, before);
        let reply = match self.ask(command).await {
            Err(Trouble::Refused(error)) if error.code == WRONG_TYPE => {
                return Err(self.foreign(error).await);
            }
            answer => answer?,
        };
        let number = |at| reply.as_array()?.get::<usize>(at)?.as_int();
        let (taken, token) = number(0).zip(number(1)).ok_or_else(strange)?;
        let token = u64::try_from(token).unwrap_or(0);
        // Also while others hold it: after a loss of data this client may be the next one.
        self.newest_token = self.newest_token.max(token);
        Ok(match taken {
            1 => guard::Reply::Taken { token },
            // Without a TTL the number is negative.
            _ => guard::Reply::Busy { left_ms: number(2).and_then(|left| left.try_into().ok()) },
        })
    }

    /// Which key is of a wrong type.
    async fn foreign(&mut self, error: ServerError) -> Trouble {
        for (key, expected) in [(self.key.clone(), "hash"), (scripts::token(&self.key), "string")] {
            let answer = self.ask(Command::new([b"TYPE", &key[..]])).await;
            let Ok(Reply::Bytes(found)) = answer else { continue };
            if found != b"none" && found != expected.as_bytes() {
                let found = found.escape_ascii().to_string();
                return Trouble::Foreign { key, found, expected };
            }
        }
        Trouble::Refused(error)
    }

    /// Whether `holder` has the lock, and what the newest token is.
    ///
    /// # Errors
    /// There is no answer.
    pub async fn fence(&mut self) -> Result<(bool, u64), Trouble> {
        let command = scripts::fence(&self.key, self.holder.field());
        let reply = self.ask(command).await?;
        let number = |at| u64::try_from(reply.as_array()?.get::<usize>(at)?.as_int()?).ok();
        Ok((number(0) == Some(1), number(1).ok_or_else(strange)?))
    }

    async fn is_one(&mut self, command: Command) -> Result<bool, Trouble> {
        match self.ask(command).await {
            Ok(Reply::Int(number)) => Ok(number == 1),
            Ok(_) => Err(strange()),
            // Where something else is, nobody holds a lock.
            Err(Trouble::Refused(error)) if error.code == WRONG_TYPE => Ok(false),
            Err(trouble) => Err(trouble),
        }
    }

    async fn ask(&mut self, command: Command) -> Result<Reply, Trouble> {
        let mut replies =
            self.store.ask(&self.key, &[command]).await.map_err(Trouble::Unanswered)?;
        match replies.pop() {
            Some(Reply::Error(error)) => Err(Trouble::Refused(error)),
            Some(reply) => Ok(reply),
            None => Err(strange()),
        }
    }

    fn field(&self) -> &[u8] {
        self.holder.field().as_bytes()
    }
}

fn ours_or(ours: bool, reply: guard::Reply) -> guard::Reply {
    if ours { reply } else { guard::Reply::NotOurs }
}

fn strange() -> Trouble {
    Trouble::Unanswered(Failure::new(Unknown::Protocol, "an answer that makes no sense"))
}
