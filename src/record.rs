//! Records the inputs of the state in rotated files of bounded size, without secrets.
//!
//! The engine must never wait for a disk. It passes each input to a writer thread through a bounded
//! queue and drops the input if the queue is full. The recording counts dropped inputs, so that a
//! replay can report them.

pub(crate) mod reader;
mod redact;
#[cfg(test)]
mod tests;
mod wire;
mod writer;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::Duration;

use lockwatch_judge::input::{Input, Outcome};
use lockwatch_judge::reading::{ClaimsReading, Parts, SwitchesReading};
use lockwatch_judge::time::{AgentWall, Mono};

use wire::Missing;
pub use writer::RecordOptions;
use writer::{InForce, Message, Writer};

/// Maximum size of the inputs in the queue in bytes, approximately. It bounds the agent's memory
/// while the disk is slow.
const QUEUED_BYTES_MAX: u64 = 32 << 20;
/// Estimated minimum size in bytes of an input, and of each reading in it.
const INPUT_BYTES: u64 = 256;
const READING_BYTES: u64 = 320;
/// Estimated size in bytes of each list entry in a reading.
const ENTRY_BYTES: u64 = 96;
/// Maximum time that the agent waits for the disk when it ends.
const DRAIN: Duration = Duration::from_secs(3);

/// Writes inputs to files. Dropping it writes what is still queued.
#[derive(Debug)]
pub struct Recorder {
    queue: Option<Sender<Message>>,
    /// Estimated size of the queue in bytes.
    queued: Arc<AtomicU64>,
    backlog: Backlog,
    /// Closed when everything is written.
    done: Receiver<()>,
}

/// What was dropped because the queue was full.
#[derive(Debug, Default)]
struct Backlog {
    missing: Option<Missing>,
    in_force: InForce,
}

impl Recorder {
    /// Creates the folder if needed, and starts to record in it.
    ///
    /// # Errors
    /// The folder cannot be written; the error text is for display.
    pub fn start(options: &RecordOptions) -> anyhow::Result<Recorder> {
        let mut writer = Writer::new(options)?;
        let (queue, messages) = mpsc::channel::<Message>();
        let (finished, done) = mpsc::channel();
        let queued = Arc::new(AtomicU64::new(0));
        let weight = Arc::clone(&queued);
        thread::Builder::new().name(String::from("record")).spawn(move || {
            writer.run(&messages, &weight);
            drop(finished);
        })?;
        Ok(Recorder { queue: Some(queue), queued, backlog: Backlog::default(), done })
    }

    /// Records `input`, which the state takes in at `now` (`wall` on the agent's wall clock).
    pub fn keep(&mut self, now: Mono, wall: AgentWall, input: &Input) {
        let weight = weight(input);
        if self.queued.load(Ordering::Relaxed).saturating_add(weight) > QUEUED_BYTES_MAX {
            self.backlog.keep(now, input);
            return;
        }
        self.queued.fetch_add(weight, Ordering::Relaxed);
        let (missing, late) = std::mem::take(&mut self.backlog).take();
        let message = Message { at: now, wall, missing, late, input: input.clone(), weight };
        if let Some(queue) = &self.queue {
            // Fails only if the writer thread is gone; it normally lives as long as the agent.
            let _ended = queue.send(message);
        }
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.queue = None;
        // A disk that hangs must not keep the agent from ending.
        let _written = self.done.recv_timeout(DRAIN);
    }
}

impl Backlog {
    fn keep(&mut self, now: Mono, input: &Input) {
        self.missing.get_or_insert(Missing { inputs: 0, since: now.ms() }).inputs += 1;
        self.in_force.update(input);
    }

    fn take(self) -> (Option<Missing>, Vec<Input>) {
        (self.missing, self.in_force.inputs().collect())
    }
}

/// Estimated size of a copy of `input` in bytes.
fn weight(input: &Input) -> u64 {
    let Input::Sample(sample) = input else { return INPUT_BYTES };
    let readings = match &sample.outcome {
        Outcome::Read { readings, .. } => readings
            .iter()
            .map(|(_, reading)| READING_BYTES + entries(&reading.parts) * ENTRY_BYTES)
            .sum(),
        Outcome::Parts { readings, .. } => {
            readings.iter().map(|(_, parts)| READING_BYTES + entries(parts) * ENTRY_BYTES).sum()
        }
        Outcome::Failed { tasks, .. } => tasks.len() as u64 * 4,
    };
    INPUT_BYTES + readings
}

fn entries(parts: &Parts) -> u64 {
    let switches = match &parts.switches {
        Some(SwitchesReading::Read { switches, .. }) => switches.len(),
        Some(SwitchesReading::Unknown(_)) | None => 0,
    };
    let claims = match &parts.claims {
        Some(ClaimsReading::Read(claims)) => claims.len(),
        Some(ClaimsReading::Unknown(_)) | None => 0,
    };
    let hosts = parts.hosts.iter().flatten().map(Vec::len).sum::<usize>();
    (switches + claims + hosts) as u64
}
