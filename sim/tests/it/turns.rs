//! Tasks that take turns: timelines of readings against verdicts, splits, gaps and counts.

use std::sync::Arc;

use lockwatch_judge::event::{Event, EventKind};
use lockwatch_judge::input::{Attestation, Input, Outcome, Sample, Standing};
use lockwatch_judge::problems::{Finding, task_finding};
use lockwatch_judge::reading::{
    Ends, GuardReading, Parts, Switch, SwitchesReading, TaskReading, Turn, TurnReading, Unknown,
};
use lockwatch_judge::snapshot::{TaskView, TurnView};
use lockwatch_judge::spec::{
    Authority, Codec, KindSpec, StoreIndex, StoreSpec, TaskIndex, TaskSpec, TurnSpec, WantedSource,
    WantedSpec, WatchSpec,
};
use lockwatch_judge::state::State;
use lockwatch_judge::time::{Mono, ServerTime};
use lockwatch_judge::verdict::Verdict;

use crate::truth::rule;

mod clocks;

/// The server's clock when the agent's began.
const EPOCH: i64 = 1_764_000_000_000;

/// An agent that watches one hash. Instants are milliseconds since it began.
struct Agent {
    state: State,
    spec: TaskSpec,
    epoch: u32,
    users: Option<bool>,
    /// How long answers take.
    took_ms: u64,
    /// How far the server's clock has stepped.
    stepped_ms: i64,
    events: Vec<EventKind>,
}

impl Agent {
    fn new(change: impl Fn(&mut TurnSpec, &mut TaskSpec)) -> Agent {
        let mut turn = TurnSpec::new(b"turns", &["a", "b", "c"]);
        let mut spec = TaskSpec::of("alternate", StoreIndex(0), KindSpec::Turn(turn.clone()));
        spec.wanted = Some(WantedSpec { source: WantedSource::Always, codec: Codec::Raw });
        change(&mut turn, &mut spec);
        spec.kind = KindSpec::Turn(turn);
        let users = matches!(&spec.wanted, Some(it) if it.source != WantedSource::Always);
        let mut agent = Agent {
            state: State::default(),
            spec: spec.clone(),
            epoch: 0,
            users: users.then_some(true),
            took_ms: 1,
            stepped_ms: 0,
            events: Vec::new(),
        };
        agent.configure(0, spec);
        agent
    }

    /// The configuration is this one now.
    fn configure(&mut self, at: u64, spec: TaskSpec) {
        self.epoch += 1;
        self.spec = spec.clone();
        let stores = vec![StoreSpec::new("main", Authority::ALONE, &["a:6379"])];
        let watch = WatchSpec { stores, tasks: vec![Arc::new(spec)], epoch: self.epoch };
        self.step(at, Input::Config(Arc::new(watch)));
    }

    fn step(&mut self, at: u64, input: Input) {
        let events = self.state.step(Mono::at(at), input);
        self.events.extend(events.into_iter().map(|Event { kind, .. }| kind));
    }

    /// What the hash shows at `at`: names, and from when on they may run. `i64::MIN`: at once.
    fn reads(&mut self, at: u64, fields: &[(&str, i64)]) -> TaskView {
        let turn = |(name, from): &(&str, i64)| Turn {
            name: name.as_bytes().to_vec(),
            from: ServerTime::at(if *from == i64::MIN { 0 } else { EPOCH + from }),
        };
        self.reads_guard(at, TurnReading::Read(fields.iter().map(turn).collect()))
    }

    fn reads_guard(&mut self, at: u64, turn: TurnReading) -> TaskView {
        let switches = self.users.map(|on| SwitchesReading::Read {
            switches: vec![(b"anna".to_vec(), if on { Switch::On } else { Switch::Off })],
            key_exists: true,
            counted: None,
            whole: true,
            ends: Ends::UNKNOWN,
        });
        let parts = Parts { switches, ..Parts::default() };
        let reading = TaskReading { guard: GuardReading::Turn(turn), parts };
        let clock = ServerTime::at(EPOCH + i64::try_from(at).unwrap() + self.stepped_ms);
        let attestation = Attestation::master(clock, clock);
        self.sample(at, Outcome::Read { attestation, readings: vec![(TaskIndex(0), reading)] })
    }

    fn fails(&mut self, at: u64) -> TaskView {
        self.sample(at, Outcome::Failed { tasks: vec![TaskIndex(0)], why: Unknown::Timeout })
    }

