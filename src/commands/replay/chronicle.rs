//! One pass of a recording through the state, and its results: verdicts, events and alerts.

use std::collections::BTreeMap;
use std::sync::Arc;

use lockwatch_judge::event::{End, Event, EventKind, Subject};
use lockwatch_judge::input::Input;
use lockwatch_judge::limit::Limit;
use lockwatch_judge::snapshot::{Snapshot, StoreView, TaskView};
use lockwatch_judge::spec::WatchSpec;
use lockwatch_judge::state::State;
use lockwatch_judge::time::AgentWall;

use super::pager::{Pager, SpanKind, Spans, When};
use crate::outputs::events::describe;
use crate::outputs::reason;

/// Maximum number of entries kept for all tasks and Redis servers together.
const ENTRIES_MAX: usize = 200_000;

/// The results of one pass.
pub(super) struct Chronicle {
    state: State,
    /// By name.
    pub(super) tasks: BTreeMap<Arc<str>, Story>,
    /// By name.
    pub(super) redises: BTreeMap<Arc<str>, Story>,
    entries_left: usize,
    newest: Option<Snapshot>,
}

/// The results for one task or Redis.
#[derive(Debug, Default)]
pub(super) struct Story {
    /// The newest configuration of a task, in one sentence.
    pub(super) about: String,
    /// Events in order.
    pub(super) entries: Vec<Entry>,
    /// Number of further events.
    pub(super) left_out: u64,
    /// Verdicts.
    pub(super) verdicts: Spans,
    /// The reason of each verdict.
    pub(super) reasons: Vec<String>,
    /// Alerts and warnings.
    pub(super) pages: Spans,
    pager: Pager,
    /// The position of the current verdict in `verdicts`.
    verdict: Option<usize>,
    /// Whether the lock was lost or is free although wanted, so that its next holder is of
    /// interest.
    troubled: bool,
}

/// An event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) wall: AgentWall,
    /// The kind, from a closed list.
    pub(super) kind: &'static str,
    pub(super) text: String,
}

impl Chronicle {
    pub(super) fn new() -> Chronicle {
        Chronicle {
            state: State::new(),
            tasks: BTreeMap::new(),
            redises: BTreeMap::new(),
            entries_left: ENTRIES_MAX,
            newest: None,
        }
    }

    /// Feeds an input to the state at its recorded instant.
    pub(super) fn step(&mut self, when: When, input: Input) {
        let tick = matches!(input, Input::Tick);
        let config = match &input {
            Input::Config(config) => Some(Arc::clone(config)),
            _ => None,
        };
        let events = self.state.step(when.at, input);
        if let Some(config) = config {
            self.configure(when, config);
        }
        for event in &events {
            self.happened(when, event);
        }
        if tick || !events.is_empty() {
            self.look(when, &events);
        }
    }

    /// Ends the verdicts and alerts of tasks, and of Redis servers, that left the configuration.
    fn configure(&mut self, when: When, config: Arc<WatchSpec>) {
        for task in &config.tasks {
            let store = config.store_label(task);
            self.tasks.entry(Arc::clone(&task.name)).or_default().about = about(task, &store);
        }
        let goes_on = |name: &Arc<str>| config.tasks.iter().any(|task| task.name == *name);
        for (name, story) in self.tasks.iter_mut().filter(|(name, _)| !goes_on(name)) {
            if let Some(verdict) = story.verdict.take() {
                story.verdicts.end(Some(verdict), when.wall);
                story.pager.end(when, &mut story.pages);
                let text = format!(
                    "{} left the configuration",
                    crate::text::identity::escape(name.as_bytes())
                );
                story.entries.push(Entry { wall: when.wall, kind: "removed", text });
            }
        }
        let is_there = |name: &Arc<str>| config.stores.iter().any(|redis| redis.name == *name);
        for (_, story) in self.redises.iter_mut().filter(|(name, _)| !is_there(name)) {
            story.pager.end(when, &mut story.pages);
        }
        self.newest = None;
    }

