//! Between who listens and who reads: the tasks that are concerned, each once. It cannot grow
//! beyond them, however often and however fast a server tells of changes, and whoever listens never
//! waits for who reads.
//!
//! Where there are many locks, nearly all changes are renewals, and to wake who reads costs more
//! than to read. So who reads says here when renewals are expected. Those are put aside until they
//! are [handed on](Inbox::hand_on) together, or fill a batch; whatever else comes meanwhile does
//! not wait for them to be read.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use lockwatch_model::input::WakeUpState;
use lockwatch_model::schedule::{BATCH_TASKS, Expected};
use lockwatch_model::spec::TaskIndex;
use lockwatch_model::time::Mono;
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
    marked: Marks,
    /// What was expected, and is not handed on yet.
    aside: Marks,
    /// For each task: when its lock is renewed.
    expected: Vec<Option<Expected>>,
    /// Something was counted that whoever reads was not woken for.
    waits: bool,
    all: bool,
    state: WakeUpState,
    connects: u64,
    coalesced: u64,
    foreign: u64,
}

/// Positions in the filter, each once.
struct Marks {
    positions: Vec<u32>,
    /// A bit for each task: whether it is among them.
    bits: Vec<u64>,
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
            marked: Marks::none(filter),
            aside: Marks::none(filter),
            expected: vec![None; filter.len()],
            waits: false,
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
            contents.marked = Marks::none(filter);
            contents.aside = Marks::none(filter);
            contents.expected = vec![None; filter.len()];
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

    /// Takes in what came at `now`, through `keys`: it is handed a function to call with each key,
    /// or with none for all of them. Whoever reads is woken unless all of that was expected, or
    /// concerns nobody. What fills a batch need not wait for more.
    pub(super) fn mark<R>(
        &self,
        now: Mono,
        keys: impl FnOnce(&mut dyn FnMut(Option<&[u8]>)) -> R,
    ) -> R {
        let mut contents = self.contents();
        let (mut is_told, mut is_expected) = (false, true);
        let result = keys(&mut |key| {
            is_told = true;
            is_expected &= contents.mark(key, now);
        });
        if contents.aside.positions.len() >= BATCH_TASKS {
            contents.hand_on();
            is_expected = false;
        }
        contents.waits |= is_told && is_expected;
        drop(contents);
        if !is_expected {
            self.wake();
        }
        result
    }

    /// Whether something waits for [`Inbox::hand_on`].
    pub(super) fn waits(&self) -> bool {
        let contents = self.contents();
        contents.waits || !contents.aside.positions.is_empty()
    }

    /// Hands on what was expected.
    pub(super) fn hand_on(&self) {
        self.change(Contents::hand_on);
    }

    /// Wakes who reads.
    fn wake(&self) {
        // Where there is a signal already, it is for this as well.
        let _already = self.wake.try_send(());
    }

    /// Takes in when the locks of some tasks are renewed.
    pub(super) fn expect(&self, renewals: impl Iterator<Item = (TaskIndex, Option<Expected>)>) {
        let mut contents = self.contents();
        for (task, renewal) in renewals {
            let position = contents.filter.position(task);
            if let Some(expected) =
                position.and_then(|position| contents.expected.get_mut(position))
            {
                *expected = renewal;
            }
        }
    }

    /// Takes everything out but what was put aside.
    pub(super) fn take(&self) -> Hints {
        let mut contents = self.contents();
        let Contents { filter, marked, waits, all, state, connects, coalesced, foreign, .. } =
            &mut *contents;
        *waits = false;
        Hints {
            tasks: marked.take().filter_map(|position| filter.task(position)).collect(),
            all: std::mem::take(all),
            state: *state,
            connects: std::mem::take(connects),
            coalesced: std::mem::take(coalesced),
            foreign: std::mem::take(foreign),
        }
    }

    fn change(&self, change: impl FnOnce(&mut Contents)) {
        change(&mut self.contents());
        self.wake();
    }

