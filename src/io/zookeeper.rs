//! Drives the watcher of a ZooKeeper ensemble: carries out its actions over real connections, and
//! reports to it what happened.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use lockwatch_judge::input::Input as Evidence;
use lockwatch_judge::reading::Unknown;
use lockwatch_judge::spec::TaskIndex;
use lockwatch_watch::redis::driver::{Failure, LinkId, Now};
use lockwatch_watch::zookeeper::codec::{self, FRAME_BYTES_MAX, HEADER_BYTES};
use lockwatch_watch::zookeeper::driver::{Action, Dial, Event, Exchange, Input};
use lockwatch_watch::zookeeper::store;
use lockwatch_watch::zookeeper::watcher::Watcher;
use tokio::io::{
    AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, BufReader, copy, sink,
};
use tokio::sync::{mpsc, watch};
use tokio::time::{sleep_until, timeout};
use tokio_util::task::AbortOnDropHandle;

use super::assign::Assignment;
use super::login::password;
use super::{connect, log};
use crate::clock::Clock;
use crate::config::{Login, Tls, ZooKeeperConfig};
use crate::trace::{self, Traces};

/// The longest frame that is skipped, in bytes. What claims to be longer is no frame.
const SKIPPED_BYTES_MAX: usize = 256 << 20;
/// So many events of all connections wait for the watcher. While they do, nothing is received.
const EVENTS_MAX: usize = 64;
/// How long what is sent last may take.
const CLOSES: Duration = Duration::from_secs(1);

impl Assignment<ZooKeeperConfig> {
    fn for_watcher(&self) -> Arc<store::Assignment> {
        Arc::new(store::Assignment {
            epoch: self.epoch,
            index: self.index,
            store: self.config.store(),
            tasks: Arc::new(self.tasks.clone()),
        })
    }
}

/// Watches one ensemble until `assignments` is closed or the engine is gone. A new assignment keeps
/// the session if servers, login and TLS are unchanged. Exchanges about tasks that are armed on
/// `traces` are put there.
pub(super) async fn run(
    mut assignments: watch::Receiver<Arc<Assignment<ZooKeeperConfig>>>,
    inputs: mpsc::Sender<Evidence>,
    clock: Clock,
    traces: Traces,
) {
    let assignment = Arc::clone(&assignments.borrow_and_update());
    let (events, mut happened) = mpsc::channel(EVENTS_MAX);
    let mut driver = Driver {
        watcher: Watcher::new(assignment.for_watcher(), now(clock), fastrand::u64(..)),
        assignment,
        links: BTreeMap::new(),
        events,
        traced: Arc::default(),
        inputs,
        clock,
        traces,
    };
    while driver.act().await.is_ok() {
        let wake = driver.watcher.next_wake().map(|at| clock.instant(at));
        tokio::select! {
            biased;
            changed = assignments.changed() => match changed {
                Ok(()) => driver.reassign(Arc::clone(&assignments.borrow_and_update())),
                Err(_) => return,
            },
            Some((link, event)) = happened.recv() => driver.happened(link, event),
            () = async { sleep_until(wake.unwrap_or_else(tokio::time::Instant::now)).await }, if wake.is_some() => {}
        }
        for _ in 0..EVENTS_MAX {
            let Ok((link, event)) = happened.try_recv() else { break };
            driver.happened(link, event);
        }
    }
}

/// The engine's channel is closed.
struct Gone;

struct Driver {
    watcher: Watcher,
    assignment: Arc<Assignment<ZooKeeperConfig>>,
    links: BTreeMap<LinkId, Link>,
    events: mpsc::Sender<(LinkId, Event)>,
    traced: Arc<BTreeSet<TaskIndex>>,
    inputs: mpsc::Sender<Evidence>,
    clock: Clock,
    traces: Traces,
}

/// A connection, or one that is being made. It ends when this is dropped.
struct Link {
    frames: mpsc::UnboundedSender<Vec<u8>>,
    task: AbortOnDropHandle<()>,
}

impl Driver {
    /// Carries out all actions of the watcher.
    async fn act(&mut self) -> Result<(), Gone> {
        self.follow_traces();
        while let Some(action) = self.watcher.poll(now(self.clock)) {
            match action {
                Action::Dial(dial) => self.dial(dial),
                Action::Send { link, frames } => {
                    if let Some(link) = self.links.get(&link) {
                        // If the connection has ended, the watcher is about to learn that.
                        let _ended = link.frames.send(frames);
                    }
                }
                Action::Close(link) => self.close(link),
                Action::Evidence(input) => self.inputs.send(input).await.map_err(|_| Gone)?,
                Action::Exchange(exchange) => self.show(*exchange),
                Action::Note(note) => log::write(&self.assignment.config.name, note),
            }
        }
        Ok(())
    }

    /// Hands on for which tasks exchanges are wanted.
    fn follow_traces(&mut self) {
        if let Some(traced) = self.assignment.traced(&self.traces, &self.traced) {
            self.traced = Arc::clone(&traced);
            self.watcher.handle(now(self.clock), Input::Traced(traced));
        }
    }

