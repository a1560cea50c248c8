//! The switches by which users say whether they want a task.

use alloc::vec;
use alloc::vec::Vec;

use super::part::Part;
use crate::command;
use crate::redis::accept::Caps;
use crate::redis::ask::{Ask, Class};
use crate::redis::codec::{self, Scalar};
use crate::redis::expiry::{self, Expiry};
use crate::redis::replies::{Replies, scan_hash, scan_set, scanned_part};
use crate::redis::reply::Reply;
use lockwatch_judge::reading::{
    Deadline, Ends, Parts, Switch, SwitchesReading, Unknown, User, wanted,
};
use lockwatch_judge::spec::{Codec, Key, TaskSpec, WantedSource, WantedSpec};
use lockwatch_judge::time::ServerTime;
use lockwatch_judge::verdict::Wanted;

/// Maximum number of fields of which is asked when they end. It bounds the command.
const FIELDS_MAX: usize = 64;

pub(super) struct Switches;

impl Part for Switches {
    fn asks(&self, spec: &TaskSpec, caps: Caps, out: &mut Vec<Ask>) {
        let Some(WantedSpec { source, .. }) = here(spec) else { return };
        for key in keys(source) {
            value_asks(source, key, out);
            expiry::asks(key, caps, out);
        }
    }

    fn decode(
        &self,
        spec: &TaskSpec,
        caps: Caps,
        replies: &mut Replies<'_>,
        into: &mut Parts,
    ) -> Option<Ask> {
        into.switches = decode(here(spec)?, Some(caps), replies);
        None
    }

    fn fields_ask(&self, spec: &TaskSpec, caps: Caps, fields: &[User]) -> Option<Ask> {
        let Some(WantedSpec { source: WantedSource::Hash(key), .. }) = here(spec) else {
            return None;
        };
        let is_asked = caps.hpexpiretime && !fields.is_empty();
        is_asked.then(|| expiry::of_fields(Class::Number, key, fields))
    }

    fn take_fields(&self, fields: &[User], reply: &Reply, into: &mut Parts) {
        let (Some(SwitchesReading::Read { ends, .. }), Ok(expiries)) =
            (&mut into.switches, expiry::take_fields(reply))
        else {
            return;
        };
        let own = fields.iter().zip(expiries).filter_map(|(field, expiry)| match expiry {
            Expiry::At(at) => Some((field.clone(), ServerTime::at(at))),
            Expiry::Absent | Expiry::Never | Expiry::Reckoned { .. } => None,
        });
        ends.own = own.collect();
    }

    fn unreadable(&self, why: Unknown, into: &mut Parts) {
        into.switches = Some(SwitchesReading::Unknown(why));
    }

    fn is_watched(&self) -> bool {
        true
    }
}

/// The switches, if they are in the store that is read.
fn here(spec: &TaskSpec) -> Option<&WantedSpec> {
    spec.wanted.as_ref().filter(|_| spec.has_switches_here())
}

/// What is asked for the switches alone, without when they end.
pub(super) fn values_asks(spec: &TaskSpec, out: &mut Vec<Ask>) {
    let Some(WantedSpec { source, .. }) = here(spec) else { return };
    keys(source).iter().for_each(|key| value_asks(source, key, out));
}

/// Decodes the replies to [`values_asks`].
pub(super) fn read_values(spec: &TaskSpec, replies: &mut Replies<'_>) -> Option<SwitchesReading> {
    decode(spec.wanted.as_ref()?, None, replies)
}

/// The keys of the switches.
fn keys(source: &WantedSource) -> &[Key] {
    match source {
        WantedSource::Hash(key) | WantedSource::Set(key) | WantedSource::Counter(key) => {
            core::slice::from_ref(key)
        }
        WantedSource::Keys(keys) => keys,
        WantedSource::Always | WantedSource::Never => &[],
    }
}

