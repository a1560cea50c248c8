//! Patterns: finds the keys that match a glob, and makes a task of each. A task that was found is
//! configured, read and judged as any other one; only here it is known that it was found.
//!
//! When the tasks have changed, the configuration is applied again with them, at a limited rate.

mod roster;
mod scan;

use std::sync::Arc;
use std::time::Duration;

use lockwatch_judge::snapshot::{StoreView, TaskView};
use lockwatch_judge::spec::{StoreIndex, TaskSpec};
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use crate::clock::Clock;
use crate::config::{Config, Pattern};
use crate::published::{PatternView, Published, Snapshots};
use crate::text::identity::escape;
use roster::{Complete, Found, KEPT_MS, Roster, reserved};
pub use scan::KEYS_PER_SECOND;
pub use scan::Report;
use scan::{Job, News};

/// Reports that wait. A scan waits while there are as many.
const REPORTS: usize = 16;
/// The least time between two configurations with other tasks.
const APPLIED_EVERY: Duration = Duration::from_secs(2);
/// The same for each task that is configured: applying a task takes some microseconds, and reading
/// it again as a whole, so that this is about a hundredth of a core.
const APPLIED_EVERY_PER_TASK: Duration = Duration::from_millis(1);

/// The patterns of the configuration in force, and the keys that were found.
pub struct Patterns {
    snapshots: Snapshots,
    clock: Clock,
    /// Counts the configurations, so that reports about another one are recognised.
    epoch: u64,
    /// In the order of the configuration.
    rosters: Vec<Roster>,
    /// The names of the stores.
    stores: Vec<Arc<str>>,
    scans: Vec<AbortOnDropHandle<()>>,
    reports: mpsc::Sender<Report>,
    views: watch::Sender<Arc<[PatternView]>>,
    /// The tasks have changed since they were applied.
    changed: bool,
    /// When they were applied last.
    applied: Option<Instant>,
    /// The number of all tasks that are configured.
    tasks: usize,
}

impl Patterns {
    /// Without any pattern yet; and what it must [take](Patterns::take).
    pub fn new(snapshots: Snapshots, clock: Clock) -> (Patterns, mpsc::Receiver<Report>) {
        let (reports, received) = mpsc::channel(REPORTS);
        let patterns = Patterns {
            snapshots,
            clock,
            epoch: 0,
            rosters: Vec::new(),
            stores: Vec::new(),
            scans: Vec::new(),
            reports,
            views: watch::Sender::default(),
            changed: false,
            applied: None,
            tasks: 0,
        };
        (patterns, received)
    }

    /// What is known of the patterns.
    pub fn views(&self) -> watch::Receiver<Arc<[PatternView]>> {
        self.views.subscribe()
    }

    /// Applies a configuration as it was written. Keys of patterns that stay are known at once.
    pub fn configure(&mut self, config: &Config) {
        let stores: Vec<Arc<str>> =
            config.redises.iter().map(|redis| Arc::clone(&redis.name)).collect();
        let mut old: Vec<(Arc<str>, Roster)> = std::mem::take(&mut self.rosters)
            .into_iter()
            .filter_map(|roster| Some((store(&self.stores, &roster.pattern)?, roster)))
            .collect();
        let roster = |pattern: &Arc<Pattern>| {
            let tasks = config.tasks.iter().filter(|task| task.is_on(pattern.store()));
            let own = reserved(tasks);
            let is_it = |(name, roster): &(Arc<str>, Roster)| {
                Some(name) == store(&stores, pattern).as_ref()
                    && roster.pattern.glob() == pattern.glob()
            };
            match old.iter().position(is_it) {
                Some(at) => old.swap_remove(at).1.configured(Arc::clone(pattern), own),
                None => Roster::new(Arc::clone(pattern), own),
            }
        };
        self.rosters = config.patterns.iter().map(roster).collect();
        self.stores = stores;
        self.epoch += 1;
        self.scan(config);
        self.show();
    }

    /// Begins the scans of each store with patterns.
    fn scan(&mut self, config: &Config) {
        self.scans.clear();
        for (index, redis) in (0..).map(StoreIndex).zip(&config.redises) {
            let own = config.patterns.iter().enumerate();
            let own = own.filter(|(_, pattern)| pattern.store() == index);
            let globs: Vec<(usize, Vec<u8>)> =
                own.map(|(number, pattern)| (number, pattern.glob().to_vec())).collect();
            if !globs.is_empty() {
                let job = Job { redis: redis.clone(), globs, epoch: self.epoch };
                let scan = scan::run(job, self.snapshots.clone(), self.reports.clone());
                self.scans.push(AbortOnDropHandle::new(tokio::spawn(scan)));
            }
        }
    }

    /// Ends all scans.
    pub fn stop(&mut self) {
        self.scans.clear();
    }

