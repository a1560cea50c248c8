//! One task with all details, one per line.

use super::answer::{Holder, OneTask, Past, Problem, Switch, Task, Unknown, Witness};
use super::judge::{judge, switches_lost};
use super::words::{duration, held_for, how_long, instant, lease_left, names, why};
use super::{queue, turn};
use crate::text::terminal::{Style, Terminal, cut, pad, width, wrap};

/// Columns of the names on the left.
const NAMES: usize = 15;
/// Minimum columns beside the names. With less, the names are on lines of their own.
const LEAST: usize = 20;

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
    let beside = terminal.columns.checked_sub(NAMES).filter(|room| *room >= LEAST);
    let Some(room) = beside else {
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
    let at = |at: &Option<super::answer::Text>| at.as_deref().map(instant).unwrap_or_default();
    let queue = task.queue.as_ref().map(|queue| queue::facts(queue, &task.store, holders));
    let turn = task.turn.as_ref().map(|turn| turn::facts(turn, &task.store));
    let guard = queue.into_iter().chain(turn).flatten();
    let first = vec![
        ("Why", why(task)),
        ("Alerts", task.problems().iter().map(alert).collect::<Vec<_>>().join("; ")),
        ("Since", at(&task.verdict_since)),
        ("As of", as_of(answer)),
    ];
    let rest = vec![
        ("Lock", lock(task)),
        ("Holder", task.lock.hold.as_ref().map(|hold| holders(&hold.holders)).unwrap_or_default()),
        ("Held for", held(task)),
        ("Lease left", lease(task)),
        ("Renewals", renewals(task)),
        ("Waiters", task.lock.waiters.map(|waiters| waiters.to_string()).unwrap_or_default()),
        (
            "Fencing token",
            task.lock.fencing_token.map(|token| token.to_string()).unwrap_or_default(),
        ),
        ("Wanted", wanted(task)),
        ("Switches lost", lost(task)),
        ("Progress", progress(task)),
        ("Claims", claims(task)),
        ("Splits", names("", &task.splits)),
        ("Last handover", past(task.last_handover.as_ref())),
        ("Last outage", past(task.last_outage.as_ref())),
        ("Durations", durations(task)),
        ("Witnesses", task.witnesses.iter().map(witness).collect::<Vec<_>>().join("; ")),
        ("Labels", labels(task)),
        ("Note", note(task)),
    ];
    first.into_iter().chain(guard).chain(rest).collect()
}

fn alert(problem: &Problem) -> String {
    format!("{} ({}) {}", problem.alert, problem.severity, how_long(problem))
}

fn as_of(answer: &OneTask) -> String {
    let at = answer
        .at
        .as_deref()
        .map(|at| format!("{} by the agent's clock, ", instant(at)))
        .unwrap_or_default();
    let from = answer.task.node.as_ref().map(|node| format!(" by {node}")).unwrap_or_default();
    match answer.task.evidence_age_seconds {
        Some(age) => format!("{at}read {} before{from}", duration(age)),
        None => format!("{at}never read"),
    }
}

fn lock(task: &Task) -> String {
    let lock = &task.lock;
    if lock.key.is_empty() {
        return String::new();
    }
    let state = match (lock.held, &lock.unknown) {
        (Some(true), _) => "held".to_owned(),
        (Some(false), _) => "free".to_owned(),
        (None, Some(why)) => unknown(why),
        (None, None) => "not known yet".to_owned(),
    };
    format!("{} ({}) in store {}: {state}", lock.key, lock.library, task.store)
}

fn unknown(why: &Unknown) -> String {
    format!("unknown ({why})")
}

fn holders(holders: &[Holder]) -> String {
    holders.iter().map(holder).collect::<Vec<_>>().join("; ")
}

fn holder(holder: &Holder) -> String {
    let host = holder.host.as_ref().map(|host| format!("{host}, ")).unwrap_or_default();
    let digest = if holder.digest { " (digest of its token)" } else { "" };
    let entries = holder.entries.filter(|entries| *entries > 1);
    let entries = entries.map(|entries| format!(", entered {entries} times")).unwrap_or_default();
    format!("{host}{}{digest}{entries}", holder.holder)
}

fn held(task: &Task) -> String {
    let Some(hold) = &task.lock.hold else { return String::new() };
    let since =
        hold.acquired.as_deref().map(|at| format!(", since {} by the server's clock", instant(at)));
    let most =
        task.thresholds.max_hold_seconds.map(|most| format!(", max_hold {}", duration(most)));
    let mode =
        if &*hold.mode == "exclusive" { String::new() } else { format!(", {} lock", hold.mode) };
    format!("{}{mode}{}{}", held_for(hold), since.unwrap_or_default(), most.unwrap_or_default())
}

fn lease(task: &Task) -> String {
    let Some(hold) = &task.lock.hold else { return String::new() };
    let whole =
        task.lock.lease_seconds.map(|lease| format!(" of {}", duration(lease))).unwrap_or_default();
    match hold.persistent {
        Some(true) => "no TTL: this lock never expires by itself".to_owned(),
        _ => format!("{}{whole}", lease_left(hold)),
    }
}

