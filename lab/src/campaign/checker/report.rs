//! The report of a run: how much was injected and judged, what was missed and what was false, and
//! the history of the first violations.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};

use super::judge::{Judgement, Measure, Violation, seconds};
use super::read::Logs;
use super::truth::Truths;
use crate::campaign::clock::{Micros, SECOND};

/// Minimum share of task time, and of faults, that must be judged for the run to count.
const ENOUGH: f64 = 0.95;
/// Maximum drift of the wall clock, in microseconds: leases end by it, while the logs use the
/// monotonic clock.
const WALL_DRIFT: Micros = 50_000;
/// Length of the history that is printed before a violation.
const BEFORE: Micros = 15 * SECOND;
const AFTER: Micros = 3 * SECOND;
/// Maximum number of violations that are listed for one measure.
const LISTED: usize = 8;

/// Exit codes of the command.
const MISSED_OR_FALSE: u8 = 2;
const NOT_JUDGED: u8 = 3;

/// The report of a run.
#[derive(Debug)]
pub(in crate::campaign) struct Report {
    text: String,
    pub(super) missed: usize,
    pub(super) false_pages: usize,
    /// Why the run proves nothing.
    pub(super) refused: Vec<String>,
}

impl Report {
    pub(super) fn new(logs: &Logs, truths: &Truths, judgement: Judgement) -> Report {
        let mut text = String::new();
        let (missed, wrong): (Vec<&Violation>, Vec<&Violation>) =
            judgement.violations.iter().partition(|violation| violation.missed);
        let faults = logs.faults.len();
        let verified = logs.faults.iter().filter(|fault| fault.verified.is_some()).count();
        let judged_faults = faults - judgement.unjudged_faults.len();
        let (of_time, of_faults) =
            (share(judgement.judged, judgement.time), share(judged_faults as u64, faults as u64));
        // Writing to a string cannot fail.
        let mut line = |line: String| {
            let _ = writeln!(text, "{line}");
        };
        line(format!(
            "seed {}: {:.1} minutes, {} locks, {} agents; the witness looked each {} ms",
            logs.header.seed,
            seconds(logs.end.saturating_sub(logs.begin)) / 60.0,
            logs.header.tasks.len(),
            logs.header.agents,
            logs.header.times.look
        ));
        line(format!(
            "faults: {faults} injected, {verified} with a verified effect, {judged_faults} judged \
             ({:.1} %)",
            of_faults * 100.0
        ));
        let mut kinds: BTreeMap<String, usize> = BTreeMap::new();
        logs.faults.iter().for_each(|fault| *kinds.entry(fault.kind.name()).or_default() += 1);
        let kinds: Vec<String> =
            kinds.into_iter().map(|(kind, count)| format!("{kind} {count}")).collect();
        line(format!("  {}", kinds.join(", ")));
        for (id, why) in &judgement.unjudged_faults {
            let kind =
                logs.faults.iter().find(|fault| fault.id == *id).map(|fault| fault.kind.name());
            line(format!("  not judged: fault {id}, {}: {why}", kind.unwrap_or_default()));
        }
        line(format!(
            "task-time judged: {:.2} % of {:.1} hours",
            of_time * 100.0,
            seconds(judgement.time) / 3_600.0
        ));
        for (why, of) in judgement.unjudged.iter().filter(|(_, of)| *of > 0) {
            line(format!(
                "  not judged: {:.2} %, because {why}",
                share(*of, judgement.time) * 100.0
            ));
        }
        line(format!(
            "{:<14} {:>10} {:>10} {:>10} {:>8} {:>8}",
            "episodes", "must page", "must not", "grey", "missed", "false"
        ));
        for (measure, count) in &judgement.counts {
            let of = |violations: &[&Violation]| {
                violations.iter().filter(|violation| violation.measure == *measure).count()
            };
            line(format!(
                "{:<14} {:>10} {:>10} {:>10} {:>8} {:>8}",
                measure.name(),
                count.must,
                count.must_not,
                count.grey,
                of(&missed),
                of(&wrong)
            ));
        }
        let mut refused = Vec::new();
        if of_time < ENOUGH {
            refused.push(format!("only {:.1} % of the task-time could be judged", of_time * 100.0));
        }
        if faults > 0 && of_faults < ENOUGH {
            refused.push(format!("only {:.1} % of the faults could be judged", of_faults * 100.0));
        }
        if logs.wall_drift > WALL_DRIFT {
            refused.push(format!(
                "the wall clock of this machine stepped by {:.2} s",
                seconds(logs.wall_drift)
            ));
        }
        for (list, measure) in [&missed, &wrong]
            .into_iter()
            .flat_map(|list| Measure::ALL.map(|measure| (list, measure)))
        {
            let of: Vec<_> = list.iter().filter(|violation| violation.measure == measure).collect();
            of.iter().take(LISTED).for_each(|violation| line(one(logs, violation)));
            if of.len() > LISTED {
                line(format!("… and {} more of these", of.len() - LISTED));
            }
        }
        if let Some(first) = judgement.violations.first() {
            line(format!(
                "how the first one came about (seconds of the run):\n{}",
                timeline(logs, truths, first)
            ));
        }
        for why in &refused {
            line(format!(
                "NOT JUDGED: {why}. The run proves nothing; run it on a machine with less to do."
            ));
        }
        line(format!("{} missed, {} false", missed.len(), wrong.len()));
        Report { missed: missed.len(), false_pages: wrong.len(), refused, text }
    }

