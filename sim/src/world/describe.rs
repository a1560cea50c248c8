//! Describes recent true events in lines of text, for the analysis of a failure.

use super::state::World;
use crate::truth::{LockState, Since, Turn};

/// Length of the described period in milliseconds.
const DESCRIBED_MS: u64 = 120_000;

impl World {
    /// Lists faults and changes of the data, and for one task the recent history of its lock.
    pub(crate) fn describe(&self, task: Option<usize>) -> Vec<String> {
        let from = self.now.saturating_sub(DESCRIBED_MS);
        let mut lines: Vec<(u64, String)> = Vec::new();
        let steps = self.plan.steps.iter().filter(|step| (from..=self.now).contains(&step.at));
        lines.extend(steps.map(|step| (step.at, format!("{:?}", step.act))));
        lines.extend(
            self.generations
                .iter()
                .map(|it| (it.at, format!("server {}: {:?}", it.server, it.what))),
        );
        lines.extend(
            self.rulers.iter().map(|(at, server)| (*at, format!("server {server} decides"))),
        );
        let of_task = self.deeds_before.iter().filter(|(_, deed)| Some(deed.task) == task);
        lines.extend(of_task.map(|(at, deed)| {
            (*at, format!("host {} guard {}: {:?}", deed.host, deed.life, deed.what))
        }));
        if let Some(task) = task.and_then(|task| self.tasks.get(task)) {
            for (server, past) in task.past.iter().enumerate() {
                let line = |since: &Since| {
                    (
                        since.at,
                        format!("server {server}: {}, {:?}", shown(&since.state), since.cause),
                    )
                };
                lines.extend(past.between(from, self.now).map(line));
            }
            let released = |at: u64, who: &[u8]| {
                (at, format!("{} gives it back", String::from_utf8_lossy(who)))
            };
            lines.extend(task.releases.iter().map(|release| released(release.at, &release.who)));
            for (who, claim) in &task.claims {
                let who = String::from_utf8_lossy(who);
                lines.push((
                    claim.newest,
                    format!("{who} claims, as it has done since {}", claim.first),
                ));
            }
        }
        lines.retain(|(at, _)| (from..=self.now).contains(at));
        lines.sort();
        lines.into_iter().map(|(at, line)| format!("{at}: {line}")).collect()
    }
}

fn shown(state: &LockState) -> String {
    match state {
        LockState::Free => "free".to_owned(),
        LockState::Other => "something else".to_owned(),
        LockState::Queue => "members".to_owned(),
        LockState::Turn(turns) => {
            let turn =
                |turn: &Turn| format!("{} from {}", String::from_utf8_lossy(&turn.name), turn.due);
            turns.iter().map(turn).collect::<Vec<_>>().join(" and ")
        }
        LockState::Held { holders, deadline } => {
            let who: Vec<_> = holders
                .iter()
                .map(|(who, count)| format!("{} x{count}", String::from_utf8_lossy(who)))
                .collect();
            format!(
                "held by {} until {}",
                who.join(" and "),
                deadline.map_or("ever".to_owned(), |it| it.to_string())
            )
        }
    }
}
