//! What a snapshot shows of a lock, and the durations of any task, must be what was read.

use lockwatch_judge::snapshot::TaskView;
use lockwatch_judge::time::Mono;
use lockwatch_watch::redis::RedisKind;

use super::found::{Answer, Newest};
use super::reference::Found;
use super::state::{NOISE_MS, Oracle};
use crate::truth::LockState;
use crate::world::World;

impl Oracle {
    /// The shown lock must be what the newest answer found, holder and deadline together, or
    /// nothing.
    pub(super) fn check_reading(&mut self, task: usize, view: &TaskView, world: &World) {
        let facts = &self.tasks[task];
        let shown = match (view.held, &view.lock().unwrap().hold) {
            (None, _) => None,
            (Some(false), _) => Some(Found::Free),
            (Some(true), Some(hold)) => {
                let holders = hold
                    .holders
                    .iter()
                    .map(|(holder, _)| (holder.client.clone(), holder.entries.unwrap_or(1)));
                Some(Found::Held {
                    holders: holders.collect(),
                    deadline: hold.deadline.map(|deadline| deadline.ms()),
                })
            }
            (Some(true), None) => Some(Found::Nothing),
        };
        let is_answered = facts.newest == Newest::Answered;
        let fits = match (&shown, &facts.last) {
            _ if facts.newest == Newest::Open => true,
            (None, _) if !is_answered => true,
            // A free lock next to another master's held one.
            (None, Some(last)) => {
                self.kind == RedisKind::Replicated && last.states.contains(&LockState::Free)
            }
            (Some(shown), Some(last)) if is_answered => {
                last.states.iter().any(|state| self.shows(shown, &Found::of(state), last))
            }
            _ => false,
        };
        if !fits {
            let what = format!(
                "{}: shows {}, but the newest attempt {:?} found {}",
                view.spec.name,
                words(shown.as_ref()),
                facts.newest,
                facts.last.as_ref().map_or(String::new(), |last| format!(
                    "{:?} on server {}",
                    last.states
                        .iter()
                        .map(|state| words(Some(&Found::of(state))))
                        .collect::<Vec<_>>(),
                    last.server
                )),
            );
            self.blame(world, "reading", what);
        }
    }

    fn shows(&self, shown: &Found, found: &Found, last: &Answer) -> bool {
        match (shown, found) {
            (Found::Free, Found::Free) => true,
            (Found::Held { holders, deadline }, Found::Held { holders: real, deadline: truly }) => {
                // A server that reports only the remaining time reads its clock one command
                // earlier. The deadline is too early by that, up to twice the noise.
                let tolerance = if self.exact {
                    NOISE_MS
                } else {
                    2 * NOISE_MS + i64::try_from(last.to - last.from).unwrap_or(0)
                };
                let same = match (deadline, truly) {
                    (Some(shown), Some(real)) => (shown - real).abs() <= tolerance,
                    (None, None) => true,
                    // It moved during the read, or has none. On a server that reports only the
                    // remaining time, also when other clients were served between reading the clock
                    // and that time.
                    (None, Some(_)) => {
                        last.states.len() > 1 || (!self.exact && last.from != last.to)
                    }
                    (Some(_), None) => false,
                };
                holders.len() == real.len()
                    && real.iter().all(|holder| holders.contains(holder))
                    && same
            }
            _ => false,
        }
    }

    /// Durations must match the readings to the millisecond; the rules define which instants count.
    pub(super) fn check_durations(
        &mut self,
        task: usize,
        view: &TaskView,
        at: Mono,
        world: &World,
    ) {
        let facts = &self.tasks[task];
        let (shown, name) = (&view.durations, &view.spec.name);
        let mut wrong = Vec::new();
        let mut same = |check: &'static str, shown: u64, real: u64| {
            if shown != real {
                wrong.push((
                    check,
                    format!("{name}: {check} is shown as {shown} ms, the readings prove {real} ms"),
                ));
            }
        };
        if !facts.reference.unsure && !facts.lost.unsure {
            same("down", shown.down_ms, facts.reference.gap_ms());
            let is_lock = view.lock().is_some();
            if !facts.reference.unwanted_unsure && is_lock {
                same("unwanted", shown.unwanted_ms, facts.reference.unwanted_ms());
            }
            if !facts.reference.progress.unsure && is_lock {
                same("stalled", shown.stalled_ms, facts.reference.stalled_ms());
            }
        }
        if !facts.lost.unsure {
            same("switches_lost", shown.switches_lost_ms, facts.lost.ms());
        }
        let blind_ms = facts.blind.map_or(0, |_| at.since_ms(facts.good));
        // Between two ticks it is what the newest attempt or tick showed. An attempt counts from
        // the instant at which it was sent.
        let least_ms = facts.blind.map_or(0, |_| self.ticked.min(facts.tried).since_ms(facts.good));
        if !facts.hazy
            && self.kind != RedisKind::Replicated
            && !(least_ms..=blind_ms).contains(&shown.blind_ms)
        {
            wrong.push((
                "blind",
                format!(
                    "{name}: blind is shown as {} ms, the last answer is {blind_ms} ms old",
                    shown.blind_ms
                ),
            ));
        }
        for (check, what) in wrong {
            self.blame(world, check, what);
        }
    }
}

/// A state of a lock as text.
fn words(found: Option<&Found>) -> String {
    match found {
        None => "unknown".to_owned(),
        Some(Found::Free) => "free".to_owned(),
        Some(Found::Nothing) => "nothing".to_owned(),
        Some(Found::Held { holders, deadline }) => {
            let who: Vec<String> = holders
                .iter()
                .map(|(who, count)| format!("{}x{count}", String::from_utf8_lossy(who)))
                .collect();
            format!("held by {} until {deadline:?}", who.join(" and "))
        }
    }
}
