//! Flips the own switch of a user that has logged in.

use std::time::Duration;

use hyper::body::Incoming;
use hyper::{Request, StatusCode};
use serde::Deserialize;
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::body;
use super::origin::LoggedIn;
use super::reply::{JSON, Reply, json_error, reply};
use super::site::Site;
use crate::published::{NotSwitched, SwitchRequest};

/// How long it may take.
const PATIENCE: Duration = Duration::from_secs(20);

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
        let Some(LoggedIn(user)) = request.extensions().get::<LoggedIn>().cloned() else {
            return json_error(
                StatusCode::FORBIDDEN,
                "Log in: only the own switch can be flipped.",
            );
        };
        let foreign = "A switch cannot be flipped by another site's page.";
        let form = "Send {\"want\": \"on\"} or {\"want\": \"off\"}.";
        let Asked { want } = match body::read(request, foreign, form).await {
            Ok(asked) => asked,
            Err(refusal) => return *refusal,
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
