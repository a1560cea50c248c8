//! Asks one Sentinel for the current master repeatedly, and publishes its answers. It also
//! subscribes to the Sentinel's announcements; an announcement only means that a request is
//! worthwhile now.

use std::sync::Arc;
use std::time::Duration;

use lockwatch_judge::reading::Unknown;
use lockwatch_judge::time::Mono;
use lockwatch_watch::redis::reply::{Command, Reply};
use lockwatch_watch::redis::topology::sentinel::{self, Answer};
use tokio::sync::mpsc;

use super::pace::Pace;
use super::urgency::{Turn, Urge};
use crate::clock::Clock;
use crate::config::Endpoint;
use crate::redis;

/// The channel on which Sentinels announce a new master.
const CHANNEL: &str = "+switch-master";
/// Maximum pause between two attempts to reach a Sentinel.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// Maximum number of requests in one interval, however many reasons to hurry there are: a Sentinel
/// may announce without end.
const HURRIES: u32 = 10;
/// Pause after the subscription was refused or broke.
const LISTEN_AGAIN: Duration = Duration::from_secs(5);

/// The answer of one Sentinel.
pub(super) struct Word {
    /// Its position in the configured list.
    pub(super) sentinel: usize,
    pub(super) asked: Mono,
    pub(super) answer: Result<Answer, Unknown>,
}

/// Asks `endpoint` about `master` each `interval`, and at once when urged, until the receiver of
/// `words` is gone.
pub(super) async fn ask(
    sentinel: usize,
    endpoint: Endpoint,
    master: Arc<str>,
    interval: Duration,
    mut turn: Turn,
    words: mpsc::Sender<Word>,
    clock: Clock,
) {
    let commands = sentinel::commands(&master);
    let (mut connection, mut pace, mut told) = (None, Pace::default(), None);
    loop {
        let began = tokio::time::Instant::now();
        let (asked, replies) =
            question(&mut connection, &endpoint, &commands, &mut pace, clock).await;
        let answer = replies.and_then(|replies| {
            sentinel::decode(&replies)
                .map_err(|why| redis::Failure { why, detail: String::from("it says no address") })
        });
        let failing = answer.as_ref().err().map(|failure| failure.why);
        if let (Err(failure), true) = (&answer, told != failing) {
            let remedy = remedy(failure.why, &master);
            tracing::warn!(sentinel = %endpoint.at, %failure, remedy, "a Sentinel names no master");
        }
        told = failing;
        let answer = answer.map_err(|failure| failure.why);
        if words.send(Word { sentinel, asked, answer }).await.is_err() {
            return;
        }
        // After a late answer the next request is sent sooner, so that the answer does not expire.
        let late = Duration::from_millis(clock.now().since_ms(asked));
        if !turn.wait(interval.saturating_sub(late)).await {
            return;
        }
        tokio::time::sleep_until(began + interval / HURRIES).await;
        if connection.is_none() {
            // The pause holds however urgent the request is.
            tokio::time::sleep(pause(&pace, clock)).await;
        }
    }
}

/// How long to wait after a Sentinel was lost.
fn pause(pace: &Pace, clock: Clock) -> Duration {
    let next = clock.instant(pace.next_dial(clock.now(), fastrand::f64()));
    // All tasks of the Redis may be unreadable until the Sentinel is back.
    next.saturating_duration_since(tokio::time::Instant::now()).min(LONGEST_PAUSE)
}

/// Advice for the log if a Sentinel names no master.
fn remedy(why: Unknown, master: &str) -> String {
    match why {
        Unknown::NoMaster => {
            format!("It does not know a master named {master:?}: correct `sentinel.master`.")
        }
        Unknown::Auth | Unknown::NoPermission => String::from(
            "Set or correct `sentinel.password_file` (or `sentinel.password_env`) and \
             `sentinel.username`.",
        ),
        other => lockwatch_watch::redis::remedy(other).to_owned(),
    }
}

/// Asks over the connection, which is made if needed and given up after any doubt. Returns the
/// instant of the request too.
async fn question(
    connection: &mut Option<redis::Connection>,
    endpoint: &Endpoint,
    commands: &[Command],
    pace: &mut Pace,
    clock: Clock,
) -> (Mono, Result<Vec<Reply>, redis::Failure>) {
    let dialled = clock.now();
    let open = match connection.take() {
        Some(open) => open,
        None => {
            let in_vain = pace.in_vain();
            pace.dialled(dialled);
            match redis::connect(endpoint, None, in_vain).await {
                Ok((open, _)) => open,
                Err(failure) => return (dialled, Err(failure)),
            }
        }
    };
    let asked = clock.now();
    let replies = open.exec(commands).await;
    if replies.is_ok() {
        pace.succeeded();
        *connection = Some(open);
    }
    (asked, replies)
}

/// Urges a request whenever the Sentinel announces a new master. The announcement itself is not
/// evidence.
pub(super) async fn listen(endpoint: Endpoint, urge: Urge) {
    loop {
        match redis::Listener::subscribe(&endpoint, CHANNEL).await {
            Ok(mut listener) => {
                while listener.heard().await.is_ok() {
                    urge.hurry();
                }
                urge.hurry();
            }
            Err(failure) => {
                tracing::debug!(sentinel = %endpoint.at, %failure, "cannot listen to a Sentinel")
            }
        }
        tokio::time::sleep(LISTEN_AGAIN).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{HostPort, Login, RedisConfig, Servers};
    use tokio::io::AsyncWriteExt as _;

    /// An answer is as old as its request: what it reports may be over.
    #[tokio::test]
    async fn a_word_counts_from_when_it_was_asked_for() {
        let _rule = crate::truth::rule("2 instants");
        let at = HostPort { host: String::from("one"), port: 26_379 };
        let config = RedisConfig {
            name: "main".into(),
            servers: Servers::Nodes(vec![at.clone()]),
            db: 0,
            login: Login::default(),
            interval: Duration::from_secs(1),
            timeout: Duration::from_secs(3),
            assume_master: false,
            wake_ups: false,
        };
        let (endpoint, clock) = (config.endpoint(at), Clock::start());
        let (here, mut there) = tokio::io::duplex(1 << 16);
        there
            .write_all(b"+OK\r\n+OK\r\n*1\r\n$6\r\nmaster\r\n-NOPERM no\r\n-NOPERM no\r\n:-2\r\n")
            .await
            .unwrap();
        let mut connection = Some(redis::greet_over(here, &endpoint, None, None).await.unwrap().0);
        let answer = tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(300)).await;
            there.write_all(b"*0\r\n*0\r\n").await.map(|()| there)
        });
        let before = clock.now();
        let commands = sentinel::commands("main");
        let (asked, replies) =
            question(&mut connection, &endpoint, &commands, &mut Pace::default(), clock).await;
        assert!(replies.is_ok() && answer.await.unwrap().is_ok());
        assert!(clock.now().since_ms(asked) >= 250 && asked >= before);
    }

    #[test]
    fn a_sentinel_that_is_out_of_reach_for_long_is_dialled_again_within_a_second() {
        let (clock, mut pace) = (Clock::start(), Pace::default());
        (0..20).for_each(|_| pace.dialled(Mono(0)));
        let longest = (0..1_000).map(|_| pause(&pace, clock)).max();
        assert_eq!(longest, Some(Duration::from_secs(1)));
    }
}
