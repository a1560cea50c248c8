//! Switches a task on or off for one user, and shows who wants it. With `hold` and the demo this is
//! the only code that writes to Redis, and it writes nothing but one user's switch.
//!
//! What is there is read first, by the agent's own questions. From that reading and the
//! configuration follows the one command to send (`plan`). It changes the switch of this user
//! alone, so that two users who switch at the same time keep theirs.

mod board;
mod names;
mod plan;
mod source;
mod values;
mod words;

use std::collections::BTreeSet;
use std::sync::Arc;

use lockwatch_judge::reading::Unknown;
use lockwatch_judge::spec::{Codec, TaskSpec};
use lockwatch_watch::redis::reply::{Command, Reply, ServerError};

use crate::config::{Config, HostPort, Login, RedisConfig};
use crate::io::{Connection, connect_briefly};
use crate::seek;
pub use crate::seek::Trouble;
use crate::text::identity::escape;
use crate::text::nearest::no_such_task;
use board::{Board, Fault};
use lockwatch_watch::command;
use plan::{Mine, Write};
pub use source::{Source, source};
pub use values::Wish;
pub use words::Outcome;

/// How many servers of a cluster are asked, each because the one before names it for the key.
const MOVES: usize = 5;

/// What is asked for.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// The task's name.
    pub task: &'a str,
    /// The user; `None`: all of them.
    pub user: Option<&'a [u8]>,
    /// What this user wants; `None`: only look.
    pub wish: Option<Wish>,
}

/// Looks at the switches of a task, and sets one of them if that is asked.
///
/// # Errors
/// Why it was not done.
pub async fn want(config: &Config, asked: Asked<'_>) -> Result<Outcome, Trouble> {
    let (task, redis) = task(config, asked.task)?;
    let (source, codec) = source(task).map_err(Trouble::Usage)?;
    let mine = match asked.user {
        Some([]) => return Err(Trouble::Usage("--user is empty; name a user".to_owned())),
        Some(user) => Some(Mine::of(&source, user).map_err(Trouble::Usage)?),
        None if asked.wish.is_some() => {
            return Err(Trouble::Usage(
                "whose switch? Name the user with --user; only `status` does without".to_owned(),
            ));
        }
        None => None,
    };
    let login = login(redis, asked.wish)?;
    let mut at = seek::deciding(redis, source.first()).await?;
    for _ in 0..MOVES {
        let session = Session { redis, login, source: &source, codec, task };
        match session.visit(at.clone(), mine.as_ref(), asked.wish).await {
            Err(Stop::Moved(to)) => at = to,
            Err(Stop::Trouble(trouble)) => return Err(trouble),
            Ok((board, changed)) => {
                return Ok(Outcome {
                    task: task.name.to_string(),
                    store: redis.name.to_string(),
                    source,
                    codec,
                    user: asked.user.map(<[u8]>::to_vec),
                    mine,
                    wish: asked.wish,
                    changed,
                    board,
                });
            }
        }
    }
    Err(Trouble::Refused(format!(
        "the cluster {} goes on moving the key; try again when it is at rest",
        escape(redis.name.as_bytes())
    )))
}

/// The names of the tasks whose switches users may flip on the page.
pub fn on_page(config: &Config) -> BTreeSet<Arc<str>> {
    let may = |task: &TaskSpec| {
        let redis = config.redises.get(usize::from(task.switches_on().0));
        redis.is_some_and(|redis| redis.want_on_page) && source(task).is_ok()
    };
    config.tasks.iter().filter(|task| may(task)).map(|task| Arc::clone(&task.name)).collect()
}

fn task<'a>(config: &'a Config, name: &str) -> Result<(&'a TaskSpec, &'a RedisConfig), Trouble> {
    let task = config.tasks.iter().find(|task| &*task.name == name);
    if task.is_some_and(|task| config.zookeeper(task.switches_on()).is_some()) {
        let message =
            format!("the switches of task {name:?} are in ZooKeeper, where they are only read");
        return Err(Trouble::Usage(message));
    }
    let found =
        task.and_then(|task| Some((task, config.redises.get(usize::from(task.switches_on().0))?)));
    let (task, redis) = found.ok_or_else(|| {
        Trouble::Usage(no_such_task(name, config.tasks.iter().map(|task| &*task.name)))
    })?;
    Ok((&**task, redis))
}

