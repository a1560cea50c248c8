//! The list of all tasks, worst first.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::iter;
use std::sync::Arc;

use lockwatch_judge::snapshot::TaskView;
use lockwatch_judge::verdict::Verdict;

use super::html::{Exact, Text};
use super::pulse::Pulse;
use super::query::{Group, ListQuery};
use super::row::{COLUMNS, Row, rank};
use super::shell::{Around, Shell};
use super::stores;
use crate::paths::LANDING;
use crate::published::Published;
use crate::text::identity::escape;

/// Maximum number of tasks on the page.
const ROWS_MAX: usize = 2_000;
/// Rows per piece. Each client that does not read keeps one piece in memory.
const ROWS_PER_PIECE: usize = 8;

/// A part of the table's body.
enum Chunk {
    Html(String),
    Row { task: Arc<TaskView>, hidden: bool },
}

/// A task, and whether its row is hidden.
type Shown<'a> = (&'a Arc<TaskView>, bool);

/// The page in pieces, so that a long one is never in memory as a whole.
pub(super) fn pieces(
    published: Arc<Published>,
    query: &ListQuery,
    around: Around<'_>,
) -> impl Iterator<Item = String> + Send + use<> {
    let shell =
        Shell { published: &published, around, task: None, title: "lockwatch", main: "main" };
    let (parts, matching) = body(&published, query);
    let mut head = shell.before();
    write_before(&mut head, &published, query, matching);
    let mut tail = String::from("</table>");
    write_after(&mut tail, &published, matching);
    tail.push_str(&shell.after());
    let mut parts = parts.into_iter();
    let rows = iter::from_fn(move || {
        let piece: String =
            parts.by_ref().take(ROWS_PER_PIECE).map(|part| part.html(&published)).collect();
        (!piece.is_empty()).then_some(piece)
    });
    iter::once(head).chain(rows).chain(iter::once(tail))
}

impl Chunk {
    fn html(self, published: &Published) -> String {
        match self {
            Chunk::Html(html) => html,
            Chunk::Row { task, hidden } => {
                let (row, pulse, now) =
                    (Row::of(published, &task), Pulse::of(published, &task), Some(published.wall));
                if hidden { row.hidden(&pulse, now) } else { row.html(&pulse, now) }
            }
        }
    }
}

/// The parts of the table's body, and the number of tasks that match. Other tasks follow as hidden
/// rows while there is room, so that the script can change the filter without a request.
fn body(published: &Published, query: &ListQuery) -> (Vec<Chunk>, usize) {
    let mut matching: Vec<&Arc<TaskView>> = Vec::new();
    let mut others: Vec<&Arc<TaskView>> = Vec::new();
    for task in &published.snapshot.tasks {
        let matches = query.takes(task, || Row::of(published, task).words());
        if matches { matching.push(task) } else { others.push(task) }
    }
    let count = matching.len();
    let worst_first = |task: &&Arc<TaskView>| (rank(task.verdict), Arc::clone(&task.spec.name));
    matching.sort_by_cached_key(worst_first);
    others.sort_by_cached_key(worst_first);
    let shown = matching
        .into_iter()
        .map(|task| (task, false))
        .chain(others.into_iter().map(|task| (task, true)));
    // Tasks without the label come last.
    let mut groups: BTreeMap<(bool, &str), Vec<Shown<'_>>> = BTreeMap::new();
    for (task, hidden) in shown.take(ROWS_MAX) {
        let group = query.group.of(task);
        groups.entry((group.is_empty(), group)).or_default().push((task, hidden));
    }
    let mut parts = Vec::new();
    for ((_, group), mut tasks) in groups {
        tasks.sort_by_cached_key(|(task, _)| worst_first(task));
        parts.push(Chunk::Html(opening(&query.group, group, &tasks)));
        parts.extend(
            tasks.into_iter().map(|(task, hidden)| Chunk::Row { task: Arc::clone(task), hidden }),
        );
        parts.push(Chunk::Html(String::from("</tbody>")));
    }
    if parts.is_empty() {
        parts.push(Chunk::Html(String::from("<tbody data-group=\"\"></tbody>")));
    }
    (parts, count)
}