    fn show(&self, exchange: Exchange) {
        if let Some(spec) = self.assignment.spec_of(exchange.task) {
            self.traces.put(&spec.name, trace::of_nodes(spec, exchange));
        }
    }

    fn dial(&mut self, dial: Dial) {
        let config = &self.assignment.config;
        let (frames, ordered) = mpsc::unbounded_channel();
        let (id, events) = (dial.link, self.events.clone());
        let credentials = (config.login.clone(), config.tls_of(&dial.to));
        let task = tokio::spawn(async move {
            let failure = be(dial, credentials, ordered, &events).await;
            // If nobody listens any more, nobody minds.
            drop(events.send((id, Event::Failed(failure))).await);
        });
        self.links.insert(id, Link { frames, task: AbortOnDropHandle::new(task) });
    }

    /// Closes a connection once all is sent, or soon.
    fn close(&mut self, link: LinkId) {
        if let Some(Link { frames, task }) = self.links.remove(&link) {
            drop(frames);
            tokio::spawn(timeout(CLOSES, task));
        }
    }

    fn reassign(&mut self, assignment: Arc<Assignment<ZooKeeperConfig>>) {
        let of =
            |it: &Assignment<ZooKeeperConfig>| (it.config.login.clone(), it.config.tls.clone());
        let same_logins = of(&self.assignment) == of(&assignment);
        let input = Input::Assigned { assignment: assignment.for_watcher(), same_logins };
        self.watcher.handle(now(self.clock), input);
        self.assignment = assignment;
        self.traced = Arc::default();
    }

    fn happened(&mut self, link: LinkId, event: Event) {
        if self.links.contains_key(&link) {
            self.watcher.handle(now(self.clock), Input::Link(link, event));
        }
    }
}

/// The life of a connection: the dial, then frames both ways until it breaks.
async fn be(
    dial: Dial,
    (login, tls): (Login, Option<Tls>),
    mut ordered: mpsc::UnboundedReceiver<Vec<u8>>,
    events: &mpsc::Sender<(LinkId, Event)>,
) -> Failure {
    let link = dial.link;
    let emit = async |event| drop(events.send((link, event)).await);
    let greeting = async {
        let secret = password(login.password.as_ref()).await?;
        let limits = (dial.attempt, dial.timeout_ms);
        let stream = connect::reach_server(&dial.to, limits, tls.as_ref()).await?;
        Ok((secret, stream))
    };
    let (secret, stream) = match greeting.await {
        Ok(reached) => reached,
        Err(failure) => return failure,
    };
    let (reader, mut writer) = tokio::io::split(stream);
    let mut reader = BufReader::new(reader);
    let mut first = dial.greeting;
    if let Some(secret) = secret {
        first.extend(codec::auth("digest", secret.expose().as_bytes()));
    }
    if let Err(failure) = send(&mut writer, &first).await {
        return failure;
    }
    emit(Event::Reached).await;
    let sending = async {
        while let Some(frames) = ordered.recv().await {
            if let Err(failure) = send(&mut writer, &frames).await {
                return failure;
            }
        }
        Failure::new(Unknown::Closed, "closed")
    };
    let receiving = async {
        loop {
            match receive(&mut reader).await {
                Ok(event) => emit(event).await,
                Err(failure) => return failure,
            }
        }
    };
    tokio::select! {
        failure = sending => failure,
        failure = receiving => failure,
    }
}

pub(super) async fn send(
    writer: &mut (impl AsyncWrite + Unpin),
    frames: &[u8],
) -> Result<(), Failure> {
    let sent = async {
        writer.write_all(frames).await?;
        // TLS keeps what is written until it makes a record of it.
        writer.flush().await
    };
    sent.await.map_err(|error| Failure::new(Unknown::Closed, error))
}

/// Receives one frame. Of one that is too large, only the header is kept.
pub(super) async fn receive(reader: &mut (impl AsyncRead + Unpin)) -> Result<Event, Failure> {
    let closed = |error| Failure::new(Unknown::Closed, error);
    let length = usize::try_from(reader.read_i32().await.map_err(closed)?).ok();
    let Some(bytes) = length.filter(|length| *length <= SKIPPED_BYTES_MAX) else {
        let words = "the server does not speak ZooKeeper's protocol";
        return Err(Failure::new(Unknown::Protocol, words));
    };
    let kept = if bytes > FRAME_BYTES_MAX { HEADER_BYTES } else { bytes };
    let mut frame = Vec::new();
    // It grows with what comes: the length alone proves nothing.
    let mut read = reader.take(kept as u64).read_to_end(&mut frame).await.map_err(closed)? as u64;
    if bytes > kept {
        let mut rest = reader.take((bytes - kept) as u64);
        read += copy(&mut rest, &mut sink()).await.map_err(closed)?;
    }
    match read == bytes as u64 {
        false => Err(Failure::new(Unknown::Closed, "the server closed the connection")),
        true if bytes > kept => Ok(Event::TooLarge { header: frame, bytes }),
        true => Ok(Event::Frame(frame)),
    }
}

fn now(clock: Clock) -> Now {
    let (mono, wall) = clock.both();
    Now { mono, wall }
}
