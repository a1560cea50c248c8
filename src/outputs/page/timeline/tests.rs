use lockwatch_judge::seldom::Seldom;
use lockwatch_judge::snapshot::Durations;
use lockwatch_judge::spec::StoreIndex;

use super::super::fixture::{free, held as held_view, holder, rule};
use super::*;

/// An event of the task at a second, reported by server `a:1`.
fn event(second: u64, kind: EventKind) -> Event {
    Event {
        subject: Subject::Task(free(0).spec),
        node: Some("a:1".into()),
        ..of_redis(second, "", kind)
    }
}

/// An event of its Redis store.
fn of_redis(second: u64, node: &str, kind: EventKind) -> Event {
    let subject = Subject::Store(StoreIndex(0), "main".into());
    Event { at: Mono::at(second * 1000), server_time: None, subject, node: Some(node.into()), kind }
}

fn born(second: u64) -> Event {
    event(second, EventKind::Verdict { from: None, to: Verdict::Stopped, rule: rule("free_unset") })
}

fn acquired(second: u64, who: &str) -> Event {
    event(second, EventKind::Acquired { holders: vec![holder(who)] })
}

fn ended(second: u64, who: &str, reason: End, held_s: Option<u64>) -> Event {
    let held_ms = held_s.map(|seconds| seconds * 1000);
    event(second, EventKind::HoldEnded { holders: vec![holder(who)], reason, held_ms })
}

/// What `view` and `events` give at second 600 for the last 600 s, in seconds.
fn told(view: &TaskView, events: &[Event]) -> Vec<String> {
    let timeline = timeline(view, events.iter(), Mono::at(600_000), 600_000);
    assert_eq!(timeline.window, Span { from: 0, to: 600_000 });
    let name = |what: &What| match what {
        What::Hold { holders, start_seen, end } => {
            let who: Vec<_> =
                holders.iter().map(|holder| String::from_utf8_lossy(&holder.client)).collect();
            let start = if *start_seen { "" } else { " at least" };
            format!(
                "{}{start}{}",
                who.join("+"),
                end.map(|end| format!(" {}", end.name())).unwrap_or_default()
            )
        }
        What::Gap => "gap".to_owned(),
        What::Split(kind) => format!("split {}", kind.name()),
        What::Unreadable(why) => format!("unreadable {}", why.map_or("", Unknown::name)),
        What::NotKnown => "not known".to_owned(),
    };
    let seconds = |stretch: &Stretch| (stretch.span.from / 1000, stretch.span.to / 1000);
    let text = |stretch: &Stretch| {
        let (from, to) = seconds(stretch);
        format!("{from}-{to}{} {}", if stretch.open { "+" } else { "" }, name(&stretch.what))
    };
    let marks = timeline.marks.iter().map(|(at, mark)| format!("{} {mark:?}", at / 1000));
    timeline.stretches.iter().map(text).chain(marks).collect()
}

#[test]
fn what_was_before_the_first_evidence_is_not_known() {
    assert_eq!(told(&free(599_500), &[born(550)]), ["0-550 not known"]);
    let never_read =
        TaskView { rule: &Rule::NOTHING_YET, held: None, last_reading: None, ..free(0) };
    assert_eq!(told(&never_read, &[]), ["600-600+ unreadable ", "0-600 not known"]);
    // Its events were dropped, but the hold contains its beginning.
    assert_eq!(
        told(&held_view("a", 200_000, 600_000, 1), &[]),
        ["200-600+ a at least", "0-200 not known"]
    );
    assert_eq!(
        told(&held_view("a", 200_000, 600_000, 1), &[born(210)]),
        ["200-600+ a at least", "0-200 not known"]
    );
}

#[test]
fn holds_gaps_and_handovers() {
    let events = [
        born(0),
        ended(100, "a", End::Expired, None),
        event(101, EventKind::GapBegan),
        acquired(130, "b"),
        event(135, EventKind::GapEnded { gap_ms: 30_000 }),
        event(135, EventKind::Outage { outage_ms: 45_000 }),
        ended(300, "b", End::Replaced, Some(170)),
        acquired(300, "a"),
    ];
    let mut view = held_view("a", 300_000, 600_000, 1);
    view.lock_mut().unwrap().renewals = [Mono::at(590_000)].into_iter().collect();
    view.lock_mut().unwrap().hold.as_mut().unwrap().acquired =
        Some(lockwatch_judge::time::ServerTime::at(1));
    let expected = [
        "0-100 a at least expired",
        "130-300 b replaced",
        "300-600+ a",
        "101-130 gap",
        "0-0 not known",
        "135 Handover(30000)",
        "135 Outage(45000)",
        "590 Renewal",
    ];
    assert_eq!(told(&view, &events), expected);
}

#[test]
fn a_gap_goes_on_around_a_phantom_hold_and_ends_when_nobody_wants_the_task() {
    let gap = [
        born(0),
        event(100, EventKind::GapBegan),
        acquired(150, "a"),
        ended(152, "a", End::EndedEarly, Some(2)),
    ];
    let down = TaskView {
        durations: Seldom::new(Durations { down_ms: 400_000, ..Durations::default() }),
        ..free(600_000)
    };
    let expected = ["150-152 a ended_early", "100-150 gap", "152-600+ gap", "0-0 not known"];
    assert_eq!(told(&down, &gap), expected);
    let stopped = EventKind::Verdict {
        from: Some(Verdict::Down),
        to: Verdict::Stopped,
        rule: rule("free_unwanted"),
    };
    let mut events = gap.to_vec();
    events.push(event(200, stopped));
    let expected = ["150-152 a ended_early", "100-150 gap", "152-200 gap", "0-0 not known"];
    assert_eq!(told(&free(600_000), &events), expected);
}

