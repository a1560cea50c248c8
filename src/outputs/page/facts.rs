//! The details of one task: a list of facts, and tables of its switches and of what each server
//! shows.

use std::fmt::Write as _;

use lockwatch_judge::event::{End, SplitKind};
use lockwatch_judge::snapshot::{TakeOvers, TaskView, Totals};

use super::html::Text;
use super::moving::{Markup, Moment};
use super::pulse::Pulse;
use super::words::{lasted, limit, running};
use crate::outputs::cause::told;
use crate::outputs::remark::remarks;
use crate::outputs::runs;
use crate::paths;
use crate::published::Published;
use crate::text::identity::{escape, holder_label, list, party_name, user_name};

/// Maximum number of names in one place.
pub(super) const NAMED_MAX: usize = 20;

/// A name, and what writes the value.
pub(super) type Fact = (&'static str, fn(&mut Markup, &Published, &TaskView));

/// The facts at the time of the snapshot.
pub(super) fn section(
    published: &Published,
    view: &TaskView,
    pulse: &Pulse,
    facts: &[Fact],
) -> String {
    let mut html = String::from(
        "<section aria-labelledby=\"now\"><h2 id=\"now\">Now</h2><dl class=\"facts\">",
    );
    for (name, write) in facts {
        let mut markup = Markup::default();
        write(&mut markup, published, view);
        if !markup.is_empty() {
            // Writing to a `String` cannot fail.
            let _ = write!(html, "<div><dt>{name}</dt><dd>");
            markup.write(&mut html, pulse, Some(published.wall));
            html.push_str("</dd></div>");
        }
    }
    html.push_str("</dl></section>");
    html
}

pub(super) fn write_handover(markup: &mut Markup, published: &Published, view: &TaskView) {
    if let Some(past) = view.totals.take_overs().last_handover {
        markup
            .format(format_args!("took {}, ", lasted(past.ms)))
            .ago(Moment::of(published, past.at));
    }
}

pub(super) fn write_outage(markup: &mut Markup, published: &Published, view: &TaskView) {
    if let Some(past) = view.totals.take_overs().last_outage {
        markup
            .format(format_args!("took {}, ", lasted(past.ms)))
            .ago(Moment::of(published, past.at));
    }
}

pub(super) fn write_splits(markup: &mut Markup, published: &Published, view: &TaskView) {
    for split in &view.splits {
        markup.format(format_args!("<span>{}: ", split.kind.name()));
        markup.text(&list(split.parties.iter().map(party_name), NAMED_MAX));
        markup.html(", for ").since(Moment::of(published, split.since)).html("</span>");
    }
}

pub(super) fn write_remarks(markup: &mut Markup, published: &Published, view: &TaskView) {
    markup.text(&remarks(published, view).join(" "));
}

pub(super) fn write_claims(markup: &mut Markup, _published: &Published, view: &TaskView) {
    if view.spec.claims.is_some() {
        let claims = list(view.live_claims.iter().map(holder_label), NAMED_MAX);
        markup.text(match view.claims_unknown {
            Some(_) => "cannot be read",
            None if claims.is_empty() => "none",
            None => &claims,
        });
    }
}

/// What guards state of their scripts.
pub(super) fn write_runs(markup: &mut Markup, _published: &Published, view: &TaskView) {
    if let Some(runs) = &view.runs {
        markup.text(&runs::newest(runs));
    }
}

pub(super) fn write_hosts(markup: &mut Markup, _published: &Published, view: &TaskView) {
    if view.hosts_unknown.is_some() {
        markup.html("cannot be read");
    }
}

/// Durations of states that should not last. They keep counting while readings arrive; otherwise
/// they stop at the newest evidence.
pub(super) fn write_durations(markup: &mut Markup, published: &Published, view: &TaskView) {
    let durations = view.durations;
    let all = [
        ("wanted, and no hold lasts", durations.down_ms),
        ("more than one holder", durations.split_ms),
        ("without progress", durations.stalled_ms),
        ("held though unwanted", durations.unwanted_ms),
        ("not readable", durations.blind_ms),
        ("switches lost", durations.switches_lost_ms),
    ];
    for (what, ms) in all.into_iter().filter(|(_, ms)| *ms > 0) {
        markup.format(format_args!("<span>{what} for "));
        match (view.last_reading, view.held) {
            (Some(at), Some(_)) => markup.since(Moment::of(published, at.minus_ms(ms))),
            _ => markup.text(&lasted(ms)),
        };
        markup.html("</span>");
    }
}

pub(super) fn write_pause(markup: &mut Markup, _published: &Published, view: &TaskView) {
    if let Some(paused) = view.paused {
        markup.html(if paused { "paused" } else { "not paused" });
    }
}

/// Shows the age only when readings have stopped: otherwise it would be outdated when it is
/// displayed.
pub(super) fn write_reading(markup: &mut Markup, published: &Published, view: &TaskView) {
    match (view.last_reading, view.held) {
        (Some(_), Some(_)) => markup.html("up to date"),
        (Some(at), None) => markup.ago(Moment::of(published, at)),
        (None, _) => markup.html("none yet"),
    };
    if let Some(node) = &view.node {
        markup.html(", from ").text(&escape(node.as_bytes()));
    }
    if let Some(why) = view.unknown {
        markup.format(format_args!("; now: {}", why.name()));
    }
}

pub(super) fn write_rule(markup: &mut Markup, _published: &Published, view: &TaskView) {
    markup.format(format_args!("<code>{}</code>", view.rule.name));
}

/// Every switch, and the lost ones; empty if there are none.
pub(super) fn switches(view: &TaskView) -> String {
    if view.switches.is_none() && view.lost_users.is_empty() && view.switches_unknown.is_none() {
        return String::new();
    }
    let mut html =
        String::from("<section aria-labelledby=\"switches\"><h2 id=\"switches\">Switches</h2>");
    if let Some(why) = view.switches_unknown {
        let _ = write!(
            html,
            "<p class=\"note\">They cannot be read ({}). {}</p>",
            why.name(),
            Text(&told(why, view.words(why)))
        );
    }
    html.push_str(
        "<table><caption>Who wants the task</caption><thead><tr><th scope=\"col\">User</th>\
         <th scope=\"col\">Switch</th></tr></thead><tbody>",
    );
    for switch in view.switches.iter().flatten() {
        let state = match (switch.on, switch.fits) {
            (Some(true), _) => "on".into(),
            (Some(false), _) => "off".into(),
            (None, Some(codec)) => {
                format!("cannot be read; the codec {} would read it", codec.name())
            }
            (None, None) => String::from("says neither on nor off"),
        };
        let user = user_name(&view.spec, &switch.user);
        let _ = write!(
            html,
            "<tr><th scope=\"row\">{}</th><td data-label=\"Switch\">{state}</td></tr>",
            Text(&user)
        );
    }
    for user in &view.lost_users {
        let user = user_name(&view.spec, user);
        let _ = write!(
            html,
            "<tr><th scope=\"row\">{}</th><td data-label=\"Switch\"><strong class=\"lost\">was \
             on; lost by Redis</strong></td></tr>",
            Text(&user)
        );
    }
    html.push_str("</tbody></table></section>");
    html
}

/// The buttons for the own switch of whoever has logged in. Only the script shows them, because a
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
pub(super) fn totals(view: &TaskView) -> String {
    let Totals {
        wanted_ms,
        down_ms,
        outage_ms,
        split_ms,
        blind_ms,
        splits,
        renewals,
        shortened,
        acquisitions,
        ends,
        holds_lost,
        token_resets,
        phantom_holds,
        renewal_latency: _,
        take_overs: _,
    } = &*view.totals;
    let TakeOvers { handovers, outages, .. } = view.totals.take_overs();
    let counted = |names: &[&str], counts: &[u64]| {
        let parts = names.iter().zip(counts).filter(|(_, count)| **count > 0);
        let parts: Vec<String> = parts.map(|(name, count)| format!("{count} {name}")).collect();
        if parts.is_empty() { String::from("none") } else { parts.join(", ") }
    };
    let learned = view.lock().and_then(|lock| lock.lease_ms);
    let facts: [(&str, String); 15] = [
        ("Wanted for", running(*wanted_ms)),
        ("Of that without a holder", lasted(*down_ms)),
        ("Handovers", handovers.count().to_string()),
        ("Outages", format!("{}, in all {}", outages.count(), lasted(*outage_ms))),
        ("More than one holder", lasted(*split_ms)),
        ("Splits", counted(&SplitKind::ALL.map(SplitKind::name), splits)),
        ("Not readable", lasted(*blind_ms)),
        ("Acquisitions", acquisitions.to_string()),
        ("Ends of holds", counted(&End::ALL.map(End::name), ends)),
        ("Renewals", renewals.to_string()),
        ("Leases shortened", shortened.to_string()),
        ("Lost by a living holder", holds_lost.to_string()),
        ("Fencing token went back", token_resets.to_string()),
        ("Holds too short to count", phantom_holds.to_string()),
        ("Learned lease", learned.map_or(String::from("not yet"), limit)),
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
