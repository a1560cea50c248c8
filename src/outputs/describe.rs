//! A task in facts for people: what is known of it, in which order, and in which words. The page of
//! a task and `lockwatch status` show the same facts: they only lay them out, and write their
//! instants and durations each in its own way.

mod drill;
mod fact;
mod lock;
mod pattern;
mod periodic;
mod queue;
pub mod settings;
mod shared;
mod turn;

pub use drill::drill;
pub use fact::{Fact, Line, Part, Subject};
pub(super) use lock::{mode, runs};
pub use pattern::pattern;
pub use shared::{held, holders, lease, progress, wanted};

use crate::api::{Durations, Party, Seconds, Switch, Task, Text};
use fact::{fact, words};
use shared::{NAMED_MAX, names, party_name};

/// All facts of a task, in the order in which they are shown. Those that do not apply are absent.
pub fn facts(subject: Subject<'_>) -> Vec<Fact> {
    let task = subject.task;
    let mut facts = match (&task.lock, &task.turn, &task.queue) {
        (_, Some(turn), _) => turn::facts(subject, turn),
        (_, _, Some(queue)) => queue::facts(subject, queue),
        (Some(lock), _, _) => lock::facts(subject, lock),
        (None, None, None) => Vec::new(),
    };
    facts.extend(task.periodic.iter().flat_map(|own| periodic::facts(subject, own)));
    facts.extend([
        fact("More than one holder", task.split_evidence.iter().map(split)),
        fact("Claims alive", claims(task)),
    ]);
    facts.extend(task.lock.iter().flat_map(|lock| lock::more(task, lock)));
    facts.extend([
        fact("Trouble so far", troubles(subject)),
        fact(
            "Pages",
            task.paused.map(|paused| words(if paused { "paused" } else { "not paused" })),
        ),
        fact("Newest reading", [reading(subject)]),
        fact("Rule", [vec![Part::Name(task.rule.clone())]]),
    ]);
    facts.retain(|fact| !fact.lines.is_empty());
    facts
}

/// What a list of tasks shows of turns and queues, in place of a holder.
pub fn brief(task: &Task) -> Option<&'static str> {
    task.turn.as_ref().map(turn::brief).or_else(|| task.queue.as_ref().map(queue::brief))
}

/// Each switch in words, with its user, and the lost ones.
pub fn switches(task: &Task) -> impl Iterator<Item = (&Text, Part)> {
    let state = |switch: &Switch| match (&*switch.state, &switch.fits) {
        ("undecodable", Some(codec)) => {
            Part::from(format!("cannot be read; the codec {codec} would read it"))
        }
        ("undecodable", None) => Part::from("says neither on nor off"),
        (state, _) => Part::from(state.to_owned()),
    };
    let present = task.switches.iter().flatten().map(move |switch| (&switch.user, state(switch)));
    let lost = task.lost_users.iter();
    present.chain(lost.map(|user| (user, Part::Alarm("was on; lost by the store".into()))))
}

/// The limits in force, by the names of their fields in the configuration.
pub fn limits(task: &Task) -> impl Iterator<Item = (&'static str, Seconds)> + use<> {
    let (lock, turn, queue) = (task.lock.as_ref(), task.turn.as_ref(), task.queue.as_ref());
    let late = turn.map(|turn| turn.max_late_seconds);
    let of_kind = [
        ("lease", lock.and_then(|lock| lock.lease_seconds)),
        ("renew_every", lock.and_then(|lock| lock.renewal_period_seconds)),
        ("max_late", late.or(queue.map(|queue| queue.max_late_seconds))),
        ("handover", turn.and_then(|turn| turn.handover_seconds)),
        ("min_turn", turn.and_then(|turn| turn.min_turn_seconds)),
    ];
    of_kind
        .into_iter()
        .chain(task.thresholds.named())
        .filter_map(|(name, limit)| Some((name, limit?)))
}

fn split(split: &crate::api::Split) -> Line {
    let name = |party: &Party| party_name(&party.holder, party.host.as_ref(), party.node.as_ref());
    let parties = names(split.parties.iter().map(name), NAMED_MAX);
    vec![format!("{}: {parties}, for ", split.kind).into(), Part::Since(split.since)]
}