    /// Takes in what a scan reports.
    pub fn take(&mut self, report: Report) {
        let Report { epoch, pattern, news } = report;
        let now = self.clock.now();
        let Some(roster) = self.rosters.get_mut(pattern).filter(|_| epoch == self.epoch) else {
            return;
        };
        match news {
            News::Began => roster.begin(now),
            News::Keys(keys) => {
                let is_first = roster.complete.is_none();
                keys.iter().for_each(|key| self.see(pattern, key));
                if is_first {
                    self.show();
                }
            }
            News::Ended => {
                let newest = self.snapshots.newest();
                let before = roster.complete.map_or(0, |complete| complete.left_out);
                let store = self.stores.get(usize::from(roster.pattern.store().0));
                let store = store.and_then(|name| store_of(&newest, name));
                let used = |task: &TaskSpec| is_used(&newest, store, task);
                self.changed |= roster.end(now, self.clock.wall(), used);
                note_left_out(roster, before);
                self.show();
            }
            News::Failed(why) => {
                if roster.trouble.as_ref() != Some(&why) {
                    let pattern = escape(roster.pattern.name().as_bytes()).into_owned();
                    tracing::warn!(pattern, why = &*why, "the scan for keys was cut short");
                }
                roster.fail(why);
                self.show();
            }
        }
    }

    /// A key that several patterns match belongs to the first of them that has room.
    fn see(&mut self, pattern: usize, key: &[u8]) {
        let now = self.clock.now();
        let Some((before, [own, after @ ..])) = self.rosters.split_at_mut_checked(pattern) else {
            return;
        };
        let store = own.pattern.store();
        let shares = |others: &mut [Roster], act: &dyn Fn(&mut Roster) -> bool| {
            others.iter_mut().any(|other| other.pattern.store() == store && act(other))
        };
        if shares(before, &|other| other.has(key)) {
            return;
        }
        if own.see(key, now) == Found::New {
            shares(after, &|other| other.forget(key));
            self.changed = true;
        }
    }

    /// When the configuration shall be applied again with other tasks.
    pub fn due(&self) -> Option<Instant> {
        let tasks = u32::try_from(self.tasks).unwrap_or(u32::MAX);
        let pause = APPLIED_EVERY_PER_TASK.saturating_mul(tasks).max(APPLIED_EVERY);
        self.changed.then(|| self.applied.map_or_else(Instant::now, |applied| applied + pause))
    }

    /// The configuration with the tasks that were found.
    pub fn expand(&mut self, config: &Config) -> Config {
        let mut expanded = config.clone();
        expanded.tasks.extend(self.rosters.iter().flat_map(Roster::tasks).cloned());
        (self.changed, self.applied) = (false, Some(Instant::now()));
        self.tasks = expanded.tasks.len();
        self.show();
        expanded
    }

    fn show(&self) {
        let view = |roster: &Roster| PatternView {
            name: Arc::clone(roster.pattern.name()),
            store: store(&self.stores, &roster.pattern).unwrap_or_default(),
            glob: roster.pattern.glob().into(),
            max_keys: roster.pattern.max_keys as u64,
            keys: roster.tasks().len() as u64,
            left_out: roster.left_out(),
            scanned_at: roster.complete.map(|complete| complete.at),
            trouble: roster.trouble.clone(),
        };
        let views: Arc<[PatternView]> = self.rosters.iter().map(view).collect();
        self.views.send_if_modified(|shown| {
            let has_changed = **shown != *views;
            *shown = views;
            has_changed
        });
    }
}

fn store(stores: &[Arc<str>], pattern: &Pattern) -> Option<Arc<str>> {
    stores.get(usize::from(pattern.store().0)).cloned()
}

fn store_of<'a>(published: &'a Published, name: &str) -> Option<&'a StoreView> {
    let mut stores = published.snapshot.stores.iter();
    stores.find(|store| *store.spec.name == *name).map(|store| &**store)
}

/// Whether a lock that no scan has seen for long was held meanwhile all the same: for moments, as
/// its regular readings showed.
fn is_used(published: &Published, store: Option<&StoreView>, task: &TaskSpec) -> bool {
    let Some(view) = published.snapshot.tasks.find(&task.name) else { return false };
    let newest = |store: &StoreView| store.nodes.iter().filter_map(|node| node.last_success).max();
    let was_held = |view: &TaskView| {
        let (last, now) = (view.lock()?.last.as_ref()?.seen, newest(store?)?);
        Some(now.ms().saturating_sub(last.ms()) <= i64::try_from(KEPT_MS).unwrap_or(i64::MAX))
    };
    view.held == Some(true) || was_held(view).unwrap_or(false)
}

/// Logs when keys begin to be left out, and when none is any more.
fn note_left_out(roster: &Roster, before: u64) {
    let Some(Complete { left_out, .. }) = roster.complete else { return };
    let pattern = escape(roster.pattern.name().as_bytes()).into_owned();
    match (before, left_out) {
        (0, 1..) => {
            let max_keys = roster.pattern.max_keys;
            tracing::warn!(pattern, left_out, max_keys, "more keys match than are watched");
        }
        (1.., 0) => tracing::info!(pattern, "all keys that match are watched"),
        _ => {}
    }
}
