//! The one table of all metrics: name, help, labels, and where each value comes from.

use lockwatch_judge::event::{End, Fate, SplitKind};
use lockwatch_judge::histogram;
use lockwatch_judge::input::{self, Role, WakeUpState, WakeUps};
use lockwatch_judge::reading::Unknown;
use lockwatch_judge::snapshot::{HoldView, NodeView, PeriodicRun, StoreView, TaskView};
use lockwatch_judge::time::ServerTime;
use lockwatch_judge::verdict::{Verdict, Wanted};
use lockwatch_watch::redis::RedisKind;

use super::labels::{hold, holder_series, info_labels};
use super::problems;
use super::reading::{Agent, Emit, Metric, Number, Reading, Source};
use crate::outputs::runs::exit_code;
use crate::outputs::turn::due;
use crate::paths::Links;
use crate::text::identity::{escape, fingerprint};

use Number::{Count, Infinite, Ms, Signed, SignedMs};
use Reading::{Counter, Counters, Gauge, Gauges, GaugesAt, Histogram};
use Source::{OfAgent, OfFullTask, OfPattern, OfServer, OfStore, OfTask};

/// What a task of a pattern shows. There may be many, so each has at most 8 series, and those of the
/// first three only in trouble.
pub(super) const OF_PATTERNS: [&str; 11] = [
    "lockwatch_task_problem_seconds",
    "lockwatch_task_event_age_seconds",
    "lockwatch_task_split_holder",
    "lockwatch_task_clear",
    "lockwatch_task_state_rank",
    "lockwatch_lock_held",
    "lockwatch_lock_holder",
    "lockwatch_lock_held_seconds",
    "lockwatch_lock_ttl_seconds",
    "lockwatch_lock_acquisitions_total",
    "lockwatch_lock_expired_total",
];

/// Stands for the labels that the configuration gives a task.
const OWN_LABELS: &str = "(the configured labels)";

fn flag(value: bool) -> Number {
    Count(u64::from(value))
}

fn instant(time: ServerTime) -> Number {
    SignedMs(time.ms())
}

fn length<T>(items: &[T]) -> Number {
    Count(items.len() as u64)
}

fn version(_: &Agent, emit: &mut Emit<'_>) {
    emit(&[("version", env!("CARGO_PKG_VERSION"))], Count(1));
}

fn tasks(agent: &Agent, emit: &mut Emit<'_>) {
    emit(&[("tasks", &agent.tasks())], Count(1));
}

fn links(agent: &Agent, emit: &mut Emit<'_>) {
    let links = &agent.own.reload.links;
    if *links != Links::NONE {
        let [grafana, lockwatch, runbooks] = [&links.grafana, &links.lockwatch, &links.runbooks]
            .map(|link| link.as_deref().unwrap_or_default());
        let labels = [("grafana", grafana), ("lockwatch", lockwatch), ("runbooks", runbooks)];
        emit(&labels, Count(1));
    }
}

fn job(_: &Agent, emit: &mut Emit<'_>) {
    emit(&[("job", "lockwatch")], Count(1));
}

fn up(node: &NodeView, emit: &mut Emit<'_>) {
    if let Some(up) = node.up {
        emit(&[("role", node.role.map_or("unknown", Role::name))], flag(up));
    }
}

fn refuses_writes(node: &NodeView, emit: &mut Emit<'_>) {
    if let Some(why) = node.refuses_writes {
        emit(&[("error", why.name())], Count(1));
    }
}

fn is_on(wake_ups: WakeUps) -> Number {
    flag(wake_ups.state == WakeUpState::On)
}

fn reconnects(wake_ups: WakeUps) -> Number {
    Count(wake_ups.reconnects())
}

fn hints(node: &NodeView, emit: &mut Emit<'_>) {
    if let Some(WakeUps { read, coalesced, foreign, .. }) = node.wake_ups {
        for (outcome, count) in [("read", read), ("coalesced", coalesced), ("foreign", foreign)] {
            emit(&[("outcome", outcome)], Count(count));
        }
    }
}

fn errors(store: &StoreView, emit: &mut Emit<'_>) {
    for (reason, count) in Unknown::ALL.into_iter().zip(store.totals.errors) {
        if reason != Unknown::NotReadYet {
            emit(&[("reason", reason.name())], Count(count));
        }
    }
}

fn fates(store: &StoreView, emit: &mut Emit<'_>) {
    for (fate, count) in Fate::ALL.into_iter().zip(store.totals.fates) {
        emit(&[("fate", fate.name())], Count(count));
    }
}

/// One figure for all servers that decide, whatever their order.
fn generation(store: &StoreView) -> Option<Number> {
    let fingerprints =
        store.generations.iter().map(|generation| fingerprint(generation, store.spec.db));
    fingerprints.reduce(|a, b| a ^ b).map(Count)
}

