//! Compares the notifications with the expectations. Pure.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use super::ledger::{End, Expected, Need};
use crate::stack::{Labels, Notification, Status};

/// Uncertainty of the instant of a fault.
const BLUR: Duration = Duration::from_secs(1);
/// Labels that identify what an alert is about; the others only describe it.
const SUBJECT: [&str; 5] = ["alertname", "task", "store", "job", "instance"];

/// The value of labels that only the targets have: they say nothing of what an alert is about.
pub(super) const OF_TARGETS: &str = "of-targets";

/// One alert from its first notification to the one that resolves it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Period {
    pub(super) labels: Labels,
    pub(super) fired: Instant,
    pub(super) resolved: Option<Instant>,
    /// Notifications that only repeated this one.
    pub(super) repeats: Vec<Instant>,
}

/// The kinds of mistakes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Wrong {
    Missed,
    Late,
    False,
    Misnamed,
    Duplicated,
    WronglyResolved,
    NotResolved,
    /// Something besides alerts is not as promised.
    Broken,
}

impl Wrong {
    pub(super) const ALL: [Wrong; 8] = [
        Wrong::Missed,
        Wrong::False,
        Wrong::Misnamed,
        Wrong::Duplicated,
        Wrong::WronglyResolved,
        Wrong::NotResolved,
        Wrong::Broken,
        Wrong::Late,
    ];

    pub(super) fn word(self) -> &'static str {
        match self {
            Wrong::Missed => "missed",
            Wrong::Late => "late",
            Wrong::False => "false",
            Wrong::Misnamed => "misnamed",
            Wrong::Duplicated => "duplicated",
            Wrong::WronglyResolved => "wrongly resolved",
            Wrong::NotResolved => "not resolved",
            Wrong::Broken => "broken",
        }
    }
}

/// A mistake, for display.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Finding {
    /// The labels of the alert concerned.
    pub(super) labels: Labels,
    pub(super) wrong: Wrong,
    pub(super) text: String,
}

/// The result for an alert that had to come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) expected: Expected,
    pub(super) came: Came,
    /// From the fix to the notification that resolves the alert.
    pub(super) resolved_after: Option<Duration>,
}

/// Whether the alert came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Came {
    /// How long after it was due.
    After(Duration),
    /// Alertmanager inhibited it because of another alert.
    Muted,
    /// It did not come.
    Not,
}

/// All notified periods, by alert.
pub(super) fn periods(notifications: &[Notification]) -> Vec<Period> {
    let mut periods: Vec<Period> = Vec::new();
    for notification in notifications {
        let mut known = Vec::new();
        let mut has_news = false;
        for alert in &notification.alerts {
            let open = periods
                .iter()
                .rposition(|period| period.labels == alert.labels && period.resolved.is_none());
            let open = open.and_then(|at| periods.get_mut(at).map(|period| (at, period)));
            match (alert.status, open) {
                (Status::Firing, None) => {
                    has_news = true;
                    let (labels, fired) = (alert.labels.clone(), notification.received);
                    periods.push(Period { labels, fired, resolved: None, repeats: Vec::new() });
                }
                (Status::Firing, Some((at, _))) => known.push(at),
                (Status::Resolved, Some((_, period))) => {
                    has_news = true;
                    period.resolved = Some(notification.received);
                }
                (Status::Resolved, None) => {}
            }
        }
        // Alertmanager sends the whole group again when one alert of it changes.
        let repeated = if has_news { Vec::new() } else { known };
        for at in repeated {
            if let Some(period) = periods.get_mut(at) {
                period.repeats.push(notification.received);
            }
        }
    }
    periods
}

/// The labels that an alert must have, and no others: beside those of targets, and `problem`, which
/// follows from its name.
fn compared_labels(labels: &Labels) -> Labels {
    let mut labels = labels.clone();
    labels.retain(|name, value| name != "problem" && value != OF_TARGETS);
    labels
}

/// Whether `labels` identify the same subject as `wanted`; other labels may differ.
fn same_subject(labels: &Labels, wanted: &Labels) -> bool {
    SUBJECT
        .iter()
        .all(|name| wanted.get(*name).is_none_or(|value| labels.get(*name) == Some(value)))
}

/// Whether the period fulfils an expectation: the first one not before it was due.
pub(super) fn answers(period: &Period, expected: &Expected) -> bool {
    match expected.need {
        Need::Must { due, .. } => {
            period.fired + BLUR >= due && same_subject(&period.labels, &expected.labels)
        }
        Need::May(when) => {
            when.is_none_or(|(from, to)| (from..=to).contains(&period.fired))
                && same_subject(&period.labels, &expected.labels)
        }
    }
}

