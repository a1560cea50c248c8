//! Tasks as JSON: filters, entity tags, and the description of the whole API.

use hyper::body::Incoming;
use hyper::{Request, StatusCode};
use lockwatch_judge::snapshot::Snapshot;
use lockwatch_judge::verdict::{Verdict, Wanted};

use super::etag::tagged;
use super::parameters::{Parameters, Refusal, one_of, parameters};
use super::reply::{JSON, Reply, json, json_error, json_pieces, reply};
use super::site::Site;
use crate::outputs::json::{TaskFilter, TaskList, task};
use crate::published::Published;

/// The description of the API in OpenAPI 3.1.
const DESCRIPTION: &str = include_str!("../../docs/openapi.json");
/// Prefix of the parameters that filter by a label.
const LABEL: &str = "label.";

impl Site {
    /// All tasks, or those that the parameters select.
    pub(super) async fn tasks(&self, request: &Request<Incoming>) -> Reply {
        let (published, stopped) = self.everything().await;
        if let Some(sentence) = stopped {
            return json_error(StatusCode::SERVICE_UNAVAILABLE, &sentence);
        }
        let asked = parameters(request.uri().query());
        match asked.and_then(|asked| filter(asked, &published.snapshot)) {
            Ok(filter) => {
                let tag = self.tag(&published);
                tagged(request.headers(), &tag, || json_pieces(TaskList::new(published, filter)))
            }
            Err(refusal) => refusal.reply(),
        }
    }

    pub(super) async fn task(&self, name: &str, request: &Request<Incoming>) -> Reply {
        let (published, stopped) = self.look_at(name).await;
        if let Some(sentence) = stopped {
            return json_error(StatusCode::SERVICE_UNAVAILABLE, &sentence);
        }
        if let Err(refusal) = nothing_asked(request) {
            return refusal.reply();
        }
        match task(&published, name) {
            Some(task) => {
                tagged(request.headers(), &self.tag(&published), || json(StatusCode::OK, &task))
            }
            None => json_error(
                StatusCode::NOT_FOUND,
                "There is no task of this name; /api/v1/tasks lists them.",
            ),
        }
    }

    /// The description of the API.
    pub(super) fn openapi(&self, request: &Request<Incoming>) -> Reply {
        match nothing_asked(request) {
            Ok(()) => tagged(request.headers(), self.context.history.boot(), || {
                reply(StatusCode::OK, JSON, DESCRIPTION)
            }),
            Err(refusal) => refusal.reply(),
        }
    }

    /// The entity tag of a response that depends on this snapshot alone. It includes the process,
    /// because each process numbers its snapshots from the start.
    fn tag(&self, published: &Published) -> String {
        format!("{}-{}", self.context.history.boot(), published.snapshot.sequence)
    }
}

/// Refuses parameters on a path that has none.
pub(super) fn nothing_asked(request: &Request<Incoming>) -> Result<(), Refusal> {
    match parameters(request.uri().query())?.first() {
        Some((name, _)) => Err(Refusal::parameter(name, &[])),
        None => Ok(()),
    }
}

/// The filter that these parameters describe.
fn filter(asked: Parameters, snapshot: &Snapshot) -> Result<TaskFilter, Refusal> {
    let mut filter = TaskFilter::default();
    for (name, value) in asked {
        match name.as_str() {
            "verdict" => {
                filter.verdicts.extend(words(&name, &value, &Verdict::ALL, Verdict::name)?)
            }
            "wanted" => filter.wanted.extend(words(&name, &value, &Wanted::ALL, Wanted::name)?),
            // `redis`: its former name.
            "store" | "redis" => filter.stores.push(redis_name(value, snapshot)?),
            "q" => filter.texts.push(value.to_lowercase()),
            _ => add_label(&mut filter, label_name(&name, snapshot)?, value),
        }
    }
    Ok(filter)
}

/// Words of a closed list, separated by commas.
pub(super) fn words<T: Copy>(
    parameter: &str,
    value: &str,
    all: &[T],
    name: impl Fn(T) -> &'static str,
) -> Result<Vec<T>, Refusal> {
    value.split(',').map(|word| one_of(parameter, word, all, &name)).collect()
}

/// The name of a store, if there is one of this name.
pub(super) fn redis_name(name: String, snapshot: &Snapshot) -> Result<String, Refusal> {
    let names: Vec<&str> = snapshot.stores.iter().map(|store| &*store.spec.name).collect();
    match names.contains(&name.as_str()) {
        true => Ok(name),
        false => Err(Refusal::value("store", &name, &names)),
    }
}

fn label_name(parameter: &str, snapshot: &Snapshot) -> Result<String, Refusal> {
    // Every task has every configured label, possibly with an empty value.
    let labels = snapshot.tasks.first().map(|view| view.spec.labels.as_slice()).unwrap_or_default();
    if let Some(name) = parameter.strip_prefix(LABEL)
        && labels.iter().any(|(own, _)| **own == *name)
    {
        return Ok(name.to_owned());
    }
    let labels: Vec<String> = labels.iter().map(|(name, _)| format!("{LABEL}{name}")).collect();
    let fixed = ["verdict", "store", "wanted", "q"];
    let allowed: Vec<&str> = fixed.into_iter().chain(labels.iter().map(String::as_str)).collect();
    Err(Refusal::parameter(parameter, &allowed))
}

fn add_label(filter: &mut TaskFilter, name: String, value: String) {
    match filter.labels.iter_mut().find(|(own, _)| *own == name) {
        Some((_, values)) => values.push(value),
        None => filter.labels.push((name, vec![value])),
    }
}
