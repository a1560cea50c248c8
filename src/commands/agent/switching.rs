//! Flips the switches of users on the page. With the command `want` this is the only use of the
//! login that may write them, and it is used only while a switch is being flipped.

use std::sync::Arc;

use lockwatch_judge::event::{Event, EventKind, Subject};
use tokio::sync::{Semaphore, mpsc, watch};

use crate::clock::Clock;
use crate::config::Config;
use crate::outputs::events::EventLog;
use crate::outputs::history::History;
use crate::published::{NotSwitched, SwitchRequest};
use crate::want::{Asked, Trouble, Wish, want};

/// How many switches are flipped at a time.
const AT_ONCE: usize = 4;

/// What is needed to flip a switch.
#[derive(Clone, Debug)]
pub(super) struct Switching {
    pub(super) config: watch::Receiver<Arc<Config>>,
    pub(super) clock: Clock,
    pub(super) history: History,
}

impl Switching {
    /// Flips switches until nobody can ask for it any more.
    pub(super) async fn serve(self, mut requests: mpsc::Receiver<SwitchRequest>) {
        let turns = Arc::new(Semaphore::new(AT_ONCE));
        while let Some(request) = requests.recv().await {
            let Ok(turn) = Arc::clone(&turns).acquire_owned().await else { return };
            let switching = self.clone();
            tokio::spawn(async move {
                let SwitchRequest { task, user, on, answer } = request;
                let _nobody_waits = answer.send(switching.flip(&task, &user, on).await);
                drop(turn);
            });
        }
    }

    async fn flip(&self, task: &str, user: &str, on: bool) -> Result<String, NotSwitched> {
        let config = Arc::clone(&self.config.borrow());
        let wish = Some(if on { Wish::On } else { Wish::Off });
        let asked = Asked { task, user: Some(user.as_bytes()), wish };
        match want(&config, asked).await {
            Ok(outcome) => {
                if outcome.is_changed() {
                    self.report(&config, task, user, on);
                }
                Ok(outcome.json())
            }
            Err(trouble) => {
                tracing::warn!(task, user, %trouble, "a switch was not flipped on the page");
                Err(match trouble {
                    Trouble::Unreachable(_) => NotSwitched::Unreachable(trouble.to_string()),
                    Trouble::Usage(_) | Trouble::Refused(_) => {
                        NotSwitched::Refused(trouble.to_string())
                    }
                })
            }
        }
    }

    /// The log and the history say who it was.
    fn report(&self, config: &Config, task: &str, user: &str, on: bool) {
        let Some(spec) = config.tasks.iter().find(|spec| &*spec.name == task) else { return };
        let now = self.clock.now();
        let event = Event {
            at: now,
            server_time: None,
            subject: Subject::Task(Arc::clone(spec)),
            node: None,
            kind: EventKind::Switched { user: user.as_bytes().to_vec(), on },
        };
        EventLog::default().write(now, &event);
        self.history.keep(now, self.clock.wall(), &event);
    }
}
