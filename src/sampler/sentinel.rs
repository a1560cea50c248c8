//! Asks one Sentinel again and again who is master, and hands over what it says. Beside that it listens for the Sentinel's
//! word of a change, which only means: ask now.

use std::sync::Arc;
use std::time::Duration;

use lockwatch_model::reading::Unknown;
use lockwatch_model::reply::Command;
use lockwatch_model::time::Mono;
use lockwatch_model::topology::sentinel::{self, Answer};
use tokio::sync::mpsc;

use super::pace::Pace;
use super::urgency::{Turn, Urge};
use crate::clock::Clock;
use crate::config::Endpoint;
use crate::redis;

/// The channel on which Sentinels tell of a new master.
const CHANNEL: &str = "+switch-master";
/// Pause after the channel was refused or broke.
const LISTEN_AGAIN: Duration = Duration::from_secs(5);

/// What one Sentinel said.
pub(super) struct Word {
    /// Its position among those configured.
    pub(super) sentinel: usize,
    pub(super) asked: Mono,
    pub(super) answer: Result<Answer, Unknown>,
}

/// Asks `endpoint` about `master` each `interval`, and whenever it is urgent, until nobody listens to `words`.
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
        let asked = clock.now();
        let replies = question(&mut connection, &endpoint, &commands, &mut pace, clock).await;
        let answer = replies.and_then(|replies| {
            sentinel::decode(&replies).map_err(|why| redis::Failure { why, detail: refusal(why, &master) })
        });
        let failing = answer.as_ref().err().map(|failure| failure.why);
        if let (Err(failure), true) = (&answer, told != failing) {
            tracing::warn!(sentinel = %endpoint.at, %failure, "a Sentinel names no master");
        }
        told = failing;
        let answer = answer.map_err(|failure| failure.why);
        if words.send(Word { sentinel, asked, answer }).await.is_err() {
            return;
        }
        let pause = match connection {
            Some(_) => interval,
            // It may be dialled again then, and is not asked more often than otherwise.
            None => {
                interval.max(clock.instant(pace.next_dial(clock.now(), fastrand::f64())) - tokio::time::Instant::now())
            }
        };
        if !turn.wait(pause).await {
            return;
        }
    }
}

/// What an answer without a master means.
fn refusal(why: Unknown, master: &str) -> String {
    match why {
        Unknown::NoMaster => format!("it does not know a master named {master:?}: correct `sentinel.master`"),
        Unknown::Auth => "it wants a password: set `sentinel.password_file` (and `sentinel.username`)".to_owned(),
        other => other.remedy().to_owned(),
    }
}

/// Asks over the connection, which is made if there is none and given up after any doubt.
async fn question(
    connection: &mut Option<redis::Connection>,
    endpoint: &Endpoint,
    commands: &[Command],
    pace: &mut Pace,
    clock: Clock,
) -> Result<Vec<lockwatch_model::reply::Reply>, redis::Failure> {
    let open = match connection.take() {
        Some(open) => open,
        None => {
            pace.dialled(clock.now());
            redis::connect(endpoint, None).await?.0
        }
    };
    let replies = open.exec(commands).await?;
    pace.succeeded();
    *connection = Some(open);
    Ok(replies)
}

/// Says to hurry whenever the Sentinel tells of a new master. The message itself is not believed.
pub(super) async fn listen(endpoint: Endpoint, urge: Urge) {
    loop {
        match redis::Listener::subscribe(&endpoint, CHANNEL).await {
            Ok(mut listener) => {
                while listener.heard().await.is_ok() {
                    urge.hurry();
                }
                urge.hurry();
            }
            Err(failure) => tracing::debug!(sentinel = %endpoint.at, %failure, "cannot listen to a Sentinel"),
        }
        tokio::time::sleep(LISTEN_AGAIN).await;
    }
}
