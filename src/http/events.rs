//! The history of events as JSON.

use std::collections::BTreeSet;
use std::sync::Arc;

use hyper::body::Incoming;
use hyper::header::{self, HeaderMap};
use hyper::{Request, StatusCode};
use lockwatch_judge::snapshot::Snapshot;
use tracing::Level;

use super::api::{redis_name, words};
use super::etag::tagged;
use super::parameters::{Parameters, Refusal, one_of, parameters};
use super::reply::{JSON, Reply, json_error, pieces, with_header};
use super::site::Site;
use crate::outputs::events::{KINDS, LEVELS};
use crate::outputs::history::{About, History, Kept};
use crate::outputs::json;

/// Default number of events in a response.
const LIMIT: usize = 200;
/// Maximum number of events in a response.
const LIMIT_MAX: usize = 1_000;
/// The accepted parameters.
const PARAMETERS: [&str; 6] = ["task", "store", "kind", "level", "since", "limit"];
const EVENT_STREAM: &str = "text/event-stream";
/// What a client learns that asks for them as a stream.
const NO_STREAM: &str = "Events are no longer sent as a stream. /live streams the state of all \
    tasks; poll this address with `since` to miss no event.";

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
    /// The requested events. A client that asks for a stream would take JSON for a broken one.
    pub(super) fn events(&self, request: &Request<Incoming>) -> Reply {
        let published = self.newest();
        let asked = parameters(request.uri().query());
        let answer =
            match asked.and_then(|asked| read(asked, &self.context.history, &published.snapshot)) {
                Err(refusal) => refusal.reply(),
                Ok(_) if wants_stream(request.headers()) => json_error(StatusCode::GONE, NO_STREAM),
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
}

/// Whether the client asks for an event stream.
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
            "kind" => asked.kinds.extend(words(&name, &value, &KINDS, |kind| kind)?),
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
    let ours = *boot == **history.boot() && number <= history.newest();
    Some(if ours { Since::Number(number) } else { Since::Elsewhere })
}

fn limit(value: &str) -> Result<usize, Refusal> {
    let number = value.parse().ok().filter(|number| (1..=LIMIT_MAX).contains(number));
    number.ok_or_else(|| Refusal::new(format!("limit must be a number from 1 to {LIMIT_MAX}.")))
}
