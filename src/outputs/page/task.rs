//! The page of one task: its verdict and the reason, its details, events and configuration.

use std::collections::hash_map::DefaultHasher;
use std::fmt::Write as _;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use lockwatch_judge::event::Subject;
use lockwatch_judge::problems::of_task;
use lockwatch_judge::snapshot::TaskView;

use super::drawing::{Scale, picture, table};
use super::facts;
use super::html::Text;
use super::moving::Markup;
use super::pulse::Pulse;
use super::query::WINDOWS;
use super::row::{self, Row};
use super::settings;
use super::timeline::timeline;
use super::words::limit;
use crate::alerts::{Alert, firing};
use crate::outputs::events::describe;
use crate::outputs::history::Kept;
use crate::outputs::json;
use crate::paths;
use crate::published::Published;
use crate::text::identity::escape;
use crate::text::instants::rfc3339;

/// Maximum number of events on the page.
const EVENTS_MAX: usize = 40;

/// The contents. `events`: those of the task and of its store, oldest first.
pub(super) fn main(
    published: &Published,
    view: &TaskView,
    events: &[Arc<Kept>],
    window_ms: u64,
    switcher: Option<&str>,
) -> String {
    let pulse = Pulse::of(published, view);
    let task = json::task_of(published, view);
    let still = [
        facts::switches(&task),
        write_events(events),
        facts::totals(&task),
        settings::section(published, view),
    ];
    let version = version(published, view, &still);
    let [switches, events_section, totals, settings] = still;
    let name = escape(view.spec.name.as_bytes());
    // Writing to a `String` cannot fail.
    let mut html = format!(
        "<main id=\"task\" tabindex=\"-1\" data-version=\"{version:016x}\" data-verdict=\"{}\" \
         data-rank=\"{}\">",
        view.verdict.name(),
        row::rank(view.verdict)
    );
    let _ = write!(html, "<h1>{}</h1>", Text(&name));
    let mut verdict = Markup::default();
    row::write_verdict(&mut verdict, published, view);
    html.push_str("<p class=\"big\">");
    verdict.write(&mut html, &pulse, Some(published.wall));
    let _ = write!(html, "</p><p class=\"why\">{}</p>", Text(&task.reason));
    write_alerts(&mut html, published, view);
    if task.lock_only {
        html.push_str(
            "<p class=\"note\" id=\"lock-only\"><span class=\"mark\">lock only</span>: a stuck \
             worker would look healthy, \
             because neither <code>progress</code> nor <code>claims</code> are configured.</p>",
        );
    }
    let subject = facts::subject(published, view, &task);
    html.push_str(&facts::section(published, view, &pulse, subject));
    write_timeline(&mut html, published, view, events, window_ms);
    html.push_str(&switches);
    // Not a part of the version: it differs from user to user, and never with time.
    html.push_str(&switcher.map(|user| facts::own_switch(view, user)).unwrap_or_default());
    html.push_str(&facts::servers(task.witnesses.as_deref().unwrap_or_default()));
    html.push_str(&events_section);
    html.push_str(&totals);
    html.push_str(&settings);
    write_links(&mut html, &view.spec.name);
    html.push_str("</main>");
    html
}

/// The alerts that fire for what this agent sees. The list is there without any too: if it came and
/// went, the script would take each section below it for the next one, with its focus and what is
/// open in it.
fn write_alerts(html: &mut String, published: &Published, view: &TaskView) {
    let alerts = firing(&of_task(view, published.snapshot.at, None));
    let hidden = if alerts.is_empty() { " hidden" } else { "" };
    // Writing to a `String` cannot fail.
    let _ = write!(html, "<ul id=\"alerts\"{hidden}>");
    for Alert { row, is_event, severity, .. } in alerts {
        let whom = if severity.is_page() { "page" } else { "warning" };
        let over = if is_event { " It is over." } else { "" };
        let _ = write!(
            html,
            "<li><strong>{}</strong> <small>{whom}</small> {}{over}</li>",
            row.alert,
            Text(row.positive)
        );
    }
    html.push_str("</ul>");
}

/// A hash of everything shown that does not change with time alone.
fn version(published: &Published, view: &TaskView, still: &[String]) -> u64 {
    let mut hasher = DefaultHasher::new();
    Row::of(published, view).hash(&mut hasher);
    still.hash(&mut hasher);
    hasher.finish()
}

