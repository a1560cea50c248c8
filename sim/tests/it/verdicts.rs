//! The verdict over the whole product of its inputs: a readable table, kept as a golden file, and
//! properties that must hold.
//!
//! `BLESS=1 cargo test -p lockwatch-sim verdicts::` rewrites the table.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;

use lockwatch_judge::limit::Limit;
use lockwatch_judge::verdict::{
    Facts, LockFact, LockFacts, QueueFact, QueueFacts, Rule, RunFact, RunsFacts, TurnFact,
    TurnFacts, Verdict, Wanted, judge, rules, trace,
};

const HEADING: &str = "\
The verdict and its rule, for every combination of what it depends on. A flag that is set shows \
    its name, else a dot:
  split  there is positive evidence of more than one holder
  gap    wanted, and no hold has lasted for settle, for longer than grace
  shown  that gap was published as down while the lock was free
  stale  the progress has not moved for longer than stale_after
  wind   held though not wanted for longer than wind_down
  blind  no trustworthy answer on what matters for longer than blind_after
\"(previous)\" is whatever the verdict was before.

Of periodic tasks:
  unseen, goes_on, over  what is known of the runs
  due    no run began within every and late_after
  long   the run has lasted for longer than max

Of turns and queues:
  late   the turn, or a due member that nobody executes, is over max_late

wanted   lock, turn, queue  flags                              at first                     later
";

/// Every combination, of locks.
fn all_of_locks() -> Vec<LockFacts> {
    let mut all = Vec::new();
    for wanted in Wanted::ALL {
        for lock in LockFact::ALL {
            for bits in 0..64_u8 {
                let flag = |bit: u8| bits & (32 >> bit) != 0;
                all.push(LockFacts {
                    wanted,
                    lock,
                    split: flag(0),
                    gap_over_grace: flag(1),
                    down_goes_on: flag(2),
                    stale: flag(3),
                    over_wind_down: flag(4),
                    blind: flag(5),
                });
            }
        }
    }
    all
}

/// Of periodic tasks.
fn all_of_runs() -> Vec<RunsFacts> {
    let mut all = Vec::new();
    for lock in LockFact::ALL {
        for run in RunFact::ALL {
            for bits in 0..16_u8 {
                let flag = |bit: u8| bits & (8 >> bit) != 0;
                let (split, overdue, overran, blind) = (flag(0), flag(1), flag(2), flag(3));
                all.push(RunsFacts { lock, run, split, overdue, overran, blind });
            }
        }
    }
    all
}

/// Of turns.
fn all_of_turns() -> Vec<TurnFacts> {
    let mut all = Vec::new();
    for wanted in Wanted::ALL {
        for turn in TurnFact::ALL {
            for bits in 0..16_u8 {
                let flag = |bit: u8| bits & (8 >> bit) != 0;
                all.push(TurnFacts {
                    wanted,
                    turn,
                    split: flag(0),
                    gap_over_grace: flag(1),
                    late: flag(2),
                    blind: flag(3),
                });
            }
        }
    }
    all
}

/// Of queues.
fn all_of_queues() -> Vec<QueueFacts> {
    let mut all = Vec::new();
    for wanted in Wanted::ALL {
        for queue in QueueFact::ALL {
            for bits in 0..8_u8 {
                let flag = |bit: u8| bits & (4 >> bit) != 0;
                let (split, late, blind) = (flag(0), flag(1), flag(2));
                all.push(QueueFacts { wanted, queue, split, late, blind });
            }
        }
    }
    all
}

/// Every combination of each kind.
fn all_facts() -> Vec<Facts> {
    let locks = all_of_locks().into_iter().map(Facts::Lock);
    let turns = all_of_turns().into_iter().map(Facts::Turn);
    let runs = all_of_runs().into_iter().map(Facts::Runs);
    locks.chain(runs).chain(turns).chain(all_of_queues().into_iter().map(Facts::Queue)).collect()
}

/// Every combination with every previous verdict, and the result.
fn all_judgements() -> Vec<(Facts, Option<Verdict>, Verdict, &'static str)> {
    let previous = || [None].into_iter().chain(Verdict::ALL.map(Some));
    let every = |facts| previous().map(move |before| (facts, before, judge(facts, before)));
    let all = all_facts().into_iter().flat_map(every);
    all.map(|(facts, before, (verdict, rule))| (facts, before, verdict, rule.name)).collect()
}

