//! Waits for the commands and replies about a task.

use std::sync::Arc;
use std::time::Duration;

use lockwatch_judge::snapshot::StoreView;
use lockwatch_judge::time::Mono;
use tokio::time::{Instant, timeout_at};

use crate::trace::{Exchange, ReadReason, Ticket};

/// Maximum wait, whatever the interval.
pub(super) const PATIENCE_MAX: Duration = Duration::from_secs(5);
/// Time for a reading in addition to two intervals, in milliseconds.
const SLACK_MS: u64 = 500;
/// Maximum wait for servers that do not decide, after the lock was read.
const LINGER_MAX: Duration = Duration::from_secs(1);

/// The commands and replies about a task while a caller waited.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    pub(super) waited: Duration,
    /// Whether too many other callers were waiting.
    pub(super) refused: bool,
    pub(super) exchanges: Vec<Arc<Exchange>>,
}

/// How long to wait for a reading of a task: two intervals and [`SLACK_MS`], at most
/// [`PATIENCE_MAX`].
pub(super) fn patience(redis: Option<&StoreView>) -> Duration {
    let interval_ms = redis.map_or(0, |redis| redis.spec.interval_ms);
    Duration::from_millis(interval_ms.saturating_mul(2).saturating_add(SLACK_MS)).min(PATIENCE_MAX)
}

impl Trace {
    /// Waits until the lock was read, and at most 1 s longer if there are servers that
    /// do not decide.
    pub async fn gather(ticket: Option<Ticket>, redis: Option<&StoreView>) -> Trace {
        let began = Instant::now();
        let Some(mut ticket) = ticket else { return Trace { refused: true, ..Trace::default() } };
        let linger = match redis.map(|redis| &redis.spec).filter(|spec| !spec.authority.alone) {
            None => Duration::ZERO,
            Some(spec) => Duration::from_millis(spec.interval_ms).min(LINGER_MAX),
        };
        let mut until = began + patience(redis);
        let mut is_read = false;
        loop {
            let exchanges = ticket.exchanges();
            if !is_read
                && exchanges
                    .iter()
                    .any(|exchange| exchange.asked == ReadReason::Decides && exchange.is_last())
            {
                is_read = true;
                until = until.min(Instant::now() + linger);
            }
            let over = is_read && linger.is_zero();
            if over || timeout_at(until, ticket.changed()).await.is_err() {
                return Trace {
                    waited: began.elapsed(),
                    refused: false,
                    exchanges: ticket.exchanges(),
                };
            }
        }
    }

    /// The exchanges so far.
    pub(crate) fn until_now(ticket: Option<Ticket>) -> Trace {
        Trace {
            exchanges: ticket.map(|ticket| ticket.exchanges()).unwrap_or_default(),
            ..Trace::default()
        }
    }

    /// The newest exchange whose reading has this part.
    pub(super) fn newest_with(&self, of: &str) -> Option<&Exchange> {
        let has = |exchange: &&Arc<Exchange>| {
            exchange.asked != ReadReason::Witness
                && exchange
                    .outcome
                    .as_ref()
                    .is_ok_and(|worth| worth.reading.iter().flatten().any(|part| part.of == of))
        };
        self.exchanges.iter().rev().find(has).map(|exchange| &**exchange)
    }

    /// The text of a part of the newest reading.
    pub(super) fn says(&self, of: &str) -> Option<String> {
        let worth = self.newest_with(of)?.outcome.as_ref().ok()?;
        worth.reading.iter().flatten().find(|part| part.of == of).map(|part| part.says.clone())
    }

    /// The newest instant at which the lock was requested from a deciding server.
    pub fn newest_sent(&self) -> Option<Mono> {
        let decides = self
            .exchanges
            .iter()
            .filter(|exchange| exchange.asked == ReadReason::Decides && exchange.is_last());
        decides.map(|exchange| exchange.sent).max()
    }
}