fn is(store: &StoreView, kind: RedisKind) -> bool {
    RedisKind::of(&store.spec) == Some(kind)
}

fn sentinels(store: &StoreView) -> Option<Number> {
    is(store, RedisKind::Sentinel).then(|| length(&store.spec.addresses))
}

/// Sentinels that name the master that most of them name.
fn agreeing(store: &StoreView) -> Option<Number> {
    is(store, RedisKind::Sentinel).then(|| Count(input::agreeing(&store.announcers) as u64))
}

fn uncovered_slots(store: &StoreView) -> Option<Number> {
    is(store, RedisKind::Cluster).then(|| Count(u64::from(store.uncovered)))
}

/// How bad the verdict is: 0 is the best.
fn state_rank(task: &TaskView, emit: &mut Emit<'_>) {
    let better = Verdict::ALL.iter().rev().take_while(|other| **other != task.verdict);
    emit(&[("state", task.verdict.name())], Count(better.count() as u64));
}

fn wanted(task: &TaskView) -> Option<Number> {
    match task.wanted {
        Wanted::Yes => Some(Count(1)),
        Wanted::No => Some(Count(0)),
        Wanted::Unknown | Wanted::Unset => None,
    }
}

fn times(task: &TaskView, emit: &mut Emit<'_>) {
    let totals = &task.totals.rare;
    let times =
        [("wanted", totals.wanted_ms), ("down", totals.down_ms), ("outage", totals.outage_ms)];
    for (of, ms) in times.into_iter().filter(|_| task.spec.may_be_wanted()) {
        emit(&[("of", of)], Ms(ms));
    }
}

fn handovers(task: &TaskView) -> Option<&histogram::Histogram> {
    task.spec.may_be_wanted().then(|| &task.totals.rare.handovers)
}

fn failed_run(task: &TaskView, emit: &mut Emit<'_>) {
    if let Some(run) = task.failing().and_then(|runs| runs.ended.last()) {
        let code = exit_code(run).map_or("not stated (killed)".to_owned(), |code| code.to_string());
        let host = escape(&run.host);
        emit(&[("holder_host", &*host), ("exit_code", &*code)], instant(run.end.to));
    }
}

fn splits_by_kind(task: &TaskView, emit: &mut Emit<'_>) {
    for (kind, count) in SplitKind::ALL.into_iter().zip(task.totals.rare.splits) {
        emit(&[("kind", kind.name())], Count(count));
    }
}

/// A figure of the present hold: 0 while the lock is free, absent while it is unknown.
fn or_zero_when_free(task: &TaskView, of_hold: fn(&HoldView) -> Number) -> Option<Number> {
    match task.lock().and(task.held) {
        Some(true) => hold(task).map(of_hold),
        Some(false) => Some(Count(0)),
        None => None,
    }
}

fn ttl(task: &TaskView) -> Option<Number> {
    let hold = hold(task)?;
    if hold.persistent == Some(true) { Some(Infinite) } else { hold.ttl_ms.map(Ms) }
}

fn waiters(task: &TaskView) -> Option<Number> {
    let shows = task.spec.needs_standby() || task.spec.full_metrics;
    task.lock()?.waiters.filter(|_| shows).map(|waiters| Count(waiters.into()))
}

fn holders(hold: &HoldView) -> Number {
    Count(hold.holders.iter().len() as u64)
}

/// How often the holder came back into the lock that it held already; of several holders the most.
fn reentries(hold: &HoldView) -> Option<Number> {
    let entries = hold.holders.iter().filter_map(|(holder, _)| holder.entries).max()?;
    Some(Count(u64::from(entries.saturating_sub(1))))
}

fn ended_by(task: &TaskView, why: End) -> u64 {
    let ends = End::ALL.into_iter().zip(task.totals.ends);
    ends.filter(|(end, _)| *end == why).map(|(_, count)| count).sum()
}

fn ends(task: &TaskView, emit: &mut Emit<'_>) {
    for (end, count) in End::ALL.into_iter().zip(task.totals.ends) {
        emit(&[("reason", end.name())], Count(count));
    }
}

fn turn_holder(task: &TaskView, emit: &mut Emit<'_>) {
    if let Some(name) = task.turn().and_then(|turn| turn.name.as_ref()) {
        emit(&[("participant", &escape(name))], Count(1));
    }
}

fn turns_taken(task: &TaskView, emit: &mut Emit<'_>) {
    for taken in task.turn().iter().flat_map(|turn| &turn.taken) {
        emit(&[("participant", &escape(&taken.name))], Count(taken.turns));
    }
}

fn last_run(task: &TaskView) -> Option<&PeriodicRun> {
    task.periodic()?.last.as_deref()
}

