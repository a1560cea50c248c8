//! The metrics page as bytes to send: OpenMetrics or classic text, packed or not, made once per
//! snapshot; or, if it is big, piece by piece while it is sent.

mod lent;

use std::io::Write as _;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use tokio::sync::{Mutex, OwnedMutexGuard};

use super::metrics::{self, Own, Selection};
use super::negotiate::{Coding, Format};
use crate::apart::apart;
use crate::published::{Published, ReloadStatus};
use lent::{Cutter, Lent};

pub use lent::{Page, TakenBack};

/// A page of more text, or of more tasks, takes long enough to be made on a thread of its own: more
/// than a millisecond. Packed ones take that with less text.
const INLINE_BYTES_MAX: usize = 1 << 20;
const INLINE_PACKED_BYTES_MAX: usize = 320 << 10;
const INLINE_TASKS_MAX: usize = 500;
/// A larger page is not held: its text is made anew for each reader, piece by piece; packed, it is
/// kept only as long as somebody reads it.
const KEPT_BYTES_MAX: usize = 32 << 20;
/// For how long a page is kept at most: by then there is a new snapshot.
const KEPT_FOR: Duration = Duration::from_secs(2);
/// While somebody reads a page of more text than this, others get the same one, unless the newest
/// snapshot is so much younger: many readers would have many pages made, and kept.
const JOINED_BYTES_MIN: usize = 1 << 20;
const JOINED_FOR: Duration = Duration::from_millis(250);

/// The form of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Variant {
    /// The text format.
    pub format: Format,
    /// How it is packed.
    pub coding: Coding,
    /// What is on it.
    pub metrics: Selection,
}

impl Variant {
    /// Whether pages of the one are kept where those of the other are. All selections of metrics
    /// share a place: anybody can think of new ones.
    fn has_place_of(self, other: Variant) -> bool {
        (self.format, self.coding, self.metrics.is_all())
            == (other.format, other.coding, other.metrics.is_all())
    }
}

/// Makes pages, and keeps the newest of each form while it may be asked for again.
#[derive(Clone, Debug, Default)]
pub struct Pages {
    whole: Shelves,
    selected: Shelves,
    lent: Arc<Lent>,
}

/// Where pages are kept, by format and coding.
#[derive(Clone, Debug, Default)]
struct Shelves {
    shelves: [Shelf; 4],
    /// One page is made at a time: with more, the memory of each thread that ever made one would
    /// stay with the process.
    making: Arc<Mutex<()>>,
}

type Shelf = Arc<Mutex<Option<Kept>>>;

/// The newest page of a form and what it was made of.
#[derive(Debug)]
struct Kept {
    of: Origin,
    page: Weak<Page>,
    /// Keeps it although nobody reads it. A large one is not kept, nor one of some metrics: there
    /// is no end to those.
    held: Option<Arc<Page>>,
    /// Of a small one: what the next page may have in common with it.
    made_of: Option<metrics::Page>,
}

/// What tells a page from any other that has its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Origin {
    sequence: u64,
    made: Instant,
    reload: ReloadStatus,
    metrics: Selection,
}

impl Kept {
    /// The page, if it is `of` this, or if it is near and somebody reads it.
    fn page_for(&self, of: Origin, joins: bool) -> Option<Arc<Page>> {
        let page = self.page.upgrade()?;
        // Beside this reference, and the one that keeps it.
        let is_read = Arc::strong_count(&page) > 1 + usize::from(self.held.is_some());
        (self.of == of || joins && is_read && self.of.is_near(of)).then_some(page)
    }
}

impl Origin {
    /// Whether a reader of `newer` finds the same there, only a little older.
    fn is_near(self, newer: Origin) -> bool {
        let same = (self.reload, self.metrics) == (newer.reload, newer.metrics);
        same && newer.made.saturating_duration_since(self.made) < JOINED_FOR
    }
}

impl Pages {
    /// The page of `published` in the form `variant`; or, if it is large, of a snapshot shortly
    /// before, whose page somebody reads.
    ///
    /// Readers of the same snapshot and form share one page. A reader who goes away does not stop a
    /// page that is under way: the next one finds it, so impatient readers cannot pile up work.
    /// Readers who fall behind lose theirs, see [`Page`].
    ///
    /// # Errors
    /// The page could not be made; no cause is known.
    pub async fn page(
        &self,
        published: Arc<Published>,
        own: Own,
        variant: Variant,
    ) -> Result<Arc<Page>, PageError> {
        let (sequence, made) = (published.snapshot.sequence, published.made);
        let of = Origin { sequence, made, reload: own.reload, metrics: variant.metrics };
        let size = metrics::page_size(&published, variant.metrics);
        let shelves = if variant.metrics.is_all() { &self.whole } else { &self.selected };
        let shelf = shelves.of(variant);
        let kept = Arc::clone(shelf).lock_owned().await;
        if let Some(page) =
            kept.as_ref().and_then(|kept| kept.page_for(of, size >= JOINED_BYTES_MIN))
        {
            return Ok(page);
        }
        let turn = Arc::clone(&shelves.making).lock_owned().await;
        let lent = Arc::clone(&self.lent);
        let page = if is_small(&published, variant) {
            make_and_keep(kept, &lent, published, own, of, variant)?
        } else {
            let make = move || {
                let page = make_and_keep(kept, &lent, published, own, of, variant);
                drop(turn);
                page
            };
            apart(make).await.map_err(|_| PageError)??
        };
        forget_later(Arc::clone(shelf), of);
        Ok(page)
    }
}