/// Judges a stage that ended at `ended` from its notified and its inhibited alerts. Repeats of the
/// alert `repeatable` are intended.
pub(super) fn judge(
    expected: &[Expected],
    periods: &[Period],
    muted: &[Period],
    ended: Instant,
    repeatable: &str,
) -> (Vec<Answer>, Vec<Finding>) {
    let (mut answers_given, mut findings) = (Vec::new(), Vec::new());
    let mut used = BTreeSet::new();
    let mut musts: Vec<(Instant, Instant, &Expected)> = expected
        .iter()
        .filter_map(|entry| match entry.need {
            Need::Must { due, by } => Some((due, by, entry)),
            Need::May(_) => None,
        })
        .collect();
    musts.sort_by_key(|(due, _, _)| *due);
    for (due, by, entry) in musts {
        let fitting = || {
            periods
                .iter()
                .enumerate()
                .filter(|(at, period)| !used.contains(at) && answers(period, entry))
        };
        let found = fitting()
            .find(|(_, period)| period.labels == entry.labels)
            .or_else(|| fitting().next());
        let was_muted = muted.iter().any(|period| same_subject(&period.labels, &entry.labels));
        let mut finding =
            |wrong, text| findings.push(Finding { labels: entry.labels.clone(), wrong, text });
        let Some((at, period)) = found else {
            if was_muted {
                answers_given.push(Answer {
                    expected: entry.clone(),
                    came: Came::Muted,
                    resolved_after: None,
                });
                continue;
            }
            finding(
                Wrong::Missed,
                format!("did not come within {:.0} s", ended.duration_since(due).as_secs_f64()),
            );
            answers_given.push(Answer {
                expected: entry.clone(),
                came: Came::Not,
                resolved_after: None,
            });
            continue;
        };
        used.insert(at);
        let delay = period.fired.saturating_duration_since(due);
        if period.fired > by && !was_muted {
            finding(Wrong::Late, format!("came {:.1} s after it was due", delay.as_secs_f64()));
        }
        if compared_labels(&period.labels) != entry.labels {
            finding(Wrong::Misnamed, format!("has the labels {:?}", period.labels));
        }
        if !period.repeats.is_empty()
            && entry.labels.get("alertname").is_none_or(|name| name != repeatable)
        {
            finding(Wrong::Duplicated, format!("was reported {} times", period.repeats.len() + 1));
        }
        let resolved_after = judge_end(entry.end, period, ended, &mut |wrong, text| {
            // An alert that ends while it is inhibited is never notified as resolved.
            if wrong != Wrong::NotResolved || !was_muted {
                finding(wrong, text);
            }
        });
        answers_given.push(Answer {
            expected: entry.clone(),
            came: Came::After(delay),
            resolved_after,
        });
    }
    let leftover =
        periods.iter().enumerate().filter(|(at, _)| !used.contains(at)).map(|(_, period)| period);
    for period in leftover {
        if let Some((wrong, text)) = judge_unexpected(period, expected) {
            findings.push(Finding { labels: period.labels.clone(), wrong, text });
        }
    }
    (answers_given, findings)
}

fn judge_end(
    end: End,
    period: &Period,
    ended: Instant,
    finding: &mut impl FnMut(Wrong, String),
) -> Option<Duration> {
    let (mended, by) = match end {
        End::Any => return None,
        End::Never => (None, None),
        End::NotBefore(mended) => (Some(mended), None),
        End::Between(mended, by) => (Some(mended), Some(by)),
    };
    match (period.resolved, mended) {
        (Some(_), None) => {
            finding(Wrong::WronglyResolved, "was resolved though nothing was mended".to_owned());
            None
        }
        (Some(resolved), Some(mended)) if resolved + BLUR < mended => {
            let early = (mended - resolved).as_secs_f64();
            finding(
                Wrong::WronglyResolved,
                format!("was resolved {early:.1} s before it was mended"),
            );
            None
        }
        (Some(resolved), Some(mended)) => {
            let after = resolved.saturating_duration_since(mended);
            if by.is_some_and(|by| resolved > by) {
                finding(
                    Wrong::NotResolved,
                    format!("was resolved only {:.1} s after it was mended", after.as_secs_f64()),
                );
            }
            Some(after)
        }
        (None, _) => {
            if by.is_some_and(|by| ended > by) {
                finding(Wrong::NotResolved, "was mended and not resolved".to_owned());
            }
            None
        }
    }
}

