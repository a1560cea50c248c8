//! Pages that are being read. A page is big, there is a new one each second, and a reader may be
//! slow: a thousand slow readers must not keep a thousand pages alive. So a page is lent: where old
//! pages take too much memory, the one that was read from the longest time ago is taken back, and
//! its readers get no more of it. The newest page of each form is never taken back.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Instant;

use bytes::{Bytes, BytesMut};

use super::Variant;
use crate::outputs::metrics;
use crate::outputs::negotiate::Format;

/// A page is cut into pieces of so many bytes: as much of it stays in memory for a reader who
/// stalls.
const PIECE_BYTES: usize = 64 << 10;
/// More than this is not copied to have fewer pieces.
const SHARED_BYTES_MIN: usize = 4 << 10;
/// Most bytes of pages that are not the newest of their form, or as many as the newest page has if
/// that is more: then somebody who reads at an ordinary pace can finish.
const OLD_BYTES_MAX: usize = 4 << 20;

/// About what a snapshot keeps in memory for each task.
const TASK_BYTES: usize = 1 << 10;

/// A page, as long as it is not taken back.
#[derive(Debug)]
pub struct Page {
    length: Option<usize>,
    /// Bytes of memory.
    weight: usize,
    body: Mutex<Body>,
}

#[derive(Debug)]
struct Body {
    /// `None` once it was taken back.
    pieces: Option<Pieces>,
    /// When somebody took a piece last.
    read: Instant,
}

#[derive(Clone, Debug)]
enum Pieces {
    Made(Arc<[Bytes]>),
    /// What each piece is made of whenever it is taken.
    Unmade(metrics::Page, Format),
}

/// The page was taken back, because its reader is too slow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the page is old, and its reader too slow")]
pub struct TakenBack;

impl Page {
    pub(super) fn new(pieces: Vec<Bytes>) -> Page {
        let length = pieces.iter().map(Bytes::len).sum();
        Page::of(Pieces::Made(pieces.into()), Some(length), length)
    }

    /// A page that is made while it is read.
    pub(super) fn unmade(page: metrics::Page, format: Format) -> Page {
        let weight = page.tasks().saturating_mul(TASK_BYTES);
        Page::of(Pieces::Unmade(page, format), None, weight)
    }

    fn of(pieces: Pieces, length: Option<usize>, weight: usize) -> Page {
        Page {
            length,
            weight,
            body: Mutex::new(Body { pieces: Some(pieces), read: Instant::now() }),
        }
    }

    /// Bytes of the whole page, where that is known.
    pub fn length(&self) -> Option<usize> {
        self.length
    }

    /// Bytes of memory that it takes.
    pub(super) fn weight(&self) -> usize {
        self.weight
    }

    /// The piece of this number, from 0; `None` after the last. There may be nothing in it.
    ///
    /// # Errors
    /// It was taken back.
    pub fn piece(&self, at: usize) -> Result<Option<Bytes>, TakenBack> {
        match self.pieces()? {
            Pieces::Made(pieces) => Ok(pieces.get(at).cloned()),
            Pieces::Unmade(page, _) if at >= page.parts() => Ok(None),
            Pieces::Unmade(page, format) => {
                let mut text = String::new();
                // A string takes everything; of a page that is made while it is read nothing was
                // written before.
                let _written = page.write(at, format, &mut text);
                Ok(Some(text.into()))
            }
        }
    }

    fn pieces(&self) -> Result<Pieces, TakenBack> {
        let mut body = self.body();
        body.read = Instant::now();
        body.pieces.clone().ok_or(TakenBack)
    }

    /// Whether there still are pieces, and when one was taken last.
    fn read(&self) -> Option<Instant> {
        let body = self.body();
        body.pieces.is_some().then_some(body.read)
    }

    fn take_back(&self) {
        self.body().pieces = None;
    }

    /// Each change is one assignment, so a panic elsewhere is no reason to stop.
    fn body(&self) -> MutexGuard<'_, Body> {
        self.body.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// All pages that somebody may still read, in the order in which they were made.
#[derive(Debug, Default)]
pub(super) struct Lent(Mutex<Vec<(Variant, Weak<Page>)>>);

impl Lent {
    /// Notes a page, the newest of its form, and takes others back where they are too many.
    pub(super) fn lend(&self, variant: Variant, page: &Arc<Page>) {
        let mut lent = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        lent.push((variant, Arc::downgrade(page)));
        lent.retain(|(_, page)| page.strong_count() > 0);
        let newest = |at: usize, of: Variant| {
            !lent.iter().skip(at + 1).any(|(variant, _)| variant.has_place_of(of))
        };
        let old = lent.iter().enumerate().filter(|(at, (variant, _))| !newest(*at, *variant));
        let old = old.filter_map(|(_, (_, page))| page.upgrade());
        let mut old: Vec<(Instant, Arc<Page>)> =
            old.filter_map(|page| Some((page.read()?, page))).collect();
        old.sort_by_key(|(read, _)| *read);
        let mut bytes: usize = old.iter().map(|(_, page)| page.weight).sum();
        let most = OLD_BYTES_MAX.max(page.weight);
        for (_, page) in old {
            if bytes <= most {
                break;
            }
            bytes = bytes.saturating_sub(page.weight);
            page.take_back();
        }
    }
}

/// Cuts what is written into pieces.
#[derive(Debug, Default)]
pub(super) struct Cutter {
    whole: Vec<Bytes>,
    rest: BytesMut,
}

impl Cutter {
    /// Adds what is kept elsewhere, too. Only where there is little of it, it is copied.
    pub(super) fn share(&mut self, mut bytes: Bytes) {
        if bytes.len() < SHARED_BYTES_MIN {
            return self.add(&bytes);
        }
        self.end_piece();
        while !bytes.is_empty() {
            self.whole.push(bytes.split_to(bytes.len().min(PIECE_BYTES)));
        }
    }