fn opening(by: &Group, group: &str, tasks: &[Shown<'_>]) -> String {
    let mut html = format!("<tbody data-group=\"{}\">", Exact(group));
    if *by != Group::None {
        let shown = tasks.iter().filter(|(_, hidden)| !hidden).count();
        let hidden = if shown == 0 { " hidden" } else { "" };
        let name = if group.is_empty() { "none".into() } else { escape(group.as_bytes()) };
        // Writing to a `String` cannot fail.
        let _ = write!(
            html,
            "<tr data-heading{hidden}><th colspan=\"{}\" scope=\"rowgroup\">{}: {} \
             <small>{}</small></th></tr>",
            COLUMNS.len(),
            Text(&escape(by.title().as_bytes())),
            Text(&name),
            counted(shown)
        );
    }
    html
}

fn counted(tasks: usize) -> String {
    if tasks == 1 { String::from("1 task") } else { format!("{tasks} tasks") }
}

fn write_before(html: &mut String, published: &Published, query: &ListQuery, matching: usize) {
    html.push_str("<main id=\"main\" tabindex=\"-1\"><h1>Tasks</h1>");
    write_counts(html, published);
    write_filter(html, published, query);
    let more = matching.saturating_sub(ROWS_MAX);
    if more > 0 {
        let _ = write!(
            html,
            "<p id=\"more\" class=\"note\">These are the {ROWS_MAX} worst; {} more match. The \
             filter finds them.</p>",
            counted(more)
        );
    }
    html.push_str("<table id=\"tasks\"><caption>All tasks, worst first</caption><thead><tr>");
    for column in COLUMNS {
        let _ = write!(html, "<th scope=\"col\">{column}</th>");
    }
    html.push_str("</tr></thead>");
}

fn write_after(html: &mut String, published: &Published, matching: usize) {
    let nothing = if published.snapshot.tasks.is_empty() {
        "No tasks are configured."
    } else {
        "No task matches."
    };
    let hidden = if matching > 0 { " hidden" } else { "" };
    let _ = write!(html, "<p id=\"none\" class=\"note\"{hidden}>{nothing}</p>");
    html.push_str(
        "<p id=\"lock-only\" class=\"note\"><span class=\"mark\">lock only</span> beside a task: \
         a stuck worker would look \
         healthy, because neither <code>progress</code> nor <code>claims</code> are configured \
         for it.</p>",
    );
    stores::write(html, published);
    html.push_str("</main>");
}

fn write_counts(html: &mut String, published: &Published) {
    html.push_str("<p id=\"counts\">");
    for verdict in Verdict::ALL {
        let count = published.snapshot.tasks.iter().filter(|task| task.verdict == verdict).count();
        let name = verdict.name();
        let _ = write!(
            html,
            "<a data-count=\"{name}\" href=\"{LANDING}?verdict={name}\">{count} {name}</a> "
        );
    }
    html.push_str("</p>");
}

fn write_filter(html: &mut String, published: &Published, query: &ListQuery) {
    let _ = write!(
        html,
        "<form id=\"filter\" method=\"get\" action=\"{LANDING}\" role=\"search\" aria-label=\"Tasks\">",
    );
    let _ = write!(
        html,
        "<label>Text <input name=\"q\" type=\"search\" value=\"{}\" autocomplete=\"off\"></label>",
        Exact(&query.text)
    );
    let verdicts = Verdict::ALL.map(Verdict::name);
    write_select(
        html,
        ("verdict", "Verdict", "any"),
        &plain(verdicts),
        query.verdict.map(Verdict::name),
    );
    let stores = published.snapshot.stores.iter().map(|store| &*store.spec.name);
    write_select(html, ("redis", "Store", "any"), &plain(stores), query.store.as_deref());
    let mut labels: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (name, value) in published.snapshot.tasks.iter().flat_map(|task| &task.spec.labels) {
        labels.entry(name).or_default().insert(value);
    }
    for (name, values) in &labels {
        let values = values.iter().copied().filter(|value| !value.is_empty());
        write_select(
            html,
            (&format!("label.{name}"), name, "any"),
            &plain(values),
            query.label(name),
        );
    }
    let group = match &query.group {
        Group::None => None,
        Group::Store => Some(String::from("redis")),
        Group::Label(name) => Some(format!("label.{name}")),
    };
    let by_label = labels.keys().map(|name| (format!("label.{name}"), *name));
    let groups: Vec<_> = iter::once((String::from("redis"), "redis")).chain(by_label).collect();
    write_select(html, ("group", "Group by", "nothing"), &groups, group.as_deref());
    let _ = write!(html, "<button>Show</button> <a href=\"{LANDING}\">Reset</a></form>");
}

/// Options whose text is their value.
fn plain<'a>(values: impl IntoIterator<Item = &'a str>) -> Vec<(String, &'a str)> {
    values.into_iter().map(|value| (value.to_owned(), value)).collect()
}

/// A choice among `options`, by value and text, or none of them. A chosen value that is no option
/// any more selects none.
fn write_select(
    html: &mut String,
    (name, title, none): (&str, &str, &str),
    options: &[(String, &str)],
    chosen: Option<&str>,
) {
    let title = escape(title.as_bytes());
    let _ = write!(
        html,
        "<label>{} <select name=\"{}\"><option value=\"\">{none}</option>",
        Text(&title),
        Exact(name)
    );
    for (value, text) in options {
        let selected = if chosen == Some(value) { " selected" } else { "" };
        let text = escape(text.as_bytes());
        let _ =
            write!(html, "<option value=\"{}\"{selected}>{}</option>", Exact(value), Text(&text));
    }
    html.push_str("</select></label>");
}
