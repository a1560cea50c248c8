//! A task as one row of the table: a stable part, and a part that renewals and time change.

use std::sync::Arc;

use lockwatch_judge::input::Role;
use lockwatch_judge::problems::of_task;
use lockwatch_judge::reading::Holder;
use lockwatch_judge::snapshot::{TaskView, WitnessView};
use lockwatch_judge::time::AgentWall;
use lockwatch_judge::verdict::{Rule, Verdict};

use super::facts::{subject, write_line};
use super::html::{self, Exact, Text};
use super::moving::{Markup, Moment};
use super::pulse::{Pulse, present};
use super::words::lasted;
use crate::alerts::firing;
use crate::api::Task;
use crate::outputs::describe::{self, Line};
use crate::outputs::json;
use crate::paths::{self, segment};
use crate::published::Published;
use crate::text::identity::{escape, holder_label, list};

/// Columns of the table of tasks.
pub(super) const COLUMNS: [&str; 9] = [
    "Task",
    "Verdict",
    "Why",
    "Holder",
    "Held for",
    "Lease left",
    "Wanted by",
    "Progress",
    "Last handover, outage",
];

/// Maximum number of holders or users named in a cell.
const NAMED_MAX: usize = 4;

/// The stable part of a row. It compares equal as long as only time and renewals have passed.
#[derive(Clone, Debug, PartialEq, Hash)]
pub(in crate::outputs) struct Row {
    markup: Markup,
}

impl Row {
    pub(in crate::outputs) fn of(published: &Published, view: &TaskView) -> Row {
        let task = json::row(published, view);
        let subject = subject(published, view, &task);
        let line = |markup: &mut Markup, line: Option<Line>| {
            write_line(markup, published, view, line.iter().flatten());
        };
        let cells: [&dyn Fn(&mut Markup); 8] = [
            &|markup| write_verdict(markup, published, view),
            &|markup| write_why(markup, published, view, &task),
            &|markup| write_holders(markup, view, &task),
            &|markup| line(markup, describe::held(subject)),
            &|markup| line(markup, describe::lease(&task)),
            &|markup| line(markup, Some(describe::wanted(subject, NAMED_MAX))),
            &|markup| line(markup, describe::progress(&task).map(|part| vec![part])),
            &|markup| write_past(markup, published, view),
        ];
        let mut markup = Markup::default();
        write_head(&mut markup, view);
        for (column, write) in COLUMNS.iter().skip(1).zip(cells) {
            markup.format(format_args!("<td data-label=\"{column}\">"));
            write(&mut markup);
            markup.html("</td>");
        }
        markup.html("</tr>");
        Row { markup }
    }

    /// One whole `<tr>` as of `now`. Without that, the script fills in the texts that depend on
    /// time.
    pub(in crate::outputs) fn html(&self, pulse: &Pulse, now: Option<AgentWall>) -> String {
        let mut html = String::from("<tr");
        self.markup.write(&mut html, pulse, now);
        html
    }

    /// Its text, without markup and without the texts that depend on time.
    pub(super) fn words(&self) -> String {
        let cells = self.markup.still().split_once('>').map_or("", |(_attributes, cells)| cells);
        html::words(cells)
    }

    /// The same as [`Row::html`], hidden: for the script, which filters by itself.
    pub(super) fn hidden(&self, pulse: &Pulse, now: Option<AgentWall>) -> String {
        let mut html = String::from("<tr hidden");
        self.markup.write(&mut html, pulse, now);
        html
    }
}

/// The position of a verdict, worst first.
pub(super) fn rank(verdict: Verdict) -> usize {
    Verdict::ALL.iter().position(|one| *one == verdict).unwrap_or(Verdict::ALL.len())
}

/// The row's own attributes and its first cell.
fn write_head(markup: &mut Markup, view: &TaskView) {
    let (spec, verdict) = (&view.spec, view.verdict);
    markup.format(format_args!(
        " data-task=\"{}\" data-verdict=\"{}\" data-rank=\"{}\" data-redis=\"{}\" \
         data-labels=\"{}\">",
        Exact(&spec.name),
        verdict.name(),
        rank(verdict),
        Exact(&view.store),
        Text(&encoded_labels(&spec.labels)),
    ));
    markup.format(format_args!("<th scope=\"row\"><a href=\"{}\">", paths::PAGE.of(&spec.name)));
    markup
        .text(&escape(spec.name.as_bytes()))
        .html("</a> <small>")
        .text(&escape(view.store.as_bytes()));
    for (_, value) in spec.labels.iter().filter(|(_, value)| !value.is_empty()) {
        markup.html(" · ").text(&escape(value.as_bytes()));
    }
    markup.html("</small></th>");
}

/// The labels, encoded as a form sends them.
fn encoded_labels(labels: &[(Arc<str>, Arc<str>)]) -> String {
    labels
        .iter()
        .map(|(name, value)| format!("{}={}", segment(name), segment(value)))
        .collect::<Vec<_>>()
        .join("&")
}

