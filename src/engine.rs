//! The only task that owns the state: it applies inputs, and publishes events and snapshots.
//! Nothing else writes the state.

use std::sync::Arc;
use std::time::Duration;

use lockwatch_judge::event::Event;
use lockwatch_judge::input::Input;
use lockwatch_judge::spec::WatchSpec;
use lockwatch_judge::state::State;
use lockwatch_judge::time::{AgentWall, Mono};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};

use crate::clock::Clock;
use crate::drill::Drill;
use crate::published::{Look, LookAt, PatternView, Published, Snapshots};

/// Maximum number of queued inputs. A sender waits while the queue is full, which bounds memory.
pub const INPUTS: usize = 256;
/// Maximum number of inputs that are applied before the engine checks whether a snapshot is due.
const BURST: usize = 64;
/// Interval at which the state takes in that time has passed. It is also the maximum age of a
/// snapshot, and of one that was requested.
const TICK: Duration = Duration::from_secs(1);
/// Minimum time between two snapshots. A single change is published at once, a burst of changes
/// together.
const COALESCE: Duration = Duration::from_millis(1);
/// Maximum delay of a snapshot after an event, measured from the newest snapshot.
const EVENT_SHOWS: Duration = Duration::from_millis(20);
/// The inverse share of time that snapshots may take: 1/5 for those because of events, 1/50 for
/// complete ones that readers request. What changes without an event, such as whose turn it is, is
/// shown by these.
const EVENT_SHARE: u32 = 5;
const LOOK_SHARE: u32 = 50;

/// Receives the inputs of the engine and the events that result.
pub trait Observer {
    /// Called before the state applies `input`.
    fn input(&mut self, _now: Now, _input: &Input) {}

    /// Called for each event; it became known at `now`.
    fn event(&mut self, now: Now, event: &Event);

    /// Called about once a second.
    fn tick(&mut self, _now: Now) {}
}

/// An instant by both clocks of the agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Now {
    /// Monotonic; used for all judgements.
    pub mono: Mono,
    /// Wall clock; for display only.
    pub wall: AgentWall,
}

/// All observers, in the order in which they are called.
pub type Observers = Vec<Box<dyn Observer + Send>>;

impl Observer for Observers {
    fn input(&mut self, now: Now, input: &Input) {
        self.iter_mut().for_each(|observer| observer.input(now, input));
    }

    fn event(&mut self, now: Now, event: &Event) {
        self.iter_mut().for_each(|observer| observer.event(now, event));
    }

    fn tick(&mut self, now: Now) {
        self.iter_mut().for_each(|observer| observer.tick(now));
    }
}

/// Observes nothing.
impl Observer for () {
    fn event(&mut self, _now: Now, _event: &Event) {}
}

/// Owner of the state.
pub struct Engine {
    state: State,
    /// The initial configuration, kept so that [`Engine::run`] can pass it to the observer.
    spec: Arc<WatchSpec>,
    clock: Clock,
    /// The instant of the newest step. Instants passed to the state must never decrease.
    newest: Mono,
    publishing: Publishing,
    published: watch::Sender<Arc<Published>>,
    looks: mpsc::Receiver<Look>,
    others: Others,
}

/// What others publish with each snapshot.
#[derive(Default)]
struct Others {
    patterns: Option<watch::Receiver<Arc<[PatternView]>>>,
    drill: Option<watch::Receiver<Option<Arc<Drill>>>>,
}

impl Others {
    /// Returns when a drill began or ended; `None`: there are none any more.
    async fn drilled(&mut self) -> Option<()> {
        self.drill.as_mut()?.changed().await.ok()
    }
}

impl Engine {
    /// Creates an engine for the tasks of `spec`, with no evidence yet, and the reader of its
    /// snapshots. The first snapshot exists at once and contains every task.
    pub fn new(clock: Clock, spec: WatchSpec) -> (Engine, Snapshots) {
        let mut state = State::new();
        let spec = Arc::new(spec);
        let _nothing_happened_yet = state.step(Mono::at(0), Input::Config(Arc::clone(&spec)));
        let (published, newest) = watch::channel(Arc::new(publish(
            &mut state,
            Extent::Complete,
            clock,
            &Others::default(),
        )));
        let (snapshots, looks) = Snapshots::new(newest);
        let publishing = Publishing::new();
        let newest = Mono::at(0);
        let others = Others::default();
        let engine = Engine { state, spec, clock, newest, publishing, published, looks, others };
        (engine, snapshots)
    }