fn flags(facts: Facts) -> String {
    let named = match facts {
        Facts::Lock(facts) => vec![
            (facts.split, "split"),
            (facts.gap_over_grace, "gap"),
            (facts.down_goes_on, "shown"),
            (facts.stale, "stale"),
            (facts.over_wind_down, "wind"),
            (facts.blind, "blind"),
        ],
        Facts::Runs(facts) => vec![
            (facts.split, "split"),
            (true, facts.run.name()),
            (facts.overdue, "due"),
            (facts.overran, "long"),
            (facts.blind, "blind"),
        ],
        Facts::Turn(facts) => vec![
            (facts.split, "split"),
            (facts.gap_over_grace, "gap"),
            (facts.late, "late"),
            (facts.blind, "blind"),
        ],
        Facts::Queue(facts) => {
            vec![(facts.split, "split"), (facts.late, "late"), (facts.blind, "blind")]
        }
    };
    let shown = named
        .into_iter()
        .map(|(set, name)| format!("{:<width$}", if set { name } else { "." }, width = name.len()));
    shown.collect::<Vec<_>>().join(" ")
}

/// The results of later judgements, from any previous verdict.
fn later(facts: Facts) -> String {
    let judged = Verdict::ALL.map(|before| (before, judge(facts, Some(before))));
    if judged
        .iter()
        .all(|(before, (verdict, rule))| before == verdict && rule.name == "keep_previous")
    {
        return "(previous) keep_previous".to_owned();
    }
    let distinct: BTreeSet<_> =
        judged.iter().map(|(_, (verdict, rule))| (verdict.name(), rule.name)).collect();
    assert_eq!(
        distinct.len(),
        1,
        "{facts:?} depends on the previous verdict in another way than keeping it"
    );
    distinct.iter().map(|(verdict, rule)| format!("{verdict} {rule}")).collect()
}

fn table() -> String {
    let mut table = HEADING.to_owned();
    for facts in all_facts() {
        let (verdict, rule) = judge(facts, None);
        let first = format!("{} {}", verdict.name(), rule.name);
        let guard = facts.guard();
        let row = format!(
            "{:<8} {:<18} {:<33}  {first:<28} {}",
            facts.wanted().name(),
            [guard.of(), guard.name()].join(" "),
            flags(facts),
            later(facts)
        );
        let _ = writeln!(table, "{}", row.trim_end());
    }
    table
}

#[test]
fn the_table_is_the_golden_one() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/verdicts.golden.txt");
    let table = table();
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&path, &table).expect("a writable golden file");
    }
    let golden = std::fs::read_to_string(&path).expect("the golden file");
    for (number, (golden, now)) in golden.lines().zip(table.lines()).enumerate() {
        assert_eq!(golden, now, "line {} of {}", number + 1, path.display());
    }
    assert_eq!(golden.lines().count(), table.lines().count());
}

#[test]
fn the_trace_is_the_way_to_the_verdict() {
    for (facts, before, verdict, rule) in all_judgements() {
        let considered: Vec<_> = trace(facts, before).collect();
        let (last, others) = considered.split_last().expect("some rule applies");
        assert_eq!((last.rule.name, last.gave), (rule, Some(verdict)), "{facts:?} {before:?}");
        assert!(
            others.iter().all(|other| other.gave.is_none()),
            "{facts:?} {before:?}: {considered:?}"
        );
    }
}

#[test]
fn every_rule_decides_something() {
    let decided: BTreeSet<_> = all_judgements().into_iter().map(|(.., rule)| rule).collect();
    assert_eq!(decided, rules().map(|rule| rule.name).collect());
    let sentences: BTreeSet<_> = rules().map(|rule| rule.sentence).collect();
    assert_eq!(sentences.len(), decided.len(), "each rule has a name and a sentence of its own");
}

#[test]
fn a_split_always_wins() {
    for (facts, before, verdict, rule) in all_judgements() {
        if facts.split() {
            assert_eq!((verdict, rule), (Verdict::Split, "split_evidence"), "{facts:?} {before:?}");
        } else if verdict == Verdict::Split {
            assert_eq!((before, rule), (Some(Verdict::Split), "keep_previous"), "{facts:?}");
        }
    }
}

