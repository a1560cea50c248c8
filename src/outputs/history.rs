//! The newest events, for the API and the pages, with limits in total and per subject.
//!
//! The limits are 200 events for each task or Redis store, and 20,000 events or about 16 MiB for
//! all together. When a total limit is exceeded, the oldest event of the subject with the most
//! bytes is dropped. So one unstable task never displaces the events of others. An event with one
//! holder takes about 0.5 kB: a process grew by 9 MB when the history filled with 20,000 of them.

mod weight;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lockwatch_judge::event::{Event, Subject};
use lockwatch_judge::time::{AgentWall, Mono};
use tracing::Level;

use super::events::level;

/// Maximum number of events of one task or Redis store.
const OF_ONE_MAX: usize = 200;
/// Maximum number of events in total.
const KEPT_MAX: usize = 20_000;
/// Maximum size of all events in bytes, estimated.
const BYTES_MAX: usize = 16 << 20;
/// Bytes per event for the indexes and the allocator.
const OVERHEAD: usize = 160;

/// The history; clones share it. The engine writes, HTTP handlers read.
#[derive(Clone, Debug)]
pub struct History {
    boot: Arc<str>,
    shelves: Arc<Mutex<Shelves>>,
}

impl Default for History {
    fn default() -> History {
        let boot = format!("{:08x}", fastrand::u32(..)).into();
        History { boot, shelves: Arc::default() }
    }
}

/// An event of the history.
#[derive(Debug)]
pub struct Kept {
    /// The number of the event, from 1.
    pub number: u64,
    /// When it happened, on the agent's wall clock, for people.
    pub at: AgentWall,
    /// Its kind, as in the log.
    pub kind: &'static str,
    /// Its level, as in the log.
    pub level: Level,
    /// The event.
    pub event: Event,
}

impl Kept {
    /// Estimated memory in bytes.
    fn weight(&self) -> usize {
        OVERHEAD + size_of::<Kept>() + weight::of(&self.event.kind)
    }
}

/// The subject of an event.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum About {
    /// The task of this name.
    Task(Arc<str>),
    /// The Redis store of this name.
    Redis(Arc<str>),
}

/// Selected events, and their position in the history.
#[derive(Clone, Debug)]
pub struct Excerpt {
    /// The events, oldest first.
    pub events: Vec<Arc<Kept>>,
    /// Up to this number, `events` contains every event that was requested.
    pub upto: u64,
    /// The number of the newest event, whether selected or not.
    pub newest: u64,
    /// The number of the oldest event that is kept.
    pub oldest: Option<u64>,
    /// The newest number that was dropped. No event after it is missing.
    pub dropped: u64,
}

impl History {
    /// An id of this process. Event numbers are only valid together with it.
    pub fn boot(&self) -> &Arc<str> {
        &self.boot
    }

    /// Adds `event`, which became known at `now` (`wall` on the agent's wall clock).
    pub fn keep(&self, now: Mono, wall: AgentWall, event: &Event) {
        let ago_ms = i64::try_from(now.since_ms(event.at)).unwrap_or(i64::MAX);
        let at = AgentWall(wall.0.saturating_sub(ago_ms));
        let (kind, level) = (event.kind.name(), level(&event.kind));
        let mut shelves = self.shelves();
        shelves.count += 1;
        let number = shelves.count;
        shelves.put(Arc::new(Kept { number, at, kind, level, event: event.clone() }));
    }

    /// Whether there is any event about `subject`.
    pub fn knows(&self, subject: &About) -> bool {
        self.shelves().by_subject.contains_key(subject)
    }

    /// At most `most` of the events that fit, of all or of those about `subjects`: the first ones
    /// after the number `after`, or the newest ones without it.
    pub fn excerpt(
        &self,
        subjects: &BTreeSet<About>,
        after: Option<u64>,
        most: usize,
        fits: impl Fn(&Kept) -> bool,
    ) -> Excerpt {
        let shelves = self.shelves();
        let mut found = shelves.of(subjects, after.unwrap_or(0));
        let fits = |kept: &&Arc<Kept>| fits(kept);
        let (events, is_all): (Vec<Arc<Kept>>, bool) = match after {
            Some(_) => {
                let mut fitting = found.filter(fits);
                (fitting.by_ref().take(most).cloned().collect(), fitting.next().is_none())
            }
            None => {
                let mut newest: Vec<_> =
                    found.by_ref().rev().filter(fits).take(most).cloned().collect();
                newest.reverse();
                (newest, true)
            }
        };
        let upto = match events.last() {
            Some(last) if !is_all => last.number,
            _ => shelves.count,
        };
        let oldest = shelves.kept.keys().next().copied();
        Excerpt { events, upto, newest: shelves.count, oldest, dropped: shelves.dropped }
    }