    /// Publishes what is known of the patterns with each snapshot.
    #[must_use]
    pub fn with_patterns(self, patterns: watch::Receiver<Arc<[PatternView]>>) -> Engine {
        Engine { others: Others { patterns: Some(patterns), ..self.others }, ..self }
    }

    /// Publishes the drill that runs with each snapshot; at once when one begins or ends.
    #[must_use]
    pub fn with_drill(self, drill: watch::Receiver<Option<Arc<Drill>>>) -> Engine {
        Engine { others: Others { drill: Some(drill), ..self.others }, ..self }
    }

    /// Runs until every sender of `inputs` is dropped. Inputs and events go to `observer`, in
    /// order. A snapshot is published soon after an event, on request, and at least once a second.
    pub async fn run(mut self, mut inputs: mpsc::Receiver<Input>, mut observer: impl Observer) {
        observer.input(
            Now { mono: Mono::at(0), wall: self.clock.wall() },
            &Input::Config(Arc::clone(&self.spec)),
        );
        let mut tick = interval(TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut burst = Vec::with_capacity(BURST);
        loop {
            fault_point().await;
            let next = self.publishing.next();
            let (wanted, next) = (next.is_some(), next.unwrap_or_else(Instant::now));
            let mut looking = None;
            tokio::select! {
                count = inputs.recv_many(&mut burst, BURST) => {
                    if count == 0 {
                        return;
                    }
                    for input in burst.drain(..) {
                        self.step(input, &mut observer);
                    }
                }
                _ = tick.tick() => {
                    self.step(Input::Tick, &mut observer);
                    observer.tick(self.now());
                    self.publishing.at_once(Extent::Events);
                }
                Some(()) = self.others.drilled() => self.publishing.at_once(Extent::Events),
                Some(look) = self.looks.recv() => looking = Some(self.look(look)),
                () = sleep_until(next), if wanted => {}
            }
            let before = Instant::now();
            if let Some(extent) = self.publishing.due(before) {
                let published = publish(&mut self.state, extent, self.clock, &self.others);
                self.published.send_replace(Arc::new(published));
                self.publishing.done(extent, before, Instant::now());
            }
            if let Some(answer) = looking {
                let _looks_no_more = answer.send(());
            }
        }
    }

    /// Schedules the snapshot that a reader requested, within the share of time that such snapshots
    /// may take. Returns the sender that ends the reader's wait.
    fn look(&mut self, look: Look) -> oneshot::Sender<()> {
        match look.at {
            LookAt::Everything => self.publishing.looked_at(),
            LookAt::Task(name) => {
                if self.state.look_at(&name) {
                    self.publishing.at_once(Extent::Events);
                }
            }
        }
        look.answer
    }

    /// The instant of the newest step.
    fn now(&self) -> Now {
        Now { mono: self.newest, wall: self.clock.wall() }
    }

    fn step(&mut self, input: Input, observer: &mut impl Observer) {
        self.newest = self.newest.max(self.clock.now());
        let now = self.now();
        observer.input(now, &input);
        let configured = matches!(input, Input::Config(_));
        let events = self.state.step(self.newest, input);
        events.iter().for_each(|event| observer.event(now, event));
        self.publishing.is_behind = true;
        if configured {
            self.publishing.at_once(Extent::Complete);
        } else if !events.is_empty() {
            self.publishing.soon();
        }
    }
}

fn publish(state: &mut State, extent: Extent, clock: Clock, others: &Others) -> Published {
    let made = std::time::Instant::now();
    let (at, wall) = clock.both();
    let snapshot = match extent {
        Extent::Complete => state.snapshot(at),
        Extent::Events => state.snapshot_of_events(at),
    };
    let patterns = others.patterns.as_ref();
    let patterns = patterns.map(|views| Arc::clone(&views.borrow())).unwrap_or_default();
    let drill = others.drill.as_ref().and_then(|drill| drill.borrow().clone());
    Published { snapshot, wall, made, patterns, drill }
}

/// The part that a snapshot refreshes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Extent {
    /// Everything.
    Complete,
    /// The Redis stores, and tasks with new events.
    Events,
}