pub(super) fn write_verdict(markup: &mut Markup, published: &Published, view: &TaskView) {
    markup.format(format_args!("<strong class=\"verdict\">{}</strong>", view.verdict.name()));
    // Before the first judgement there is no duration.
    if view.rule != &Rule::NOTHING_YET {
        markup
            .html(" <small>for ")
            .since(Moment::of(published, view.verdict_since))
            .html("</small>");
    }
    if view.paused == Some(true) {
        markup.html(" <small class=\"mark\">pages paused</small>");
    }
}

fn write_why(markup: &mut Markup, published: &Published, view: &TaskView, task: &Task) {
    markup.text(&task.reason);
    write_alerts(markup, published, view);
    if task.lock_only {
        markup.html(" <a class=\"mark\" href=\"#lock-only\">lock only</a>");
    }
}

/// The alerts that fire for what this agent sees.
fn write_alerts(markup: &mut Markup, published: &Published, view: &TaskView) {
    for alert in firing(&of_task(view, published.snapshot.at, None)) {
        let class = if alert.severity.is_page() { "mark page" } else { "mark" };
        markup.format(format_args!(
            " <small class=\"{class}\" title=\"{}\">{}</small>",
            alert.row.positive, alert.row.alert
        ));
    }
}

/// The holders of the lock and their hosts, and those on servers that report the role master but do
/// not decide; whose turn it is; what is in the queue.
fn write_holders(markup: &mut Markup, view: &TaskView, task: &Task) {
    if let Some(words) = describe::brief(task) {
        markup.html(words);
        return;
    }
    let hold = present(view);
    let own: Vec<&Holder> =
        hold.iter().flat_map(|hold| hold.holders.iter()).map(|(holder, _)| holder).collect();
    let mut parts = Vec::new();
    if let Some(hold) = hold {
        for (position, (holder, host)) in hold.holders.iter().take(NAMED_MAX).enumerate() {
            markup.html(if position > 0 { " " } else { "" });
            write_holder(markup, holder, host);
        }
        let unnamed = hold.holders.iter().len().saturating_sub(NAMED_MAX);
        parts.extend((unnamed > 0).then(|| format!("and {unnamed} more")));
        parts.extend(task.hold().map(describe::mode));
    }
    let witnesses = view.lock().map(|lock| &*lock.rare.witnesses).unwrap_or_default().iter();
    let masters = witnesses.filter(|witness| witness.role == Role::Master);
    parts.extend(masters.filter_map(|WitnessView { node, holders, .. }| {
        let shown: Vec<&Holder> = holders.as_ref()?.iter().collect();
        let names = list(shown.iter().map(|holder| holder_label(holder)), NAMED_MAX);
        (shown != own).then(|| format!("at {}: {names}", escape(node.as_bytes())))
    }));
    parts.retain(|part| !part.is_empty());
    match (view.held, parts.is_empty() && own.is_empty()) {
        (_, false) => markup
            .html(if own.is_empty() || parts.is_empty() { "" } else { " " })
            .text(&parts.join("; ")),
        (Some(false), true) => markup.html("nobody"),
        (_, true) => markup.html("not known"),
    };
}

/// A known host is more useful to people than the id, which then takes at most one line.
fn write_holder(markup: &mut Markup, holder: &Holder, host: Option<&[u8]>) {
    match host {
        Some(host) => {
            markup.html("<span>").text(&escape(host)).html(" <small class=\"id\">");
            markup.text(&holder_label(holder)).html("</small></span>")
        }
        None => markup.html("<span>").text(&holder_label(holder)).html("</span>"),
    };
}

fn write_past(markup: &mut Markup, published: &Published, view: &TaskView) {
    if let Some(past) = view.totals.rare.last_handover {
        markup.format(format_args!("<span>handover {}, ", lasted(past.ms)));
        markup.ago(Moment::of(published, past.at)).html("</span>");
    }
    if let Some(past) = view.totals.rare.last_outage {
        markup.format(format_args!("<span>outage {}, ", lasted(past.ms)));
        markup.ago(Moment::of(published, past.at)).html("</span>");
    }
}

#[cfg(test)]
mod tests {
    use lockwatch_judge::snapshot::Past;
    use lockwatch_judge::time::Mono;

    use super::super::fixture::{free, held, holder, published};
    use super::*;

    fn row(at: u64, view: &TaskView) -> Row {
        Row::of(&published(at), view)
    }