    fn contents(&self) -> MutexGuard<'_, Contents> {
        self.contents.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Contents {
    fn hand_on(&mut self) {
        self.aside
            .take()
            .for_each(|position| self.coalesced += u64::from(!self.marked.add(position)));
    }

    /// Says whether that can wait.
    fn mark(&mut self, key: Option<&[u8]>, now: Mono) -> bool {
        let Some(key) = key else {
            self.all = true;
            return false;
        };
        let (mut is_foreign, mut is_expected) = (true, true);
        for position in self.filter.concerned(key) {
            is_foreign = false;
            let renewal =
                usize::try_from(position).ok().and_then(|position| *self.expected.get(position)?);
            let can_wait = renewal.is_some_and(|renewal| renewal.is_about(now))
                && self.filter.is_lock(position, key);
            let marks = if can_wait { &mut self.aside } else { &mut self.marked };
            self.coalesced += u64::from(!marks.add(position));
            is_expected &= can_wait;
        }
        self.foreign += u64::from(is_foreign);
        is_expected
    }
}

impl Marks {
    fn none(filter: &Filter) -> Marks {
        Marks { positions: Vec::new(), bits: vec![0; filter.len().div_ceil(64)] }
    }

    /// False: it is there already.
    fn add(&mut self, position: u32) -> bool {
        let Some(bits) = self.bits.get_mut(word(position)) else { return false };
        let bit = 1 << (position % u64::BITS);
        let is_new = *bits & bit == 0;
        if is_new {
            *bits |= bit;
            self.positions.push(position);
        }
        is_new
    }

