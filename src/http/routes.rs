//! The routes of the server:
//!
//! | path | methods | what |
//! |---|---|---|
//! | `/`, `/style.css`, `/icon.svg` | GET, HEAD | a table of tasks for people |
//! | `/tasks/<name>` | GET, HEAD | one task for people |
//! | `/app.js` | GET, HEAD | the script of these pages |
//! | `/live` | GET, HEAD | what changes on these pages, as server-sent events |
//! | `/runbooks`, `/runbooks/<alert>` | GET, HEAD | what to do about each alert |
//! | `/badge/<name>.svg` | GET, HEAD | one task as a picture |
//! | `/metrics` | GET, HEAD | the metrics; 503 when the engine has stopped |
//! | `/api/v1/tasks`, `/api/v1/tasks/<name>` | GET, HEAD | tasks as JSON |
//! | `/api/v1/tasks/<name>/explain` | GET, HEAD | why a task has its verdict |
//! | `/api/v1/tasks/<name>/want` | POST | flips the own switch, where that is configured |
//! | `/api/v1/drill` | GET, HEAD, POST | the drill that runs; begins one |
//! | `/api/v1/drill/<id>` | POST | renews or ends a drill |
//! | `/api/v1/events` | GET, HEAD | the newest events |
//! | `/api/v1/openapi.json` | GET, HEAD | the description of the API |
//! | `/-/healthy` | GET, HEAD | whether the engine is running |
//! | `/-/ready` | GET, HEAD | whether every Redis store was tried |
//! | `/-/reload` | POST, PUT | loads the configuration again, if allowed |

use std::borrow::Cow;
use std::time::Duration;

use hyper::body::{Body, Incoming};
use hyper::header::{self, HeaderMap, HeaderName};
use hyper::{Method, Request, StatusCode};
use lockwatch_judge::snapshot::StoreView;
use percent_encoding::percent_decode_str;
use tokio::sync::oneshot;

use super::body::BODY_BYTES_MAX;
use super::origin::is_of_another_site;
use super::parameters::is_well_escaped;
use super::reply::{self, Reply, json_error, text, with_header};
use super::site::Site;
use crate::outputs::exposition::Variant;
use crate::outputs::metrics::Own;
use crate::outputs::negotiate::{self, Coding};
use crate::paths::{self, OfTask};

/// Maximum duration of a reload.
const RELOAD_TIMEOUT: Duration = Duration::from_secs(30);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Route {
    Landing,
    Style,
    Icon,
    Metrics,
    Tasks,
    Task(String),
    Explain(String),
    Want(String),
    Drill,
    DrillById(String),
    Events,
    OpenApi,
    TaskPage(String),
    Script,
    Live,
    Badge(String),
    Runbooks,
    Runbook(String),
    Healthy,
    Ready,
    Reload,
}

impl Site {
    pub(super) async fn respond(&self, request: Request<Incoming>) -> Reply {
        if request.body().size_hint().upper().is_none_or(|bytes| bytes > BODY_BYTES_MAX) {
            let reply = text(StatusCode::PAYLOAD_TOO_LARGE, "Nothing here reads such a body.");
            return with_header(reply, header::CONNECTION, "close");
        }
        let path = request.uri().path();
        let route = route(path).filter(|route| match route {
            Route::Want(name) => self.is_switchable(name),
            _ => true,
        });
        let Some(route) = route else {
            let sentence = "There is nothing here; the paths are /, /metrics, /api/v1/tasks, \
                /-/healthy and /-/ready.";
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
            Route::Landing => self.landing(&request).await,
            Route::Style => self.style(&request),
            Route::Icon => self.icon(&request),
            Route::Metrics => self.metrics(&request).await,
            Route::Tasks => self.tasks(&request).await,
            Route::Task(name) => self.task(&name, &request).await,
            Route::Explain(name) => self.explain(&name, &request).await,
            Route::Want(name) => self.switch(&name, request).await,
            Route::Drill if request.method() == Method::POST => self.start_drill(request).await,
            Route::Drill => self.drill(&request),
            Route::DrillById(id) => self.change_drill(id, request).await,
            Route::Events => self.events(&request),
            Route::OpenApi => self.openapi(&request),
            Route::TaskPage(name) => self.task_page(&name, &request).await,
            Route::Script => self.script(&request),
            Route::Live => self.live(&request),
            Route::Badge(name) => self.badge(&name, &request).await,
            Route::Runbooks => self.runbooks(&request),
            Route::Runbook(name) => self.runbook(&name, &request),
            Route::Healthy => self.healthy(),
            Route::Ready => self.ready(),
            Route::Reload => self.reload(request.headers()).await,
        }
    }

