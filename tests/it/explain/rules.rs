//! The deciding evidence of every rule, and the full text of one explanation.

use std::collections::BTreeSet;
use std::sync::Arc;

use lockwatch::alerts;
use lockwatch::outputs::explanation::{Explanation, Seen, Trace, Watched, explanation, text};
use lockwatch_judge::event::{End, Party, SplitKind};
use lockwatch_judge::problems::{Problem, of_task};
use lockwatch_judge::reading::Unknown;
use lockwatch_judge::snapshot::{
    Judged, KindView, NodeView, Over, PeriodicRun, Rare, RunsView, ShortHolds, SplitView,
    SwitchView, Taken, TaskView, TurnView,
};
use lockwatch_judge::spec::{KindSpec, RunsSpec, TurnSpec, WantedSource};
use lockwatch_judge::time::{Mono, ServerTime};
use lockwatch_judge::verdict::{
    Facts, LockFact, LockFacts, QueueFact, QueueFacts, RunFact, RunsFacts, TurnFact, TurnFacts,
    Verdict, Wanted, judge, rules,
};
use lockwatch_watch::redis::RedisKind;

use crate::snapshots::{
    NOW, full_task, good_node, good_redis, hold, holder, published, stopped_task,
};

const NODE: &str = "10.0.0.5:6379";
const CLIENT: &[u8] = b"3f2b9c1e-client";

/// Leaves only these switches.
fn only(view: &mut TaskView, keep: fn(&SwitchView) -> bool) {
    let switches = view.wanting.switches.take().into_iter().flatten();
    view.wanting.switches = Some(switches.filter(keep).collect());
}

/// The names of all rules.
fn rule_names() -> BTreeSet<&'static str> {
    rules().map(|rule| rule.name).collect()
}

fn explain(view: TaskView, watched: Watched) -> Explanation {
    let mut redis = good_redis("main");
    redis.nodes = vec![NodeView { unknown: view.unknown, ..good_node(NODE) }];
    let published = published(vec![view], vec![redis]);
    let seen = Seen {
        published: &published,
        view: published.snapshot.tasks.first().unwrap(),
        trace: &Trace::default(),
        watched,
    };
    explanation(seen)
}

