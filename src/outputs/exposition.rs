//! The exposition as bytes to send: OpenMetrics or classic text, packed or not, made while it is
//! read. Each reader has its own, of the snapshot that was the newest when it asked.

use std::collections::VecDeque;
use std::io::Write as _;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;

use lockwatch_judge::problems::Unscraped;
use lockwatch_judge::time::Mono;

use super::metrics::{Own, Writer};
use super::negotiate::{Coding, Format};
use crate::published::Published;

/// A piece has at least so many bytes, unless it is the last one.
const PIECE_BYTES: usize = 32 << 10;
/// Snapshots that are kept for those who read them. A reader who falls further behind gets no more:
/// many slow readers must not keep many snapshots alive.
const KEPT: usize = 8;
/// How long a snapshot is kept at most: Prometheus gives up a scrape after 10 s.
pub const KEPT_FOR: Duration = Duration::from_secs(15);
/// What happened in a longer pause between two scrapes counts from its end, in milliseconds: nobody
/// could see it before.
const UNSCRAPED_MS: u64 = 120_000;

/// The form of an exposition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Variant {
    /// The text format.
    pub format: Format,
    /// How it is packed.
    pub coding: Coding,
}

/// The snapshots that somebody is reading.
#[derive(Clone, Debug)]
pub struct Readers {
    /// Newest first.
    kept: Arc<Mutex<VecDeque<Weak<Kept>>>>,
    kept_for: Duration,
    scrapes: Arc<Mutex<Scrapes>>,
}

/// A snapshot, until it is too old. Its readers own it together.
#[derive(Debug)]
struct Kept(Mutex<Option<Arc<Published>>>);

impl Kept {
    fn new(published: &Arc<Published>) -> Arc<Kept> {
        Arc::new(Kept(Mutex::new(Some(Arc::clone(published)))))
    }

    fn published(&self) -> Option<Arc<Published>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Its readers get no more.
    fn forget(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

/// When expositions were asked for.
#[derive(Debug, Default)]
struct Scrapes {
    newest: Option<Mono>,
    unscraped: Option<Unscraped>,
}

impl Scrapes {
    /// A scrape at `at`. Returns the newest time without scrapes.
    fn scraped(&mut self, at: Mono) -> Option<Unscraped> {
        let before = self.newest.replace(at).unwrap_or(at);
        if at.since_ms(before) > UNSCRAPED_MS {
            self.unscraped = Some(Unscraped { from: before, to: at });
        }
        self.unscraped
    }
}

impl Readers {
    /// Keeps snapshots for so long at most; the agent uses [`KEPT_FOR`].
    pub fn new(kept_for: Duration) -> Readers {
        Readers { kept: Arc::default(), kept_for, scrapes: Arc::default() }
    }

    /// Begins an exposition of `published`.
    pub fn read(&self, published: &Arc<Published>, own: Own, variant: Variant) -> Exposition {
        let kept = self.keep(published);
        let mut scrapes = self.scrapes.lock().unwrap_or_else(PoisonError::into_inner);
        let unscraped = scrapes.scraped(published.snapshot.at);
        Exposition::new(kept, variant, Writer::new(own, variant.format, unscraped))
    }

    /// Keeps `published` for one more reader.
    fn keep(&self, published: &Arc<Published>) -> Arc<Kept> {
        let mut all = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|kept| kept.strong_count() > 0);
        let is_it =
            |kept: &Arc<Kept>| kept.published().is_some_and(|other| Arc::ptr_eq(&other, published));
        if let Some(kept) = all.iter().filter_map(Weak::upgrade).find(is_it) {
            return kept;
        }
        let kept = Kept::new(published);
        all.push_front(Arc::downgrade(&kept));
        all.iter().skip(KEPT).filter_map(Weak::upgrade).for_each(|old| old.forget());
        all.truncate(KEPT);
        let (it, kept_for) = (Arc::downgrade(&kept), self.kept_for);
        tokio::spawn(async move {
            tokio::time::sleep(kept_for).await;
            if let Some(kept) = it.upgrade() {
                kept.forget();
            }
        });
        kept
    }
}

/// The whole exposition of `published`.
pub fn make(published: &Arc<Published>, own: Own, variant: Variant) -> Vec<u8> {
    let writer = Writer::new(own, variant.format, None);
    let pieces = Exposition::new(Kept::new(published), variant, writer);
    pieces.flatten().collect::<Vec<_>>().concat()
}

/// The reader is too slow: its snapshot is not kept any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the exposition is old, and its reader too slow")]
pub struct TooSlow;

/// The pieces of an exposition.
#[derive(Debug)]
pub struct Exposition {
    of: Arc<Kept>,
    /// `None` once all was written.
    writer: Option<Writer>,
    text: String,
    packer: Option<GzEncoder<Vec<u8>>>,
}

impl Exposition {
    fn new(of: Arc<Kept>, variant: Variant, writer: Writer) -> Exposition {
        let packer = match variant.coding {
            Coding::Identity => None,
            Coding::Gzip => Some(GzEncoder::new(Vec::new(), Compression::fast())),
        };
        Exposition { of, writer: Some(writer), text: String::new(), packer }
    }

    /// The next piece; `None` after the last.
    fn piece(&mut self) -> Result<Option<Bytes>, TooSlow> {
        let mut piece = Vec::new();
        while let Some(writer) = &mut self.writer {
            let published = self.of.published().ok_or(TooSlow)?;
            // A piece may be longer than it must be by what is written at once.
            self.text.reserve(2 * PIECE_BYTES);
            let more = writer.write(&published, &mut self.text);
            if !more {
                self.writer = None;
            }
            if self.text.len() < PIECE_BYTES && more {
                continue;
            }
            // Memory takes everything.
            match &mut self.packer {
                None => piece = std::mem::take(&mut self.text).into_bytes(),
                Some(packer) => {
                    let _written = packer.write_all(self.text.as_bytes());
                    self.text.clear();
                    piece = std::mem::take(packer.get_mut());
                    if !more && let Some(packer) = self.packer.take() {
                        piece.extend(packer.finish().unwrap_or_default());
                    }
                }
            }
            if !piece.is_empty() {
                break;
            }
        }
        Ok((!piece.is_empty()).then(|| piece.into()))
    }
}

impl Iterator for Exposition {
    type Item = Result<Bytes, TooSlow>;

    fn next(&mut self) -> Option<Result<Bytes, TooSlow>> {
        let piece = self.piece();
        if piece.is_err() {
            self.writer = None;
        }
        piece.transpose()
    }
}