    async fn metrics(&self, request: &Request<Incoming>) -> Reply {
        let (published, stopped) = self.everything().await;
        if let Some(sentence) = stopped {
            return text(StatusCode::SERVICE_UNAVAILABLE, sentence);
        }
        let headers = request.headers();
        let variant = Variant {
            format: negotiate::format(&joined(headers, header::ACCEPT)),
            coding: negotiate::coding(&joined(headers, header::ACCEPT_ENCODING)),
        };
        let own = Own {
            reload: self.context.reload_status.borrow().clone(),
            log_lines_lost: (self.context.log_lines_lost)(),
        };
        let exposition = self.readers.read(&published, own, variant);
        let reply = reply::metrics(variant.format.content_type(), exposition);
        let reply = with_header(reply, header::VARY, "Accept, Accept-Encoding");
        match variant.coding {
            Coding::Gzip => with_header(reply, header::CONTENT_ENCODING, "gzip"),
            Coding::Identity => reply,
        }
    }

    fn healthy(&self) -> Reply {
        match self.stopped(&self.newest()) {
            Some(sentence) => text(StatusCode::SERVICE_UNAVAILABLE, sentence),
            None => text(StatusCode::OK, "lockwatch is healthy."),
        }
    }

    fn ready(&self) -> Reply {
        let published = self.newest();
        if let Some(sentence) = self.stopped(&published) {
            return text(StatusCode::SERVICE_UNAVAILABLE, sentence);
        }
        let untried = published.snapshot.stores.iter().filter(|redis| !was_tried(redis)).count();
        match untried {
            0 => text(StatusCode::OK, "lockwatch is ready."),
            _ => text(
                StatusCode::SERVICE_UNAVAILABLE,
                format!("Not ready: {untried} redis not tried yet."),
            ),
        }
    }

    async fn reload(&self, headers: &HeaderMap) -> Reply {
        if !self.context.enable_lifecycle {
            let sentence = "Reloading over HTTP is off: start the agent with \
                --web.enable-lifecycle, or send it SIGHUP.";
            return text(StatusCode::FORBIDDEN, sentence);
        }
        if is_of_another_site(headers) {
            return text(
                StatusCode::FORBIDDEN,
                "A reload cannot be asked for by another site's page.",
            );
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
            Err(_) => text(
                StatusCode::INTERNAL_SERVER_ERROR,
                "The reload took too long; see the agent's log.",
            ),
        }
    }
}

impl Route {
    /// The methods that it accepts.
    fn methods(&self) -> &'static str {
        match self {
            Route::Reload => "POST, PUT",
            Route::Drill => "GET, HEAD, POST",
            Route::Want(_) | Route::DrillById(_) => "POST",
            _ => "GET, HEAD",
        }
    }
}

fn route(path: &str) -> Option<Route> {
    match path {
        paths::LANDING => Some(Route::Landing),
        paths::STYLE => Some(Route::Style),
        paths::ICON => Some(Route::Icon),
        paths::SCRIPT => Some(Route::Script),
        paths::LIVE => Some(Route::Live),
        paths::RUNBOOKS => Some(Route::Runbooks),
        paths::METRICS => Some(Route::Metrics),
        paths::TASKS => Some(Route::Tasks),
        paths::DRILL => Some(Route::Drill),
        paths::EVENTS => Some(Route::Events),
        paths::OPENAPI => Some(Route::OpenApi),
        paths::HEALTHY => Some(Route::Healthy),
        paths::READY => Some(Route::Ready),
        paths::RELOAD => Some(Route::Reload),
        _ => named(path),
    }
}

/// The route of a path that names a task.
fn named(path: &str) -> Option<Route> {
    let name = |paths: OfTask| paths.name_in(path).and_then(decoded);
    let explain = || name(paths::EXPLANATION).map(Route::Explain);
    let want = || name(paths::WANT).map(Route::Want);
    let drill = || name(paths::DRILL_BY_ID).map(Route::DrillById);
    let task = || name(paths::TASK).map(Route::Task);
    let page = || name(paths::PAGE).map(Route::TaskPage);
    let badge = || name(paths::BADGE).map(Route::Badge);
    let runbook = || name(paths::RUNBOOK).map(Route::Runbook);
    let tasks = explain().or_else(want).or_else(task).or_else(page).or_else(badge);
    tasks.or_else(drill).or_else(runbook)
}

/// One path segment decoded; `None` if it is more than one, its escapes are broken, or it is not
/// UTF-8.
fn decoded(segment: &str) -> Option<String> {
    if segment.contains('/') || !is_well_escaped(segment) {
        return None;
    }
    percent_decode_str(segment).decode_utf8().ok().map(Cow::into_owned)
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

/// Whether a Redis store was tried at least once, with any result.
fn was_tried(redis: &StoreView) -> bool {
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
