//! Looks at all keys that a scan finds, with commands of bounded cost and reply size whatever a key
//! holds.

use std::io::{IsTerminal as _, Write as _};
use std::time::Duration;

use lockwatch_judge::reading::Unknown;
use lockwatch_judge::time::ServerTime;
use lockwatch_watch::command;
use lockwatch_watch::redis::accept::server_time;
use lockwatch_watch::redis::reply::{Command, Reply};
use tokio::time::Instant;

use super::server::Server;
use crate::io::{Connection, Failure, Pace, scan_page};
use lockwatch_watch::redis::libraries::recognise::{Content, ScannedKey};
use lockwatch_watch::redis::libraries::{HUEY_RESULTS, may_be_of_holders, names_holders};

/// Maximum number of keys in a page, and of keys that are looked at together.
pub(super) const PAGE_MAX: u32 = 100;
/// The offset of the last byte of a string that is read; tokens are shorter.
const LAST_BYTE: &str = "127";
/// Number of field names that are read before a hash is scanned.
const NAMES: &str = "8";
/// The same of a hash that has locks among many other fields.
const NAMES_AMONG_MANY: &str = "1000";
/// Maximum length of a value of a lock's hash.
const VALUE_MAX: i64 = 64;
/// Maximum number of fields of a lock's hash.
pub(super) const FIELDS_MAX: u64 = 128;
/// Together with [`PASSED_FREE`], the maximum length of a scan: this many times the number of keys
/// on the server. It ends scans that writes or a sparse hash table prolong.
const PASSES_MAX: u64 = 20;
/// Number of keys added to that maximum.
const PASSED_FREE: u64 = 100_000;
/// How often progress is printed.
const SHOWN_EVERY: Duration = Duration::from_millis(250);

/// The summary of a scan.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Walked {
    /// Number of keys read.
    pub(super) keys: u64,
    /// Number of keys that this user may not read.
    pub(super) forbidden: u64,
    /// Number of keys that the server refused for another reason.
    pub(super) refused: u64,
    /// The newest of these reasons.
    pub(super) refused_why: Option<Unknown>,
}

/// Scans all keys that match, and passes each to `take`.
pub(super) async fn walk(
    connection: &Connection,
    server: &Server,
    glob: Option<&[u8]>,
    pace: &mut Pace,
    mut take: impl FnMut(ScannedKey),
) -> Result<Walked, Failure> {
    let mut walked = Walked::default();
    let mut progress = Progress::new(server.keys);
    let mut cursor = b"0".to_vec();
    loop {
        pace.wait().await;
        let began = Instant::now();
        let (next, keys) = scan_page(connection, &cursor, glob, pace.page()).await?;
        // Keys that do not match cost the server as much as others.
        let passed = keys.len().max(usize::try_from(pace.page()).unwrap_or(usize::MAX));
        pace.spent(began, passed);
        walked.keys += keys.len() as u64;
        for chunk in keys.chunks(usize::try_from(PAGE_MAX).unwrap_or(usize::MAX)) {
            look(connection, chunk, &mut walked, &mut take).await?;
        }
        progress.show(passed as u64);
        if next == b"0" {
            progress.end();
            return Ok(walked);
        }
        if server.keys.is_some_and(|keys| progress.passed > passed_max(keys)) {
            return Err(endless(progress.passed));
        }
        cursor = next;
    }
}

/// The maximum number of keys that a scan may pass on a server with `keys` keys.
fn passed_max(keys: u64) -> u64 {
    keys.saturating_mul(PASSES_MAX).saturating_add(PASSED_FREE)
}

fn endless(passed: u64) -> Failure {
    let detail =
        format!("SCAN does not end: {passed} keys were passed, many more than the server has");
    Failure { why: Unknown::Protocol, detail }
}