fn write_timeline(
    html: &mut String,
    published: &Published,
    view: &TaskView,
    events: &[Arc<Kept>],
    window_ms: u64,
) {
    let timeline =
        timeline(view, events.iter().map(|kept| &kept.event), published.snapshot.at, window_ms);
    let holders = view.hold().into_iter().flat_map(|hold| hold.holders.iter());
    let hosts =
        holders.filter_map(|(holder, host)| Some((holder.client.as_slice(), host?))).collect();
    let scale = Scale { wall: published.wall, hosts };
    html.push_str(
        "<section aria-labelledby=\"timeline\"><h2 id=\"timeline\">Timeline</h2><nav \
        id=\"windows\" aria-label=\"Window of time\">",
    );
    for (word, ms) in WINDOWS {
        let current = if ms == window_ms { " aria-current=\"true\"" } else { "" };
        let _ = write!(html, "<a href=\"?window={word}\"{current}>{}</a> ", limit(ms));
    }
    html.push_str("</nav>");
    html.push_str(&picture(&timeline, &scale));
    html.push_str(
        "<p class=\"legend\">Thin lines: renewals. Dots: ends of gaps. Thick lines: \
        ends of outages. Hatched in grey: not known.</p>",
    );
    html.push_str("<details><summary>The timeline as a table</summary>");
    html.push_str(&table(&timeline, &scale));
    html.push_str("</details></section>");
}

/// The newest events of the task itself, newest first.
fn write_events(events: &[Arc<Kept>]) -> String {
    let own = events.iter().rev().filter(|kept| matches!(kept.event.subject, Subject::Task(_)));
    let own: Vec<&Arc<Kept>> = own.take(EVENTS_MAX).collect();
    let mut html =
        String::from("<section aria-labelledby=\"events\"><h2 id=\"events\">Events</h2>");
    if own.is_empty() {
        html.push_str("<p>None since the agent watches the task.</p></section>");
        return html;
    }
    html.push_str(
        "<table class=\"events\"><caption>The newest events first; times in \
         UTC</caption><thead><tr>\
         <th scope=\"col\">When</th><th scope=\"col\">What</th><th scope=\"col\">Who</th>\
         <th scope=\"col\">Server</th></tr></thead><tbody>",
    );
    for kept in own {
        let line = describe(&kept.event);
        let when = rfc3339(kept.at.0).unwrap_or_default();
        let shown = when.get(..19).map(|text| text.replace('T', " ")).unwrap_or_default();
        let took = line.seconds.map(|seconds| format!(" ({seconds} s)")).unwrap_or_default();
        let remedy = line
            .remedy
            .map(|remedy| format!(" <small>{}</small>", Text(remedy)))
            .unwrap_or_default();
        let _ = write!(
            html,
            "<tr data-level=\"{}\"><th scope=\"row\"><time datetime=\"{when}\">{shown}</time></th>\
             <td data-label=\"What\">{}{took}{remedy}</td><td data-label=\"Who\">{}</td>\
             <td data-label=\"Server\">{}</td></tr>",
            line.level.as_str().to_lowercase(),
            Text(&line.message),
            Text(line.who.as_deref().unwrap_or_default()),
            Text(line.node.as_deref().unwrap_or_default()),
        );
    }
    html.push_str("</tbody></table></section>");
    html
}

fn write_links(html: &mut String, name: &str) {
    let (json, explanation) = (paths::TASK.of(name), paths::EXPLANATION.of(name));
    let badge = paths::BADGE.of(name);
    let _ = write!(
        html,
        "<nav class=\"links\" aria-label=\"This task elsewhere\"><a href=\"{json}\">As JSON</a> \
         <a href=\"{explanation}\">Why, step by step</a> <a href=\"{badge}\">Badge</a></nav>"
    );
}

/// The contents of the page of a task that does not exist.
pub(super) fn missing(name: &str) -> String {
    format!(
        "<main id=\"task\" tabindex=\"-1\"><h1>No such task</h1><p>There is no task called {}; it \
         may have left the \
         configuration. <a href=\"{}\">All tasks</a></p></main>",
        Text(&escape(name.as_bytes())),
        paths::LANDING
    )
}
