//! Responses, all with the headers that restrict what a browser may do with them.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::{Body, Frame, SizeHint};
use hyper::header::{self, HeaderName, HeaderValue};
use hyper::{Response, StatusCode};
use serde::Serialize;
use tokio::sync::{OwnedSemaphorePermit, mpsc};

use crate::api::Error;
use crate::outputs::exposition::{Exposition, TooSlow};
use crate::outputs::json::{TaskList, text as json_text};

pub(super) type Reply = Response<ReplyBody>;

pub(super) const JSON: &str = "application/json";
const EVENT_STREAM: &str = "text/event-stream";
const TEXT: &str = "text/plain; charset=utf-8";

/// The default policy: nothing may be loaded, run, submitted or framed.
const POLICY: &str =
    "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// The policy of a page: its own style sheet and script, which may only contact the agent.
/// `{ancestors}`: the sites that may show it in a frame.
const PAGE_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src \
    'self'; img-src 'self'; \
                           base-uri 'none'; form-action 'self'; frame-ancestors ";

/// A response that must not be stored.
pub(super) fn reply(
    status: StatusCode,
    content_type: &'static str,
    body: impl Into<Bytes>,
) -> Reply {
    let mut reply = Response::new(ReplyBody::Whole(Full::new(body.into())));
    *reply.status_mut() = status;
    let headers = [
        (header::CONTENT_TYPE, content_type),
        (header::CACHE_CONTROL, "no-store"),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ];
    for (name, value) in headers {
        reply.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    reply
}

/// The same response with one header added or replaced.
pub(super) fn with_header(mut reply: Reply, name: HeaderName, value: &'static str) -> Reply {
    reply.headers_mut().insert(name, HeaderValue::from_static(value));
    reply
}

/// The same response as a page that the sites of `ancestors` may show in a frame.
pub(super) fn as_page(mut reply: Reply, ancestors: &[String]) -> Reply {
    let ancestors = if ancestors.is_empty() { String::from("'none'") } else { ancestors.join(" ") };
    // If the policy is not a valid header value, the strict one stays.
    if let Ok(policy) = HeaderValue::from_str(&format!("{PAGE_POLICY}{ancestors}")) {
        reply.headers_mut().insert(header::CONTENT_SECURITY_POLICY, policy);
    }
    reply
}

/// A sentence for people.
pub(super) fn text(status: StatusCode, sentence: impl Into<String>) -> Reply {
    let mut sentence = sentence.into();
    sentence.push('\n');
    reply(status, TEXT, sentence)
}

/// A value for programs.
pub(super) fn json(status: StatusCode, value: &impl Serialize) -> Reply {
    reply(status, JSON, json_text(value))
}

/// A long text, written piece by piece as fast as the client reads.
pub(super) fn pieces(
    status: StatusCode,
    content_type: &'static str,
    pieces: impl Iterator<Item = String> + Send + 'static,
) -> Reply {
    reply(status, content_type, Bytes::new()).map(|_| ReplyBody::Pieces(Box::new(pieces)))
}

/// An exposition of the metrics, written piece by piece; a short one as a whole.
pub(super) fn metrics(content_type: &'static str, mut pieces: Exposition) -> Reply {
    let first = pieces.next().and_then(Result::ok).unwrap_or_default();
    match pieces.next() {
        None => reply(StatusCode::OK, content_type, first),
        Some(second) => {
            let pieces = [Ok(first), second].into_iter().chain(pieces);
            let body = ReplyBody::Exposition(Box::new(pieces));
            reply(StatusCode::OK, content_type, Bytes::new()).map(|_| body)
        }
    }
}

/// A long list for programs.
pub(super) fn json_pieces(list: TaskList) -> Reply {
    pieces(StatusCode::OK, JSON, list)
}

/// Server-sent events, until the sender is dropped. The channel's length bounds the frames that are
/// queued for a slow client. The server ends the stream when the client does not read at all, and
/// on shutdown.
pub(super) fn stream(frames: mpsc::Receiver<Bytes>, permit: OwnedSemaphorePermit) -> Reply {
    let reply = reply(StatusCode::OK, EVENT_STREAM, Bytes::new())
        .map(|_| ReplyBody::Stream { frames, _permit: permit });
    // Proxies must neither delay frames nor buffer them for compression.
    let reply = with_header(reply, header::CACHE_CONTROL, "no-store, no-transform");
    with_header(reply, HeaderName::from_static("x-accel-buffering"), "no")
}

/// The limit of streams is reached.
pub(super) fn too_many_streams() -> Reply {
    let reply = text(
        StatusCode::SERVICE_UNAVAILABLE,
        "Too many pages and streams are open; try again later.",
    );
    with_header(reply, header::RETRY_AFTER, "15")
}

pub(super) enum ReplyBody {
    /// The whole body.
    Whole(Full<Bytes>),
    /// An exposition that is too long to be held whole.
    Exposition(Box<dyn Iterator<Item = Result<Bytes, TooSlow>> + Send>),
    Pieces(Box<dyn Iterator<Item = String> + Send>),
    /// Frames as they arrive.
    Stream {
        frames: mpsc::Receiver<Bytes>,
        /// Its permit, from the limit of streams.
        _permit: OwnedSemaphorePermit,
    },
}

impl ReplyBody {
    /// Whether it only ends when client or server end it.
    pub(super) fn is_endless(&self) -> bool {
        matches!(self, ReplyBody::Stream { .. })
    }
}

impl Body for ReplyBody {
    type Data = Bytes;
    type Error = TooSlow;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, TooSlow>>> {
        match &mut *self {
            ReplyBody::Whole(body) => {
                Pin::new(body).poll_frame(context).map_err(|never| match never {})
            }
            ReplyBody::Exposition(pieces) => {
                Poll::Ready(pieces.next().map(|piece| piece.map(Frame::data)))
            }
            ReplyBody::Pieces(pieces) => {
                Poll::Ready(pieces.next().map(|piece| Ok(Frame::data(Bytes::from(piece)))))
            }
            ReplyBody::Stream { frames, .. } => {
                frames.poll_recv(context).map(|frame| frame.map(|frame| Ok(Frame::data(frame))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, ReplyBody::Whole(body) if body.is_end_stream())
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            ReplyBody::Whole(body) => body.size_hint(),
            ReplyBody::Exposition(_) | ReplyBody::Pieces(_) | ReplyBody::Stream { .. } => {
                SizeHint::default()
            }
        }
    }
}

/// A sentence for programs that expect JSON.
pub(super) fn json_error(status: StatusCode, sentence: &str) -> Reply {
    json(status, &Error { error: sentence.to_owned().into(), allowed: None })
}
