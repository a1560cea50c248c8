//! Bodies that ask for a change. A page of another site cannot ask for one: it can neither send
//! this content type without the agent's leave, which nobody gets, nor hide where it is from.

use std::time::Duration;

use http_body_util::{BodyExt as _, Limited};
use hyper::body::Incoming;
use hyper::header::{self, HeaderMap};
use hyper::{Request, StatusCode};
use serde::de::DeserializeOwned;
use tokio::time::timeout;

use super::api::nothing_asked;
use super::origin::is_of_another_site;
use super::reply::{JSON, Reply, json_error};

/// Maximum size of a request's body in bytes: only a few words are read.
pub(super) const BODY_BYTES_MAX: u64 = 1 << 10;
/// How long a client may take to send them.
const SENT_WITHIN: Duration = Duration::from_secs(5);

/// The body of a request from this site, or why it is refused. `foreign` says so to another site;
/// `form` says what to send.
pub(super) async fn read<T: DeserializeOwned>(
    request: Request<Incoming>,
    foreign: &str,
    form: &str,
) -> Result<T, Box<Reply>> {
    let refused = |status, sentence| Err(Box::new(json_error(status, sentence)));
    if is_of_another_site(request.headers()) {
        return refused(StatusCode::FORBIDDEN, foreign);
    }
    if !is_json(request.headers()) {
        let sentence = "Send `Content-Type: application/json`.";
        return refused(StatusCode::UNSUPPORTED_MEDIA_TYPE, sentence);
    }
    if let Err(refusal) = nothing_asked(&request) {
        return Err(Box::new(refusal.reply()));
    }
    let bytes = usize::try_from(BODY_BYTES_MAX).unwrap_or(usize::MAX);
    let body = timeout(SENT_WITHIN, Limited::new(request.into_body(), bytes).collect()).await;
    let Ok(Ok(body)) = body else {
        return refused(StatusCode::BAD_REQUEST, "The body did not arrive as a whole.");
    };
    serde_json::from_slice(&body.to_bytes()).or_else(|_| refused(StatusCode::BAD_REQUEST, form))
}

fn is_json(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let kind = kind.and_then(|kind| kind.split(';').next()).unwrap_or_default();
    kind.trim().eq_ignore_ascii_case(JSON)
}
