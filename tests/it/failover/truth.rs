//! Ground truth: what the servers themselves show, read fifty times a second in parallel with the
//! program.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use redis::{Connection, RedisResult, Value, cmd};

use super::worker::connect;
use crate::support::sentinels::Sentinels;

const LOOK: Duration = Duration::from_millis(20);
/// A reply that took longer than this is discarded.
const STALE: Duration = Duration::from_millis(200);

/// Reads one lock on several servers until it is stopped.
pub(super) struct Truth {
    ended: Arc<AtomicBool>,
    looking: Vec<JoinHandle<Vec<Look>>>,
}

/// One server's state of the lock.
struct Look {
    /// When the request was sent, and when the reply arrived.
    at: Instant,
    is_master: bool,
    holder: Option<String>,
}

/// An interval during which two masters showed different holders.
#[derive(Clone, Copy, Debug)]
pub(super) struct Double {
    pub(super) from: Instant,
    pub(super) to: Instant,
}

impl Truth {
    /// Watches the servers of a Sentinel set.
    pub(super) fn watch(sentinels: &Sentinels, lock: &'static str) -> Truth {
        let ended = Arc::new(AtomicBool::new(false));
        let ports = sentinels.members[..3].iter().map(|member| member.server.port);
        let looking = ports.map(|port| {
            let ended = Arc::clone(&ended);
            std::thread::spawn(move || look(port, lock, &ended))
        });
        Truth { looking: looking.collect(), ended }
    }

    /// Stops it. Returns all intervals with two holders, in order. Gaps below the sampling
    /// resolution are merged.
    pub(super) fn stop(self) -> Vec<Double> {
        self.ended.store(true, Ordering::SeqCst);
        let mut all: Vec<(usize, Look)> = Vec::new();
        for (server, looking) in self.looking.into_iter().enumerate() {
            all.extend(looking.join().unwrap().into_iter().map(|look| (server, look)));
        }
        all.sort_by_key(|(_, look)| look.at);
        let mut newest: [Option<&Look>; 3] = [None; 3];
        let mut doubles: Vec<Double> = Vec::new();
        for (server, look) in &all {
            newest[*server] = Some(look);
            let holders = newest
                .iter()
                .flatten()
                .filter(|shown| shown.is_master && look.at - shown.at < STALE);
            let mut holders: Vec<&String> =
                holders.filter_map(|shown| shown.holder.as_ref()).collect();
            holders.sort_unstable();
            holders.dedup();
            if holders.len() < 2 {
                continue;
            }
            match doubles.last_mut().filter(|double| look.at - double.to < STALE) {
                Some(double) => double.to = look.at,
                None => doubles.push(Double { from: look.at, to: look.at }),
            }
        }
        doubles
    }
}

impl Double {
    pub(super) fn lasted(&self) -> Duration {
        self.to - self.from
    }
}

fn look(port: u16, lock: &str, ended: &AtomicBool) -> Vec<Look> {
    let (mut looks, mut open) = (Vec::new(), None);
    while !ended.load(Ordering::SeqCst) {
        std::thread::sleep(LOOK);
        let connected = open.take().map_or_else(|| connect(port), Ok);
        let Ok(mut connection) = connected else { continue };
        let at = Instant::now();
        let Ok((holder, is_master)) = ask(&mut connection, lock) else { continue };
        // A late reply says nothing about the present.
        if at.elapsed() < STALE {
            looks.push(Look { at, is_master, holder });
        }
        open = Some(connection);
    }
    looks
}

fn ask(connection: &mut Connection, lock: &str) -> RedisResult<(Option<String>, bool)> {
    let holders: Vec<String> = cmd("HKEYS").arg(lock).query(connection)?;
    let role: Vec<Value> = cmd("ROLE").query(connection)?;
    Ok((
        holders.into_iter().next(),
        matches!(role.first(), Some(Value::BulkString(word)) if word == b"master"),
    ))
}