impl Shelves {
    fn of(&self, variant: Variant) -> &Shelf {
        let [plain, packed, open, open_packed] = &self.shelves;
        match (variant.format, variant.coding) {
            (Format::Classic, Coding::Identity) => plain,
            (Format::Classic, Coding::Gzip) => packed,
            (Format::OpenMetrics, Coding::Identity) => open,
            (Format::OpenMetrics, Coding::Gzip) => open_packed,
        }
    }
}

/// Frees the page of `of` when nobody can ask for it any more.
fn forget_later(shelf: Shelf, of: Origin) {
    tokio::spawn(async move {
        tokio::time::sleep(KEPT_FOR).await;
        shelf.lock().await.take_if(|kept| kept.of == of);
    });
}

/// A page could not be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the metrics page could not be made")]
pub struct PageError;

/// Whether the page is made in less time than it takes to have another thread make it.
fn is_small(published: &Published, variant: Variant) -> bool {
    let inline_bytes_max = match variant.coding {
        Coding::Identity => INLINE_BYTES_MAX,
        Coding::Gzip => INLINE_PACKED_BYTES_MAX,
    };
    metrics::page_size(published, variant.metrics) <= inline_bytes_max
        && published.snapshot.tasks.len() <= INLINE_TASKS_MAX
}

fn make_and_keep(
    mut kept: OwnedMutexGuard<Option<Kept>>,
    lent: &Lent,
    published: Arc<Published>,
    own: Own,
    of: Origin,
    variant: Variant,
) -> Result<Arc<Page>, PageError> {
    // Free the old page before the new one takes its place in memory.
    let before =
        kept.take().filter(|kept| kept.of.metrics == variant.metrics).and_then(|kept| kept.made_of);
    let is_small = is_small(&published, variant);
    let is_big = metrics::page_size(&published, variant.metrics) > KEPT_BYTES_MAX;
    let made_of = match before {
        Some(before) if is_small => before.next(published, own),
        _ => metrics::Page::new(published, own, variant.metrics),
    };
    let made_of = made_of.map_err(|_| PageError)?;
    let page = Arc::new(match variant.coding {
        Coding::Identity if is_big => Page::unmade(made_of.clone(), variant.format),
        Coding::Identity | Coding::Gzip => Page::new(pieces(&made_of, variant)?),
    });
    lent.lend(variant, &page);
    let held =
        (variant.metrics.is_all() && page.weight() <= KEPT_BYTES_MAX).then(|| Arc::clone(&page));
    *kept =
        Some(Kept { of, page: Arc::downgrade(&page), held, made_of: is_small.then_some(made_of) });
    Ok(page)
}

/// The page of `published` in the form `variant`.
///
/// # Errors
/// The page could not be made; no cause is known.
pub fn make(published: Arc<Published>, own: Own, variant: Variant) -> Result<Vec<u8>, PageError> {
    let page = metrics::Page::new(published, own, variant.metrics).map_err(|_| PageError)?;
    Ok(pieces(&page, variant)?.concat())
}

/// All of `page`, which is of the metrics that `variant` wants. Where it is packed, the text is
/// never held whole.
fn pieces(page: &metrics::Page, variant: Variant) -> Result<Vec<Bytes>, PageError> {
    let (mut cutter, mut text) = (Cutter::default(), String::new());
    match variant.coding {
        Coding::Identity => {
            for part in 0..page.parts() {
                text.clear();
                let rest = page.write(part, variant.format, &mut text).map_err(|_| PageError)?;
                cutter.add(text.as_bytes());
                cutter.share(rest);
            }
        }
        Coding::Gzip => {
            let mut packer = GzEncoder::new(cutter, Compression::fast());
            for part in 0..page.parts() {
                text.clear();
                let rest = page.write(part, variant.format, &mut text).map_err(|_| PageError)?;
                packer
                    .write_all(text.as_bytes())
                    .and_then(|()| packer.write_all(&rest))
                    .map_err(|_| PageError)?;
            }
            cutter = packer.finish().map_err(|_| PageError)?;
        }
    }
    Ok(cutter.pieces())
}