    fn take(&mut self) -> std::vec::IntoIter<u32> {
        for position in &self.positions {
            if let Some(bits) = self.bits.get_mut(word(*position)) {
                *bits = 0;
            }
        }
        std::mem::take(&mut self.positions).into_iter()
    }
}

fn word(position: u32) -> usize {
    usize::try_from(position / u64::BITS).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use lockwatch_model::spec::{
        Codec, LockSpec, RedisIndex, SchemeKind, TaskSpec, WantedSource, WantedSpec,
    };

    /// A filter for so many tasks with the locks `lock:0`, …, all switched by the same key.
    fn filter(count: u32) -> Arc<Filter> {
        let task = |number: u32| {
            let lock = LockSpec::new(format!("lock:{number}").as_bytes(), SchemeKind::String);
            let mut spec = TaskSpec::new(&format!("t{number}"), RedisIndex(0), lock);
            spec.wanted = Some(WantedSpec {
                source: WantedSource::Hash(b"users".to_vec()),
                codec: Codec::Raw,
            });
            (TaskIndex(number), Arc::new(spec))
        };
        Arc::new(Filter::new(&Arc::new((0..count).map(task).collect()), 1_000))
    }

    fn mark(inbox: &Inbox, keys: &[&str]) {
        inbox.mark(Mono(0), |mark| keys.iter().for_each(|key| mark(Some(key.as_bytes()))));
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

    fn is_woken(signal: &mut Signal) -> bool {
        signal.poll(&mut Context::from_waker(std::task::Waker::noop())).is_ready()
    }

    #[test]
    fn whoever_reads_is_not_woken_for_what_was_expected() {
        let (inbox, mut signal) = Inbox::new(&filter(3));
        let renewal = Expected::new(Mono(1_000), std::num::NonZeroU64::new(10_000).unwrap());
        inbox.expect([(TaskIndex(1), Some(renewal)), (TaskIndex(7), Some(renewal))].into_iter());
        let mut told = |now: u64, keys: &[&str]| {
            inbox.mark(Mono(now), |mark| keys.iter().for_each(|key| mark(Some(key.as_bytes()))));
            let (woken, now, waits) = (is_woken(&mut signal), tasks(&inbox.take()), inbox.waits());
            inbox.hand_on();
            assert!(is_woken(&mut signal));
            let later = tasks(&inbox.take());
            assert!(!inbox.waits());
            (woken, now, waits, later)
        };
        assert_eq!(told(11_001, &["lock:1"]), (false, vec![], true, vec![1]));
        assert_eq!(told(11_001, &[]), (false, vec![], false, vec![]), "a sign of life");
        assert_eq!(
            told(11_001, &["foreign"]),
            (false, vec![], false, vec![]),
            "counted, as somebody asked"
        );
        let one_is_urgent = told(21_001, &["lock:1", "lock:2"]);
        assert_eq!(one_is_urgent, (true, vec![2], true, vec![1]), "of the other, none is expected");
        assert_eq!(told(25_001, &["lock:1"]), (true, vec![1], false, vec![]), "not now");
        assert_eq!(
            told(31_001, &["users"]),
            (true, vec![0, 1, 2], false, vec![]),
            "a switch is no renewal"
        );
        inbox.expect([(TaskIndex(1), None)].into_iter());
        assert_eq!(told(41_001, &["lock:1"]), (true, vec![1], false, vec![]), "not any more");
    }

    /// Else the server would have nothing to do for a while, and then much at once.
    #[test]
    fn what_was_expected_waits_for_no_more_than_a_batch() {
        let count = u32::try_from(BATCH_TASKS).unwrap();
        let (inbox, mut signal) = Inbox::new(&filter(2 * count));
        let renewal = Expected::new(Mono(1_000), std::num::NonZeroU64::new(10_000).unwrap());
        inbox.expect((0..2 * count).map(|task| (TaskIndex(task), Some(renewal))));
        let mut told = |task: u32| {
            inbox.mark(Mono(11_001), |mark| mark(Some(format!("lock:{task}").as_bytes())));
            is_woken(&mut signal).then(|| inbox.take().tasks.len())
        };
        let handed_on: Vec<_> =
            (0..2 * count).filter_map(|task| Some((task, told(task)?))).collect();
        assert_eq!(handed_on, [(count - 1, BATCH_TASKS), (2 * count - 1, BATCH_TASKS)]);
        assert!(!inbox.waits());
    }

    #[test]
    fn what_concerns_nobody_is_counted_without_haste() {
        let (inbox, mut signal) = Inbox::new(&filter(3));
        mark(&inbox, &["foreign"]);
        assert!(!is_woken(&mut signal) && inbox.waits());
        inbox.hand_on();
        assert!(is_woken(&mut signal));
        assert_eq!(inbox.take().foreign, 1);
        assert!(!inbox.waits());
    }

    #[test]
    fn what_was_put_aside_and_then_came_with_haste_is_there_once() {
        let (inbox, _signal) = Inbox::new(&filter(3));
        let renewal = Expected::new(Mono(1_000), std::num::NonZeroU64::new(10_000).unwrap());
        inbox.expect([(TaskIndex(1), Some(renewal))].into_iter());
        for now in [11_001, 11_002, 15_000, 15_001] {
            inbox.mark(Mono(now), |mark| mark(Some(b"lock:1")));
        }
        inbox.hand_on();
        let hints = inbox.take();
        assert_eq!((tasks(&hints), hints.coalesced), (vec![1], 3));
    }

    #[test]
    fn other_tasks_have_other_renewals() {
        let (inbox, mut signal) = Inbox::new(&filter(3));
        let renewal = Expected::new(Mono(1_000), std::num::NonZeroU64::new(10_000).unwrap());
        inbox.expect([(TaskIndex(1), Some(renewal))].into_iter());
        inbox.refilter(&filter(2));
        assert!(is_woken(&mut signal));
        inbox.mark(Mono(11_001), |mark| mark(Some(b"lock:1")));
        assert!(is_woken(&mut signal));
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
        inbox.mark(Mono(0), |mark| mark(None));
        inbox.stands(WakeUpState::On);
        std::future::poll_fn(|context| signal.poll(context)).await;
        let hints = inbox.take();
        assert_eq!(
            (tasks(&hints), hints.all, hints.state, hints.connects),
            (vec![1], true, WakeUpState::On, 1)
        );
        assert!(!is_woken(&mut signal));
    }
}
