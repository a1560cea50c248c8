//! Writes each event as exactly one log line, at a limited rate.
//!
//! The counters of events are in the snapshot: the state counts where it emits, so a log line and
//! its counter cannot diverge.

mod limit;
mod queue;

use std::sync::Arc;

use lockwatch_judge::event::{
    End, Event, EventKind, FailoverReport, Fate, LossSign, Party, Subject,
};
use lockwatch_judge::reading::{Holder, Unknown, User};
use lockwatch_judge::spec::Codec;
use lockwatch_judge::time::Mono;
use lockwatch_judge::verdict::Verdict;
use tracing::Level;

use crate::text::identity::{escape, holder_label, list, party_name};
use crate::text::instants::{rfc3339, seconds, signed_seconds};
use limit::{Admission, Limiter, Suppressed};

/// Maximum number of holders or users that one line names.
const NAMED_MAX: usize = 8;

/// Every kind of event, by its name in the log and the API.
pub const KINDS: [&str; 44] = [
    "verdict",
    "acquired",
    "hold_ended",
    "lock_lost",
    "shortened",
    "gap_began",
    "gap_ended",
    "phantom_hold",
    "outage",
    "split_began",
    "split_ended",
    "overlap_in_doubt",
    "rival_in_doubt",
    "switches_lost",
    "switches_found",
    "switched",
    "switch_undecodable",
    "switch_key_missing",
    "progress_missing",
    "claims_unreadable",
    "hosts_unreadable",
    "pause_undecodable",
    "pause_unreadable",
    "claim_beside_free_lock",
    "turn_unknown_name",
    "turn_out_of_order",
    "executed_again",
    "execution_expired",
    "dead_holder",
    "lock_outlived_task",
    "members_vanished",
    "token_reset",
    "lease_learned",
    "task_unreadable",
    "task_readable",
    "redis_down",
    "redis_up",
    "generation_changed",
    "masters_changed",
    "rival_master",
    "rival_master_gone",
    "unrelated_servers",
    "generation_settled",
    "clock_step",
];

/// Every level of an event with its name, the most important first.
pub const LEVELS: [(&str, Level); 4] = [
    ("error", Level::ERROR),
    ("warn", Level::WARN),
    ("info", Level::INFO),
    ("debug", Level::DEBUG),
];

/// Writes events to the log.
#[derive(Debug, Default)]
pub struct EventLog {
    limiter: Limiter,
}

impl EventLog {
    /// Writes `event`, unless the rate limit was reached in the second before `now`.
    pub fn write(&mut self, now: Mono, event: &Event) {
        let line = describe(event);
        self.limiter.roll(now).into_iter().for_each(write_suppressed);
        if self.limiter.admit(line.kind, &line.subject) == Admission::Write {
            write_line(&line);
        }
    }

    /// Reports how many lines were suppressed. Call it about once a second.
    pub fn tick(&mut self, now: Mono) {
        self.limiter.roll(now).into_iter().for_each(write_suppressed);
    }
}

/// A log line. All text in it is escaped.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// Its level.
    pub level: Level,
    /// The kind of event, from a closed list.
    pub kind: &'static str,
    /// `task` or `redis`.
    pub subject_kind: &'static str,
    /// The name of the task or Redis store.
    pub subject: String,
    /// The server whose reply shows it.
    pub node: Option<String>,
    /// The event in a sentence.
    pub message: String,
    /// The holders, instances or users concerned.
    pub who: Option<String>,
    /// A word of a closed list that distinguishes events of this kind.
    pub reason: Option<&'static str>,
    /// How long it took or lasted.
    pub seconds: Option<f64>,
    /// What a person can do about it.
    pub remedy: Option<&'static str>,
    /// When it happened, by the server's clock.
    pub server_time: Option<String>,
}

/// The parts that depend on the kind.
struct Description {
    level: Level,
    kind: &'static str,
    message: String,
    who: Option<String>,
    reason: Option<&'static str>,
    ms: Option<u64>,
    remedy: Option<&'static str>,
}

