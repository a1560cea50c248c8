//! The pages that subscribe. None may delay the others: a frame that does not fit into a page's
//! channel is not sent to it. Once the page has read its queued frames, it gets the complete state
//! again.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;
use tokio::time::Instant;

/// Maximum number of frames that are queued for a page.
pub(super) const WAITING_MAX: usize = 8;
/// Maximum time without a frame to a subscriber: then a heartbeat is sent.
const BEAT: Duration = Duration::from_secs(1);
/// Subscribers whose heartbeat is due within this time get it together with the others.
const BEAT_EARLY: Duration = Duration::from_millis(250);

/// All pages that subscribe.
#[derive(Default)]
pub(super) struct Subscribers {
    pages: Vec<Subscriber>,
}

pub(super) struct Subscriber {
    /// It subscribes to this task only.
    pub(super) task: Option<Arc<str>>,
    sender: mpsc::Sender<Bytes>,
    /// When it was last sent something.
    received: Instant,
    /// Whether it missed a frame.
    lags: bool,
    /// Whether it is closed.
    left: bool,
}

impl Subscriber {
    pub(super) fn new(task: Option<String>, sender: mpsc::Sender<Bytes>) -> Subscriber {
        Subscriber {
            task: task.map(Arc::from),
            sender,
            received: Instant::now(),
            lags: false,
            left: false,
        }
    }

    /// Sends a frame. If the channel is full, the page lags.
    pub(super) fn offer(&mut self, frame: &Bytes) {
        if !self.lags && !self.send(frame) {
            self.lags = true;
        }
    }

    /// Sends a heartbeat if there is room. A page with unread frames does not need it.
    pub(super) fn offer_beat(&mut self, beat: &Bytes) {
        let _it_has_others_to_read = self.send(beat);
    }

    /// Marks that it missed a frame or has no state yet.
    pub(super) fn lag(&mut self) {
        self.lags = true;
    }

    pub(super) fn is_lagging(&self) -> bool {
        self.lags
    }

    /// Sends the complete state, if available and if there is room.
    pub(super) fn catch_up(&mut self, everything: Option<Bytes>) {
        if let Some(everything) = everything {
            self.lags = !self.send(&everything);
        }
    }

    fn send(&mut self, frame: &Bytes) -> bool {
        let sent = self.sender.try_send(frame.clone());
        self.left = self.left || matches!(sent, Err(TrySendError::Closed(_)));
        if sent.is_ok() {
            self.received = Instant::now();
        }
        sent.is_ok()
    }

    fn has_read_all(&self) -> bool {
        self.sender.capacity() == self.sender.max_capacity()
    }
}

impl Subscribers {
    pub(super) fn is_empty(&self) -> bool {
        self.pages.is_empty()
    }

    pub(super) fn add(&mut self, page: Subscriber) {
        self.pages.push(page);
        self.tidy();
    }

    /// Sends a frame to all pages of all tasks.
    pub(super) fn offer(&mut self, frame: &Bytes) {
        self.pages.iter_mut().filter(|page| page.task.is_none()).for_each(|page| page.offer(frame));
        self.tidy();
    }

    /// Sends a frame to all pages of this task.
    pub(super) fn offer_about(&mut self, task: &str, frame: &Bytes) {
        let its = self.pages.iter_mut().filter(|page| page.task.as_deref() == Some(task));
        its.for_each(|page| page.offer(frame));
        self.tidy();
    }

    /// Those of these tasks (sorted) that have subscribers of their own, each once.
    pub(super) fn tasks_among(&self, names: &[Arc<str>]) -> Vec<Arc<str>> {
        let wanted = self.pages.iter().filter_map(|page| page.task.as_ref());
        let mut found: Vec<Arc<str>> =
            wanted.filter(|task| names.binary_search(task).is_ok()).cloned().collect();
        found.sort();
        found.dedup();
        found
    }

    /// Marks that all missed a frame.
    pub(super) fn all_lag(&mut self) {
        self.pages.iter_mut().for_each(Subscriber::lag);
    }

    /// Removes and returns the lagging pages that have read all queued frames. Return them with
    /// [`Subscribers::put_back`].
    pub(super) fn take_lagging(&mut self) -> Vec<Subscriber> {
        self.pages.extract_if(.., |page| page.lags && page.has_read_all()).collect()
    }

    /// Adds one of those again, with the complete state for it.
    pub(super) fn put_back(&mut self, mut page: Subscriber, everything: Option<Bytes>) {
        page.catch_up(everything);
        self.add(page);
    }

    /// When the next heartbeat is due.
    pub(super) fn next_beat(&self) -> Instant {
        self.pages.iter().map(|page| page.received).min().unwrap_or_else(Instant::now) + BEAT
    }

    /// Sends a heartbeat to those that were sent nothing for about [`BEAT`].
    pub(super) fn beat(&mut self, beat: &Bytes) {
        let now = Instant::now();
        for page in self.pages.iter_mut().filter(|page| page.received + BEAT <= now + BEAT_EARLY) {
            page.offer_beat(beat);
            // A full channel is tried again after a whole interval, not at once.
            page.received = now;
        }
        self.tidy();
    }

    fn tidy(&mut self) {
        self.pages.retain(|page| !page.left);
    }
}
