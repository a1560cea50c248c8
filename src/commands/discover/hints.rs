//! Suggests further settings of a task: keys whose names resemble its lock's and that look like
//! switches or progress.

use std::collections::BTreeMap;

use lockwatch_judge::reading::Switch;
use lockwatch_judge::spec::Codec;
use lockwatch_watch::command;
use lockwatch_watch::redis::codec;
use lockwatch_watch::redis::reply::{Command, Reply};

use super::findings::Findings;
use super::likely::{SWITCHES_MAX, is_of_progress};
use super::name::yaml;
use super::scan::{ask_all, scan_hash, scanned_pairs};
use crate::io::{Connection, Failure};
use lockwatch_watch::redis::libraries::recognise::Laid;
use lockwatch_watch::redis::libraries::shape::{is_lock_word, words};

/// Maximum length of a switch's value in bytes.
const VALUE_BYTES_MAX: i64 = 64;
/// Maximum number of hashes that are read for one task; the next constant is for all tasks
/// together.
const HASHES_PER_TASK: usize = 4;
const HASHES_MAX: usize = 400;
/// Minimum length of the common part of two names in bytes; a shorter one is a coincidence.
const STEM_BYTES_MIN: usize = 3;

/// For each lock, the lines that could be added to its task, each as a comment.
pub(super) async fn suggest(
    connection: &Connection,
    findings: &Findings,
    locks: &[(&[u8], Laid)],
) -> Result<BTreeMap<Vec<u8>, Vec<String>>, Failure> {
    let mut suggested: BTreeMap<Vec<u8>, Vec<String>> = BTreeMap::new();
    let mut left = HASHES_MAX;
    for (lock, laid) in locks {
        let Some(stem) = stem(lock) else { continue };
        let mut lines = Vec::new();
        // The names that the documentation gives them.
        let own = [[b"lockwatch:claims:", &*stem].concat(), b"lockwatch:hosts".to_vec()];
        let own = own.iter().filter_map(|name| findings.hashes.get_key_value(name));
        let own = own.map(|(name, _)| name.as_slice());
        let hashes: Vec<&[u8]> = relatives(findings.hashes.keys(), &stem)
            .chain(own)
            .take(HASHES_PER_TASK.min(left))
            .collect();
        left -= hashes.len();
        for hash in hashes {
            lines.extend(look_into(connection, hash, laid).await?);
        }
        let strings = relatives(findings.progress.iter(), &stem).take(1);
        lines.extend(strings.map(|key| {
            format!(
                "progress: {{key: {}, stale_after: 5m}}   # does the work change it?",
                yaml(key)
            )
        }));
        if !lines.is_empty() {
            suggested.insert(lock.to_vec(), lines);
        }
    }
    Ok(suggested)
}

/// Keys that begin with the stem and a separator.
fn relatives<'a>(
    keys: impl Iterator<Item = &'a Vec<u8>>,
    stem: &[u8],
) -> impl Iterator<Item = &'a [u8]> {
    keys.map(Vec::as_slice).filter(move |key| {
        key.strip_prefix(stem)
            .and_then(<[u8]>::first)
            .is_some_and(|byte| !byte.is_ascii_alphanumeric())
    })
}

/// The common part of the names of a task's keys: the lock's name without the word for "lock".
fn stem(lock: &[u8]) -> Option<Vec<u8>> {
    let is_separator = |byte: &u8| !byte.is_ascii_alphanumeric();
    let last = lock.iter().rposition(is_separator);
    let first = lock.iter().position(is_separator);
    let says_lock = |word: &[u8]| is_lock_word(&word.to_ascii_lowercase());
    let before = last.and_then(|at| Some((lock.get(..at)?, lock.get(at + 1..)?)));
    let after = first.and_then(|at| Some((lock.get(..at)?, lock.get(at + 1..)?)));
    let stem = match (before, after) {
        (Some((stem, word)), _) if says_lock(word) => stem,
        (_, Some((word, stem))) if says_lock(word) => stem,
        _ => lock,
    };
    (stem.len() >= STEM_BYTES_MIN).then(|| stem.to_vec())
}

