//! Shows, begins, renews and ends drills.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::header::{self, HeaderValue};
use hyper::http::uri::Authority;
use hyper::{Request, StatusCode};
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::api::nothing_asked;
use super::body;
use super::origin::LoggedIn;
use super::reply::{Reply, json, json_error};
use super::site::Site;
use crate::api::{DrillRequest as Change, PresentDrill, StartDrill};
use crate::drill::{Drill, Refusal};
use crate::outputs::json::drill as shown;
use crate::published::{DrillRequest, DrillRequestKind};

/// How long a reply may take.
const PATIENCE: Duration = Duration::from_secs(10);
const FOREIGN: &str = "A drill cannot be begun or ended by another site's page.";

impl Site {
    pub(super) fn drill(&self, request: &Request<Incoming>) -> Reply {
        if let Err(refusal) = nothing_asked(request) {
            return refusal.reply();
        }
        let published = self.newest();
        match self.stopped(&published) {
            Some(sentence) => json_error(StatusCode::SERVICE_UNAVAILABLE, &sentence),
            None => {
                let drill = published.drill.as_deref().map(shown);
                json(StatusCode::OK, &PresentDrill { drill })
            }
        }
    }

    pub(super) async fn start_drill(&self, request: Request<Incoming>) -> Reply {
        let by = match self.admitted(&request) {
            Ok(by) => by,
            Err(refusal) => return *refusal,
        };
        let form = "Send {\"task\": NAME, \"seconds\": NUMBER}, if you like with \"severity\" and \
                    \"after\": texts that are not empty, and at least one second.";
        let StartDrill { task, severity, seconds, after } =
            match body::read(request, FOREIGN, form).await {
                Ok(start) => start,
                Err(refusal) => return *refusal,
            };
        if seconds == 0 || severity.as_deref() == Some("") {
            return json_error(StatusCode::BAD_REQUEST, form);
        }
        let start = DrillRequestKind::Start { task, severity, seconds, after, by };
        self.pass(StatusCode::CREATED, start).await
    }

    pub(super) async fn change_drill(&self, id: String, request: Request<Incoming>) -> Reply {
        if let Err(refusal) = self.admitted(&request) {
            return *refusal;
        }
        let form = "Send {\"do\": \"renew\"}, or {\"do\": \"stop\", \"notified\": true} or false.";
        let kind = match body::read(request, FOREIGN, form).await {
            Ok(Change::Renew) => DrillRequestKind::Renew(id),
            Ok(Change::Stop { notified }) => DrillRequestKind::Stop { id, notified },
            Err(refusal) => return *refusal,
        };
        self.pass(StatusCode::OK, kind).await
    }

    /// The user that asks, where users log in, or why nobody may ask.
    fn admitted(&self, request: &Request<Incoming>) -> Result<Option<String>, Box<Reply>> {
        let user = request.extensions().get::<LoggedIn>().map(|LoggedIn(user)| user.clone());
        let needs_login = self.context.drills.as_ref().is_some_and(|drills| drills.needs_login);
        if needs_login && user.is_none() {
            let sentence = "Log in: an agent that others reach must know who begins drills.";
            return Err(Box::new(json_error(StatusCode::FORBIDDEN, sentence)));
        }
        // Without logins the agent listens here only. A name that somebody else's page made lead
        // here is none of this machine.
        if user.is_none() && !names_this_machine(request) {
            let sentence =
                "Ask by 127.0.0.1 or localhost: without logins nobody else begins drills.";
            return Err(Box::new(json_error(StatusCode::FORBIDDEN, sentence)));
        }
        Ok(user)
    }

    async fn pass(&self, good: StatusCode, kind: DrillRequestKind) -> Reply {
        let Some(drills) = &self.context.drills else { return refused(&Refusal::NotAllowed) };
        let (answer, answered) = oneshot::channel();
        if drills.requests.try_send(DrillRequest { kind, answer }).is_err() {
            let sentence = "Too many requests about drills; try again in a moment.";
            return json_error(StatusCode::SERVICE_UNAVAILABLE, sentence);
        }
        let answered: Result<Arc<Drill>, Refusal> = match timeout(PATIENCE, answered).await {
            Ok(Ok(answered)) => answered,
            _ => Err(Refusal::Unpublished),
        };
        match answered {
            Ok(drill) => json(good, &shown(&drill)),
            Err(refusal) => refused(&refusal),
        }
    }
}

/// Every browser says by which name it asks.
fn names_this_machine(request: &Request<Incoming>) -> bool {
    let Some(host) = request.headers().get(header::HOST) else { return true };
    let authority = host.to_str().ok().and_then(|host| host.parse::<Authority>().ok());
    authority.is_some_and(|authority| {
        let name = authority.host().trim_matches(['[', ']']);
        let is_local = |ip: IpAddr| ip.to_canonical().is_loopback();
        name.eq_ignore_ascii_case("localhost") || name.parse().is_ok_and(is_local)
    })
}

fn refused(refusal: &Refusal) -> Reply {
    let status = match refusal {
        Refusal::NotAllowed => StatusCode::FORBIDDEN,
        Refusal::NoTask(_) | Refusal::OfAnother { .. } | Refusal::Over(_) => StatusCode::NOT_FOUND,
        Refusal::Runs(_) => StatusCode::CONFLICT,
        Refusal::TooEarly(_) => StatusCode::TOO_MANY_REQUESTS,
        Refusal::Unpublished => StatusCode::SERVICE_UNAVAILABLE,
    };
    let mut reply = json_error(status, &refusal.to_string());
    if let Refusal::TooEarly(seconds) = refusal {
        reply.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(*seconds));
    }
    reply
}
