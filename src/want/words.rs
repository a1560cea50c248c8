//! What was found and done, in words and as JSON.

use std::borrow::Cow;

use lockwatch_judge::reading::Switch;
use lockwatch_judge::spec::Codec;
use lockwatch_judge::verdict::Wanted;
use serde_json::{Value, json};

use super::board::{Board, Row};
use super::plan::Mine;
use super::source::Source;
use super::values::Wish;
use crate::text::identity::{escape, list};

/// Maximum number of users that a sentence names.
const NAMED_MAX: usize = 20;

/// What is there, and what was done.
#[derive(Debug)]
pub struct Outcome {
    pub(super) task: String,
    pub(super) store: String,
    pub(super) source: Source,
    pub(super) codec: Codec,
    pub(super) user: Option<Vec<u8>>,
    pub(super) mine: Option<Mine>,
    pub(super) wish: Option<Wish>,
    pub(super) changed: bool,
    pub(super) board: Board,
}

impl Outcome {
    /// Whether a switch was written.
    pub fn is_changed(&self) -> bool {
        self.changed
    }

    /// For people.
    pub fn text(&self) -> String {
        text(self)
    }

    /// The same as one line of JSON.
    pub fn json(&self) -> String {
        json(self).to_string() + "\n"
    }
}

/// For people: what was done; `status` lists all users before that.
fn text(outcome: &Outcome) -> String {
    let mut text = String::new();
    if outcome.wish.is_none() {
        let Outcome { source, codec, task, store, .. } = outcome;
        text.push_str(&format!(
            "{}: {}, codec {}\n",
            escape(task.as_bytes()),
            place(source, store),
            codec.name()
        ));
        for line in table(&outcome.board.rows) {
            text.push_str(&format!("  {line}\n"));
        }
    }
    text + &sentences(outcome).join(" ") + "\n"
}

fn table(rows: &[Row]) -> Vec<String> {
    let names: Vec<Cow<'_, str>> = rows.iter().map(|row| escape(&row.user)).collect();
    let width = names.iter().map(|name| name.chars().count()).max().unwrap_or(0);
    names.iter().zip(rows).map(|(name, row)| format!("{name:width$}  {}", state(row))).collect()
}

fn state(row: &Row) -> String {
    match &row.switch {
        Switch::Undecodable { value, fits } => {
            let fits = fits
                .map_or(String::new(), |codec| format!(" (a value of the codec {})", codec.name()));
            format!("undecodable: {}{fits}", escape(value))
        }
        known => word(known).to_owned(),
    }
}

fn word(switch: &Switch) -> &'static str {
    match switch {
        Switch::On => "on",
        Switch::Off => "off",
        Switch::Undecodable { .. } => "undecodable",
    }
}

/// `the hash outbound:users of redis main`.
pub(super) fn place(source: &Source, redis: &str) -> String {
    let keys = match source {
        Source::Keys(keys) => format!("{} string keys", keys.len()),
        one => format!("the {} {}", one.name(), escape(one.first())),
    };
    format!("{keys} of redis {}", escape(redis.as_bytes()))
}

/// What is there although something else was written.
pub(super) fn unconfirmed(rows: &[Row]) -> String {
    let there = match rows {
        [] => "no switch".to_owned(),
        rows => table(rows).join("; "),
    };
    format!(
        "the switch was written, but it does not read as was asked: there is {there}. Somebody \
         else may have set it in that moment; look with `status`, and try again"
    )
}