/// Without a wish, the login of the agent is enough.
fn login(redis: &RedisConfig, wish: Option<Wish>) -> Result<&Login, Trouble> {
    let login = match (wish, &redis.want) {
        (None, _) => &redis.login,
        (Some(_), Some(want)) => want,
        (Some(_), None) => return Err(Trouble::Usage(no_login(&redis.name))),
    };
    match login.password.as_ref().and_then(|password| password.stored()) {
        Some(Err(error)) => Err(Trouble::Usage(format!(
            "there is no password for redis {}: {error}",
            escape(redis.name.as_bytes())
        ))),
        Some(Ok(_)) | None => Ok(login),
    }
}

fn no_login(redis: &str) -> String {
    format!(
        "the redis {name} has no login that may write switches: the agent's only reads. Add a \
         block to the configuration, and give its user the rule that `lockwatch acl` then \
         prints:\n\n  redis:\n    {name}:\n      want: {{username: lockwatch-want, \
         password_file: /run/secrets/want}}\n",
        name = escape(redis.as_bytes())
    )
}

/// Why a visit to a server ended without a result.
enum Stop {
    /// The key is at another server.
    Moved(HostPort),
    Trouble(Trouble),
}

impl From<Trouble> for Stop {
    fn from(trouble: Trouble) -> Stop {
        Stop::Trouble(trouble)
    }
}

/// What stays the same from one server to the next.
#[derive(Clone, Copy)]
struct Session<'a> {
    redis: &'a RedisConfig,
    login: &'a Login,
    source: &'a Source,
    codec: Codec,
    task: &'a TaskSpec,
}

