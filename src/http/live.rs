//! The changes of the pages, as server-sent events for their script.
//!
//! One task serves all open pages, and exists only while there are any. It compares each snapshot
//! with what it sent before, renders the rows that changed, and encodes them once for all pages.
//! [`Table`] finds the changes, [`Encoder`] encodes them, [`ring`] keeps the newest for pages that
//! reconnect, and [`subscribers`] are the open pages.

mod ring;
mod subscribers;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use hyper::header::HeaderMap;
use lockwatch_judge::time::AgentWall;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use super::age::stopped;
use super::context::HttpContext;
use super::parameters::lenient;
use crate::outputs::live::frame::{self, Encoder};
use crate::outputs::live::table::{Changes, Table};
use crate::outputs::page::drill_of;
use crate::published::{Published, Snapshots};
use ring::Ring;
use subscribers::{Subscriber, Subscribers};

/// Maximum number of rows of the table of tasks, the worst first.
const ROWS_MAX: usize = 2_000;
/// Minimum time between two frames. The first one after a pause is sent at once.
const PACE: Duration = Duration::from_millis(80);
/// How long the state is kept after the last page disconnected, so that it can resume.
const LINGER: Duration = Duration::from_secs(15);
/// Maximum bytes of frames that are kept for pages that reconnect.
const RING_BYTES_MAX: usize = 1 << 20;
/// Maximum bytes of all frames that slow pages keep in memory.
const ALIVE_BYTES_MAX: usize = 32 << 20;
/// Maximum number of queued visits.
const VISITS_MAX: usize = 512;

/// What a page subscribes to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Asked {
    /// The snapshot that it shows: the agent process and the snapshot's number.
    since: Option<(String, u64)>,
    /// Only changes of this task.
    task: Option<String>,
}

impl Asked {
    /// Reads the query, or the header that a reconnecting browser adds.
    fn by(query: Option<&str>, headers: &HeaderMap) -> Asked {
        let (mut boot, mut since, mut task) = (None, None, None);
        for (name, value) in lenient(query) {
            match name.as_str() {
                "boot" => boot = Some(value),
                "since" => since = value.parse().ok(),
                "task" => task = Some(value),
                _ => {}
            }
        }
        let last = headers.get("last-event-id").and_then(|id| id.to_str().ok()?.rsplit_once('-'));
        let last = last.and_then(|(boot, number)| Some((boot.to_owned(), number.parse().ok()?)));
        Asked { since: last.or(boot.zip(since)), task }
    }
}

/// Access to the task that serves the pages.
#[derive(Clone, Debug)]
pub(super) struct Feed {
    snapshots: Snapshots,
    boot: Arc<str>,
    snapshot_age: Duration,
    shutdown: CancellationToken,
    /// The sender of visits, while the task exists.
    visits: Arc<Mutex<Option<mpsc::Sender<Visit>>>>,
}

/// A message to the task.
enum Visit {
    /// A page of this snapshot was served, and may soon subscribe.
    Given(Arc<Published>),
    /// A page subscribes.
    Listens(Asked, mpsc::Sender<Bytes>),
}

impl Feed {
    pub(super) fn new(context: &HttpContext, shutdown: CancellationToken) -> Feed {
        Feed {
            snapshots: context.snapshots.clone(),
            boot: Arc::clone(context.history.boot()),
            snapshot_age: context.limits.snapshot_age,
            shutdown,
            visits: Arc::default(),
        }
    }

    /// Announces that a page of `published`, or of a newer snapshot, is about to be served.
    pub(super) fn expect(&self, published: Arc<Published>) {
        self.visit(Visit::Given(published));
    }

    /// The frames for a page with this query and these headers; `None` if too many visits are
    /// queued.
    pub(super) fn join(
        &self,
        query: Option<&str>,
        headers: &HeaderMap,
    ) -> Option<mpsc::Receiver<Bytes>> {
        let asked = Asked::by(query, headers);
        let (sender, frames) = mpsc::channel(subscribers::WAITING_MAX);
        self.visit(Visit::Listens(asked, sender)).then_some(frames)
    }

    fn visit(&self, visit: Visit) -> bool {
        let mut visits = self.visits();
        let _of_a_task_that_ended = visits.take_if(|sender| sender.is_closed());
        let sender = visits.get_or_insert_with(|| {
            let (sender, receiver) = mpsc::channel(VISITS_MAX);
            tokio::spawn(serve(self.clone(), receiver));
            sender
        });
        sender.try_send(visit).is_ok()
    }

    /// Lets the task end, unless a visit is queued.
    fn close(&self, waiting: &mpsc::Receiver<Visit>) -> bool {
        let mut visits = self.visits();
        if waiting.is_empty() {
            *visits = None;
        }
        visits.is_none()
    }