/// A task to which exactly this rule applies, and what its explanation must contain.
fn case(rule: &str) -> (TaskView, Vec<&'static str>) {
    let facts = LockFacts {
        wanted: Wanted::Yes,
        lock: LockFact::Held,
        split: false,
        gap_over_grace: false,
        down_goes_on: false,
        stale: false,
        over_wind_down: false,
        blind: false,
    };
    let free = LockFacts { lock: LockFact::Free, ..facts };
    let unknown = LockFacts { lock: LockFact::Unknown, ..facts };
    let mut view = full_task("outbound");
    view.wanting.lost_users = Vec::new();
    let mut previous = None;
    let (facts, pieces) = match rule {
        "split_evidence" => {
            let party = |client: &[u8], node: Option<&str>| Party {
                holder: holder(client),
                node: node.map(Into::into),
                host: (client == CLIENT).then(|| b"srv-a".to_vec()),
            };
            let parties = vec![party(CLIENT, None), party(b"other", Some("10.0.0.6:6379"))];
            view.splits = [SplitView {
                kind: SplitKind::Masters,
                parties,
                since: Mono::at(NOW.ms() - 7_000),
                lasted_ms: 6_500,
            }]
            .into();
            let pieces = vec![
                "kind masters",
                "since 2027-01-15T07:59:53.123Z, for 6.5 s",
                "other, shown by 10.0.0.6:6379",
            ];
            (
                LockFacts { split: true, ..facts },
                [pieces, vec!["3f2b9c1e-client on srv-a, shown by 10.0.0.5:6379"]].concat(),
            )
        }
        "lock_blind" => {
            (view.held, view.lock_mut().unwrap().hold, view.unknown) =
                (None, None, Some(Unknown::Timeout));
            view.durations.blind_ms = 75_000;
            let pieces = vec![
                "The lock is unknown (timeout). The server did not answer",
                "Blind 75.0 s > blind_after 60.0 s.",
            ];
            let more = vec![
                "last good reading was 250 ms ago from 10.0.0.5:6379",
                "The server 10.0.0.5:6379 is unknown (timeout)",
            ];
            (LockFacts { blind: true, ..unknown }, [pieces, more].concat())
        }
        "wanted_blind" => {
            (view.wanted, view.wanting.switches, view.wanting.users) =
                (Wanted::Unknown, None, None);
            (view.held, view.lock_mut().unwrap().hold, view.switches_unknown) =
                (Some(false), None, Some(Unknown::WrongType));
            view.durations.blind_ms = 61_000;
            let pieces = vec![
                "free, confirmed",
                "Whether users want it is unknown (wrong_type)",
                "Blind 61.0 s > blind_after 60.0 s.",
            ];
            (LockFacts { blind: true, wanted: Wanted::Unknown, ..free }, pieces)
        }
        "keep_previous" => {
            previous = Some(Verdict::Running);
            (view.held, view.lock_mut().unwrap().hold, view.unknown) =
                (None, None, Some(Unknown::Closed));
            view.durations.blind_ms = 3_000;
            (
                unknown,
                vec![
                    "The previous verdict stays: running.",
                    "unknown (closed)",
                    "Blind 3.0 s <= blind_after 60.0 s.",
                ],
            )
        }
        "nothing_yet" => {
            (view.held, view.lock_mut().unwrap().hold, view.last_reading, view.unknown) =
                (None, None, None, Some(Unknown::Auth));
            (
                unknown,
                vec![
                    "The lock is unknown (auth)",
                    "no good reading yet",
                    "The server 10.0.0.5:6379 is unknown (auth)",
                ],
            )
        }
        "no_progress" => {
            view.durations.stalled_ms = 301_000;
            let pieces = vec![
                "the key outbound:last) moved last at 2027-01-15T07:59:50.500Z of the server's \
                 clock",
            ];
            let more = vec!["Stalled 5m1s > stale_after 5m.", "by 3f2b9c1e-client on srv-a"];
            (LockFacts { stale: true, ..facts }, [pieces, more].concat())
        }
        "held_unwanted" | "winding_down" => {
            view.wanted = Wanted::No;
            only(&mut view, |switch| switch.on == Some(false));
            let over = rule == "held_unwanted";
            view.durations.unwanted_ms = if over { 31_000 } else { 29_000 };
            let lasted = if over {
                "Unwanted 31.0 s > wind_down 30.0 s."
            } else {
                "Unwanted 29.0 s <= wind_down 30.0 s."
            };
            let pieces = vec![
                lasted,
                "3f2b9c1e-client on srv-a",
                "Wanted by nobody: the switches of bert are off.",
            ];
            (LockFacts { wanted: Wanted::No, over_wind_down: over, ..facts }, pieces)
        }
        "held_wanted" => {
            let pieces = vec![
                "Held (exclusive) by 3f2b9c1e-client on srv-a for at least 61.1 s, 28.9 s of the \
                 lease left",
            ];
            (facts, [pieces, vec!["250 ms ago from 10.0.0.5:6379", "Wanted by anna."]].concat())
        }
        "held_unset" => {
            view.wanted = Wanted::Unset;
            (
                LockFacts { wanted: Wanted::Unset, ..facts },
                vec!["Held (exclusive) by", "No switches are configured"],
            )
        }
        "held_wanted_unknown" => {
            view.wanted = Wanted::Unknown;
            only(&mut view, |switch| switch.on.is_none());
            let pieces =
                vec!["Held (exclusive) by", r"those of c\xe2\x80\xaelaire say neither on nor off"];
            (LockFacts { wanted: Wanted::Unknown, ..facts }, pieces)
        }
        "gap_over_grace" | "gap_within_grace" => {
            (view.held, view.lock_mut().unwrap().hold, view.lock_mut().unwrap().fact) =
                (Some(false), None, LockFact::Free);
            let over = rule == "gap_over_grace";
            view.durations.down_ms = if over { 34_000 } else { 12_000 };
            let since = if over {
                "since 2027-01-15T07:59:25.873Z"
            } else {
                "since 2027-01-15T07:59:47.873Z"
            };
            let gap =
                if over { "Gap 34.0 s > grace 20.0 s." } else { "Gap 12.0 s <= grace 20.0 s." };
            let pieces = vec![since, gap, "250 ms ago from 10.0.0.5:6379", "Wanted by anna."];
            (LockFacts { gap_over_grace: over, ..free }, pieces)
        }
        "held_briefly" => {
            view.durations.down_ms = 34_000;
            let short_holds = ShortHolds { count: 26, expired: 26, longest_ms: 120 };
            view.grounds.rare = Some(Arc::new(Rare { short_holds, ..Rare::default() }));
            let pieces = vec![
                "Held (exclusive) by",
                "held continuously for settle 5.0 s.",
                "Before this hold: gap 34.0 s > grace 20.0 s, and shown as down.",
                "26 holds ended within 120 ms; the lease (30.0 s) of 26 of them ran out.",
                "set settle (now 5.0 s) below the shortest of them, or pause",
                "Wanted by anna.",
            ];
            (LockFacts { gap_over_grace: true, down_goes_on: true, ..facts }, pieces)
        }
        "free_unwanted" => {
            view.wanted = Wanted::No;
            (view.held, view.lock_mut().unwrap().hold, view.lock_mut().unwrap().fact) =
                (Some(false), None, LockFact::Free);
            view.wanting.switches = Some(Box::default());
            (
                LockFacts { wanted: Wanted::No, ..free },
                vec!["The lock is free, confirmed", "there is no switch"],
            )
        }
        "free_unset" => {
            view = stopped_task("outbound");
            (
                LockFacts { wanted: Wanted::Unset, ..free },
                vec!["The lock is free, confirmed", "No switches are configured"],
            )
        }
        other => panic!("{other:?} is no rule of locks"),
    };
    let (verdict, gave) = judge(Facts::Lock(facts), previous);
    assert_eq!(gave.name, rule, "the case is of this rule");
    let judged = Some(Judged { facts: Facts::Lock(facts), previous });
    (TaskView { verdict, rule: gave, judged, ..view }, pieces)
}

