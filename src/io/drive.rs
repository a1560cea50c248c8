//! Drives a watcher: carries out its actions over real connections, and reports to it what happened.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use lockwatch_judge::input::Input as Evidence;
use lockwatch_judge::spec::TaskIndex;
use lockwatch_judge::time::Mono;
use lockwatch_watch::redis::driver::{
    self, Action, Dial, Event, Exchange, Failure, Input, LinkId, Manner, Now,
};
use lockwatch_watch::redis::reply::{Command, Reply};
use lockwatch_watch::redis::schedule::Sizes;
use lockwatch_watch::redis::tasks;
use lockwatch_watch::redis::watcher::Watcher;
use tokio::sync::{mpsc, watch};
use tokio::time::sleep_until;
use tokio_util::task::AbortOnDropHandle;

use super::assign::Assignment;
use super::connection::Wire;
use super::{connect, listen, log, renewal};
use crate::clock::Clock;
use crate::config::{Login, Tls, TlsConfig};
use crate::trace::{self, Traces};

impl Assignment {
    fn for_watcher(&self) -> Arc<tasks::Assignment> {
        Arc::new(tasks::Assignment {
            epoch: self.epoch,
            index: self.index,
            store: self.config.store(),
            tasks: Arc::new(self.tasks.clone()),
            sizes: Sizes::default(),
        })
    }

    /// What connections are made with, apart from addresses.
    fn credentials(&self) -> (&Login, &Login, Option<&TlsConfig>) {
        (&self.config.login, &self.config.sentinel_login, self.config.tls.as_ref())
    }
}

/// Watches one store until `assignments` is closed or the engine is gone. A new assignment keeps
/// the connections if servers, logins and TLS are unchanged. Exchanges about tasks that are armed
/// on `traces` are put there.
pub async fn run(
    mut assignments: watch::Receiver<Arc<Assignment>>,
    inputs: mpsc::Sender<Evidence>,
    clock: Clock,
    traces: Traces,
) {
    let assignment = Arc::clone(&assignments.borrow_and_update());
    let (events, mut happened) = mpsc::unbounded_channel();
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
        while let Ok((link, event)) = happened.try_recv() {
            driver.happened(link, event);
        }
    }
}

/// The engine's channel is closed.
struct Gone;

struct Driver {
    watcher: Watcher,
    assignment: Arc<Assignment>,
    links: BTreeMap<LinkId, Link>,
    events: mpsc::UnboundedSender<(LinkId, Event)>,
    traced: Arc<BTreeSet<TaskIndex>>,
    inputs: mpsc::Sender<Evidence>,
    clock: Clock,
    traces: Traces,
}

/// A connection, or one that is being made.
struct Link {
    orders: mpsc::UnboundedSender<Order>,
    _task: AbortOnDropHandle<()>,
}

enum Order {
    Send(Vec<Command>),
    Hear,
}

impl Driver {
    /// Carries out all actions of the watcher.
    async fn act(&mut self) -> Result<(), Gone> {
        self.follow_traces();
        while let Some(action) = self.watcher.poll(now(self.clock)) {
            match action {
                Action::Dial(dial) => self.dial(dial),
                Action::Send { link, commands } => self.order(link, Order::Send(commands)),
                Action::Hear(link) => self.order(link, Order::Hear),
                Action::Close(link) => drop(self.links.remove(&link)),
                Action::Evidence(input) => self.inputs.send(input).await.map_err(|_| Gone)?,
                Action::Exchange(exchange) => self.show(*exchange),
                Action::Note(note) => log::write(&self.assignment.config.name, note),
            }
        }
        Ok(())
    }

    fn dial(&mut self, dial: Dial) {
        let config = &self.assignment.config;
        let login = match dial.login {
            driver::Login::Store => &config.login,
            driver::Login::Sentinel => &config.sentinel_login,
        };
        let (orders, ordered) = mpsc::unbounded_channel();
        let (id, events, clock) = (dial.link, self.events.clone(), self.clock);
        let credentials = (login.clone(), config.tls_of(&dial.to));
        let task = tokio::spawn(be(dial, credentials, ordered, events, clock));
        self.links.insert(id, Link { orders, _task: AbortOnDropHandle::new(task) });
    }

    fn order(&self, link: LinkId, order: Order) {
        if let Some(link) = self.links.get(&link) {
            // If the connection has ended, the watcher is about to learn that.
            let _ended = link.orders.send(order);
        }
    }

    fn happened(&mut self, link: LinkId, event: Event) {
        if self.links.contains_key(&link) {
            self.watcher.handle(now(self.clock), Input::Link(link, event));
        }
    }

