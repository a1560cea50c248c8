//! Between who listens and who reads: the tasks that are concerned, each once. It cannot grow beyond them, however often and
//! however fast a server tells of changes, and whoever listens never waits for who reads.

use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use lockwatch_model::input::WakeUpState;
use lockwatch_model::spec::TaskIndex;
use tokio::sync::mpsc;

use super::Filter;

/// What has come since it was taken last.
#[derive(Debug)]
pub(in crate::sampler) struct Hints {
    /// The tasks that are concerned.
    pub(in crate::sampler) tasks: Vec<TaskIndex>,
    /// Any task may be.
    pub(in crate::sampler) all: bool,
    /// How it stands.
    pub(super) state: WakeUpState,
    /// How often it was begun anew to listen.
    pub(super) connects: u64,
    /// Changes of tasks that were concerned already.
    pub(super) coalesced: u64,
    /// Changes that concern no task.
    pub(super) foreign: u64,
}

/// What has come and was not taken yet.
pub(super) struct Inbox {
    contents: Mutex<Contents>,
    wake: mpsc::Sender<()>,
}

struct Contents {
    filter: Arc<Filter>,
    /// Positions in the filter.
    marked: Vec<u32>,
    /// A bit for each task: whether it is marked.
    marks: Vec<u64>,
    all: bool,
    state: WakeUpState,
    connects: u64,
    coalesced: u64,
    foreign: u64,
}

/// Says that there is something to be taken.
pub(super) struct Signal(mpsc::Receiver<()>);

impl Signal {
    /// Waits for it.
    pub(super) fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        match self.0.poll_recv(context) {
            Poll::Ready(Some(())) => Poll::Ready(()),
            Poll::Ready(None) | Poll::Pending => Poll::Pending,
        }
    }
}

impl Inbox {
    pub(super) fn new(filter: &Arc<Filter>) -> (Inbox, Signal) {
        let (wake, signal) = mpsc::channel(1);
        let contents = Contents {
            filter: Arc::clone(filter),
            marked: Vec::new(),
            marks: marks(filter),
            all: false,
            state: WakeUpState::Connecting,
            connects: 0,
            coalesced: 0,
            foreign: 0,
        };
        (Inbox { contents: Mutex::new(contents), wake }, Signal(signal))
    }

    /// Keys are matched by `filter` from now on; what was marked by the one before is any task's.
    pub(super) fn refilter(&self, filter: &Arc<Filter>) {
        self.change(|contents| {
            contents.filter = Arc::clone(filter);
            contents.marked.clear();
            contents.marks = marks(filter);
            contents.all = true;
        });
    }

    /// How it stands now. When it has just begun, anything may have changed before.
    pub(super) fn stands(&self, state: WakeUpState) {
        self.change(|contents| {
            contents.state = state;
            if state == WakeUpState::On {
                contents.connects += 1;
                contents.all = true;
            }
        });
    }

    /// Takes in what came at once, through `keys`: it is handed a function to call with each key, or with none for all of
    /// them.
    pub(super) fn mark<R>(&self, keys: impl FnOnce(&mut dyn FnMut(Option<&[u8]>)) -> R) -> R {
        self.change(|contents| keys(&mut |key| contents.mark(key)))
    }

    /// Takes everything out.
    pub(super) fn take(&self) -> Hints {
        let mut contents = self.contents.lock().unwrap_or_else(PoisonError::into_inner);
        let Contents { filter, marked, marks, all, state, connects, coalesced, foreign } = &mut *contents;
        for position in marked.iter() {
            if let Some(bits) = marks.get_mut(word(*position)) {
                *bits = 0;
            }
        }
        Hints {
            tasks: std::mem::take(marked).into_iter().filter_map(|position| filter.task(position)).collect(),
            all: std::mem::take(all),
            state: *state,
            connects: std::mem::take(connects),
            coalesced: std::mem::take(coalesced),
            foreign: std::mem::take(foreign),
        }
    }

