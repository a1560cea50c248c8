//! The history of events: as JSON, and as a stream that resumes where a client left off.

mod feed;

use std::collections::BTreeSet;
use std::sync::Arc;

use hyper::body::Incoming;
use hyper::header::{self, HeaderMap};
use hyper::{Method, Request, StatusCode};
use lockwatch_judge::event::EventKind;
use lockwatch_judge::snapshot::Snapshot;
use tokio::sync::mpsc;
use tracing::Level;

use super::api::{redis_name, words};
use super::etag::tagged;
use super::parameters::{Parameters, Refusal, one_of, parameters};
use super::reply::{JSON, Reply, json_error, pieces, stream, too_many_streams, with_header};
use super::site::Site;
use crate::outputs::events::LEVELS;
use crate::outputs::history::{About, History, Kept};
use crate::outputs::json;
use feed::{Feed, QUEUE};

/// Default number of events in a response.
const LIMIT: usize = 200;
/// Maximum number of events in a response.
const LIMIT_MAX: usize = 1_000;
/// The accepted parameters.
const PARAMETERS: [&str; 6] = ["task", "store", "kind", "level", "since", "limit"];
/// The header with the id of the last event that a client received. Browsers send it when they
/// reconnect.
const LAST_EVENT_ID: &str = "last-event-id";
const EVENT_STREAM: &str = "text/event-stream";

/// Which events are requested.
#[derive(Clone, Debug, Default)]
struct Asked {
    /// Their subjects; all if empty.
    subjects: BTreeSet<About>,
    /// Their kinds; all if empty.
    kinds: Vec<&'static str>,
    /// Their minimum level.
    level: Option<Level>,
    since: Option<Since>,
    limit: Option<usize>,
}

/// What a client already has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Since {
    /// Everything up to this number.
    Number(u64),
    /// An id of another process, or one that is not valid.
    Elsewhere,
}

impl Asked {
    fn fits(&self, kept: &Kept) -> bool {
        (self.kinds.is_empty() || self.kinds.contains(&kept.kind))
            && self.level.is_none_or(|level| kept.level <= level)
    }
}

impl Site {
    /// The requested events, as JSON or as a stream.
    pub(super) fn events(&self, request: &Request<Incoming>) -> Reply {
        let published = self.newest();
        let asked = parameters(request.uri().query());
        let answer =
            match asked.and_then(|asked| read(asked, &self.context.history, &published.snapshot)) {
                Err(refusal) => refusal.reply(),
                Ok(asked) if wants_stream(request.headers()) => self.event_stream(asked, request),
                Ok(asked) => match self.stopped(&published) {
                    Some(sentence) => json_error(StatusCode::SERVICE_UNAVAILABLE, &sentence),
                    None => self.event_list(&asked, request.headers()),
                },
            };
        with_header(answer, header::VARY, "Accept")
    }

    fn event_list(&self, asked: &Asked, headers: &HeaderMap) -> Reply {
        let history = &self.context.history;
        let after = asked.since.map(|since| match since {
            Since::Number(number) => number,
            Since::Elsewhere => 0,
        });
        let limit = asked.limit.unwrap_or(LIMIT);
        let excerpt = history.excerpt(&asked.subjects, after, limit, |kept| asked.fits(kept));
        let gap = match asked.since {
            None => false,
            Some(Since::Number(number)) => excerpt.dropped > number,
            Some(Since::Elsewhere) => true,
        };
        let tag = json::event_id(history.boot(), excerpt.newest);
        tagged(headers, &tag, || {
            pieces(StatusCode::OK, JSON, json::events(Arc::clone(history.boot()), excerpt, gap))
        })
    }

    fn event_stream(&self, mut asked: Asked, request: &Request<Incoming>) -> Reply {
        if asked.limit.is_some() {
            return Refusal::new(
                "A stream has no limit; leave the parameter out, or ask for JSON.",
            )
            .reply();
        }
        // A reconnecting browser requests the same address, and sends its position in this header.
        if let Some(id) = request.headers().get(LAST_EVENT_ID).filter(|id| !id.is_empty()) {
            let id = id.to_str().ok().and_then(|id| since(id, &self.context.history));
            asked.since = Some(id.unwrap_or(Since::Elsewhere));
        }
        let Ok(permit) = Arc::clone(&self.streams).try_acquire_owned() else {
            return too_many_streams();
        };
        let (frames, received) = mpsc::channel(QUEUE);
        if request.method() == Method::GET {
            let feed =
                Feed::new(self.context.history.clone(), asked, self.context.snapshots.clone());
            tokio::spawn(feed.run(frames, self.shutdown.clone(), self.context.limits));
        }
        stream(received, permit)
    }
}

/// Whether the client accepts an event stream.
fn wants_stream(headers: &HeaderMap) -> bool {
    let lists = headers.get_all(header::ACCEPT).iter().filter_map(|list| list.to_str().ok());
    let mut ranges =
        lists.flat_map(|list| list.split(',')).filter_map(|range| range.split(';').next());
    ranges.any(|range| range.trim().eq_ignore_ascii_case(EVENT_STREAM))
}

fn read(parameters: Parameters, history: &History, snapshot: &Snapshot) -> Result<Asked, Refusal> {
    let mut asked = Asked::default();
    for (name, value) in parameters {
        match name.as_str() {
            "task" => {
                asked.subjects.insert(task_name(&value, history, snapshot)?);
            }
            "store" | "redis" => {
                asked.subjects.insert(About::Redis(redis_name(value, snapshot)?.into()));
            }
            "kind" => asked.kinds.extend(words(&name, &value, &EventKind::NAMES, |kind| kind)?),
            "level" => {
                let (_, level) = one_of(&name, &value, &LEVELS, |(level, _)| level)?;
                asked.level = asked.level.max(Some(level));
            }
            "since" => {
                let since = since(&value, history);
                asked.since =
                    Some(since.ok_or_else(|| Refusal::new("since must be the id of an event."))?);
            }
            "limit" => asked.limit = Some(limit(&value)?),
            _ => return Err(Refusal::parameter(&name, &PARAMETERS)),
        }
    }
    Ok(asked)
}

/// A task that exists, or that still has events in the history.
fn task_name(name: &str, history: &History, snapshot: &Snapshot) -> Result<About, Refusal> {
    let about = About::Task(name.into());
    match snapshot.tasks.find(name).is_some() || history.knows(&about) {
        true => Ok(about),
        false => Err(Refusal::new(
            "There is no task of this name, and no event about one; /api/v1/tasks lists them.",
        )),
    }
}

/// Parses an id; `None` if it is not one.
fn since(id: &str, history: &History) -> Option<Since> {
    let (boot, number) = id.rsplit_once('-')?;
    if !number.bytes().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    let number = number.parse().ok()?;
    if boot.is_empty() || !boot.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return None;
    }
    let ours = *boot == **history.boot() && number <= *history.newest().borrow();
    Some(if ours { Since::Number(number) } else { Since::Elsewhere })
}

fn limit(value: &str) -> Result<usize, Refusal> {
    let number = value.parse().ok().filter(|number| (1..=LIMIT_MAX).contains(number));
    number.ok_or_else(|| Refusal::new(format!("limit must be a number from 1 to {LIMIT_MAX}.")))
}
