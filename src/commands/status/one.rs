//! One task with all details, one per line.

use super::judge::{judge, switches_lost};
use super::words::{duration, how_long, instant, names, why};
use crate::api::{At, OneTask, Problem, Seconds, Task, Unknown, Witness};
use crate::outputs::describe::{self, Part, Subject};
use crate::text::terminal::{Style, Terminal, cut, pad, width, wrap};

/// Columns of the names on the left.
const NAMES: usize = 21;
/// Minimum columns of the values. With less, the names are on lines of their own.
const LEAST: usize = 20;
/// Maximum number of holders that are named in one place.
const NAMED_MAX: usize = 20;

/// The lines of the view. `hint` is the command that explains the verdict.
pub(super) fn render(answer: &OneTask, hint: &str, terminal: &Terminal) -> Vec<String> {
    let task = &answer.task;
    let judgement = judge(task);
    let verdict = format!("{} {}", judgement.mark.trim_end(), task.verdict);
    let name_columns = terminal.columns.saturating_sub(width(&verdict) + 2);
    let name = cut(&task.name, name_columns);
    let heading = format!(
        "{}  {}",
        terminal.paint(Style::Heading, &name),
        terminal.paint(judgement.style, &verdict)
    );
    let heading =
        if name_columns < 4 { cut(&verdict, terminal.columns).into_owned() } else { heading };
    let mut lines = vec![heading, String::new()];
    for (name, text) in facts(answer).into_iter().filter(|(_, text)| !text.is_empty()) {
        lines.extend(fact(name, &text, terminal));
    }
    lines.push(String::new());
    lines.extend(wrap(&format!("For the reasoning: {hint}"), terminal.columns));
    if let Some(height) = terminal.lines {
        lines.truncate(height.saturating_sub(1).max(1));
    }
    lines
}

fn fact(name: &str, text: &str, terminal: &Terminal) -> Vec<String> {
    let room = terminal.columns.checked_sub(NAMES).filter(|room| *room >= LEAST);
    let Some(room) = room else {
        return wrap(&format!("{name}: {text}"), terminal.columns);
    };
    let names = std::iter::once(name).chain(std::iter::repeat(""));
    let lines = names.zip(wrap(text, room));
    lines
        .map(|(name, line)| format!("{}{line}", terminal.paint(Style::Dim, &pad(name, NAMES))))
        .collect()
}

/// The details, in order. Empty ones do not apply to this task and are left out.
fn facts(answer: &OneTask) -> Vec<(&'static str, String)> {
    let task = &answer.task;
    let subject = Subject { task, at: answer.at, wanted: None };
    let since = Some(task.verdict_since).filter(|at| at.0.is_some());
    let first = [
        ("Why", why(task)),
        ("Alerts", joined(task.problems().iter().map(alert))),
        ("Since", since.map(instant).unwrap_or_default()),
        ("As of", as_of(answer)),
        ("Key", key(task)),
    ];
    let shared = describe::facts(subject).into_iter().map(|fact| {
        let lines = fact.lines.iter().map(|line| words(line, answer.at));
        (fact.name, joined(lines))
    });
    let witnesses = task.witnesses.iter().flatten();
    let limits = describe::limits(task);
    let last = [
        ("Switches", switches(task)),
        ("Switches lost", lost(task)),
        ("Witnesses", joined(witnesses.map(witness))),
        ("Limits", listed(limits.map(|(name, limit)| format!("{name} {}", duration(limit))))),
        ("Labels", labels(task)),
        ("Note", note(task).to_owned()),
    ];
    first.into_iter().chain(shared).chain(last).collect()
}

