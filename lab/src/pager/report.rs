//! The report of the pager bench, as Markdown that is also readable in a terminal.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use super::ledger::is_page;
use super::play::Outcome;
use super::scenario::{Length, Scenario};
use super::stage::{Timing, WATCHDOG};
use super::verdict::{Answer, Came, Finding, Wrong};
use crate::stack::Labels;

/// Number of findings of one scenario that are listed.
const FINDINGS_SHOWN: usize = 20;
/// The row for alerts that belong to no scenario.
const CONTROL: &str = "(control)";

/// The results of the bench.
pub(super) struct Report {
    text: String,
    all_right: bool,
}

impl Report {
    pub(super) fn new(outcomes: &[Outcome], agents: u8, timing: &Timing, took: Duration) -> Report {
        let broken = outcomes
            .iter()
            .flat_map(|outcome| &outcome.scenarios)
            .filter(|(_, _, trouble)| trouble.is_some());
        let wrongs = outcomes.iter().map(|outcome| outcome.findings.len()).sum::<usize>();
        let all_right = broken.count() == 0 && wrongs == 0;
        let mut text = format!(
            "# Pager bench: {}\n\n{} scenarios on {} stages in {:.0} s; scraped and evaluated \
             every {:.0} s, {} agent(s) where a \
             scenario does not say; Alertmanager's configuration: {}.\n\n",
            if all_right { "every page was right" } else { "NOT RIGHT" },
            outcomes.iter().map(|outcome| outcome.scenarios.len()).sum::<usize>(),
            outcomes.len(),
            took.as_secs_f64(),
            timing.scrape.as_secs_f64(),
            agents,
            timing.routes.origin,
        );
        text.push_str(&totals(outcomes));
        text.push_str(&delays(outcomes));
        text.push_str(
            "\n## Scenarios\n\n\
            | scenario | what must and must not page | came, after it was due (resolved, after it \
            was mended) | wrong |\n|---|---|---|---|\n",
        );
        outcomes.iter().for_each(|outcome| text.push_str(&rows(outcome)));
        text.push_str(&notes(outcomes));
        text.push_str(&texts(outcomes));
        Report { text, all_right }
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }

    pub(super) fn all_right(&self) -> bool {
        self.all_right
    }
}

/// One line of the output of `--list`.
pub(super) fn listed(scenario: &Scenario) -> String {
    let length = if scenario.length == Length::Short { "short" } else { "long" };
    format!("{:<34} {length:<5}  {}", scenario.name, scenario.says)
}

/// What scenarios measured besides alerts.
fn notes(outcomes: &[Outcome]) -> String {
    let mut text = "\n## Besides alerts\n\n".to_owned();
    for note in outcomes.iter().flat_map(|outcome| &outcome.notes) {
        let wrong = if note.kept { "" } else { " **WRONG**" };
        let _ = writeln!(text, "- {}: {}{wrong}", note.scenario, note.text);
    }
    text
}

/// What the receiver got of each alert, to be read by somebody who knows nothing else.
fn texts(outcomes: &[Outcome]) -> String {
    let mut text = "\n## Texts, as they arrived\n".to_owned();
    let all: BTreeMap<_, _> = outcomes.iter().flat_map(|outcome| &outcome.texts).collect();
    for (alert, texts) in all {
        // Writing to a string cannot fail.
        let _ = write!(text, "\n### {alert}\n\n");
        for (name, written) in texts {
            let _ = writeln!(text, "- {name}: {written}");
        }
    }
    text
}

fn totals(outcomes: &[Outcome]) -> String {
    let answers = || outcomes.iter().flat_map(|outcome| &outcome.answers);
    let came = answers().filter(|answer| matches!(answer.came, Came::After(_))).count();
    let muted = answers().filter(|answer| answer.came == Came::Muted).count();
    let mut text = format!(
        "{came} of {} expected alerts came, {muted} were muted by others",
        answers().count()
    );
    for wrong in Wrong::ALL {
        let found = outcomes
            .iter()
            .flat_map(|outcome| &outcome.findings)
            .filter(|(_, finding)| finding.wrong == wrong);
        // Writing to a string cannot fail.
        let _ = write!(text, "; {}: {}", wrong.word(), found.count());
    }
    let broken = outcomes
        .iter()
        .flat_map(|outcome| &outcome.scenarios)
        .filter(|(_, _, trouble)| trouble.is_some());
    let _ = writeln!(text, "; could not be played: {}.\n", broken.count());
    text
}