    /// 0: no violation. 2: missed or false alerts. 3: no violation, but too little could be judged.
    /// (1: the campaign could not be run.)
    pub(in crate::campaign) fn exit_code(&self) -> u8 {
        if self.missed + self.false_pages > 0 {
            MISSED_OR_FALSE
        } else if self.refused.is_empty() {
            0
        } else {
            NOT_JUDGED
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text.trim_end())
    }
}

#[expect(clippy::cast_precision_loss, reason = "a share in percent")]
fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 1.0 } else { part as f64 / whole as f64 }
}

fn at(logs: &Logs, at: Micros) -> String {
    format!("{:.3}", seconds(at.saturating_sub(logs.begin)))
}

fn one(logs: &Logs, violation: &Violation) -> String {
    let task = logs.header.tasks.get(violation.task);
    let redis = task.and_then(|task| logs.header.redises.get(task.redis));
    format!(
        "{} {}: {} of redis {}, agent {}, {} to {}: {}",
        if violation.missed { "MISSED" } else { "FALSE" },
        violation.measure.name(),
        task.map_or("?", |task| &task.name),
        redis.map_or("?", |redis| &redis.name),
        violation.agent,
        at(logs, violation.from),
        at(logs, violation.to),
        violation.why
    )
}

/// Everything in the logs about the task of a violation. It starts [`BEFORE`] earlier, and ends
/// after it.
fn timeline(logs: &Logs, truths: &Truths, violation: &Violation) -> String {
    let (from, to) = (violation.from.saturating_sub(BEFORE), violation.to + AFTER);
    let mut lines: Vec<(Micros, String)> = Vec::new();
    let redis = logs.header.tasks.get(violation.task).map(|task| task.redis);
    for fault in logs.faults.iter().filter(|fault| fault.redis.is_none() || fault.redis == redis) {
        let target = [fault.target.clone(), fault.agent.map(|agent| format!("agent {agent}"))];
        let target: Vec<String> = target.into_iter().flatten().collect();
        let name = format!("fault {} {} {}", fault.id, fault.kind.name(), target.join(" "));
        lines.push((fault.meant, format!("{name}: begins, for {:.1} s", seconds(fault.lasts))));
        lines.extend(fault.verified.map(|at| (at, format!("{name}: its effect is seen"))));
        lines.push((fault.healed, format!("{name}: all is well again")));
    }
    for line in
        logs.holds.iter().filter(|line| line.task == violation.task && line.event != "renewed")
    {
        lines.push((line.at, format!("candidate {} {}", line.worker, line.event)));
    }
    for line in logs.switches.iter().filter(|line| line.task == violation.task) {
        lines.push((line.at, format!("switched {}", if line.on { "on" } else { "off" })));
    }
    if let Some(truth) = truths.tasks.get(violation.task) {
        for (set, word) in [
            (&truth.held, "held"),
            (&truth.free, "free"),
            (&truth.wanted, "wanted"),
            (&truth.unwanted, "unwanted"),
        ] {
            for (begin, end) in set.iter() {
                lines.push((begin, format!("witness: surely {word} from here")));
                lines.push((end, format!("witness: surely {word} until here")));
            }
        }
        lines.extend(
            truth.lost.iter().map(|at| (*at, "witness: a switch that was on is gone".to_owned())),
        );
    }
    if let Some(agent) = logs.agents.get(violation.agent) {
        for measure in Measure::ALL {
            for (at, shown, value) in
                agent.shown.get(&(measure.letter(), violation.task)).into_iter().flatten()
            {
                lines.push((
                    *at,
                    format!(
                        "agent {} shows {}: {shown} ({value})",
                        violation.agent,
                        measure.name()
                    ),
                ));
            }
        }
    }
    lines.extend(
        logs.late.iter().map(|(from, to)| {
            (from, format!("the machine was late by {:.2} s", seconds(to - from)))
        }),
    );
    lines.retain(|(at, _)| from <= *at && *at <= to);
    lines.sort();
    lines.iter().fold(String::new(), |mut text, (when, line)| {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "  {:>9}  {line}", at(logs, *when));
        text
    })
}