fn claims(task: &Task) -> Option<Line> {
    task.thresholds.fresh_for_seconds?;
    let alive = names(task.live_claims.iter().map(Text::to_string), NAMED_MAX);
    Some(match &task.claims_unknown {
        Some(why) => vec![Part::Unread(why.clone())],
        None if alive.is_empty() => words("none"),
        None => words(alive),
    })
}

/// Durations of states that should not last. They keep counting while readings arrive; otherwise
/// they stop at the newest evidence.
fn troubles(subject: Subject<'_>) -> Vec<Line> {
    let Durations {
        down_seconds,
        split_seconds,
        stalled_seconds,
        unwanted_seconds,
        blind_seconds,
        switches_lost_seconds,
    } = subject.task.durations;
    let stalled = match subject.task.periodic {
        Some(_) => "the run has lasted for ",
        None => "without progress for ",
    };
    let all = [
        ("wanted, and no hold lasts for ", down_seconds),
        ("more than one holder for ", split_seconds),
        (stalled, stalled_seconds),
        ("held though unwanted for ", unwanted_seconds),
        ("not readable for ", blind_seconds),
        ("switches lost for ", switches_lost_seconds),
    ];
    let troubles = all.into_iter().filter(|(_, lasted)| lasted.0 > 0);
    troubles.map(|(what, lasted)| vec![what.into(), subject.for_so_long(lasted)]).collect()
}

/// The age appears only when readings have stopped: otherwise it would be outdated when it is
/// displayed.
fn reading(subject: Subject<'_>) -> Line {
    let task = subject.task;
    let mut line = match (task.evidence_age_seconds, task.is_read()) {
        (Some(_), true) => words("up to date"),
        (Some(_), false) => vec![Part::Ago(subject.read_at())],
        (None, _) => words("none yet"),
    };
    line.extend(task.node.as_ref().map(|node| format!(", from {node}").into()));
    line.extend(task.unknown().map(|why| format!("; now: {}", why.reason).into()));
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::At;

    /// The only key of a counter is no user.
    #[test]
    fn the_number_in_a_counter_is_shown_and_not_how_many_keys_it_has() {
        let switch = |state: &'static str| Switch {
            user: "count".into(),
            state: state.into(),
            ..Switch::default()
        };
        let counted = |word: &'static str, wanting_users, state| {
            let switches = Some(vec![switch(state)]);
            let task = Task { wanted: word.into(), wanting_users, switches, ..Task::default() };
            let shown = |counted| {
                let task = Task { counted, ..task.clone() };
                wanted(Subject { task: &task, at: At(None), wanted: None }, 4)
            };
            [true, false].map(shown)
        };
        assert_eq!(counted("yes", Some(3), "on"), [words("3 users"), words("1 of 1: count")]);
        assert_eq!(counted("yes", Some(1), "on")[0], words("1 user"));
        assert_eq!(counted("no", Some(0), "off"), [words("nobody"), words("0 of 1")]);
        assert_eq!(counted("unknown", None, "undecodable")[0], words("not known"));
    }

    #[test]
    fn a_late_turn_names_who_has_it() {
        let turn = r#"{"turn": {"hash": "turns", "fact": "somebody", "task": "b",
            "overdue_seconds": 45.2, "fields": 2, "out_of_order": 1,
            "taken": [{"task": "a", "turns": 3}, {"task": "b", "turns": 2}]}}"#;
        let task: Task = serde_json::from_str(turn).unwrap();
        let facts = facts(Subject { task: &task, at: At(None), wanted: None });
        let expected = [
            ("Turn of", vec!["b".to_owned().into(), "; the hash has 2 fields".into()]),
            ("May run since", words("at once")),
            ("Overdue for", vec![Part::Lasted(Seconds(45_200))]),
            ("Turns passed on", words("a 3, b 2; 1 out of order")),
        ];
        let shown: Vec<_> =
            facts.into_iter().map(|fact| (fact.name, fact.lines.concat())).collect();
        assert_eq!(shown[..4], expected);
    }
}
