//! The wire format of frames: server-sent events whose data are one line of JSON.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use lockwatch_judge::time::AgentWall;
use lockwatch_judge::verdict::Verdict;
use serde::Serialize;
use serde::ser::Serializer;
use serde_json::Value;

use super::table::{Changes, Table};
use crate::outputs::json::text;
use crate::outputs::page::pulse::Pulse;

/// Encodes frames, and counts the bytes of those that are still in memory.
pub(crate) struct Encoder {
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
    #[serde(rename = "redises", skip_serializing_if = "Option::is_none")]
    stores: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "as_map")]
    counts: Option<Counts>,
    #[serde(skip_serializing_if = "Option::is_none")]
    drill: Option<&'a str>,
}

type Counts = [(&'static str, usize); Verdict::ALL.len()];

/// A task's name, the end of its lease, the length of the lease, and when its progress moved.
type Pulsed<'a> = (&'a str, Option<i64>, Option<u64>, Option<i64>);

impl Encoder {
    pub(crate) fn new(boot: &str) -> Encoder {
        Encoder { boot: boot.to_owned(), alive: Arc::default() }
    }

    /// Whether `boot` is this process.
    pub(crate) fn is_of(&self, boot: &str) -> bool {
        self.boot == boot
    }

    /// Bytes of all frames that are still queued or kept.
    pub(crate) fn bytes_alive(&self) -> usize {
        self.alive.load(Ordering::Relaxed)
    }

    /// A frame with these changes.
    pub(crate) fn changes(&self, table: &Table, changes: &Changes) -> Bytes {
        let is_counted_again = !(changes.rows.is_empty() && changes.gone.is_empty());
        let data = Data {
            rows: rows(table, &changes.rows),
            pulses: changes.pulses.iter().filter_map(|position| pulse(table, *position)).collect(),
            gone: changes.gone.iter().map(|name| &**name).collect(),
            stores: changes.stores.then(|| table.stores()),
            counts: if is_counted_again { counts(table) } else { None },
            ..Data::of(table)
        };
        self.event("rows", &data)
    }

    /// A frame with the worst tasks, which replaces earlier ones. Tasks that are not in it are
    /// gone, unless the counts are higher.
    pub(crate) fn worst(&self, table: &Table, most: usize) -> Bytes {
        let positions = table.worst(most);
        let data = Data {
            rows: rows(table, &positions),
            stores: Some(table.stores()),
            counts: counts(table),
            ..Data::of(table)
        };
        self.event("all", &data)
    }

    /// A frame with one task, which replaces earlier ones; without a row if the task is gone.
    pub(crate) fn task(&self, table: &Table, name: &str) -> Bytes {
        let positions: Vec<usize> = table.find(name).into_iter().collect();
        self.event("all", &Data { rows: rows(table, &positions), ..Data::of(table) })
    }

    fn event(&self, event: &str, data: &Data<'_>) -> Bytes {
        let (boot, sequence, data) = (&self.boot, data.seq, text(data));
        let frame = format!("event: {event}\nid: {boot}-{sequence}\ndata: {data}\n\n");
        self.counted(frame.into_bytes())
    }

    pub(crate) fn counted(&self, bytes: Vec<u8>) -> Bytes {
        self.alive.fetch_add(bytes.len(), Ordering::Relaxed);
        Bytes::from_owner(Counted { bytes, alive: Arc::clone(&self.alive) })
    }
}

/// The data of a heartbeat.
#[derive(Serialize)]
struct Beat<'a> {
    at: i64,
    stopped: Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    drill: Option<&'a str>,
}

/// A heartbeat: nothing has changed, or `stopped` says why earlier frames are not current. As every
/// frame it has what is said of the drill that runs.
pub(crate) fn beat(at: AgentWall, stopped: Option<&str>, drill: Option<&str>) -> Bytes {
    let stopped = stopped.map_or(Value::Bool(false), Value::from);
    let data = Beat { at: at.0, stopped, drill };
    format!("event: beat\ndata: {}\n\n", text(&data)).into()
}

impl<'a> Data<'a> {
    fn of(table: &'a Table) -> Data<'a> {
        Data {
            at: table.at().0,
            seq: table.sequence().unwrap_or_default(),
            rows: Vec::new(),
            pulses: Vec::new(),
            gone: Vec::new(),
            stores: None,
            counts: None,
            drill: table.drill(),
        }
    }
}

/// How many tasks there are of each verdict, worst first.
fn counts(table: &Table) -> Option<Counts> {
    Some(table.counts().map(|(verdict, count)| (verdict.name(), count)))
}

fn as_map<S: Serializer>(counts: &Option<Counts>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(counts.iter().flatten().copied())
}

fn rows<'a>(table: &'a Table, positions: &[usize]) -> Vec<(&'a str, String)> {
    let shown = positions.iter().filter_map(|position| table.get(*position));
    shown.map(|shown| (&**shown.name(), shown.row.html(&shown.pulse, None))).collect()
}

fn pulse(table: &Table, position: usize) -> Option<Pulsed<'_>> {
    let shown = table.get(position)?;
    let instant = |wall: AgentWall| wall.0;
    let Pulse { deadline, lease_ms, progress } = shown.pulse;
    Some((shown.name(), deadline.map(instant), lease_ms, progress.map(instant)))
}

/// Bytes that are counted until they are dropped.
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
    fn beats() {
        let text = |stopped| {
            String::from_utf8(beat(AgentWall(1_800_000_000_123), stopped, None).to_vec()).unwrap()
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
