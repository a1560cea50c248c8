//! The details of one task: a list of facts, and tables of its switches and of what each server
//! shows.

use std::fmt::Write as _;

use lockwatch_judge::snapshot::TaskView;
use lockwatch_judge::spec::WantedSource;
use lockwatch_judge::time::{AgentWall, ServerTime};

use super::html::Text;
use super::moving::{Markup, Moment};
use super::pulse::{Pulse, on_agents_clock};
use super::words::{lasted, limit, running};
use crate::api::{At, Count, Task, Totals, Witness};
use crate::outputs::describe::{self, Part, Subject};
use crate::paths;
use crate::published::Published;
use crate::text::identity::escape;
use crate::text::instants::rfc3339;

/// Maximum number of holders that are named in one place.
const NAMED_MAX: usize = 20;

/// The task as its facts describe it.
pub(super) fn subject<'a>(published: &Published, view: &TaskView, task: &'a Task) -> Subject<'a> {
    let source = view.spec.wanted.as_ref().map(|wanted| &wanted.source);
    let wanted = match source {
        Some(WantedSource::Always) => Some("always"),
        Some(WantedSource::Never) => Some("never"),
        _ => None,
    };
    Subject { task, at: At(Some(published.wall.0)), wanted }
}

/// The facts at the time of the snapshot.
pub(super) fn section(
    published: &Published,
    view: &TaskView,
    pulse: &Pulse,
    subject: Subject<'_>,
) -> String {
    let mut html = String::from(
        "<section aria-labelledby=\"now\"><h2 id=\"now\">Now</h2><dl class=\"facts\">",
    );
    for fact in describe::facts(subject) {
        // Writing to a `String` cannot fail.
        let _ = write!(html, "<div><dt>{}</dt><dd>", fact.name);
        let (before, after) = if fact.lines.len() > 1 { ("<span>", "</span>") } else { ("", "") };
        for line in &fact.lines {
            let mut markup = Markup::default();
            markup.html(before);
            write_line(&mut markup, published, view, line);
            markup.html(after).write(&mut html, pulse, Some(published.wall));
        }
        html.push_str("</dd></div>");
    }
    html.push_str("</dl></section>");
    html
}

/// The parts of a fact. The script goes on with what depends on the time.
pub(super) fn write_line<'a>(
    markup: &mut Markup,
    published: &Published,
    view: &TaskView,
    line: impl IntoIterator<Item = &'a Part>,
) {
    for (place, part) in line.into_iter().enumerate() {
        let gap = if place > 0 { " " } else { "" };
        match part {
            Part::Words(words) => markup.text(words),
            Part::Name(name) => markup.html("<code>").text(name).html("</code>"),
            Part::Unread(_) => markup.html("cannot be read"),
            Part::Overdue(_) => {
                markup.html(gap).html("<small class=\"mark\">renewal overdue</small>")
            }
            Part::Alarm(words) => {
                markup.html(gap).html("<strong class=\"lost\">").text(words).html("</strong>")
            }
            Part::Lasted(duration) => markup.html(&lasted(duration.0)),
            Part::Since(at) => markup.since(Moment::at(published, *at)),
            Part::Ago(at) => markup.ago(Moment::at(published, *at)),
            Part::Server(at) => {
                let at = ServerTime::at(at.0.unwrap_or_default());
                markup.html(&from_now(published, on_agents_clock(published, view, at)))
            }
            Part::Lease { .. } => markup.lease(),
            Part::Progress(_) => markup.progress(),
        };
    }
}

/// How far an instant is from now. Clocks are not exact, so what seems to be about to happen may
/// just have happened.
fn from_now(published: &Published, AgentWall(at): AgentWall) -> String {
    match at.saturating_sub(published.wall.0) {
        in_ms @ 1_000.. => format!("in {}", running(in_ms.unsigned_abs())),
        ago => {
            let ago_ms = ago.min(0).unsigned_abs();
            format!("<time data-ago=\"{at}\">{} ago</time>", running(ago_ms))
        }
    }
}

/// Every switch, and the lost ones; empty if there are none.
pub(super) fn switches(task: &Task) -> String {
    if task.switches.is_none() && task.lost_users.is_empty() && task.switches_unknown.is_none() {
        return String::new();
    }
    let mut html =
        String::from("<section aria-labelledby=\"switches\"><h2 id=\"switches\">Switches</h2>");
    if let Some(why) = &task.switches_unknown {
        let _ = write!(
            html,
            "<p class=\"note\">They cannot be read ({}). {}</p>",
            why.reason,
            Text(&why.sentence())
        );
    }
    html.push_str(
        "<table><caption>Who wants the task</caption><thead><tr><th scope=\"col\">User</th>\
         <th scope=\"col\">Switch</th></tr></thead><tbody>",
    );
    for (user, state) in describe::switches(task) {
        let state = match &state {
            Part::Alarm(words) => format!("<strong class=\"lost\">{}</strong>", Text(words)),
            Part::Words(words) => Text(words).to_string(),
            _ => String::new(),
        };
        let _ = write!(
            html,
            "<tr><th scope=\"row\">{}</th><td data-label=\"Switch\">{state}</td></tr>",
            Text(user)
        );
    }
    html.push_str("</tbody></table></section>");
    html
}

