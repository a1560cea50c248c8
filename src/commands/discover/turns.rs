//! Finds tasks that take turns: small hashes with an instant as value, whose only field changes its
//! name while they are watched.

use std::time::Duration;

use lockwatch_judge::spec::{TurnSpec, Unit};
use lockwatch_judge::time::ServerTime;
use lockwatch_watch::command;
use lockwatch_watch::redis::libraries::shape::words;
use lockwatch_watch::redis::reply::{Command, Reply};
use lockwatch_watch::redis::unit_near;
use tokio::time::{Instant, sleep};

use super::findings::Findings;
use super::groups::few_alike;
use super::likely::is_of_progress;
use super::name::yaml;
use super::print::Relative;
use super::scan::{ask_all, scan_hash, scanned_pairs, time};
use crate::io::{Connection, Failure, Pace};

/// Maximum number of hashes that are read.
const HASHES_MAX: usize = 400;
/// Number of hashes in one batch.
const PER_BATCH: usize = 50;
/// Maximum number of hashes that are watched.
const WATCHED_MAX: usize = 20;
/// Interval between readings while they are watched.
const INTERVAL: Duration = Duration::from_millis(400);
/// Maximum number of fields: two, while a turn is passed.
const FIELDS_MAX: u64 = 2;
/// Maximum length of a name, and of an instant, in bytes.
const BYTES_MAX: usize = 64;
/// How far from now an instant may be. Turns are taken all the time.
const NEAR_MS: i64 = 30 * 24 * 3_600_000;
/// Words in the name of a hash that suggest turns.
const TURN_WORDS: [&[u8]; 6] =
    [b"turn", b"turns", b"next", b"rotation", b"alternate", b"alternating"];

/// Hashes that may hold whose turn it is.
#[derive(Debug, Default)]
pub(super) struct Turns {
    hashes: Vec<SeenHash>,
}

/// What was seen of one hash.
#[derive(Debug)]
struct SeenHash {
    hash: Vec<u8>,
    unit: Unit,
    /// The names of its only field, in the order in which they were first seen.
    names: Vec<Vec<u8>>,
    /// The newest of them.
    newest: Option<Vec<u8>>,
    /// Whether a name came again after another one.
    came_again: bool,
}

impl Turns {
    /// Reads small hashes of the scan, and keeps those whose values are instants.
    pub(super) async fn look(
        connection: &Connection,
        findings: &Findings,
        pace: &mut Pace,
    ) -> Result<Turns, Failure> {
        let small = findings.hashes.iter().filter(|(_, length)| **length <= FIELDS_MAX);
        let mut hashes = few_alike(small.map(|(hash, _)| hash.as_slice()));
        // Sorting is stable: those that are named like turns come first.
        hashes.sort_by_key(|hash| !is_of_turns(hash));
        hashes.truncate(HASHES_MAX);
        let mut turns = Turns::default();
        for batch in hashes.chunks(PER_BATCH) {
            pace.wait().await;
            let began = Instant::now();
            let now = time(connection).await?;
            let short = of_short_values(connection, batch).await?;
            let read = short.iter().map(|hash| scan_hash(hash)).collect();
            let replies = ask_all(connection, vec![read]).await?.concat();
            let seen = short.iter().zip(&replies);
            turns.hashes.extend(seen.filter_map(|(hash, reply)| SeenHash::of(hash, reply, now)));
            pace.spent(began, batch.len());
        }
        turns.hashes.truncate(WATCHED_MAX);
        Ok(turns)
    }

    /// Reads the hashes again and again, to learn who takes turns.
    pub(super) async fn watch(
        &mut self,
        connection: &Connection,
        watch_ms: u64,
    ) -> Result<(), Failure> {
        // The loop would keep an idle connection.
        if self.hashes.is_empty() {
            return Ok(());
        }
        let until = Instant::now() + Duration::from_millis(watch_ms);
        while Instant::now() + INTERVAL <= until {
            sleep(INTERVAL).await;
            let asked = self.hashes.iter().map(|seen| scan_hash(&seen.hash)).collect();
            let replies = ask_all(connection, vec![asked]).await?.concat();
            let mut replies = replies.iter();
            self.hashes.retain_mut(|seen| replies.next().is_some_and(|reply| seen.take(reply)));
        }
        Ok(())
    }