fn value_asks(source: &WantedSource, key: &[u8], out: &mut Vec<Ask>) {
    match source {
        WantedSource::Hash(_) => out.push(scan_hash(Class::Texts, key)),
        WantedSource::Set(_) => out.push(scan_set(Class::Texts, key)),
        WantedSource::Counter(_) | WantedSource::Keys(_) => out.extend(text_asks(key)),
        WantedSource::Always | WantedSource::Never => {}
    }
}

/// Decodes the values, and with `caps` after each key when it ends.
fn decode(
    WantedSpec { source, codec }: &WantedSpec,
    caps: Option<Caps>,
    replies: &mut Replies<'_>,
) -> Option<SwitchesReading> {
    let mut end = |replies: &mut Replies<'_>| match caps.map(|caps| expiry::take(caps, replies)) {
        Some(Ok(Expiry::Reckoned { at, .. })) => Deadline::At(ServerTime::at(at)),
        Some(Ok(expiry)) => expiry.deadline(),
        Some(Err(_)) | None => Deadline::Torn,
    };
    let mut reading = match source {
        WantedSource::Hash(_) => hash(*codec, replies.next()),
        WantedSource::Set(_) => set(replies.next()),
        WantedSource::Counter(key) => counter(*codec, key, text(replies)),
        WantedSource::Keys(keys) => return Some(named_keys(*codec, keys, replies, &mut end)),
        WantedSource::Always | WantedSource::Never => return None,
    };
    let key = end(replies);
    if let SwitchesReading::Read { ends, .. } = &mut reading {
        ends.key = key;
    }
    Some(reading)
}

/// The fields of a hash of switches of which the next reading asks when they end: those that are
/// on.
pub(crate) fn fields_to_follow<'a>(
    spec: &TaskSpec,
    reading: &'a SwitchesReading,
) -> impl Iterator<Item = &'a User> {
    let wanted = spec.wanted.as_ref();
    let is_hash = wanted.is_some_and(|wanted| matches!(wanted.source, WantedSource::Hash(_)));
    let switches = match reading {
        SwitchesReading::Read { switches, .. } if is_hash => switches.as_slice(),
        SwitchesReading::Read { .. } | SwitchesReading::Unknown(_) => &[],
    };
    let on = switches.iter().filter(|(_, switch)| *switch == Switch::On);
    on.map(|(field, _)| field).take(FIELDS_MAX)
}

/// Reads a string with a size limit. `EXISTS` distinguishes an empty one from an absent one.
fn text_asks(key: &[u8]) -> [Ask; 2] {
    [
        Ask::new(Class::Number, command!("EXISTS", key)),
        Ask::new(Class::Text, command!("GETRANGE", key, "0", "255")),
    ]
}

/// Builds a reading of switches. `missing`: some could not be read, and why; then only "on" is an
/// answer.
fn read(mut switches: Vec<(User, Switch)>, missing: Option<Unknown>) -> SwitchesReading {
    switches.sort_unstable_by(|a, b| a.0.cmp(&b.0));
    switches.dedup_by(|a, b| a.0 == b.0);
    match missing {
        Some(why) if wanted(&switches) != Wanted::Yes => SwitchesReading::Unknown(why),
        _ => SwitchesReading::Read {
            key_exists: !switches.is_empty(),
            switches,
            counted: None,
            whole: missing.is_none(),
            ends: Ends::UNKNOWN,
        },
    }
}

fn hash(codec: Codec, reply: &Reply) -> SwitchesReading {
    let (items, whole) = match scanned_part(reply) {
        Ok(part) => part,
        Err(why) => return SwitchesReading::Unknown(why),
    };
    let switches = items.chunks(2).map(|pair| match pair {
        [user, value] => Some((user.as_bytes()?.to_vec(), codec::switch(codec, value.as_bytes()?))),
        _ => None,
    });
    match switches.collect() {
        Some(switches) => read(switches, (!whole).then_some(Unknown::TooLarge)),
        None => SwitchesReading::Unknown(Unknown::Protocol),
    }
}

