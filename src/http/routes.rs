//! The routes of the server:
//!
//! | path | methods | what |
//! |---|---|---|
//! | `/`, `/style.css`, `/icon.svg` | GET, HEAD | a table of tasks for people |
//! | `/tasks/<name>` | GET, HEAD | one task for people |
//! | `/app.js` | GET, HEAD | the script of these pages |
//! | `/live` | GET, HEAD | what changes on these pages, as server-sent events |
//! | `/badge/<name>.svg` | GET, HEAD | one task as a picture |
//! | `/metrics` | GET, HEAD | the metrics, or those that `name[]` names; 503 when the engine has stopped |
//! | `/api/v1/tasks`, `/api/v1/tasks/<name>` | GET, HEAD | tasks as JSON |
//! | `/api/v1/tasks/<name>/explain` | GET, HEAD | why a task has its verdict |
//! | `/api/v1/events` | GET, HEAD | the newest events, as JSON or as server-sent events |
//! | `/api/v1/openapi.json` | GET, HEAD | the description of the API |
//! | `/-/healthy` | GET, HEAD | whether the engine is running |
//! | `/-/ready` | GET, HEAD | whether every Redis store was tried |
//! | `/-/reload` | POST, PUT | loads the configuration again, if allowed |

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use hyper::body::{Body, Incoming};
use hyper::header::{self, HeaderMap, HeaderName};
use hyper::{Request, StatusCode};
use lockwatch_judge::snapshot::StoreView;
use percent_encoding::percent_decode_str;
use tokio::sync::{Mutex, Semaphore, oneshot};
use tokio_util::sync::CancellationToken;

use super::HttpContext;
use super::etag::tagged_content;
use super::live::{Feed, SCRIPT};
use super::parameters::{Refusal, is_well_escaped, parameters};
use super::reply::{Reply, json_error, metrics_page, text, with_header};
use crate::output::exposition::{Pages, Variant};
use crate::output::metrics::Selection;
use crate::output::nearest::no_such_metric;
use crate::output::negotiate::{self, Coding};
use crate::published::{Published, Unanswered};

/// Maximum size of a request's body in bytes; no route reads one.
const BODY_BYTES_MAX: u64 = 1 << 10;
/// Maximum duration of a reload.
const RELOAD_TIMEOUT: Duration = Duration::from_secs(30);

/// Everything that is served.
#[derive(Debug)]
pub(super) struct Site {
    pub(super) context: HttpContext,
    /// Cancelled on shutdown: streams must end.
    pub(super) shutdown: CancellationToken,
    pub(super) feed: Feed,
    /// Permits for further streams.
    pub(super) streams: Arc<Semaphore>,
    /// Permits for further explanations.
    pub(super) explanations: Semaphore,
    pages: Pages,
    /// Held while an exposition of selected metrics is made. Clients can request many different
    /// selections, which cannot be shared, so they are made one at a time.
    selecting: Mutex<()>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Route {
    Landing,
    Style,
    Icon,
    Metrics,
    Tasks,
    Task(String),
    Explain(String),
    Events,
    OpenApi,
    TaskPage(String),
    Script,
    Live,
    Badge(String),
    Healthy,
    Ready,
    Reload,
}

impl Site {
    pub(super) fn new(context: HttpContext, shutdown: CancellationToken) -> Site {
        let feed = Feed::new(&context, shutdown.clone());
        let limits = context.limits;
        Site {
            context,
            shutdown,
            feed,
            streams: Arc::new(Semaphore::new(limits.streams)),
            explanations: Semaphore::new(limits.explanations),
            pages: Pages::default(),
            selecting: Mutex::default(),
        }
    }

    pub(super) async fn respond(&self, request: Request<Incoming>) -> Reply {
        if request.body().size_hint().upper().is_none_or(|bytes| bytes > BODY_BYTES_MAX) {
            let reply = text(StatusCode::PAYLOAD_TOO_LARGE, "Nothing here reads a request's body.");
            return with_header(reply, header::CONNECTION, "close");
        }
        let path = request.uri().path();
        let Some(route) = route(path) else {
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
            Route::Events => self.events(&request),
            Route::OpenApi => self.openapi(&request),
            Route::TaskPage(name) => self.task_page(&name, &request).await,
            Route::Script => tagged_content(
                request.headers(),
                StatusCode::OK,
                "text/javascript; charset=utf-8",
                SCRIPT,
            ),
            Route::Live => self.live(&request),
            Route::Badge(name) => self.badge(&name, &request).await,
            Route::Healthy => self.healthy(),
            Route::Ready => self.ready(),
            Route::Reload => self.reload(request.headers()).await,
        }
    }

    /// The newest snapshot. Its Redis stores and events are at most one second old.
    pub(super) fn newest(&self) -> Arc<Published> {
        self.context.snapshots.newest()
    }

    /// A snapshot in which everything is current, and the reason if it must not be taken as
    /// current.
    pub(super) async fn everything(&self) -> (Arc<Published>, Option<String>) {
        let looked = self.context.snapshots.everything(self.patience()).await;
        self.looked(looked)
    }

