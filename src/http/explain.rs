//! Why a task has its verdict. The request arms a trace for the task and waits until the watcher
//! reads it in its normal cycle.

use std::sync::Arc;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::header;
use hyper::{Request, StatusCode};
use lockwatch_judge::snapshot::{StoreView, TaskView};
use tokio::time::Instant;

use super::api::nothing_asked;
use super::reply::{Reply, json, json_error, with_header};
use super::site::Site;
use crate::outputs::explanation::{Seen, Trace, Watched, explanation};
use crate::published::{Published, Unanswered};
use crate::text::nearest::no_such_task;

/// Maximum time for the state to apply a reading.
const TAKEN_IN: Duration = Duration::from_millis(1_500);
/// The same for a failed reading, whose application cannot be observed.
const TAKEN_IN_BAD: Duration = Duration::from_millis(250);

impl Site {
    pub(super) async fn explain(&self, name: &str, request: &Request<Incoming>) -> Reply {
        let published = self.newest();
        if let Some(sentence) = self.stopped(&published) {
            return json_error(StatusCode::SERVICE_UNAVAILABLE, &sentence);
        }
        if let Err(refusal) = nothing_asked(request) {
            return refusal.reply();
        }
        let Some(view) = find(&published, name) else { return unknown(&published, name) };
        let Ok(_permit) = self.explanations.try_acquire() else {
            let sentence = "Too many wait for an explanation; try again in a few seconds.";
            let reply = json_error(StatusCode::SERVICE_UNAVAILABLE, sentence);
            return with_header(reply, header::RETRY_AFTER, "5");
        };
        let ticket = self.context.traces.arm(name);
        let trace = tokio::select! {
            trace = Trace::gather(ticket, redis(&published, view)) => trace,
            () = self.shutdown.cancelled() => Trace::default(),
        };
        let (published, stopped) = self.taken_in(name, &trace).await;
        if let Some(sentence) = stopped {
            return json_error(StatusCode::SERVICE_UNAVAILABLE, &sentence);
        }
        match find(&published, name) {
            Some(view) => {
                let seen =
                    Seen { published: &published, view, trace: &trace, watched: Watched::Agent };
                json(StatusCode::OK, &explanation(seen))
            }
            None => unknown(&published, name),
        }
    }

    /// The first snapshot that includes the traced reading, or else the newest one, with the reason
    /// if it must not be taken as current.
    async fn taken_in(&self, name: &str, trace: &Trace) -> (Arc<Published>, Option<String>) {
        let began = Instant::now();
        let knows = |published: &Published| {
            let Some(sent) = trace.newest_sent() else { return true };
            let Some(view) = find(published, name) else { return true };
            // A failed reading leaves no instant in the view.
            view.last_reading >= Some(sent)
                || view.unknown.is_some() && began.elapsed() >= TAKEN_IN_BAD
        };
        match self.context.snapshots.task_that(name, TAKEN_IN, knows).await {
            Ok(published) => (published, None),
            Err(Unanswered) => self.look_at(name).await,
        }
    }
}

fn find<'a>(published: &'a Published, name: &str) -> Option<&'a TaskView> {
    published.snapshot.tasks.find(name).map(|view| &**view)
}

fn redis<'a>(published: &'a Published, view: &TaskView) -> Option<&'a StoreView> {
    published.store(view.spec.store)
}

fn unknown(published: &Published, name: &str) -> Reply {
    let names = published.snapshot.tasks.iter().map(|view| &*view.spec.name);
    json_error(StatusCode::NOT_FOUND, &no_such_task(name, names))
}
