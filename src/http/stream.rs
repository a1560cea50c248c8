//! A stream that runs out of patience: with a request's head that does not come, with a connection that idles, and
//! with a client that does not read. A response may be endless, as long as its client keeps up.

use std::future::Future as _;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll};

use hyper::body::{Body, Frame, SizeHint};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

use super::Limits;
use super::gate::StreamPermit;

/// The stream. Its user says by [`Serving`] when a request has come; the end of a response it sees itself.
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
    /// When the first byte was offered: of the response, or of what is not yet written of an endless one.
    write_began: Option<Instant>,
    /// Since when no byte was taken.
    stalled_since: Option<Instant>,
}

/// How far the serving of a request is.
#[derive(Clone, Debug, Default)]
pub(super) struct Serving(Arc<AtomicU8>);

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
        self.0.store(SERVING, Ordering::Relaxed);
    }

    /// Watches the body of the response to it.
    pub(super) fn watch<B>(&self, body: B) -> Watched<B> {
        Watched { body, serving: self.clone(), stay: None }
    }

    /// Watches a body that has no end: it lasts until the client goes, or until `stay` is over.
    pub(super) fn watch_endless<B>(&self, body: B, stay: Stay) -> Watched<B> {
        self.0.store(STREAMING, Ordering::Relaxed);
        Watched { body, serving: self.clone(), stay: Some(stay) }
    }

    fn is(&self, phase: u8) -> bool {
        self.0.load(Ordering::Relaxed) == phase
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
    _permit: StreamPermit,
}

impl Stay {
    /// Until the shutdown; holds its permit until the end.
    pub(super) fn new(shutdown: CancellationToken, permit: StreamPermit) -> Stay {
        Stay { shutdown: Box::pin(shutdown.cancelled_owned()), _permit: permit }
    }
}

impl<B> Drop for Watched<B> {
    fn drop(&mut self) {
        self.serving.0.store(WRITTEN, Ordering::Relaxed);
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
    pub(super) fn new(stream: S, limits: Limits) -> (Guarded<S>, Serving) {
        let serving = Serving::default();
        let guarded = Guarded {
            stream,
            limits,
            serving: serving.clone(),
            read_timer: Box::pin(sleep(limits.head)),
            head_began: false,
            write_timer: Box::pin(sleep(limits.write_stall)),
            write_began: None,
            stalled_since: None,
        };
        (guarded, serving)
    }

    /// Passes the outcome of a write on, or gives up when the client has not read for too long.
    fn watch_write(&mut self, context: &mut Context<'_>, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        let now = Instant::now();
        let began = *self.write_began.get_or_insert(now);
        if written.is_ready() {
            self.stalled_since = None;
            return written;
        }
        let stalled = *self.stalled_since.get_or_insert(now);
        let deadline = (stalled + self.limits.write_stall).min(began + self.limits.response);
        self.write_timer.as_mut().reset(deadline);
        self.write_timer.as_mut().poll(context).map(|()| Err(timed_out("the client does not read")))
    }

    /// Nothing is left to be written: a client that is streamed to has caught up; and if that was all of a response, the wait
    /// for the next request begins.
    fn all_written(&mut self, context: &mut Context<'_>) {
        if self.serving.is(STREAMING) {
            (self.write_began, self.stalled_since) = (None, None);
        }
        if !self.serving.is(WRITTEN) {
            return;
        }
        self.serving.0.store(WAITING, Ordering::Relaxed);
        (self.write_began, self.stalled_since) = (None, None);
        self.head_began = false;
        self.read_timer.as_mut().reset(Instant::now() + self.limits.idle);
        // Asked here so that it wakes the connection even if nobody waits to read; the reader sees it again.
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
            Poll::Pending => self.read_timer.as_mut().poll(context).map(|()| Err(timed_out("no request came"))),
        }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Guarded<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
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