    /// The newest number.
    pub fn newest(&self) -> u64 {
        self.shelves().count
    }

    /// Each change leaves the data consistent, so a panic elsewhere is no reason to stop.
    fn shelves(&self) -> MutexGuard<'_, Shelves> {
        self.shelves.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The events, in order and by subject.
#[derive(Debug, Default)]
struct Shelves {
    /// The number of events so far.
    count: u64,
    /// The newest number that was dropped.
    dropped: u64,
    kept: BTreeMap<u64, Arc<Kept>>,
    by_subject: BTreeMap<About, Shelf>,
    /// The subjects by their number of bytes.
    by_weight: BTreeSet<(usize, About)>,
    bytes: usize,
}

/// The events about one task or Redis store, oldest first.
#[derive(Debug, Default)]
struct Shelf {
    events: VecDeque<Arc<Kept>>,
    bytes: usize,
}

impl Shelves {
    fn put(&mut self, kept: Arc<Kept>) {
        let about = About::of(&kept.event.subject);
        let weight = kept.weight();
        let shelf = self.by_subject.entry(about.clone()).or_default();
        self.by_weight.remove(&(shelf.bytes, about.clone()));
        shelf.bytes += weight;
        shelf.events.push_back(Arc::clone(&kept));
        self.by_weight.insert((shelf.bytes, about.clone()));
        let too_many = shelf.events.len() > OF_ONE_MAX;
        self.bytes += weight;
        self.kept.insert(kept.number, kept);
        if too_many {
            self.drop_oldest(&about);
        }
        while self.kept.len() > KEPT_MAX || self.bytes > BYTES_MAX {
            let Some((_, heaviest)) = self.by_weight.last().cloned() else { return };
            self.drop_oldest(&heaviest);
        }
    }

    fn drop_oldest(&mut self, about: &About) {
        let Some(shelf) = self.by_subject.get_mut(about) else { return };
        self.by_weight.remove(&(shelf.bytes, about.clone()));
        if let Some(oldest) = shelf.events.pop_front() {
            let weight = oldest.weight();
            shelf.bytes -= weight;
            self.bytes -= weight;
            self.kept.remove(&oldest.number);
            self.dropped = self.dropped.max(oldest.number);
        }
        if shelf.events.is_empty() {
            self.by_subject.remove(about);
        } else {
            self.by_weight.insert((shelf.bytes, about.clone()));
        }
    }

    /// The events after a number about these subjects, or about all if there are none; oldest
    /// first.
    fn of<'a>(
        &'a self,
        subjects: &BTreeSet<About>,
        after: u64,
    ) -> Box<dyn DoubleEndedIterator<Item = &'a Arc<Kept>> + 'a> {
        if subjects.is_empty() {
            return Box::new(self.kept.range(after.saturating_add(1)..).map(|(_, kept)| kept));
        }
        let shelves = subjects.iter().filter_map(|about| self.by_subject.get(about));
        let mut found: Vec<_> =
            shelves.flat_map(|shelf| &shelf.events).filter(|kept| kept.number > after).collect();
        found.sort_unstable_by_key(|kept| kept.number);
        Box::new(found.into_iter())
    }
}