impl Session<'_> {
    /// Reads the switches at one server, and sets one. Returns what is there then, and whether
    /// anything was changed.
    async fn visit(
        self,
        at: HostPort,
        mine: Option<&Mine>,
        wish: Option<Wish>,
    ) -> Result<(Board, bool), Stop> {
        let endpoint = crate::config::Endpoint {
            login: self.login.clone(),
            readonly: false,
            ..self.redis.endpoint(at.clone())
        };
        let connection =
            connect_briefly(&endpoint).await.map_err(|failure| seek::to_error(&at, failure))?;
        seek::check_role(self.redis, &at, connection.role())?;
        let mut board = self.read(&connection, &at).await?;
        let (Some(mine), Some(wish)) = (mine, wish) else { return Ok((board, false)) };
        if !board.whole {
            self.look_closer(&connection, &at, mine, &mut board).await?;
        }
        let planned = plan::plan(self.source, self.codec, &board, mine, wish);
        match planned.map_err(|why| Trouble::Refused(self.why(&why)))? {
            None => Ok((board, false)),
            Some(write) => {
                let write = self.keeping_ttl(&connection, &at, write).await?;
                Ok((self.write(&connection, &at, &write, wish).await?, true))
            }
        }
    }

    async fn read(self, connection: &Connection, at: &HostPort) -> Result<Board, Stop> {
        let replies = ask(connection, at, &self.source.asks()).await?;
        match board::read(self.source, self.codec, &replies) {
            Ok(board) => Ok(board),
            Err(Fault::WrongType(key)) => {
                let asked = ask(connection, at, &[command!("TYPE", key)]).await?;
                let real = asked.first().and_then(Reply::as_bytes).map(|name| escape(name));
                Err(Trouble::Refused(self.wrong_type(&key, real.as_deref())).into())
            }
            Err(Fault::Error(error)) => Err(self.refused(at, &error)),
            Err(Fault::Protocol) => Err(Trouble::Refused(format!(
                "the answer of {at} is not what Redis answers: is this address really a Redis \
                 server?"
            ))
            .into()),
        }
    }

    /// Asks for this user's switch where the reading may have missed it.
    async fn look_closer(
        self,
        connection: &Connection,
        at: &HostPort,
        mine: &Mine,
        board: &mut Board,
    ) -> Result<(), Stop> {
        let names = mine.names(self.codec);
        let replies = ask(connection, at, &plan::checks(self.source, &names)).await?;
        if let Some(Reply::Error(error)) =
            replies.iter().find(|reply| matches!(reply, Reply::Error(_)))
        {
            return Err(self.refused(at, error));
        }
        board.add(plan::checked(self.source, self.codec, &names, &replies));
        Ok(())
    }

    /// A write takes away the TTL of a field or of a string: it is set again with the write.
    async fn keeping_ttl(
        self,
        connection: &Connection,
        at: &HostPort,
        write: Write,
    ) -> Result<Write, Stop> {
        let asks: Vec<Command> = plan::ttl_ask(self.source, &write.names).into_iter().collect();
        if asks.is_empty() {
            return Ok(write);
        }
        let replies = ask(connection, at, &asks).await?;
        Ok(plan::keeping_ttl(self.source, write, replies.first()))
    }

    /// Writes, and reads again what is there then.
    async fn write(
        self,
        connection: &Connection,
        at: &HostPort,
        write: &Write,
        wish: Wish,
    ) -> Result<Board, Stop> {
        let checks = plan::checks(self.source, &write.names);
        let mut commands = write.commands.clone();
        commands.extend(checks.iter().cloned());
        commands.extend(self.source.asks());
        let sent = connection.exec(&commands).await;
        let replies = sent.map_err(|failure| {
            Trouble::Refused(format!(
                "it is not known whether the switch was written: {at} did not answer ({failure}). \
                 Look with `lockwatch want {} status`",
                escape(self.task.name.as_bytes())
            ))
        })?;
        let (written, rest) =
            replies.split_at_checked(write.commands.len()).unwrap_or((&replies, &[]));
        if let Some(error) = plan::refusal(written) {
            return Err(self.refused(at, error));
        }
        let (checked, asked) = rest.split_at_checked(checks.len()).unwrap_or((rest, &[]));
        let rows = plan::checked(self.source, self.codec, &write.names, checked);
        let confirmed = plan::is_confirmed(self.source, &write.names, &rows, wish);
        if !confirmed {
            return Err(Trouble::Refused(words::unconfirmed(&rows)).into());
        }
        let mut board = board::read(self.source, self.codec, asked).map_err(|_| {
            Trouble::Refused(format!(
                "the switch was written, but the others could not be read again at {at}"
            ))
        })?;
        if !board.whole {
            board.add(rows);
        }
        Ok(board)
    }

    fn why(self, why: &str) -> String {
        format!(
            "the switch in {} was not changed: {why}",
            words::place(self.source, &self.redis.name)
        )
    }

    fn wrong_type(self, key: &[u8], real: Option<&str>) -> String {
        let real = real.map_or_else(|| "another type".to_owned(), |real| format!("a {real}"));
        format!(
            "{key} is configured as {form} of switches, but holds {real}; correct the key in \
             `wanted`, or write the form that it has (`hash`, `set` or `keys`)",
            key = escape(key),
            form = match self.source {
                Source::Hash(_) => "a hash",
                Source::Set(_) => "a set",
                Source::Keys(_) => "one of the string keys",
            },
        )
    }

    /// What a refusal means, and where else to go.
    fn refused(self, at: &HostPort, error: &ServerError) -> Stop {
        let said = [error.code.as_slice(), b" ", &error.detail].concat();
        let said = escape(&said);
        let user = self.login.username.as_deref().unwrap_or("default");
        let user = escape(user.as_bytes());
        let trouble = match error.code.as_slice() {
            b"MOVED" => match seek::moved(self.redis, at, error) {
                Ok(to) => return Stop::Moved(to),
                Err(trouble) => trouble,
            },
            b"ASK" | b"TRYAGAIN" => Trouble::Refused(format!(
                "the cluster is moving the slot of {} from {at} just now; nothing was changed. \
                 Try again",
                escape(self.source.first())
            )),
            b"READONLY" => Trouble::Refused(seek::read_only(self.redis, at)),
            b"NOPERM" => Trouble::Refused(format!(
                "the user {user} may not do that at {at} ({said}); give it the rule that \
                 `lockwatch acl` prints for this configuration"
            )),
            _ => {
                Trouble::Refused(format!("{at} refused: {said}. {}", remedy(Unknown::from(error))))
            }
        };
        Stop::Trouble(trouble)
    }
}

fn remedy(why: Unknown) -> &'static str {
    match why {
        // This speaks of the agent's log.
        Unknown::ServerError => "Nothing was changed.",
        why => lockwatch_watch::remedy(why),
    }
}

async fn ask(
    connection: &Connection,
    at: &HostPort,
    commands: &[Command],
) -> Result<Vec<Reply>, Stop> {
    connection.exec(commands).await.map_err(|failure| seek::to_error(at, failure).into())
}