    fn happened(&mut self, when: When, event: &Event) {
        let instant = When { at: event.at, wall: when.wall(event.at) };
        let (name, stories) = match &event.subject {
            Subject::Task(task) => (&task.name, &mut self.tasks),
            Subject::Store(_, name) => (name, &mut self.redises),
        };
        let story = stories.entry(Arc::clone(name)).or_default();
        if let EventKind::Verdict { to, rule, .. } = &event.kind {
            story.verdicts.end(story.verdict, instant.wall);
            story.verdict = story.verdicts.begin(to.name(), SpanKind::Verdict, instant.wall);
            if story.verdict.is_some() {
                story.reasons.push(rule.sentence());
            }
            return;
        }
        if !story.is_notable(&event.kind) {
            return;
        }
        if self.entries_left == 0 {
            story.left_out += 1;
            return;
        }
        self.entries_left -= 1;
        let line = describe(event);
        let mut text = line.message;
        let reason = line.reason.map(|reason| format!(" ({reason})"));
        let who = line.who.filter(|who| !who.is_empty()).map(|who| format!(": {who}"));
        let lasted = line.seconds.map(|seconds| format!(", {seconds} s"));
        [reason, who, lasted].into_iter().flatten().for_each(|part| text.push_str(&part));
        story.entries.push(Entry { wall: instant.wall, kind: line.kind, text });
    }

    /// Evaluates what the agent's outputs would have shown now.
    fn look(&mut self, when: When, events: &[Event]) {
        let snapshot = self.state.snapshot(when.at);
        for redis in &snapshot.stores {
            self.look_at_store(when, redis);
        }
        let before = self.newest.take();
        for (position, view) in snapshot.tasks.iter().enumerate() {
            let known = before.as_ref().and_then(|before| before.tasks.get(position));
            let same = known.is_some_and(|known| Arc::ptr_eq(known, view));
            self.look_at_task(when, view, same);
        }
        for event in events {
            self.explain(event, &snapshot);
        }
        self.newest = Some(snapshot);
    }

    fn look_at_store(&mut self, when: When, store: &StoreView) {
        let story = self.redises.entry(Arc::clone(&store.spec.name)).or_default();
        story.pager.look_at_store(when, store, &mut story.pages);
    }

    fn look_at_task(&mut self, when: When, view: &TaskView, same: bool) {
        let Some(story) = self.tasks.get_mut(&view.spec.name) else { return };
        if !(same && story.pager.is_quiet()) {
            story.pager.look_at_task(when, view, &mut story.pages);
        }
    }

    /// Adds the reason of a new verdict, in the words of the agent's outputs.
    fn explain(&mut self, event: &Event, snapshot: &Snapshot) {
        let (Subject::Task(task), EventKind::Verdict { to, rule, .. }) =
            (&event.subject, &event.kind)
        else {
            return;
        };
        let view = snapshot
            .tasks
            .find(&task.name)
            .filter(|view| (view.verdict, view.rule) == (*to, *rule));
        let Some(view) = view else { return };
        let Some(story) = self.tasks.get_mut(&task.name) else { return };
        if let Some(reason) = story.verdict.and_then(|verdict| story.reasons.get_mut(verdict)) {
            *reason = reason::sentence(view);
        }
    }
}

impl Story {
    /// Whether an event is worth an entry. Verdicts are reported separately.
    fn is_notable(&mut self, kind: &EventKind) -> bool {
        use EventKind as E;
        match kind {
            E::GapBegan | E::LockLost { .. } => {
                self.troubled = true;
                true
            }
            E::HoldEnded { reason, .. } => {
                let lost = matches!(reason, End::Expired | End::Lost | End::Unknown);
                self.troubled |= lost;
                lost
            }
            // Only the new holder after trouble: routine changes of the holder would hide it.
            E::Acquired { .. } => std::mem::take(&mut self.troubled),
            E::Verdict { .. } | E::Shortened { .. } | E::LeaseLearned { .. } => false,
            _ => true,
        }
    }
}