#[test]
fn what_cannot_be_read_is_never_judged_anew() {
    for (facts, before, verdict, rule) in all_judgements() {
        let (is_unknown, blind_rule) = match facts {
            Facts::Lock(facts) => (facts.lock == LockFact::Unknown, "lock_blind"),
            Facts::Runs(facts) => (facts.lock == LockFact::Unknown, "lock_blind"),
            Facts::Turn(facts) => (facts.turn == TurnFact::Unknown, "turn_blind"),
            Facts::Queue(facts) => (facts.queue == QueueFact::Unknown, "queue_blind"),
        };
        if facts.split() || !is_unknown {
            continue;
        }
        let expected = match (facts.blind(), before) {
            (true, _) => (Verdict::Unknown, blind_rule),
            (false, Some(before)) => (before, "keep_previous"),
            (false, None) => (Verdict::Unknown, "nothing_yet"),
        };
        assert_eq!((verdict, rule), expected, "{facts:?} {before:?}");
    }
}

#[test]
fn each_bad_verdict_needs_its_evidence() {
    for (facts, before, verdict, rule) in all_judgements() {
        if rule == "keep_previous" {
            continue;
        }
        let needs = match verdict {
            Verdict::Split => facts.split(),
            Verdict::Unknown => facts.blind() || before.is_none(),
            _ => match facts {
                Facts::Lock(facts) => lock_needs(facts, verdict),
                Facts::Runs(facts) => runs_needs(facts, verdict),
                Facts::Turn(facts) => turn_needs(facts, verdict),
                Facts::Queue(facts) => queue_needs(facts, verdict),
            },
        };
        assert!(needs, "{facts:?} {before:?} gave {verdict:?}");
    }
}

fn lock_needs(facts: LockFacts, verdict: Verdict) -> bool {
    let (held, free) = (facts.lock == LockFact::Held, facts.lock == LockFact::Free);
    match verdict {
        Verdict::Down => {
            facts.wanted == Wanted::Yes
                && (free && facts.gap_over_grace || held && facts.down_goes_on)
        }
        Verdict::Stalled => {
            held && matches!(facts.wanted, Wanted::Yes | Wanted::Unset) && facts.stale
        }
        Verdict::Unwanted => held && facts.wanted == Wanted::No && facts.over_wind_down,
        Verdict::Pending => free && facts.wanted == Wanted::Yes && !facts.gap_over_grace,
        Verdict::Running => held,
        Verdict::Stopped => free && matches!(facts.wanted, Wanted::No | Wanted::Unset),
        Verdict::Split | Verdict::Unknown => false,
    }
}

fn runs_needs(facts: RunsFacts, verdict: Verdict) -> bool {
    let (held, free) = (facts.lock == LockFact::Held, facts.lock == LockFact::Free);
    match verdict {
        Verdict::Down => (held || free) && facts.overdue,
        Verdict::Stalled => held && facts.overran,
        Verdict::Pending => free && facts.run == RunFact::Unseen && !facts.overdue,
        Verdict::Running => held && facts.run != RunFact::Over,
        Verdict::Stopped => free || held && facts.run == RunFact::Over,
        Verdict::Unwanted | Verdict::Split | Verdict::Unknown => false,
    }
}

fn turn_needs(facts: TurnFacts, verdict: Verdict) -> bool {
    let (somebody, nobody) = (facts.turn == TurnFact::Somebody, facts.turn == TurnFact::Nobody);
    match verdict {
        Verdict::Down => nobody && facts.wanted == Wanted::Yes && facts.gap_over_grace,
        Verdict::Stalled => {
            somebody && matches!(facts.wanted, Wanted::Yes | Wanted::Unset) && facts.late
        }
        Verdict::Pending => nobody && facts.wanted == Wanted::Yes && !facts.gap_over_grace,
        Verdict::Running => somebody && facts.wanted != Wanted::No,
        Verdict::Stopped => {
            facts.wanted == Wanted::No && (somebody || nobody)
                || nobody && facts.wanted == Wanted::Unset
        }
        Verdict::Unwanted | Verdict::Split | Verdict::Unknown => false,
    }
}