    /// Those that take turns, and those that perhaps do.
    pub(super) fn relatives(self) -> (Vec<Relative>, Vec<Relative>) {
        let kinds = self.hashes.into_iter().filter_map(|seen| Some((seen.kind()?, seen)));
        let (sure, perhaps): (Vec<_>, Vec<_>) = kinds.partition(|((is_sure, _), _)| *is_sure);
        let relative = |((_, about), seen): ((bool, &str), SeenHash)| seen.relative(about);
        (sure.into_iter().map(relative).collect(), perhaps.into_iter().map(relative).collect())
    }
}

impl SeenHash {
    /// A hash whose few values are instants that are near.
    fn of(hash: &[u8], scanned: &Reply, now: ServerTime) -> Option<SeenHash> {
        let pairs = scanned_pairs(scanned);
        let (name, value) = pairs.first()?;
        let unit = unit_near(value, now, NEAR_MS)?;
        let all_near = pairs.iter().all(|(_, value)| unit_near(value, now, NEAR_MS) == Some(unit));
        if !all_near || pairs.iter().any(|(name, _)| is_of_progress(name)) {
            return None;
        }
        let hash = hash.to_vec();
        let mut seen = SeenHash { hash, unit, names: Vec::new(), newest: None, came_again: false };
        if pairs.len() == 1 {
            seen.note(name);
        }
        Some(seen)
    }

    /// Takes in another reading; `false` if it cannot be whose turn it is.
    fn take(&mut self, scanned: &Reply) -> bool {
        let pairs = scanned_pairs(scanned);
        if let [(name, _)] = pairs.as_slice() {
            self.note(name);
        }
        pairs.len() as u64 <= FIELDS_MAX
            && pairs.iter().all(|(name, _)| name.len() <= BYTES_MAX)
            && self.names.len() <= TurnSpec::TASKS_MAX
    }

    fn note(&mut self, name: &[u8]) {
        if self.newest.as_deref() == Some(name) {
            return;
        }
        match self.names.iter().any(|known| known == name) {
            true => self.came_again = true,
            false => self.names.push(name.to_vec()),
        }
        self.newest = Some(name.to_vec());
    }

    /// Whether it is sure, and what speaks for it; `None` if nothing does.
    fn kind(&self) -> Option<(bool, &'static str)> {
        if self.names.is_empty() {
            return None;
        }
        match (self.came_again, self.names.len() > 1, is_of_turns(&self.hash)) {
            (true, ..) => Some((true, "the turn came back to one of them")),
            (false, true, _) => Some((false, "its only field changed its name")),
            (false, false, true) => {
                Some((false, "its only field kept its name; write all names that take turns"))
            }
            (false, false, false) => None,
        }
    }

    fn relative(self, about: &str) -> Relative {
        let names: Vec<String> = self.names.iter().map(|name| yaml(name)).collect();
        let block = format!(
            "turn: {{hash: {}, unit: {}, tasks: [{}]}}",
            yaml(&self.hash),
            self.unit.name(),
            names.join(", ")
        );
        let text = format!("Tasks that take turns: {about}. Names seen: {}.", names.len());
        Relative { key: self.hash, block, text, locks: Vec::new() }
    }
}

/// The hashes of which all names and values are short.
async fn of_short_values<'a>(
    connection: &Connection,
    hashes: &[&'a [u8]],
) -> Result<Vec<&'a [u8]>, Failure> {
    let names: Vec<Vec<Command>> = hashes
        .iter()
        .map(|hash| vec![command!("HRANDFIELD", hash, (FIELDS_MAX + 1).to_string())])
        .collect();
    let names = ask_all(connection, names).await?.concat();
    let sizes = hashes.iter().zip(&names).map(|(hash, names)| sizes(hash, names)).collect();
    let sizes = ask_all(connection, sizes).await?;
    let is_short = |size: &Reply| {
        let size = size.as_int().and_then(|size| usize::try_from(size).ok());
        size.is_some_and(|size| (1..=BYTES_MAX).contains(&size))
    };
    let short = hashes.iter().zip(sizes);
    let short = short.filter(|(_, sizes)| !sizes.is_empty() && sizes.iter().all(is_short));
    Ok(short.map(|(hash, _)| *hash).collect())
}

