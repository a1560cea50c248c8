//! Traces of the commands that a watcher sends about a few tasks, and of the replies, to explain a
//! verdict.
//!
//! Nothing is kept of a task unless a client waits for its trace. The client arms the task on the
//! [`Traces`]; the watcher, when it reads that task anyway, gives out the commands and their replies. No
//! command is ever sent because of a trace, and while no task is armed a batch costs one atomic
//! load. Traces are redacted before they get here: see `trace/redact`.

mod names;
mod nodes;
mod reading;
mod redact;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lockwatch_judge::input::Role;
use lockwatch_judge::reading::Unknown;
use lockwatch_judge::spec::TaskSpec;
use lockwatch_judge::time::{Mono, ServerTime};
use lockwatch_watch::redis::driver as raw;
pub use lockwatch_watch::redis::driver::ReadReason;
use lockwatch_watch::zookeeper::driver as nodes_driver;
use tokio::sync::watch;

pub use reading::{Fact, decoded};
pub(crate) use reading::{holder_name, none_or};
pub use redact::{Said, said};

/// Maximum number of armed tasks, which bounds memory and work.
const ARMED_MAX: usize = 64;
/// Maximum number of exchanges kept for one task; the oldest are dropped first.
const KEPT_MAX: usize = 16;

/// The part of a batch about one task: what a server was asked, and what it answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exchange {
    /// The server's address, `host:port`.
    pub node: Arc<str>,
    /// Why the server was asked.
    pub asked: ReadReason,
    /// The round of the reading, from 1.
    pub round: u8,
    /// When the batch was sent.
    pub sent: Mono,
    /// Time until the answer, in milliseconds.
    pub took_ms: u64,
    /// The commands about this task with their replies, without secrets.
    pub said: Vec<Said>,
    /// The standing of an accepted batch, or why it was rejected.
    pub outcome: Result<Acceptance, Unknown>,
}

/// The standing of an accepted batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Acceptance {
    /// What the server says of itself; `None`: servers of this kind say nothing.
    pub attested: Option<Attested>,
    /// The decoded reading in words; `None`: another round follows.
    pub reading: Option<Vec<Fact>>,
}

/// What a server says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attested {
    /// The role that the server reported after its answers.
    pub role: Role,
    /// Whether the server reported the role itself.
    pub role_verified: bool,
    /// The server's clock before the first answer.
    pub clock: ServerTime,
}

impl Exchange {
    /// Whether this is the last exchange of its reading, successful or not.
    pub fn is_last(&self) -> bool {
        self.outcome.as_ref().map_or(true, |worth| worth.reading.is_some())
    }
}

/// The exchange in words, without secrets.
pub(crate) fn exchange(spec: &TaskSpec, raw: raw::Exchange) -> Exchange {
    let raw::Exchange { node, asked, round, sent, took_ms, said: pairs, outcome, .. } = raw;
    let pairs = pairs.iter();
    let said = pairs.map(|(ask, reply)| said(spec, ask, reply.as_ref())).collect();
    let outcome = outcome.map(|worth| Acceptance {
        attested: Some(Attested {
            role: worth.role,
            role_verified: worth.role_verified,
            clock: worth.clock,
        }),
        reading: worth.reading.map(|reading| decoded(spec, &reading, asked)),
    });
    Exchange { node, asked, round, sent, took_ms, said, outcome }
}

/// The exchange with a server of an ensemble in words.
pub(crate) fn of_nodes(spec: &TaskSpec, raw: nodes_driver::Exchange) -> Exchange {
    let asked = ReadReason::Decides;
    let outcome = raw.reading.map(|reading| Acceptance {
        attested: None,
        reading: Some(decoded(spec, &reading, asked)),
    });
    let said = raw.said.iter().map(|(ask, answer)| nodes::said(ask, answer.as_ref()));
    Exchange {
        node: raw.node,
        asked,
        round: 1,
        sent: raw.sent,
        took_ms: raw.took_ms,
        said: said.collect(),
        outcome,
    }
}

/// The armed tasks and their exchanges. Clones share them.
#[derive(Clone, Default)]
pub struct Traces(Arc<Shared>);

#[derive(Default)]
struct Shared {
    /// Number of armed tasks; lets the driver skip the lock while there are none.
    armed: AtomicUsize,
    orders: Mutex<BTreeMap<Arc<str>, Order>>,
}

/// The trace of an armed task.
struct Order {
    /// Number of tickets for it.
    waiting: usize,
    kept: VecDeque<Arc<Exchange>>,
    /// Number of exchanges so far, including dropped ones.
    count: watch::Sender<u64>,
}

impl Traces {
    /// Arms a task for the lifetime of the ticket; several tickets may share a task. `None`: too
    /// many tasks are armed.
    pub fn arm(&self, task: &str) -> Option<Ticket> {
        let mut orders = self.orders();
        if !orders.contains_key(task) && orders.len() >= ARMED_MAX {
            return None;
        }
        let task: Arc<str> = task.into();
        let order = orders.entry(Arc::clone(&task)).or_insert_with(|| Order {
            waiting: 0,
            kept: VecDeque::new(),
            count: watch::Sender::new(0),
        });
        order.waiting += 1;
        let news = order.count.subscribe();
        let from = *news.borrow();
        self.0.armed.store(orders.len(), Ordering::Relaxed);
        Some(Ticket { traces: self.clone(), task, from, news })
    }

