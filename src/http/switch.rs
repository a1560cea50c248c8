//! Flips the own switch of a user that has logged in. A page of another site cannot ask for it: it
//! can neither send this content type without the agent's leave, which nobody gets, nor hide where
//! it is from.

use std::time::Duration;

use http_body_util::{BodyExt as _, Limited};
use hyper::body::Incoming;
use hyper::header::{self, HeaderMap};
use hyper::{Request, StatusCode};
use serde::Deserialize;
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::api::nothing_asked;
use super::origin::{LoggedIn, is_of_another_site};
use super::reply::{JSON, Reply, json_error, reply};
use super::site::Site;
use crate::published::{NotSwitched, SwitchRequest};

/// Maximum size of a request's body in bytes; only a wish is read.
pub(super) const BODY_BYTES_MAX: u64 = 1 << 10;
/// How long it may take.
const PATIENCE: Duration = Duration::from_secs(20);
/// How long a client may take to send the few bytes of its wish.
const SENT_WITHIN: Duration = Duration::from_secs(5);

/// What is asked for.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Asked {
    want: Wish,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Wish {
    On,
    Off,
}

impl Site {
    /// Whether users may flip their switch of this task here.
    pub(super) fn is_switchable(&self, task: &str) -> bool {
        let switches = self.context.switches.as_ref();
        switches.is_some_and(|switches| switches.tasks.borrow().contains(task))
    }

    pub(super) async fn switch(&self, task: &str, request: Request<Incoming>) -> Reply {
        let refused = json_error;
        let Some(LoggedIn(user)) = request.extensions().get::<LoggedIn>().cloned() else {
            return refused(StatusCode::FORBIDDEN, "Log in: only the own switch can be flipped.");
        };
        if is_of_another_site(request.headers()) {
            let sentence = "A switch cannot be flipped by another site's page.";
            return refused(StatusCode::FORBIDDEN, sentence);
        }
        if !is_json(request.headers()) {
            let sentence = "Send `Content-Type: application/json`.";
            return refused(StatusCode::UNSUPPORTED_MEDIA_TYPE, sentence);
        }
        if let Err(refusal) = nothing_asked(&request) {
            return refusal.reply();
        }
        let bytes = usize::try_from(BODY_BYTES_MAX).unwrap_or(usize::MAX);
        let body = timeout(SENT_WITHIN, Limited::new(request.into_body(), bytes).collect()).await;
        let Ok(Ok(body)) = body else {
            return refused(StatusCode::BAD_REQUEST, "The body did not arrive as a whole.");
        };
        let Ok(Asked { want }) = serde_json::from_slice(&body.to_bytes()) else {
            let sentence = "Send {\"want\": \"on\"} or {\"want\": \"off\"}.";
            return refused(StatusCode::BAD_REQUEST, sentence);
        };
        self.flip(task, user, want == Wish::On).await
    }

    async fn flip(&self, task: &str, user: String, on: bool) -> Reply {
        let (answer, answered) = oneshot::channel();
        let asked = SwitchRequest { task: task.to_owned(), user, on, answer };
        let sent = self.context.switches.as_ref().map(|switches| switches.requests.try_send(asked));
        if !matches!(sent, Some(Ok(()))) {
            let sentence = "Too many switches are being flipped; try again in a moment.";
            return json_error(StatusCode::SERVICE_UNAVAILABLE, sentence);
        }
        match timeout(PATIENCE, answered).await {
            Ok(Ok(Ok(outcome))) => reply(StatusCode::OK, JSON, outcome),
            Ok(Ok(Err(NotSwitched::Refused(why)))) => json_error(StatusCode::CONFLICT, &why),
            Ok(Ok(Err(NotSwitched::Unreachable(why)))) => {
                json_error(StatusCode::SERVICE_UNAVAILABLE, &why)
            }
            _ => json_error(
                StatusCode::SERVICE_UNAVAILABLE,
                "It is not known whether the switch was flipped: it took too long. Look at the page.",
            ),
        }
    }
}

fn is_json(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let kind = kind.and_then(|kind| kind.split(';').next()).unwrap_or_default();
    kind.trim().eq_ignore_ascii_case(JSON)
}
