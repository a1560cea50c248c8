//! The severity of one task and of all, and the exit code.

use super::answer::Task;
use crate::text::terminal::Style;

/// The severity. Of several tasks the greatest counts: a certain problem ranks above an unknown
/// state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Level {
    Ok,
    Warning,
    Unknown,
    Critical,
}

impl Level {
    /// The exit code, as defined for monitoring plugins.
    pub(super) fn code(self) -> u8 {
        match self {
            Level::Ok => 0,
            Level::Warning => 1,
            Level::Critical => 2,
            Level::Unknown => 3,
        }
    }
}

/// How a verdict is shown: its name, its severity, its mark (so that colours are not needed), and
/// its style.
struct Known {
    name: &'static str,
    level: Level,
    mark: &'static str,
    style: Style,
}

/// Worst first.
const VERDICTS: [Known; 8] = [
    Known { name: "split", level: Level::Critical, mark: "!!", style: Style::Critical },
    Known { name: "down", level: Level::Critical, mark: "!!", style: Style::Critical },
    Known { name: "stalled", level: Level::Critical, mark: "!!", style: Style::Critical },
    Known { name: "unwanted", level: Level::Warning, mark: "! ", style: Style::Warning },
    Known { name: "unknown", level: Level::Unknown, mark: "? ", style: Style::Unknown },
    Known { name: "pending", level: Level::Ok, mark: "..", style: Style::Pending },
    Known { name: "running", level: Level::Ok, mark: "ok", style: Style::Good },
    Known { name: "stopped", level: Level::Ok, mark: "--", style: Style::Dim },
];
/// The rank of a task with lost switches, whatever its verdict.
const LOST: usize = 2;
/// The rank of a verdict that only another version of the agent has.
const OTHER: usize = 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Judgement {
    /// Its rank, worst first.
    pub(super) rank: usize,
    pub(super) level: Level,
    pub(super) mark: &'static str,
    pub(super) style: Style,
}

pub(super) fn judge(task: &Task) -> Judgement {
    let place = VERDICTS.iter().position(|known| known.name == &*task.verdict).unwrap_or(OTHER);
    let rank = if switches_lost(task) { place.min(LOST) } else { place };
    // Every rank is within bounds.
    let Some(known) = VERDICTS.get(rank) else {
        return Judgement { rank, level: Level::Unknown, mark: "? ", style: Style::Unknown };
    };
    Judgement { rank, level: known.level, mark: known.mark, style: known.style }
}

/// Whether switches that were on were lost with the data of Redis.
pub(super) fn switches_lost(task: &Task) -> bool {
    !task.lost_users.is_empty() || task.durations.switches_lost_seconds > 0.0
}

/// The worst of all. Without tasks, unknown.
pub(super) fn worst<'a>(tasks: impl IntoIterator<Item = &'a Task>) -> Level {
    tasks.into_iter().map(|task| judge(task).level).max().unwrap_or(Level::Unknown)
}

/// How many there are of each verdict, worst first: `1 down, 2 running`.
pub(super) fn counts(tasks: &[Task]) -> String {
    let count = |fits: &dyn Fn(&Task) -> bool| tasks.iter().filter(|task| fits(task)).count();
    let known =
        VERDICTS.iter().map(|known| (known.name, count(&|task| &*task.verdict == known.name)));
    let is_known = |task: &Task| VERDICTS.iter().any(|known| known.name == &*task.verdict);
    let more = [
        ("with another verdict", count(&|task| !is_known(task))),
        ("with lost switches", count(&switches_lost)),
        ("paused", count(&|task| task.paused == Some(true))),
    ];
    let there = known.chain(more).filter(|(_, count)| *count > 0);
    there.map(|(name, count)| format!("{count} {name}")).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(json: &str) -> Task {
        serde_json::from_str(json).unwrap()
    }

    fn verdict(name: &str) -> Task {
        task(&format!("{{\"verdict\":\"{name}\"}}"))
    }

    #[test]
    fn each_verdict_has_its_code() {
        let codes = [
            ("split", 2),
            ("down", 2),
            ("stalled", 2),
            ("unwanted", 1),
            ("unknown", 3),
            ("pending", 0),
            ("running", 0),
            ("stopped", 0),
            ("", 3),
            ("frozen", 3),
        ];
        for (name, code) in codes {
            assert_eq!(judge(&verdict(name)).level.code(), code, "{name}");
        }
        let names =
            lockwatch_judge::verdict::Verdict::ALL.map(lockwatch_judge::verdict::Verdict::name);
        assert_eq!(VERDICTS.map(|known| known.name), names, "all of them, worst first");
    }

    #[test]
    fn lost_switches_are_critical_whatever_the_verdict() {
        for lost in [r#""lost_users":["anna"]"#, r#""durations":{"switches_lost_seconds":0.2}"#] {
            assert_eq!(
                judge(&task(&format!("{{\"verdict\":\"running\",{lost}}}"))).level,
                Level::Critical
            );
        }
        assert_eq!(judge(&task(r#"{"verdict":"split","lost_users":["anna"]}"#)).rank, 0);
    }

    #[test]
    fn critical_wins_over_unknown_over_warning() {
        let level = |names: &[&str]| {
            worst(&names.iter().map(|name| verdict(name)).collect::<Vec<_>>()).code()
        };
        assert_eq!(level(&["running", "unknown", "down", "unwanted"]), 2);
        assert_eq!(level(&["running", "unknown", "unwanted"]), 3);
        assert_eq!(level(&["running", "unwanted"]), 1);
        assert_eq!(level(&["running", "pending", "stopped"]), 0);
        assert_eq!(level(&[]), 3, "of no task nothing is known");
    }

    #[test]
    fn counts_name_what_is_there() {
        let tasks = [
            verdict("running"),
            verdict("down"),
            verdict("running"),
            verdict("frozen"),
            task(r#"{"verdict":"stopped","paused":true,"lost_users":["a"]}"#),
        ];
        let expected =
            "1 down, 2 running, 1 stopped, 1 with another verdict, 1 with lost switches, 1 paused";
        assert_eq!(counts(&tasks), expected);
    }
}
