//! The landing page: a plain table of tasks, worst first. No script, nothing from elsewhere.

use std::borrow::Cow;
use std::fmt::{self, Write as _};

use lockwatch_model::input::Role;
use lockwatch_model::reading::Holder;
use lockwatch_model::snapshot::{HoldView, NodeView, RedisView, SwitchView, TaskView, WitnessView};
use lockwatch_model::verdict::Wanted;

use crate::output::clock::rfc3339;
use crate::output::identity::{escape, holder_label, list};
use crate::published::Published;

/// The style sheet.
pub(super) const STYLE: &str = include_str!("style.css");

/// Most tasks on the page.
const ROWS_MAX: usize = 500;
/// Most holders or users named in a cell.
const NAMED_MAX: usize = 4;
/// Columns of the table of tasks.
const COLUMNS: [&str; 9] = ["Task", "Verdict", "Why", "Holder", "Host", "Held for", "TTL", "Wanted", "Last reading"];
/// Columns of the table of redises.
const REDIS_COLUMNS: [&str; 5] = ["Name", "State", "Address", "Role", "What to do"];

/// The page. `stopped` says why it must not be taken for the present, if so.
pub(super) fn page(published: &Published, stopped: Option<&str>) -> String {
    let mut html = String::with_capacity(4096);
    // Writing to a String cannot fail.
    let _ = write_page(&mut html, published, stopped);
    html
}

fn write_page(html: &mut String, published: &Published, stopped: Option<&str>) -> fmt::Result {
    let snapshot = &published.snapshot;
    html.push_str(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><title>lockwatch</title>\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <meta name=\"color-scheme\" content=\"light dark\"><meta http-equiv=\"refresh\" content=\"5\">\
         <link rel=\"stylesheet\" href=\"/style.css\"></head><body><header>",
    );
    write!(html, "<h1>lockwatch <small>{}</small></h1>", env!("CARGO_PKG_VERSION"))?;
    html.push_str(
        "<nav><a href=\"/metrics\">Metrics</a> <a href=\"/api/v1/tasks\">Tasks as JSON</a> \
         <a href=\"/-/healthy\">Health</a> <a href=\"/-/ready\">Readiness</a></nav></header><main>",
    );
    if let Some(sentence) = stopped {
        write!(html, "<p class=\"alarm\">{}</p>", Html(sentence))?;
    }
    let mut tasks: Vec<&TaskView> = snapshot.tasks.iter().map(|task| &**task).collect();
    tasks.sort_by(|one, other| (one.verdict, &one.spec.name).cmp(&(other.verdict, &other.spec.name)));
    write_tasks(html, published, &tasks)?;
    write_redises(html, &snapshot.redises.iter().map(|redis| &**redis).collect::<Vec<_>>())?;
    let made = rfc3339(published.wall.0).unwrap_or_default();
    write!(html, "</main><footer>As of {}</footer></body></html>", Html(&made))
}

fn write_tasks(html: &mut String, published: &Published, tasks: &[&TaskView]) -> fmt::Result {
    if tasks.is_empty() {
        html.push_str("<p>No tasks are configured.</p>");
        return Ok(());
    }
    if tasks.len() > ROWS_MAX {
        write!(html, "<p>The {ROWS_MAX} worst of {} tasks; all are in the JSON.</p>", tasks.len())?;
    }
    html.push_str("<table><thead><tr>");
    COLUMNS.iter().try_for_each(|column| write!(html, "<th scope=\"col\">{column}</th>"))?;
    html.push_str("</tr></thead><tbody>");
    for task in tasks.iter().take(ROWS_MAX) {
        write_task(html, published, task)?;
    }
    html.push_str("</tbody></table>");
    Ok(())
}

fn write_task(html: &mut String, published: &Published, task: &TaskView) -> fmt::Result {
    let hold = task.hold.as_ref().filter(|_| task.held == Some(true));
    let cells: [Cow<'_, str>; 9] = [
        escape(task.spec.name.as_bytes()),
        task.verdict.name().into(),
        why(task),
        holders(task, hold).into(),
        hold.map(|hold| list(hosts(hold), NAMED_MAX)).unwrap_or_default().into(),
        hold.map(|hold| duration(hold.held_ms)).unwrap_or_default().into(),
        hold.map(ttl).unwrap_or_default(),
        wanted(task).into(),
        reading_age(published, task).into(),
    ];
    write_row(html, task.verdict.name(), &COLUMNS, &cells)
}