fn is_of_turns(rule: &str) -> bool {
    ["turn_", "no_turn_"].iter().any(|start| rule.starts_with(start))
}

fn is_of_runs(rule: &str) -> bool {
    rule.starts_with("run_") || rule == "between_runs"
}

/// The same for periodic tasks.
fn runs_case(rule: &str) -> (TaskView, Vec<&'static str>) {
    let run = |over| PeriodicRun {
        by: Vec::new(),
        began: Some(Mono::at(NOW.ms() - 60_000)),
        began_at: Some(ServerTime::at(1_800_000_000_000)),
        over,
    };
    let over = Some(Over { end: Some(End::EndedEarly), lasted_ms: Some(20_000) });
    let mut runs = RunsView {
        fact: RunFact::Over,
        present: None,
        last: Some(Arc::new(run(over))),
        began: Some(Mono::at(NOW.ms() - 60_000)),
        watched: Some(Mono::at(0)..Mono::at(NOW.ms() + 3_000)),
        awaited_ms: 60_000,
        late_ms: 0,
        may_have_run: false,
    };
    let mut view = full_task("report");
    let facts = RunsFacts {
        lock: LockFact::Free,
        run: RunFact::Over,
        split: false,
        overdue: false,
        overran: false,
        blind: false,
    };
    let held = RunsFacts { lock: LockFact::Held, run: RunFact::GoesOn, ..facts };
    let (facts, pieces) = match rule {
        "run_overdue" => {
            (runs.late_ms, runs.may_have_run) = (700_000, true);
            let pieces = vec![
                "Overdue 11m40s > late_after 10m.",
                "and took 20.0 s",
                "may have come and gone unseen",
            ];
            (RunsFacts { overdue: true, ..facts }, pieces)
        }
        "run_overran" => {
            let pieces = vec!["> max 20.0 s."];
            (RunsFacts { overran: true, ..held }, pieces)
        }
        "run_kept" => (RunsFacts { run: RunFact::Over, ..held }, vec!["The last run began"]),
        "run_goes_on" => (held, vec!["Held (exclusive) by"]),
        "run_awaited" => {
            (runs.fact, runs.last) = (RunFact::Unseen, None);
            (RunsFacts { run: RunFact::Unseen, ..facts }, vec!["No run was seen since"])
        }
        "between_runs" => (facts, vec!["confirmed"]),
        _ => panic!("no case for {rule}"),
    };
    if facts.lock == LockFact::Free {
        (view.held, view.lock_mut().unwrap().hold) = (Some(false), None);
        view.lock_mut().unwrap().fact = LockFact::Free;
    }
    view.lock_mut().unwrap().rare.runs = Some(Arc::new(runs));
    let spec =
        RunsSpec { late_after_ms: 600_000, max_ms: Some(20_000), ..RunsSpec::new(3_600_000) };
    let own = Arc::make_mut(&mut view.spec);
    (own.wanted, view.wanted) = (None, Wanted::Unset);
    own.lock_mut().unwrap().runs = Some(spec.into());
    (view.verdict, view.rule) = judge(Facts::Runs(facts), None);
    view.judged = Some(Judged { facts: Facts::Runs(facts), previous: None });
    (view, pieces)
}