/// What asks for the lengths of the values; nothing if there are too many, or a name is too long.
fn sizes(hash: &[u8], names: &Reply) -> Vec<Command> {
    let names: Vec<&[u8]> =
        names.as_array().unwrap_or_default().iter().filter_map(Reply::as_bytes).collect();
    let fit = names.len() as u64 <= FIELDS_MAX && names.iter().all(|name| name.len() <= BYTES_MAX);
    let asked = names.iter().filter(|_| fit).map(|name| command!("HSTRLEN", hash, name));
    asked.collect()
}

fn is_of_turns(hash: &[u8]) -> bool {
    words(hash).iter().any(|word| TURN_WORDS.contains(&word.as_slice()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: ServerTime = ServerTime::at(1_764_000_000_000);

    fn scanned(pairs: &[(&str, &str)]) -> Reply {
        let bytes = |text: &str| Reply::Bytes(text.as_bytes().to_vec());
        let items = pairs.iter().flat_map(|(name, value)| [bytes(name), bytes(value)]).collect();
        Reply::Array(vec![bytes("0"), Reply::Array(items)])
    }

    fn seen(hash: &str, readings: &[&[(&str, &str)]]) -> Option<(bool, String)> {
        let (first, rest) = readings.split_first()?;
        let mut seen = SeenHash::of(hash.as_bytes(), &scanned(first), NOW)?;
        if !rest.iter().all(|reading| seen.take(&scanned(reading))) {
            return None;
        }
        let (is_sure, about) = seen.kind()?;
        Some((is_sure, seen.relative(about).block))
    }

    #[test]
    fn a_turn_that_comes_back_is_sure() {
        let (a, b) = (("a", "1764000000000"), ("b", "1764000001000"));
        let block = "turn: {hash: \"x\", unit: ms, tasks: [\"a\", \"b\"]}";
        let turns = |readings: &[&[(&str, &str)]]| seen("x", readings);
        assert_eq!(turns(&[&[a], &[b], &[a, b], &[a]]), Some((true, block.to_owned())));
        assert_eq!(turns(&[&[a], &[], &[b]]), Some((false, block.to_owned())));
        assert_eq!(turns(&[&[a], &[a]]), None, "nothing changes, and the name says nothing");
        let perhaps = seen("batch:turns", &[&[("a", "1764000000")], &[("a", "1764000000")]]);
        let block = "turn: {hash: \"batch:turns\", unit: s, tasks: [\"a\"]}";
        assert_eq!(perhaps, Some((false, block.to_owned())));
    }

    #[test]
    fn other_hashes_are_none() {
        let at = "1764000000000";
        for readings in [
            &[&[("last_run", at)][..], &[("heartbeat", at)], &[("last_run", at)]][..],
            &[&[("a", "17")], &[("b", "17")], &[("a", "17")]],
            &[&[("a", "1000000000")]],
            &[&[("a", at)], &[("a", at), ("b", at), ("c", at)], &[("a", at)]],
            &[&[("a", at), ("b", "on")], &[("b", at)], &[("a", at)]],
        ] {
            assert_eq!(seen("turns", readings), None, "{readings:?}");
        }
        let names: Vec<String> = (0..=TurnSpec::TASKS_MAX + 1).map(|n| format!("n{n}")).collect();
        let readings: Vec<[(&str, &str); 1]> = names.iter().map(|name| [(&**name, at)]).collect();
        let readings: Vec<&[(&str, &str)]> = readings.iter().map(<[_; 1]>::as_slice).collect();
        assert_eq!(seen("turns", &readings), None, "too many names");
    }
}
