//! Builds the complete explanation of one task.

use std::borrow::Cow;

use super::seen::Seen;
use super::{Explanation, alerts, configured, deciding, evidence, exchanges, rules};
use crate::outputs::cause::told;
use crate::outputs::reason::{lock_only, sentence};
use crate::outputs::remark::remarks;
use crate::text::instants::rfc3339;

/// Why the task has its verdict.
pub fn explanation(seen: Seen<'_>) -> Explanation {
    let view = seen.view;
    let since = (!seen.is_once()).then_some(view.verdict_since);
    Explanation {
        task: view.spec.name.to_string(),
        store: view.store.to_string(),
        at: rfc3339(seen.published.wall.0),
        source: if seen.is_once() { "once" } else { "agent" }.to_owned(),
        notes: notes(seen),
        verdict: view.verdict.name().to_owned(),
        verdict_since: since.map(|since| seen.wall(since)),
        verdict_age_seconds: since.map(|since| seen.age_seconds(since)),
        rule: view.rule.name.to_owned(),
        reason: sentence(view),
        deciding: deciding::evidence(seen),
        evidence: evidence::all(seen),
        rules: rules::considered(view),
        pages: alerts::due(seen),
        time_to_page: alerts::worst_time(seen),
        configuration: configured::settings(seen),
        trace: exchanges::shown(seen),
    }
}

fn notes(seen: Seen<'_>) -> Vec<String> {
    let view = seen.view;
    let mut notes = Vec::new();
    if seen.is_once() {
        notes.push(
            "Single reading, without an agent: durations are unknown, so what takes time to see \
             (down, stalled, unwanted, most splits) cannot show."
                .to_owned(),
        );
    }
    if lock_only(view) {
        notes.push(
            "Lock only: a stuck worker would look healthy (neither progress nor claims are \
             configured)."
                .to_owned(),
        );
    }
    notes.extend(remarks(seen.published, view).into_iter().map(Cow::into_owned));
    if view.paused == Some(true) {
        notes.push("Alerts of this task are paused.".to_owned());
    }
    if view.unknown.is_none()
        && let Some(redis) = seen.redis()
        && let Some(why) = redis.unknown
    {
        let cause = told(why, redis.words_of_any(why).as_deref());
        notes.push(format!("Its store cannot be read as a whole: {}. {cause}", why.name()));
    }
    notes
}
