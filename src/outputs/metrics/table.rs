//! The one table of all metrics: name, help, labels, and where each value comes from.

use lockwatch_judge::event::{End, Fate, SplitKind};
use lockwatch_judge::histogram::Histogram;
use lockwatch_judge::input::{self, Role, WakeUpState};
use lockwatch_judge::reading::Unknown;
use lockwatch_judge::snapshot::{HoldView, NodeView, StoreView, TaskView};
use lockwatch_judge::time::ServerTime;
use lockwatch_judge::verdict::{Verdict, Wanted};
use lockwatch_watch::redis::RedisKind;

use super::reading::{Each, Emit, Metric, Number, Per, Reading, Source};
use super::{Agent, holder_series, info_labels, problems};
use crate::outputs::runs::exit_code;
use crate::outputs::turn::due;
use crate::paths::Links;
use crate::text::identity::{escape, fingerprint};

/// Stands for the labels that the configuration gives a task.
const OWN_LABELS: &str = "(the configured labels)";

use Number::{Count, Infinite, Ms, Signed, SignedMs};

const fn agent(
    name: &'static str,
    help: &'static str,
    get: fn(&Agent) -> Option<Number>,
) -> Metric {
    Metric { name, help, full: false, source: Source::Agent(Reading::Gauge(get)) }
}

const fn redis(
    name: &'static str,
    help: &'static str,
    get: fn(&StoreView) -> Option<Number>,
) -> Metric {
    Metric { name, help, full: false, source: Source::Redis(Reading::Gauge(get)) }
}

const fn redis_total(
    name: &'static str,
    help: &'static str,
    get: fn(&StoreView) -> Option<Number>,
) -> Metric {
    Metric { name, help, full: false, source: Source::Redis(Reading::Counter(get)) }
}

const fn task(
    name: &'static str,
    help: &'static str,
    get: fn(&TaskView) -> Option<Number>,
) -> Metric {
    Metric { name, help, full: false, source: Source::Task(Reading::Gauge(get)) }
}

const fn total(
    name: &'static str,
    help: &'static str,
    get: fn(&TaskView) -> Option<Number>,
) -> Metric {
    Metric { name, help, full: false, source: Source::Task(Reading::Counter(get)) }
}

const fn histogram(
    name: &'static str,
    help: &'static str,
    get: fn(&TaskView) -> &Histogram,
) -> Metric {
    Metric { name, help, full: false, source: Source::Task(Reading::Histogram(get)) }
}

const fn each(name: &'static str, help: &'static str, reading: Reading<TaskView>) -> Metric {
    Metric { name, help, full: false, source: Source::Task(reading) }
}

/// A metric that only a task with `metrics: full` shows.
const fn full(metric: Metric) -> Metric {
    let Metric { name, help, source, .. } = metric;
    Metric { name, help, full: true, source }
}

fn flag(value: bool) -> Number {
    Count(u64::from(value))
}

fn instant(time: ServerTime) -> Number {
    SignedMs(time.0)
}

fn length<T>(items: &[T]) -> Number {
    Count(items.len() as u64)
}

/// The present hold, if the newest reading says held.
pub(super) fn hold(task: &TaskView) -> Option<&HoldView> {
    task.hold().filter(|_| task.held == Some(true))
}

/// A figure of the present hold: 0 while the lock is free, absent while it is unknown.
fn or_zero_when_free(task: &TaskView, of_hold: fn(&HoldView) -> Number) -> Option<Number> {
    match task.lock().and(task.held) {
        Some(true) => hold(task).map(of_hold),
        Some(false) => Some(Count(0)),
        None => None,
    }
}

fn held_seconds(task: &TaskView) -> Option<Number> {
    or_zero_when_free(task, |hold| Ms(hold.held_ms))
}

/// How bad a verdict is: 0 is the best.
fn rank(verdict: Verdict) -> Number {
    let better = Verdict::ALL.iter().rev().take_while(|other| **other != verdict);
    Count(better.count() as u64)
}

fn ended_by(task: &TaskView, why: End) -> u64 {
    let ends = End::ALL.into_iter().zip(task.totals.ends);
    ends.filter(|(end, _)| *end == why).map(|(_, count)| count).sum()
}

