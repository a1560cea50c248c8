//! The switches by which users say whether they want a task.

use alloc::vec;
use alloc::vec::Vec;

use super::Part;
use crate::command;
use crate::redis::accept::Caps;
use crate::redis::ask::{Ask, Class};
use crate::redis::codec::{self, Scalar};
use crate::redis::replies::{Replies, scan_hash, scan_set, scanned_part};
use crate::redis::reply::Reply;
use lockwatch_judge::reading::{Beside, Switch, SwitchesReading, Unknown, User, wanted};
use lockwatch_judge::spec::{Codec, TaskSpec, WantedSource, WantedSpec};
use lockwatch_judge::verdict::Wanted;

pub(super) struct Switches;

impl Part for Switches {
    fn asks(&self, spec: &TaskSpec, _caps: Caps, out: &mut Vec<Ask>) {
        match spec.wanted.as_ref().map(|wanted| &wanted.source) {
            Some(WantedSource::Hash(key)) => out.push(scan_hash(Class::Texts, key)),
            Some(WantedSource::Set(key)) => out.push(scan_set(Class::Texts, key)),
            Some(WantedSource::Counter(key)) => out.extend(text_asks(key)),
            Some(WantedSource::Keys(keys)) => {
                out.extend(keys.iter().flat_map(|key| text_asks(key)));
            }
            Some(WantedSource::Always | WantedSource::Never) | None => {}
        }
    }

    fn decode(
        &self,
        spec: &TaskSpec,
        _caps: Caps,
        replies: &mut Replies<'_>,
        into: &mut Beside,
    ) -> Option<Ask> {
        let WantedSpec { source, codec } = spec.wanted.as_ref()?;
        into.switches = match source {
            WantedSource::Hash(_) => Some(hash(*codec, replies.next())),
            WantedSource::Set(_) => Some(set(replies.next())),
            WantedSource::Counter(key) => Some(counter(*codec, key, text(replies))),
            WantedSource::Keys(keys) => Some(named_keys(*codec, keys, replies)),
            WantedSource::Always | WantedSource::Never => None,
        };
        None
    }

    fn unreadable(&self, why: Unknown, into: &mut Beside) {
        into.switches = Some(SwitchesReading::Unknown(why));
    }

    fn is_watched(&self) -> bool {
        true
    }
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

fn named_keys(codec: Codec, keys: &[Vec<u8>], replies: &mut Replies<'_>) -> SwitchesReading {
    let mut switches = Vec::with_capacity(keys.len());
    let (mut refused, mut unanswered) = (None, None);
    for key in keys {
        match text(replies) {
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
    unanswered.map_or_else(|| read(switches, refused), SwitchesReading::Unknown)
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
