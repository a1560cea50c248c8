//! Frames as they go over the wire: server-sent events whose data are one line of JSON, with
//! nothing in it but letters, digits and plain ASCII. What else there is, is escaped: nobody's
//! terminal or editor shall obey a task's name.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use lockwatch_model::time::AgentWall;
use serde::Serialize;
use serde::ser::{SerializeMap as _, Serializer};
use serde_json::ser::Formatter;

use super::table::{Changes, Table};
use crate::http::page::row::Pulse;

/// Writes frames, and counts the bytes of those that are still alive somewhere.
pub(super) struct Encoder {
    boot: String,
    alive: Arc<AtomicUsize>,
}

/// The data of an event about tasks.
#[derive(Serialize)]
struct Data<'a> {
    at: i64,
    seq: u64,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    rows: Vec<(&'a str, String)>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pulses: Vec<Pulsed<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    gone: Vec<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    redises: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    counts: Option<Counts>,
}

/// A task's name, the end of its lease, the length of the lease, and when its progress moved.
#[derive(Serialize)]
struct Pulsed<'a>(&'a str, Option<i64>, Option<u64>, Option<i64>);

/// How many tasks there are of each verdict.
struct Counts(Vec<(&'static str, usize)>);

#[derive(Serialize)]
struct Beat<'a> {
    at: i64,
    stopped: Stopped<'a>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Stopped<'a> {
    No(bool),
    Because(&'a str),
}

impl Encoder {
    pub(super) fn new(boot: &str) -> Encoder {
        Encoder { boot: boot.to_owned(), alive: Arc::default() }
    }

    /// Whether `boot` is the process that writes.
    pub(super) fn is_of(&self, boot: &str) -> bool {
        self.boot == boot
    }

    /// Bytes of all frames that somebody still has to read, or to keep.
    pub(super) fn bytes_alive(&self) -> usize {
        self.alive.load(Ordering::Relaxed)
    }

    /// What has changed.
    pub(super) fn changes(&self, table: &Table, changes: &Changes) -> Bytes {
        let counts = !(changes.rows.is_empty() && changes.gone.is_empty());
        let data = Data {
            rows: rows(table, &changes.rows),
            pulses: changes.pulses.iter().filter_map(|position| pulse(table, *position)).collect(),
            gone: changes.gone.iter().map(|name| &**name).collect(),
            redises: changes.redises.then(|| table.redises()),
            counts: counts.then(|| Counts::of(table)),
            ..Data::of(table)
        };
        self.event("rows", &data)
    }

    /// The worst tasks, whatever was told before. Others are gone, unless there are more by the
    /// counts.
    pub(super) fn worst(&self, table: &Table, most: usize) -> Bytes {
        let positions = table.worst(most);
        let data = Data {
            rows: rows(table, &positions),
            redises: Some(table.redises()),
            counts: Some(Counts::of(table)),
            ..Data::of(table)
        };
        self.event("all", &data)
    }

    /// One task, whatever was told before; without a row if it is gone.
    pub(super) fn task(&self, table: &Table, name: &str) -> Bytes {
        let positions: Vec<usize> = table.find(name).into_iter().collect();
        self.event("all", &Data { rows: rows(table, &positions), ..Data::of(table) })
    }

    fn event(&self, event: &str, data: &Data<'_>) -> Bytes {
        let text = format!("event: {event}\nid: {}-{}\ndata: ", self.boot, data.seq);
        self.counted(written(text.into_bytes(), data))
    }

    pub(super) fn counted(&self, bytes: Vec<u8>) -> Bytes {
        self.alive.fetch_add(bytes.len(), Ordering::Relaxed);
        Bytes::from_owner(Counted { bytes, alive: Arc::clone(&self.alive) })
    }
}

/// Nothing has happened; or the agent itself says why what it told is not the present.
pub(super) fn beat(at: AgentWall, stopped: Option<&str>) -> Bytes {
    let stopped = stopped.map_or(Stopped::No(false), Stopped::Because);
    written(b"event: beat\ndata: ".to_vec(), &Beat { at: at.0, stopped }).into()
}

impl Data<'_> {
    fn of(table: &Table) -> Data<'static> {
        Data {
            at: table.at().0,
            seq: table.sequence().unwrap_or_default(),
            rows: Vec::new(),
            pulses: Vec::new(),
            gone: Vec::new(),
            redises: None,
            counts: None,
        }
    }
}

impl Counts {
    fn of(table: &Table) -> Counts {
        Counts(table.counts().iter().map(|(verdict, count)| (verdict.name(), *count)).collect())
    }
}

impl Serialize for Counts {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        self.0.iter().try_for_each(|(verdict, count)| map.serialize_entry(verdict, count))?;
        map.end()
    }
}

