//! The pause of a task's alerts.

use crate::event::EventKind;
use crate::evidence::Seen;
use crate::reading::{PauseReading, Unknown};
use crate::step::Log;
use crate::time::Mono;

/// The time until which alerts shall wait, on the agent's clock.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pause {
    pub(crate) known: bool,
    pub(crate) until: Option<Mono>,
    /// What was wrong with the newest reading: why there was none, or `None`, it is no time.
    wrong: Option<Option<Unknown>>,
}

impl Pause {
    /// Takes in a reading. What is wrong with it is reported once for as long as it lasts.
    pub(crate) fn observe(&mut self, reading: PauseReading, seen: Seen, log: &mut Log) {
        let wrong = match reading {
            PauseReading::Until(until) => {
                let left_ms = u64::try_from(until.since_ms(seen.last)).unwrap_or(0);
                self.known = true;
                self.until = (left_ms > 0).then(|| seen.sent.plus_ms(left_ms));
                None
            }
            PauseReading::None => {
                (self.known, self.until) = (true, None);
                None
            }
            PauseReading::Undecodable => Some(None),
            PauseReading::Unknown(why) => Some(Some(why)),
        };
        let before = core::mem::replace(&mut self.wrong, wrong);
        let Some(why) = wrong else { return };
        self.unread();
        if before != wrong {
            let undecodable = EventKind::PauseUndecodable;
            log.push(why.map_or(undecodable, |why| EventKind::PauseUnreadable { why }));
        }
    }

    /// A pause that was read stays in force until it ends. Without one, the pause is unknown.
    pub(crate) fn unread(&mut self) {
        self.known &= self.until.is_some();
    }

    /// It ends when its time has come. Returns whether there was one.
    pub(crate) fn end(&mut self, now: Mono) -> bool {
        let was_set = self.until.is_some();
        self.until = self.until.filter(|until| now < *until);
        was_set
    }
}
