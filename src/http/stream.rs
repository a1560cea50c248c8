//! A stream that runs out of patience: with a request's head that does not come, with a connection
//! that idles, and with a client that does not read. A response may be endless, as long as its
//! client keeps up.

use std::future::Future as _;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::task::{Context, Poll};

use hyper::body::{Body, Frame, SizeHint};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

use super::Limits;
use super::gate::StayPermit;

/// The stream. Its user says by [`Serving`] when a request has come; the end of a response it sees
/// itself.
#[derive(Debug)]
pub(super) struct Guarded<S> {
    stream: S,
    limits: Limits,
    serving: Serving,
    /// When to give up on the client's next bytes; counts only while nothing is being served.
    read_timer: Pin<Box<Sleep>>,
    /// Whether the beginning of a request's head has come.
    head_began: bool,
    /// When to give up on the client's reading; set anew whenever a write has to wait.
    write_timer: Pin<Box<Sleep>>,
    /// When the first byte was offered: of the response, or of what is not yet written of an
    /// endless one.
    write_began: Option<Instant>,
    /// Since when no byte was taken.
    stalled_since: Option<Instant>,
}

/// How far the serving of a request is.
#[derive(Clone, Debug)]
pub(super) struct Serving(Arc<Progress>);

#[derive(Debug)]
struct Progress {
    phase: AtomicU8,
    /// Since when the client is waited for, in milliseconds of [`now_ms`]; [`NOT_WAITING`] if it is
    /// not.
    waiting_since: AtomicU64,
}

const NOT_WAITING: u64 = u64::MAX;
/// A client may take so long to send its request, or to take the next bytes, before its place can
/// be given to another.
const REQUEST_MS: u64 = 20;
const READING_MS: u64 = 100;

impl Default for Serving {
    fn default() -> Serving {
        Serving(Arc::new(Progress {
            phase: AtomicU8::new(WAITING),
            waiting_since: AtomicU64::new(NOT_WAITING),
        }))
    }
}

/// Milliseconds since some instant before the first time that anybody asked.
fn now_ms() -> u64 {
    const BEFORE_MS: u64 = 1 << 32;
    static FIRST: LazyLock<std::time::Instant> = LazyLock::new(std::time::Instant::now);
    let since_first = u64::try_from(FIRST.elapsed().as_millis()).unwrap_or(u64::MAX / 2);
    BEFORE_MS.saturating_add(since_first)
}

/// Waiting for a request.
const WAITING: u8 = 0;
/// A request is being served.
const SERVING: u8 = 1;
/// The whole response was handed over for writing.
const WRITTEN: u8 = 2;
/// A response without an end is being served.
const STREAMING: u8 = 3;

impl Serving {
    /// A request's head has come.
    pub(super) fn begin(&self) {
        self.enter(SERVING);
        self.waits(false);
    }

    /// Since when its client has kept the server waiting, by a clock of this process: for a
    /// request, or by not reading. `None`: not at all, or not for long, or it is a stream, which
    /// has a patience of its own.
    pub(super) fn kept_waiting_since_ms(&self) -> Option<u64> {
        let since = self.0.waiting_since.load(Ordering::Relaxed);
        if since == NOT_WAITING || self.is(STREAMING) {
            return None;
        }
        let allowed = if self.is(WAITING) { REQUEST_MS } else { READING_MS };
        (now_ms().saturating_sub(since) >= allowed).then_some(since)
    }

    /// As if the client had been waited for so long.
    #[cfg(test)]
    pub(super) fn has_waited(&self, ms: u64) {
        self.0.waiting_since.store(now_ms() - ms, Ordering::Relaxed);
    }

    fn enter(&self, phase: u8) {
        self.0.phase.store(phase, Ordering::Relaxed);
    }

    /// Notes whether the client is waited for; since when, if it is new.
    fn waits(&self, waits: bool) {
        let since = &self.0.waiting_since;
        if !waits {
            since.store(NOT_WAITING, Ordering::Relaxed);
        } else if since.load(Ordering::Relaxed) == NOT_WAITING {
            since.store(now_ms(), Ordering::Relaxed);
        }
    }

    /// Watches the body of the response to it.
    pub(super) fn watch<B>(&self, body: B) -> Watched<B> {
        Watched { body, serving: self.clone(), stay: None }
    }

    /// Watches a body that has no end: it lasts until the client goes, or until `stay` is over.
    pub(super) fn watch_endless<B>(&self, body: B, stay: Stay) -> Watched<B> {
        self.enter(STREAMING);
        Watched { body, serving: self.clone(), stay: Some(stay) }
    }