    fn sample(&mut self, at: u64, outcome: Outcome) -> TaskView {
        let sample = Sample {
            epoch: self.epoch,
            store: StoreIndex(0),
            node: Some("a:6379".into()),
            standing: Standing::Decides,
            sent: Mono::at(at),
            took_ms: self.took_ms,
            outcome,
        };
        let answered = at + self.took_ms;
        self.step(answered, Input::Sample(sample));
        let snapshot = self.state.snapshot(Mono::at(answered));
        TaskView::clone(snapshot.tasks.first().unwrap())
    }

    fn count(&self, is_it: fn(&EventKind) -> bool) -> usize {
        self.events.iter().filter(|kind| is_it(kind)).count()
    }
}

fn turn(view: &TaskView) -> &TurnView {
    view.turn().unwrap()
}

fn taken(view: &TaskView) -> Vec<u64> {
    turn(view).taken.iter().map(|taken| taken.turns).collect()
}

fn is_split(kind: &EventKind) -> bool {
    matches!(kind, EventKind::SplitBegan { .. })
}

fn is_verdict(kind: &EventKind) -> bool {
    matches!(kind, EventKind::Verdict { .. })
}

/// In either order, in a transaction or not.
#[test]
fn a_passing_is_neither_a_split_nor_a_gap() {
    let mut agent = Agent::new(|_, _| {});
    agent.reads(1_000, &[("a", 900)]);
    let both = agent.reads(1_200, &[("a", 900), ("b", 1_300)]);
    assert_eq!(both.verdict, Verdict::Running);
    agent.reads(1_900, &[("b", 1_300)]);
    let nobody = agent.reads(2_500, &[]);
    assert_eq!((nobody.verdict, nobody.rule.name), (Verdict::Running, "keep_previous"));
    agent.reads(2_600, &[("c", 2_700)]);
    let view = agent.reads(3_600, &[("a", 3_700)]);
    assert_eq!((view.verdict, taken(&view)), (Verdict::Running, vec![1, 1, 1]));
    assert_eq!((agent.count(is_split), agent.count(is_verdict)), (0, 1), "{:?}", agent.events);
    assert_eq!(agent.count(|kind| matches!(kind, EventKind::GapBegan)), 0);
}

#[test]
fn two_fields_are_a_split_when_both_have_stood_for_a_handover() {
    let mut agent = Agent::new(|_, _| {});
    let both = [("a", 900), ("b", 1_300)];
    agent.reads(1_000, &[("a", 900)]);
    agent.reads(1_500, &both);
    assert_eq!(agent.reads(2_499, &both).verdict, Verdict::Running);
    let view = agent.reads(2_500, &both);
    assert_eq!((view.verdict, view.rule.name), (Verdict::Split, "split_evidence"));
    let parties: Vec<_> = view.splits[0].parties.iter().map(|it| &*it.holder.client).collect();
    assert_eq!(parties, [b"a", b"b"]);
    let page = task_finding(lockwatch_judge::problems::Problem::Split, &view, Mono::at(2_501));
    assert!(page.is_positive(), "{page:?}");
    let over = agent.reads(3_500, &[("b", 1_300)]);
    assert_eq!((over.verdict, agent.count(is_split)), (Verdict::Running, 1));
    assert!(over.totals.rare.split_ms >= 1_000, "{}", over.totals.rare.split_ms);
}

/// Three tokens go round, each at its own time: at any time two of them have stood for long.
#[test]
fn a_split_goes_on_while_any_two_fields_stand() {
    let mut agent = Agent::new(|_, _| {});
    agent.reads(1_000, &[("a", 900), ("b", 950), ("c", 980)]);
    agent.reads(1_600, &[("a", 900), ("b", 950), ("c", 1_550)]);
    let view = agent.reads(2_100, &[("a", 900), ("b", 950), ("c", 1_550)]);
    assert_eq!(view.verdict, Verdict::Split, "a and b");
    let view = agent.reads(2_700, &[("a", 2_650), ("b", 950), ("c", 1_550)]);
    assert_eq!(view.verdict, Verdict::Split, "b and c");
    let view = agent.reads(3_300, &[("a", 2_650), ("b", 3_200), ("c", 3_250)]);
    assert_eq!((view.verdict, agent.count(is_split)), (Verdict::Running, 1));
}

