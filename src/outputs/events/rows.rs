//! What is said of each kind of event: one row each.
//!
//! Errors are events that alert, warnings those that a person should check, info is the life of a
//! task, debug the rest.

use std::borrow::Cow;
use std::sync::Arc;

use lockwatch_judge::event::{End, EventKind, FailoverReport, Fate, LossSign, Party};
use lockwatch_judge::reading::{Holder, Unknown, User};
use lockwatch_judge::time::ServerTime;
use lockwatch_judge::verdict::Verdict;
use tracing::Level;

use crate::drill;
use crate::text::identity::{escape, holder_label, list, party_name};
use crate::text::instants::{rfc3339, seconds, signed_seconds};

/// Maximum number of holders or users that one line names.
const NAMED_MAX: usize = 8;

/// What is said of an event. All text in it is escaped.
pub(super) struct Row {
    pub(super) level: Level,
    pub(super) message: Cow<'static, str>,
    pub(super) who: Option<String>,
    pub(super) reason: Option<&'static str>,
    pub(super) ms: Option<u64>,
    pub(super) remedy: Option<&'static str>,
}

fn row(level: Level, message: impl Into<Cow<'static, str>>) -> Row {
    Row { level, message: message.into(), who: None, reason: None, ms: None, remedy: None }
}

fn error(message: impl Into<Cow<'static, str>>) -> Row {
    row(Level::ERROR, message)
}

fn warn(message: impl Into<Cow<'static, str>>) -> Row {
    row(Level::WARN, message)
}

fn info(message: impl Into<Cow<'static, str>>) -> Row {
    row(Level::INFO, message)
}

fn debug(message: impl Into<Cow<'static, str>>) -> Row {
    row(Level::DEBUG, message)
}

impl Row {
    fn who(self, who: impl Into<String>) -> Row {
        Row { who: Some(who.into()), ..self }
    }

    fn reason(self, reason: &'static str) -> Row {
        Row { reason: Some(reason), ..self }
    }

    fn ms(self, ms: impl Into<Option<u64>>) -> Row {
        Row { ms: ms.into(), ..self }
    }

    fn remedy(self, remedy: &'static str) -> Row {
        Row { remedy: Some(remedy), ..self }
    }

    fn unknown(self, why: &Unknown) -> Row {
        self.reason(why.name()).remedy(lockwatch_watch::remedy(*why))
    }
}

