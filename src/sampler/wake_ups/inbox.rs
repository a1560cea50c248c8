//! The queue between listener and sampler: the set of changed keys. It cannot grow beyond the
//! watched keys, however fast a server announces changes, and the listener never waits for the
//! sampler.

use std::collections::BTreeSet;
use std::mem::take;
use std::sync::{Arc, Mutex, PoisonError};

use lockwatch_judge::input::{self, WakeUpState};
use lockwatch_judge::spec::TaskIndex;
use tokio::sync::mpsc;

use super::Filter;

/// What was received since the last call of [`Inbox::take`].
#[derive(Debug, Default)]
pub(in crate::sampler) struct Hints {
    /// The tasks concerned, each once for each of its changed keys.
    pub(in crate::sampler) tasks: Vec<TaskIndex>,
    /// Whether any task may be concerned.
    pub(in crate::sampler) all: bool,
    /// The state, and what was received besides changes of tasks' keys.
    pub(super) news: input::WakeUps,
}

/// What was received and not taken yet.
pub(super) struct Inbox {
    contents: Mutex<Contents>,
    wake: mpsc::Sender<()>,
}

pub(super) struct Contents {
    filter: Arc<Filter>,
    /// Positions of the changed keys in the filter.
    changed: BTreeSet<usize>,
    all: bool,
    news: input::WakeUps,
}

impl Inbox {
    /// Makes an inbox; the receiver signals that there is something to take.
    pub(super) fn new(filter: &Arc<Filter>) -> (Inbox, mpsc::Receiver<()>) {
        let (wake, signal) = mpsc::channel(1);
        let contents = Contents {
            filter: Arc::clone(filter),
            changed: BTreeSet::new(),
            all: false,
            news: input::WakeUps::default(),
        };
        (Inbox { contents: Mutex::new(contents), wake }, signal)
    }

    /// Updates the contents, and wakes the sampler.
    pub(super) fn change<R>(&self, change: impl FnOnce(&mut Contents) -> R) -> R {
        let result = change(&mut self.contents.lock().unwrap_or_else(PoisonError::into_inner));
        // If a signal is pending already, it covers this change too.
        let _already = self.wake.try_send(());
        result
    }

    /// Sets the state.
    pub(super) fn stands(&self, state: WakeUpState) {
        self.change(|contents| contents.stands(state));
    }

    /// Takes everything out.
    pub(super) fn take(&self) -> Hints {
        let mut contents = self.contents.lock().unwrap_or_else(PoisonError::into_inner);
        let changed = take(&mut contents.changed);
        let tasks = changed.into_iter().flat_map(|position| contents.filter.tasks_at(position));
        let tasks = tasks.collect();
        let state = contents.news.state;
        let news = std::mem::replace(
            &mut contents.news,
            input::WakeUps { state, ..input::WakeUps::default() },
        );
        Hints { tasks, all: take(&mut contents.all), news }
    }
}

impl Contents {
    /// Replaces the filter. Positions in the old one are lost, so any task counts as changed.
    pub(super) fn refilter(&mut self, filter: &Arc<Filter>) {
        self.filter = Arc::clone(filter);
        self.changed.clear();
        self.all = true;
    }

    /// When it has just begun, anything may have changed before.
    fn stands(&mut self, state: WakeUpState) {
        self.news.state = state;
        if state == WakeUpState::On {
            self.news.connects += 1;
            self.all = true;
        }
    }

    /// A key changed.
    pub(super) fn changed(&mut self, key: &[u8]) {
        match self.filter.position(key) {
            Some(position) => self.news.coalesced += u64::from(!self.changed.insert(position)),
            None => self.news.foreign += 1,
        }
    }

    /// Any key may have changed.
    pub(super) fn all_changed(&mut self) {
        self.all = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lockwatch_judge::spec::{
        Codec, LockSpec, SchemeKind, StoreIndex, TaskSpec, WantedSource, WantedSpec,
    };

    /// A filter for so many tasks with the locks `lock:0`, …, all switched by the same key.
    fn filter(count: u32) -> Arc<Filter> {
        let task = |number: u32| {
            let lock = LockSpec::new(format!("lock:{number}").as_bytes(), SchemeKind::String);
            let mut spec = TaskSpec::new(&format!("t{number}"), StoreIndex(0), lock);
            spec.wanted = Some(WantedSpec {
                source: WantedSource::Hash(b"users".to_vec()),
                codec: Codec::Raw,
            });
            (TaskIndex(number), Arc::new(spec))
        };
        Arc::new(Filter::new(&Arc::new((0..count).map(task).collect()), 1_000))
    }

    fn mark(inbox: &Inbox, keys: &[&str]) {
        inbox.change(|contents| keys.iter().for_each(|key| contents.changed(key.as_bytes())));
    }

    fn tasks(hints: &Hints) -> Vec<u32> {
        hints.tasks.iter().map(|task| task.0).collect()
    }

    #[test]
    fn each_task_is_there_once_until_it_is_taken() {
        let (inbox, _signal) = Inbox::new(&filter(200));
        for _ in 0..1_000 {
            mark(&inbox, &["lock:7", "lock:199", "foreign"]);
        }
        let mut hints = inbox.take();
        hints.tasks.sort_unstable();
        assert_eq!((tasks(&hints), hints.all), (vec![7, 199], false));
        assert_eq!((hints.news.coalesced, hints.news.foreign), (1_998, 1_000));
        let hints = inbox.take();
        assert_eq!((tasks(&hints), hints.news), (vec![], input::WakeUps::default()));
        mark(&inbox, &["lock:199"]);
        assert_eq!(tasks(&inbox.take()), [199]);
    }

    #[test]
    fn what_waits_is_bounded_by_the_keys() {
        let (inbox, _signal) = Inbox::new(&filter(100));
        for number in 0..10_000 {
            mark(&inbox, &["users", &format!("lock:{}", number % 100)]);
        }
        assert_eq!(inbox.take().tasks.len(), 200, "each by its lock and by its switches");
    }

    #[test]
    fn other_tasks_begin_with_all_of_them() {
        let (inbox, _signal) = Inbox::new(&filter(3));
        mark(&inbox, &["lock:2"]);
        inbox.change(|contents| contents.refilter(&filter(1)));
        let hints = inbox.take();
        assert_eq!((tasks(&hints), hints.all), (vec![], true));
        mark(&inbox, &["lock:0", "lock:2"]);
        assert_eq!(tasks(&inbox.take()), [0]);
    }

    #[tokio::test]
    async fn whoever_waits_is_told_once_for_many() {
        let (inbox, mut signal) = Inbox::new(&filter(3));
        mark(&inbox, &["lock:1"]);
        inbox.change(Contents::all_changed);
        inbox.stands(WakeUpState::On);
        signal.recv().await.unwrap();
        let hints = inbox.take();
        assert_eq!(
            (tasks(&hints), hints.all, hints.news.state, hints.news.connects),
            (vec![1], true, WakeUpState::On, 1)
        );
        assert!(signal.try_recv().is_err());
    }
}