/// The parts of a fact, as of this instant.
fn words<'a>(line: impl IntoIterator<Item = &'a Part>, at: At) -> String {
    let passed = |since: &At| {
        let ms = at.0.zip(since.0).and_then(|(at, since)| u64::try_from(at - since).ok());
        duration(Seconds(ms.unwrap_or_default()))
    };
    let word = |(place, part): (usize, &Part)| match part {
        Part::Words(words) => words.to_string(),
        Part::Name(name) => name.to_string(),
        Part::Unread(why) => format!("cannot be read ({why})"),
        Part::Overdue(late) => format!(", renewal overdue for {}", duration(*late)),
        Part::Alarm(words) if place == 0 => words.to_string(),
        Part::Alarm(words) => format!(", {words}"),
        Part::Lasted(length) | Part::Lease { left: length, whole: None } => duration(*length),
        Part::Lease { left, whole: Some(whole) } => {
            format!("{} of {}", duration(*left), duration(*whole))
        }
        Part::Since(since) => passed(since),
        Part::Ago(event) => format!("{} ago", passed(event)),
        Part::Server(at) | Part::Progress(at) => {
            format!("{} by the server's clock", instant(*at))
        }
    };
    line.into_iter().enumerate().map(word).collect()
}

fn joined(parts: impl Iterator<Item = String>) -> String {
    parts.collect::<Vec<_>>().join("; ")
}

fn listed(parts: impl Iterator<Item = String>) -> String {
    parts.collect::<Vec<_>>().join(", ")
}

fn alert(problem: &Problem) -> String {
    format!("{} ({}) {}", problem.alert, problem.severity, how_long(problem))
}

fn as_of(answer: &OneTask) -> String {
    let at = Some(answer.at).filter(|at| at.0.is_some());
    let at = at.map(|at| format!("{} by the agent's clock, ", instant(at))).unwrap_or_default();
    match answer.task.evidence_age_seconds {
        Some(age) => format!("{at}read {} before", duration(age)),
        None => format!("{at}never read"),
    }
}

/// What guards the task, and whether it can be read.
fn key(task: &Task) -> String {
    let (key, held) = match (&task.lock, &task.turn, &task.queue) {
        (Some(lock), _, _) => (format!("lock {} ({})", lock.key, lock.library), lock.held),
        (_, Some(turn), _) => (format!("turns {}", turn.hash), None),
        (_, _, Some(queue)) => {
            let locks = queue.lock.as_ref();
            let locks = locks.map(|lock| format!(", locks {lock} ({})", queue.library));
            (format!("queue {}{}", queue.zset, locks.unwrap_or_default()), None)
        }
        (None, None, None) => return String::new(),
    };
    let state = match (task.unknown(), held) {
        (Some(why), _) => unknown(why),
        (None, Some(true)) => "held".to_owned(),
        (None, Some(false)) => "free".to_owned(),
        (None, None) if task.is_read() => "read".to_owned(),
        (None, None) => "not known yet".to_owned(),
    };
    format!("{key} in store {}: {state}", task.store)
}

fn unknown(why: &Unknown) -> String {
    format!("unknown ({why})")
}

fn switches(task: &Task) -> String {
    match &task.switches_unknown {
        Some(why) => unknown(why),
        None if task.counted => String::new(),
        None => listed(
            describe::switches(task)
                .map(|(user, state)| format!("{user} {}", words([&state], At(None)))),
        ),
    }
}

fn lost(task: &Task) -> String {
    if !switches_lost(task) {
        return String::new();
    }
    format!(
        "for {}{}",
        duration(task.durations.switches_lost_seconds),
        names(": ", &task.lost_users)
    )
}

fn witness(witness: &Witness) -> String {
    let shows = match witness.holders.as_deref() {
        None | Some([]) => "no holder".to_owned(),
        Some(holders) => describe::holders(holders, NAMED_MAX),
    };
    let behind = witness.behind_seconds.map(|behind| format!(", {} behind", duration(behind)));
    let at = instant(witness.at);
    format!(
        "{} ({}{}, at {at}) shows {shows}",
        witness.node,
        witness.role,
        behind.unwrap_or_default()
    )
}

fn labels(task: &Task) -> String {
    let given = task.labels.iter().filter(|label| !label.value.is_empty());
    listed(given.map(|label| format!("{}={}", label.name, label.value)))
}

fn note(task: &Task) -> &'static str {
    match task.lock_only {
        true => {
            "lock only: a stuck worker would look healthy (neither progress nor claims are \
             configured)"
        }
        false => "",
    }
}
