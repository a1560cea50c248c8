//! The output for monitoring systems that run `status` as a check (Nagios, Icinga, Zabbix): the
//! first line is what they show and send, and what follows `|` is performance data.

use super::judge::{self, Level};
use super::words::{how_long, why};
use crate::api::{Pattern, Problem, Seconds, Store, Task};
use crate::text::instants::seconds;
use crate::text::terminal::cut;

/// Most lines below the first.
const LINES_MAX: usize = 100;
/// Most columns of a line. Some monitors cut a check's output at 4,096 bytes.
const COLUMNS: usize = 200;

/// The lines for these tasks and stores; each line break ends a line of the output.
pub(super) fn render(
    tasks: &[Task],
    stores: &[Store],
    patterns: &[Pattern],
    oldest: Option<Seconds>,
) -> Vec<String> {
    let mut parts: Vec<(Level, usize, String)> = tasks
        .iter()
        .map(|task| {
            let judgement = judge::judge(task);
            (judgement.level, judgement.rank, of_task(task))
        })
        .collect();
    for store in stores {
        let level = judge::of_problems(&store.problems).unwrap_or(Level::Ok);
        if level > Level::Ok {
            let alerts = alerts(&store.problems);
            parts.push((level, 0, format!("store {}: {alerts}", store.name)));
        }
    }
    for pattern in patterns {
        if let Some(trouble) = &pattern.trouble {
            let said = format!("pattern {}: its keys cannot be found: {trouble}", pattern.name);
            parts.push((judge::of_pattern(pattern), 0, said));
        }
    }
    parts.sort_by_key(|(level, rank, _)| (std::cmp::Reverse(*level), *rank));
    let level = parts.first().map_or(Level::Unknown, |(level, _, _)| *level);
    let count = match tasks.len() {
        1 => "1 task".to_owned(),
        count => format!("{count} tasks"),
    };
    let all = format!("{count}: {}", judge::counts(tasks));
    let summary = match parts.first() {
        _ if tasks.is_empty() => "no tasks".to_owned(),
        Some((worst, _, said)) if *worst > Level::Ok => format!("{all}. {said}"),
        _ => all,
    };
    let first = line(&format!("{}: {summary}", level.name()));
    let more = parts.len().saturating_sub(LINES_MAX);
    let details = parts.iter().take(if more > 0 { LINES_MAX - 1 } else { LINES_MAX });
    let mut lines = vec![format!("{first} | {}", figures(tasks, oldest))];
    lines.extend(details.map(|(level, _, said)| line(&format!("{}: {said}", level.name()))));
    if more > 0 {
        lines.push(format!("... and {} more", more + 1));
    }
    lines
}

/// The only line where nothing is known.
pub(super) fn unknown(why: &str) -> String {
    line(&format!("{}: {why}", Level::Unknown.name()))
}

/// One line without `|`, which would begin performance data.
fn line(text: &str) -> String {
    cut(&text.replace(['\n', '\r'], " ").replace('|', r"\x7c"), COLUMNS).into_owned()
}

fn of_task(task: &Task) -> String {
    let alerts = match alerts(task.problems()) {
        alerts if alerts.is_empty() => String::new(),
        alerts => format!(", {alerts}"),
    };
    format!("{}: {}{alerts}. {}", task.name, task.verdict, why(task))
}

fn alerts(problems: &[Problem]) -> String {
    let alert = |problem: &Problem| format!("{} {}", problem.alert, how_long(problem));
    problems.iter().map(alert).collect::<Vec<_>>().join(", ")
}

/// `label=value;warn;crit;min;max`, each as the guidelines of monitoring plugins have it.
fn figures(tasks: &[Task], oldest: Option<Seconds>) -> String {
    let (total, count) = (tasks.len(), |level| {
        tasks.iter().filter(|task| judge::judge(task).level == level).count()
    });
    let of = |name: &str, level| format!("{name}={};;;0;{total}", count(level));
    let mut figures = vec![
        format!("tasks={total};;;0"),
        of("critical", Level::Critical),
        of("warning", Level::Warning),
        of("unknown", Level::Unknown),
    ];
    figures.extend(oldest.map(|age| format!("oldest_reading={:.1}s;;;0", seconds(age.0))));
    figures.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(json: &str) -> Task {
        serde_json::from_str(json).unwrap()
    }

    const DOWN: &str = r#"{"name":"in|bound","verdict":"down","reason":"Nobody\n has it.",
        "problems":[{"alert":"LockwatchTaskDown","severity":"page","seconds":200.0}]}"#;
    const WELL: &str = r#"{"name":"outbound","verdict":"running","reason":"Held.","problems":[]}"#;

    #[test]
    fn the_first_line_has_the_worst_task_and_the_figures() {
        let lines = render(&[task(WELL), task(DOWN)], &[], &[], Some(Seconds(440)));
        let expected = [
            r"CRITICAL: 2 tasks: 1 down, 1 running. in\x7cbound: down, LockwatchTaskDown for 3m20s. Nobody\x0a has it. | tasks=2;;;0 critical=1;;;0;2 warning=0;;;0;2 unknown=0;;;0;2 oldest_reading=0.4s;;;0",
            r"CRITICAL: in\x7cbound: down, LockwatchTaskDown for 3m20s. Nobody\x0a has it.",
            "OK: outbound: running. Held.",
        ];
        assert_eq!(lines, expected);
        let well = render(&[task(WELL)], &[], &[], None);
        let figures = "tasks=1;;;0 critical=0;;;0;1 warning=0;;;0;1 unknown=0;;;0;1";
        assert_eq!(well[0], format!("OK: 1 task: 1 running | {figures}"));
        assert!(render(&[], &[], &[], None)[0].starts_with("UNKNOWN: no tasks | tasks=0"));
    }

    /// Tasks may be missing, and nothing else says so.
    #[test]
    fn a_pattern_whose_keys_cannot_be_found_is_a_warning() {
        let trouble = Some("SCAN is refused".into());
        let pattern = Pattern { name: "reports".into(), trouble, ..Pattern::default() };
        let lines = render(&[task(WELL)], &[], &[pattern], None);
        assert!(lines[0].starts_with("WARNING: 1 task: 1 running. pattern reports: "), "{lines:?}");
    }

    #[test]
    fn a_store_that_nobody_can_read_is_the_worst() {
        let store: Store = serde_json::from_str(
            r#"{"name":"main","problems":[{"alert":"LockwatchStoreUnreachable","severity":"page","seconds":75}]}"#,
        )
        .unwrap();
        let lines = render(&[task(WELL)], &[store], &[], None);
        let expected =
            "CRITICAL: 1 task: 1 running. store main: LockwatchStoreUnreachable for 1m15s | ";
        assert!(lines[0].starts_with(expected), "{lines:#?}");
    }

    #[test]
    fn there_are_not_too_many_lines_and_none_is_too_long() {
        let long = DOWN.replace("Nobody", &"Nobody ".repeat(1_000));
        let tasks: Vec<Task> = (0..300).map(|_| task(&long)).collect();
        let lines = render(&tasks, &[], &[], None);
        assert_eq!((lines.len(), &*lines[100]), (1 + LINES_MAX, "... and 201 more"));
        assert!(lines.iter().skip(1).all(|line| line.chars().count() <= COLUMNS));
        assert!(lines[0].contains("| tasks=300;;;0 critical=300;"), "{}", lines[0]);
        assert_eq!(unknown("a\nb|c"), r"UNKNOWN: a b\x7cc");
    }
}