/// Reads some keys: type and TTL, then what the type allows, then the fields of hashes that may be
/// locks.
async fn look(
    connection: &Connection,
    keys: &[Vec<u8>],
    walked: &mut Walked,
    take: &mut impl FnMut(ScannedKey),
) -> Result<(), Failure> {
    let typed = keys.iter().flat_map(|key| [command!("TYPE", key), command!("PTTL", key)]);
    let asked: Vec<Command> = std::iter::once(command!("TIME")).chain(typed).collect();
    let replies = connection.exec(&asked).await?;
    let Some((now, replies)) = replies.split_first() else { return Ok(()) };
    let now = clock(now)?;
    let mut typed = Vec::with_capacity(keys.len());
    for (key, answer) in keys.iter().zip(replies.chunks_exact(2)) {
        match answer {
            [Reply::Error(error), _] | [_, Reply::Error(error)] => {
                walked.count_refusal(Unknown::from(error))
            }
            [Reply::Bytes(kind), Reply::Int(ttl)] if *ttl != -2 => {
                typed.push((key, kind.as_slice(), ttl_ms(*ttl)))
            }
            _ => {} // Gone meanwhile.
        }
    }
    let asked: Vec<Vec<Command>> =
        typed.iter().map(|(key, kind, ttl_ms)| questions(key, kind, *ttl_ms)).collect();
    let replies = ask_all(connection, asked).await?;
    let mut found = Vec::with_capacity(typed.len());
    for ((key, kind, ttl_ms), answers) in typed.into_iter().zip(replies) {
        match answers.iter().find_map(refusal) {
            Some(why) => walked.count_refusal(why),
            None => found.push(ScannedKey {
                key: key.clone(),
                ttl_ms,
                now,
                content: content(kind, &answers),
            }),
        }
    }
    read_hashes(connection, &mut found).await?;
    found.into_iter().for_each(take);
    Ok(())
}

/// Reads the hashes whose fields are named like a lock's, and have values as short as a lock's.
async fn read_hashes(connection: &Connection, found: &mut [ScannedKey]) -> Result<(), Failure> {
    let named: Vec<&mut ScannedKey> =
        found.iter_mut().filter(|seen| is_worth_reading(seen)).collect();
    let lengths = named.iter().map(|seen| value_lengths(seen)).collect();
    let lengths = ask_all(connection, lengths).await?;
    let is_short = |length: &Reply| length.as_int().is_some_and(|length| length <= VALUE_MAX);
    let mut hashes: Vec<&mut ScannedKey> = named
        .into_iter()
        .zip(lengths)
        .filter_map(|(seen, lengths)| lengths.iter().all(is_short).then_some(seen))
        .collect();
    if hashes.is_empty() {
        return Ok(());
    }
    let asked: Vec<Command> = hashes.iter().map(|seen| scan_hash(&seen.key)).collect();
    let replies = connection.exec(&asked).await?;
    for (seen, reply) in hashes.iter_mut().zip(replies) {
        if let Content::Hash { scanned, .. } = &mut seen.content {
            *scanned = Some(reply);
        }
    }
    Ok(())
}

/// One bounded step, which is complete for small hashes.
pub(super) fn scan_hash(key: &[u8]) -> Command {
    command!("HSCAN", key, "0", "COUNT", FIELDS_MAX.to_string())
}

/// The fields and values in the reply to [`scan_hash`].
pub(super) fn scanned_pairs(scanned: &Reply) -> Vec<(&[u8], &[u8])> {
    let Some([_, Reply::Array(items)]) = scanned.as_array() else { return Vec::new() };
    let pairs = items.chunks_exact(2);
    pairs.filter_map(|pair| Some((pair.first()?.as_bytes()?, pair.last()?.as_bytes()?))).collect()
}

fn is_worth_reading(seen: &ScannedKey) -> bool {
    matches!(&seen.content, Content::Hash { length, names, .. }
        if *length <= FIELDS_MAX && names_holders(&seen.key, names))
}

/// What reads the lengths of the values of a hash.
fn value_lengths(seen: &ScannedKey) -> Vec<Command> {
    match &seen.content {
        Content::Hash { names, .. } => {
            names.iter().map(|name| command!("HSTRLEN", &seen.key, name)).collect()
        }
        _ => Vec::new(),
    }
}

/// The commands for a key of this type.
fn questions(key: &[u8], kind: &[u8], ttl_ms: Option<u64>) -> Vec<Command> {
    match kind {
        b"string" => vec![command!("STRLEN", key), command!("GETRANGE", key, "0", LAST_BYTE)],
        b"hash" => {
            let names = if key.starts_with(HUEY_RESULTS) { NAMES_AMONG_MANY } else { NAMES };
            vec![command!("HLEN", key), command!("HRANDFIELD", key, names)]
        }
        b"zset" if ttl_ms.is_some() && may_be_of_holders(key) => {
            let newest = command!("ZRANGE", key, "-1", "-1", "WITHSCORES");
            vec![command!("ZSCORE", key, "__write__"), newest]
        }
        b"zset" if ttl_ms.is_some() => vec![command!("ZSCORE", key, "__write__")],
        _ => Vec::new(),
    }
}