    /// The same for one task.
    pub(super) async fn look_at(&self, task: &str) -> (Arc<Published>, Option<String>) {
        let looked = self.context.snapshots.task(task, self.patience()).await;
        self.looked(looked)
    }

    fn looked(
        &self,
        looked: Result<Arc<Published>, Unanswered>,
    ) -> (Arc<Published>, Option<String>) {
        let silent = || {
            "The agent's engine does not answer: see its log, or it is being stopped.".to_owned()
        };
        let unanswered = looked.is_err().then(silent);
        let published = looked.unwrap_or_else(|Unanswered| self.newest());
        let stopped = self.stopped(&published).or(unanswered);
        (published, stopped)
    }

    /// How long the engine may take to answer: until it counts as stopped.
    fn patience(&self) -> Duration {
        self.context.limits.snapshot_age.saturating_sub(self.newest().made.elapsed())
    }

    /// Why the snapshot must not be taken as current, if so.
    pub(super) fn stopped(&self, published: &Published) -> Option<String> {
        stopped(published, self.context.limits.snapshot_age)
    }

    async fn metrics(&self, request: &Request<Incoming>) -> Reply {
        let metrics = match selection(request.uri().query()) {
            Ok(metrics) => metrics,
            Err(refusal) => return text(StatusCode::BAD_REQUEST, refusal.sentence()),
        };
        let _turn = if metrics.is_all() { None } else { Some(self.selecting.lock().await) };
        let (published, stopped) = self.everything().await;
        if let Some(sentence) = stopped {
            return text(StatusCode::SERVICE_UNAVAILABLE, sentence);
        }
        let headers = request.headers();
        let variant = Variant {
            format: negotiate::format(&joined(headers, header::ACCEPT)),
            coding: negotiate::coding(&joined(headers, header::ACCEPT_ENCODING)),
            metrics,
        };
        let reload = *self.context.reload_status.borrow();
        match self.pages.page(published, reload, variant).await {
            Ok(page) => {
                let reply = metrics_page(variant.format.content_type(), page);
                let reply = with_header(reply, header::VARY, "Accept, Accept-Encoding");
                match variant.coding {
                    Coding::Gzip => with_header(reply, header::CONTENT_ENCODING, "gzip"),
                    Coding::Identity => reply,
                }
            }
            Err(error) => text(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
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
            _ => "GET, HEAD",
        }
    }
}

/// The metrics that `name[]` selects. Other parameters are ignored, so that they never make a
/// scrape fail.
fn selection(query: Option<&str>) -> Result<Selection, Refusal> {
    let parameters = parameters(query)?;
    let names =
        parameters.iter().filter(|(name, _)| name == "name[]").map(|(_, value)| value.as_str());
    Selection::of(names).map_err(|name| Refusal::new(no_such_metric(name)))
}

/// Why the snapshot must not be taken as current, if it is older than `age_max`.
pub(super) fn stopped(published: &Published, age_max: Duration) -> Option<String> {
    let age = published.made.elapsed();
    (age > age_max).then(|| {
        format!(
            "The newest snapshot is {} s old: the agent's engine has stopped, see its log.",
            age.as_secs()
        )
    })
}

fn route(path: &str) -> Option<Route> {
    match path {
        "/" => Some(Route::Landing),
        "/style.css" => Some(Route::Style),
        "/icon.svg" => Some(Route::Icon),
        "/metrics" => Some(Route::Metrics),
        "/api/v1/tasks" => Some(Route::Tasks),
        "/-/healthy" => Some(Route::Healthy),
        "/-/ready" => Some(Route::Ready),
        "/-/reload" => Some(Route::Reload),
        "/api/v1/events" => Some(Route::Events),
        "/api/v1/openapi.json" => Some(Route::OpenApi),
        "/app.js" => Some(Route::Script),
        "/live" => Some(Route::Live),
        _ => named(path),
    }
}

/// The route of a path that names a task.
fn named(path: &str) -> Option<Route> {
    let between =
        |prefix: &str, suffix: &str| decoded(path.strip_prefix(prefix)?.strip_suffix(suffix)?);
    let explain = || between("/api/v1/tasks/", "/explain").map(Route::Explain);
    let task = || between("/api/v1/tasks/", "").map(Route::Task);
    let page = || between("/tasks/", "").map(Route::TaskPage);
    let badge = || between("/badge/", ".svg").map(Route::Badge);
    explain().or_else(task).or_else(page).or_else(badge)
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

/// Whether a page of another site caused the request. Browsers send `Sec-Fetch-Site` only over
/// https and to this machine. Otherwise, as over http in a network, only `Origin` is available.
fn is_of_another_site(headers: &HeaderMap) -> bool {
    if let Some(site) = headers.get("sec-fetch-site") {
        return site != "same-origin" && site != "none";
    }
    let Some(origin) = headers.get(header::ORIGIN) else { return false };
    let origin = origin.to_str().ok().and_then(|origin| origin.split_once("://"));
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok());
    origin.map(|(_, host)| host) != host
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
