//! Listens to one server while that is wanted and possible, and reconnects when the connection
//! breaks.

use std::sync::Arc;
use std::time::Duration;

use lockwatch_judge::input::WakeUpState;
use lockwatch_judge::reading::Unknown;
use lockwatch_judge::time::Mono;
use lockwatch_watch::redis::wake_ups::{Bucket, changes_per_s};
use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};

use super::Filter;
use super::inbox::Inbox;
use crate::clock::Clock;
use crate::config::Endpoint;
use crate::redis::{Failure, Push, Tracking};
use crate::sampler::pace::Pace;

/// How often the server is pinged. It announces nothing while nothing changes, and nothing when it
/// is gone.
const PING_EVERY: Duration = Duration::from_secs(1);
/// How long to wait before a server that refuses is asked again: somebody may have granted the
/// permission.
const REFUSED_AGAIN: Duration = Duration::from_secs(600);
/// Upper limit of the size of one announcement in bytes, unless its key is longer than any watched
/// one.
const CHANGE_BYTES: usize = 1_024;
/// Limits on the announcements that are read: this many at once, and [`TAKEN_PER_S`] more each
/// second. At a higher rate, data is left in the socket until [`TAKEN_TOGETHER`] more are allowed,
/// a tenth of a second. Then announcements arrive in batches, and a batch costs as much as many
/// reads.
const TAKEN_AT_ONCE: u32 = 16;
const TAKEN_PER_S: u64 = 50;
const TAKEN_TOGETHER: u32 = 5;
/// How many seconds announcements may cost more than polling: many workers may start at once.
const BURST_S: u32 = 5;
/// How long to wait after a server announced too many changes.
const FLOODED_AGAIN: Duration = Duration::from_secs(60);
/// The cost of "everything may have changed", as a number of tasks that counts like one change.
const TASKS_PER_CHANGE: usize = 100;

/// Whether to listen, and for which keys.
#[derive(Clone, Debug)]
pub(super) struct Gate {
    /// Whether the server answers reads, and is believed.
    pub(super) is_up: bool,
    pub(super) filter: Arc<Filter>,
}

impl PartialEq for Gate {
    fn eq(&self, other: &Gate) -> bool {
        self.is_up == other.is_up && Arc::ptr_eq(&self.filter, &other.filter)
    }
}

/// Why listening ended.
enum End {
    /// The wake-ups were turned off.
    Over,
    /// Listen again, at once or when the gate opens.
    Changed,
    Failed(Failure),
    /// The server announced more changes than this many each second.
    Flooded(u64),
}

/// The newest state that was logged.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Said {
    Nothing,
    On,
    Off(Unknown),
}

/// Listens until the wake-ups are turned off. Announcements go to `inbox`.
pub(super) async fn listen(
    endpoint: Endpoint,
    mut gates: watch::Receiver<Gate>,
    inbox: Arc<Inbox>,
    clock: Clock,
) {
    let mut pace = Pace::default();
    let mut said = Said::Nothing;
    let mut changes_left = Bucket::full(u32::MAX);
    loop {
        let Ok(gate) = gates.wait_for(|gate| gate.is_up).await.map(|gate| gate.clone()) else {
            return;
        };
        // The limit holds however often the reading connection comes and goes.
        sleep_until(clock.instant(pace.next_dial(clock.now(), 0.0))).await;
        pace.dialled(clock.now());
        let started = tokio::select! {
            started = Tracking::start(&endpoint, &gate.filter.prefixes) => started,
            changed = closed(&mut gates) => match changed {
                Ok(()) => continue,
                Err(_) => return,
            },
        };
        let end = match started {
            Ok(tracking) => {
                pace.succeeded();
                if said != Said::On {
                    let prefixes = gate.filter.prefixes.len();
                    tracing::info!(node = %endpoint.at, prefixes, "the server tells of changes");
                    said = Said::On;
                }
                let now = gates.borrow_and_update().clone();
                if now.filter.prefixes == gate.filter.prefixes {
                    inbox.change(|contents| contents.refilter(&now.filter));
                    inbox.stands(WakeUpState::On);
                    follow(
                        tracking,
                        now.filter,
                        &endpoint,
                        &mut gates,
                        &inbox,
                        &mut changes_left,
                        clock,
                    )
                    .await
                } else {
                    End::Changed
                }
            }
            Err(failure) => End::Failed(failure),
        };
        // A server that refuses is asked again at once when the reading connection is made again:
        // it may be another server by now.
        let (again, waits_for_gate) = match end {
            End::Over => return,
            End::Changed => {
                inbox.stands(WakeUpState::Connecting);
                continue;
            }
            End::Flooded(limit) => {
                tracing::warn!(node = %endpoint.at, limit, pause = ?FLOODED_AGAIN, "the server \
                    tells of so many changes that polling costs less");
                said = Said::Nothing;
                inbox.stands(WakeUpState::Flooded);
                (Instant::now() + FLOODED_AGAIN, false)
            }
            End::Failed(failure) => {
                let refused = is_refusal(failure.why);
                if said != Said::Off(failure.why)
                    && (refused || said != Said::On || pace.in_vain() > 0)
                {
                    let remedy = remedy(failure.why);
                    tracing::warn!(node = %endpoint.at, %failure, remedy, "the server does not \
                        tell of changes: polling goes on");
                    said = Said::Off(failure.why);
                }
                inbox.stands(if refused { WakeUpState::Refused } else { WakeUpState::Lost });
                let again = match refused {
                    true => Instant::now() + REFUSED_AGAIN,
                    false => clock.instant(pace.next_dial(clock.now(), fastrand::f64())),
                };
                (again, refused)
            }
        };
        tokio::select! {
            () = sleep_until(again) => {}
            _changed_or_over = gates.changed(), if waits_for_gate => {}
        }
    }
}

