//! An explanation as text for a terminal of 100 columns. A pure function, and safe to print
//! whatever its source.

use std::time::Duration;

use super::seen::span;
use super::{Evidence, ExchangeShown, Explanation, NotKnown, PageDue, RuleGave};
use crate::outputs::cause::joined;
use crate::text::identity::harmless;

/// Maximum columns of a line, if it can be broken.
const COLUMNS: usize = 96;

/// The whole explanation.
pub fn text(explanation: &Explanation) -> String {
    let mut page = Text::default();
    let Explanation { task, store, verdict, .. } = explanation;
    let since = match (&explanation.verdict_since, explanation.verdict_age_seconds) {
        (Some(since), Some(age)) => format!(", since {since} ({})", duration(age)),
        _ => String::new(),
    };
    page.line(&format!("{task} on store {store}: {}{since}", verdict.to_uppercase()));
    page.item("", &explanation.reason);
    explanation.notes.iter().for_each(|note| page.item("Note: ", note));

    page.heading("What decided");
    explanation.deciding.iter().for_each(|line| page.item("- ", line));

    page.heading("Evidence");
    explanation.evidence.iter().for_each(|evidence| page.evidence(evidence));

    page.heading("Rules, in their order; the first that applies decides");
    explanation.rules.iter().for_each(|rule| page.rule(rule));
    if explanation.rules.is_empty() {
        page.item("", "None was considered yet.");
    }

    page.heading("Critical alerts");
    explanation.pages.iter().for_each(|due| page.due(due));
    page.worst(explanation);

    page.heading("Configuration that matters");
    for setting in &explanation.configuration {
        let mark = if setting.default { "    # the default" } else { "" };
        page.line(&format!("  {}{mark}", setting.line));
    }

    page.heading("Commands and replies");
    let trace = &explanation.trace;
    trace.nothing_because.iter().for_each(|why| page.item("", why));
    trace.exchanges.iter().for_each(|exchange| page.exchange(exchange));
    page.text
}

#[derive(Default)]
struct Text {
    text: String,
}

impl Text {
    fn line(&mut self, line: &str) {
        self.text.push_str(harmless(line).trim_end());
        self.text.push('\n');
    }

    fn heading(&mut self, heading: &str) {
        self.text.push('\n');
        self.line(heading);
    }

    /// A paragraph, indented, its first line after `label`.
    fn item(&mut self, label: &str, paragraph: &str) {
        self.labelled(&format!("  {label}"), paragraph);
    }

    /// A paragraph that begins after `label`, with its other lines aligned below its first word.
    fn labelled(&mut self, label: &str, paragraph: &str) {
        let (label, paragraph) = (harmless(label), harmless(paragraph));
        let margin = " ".repeat(label.chars().count());
        let mut line = label;
        let mut is_empty = true;
        for word in paragraph.split(' ') {
            let length = line.chars().count() + 1 + word.chars().count();
            if !is_empty && length > COLUMNS {
                self.line(&line);
                line.clone_from(&margin);
                is_empty = true;
            }
            if !is_empty {
                line.push(' ');
            }
            line.push_str(word);
            is_empty = false;
        }
        self.line(&line);
    }

    fn evidence(&mut self, evidence: &Evidence) {
        let Evidence { of, node, age_seconds, says, unknown } = evidence;
        let from = match (node, age_seconds) {
            (Some(node), Some(age)) => format!(" [{node}, {} ago]", duration(*age)),
            (Some(node), None) => format!(" [{node}]"),
            (None, Some(age)) => format!(" [{} ago]", duration(*age)),
            (None, None) => String::new(),
        };
        self.labelled(&format!("  {of:<9} "), &format!("{says}{from}"));
        unknown.iter().for_each(|why| self.labelled("            ", &not_known(why)));
    }

