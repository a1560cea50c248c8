//! The severity of one task and of all, and the exit code.

use lockwatch_judge::verdict::Verdict;

use crate::api::{Pattern, Problem, Store, Task};
use crate::exit::Exit;
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
    /// How the command ends.
    pub(super) fn exit(self) -> Exit {
        match self {
            Level::Ok => Exit::Success,
            Level::Warning => Exit::Warning,
            Level::Critical => Exit::Critical,
            Level::Unknown => Exit::Unknown,
        }
    }

    /// The word that monitoring plugins begin with.
    pub(super) fn name(self) -> &'static str {
        match self {
            Level::Ok => "OK",
            Level::Warning => "WARNING",
            Level::Critical => "CRITICAL",
            Level::Unknown => "UNKNOWN",
        }
    }
}

/// How a verdict is shown where nothing is wrong: its mark (so that colours are not needed), and its
/// style. While a problem is withheld or not due yet, a bad verdict waits for it.
fn shown(verdict: Verdict) -> (&'static str, Style) {
    match verdict {
        Verdict::Split
        | Verdict::Down
        | Verdict::Stalled
        | Verdict::Unwanted
        | Verdict::Pending => ("..", Style::Pending),
        Verdict::Unknown => ("? ", Style::Unknown),
        Verdict::Running => ("ok", Style::Good),
        Verdict::Stopped => ("--", Style::Dim),
    }
}

/// The verdict; `None`: one of another version.
fn verdict(task: &Task) -> Option<Verdict> {
    Verdict::ALL.into_iter().find(|verdict| verdict.name() == &*task.verdict)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Judgement {
    /// Its rank, worst first.
    pub(super) rank: usize,
    pub(super) level: Level,
    pub(super) mark: &'static str,
    pub(super) style: Style,
}

/// What the problems of a task say, whatever its verdict is called: they are what alerts are about.
pub(super) fn judge(task: &Task) -> Judgement {
    let verdict = verdict(task);
    let is_unknown = verdict.is_none_or(|verdict| verdict == Verdict::Unknown);
    let of_problems = task.problems.as_deref().and_then(of_problems);
    let level = match (of_problems, &task.problems) {
        (Some(Level::Critical), _) => Level::Critical,
        // Another version of the agent does not say which problems there are.
        (_, None) => Level::Unknown,
        _ if is_unknown => Level::Unknown,
        (level, _) => level.unwrap_or(Level::Ok),
    };
    // Within a level by the verdict.
    let within = verdict.map_or(Verdict::ALL.len(), |verdict| verdict as usize);
    let (group, (mark, style)) = match (level, verdict) {
        (Level::Critical, _) => (0, ("!!", Style::Critical)),
        (Level::Warning, _) => (1, ("! ", Style::Warning)),
        (Level::Unknown, _) | (_, None) => (2, ("? ", Style::Unknown)),
        (Level::Ok, Some(verdict)) => (3, shown(verdict)),
    };
    Judgement { rank: group * (Verdict::ALL.len() + 1) + within, level, mark, style }
}

/// The worst of these problems; `None`: there are none.
pub(super) fn of_problems(problems: &[Problem]) -> Option<Level> {
    let level = |problem: &Problem| match &*problem.severity {
        "warning" => Level::Warning,
        _ => Level::Critical,
    };
    problems.iter().map(level).max()
}

/// What patterns say whose keys cannot be found: tasks may be missing.
pub(super) fn of_pattern(pattern: &Pattern) -> Level {
    if pattern.trouble.is_some() { Level::Warning } else { Level::Ok }
}

/// Whether switches that were on were lost with the data of Redis.
pub(super) fn switches_lost(task: &Task) -> bool {
    !task.lost_users.is_empty() || task.durations.switches_lost_seconds.0 > 0
}

/// The worst of all. Without tasks, unknown.
pub(super) fn worst<'a>(tasks: impl IntoIterator<Item = &'a Task>, stores: &[Store]) -> Level {
    let of_stores = stores.iter().filter_map(|store| of_problems(&store.problems)).max();
    let of_tasks = tasks.into_iter().map(|task| judge(task).level).max();
    of_tasks.unwrap_or(Level::Unknown).max(of_stores.unwrap_or(Level::Ok))
}

/// How many there are of each verdict, worst first: `1 down, 2 running`.
pub(super) fn counts(tasks: &[Task]) -> String {
    let count = |fits: &dyn Fn(&Task) -> bool| tasks.iter().filter(|task| fits(task)).count();
    let known = Verdict::ALL.map(Verdict::name).into_iter();
    let known = known.map(|name| (name, count(&|task| &*task.verdict == name)));
    let more = [
        ("with another verdict", count(&|task| verdict(task).is_none())),
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

    fn calm(name: &str) -> Task {
        task(&format!("{{\"verdict\":\"{name}\",\"problems\":[]}}"))
    }

    fn with(name: &str, severities: &[&str]) -> Task {
        let problems: Vec<_> =
            severities.iter().map(|it| format!("{{\"severity\":\"{it}\"}}")).collect();
        task(&format!("{{\"verdict\":\"{name}\",\"problems\":[{}]}}", problems.join(",")))
    }

    #[test]
    fn problems_decide_whatever_the_verdict_is_called() {
        let codes = [
            ("running", &["page"][..], 2),
            ("running", &["warning"], 1),
            ("running", &["warning", "page"], 2),
            ("unknown", &["page"], 2),
            ("unknown", &["warning"], 3),
            ("down", &[], 0),
            ("unknown", &[], 3),
            ("pending", &[], 0),
            ("running", &[], 0),
            ("stopped", &[], 0),
            ("", &[], 3),
            ("frozen", &[], 3),
            ("running", &["urgent"], 2),
        ];
        for (name, severities, code) in codes {
            assert_eq!(
                judge(&with(name, severities)).level.exit().code(),
                code,
                "{name} {severities:?}"
            );
        }
        let silent = task(r#"{"verdict":"running"}"#);
        assert_eq!(judge(&silent).level, Level::Unknown, "it does not say what is wrong");
    }

    #[test]
    fn the_worst_comes_first_and_wins() {
        let tasks = [
            with("down", &["page"]),
            with("unwanted", &["warning"]),
            calm("unknown"),
            calm("running"),
        ];
        let ranks = tasks.each_ref().map(|task| judge(task).rank);
        assert!(ranks.is_sorted(), "{ranks:?}");
        assert_eq!(worst(&tasks, &[]).exit().code(), 2);
        assert_eq!(worst(&tasks[1..], &[]).exit().code(), 3);
        assert_eq!(worst([&tasks[1], &tasks[3]], &[]).exit().code(), 1);
        assert_eq!(worst(&tasks[3..], &[]).exit().code(), 0);
        assert_eq!(worst(&[], &[]).exit().code(), 3, "of no task nothing is known");
        let store: Store = serde_json::from_str(r#"{"problems":[{"severity":"page"}]}"#).unwrap();
        assert_eq!(worst(&tasks[3..], &[store]).exit().code(), 2);
    }

    #[test]
    fn counts_name_what_is_there() {
        let tasks = [
            calm("running"),
            calm("down"),
            calm("running"),
            calm("frozen"),
            task(r#"{"verdict":"stopped","paused":true,"lost_users":["a"]}"#),
        ];
        let expected =
            "1 down, 2 running, 1 stopped, 1 with another verdict, 1 with lost switches, 1 paused";
        assert_eq!(counts(&tasks), expected);
    }
}