/// When the next snapshot is due. The cost of a complete one grows with the number of tasks that
/// were read since the one before. So it is only made on request, and readers share it.
struct Publishing {
    complete: Pace,
    events: Pace,
    /// Whether the state is newer than the newest complete snapshot.
    is_behind: bool,
}

/// When the next snapshot of one extent is due.
struct Pace {
    due: Option<Instant>,
    newest: Instant,
    /// How long the newest one took.
    cost: Duration,
}

impl Publishing {
    fn new() -> Publishing {
        let pace = || Pace { due: None, newest: Instant::now(), cost: Duration::ZERO };
        Publishing { complete: pace(), events: pace(), is_behind: false }
    }

    fn at_once(&mut self, extent: Extent) {
        self.pace(extent).want(Duration::ZERO);
    }

    /// Schedules a snapshot after an event.
    fn soon(&mut self) {
        self.events.want((self.events.cost * EVENT_SHARE).clamp(COALESCE, EVENT_SHOWS));
    }

    /// Schedules a complete snapshot that a reader requested.
    fn looked_at(&mut self) {
        if self.is_behind {
            self.complete.want((self.complete.cost * LOOK_SHARE).clamp(COALESCE, TICK));
        }
    }

    fn next(&self) -> Option<Instant> {
        self.complete.due.into_iter().chain(self.events.due).min()
    }

    fn due(&self, now: Instant) -> Option<Extent> {
        let is_due = |pace: &Pace| pace.due.is_some_and(|due| due <= now);
        match () {
            () if is_due(&self.complete) => Some(Extent::Complete),
            () if is_due(&self.events) => Some(Extent::Events),
            () => None,
        }
    }

    /// Records that a snapshot was made.
    fn done(&mut self, extent: Extent, before: Instant, now: Instant) {
        (self.events.due, self.events.newest) = (None, now);
        *self.pace(extent) = Pace { due: None, newest: now, cost: now - before };
        self.is_behind &= extent == Extent::Events;
    }

    fn pace(&mut self, extent: Extent) -> &mut Pace {
        match extent {
            Extent::Complete => &mut self.complete,
            Extent::Events => &mut self.events,
        }
    }
}

impl Pace {
    fn want(&mut self, after: Duration) {
        let due = self.newest + after;
        self.due = Some(self.due.map_or(due, |planned| planned.min(due)));
    }
}