fn write_row(html: &mut String, class: &str, columns: &[&str], cells: &[Cow<'_, str>]) -> fmt::Result {
    write!(html, "<tr class=\"{class}\">")?;
    for (column, cell) in columns.iter().zip(cells) {
        write!(html, "<td data-label=\"{column}\">{}</td>", Html(cell))?;
    }
    html.push_str("</tr>");
    Ok(())
}

fn write_redises(html: &mut String, redises: &[&RedisView]) -> fmt::Result {
    html.push_str("<h2>Redis</h2><table><thead><tr>");
    REDIS_COLUMNS.iter().try_for_each(|column| write!(html, "<th scope=\"col\">{column}</th>"))?;
    html.push_str("</tr></thead><tbody>");
    for redis in redises {
        // What no row of a server tells: there is no master, say, or nobody knows which server it is.
        let is_told = redis.nodes.iter().any(|node| node.unknown == redis.unknown);
        if let Some(why) = redis.unknown.filter(|_| !is_told) {
            let cells =
                [escape(redis.spec.name.as_bytes()), why.name().into(), "".into(), "".into(), why.remedy().into()];
            write_row(html, "down", &REDIS_COLUMNS, &cells)?;
        }
        for node in &redis.nodes {
            write_node(html, redis, node)?;
        }
    }
    html.push_str("</tbody></table>");
    Ok(())
}

fn write_node(html: &mut String, redis: &RedisView, node: &NodeView) -> fmt::Result {
    let (class, state) = match (node.up, node.decides) {
        (Some(true), true) => ("running", "up"),
        (Some(true), false) => ("running", "up, evidence only"),
        (Some(false), _) => ("down", node.unknown.map_or("down", |why| why.name())),
        (None, _) => ("unknown", "not tried yet"),
    };
    let cells = [
        escape(redis.spec.name.as_bytes()),
        state.into(),
        escape(node.address.as_bytes()),
        node.role.map_or("unknown", Role::name).into(),
        node.unknown.map_or("", |why| why.remedy()).into(),
    ];
    write_row(html, class, &REDIS_COLUMNS, &cells)
}

/// The rule in words, and what to do if something could not be read.
fn why(task: &TaskView) -> Cow<'static, str> {
    let rule = task.rule.sentence();
    match (task.unknown.or(task.switches_unknown), undecodable(task)) {
        (Some(unknown), _) => format!("{rule} ({}: {})", unknown.name(), unknown.remedy()).into(),
        (None, Some(switch)) => match switch.fits {
            Some(codec) => format!("{rule} (A switch cannot be read: set `codec: {}`.)", codec.name()).into(),
            None => format!("{rule} (A switch says neither on nor off.)").into(),
        },
        (None, None) => rule.into(),
    }
}

/// The first switch that says neither on nor off.
fn undecodable(task: &TaskView) -> Option<&SwitchView> {
    task.switches.as_ref()?.iter().find(|switch| switch.on.is_none())
}

/// Who holds the lock, and who does so at servers that say they are master though they do not decide.
fn holders(task: &TaskView, hold: Option<&HoldView>) -> String {
    let own: Vec<&Holder> = hold.iter().flat_map(|hold| &hold.holders).map(|(holder, _)| holder).collect();
    let rivals = task.witnesses.iter().filter(|witness| witness.role == Role::Master).filter_map(|witness| {
        let WitnessView { node, holders, .. } = witness;
        let shown: Vec<&Holder> = holders.as_ref()?.iter().collect();
        (shown != own).then(|| format!("at {}: {}", escape(node.as_bytes()), names(&shown)))
    });
    [names(&own)].into_iter().chain(rivals).filter(|part| !part.is_empty()).collect::<Vec<_>>().join("; ")
}

fn names(holders: &[&Holder]) -> String {
    list(holders.iter().map(|holder| holder_label(holder)), NAMED_MAX)
}

fn hosts(hold: &HoldView) -> impl ExactSizeIterator<Item = Cow<'_, str>> {
    let known: Vec<_> = hold.holders.iter().filter_map(|(_, host)| host.as_deref()).map(escape).collect();
    known.into_iter()
}

fn ttl(hold: &HoldView) -> Cow<'static, str> {
    match (hold.ttl_ms, hold.persistent) {
        (Some(ms), _) => duration(ms).into(),
        (None, Some(true)) => "none: held for ever".into(),
        (None, _) => "".into(),
    }
}

fn wanted(task: &TaskView) -> String {
    let mut text = match (task.wanted, &task.switches) {
        (Wanted::Unset, _) => String::new(),
        (wanted, Some(switches)) => {
            let on = switches.iter().filter(|switch| switch.on == Some(true)).count();
            format!("{} ({on} of {})", wanted.name(), switches.len())
        }
        (wanted, None) => wanted.name().to_owned(),
    };
    if !task.lost_users.is_empty() {
        text.push_str(&format!("; lost: {}", list(task.lost_users.iter().map(|user| escape(user)), NAMED_MAX)));
    }
    text
}

fn reading_age(published: &Published, task: &TaskView) -> String {
    let Some(at) = task.last_reading else { return String::from("never") };
    let ago = format!("{} ago", duration(published.snapshot.at.since_ms(at)));
    match &task.node {
        Some(node) => format!("{ago} from {}", escape(node.as_bytes())),
        None => ago,
    }
}

/// A duration in its two largest units.
fn duration(ms: u64) -> String {
    let seconds = ms / 1000;
    match seconds {
        0..10 => format!("{seconds}.{} s", ms % 1000 / 100),
        10..60 => format!("{seconds} s"),
        60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        3600..86400 => format!("{} h {} min", seconds / 3600, seconds / 60 % 60),
        _ => format!("{} d {} h", seconds / 86400, seconds / 3600 % 24),
    }
}

/// Text that means nothing to an HTML parser.
struct Html<'a>(&'a str);

impl fmt::Display for Html<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for character in self.0.chars() {
            match character {
                '&' => out.write_str("&amp;")?,
                '<' => out.write_str("&lt;")?,
                '>' => out.write_str("&gt;")?,
                '"' => out.write_str("&quot;")?,
                '\'' => out.write_str("&#39;")?,
                other => out.write_char(other)?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        let cases = [
            (0, "0.0 s"),
            (9_999, "9.9 s"),
            (10_000, "10 s"),
            (61_000, "1 min 1 s"),
            (3_661_000, "1 h 1 min"),
            (90_061_000, "1 d 1 h"),
            (u64::MAX, "213503982334 d 14 h"),
        ];
        for (ms, text) in cases {
            assert_eq!(duration(ms), text);
        }
    }

    #[test]
    fn markup_is_text() {
        assert_eq!(Html("<a href=\"x\">'&'</a>").to_string(), "&lt;a href=&quot;x&quot;&gt;&#39;&amp;&#39;&lt;/a&gt;");
    }
}