fn rows<'a>(table: &'a Table, positions: &[usize]) -> Vec<(&'a str, String)> {
    let told = positions.iter().filter_map(|position| table.get(*position));
    told.map(|told| (&**told.name(), told.row.html(&told.pulse, None))).collect()
}

fn pulse(table: &Table, position: usize) -> Option<Pulsed<'_>> {
    let told = table.get(position)?;
    let instant = |wall: AgentWall| wall.0;
    let Pulse { deadline, lease_ms, progress } = told.pulse;
    Some(Pulsed(told.name(), deadline.map(instant), lease_ms, progress.map(instant)))
}

/// `data` after `text`, and the end of an event.
fn written(mut text: Vec<u8>, data: &impl Serialize) -> Vec<u8> {
    // Writing to a Vec cannot fail, and every key is a text.
    let _ = data.serialize(&mut serde_json::Serializer::with_formatter(&mut text, Plain));
    text.extend_from_slice(b"\n\n");
    text
}

/// Compact JSON in which everything is escaped that is neither plain ASCII nor a letter or digit.
struct Plain;

impl Formatter for Plain {
    fn write_string_fragment<W: ?Sized + io::Write>(
        &mut self,
        writer: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        let is_obeyed =
            |character: char| !matches!(character, ' '..='~') && !character.is_alphanumeric();
        let mut rest = fragment;
        while let Some(at) = rest.find(is_obeyed) {
            let (plain, from) = rest.split_at(at);
            writer.write_all(plain.as_bytes())?;
            let mut characters = from.chars();
            let mut units = [0; 2];
            if let Some(obeyed) = characters.next() {
                obeyed
                    .encode_utf16(&mut units)
                    .iter()
                    .try_for_each(|unit| write!(writer, "\\u{unit:04x}"))?;
            }
            rest = characters.as_str();
        }
        writer.write_all(rest.as_bytes())
    }
}

/// Bytes that are counted as long as anybody has them.
struct Counted {
    bytes: Vec<u8>,
    alive: Arc<AtomicUsize>,
}

impl AsRef<[u8]> for Counted {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.alive.fetch_sub(self.bytes.len(), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_arrive_exactly_and_nothing_in_them_is_obeyed() {
        let name = "a\"\\<b>\u{202e}出荷é\u{301}\n\u{1b}[31m\u{7f}\u{85}😀";
        let text = written(Vec::new(), &[name]);
        let text = std::str::from_utf8(&text).unwrap().strip_suffix("\n\n").unwrap();
        assert!(text.chars().all(|c| matches!(c, ' '..='~') || c.is_alphanumeric()), "{text}");
        assert!(text.contains("出荷é"), "{text}");
        assert_eq!(serde_json::from_str::<[String; 1]>(text).unwrap(), [name]);
    }

    #[test]
    fn beats() {
        let text = |stopped| {
            String::from_utf8(beat(AgentWall(1_800_000_000_123), stopped).to_vec()).unwrap()
        };
        assert_eq!(text(None), "event: beat\ndata: {\"at\":1800000000123,\"stopped\":false}\n\n");
        assert_eq!(
            text(Some("It has.")),
            "event: beat\ndata: {\"at\":1800000000123,\"stopped\":\"It has.\"}\n\n"
        );
    }

    #[test]
    fn frames_are_counted_as_long_as_anybody_has_them() {
        let encoder = Encoder::new("b");
        let frame = encoder.worst(&Table::default(), 1);
        let other = frame.clone();
        assert_eq!(encoder.bytes_alive(), frame.len());
        drop(frame);
        assert!(encoder.bytes_alive() > 0);
        drop(other);
        assert_eq!(encoder.bytes_alive(), 0);
    }
}
