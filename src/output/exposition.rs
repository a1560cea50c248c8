//! The metrics page as bytes to send: OpenMetrics or classic text, packed or not, made once per snapshot.

mod lent;

use std::fmt;
use std::io::Write as _;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use tokio::sync::{Mutex, OwnedMutexGuard};

use super::metrics;
use super::negotiate::{Coding, Format};
use crate::published::{Published, ReloadStatus};
use lent::{Cutter, Lent};

pub use lent::{Page, TakenBack};

/// With more tasks than this a page takes long enough to be made on a thread of its own.
const TASKS_INLINE_MAX: usize = 50;
/// A larger page is kept only as long as somebody reads it.
const KEPT_BYTES_MAX: usize = 32 << 20;
/// The encoder's small pieces go on when they are so many bytes.
const CHUNK_BYTES: usize = 64 << 10;
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

/// Makes pages, each form once per snapshot, and keeps the newest of each form while it may be asked for again.
#[derive(Clone, Debug, Default)]
pub struct Pages {
    shelves: [Arc<Mutex<Option<Kept>>>; 4],
    /// One page is made at a time: with more, the memory of each thread that ever made one would stay with the process.
    making: Arc<Mutex<()>>,
    lent: Arc<Lent>,
}

/// The newest page of a form and what it was made of.
#[derive(Debug)]
struct Kept {
    of: Origin,
    page: Weak<Page>,
    /// Keeps it although nobody reads it; a large one is not kept.
    _held: Option<Arc<Page>>,
}

/// What tells a page from any other of the same form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Origin {
    sequence: u64,
    made: Instant,
    reload: ReloadStatus,
}

impl Pages {
    /// The page of `published` in the form `variant`.
    ///
    /// Readers of the same snapshot and form share one page. A reader who goes away does not stop a page that is under
    /// way: the next one finds it, so impatient readers cannot pile up work. Readers who fall behind lose theirs, see [`Page`].
    ///
    /// # Errors
    /// The page could not be made; no cause is known.
    pub async fn page(
        &self,
        published: Arc<Published>,
        reload: ReloadStatus,
        variant: Variant,
    ) -> Result<Arc<Page>, PageError> {
        let of = Origin { sequence: published.snapshot.sequence, made: published.made, reload };
        let [plain, packed, open, open_packed] = &self.shelves;
        let shelf = match (variant.format, variant.coding) {
            (Format::Classic, Coding::Identity) => plain,
            (Format::Classic, Coding::Gzip) => packed,
            (Format::OpenMetrics, Coding::Identity) => open,
            (Format::OpenMetrics, Coding::Gzip) => open_packed,
        };
        let kept = Arc::clone(shelf).lock_owned().await;
        if let Some(page) = kept.as_ref().filter(|kept| kept.of == of).and_then(|kept| kept.page.upgrade()) {
            return Ok(page);
        }
        let turn = Arc::clone(&self.making).lock_owned().await;
        let lent = Arc::clone(&self.lent);
        let page = if published.snapshot.tasks.len() <= TASKS_INLINE_MAX {
            make_and_keep(kept, &lent, published, of, variant)?
        } else {
            let make = move || {
                let page = make_and_keep(kept, &lent, published, of, variant);
                drop(turn);
                page
            };
            tokio::task::spawn_blocking(make).await.map_err(|_| PageError)??
        };
        forget_later(Arc::clone(shelf), of);
        Ok(page)
    }
}

/// Frees the page of `of` when nobody can ask for it any more.
fn forget_later(shelf: Arc<Mutex<Option<Kept>>>, of: Origin) {
    tokio::spawn(async move {
        tokio::time::sleep(KEPT_FOR).await;
        shelf.lock().await.take_if(|kept| kept.of == of);
    });
}

/// A page could not be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the metrics page could not be made")]
pub struct PageError;

fn make_and_keep(
    mut kept: OwnedMutexGuard<Option<Kept>>,
    lent: &Lent,
    published: Arc<Published>,
    of: Origin,
    variant: Variant,
) -> Result<Arc<Page>, PageError> {
    // Free the old page before the new one takes its place in memory.
    *kept = None;
    let page = Arc::new(Page::new(make_pieces(published, of.reload, variant)?));
    lent.lend(variant, &page);
    let held = (page.length() <= KEPT_BYTES_MAX).then(|| Arc::clone(&page));
    *kept = Some(Kept { of, page: Arc::downgrade(&page), _held: held });
    Ok(page)
}

/// The page of `published` in the form `variant`.
///
/// # Errors
/// The page could not be made; no cause is known.
pub fn make(published: Arc<Published>, reload: ReloadStatus, variant: Variant) -> Result<Vec<u8>, PageError> {
    Ok(make_pieces(published, reload, variant)?.concat())
}

/// The same in pieces. Of a packed page, the text is never held whole.
fn make_pieces(published: Arc<Published>, reload: ReloadStatus, variant: Variant) -> Result<Vec<Bytes>, PageError> {
    let mut cutter = Cutter::default();
    match variant.coding {
        Coding::Identity => write(published, reload, variant.format, &mut cutter)?,
        Coding::Gzip => {
            let mut packer = Packer(GzEncoder::new(cutter, Compression::fast()));
            write(published, reload, variant.format, &mut packer)?;
            cutter = packer.0.finish().map_err(|_| PageError)?;
        }
    }
    Ok(cutter.pieces())
}

