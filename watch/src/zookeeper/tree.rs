//! Nodes as the questions about switches, progress and the like see them. These are asked in the
//! words of Redis, and decoded in one place for every store: the data of a node are a string, its
//! children with their data a hash, and their names a set.

use alloc::collections::BTreeMap;
use alloc::string::{String, ToString as _};
use alloc::vec;
use alloc::vec::Vec;

use super::codec::{Answer, Ask};
use crate::command;
use crate::redis::ask::{Ask as Question, Class};
use crate::redis::reply::{Reply, ServerError};

/// What was answered about nodes, by what was asked; `None`: it is too large to be read.
pub(super) type Answers = BTreeMap<Ask, Option<Answer>>;

/// So many children of a node are read with their data.
pub(super) const ENTRIES_MAX: usize = 1_000;

/// Longer data are not searched for an object.
const OBJECT_BYTES_MAX: usize = 16_384;

/// What a question is about.
enum View<'a> {
    /// Data.
    Text(&'a str),
    /// Children with their data.
    Pairs(&'a str),
    /// The names and values of the JSON object that the data are.
    Object(&'a str),
    /// Names of children.
    Names(&'a str),
    /// When something ends: nodes do so with their session, or never.
    Expiry(&'a str),
    /// Nothing that a node has.
    Nothing,
}

/// Asks for the names and values of the JSON object that the data of a node are.
pub(super) fn object_ask(path: &[u8]) -> Question {
    Question::new(Class::Texts, command!("HGETALL", path))
}

fn view(question: &Question) -> View<'_> {
    let words = &question.command.args;
    let Some(key) = question.key().and_then(|key| core::str::from_utf8(key).ok()) else {
        return View::Nothing;
    };
    match words.first().map(Vec::as_slice) {
        Some(b"EXISTS" | b"STRLEN" | b"GETRANGE") => View::Text(key),
        Some(b"HSCAN") => View::Pairs(key),
        Some(b"HGETALL") => View::Object(key),
        Some(b"SSCAN" | b"TYPE" | b"SCARD") => View::Names(key),
        Some(b"PEXPIRETIME") => View::Expiry(key),
        _ => View::Nothing,
    }
}

/// The node that the question is about, and whether the data of its children are read, too.
pub(super) fn node(question: &Question) -> Option<(&str, bool)> {
    match view(question) {
        View::Text(path) | View::Object(path) | View::Names(path) | View::Expiry(path) => {
            Some((path, false))
        }
        View::Pairs(path) => Some((path, true)),
        View::Nothing => None,
    }
}

/// What is asked of the ensemble to answer the question, as far as it is not known yet.
pub(super) fn asks(question: &Question, answers: &Answers, out: &mut Vec<Ask>) {
    let mut add = |ask: Ask| {
        if !answers.contains_key(&ask) && !out.contains(&ask) {
            out.push(ask);
        }
    };
    match view(question) {
        View::Text(path) | View::Object(path) => add(Ask::Data(path.into())),
        View::Names(path) => add(Ask::Children(path.into())),
        View::Pairs(path) => {
            let children = Ask::Children(path.into());
            if let Some(Some(Answer::Children(names, _))) = answers.get(&children) {
                let data = names.iter().take(ENTRIES_MAX).map(|name| Ask::Data(join(path, name)));
                data.for_each(add);
            } else {
                add(children);
            }
        }
        View::Expiry(_) | View::Nothing => {}
    }
}

/// The reply of a Redis that had these nodes as keys.
pub(super) fn reply(question: &Question, answers: &Answers) -> Reply {
    match view(question) {
        View::Text(path) => text(question, found(answers, &Ask::Data(path.into()))),
        View::Names(path) => match found(answers, &Ask::Children(path.into())) {
            Ok(Some(Answer::Children(names, _))) => names_reply(question, Some(names)),
            Ok(_) => names_reply(question, None),
            Err(error) => Reply::Error(error),
        },
        View::Pairs(path) => pairs(path, answers).unwrap_or_else(Reply::Error),
        View::Object(path) => match found(answers, &Ask::Data(path.into())) {
            Ok(Some(Answer::Data(data, _))) => object(data),
            Ok(_) => scanned(Vec::new(), 0),
            Err(error) => Reply::Error(error),
        },
        View::Expiry(path) => {
            let asks = [Ask::Data(path.into()), Ask::Children(path.into())];
            let is_gone = asks.iter().any(|ask| answers.get(ask) == Some(&Some(Answer::NoNode)));
            Reply::Int(if is_gone { -2 } else { -1 })
        }
        View::Nothing => Reply::Nil,
    }
}

fn text(question: &Question, found: Result<Option<&Answer>, ServerError>) -> Reply {
    let data = match found {
        Ok(Some(Answer::Data(data, _))) => Some(data.as_slice()),
        Ok(_) => None,
        Err(error) => return Reply::Error(error),
    };
    let words = &question.command.args;
    let int = |number: usize| Reply::Int(i64::try_from(number).unwrap_or(i64::MAX));
    match words.first().map(Vec::as_slice) {
        Some(b"EXISTS") => int(usize::from(data.is_some())),
        Some(b"STRLEN") => int(data.map_or(0, <[u8]>::len)),
        _ => {
            let last = words.last().and_then(|last| core::str::from_utf8(last).ok()?.parse().ok());
            let most = last.map_or(0, |last: usize| last.saturating_add(1));
            let data = data.unwrap_or_default();
            Reply::Bytes(beginning(data, most))
        }
    }
}

/// The first bytes of longer data, the last of them replaced by a digest of all. All data are here,
/// so that a change behind the beginning is seen, too.
fn beginning(data: &[u8], most: usize) -> Vec<u8> {
    const DIGEST_BYTES: usize = 16;
    // A shorter beginning is asked for where longer values mean nothing.
    const LEAST: usize = 1_024;
    match data.get(..most) {
        Some(first) if data.len() > most && most >= LEAST => {
            let mut bytes = first.get(..most - DIGEST_BYTES).unwrap_or_default().to_vec();
            bytes.extend(alloc::format!("{:016x}", digest(data)).into_bytes());
            bytes
        }
        Some(first) => first.to_vec(),
        None => data.to_vec(),
    }
}

/// FNV-1a.
fn digest(data: &[u8]) -> u64 {
    data.iter().fold(0xcbf2_9ce4_8422_2325, |digest, byte| {
        (digest ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

fn names_reply(question: &Question, names: Option<&[String]>) -> Reply {
    let kind: &[u8] = if names.is_some() { b"set" } else { b"none" };
    let names = names.unwrap_or_default();
    match question.command.args.first().map(Vec::as_slice) {
        Some(b"TYPE") => Reply::Bytes(kind.to_vec()),
        Some(b"SCARD") => Reply::Int(i64::try_from(names.len()).unwrap_or(i64::MAX)),
        _ => scanned(names.iter().map(|name| name.as_bytes().to_vec()).collect(), ENTRIES_MAX),
    }
}

/// Data that are no object of names and values are one pair that no decoder accepts.
fn object(data: &[u8]) -> Reply {
    if data.len() > OBJECT_BYTES_MAX {
        return partly(scanned(Vec::new(), 0));
    }
    if data.trim_ascii().is_empty() {
        return scanned(Vec::new(), 0);
    }
    let pairs = serde_json::from_slice::<serde_json::Map<String, serde_json::Value>>(data);
    let pair = |(name, value): (String, serde_json::Value)| match value {
        serde_json::Value::String(text) => [name, text],
        other => [name, other.to_string()],
    };
    let pairs: Vec<_> = match pairs {
        Ok(pairs) => pairs.into_iter().flat_map(pair).map(String::into_bytes).collect(),
        Err(_) => vec![Vec::new(), b"no JSON object".to_vec()],
    };
    scanned(pairs, usize::MAX)
}

/// A child that went away between the two readings is none.
fn pairs(path: &str, answers: &Answers) -> Result<Reply, ServerError> {
    let Some(Answer::Children(names, _)) = found(answers, &Ask::Children(path.into()))? else {
        return Ok(scanned(Vec::new(), 0));
    };
    let mut items = Vec::new();
    for name in names.iter().take(ENTRIES_MAX) {
        if let Some(Answer::Data(data, _)) = found(answers, &Ask::Data(join(path, name)))? {
            items.extend([name.as_bytes().to_vec(), data.clone()]);
        }
    }
    let is_whole = names.len() <= ENTRIES_MAX;
    let reply = scanned(items, usize::MAX);
    Ok(if is_whole { reply } else { partly(reply) })
}

fn scanned(items: Vec<Vec<u8>>, most: usize) -> Reply {
    let is_whole = items.len() <= most;
    let items = items.into_iter().take(most).map(Reply::Bytes).collect();
    let reply = Reply::Array(vec![Reply::Bytes(b"0".to_vec()), Reply::Array(items)]);
    if is_whole { reply } else { partly(reply) }
}

/// The same scan with a cursor that says that more would follow.
fn partly(reply: Reply) -> Reply {
    match reply {
        Reply::Array(mut parts) => {
            if let Some(cursor) = parts.first_mut() {
                *cursor = Reply::Bytes(b"1".to_vec());
            }
            Reply::Array(parts)
        }
        other => other,
    }
}

/// What was answered; `None`: there is no such node, or it was not asked for.
fn found<'a>(answers: &'a Answers, ask: &Ask) -> Result<Option<&'a Answer>, ServerError> {
    let refused = |code: &[u8]| ServerError { code: code.to_vec(), detail: Vec::new() };
    match answers.get(ask) {
        None | Some(Some(Answer::NoNode)) => Ok(None),
        Some(Some(Answer::NoAuth)) => Err(refused(b"NOPERM")),
        Some(Some(Answer::Refused(_)) | None) => Err(refused(b"ERR")),
        Some(Some(answer)) => Ok(Some(answer)),
    }
}

/// The path of a child.
pub fn join(path: &str, name: &str) -> String {
    let slash = if path.ends_with('/') { "" } else { "/" };
    [path, slash, name].concat()
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;

    /// A node of a megabyte whose last byte counts.
    #[test]
    fn a_change_behind_the_beginning_is_seen() {
        let mut data = vec![b'x'; 1 << 20];
        let before = beginning(&data, 16_384);
        assert_eq!(before.len(), 16_384);
        assert_eq!(beginning(&data, 16_384), before);
        *data.last_mut().unwrap() = b'y';
        assert_ne!(beginning(&data, 16_384), before);
        assert_eq!(beginning(b"short", 16_384), b"short");
        assert_eq!(beginning(&data, 64), vec![b'x'; 64]);
    }
}
