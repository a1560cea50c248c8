//! The details of a task that a lock guards.

use std::fmt::Write as _;

use lockwatch_judge::snapshot::{LockView, TaskView};
use lockwatch_judge::time::AgentWall;

use super::facts::{self, Fact, NAMED_MAX};
use super::html::Text;
use super::moving::Markup;
use super::pulse::{on_agents_clock, present};
use super::row::{self, holder_and_host};
use super::words::{lasted, running};
use crate::published::Published;
use crate::text::identity::{escape, holder_label, list};
use crate::text::instants::rfc3339;

/// In the order in which they are shown.
pub(super) const FACTS: [Fact; 19] = [
    ("Holder", write_holders),
    ("Hosts", facts::write_hosts),
    ("Held for", row::write_held),
    ("Lease left", row::write_lease),
    ("Worth knowing", facts::write_remarks),
    ("Last renewal", write_renewal),
    ("Wanted by", row::write_wanted),
    ("Progress", row::write_progress),
    ("Last handover", facts::write_handover),
    ("Last outage", facts::write_outage),
    ("More than one holder", facts::write_splits),
    ("Claims alive", facts::write_claims),
    ("Newest runs", facts::write_runs),
    ("Waiting for the lock", write_waiters),
    ("Fencing token", write_token),
    ("Trouble so far", facts::write_durations),
    ("Pages", facts::write_pause),
    ("Newest reading", facts::write_reading),
    ("Rule", facts::write_rule),
];

fn write_holders(markup: &mut Markup, _published: &Published, view: &TaskView) {
    match (present(view), view.held) {
        (Some(hold), _) => {
            markup.text(&list(hold.holders.iter().map(holder_and_host), NAMED_MAX));
            let entered: u32 = hold
                .holders
                .iter()
                .filter_map(|(holder, _)| holder.entries)
                .fold(0, u32::saturating_add);
            if entered > 1 {
                markup.format(format_args!(", entered {entered} times"));
            }
            let mode = row::mode(hold);
            if !mode.is_empty() {
                markup.html(", ").text(&mode);
            }
        }
        (None, Some(false)) => {
            markup.html("nobody");
        }
        (None, _) => {
            markup.html("not known");
        }
    }
}

fn write_renewal(markup: &mut Markup, published: &Published, view: &TaskView) {
    let Some(hold) = present(view) else { return };
    let Some(last) = hold.last_renewal else { return };
    let AgentWall(at) = on_agents_clock(published, view, last);
    let ago_ms = u64::try_from(published.wall.0.saturating_sub(at)).unwrap_or_default();
    markup.format(format_args!("<time data-ago=\"{at}\">{} ago</time>", running(ago_ms)));
    if let Some(ms) = hold.last_renewal_latency_ms {
        markup.format(format_args!(", {ms} ms late"));
    }
    if let Some(ms) = hold.last_renewal_margin_ms {
        markup.format(format_args!(", with {} to spare", lasted(ms)));
    }
}

fn write_waiters(markup: &mut Markup, _published: &Published, view: &TaskView) {
    if let Some(waiters) = view.lock().and_then(|lock| lock.waiters) {
        markup.format(format_args!("{waiters}"));
    }
}

fn write_token(markup: &mut Markup, _published: &Published, view: &TaskView) {
    if let Some(token) = view.lock().and_then(|lock| lock.fencing_token) {
        markup.format(format_args!("{token}"));
    }
}

/// What each server that does not decide shows; empty if there are none.
pub(super) fn servers(published: &Published, lock: &LockView) -> String {
    if lock.witnesses.is_empty() {
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
    for witness in &lock.witnesses {
        let holders = match &witness.holders {
            Some(holders) => list(holders.iter().map(holder_label), NAMED_MAX),
            None => String::from("nobody"),
        };
        let asked = rfc3339(published.wall_at(witness.at).0).unwrap_or_default();
        let _ = write!(
            html,
            "<tr><th scope=\"row\">{}</th><td data-label=\"Role\">{}</td><td data-label=\"Holder \
             there\">{}</td>\
             <td data-label=\"Behind\">{}</td><td data-label=\"Asked\"><time \
             datetime=\"{asked}\">{}</time></td></tr>",
            Text(&escape(witness.node.as_bytes())),
            witness.role.name(),
            Text(&holders),
            witness.behind_ms.map(lasted).unwrap_or_default(),
            asked.get(11..19).unwrap_or_default(),
        );
    }
    html.push_str("</tbody></table></section>");
    html
}