    fn is(&self, phase: u8) -> bool {
        self.0.phase.load(Ordering::Relaxed) == phase
    }
}

/// The body of a response. When it is dropped, all of it was handed over.
#[derive(Debug)]
pub(super) struct Watched<B> {
    body: B,
    serving: Serving,
    stay: Option<Stay>,
}

/// How long an endless response may last.
#[derive(Debug)]
pub(super) struct Stay {
    shutdown: Pin<Box<WaitForCancellationFutureOwned>>,
    _permit: StayPermit,
}

impl Stay {
    /// Until the shutdown; holds its permit until the end.
    pub(super) fn new(shutdown: CancellationToken, permit: StayPermit) -> Stay {
        Stay { shutdown: Box::pin(shutdown.cancelled_owned()), _permit: permit }
    }
}

impl<B> Drop for Watched<B> {
    fn drop(&mut self) {
        self.serving.enter(WRITTEN);
    }
}

impl<B: Body + Unpin> Body for Watched<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        if let Some(stay) = &mut self.stay
            && stay.shutdown.as_mut().poll(context).is_ready()
        {
            return Poll::Ready(None);
        }
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl<S> Guarded<S> {
    pub(super) fn new(stream: S, limits: Limits, serving: Serving) -> Guarded<S> {
        Guarded {
            stream,
            limits,
            serving,
            read_timer: Box::pin(sleep(limits.head)),
            head_began: false,
            write_timer: Box::pin(sleep(limits.write_stall)),
            write_began: None,
            stalled_since: None,
        }
    }

    /// Passes the outcome of a write on, or gives up when the client has not read for too long.
    fn watch_write(
        &mut self,
        context: &mut Context<'_>,
        written: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        let now = Instant::now();
        let began = *self.write_began.get_or_insert(now);
        self.serving.waits(written.is_pending());
        if written.is_ready() {
            self.stalled_since = None;
            return written;
        }
        let stalled = *self.stalled_since.get_or_insert(now);
        let deadline = (stalled + self.limits.write_stall).min(began + self.limits.response);
        self.write_timer.as_mut().reset(deadline);
        self.write_timer.as_mut().poll(context).map(|()| Err(timed_out("the client does not read")))
    }

    /// Nothing is left to be written: a client that is streamed to has caught up; and if that was
    /// all of a response, the wait for the next request begins.
    fn all_written(&mut self, context: &mut Context<'_>) {
        if self.serving.is(STREAMING) {
            (self.write_began, self.stalled_since) = (None, None);
        }
        if !self.serving.is(WRITTEN) {
            return;
        }
        self.serving.enter(WAITING);
        self.serving.waits(true);
        (self.write_began, self.stalled_since) = (None, None);
        self.head_began = false;
        self.read_timer.as_mut().reset(Instant::now() + self.limits.idle);
        // Asked here so that it wakes the connection even if nobody waits to read; the reader sees
        // it again.
        let _ = self.read_timer.as_mut().poll(context);
    }
}

fn timed_out(why: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, why)
}

impl<S: AsyncRead + Unpin> AsyncRead for Guarded<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        if !self.serving.is(WAITING) {
            return read;
        }
        if buffer.filled().len() > before && !self.head_began {
            self.head_began = true;
            let deadline = Instant::now() + self.limits.head;
            self.read_timer.as_mut().reset(deadline);
        }
        match read {
            Poll::Ready(read) => Poll::Ready(read),
            Poll::Pending => {
                // Only now: what the client has sent long ago may not have been looked at, on a
                // busy machine.
                self.serving.waits(true);
                self.read_timer.as_mut().poll(context).map(|()| Err(timed_out("no request came")))
            }
        }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Guarded<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.watch_write(context, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, pieces);
        self.watch_write(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        if flushed.is_ready() {
            self.all_written(context);
        }
        flushed
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    /// The limit of a response is one of catching up, where the response has no end.
    #[tokio::test]
    async fn whoever_has_caught_up_with_a_stream_has_all_the_time_again() {
        let limits = Limits { response: Duration::from_millis(400), ..Limits::default() };
        let (here, mut there) = tokio::io::duplex(8);
        let serving = Serving::default();
        serving.begin();
        serving.enter(STREAMING);
        let mut stream = Guarded::new(here, limits, serving);
        stream.write_all(b"first").await.unwrap();
        stream.flush().await.unwrap();
        tokio::time::sleep(limits.response * 2).await;
        let reading = tokio::spawn(async move { there.read_exact(&mut [0; 17]).await });
        stream.write_all(b"after a while").await.unwrap();
        assert_eq!(reading.await.unwrap().unwrap(), 17);
    }
}