    pub(super) fn add(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            // One allocation may hold some pieces, where what is shared stands between them.
            if self.rest.capacity() == self.rest.len() {
                self.end_piece();
                self.rest.reserve(PIECE_BYTES);
            }
            let (now, then) =
                bytes.split_at(bytes.len().min(self.rest.capacity() - self.rest.len()));
            self.rest.extend_from_slice(now);
            bytes = then;
        }
    }

    fn end_piece(&mut self) {
        if !self.rest.is_empty() {
            self.whole.push(self.rest.split().freeze());
        }
    }

    /// All that was written.
    pub(super) fn pieces(mut self) -> Vec<Bytes> {
        self.end_piece();
        self.whole
    }
}

impl io::Write for Cutter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.add(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outputs::metrics::Selection;
    use crate::outputs::negotiate::{Coding, Format};

    const PLAIN: Variant =
        Variant { format: Format::Classic, coding: Coding::Identity, metrics: Selection::ALL };
    const PACKED: Variant =
        Variant { format: Format::Classic, coding: Coding::Gzip, metrics: Selection::ALL };

    fn page(bytes: usize) -> Arc<Page> {
        let mut cutter = Cutter::default();
        (0..bytes).for_each(|at| cutter.add(&[at.to_le_bytes()[0]]));
        Arc::new(Page::new(cutter.pieces()))
    }

    /// A page of 8 MiB that takes no memory.
    fn big() -> Arc<Page> {
        Arc::new(Page::new(vec![Bytes::from_static(&[0; PIECE_BYTES]); 128]))
    }

    #[test]
    fn pieces_are_the_page() {
        for bytes in [0, 1, PIECE_BYTES - 1, PIECE_BYTES, PIECE_BYTES + 1, 3 * PIECE_BYTES + 7] {
            let page = page(bytes);
            let pieces: Vec<Bytes> = (0..).map_while(|at| page.piece(at).unwrap()).collect();
            let expected: Vec<u8> = (0..bytes).map(|at| at.to_le_bytes()[0]).collect();
            assert_eq!((page.length(), pieces.concat()), (Some(bytes), expected));
            assert!(pieces.iter().all(|piece| piece.len() <= PIECE_BYTES));
        }
    }

    #[test]
    fn the_page_that_nobody_reads_is_taken_back_first() {
        let lent = Lent::default();
        let pages: Vec<_> = (0..3).map(|_| big()).collect();
        let packed = page(10);
        lent.lend(PACKED, &packed);
        for page in &pages[..2] {
            lent.lend(PLAIN, page);
        }
        // Somebody is slow but reads; of the other page nobody does.
        pages[0].piece(1).unwrap();
        lent.lend(PLAIN, &pages[2]);
        assert_eq!(pages[1].piece(0), Err(TakenBack));
        for page in [&pages[0], &pages[2], &packed] {
            assert!(page.piece(0).is_ok());
        }
    }

    /// Else whoever thinks of enough selections could keep any number of pages alive.
    #[test]
    fn pages_of_other_metrics_are_no_other_form() {
        let lent = Lent::default();
        let of = |name| Variant { metrics: Selection::of([name]).unwrap(), ..PLAIN };
        let whole = big();
        lent.lend(PLAIN, &whole);
        let pages =
            ["lockwatch_lock_held", "lockwatch_task_info", "lockwatch_task_state"].map(|name| {
                let page = big();
                lent.lend(of(name), &page);
                page
            });
        let there: Vec<bool> = pages.iter().map(|page| page.piece(0).is_ok()).collect();
        assert_eq!((there, whole.piece(0).is_ok()), (vec![false, true, true], true));
    }

    #[test]
    fn the_last_but_one_may_be_finished_however_large_it_is() {
        let lent = Lent::default();
        let large = || Arc::new(Page::new(vec![Bytes::from_static(&[0; PIECE_BYTES]); 1_000]));
        let pages: Vec<_> = (0..5).map(|_| large()).collect();
        pages.iter().for_each(|page| lent.lend(PLAIN, page));
        let there: Vec<bool> = pages.iter().map(|page| page.piece(0).is_ok()).collect();
        assert_eq!(there, [false, false, false, true, true]);
        drop(pages);
        lent.lend(PLAIN, &large());
        assert_eq!(lent.0.lock().unwrap().len(), 1, "nothing is remembered of what is gone");
    }
}