impl About {
    fn of(subject: &Subject) -> About {
        match subject {
            Subject::Task(task) => About::Task(Arc::clone(&task.name)),
            Subject::Store(_, name) => About::Redis(Arc::clone(name)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lockwatch_judge::event::EventKind;
    use lockwatch_judge::reading::Holder;
    use lockwatch_judge::spec::{StoreIndex, TaskSpec};
    use lockwatch_watch::redis::libraries;

    /// Tasks whose events are kept, each with its configuration.
    struct Tasks {
        history: History,
        specs: BTreeMap<String, Arc<TaskSpec>>,
    }

    impl Tasks {
        fn new() -> Tasks {
            Tasks { history: History::default(), specs: BTreeMap::new() }
        }

        fn happens(&mut self, name: &str, client_bytes: usize) {
            let spec = Arc::clone(self.specs.entry(name.to_owned()).or_insert_with(|| {
                Arc::new(TaskSpec::new(name, StoreIndex(0), libraries::lock(b"lock", "redisson")))
            }));
            let holder = Holder {
                client: vec![b'x'; client_bytes],
                thread: None,
                entries: None,
                secret: false,
            };
            self.keep(Subject::Task(spec), EventKind::Acquired { holders: vec![holder] });
        }

        fn keep(&self, subject: Subject, kind: EventKind) {
            let event = Event {
                at: Mono::at(900),
                server_time: None,
                subject,
                node: Some("10.0.0.5:6379".into()),
                kind,
            };
            self.history.keep(Mono::at(1_000), AgentWall(5_000), &event);
        }

        fn of_task(&self, name: &str, most: usize) -> Vec<Arc<Kept>> {
            self.history
                .excerpt(&BTreeSet::from([About::Task(name.into())]), None, most, |_| true)
                .events
        }

        fn numbers(&self, name: &str) -> Vec<u64> {
            self.of_task(name, usize::MAX).iter().map(|kept| kept.number).collect()
        }

        /// Checks that all indexes agree. Returns the number of events and of bytes.
        fn check(&self) -> (usize, usize) {
            let shelves = self.history.shelves();
            let by_subject: usize =
                shelves.by_subject.values().map(|shelf| shelf.events.len()).sum();
            let bytes: usize = shelves.by_subject.values().map(|shelf| shelf.bytes).sum();
            let weights: BTreeSet<_> = shelves
                .by_subject
                .iter()
                .map(|(about, shelf)| (shelf.bytes, about.clone()))
                .collect();
            assert_eq!((by_subject, bytes), (shelves.kept.len(), shelves.bytes));
            assert_eq!(weights, shelves.by_weight);
            assert_eq!(shelves.kept.values().map(|kept| kept.weight()).sum::<usize>(), bytes);
            (by_subject, bytes)
        }
    }

    #[test]
    fn an_event_has_the_instant_of_its_evidence() {
        let mut tasks = Tasks::new();
        tasks.happens("a", 8);
        let kept = &tasks.of_task("a", 1)[0];
        assert_eq!(
            (kept.number, kept.at, kept.kind, kept.level),
            (1, AgentWall(4_900), "acquired", Level::INFO)
        );
    }

    /// A client that continues after the last event of a response must not miss any.
    #[test]
    fn a_page_of_events_goes_as_far_as_its_last_one() {
        let mut tasks = Tasks::new();
        (0..5).for_each(|_| tasks.happens("a", 8));
        let upto = |after| tasks.history.excerpt(&BTreeSet::new(), Some(after), 2, |_| true).upto;
        assert_eq!([0, 2, 3, 4, 5].map(upto), [2, 4, 5, 5, 5]);
    }

    #[test]
    fn a_restless_task_pushes_out_nobody_but_itself() {
        let mut tasks = Tasks::new();
        tasks.happens("calm", 8);
        (0..50_000).for_each(|_| tasks.happens("restless", 8));
        tasks.keep(Subject::Store(StoreIndex(0), "restless".into()), EventKind::StoreUp);
        assert_eq!(tasks.numbers("calm"), [1]);
        assert_eq!(tasks.numbers("restless"), (49_802..=50_001).collect::<Vec<_>>());
        assert_eq!(tasks.of_task("restless", 3).len(), 3);
        assert_eq!(tasks.check().0, 202);
        assert!(tasks.numbers("other").is_empty());
    }

    #[test]
    fn where_there_is_no_room_whoever_has_most_gives_way() {
        let mut tasks = Tasks::new();
        (0..5).for_each(|_| tasks.happens("calm", 8));
        for round in 0..150 {
            (0..200).for_each(|task| tasks.happens(&format!("restless {task} {}", round % 2), 8));
        }
        assert_eq!(tasks.check().0, KEPT_MAX);
        assert_eq!(tasks.numbers("calm").len(), 5);
        assert_eq!(tasks.numbers("restless 7 0").len(), 50);
        let everything = tasks.history.excerpt(&BTreeSet::new(), Some(0), usize::MAX, |_| true);
        let numbers: Vec<u64> = everything.events.iter().map(|kept| kept.number).collect();
        assert!(numbers.is_sorted() && numbers.len() == KEPT_MAX);
        let gone: Vec<u64> = (1..=everything.newest)
            .filter(|number| numbers.binary_search(number).is_err())
            .collect();
        assert_eq!(gone.last(), Some(&everything.dropped));
    }

    #[test]
    fn huge_holders_cost_their_own_task_its_events() {
        let mut tasks = Tasks::new();
        (0..100).for_each(|_| tasks.happens("calm", 8));
        (0..30).for_each(|_| tasks.happens("huge", 1 << 20));
        let (_, bytes) = tasks.check();
        assert!(bytes <= BYTES_MAX, "{bytes}");
        assert_eq!(tasks.numbers("calm").len(), 100);
        assert!((10..16).contains(&tasks.numbers("huge").len()));
        tasks.happens("larger than all", 17 << 20);
        assert!(tasks.numbers("larger than all").is_empty(), "there is no room for it");
        assert_eq!(tasks.numbers("calm").len(), 100);
        tasks.check();
    }
}
