//! The one task that owns the state: inputs in, events and snapshots out. Nothing else ever writes what is known.

use std::sync::Arc;
use std::time::Duration;

use lockwatch_model::event::Event;
use lockwatch_model::input::Input;
use lockwatch_model::spec::WatchSpec;
use lockwatch_model::state::State;
use lockwatch_model::time::Mono;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};

use crate::clock::Clock;
use crate::published::Published;

/// Most inputs that may wait for the engine; whoever has more must wait.
pub const INPUTS: usize = 256;
/// Most inputs taken in before it is asked whether to publish.
const BURST: usize = 64;
/// The state is told so often that time has passed, and a snapshot is never older.
const TICK: Duration = Duration::from_secs(1);
/// Shortest time between two snapshots.
const COALESCE: Duration = Duration::from_millis(20);
/// Without an event, no more than one part in so many of the time goes into snapshots.
const SNAPSHOT_SHARE: u32 = 20;

/// Where events go.
pub trait EventSink {
    /// Something happened; it became known at `now`.
    fn event(&mut self, now: Mono, event: &Event);

    /// Time has passed.
    fn tick(&mut self, now: Mono);
}

/// Nobody listens.
impl EventSink for () {
    fn event(&mut self, _now: Mono, _event: &Event) {}

    fn tick(&mut self, _now: Mono) {}
}

/// Owner of the state.
pub struct Engine {
    state: State,
    clock: Clock,
    /// The state's instants must not go back.
    newest: Mono,
    publishing: Publishing,
    published: watch::Sender<Arc<Published>>,
}

impl Engine {
    /// An engine for the tasks of `spec`, of which nothing is known yet, and where its snapshots appear. There is one from
    /// the start, and no task is missing in it.
    pub fn new(clock: Clock, spec: WatchSpec) -> (Engine, watch::Receiver<Arc<Published>>) {
        let mut state = State::new();
        let _nothing_happened_yet = state.step(Mono(0), Input::Config(Arc::new(spec)));
        let (published, snapshots) = watch::channel(Arc::new(publish(&mut state, clock)));
        (Engine { state, clock, newest: Mono(0), publishing: Publishing::new(), published }, snapshots)
    }

    /// Runs until every sender of `inputs` is gone. Each event goes to `sink`, in order. Snapshots appear soon after an
    /// event, a little later after other inputs, and at least once a second.
    pub async fn run(mut self, mut inputs: mpsc::Receiver<Input>, mut sink: impl EventSink) {
        let mut tick = interval(TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut burst = Vec::with_capacity(BURST);
        loop {
            fault_point().await;
            tokio::select! {
                count = inputs.recv_many(&mut burst, BURST) => {
                    if count == 0 {
                        return;
                    }
                    for input in burst.drain(..) {
                        self.step(input, &mut sink);
                    }
                }
                _ = tick.tick() => {
                    self.step(Input::Tick, &mut sink);
                    sink.tick(self.newest);
                    self.publishing.at_once();
                }
                () = sleep_until(self.publishing.due), if self.publishing.wanted => {}
            }
            if self.publishing.is_due() {
                let before = Instant::now();
                self.published.send_replace(Arc::new(publish(&mut self.state, self.clock)));
                self.publishing.done(before);
            }
        }
    }

    fn step(&mut self, input: Input, sink: &mut impl EventSink) {
        self.newest = self.newest.max(self.clock.now());
        let configured = matches!(input, Input::Config(_));
        let events = self.state.step(self.newest, input);
        events.iter().for_each(|event| sink.event(self.newest, event));
        if configured || !events.is_empty() {
            self.publishing.soon();
        } else {
            self.publishing.eventually();
        }
    }
}

fn publish(state: &mut State, clock: Clock) -> Published {
    let made = std::time::Instant::now();
    Published { snapshot: state.snapshot(clock.now()), wall: clock.wall(), made }
}

/// When the next snapshot is due. A snapshot costs time for every task, so changes that come in quick succession share one.
struct Publishing {
    /// Something changed since the newest snapshot.
    wanted: bool,
    due: Instant,
    newest: Instant,
    /// What the newest snapshot cost.
    cost: Duration,
}

impl Publishing {
    fn new() -> Publishing {
        let now = Instant::now();
        Publishing { wanted: false, due: now, newest: now, cost: Duration::ZERO }
    }

    fn at_once(&mut self) {
        self.want(self.newest);
    }

    fn soon(&mut self) {
        self.want(self.newest + COALESCE);
    }

    fn eventually(&mut self) {
        self.want(self.newest + COALESCE.max(self.cost * SNAPSHOT_SHARE).min(TICK));
    }

    fn want(&mut self, due: Instant) {
        self.due = if self.wanted { self.due.min(due) } else { due };
        self.wanted = true;
    }

    fn is_due(&self) -> bool {
        self.wanted && self.due <= Instant::now()
    }

    fn done(&mut self, before: Instant) {
        let now = Instant::now();
        *self = Publishing { wanted: false, due: now, newest: now, cost: now - before };
    }
}

/// In tests of a stuck engine: stands still as long as the file named by `LOCKWATCH_FAULT=engine-stall:<path>` exists. A
/// release has no such thing.
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
    use lockwatch_model::spec::RedisSpec;

    /// Starts an engine; gives its inputs, its snapshots and itself.
    fn start() -> (mpsc::Sender<Input>, watch::Receiver<Arc<Published>>, tokio::task::JoinHandle<()>) {
        let (sender, inputs) = mpsc::channel(INPUTS);
        let (engine, snapshots) = Engine::new(Clock::start(), WatchSpec::default());
        (sender, snapshots, tokio::spawn(engine.run(inputs, ())))
    }

    #[tokio::test]
    async fn snapshots_come_without_any_input_and_are_coalesced() {
        let (inputs, mut snapshots, engine) = start();
        let began = Instant::now();
        let mut count = 0;
        let feeding = tokio::spawn(async move {
            while began.elapsed() < Duration::from_millis(1_500) {
                inputs.send(Input::Tick).await.unwrap();
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            inputs
        });
        while began.elapsed() < Duration::from_millis(1_400) {
            snapshots.changed().await.unwrap();
            count += 1;
        }
        assert!((5..=80).contains(&count), "{count} snapshots in 1.4 s of constant change");
        let inputs = feeding.await.unwrap();
        snapshots.borrow_and_update();
        for _ in 0..2 {
            let changed = tokio::time::timeout(TICK * 3, snapshots.changed()).await;
            changed.expect("a snapshot a second without any input").unwrap();
        }
        drop(inputs);
        engine.await.unwrap();
    }

    #[tokio::test]
    async fn the_first_snapshot_has_what_is_configured() {
        let redis = RedisSpec {
            name: "main".into(),
            kind: lockwatch_model::spec::RedisKind::Standalone,
            addresses: vec!["127.0.0.1:6379".into()],
            db: 0,
            interval_ms: 1_000,
            timeout_ms: 3_000,
            assume_master: false,
        };
        let spec = WatchSpec { redises: vec![redis], ..WatchSpec::default() };
        let (_engine, snapshots) = Engine::new(Clock::start(), spec);
        assert_eq!(snapshots.borrow().snapshot.redises.len(), 1);
    }

    #[tokio::test]
    async fn a_configuration_shows_soon() {
        let (inputs, mut snapshots, _engine) = start();
        snapshots.changed().await.unwrap();
        let before = Instant::now();
        inputs.send(Input::Config(Arc::new(WatchSpec::default()))).await.unwrap();
        snapshots.changed().await.unwrap();
        assert!(before.elapsed() < Duration::from_millis(500));
    }
}
