//! Responses, all with the headers that keep a browser from being fooled.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body_util::{Either, Full};
use hyper::body::{Body, Frame};
use hyper::header::{self, HeaderName, HeaderValue};
use hyper::{Response, StatusCode};
use serde::Serialize;

use crate::output::json::TaskList;

/// A response.
pub(super) type Reply = Response<Either<Full<Bytes>, Pieces>>;

const JSON: &str = "application/json";
const TEXT: &str = "text/plain; charset=utf-8";

/// Nothing but our own style sheet may be loaded, nothing may be run, sent or framed.
const POLICY: &str =
    "default-src 'none'; style-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// A response that nobody may keep.
pub(super) fn reply(status: StatusCode, content_type: &'static str, body: impl Into<Bytes>) -> Reply {
    let mut reply = Response::new(Either::Left(Full::new(body.into())));
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

/// The same with one more header, or with one changed.
pub(super) fn with_header(mut reply: Reply, name: HeaderName, value: &'static str) -> Reply {
    reply.headers_mut().insert(name, HeaderValue::from_static(value));
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
    match serde_json::to_vec(value) {
        Ok(body) => reply(status, JSON, body),
        Err(error) => text(StatusCode::INTERNAL_SERVER_ERROR, format!("The answer could not be written: {error}.")),
    }
}

/// A long list for programs.
pub(super) fn json_pieces(list: TaskList) -> Reply {
    reply(StatusCode::OK, JSON, Bytes::new()).map(|_| Either::Right(Pieces(list)))
}

/// A body that is written piece by piece, as fast as the client reads.
pub(super) struct Pieces(TaskList);

impl Body for Pieces {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.0.next().map(|piece| Ok(Frame::data(Bytes::from(piece)))))
    }
}

/// A sentence for programs that expect JSON.
pub(super) fn json_error(status: StatusCode, sentence: &str) -> Reply {
    #[derive(Serialize)]
    struct Error<'a> {
        error: &'a str,
    }
    json(status, &Error { error: sentence })
}