/// How often the holder came back into the lock that it held already; of several holders the most.
fn reentries(hold: &HoldView) -> Option<Number> {
    let entries = hold.holders.iter().filter_map(|(holder, _)| holder.entries).max()?;
    Some(Count(u64::from(entries.saturating_sub(1))))
}

/// A gauge of each server of a redis.
const fn nodes(name: &'static str, help: &'static str, each: Each<StoreView>) -> Metric {
    Metric { name, help, full: false, source: Source::Redis(Reading::Gauges(&["server"], each)) }
}

/// Hands out a figure of each server that has it.
fn each_node(redis: &StoreView, emit: &mut Emit<'_>, of: fn(&NodeView) -> Option<Number>) {
    for node in &redis.nodes {
        if let Some(number) = of(node) {
            emit(&[("server", &escape(node.address.as_bytes()))], number);
        }
    }
}

/// One figure for all servers that decide, whatever their order.
fn generation(redis: &StoreView) -> Option<Number> {
    let fingerprints =
        redis.generations.iter().map(|generation| fingerprint(generation, redis.spec.db));
    fingerprints.reduce(|a, b| a ^ b).map(Count)
}

fn is(redis: &StoreView, kind: RedisKind) -> bool {
    RedisKind::of(&redis.spec) == Some(kind)
}

/// Sentinels that name the master that most of them name.
fn agreeing(redis: &StoreView) -> Option<Number> {
    is(redis, RedisKind::Sentinel).then(|| Count(input::agreeing(&redis.announcers) as u64))
}