/// The delays of one alert, each with its scenario.
type Delays<'a> = Vec<(Duration, &'a str)>;

fn delays(outcomes: &[Outcome]) -> String {
    let mut by_alert: BTreeMap<&str, Delays> = BTreeMap::new();
    for answer in outcomes.iter().flat_map(|outcome| &outcome.answers) {
        let (name, scenario) = (name(&answer.expected.labels), answer.expected.scenario);
        if let Came::After(delay) = answer.came
            && name != WATCHDOG
        {
            by_alert
                .entry(name)
                .or_default()
                .push((delay, if scenario.is_empty() { CONTROL } else { scenario }));
        }
    }
    let mut text =
        "Seconds from due to reported:\n\n| alert | times | median | max | slowest in |\n\
         |---|---|---|---|---|\n"
            .to_owned();
    let pages = by_alert
        .iter()
        .filter(|(alert, _)| is_page(alert))
        .flat_map(|(_, delays)| delays)
        .copied()
        .collect();
    for (alert, delays) in by_alert.into_iter().chain([("all that page", pages)]) {
        text.push_str(&row_of_delays(alert, delays));
    }
    let promised = outcomes.iter().filter_map(|outcome| outcome.promised).max();
    let promised = promised.map_or("nothing".to_owned(), |promised| {
        format!("at most {:.0} s", promised.as_secs_f64())
    });
    // Writing to a string cannot fail.
    let _ = writeln!(
        text,
        "\n`lockwatch check-config` promises {promised} from the end of the grace to the page."
    );
    text
}

fn row_of_delays(alert: &str, mut delays: Delays) -> String {
    delays.sort();
    let median = delays.get(delays.len() / 2).map_or(0.0, |(delay, _)| delay.as_secs_f64());
    let (max, slowest) =
        delays.last().map_or((0.0, ""), |(delay, scenario)| (delay.as_secs_f64(), *scenario));
    format!("| {alert} | {} | {median:.1} | {max:.1} | {slowest} |\n", delays.len())
}

fn rows(outcome: &Outcome) -> String {
    let mut text = String::new();
    for (name, says, trouble) in &outcome.scenarios {
        let _ = writeln!(
            text,
            "| {name} | {says} | {} | {} |",
            came(outcome, name),
            wrong(outcome, name, trouble.as_deref())
        );
    }
    let _ = writeln!(
        text,
        "| {CONTROL} of {} | a task that is down all the time, another one at the end, the \
         watchdog | {} | {} |",
        outcome.stage,
        came(outcome, ""),
        wrong(outcome, "", None)
    );
    text
}

fn came(outcome: &Outcome, scenario: &str) -> String {
    let answers: Vec<String> = outcome
        .answers
        .iter()
        .filter(|answer| answer.expected.scenario == scenario)
        .map(one)
        .collect();
    if answers.is_empty() { "nothing, as it must be".to_owned() } else { answers.join("; ") }
}

fn one(answer: &Answer) -> String {
    let name = name(&answer.expected.labels).trim_start_matches("Lockwatch");
    match (answer.came, answer.resolved_after) {
        (Came::Not, _) => format!("{name} did not come"),
        (Came::Muted, _) => format!("{name} was muted"),
        (Came::After(delay), None) => format!("{name} {:.1} s", delay.as_secs_f64()),
        (Came::After(delay), Some(resolved)) => {
            format!("{name} {:.1} s ({:.1} s)", delay.as_secs_f64(), resolved.as_secs_f64())
        }
    }
}

fn wrong(outcome: &Outcome, scenario: &str, trouble: Option<&str>) -> String {
    let findings =
        outcome.findings.iter().filter(|(owner, _)| owner == scenario).map(|(_, finding)| finding);
    let mut texts: Vec<String> = findings.map(reported).collect();
    let more = texts.len().saturating_sub(FINDINGS_SHOWN);
    texts.truncate(FINDINGS_SHOWN);
    texts.extend((more > 0).then(|| format!("and {more} more")));
    texts.extend(trouble.map(|why| format!("**could not be played**: {}", why.replace('\n', " "))));
    texts.join("; ")
}

fn reported(finding: &Finding) -> String {
    let about = finding
        .labels
        .get("task")
        .or(finding.labels.get("store"))
        .or(finding.labels.get("instance"));
    let about = about.map_or(String::new(), |about| format!(" of {about}"));
    format!("**{}**: {}{about} {}", finding.wrong.word(), name(&finding.labels), finding.text)
}

fn name(labels: &Labels) -> &str {
    labels.get("alertname").map_or("", String::as_str)
}
