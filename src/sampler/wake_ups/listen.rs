//! Listens to one server for as long as that is wanted and possible, and begins again when it
//! breaks.

use std::sync::Arc;
use std::time::Duration;

use lockwatch_model::input::WakeUpState;
use lockwatch_model::reading::Unknown;
use lockwatch_model::time::Mono;
use lockwatch_model::wake_ups::{Bucket, changes_per_s};
use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};

use super::Filter;
use super::inbox::Inbox;
use crate::clock::Clock;
use crate::config::Endpoint;
use crate::redis::{Failure, Push, Tracking};
use crate::sampler::pace::Pace;

/// How often the server is asked for a sign of life. It tells nothing while nothing changes, and
/// nothing when it is gone.
const PING_EVERY: Duration = Duration::from_secs(1);
/// A server that refuses is asked again so much later: somebody may have given the permission.
const REFUSED_AGAIN: Duration = Duration::from_secs(600);
/// More bytes than the telling of one change has, unless its key is longer than any of ours.
const CHANGE_BYTES: usize = 1_024;
/// So many changes are taken in at once, and so many more each second. Where they come faster, what
/// is told is left for as long as it takes until some more are allowed: for a tenth of a second.
/// Then it shares batches, which cost as much as many reads.
const TAKEN_AT_ONCE: u32 = 16;
const TAKEN_PER_S: u64 = 50;
const TAKEN_TOGETHER: u32 = 5;
/// More changes than polling costs are endured for so many seconds: everybody may start at once.
const BURST_S: u32 = 5;
/// A server that tells of too many is left alone for so long.
const FLOODED_AGAIN: Duration = Duration::from_secs(60);
/// When everything may have changed, that is so much work for us: one change more for so many
/// tasks.
const TASKS_PER_CHANGE: usize = 100;

/// Whether to listen, and for what.
#[derive(Clone, Debug)]
pub(super) struct Gate {
    /// The server answers other questions, and is believed.
    pub(super) is_up: bool,
    pub(super) filter: Arc<Filter>,
}

impl PartialEq for Gate {
    fn eq(&self, other: &Gate) -> bool {
        self.is_up == other.is_up && Arc::ptr_eq(&self.filter, &other.filter)
    }
}

/// Why it does not listen any more.
enum End {
    /// Nobody wants it any more.
    Over,
    /// It is to begin anew at once, or when the gate opens.
    Changed,
    Failed(Failure),
    /// The server told of more changes than so many each second.
    Flooded(u64),
}

/// What was last said in the log about it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Said {
    Nothing,
    On,
    Off(Unknown),
}

/// Listens until nobody wants it any more. What is told goes to `inbox`.
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
        // However often the other connection comes and goes.
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
        // Whoever refuses is asked again at once when the other connection is made anew: it may be
        // another server by now.
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

/// Takes in what the server tells, until that ends.
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

/// Waits until something is told, and for `earliest`.
async fn ready(tracking: &mut Tracking, earliest: Instant) -> Result<usize, Failure> {
    // A timer that is over already may take a millisecond more.
    if earliest > Instant::now() {
        sleep_until(earliest).await;
    }
    tracking.ready().await
}

/// What came costs something whether or not it tells of a change: so many changes, by its bytes.
fn burden(bytes: usize) -> u32 {
    u32::try_from(bytes.div_ceil(CHANGE_BYTES)).unwrap_or(u32::MAX)
}

/// Returns when the gate is shut, or an error when nobody wants to listen any more.
async fn closed(gates: &mut watch::Receiver<Gate>) -> Result<(), watch::error::RecvError> {
    gates.wait_for(|gate| !gate.is_up).await.map(|_| ())
}

/// Whether the server could answer, but will not.
fn is_refusal(why: Unknown) -> bool {
    matches!(why, Unknown::NoPermission | Unknown::ServerError | Unknown::Protocol | Unknown::Auth)
}

/// What a person can do about it.
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
        other => other.remedy(),
    }
}