fn sentences(outcome: &Outcome) -> Vec<String> {
    let rows = &outcome.board.rows;
    let is_mine = |row: &&Row| outcome.mine.as_ref().is_some_and(|it| it.is(outcome.codec, row));
    let others = |wanted: fn(&Switch) -> bool| {
        let rows = rows.iter().filter(|row| !is_mine(row) && wanted(&row.switch));
        rows.map(|row| escape(&row.user)).collect::<Vec<_>>()
    };
    let own: Vec<&Row> = rows.iter().filter(is_mine).collect();
    let mut lines = Vec::new();
    lines.extend(about_user(outcome, &own));
    let on = others(|switch| *switch == Switch::On);
    let unread = others(|switch| matches!(switch, Switch::Undecodable { .. }));
    let mine_is_on = own.iter().any(|row| row.switch == Switch::On);
    if !on.is_empty() {
        let how = match (&outcome.user, mine_is_on) {
            (None, _) => "Wanted by",
            (Some(_), true) => "Also wanted by",
            (Some(_), false) => "Still wanted by",
        };
        lines.push(format!("{how}: {}.", list(on.into_iter(), NAMED_MAX)));
    } else if mine_is_on && outcome.board.whole && unread.is_empty() {
        lines.push("Nobody else does.".to_owned());
    }
    if !unread.is_empty() {
        let names = list(unread.into_iter(), NAMED_MAX);
        lines.push(format!("Not known, because the value cannot be read: {names}."));
    }
    if !outcome.board.whole {
        lines.push(format!("There are more users than the {} that were read.", rows.len()));
    }
    lines.push(what_follows(outcome).to_owned());
    lines
}

fn about_user(outcome: &Outcome, own: &[&Row]) -> Option<String> {
    let user = escape(outcome.user.as_deref()?);
    let task = escape(outcome.task.as_bytes());
    let is_on = own.iter().any(|row| row.switch == Switch::On);
    let odd = own.iter().find(|row| matches!(row.switch, Switch::Undecodable { .. }));
    Some(match (outcome.wish, outcome.changed) {
        (Some(Wish::On), true) => format!("{user} wants {task} now."),
        (Some(Wish::Off), true) => format!("{user} does not want {task} any more."),
        (Some(Wish::On), false) => {
            format!("{user} wants {task} already, so nothing was changed.")
        }
        (Some(Wish::Off), false) => {
            format!("{user} does not want {task} anyway, so nothing was changed.")
        }
        (None, _) => match odd {
            _ if is_on => format!("{user} wants {task}."),
            Some(row) => format!("The switch of {user} is {}.", state(row)),
            None if own.is_empty() && outcome.board.whole => {
                format!("{user} has no switch, and so does not want {task}.")
            }
            None if own.is_empty() => format!("{user} is not among the users that were read."),
            None => format!("{user} does not want {task}."),
        },
    })
}

fn what_follows(outcome: &Outcome) -> &'static str {
    match (outcome.board.wanted(), outcome.changed) {
        (Wanted::Yes, _) => "It is wanted, so it must run.",
        (Wanted::No, true) => "Nobody wants it now: it is to stop.",
        (Wanted::No, false) => "Nobody wants it.",
        (Wanted::Unknown | Wanted::Unset, _) => "Whether it is wanted is unknown.",
    }
}

