//! One client's stream of events.
//!
//! Only [`QUEUE`] frames are queued per client, because the history serves as the queue. A slow
//! client catches up from the history, and is told with a `gap` event if events that it needed were
//! dropped meanwhile.

use std::fmt::Write as _;

use bytes::Bytes;
use serde::Serialize;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use super::{Asked, Since};
use crate::http::Limits;
use crate::outputs::history::{Excerpt, History};
use crate::outputs::json::{event, event_id, text};
use crate::published::Snapshots;

/// Maximum number of frames that are queued for a client.
pub(super) const QUEUE: usize = 2;
/// Maximum number of events of one frame.
const EVENTS_PER_FRAME: usize = 32;
/// How soon a client should reconnect, in milliseconds.
const RETRY_MS: u32 = 1_000;

/// The requested events and the client's position.
pub(super) struct Feed {
    history: History,
    asked: Asked,
    snapshots: Snapshots,
    /// Everything up to this number was sent.
    told: u64,
    /// The client knows that events up to this number may be missing.
    excused: u64,
    /// The client must be told first that any event may be missing.
    lost: bool,
}

/// The client has disconnected.
struct Gone;

/// The data of an event that reports a gap.
#[derive(Serialize)]
struct Gap {
    message: &'static str,
    oldest: Option<String>,
    newest: String,
}

impl Feed {
    pub(super) fn new(history: History, asked: Asked, snapshots: Snapshots) -> Feed {
        let told = match asked.since {
            None => *history.newest().borrow(),
            Some(Since::Number(number)) => number,
            Some(Since::Elsewhere) => 0,
        };
        let lost = asked.since == Some(Since::Elsewhere);
        Feed { history, asked, snapshots, told, excused: 0, lost }
    }

    /// Sends events until the client disconnects or the server stops.
    pub(super) async fn run(
        mut self,
        frames: mpsc::Sender<Bytes>,
        stop: CancellationToken,
        limits: Limits,
    ) {
        tokio::select! {
            () = stop.cancelled() => {}
            () = frames.closed() => {}
            _gone = self.tell(&frames, limits) => {}
        }
    }

    async fn tell(&mut self, frames: &mpsc::Sender<Bytes>, limits: Limits) -> Result<(), Gone> {
        let mut newest = self.history.newest();
        send(frames, self.opening()).await?;
        let mut last_sent = Instant::now();
        loop {
            // Marked as seen before the history is read, so that an event that arrives meanwhile
            // wakes this task again.
            newest.borrow_and_update();
            while let Some(frame) = self.next_frame() {
                send(frames, frame).await?;
                last_sent = Instant::now();
            }
            tokio::select! {
                changed = newest.changed() => changed.map_err(|_| Gone)?,
                () = sleep_until(last_sent + limits.heartbeat) => {
                    last_sent = Instant::now();
                    // Without heartbeats, the client notices that the engine has stopped.
                    if self.snapshots.newest().made.elapsed() <= limits.snapshot_age {
                        // The id lets a client whose filter passes few events reconnect without a
                        // gap.
                        send(frames, format!(":\nid: {}\n\n", self.id(self.told))).await?;
                    }
                }
            }
        }
    }

    /// The first frame: the delay before a reconnect and, for a client without a position, the
    /// current one.
    fn opening(&self) -> String {
        match self.asked.since {
            None => format!("retry: {RETRY_MS}\nid: {}\n\n", self.id(self.told)),
            Some(_) => format!("retry: {RETRY_MS}\n\n"),
        }
    }

    /// The next events that were not sent yet, at most one frame; `None` if there are none.
    fn next_frame(&mut self) -> Option<String> {
        let fits = |kept: &_| self.asked.fits(kept);
        let excerpt =
            self.history.excerpt(&self.asked.subjects, Some(self.told), EVENTS_PER_FRAME, fits);
        let mut frame = String::new();
        if self.lost || excerpt.dropped > self.told.max(self.excused) {
            frame.push_str(&self.gap(&excerpt));
            (self.lost, self.excused) = (false, excerpt.dropped);
        }
        for kept in &excerpt.events {
            let (id, event) = (self.id(kept.number), event(self.history.boot(), kept));
            // Writing to a `String` cannot fail.
            let _written = write!(frame, "id: {id}\ndata: {event}\n\n");
        }
        self.told = excerpt.upto;
        (!frame.is_empty()).then_some(frame)
    }

    /// Reports that events may be missing after the last one sent.
    fn gap(&self, excerpt: &Excerpt) -> String {
        let message =
            "Events may be missing here: the agent was restarted, or had to let go of them.";
        let gap = Gap {
            message,
            oldest: excerpt.oldest.map(|number| self.id(number)),
            newest: self.id(excerpt.newest),
        };
        format!("event: gap\nid: {}\ndata: {}\n\n", self.id(self.told), text(&gap))
    }

    fn id(&self, number: u64) -> String {
        event_id(self.history.boot(), number)
    }
}

async fn send(frames: &mpsc::Sender<Bytes>, frame: String) -> Result<(), Gone> {
    frames.send(frame.into()).await.map_err(|_| Gone)
}