/// The line for `event`.
pub fn describe(event: &Event) -> Line {
    let (subject_kind, subject) = match &event.subject {
        Subject::Task(task) => ("task", escape(task.name.as_bytes())),
        Subject::Store(_, name) => ("store", escape(name.as_bytes())),
    };
    let told = tell(&event.kind);
    Line {
        level: told.level,
        kind: told.kind,
        subject_kind,
        subject: subject.into_owned(),
        node: event.node.as_ref().map(|node| escape(node.as_bytes()).into_owned()),
        message: told.message,
        who: told.who,
        reason: told.reason,
        seconds: told.ms.map(seconds),
        remedy: told.remedy,
        server_time: event.server_time.and_then(|time| rfc3339(time.0)),
    }
}

/// Kind and level of the line for an event.
pub fn kind_and_level(kind: &EventKind) -> (&'static str, Level) {
    let told = tell(kind);
    (told.kind, told.level)
}

/// The name of a level.
pub fn level_name(level: Level) -> &'static str {
    LEVELS.iter().find(|(_, own)| *own == level).map_or("debug", |(name, _)| name)
}

impl Description {
    fn new(level: Level, kind: &'static str, message: impl Into<String>) -> Description {
        Description {
            level,
            kind,
            message: message.into(),
            who: None,
            reason: None,
            ms: None,
            remedy: None,
        }
    }

    fn who(self, who: String) -> Description {
        Description { who: Some(who), ..self }
    }

    fn reason(self, reason: &'static str) -> Description {
        Description { reason: Some(reason), ..self }
    }

    fn ms(self, ms: impl Into<Option<u64>>) -> Description {
        Description { ms: ms.into(), ..self }
    }

    fn remedy(self, remedy: &'static str) -> Description {
        Description { remedy: Some(remedy), ..self }
    }

    fn unknown(self, why: Unknown) -> Description {
        self.reason(why.name()).remedy(lockwatch_watch::redis::remedy(why))
    }
}

