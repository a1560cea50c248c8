//! What a drill may do to other alerts, and they to it, before it begins. Labels are compared;
//! which route an alert takes is not worked out.

use super::alertmanager::{Known, shown_alert};
use super::hop::listed;
use super::prometheus::ALERT;
use crate::chain::config::RouteConfig;
use crate::chain::{Labels, ReceivedAlert};
use crate::text::durations::duration_text;

/// What is said before a drill begins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Before {
    /// Why it should not begin: what fires now and has to do with it.
    pub(super) refusals: Vec<String>,
    /// What it may delay or mute that begins meanwhile.
    pub(super) warnings: Vec<String>,
}

/// `alert`: the labels that its alert will have. `lasts`: how long it fires at most.
pub(super) fn before(alert: &Labels, all: &[Known], lasts: &str) -> Before {
    let mut before = Before::default();
    for known in all {
        before.earlier(alert, known);
        before.groups(alert, known);
        before.inhibitions(alert, known, lasts);
    }
    // Those of a cluster have the same.
    before.refusals.sort();
    before.refusals.dedup();
    before.warnings.sort();
    before.warnings.dedup();
    before
}

fn value<'a>(labels: &'a Labels, name: &str) -> &'a str {
    labels.get(name).map_or("", String::as_str)
}

impl Before {
    /// It could not be distinguished from the new one.
    fn earlier(&mut self, alert: &Labels, known: &Known) {
        let groups = known.look.iter().flat_map(|look| &look.groups);
        let is_same = |other: &ReceivedAlert| {
            ["alertname", "drill"]
                .iter()
                .all(|name| value(&other.labels, name) == value(alert, name))
        };
        if groups.flat_map(|group| &group.alerts).any(is_same) {
            self.refusals.push(format!(
                "the alert of an earlier drill of {} has not ended at {}: wait until it has",
                value(alert, "drill"),
                known.url
            ));
        }
    }

    fn groups(&mut self, alert: &Labels, known: &Known) {
        let Some(config) = &known.config else { return };
        let ours = |name: &str| value(alert, name);
        let may_join = |route: &&RouteConfig| !route.groups_by("drill") && route.may_take(ours);
        let routes: Vec<_> = config.notifying().filter(may_join).collect();
        for group in known.look.iter().flat_map(|look| &look.groups) {
            let of_group = routes.iter().find(|route| {
                let has = |name: &String| route.group_by.contains(name);
                let same = |name: &String| value(alert, name) == value(&group.labels, name);
                route.receiver == group.receiver.name
                    && group.labels.keys().all(has)
                    && route.group_by.iter().all(same)
            });
            if let (Some(route), Some(first)) = (of_group, group.alerts.first()) {
                self.refusals.push(format!(
                    "the drill may join a group that fires now, with {} (receiver {}), and would \
                     delay what it reports for {}: `group_by` of that route lacks `drill`",
                    shown_alert(&first.labels),
                    group.receiver.name,
                    duration_text(route.group_interval_ms)
                ));
            }
        }
        let longest = routes.iter().map(|route| route.group_interval_ms).max();
        if let Some(longest) = longest {
            let receivers = routes.iter().map(|route| &route.receiver);
            self.warnings.push(format!(
                "{ALERT} of another task that begins meanwhile may be reported up to {} later, if \
                 its route is one of {}: `group_by` lacks `drill` there",
                duration_text(longest),
                listed(receivers)
            ));
        }
    }

    fn inhibitions(&mut self, alert: &Labels, known: &Known, lasts: &str) {
        let Some(config) = &known.config else { return };
        let ours = |name: &str| value(alert, name);
        let groups = known.look.iter().flat_map(|look| &look.groups);
        let firing: Vec<&ReceivedAlert> = groups.flat_map(|group| &group.alerts).collect();
        for rule in &config.inhibit_rules {
            for other in &firing {
                let theirs = |name: &str| value(&other.labels, name);
                if rule.mutes(theirs, ours) {
                    self.refusals.push(format!(
                        "the drill would be inhibited: muted by {}, which fires now, and so would \
                         be a real alert with these labels",
                        shown_alert(&other.labels)
                    ));
                }
                if rule.mutes(ours, theirs) {
                    self.refusals.push(format!(
                        "the drill would mute {}, which fires now",
                        shown_alert(&other.labels)
                    ));
                }
            }
            if let Some(equal) = rule.mutes_others(ours) {
                self.warnings.push(format!(
                    "while it fires, for {lasts} at most, an inhibition mutes others that have the \
                     same {}: add drill=\"\" to its `source_matchers`",
                    if equal.is_empty() { "target_matchers".to_owned() } else { equal.join(", ") }
                ));
            }
        }
    }
}
