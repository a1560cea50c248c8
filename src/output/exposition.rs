//! The metrics page as bytes to send: OpenMetrics or classic text, packed or not, made once per snapshot; piece by piece if it is big.

use std::io::Write as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use tokio::sync::{Mutex, OwnedMutexGuard};

use super::metrics::{self, Page};
use super::negotiate::{Coding, Format};
use crate::published::{Published, ReloadStatus};

/// With more tasks than this a page takes long enough to be made on a thread of its own.
const TASKS_INLINE_MAX: usize = 50;
/// A larger page is never held as a whole, but made anew for each request while it is sent.
const KEPT_BYTES_MAX: usize = 32 << 20;
/// Text is packed, or goes on, when it is so many bytes.
const CHUNK_BYTES: usize = 64 << 10;
/// How many times smaller a packed page is, at least.
const PACKED_RATIO: usize = 8;
/// For how long a page is kept at most: by then there is a new snapshot.
const KEPT_FOR: Duration = Duration::from_secs(2);

/// The form of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Variant {
    /// The text format.
    pub format: Format,
    /// How it is packed.
    pub coding: Coding,
}

/// Makes pages, one at a time, and keeps the newest while it may be asked for again.
#[derive(Clone, Debug, Default)]
pub struct Pages {
    kept: Arc<Mutex<Option<Kept>>>,
}

/// A page and what it was made of.
#[derive(Debug)]
struct Kept {
    of: Origin,
    body: Bytes,
}

/// What tells a page from any other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Origin {
    sequence: u64,
    made: Instant,
    reload: ReloadStatus,
    variant: Variant,
}

/// A page to send.
pub enum Sent {
    /// All of it.
    Whole(Bytes),
    /// Piece by piece.
    Pieces(Box<Pieces>),
}

impl Pages {
    /// The page of `published` in the form `variant`.
    ///
    /// Readers of the same snapshot and form share one body. A reader who goes away does not stop a page that is under
    /// way: the next one finds it, so impatient readers cannot pile up work. A big page is made as its reader takes it.
    ///
    /// # Errors
    /// The page could not be made; no cause is known.
    pub async fn page(
        &self,
        published: Arc<Published>,
        reload: ReloadStatus,
        variant: Variant,
    ) -> Result<Sent, PageError> {
        if size(&published, variant) > KEPT_BYTES_MAX {
            return Ok(Sent::Pieces(Box::new(Pieces::new(published, reload, variant))));
        }
        let of = Origin { sequence: published.snapshot.sequence, made: published.made, reload, variant };
        let kept = Arc::clone(&self.kept).lock_owned().await;
        if let Some(page) = kept.as_ref().filter(|page| page.of == of) {
            return Ok(Sent::Whole(page.body.clone()));
        }
        let body = if published.snapshot.tasks.len() <= TASKS_INLINE_MAX {
            make_and_keep(kept, published, of)?
        } else {
            tokio::task::spawn_blocking(move || make_and_keep(kept, published, of)).await.map_err(|_| PageError)??
        };
        self.forget_later(of);
        Ok(Sent::Whole(body))
    }

    /// Frees the page of `of` when nobody can ask for it any more.
    fn forget_later(&self, of: Origin) {
        let kept = Arc::clone(&self.kept);
        tokio::spawn(async move {
            tokio::time::sleep(KEPT_FOR).await;
            kept.lock().await.take_if(|page| page.of == of);
        });
    }
}

/// A page could not be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the metrics page could not be made")]
pub struct PageError;

/// About how long a page is.
fn size(published: &Published, variant: Variant) -> usize {
    let text = metrics::page_size(published);
    match variant.coding {
        Coding::Identity => text,
        Coding::Gzip => text / PACKED_RATIO,
    }
}

fn make_and_keep(
    mut kept: OwnedMutexGuard<Option<Kept>>,
    published: Arc<Published>,
    of: Origin,
) -> Result<Bytes, PageError> {
    // Free the old page before the new one takes its place in memory.
    *kept = None;
    let body = Bytes::from(make(published, of.reload, of.variant)?);
    *kept = Some(Kept { of, body: body.clone() });
    Ok(body)
}

/// The page of `published` in the form `variant`. Of a packed page, the text is never held whole.
///
/// # Errors
/// The page could not be made; no cause is known.
pub fn make(published: Arc<Published>, reload: ReloadStatus, variant: Variant) -> Result<Vec<u8>, PageError> {
    let size = size(&published, variant);
    match variant.coding {
        Coding::Identity => Ok(metrics::encode(published, reload, variant.format).into_bytes()),
        Coding::Gzip => {
            let mut body = Vec::with_capacity(size);
            Pieces::new(published, reload, variant).for_each(|piece| body.extend_from_slice(&piece));
            Ok(body)
        }
    }
}

/// A page that is made while it is sent.
#[derive(Debug)]
pub struct Pieces {
    page: Page,
    /// What packs it.
    packer: Option<GzEncoder<Vec<u8>>>,
    ended: bool,
}

impl Pieces {
    fn new(published: Arc<Published>, reload: ReloadStatus, variant: Variant) -> Pieces {
        let packer = match variant.coding {
            Coding::Identity => None,
            Coding::Gzip => Some(GzEncoder::new(Vec::new(), Compression::fast())),
        };
        Pieces { page: Page::new(published, reload, variant.format), packer, ended: false }
    }
}

impl Iterator for Pieces {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        let mut text = String::with_capacity(CHUNK_BYTES + CHUNK_BYTES / 16);
        while !self.ended {
            text.clear();
            self.ended = !self.page.write_some(&mut text, CHUNK_BYTES);
            let Some(packer) = &mut self.packer else { return Some(Bytes::from(text)) };
            // A vector takes everything.
            let _written = packer.write_all(text.as_bytes());
            if self.ended {
                return self.packer.take().and_then(|packer| packer.finish().ok()).map(Bytes::from);
            }
            if packer.get_ref().len() >= CHUNK_BYTES {
                return Some(Bytes::from(std::mem::take(packer.get_mut())));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lockwatch_model::snapshot::Snapshot;
    use lockwatch_model::time::{AgentWall, Mono};

    #[test]
    fn pieces_are_the_page() {
        let snapshot = Snapshot { at: Mono(0), sequence: 1, tasks: Vec::new(), redises: Vec::new() };
        let published = Arc::new(Published { snapshot, wall: AgentWall(0), made: Instant::now() });
        let reload = ReloadStatus { successful: true, success_at: AgentWall(0) };
        for format in [Format::OpenMetrics, Format::Classic] {
            let page = |coding| make(Arc::clone(&published), reload, Variant { format, coding }).unwrap();
            let mut unpacked = String::new();
            let packed = page(Coding::Gzip);
            std::io::Read::read_to_string(&mut flate2::read::GzDecoder::new(packed.as_slice()), &mut unpacked).unwrap();
            // The agent's own figures differ from one to the other.
            let names = |page: &str| {
                page.lines().filter_map(|line| line.split(' ').next()).map(str::to_owned).collect::<Vec<_>>()
            };
            assert_eq!(names(std::str::from_utf8(&page(Coding::Identity)).unwrap()), names(&unpacked));
            assert_eq!(unpacked.ends_with("# EOF\n"), format == Format::OpenMetrics);
        }
    }
}