/// The description of each kind: errors for events that alert, warnings for those that a person
/// should check, info for the life of a task, debug for the rest.
fn tell(kind: &EventKind) -> Description {
    use EventKind as E;
    let (error, warn) = (Level::ERROR, Level::WARN);
    let info = |kind, message: &str| Description::new(Level::INFO, kind, message);
    match kind {
        E::Verdict { from, to, rule } => Description::new(
            verdict_level(*to),
            "verdict",
            verdict_message(*from, *to, &rule.sentence()),
        )
        .reason(rule.name),
        E::Acquired { holders } => {
            info("acquired", "somebody got the lock").who(holder_names(holders))
        }
        E::HoldEnded { holders, reason, held_ms } => {
            let level = if matches!(reason, End::Expired | End::Lost) { warn } else { Level::INFO };
            let told = Description::new(
                level,
                "hold_ended",
                format!("the hold ended: {}", end_words(*reason)),
            );
            told.who(holder_names(holders)).reason(reason.name()).ms(*held_ms)
        }
        E::LockLost { holders, sign } => Description::new(warn, "lock_lost", lost_words(*sign))
            .who(holder_names(holders))
            .reason(sign.name())
            .remedy(
                "See whether the instance named here still works beside a new holder, and stop \
                 it.",
            ),
        E::Shortened { by_ms } => Description::new(
            Level::DEBUG,
            "shortened",
            "the deadline moved back while the holder stayed",
        )
        .ms(*by_ms),
        E::GapBegan => info("gap_began", "the task is wanted and nobody holds the lock"),
        E::GapEnded { gap_ms } => {
            info("gap_ended", "the gap ended: a hold has settled").ms(*gap_ms)
        }
        E::PhantomHold { held_ms } => {
            info("phantom_hold", "a hold was too short to end the gap").ms(*held_ms)
        }
        E::Outage { outage_ms } => Description::new(
            warn,
            "outage",
            "taken over after a hold had expired; this is what that cost",
        )
        .ms(*outage_ms),
        E::SplitBegan { kind, parties, left_ms } => {
            Description::new(error, "split_began", split_words(*left_ms))
                .reason(kind.name())
                .who(party_names(parties))
                .ms(*left_ms)
                .remedy("Find the instances named here and stop all but one.")
        }
        E::SplitEnded { kind, lasted_ms } => {
            info("split_ended", "there is no longer evidence of more than one holder")
                .reason(kind.name())
                .ms(*lasted_ms)
        }
        E::OverlapInDoubt { before, now, left_ms } => {
            let message = "a new holder came early, together with a loss of data: released or \
                lost, nobody can tell";
            let who = format!("{} -> {}", holder_names(before), holder_names(now));
            Description::new(warn, "overlap_in_doubt", message).who(who).ms(*left_ms)
        }
        E::RivalInDoubt { older, newer } => {
            let message = "two servers show different holders: whether the older hold was released \
                nobody can tell";
            Description::new(warn, "rival_in_doubt", message).who(format!(
                "{} -> {}",
                party_names(older),
                party_names(newer)
            ))
        }
        E::SwitchesLost { users } => {
            Description::new(error, "switches_lost", "Redis lost switches that were on")
                .who(user_names(users))
                .remedy("Ask these users whether they still want the task, and switch it on again.")
        }
        E::SwitchesFound => info("switches_found", "no switch counts as lost any more"),
        E::Switched { user, on: true } => {
            info("switched", "a user switched the task on, on the page")
                .who(user_names(std::slice::from_ref(user)))
        }
        E::Switched { user, on: false } => {
            info("switched", "a user switched the task off, on the page")
                .who(user_names(std::slice::from_ref(user)))
        }
        E::SwitchUndecodable { user, fits } => tell_undecodable(user, *fits),
        E::SwitchKeyMissing => Description::new(
            warn,
            "switch_key_missing",
            "the key of the switches was never seen to exist",
        )
        .remedy(
            "Check the key in the `wanted` block; if nobody ever switched the task on, this is \
             normal.",
        ),
        E::ProgressMissing { why: Some(why) } => {
            Description::new(warn, "progress_missing", "the progress cannot be read").unknown(*why)
        }
        E::ProgressMissing { why: None } => {
            Description::new(warn, "progress_missing", "there is no progress to judge by")
                .remedy("Check the key in the `progress` block, and whether the work writes it.")
        }
        E::ClaimsUnreadable { why } => {
            Description::new(warn, "claims_unreadable", "the claims cannot be read").unknown(*why)
        }
        E::HostsUnreadable { why } => Description::new(
            warn,
            "hosts_unreadable",
            "the hosts cannot be read, so that holders are shown by their ids alone",
        )
        .unknown(*why),
        E::PauseUndecodable => Description::new(
            warn,
            "pause_undecodable",
            "the pause is no point in time, so there is none",
        )
        .remedy("Write Unix seconds or RFC 3339 to the key of `paused_until`."),
        E::PauseUnreadable { why } => {
            let message = "the pause cannot be read: unless one is in force, pages do not wait";
            Description::new(warn, "pause_unreadable", message).unknown(*why)
        }
        E::ClaimBesideFreeLock { instance } => {
            let message = "a worker claims to run the task though nobody holds the lock";
            Description::new(warn, "claim_beside_free_lock", message)
                .who(holder_label(instance).into_owned())
        }
        E::TurnUnknownName { name } => Description::new(
            warn,
            "turn_unknown_name",
            "a name has the turn that is none of the configured tasks",
        )
        .who(escape(name).into_owned())
        .remedy("Add it to `turn.tasks`, or see who writes it into the hash."),
        E::TurnOutOfOrder { expected, came } => Description::new(
            warn,
            "turn_out_of_order",
            "the turn was given to another task than the next one",
        )
        .who(format!("{} instead of {}", escape(came), escape(expected))),
        E::ExecutedAgain { id, before, now } => queue::executed_again(id, before, now),
        E::ExecutionExpired { id, holders, goes_on } => {
            queue::execution_expired(id, holders, *goes_on)
        }
        E::DeadHolder { id, holders, until } => queue::dead_holder(id, holders, *until),
        E::LockOutlivedTask { id, holders, until } => {
            queue::lock_outlived_task(id, holders, *until)
        }
        E::MembersVanished { number } => queue::members_vanished(*number),
        E::TokenReset { from, to } => Description::new(
            warn,
            "token_reset",
            format!("the fencing token went back from {from} to {to}"),
        ),
        E::LeaseLearned { lease_ms } => Description::new(
            Level::DEBUG,
            "lease_learned",
            "the full lifetime of a hold became known",
        )
        .ms(*lease_ms),
        E::TaskUnreadable { why } => {
            Description::new(warn, "task_unreadable", "the task cannot be read").unknown(*why)
        }
        E::TaskReadable => info("task_readable", "the task can be read again"),
        E::StoreDown { why, decides: true } => {
            Description::new(error, "redis_down", "Redis cannot be read").unknown(*why)
        }
        E::StoreDown { why, decides: false } => Description::new(
            warn,
            "redis_down",
            "a server that decides nothing at present cannot be read",
        )
        .unknown(*why),
        E::StoreUp => info("redis_up", "Redis can be read"),
        E::GenerationChanged { change } => {
            Description::new(warn, "generation_changed", "Redis may have lost data")
                .reason(change.name())
        }
        E::MastersChanged { from, to } => tell_masters(from, to),
        // During each failover by Sentinel this holds for seconds, so it is only a warning. Two
        // holders are reported by an event of their own.
        E::RivalMaster => {
            Description::new(warn, "rival_master", "a second server says that it is master").remedy(
                "Make the wrong one a replica (`REPLICAOF`), and see which clients still write to \
                 it.",
            )
        }
        E::RivalMasterGone => {
            info("rival_master_gone", "the second server does not say any more that it is master")
        }
        E::UnrelatedServers => Description::new(
            error,
            "unrelated_servers",
            "the servers never replicated from each other, so they are no master and replicas",
        )
        .unknown(Unknown::Unrelated),
        E::FailoverReport(failover_report) => report_failover(failover_report),
        E::ClockStep { by_ms } => {
            let message = format!(
                "the server's clock moved by {} s against the agent's",
                signed_seconds(*by_ms)
            );
            Description::new(warn, "clock_step", message)
                .remedy("Check time synchronisation on both hosts.")
        }
    }
}

