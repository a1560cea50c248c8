//! What the web file puts before every route: the rate limit, the login, and headers.

use std::net::IpAddr;

use hyper::body::Incoming;
use hyper::header::{self, HeaderName, HeaderValue};
use hyper::{Request, StatusCode};

use super::origin::LoggedIn;
use super::reply::{Reply, text, with_header};
use super::site::Site;
use crate::paths;
use crate::web::{Access, Credentials, Door, Web};

impl Site {
    /// Answers a request that came from `peer`, if the web file lets it in.
    pub(super) async fn admit(&self, mut request: Request<Incoming>, peer: IpAddr) -> Reply {
        let Some(web) = &self.context.web else { return self.respond(request).await };
        let door = web.door();
        let reply = match refusal(web, &door, &mut request, peer).await {
            Some(refusal) => refusal,
            None => self.respond(request).await,
        };
        with_headers(reply, &door)
    }
}

/// What the request is answered if it is not let in.
async fn refusal(
    web: &Web,
    door: &Door,
    request: &mut Request<Incoming>,
    peer: IpAddr,
) -> Option<Reply> {
    if !door.has_room() {
        let sentence = "Too Many Requests: more than `rate_limit` of the web file allows.";
        return Some(text(StatusCode::TOO_MANY_REQUESTS, sentence));
    }
    let is_health = matches!(request.uri().path(), paths::HEALTHY | paths::READY);
    if door.config.users.is_empty() || is_health && web.health_without_login {
        return None;
    }
    let header = request.headers().get(header::AUTHORIZATION);
    let credentials = header.and_then(|header| Credentials::of(header.as_bytes()));
    let access = match &credentials {
        Some(credentials) => web.logins.check(&door.config.users, credentials, peer).await,
        None => Access::Denied,
    };
    match access {
        Access::Granted(user) => {
            request.extensions_mut().insert(LoggedIn(user));
            None
        }
        Access::Denied => {
            let reply =
                text(StatusCode::UNAUTHORIZED, "Unauthorized: log in with user and password.");
            let realm = "Basic realm=\"lockwatch\", charset=\"UTF-8\"";
            Some(with_header(reply, header::WWW_AUTHENTICATE, realm))
        }
        Access::Busy => {
            let sentence = "Too many logins are being checked; try again in a second.";
            let reply = text(StatusCode::TOO_MANY_REQUESTS, sentence);
            Some(with_header(reply, header::RETRY_AFTER, "1"))
        }
    }
}

/// The same response with the headers of the web file, which win.
fn with_headers(mut reply: Reply, door: &Door) -> Reply {
    for (name, value) in &door.config.headers {
        let name = HeaderName::try_from(*name);
        // Both were checked when the file was read.
        if let (Ok(name), Ok(value)) = (name, HeaderValue::from_str(value)) {
            reply.headers_mut().insert(name, value);
        }
    }
    reply
}