    fn rule(&mut self, rule: &RuleGave) {
        let mark = if rule.gave.is_some() { "*" } else { " " };
        let gave = rule.gave.as_ref().map(|verdict| format!(" -> {verdict}")).unwrap_or_default();
        // For a rule that does not apply, the conditions that do not hold are enough.
        let shown =
            rule.conditions.iter().filter(|condition| condition.holds == rule.gave.is_some());
        let parts: Vec<&str> = shown.map(|condition| condition.says.as_str()).collect();
        let no = if rule.gave.is_some() { "" } else { "no: " };
        self.labelled(
            &format!("{mark} {:<20} ", rule.rule),
            &format!("{no}{}{gave}", parts.join("; ")),
        );
    }

    fn due(&mut self, page: &PageDue) {
        let PageDue {
            alert,
            measure,
            value_seconds,
            threshold_seconds,
            finding,
            because,
            since,
            due,
            due_in_seconds,
            paused,
        } = page;
        let is_above = value_seconds.is_some_and(|value| value > *threshold_seconds);
        let sign = if is_above { ">" } else { "<=" };
        let value = match value_seconds {
            Some(value) => format!("{measure} {value:.1} {sign} {threshold_seconds}"),
            None => format!("{measure} not known, threshold {threshold_seconds}"),
        };
        let when = match (due, due_in_seconds) {
            (true, _) => match since {
                Some(since) => format!(": due since {since}"),
                None => ": due".to_owned(),
            },
            (false, Some(left)) => format!(": in {} if nothing changes", duration(*left)),
            (false, None) => String::new(),
        };
        let paused = if *paused { ", but paused" } else { "" };
        let so = match finding.as_str() {
            "positive" => "Active: ",
            "negative" => "Evidence against it: ",
            _ => "",
        };
        let text = format!("{value}{when}{paused}. {so}{because}");
        self.labelled(&format!("  {alert:<21} "), &text);
    }

    fn worst(&mut self, explanation: &Explanation) {
        let worst = &explanation.time_to_page;
        let down = worst
            .down_after_seconds
            .map(|seconds| format!("down after {} at worst", duration(seconds)));
        let crash =
            worst.from_crash_seconds.map(|seconds| format!("{} from a crash", duration(seconds)));
        let times: Vec<String> = down.into_iter().chain(crash).collect();
        let times =
            if times.is_empty() { String::new() } else { format!("{}: ", times.join(", ")) };
        self.item("", &format!("{times}{}", worst.says));
    }

    fn exchange(&mut self, exchange: &ExchangeShown) {
        let ExchangeShown { node, asked, round, age_seconds, took_seconds, .. } = exchange;
        let asked = match asked.as_str() {
            "beside" => "for the other keys",
            "witness" => "as a witness",
            _ => "as the one that decides",
        };
        let (age, took) = (duration(*age_seconds), took_seconds * 1_000.0);
        self.item(
            "",
            &format!("{node}, read {asked}, round {round}, {age} ago, reply in {took:.0} ms:"),
        );
        for said in &exchange.commands {
            self.line(&format!("    > {}", said.command));
            said.reply.iter().for_each(|line| self.line(&format!("      {line}")));
            if said.reply.is_empty() {
                self.line("      (no reply)");
            }
        }
        let worth = match (&exchange.role, &exchange.server_time, &exchange.refused) {
            (_, _, Some(why)) => format!("Not accepted: {}", not_known(why)),
            (Some(role), Some(time), None) => {
                format!("Accepted: after its replies it reported role {role}; its clock: {time}.")
            }
            _ => "Accepted.".to_owned(),
        };
        self.labelled("    ", &worth);
        match &exchange.reading {
            Some(parts) => parts
                .iter()
                .for_each(|part| self.labelled(&format!("    = {}: ", part.of), &part.says)),
            None if exchange.refused.is_none() => self.line("    Another round had to follow."),
            None => {}
        }
    }
}

fn not_known(why: &NotKnown) -> String {
    match &why.said {
        Some(said) => format!("{}: {}", why.reason, joined(said, &why.remedy)),
        None => format!("{}. {}", why.reason, why.remedy),
    }
}

fn duration(seconds: f64) -> String {
    let known = Duration::try_from_secs_f64(seconds).ok();
    let ms = known.and_then(|duration| u64::try_from(duration.as_millis()).ok());
    ms.map_or_else(|| "an unknown time".to_owned(), span)
}
