//! One client's stream of events.
//!
//! Nothing is queued for a client but the frames under way: the history is the queue. A slow client
//! is written to as fast as it reads, catches up from the history, and is told if that had to let
//! go of events meanwhile.

use std::fmt::Write as _;

use bytes::Bytes;
use serde::Serialize;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use super::{Asked, Since};
use crate::http::Limits;
use crate::output::history::{Excerpt, History};
use crate::output::json::{event, event_id, text};
use crate::published::Snapshots;

/// Frames that may be under way.
pub(super) const QUEUE: usize = 2;
/// Most events of one frame.
const EVENTS_PER_FRAME: usize = 32;
/// How soon a client shall connect again.
const RETRY_MS: u32 = 1_000;

/// What is to be told, and how far it was.
pub(super) struct Feed {
    history: History,
    asked: Asked,
    snapshots: Snapshots,
    /// Everything up to this number was told.
    told: u64,
    /// The client was told that events up to this number may be missing.
    excused: u64,
    /// It must be told first that any may be.
    lost: bool,
}

/// The client has gone.
struct Gone;

/// What is said where events may be missing.
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

    /// Tells it until the client goes or the server stops.
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
            // Noted before looking, so that what comes in between wakes it again.
            newest.borrow_and_update();
            while let Some(frame) = self.next_frame() {
                send(frames, frame).await?;
                last_sent = Instant::now();
            }
            tokio::select! {
                changed = newest.changed() => changed.map_err(|_| Gone)?,
                () = sleep_until(last_sent + limits.heartbeat) => {
                    last_sent = Instant::now();
                    // An engine that has stopped has no heart.
                    if self.snapshots.newest().made.elapsed() <= limits.snapshot_age {
                        // The number lets a client whose filter lets little through come back
                        // without a gap.
                        send(frames, format!(":\nid: {}\n\n", self.id(self.told))).await?;
                    }
                }
            }
        }
    }

    /// What comes first: when to connect again, and for a client that begins here, from where.
    fn opening(&self) -> String {
        match self.asked.since {
            None => format!("retry: {RETRY_MS}\nid: {}\n\n", self.id(self.told)),
            Some(_) => format!("retry: {RETRY_MS}\n\n"),
        }
    }

    /// What was not told yet, as much as one frame takes; `None` if there is nothing.
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
            // Writing to a String cannot fail.
            let _written = write!(frame, "id: {id}\ndata: {event}\n\n");
        }
        self.told = excerpt.upto;
        (!frame.is_empty()).then_some(frame)
    }

    /// Says that events may be missing after what was told.
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