fn is_of_queues(rule: &str) -> bool {
    rule.starts_with("queue_")
}

/// The same for tasks that take turns.
fn turn_case(rule: &str) -> (TaskView, Vec<&'static str>) {
    let mut view = stopped_task("alternate");
    Arc::make_mut(&mut view.spec).kind = KindSpec::Turn(TurnSpec::new(b"turns", &["a", "b"]));
    let mut turn = TurnView {
        fact: TurnFact::Somebody,
        name: Some(b"a".to_vec()),
        from: Some(ServerTime::at(1_800_000_000_000)),
        fields: Some(1),
        late_ms: 0,
        taken: [("a", 3), ("b", 2)].map(|(name, turns)| Taken { name: name.into(), turns }).into(),
        out_of_order: None,
        unknown_names: 0,
    };
    let mut facts = TurnFacts {
        wanted: Wanted::Unset,
        turn: TurnFact::Somebody,
        split: false,
        gap_over_grace: false,
        late: false,
        blind: false,
    };
    let nobodys = rule.starts_with("no_turn");
    if nobodys {
        (facts.turn, turn.fact, turn.name, turn.from) =
            (TurnFact::Nobody, TurnFact::Nobody, None, None);
        (view.held, turn.fields) = (Some(false), Some(0));
    }
    let mut pieces = match nobodys {
        true => vec!["It is nobody's turn, confirmed; the newest reading was 250 ms ago"],
        false => vec!["It is the turn of a, which may run since 2027-01-15T08:00:00.000Z"],
    };
    pieces.push("Turns passed on so far: a 3, b 2.");
    match rule {
        "turn_blind" => {
            (view.held, view.unknown) = (None, Some(Unknown::WrongType));
            (facts.turn, facts.blind, turn.fact, turn.name) =
                (TurnFact::Unknown, true, TurnFact::Unknown, None);
            view.durations.blind_ms = 75_000;
            pieces = vec![
                "Whose turn it is is unknown (wrong_type)",
                "Blind 75.0 s > blind_after 60.0 s.",
            ];
        }
        "turn_late" => {
            (facts.late, turn.late_ms) = (true, 45_000);
            pieces.push("Overdue 45.0 s > max_late 30.0 s.");
        }
        "no_turn_over_grace" => {
            (facts.wanted, facts.gap_over_grace) = (Wanted::Yes, true);
            view.durations.down_ms = 21_000;
            pieces.push("Gap 21.0 s > grace 20.0 s.");
        }
        "no_turn_blind" => {
            (facts.wanted, facts.blind) = (Wanted::Unknown, true);
            pieces.push("Whether users want it");
        }
        "turn_wanted" | "no_turn_within_grace" => {
            facts.wanted = Wanted::Yes;
            pieces.push("Wanted");
        }
        "turn_wanted_unknown" => facts.wanted = Wanted::Unknown,
        "turn_unwanted" | "no_turn_unwanted" => {
            facts.wanted = Wanted::No;
            pieces.push("Wanted by nobody");
        }
        "turn_unset" | "no_turn_unset" => pieces.push("No switches are configured"),
        other => panic!("{other:?} is no rule of turns"),
    }
    view.wanted = facts.wanted;
    let (verdict, gave) = judge(Facts::Turn(facts), None);
    assert_eq!(gave.name, rule, "the case is of this rule");
    let judged = Some(Judged { facts: Facts::Turn(facts), previous: None });
    (TaskView { verdict, rule: gave, judged, kind: KindView::Turn(Box::new(turn)), ..view }, pieces)
}

