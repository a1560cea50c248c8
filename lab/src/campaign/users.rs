//! Users who flip switches as the scripts say, and who notice with a delay that a switch of theirs
//! is gone.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::clock::{Micros, SECOND, now};
use super::guard::connect;
use super::header::Header;
use super::log::Log;
use super::master;
use super::script::{Play, Script};

const LOOK_EVERY: Duration = Duration::from_millis(150);
/// The name of all users.
const USER: &str = "anna";
/// Minimum time until a user notices that a switch was lost; the maximum is twice as long.
const NOTICES: Micros = 9 * SECOND;

/// Starts to flip the switches of one Redis.
pub(super) fn start(header: &Arc<Header>, redis: usize, log: Log) -> Option<JoinHandle<()>> {
    let header = Arc::clone(header);
    let master = master::follow(header.redises.get(redis)?);
    let users: Vec<User> = header
        .tasks_of(redis)
        .map(|(index, task)| User {
            index,
            key: task.switches(),
            play: Play::new(Script::new(header.seed, index, task, header.times), header.began_us),
            left: None,
            differs_since: None,
            patience: NOTICES
                + fastrand::Rng::with_seed(header.seed ^ index as u64).u64(0..NOTICES),
        })
        .collect();
    Some(tokio::spawn(flip(users, master, log)))
}

struct User {
    index: usize,
    key: String,
    play: Play,
    /// The value that the user wrote last.
    left: Option<bool>,
    /// Since when the value differs.
    differs_since: Option<Micros>,
    patience: Micros,
}

async fn flip(
    mut users: Vec<User>,
    master: tokio::sync::watch::Receiver<Option<SocketAddr>>,
    log: Log,
) {
    let mut open: Option<(SocketAddr, MultiplexedConnection)> = None;
    loop {
        sleep(LOOK_EVERY).await;
        let Some(address) = *master.borrow() else { continue };
        let kept = open.take().filter(|(at, _)| *at == address);
        let connection = match kept {
            Some((_, connection)) => Some(connection),
            None => connect(address).await.ok(),
        };
        let Some(mut connection) = connection else { continue };
        if round(&mut users, &mut connection, &log).await.is_ok() {
            open = Some((address, connection));
        }
    }
}

/// Checks all switches, and writes those that are due to be flipped or that have been lost for long
/// enough.
async fn round(
    users: &mut [User],
    connection: &mut MultiplexedConnection,
    log: &Log,
) -> redis::RedisResult<()> {
    let mut look = redis::pipe();
    for user in users.iter() {
        look.cmd("HGET").arg(&user.key).arg(USER);
    }
    let found: Vec<Option<String>> = look.query_async(connection).await?;
    for (user, found) in users.iter_mut().zip(found) {
        let wanted = user.play.at(now()).kind.wanted();
        let shown = found.map(|value| value == "1");
        let flips = user.left != Some(wanted);
        user.differs_since =
            if shown == Some(wanted) { None } else { user.differs_since.or(Some(now())) };
        let notices = user.differs_since.is_some_and(|since| now() > since + user.patience);
        if flips || notices {
            let sent = now();
            let value = if wanted { "1" } else { "0" };
            redis::cmd("HSET").arg(&user.key).arg(USER).arg(value).exec_async(connection).await?;
            log.line(format_args!(
                "{} {} {} {sent}",
                now(),
                user.index,
                if wanted { "on" } else { "off" }
            ));
            user.left = Some(wanted);
            user.differs_since = None;
        }
    }
    Ok(())
}