fn split_words(left_ms: Option<u64>) -> &'static str {
    match left_ms {
        Some(_) => {
            "there is evidence of more than one holder; the older lease may go on for so long"
        }
        None => "there is evidence of more than one holder",
    }
}

fn tell_masters(from: &[Arc<str>], to: &Result<Vec<Arc<str>>, Unknown>) -> Description {
    let names =
        |nodes: &[Arc<str>]| list(nodes.iter().map(|node| escape(node.as_bytes())), NAMED_MAX);
    match to {
        Ok(to) if from.is_empty() => {
            Description::new(Level::INFO, "masters_changed", "it is known who decides")
                .who(names(to))
        }
        Ok(to) => Description::new(Level::WARN, "masters_changed", "another server decides")
            .who(format!("{} -> {}", names(from), names(to))),
        Err(why) => Description::new(
            Level::ERROR,
            "masters_changed",
            "it is not known which server decides",
        )
        .unknown(*why),
    }
}

fn report_failover(failover_report: &FailoverReport) -> Description {
    let FailoverReport { changes, from, to, bytes_lost, fates, overlap_ms, blind_ms } =
        failover_report;
    let fates: Vec<String> = Fate::ALL
        .iter()
        .zip(fates)
        .map(|(fate, count)| format!("{count} {}", fate.name()))
        .collect();
    let mut message = format!("generation changed: {}", fates.join(", "));
    if let Some(bytes) = bytes_lost.filter(|bytes| *bytes > 0) {
        message.push_str(&format!("; the new master never had the last {bytes} bytes or more"));
    }
    if *overlap_ms > 0 {
        message.push_str(&format!("; two holders for at least {} s", seconds(*overlap_ms)));
    }
    let name =
        |node: &Option<Arc<str>>| node.as_ref().map(|node| escape(node.as_bytes()).into_owned());
    let who = [name(from), name(to)].into_iter().flatten().collect::<Vec<_>>().join(" -> ");
    let level = if fates_harm(failover_report) { Level::WARN } else { Level::INFO };
    let told = Description::new(level, "generation_settled", message).who(who).ms(*blind_ms);
    match changes.first() {
        Some(change) => told.reason(change.name()),
        None => told,
    }
}