fn any_case(rule: &str) -> (TaskView, Vec<&'static str>) {
    match rule {
        rule if is_of_turns(rule) => turn_case(rule),
        rule if is_of_runs(rule) => runs_case(rule),
        rule => case(rule),
    }
}

#[test]
fn every_rule_names_its_evidence() {
    for rule in rule_names().into_iter().filter(|rule| !is_of_queues(rule)) {
        let (view, pieces) = any_case(rule);
        let explained = explain(view, Watched::Agent);
        let reported = explained.deciding.join("\n");
        for piece in pieces {
            assert!(reported.contains(piece), "{rule:?}: {piece:?} is not in:\n{reported}");
        }
        assert_eq!(explained.rules.last().unwrap().rule, rule);
        assert!(explained.rules.last().unwrap().gave.is_some());
    }
}

/// The explanation's text must agree with the facts that were judged.
#[test]
fn a_rule_applies_exactly_when_all_its_conditions_hold() {
    let mut considered = BTreeSet::new();
    for (facts, view) in all_facts() {
        for previous in [None, Some(Verdict::Running)] {
            let judged = Judged { facts, previous };
            let view = TaskView { judged: Some(judged), ..view.clone() };
            let rules = explain(view, Watched::Agent).rules;
            for rule in &rules {
                let all = rule.conditions.iter().all(|condition| condition.holds);
                assert_eq!(all, rule.gave.is_some(), "{judged:?} {rule:?}");
                considered.insert(rule.rule.clone());
            }
            let (last, others) = rules.split_last().unwrap();
            assert!(
                last.gave.is_some() && others.iter().all(|rule| rule.gave.is_none()),
                "{rules:?}"
            );
            assert_eq!(last.gave.as_deref(), Some(judge(facts, previous).0.name()));
        }
    }
    assert_eq!(considered.len(), rule_names().len(), "every rule was considered");
}

/// Every combination of facts, each with a task of its kind.
fn all_facts() -> Vec<(Facts, TaskView)> {
    let (lock_view, turn_view) = (full_task("outbound"), turn_case("turn_unset").0);
    let queue_view = TaskView { kind: KindView::Queue(Box::default()), ..full_task("delayed") };
    let mut all = Vec::new();
    for (wanted, bits) in
        Wanted::ALL.into_iter().flat_map(|wanted| (0..64_u8).map(move |bits| (wanted, bits)))
    {
        let [split, gap_over_grace, late, over_wind_down, blind, down_goes_on] =
            [1, 2, 4, 8, 16, 32].map(|bit| bits & bit != 0);
        for lock in LockFact::ALL {
            let stale = late;
            let facts = LockFacts {
                wanted,
                lock,
                split,
                gap_over_grace,
                down_goes_on,
                stale,
                over_wind_down,
                blind,
            };
            all.push((Facts::Lock(facts), lock_view.clone()));
        }
        for (lock, run) in
            LockFact::ALL.into_iter().flat_map(|lock| RunFact::ALL.map(|run| (lock, run)))
        {
            let (overdue, overran) = (late, over_wind_down);
            let facts = RunsFacts { lock, run, split, overdue, overran, blind };
            let view = runs_case("between_runs").0;
            let mut view = TaskView { judged: None, ..view };
            let runs = view.lock_mut().unwrap().rare.runs.as_mut().unwrap();
            Arc::make_mut(runs).fact = run;
            all.push((Facts::Runs(facts), view));
        }
        for turn in TurnFact::ALL {
            let facts = TurnFacts { wanted, turn, split, gap_over_grace, late, blind };
            all.push((Facts::Turn(facts), turn_view.clone()));
        }
        for queue in QueueFact::ALL {
            let facts = QueueFacts { wanted, queue, split, late, blind };
            all.push((Facts::Queue(facts), queue_view.clone()));
        }
    }
    all
}

