//! Describes a reading in words: how the replies were decoded.

use std::borrow::Cow;

use lockwatch_judge::reading::{
    ClaimsReading, Deadline, GuardReading, Held, Holder, HostsReading, LockReading, PauseReading,
    ProgressReading, QueueReading, Switch, SwitchesReading, TaskReading, Turn, TurnReading,
    Unknown,
};
use lockwatch_judge::spec::TaskSpec;
use lockwatch_judge::time::ServerTime;
use serde::{Deserialize, Serialize};

use super::names::instance_label;
use crate::text::identity::{digest, escape, holder_label, list};
use crate::text::instants::rfc3339;
use lockwatch_watch::redis::driver::ReadReason;

/// Maximum number of names in a list.
const NAMED_MAX: usize = 20;

/// One part of a reading in words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "ExplainedPart"))]
pub struct Fact {
    /// Which part: `lock`, `turn`, `queue`, `switches`, …
    pub of: String,
    /// The value that was read.
    pub says: String,
}

/// The parts of `reading` that were asked for, in words.
pub fn decoded(spec: &TaskSpec, reading: &TaskReading, asked: ReadReason) -> Vec<Fact> {
    let TaskReading { guard, parts } = reading;
    let extras = reading.extras();
    let parts = [
        (spec.kind.name(), (asked != ReadReason::Parts).then(|| guard_words(guard))),
        ("waiters", extras.waiters.map(|waiters| waiters.to_string())),
        ("fencing_token", extras.fencing_token.map(|token| token.to_string())),
        ("switches", parts.switches.as_ref().map(switches_words)),
        ("progress", parts.progress.as_ref().map(progress_words)),
        ("claims", parts.claims.as_ref().map(|claims| claims_words(spec, claims))),
        ("hosts", parts.hosts.as_ref().map(|hosts| hosts_words(spec, hosts))),
        ("pause", parts.pause.as_ref().map(pause_words)),
    ];
    parts
        .into_iter()
        .filter_map(|(of, says)| Some(Fact { of: of.to_owned(), says: says? }))
        .collect()
}

fn guard_words(guard: &GuardReading) -> String {
    match guard {
        GuardReading::Lock { lock, .. } => lock_words(lock),
        GuardReading::Turn(TurnReading::Unknown(why))
        | GuardReading::Queue(QueueReading::Unknown(why)) => unknown_words(*why),
        GuardReading::Turn(TurnReading::Read(turns)) => {
            let word = |turn: &Turn| {
                Cow::Owned(format!("{} from {}", escape(&turn.name), instant(turn.from)))
            };
            none_or(list(turns.iter().map(word), NAMED_MAX))
        }
        GuardReading::Queue(QueueReading::Read(queue)) => {
            format!("{} members, {} of them due", queue.members, queue.due)
        }
    }
}

fn lock_words(lock: &LockReading) -> String {
    match lock {
        LockReading::Free => "free".to_owned(),
        LockReading::Unknown(why) => unknown_words(*why),
        LockReading::Held(held) => {
            let Held { mode, holders, ghosts, deadline } = &**held;
            let by = none_or(list(holders.iter().map(holder_words), NAMED_MAX));
            let deadline = match deadline {
                Deadline::At(at) => format!("until {}", instant(*at)),
                Deadline::Never => "without any TTL".to_owned(),
                Deadline::Torn => "with a deadline that moved while it was read".to_owned(),
            };
            let ghosts =
                if *ghosts > 0 { format!(", dead readers: {ghosts}") } else { String::new() };
            format!("held ({}) by {by} {deadline}{ghosts}", mode.name())
        }
    }
}

/// The display name of a holder in a sentence: as in labels, but a digest is marked as one.
pub(crate) fn holder_name(holder: &Holder) -> Cow<'_, str> {
    match holder.secret {
        true => Cow::Owned(format!("digest {}", holder_label(holder))),
        false => holder_label(holder),
    }
}

fn holder_words(holder: &Holder) -> Cow<'_, str> {
    match holder.entries {
        Some(entries) if entries > 1 => {
            Cow::Owned(format!("{} (entered {entries} times)", holder_name(holder)))
        }
        _ => holder_name(holder),
    }
}

fn switches_words(switches: &SwitchesReading) -> String {
    match switches {
        SwitchesReading::Unknown(why) => unknown_words(*why),
        SwitchesReading::Read { counted: Some(count), .. } => format!("{count} users want it"),
        SwitchesReading::Read { key_exists: false, .. } => "there are none".to_owned(),
        SwitchesReading::Read { switches, .. } => {
            let word = |(user, switch): &(Vec<u8>, Switch)| {
                let state = match switch {
                    Switch::On => "on",
                    Switch::Off => "off",
                    Switch::Undecodable { .. } => "undecodable",
                };
                format!("{} {state}", escape(user)).into()
            };
            list(switches.iter().map(word), NAMED_MAX)
        }
    }
}

fn progress_words(progress: &ProgressReading) -> String {
    match progress {
        ProgressReading::Value(value) => {
            let ends = value.ends().map(|at| format!(", until {}", instant(at)));
            format!("a value, digest {}{}", digest(&value.bytes), ends.unwrap_or_default())
        }
        ProgressReading::Absent => "there is none".to_owned(),
        ProgressReading::Unknown(why) => unknown_words(*why),
    }
}

fn claims_words(spec: &TaskSpec, claims: &ClaimsReading) -> String {
    match claims {
        ClaimsReading::Unknown(why) => unknown_words(*why),
        ClaimsReading::Read(claims) => {
            let word = |(id, value): &(Vec<u8>, Vec<u8>)| {
                format!("{} (digest {})", instance_label(spec, id), digest(value)).into()
            };
            none_or(list(claims.iter().map(word), NAMED_MAX))
        }
    }
}

fn hosts_words(spec: &TaskSpec, hosts: &HostsReading) -> String {
    let hosts = match hosts {
        Ok(hosts) => hosts,
        Err(why) => return unknown_words(*why),
    };
    let word = |(id, host): &(Vec<u8>, Vec<u8>)| {
        format!("{} on {}", instance_label(spec, id), escape(host)).into()
    };
    none_or(list(hosts.iter().map(word), NAMED_MAX))
}

fn pause_words(pause: &PauseReading) -> String {
    match pause {
        PauseReading::None => "none".to_owned(),
        PauseReading::Until(until) => format!("until {}", instant(*until)),
        PauseReading::Undecodable => "neither Unix seconds nor RFC 3339".to_owned(),
        PauseReading::Unknown(why) => unknown_words(*why),
    }
}

fn unknown_words(why: Unknown) -> String {
    format!("unknown ({})", why.name())
}

pub(crate) fn none_or(names: String) -> String {
    if names.is_empty() { "nobody".to_owned() } else { names }
}

fn instant(at: ServerTime) -> String {
    rfc3339(at.ms()).unwrap_or_else(|| "a far instant".to_owned())
}