    fn reassign(&mut self, assignment: Arc<Assignment>) {
        let same_logins = self.assignment.credentials() == assignment.credentials();
        let input = Input::Assigned { assignment: assignment.for_watcher(), same_logins };
        self.watcher.handle(now(self.clock), input);
        self.assignment = assignment;
        self.traced = Arc::default();
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
            self.traces.put(&spec.name, trace::exchange(spec, exchange));
        }
    }
}

fn now(clock: Clock) -> Now {
    let (mono, wall) = clock.both();
    Now { mono, wall }
}

/// The life of a connection: the dial, and then what it is ordered to do.
async fn be(
    dial: Dial,
    (login, tls): (Login, Option<Tls>),
    orders: mpsc::UnboundedReceiver<Order>,
    events: mpsc::UnboundedSender<(LinkId, Event)>,
    clock: Clock,
) {
    let id = dial.link;
    // The driver is gone with everything it owns.
    let emit = |event| drop(events.send((id, event)));
    let failure = match dial.manner {
        Manner::Talk => match connect::open(&dial, &login, tls.as_ref(), clock).await {
            Ok((dialled, wire)) => {
                emit(Event::Dialled(Box::new(dialled)));
                let Some(wire) = wire else { return };
                tokio::select! {
                    biased;
                    failure = talk(&wire, orders, emit, clock) => failure,
                    failure = renewal::keep_alive(&wire, &login, &dial.to) => failure,
                }
            }
            Err(failure) => failure,
        },
        Manner::Listen => match listen::open(&dial, &login, tls.as_ref(), clock).await {
            Ok((dialled, listening)) => {
                emit(Event::Dialled(Box::new(dialled)));
                let Some(listening) = listening else { return };
                tokio::select! {
                    failure = hear(listening, orders, emit) => failure,
                    failure = renewal::is_due(&login) => failure,
                }
            }
            Err(failure) => failure,
        },
    };
    emit(Event::Failed(failure));
}

/// The replies to a batch, and when they came.
type Landing = (Mono, Result<Vec<Reply>, Failure>);

/// A batch in flight; its replies are kept until those of all earlier ones have come.
enum Flight {
    Flying(Pin<Box<dyn Future<Output = Landing> + Send>>),
    Landed(Landing),
}

/// Sends what is ordered, and reports the replies in order, until a batch fails.
async fn talk(
    wire: &Wire,
    mut orders: mpsc::UnboundedReceiver<Order>,
    emit: impl Fn(Event),
    clock: Clock,
) -> Failure {
    let mut flights: VecDeque<Flight> = VecDeque::new();
    loop {
        tokio::select! {
            biased;
            (received, replies) = landed(&mut flights) => match replies {
                Ok(replies) => emit(Event::Replied { received, replies }),
                Err(failure) => return failure,
            },
            order = orders.recv() => match order {
                Some(Order::Send(commands)) => {
                    let replies = wire.ask(&commands);
                    let flight = async move { let replies = replies.await; (clock.now(), replies) };
                    flights.push_back(Flight::Flying(Box::pin(flight)));
                }
                Some(Order::Hear) => {}
                // The driver drops the whole task with it.
                None => std::future::pending().await,
            },
        }
    }
}

/// Waits for the oldest batch in flight to land. All of them go on meanwhile, in their order.
async fn landed(flights: &mut VecDeque<Flight>) -> Landing {
    poll_fn(|context| {
        for flight in flights.iter_mut() {
            if let Flight::Flying(flying) = flight
                && let Poll::Ready(landing) = flying.as_mut().poll(context)
            {
                *flight = Flight::Landed(landing);
            }
        }
        match flights.pop_front() {
            Some(Flight::Landed(landing)) => Poll::Ready(landing),
            Some(flying) => {
                flights.push_front(flying);
                Poll::Pending
            }
            None => Poll::Pending,
        }
    })
    .await
}

/// Sends and hears what is ordered, until the connection breaks.
async fn hear(
    mut listening: listen::Listening,
    mut orders: mpsc::UnboundedReceiver<Order>,
    emit: impl Fn(Event),
) -> Failure {
    let mut is_heard = false;
    loop {
        let done = tokio::select! {
            order = orders.recv() => match order {
                Some(Order::Send(commands)) => listening.send(&commands).await,
                Some(Order::Hear) => {
                    is_heard = true;
                    Ok(())
                }
                None => std::future::pending().await,
            },
            bytes = listening.fill(), if is_heard => bytes.and_then(|bytes| {
                is_heard = false;
                emit(Event::Pushed { bytes, pushes: listening.take()? });
                Ok(())
            }),
        };
        if let Err(failure) = done {
            return failure;
        }
    }
}