    /// Each critical section leaves the value consistent, even after a panic.
    fn visits(&self) -> MutexGuard<'_, Option<mpsc::Sender<Visit>>> {
        self.visits.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Serves all pages. Ends when there was none for [`LINGER`].
async fn serve(feed: Feed, mut visits: mpsc::Receiver<Visit>) {
    let mut snapshots = feed.snapshots.clone();
    let mut publisher = Publisher::new(&feed.boot);
    let mut engine_lives = true;
    // Whether there is a newer snapshot that was not compared yet.
    let mut is_behind = false;
    let mut last_visit = Instant::now();
    loop {
        let listened_to = !publisher.pages.is_empty();
        let next = if listened_to { publisher.pages.next_beat() } else { last_visit + LINGER };
        tokio::select! {
            () = feed.shutdown.cancelled() => return,
            Some(visit) = visits.recv() => {
                last_visit = Instant::now();
                match visit {
                    Visit::Given(published) => publisher.given(published),
                    Visit::Listens(asked, sender) => {
                        if !listened_to {
                            publisher.publish(&snapshots.see());
                        }
                        // Only a snapshot that was compared is marked as seen, so this page gets
                        // anything newer, too.
                        publisher.welcome(asked, sender, &beat(&snapshots.newest(), feed.snapshot_age));
                    }
                }
            }
            changed = snapshots.changed(), if listened_to && engine_lives && !is_behind => {
                engine_lives = changed.is_ok();
                is_behind = true;
                // A snapshot appears at least each second, so the numbers are refreshed as often.
                snapshots.ask_for_everything();
            }
            () = sleep_until(publisher.ready_at), if listened_to && is_behind => {
                is_behind = false;
                publisher.publish(&snapshots.see());
            }
            () = sleep_until(next) => {
                if listened_to {
                    publisher.help_lagging();
                    publisher.pages.beat(&beat(&snapshots.newest(), feed.snapshot_age));
                } else if feed.close(&visits) {
                    return;
                }
            }
        }
        if publisher.pages.is_empty() {
            is_behind = false;
            if listened_to {
                last_visit = Instant::now();
            }
        }
    }
}

/// A heartbeat with the current time.
fn beat(newest: &Published, age_max: Duration) -> Bytes {
    let since_ms = i64::try_from(newest.made.elapsed().as_millis()).unwrap_or(i64::MAX);
    frame::beat(
        AgentWall(newest.wall.0.saturating_add(since_ms)),
        stopped(newest, age_max).as_deref(),
        drill_of(newest).as_deref(),
    )
}

/// The state that was sent, and its subscribers.
struct Publisher {
    encoder: Encoder,
    /// The snapshot of a page that was served before any page subscribed.
    first: Option<Arc<Published>>,
    table: Table,
    ring: Ring,
    pages: Subscribers,
    /// When the next frame may be sent.
    ready_at: Instant,
    /// The encoded frame of the whole table; `None` after a change.
    whole: Option<Bytes>,
}

impl Publisher {
    fn new(boot: &str) -> Publisher {
        Publisher {
            encoder: Encoder::new(boot),
            first: None,
            table: Table::default(),
            ring: Ring::new(RING_BYTES_MAX),
            pages: Subscribers::default(),
            ready_at: Instant::now(),
            whole: None,
        }
    }

    /// Records that a page of `published` was served. If nothing was sent yet, changes count from
    /// it.
    fn given(&mut self, published: Arc<Published>) {
        if self.table.sequence().is_none() {
            self.first.get_or_insert(published);
        }
    }

    /// Sends the changes in `newest` to the pages.
    fn publish(&mut self, newest: &Published) {
        if self.table.sequence().is_none() {
            let first = self.first.take();
            let first = first.as_deref().unwrap_or(newest);
            let _all_of_it_is_new = self.table.change(first);
            self.ring.restart(first.snapshot.sequence);
        }
        if self.table.sequence() != Some(newest.snapshot.sequence) {
            let changes = self.table.change(newest);
            self.whole = None;
            if !changes.is_empty() {
                self.ready_at = Instant::now() + PACE;
                self.send_changes(newest, &changes);
            }
        }
        self.help_lagging();
    }

    fn send_changes(&mut self, newest: &Published, changes: &Changes) {
        // With so many changes, the whole table is smaller.
        if changes.rows.len() > ROWS_MAX || self.encoder.bytes_alive() > ALIVE_BYTES_MAX {
            self.ring.restart(newest.snapshot.sequence);
            return self.pages.all_lag();
        }
        let frame = self.encoder.changes(&self.table, changes);
        self.pages.offer(&frame);
        let about = changes.names(&self.table);
        for name in self.pages.tasks_among(&about) {
            let frame = self.encoder.changes(&self.table, &changes.about(&self.table, &name));
            self.pages.offer_about(&name, &frame);
        }
        self.ring.push(newest.snapshot.sequence, frame, about);
    }

    /// Sends the complete state to subscribers that missed frames and have read all earlier ones.
    fn help_lagging(&mut self) {
        for page in self.pages.take_lagging() {
            let frame = self.everything(page.task.as_deref());
            self.pages.put_back(page, frame);
        }
    }

    /// The complete state for a page of all tasks, or of one; `None` while slow pages keep too much
    /// in memory.
    fn everything(&mut self, task: Option<&str>) -> Option<Bytes> {
        if self.encoder.bytes_alive() > ALIVE_BYTES_MAX {
            return None;
        }
        let (encoder, table) = (&self.encoder, &self.table);
        Some(match task {
            Some(task) => encoder.task(table, task),
            None => self.whole.get_or_insert_with(|| encoder.worst(table, ROWS_MAX)).clone(),
        })
    }

    /// Sends the missed frames and a heartbeat to a new subscriber.
    fn welcome(&mut self, asked: Asked, sender: mpsc::Sender<Bytes>, beat: &Bytes) {
        let since =
            asked.since.filter(|(boot, _)| self.encoder.is_of(boot)).map(|(_, sequence)| sequence);
        let mut page = Subscriber::new(asked.task, sender);
        match since.and_then(|since| self.ring.since(since)) {
            Some(mut missed) => match page.task.as_deref() {
                None => missed.for_each(|kept| page.offer(&kept.frame)),
                Some(task) if missed.any(|kept| kept.is_about(task)) => page.lag(),
                Some(_) => {}
            },
            None => page.lag(),
        }
        if page.is_lagging() {
            let frame = self.everything(page.task.as_deref());
            page.catch_up(frame);
        }
        page.offer_beat(beat);
        self.pages.add(page);
    }
}

#[cfg(test)]
mod tests;
