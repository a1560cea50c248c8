//! What is at which path:
//!
//! | path | methods | what |
//! |---|---|---|
//! | `/`, `/style.css` | GET, HEAD | a table of tasks for people |
//! | `/metrics` | GET, HEAD | the metrics; 503 when the engine has stopped |
//! | `/api/v1/tasks`, `/api/v1/tasks/<name>` | GET, HEAD | tasks as JSON |
//! | `/-/healthy` | GET, HEAD | whether the engine goes on |
//! | `/-/ready` | GET, HEAD | whether every redis was tried |
//! | `/-/reload` | POST, PUT | loads the configuration again, if allowed |

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use hyper::body::{Body, Incoming};
use hyper::header::{self, HeaderMap, HeaderName};
use hyper::{Request, StatusCode};
use lockwatch_model::snapshot::RedisView;
use tokio::sync::oneshot;

use super::HttpContext;
use super::landing;
use super::reply::{Reply, json, json_error, json_pieces, reply, text, with_header};
use crate::output::exposition::{Pages, Variant};
use crate::output::json::{self as task_json, TaskList};
use crate::output::negotiate::{self, Coding};
use crate::published::Published;

/// Most bytes of a request's body; nothing here reads one.
const BODY_BYTES_MAX: u64 = 1 << 10;
/// How long a reload may take.
const RELOAD_TIMEOUT: Duration = Duration::from_secs(30);

/// Everything that is served.
#[derive(Debug)]
pub(super) struct Site {
    context: HttpContext,
    pages: Pages,
}

/// A path that is served.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Route {
    Landing,
    Style,
    Metrics,
    Tasks,
    Task(String),
    Healthy,
    Ready,
    Reload,
}

impl Site {
    pub(super) fn new(context: HttpContext) -> Site {
        Site { context, pages: Pages::default() }
    }

    /// Answers one request.
    pub(super) async fn respond(&self, request: Request<Incoming>) -> Reply {
        if request.body().size_hint().upper().is_none_or(|bytes| bytes > BODY_BYTES_MAX) {
            let reply = text(StatusCode::PAYLOAD_TOO_LARGE, "Nothing here reads a request's body.");
            return with_header(reply, header::CONNECTION, "close");
        }
        let path = request.uri().path();
        let Some(route) = route(path) else {
            let sentence = "There is nothing here; the paths are /, /metrics, /api/v1/tasks, /-/healthy and /-/ready.";
            return if path.starts_with("/api/") {
                json_error(StatusCode::NOT_FOUND, sentence)
            } else {
                text(StatusCode::NOT_FOUND, sentence)
            };
        };
        let allowed = route.methods();
        if !allowed.split(", ").any(|method| method == request.method().as_str()) {
            let reply = text(StatusCode::METHOD_NOT_ALLOWED, format!("This path takes {allowed}."));
            return with_header(reply, header::ALLOW, allowed);
        }
        match route {
            Route::Landing => self.landing(),
            Route::Style => with_header(
                reply(StatusCode::OK, "text/css; charset=utf-8", landing::STYLE),
                header::CACHE_CONTROL,
                "public, max-age=300",
            ),
            Route::Metrics => self.metrics(request.headers()).await,
            Route::Tasks => self.tasks(),
            Route::Task(name) => self.task(&name),
            Route::Healthy => self.healthy(),
            Route::Ready => self.ready(),
            Route::Reload => self.reload(request.headers()).await,
        }
    }

    fn published(&self) -> Arc<Published> {
        Arc::clone(&self.context.published.borrow())
    }

    /// Why what is published must not be taken for the present, if so.
    fn stopped(&self, published: &Published) -> Option<String> {
        let age = published.made.elapsed();
        (age > self.context.limits.snapshot_age).then(|| {
            format!("The newest snapshot is {} s old: the agent's engine has stopped, see its log.", age.as_secs())
        })
    }

    fn landing(&self) -> Reply {
        let published = self.published();
        let stopped = self.stopped(&published);
        let status = if stopped.is_some() { StatusCode::SERVICE_UNAVAILABLE } else { StatusCode::OK };
        reply(status, "text/html; charset=utf-8", landing::page(&published, stopped.as_deref()))
    }