/// What a small hash may be used for. Its values are read only if all are short, and are never
/// printed.
async fn look_into(
    connection: &Connection,
    key: &[u8],
    laid: &Laid,
) -> Result<Vec<String>, Failure> {
    let names = connection.exec(&[command!("HRANDFIELD", key, SWITCHES_MAX.to_string())]).await?;
    let names: Vec<&[u8]> = match names.as_slice() {
        [Reply::Array(names)] => names.iter().filter_map(Reply::as_bytes).collect(),
        _ => return Ok(Vec::new()),
    };
    let mut lines = Vec::new();
    let mut of_progress: Vec<&[u8]> =
        names.iter().copied().filter(|name| is_of_progress(name)).collect();
    of_progress.sort_unstable();
    if let Some(line) = claims_or_hosts(key, laid) {
        return Ok(vec![line]);
    }
    if let Some(field) = of_progress.first() {
        let (hash, field) = (yaml(key), yaml(field));
        lines.push(format!(
            "progress: {{hash: {hash}, field: {field}, stale_after: 5m}}   # does the work change \
             it?"
        ));
        return Ok(lines);
    }
    let sizes: Vec<Command> = names.iter().map(|name| command!("HSTRLEN", key, name)).collect();
    let sizes = ask_all(connection, vec![sizes]).await?.concat();
    if !sizes.iter().all(|size| size.as_int().is_some_and(|size| size <= VALUE_BYTES_MAX)) {
        return Ok(lines);
    }
    let values = connection.exec(&[scan_hash(key)]).await?;
    if let Some((codec, count)) = values.first().and_then(switches) {
        let codec =
            if codec == Codec::Raw { String::new() } else { format!(", codec: {}", codec.name()) };
        let fields = if count == 1 {
            "its field is a switch".to_owned()
        } else {
            format!("its {count} fields are switches")
        };
        lines.push(format!(
            "wanted: {{hash: {}{codec}}}   # {fields}: those of the users who want the task?",
            yaml(key)
        ));
    }
    Ok(lines)
}

/// What a hash is whose name says that workers state in it who they are: each by the name that its
/// lock has for it.
fn claims_or_hosts(key: &[u8], laid: &Laid) -> Option<String> {
    let hash = yaml(key);
    let words = words(key);
    let is_called = |name: &[u8]| words.iter().any(|word| word == name);
    if is_called(b"claims") {
        let named = if laid.holder.is_some() { ", named as `holder` finds it" } else { "" };
        return Some(format!(
            "claims: {{hash: {hash}}}   # does each worker of the task keep changing its \
             field{named}?"
        ));
    }
    // With `holder`, the name of the host stands in the lock's own value.
    let is_of_hosts = is_called(b"hosts") && laid.holder.is_none();
    is_of_hosts.then(|| format!("hosts: {{hash: {hash}}}   # of the holders?"))
}

/// The codec that reads every value of the scanned hash as on or off, and the number of values.
fn switches(scanned: &Reply) -> Option<(Codec, usize)> {
    let values: Vec<&[u8]> = scanned_pairs(scanned).into_iter().map(|(_, value)| value).collect();
    let says = |codec: Codec| {
        values.iter().all(|value| matches!(codec::switch(codec, value), Switch::On | Switch::Off))
    };
    if values.iter().all(|value| value.is_empty()) {
        return None;
    }
    let codec = Codec::ALL.into_iter().find(|codec| says(*codec))?;
    Some((codec, values.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stems_and_words() {
        assert_eq!(stem(b"outbound:lock").as_deref(), Some(b"outbound".as_slice()));
        assert_eq!(stem(b"lock:outbound").as_deref(), Some(b"outbound".as_slice()));
        assert_eq!(stem(b"shop:outbound").as_deref(), Some(b"shop:outbound".as_slice()));
        assert_eq!(stem(b"a:lock"), None);
        for name in ["last_run", "lastRun", "outbound:heartbeat", "progress"] {
            assert!(is_of_progress(name.as_bytes()), "{name}");
        }
        assert!(!is_of_progress(b"run") && !is_of_progress(b"progress:bar"));
    }

    #[test]
    fn claims_and_hosts_are_known_by_their_names() {
        let plain = Laid::new("string", "a token");
        let line = |key: &str| claims_or_hosts(key.as_bytes(), &plain).unwrap_or_default();
        assert!(
            line("lockwatch:claims:outbound").starts_with("claims: {hash: \"lockwatch:claims:")
        );
        assert!(line("outbound:hosts").starts_with("hosts: {hash: \"outbound:hosts\"}"));
        assert_eq!(line("outbound:users"), "");
        let with_path = Laid { holder: Some("^(.+):"), ..plain };
        let claims = claims_or_hosts(b"outbound:claims", &with_path).unwrap();
        assert!(claims.ends_with("its field, named as `holder` finds it?"), "{claims}");
        assert_eq!(claims_or_hosts(b"outbound:hosts", &with_path), None);
    }

    #[test]
    fn only_switches_throughout_are_switches() {
        let scanned = |values: &[&str]| {
            let bytes = |text: &str| Reply::Bytes(text.as_bytes().to_vec());
            Reply::Array(vec![
                bytes("0"),
                Reply::Array(values.iter().flat_map(|value| [bytes("u"), bytes(value)]).collect()),
            ])
        };
        assert_eq!(switches(&scanned(&["1", "off"])), Some((Codec::Raw, 2)));
        assert_eq!(switches(&scanned(&["\"on\"", "false"])), Some((Codec::Json, 2)));
        assert_eq!(switches(&scanned(&["1", "anna"])), None);
        assert_eq!(switches(&scanned(&["", ""])), None);
    }
}