/// Whether the change harmed any lock.
fn fates_harm(failover_report: &FailoverReport) -> bool {
    let harmed =
        |(fate, count): (&Fate, &u64)| matches!(fate, Fate::Lost | Fate::Overlapped) && *count > 0;
    Fate::ALL.iter().zip(&failover_report.fates).any(harmed)
}

fn party_names(parties: &[Party]) -> String {
    list(parties.iter().map(party_name), NAMED_MAX)
}

fn verdict_level(to: Verdict) -> Level {
    match to {
        Verdict::Split | Verdict::Down | Verdict::Stalled => Level::ERROR,
        Verdict::Unwanted | Verdict::Unknown => Level::WARN,
        Verdict::Pending | Verdict::Running | Verdict::Stopped => Level::INFO,
    }
}

fn verdict_message(from: Option<Verdict>, to: Verdict, sentence: &str) -> String {
    match from {
        Some(from) => format!("{} -> {}: {sentence}", from.name(), to.name()),
        None => format!("{}: {sentence}", to.name()),
    }
}

fn end_words(end: End) -> &'static str {
    match end {
        End::Expired => "its lease ran out",
        End::EndedEarly => "its holder released it, or had shortened its lease to this",
        End::Replaced => "another holder took over before its deadline",
        End::Lost => "Redis lost it",
        End::Unknown => "nobody could see how",
    }
}

fn lost_words(sign: LossSign) -> &'static str {
    match sign {
        LossSign::Data => "the holder lost the lock: it is gone with the server's data",
        LossSign::Claim => {
            "the holder lost the lock and lives: the lease ran out, but its claim goes on"
        }
        LossSign::Progress => {
            "the holder lost the lock and lives: the lease ran out, but the progress moves"
        }
    }
}

fn tell_undecodable(user: &User, fits: Option<Codec>) -> Description {
    let told = |message| {
        Description::new(Level::WARN, "switch_undecodable", message).who(escape(user).into_owned())
    };
    match fits {
        Some(codec) => {
            told(format!("a switch cannot be read; the codec {} would read it", codec.name()))
                .remedy("Set `codec` in the task's `wanted` block to the one named here.")
        }
        None => told(String::from("a switch says neither on nor off, in no known codec")).remedy(
            "Write one of the words for on or off, or correct the key in the `wanted` block.",
        ),
    }
}

fn holder_names(holders: &[Holder]) -> String {
    list(holders.iter().map(holder_label), NAMED_MAX)
}

fn user_names(users: &[User]) -> String {
    list(users.iter().map(|user| escape(user)), NAMED_MAX)
}

fn write_line(line: &Line) {
    // The level of a tracing event is fixed at its call site, so each level needs its own.
    macro_rules! write_at {
        ($level:expr) => {
            tracing::event!(
                target: "lockwatch::event",
                $level,
                event = line.kind,
                task = (line.subject_kind == "task").then_some(line.subject.as_str()),
                store = (line.subject_kind == "store").then_some(line.subject.as_str()),
                node = line.node.as_deref(),
                who = line.who.as_deref(),
                reason = line.reason,
                seconds = line.seconds,
                server_time = line.server_time.as_deref(),
                remedy = line.remedy,
                "{}",
                line.message
            )
        };
    }
    match line.level {
        Level::ERROR => write_at!(Level::ERROR),
        Level::WARN => write_at!(Level::WARN),
        Level::INFO => write_at!(Level::INFO),
        _ => write_at!(Level::DEBUG),
    }
}

fn write_suppressed(suppressed: Suppressed) {
    tracing::warn!(
        target: "lockwatch::event",
        event = suppressed.kind,
        suppressed = suppressed.count,
        "{} more lines of this kind within a second were left out",
        suppressed.count
    );
}