/// A reload gave the task another key, or another Redis store.
#[test]
fn what_another_lock_of_this_name_was_is_over() {
    let split =
        EventKind::SplitBegan { kind: SplitKind::Holders, parties: Vec::new(), left_ms: None };
    let before = [born(0), acquired(100, "a"), event(110, split)];
    let over = ["100-300 a", "110-300 split holders", "0-0 not known"];
    assert_eq!(told(&free(600_000), &[&before[..], &[born(300)]].concat()), over);
    let held = held_view("b", 300_000, 600_000, 1);
    let over = ["100-300 a", "300-600+ b at least", "110-300 split holders", "0-0 not known"];
    assert_eq!(told(&held, &[&before[..], &[born(300)]].concat()), over);

    let down = TaskView {
        durations: Seldom::new(Durations { down_ms: 300_000, ..Durations::default() }),
        ..free(600_000)
    };
    let pending =
        EventKind::Verdict { from: None, to: Verdict::Pending, rule: rule("gap_within_grace") };
    let anew = [event(300, EventKind::GapBegan), event(300, pending)];
    let over = ["100-300 a", "300-600+ gap", "110-300 split holders", "0-0 not known"];
    assert_eq!(told(&down, &[&before[..], &anew[..]].concat()), over);
    let gap = [
        born(0),
        acquired(100, "a"),
        ended(200, "a", End::Expired, Some(100)),
        event(200, EventKind::GapBegan),
    ];
    let over = ["100-200 a expired", "200-300 gap", "300-600+ gap", "0-0 not known"];
    assert_eq!(told(&down, &[&gap[..], &anew[..]].concat()), over);
    assert_eq!(
        told(&free(600_000), &[&gap[..], &[born(300)]].concat()),
        [over[0], over[1], over[3]]
    );
}

#[test]
fn splits_begin_and_end_by_kind() {
    let began = |second, kind| {
        event(second, EventKind::SplitBegan { kind, parties: Vec::new(), left_ms: None })
    };
    let events = [
        born(0),
        event(90, EventKind::SplitEnded { kind: SplitKind::Overlap, lasted_ms: 40_000 }),
        began(100, SplitKind::Claims),
        began(110, SplitKind::Holders),
        event(120, EventKind::SplitEnded { kind: SplitKind::Claims, lasted_ms: 20_000 }),
    ];
    let expected =
        ["50-90 split overlap", "100-120 split claims", "110-600+ split holders", "0-0 not known"];
    assert_eq!(told(&free(600_000), &events), expected);
}

#[test]
fn what_could_not_be_read() {
    let down = |second, node: &str| {
        of_redis(second, node, EventKind::StoreDown { why: Unknown::Timeout, decides: true })
    };
    let up = |second, node: &str| of_redis(second, node, EventKind::StoreUp);
    let not_known = "0-0 not known".to_owned();
    let check = |events: &[Event], expected: &[&str]| {
        let expected: Vec<String> =
            expected.iter().map(|&text| text.to_owned()).chain([not_known.clone()]).collect();
        assert_eq!(told(&free(600_000), events), expected);
    };
    check(
        &[born(0), down(100, "a:1"), up(130, "b:1"), up(160, "a:1")],
        &["100-160 unreadable timeout"],
    );
    // A server of another shard does not concern the task.
    check(&[born(0), down(100, "b:1"), up(130, "b:1")], &[]);
    // Another server decides now; the old one never comes back.
    let moved = EventKind::MastersChanged { from: Vec::new(), to: Ok(vec!["b:1".into()]) };
    check(
        &[born(0), down(100, "a:1"), of_redis(120, "b:1", moved)],
        &["100-120 unreadable timeout"],
    );
    // A reading proves that it can be read again.
    check(
        &[
            born(0),
            down(100, "a:1"),
            acquired(140, "a"),
            ended(150, "a", End::EndedEarly, Some(10)),
        ],
        &["140-150 a ended_early", "100-140 unreadable timeout"],
    );
}

#[test]
fn blindness_goes_on_from_the_last_reading() {
    let blind = TaskView { held: None, unknown: Some(Unknown::Connect), ..free(400_000) };
    assert_eq!(
        told(&blind, &[born(0), acquired(100, "a")]),
        ["100-400 a", "400-600+ unreadable connect", "0-0 not known"]
    );
    let gone = EventKind::Verdict {
        from: Some(Verdict::Running),
        to: Verdict::Unknown,
        rule: rule("lock_blind"),
    };
    let back = EventKind::Verdict {
        from: Some(Verdict::Unknown),
        to: Verdict::Stopped,
        rule: rule("free_unset"),
    };
    let events = [born(0), event(200, gone), event(250, back)];
    assert_eq!(
        told(&free(600_000), &events),
        ["140-250 unreadable ", "0-0 not known"],
        "blind_after is 60 s"
    );
}