/// Every metric, in the order of the page.
#[rustfmt::skip] // a table: of each row the name, what it means, and where the figure comes from
pub static TABLE: &[Metric] = &[
    Metric { name: "lockwatch_build_info",
        help: "Always 1; the version of this agent.",
        source: OfAgent(Gauges(&["version"], version)) },
    Metric { name: "lockwatch_config_info",
        help: "Always 1; a fingerprint of the tasks and where their keys are. Agents that watch \
            the same have the same.",
        source: OfAgent(Gauges(&["tasks"], tasks)) },
    Metric { name: "lockwatch_links_info",
        help: "Always 1; the configured links of this agent; absent without any.",
        source: OfAgent(Gauges(&["grafana", "lockwatch", "runbooks"], links)) },
    Metric { name: "lockwatch_honor_labels",
        help: "Always 1. Scraped without honor_labels, its label `job` arrives as `exported_job`.",
        source: OfAgent(Gauges(&["job"], job)) },
    Metric { name: "lockwatch_config_last_reload_successful",
        help: "1 if the last attempt to load the configuration succeeded.",
        source: OfAgent(Gauge(|a| Some(flag(a.own.reload.successful)))) },
    Metric { name: "lockwatch_config_last_reload_success_timestamp_seconds",
        help: "When the configuration in force was loaded, agent's clock.",
        source: OfAgent(Gauge(|a| Some(SignedMs(a.own.reload.success_at.0)))) },
    Metric { name: "lockwatch_log_lines_lost_total",
        help: "Log lines that were lost because standard error could not be written, or not fast \
            enough.",
        source: OfAgent(Counter(|a| Some(Count(a.own.log_lines_lost)))) },
    Metric { name: "process_cpu_seconds_total",
        help: "User and system CPU time used by the agent.",
        source: OfAgent(Counter(|a| a.process.cpu_ms.map(Ms))) },
    Metric { name: "process_resident_memory_bytes",
        help: "Resident memory of the agent.",
        source: OfAgent(Gauge(|a| a.process.resident_bytes.map(Count))) },
    Metric { name: "process_virtual_memory_bytes",
        help: "Virtual memory of the agent.",
        source: OfAgent(Gauge(|a| a.process.virtual_bytes.map(Count))) },
    Metric { name: "process_open_fds",
        help: "Open file descriptors of the agent.",
        source: OfAgent(Gauge(|a| a.process.open_fds.map(Count))) },
    Metric { name: "process_max_fds",
        help: "Most file descriptors that the agent may open.",
        source: OfAgent(Gauge(|a| a.process.max_fds.map(Count))) },
    Metric { name: "process_start_time_seconds",
        help: "When the agent was started, seconds since the Unix epoch.",
        source: OfAgent(Gauge(|a| a.process.started_ms.map(Ms))) },
    Metric { name: "process_threads",
        help: "Threads of the agent.",
        source: OfAgent(Gauge(|a| a.process.threads.map(Count))) },

    Metric { name: "lockwatch_store_up",
        help: "1 if the newest batch of commands to this server was answered trustworthily; \
            absent before the first try.",
        source: OfServer(Gauges(&["role"], up)) },
    Metric { name: "lockwatch_store_readable",
        help: "1 if the newest sweep of every server that decides was answered trustworthily; \
            absent before the first try.",
        source: OfStore(Gauge(|s| s.readable.map(flag))) },
    Metric { name: "lockwatch_store_blind_seconds",
        help: "How long a server that decides has not been read, or not been known; 0 while all \
            are read.",
        source: OfStore(Gauge(|s| s.readable.map(|_| Ms(s.blind_ms)))) },
    Metric { name: "lockwatch_store_decides",
        help: "1 if this server decides whether locks are held, 0 if its answers are evidence \
            only.",
        source: OfServer(Gauge(|n| n.up.map(|_| flag(n.decides)))) },
    Metric { name: "lockwatch_store_last_success_timestamp_seconds",
        help: "The server's clock at the newest trustworthy batch.",
        source: OfServer(Gauge(|n| n.last_success.map(instant))) },
    Metric { name: "lockwatch_store_masters",
        help: "Servers that reported to be master in the newest batch; absent while none answers.",
        source: OfStore(Gauge(|s| s.masters.map(Count))) },
    Metric { name: "lockwatch_store_sentinels",
        help: "Configured Sentinels; only with Sentinel.",
        source: OfStore(Gauge(sentinels)) },
    Metric { name: "lockwatch_store_sentinels_agreeing",
        help: "Configured Sentinels that name one and the same master; only with Sentinel.",
        source: OfStore(Gauge(agreeing)) },
    Metric { name: "lockwatch_store_uncovered_slots",
        help: "Slots that no master of the cluster serves; only of a cluster.",
        source: OfStore(Gauge(uncovered_slots)) },
    Metric { name: "lockwatch_store_refuses_writes",
        help: "Always 1; only while this server is known to refuse writes: the code of its error.",
        source: OfServer(Gauges(&["error"], refuses_writes)) },
    Metric { name: "lockwatch_store_clock_offset_seconds",
        help: "The server's clock minus the agent's.",
        source: OfServer(Gauge(|n| n.clock_offset_ms.map(SignedMs))) },
    Metric { name: "lockwatch_store_role_verified",
        help: "1 if the server itself reported its role, 0 if the configuration attests it.",
        source: OfServer(Gauge(|n| n.role_verified.map(flag))) },
    Metric { name: "lockwatch_store_locks_behind",
        help: "Watched locks whose newest deadline a replica does not have yet; absent where \
            nothing was compared.",
        source: OfServer(Gauge(|n| n.locks_behind.map(Count))) },
    Metric { name: "lockwatch_store_deadline_lag_seconds",
        help: "How far a replica's deadline is behind, of the watched lock where it is farthest.",
        source: OfServer(Gauge(|n| n.deadline_lag_ms.map(Ms))) },
    Metric { name: "lockwatch_store_wake_ups",
        help: "1 if change notifications are active, 0 if the server refuses or cannot send them, \
            so that only polling shows changes; absent where they are not requested.",
        source: OfServer(Gauge(|n| n.wake_ups.map(is_on))) },
    Metric { name: "lockwatch_store_hints_total",
        help: "Key-change notifications received, by outcome: read (the task was read at once), \
            coalesced (it was due anyway), foreign (no task's key).",
        source: OfServer(Counters(&["outcome"], hints)) },
    Metric { name: "lockwatch_store_wake_up_reconnects_total",
        help: "Times change notifications were resubscribed.",
        source: OfServer(Counter(|n| n.wake_ups.map(reconnects))) },
    Metric { name: "lockwatch_store_sample_duration_seconds",
        help: "Round trips of batches.",
        source: OfStore(Histogram(|s| &s.totals.sample_duration)) },
    Metric { name: "lockwatch_store_errors_total",
        help: "Failed batches and refused tasks, by reason.",
        source: OfStore(Counters(&["reason"], errors)) },
    Metric { name: "lockwatch_store_reconnects_total",
        help: "Connections made after the first.",
        source: OfStore(Counter(|s| Some(Count(s.totals.reconnects)))) },
    Metric { name: "lockwatch_store_skipped_ticks_total",
        help: "Ticks that found the previous sweep still under way.",
        source: OfStore(Counter(|s| Some(Count(s.totals.skipped_ticks)))) },
    Metric { name: "lockwatch_store_generation_changes_total",
        help: "Changes of generation: a restart, another server that decides, a new replication \
            history, a flush. The server may have lost data.",
        source: OfStore(Counter(|s| Some(Count(s.totals.generation_changes)))) },
    Metric { name: "lockwatch_store_generation",
        help: "Fingerprint of what the data of the servers that decide live in (run, replication \
            history, flushes); another value: data may have been lost, or another server decides. \
            Absent until all have reported.",
        source: OfStore(Gauge(generation)) },
    Metric { name: "lockwatch_store_locks_after_change_total",
        help: "Locks that were held before the server may have lost data, by what became of them.",
        source: OfStore(Counters(&["fate"], fates)) },

    Metric { name: "lockwatch_store_clear",
        help: "1 while every server that decides was read not long ago; else 0.",
        source: OfStore(GaugesAt(&["severity"], problems::redis_clear)) },
    Metric { name: "lockwatch_store_problem_seconds",
        help: "A problem of this store: how long it has been active, 0 if there is evidence \
            against it; absent when unknown.",
        source: OfStore(GaugesAt(&["problem", "severity"], problems::redis_problems)) },
    Metric { name: "lockwatch_store_event_age_seconds",
        help: "An event of this store not long ago, and how long ago it was.",
        source: OfStore(GaugesAt(&["problem", "severity"], problems::redis_events)) },

    Metric { name: "lockwatch_pattern_keys",
        help: "Keys that match and are watched, each as a task.",
        source: OfPattern(Gauge(|p| Some(Count(p.keys)))) },
    Metric { name: "lockwatch_pattern_left_out",
        help: "Keys that match and are not watched: more than max_keys, or too long; absent before \
            the first scan met any.",
        source: OfPattern(Gauge(|p| p.left_out.map(Count))) },
    Metric { name: "lockwatch_pattern_scan_timestamp_seconds",
        help: "When the newest complete scan ended, agent's clock; absent before the first.",
        source: OfPattern(Gauge(|p| p.scanned_at.map(|at| SignedMs(at.0)))) },

    Metric { name: "lockwatch_task_clear",
        help: "1 while there is fresh evidence against every critical problem of the task; else \
            0; see lockwatch_task_problem_seconds.",
        source: OfTask(GaugesAt(&["drill", "severity", OWN_LABELS], problems::clear)) },
    Metric { name: "lockwatch_task_problem_seconds",
        help: "A problem of the task: how long it has been active, 0 if there is evidence against \
            it; absent when unknown.",
        source: OfTask(GaugesAt(
            &["drill", "problem", "severity", OWN_LABELS], problems::problems)) },
    Metric { name: "lockwatch_task_event_age_seconds",
        help: "An event of the task within 15 minutes, and how long ago it was.",
        source: OfTask(GaugesAt(&["problem", "severity", OWN_LABELS], problems::events)) },

    Metric { name: "lockwatch_task_state_rank",
        help: "The current verdict; its value is its rank, from 0 stopped to 7 split.",
        source: OfTask(Gauges(&["state"], state_rank)) },
    Metric { name: "lockwatch_task_wanted",
        help: "1 if any user wants the task to run, 0 if none does; absent when unknown or when \
            no switches are configured.",
        source: OfTask(Gauge(wanted)) },
    Metric { name: "lockwatch_task_wanting_users",
        help: "Users whose switch is on; absent when unknown, of a key with too many switches to \
            read them all, and until this process saw the key.",
        source: OfTask(Gauges(&[OWN_LABELS], problems::wanting_users)) },
    Metric { name: "lockwatch_task_time_seconds_total",
        help: "Time during which the task was wanted; wanted without a holder, in confirmed gaps \
            (down); and what expired holds cost, from the holder's last sign of life to the \
            take-over (outage). Only of a task that can be wanted.",
        source: OfTask(Counters(&["of"], times)) },
    Metric { name: "lockwatch_task_handovers_total",
        help: "Gaps that ended. Only of a task that can be wanted.",
        source: OfTask(Counter(|t| handovers(t).map(|gaps| Count(gaps.count())))) },
    Metric { name: "lockwatch_task_handover_seconds_total",
        help: "Total duration of these gaps, from release to a hold that settled.",
        source: OfTask(Counter(|t| handovers(t).map(|gaps| Ms(gaps.sum_ms)))) },
    Metric { name: "lockwatch_task_splits_total",
        help: "Times that evidence of two holders appeared.",
        source: OfTask(Counter(|t| Some(Count(t.totals.rare.splits.iter().sum())))) },
    Metric { name: "lockwatch_task_split_holder",
        help: "Always 1; who takes part in a split, and of which kind it is, while it lasts and \
            for 15 minutes.",
        source: OfTask(GaugesAt(&["holder", "holder_host", "of"], problems::split_holders)) },
    Metric { name: "lockwatch_task_progress_timestamp_seconds",
        help: "When the progress was last seen to move, server's clock.",
        source: OfTask(Gauge(|t| t.progress_moved().map(instant))) },
    Metric { name: "lockwatch_task_failed_run_timestamp_seconds",
        help: "When the newest run of the script ended, server's clock, with its host and exit \
            code; only while the script fails.",
        source: OfTask(Gauges(&["holder_host", "exit_code"], failed_run)) },
    Metric { name: "lockwatch_task_run_due_timestamp_seconds",
        help: "When the next run of a task with `runs` is late: every + late_after after the \
            newest one began, agent's clock; absent until this process saw one begin.",
        source: OfTask(GaugesAt(&["severity", OWN_LABELS], problems::run_due)) },
    Metric { name: "lockwatch_task_run_every_seconds",
        help: "From one run to the next; only of a task with `runs`.",
        source: OfTask(Gauge(|t| Some(Ms(t.spec.runs()?.every_ms)))) },
    Metric { name: "lockwatch_task_run_late_after_seconds",
        help: "How much later than that a run may begin; only of a task with `runs`.",
        source: OfTask(Gauge(|t| Some(Ms(t.spec.runs()?.late_after_ms)))) },
    Metric { name: "lockwatch_task_run_watched_seconds",
        help: "How long this process has read a task with `runs` without a stretch in which a run \
            may have come and gone unseen; absent while it cannot be read.",
        source: OfTask(GaugesAt(&[], problems::run_watched)) },
    Metric { name: "lockwatch_task_last_run_timestamp_seconds",
        help: "When the newest run that is over began, server's clock; absent where that was not \
            seen.",
        source: OfTask(Gauge(|t| last_run(t)?.began_at.map(instant))) },
    Metric { name: "lockwatch_task_last_run_duration_seconds",
        help: "How long its work took; absent where its beginning or its end was not seen.",
        source: OfTask(Gauge(|t| last_run(t)?.over?.lasted_ms.map(Ms))) },
    Metric { name: "lockwatch_task_paused",
        help: "1 while critical alerts of this task are paused; absent when no pause is \
            configured or it cannot be read.",
        source: OfTask(Gauge(|t| t.paused.map(flag))) },

    Metric { name: "lockwatch_lock_held",
        help: "1 if the newest reading says held, 0 if free; absent when unknown.",
        source: OfTask(Gauge(|t| t.held.map(flag))) },
    Metric { name: "lockwatch_lock_holder",
        help: "Always 1; who holds the lock, only while it is held. A secret token shows as eight \
            digits of its SHA-256; absent if the lock's value is the same whoever holds it.",
        source: OfTask(Gauges(&["holder", "holder_host"], holder_series)) },
    Metric { name: "lockwatch_lock_last_holder_timestamp_seconds",
        help: "When the hold that ended last was last seen, server's clock; only while the task \
            has a problem.",
        source: OfTask(GaugesAt(&["holder", "holder_host"], problems::last_holder)) },
    Metric { name: "lockwatch_lock_held_seconds",
        help: "Age of the current hold (lower bound); 0 when free, absent when unknown.",
        source: OfTask(Gauge(|t| or_zero_when_free(t, |hold| Ms(hold.held_ms)))) },
    Metric { name: "lockwatch_lock_ttl_seconds",
        help: "What was left of the lease at the newest reading; +Inf without a TTL, absent \
            unless held.",
        source: OfTask(Gauge(ttl)) },
    Metric { name: "lockwatch_lock_lease_seconds",
        help: "Full lifetime of a hold, configured or learned.",
        source: OfTask(Gauge(|t| t.lock()?.lease_ms.map(Ms))) },
    Metric { name: "lockwatch_lock_renewals_total",
        help: "Renewals.",
        source: OfTask(Counter(|t| Some(Count(t.totals.renewals)))) },
    Metric { name: "lockwatch_lock_renewal_latency_seconds_total",
        help: "Total time by which renewals landed later than scheduled.",
        source: OfTask(Counter(|t| Some(Ms(t.totals.renewal_latency.sum_ms)))) },
    Metric { name: "lockwatch_lock_last_renewal_latency_seconds",
        help: "How late the newest renewal of the current hold landed.",
        source: OfTask(Gauge(|t| hold(t)?.last_renewal_latency_ms.map(Ms))) },
    Metric { name: "lockwatch_lock_acquisitions_total",
        help: "Times somebody got the lock.",
        source: OfTask(Counter(|t| Some(Count(t.totals.acquisitions)))) },
    Metric { name: "lockwatch_lock_expired_total",
        help: "Holds that ended by expiry, not by release.",
        source: OfTask(Counter(|t| Some(Count(ended_by(t, End::Expired))))) },
    Metric { name: "lockwatch_lock_lost_total",
        help: "Holds that were lost although the holder lived: gone with the server's data, or \
            expired while the holder's claim or progress went on.",
        source: OfTask(Counter(|t| Some(Count(t.totals.rare.holds_lost)))) },
    Metric { name: "lockwatch_lock_waiters",
        help: "Waiters for the lock, of a task with the label `standby: required`; absent where \
            the library has none to count.",
        source: OfTask(Gauge(waiters)) },

    Metric { name: "lockwatch_turn_holder",
        help: "Always 1; whose turn it is, only while it is somebody's.",
        source: OfTask(Gauges(&["participant"], turn_holder)) },
    Metric { name: "lockwatch_turn_fields",
        help: "Fields of the hash of turns: normally 1; 2 while the turn is handed over; absent \
            when unknown.",
        source: OfTask(Gauge(|t| t.turn()?.fields.map(|fields| Count(fields as u64)))) },
    Metric { name: "lockwatch_turn_due_timestamp_seconds",
        help: "From when on the task whose turn it is may run, as the hash says; absent for 'at \
            once'.",
        source: OfTask(Gauge(|t| due(t.turn()?).map(instant))) },
    Metric { name: "lockwatch_turn_overdue_seconds",
        help: "How long the current turn has waited to be taken, or lasted, since it was due and \
            wanted; kept while blind.",
        source: OfTask(Gauge(|t| Some(Ms(t.turn()?.late_ms)))) },
    Metric { name: "lockwatch_turn_taken_total",
        help: "Turns that each participant had and passed on.",
        source: OfTask(Counters(&["participant"], turns_taken)) },
    Metric { name: "lockwatch_turn_out_of_order_total",
        help: "Turns that came to another participant than the next one; only with min_turn.",
        source: OfTask(Counter(|t| t.turn()?.out_of_order.map(Count))) },
    Metric { name: "lockwatch_turn_unknown_names_total",
        help: "Times that a name appeared in the hash that is no participant.",
        source: OfTask(Counter(|t| Some(Count(t.turn()?.unknown_names)))) },

    Metric { name: "lockwatch_queue_members",
        help: "Members of the queue; absent when unknown.",
        source: OfTask(Gauge(|t| t.queue()?.members.map(Count))) },
    Metric { name: "lockwatch_queue_due",
        help: "Members of the queue that are due; absent when unknown.",
        source: OfTask(Gauge(|t| t.queue()?.due.map(Count))) },
    Metric { name: "lockwatch_queue_executing",
        help: "Members that are executed, among the first hundred that are due; absent when \
            unknown.",
        source: OfTask(Gauge(|t| t.queue()?.executing.map(Count))) },
    Metric { name: "lockwatch_queue_executing_more",
        help: "1 if more members are due than are looked at, else 0; absent when unknown.",
        source: OfTask(Gauge(|t| t.queue()?.more.map(flag))) },
    Metric { name: "lockwatch_queue_oldest_due_seconds",
        help: "How long the oldest due member has been due that nobody executes, 0 without one; \
            absent when unknown, or when all that are looked at are executed and more are due.",
        source: OfTask(Gauge(|t| t.queue()?.oldest_due_ms.map(Ms))) },
    Metric { name: "lockwatch_queue_next_due_timestamp_seconds",
        help: "When the next member will be due, server's clock; absent when unknown or none will.",
        source: OfTask(Gauge(|t| t.queue()?.next.map(instant))) },
    Metric { name: "lockwatch_queue_moved_timestamp_seconds",
        help: "When a due member left last, or got another score, server's clock; absent until \
            then.",
        source: OfTask(Gauge(|t| t.queue()?.moved.map(instant))) },
    Metric { name: "lockwatch_queue_departed_total",
        help: "Due members that left the queue.",
        source: OfTask(Counter(|t| Some(Count(t.queue()?.departed)))) },
    Metric { name: "lockwatch_queue_departed_locked_total",
        help: "Of them, those whose lock was ever seen held.",
        source: OfTask(Counter(|t| Some(Count(t.queue()?.departed_locked)))) },
    Metric { name: "lockwatch_queue_vanished_total",
        help: "Due members that left the queue and were never seen locked: not executed, or \
            faster than the readings.",
        source: OfTask(Counter(|t| Some(Count(t.queue()?.vanished)))) },
    Metric { name: "lockwatch_queue_executed_again_total",
        help: "Times that another worker took the lock of a member that was executed before.",
        source: OfTask(Counter(|t| Some(Count(t.queue()?.executed_again)))) },
    Metric { name: "lockwatch_queue_expired_total",
        help: "Locks of members that expired before their member left.",
        source: OfTask(Counter(|t| Some(Count(t.queue()?.expired)))) },
    Metric { name: "lockwatch_queue_orphan_locks_total",
        help: "Locks that outlived their member for more than 5 seconds.",
        source: OfTask(Counter(|t| Some(Count(t.queue()?.orphaned)))) },

    Metric { name: "lockwatch_task_info",
        help: "Always 1; the lock's key and library, and the task's own labels for rules to join.",
        source: OfFullTask(Gauges(&["key", "library", OWN_LABELS], info_labels)) },
    Metric { name: "lockwatch_task_switches",
        help: "Switches that exist, on or off; absent when unknown, or of a key with too many to \
            read them all.",
        source: OfFullTask(Gauge(|t| t.wanting.switches.as_deref().map(length))) },
    Metric { name: "lockwatch_task_switch_key_seen",
        help: "0 as long as the key of the switches was never seen to exist; absent when there is \
            none to see.",
        source: OfFullTask(Gauge(|t| t.switch_key_seen.map(flag))) },
    Metric { name: "lockwatch_task_down_seconds",
        help: "How long the task has been wanted, and no hold has lasted; 0 when one has, kept \
            while blind.",
        source: OfFullTask(Gauge(|t| Some(Ms(t.durations.down_ms)))) },
    Metric { name: "lockwatch_task_split_seconds",
        help: "How long there has been evidence of two holders; 0 when there is none, kept while \
            blind.",
        source: OfFullTask(Gauge(|t| Some(Ms(t.durations.split_ms)))) },
    Metric { name: "lockwatch_task_stalled_seconds",
        help: "How long the holder has made no progress, once that is longer than stale_after; \
            else 0, kept while blind.",
        source: OfFullTask(Gauge(|t| Some(Ms(t.durations.stalled_ms)))) },
    Metric { name: "lockwatch_task_unwanted_seconds",
        help: "How long the lock has been held though nobody wants the task; 0 when it is not, \
            kept while blind.",
        source: OfFullTask(Gauge(|t| Some(Ms(t.durations.unwanted_ms)))) },
    Metric { name: "lockwatch_task_blind_seconds",
        help: "How long there has been no trustworthy reading of what matters; 0 when there is \
            one.",
        source: OfFullTask(Gauge(|t| Some(Ms(t.durations.blind_ms)))) },
    Metric { name: "lockwatch_task_switches_lost_seconds",
        help: "How long switches that were on have been missing because the store lost data; 0 when \
            none are.",
        source: OfFullTask(Gauge(|t| Some(Ms(t.durations.switches_lost_ms)))) },
    Metric { name: "lockwatch_task_split_time_seconds_total",
        help: "Time with evidence of two holders.",
        source: OfFullTask(Counter(|t| Some(Ms(t.totals.rare.split_ms)))) },
    Metric { name: "lockwatch_task_blind_time_seconds_total",
        help: "Time without a trustworthy reading of what matters.",
        source: OfFullTask(Counter(|t| Some(Ms(t.totals.blind_ms)))) },
    Metric { name: "lockwatch_task_splits_by_kind_total",
        help: "Times that evidence of two holders appeared, by kind.",
        source: OfFullTask(Counters(&["kind"], splits_by_kind)) },
    Metric { name: "lockwatch_task_phantom_holds_total",
        help: "Holds too short to end a gap.",
        source: OfFullTask(Counter(|t| Some(Count(t.totals.rare.phantom_holds)))) },
    Metric { name: "lockwatch_task_handover_seconds",
        help: "Gaps of a wanted task that ended, from release to a hold that settled.",
        source: OfFullTask(Histogram(|t| &t.totals.rare.handovers)) },
    Metric { name: "lockwatch_task_outage_seconds",
        help: "Outages that ended: from the last sign of life of a holder that expired to the \
            take-over.",
        source: OfFullTask(Histogram(|t| &t.totals.rare.outages)) },
    Metric { name: "lockwatch_lock_holders",
        help: "Holders of the lock; 0 when free, absent when unknown.",
        source: OfFullTask(Gauge(|t| or_zero_when_free(t, holders))) },
    Metric { name: "lockwatch_lock_reentries",
        help: "How often the holder entered the lock again while holding it; absent where the \
            library does not count.",
        source: OfFullTask(Gauge(|t| hold(t).and_then(reentries))) },
    Metric { name: "lockwatch_lock_fencing_token",
        help: "The fencing token last given out; absent where the library has none.",
        source: OfFullTask(Gauge(|t| t.lock()?.rare.fencing_token.map(Signed))) },
    Metric { name: "lockwatch_lock_acquired_timestamp_seconds",
        help: "When the current hold began, server's clock; absent when that was not seen.",
        source: OfFullTask(Gauge(|t| hold(t)?.acquired.map(instant))) },
    Metric { name: "lockwatch_lock_last_renewal_timestamp_seconds",
        help: "When the current hold was last renewed, server's clock.",
        source: OfFullTask(Gauge(|t| hold(t)?.last_renewal.map(instant))) },
    Metric { name: "lockwatch_lock_deadline_timestamp_seconds",
        help: "When the lease ends, server's clock; absent without one.",
        source: OfFullTask(Gauge(|t| hold(t)?.deadline.map(instant))) },
    Metric { name: "lockwatch_lock_renewal_period_seconds",
        help: "Pause between two renewals: configured, the library's rule, or learned.",
        source: OfFullTask(Gauge(|t| t.lock()?.renewal_period_ms.map(Ms))) },
    Metric { name: "lockwatch_lock_persistent",
        help: "1 if held without any TTL, 0 if held with one; absent when not held.",
        source: OfFullTask(Gauge(|t| hold(t)?.persistent.map(flag))) },
    Metric { name: "lockwatch_lock_renewal_latency_seconds",
        help: "How much later than scheduled renewals landed.",
        source: OfFullTask(Histogram(|t| &t.totals.renewal_latency)) },
    Metric { name: "lockwatch_lock_last_renewal_margin_seconds",
        help: "TTL that was left when the newest renewal of the current hold landed.",
        source: OfFullTask(Gauge(|t| hold(t)?.last_renewal_margin_ms.map(Ms))) },
    Metric { name: "lockwatch_lock_renewal_overdue_seconds",
        help: "How late the next renewal is by now; 0 when it is not, absent when unknown.",
        source: OfFullTask(Gauge(|t| or_zero_when_free(t, |hold| Ms(hold.renewal_overdue_ms)))) },
    Metric { name: "lockwatch_lock_shortened_total",
        help: "Times a deadline moved back while the holder stayed.",
        source: OfFullTask(Counter(|t| Some(Count(t.totals.rare.shortened)))) },
    Metric { name: "lockwatch_lock_ends_total",
        help: "Ends of holds, by reason.",
        source: OfFullTask(Counters(&["reason"], ends)) },
    Metric { name: "lockwatch_lock_token_resets_total",
        help: "Times the fencing token went backwards.",
        source: OfFullTask(Counter(|t| Some(Count(t.totals.rare.token_resets)))) },
];