fn queue_needs(facts: QueueFacts, verdict: Verdict) -> bool {
    facts.queue == QueueFact::Read
        && match verdict {
            Verdict::Stalled => matches!(facts.wanted, Wanted::Yes | Wanted::Unset) && facts.late,
            Verdict::Running => matches!(facts.wanted, Wanted::Yes | Wanted::Unset) && !facts.late,
            Verdict::Stopped => facts.wanted == Wanted::No,
            _ => false,
        }
}

/// The converse: evidence of harm is never ignored.
#[test]
fn evidence_of_harm_is_never_talked_away() {
    for (facts, before, verdict, _) in all_judgements() {
        let counts = matches!(facts.wanted(), Wanted::Yes | Wanted::Unset);
        let worst = match facts {
            _ if facts.split() => Verdict::Split,
            _ if facts.unjudgeable() && facts.blind() => Verdict::Unknown,
            Facts::Lock(facts) => match (facts.lock, facts.wanted) {
                (LockFact::Free, Wanted::Yes) if facts.gap_over_grace => Verdict::Down,
                (LockFact::Held, Wanted::Yes) if facts.down_goes_on => Verdict::Down,
                (LockFact::Held, _) if counts && facts.stale => Verdict::Stalled,
                (LockFact::Held, Wanted::No) if facts.over_wind_down => Verdict::Unwanted,
                _ => continue,
            },
            Facts::Runs(facts) if facts.lock == LockFact::Unknown => continue,
            Facts::Runs(facts) if facts.overdue => Verdict::Down,
            Facts::Runs(facts) if facts.lock == LockFact::Held && facts.overran => Verdict::Stalled,
            Facts::Runs(_) => continue,
            Facts::Turn(facts) => match (facts.turn, facts.wanted) {
                (TurnFact::Nobody, Wanted::Yes) if facts.gap_over_grace => Verdict::Down,
                (TurnFact::Somebody, _) if counts && facts.late => Verdict::Stalled,
                _ => continue,
            },
            Facts::Queue(facts) if facts.queue == QueueFact::Read && counts && facts.late => {
                Verdict::Stalled
            }
            Facts::Queue(_) => continue,
        };
        assert_eq!(verdict, worst, "{facts:?} {before:?}");
    }
}

#[test]
fn without_switches_nothing_is_down_or_unwanted() {
    // A periodic task is down if it is overdue.
    let all = all_judgements().into_iter().filter(|(facts, ..)| !matches!(facts, Facts::Runs(_)));
    for (facts, before, verdict, rule) in all {
        if facts.wanted() == Wanted::Unset && rule != "keep_previous" {
            let never = [Verdict::Down, Verdict::Unwanted, Verdict::Pending];
            assert!(!never.contains(&verdict), "{facts:?} {before:?} gave {verdict:?}");
        }
    }
}

#[test]
fn a_rule_gives_one_verdict_and_each_verdict_can_be_given() {
    let mut given: BTreeMap<&str, BTreeSet<Verdict>> = BTreeMap::new();
    for (_, _, verdict, rule) in all_judgements() {
        given.entry(rule).or_default().insert(verdict);
    }
    for (rule, verdicts) in &given {
        assert!(verdicts.len() == 1 || *rule == "keep_previous", "{rule} gives {verdicts:?}");
    }
    let all: BTreeSet<_> = given.values().flatten().copied().collect();
    assert_eq!(all.len(), Verdict::ALL.len());
}

#[test]
fn verdicts_are_listed_worst_first() {
    assert!(Verdict::ALL.is_sorted());
    let names = Verdict::ALL.map(Verdict::name);
    assert_eq!(
        names,
        ["split", "down", "stalled", "unwanted", "unknown", "pending", "running", "stopped"]
    );
}

/// Words in braces that nobody knows would be shown as they are.
#[test]
fn sentences_use_only_words_that_are_known() {
    let limits = Limit::ALL.map(Limit::name);
    for rule in rules() {
        let words = rule.sentence.split(['{', '}']).skip(1).step_by(2);
        for word in words {
            let is_known = Rule::WORDS.iter().any(|(known, _)| *known == word);
            assert!(is_known || limits.contains(&word), "{}: {word}", rule.name);
        }
        assert!(rule.sentence().ends_with('.'), "{}: {}", rule.name, rule.sentence());
    }
}