fn renewals(task: &Task) -> String {
    let Some(hold) = &task.lock.hold else { return String::new() };
    let mut parts = Vec::new();
    if hold.renewal_overdue_seconds > 0.0 {
        parts.push(format!("OVERDUE for {}", duration(hold.renewal_overdue_seconds)));
    }
    if let Some(period) = task.lock.renewal_period_seconds {
        parts.push(format!("every {}", duration(period)));
    }
    if let Some(at) = hold.last_renewal.as_deref() {
        parts.push(format!("last at {} by the server's clock", instant(at)));
    }
    if let Some(late) = hold.last_renewal_latency_seconds {
        parts.push(format!("{} late", duration(late)));
    }
    if let Some(margin) = hold.last_renewal_margin_seconds {
        parts.push(format!("{} were left", duration(margin)));
    }
    parts.join(", ")
}

fn wanted(task: &Task) -> String {
    if let Some(why) = &task.switches_unknown {
        return unknown(why);
    }
    if let (true, Some(users)) = (task.counted, task.wanting_users) {
        return format!("{}: {users} {}", task.wanted, if users == 1 { "user" } else { "users" });
    }
    let switch = |switch: &Switch| format!("{} {}", switch.user, switch.state);
    let switches = task.switches.iter().flatten().map(switch).collect::<Vec<_>>().join(", ");
    match (&*task.wanted, switches.is_empty()) {
        ("unset", _) => "no switches are configured".to_owned(),
        (word, true) => word.to_owned(),
        (word, false) => format!("{word}: {switches}"),
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

fn progress(task: &Task) -> String {
    let Some(progress) = &task.progress else { return String::new() };
    let limit = task
        .thresholds
        .stale_after_seconds
        .map(|limit| format!("; stale_after {}", duration(limit)));
    let state = match (&progress.unknown, &progress.moved) {
        (Some(why), _) => unknown(why),
        _ if progress.expired => "is gone: its TTL ran out".to_owned(),
        (None, _) if progress.missing => "is not there".to_owned(),
        (None, Some(at)) => format!("last moved at {} by the server's clock", instant(at)),
        (None, None) => "has not moved since the agent started".to_owned(),
    };
    state + &limit.unwrap_or_default()
}

fn claims(task: &Task) -> String {
    if let Some(why) = &task.claims_unknown {
        return unknown(why);
    }
    match task.thresholds.fresh_for_seconds {
        Some(fresh) if task.live_claims.is_empty() => {
            format!("none moved within {}", duration(fresh))
        }
        _ => names("", &task.live_claims),
    }
}

fn past(past: Option<&Past>) -> String {
    let Some(past) = past else { return String::new() };
    let at = past.at.as_deref().map(|at| format!(", ended {}", instant(at))).unwrap_or_default();
    format!("{}{at}", duration(past.seconds))
}

fn durations(task: &Task) -> String {
    let (durations, thresholds) = (&task.durations, &task.thresholds);
    let known = [
        ("split", durations.split_seconds, None),
        ("down", durations.down_seconds, thresholds.grace_seconds.map(|limit| ("grace", limit))),
        (
            "stalled",
            durations.stalled_seconds,
            thresholds.stale_after_seconds.map(|limit| ("stale_after", limit)),
        ),
        (
            "unwanted",
            durations.unwanted_seconds,
            thresholds.wind_down_seconds.map(|limit| ("wind_down", limit)),
        ),
        (
            "blind",
            durations.blind_seconds,
            thresholds.blind_after_seconds.map(|limit| ("blind_after", limit)),
        ),
    ];
    // A limit is shown even while nothing counts towards it, because it says what would be too
    // long.
    let matters = known.into_iter().filter(|(_, seconds, limit)| *seconds > 0.0 || limit.is_some());
    let text = matters.map(|(name, seconds, limit)| match limit {
        Some((limit_name, limit)) => {
            format!("{name} {} ({limit_name} {})", duration(seconds), duration(limit))
        }
        None => format!("{name} {}", duration(seconds)),
    });
    text.collect::<Vec<_>>().join(", ")
}

fn witness(witness: &Witness) -> String {
    let shows = match &witness.holders {
        Some(holders) if !holders.is_empty() => self::holders(holders),
        _ => "no holder".to_owned(),
    };
    let behind = witness
        .behind_seconds
        .map(|behind| format!(", {} behind", duration(behind)))
        .unwrap_or_default();
    let at = witness.at.as_deref().map(|at| format!(", at {}", instant(at))).unwrap_or_default();
    format!("{} ({}{behind}{at}) shows {shows}", witness.node, witness.role)
}

fn labels(task: &Task) -> String {
    let given = task.labels.iter().filter(|label| !label.value.is_empty());
    given.map(|label| format!("{}={}", label.name, label.value)).collect::<Vec<_>>().join(", ")
}

fn note(task: &Task) -> String {
    let lock_only = "lock only: a stuck worker would look healthy (neither progress nor claims are \
                     configured)";
    let notes = task.notes.iter().map(|note| note.trim_end_matches('.'));
    task.lock_only.then_some(lock_only).into_iter().chain(notes).collect::<Vec<_>>().join("; ")
}