#[test]
fn one_look_claims_no_duration() {
    for rule in ["held_wanted", "gap_within_grace", "winding_down", "free_unwanted"] {
        let explained = explain(case(rule).0, Watched::Once);
        let reported = explained.deciding.join("\n");
        for claim in ["at least", "since 20", "29.0 s", "Gap "] {
            assert!(!reported.contains(claim), "{rule:?}: {reported}");
        }
        assert_eq!((explained.verdict_since, explained.verdict_age_seconds), (None, None));
        assert!(
            explained
                .pages
                .iter()
                .all(|page| page.value_seconds.is_none() && page.due_in_seconds.is_none())
        );
    }
}

#[tokio::test]
async fn who_comes_when_too_many_wait_is_refused_at_once() {
    let trace = Trace::gather(None, None).await;
    let published = published(vec![stopped_task("outbound")], vec![good_redis("main")]);
    let view = published.snapshot.tasks.first().unwrap();
    let seen = Seen { published: &published, view, trace: &trace, watched: Watched::Agent };
    let because = explanation(seen).trace.nothing_because.unwrap();
    assert_eq!(
        because,
        "Too many tasks are being explained at this moment; ask again. The last good reading was \
         250 ms ago from 10.0.0.5:6379."
    );
}

#[test]
fn pages_tell_how_far_they_are() {
    let (view, _) = case("gap_within_grace");
    let due = |view: &TaskView, alert: &str| {
        let pages = explain(view.clone(), Watched::Agent).pages;
        pages.into_iter().find(|page| page.alert == alert).unwrap()
    };
    let down = due(&view, "LockwatchTaskDown");
    assert_eq!((down.due, down.due_in_seconds, down.paused), (false, Some(8.0), false));
    let (mut view, _) = case("gap_over_grace");
    view.paused = Some(true);
    let down = due(&view, "LockwatchTaskDown");
    assert_eq!((down.due, down.due_in_seconds, down.paused), (true, None, true));
    let (mut view, _) = case("held_wanted");
    view.durations.stalled_ms = 0;
    let (down, stalled) = (due(&view, "LockwatchTaskDown"), due(&view, "LockwatchTaskStalled"));
    assert_eq!(
        (down.due_in_seconds, stalled.due_in_seconds),
        (None, Some(290.5)),
        "it moved 9.5 s ago"
    );
    view.lock_mut().unwrap().hold = Some(hold(vec![]));
    view.lock_mut().unwrap().hold.as_mut().unwrap().held_ms = 2_000;
    assert_eq!(
        due(&view, "LockwatchTaskStalled").due_in_seconds,
        Some(298.0),
        "it is held for 2 s"
    );
}

#[test]
fn the_worst_time_to_a_page_is_that_of_check_config() {
    let (view, _) = case("held_wanted");
    let worst = explain(view.clone(), Watched::Agent).time_to_page;
    // interval 1 s + grace 20 s + 0.25 s; the learned lease of 30 s.
    assert_eq!((worst.down_after_seconds, worst.from_crash_seconds), (Some(21.25), Some(51.25)));
    assert!(worst.says.contains("the learned lease 30s"), "{}", worst.says);
    let (view, _) = case("free_unset");
    let worst = explain(view, Watched::Agent).time_to_page;
    assert_eq!((worst.down_after_seconds, worst.from_crash_seconds), (None, None));
}

