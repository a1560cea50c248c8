//! Formats the results of a replay as text or JSON.

use std::fmt::Write as _;

use lockwatch_judge::time::AgentWall;
use serde_json::{Value, json};

use super::chronicle::Story;
use super::difference::{self, Difference};
use super::pager::{Span, SpanKind};
use super::section::{Hole, Section};
use crate::text::identity::escape;
use crate::text::instants::{rfc3339, seconds};

/// The delays that are not part of an alert's instant.
const ON_TOP: &str = "scrape, evaluation and group_wait come on top";

/// The results of one run as text.
pub(super) fn text(section: &Section) -> String {
    let mut text = String::new();
    head(section, &mut text);
    for hole in &section.holes {
        line(&mut text, &format!("  {}", hole_words(hole)));
    }
    for (name, story) in &section.as_configured.redises {
        line(&mut text, &format!("\nstore {}", escape(name.as_bytes())));
        write(story, &mut text);
    }
    for (name, story) in &section.as_configured.tasks {
        line(&mut text, &format!("\ntask {} ({})", escape(name.as_bytes()), story.about));
        write(story, &mut text);
    }
    if let Some(changed) = &section.changed {
        line(&mut text, &format!("\nwith {}", section.set.join(", ")));
        let before = text.len();
        for (name, was, would_be) in section.pairs(changed) {
            let differences = differences(was, would_be);
            if !differences.is_empty() {
                line(&mut text, &format!("  {name}"));
            }
            for difference in differences {
                line(&mut text, &format!("    {}", difference_words(&difference)));
            }
        }
        if text.len() == before {
            line(
                &mut text,
                "  nothing differs: the same verdicts and the same pages, at the same times",
            );
        }
    }
    text
}

/// The results of one run as JSON.
pub(super) fn json(section: &Section) -> Value {
    let stories = |kind: &str,
                   stories: &std::collections::BTreeMap<std::sync::Arc<str>, Story>|
     -> Vec<Value> {
        stories
            .iter()
            .map(|(name, story)| story_json(kind, &escape(name.as_bytes()), story))
            .collect()
    };
    let mut value = json!({
        "run": section.run,
        "lockwatch": section.lockwatch,
        "files": section.files,
        "from": section.from.map(instant),
        "to": section.to.map(instant),
        "begins_in_the_middle": section.begins_in_the_middle,
        "torn": section.torn,
        "readings": section.readings,
        "holes": section.holes.iter().map(hole_json).collect::<Vec<_>>(),
        "stores": stories("store", &section.as_configured.redises),
        "tasks": stories("task", &section.as_configured.tasks),
    });
    if let (Some(changed), Some(object)) = (&section.changed, value.as_object_mut()) {
        let differences: Vec<Value> = section
            .pairs(changed)
            .flat_map(|(name, was, would_be)| {
                differences(was, would_be)
                    .into_iter()
                    .map(move |difference| difference_json(&name, &difference))
            })
            .collect();
        let with = json!({
            "set": section.set,
            "stores": stories("store", &changed.redises),
            "tasks": stories("task", &changed.tasks),
            "differences": differences,
        });
        object.insert(String::from("changed"), with);
    }
    value
}

fn line(text: &mut String, line: &str) {
    text.push_str(line);
    text.push('\n');
}

fn head(section: &Section, text: &mut String) {
    let (from, to) = (section.from.unwrap_or_default(), section.to.unwrap_or_default());
    line(
        text,
        &format!(
            "run {} of lockwatch {}: {} to {}, {} s, {} readings of tasks in {} file{}",
            section.run,
            section.lockwatch,
            instant(from),
            instant(to),
            length(from, to),
            section.readings,
            section.files.len(),
            if section.files.len() == 1 { "" } else { "s" }
        ),
    );
    if section.begins_in_the_middle {
        line(
            text,
            "  It begins in the middle: from here on; nothing is known of before, not even since \
             when a hold or a gap lasted.",
        );
    }
    if section.torn > 0 {
        line(text, "  The last line was not written to its end, and is left out.");
    }
}

fn write(story: &Story, text: &mut String) {
    let mut lines: Vec<(AgentWall, usize, String)> = Vec::new();
    let mut before = None;
    for (span, reason) in story.verdicts.spans.iter().zip(&story.reasons) {
        let from = before.map(|before| format!("{before} -> ")).unwrap_or_default();
        lines.push((span.from, lines.len(), format!("{from}{}: {reason}", span.name)));
        before = Some(span.name);
    }
    for entry in &story.entries {
        lines.push((entry.wall, lines.len(), format!("{}: {}", entry.kind, entry.text)));
    }
    // The verdicts and the events are each sorted already. At equal instants the events come first,
    // because they explain the verdict.
    lines.sort_by_key(|(wall, position, _)| {
        (*wall, std::cmp::Reverse(*position >= story.verdicts.spans.len()), *position)
    });
    for (wall, _, words) in &lines {
        line(text, &format!("  {}  {words}", instant(*wall)));
    }
    if lines.is_empty() {
        line(text, "  nothing happened");
    }
    let left_out = story.left_out + story.verdicts.left_out + story.pages.left_out;
    if left_out > 0 {
        line(text, &format!("  {left_out} more of this were left out"));
    }
    for span in &story.pages.spans {
        line(text, &format!("  {}", page_words(span)));
    }
}