fn set(reply: &Reply) -> SwitchesReading {
    let (items, whole) = match scanned_part(reply) {
        Ok(part) => part,
        Err(why) => return SwitchesReading::Unknown(why),
    };
    match items.iter().map(|member| Some((member.as_bytes()?.to_vec(), Switch::On))).collect() {
        Some(switches) => read(switches, (!whole).then_some(Unknown::TooLarge)),
        None => SwitchesReading::Unknown(Unknown::Protocol),
    }
}

fn counter(codec: Codec, key: &[u8], value: Result<Option<&[u8]>, Unknown>) -> SwitchesReading {
    let value = match value {
        Ok(Some(value)) => value,
        Ok(None) => {
            return SwitchesReading::Read {
                switches: Vec::new(),
                key_exists: false,
                counted: Some(0),
                whole: true,
                ends: Ends::UNKNOWN,
            };
        }
        Err(why) => return SwitchesReading::Unknown(why),
    };
    let (switch, counted) = match count(codec, value) {
        Some(0) => (Switch::Off, Some(0)),
        Some(count) => (Switch::On, Some(count)),
        None => {
            let fits = Codec::ALL
                .into_iter()
                .find(|other| *other != codec && count(*other, value).is_some());
            (Switch::Undecodable { value: value.get(..64).unwrap_or(value).to_vec(), fits }, None)
        }
    };
    SwitchesReading::Read {
        switches: vec![(key.to_vec(), switch)],
        key_exists: true,
        counted,
        whole: true,
        ends: Ends::UNKNOWN,
    }
}

/// A count of users. A negative number is no count, and shows nothing about who wants the task.
fn count(codec: Codec, value: &[u8]) -> Option<u64> {
    match codec::decode(codec, value)? {
        Scalar::Int(count) => u64::try_from(count).ok(),
        Scalar::Text(text) => text.trim_ascii().parse().ok(),
        Scalar::Null | Scalar::Bool(_) => None,
    }
}

/// `end` decodes when a key ends.
fn named_keys(
    codec: Codec,
    keys: &[Key],
    replies: &mut Replies<'_>,
    mut end: impl FnMut(&mut Replies<'_>) -> Deadline,
) -> SwitchesReading {
    let mut switches = Vec::with_capacity(keys.len());
    let mut known = Ends { key: Deadline::Never, own: Vec::new() };
    let (mut refused, mut unanswered) = (None, None);
    for key in keys {
        let value = text(replies);
        match (&value, end(replies)) {
            (_, Deadline::At(at)) => known.own.push((key.clone(), at)),
            (Ok(Some(_)), Deadline::Torn) => known.key = Deadline::Torn,
            _ => {}
        }
        match value {
            Ok(Some(value)) => switches.push((key.clone(), codec::switch(codec, value))),
            Ok(None) => {}
            // For a key that may not be read, it is unknown whether it exists. A made-up state
            // would come and go with the permission, and look as if a user had written.
            Err(why @ Unknown::NoPermission) => refused = Some(why),
            // A key that holds no switch makes one user unknown; the others count.
            Err(why @ Unknown::WrongType) => {
                switches.push((
                    key.clone(),
                    Switch::Undecodable { value: why.name().as_bytes().to_vec(), fits: None },
                ));
            }
            // All keys are in one slot, so this is no answer about any of them, and no key was
            // written.
            Err(why) => unanswered = unanswered.or(Some(why)),
        }
    }
    let mut reading = unanswered.map_or_else(|| read(switches, refused), SwitchesReading::Unknown);
    if let SwitchesReading::Read { ends, .. } = &mut reading {
        known.own.sort_unstable();
        *ends = known;
    }
    reading
}

/// The value of a string, `None` when the key does not exist.
fn text<'a>(replies: &mut Replies<'a>) -> Result<Option<&'a [u8]>, Unknown> {
    let (exists, value) = (replies.next(), replies.next());
    match (exists, value) {
        (Reply::Error(error), _) | (_, Reply::Error(error)) => Err(error.into()),
        (Reply::Int(0), Reply::Bytes(value)) if value.is_empty() => Ok(None),
        (Reply::Int(_), Reply::Bytes(value)) => Ok(Some(value)),
        _ => Err(Unknown::Protocol),
    }
}
