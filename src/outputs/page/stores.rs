//! The table of the stores' servers.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::sync::Arc;

use lockwatch_judge::input::{Role, WakeUpState};
use lockwatch_judge::snapshot::{NodeView, StoreView};

use super::html::Text;
use crate::outputs::cause::message;
use crate::outputs::describe::pattern;
use crate::outputs::json;
use crate::published::Published;
use crate::text::identity::escape;

const COLUMNS: [&str; 6] = ["Name", "State", "Address", "Role", "Changes", "What to do"];

/// How a server's state is marked.
#[derive(Clone, Copy)]
enum Mark {
    Good,
    Bad,
    NotKnown,
}

pub(in crate::outputs) fn write(html: &mut String, published: &Published) {
    write_stores(html, &published.snapshot.stores);
    if published.patterns.is_empty() {
        return;
    }
    html.push_str(
        "<section aria-labelledby=\"patterns\"><h2 id=\"patterns\">Patterns</h2><dl class=\"facts\">",
    );
    for view in &*published.patterns {
        let (name, text) = (escape(view.name.as_bytes()), pattern(&json::pattern(view)));
        // Writing to a `String` cannot fail.
        let _ = write!(html, "<div><dt>{}</dt><dd>{}</dd></div>", Text(&name), Text(&text));
    }
    html.push_str("</dl></section>");
}

fn write_stores(html: &mut String, stores: &[Arc<StoreView>]) {
    html.push_str(
        "<section aria-labelledby=\"redises\"><h2 id=\"redises\">Servers</h2>\
         <table class=\"servers\"><caption>Servers and their state</caption><thead><tr>",
    );
    for column in COLUMNS {
        // Writing to a `String` cannot fail.
        let _ = write!(html, "<th scope=\"col\">{column}</th>");
    }
    html.push_str("</tr></thead><tbody>");
    for store in stores {
        // A problem that no server's row shows. For example, there is no master, or its address is
        // not known.
        let is_shown = store.nodes.iter().any(|node| node.unknown == store.unknown);
        if let Some(why) = store.unknown
            && !is_shown
        {
            write_row(
                html,
                Mark::Bad,
                &store.spec.name,
                [
                    why.name().into(),
                    "".into(),
                    "".into(),
                    "".into(),
                    message(why, store.words_of_any(why).as_deref()),
                ],
            );
        }
        for node in &store.nodes {
            write_node(html, store, node);
        }
    }
    html.push_str("</tbody></table></section>");
}

fn write_node(html: &mut String, store: &StoreView, node: &NodeView) {
    let (mark, state) = match (node.up, node.decides) {
        (Some(true), true) => (Mark::Good, "up"),
        (Some(true), false) => (Mark::Good, "up, evidence only"),
        (Some(false), _) => (Mark::Bad, node.unknown.map_or("down", |why| why.name())),
        (None, _) if store.spec.authority.ensemble => (Mark::NotKnown, "not asked"),
        (None, _) => (Mark::NotKnown, "not tried yet"),
    };
    let cells = [
        state.into(),
        escape(node.address.as_bytes()),
        node.role.map_or("unknown", Role::name).into(),
        changes(store, node).into(),
        node.unknown.map_or("".into(), |why| message(why, store.words(why, &node.address))),
    ];
    write_row(html, mark, &store.spec.name, cells);
}

/// How changes of the keys on this server are noticed; empty if it does not decide.
fn changes(store: &StoreView, node: &NodeView) -> &'static str {
    if store.spec.authority.ensemble && node.decides {
        return "announced";
    }
    match node.wake_ups.map(|wake_ups| wake_ups.state) {
        Some(WakeUpState::On) => "announced",
        Some(WakeUpState::Connecting) => "polled",
        Some(WakeUpState::Refused) => "polled: it refuses to announce",
        Some(WakeUpState::Lost) => "polled: it does not announce",
        Some(WakeUpState::Flooded) => "polled: too many changes",
        None if node.decides => "polled",
        None => "",
    }
}

fn write_row(html: &mut String, mark: Mark, name: &str, cells: [Cow<'_, str>; 5]) {
    let mark = match mark {
        Mark::Good => "good",
        Mark::Bad => "bad",
        Mark::NotKnown => "not-known",
    };
    let _ = write!(
        html,
        "<tr data-state=\"{mark}\"><th scope=\"row\">{}</th>",
        Text(&escape(name.as_bytes()))
    );
    for (column, cell) in COLUMNS.iter().skip(1).zip(cells) {
        let _ = write!(html, "<td data-label=\"{column}\">{}</td>", Text(&cell));
    }
    html.push_str("</tr>");
}