    /// The armed tasks; `None` if there are none, which is the usual case.
    pub fn wanted(&self) -> Option<BTreeSet<Arc<str>>> {
        if self.0.armed.load(Ordering::Relaxed) == 0 {
            return None;
        }
        Some(self.orders().keys().cloned().collect())
    }

    /// Adds an exchange about a task; dropped if the task is not armed.
    pub fn put(&self, task: &str, exchange: Exchange) {
        if let Some(order) = self.orders().get_mut(task) {
            if order.kept.len() == KEPT_MAX {
                order.kept.pop_front();
            }
            order.kept.push_back(Arc::new(exchange));
            order.count.send_modify(|count| *count += 1);
        }
    }

    /// The map is consistent after every change, so a poisoned lock may be used.
    fn orders(&self) -> MutexGuard<'_, BTreeMap<Arc<str>, Order>> {
        self.0.orders.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Traces {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Traces").field("armed", &self.0.armed).finish_non_exhaustive()
    }
}

/// Keeps a task armed. When the last ticket of a task is dropped, its exchanges are dropped too.
#[derive(Debug)]
pub struct Ticket {
    traces: Traces,
    task: Arc<str>,
    /// Number of exchanges before this ticket.
    from: u64,
    news: watch::Receiver<u64>,
}

impl Ticket {
    /// The exchanges since this ticket armed the task, oldest first.
    pub fn exchanges(&self) -> Vec<Arc<Exchange>> {
        let orders = self.traces.orders();
        let Some(order) = orders.get(&self.task) else { return Vec::new() };
        let new = order.count.borrow().saturating_sub(self.from);
        let old = order.kept.len().saturating_sub(usize::try_from(new).unwrap_or(usize::MAX));
        order.kept.iter().skip(old).cloned().collect()
    }

    /// Waits for another exchange.
    pub async fn changed(&mut self) {
        // Never fails: the sender lives as long as this ticket.
        let _always = self.news.changed().await;
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let mut orders = self.traces.orders();
        if let Some(order) = orders.get_mut(&self.task) {
            order.waiting -= 1;
            if order.waiting == 0 {
                orders.remove(&self.task);
            }
        }
        self.traces.0.armed.store(orders.len(), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exchange(round: u8) -> Exchange {
        Exchange {
            node: "10.0.0.5:6379".into(),
            asked: ReadReason::Decides,
            round,
            sent: Mono::at(1),
            took_ms: 1,
            said: Vec::new(),
            outcome: Err(Unknown::Timeout),
        }
    }

    fn rounds(ticket: &Ticket) -> Vec<u8> {
        ticket.exchanges().iter().map(|exchange| exchange.round).collect()
    }

    #[test]
    fn nothing_is_kept_before_and_after_somebody_waits() {
        let traces = Traces::default();
        assert_eq!(traces.wanted(), None);
        traces.put("outbound", exchange(1));
        let ticket = traces.arm("outbound").unwrap();
        assert_eq!(
            traces.wanted().unwrap().into_iter().collect::<Vec<_>>(),
            [Arc::from("outbound")]
        );
        assert!(rounds(&ticket).is_empty());
        traces.put("outbound", exchange(2));
        traces.put("inbound", exchange(3));
        assert_eq!(rounds(&ticket), [2]);
        drop(ticket);
        assert_eq!(traces.wanted(), None);
        assert!(
            rounds(&traces.arm("outbound").unwrap()).is_empty(),
            "what the last one saw is gone"
        );
    }

    #[test]
    fn those_who_wait_for_one_task_share_and_each_sees_what_comes_after_it_came() {
        let traces = Traces::default();
        let first = traces.arm("outbound").unwrap();
        traces.put("outbound", exchange(1));
        let second = traces.arm("outbound").unwrap();
        traces.put("outbound", exchange(2));
        assert_eq!((rounds(&first), rounds(&second)), (vec![1, 2], vec![2]));
        drop(first);
        traces.put("outbound", exchange(3));
        assert_eq!(rounds(&second), [2, 3]);
    }

    #[test]
    fn armed_tasks_and_what_is_kept_of_them_are_bounded() {
        let traces = Traces::default();
        let mut tickets: Vec<Ticket> =
            (0..ARMED_MAX).map(|task| traces.arm(&task.to_string()).unwrap()).collect();
        assert!(traces.arm("one more").is_none());
        let shared = traces.arm("0");
        assert!(shared.is_some(), "a task that is armed already costs nothing more");
        tickets.pop();
        let free = traces.arm("one more");
        assert!(free.is_some());
        (1..=100).for_each(|round| traces.put("0", exchange(round)));
        assert_eq!(
            rounds(&tickets[0]),
            (101 - u8::try_from(KEPT_MAX).unwrap()..=100).collect::<Vec<_>>()
        );
    }

    #[tokio::test]
    async fn a_change_wakes_everybody_who_waits() {
        let traces = Traces::default();
        let (mut first, mut second) =
            (traces.arm("outbound").unwrap(), traces.arm("outbound").unwrap());
        traces.put("outbound", exchange(1));
        first.changed().await;
        second.changed().await;
        let again =
            tokio::time::timeout(std::time::Duration::from_millis(20), first.changed()).await;
        assert!(again.is_err(), "only once");
    }
}