    #[test]
    fn the_same_reading_again_is_the_same_row_however_late_it_is_shown() {
        for (first, again) in [
            (held("a", 1_000, 50_000, 20_000), held("a", 1_000, 51_003, 18_998)),
            (free(50_000), free(51_003)),
            (TaskView { held: None, ..free(50_000) }, TaskView { held: None, ..free(50_000) }),
        ] {
            let past = Some(Past { at: Mono::at(40_000), ms: 700 });
            let [first, again] = [first, again].map(|mut view: TaskView| {
                Arc::make_mut(&mut view.totals).rare.last_handover = past;
                view
            });
            assert_eq!(row(50_010, &first), row(51_017, &again));
            let mut drifted = published(51_017);
            drifted.wall.0 += 900;
            assert_eq!(row(50_010, &first), Row::of(&drifted, &again), "the wall clock drifts");
            drifted.wall.0 += 3_600_000;
            assert_ne!(row(50_010, &first), Row::of(&drifted, &again), "the wall clock was set");
        }
    }

    #[test]
    fn a_renewal_changes_the_pulse_and_not_the_row() {
        let (before, after) = (held("a", 1_000, 50_000, 20_300), held("a", 1_000, 51_000, 29_500));
        let (then, now) = (published(50_010), published(51_010));
        assert_eq!(Row::of(&then, &before), Row::of(&now, &after));
        assert!(Pulse::of(&now, &after).differs(&Pulse::of(&then, &before)));
    }

    #[test]
    fn a_lease_that_runs_down_changes_nothing() {
        let pulse = |at: u64, view: &TaskView| Pulse::of(&published(at), view);
        let sent = pulse(50_010, &held("a", 1_000, 50_000, 20_000));
        assert_eq!(sent.deadline, Some(AgentWall(1_800_000_070_000)));
        assert!(
            !pulse(51_500, &held("a", 1_000, 51_003, 19_100)).differs(&sent),
            "within the precision of clocks"
        );
        // While the lease is not known, the lifetime observed for this hold is used.
        let unknown_lease = |read_at, ttl_ms| {
            let mut view = held("a", 1_000, read_at, ttl_ms);
            view.lock_mut().unwrap().lease_ms = None;
            view
        };
        let sent = pulse(50_010, &unknown_lease(50_000, 20_000));
        assert_eq!(sent.lease_ms, Some(69_000));
        assert!(!pulse(51_010, &unknown_lease(51_000, 19_000)).differs(&sent));
    }

    #[test]
    fn a_pulse_differs_where_something_comes_or_goes() {
        let some =
            Pulse { deadline: Some(AgentWall(1)), lease_ms: Some(1), progress: Some(AgentWall(1)) };
        for other in [
            Pulse { deadline: None, ..some },
            Pulse { lease_ms: None, ..some },
            Pulse { progress: None, ..some },
            Pulse { progress: Some(AgentWall(301)), ..some },
        ] {
            assert!(some.differs(&other) && other.differs(&some), "{other:?}");
        }
        assert!(!some.differs(&some));
    }

    #[test]
    fn whatever_is_shown_changes_the_row() {
        let base = held("a", 1_000, 50_000, 20_000);
        let changed: [fn(&mut TaskView); 8] = [
            |view| view.verdict = Verdict::Stalled,
            |view| view.verdict_since = Mono::at(7),
            |view| view.wanting.lost_users = [b"anna".to_vec()].into(),
            |view| view.paused = Some(true),
            |view| {
                view.lock_mut().unwrap().hold.as_mut().unwrap().holders =
                    [(holder("a"), None), (holder("b"), None)].into_iter().collect()
            },
            |view| view.lock_mut().unwrap().hold.as_mut().unwrap().held_ms += 5_000,
            |view| view.lock_mut().unwrap().hold.as_mut().unwrap().renewal_overdue_ms = 4_000,
            |view| {
                Arc::make_mut(&mut view.totals).rare.last_outage =
                    Some(Past { at: Mono::at(1), ms: 31_000 });
            },
        ];
        for change in changed {
            let mut view = base.clone();
            change(&mut view);
            assert_ne!(row(50_010, &base), row(50_010, &view));
        }
    }

    #[test]
    fn what_runs_on_is_left_to_the_script_or_written() {
        let (view, published) = (held("a", 1_000, 50_000, 20_000), published(51_000));
        let (row, pulse) = (Row::of(&published, &view), Pulse::of(&published, &view));
        let since = "<time data-since=\"1800000001000\" datetime=\"2027-01-15T08:00:01.000Z\">";
        let live = row.html(&pulse, None);
        assert!(
            live.starts_with("<tr data-task=\"task\" data-verdict=\"running\" data-rank=\"6\""),
            "{live}"
        );
        assert!(live.contains(&format!("at least {since}</time>")), "{live}");
        assert!(
            live.contains("max=\"30000\" value=\"0\"") && live.contains("<span data-left></span>"),
            "{live}"
        );
        let page = row.html(&pulse, Some(published.wall));
        assert!(page.contains(&format!("at least {since}50 s</time>")), "{page}");
        assert!(
            page.contains("value=\"19000\"") && page.contains("<span data-left>19 s</span>"),
            "{page}"
        );
        assert!(row.hidden(&pulse, None).starts_with("<tr hidden data-task="));
    }
}