    async fn metrics(&self, headers: &HeaderMap) -> Reply {
        let published = self.published();
        if let Some(sentence) = self.stopped(&published) {
            return text(StatusCode::SERVICE_UNAVAILABLE, sentence);
        }
        let variant = Variant {
            format: negotiate::format(&joined(headers, header::ACCEPT)),
            coding: negotiate::coding(&joined(headers, header::ACCEPT_ENCODING)),
        };
        let reload = *self.context.reload_status.borrow();
        match self.pages.page(published, reload, variant).await {
            Ok(page) => {
                let reply = reply(StatusCode::OK, variant.format.content_type(), page);
                let reply = with_header(reply, header::VARY, "Accept, Accept-Encoding");
                match variant.coding {
                    Coding::Gzip => with_header(reply, header::CONTENT_ENCODING, "gzip"),
                    Coding::Identity => reply,
                }
            }
            Err(error) => text(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
        }
    }

    fn tasks(&self) -> Reply {
        let published = self.published();
        if let Some(sentence) = self.stopped(&published) {
            return json_error(StatusCode::SERVICE_UNAVAILABLE, &sentence);
        }
        json_pieces(TaskList::new(published))
    }

    fn task(&self, name: &str) -> Reply {
        let published = self.published();
        if let Some(sentence) = self.stopped(&published) {
            return json_error(StatusCode::SERVICE_UNAVAILABLE, &sentence);
        }
        match task_json::task(&published, name) {
            Some(task) => json(StatusCode::OK, &task),
            None => json_error(StatusCode::NOT_FOUND, "There is no task of this name; /api/v1/tasks lists them."),
        }
    }

    fn healthy(&self) -> Reply {
        match self.stopped(&self.published()) {
            Some(sentence) => text(StatusCode::SERVICE_UNAVAILABLE, sentence),
            None => text(StatusCode::OK, "lockwatch is healthy."),
        }
    }

    fn ready(&self) -> Reply {
        let published = self.published();
        if let Some(sentence) = self.stopped(&published) {
            return text(StatusCode::SERVICE_UNAVAILABLE, sentence);
        }
        let untried = published.snapshot.redises.iter().filter(|redis| !was_tried(redis)).count();
        match untried {
            0 => text(StatusCode::OK, "lockwatch is ready."),
            _ => text(StatusCode::SERVICE_UNAVAILABLE, format!("Not ready: {untried} redis not tried yet.")),
        }
    }

    async fn reload(&self, headers: &HeaderMap) -> Reply {
        if !self.context.enable_lifecycle {
            let sentence =
                "Reloading over HTTP is off: start the agent with --web.enable-lifecycle, or send it SIGHUP.";
            return text(StatusCode::FORBIDDEN, sentence);
        }
        // A page of somebody else's must not make a visitor's browser do it.
        if headers.get("sec-fetch-site").is_some_and(|site| site != "same-origin" && site != "none") {
            return text(StatusCode::FORBIDDEN, "A reload cannot be asked for by another site's page.");
        }
        let (answer, answered) = oneshot::channel();
        if self.context.reload.try_send(answer).is_err() {
            return text(
                StatusCode::SERVICE_UNAVAILABLE,
                "Another reload is under way, or the agent is shutting down.",
            );
        }
        match tokio::time::timeout(RELOAD_TIMEOUT, answered).await {
            Ok(Ok(Ok(()))) => text(StatusCode::OK, "The configuration was loaded."),
            Ok(Ok(Err(why))) => text(StatusCode::INTERNAL_SERVER_ERROR, why),
            Ok(Err(_)) => text(StatusCode::SERVICE_UNAVAILABLE, "The agent is shutting down."),
            Err(_) => text(StatusCode::INTERNAL_SERVER_ERROR, "The reload took too long; see the agent's log."),
        }
    }
}

impl Route {
    /// The methods that it takes.
    fn methods(&self) -> &'static str {
        match self {
            Route::Reload => "POST, PUT",
            _ => "GET, HEAD",
        }
    }
}

/// The route of a path.
fn route(path: &str) -> Option<Route> {
    match path {
        "/" => Some(Route::Landing),
        "/style.css" => Some(Route::Style),
        "/metrics" => Some(Route::Metrics),
        "/api/v1/tasks" => Some(Route::Tasks),
        "/-/healthy" => Some(Route::Healthy),
        "/-/ready" => Some(Route::Ready),
        "/-/reload" => Some(Route::Reload),
        _ => path.strip_prefix("/api/v1/tasks/").and_then(percent_decoded).map(Route::Task),
    }
}

/// One path segment decoded; `None` if it is more than one, or its escapes are broken, or it is no UTF-8.
fn percent_decoded(segment: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(segment.len());
    let mut rest = segment.bytes();
    while let Some(byte) = rest.next() {
        match byte {
            b'%' => bytes.push(hex(rest.next()?)? << 4 | hex(rest.next()?)?),
            b'/' => return None,
            other => bytes.push(other),
        }
    }
    String::from_utf8(bytes).ok()
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok())
}

/// All values of a header as one list.
fn joined(headers: &HeaderMap, name: HeaderName) -> Cow<'_, str> {
    let mut values = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
    match (values.next(), values.next()) {
        (None, _) => Cow::Borrowed(""),
        (Some(only), None) => Cow::Borrowed(only),
        (Some(first), Some(second)) => {
            Cow::Owned([first, second].into_iter().chain(values).collect::<Vec<_>>().join(","))
        }
    }
}

/// Whether a redis was asked once, whatever came of it.
fn was_tried(redis: &RedisView) -> bool {
    redis.readable.is_some()
        || redis.nodes.iter().any(|node| node.up.is_some())
        || redis.totals.errors.iter().any(|count| *count > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths() {
        let task = |name: &str| Some(Route::Task(name.to_owned()));
        let cases = [
            ("/", Some(Route::Landing)),
            ("/metrics", Some(Route::Metrics)),
            ("/metrics/", None),
            ("//metrics", None),
            ("/METRICS", None),
            ("/%6detrics", None),
            ("/-/reload", Some(Route::Reload)),
            ("/api/v1/tasks", Some(Route::Tasks)),
            ("/api/v1/tasks/outbound", task("outbound")),
            ("/api/v1/tasks/out%20bound%2F1", task("out bound/1")),
            ("/api/v1/tasks/%E5%87%BA%e8%8d%b7", task("出荷")),
            ("/api/v1/tasks/", task("")),
            ("/api/v1/tasks/a+b", task("a+b")),
            ("/api/v1/tasks/a/b", None),
            ("/api/v1/tasks/%", None),
            ("/api/v1/tasks/%2", None),
            ("/api/v1/tasks/%+1", None),
            ("/api/v1/tasks/%ff", None),
            ("/api/v1/tasks/..", task("..")),
        ];
        for (path, expected) in cases {
            assert_eq!(route(path), expected, "{path}");
        }
    }
}