/// What is said of an event of this kind.
pub(super) fn of(kind: &EventKind) -> Row {
    use EventKind as E;
    match kind {
        E::Verdict { from, to, rule } => {
            row(verdict_level(*to), verdict(*from, *to, &rule.sentence())).reason(rule.name)
        }
        E::Acquired { holders } => info("somebody got the lock").who(names(holders)),
        E::HoldEnded { holders, reason, held_ms } => {
            hold_ended(*reason).who(names(holders)).reason(reason.name()).ms(*held_ms)
        }
        E::LockLost { holders, sign } => {
            warn(lost(*sign)).who(names(holders)).reason(sign.name()).remedy(
                "See whether the instance named here still works while a new holder does, \
                and stop it.",
            )
        }
        E::Shortened { by_ms } => {
            debug("the deadline moved back while the holder stayed").ms(*by_ms)
        }
        E::GapBegan => info("the task is wanted and nobody holds the lock"),
        E::GapEnded { gap_ms } => info("the gap ended: a hold has settled").ms(*gap_ms),
        E::PhantomHold { held_ms } => info("a hold was too short to end the gap").ms(*held_ms),
        E::Outage { outage_ms } => {
            warn("taken over after a hold had expired; this is what that cost").ms(*outage_ms)
        }
        E::SplitBegan { kind, parties, left_ms } => error(split(*left_ms))
            .reason(kind.name())
            .who(party_names(parties))
            .ms(*left_ms)
            .remedy("Find the instances named here and stop all but one."),
        E::SplitEnded { kind, lasted_ms } => {
            info("there is no longer evidence of more than one holder")
                .reason(kind.name())
                .ms(*lasted_ms)
        }
        E::OverlapInDoubt { before, now, left_ms } => warn(
            "a new holder came before the old lease ended, while data were lost: \
                released or lost, it cannot be decided",
        )
        .who(change(names(before), names(now)))
        .ms(*left_ms),
        E::RivalInDoubt { older, newer } => warn(
            "two servers show different holders: whether the older hold was released \
                cannot be decided",
        )
        .who(change(party_names(older), party_names(newer))),
        E::SwitchesLost { users } => {
            error("the store lost switches that were on").who(user_names(users)).remedy(
                "Ask these users whether they still want the task, and switch it on \
                again.",
            )
        }
        E::SwitchesFound => info("no switch counts as lost any more"),
        E::Switched { user, on } => {
            info(format!("a user switched the task {}, on the page", on_off(*on))).who(escape(user))
        }
        E::DrillBegan { by } => Row {
            who: by.as_ref().map(|by| escape(by).into_owned()),
            ..info("a drill began: alerts are tried with the labels of this task")
        },
        E::DrillEnded { why, lasted_ms } => {
            info(format!("the drill ended: {}", drill::words(*why)))
                .reason(why.name())
                .ms(*lasted_ms)
        }
        E::SwitchUndecodable { user, fits: Some(codec) } => {
            warn(format!("a switch cannot be read; the codec {} would read it", codec.name()))
                .who(escape(user))
                .remedy("Set `codec` in the task's `wanted` block to the one named here.")
        }
        E::SwitchUndecodable { user, fits: None } => {
            warn("a switch says neither on nor off, in no known codec").who(escape(user)).remedy(
                "Write one of the words for on or off, or correct the key in the `wanted` \
                block.",
            )
        }
        E::SwitchKeyMissing => warn("the key of the switches was never seen to exist").remedy(
            "Check the key in the `wanted` block; if nobody ever switched the task \
                on, this is normal.",
        ),
        E::ProgressMissing { why: Some(why) } => warn("the progress cannot be read").unknown(why),
        E::ProgressMissing { why: None } => warn("there is no progress to judge by")
            .remedy("Check the key in the `progress` block, and whether the work writes it."),
        E::ClaimsUnreadable { why } => warn("the claims cannot be read").unknown(why),
        E::HostsUnreadable { why } => {
            warn("the hosts cannot be read, so that holders are shown by their ids alone")
                .unknown(why)
        }
        E::PauseUndecodable => warn("the pause is no point in time, so there is none")
            .remedy("Write Unix seconds or RFC 3339 to the key of `paused_until`."),
        E::PauseUnreadable { why } => {
            warn("the pause cannot be read: unless one is in force, alerts do not wait")
                .unknown(why)
        }
        E::ClaimBesideFreeLock { instance } => {
            warn("a worker claims to run the task though nobody holds the lock")
                .who(holder_label(instance))
        }
        E::TurnUnknownName { name } => warn("the turn names a task that is not configured")
            .who(escape(name))
            .remedy("Add it to `turn.tasks`, or see who writes it into the hash."),
        E::TurnOutOfOrder { expected, came } => warn(
            "the turn was given to another task than the next one",
        )
        .who(format!("{} instead of {}", escape(came), escape(expected))),
        E::ExecutedAgain { id, before, now } => {
            warn(format!("member {} is executed again, by another worker", escape(id)))
                .who(format!("{} after {}", names(now), names(before)))
        }
        E::ExecutionExpired { id, holders, goes_on } => warn(format!(
            "the lock of member {} expired before the member left: {}",
            escape(id),
            outlived(*goes_on)
        ))
        .who(names(holders)),
        E::DeadHolder { id, holders, until } => warn(format!(
            "the worker that executes member {} fell silent; {}",
            escape(id),
            blocked(*until)
        ))
        .who(names(holders)),
        E::LockOutlivedTask { id, holders, until } => warn(format!(
            "member {} left the queue, and its lock stays, {}",
            escape(id),
            stays(*until)
        ))
        .who(names(holders)),
        E::MembersVanished { number } => warn(format!(
            "{number} due members left the queue, and nobody was seen to execute \
                them, though executions are seen otherwise"
        ))
        .remedy(
            "Find who removes members without executing them: often a loop that \
                cleans up.",
        ),
        E::TokenReset { from, to } => {
            warn(format!("the fencing token went back from {from} to {to}"))
        }
        E::LeaseLearned { lease_ms } => {
            debug("the full lifetime of a hold became known").ms(*lease_ms)
        }
        E::TaskUnreadable { why } => warn("the task cannot be read").unknown(why),
        E::TaskReadable => info("the task can be read again"),
        E::StoreDown { why, decides: true } => error("the store cannot be read").unknown(why),
        E::StoreDown { why, decides: false } => {
            warn("a server that decides nothing at present cannot be read").unknown(why)
        }
        E::StoreUp => info("the store can be read"),
        E::GenerationChanged { change } => {
            warn("the store may have lost data").reason(change.name())
        }
        E::MastersChanged { from, to: Ok(to) } if from.is_empty() => {
            info("it is known who decides").who(servers(to))
        }
        E::MastersChanged { from, to: Ok(to) } => {
            warn("another server decides").who(change(servers(from), servers(to)))
        }
        E::MastersChanged { to: Err(why), .. } => {
            error("it is not known which server decides").unknown(why)
        }
        // During each failover by Sentinel this holds for seconds, so it is only a warning. Two
        // holders are reported by an event of their own.
        E::RivalMaster => warn("a second server reports role master").remedy(
            "Make the wrong one a replica (`REPLICAOF`), and see which clients still \
                write to it.",
        ),
        E::RivalMasterGone => info("the second server no longer reports role master"),
        E::UnrelatedServers => error(
            "the servers never replicated from each other, so they are no master and \
                replicas",
        )
        .unknown(&Unknown::Unrelated),
        E::FailoverReport(report) => failover(report),
        E::ClockStep { by_ms } => warn(format!(
            "the server's clock moved by {} s against the agent's",
            signed_seconds(*by_ms)
        ))
        .remedy("Check time synchronisation on both hosts."),
    }
}