fn content(kind: &[u8], answers: &[Reply]) -> Content {
    let length = |reply: &Reply| {
        reply.as_int().and_then(|length| u64::try_from(length).ok()).unwrap_or_default()
    };
    match (kind, answers) {
        (b"string", [size, Reply::Bytes(start)]) => {
            Content::Text { length: length(size), start: start.clone() }
        }
        (b"hash", [size, Reply::Array(names)]) => {
            let names =
                names.iter().filter_map(|name| name.as_bytes().map(<[u8]>::to_vec)).collect();
            Content::Hash { length: length(size), names, scanned: None }
        }
        (b"zset", [writer, rest @ ..]) => {
            // A writer's mark has the score of its token, which is the only one.
            let newest = rest.first().and_then(last_score).or_else(|| writer.as_bytes());
            let has_writer = writer.as_bytes().is_some();
            Content::Sorted { has_writer, newest: newest.map(<[u8]>::to_vec) }
        }
        (b"zset", []) => Content::Sorted { has_writer: false, newest: None },
        (b"list", _) => Content::List,
        (b"set", _) => Content::Set,
        _ => Content::Other,
    }
}

/// The score of the only member.
fn last_score(members: &Reply) -> Option<&[u8]> {
    members.as_array()?.last()?.as_bytes()
}

/// The server's clock.
pub(super) async fn time(connection: &Connection) -> Result<ServerTime, Failure> {
    let replies = connection.exec(&[command!("TIME")]).await?;
    replies.first().map_or(Ok(ServerTime::at(0)), clock)
}

fn clock(reply: &Reply) -> Result<ServerTime, Failure> {
    let detail = || "the answer to TIME cannot be read".to_owned();
    server_time(reply).map_err(|why| Failure { why, detail: detail() })
}

/// Sends all commands at once; the replies are in the same order.
pub(super) async fn ask_all(
    connection: &Connection,
    asked: Vec<Vec<Command>>,
) -> Result<Vec<Vec<Reply>>, Failure> {
    let counts: Vec<usize> = asked.iter().map(Vec::len).collect();
    let commands: Vec<Command> = asked.into_iter().flatten().collect();
    let mut replies = match commands.is_empty() {
        true => Vec::new().into_iter(),
        false => connection.exec(&commands).await?.into_iter(),
    };
    Ok(counts.into_iter().map(|count| replies.by_ref().take(count).collect()).collect())
}

fn refusal(reply: &Reply) -> Option<Unknown> {
    match reply {
        // The key's type changed between two commands.
        Reply::Error(error) => Some(Unknown::from(error)).filter(|why| *why != Unknown::WrongType),
        _ => None,
    }
}

pub(super) fn ttl_ms(reply: i64) -> Option<u64> {
    u64::try_from(reply).ok()
}

impl Walked {
    fn count_refusal(&mut self, why: Unknown) {
        match why {
            Unknown::NoPermission => self.forbidden += 1,
            _ => {
                self.refused += 1;
                self.refused_why = Some(why);
            }
        }
    }
}

/// The progress of the scan, printed if stderr is a terminal.
struct Progress {
    /// Total number of keys, if known.
    total: Option<u64>,
    passed: u64,
    shown: bool,
    shown_at: Instant,
}

impl Progress {
    fn new(total: Option<u64>) -> Progress {
        Progress {
            total,
            passed: 0,
            shown: std::io::stderr().is_terminal(),
            shown_at: Instant::now(),
        }
    }

    fn show(&mut self, passed: u64) {
        self.passed += passed;
        if self.shown && self.shown_at.elapsed() >= SHOWN_EVERY {
            self.shown_at = Instant::now();
            // Pages are counted in full although the last ones may be shorter.
            let passed = self.passed.min(self.total.unwrap_or(u64::MAX));
            let total = self.total.map(|total| format!(" of about {total}")).unwrap_or_default();
            eprint!("\rpassed {passed}{total} keys");
            let _nobody_reads = std::io::stderr().flush();
        }
    }

    fn end(&self) {
        if self.shown {
            eprintln!("\rpassed all keys{}", " ".repeat(30));
        }
    }
}