/// Reads announcements until the connection ends.
async fn follow(
    mut tracking: Tracking,
    mut filter: Arc<Filter>,
    endpoint: &Endpoint,
    gates: &mut watch::Receiver<Gate>,
    inbox: &Inbox,
    changes_left: &mut Bucket,
    clock: Clock,
) -> End {
    let mut pings = interval(PING_EVERY);
    pings.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut asked: Option<Mono> = None;
    let mut pace = Bucket::full(TAKEN_AT_ONCE);
    loop {
        let limit = changes_per_s(filter.tasks, filter.interval_ms);
        let next_take = clock.instant(pace.ready_at(TAKEN_TOGETHER, TAKEN_PER_S, clock.now()));
        tokio::select! {
            told = ready(&mut tracking, next_take) => {
                let bytes = match told {
                    Ok(bytes) => bytes,
                    Err(failure) => return End::Failed(failure),
                };
                let sweep = 1 + u32::try_from(filter.tasks / TASKS_PER_CHANGE).unwrap_or(u32::MAX);
                let mut changes = 0_u32;
                let taken = inbox.change(|contents| tracking.take(|told| match told {
                    Push::Changed(key) => {
                        changes += 1;
                        contents.changed(key);
                    }
                    Push::AllChanged => {
                        changes = changes.saturating_add(sweep);
                        contents.all_changed();
                    }
                    Push::Alive => asked = None,
                }));
                match taken {
                    Ok(()) => {}
                    Err(failure) if failure.why == Unknown::TooLarge => return End::Flooded(limit),
                    Err(failure) => return End::Failed(failure),
                }
                pace.take(changes.max(1), TAKEN_PER_S, TAKEN_AT_ONCE, clock.now());
                let burst = u32::try_from(limit).unwrap_or(u32::MAX).saturating_mul(BURST_S);
                if !changes_left.take(changes.max(burden(bytes)), limit, burst, clock.now()) {
                    return End::Flooded(limit);
                }
            }
            _ = pings.tick() => {
                let now = clock.now();
                match asked {
                    Some(since) if now.since_ms(since) > crate::config::ms(endpoint.timeout) => {
                        let why = format!("no sign of life within {:?}", endpoint.timeout);
                        return End::Failed(Failure { why: Unknown::Timeout, detail: why });
                    }
                    Some(_) => {}
                    None => {
                        asked = Some(now);
                        if let Err(failure) = tracking.ping().await {
                            return End::Failed(failure);
                        }
                    }
                }
            }
            changed = gates.changed() => {
                if changed.is_err() {
                    return End::Over;
                }
                let gate = gates.borrow_and_update().clone();
                if !gate.is_up || gate.filter.prefixes != filter.prefixes {
                    return End::Changed;
                }
                filter = gate.filter;
                inbox.change(|contents| contents.refilter(&filter));
            }
        }
    }
}

/// Waits for data, and at least until `earliest`.
async fn ready(tracking: &mut Tracking, earliest: Instant) -> Result<usize, Failure> {
    // A timer that has expired already may still take a millisecond.
    if earliest > Instant::now() {
        sleep_until(earliest).await;
    }
    tracking.ready().await
}

/// The cost of received data, as a number of changes by its size: data costs time even if it
/// announces no change.
fn burden(bytes: usize) -> u32 {
    u32::try_from(bytes.div_ceil(CHANGE_BYTES)).unwrap_or(u32::MAX)
}

/// Returns when the gate closes, or an error when the wake-ups are turned off.
async fn closed(gates: &mut watch::Receiver<Gate>) -> Result<(), watch::error::RecvError> {
    gates.wait_for(|gate| !gate.is_up).await.map(|_| ())
}

/// Whether the server could answer, but refuses to.
fn is_refusal(why: Unknown) -> bool {
    matches!(why, Unknown::NoPermission | Unknown::ServerError | Unknown::Protocol | Unknown::Auth)
}

/// Advice for the log.
fn remedy(why: Unknown) -> &'static str {
    match why {
        Unknown::NoPermission => {
            "give the user the ACL line that `lockwatch acl` prints, or set `wake_ups: false` for \
             this redis"
        }
        Unknown::ServerError | Unknown::Protocol => {
            "wake-ups need Redis 6.0 or later and no proxy that refuses RESP3; else set \
             `wake_ups: false` for this redis"
        }
        other => lockwatch_watch::redis::remedy(other),
    }
}