/// The buttons for the own switch of the user who has logged in. Only the script shows them, because a
/// plain form could be sent by a page of another site.
pub(super) fn own_switch(view: &TaskView, user: &str) -> String {
    format!(
        "<section id=\"own-switch\" aria-labelledby=\"own\"><h2 id=\"own\">Your switch</h2>\
         <p data-path=\"{}\">{}: <button type=\"button\" data-want=\"on\">I want it</button> \
         <button type=\"button\" data-want=\"off\">I do not want it</button> \
         <output></output></p></section>",
        Text(&paths::WANT.of(&view.spec.name)),
        Text(&escape(user.as_bytes()))
    )
}

/// Sums and counts.
pub(super) fn totals(task: &Task) -> String {
    let Totals {
        wanted_seconds,
        down_seconds,
        outage_seconds,
        split_seconds,
        blind_seconds,
        splits,
        acquisitions,
        ends,
        holds_lost,
        renewals,
        shortened,
        token_resets,
        phantom_holds,
        handovers,
        outages,
        renewal_latency: _,
    } = &task.totals;
    let counted = |counts: &[Count]| {
        let parts = counts.iter().filter(|one| one.count > 0);
        let parts: Vec<String> = parts.map(|one| format!("{} {}", one.count, one.name)).collect();
        if parts.is_empty() { String::from("none") } else { parts.join(", ") }
    };
    let learned = task.lock.as_ref().and_then(|lock| lock.lease_seconds);
    let facts: [(&str, String); 15] = [
        ("Wanted for", running(wanted_seconds.0)),
        ("Of that without a holder", lasted(down_seconds.0)),
        ("Handovers", handovers.count.to_string()),
        ("Outages", format!("{}, in all {}", outages.count, lasted(outage_seconds.0))),
        ("More than one holder", lasted(split_seconds.0)),
        ("Splits", counted(splits)),
        ("Not readable", lasted(blind_seconds.0)),
        ("Acquisitions", acquisitions.to_string()),
        ("Ends of holds", counted(ends)),
        ("Renewals", renewals.to_string()),
        ("Leases shortened", shortened.to_string()),
        ("Lost by a living holder", holds_lost.to_string()),
        ("Fencing token went back", token_resets.to_string()),
        ("Holds too short to count", phantom_holds.to_string()),
        ("Learned lease", learned.map_or(String::from("not yet"), |lease| limit(lease.0))),
    ];
    let mut html = String::from(
        "<section aria-labelledby=\"totals\"><h2 id=\"totals\">Since the agent watches it</h2><dl \
         class=\"facts\">",
    );
    for (name, value) in facts {
        let _ = write!(html, "<div><dt>{name}</dt><dd>{value}</dd></div>");
    }
    html.push_str("</dl></section>");
    html
}

/// What each server that does not decide shows; empty if there are none.
pub(super) fn servers(witnesses: &[Witness]) -> String {
    if witnesses.is_empty() {
        return String::new();
    }
    let mut html = String::from(
        "<section aria-labelledby=\"servers\"><h2 id=\"servers\">Other servers</h2><table>\
         <caption>What servers show that do not decide; times in UTC</caption><thead><tr><th \
         scope=\"col\">Server</th>\
         <th scope=\"col\">Role</th><th scope=\"col\">Holder there</th><th \
         scope=\"col\">Behind</th>\
         <th scope=\"col\">Asked</th></tr></thead><tbody>",
    );
    for witness in witnesses {
        let holders = match &witness.holders {
            Some(holders) => describe::holders(holders, NAMED_MAX),
            None => String::from("nobody"),
        };
        let asked = witness.at.0.and_then(rfc3339).unwrap_or_default();
        let _ = write!(
            html,
            "<tr><th scope=\"row\">{}</th><td data-label=\"Role\">{}</td><td data-label=\"Holder \
             there\">{}</td>\
             <td data-label=\"Behind\">{}</td><td data-label=\"Asked\"><time \
             datetime=\"{asked}\">{}</time></td></tr>",
            Text(&witness.node),
            witness.role,
            Text(&holders),
            witness.behind_seconds.map(|behind| lasted(behind.0)).unwrap_or_default(),
            asked.get(11..19).unwrap_or_default(),
        );
    }
    html.push_str("</tbody></table></section>");
    html
}