/// Every metric, in the order of the page.
#[rustfmt::skip] // one row per line: a table
pub static TABLE: &[Metric] = &[
    Metric {
        name: "lockwatch_build_info",
        help: "Always 1; the version of this agent.",
        full: false,
        source: Source::Agent(Reading::Gauges(&["version"], |_, emit| emit(&[("version", env!("CARGO_PKG_VERSION"))], Count(1)))),
    },
    Metric {
        name: "lockwatch_config_info",
        help: "Always 1; a fingerprint of the tasks and where their keys are. Agents that watch \
            the same have the same.",
        full: false,
        source: Source::Agent(Reading::Gauges(&["tasks"], |a, emit| {
            emit(&[("tasks", &a.tasks())], Count(1));
        })),
    },
    Metric {
        name: "lockwatch_links_info",
        help: "Always 1; the configured links of this agent; absent without any.",
        full: false,
        source: Source::Agent(Reading::Gauges(&["grafana", "lockwatch", "runbooks"], |a, emit| {
            let links = &a.own.reload.links;
            if *links != Links::NONE {
                let [grafana, lockwatch, runbooks] = [&links.grafana, &links.lockwatch, &links.runbooks].map(|link| link.as_deref().unwrap_or_default());
                emit(&[("grafana", grafana), ("lockwatch", lockwatch), ("runbooks", runbooks)], Count(1));
            }
        })),
    },
    Metric {
        name: "lockwatch_honor_labels",
        help: "Always 1. Scraped without honor_labels, its label `job` arrives as `exported_job`.",
        full: false,
        source: Source::Agent(Reading::Gauges(&["job"], |_, emit| {
            emit(&[("job", "lockwatch")], Count(1));
        })),
    },
    agent("lockwatch_config_last_reload_successful", "1 if the last attempt to load the \
        configuration succeeded.", |a| Some(flag(a.own.reload.successful))),
    agent("lockwatch_config_last_reload_success_timestamp_seconds", "When the configuration in \
        force was loaded, agent's clock.", |a| Some(SignedMs(a.own.reload.success_at.0))),
    Metric { name: "lockwatch_log_lines_lost_total", help: "Log lines that were lost because \
        standard error could not be written, or not fast \
        enough.", full: false, source: Source::Agent(Reading::Counter(|a| Some(Count(a.own.log_lines_lost)))) },

    Metric {
        name: "lockwatch_store_up",
        help: "1 if the newest batch of questions to this server was answered trustworthily; \
            absent before the first try.",
        full: false,
        source: Source::Redis(Reading::Gauges(&["server", "role"], |r, emit| {
            for node in &r.nodes {
                if let Some(up) = node.up {
                    let role = node.role.map_or("unknown", Role::name);
                    emit(&[("server", &escape(node.address.as_bytes())), ("role", role)], flag(up));
                }
            }
        })),
    },
    redis("lockwatch_store_readable", "1 if the newest sweep of every server that decides was \
        answered trustworthily; absent before the first try.", |r| r.readable.map(flag)),
    redis("lockwatch_store_blind_seconds", "How long a server that decides has not been read, or \
        not been known; 0 while all are read.", |r| r.readable.map(|_| Ms(r.blind_ms))),
    nodes("lockwatch_store_decides", "1 if this server decides whether locks are held, 0 if its \
        answers are evidence \
        only.", |r, emit| each_node(r, emit, |n| n.up.map(|_| flag(n.decides)))),
    nodes("lockwatch_store_last_success_timestamp_seconds", "The server's clock at the newest \
        trustworthy batch.", |r, emit| each_node(r, emit, |n| n.last_success.map(instant))),
    redis("lockwatch_store_masters", "Servers that said they are master in the newest batch; \
        absent while none answers.", |r| r.masters.map(Count)),
    redis("lockwatch_store_sentinels", "Configured Sentinels; only with \
        Sentinel.", |r| is(r, RedisKind::Sentinel).then(|| length(&r.spec.addresses))),
    redis("lockwatch_store_sentinels_agreeing", "Configured Sentinels that name one and the same \
        master; only with Sentinel.", agreeing),
    redis("lockwatch_store_uncovered_slots", "Slots that no master of the cluster serves; only of \
        a cluster.", |r| is(r, RedisKind::Cluster).then(|| Count(u64::from(r.uncovered)))),
    Metric {
        name: "lockwatch_store_refuses_writes",
        help: "Always 1; only while this server is known to refuse writes: the code of its error.",
        full: false,
        source: Source::Redis(Reading::Gauges(&["server", "error"], |r, emit| {
            for node in &r.nodes {
                if let Some(why) = node.refuses_writes {
                    emit(&[("server", &escape(node.address.as_bytes())), ("error", why.name())], Count(1));
                }
            }
        })),
    },
    nodes("lockwatch_store_clock_offset_seconds", "The server's clock minus the \
        agent's.", |r, emit| each_node(r, emit, |n| n.clock_offset_ms.map(SignedMs))),
    nodes("lockwatch_store_role_verified", "1 if the server itself said what role it has, 0 if \
        the configuration attests \
        it.", |r, emit| each_node(r, emit, |n| n.role_verified.map(flag))),
    nodes("lockwatch_store_locks_behind", "Watched locks whose newest deadline a replica does not \
        have yet; absent where nothing was \
        compared.", |r, emit| each_node(r, emit, |n| n.locks_behind.map(Count))),
    nodes("lockwatch_store_deadline_lag_seconds", "How far a replica's deadline is behind, of the \
        watched lock where it is \
        farthest.", |r, emit| each_node(r, emit, |n| n.deadline_lag_ms.map(Ms))),
    nodes("lockwatch_store_wake_ups", "1 while this server tells of changed keys, 0 while it \
        refuses or cannot, so that changes are seen by polling alone; absent where it is not \
        asked \
        to.", |r, emit| each_node(r, emit, |n| n.wake_ups.map(|it| flag(it.state == WakeUpState::On)))),
    Metric {
        name: "lockwatch_store_hints_total",
        help: "Changed keys that a server told of, by what came of it: a read, none because the \
            task was to be read already, none because the key is no task's.",
        full: false,
        source: Source::Redis(Reading::Counters(&["server", "outcome"], |r, emit| {
            for (node, hints) in r.nodes.iter().filter_map(|node| Some((node, node.wake_ups?))) {
                let address = escape(node.address.as_bytes());
                for (outcome, count) in [("read", hints.read), ("coalesced", hints.coalesced), ("foreign", hints.foreign)] {
                    emit(&[("server", &address), ("outcome", outcome)], Count(count));
                }
            }
        })),
    },
    Metric {
        name: "lockwatch_store_wake_up_reconnects_total",
        help: "Times it was begun anew to listen to a server's changes.",
        full: false,
        source: Source::Redis(Reading::Counters(&["server"], |r, emit| {
            each_node(r, emit, |n| n.wake_ups.map(|it| Count(it.reconnects())));
        })),
    },
    Metric {
        name: "lockwatch_store_sample_duration_seconds",
        help: "Round trips of batches.",
        full: false,
        source: Source::Redis(Reading::Histogram(|r| &r.totals.sample_duration)),
    },
    Metric {
        name: "lockwatch_store_errors_total",
        help: "Failed batches and refused tasks, by reason.",
        full: false,
        source: Source::Redis(Reading::Counters(&["reason"], |r, emit| {
            for (reason, count) in Unknown::ALL.into_iter().zip(r.totals.errors) {
                if reason != Unknown::NotReadYet {
                    emit(&[("reason", reason.name())], Count(count));
                }
            }
        })),
    },
    redis_total("lockwatch_store_reconnects_total", "Connections made after the \
        first.", |r| Some(Count(r.totals.reconnects))),
    redis_total("lockwatch_store_skipped_ticks_total", "Ticks that found the previous sweep still \
        under way.", |r| Some(Count(r.totals.skipped_ticks))),
    redis_total("lockwatch_store_generation_changes_total", "Changes of generation: a restart, \
        another server that decides, a new replication history, a flush. The server may have lost \
        data.", |r| Some(Count(r.totals.generation_changes))),
    redis("lockwatch_store_generation", "Fingerprint of what the data of the servers that decide \
        live in (run, replication history, flushes); another value: data may have been lost, or \
        another server decides. Absent until all have told.", generation),
    Metric {
        name: "lockwatch_store_locks_after_change_total",
        help: "Locks that were held before the server may have lost data, by what became of them.",
        full: false,
        source: Source::Redis(Reading::Counters(&["fate"], |r, emit| {
            for (fate, count) in Fate::ALL.into_iter().zip(r.totals.fates) {
                emit(&[("fate", fate.name())], Count(count));
            }
        })),
    },

    Metric {
        name: "lockwatch_store_clear",
        help: "1 while every server that decides was read not long ago; else 0.",
        full: false,
        source: Source::Redis(Reading::GaugesAt(&["severity"], problems::redis_clear)),
    },
    Metric {
        name: "lockwatch_store_problem_seconds",
        help: "A problem of this store: for how long it has been so, or 0 where it is seen not to \
            be so; absent where that cannot be told.",
        full: false,
        source: Source::Redis(Reading::GaugesAt(&["problem", "severity"], problems::redis_problems)),
    },
    Metric {
        name: "lockwatch_store_event_age_seconds",
        help: "What happened to this store not long ago, and how long ago.",
        full: false,
        source: Source::Redis(Reading::GaugesAt(&["problem", "severity"], problems::redis_events)),
    },

    each("lockwatch_task_clear", "1 while there is fresh evidence against every state of the task \
        that pages; else 0, and what is known of each is told beside \
        it.", Reading::GaugesAt(&["severity", OWN_LABELS], problems::clear)),
    each("lockwatch_task_problem_seconds", "A problem of the task: for how long it has been so, \
        or 0 where it is seen not to be so; absent where that cannot be \
        told.", Reading::GaugesAt(&["problem", "severity", OWN_LABELS], problems::problems)),
    each("lockwatch_task_event_age_seconds", "What happened to the task within 15 minutes, and \
        how long ago.", Reading::GaugesAt(&["problem", "severity", OWN_LABELS], problems::events)),

    each("lockwatch_task_state", "The present verdict; its value is its rank, from 0 stopped to 7 \
        split.", Reading::Gauges(&["state"], |t, emit| emit(&[("state", t.verdict.name())], rank(t.verdict)))),
    task("lockwatch_task_wanted", "1 if any user wants the task to run, 0 if none does; absent \
        when unknown or when no switches are configured.", |t| match t.wanted {
        Wanted::Yes => Some(Count(1)),
        Wanted::No => Some(Count(0)),
        Wanted::Unknown | Wanted::Unset => None,
    }),
    each("lockwatch_task_wanting_users", "Users whose switch is on; absent when unknown, of a key \
        with too many switches to read them all, and until this process saw the \
        key.", Reading::Gauges(&[OWN_LABELS], problems::wanting_users)),
    each("lockwatch_task_time_seconds_total", "Time during which the task was wanted; wanted \
        without a holder, in confirmed gaps (down); and what expired holds cost, from the \
        holder's last sign of life to the take-over (outage). Only of a task that can be \
        wanted.", Reading::Counters(&["of"], |t, emit| {
        let of = [("wanted", t.totals.wanted_ms), ("down", t.totals.down_ms), ("outage", t.totals.outage_ms)];
        for (of, ms) in of.into_iter().filter(|_| t.spec.may_be_wanted()) {
            emit(&[("of", of)], Ms(ms));
        }
    })),
    total("lockwatch_task_handovers_total", "Gaps that ended. Only of a task that can be \
        wanted.", |t| t.spec.may_be_wanted().then(|| Count(t.totals.take_overs().handovers.count()))),
    total("lockwatch_task_handover_seconds_total", "How long these gaps lasted, from release to a \
        hold that settled, together.", |t| t.spec.may_be_wanted().then(|| Ms(t.totals.take_overs().handovers.sum_ms))),
    total("lockwatch_task_splits_total", "Times that evidence of two holders \
        appeared.", |t| Some(Count(t.totals.splits.iter().sum()))),
    each("lockwatch_task_split_holder", "Always 1; who takes part in a split, and of which kind it is, \
        while it lasts and for 15 minutes.", Reading::GaugesAt(&["holder", "holder_host", "of"], problems::split_holders)),
    task("lockwatch_task_progress_timestamp_seconds", "When the progress was last seen to move, \
        server's clock.", |t| t.progress_moved().map(instant)),
    each("lockwatch_task_failed_run_timestamp_seconds", "When the newest run of the script ended, \
        server's clock, with its host and exit code; only while the script \
        fails.", Reading::Gauges(&["holder_host", "exit_code"], |t, emit| {
        if let Some(run) = t.failing().and_then(|runs| runs.ended.last()) {
            let code = exit_code(run).map_or("not stated (killed)".to_owned(), |code| code.to_string());
            let host = escape(&run.host);
            emit(&[("holder_host", &*host), ("exit_code", &*code)], instant(run.end.to));
        }
    })),
    task("lockwatch_task_paused", "1 while pages of this task shall wait; absent when no pause is \
        configured or it cannot be read.", |t| t.paused.map(flag)),

    task("lockwatch_lock_held", "1 if the newest reading says held, 0 if free; absent when \
        unknown.", |t| t.held.map(flag)),
    each("lockwatch_lock_holder", "Always 1; who holds the lock, only while it is held. A secret \
        token shows as eight digits of its SHA-256; absent if the lock's value is the same whoever \
        holds it.", Reading::Gauges(&["holder", "holder_host"], holder_series)),
    each("lockwatch_lock_last_holder_timestamp_seconds", "When the hold that ended last was last \
        seen, server's clock; only while the task has a problem.", Reading::GaugesAt(&["holder", "holder_host"], problems::last_holder)),
    task("lockwatch_lock_held_seconds", "The present hold is at least so old; 0 when free, absent \
        when unknown.", held_seconds),
    task("lockwatch_lock_ttl_seconds", "What was left of the lease at the newest reading; +Inf \
        without a TTL, absent unless held.", |t| {
        let hold = hold(t)?;
        if hold.persistent == Some(true) { Some(Infinite) } else { hold.ttl_ms.map(Ms) }
    }),
    task("lockwatch_lock_lease_seconds", "Full lifetime of a hold, configured or \
        learned.", |t| t.lock()?.lease_ms.map(Ms)),
    total("lockwatch_lock_renewals_total", "Renewals.", |t| Some(Count(t.totals.renewals))),
    total("lockwatch_lock_renewal_latency_seconds_total", "How much later than scheduled renewals \
        landed, together.", |t| Some(Ms(t.totals.renewal_latency.sum_ms))),
    task("lockwatch_lock_last_renewal_latency_seconds", "How late the newest renewal of the \
        present hold landed.", |t| hold(t)?.last_renewal_latency_ms.map(Ms)),
    total("lockwatch_lock_acquisitions_total", "Times somebody got the \
        lock.", |t| Some(Count(t.totals.acquisitions))),
    total("lockwatch_lock_expired_total", "Holds that ended by expiry, not by \
        release.", |t| Some(Count(ended_by(t, End::Expired)))),
    total("lockwatch_lock_lost_total", "Holds that were lost although the holder lived: gone with \
        the server's data, or expired while the holder's claim or progress went \
        on.", |t| Some(Count(t.totals.holds_lost))),
    task("lockwatch_lock_waiters", "Waiters for the lock, of a task with the label `standby: \
        required`; absent where the library has none to count.", |t| {
        t.lock()?.waiters.filter(|_| t.spec.needs_standby() || t.spec.full_metrics).map(Count)
    }),

    each("lockwatch_turn_holder", "Always 1; whose turn it is, only while it is \
        somebody's.", Reading::Gauges(&["participant"], |t, emit| {
        if let Some(name) = t.turn().and_then(|turn| turn.name.as_ref()) {
            emit(&[("participant", &escape(name))], Count(1));
        }
    })),
    task("lockwatch_turn_fields", "Fields of the hash of turns: 1, but for the moment of a \
        passing; absent when unknown.", |t| t.turn()?.fields.map(|fields| Count(fields as u64))),
    task("lockwatch_turn_due_timestamp_seconds", "From when on the task whose turn it is may run, \
        as the hash says; absent for 'at once'.", |t| due(t.turn()?).map(instant)),
    task("lockwatch_turn_overdue_seconds", "How long the present turn has waited to be taken, or \
        lasted, since it was due and wanted; kept while blind.", |t| Some(Ms(t.turn()?.late_ms))),
    each("lockwatch_turn_taken_total", "Turns that each participant had and passed \
        on.", Reading::Counters(&["participant"], |t, emit| {
        for taken in t.turn().iter().flat_map(|turn| &turn.taken) {
            emit(&[("participant", &escape(&taken.name))], Count(taken.turns));
        }
    })),
    total("lockwatch_turn_out_of_order_total", "Turns that came to another participant than the \
        next one; only with min_turn.", |t| t.turn()?.out_of_order.map(Count)),
    total("lockwatch_turn_unknown_names_total", "Times that a name appeared in the hash that is \
        no participant.", |t| Some(Count(t.turn()?.unknown_names))),

    task("lockwatch_queue_members", "Members of the queue; absent when \
        unknown.", |t| t.queue()?.members.map(Count)),
    task("lockwatch_queue_due", "Members of the queue that are due; absent when \
        unknown.", |t| t.queue()?.due.map(Count)),
    task("lockwatch_queue_executing", "Members that are executed, among the first hundred that are \
        due; absent when unknown.", |t| t.queue()?.executing.map(Count)),
    task("lockwatch_queue_executing_more", "1 if more members are due than are looked at, else 0; \
        absent when unknown.", |t| t.queue()?.more.map(flag)),
    task("lockwatch_queue_oldest_due_seconds", "How long the oldest due member has been due that \
        nobody executes, 0 without one; absent when unknown, or when all that are looked at are \
        executed and more are due.", |t| t.queue()?.oldest_due_ms.map(Ms)),
    task("lockwatch_queue_next_due_timestamp_seconds", "When the next member will be due, server's \
        clock; absent when unknown or none will.", |t| t.queue()?.next.map(instant)),
    task("lockwatch_queue_moved_timestamp_seconds", "When a due member left last, or got another \
        score, server's clock; absent until then.", |t| t.queue()?.moved.map(instant)),
    total("lockwatch_queue_departed_total", "Due members that left the \
        queue.", |t| Some(Count(t.queue()?.departed))),
    total("lockwatch_queue_departed_locked_total", "Of them, those whose lock was ever seen \
        held.", |t| Some(Count(t.queue()?.departed_locked))),
    total("lockwatch_queue_vanished_total", "Due members that left the queue and were never seen \
        locked: not executed, or faster than the \
        readings.", |t| Some(Count(t.queue()?.vanished))),
    total("lockwatch_queue_executed_again_total", "Times that another worker took the lock of a \
        member that was executed before.", |t| Some(Count(t.queue()?.executed_again))),
    total("lockwatch_queue_expired_total", "Locks of members that expired before their member \
        left.", |t| Some(Count(t.queue()?.expired))),
    total("lockwatch_queue_orphan_locks_total", "Locks that outlived their member for more than 5 \
        seconds.", |t| Some(Count(t.queue()?.orphaned))),

    // Only with `metrics: full`.
    full(each("lockwatch_task_info", "Always 1; the lock's key and library, and the task's own labels \
        for rules to \
        join.", Reading::Gauges(&["key", "library", OWN_LABELS], info_labels))),
    full(task("lockwatch_task_switches", "Switches that exist, on or off; absent when unknown, or of a \
        key with too many to read them all.", |t| t.switches.as_deref().map(length))),
    full(task("lockwatch_task_switch_key_seen", "0 as long as the key of the switches was never seen \
        to exist; absent when there is none to see.", |t| t.switch_key_seen.map(flag))),
    full(task("lockwatch_task_down_seconds", "How long the task has been wanted, and no hold has \
        lasted; 0 when one has, kept while blind.", |t| Some(Ms(t.durations.down_ms)))),
    full(task("lockwatch_task_split_seconds", "How long there has been evidence of two holders; 0 when \
        there is none, kept while blind.", |t| Some(Ms(t.durations.split_ms)))),
    full(task("lockwatch_task_stalled_seconds", "How long the holder has made no progress, once that \
        is longer than stale_after; else 0, kept while \
        blind.", |t| Some(Ms(t.durations.stalled_ms)))),
    full(task("lockwatch_task_unwanted_seconds", "How long the lock has been held though nobody wants \
        the task; 0 when it is not, kept while blind.", |t| Some(Ms(t.durations.unwanted_ms)))),
    full(task("lockwatch_task_blind_seconds", "How long there has been no trustworthy reading of what \
        matters; 0 when there is one.", |t| Some(Ms(t.durations.blind_ms)))),
    full(task("lockwatch_task_switches_lost_seconds", "How long switches that were on have been \
        missing because Redis lost data; 0 when none \
        are.", |t| Some(Ms(t.durations.switches_lost_ms)))),
    full(task("lockwatch_task_grace_seconds", "Configured: a gap shorter than this is a \
        handover.", |t| Some(Ms(t.spec.grace_ms)))),
    full(task("lockwatch_task_settle_seconds", "Configured: a hold shorter than this does not end a \
        gap.", |t| Some(Ms(t.spec.settle_ms)))),
    full(task("lockwatch_task_wind_down_seconds", "Configured: how long the task may go on after it \
        was switched off.", |t| Some(Ms(t.spec.wind_down_ms)))),
    full(task("lockwatch_task_blind_after_seconds", "Configured: without a trustworthy reading for \
        longer than this, the verdict is unknown.", |t| Some(Ms(t.spec.blind_after_ms)))),
    full(task("lockwatch_task_stale_after_seconds", "Configured: without progress for longer than \
        this, the task is stalled; absent without \
        progress.", |t| t.spec.progress.as_ref().map(|progress| Ms(progress.stale_after_ms)))),
    full(task("lockwatch_task_max_hold_seconds", "Configured: a hold longer than this deserves a \
        warning; absent when not configured.", |t| t.spec.max_hold_ms.map(Ms))),
    full(task("lockwatch_task_held_seconds", "The same as lockwatch_lock_held_seconds.", held_seconds)),
    full(total("lockwatch_task_wanted_time_seconds_total", "Time during which the task was \
        wanted.", |t| Some(Ms(t.totals.wanted_ms)))),
    full(total("lockwatch_task_down_time_seconds_total", "Time wanted without a holder, in confirmed \
        gaps.", |t| Some(Ms(t.totals.down_ms)))),
    full(total("lockwatch_task_outage_time_seconds_total", "What expired holds cost: from the holder's \
        last sign of life to the take-over.", |t| Some(Ms(t.totals.outage_ms)))),
    full(total("lockwatch_task_split_time_seconds_total", "Time with evidence of two \
        holders.", |t| Some(Ms(t.totals.split_ms)))),
    full(total("lockwatch_task_blind_time_seconds_total", "Time without a trustworthy reading of what \
        matters.", |t| Some(Ms(t.totals.blind_ms)))),
    full(each("lockwatch_task_splits_by_kind_total", "Times that evidence of two holders appeared, by \
        kind.", Reading::CounterPer(Per {
        label: &["kind"],
        value: |at| SplitKind::ALL.get(at).copied().map(SplitKind::name),
        get: |t, at| Count(t.totals.splits.get(at).copied().unwrap_or(0)),
    }))),
    full(total("lockwatch_task_phantom_holds_total", "Holds too short to end a \
        gap.", |t| Some(Count(t.totals.phantom_holds)))),
    full(histogram("lockwatch_task_handover_seconds", "Gaps of a wanted task that ended, from release \
        to a hold that settled.", |t| &t.totals.take_overs().handovers)),
    full(histogram("lockwatch_task_outage_seconds", "Outages that ended: from the last sign of life of \
        a holder that expired to the take-over.", |t| &t.totals.take_overs().outages)),
    full(task("lockwatch_lock_holders", "Holders of the lock; 0 when free, absent when \
        unknown.", |t| or_zero_when_free(t, |hold| length(&hold.holders)))),
    full(task("lockwatch_lock_reentries", "How often the holder entered the lock again while holding \
        it; absent where the library does not count.", |t| hold(t).and_then(reentries))),
    full(task("lockwatch_lock_fencing_token", "The fencing token last given out; absent where the \
        library has none.", |t| t.lock()?.fencing_token.map(Signed))),
    full(task("lockwatch_lock_acquired_timestamp_seconds", "When the present hold began, server's \
        clock; absent when that was not seen.", |t| hold(t)?.acquired.map(instant))),
    full(task("lockwatch_lock_last_renewal_timestamp_seconds", "When the present hold was last \
        renewed, server's clock.", |t| hold(t)?.last_renewal.map(instant))),
    full(task("lockwatch_lock_deadline_timestamp_seconds", "When the lease ends, server's clock; \
        absent without one.", |t| hold(t)?.deadline.map(instant))),
    full(task("lockwatch_lock_renewal_period_seconds", "Pause between two renewals: configured, the \
        library's rule, or learned.", |t| t.lock()?.renewal_period_ms.map(Ms))),
    full(task("lockwatch_lock_persistent", "1 if held without any TTL, 0 if held with one; absent when \
        not held.", |t| hold(t)?.persistent.map(flag))),
    full(histogram("lockwatch_lock_renewal_latency_seconds", "How much later than scheduled renewals \
        landed.", |t| &t.totals.renewal_latency)),
    full(task("lockwatch_lock_last_renewal_margin_seconds", "TTL that was left when the newest renewal \
        of the present hold landed.", |t| hold(t)?.last_renewal_margin_ms.map(Ms))),
    full(task("lockwatch_lock_renewal_overdue_seconds", "How late the next renewal is by now; 0 when \
        it is not, absent when \
        unknown.", |t| or_zero_when_free(t, |hold| Ms(hold.renewal_overdue_ms)))),
    full(total("lockwatch_lock_shortened_total", "Times a deadline moved back while the holder \
        stayed.", |t| Some(Count(t.totals.shortened)))),
    full(each("lockwatch_lock_ends_total", "Ends of holds, by reason.", Reading::CounterPer(Per {
        label: &["reason"],
        value: |at| End::ALL.get(at).copied().map(End::name),
        get: |t, at| Count(t.totals.ends.get(at).copied().unwrap_or(0)),
    }))),
    full(total("lockwatch_lock_token_resets_total", "Times the fencing token went \
        backwards.", |t| Some(Count(t.totals.token_resets)))),

    Metric { name: "process_cpu_seconds_total", help: "User and system CPU time used by the \
        agent.", full: false, source: Source::Agent(Reading::Counter(|a| a.process.cpu_ms.map(Ms))) },
    agent("process_resident_memory_bytes", "Resident memory of the \
        agent.", |a| a.process.resident_bytes.map(Count)),
    agent("process_virtual_memory_bytes", "Virtual memory of the \
        agent.", |a| a.process.virtual_bytes.map(Count)),
    agent("process_open_fds", "Open file descriptors of the \
        agent.", |a| a.process.open_fds.map(Count)),
    agent("process_max_fds", "Most file descriptors that the agent may \
        open.", |a| a.process.max_fds.map(Count)),
    agent("process_start_time_seconds", "When the agent was started, seconds since the Unix \
        epoch.", |a| a.process.started_ms.map(Ms)),
    agent("process_threads", "Threads of the agent.", |a| a.process.threads.map(Count)),
];
