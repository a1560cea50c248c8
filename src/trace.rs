//! What the sampler and Redis said to each other about a few tasks, for whoever wants a verdict
//! explained.
//!
//! Nothing is kept of a task unless somebody waits for it. Who does arms it on the [`Traces`]; the
//! sampler, when it reads that task anyway, puts the commands and their replies there. No command
//! is ever sent because of it, and while nobody waits it costs one look at a number per batch. What
//! arrives here is redacted already: see `trace/redact`.

mod reading;
mod redact;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lockwatch_model::input::Role;
use lockwatch_model::reading::Unknown;
use lockwatch_model::time::{Mono, ServerTime};
use tokio::sync::watch;

pub use reading::{Fact, decoded};
pub(crate) use reading::{holder_name, none_or};
pub use redact::{Said, said};

/// Most tasks that are armed at a time.
const ARMED_MAX: usize = 64;
/// Most exchanges that are kept of a task; the oldest go first.
const KEPT_MAX: usize = 16;

/// One part of a batch: what a server was asked about one task, and what it answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exchange {
    /// The server, `host:port`.
    pub node: Arc<str>,
    /// Why it was asked.
    pub asked: Asked,
    /// Which round of the reading it is, from 1.
    pub round: u8,
    /// When the batch was sent.
    pub sent: Mono,
    /// How long the answer took.
    pub took_ms: u64,
    /// The commands about this task, each with its reply, without secrets.
    pub said: Vec<Said>,
    /// What the batch is worth, or why nothing of it was believed.
    pub outcome: Result<Worth, Unknown>,
}

/// What an accepted batch is worth.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Worth {
    /// The role that the server gave after its answers.
    pub role: Role,
    /// Whether it said so itself.
    pub role_verified: bool,
    /// Its clock before the first answer.
    pub clock: ServerTime,
    /// The reading as decoded, in words; `None`: another round follows.
    pub reading: Option<Vec<Fact>>,
}

/// Why a server was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// It decides about the lock.
    Decides,
    /// It has what lives beside the lock, in a cluster.
    Beside,
    /// It is a witness.
    Witness,
}

impl Asked {
    /// The name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Asked::Decides => "decides",
            Asked::Beside => "beside",
            Asked::Witness => "witness",
        }
    }
}

impl Exchange {
    /// Whether the reading that it belongs to is over, one way or the other.
    pub fn is_last(&self) -> bool {
        self.outcome.as_ref().map_or(true, |worth| worth.reading.is_some())
    }
}

/// Where those who wait and the samplers meet; clones share it.
#[derive(Clone, Default)]
pub struct Traces(Arc<Shared>);

#[derive(Default)]
struct Shared {
    /// How many tasks are armed.
    armed: AtomicUsize,
    orders: Mutex<BTreeMap<Arc<str>, Order>>,
}

/// What is kept of an armed task.
struct Order {
    /// How many wait for it.
    waiting: usize,
    kept: VecDeque<Arc<Exchange>>,
    /// How many exchanges there ever were.
    count: watch::Sender<u64>,
}

impl Traces {
    /// Arms a task for as long as the ticket lives, together with others who wait for it; `None`:
    /// too many tasks are armed.
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

    /// The tasks that somebody waits for; `None`: nobody does, as nearly always.
    pub fn wanted(&self) -> Option<BTreeSet<Arc<str>>> {
        if self.0.armed.load(Ordering::Relaxed) == 0 {
            return None;
        }
        Some(self.orders().keys().cloned().collect())
    }

    /// Puts down what was said about a task; dropped if nobody waits any more.
    pub fn put(&self, task: &str, exchange: Exchange) {
        if let Some(order) = self.orders().get_mut(task) {
            if order.kept.len() == KEPT_MAX {
                order.kept.pop_front();
            }
            order.kept.push_back(Arc::new(exchange));
            order.count.send_modify(|count| *count += 1);
        }
    }

    /// Each change leaves the orders whole, so a panic elsewhere is no reason to stop.
    fn orders(&self) -> MutexGuard<'_, BTreeMap<Arc<str>, Order>> {
        self.0.orders.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Traces {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Traces").field("armed", &self.0.armed).finish_non_exhaustive()
    }
}

/// Somebody waits for a task; when the last of them goes, nothing is kept of it any more.
#[derive(Debug)]
pub struct Ticket {
    traces: Traces,
    task: Arc<str>,
    /// How many exchanges there were before.
    from: u64,
    news: watch::Receiver<u64>,
}

impl Ticket {
    /// What was said since it was armed by this ticket, oldest first.
    pub fn exchanges(&self) -> Vec<Arc<Exchange>> {
        let orders = self.traces.orders();
        let Some(order) = orders.get(&self.task) else { return Vec::new() };
        let new = order.count.borrow().saturating_sub(self.from);
        let old = order.kept.len().saturating_sub(usize::try_from(new).unwrap_or(usize::MAX));
        order.kept.iter().skip(old).cloned().collect()
    }

    /// Waits until something more was said.
    pub async fn changed(&mut self) {
        // The sender lives as long as this ticket.
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
            asked: Asked::Decides,
            round,
            sent: Mono(1),
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