fn page_words(span: &Span) -> String {
    let (verb, more) = match span.kind {
        SpanKind::Warning => ("would warn", ON_TOP),
        SpanKind::HeldBack => ("would have been due, but a pause held it back,", ""),
        SpanKind::Page | SpanKind::Verdict => ("would page", ON_TOP),
    };
    let mut words = format!("{} {verb} {}", span.name, extent(span));
    if !more.is_empty() {
        let _infallible = write!(words, "; {more}");
    }
    words
}

/// `from … to …, 41 s`.
fn extent(span: &Span) -> String {
    match span.to {
        Some(to) => {
            format!("from {} to {}, {} s", instant(span.from), instant(to), length(span.from, to))
        }
        None => format!("from {} on", instant(span.from)),
    }
}

fn instant(wall: AgentWall) -> String {
    rfc3339(wall.0).unwrap_or_else(|| wall.0.to_string())
}

fn length(from: AgentWall, to: AgentWall) -> f64 {
    seconds(u64::try_from(to.0.saturating_sub(from.0)).unwrap_or(0))
}

fn hole_words(hole: &Hole) -> String {
    let extent =
        format!("{} to {}, {} s", instant(hole.from), instant(hole.to), length(hole.from, hole.to));
    match hole.inputs {
        Some(inputs) => format!("A hole: {extent}; {inputs} inputs are missing."),
        None => format!("A hole: {extent}; a file is missing."),
    }
}

fn hole_json(hole: &Hole) -> Value {
    json!({"from": instant(hole.from), "to": instant(hole.to), "seconds": length(hole.from, hole.to), "inputs": hole.inputs})
}

fn differences(was: &Story, would_be: &Story) -> Vec<Difference> {
    let mut all = difference::between(&was.verdicts.spans, &would_be.verdicts.spans);
    all.extend(difference::between(&was.pages.spans, &would_be.pages.spans));
    all.sort_by_key(|difference| (difference.span().from, difference.span().kind));
    all
}

fn difference_words(difference: &Difference) -> String {
    match difference {
        Difference::Gone(span) => format!("gone: {} {}", span_name(span), extent(span)),
        Difference::New(span) => format!("new: {} {}", span_name(span), extent(span)),
        Difference::Moved { was, would_be } => {
            let mut moves = Vec::new();
            if was.from != would_be.from {
                moves.push(format!("begins {}", shift(was.from, would_be.from)));
            }
            match (was.to, would_be.to) {
                (Some(old), Some(new)) if old != new => {
                    moves.push(format!("ends {}", shift(old, new)))
                }
                (Some(old), None) => {
                    moves.push(format!("does not end (it ended {})", instant(old)))
                }
                (None, Some(new)) => moves.push(format!("ends {} (it did not)", instant(new))),
                _ => {}
            }
            format!("{} {}: {}", span_name(was), extent(was), moves.join(", "))
        }
    }
}

fn span_name(span: &Span) -> String {
    match span.kind {
        SpanKind::Verdict => span.name.to_owned(),
        SpanKind::Page => format!("the page {}", span.name),
        SpanKind::HeldBack => format!("the page {}, held back by a pause,", span.name),
        SpanKind::Warning => format!("the warning {}", span.name),
    }
}

fn shift(old: AgentWall, new: AgentWall) -> String {
    let word = if new > old { "later" } else { "earlier" };
    format!("{} s {word}", seconds(new.0.abs_diff(old.0)))
}

fn kind_name(kind: SpanKind) -> &'static str {
    match kind {
        SpanKind::Verdict => "verdict",
        SpanKind::Page => "page",
        SpanKind::HeldBack => "page_held_back",
        SpanKind::Warning => "warning",
    }
}

fn span_json(span: &Span) -> Value {
    json!({
        "kind": kind_name(span.kind),
        "name": span.name,
        "from": instant(span.from),
        "to": span.to.map(instant),
        "seconds": span.to.map(|to| length(span.from, to)),
    })
}

fn story_json(kind: &str, name: &str, story: &Story) -> Value {
    let verdict = |(span, reason): (&Span, &String)| {
        let mut value = span_json(span);
        if let Some(object) = value.as_object_mut() {
            object.insert(String::from("reason"), json!(reason));
        }
        value
    };
    json!({
        kind: name,
        "verdicts": story.verdicts.spans.iter().zip(&story.reasons).map(verdict).collect::<Vec<_>>(),
        "events": story.entries.iter().map(|entry| json!({
            "time": instant(entry.wall), "event": entry.kind, "message": entry.text,
        })).collect::<Vec<_>>(),
        "pages": story.pages.spans.iter().map(span_json).collect::<Vec<_>>(),
        "left_out": story.left_out + story.verdicts.left_out + story.pages.left_out,
    })
}

fn difference_json(name: &str, difference: &Difference) -> Value {
    let (what, was, would_be) = match difference {
        Difference::Gone(span) => ("gone", Some(span), None),
        Difference::New(span) => ("new", None, Some(span)),
        Difference::Moved { was, would_be } => ("moved", Some(was), Some(would_be)),
    };
    json!({"of": name, "difference": what, "was": was.map(span_json), "would_be": would_be.map(span_json)})
}