#[test]
fn the_text_fits_and_is_harmless() {
    for rule in rule_names().into_iter().filter(|rule| !is_of_queues(rule)) {
        let mut explained = explain(any_case(rule).0, Watched::Agent);
        let page = text(&explained);
        for line in page.lines().filter(|line| line.contains("  ") && !line.contains(": {")) {
            assert!(line.chars().count() <= 100, "{line}");
        }
        let expected = format!("* {rule:<20} ");
        assert_eq!(page.lines().filter(|line| line.starts_with("* ")).count(), 1, "{page}");
        assert!(page.contains(&expected), "{page}");
        // Any server may answer at the agent's address, with any text.
        explained.task = "\x1b[2J\u{202e}".to_owned();
        explained.reason = "\x1b]0;x\x07 \u{9b}31m".to_owned();
        explained.deciding.push("a\rb\u{2066}".to_owned());
        let page = text(&explained);
        assert!(
            !page
                .chars()
                .any(|it| it != '\n' && it.is_control() || "\u{202e}\u{2066}".contains(it)),
            "{page:?}"
        );
    }
}

/// Only a fresh exchange proves where and when a value was read.
#[test]
fn in_a_cluster_the_place_of_a_lock_is_not_that_of_what_lives_beside_it() {
    let node_of = |kind: RedisKind, of: &str| {
        let mut redis = good_redis("main");
        redis.spec.authority = kind.authority();
        let published = published(vec![full_task("outbound")], vec![redis]);
        let view = published.snapshot.tasks.first().unwrap();
        let seen =
            Seen { published: &published, view, trace: &Trace::default(), watched: Watched::Agent };
        let evidence =
            explanation(seen).evidence.into_iter().find(|evidence| evidence.of == of).unwrap();
        assert_eq!(evidence.node.is_some(), evidence.age_seconds.is_some());
        evidence.node
    };
    for of in ["switches", "progress"] {
        assert_eq!(node_of(RedisKind::Standalone, of).as_deref(), Some(NODE), "{of}");
        assert_eq!(node_of(RedisKind::Cluster, of), None, "{of}");
    }
    assert_eq!(node_of(RedisKind::Cluster, "lock").as_deref(), Some(NODE));
}

/// Also what is over, and what guards state: whatever wakes somebody must be explained.
#[test]
fn each_page_that_fires_is_listed() {
    let (mut view, _) = case("held_wanted");
    let ago = |ms: u64| Some(Mono::at(NOW.ms() - ms));
    let rare = Rare { lock_lost: ago(61_500), split: ago(30_000), ..Rare::default() };
    view.grounds.rare = Some(Arc::new(rare));
    let problems = of_task(&view, NOW, None);
    let firing: Vec<_> = alerts::firing(&problems).into_iter().map(|alert| alert.row).collect();
    let problems = firing.iter().map(|row| row.problem);
    assert!(problems.eq([Problem::Stalled, Problem::Split, Problem::LockLost]), "{firing:?}");
    let pages = explain(view, Watched::Agent).pages;
    for row in firing {
        let page = pages.iter().find(|page| page.alert == row.alert).unwrap();
        assert!(page.due && page.since.is_some() && page.finding == "positive", "{page:?}");
        assert!(page.because.starts_with(row.positive), "{page:?}");
    }
    // Switches that do not exist cannot be lost.
    let (mut view, _) = case("held_wanted");
    Arc::make_mut(&mut view.spec).wanted.as_mut().unwrap().source = WantedSource::Always;
    let pages = explain(view, Watched::Agent).pages;
    assert!(pages.iter().all(|page| page.alert != "LockwatchSwitchesLost"), "{pages:?}");
}