/// For tests of a stuck engine: blocks as long as the file named by
/// `LOCKWATCH_FAULT=engine-stall:<path>` exists. Not compiled into release builds.
#[cfg(debug_assertions)]
async fn fault_point() {
    let fault = std::env::var("LOCKWATCH_FAULT").unwrap_or_default();
    let Some(path) = fault.strip_prefix("engine-stall:") else { return };
    while std::path::Path::new(path).exists() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[cfg(not(debug_assertions))]
async fn fault_point() {}

#[cfg(test)]
mod tests {
    use super::*;
    use lockwatch_judge::input::{NodeNews, NodeNewsKind, Outcome, Sample, Standing};
    use lockwatch_judge::reading::Unknown;
    use lockwatch_judge::snapshot::TaskView;
    use lockwatch_judge::spec::{StoreIndex, StoreSpec, TaskIndex, TaskSpec};
    use lockwatch_watch::redis::{RedisKind, libraries};

    use crate::published::Unanswered;

    fn redis() -> StoreSpec {
        RedisKind::Standalone.store("main", &["127.0.0.1:6379"])
    }

    /// Starts an engine. Returns its inputs, its snapshots and its task.
    fn start(spec: WatchSpec) -> (mpsc::Sender<Input>, Snapshots, tokio::task::JoinHandle<()>) {
        let (sender, inputs) = mpsc::channel(INPUTS);
        let (engine, snapshots) = Engine::new(Clock::start(), spec);
        (sender, snapshots, tokio::spawn(engine.run(inputs, ())))
    }

    /// The next snapshot. There is one each second, even without events.
    async fn next(snapshots: &mut Snapshots) -> Arc<Published> {
        let changed = tokio::time::timeout(TICK * 10, snapshots.changed()).await;
        changed.expect("a snapshot a second without any input").unwrap();
        snapshots.see()
    }

    /// Making a snapshot of many tasks takes time. Its wall clock must be that of its instant
    /// and not of its end.
    #[test]
    fn the_wall_clock_of_a_snapshot_is_that_of_its_instant() {
        let task = |at: usize| {
            let lock = libraries::lock(format!("lock-{at}").as_bytes(), "redisson");
            Arc::new(TaskSpec::new(&format!("task-{at}"), StoreIndex(0), lock))
        };
        let spec = WatchSpec {
            stores: vec![redis()],
            tasks: (0..50_000).map(task).collect(),
            ..WatchSpec::default()
        };
        let clock = Clock::start();
        let mut state = State::default();
        state.step(Mono::at(0), Input::Config(Arc::new(spec)));
        let (at, wall) = clock.both();
        let published = publish(&mut state, Extent::Complete, clock, &Others::default());
        let took_ms = clock.now().since_ms(published.snapshot.at);
        let by_mono_ms = i64::try_from(published.snapshot.at.since_ms(at)).unwrap();
        let by_wall_ms = published.wall.0 - wall.0;
        assert!(took_ms > 8, "it took {took_ms} ms only: nothing is proved");
        assert!(
            (by_wall_ms - by_mono_ms).abs() <= 4,
            "{by_wall_ms} ms by the one clock, {by_mono_ms} by the other"
        );
    }

    /// One task that cannot be read, so that it is blind for longer with each attempt.
    fn blind() -> WatchSpec {
        let lock = libraries::lock(b"lock", "redisson");
        let task = Arc::new(TaskSpec::new("blind", StoreIndex(0), lock));
        WatchSpec { stores: vec![redis()], tasks: vec![task], ..WatchSpec::default() }
    }

    fn unreadable() -> Input {
        let outcome = Outcome::Failed { tasks: vec![TaskIndex(0)], why: Unknown::Timeout };
        let (redis, node, standing) = (StoreIndex(0), None, Standing::Decides);
        Input::Sample(Sample {
            epoch: 0,
            store: redis,
            node,
            standing,
            sent: Mono::at(0),
            took_ms: 1,
            outcome,
        })
    }

    fn task(published: &Published) -> Arc<TaskView> {
        Arc::clone(published.snapshot.tasks.first().unwrap())
    }

    #[tokio::test]
    async fn snapshots_come_each_second_and_who_looks_sees_what_is_known() {
        let _rule = crate::truth::rule("16 freshness");
        let (inputs, mut snapshots, engine) = start(blind());
        inputs.send(unreadable()).await.unwrap();
        loop {
            let newest = next(&mut snapshots).await;
            if task(&newest).unknown.is_some() {
                break;
            }
        }
        let first = snapshots.newest();
        let is_first = |shown: &Published| Arc::ptr_eq(&task(shown), &task(&first));
        let (mut attempts, mut came) = (0, 0);
        while came < 2 {
            tokio::select! {
                sent = inputs.send(unreadable()) => {
                    sent.unwrap();
                    attempts += 1;
                }
                newest = next(&mut snapshots) => {
                    assert!(is_first(&newest), "nothing happened, and nobody looked");
                    came += 1;
                }
            }
            tokio::task::yield_now().await;
        }
        assert!(attempts > 50 && first.made.elapsed() > TICK, "{attempts} attempts");
        assert!(is_first(&snapshots.task("another", TICK).await.unwrap()));
        let shown = snapshots.task("blind", TICK).await.unwrap();
        let blind_ms = task(&shown).durations.blind_ms;
        assert!(blind_ms > 500 + task(&first).durations.blind_ms);
        let began = Instant::now();
        while task(&snapshots.everything(TICK).await.unwrap()).durations.blind_ms == blind_ms {
            inputs.send(unreadable()).await.unwrap();
        }
        assert!(began.elapsed() < TICK / 2, "not with the next event");
        drop(inputs);
        engine.await.unwrap();
        assert_eq!(
            snapshots.everything(TICK).await.err(),
            Some(Unanswered),
            "what is there may be old"
        );
    }

    #[tokio::test]
    async fn the_first_snapshot_has_what_is_configured() {
        let spec = WatchSpec { stores: vec![redis()], ..WatchSpec::default() };
        let (_engine, snapshots) = Engine::new(Clock::start(), spec);
        assert_eq!(snapshots.newest().snapshot.stores.len(), 1);
    }

    #[tokio::test]
    async fn a_configuration_shows_soon() {
        let (inputs, mut snapshots, _engine) = start(WatchSpec::default());
        next(&mut snapshots).await;
        let before = Instant::now();
        inputs.send(Input::Config(Arc::new(blind()))).await.unwrap();
        next(&mut snapshots).await;
        assert!(before.elapsed() < Duration::from_millis(500));
        assert_eq!(snapshots.newest().snapshot.tasks.len(), 1);
    }

    #[test]
    fn who_looks_shares_a_snapshot_with_others_and_does_not_wait_for_what_is_known() {
        let mut publishing = Publishing::new();
        publishing.looked_at();
        assert_eq!(publishing.next(), None, "everything is shown");
        publishing.is_behind = true;
        for (cost, wait) in [(0, COALESCE), (5, Duration::from_millis(5) * LOOK_SHARE), (50, TICK)]
        {
            publishing.complete.cost = Duration::from_millis(cost);
            publishing.looked_at();
            let due = publishing.next().unwrap();
            assert_eq!(due - publishing.complete.newest, wait);
            publishing.looked_at();
            assert_eq!(publishing.next(), Some(due));
            assert_eq!(
                (publishing.due(due - COALESCE / 2), publishing.due(due)),
                (None, Some(Extent::Complete))
            );
            publishing.done(Extent::Events, due, due);
            assert_eq!(publishing.next(), Some(due), "who looks is not yet shown everything");
            publishing.done(Extent::Complete, due, due);
            publishing.looked_at();
            assert_eq!(publishing.next(), None, "everything is shown");
            publishing.is_behind = true;
        }
    }

    #[test]
    fn what_shows_soon_is_not_put_off_by_what_comes_after_it() {
        let mut publishing = Publishing::new();
        (publishing.complete.cost, publishing.is_behind) = (Duration::from_millis(5), true);
        publishing.soon();
        let soon = publishing.next().unwrap();
        assert_eq!(
            soon - publishing.events.newest,
            COALESCE,
            "what a complete one costs does not matter"
        );
        publishing.looked_at();
        assert_eq!(publishing.next(), Some(soon));
        assert_eq!(
            (publishing.due(soon - COALESCE / 2), publishing.due(soon)),
            (None, Some(Extent::Events))
        );
        publishing.at_once(Extent::Complete);
        assert_eq!(publishing.due(soon), Some(Extent::Complete));
        publishing.soon();
        publishing.done(Extent::Complete, soon, soon + COALESCE);
        assert_eq!(
            (publishing.next(), publishing.complete.cost),
            (None, COALESCE),
            "it shows everything"
        );
    }

    #[tokio::test]
    async fn only_an_event_makes_a_snapshot_that_nobody_waits_for() {
        let _rule = crate::truth::rule("16 freshness");
        let spec = WatchSpec { stores: vec![redis()], ..WatchSpec::default() };
        let (mut engine, _snapshots) = Engine::new(Clock::start(), spec);
        let due = |engine: &mut Engine, input: Input| {
            engine.publishing = Publishing::new();
            engine.step(input, &mut ());
            assert!(engine.publishing.is_behind);
            engine.publishing.next().is_some()
        };
        let down = NodeNewsKind::Failed { why: Unknown::Connect };
        let news =
            NodeNews { epoch: 0, store: StoreIndex(0), node: "127.0.0.1:6379".into(), kind: down };
        assert!(!due(&mut engine, Input::Tick));
        assert!(due(&mut engine, Input::Node(news.clone())), "it is down");
        assert!(!due(&mut engine, Input::Node(news)), "that is no news");
    }
}
