//! One candidate's handle on one lock, for both layouts: Redisson's by the client of the guards,
//! and plain strings.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::bail;
use lockwatch::hold::{Client, Holder};
use lockwatch_guard::{Action, Reply};
use redis::RedisError;
use redis::aio::MultiplexedConnection;

use super::header::Library;
use crate::stack;

/// Maximum wait for a reply: shorter than the lease, as in every correct program.
const REPLY_WITHIN: Duration = Duration::from_millis(900);
const RENEW_TEXT: &str = "if redis.call('get', KEYS[1]) == ARGV[1] then return \
    redis.call('pexpire', KEYS[1], ARGV[2]) end return 0";
const RELEASE_TEXT: &str =
    "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";

/// The result of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Try {
    Taken,
    /// Another holder has it, for this time unless it is renewed.
    Busy(Duration),
}

/// A connection to database 0 of a server.
pub(super) async fn connect(address: SocketAddr) -> Result<MultiplexedConnection, RedisError> {
    stack::connect(address, REPLY_WITHIN).await
}

/// A lock on one server from the point of view of one candidate.
pub(super) enum Guard {
    Redisson(Box<Client>),
    Text(Text),
}

/// A string that contains its owner's token.
pub(super) struct Text {
    address: SocketAddr,
    connection: Option<MultiplexedConnection>,
    key: String,
    token: String,
    lease: Duration,
}

impl Guard {
    pub(super) fn new(
        library: Library,
        address: SocketAddr,
        key: &str,
        holder: &Holder,
        lease: Duration,
    ) -> anyhow::Result<Guard> {
        Ok(match library {
            Library::Redisson => {
                let holder = holder.clone();
                let client = stack::lock_client(address, key, holder, lease, REPLY_WITHIN)?;
                Guard::Redisson(Box::new(client))
            }
            Library::String => Guard::Text(Text {
                address,
                connection: None,
                key: key.to_owned(),
                token: holder.field().to_owned(),
                lease,
            }),
        })
    }

    pub(super) async fn acquire(&mut self) -> anyhow::Result<Try> {
        match self {
            Guard::Redisson(client) => Ok(match ask(client, Action::Take).await? {
                Reply::Busy { left_ms } => {
                    Try::Busy(Duration::from_millis(left_ms.unwrap_or_default()))
                }
                Reply::Taken { .. } => Try::Taken,
                other => bail!("an answer that makes no sense: {other:?}"),
            }),
            Guard::Text(text) => text.acquire().await,
        }
    }

    /// Renews the lock; returns whether it is still held by this candidate.
    pub(super) async fn renew(&mut self) -> anyhow::Result<bool> {
        match self {
            Guard::Redisson(client) => Ok(ask(client, Action::Renew).await? == Reply::Renewed),
            Guard::Text(text) => text.script(RENEW_TEXT).await,
        }
    }

    /// Releases the lock; returns whether it was held by this candidate.
    pub(super) async fn release(&mut self) -> anyhow::Result<bool> {
        match self {
            Guard::Redisson(client) => Ok(ask(client, Action::Release).await? == Reply::Released),
            Guard::Text(text) => text.script(RELEASE_TEXT).await,
        }
    }
}

/// The answer to a request, if there is one.
async fn ask(client: &mut Client, request: Action) -> anyhow::Result<Reply> {
    match client.carry_out(request).await {
        (_, Some(trouble)) => bail!("{trouble}"),
        (reply, None) => Ok(reply),
    }
}

impl Text {
    async fn acquire(&mut self) -> anyhow::Result<Try> {
        let mut connection = self.connection().await?;
        let mut set = redis::cmd("SET");
        set.arg(&self.key).arg(&self.token).arg("NX").arg("PX").arg(millis(self.lease));
        let (taken, ttl_ms): (Option<String>, i64) = redis::pipe()
            .add_command(set)
            .cmd("PTTL")
            .arg(&self.key)
            .query_async(&mut connection)
            .await?;
        self.connection = Some(connection);
        let ttl = Duration::from_millis(u64::try_from(ttl_ms).unwrap_or_default());
        Ok(if taken.is_some() { Try::Taken } else { Try::Busy(ttl) })
    }

    async fn script(&mut self, text: &str) -> anyhow::Result<bool> {
        let mut connection = self.connection().await?;
        let mut eval = redis::cmd("EVAL");
        eval.arg(text).arg(1).arg(&self.key).arg(&self.token).arg(millis(self.lease));
        let done: i64 = eval.query_async(&mut connection).await?;
        self.connection = Some(connection);
        Ok(done == 1)
    }

    /// Taken out, so that a connection that still owes an answer is never reused.
    async fn connection(&mut self) -> anyhow::Result<MultiplexedConnection> {
        Ok(match self.connection.take() {
            Some(connection) => connection,
            None => connect(self.address).await?,
        })
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