fn write(
    published: Arc<Published>,
    reload: ReloadStatus,
    format: Format,
    out: &mut impl fmt::Write,
) -> Result<(), PageError> {
    let mut chunks = Chunks::new(format, out);
    let written = metrics::write(published, reload, &mut chunks).and_then(|()| chunks.pass_on());
    written.map_err(|_| PageError)
}

/// Packs text.
struct Packer(GzEncoder<Cutter>);

impl fmt::Write for Packer {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.write_all(text.as_bytes()).map_err(|_| fmt::Error)
    }
}

/// Rewrites OpenMetrics text as classic text: a counter is described under the name of its samples, and there are no
/// units and no end mark. Samples are the same in both.
pub fn classic(open_metrics: &str) -> String {
    let mut text = String::with_capacity(open_metrics.len());
    let mut chunks = Chunks::new(Format::Classic, &mut text);
    // A string takes everything.
    let _written = fmt::Write::write_str(&mut chunks, open_metrics).and_then(|()| chunks.pass_on());
    text
}

/// Takes OpenMetrics text in small pieces and hands it on in large ones, in the wanted format.
struct Chunks<'a, W> {
    format: Format,
    /// What was not handed on yet.
    chunk: String,
    /// A description, to be written when the type is known, which comes next: the name, and the rest of the line.
    help: Option<(String, String)>,
    out: &'a mut W,
}

impl<W: fmt::Write> fmt::Write for Chunks<'_, W> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.chunk.push_str(text);
        if self.chunk.len() < CHUNK_BYTES { Ok(()) } else { self.pass_on() }
    }
}

impl<'a, W: fmt::Write> Chunks<'a, W> {
    fn new(format: Format, out: &'a mut W) -> Chunks<'a, W> {
        Chunks { format, chunk: String::new(), help: None, out }
    }

    /// Hands on all whole lines.
    fn pass_on(&mut self) -> fmt::Result {
        let chunk = std::mem::take(&mut self.chunk);
        let (whole, rest) = chunk.split_at(chunk.rfind('\n').map_or(0, |end| end + 1));
        match self.format {
            Format::OpenMetrics => self.out.write_str(whole)?,
            Format::Classic => self.pass_on_classic(whole)?,
        }
        self.chunk.reserve(CHUNK_BYTES + rest.len());
        self.chunk.push_str(rest);
        Ok(())
    }

    fn pass_on_classic(&mut self, mut lines: &str) -> fmt::Result {
        while !lines.is_empty() {
            let is_comment = lines.starts_with('#');
            let end = if is_comment { lines.find('\n') } else { lines.find("\n#") };
            let (now, then) = lines.split_at(end.map_or(lines.len(), |end| end + 1));
            if is_comment {
                self.comment(now)?
            } else {
                self.out.write_str(now)?
            }
            lines = then;
        }
        Ok(())
    }

    fn comment(&mut self, line: &str) -> fmt::Result {
        if let Some((name, sentence)) = line.strip_prefix("# HELP ").and_then(|rest| rest.split_once(' ')) {
            self.help = Some((name.to_owned(), sentence.to_owned()));
        } else if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|rest| rest.split_once(' ')) {
            let suffix = if kind.trim_end() == "counter" { "_total" } else { "" };
            if let Some((_, sentence)) = self.help.take().filter(|(described, _)| described == name) {
                write!(self.out, "# HELP {name}{suffix} {sentence}")?;
            }
            write!(self.out, "# TYPE {name}{suffix} {kind}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classic_text_differs_only_in_descriptions() {
        let open_metrics = "# HELP a_b The a.\n# TYPE a_b counter\na_b_total{x=\"# EOF\"} 1\n\
                            # HELP g The g.\n# TYPE g gauge\n# UNIT g seconds\ng 2.5\n\
                            # HELP h The h.\n# TYPE h histogram\nh_bucket{le=\"+Inf\"} 0\n# EOF\n";
        let expected = "# HELP a_b_total The a.\n# TYPE a_b_total counter\na_b_total{x=\"# EOF\"} 1\n\
                        # HELP g The g.\n# TYPE g gauge\ng 2.5\n\
                        # HELP h The h.\n# TYPE h histogram\nh_bucket{le=\"+Inf\"} 0\n";
        assert_eq!(classic(open_metrics), expected);

        // In small pieces, and more than is handed on at once.
        let times = 3 * CHUNK_BYTES / open_metrics.len();
        let mut text = String::new();
        let mut chunks = Chunks::new(Format::Classic, &mut text);
        for piece in open_metrics.repeat(times).split_inclusive(['_', ' ', '\n']) {
            fmt::Write::write_str(&mut chunks, piece).unwrap();
        }
        chunks.pass_on().unwrap();
        assert_eq!(text, expected.repeat(times));
    }
}