/// The turn went round between the readings: other values, or one alone in between.
#[test]
fn two_fields_that_are_not_the_same_two_are_no_split() {
    let mut agent = Agent::new(|_, _| {});
    for round in 0..5 {
        let at = 1_000 + round * 2_000;
        let from = i64::try_from(at).unwrap();
        agent.reads(at, &[("a", from), ("b", from + 100)]);
    }
    for round in 0..5 {
        let at = 21_000 + round * 2_000;
        agent.reads(at, &[("a", 20_000), ("b", 20_100)]);
        agent.reads(at + 1_000, &[("b", 20_100)]);
    }
    assert_eq!(agent.count(is_split), 0, "{:?}", agent.events);
}

#[test]
fn nobody_s_turn_is_confirmed_and_then_down_after_grace() {
    let mut agent = Agent::new(|_, spec| spec.grace_ms = 5_000);
    agent.reads(1_000, &[("a", 900)]);
    agent.reads(2_000, &[]);
    let pending = agent.reads(2_250, &[]);
    assert_eq!((pending.verdict, pending.rule.name), (Verdict::Pending, "no_turn_within_grace"));
    assert_eq!(agent.reads(7_000, &[]).verdict, Verdict::Pending);
    let down = agent.reads(7_100, &[]);
    assert_eq!((down.verdict, down.rule.name), (Verdict::Down, "no_turn_over_grace"));
    assert_eq!(down.durations.down_ms, 5_100);
    let again = agent.reads(8_000, &[("b", 9_000)]);
    assert_eq!((again.verdict, again.durations.down_ms), (Verdict::Running, 0));
    assert_eq!(agent.count(|kind| matches!(kind, EventKind::GapEnded { .. })), 1);
}

#[test]
fn a_turn_is_late_from_its_own_instant_on() {
    let mut agent = Agent::new(|turn, _| turn.max_late_ms = 10_000);
    let field = [("a", 5_000)];
    assert_eq!(turn(&agent.reads(1_000, &field)).late_ms, 0, "it is to come");
    let due = agent.reads(15_000, &field);
    assert_eq!((due.verdict, turn(&due).late_ms), (Verdict::Running, 10_000));
    let late = agent.reads(15_001, &field);
    assert_eq!((late.verdict, late.rule.name), (Verdict::Stalled, "turn_late"));
    assert_eq!(late.durations.stalled_ms, 10_001);
    let taken = agent.reads(16_000, &[("b", 16_500)]);
    assert_eq!((taken.verdict, taken.durations.stalled_ms), (Verdict::Running, 0));
}

/// A value of 0 says nothing about when the turn began.
#[test]
fn at_once_counts_from_when_it_was_first_seen() {
    let mut agent = Agent::new(|turn, _| turn.max_late_ms = 10_000);
    let field = [("a", i64::MIN)];
    assert_eq!(turn(&agent.reads(3_000, &field)).late_ms, 0);
    assert_eq!(turn(&agent.reads(9_000, &field)).late_ms, 6_000);
    assert_eq!(agent.reads(13_001, &field).verdict, Verdict::Stalled);
}

#[test]
fn a_turn_is_not_late_while_nobody_wants_it() {
    let mut agent = Agent::new(|turn, spec| {
        turn.max_late_ms = 10_000;
        let source = WantedSource::Hash(b"users".to_vec());
        spec.wanted = Some(WantedSpec { source, codec: Codec::Raw });
    });
    let field = [("a", 0)];
    agent.users = Some(false);
    agent.reads(1_000, &field);
    let stopped = agent.reads(60_000, &field);
    assert_eq!((stopped.verdict, stopped.rule.name), (Verdict::Stopped, "turn_unwanted"));
    agent.users = Some(true);
    let wanted = agent.reads(61_000, &field);
    assert_eq!((wanted.verdict, turn(&wanted).late_ms), (Verdict::Running, 0));
    assert_eq!(agent.reads(71_001, &field).verdict, Verdict::Stalled);
}