    fn change<R>(&self, change: impl FnOnce(&mut Contents) -> R) -> R {
        let result = change(&mut self.contents.lock().unwrap_or_else(PoisonError::into_inner));
        // Where there is a signal already, it is for this as well.
        let _already = self.wake.try_send(());
        result
    }
}

impl Contents {
    fn mark(&mut self, key: Option<&[u8]>) {
        let Some(key) = key else {
            self.all = true;
            return;
        };
        let mut is_foreign = true;
        for position in self.filter.concerned(key) {
            is_foreign = false;
            let Some(bits) = self.marks.get_mut(word(position)) else { continue };
            let bit = 1 << (position % u64::BITS);
            if *bits & bit == 0 {
                *bits |= bit;
                self.marked.push(position);
            } else {
                self.coalesced += 1;
            }
        }
        self.foreign += u64::from(is_foreign);
    }
}

fn marks(filter: &Filter) -> Vec<u64> {
    vec![0; filter.len().div_ceil(64)]
}

fn word(position: u32) -> usize {
    usize::try_from(position / u64::BITS).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use lockwatch_model::spec::{Codec, LockSpec, RedisIndex, SchemeKind, TaskSpec, WantedSource, WantedSpec};

    /// A filter for so many tasks with the locks `lock:0`, …, all switched by the same key.
    fn filter(count: u32) -> Arc<Filter> {
        let task = |number: u32| {
            let lock = LockSpec::new(format!("lock:{number}").as_bytes(), SchemeKind::String);
            let mut spec = TaskSpec::new(&format!("t{number}"), RedisIndex(0), lock);
            spec.wanted = Some(WantedSpec { source: WantedSource::Hash(b"users".to_vec()), codec: Codec::Raw });
            (TaskIndex(number), Arc::new(spec))
        };
        Arc::new(Filter::new(&Arc::new((0..count).map(task).collect()), 1_000))
    }

    fn mark(inbox: &Inbox, keys: &[&str]) {
        inbox.mark(|mark| keys.iter().for_each(|key| mark(Some(key.as_bytes()))));
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
        let hints = inbox.take();
        assert_eq!((tasks(&hints), hints.all), (vec![7, 199], false));
        assert_eq!((hints.coalesced, hints.foreign), (1_998, 1_000));
        let hints = inbox.take();
        assert_eq!((tasks(&hints), hints.coalesced, hints.foreign), (vec![], 0, 0));
        mark(&inbox, &["lock:199"]);
        assert_eq!(tasks(&inbox.take()), [199]);
    }

    #[test]
    fn what_waits_is_bounded_by_the_tasks() {
        let (inbox, _signal) = Inbox::new(&filter(100));
        for number in 0..10_000 {
            mark(&inbox, &["users", &format!("lock:{}", number % 100)]);
        }
        assert_eq!(inbox.take().tasks.len(), 100);
    }

    #[test]
    fn other_tasks_begin_with_all_of_them() {
        let (inbox, _signal) = Inbox::new(&filter(3));
        mark(&inbox, &["lock:2"]);
        inbox.refilter(&filter(1));
        let hints = inbox.take();
        assert_eq!((tasks(&hints), hints.all), (vec![], true));
        mark(&inbox, &["lock:0", "lock:2"]);
        assert_eq!(tasks(&inbox.take()), [0]);
    }

    #[tokio::test]
    async fn whoever_waits_is_told_once_for_many() {
        let (inbox, mut signal) = Inbox::new(&filter(3));
        mark(&inbox, &["lock:1"]);
        inbox.mark(|mark| mark(None));
        inbox.stands(WakeUpState::On);
        std::future::poll_fn(|context| signal.poll(context)).await;
        let hints = inbox.take();
        assert_eq!((tasks(&hints), hints.all, hints.state, hints.connects), (vec![1], true, WakeUpState::On, 1));
        let mut context = Context::from_waker(std::task::Waker::noop());
        assert!(signal.poll(&mut context).is_pending());
    }
}