fn verdict_level(to: Verdict) -> Level {
    match to {
        Verdict::Split | Verdict::Down | Verdict::Stalled => Level::ERROR,
        Verdict::Unwanted | Verdict::Unknown => Level::WARN,
        Verdict::Pending | Verdict::Running | Verdict::Stopped => Level::INFO,
    }
}

fn verdict(from: Option<Verdict>, to: Verdict, sentence: &str) -> String {
    let from = from.map(|from| format!("{} -> ", from.name())).unwrap_or_default();
    format!("{from}{}: {sentence}", to.name())
}

fn hold_ended(end: End) -> Row {
    match end {
        End::Expired => warn("the hold ended: its lease ran out"),
        End::EndedEarly => {
            info("the hold ended: its holder released it, or had shortened its lease to this")
        }
        End::Replaced => info("the hold ended: another holder took over before its deadline"),
        End::Lost => warn("the hold ended: the store lost it"),
        End::Unknown => info("the hold ended: nobody could see how"),
    }
}

fn lost(sign: LossSign) -> &'static str {
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

fn split(left_ms: Option<u64>) -> &'static str {
    match left_ms {
        Some(_) => {
            "there is evidence of more than one holder; the older lease may go on for so long"
        }
        None => "there is evidence of more than one holder",
    }
}

fn on_off(on: bool) -> &'static str {
    if on { "on" } else { "off" }
}

fn outlived(goes_on: bool) -> &'static str {
    match goes_on {
        true => "its worker goes on without it",
        false => "its worker is dead, or takes longer than the lock lasts",
    }
}

fn blocked(until: Option<ServerTime>) -> String {
    match until.and_then(|until| rfc3339(until.ms())) {
        Some(end) => format!("nobody else can execute it until {end}"),
        None => "its lock has no known end".to_owned(),
    }
}

fn stays(until: Option<ServerTime>) -> String {
    let end = until.and_then(|until| rfc3339(until.ms()));
    end.map_or("with no known end".to_owned(), |end| format!("until {end}"))
}

fn failover(report: &FailoverReport) -> Row {
    let FailoverReport { changes, from, to, bytes_lost, fates, overlap_ms, blind_ms } = report;
    let fates = || Fate::ALL.iter().zip(fates);
    let counts: Vec<String> =
        fates().map(|(fate, count)| format!("{count} {}", fate.name())).collect();
    let mut message = format!("generation changed: {}", counts.join(", "));
    if let Some(bytes) = bytes_lost.filter(|bytes| *bytes > 0) {
        message.push_str(&format!("; the new master never had the last {bytes} bytes or more"));
    }
    if *overlap_ms > 0 {
        message.push_str(&format!("; two holders for at least {} s", seconds(*overlap_ms)));
    }
    let harms =
        |(fate, count): (&Fate, &u64)| matches!(fate, Fate::Lost | Fate::Overlapped) && *count > 0;
    let level = if fates().any(harms) { Level::WARN } else { Level::INFO };
    let servers = [from, to].into_iter().flatten().map(|node| escape(node.as_bytes()));
    let who = servers.collect::<Vec<_>>().join(" -> ");
    let reason = changes.first().map(|change| change.name());
    Row { reason, ..row(level, message).who(who).ms(*blind_ms) }
}

fn change(from: String, to: String) -> String {
    format!("{from} -> {to}")
}

fn names(holders: &[Holder]) -> String {
    list(holders.iter().map(holder_label), NAMED_MAX)
}

fn party_names(parties: &[Party]) -> String {
    list(parties.iter().map(party_name), NAMED_MAX)
}

fn user_names(users: &[User]) -> String {
    list(users.iter().map(|user| escape(user)), NAMED_MAX)
}

fn servers(nodes: &[Arc<str>]) -> String {
    list(nodes.iter().map(|node| escape(node.as_bytes())), NAMED_MAX)
}
