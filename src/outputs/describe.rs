//! A task in facts for people: what is known of it, in which order, and in which words. The page of
//! a task and `lockwatch status` show the same facts: they only lay them out, and write their
//! instants and durations each in its own way.

mod lock;
mod queue;
pub mod settings;
mod turn;

use std::borrow::Cow;

pub(super) use lock::{mode, runs};

use crate::api::{At, Durations, Holder, Party, Past, Seconds, Switch, Task, Text, Unknown};

/// Maximum number of names in one place.
const NAMED_MAX: usize = 20;
/// A renewal that is late by this many milliseconds is mentioned.
const OVERDUE_MS: u64 = 1_000;

/// Something that is known of a task.
#[derive(Clone, Debug, PartialEq)]
pub struct Fact {
    /// Its name.
    pub name: &'static str,
    /// What is known, in lines of their own; none: the fact does not apply to the task.
    pub lines: Vec<Line>,
}

/// What is known, from its parts.
pub type Line = Vec<Part>;

/// A part of what is known.
#[derive(Clone, Debug, PartialEq)]
pub enum Part {
    /// Words.
    Words(Cow<'static, str>),
    /// A name of lockwatch's own.
    Name(Text),
    /// It cannot be read, and why.
    Unread(Unknown),
    /// How late the next renewal is.
    Overdue(Seconds),
    /// Words that need somebody's attention.
    Alarm(Cow<'static, str>),
    /// A duration that has ended.
    Lasted(Seconds),
    /// The time since a state began, by the agent's clock.
    Since(At),
    /// The time since an event, by the agent's clock.
    Ago(At),
    /// An instant of the server's clock.
    Server(At),
    /// The rest of the lease at the newest reading.
    Lease {
        /// What was left.
        left: Seconds,
        /// The whole lease, if it is known.
        whole: Option<Seconds>,
    },
    /// When the progress was last seen to move, by the server's clock.
    Progress(At),
}

/// A task in a snapshot.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// The task.
    pub task: &'a Task,
    /// When the snapshot was made, by the agent's clock.
    pub at: At,
    /// `always` or `never`, if that is configured in place of switches, as far as it is known.
    pub wanted: Option<&'static str>,
}

/// All facts of a task, in the order in which they are shown. Those that do not apply are absent.
pub fn facts(subject: Subject<'_>) -> Vec<Fact> {
    let task = subject.task;
    let mut facts = match (&task.lock, &task.turn, &task.queue) {
        (_, Some(turn), _) => turn::facts(subject, turn),
        (_, _, Some(queue)) => queue::facts(subject, queue),
        (Some(lock), _, _) => lock::facts(subject, lock),
        (None, None, None) => Vec::new(),
    };
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

/// How long the task has been held, or free though wanted; or the age of the newest reading.
pub fn held(subject: Subject<'_>) -> Option<Line> {
    let task = subject.task;
    if task.evidence_age_seconds.is_none() {
        return Some(words("never read"));
    }
    if !task.is_read() {
        return Some(vec!["last read ".into(), Part::Ago(subject.read_at())]);
    }
    if let Some(hold) = present(task) {
        let least = hold.acquired.0.is_none().then(|| "at least ".into());
        return Some(least.into_iter().chain([subject.for_so_long(hold.held_seconds)]).collect());
    }
    let down = task.durations.down_seconds;
    (down.0 > 0).then(|| vec!["free for ".into(), subject.for_so_long(down)])
}

/// What is left of the lease.
pub fn lease(task: &Task) -> Option<Line> {
    let hold = present(task)?;
    let left = match (hold.ttl_seconds, hold.persistent) {
        (Some(left), _) => {
            let whole = task.lock.as_ref().and_then(|lock| lock.lease_seconds);
            Part::Lease { left, whole }
        }
        (None, Some(true)) => Part::from("none: held for ever"),
        (None, _) => Part::from("not known"),
    };
    let overdue = Some(hold.renewal_overdue_seconds).filter(|late| late.0 >= OVERDUE_MS);
    let overdue = overdue.map(Part::Overdue);
    Some([left].into_iter().chain(overdue).collect())
}

/// Who wants the task; at most `most` of them are named.
pub fn wanted(subject: Subject<'_>, most: usize) -> Line {
    let task = subject.task;
    let mut line = words(match subject.wanted {
        Some(word) => word.into(),
        None => who_wants(task, most),
    });
    if !task.lost_users.is_empty() {
        let lost = names(task.lost_users.iter().map(Text::to_string), most);
        line.push(Part::Alarm(format!("lost: {lost}").into()));
    }
    line
}

fn who_wants(task: &Task, most: usize) -> Cow<'static, str> {
    match (&*task.wanted, &task.switches, task.wanting_users) {
        ("unset", _, _) => "no switches".into(),
        (_, Some(switches), _) if !switches.is_empty() && !task.counted => {
            let on = |switch: &&Switch| &*switch.state == "on";
            let users: Vec<_> = switches.iter().filter(on).map(|it| it.user.to_string()).collect();
            let counts = format!("{} of {}", users.len(), switches.len());
            match names(users.into_iter(), most) {
                users if users.is_empty() => counts.into(),
                users => format!("{counts}: {users}").into(),
            }
        }
        (_, _, Some(1)) => "1 user".into(),
        ("no", _, _) => "nobody".into(),
        (_, _, Some(users)) => format!("{users} users").into(),
        ("yes", _, None) => "yes".into(),
        (_, _, None) => "not known".into(),
    }
}

/// The progress, if one is configured.
pub fn progress(task: &Task) -> Option<Part> {
    let own = task.progress.as_ref()?;
    Some(match (own.moved.0, own.missing, &own.unknown) {
        _ if own.expired => "expired".into(),
        (_, true, Some(why)) => Part::Unread(why.clone()),
        (_, true, None) => "absent".into(),
        (Some(_), false, _) => Part::Progress(own.moved),
        (None, false, _) => "not seen to move yet".into(),
    })
}

/// What else is worth knowing.
fn notes(task: &Task) -> Option<Line> {
    let notes = task.notes.iter().map(|note| &**note).collect::<Vec<_>>().join(" ");
    (!notes.is_empty()).then(|| words(notes))
}

/// How long something took, and when that was.
fn past(past: &Past) -> Line {
    vec!["took ".into(), Part::Lasted(past.seconds), ", ".into(), Part::Ago(past.at)]
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
    present.chain(lost.map(|user| (user, Part::Alarm("was on; lost by Redis".into()))))
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

/// Holders with their hosts; the first `most` of them.
pub fn holders(holders: &[Holder], most: usize) -> String {
    let named = |holder: &Holder| party_name(&holder.holder, holder.host.as_ref(), None);
    names(holders.iter().map(named), most)
}

/// The first `most` names, and the number of further ones.
fn names(names: impl ExactSizeIterator<Item = String>, most: usize) -> String {
    crate::text::identity::list(names.map(Cow::Owned), most)
}

fn party_name(holder: &Text, host: Option<&Text>, node: Option<&Text>) -> String {
    let mut name = if holder.is_empty() { "somebody".to_owned() } else { holder.to_string() };
    for (word, text) in [(" on ", host), (" at ", node)] {
        name.extend(text.map(|text| format!("{word}{text}")));
    }
    name
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
    let all = [
        ("wanted, and no hold lasts for ", down_seconds),
        ("more than one holder for ", split_seconds),
        ("without progress for ", stalled_seconds),
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

/// The hold, if the lock is held according to the newest reading.
fn present(task: &Task) -> Option<&crate::api::Hold> {
    task.lock.as_ref().filter(|lock| lock.held == Some(true))?.hold.as_ref()
}

impl Subject<'_> {
    /// When the newest trustworthy reading was requested, by the agent's clock.
    fn read_at(self) -> At {
        let age = self.task.evidence_age_seconds;
        At(self.at.0.zip(age).map(|(at, Seconds(age_ms))| at.saturating_sub_unsigned(age_ms)))
    }

    /// A duration as of the newest reading, which goes on as long as readings arrive.
    fn for_so_long(self, lasted: Seconds) -> Part {
        match self.read_at().0.filter(|_| self.task.is_read()) {
            Some(at) => Part::Since(At(Some(at.saturating_sub_unsigned(lasted.0)))),
            None => Part::Lasted(lasted),
        }
    }
}

impl From<&'static str> for Part {
    fn from(words: &'static str) -> Part {
        Part::Words(words.into())
    }
}

impl From<String> for Part {
    fn from(words: String) -> Part {
        Part::Words(words.into())
    }
}

fn fact(name: &'static str, lines: impl IntoIterator<Item = Line>) -> Fact {
    Fact { name, lines: lines.into_iter().collect() }
}

fn words(words: impl Into<Cow<'static, str>>) -> Line {
    vec![Part::Words(words.into())]
}

#[cfg(test)]
mod tests {
    use super::*;

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