fn judge_unexpected(period: &Period, expected: &[Expected]) -> Option<(Wrong, String)> {
    let about_it = || expected.iter().filter(|entry| same_subject(&period.labels, &entry.labels));
    if expected.iter().any(|entry| matches!(entry.need, Need::May(_)) && answers(period, entry)) {
        return None;
    }
    let musts = about_it().filter_map(|entry| match entry.need {
        Need::Must { due, .. } => Some((due, entry.end)),
        Need::May(_) => None,
    });
    for (due, end) in musts {
        let still_true = match end {
            End::Never | End::Any => true,
            End::NotBefore(mended) | End::Between(mended, _) => period.fired < mended,
        };
        if period.fired + BLUR >= due && still_true {
            return Some((Wrong::Duplicated, "came once more".to_owned()));
        }
        if period.fired + BLUR < due {
            let early = (due - period.fired).as_secs_f64();
            return Some((Wrong::False, format!("came {early:.1} s before it was due")));
        }
    }
    Some((Wrong::False, "came, and was not true".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stack::Alert;

    fn labels(alert: &str, task: &str, severity: &str) -> Labels {
        [("alertname", alert), ("task", task), ("severity", severity)]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into()
    }

    fn down() -> Labels {
        labels("Down", "a", "critical")
    }

    /// A small test case with times in seconds.
    struct World {
        zero: Instant,
        reported: Vec<Notification>,
    }

    impl World {
        fn new() -> World {
            World { zero: Instant::now(), reported: Vec::new() }
        }

        fn at(&self, second: u64) -> Instant {
            self.zero + Duration::from_secs(second)
        }

        fn reported(mut self, second: u64, alerts: &[(Status, Labels)]) -> World {
            let alerts = alerts.iter().map(|(status, labels)| Alert {
                status: *status,
                labels: labels.clone(),
                annotations: Labels::new(),
                starts_at: String::new(),
            });
            let (received, alerts) = (self.at(second), alerts.collect());
            let group = Labels::new();
            self.reported.push(Notification {
                received,
                path: "/".to_owned(),
                status: Status::Firing,
                group,
                alerts,
            });
            self
        }

        fn must(&self, due: u64, end: End) -> Expected {
            let need = Need::Must { due: self.at(due), by: self.at(due + 10) };
            Expected { scenario: "x", labels: down(), need, end }
        }

        fn wrongs(&self, expected: &[Expected]) -> Vec<Wrong> {
            let (_, findings) =
                judge(expected, &periods(&self.reported), &[], self.at(1000), "Watchdog");
            findings.iter().map(|finding| finding.wrong).collect()
        }
    }

    #[test]
    fn one_page_in_time_that_is_resolved_when_mended_is_right() {
        let world = World::new()
            .reported(105, &[(Status::Firing, down())])
            .reported(210, &[(Status::Resolved, down())]);
        let mended = End::Between(world.at(200), world.at(220));
        let (answers, findings) =
            judge(&[world.must(100, mended)], &periods(&world.reported), &[], world.at(300), "");
        assert_eq!(findings, []);
        assert_eq!(answers[0].came, Came::After(Duration::from_secs(5)));
        assert_eq!(answers[0].resolved_after, Some(Duration::from_secs(10)));
    }

    #[test]
    fn each_wrong_is_found() {
        let silent = World::new();
        assert_eq!(silent.wrongs(&[silent.must(100, End::Never)]), [Wrong::Missed]);
        let once = |second| World::new().reported(second, &[(Status::Firing, down())]);
        assert_eq!(once(105).wrongs(&[]), [Wrong::False]);
        assert_eq!(
            once(90).wrongs(&[once(0).must(100, End::Never)]).len(),
            2,
            "early: missed and false"
        );
        let late = once(115);
        assert_eq!(late.wrongs(&[late.must(100, End::Never)]), [Wrong::Late]);
        let misnamed =
            World::new().reported(105, &[(Status::Firing, labels("Down", "a", "warning"))]);
        assert_eq!(misnamed.wrongs(&[misnamed.must(100, End::Never)]), [Wrong::Misnamed]);
        let mut leaked = down();
        leaked.insert("instance".to_owned(), "127.0.0.1:1".to_owned());
        let misnamed = World::new().reported(105, &[(Status::Firing, leaked)]);
        assert_eq!(misnamed.wrongs(&[misnamed.must(100, End::Never)]), [Wrong::Misnamed]);
        let twice = once(105).reported(125, &[(Status::Firing, down())]);
        assert_eq!(twice.wrongs(&[twice.must(100, End::Never)]), [Wrong::Duplicated]);
        let resolved = once(105).reported(125, &[(Status::Resolved, down())]);
        assert_eq!(resolved.wrongs(&[resolved.must(100, End::Never)]), [Wrong::WronglyResolved]);
        assert_eq!(
            resolved.wrongs(&[resolved.must(100, End::NotBefore(resolved.at(130)))]),
            [Wrong::WronglyResolved]
        );
        let again = once(105)
            .reported(125, &[(Status::Resolved, down())])
            .reported(130, &[(Status::Firing, down())]);
        assert_eq!(
            again.wrongs(&[again.must(100, End::Never)]),
            [Wrong::WronglyResolved, Wrong::Duplicated]
        );
        let open = once(105);
        assert_eq!(
            open.wrongs(&[open.must(100, End::Between(open.at(200), open.at(220)))]),
            [Wrong::NotResolved]
        );
    }

    #[test]
    fn what_another_alert_keeps_back_is_not_missed() {
        let world = World::new();
        let seen =
            Period { labels: down(), fired: world.at(103), resolved: None, repeats: Vec::new() };
        let (answers, findings) =
            judge(&[world.must(100, End::Never)], &[], &[seen], world.at(300), "");
        assert_eq!((answers[0].came, findings), (Came::Muted, Vec::new()));
    }

    #[test]
    fn a_group_that_grows_repeats_nothing() {
        let other = labels("Down", "b", "critical");
        let world = World::new().reported(105, &[(Status::Firing, down())]);
        let world =
            world.reported(125, &[(Status::Firing, down()), (Status::Firing, other.clone())]);
        let may = Expected { scenario: "x", labels: other, need: Need::May(None), end: End::Any };
        assert_eq!(world.wrongs(&[world.must(100, End::Never), may]), []);
    }
}