/// The same for programs.
fn json(outcome: &Outcome) -> Value {
    let text = |bytes: &[u8]| escape(bytes).into_owned();
    let user = |row: &Row| {
        let (user, switch) = (text(&row.user), word(&row.switch));
        match &row.switch {
            Switch::On | Switch::Off => json!({"user": user, "switch": switch}),
            Switch::Undecodable { value, fits } => json!({
                "user": user,
                "switch": switch,
                "value": text(value),
                "fits": fits.map(|codec| codec.name()),
            }),
        }
    };
    let users: Vec<Value> = outcome.board.rows.iter().map(user).collect();
    let keys: Vec<String> = outcome.source.keys().iter().map(|key| text(key)).collect();
    json!({
        "task": text(outcome.task.as_bytes()),
        "store": text(outcome.store.as_bytes()),
        "source": outcome.source.name(),
        "keys": keys,
        "codec": outcome.codec.name(),
        "user": outcome.user.as_deref().map(text),
        "asked": match outcome.wish {
            Some(Wish::On) => "on",
            Some(Wish::Off) => "off",
            None => "status",
        },
        "changed": outcome.changed,
        "wanted": match outcome.board.wanted() {
            Wanted::Yes => "yes",
            Wanted::No => "no",
            Wanted::Unknown | Wanted::Unset => "unknown",
        },
        "complete": outcome.board.whole,
        "users": users,
        "text": sentences(outcome).join(" "),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(user: &str, wish: Option<Wish>, changed: bool, rows: &[(&str, &str)]) -> Outcome {
        let row = |(field, value): &(&str, &str)| {
            Row::of_field(Codec::Raw, field.as_bytes(), value.as_bytes())
        };
        let user = (!user.is_empty()).then(|| user.as_bytes().to_vec());
        Outcome {
            task: "outbound".to_owned(),
            store: "main".to_owned(),
            source: Source::Hash(b"users".to_vec()),
            codec: Codec::Raw,
            mine: user.clone().map(Mine::Named),
            user,
            wish,
            changed,
            board: Board { rows: rows.iter().map(row).collect(), whole: true },
        }
    }

    #[test]
    fn it_is_told_who_wants_it_and_what_follows() {
        let (on, off) = (Some(Wish::On), Some(Wish::Off));
        for (outcome, lines) in [
            (
                outcome("anna", on, true, &[("anna", "1"), ("bert", "1"), ("carl", "0")]),
                "anna wants outbound now. Also wanted by: bert. It is wanted, so it must run.\n",
            ),
            (
                outcome("anna", on, false, &[("anna", "1")]),
                "anna wants outbound already, so nothing was changed. Nobody else does. It is \
                 wanted, so it must run.\n",
            ),
            (
                outcome("anna", off, true, &[("anna", "0"), ("bert", "0")]),
                "anna does not want outbound any more. Nobody wants it now: it is to stop.\n",
            ),
            (
                outcome("anna", off, true, &[("anna", "0"), ("bert", "1"), ("carl", "1")]),
                "anna does not want outbound any more. Still wanted by: bert, carl. It is wanted, \
                 so it must run.\n",
            ),
            (
                outcome("anna", off, true, &[("anna", "0"), ("bert", "?")]),
                "anna does not want outbound any more. Not known, because the value cannot be \
                 read: bert. Whether it is wanted is unknown.\n",
            ),
            (
                outcome("a\n", off, false, &[]),
                "a\\x0a does not want outbound anyway, so nothing was changed. Nobody wants it.\n",
            ),
            (
                outcome("", None, false, &[("anna", "1"), ("bert", "0"), ("c", "\u{5}\u{1}")]),
                "outbound: the hash users of redis main, codec raw\n  \
                 anna  on\n  \
                 bert  off\n  \
                 c     undecodable: \\x05\\x01 (a value of the codec kryo5)\n\
                 Wanted by: anna. Not known, because the value cannot be read: c. It is wanted, \
                 so it must run.\n",
            ),
            (
                outcome("bert", None, false, &[("anna", "0")]),
                "outbound: the hash users of redis main, codec raw\n  anna  off\nbert has no \
                 switch, and so does not want outbound. Nobody wants it.\n",
            ),
        ] {
            assert_eq!(text(&outcome), lines);
        }
    }

    #[test]
    fn the_same_is_told_to_programs() {
        let answer = json(&outcome("anna", Some(Wish::On), true, &[("anna", "1"), ("b", "?")]));
        assert_eq!(answer["users"][0], json!({"user": "anna", "switch": "on"}));
        let odd = json!({"user": "b", "switch": "undecodable", "value": "?", "fits": null});
        assert_eq!(answer["users"][1], odd);
        assert_eq!(
            (&answer["asked"], &answer["changed"], &answer["wanted"], &answer["user"]),
            (&json!("on"), &json!(true), &json!("yes"), &json!("anna"))
        );
    }

    #[test]
    fn what_was_not_read_is_not_known() {
        let mut outcome = outcome("anna", None, false, &[("bert", "0")]);
        outcome.board.whole = false;
        let answer = text(&outcome);
        assert!(
            answer.ends_with(
                "anna is not among the users that were read. There are more users than the 1 that \
                 were read. Whether it is wanted is unknown.\n"
            ),
            "{answer}"
        );
    }
}