fn about(task: &lockwatch_judge::spec::TaskSpec, redis: &str) -> String {
    use crate::text::durations::duration_text;
    use crate::text::identity::escape;
    let (redis, key) = (escape(redis.as_bytes()), escape(task.kind.key()));
    let limits = Limit::ALL.into_iter().filter_map(|limit| Some((limit.name(), limit.ms(task)?)));
    let limits: Vec<String> =
        limits.map(|(name, ms)| format!("{name} {}", duration_text(ms))).collect();
    format!("redis {redis}, key {key}; {}", limits.join(", "))
}

#[cfg(test)]
mod tests {
    use lockwatch_judge::input::{Attestation, Outcome, Sample, Standing};
    use lockwatch_judge::reading::Unknown;
    use lockwatch_judge::spec::{StoreIndex, TaskIndex};
    use lockwatch_judge::time::{Mono, ServerTime};
    use lockwatch_watch::redis::{RedisKind, libraries};

    use super::*;

    fn when(seconds: u64) -> When {
        When {
            at: Mono::at(seconds * 1000),
            wall: AgentWall(i64::try_from(seconds).unwrap() * 1000),
        }
    }

    /// A configuration of these Redis servers, with a single task on the first.
    fn config(epoch: u32, redises: &[&str]) -> Input {
        let lock = libraries::lock(b"lock", "redisson");
        Input::Config(Arc::new(WatchSpec {
            epoch,
            stores: redises
                .iter()
                .map(|name| RedisKind::Standalone.store(name, &["127.0.0.1:1"]))
                .collect(),
            tasks: vec![Arc::new(lockwatch_judge::spec::TaskSpec::new(
                "task",
                StoreIndex(0),
                lock,
            ))],
        }))
    }

    fn asked(epoch: u32, redis: u16, at: Mono, outcome: Outcome) -> Input {
        Input::Sample(Sample {
            epoch,
            store: StoreIndex(redis),
            node: Some("127.0.0.1:1".into()),
            standing: Standing::Decides,
            sent: at,
            took_ms: 1,
            outcome,
        })
    }

    fn read(at: Mono) -> Outcome {
        let attestation = Attestation {
            clock_offset_ms: -i64::try_from(at.ms()).unwrap(),
            ..Attestation::master(ServerTime::at(0), ServerTime::at(0))
        };
        Outcome::Read { attestation, readings: Vec::new() }
    }

    #[test]
    fn the_page_of_a_redis_ends_when_it_leaves_and_without_tasks_when_it_is_readable() {
        for (redises, ends) in [(["other"].as_slice(), 300), (&["other", "main"], 350)] {
            let mut chronicle = Chronicle::new();
            chronicle.step(when(0), config(1, &["main"]));
            for seconds in 1..400 {
                let at = when(seconds);
                if seconds == 300 {
                    chronicle.step(at, config(2, redises));
                }
                let epoch = if seconds < 300 { 1 } else { 2 };
                let refused = Outcome::Failed { tasks: vec![TaskIndex(0)], why: Unknown::Connect };
                chronicle.step(at, asked(epoch, 0, at.at, refused));
                if seconds >= 350 && redises.len() > 1 {
                    chronicle.step(at, asked(epoch, 1, at.at, read(at.at)));
                }
                chronicle.step(at, Input::Tick);
            }
            let pages = |redis: &str| -> Vec<_> {
                let story = &chronicle.redises[redis];
                story
                    .pages
                    .spans
                    .iter()
                    .map(|span| (span.name, span.to.map(|to| to.0 / 1000)))
                    .collect()
            };
            assert_eq!(pages("main"), [("LockwatchStoreUnreachable", Some(ends))], "{redises:?}");
            assert_eq!(pages("other"), [("LockwatchStoreUnreachable", None)], "{redises:?}");
        }
    }
}