#[test]
fn order_is_judged_only_where_no_turn_can_have_been_missed() {
    let broken = |least_ms: Option<u64>, readings: &[(u64, &str)]| {
        let mut agent = Agent::new(|turn, _| turn.min_turn_ms = least_ms);
        let mut newest = None;
        for (at, name) in readings {
            newest = Some(agent.reads(*at, &[(name, i64::try_from(*at).unwrap())]));
        }
        turn(&newest.unwrap()).out_of_order
    };
    let quick = |names: &'static str| -> Vec<(u64, &'static str)> {
        (0..names.len()).map(|at| (1_000 * (at as u64 + 1), &names[at..=at])).collect()
    };
    assert_eq!(broken(Some(1_000), &quick("abcabc")), Some(0));
    assert_eq!(broken(Some(1_000), &quick("acb")), Some(2), "one is left out, twice");
    assert_eq!(broken(Some(1_000), &quick("aabc")), Some(1), "the same task twice");
    assert_eq!(broken(Some(1_000), &[(1_000, "a"), (2_001, "c")]), Some(0), "b may have had it");
    assert_eq!(broken(None, &quick("acb")), None, "it is not known how long a turn lasts");
}

#[test]
fn an_unknown_name_is_reported_once_for_each_time_that_it_appears() {
    let mut agent = Agent::new(|_, _| {});
    agent.reads(1_000, &[("x", 900)]);
    agent.reads(2_000, &[("x", 900)]);
    agent.reads(3_000, &[("a", 2_900)]);
    let view = agent.reads(4_000, &[("x", 3_900)]);
    assert_eq!((turn(&view).unknown_names, taken(&view)), (2, vec![1, 0, 0]));
    let is_it =
        |kind: &EventKind| matches!(kind, EventKind::TurnUnknownName { name } if name == b"x");
    assert_eq!(agent.count(is_it), 2);
}

/// A value in another unit is no turn of the year 1970 or 57,000.
#[test]
fn an_instant_that_is_years_away_is_unknown() {
    for wrong in [EPOCH / 1_000, EPOCH * 1_000] {
        let mut agent = Agent::new(|_, _| {});
        let turn = Turn { name: b"a".to_vec(), from: ServerTime::at(wrong) };
        let view = agent.reads_guard(1_000, TurnReading::Read(vec![turn]));
        assert_eq!(view.unknown, Some(Unknown::FarInstant));
        let is_it = |kind: &EventKind| {
            matches!(kind, EventKind::TaskUnreadable { why: Unknown::FarInstant })
        };
        assert_eq!(agent.count(is_it), 1);
        assert_eq!(agent.reads(2_000, &[("a", 1_900)]).verdict, Verdict::Running);
        assert_eq!(agent.count(|kind| matches!(kind, EventKind::TaskReadable)), 1);
    }
}

#[test]
fn what_cannot_be_read_changes_nothing_until_it_is_unknown_for_too_long() {
    let _rule = rule("1 evidence");
    let mut agent = Agent::new(|turn, _| turn.max_late_ms = 10_000);
    let field = [("a", 0)];
    agent.reads(1_000, &field);
    let stalled = agent.reads(11_001, &field);
    assert_eq!(stalled.verdict, Verdict::Stalled);
    let failed = agent.fails(12_000);
    assert_eq!((failed.verdict, failed.rule.name), (Verdict::Stalled, "keep_previous"));
    let finding = |view: &TaskView, at| {
        task_finding(lockwatch_judge::problems::Problem::Stalled, view, Mono::at(at))
    };
    assert_eq!(finding(&failed, 12_001), Finding::Unknown, "nothing is resolved");
    agent.fails(72_500);
    agent.step(73_000, Input::Tick);
    let blind = agent.fails(73_001);
    assert_eq!((blind.verdict, blind.rule.name), (Verdict::Unknown, "turn_blind"));
}

#[test]
fn a_reload_keeps_the_counts_of_the_tasks_that_stay() {
    let mut agent = Agent::new(|_, _| {});
    for (at, name) in [(1_000, "a"), (2_000, "b"), (3_000, "c"), (4_000, "a")] {
        agent.reads(at, &[(name, i64::try_from(at).unwrap())]);
    }
    let mut spec = agent.spec.clone();
    spec.kind = KindSpec::Turn(TurnSpec::new(b"turns", &["c", "d", "a"]));
    agent.configure(4_500, spec.clone());
    assert_eq!(taken(&agent.reads(5_000, &[("a", 4_000)])), [1, 0, 1]);
    spec.kind = KindSpec::Turn(TurnSpec::new(b"others", &["c", "d", "a"]));
    agent.configure(5_500, spec);
    assert_eq!(taken(&agent.reads(6_000, &[("a", 4_000)])), [0, 0, 0], "another hash");
}
