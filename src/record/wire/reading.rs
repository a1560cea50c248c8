//! What was read of a task.

use lockwatch_model::reading::{self, Mode, Unknown};
use lockwatch_model::spec::Codec;
use lockwatch_model::time::ServerTime;
use serde::{Deserialize, Serialize};

use super::scalar::{Blob, Word, blob, change, is_default};

/// How a reading differs from what was expected; a part that is absent is as expected.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Change {
    pub(crate) task: u32,
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) lock: Option<Lock>,
    /// Of the lock, when nothing but its deadline moved: by so much.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) deadline_moved: Option<i64>,
    #[serde(default, skip_serializing_if = "is_default", deserialize_with = "change")]
    pub(crate) waiters: Option<Option<u64>>,
    #[serde(default, skip_serializing_if = "is_default", deserialize_with = "change")]
    pub(crate) fencing_token: Option<Option<i64>>,
    #[serde(default, skip_serializing_if = "is_default", deserialize_with = "change")]
    pub(crate) switches: Option<Option<Switches>>,
    #[serde(default, skip_serializing_if = "is_default", deserialize_with = "change")]
    pub(crate) progress: Option<Option<Progress>>,
    #[serde(default, skip_serializing_if = "is_default", deserialize_with = "change")]
    pub(crate) claims: Option<Option<Claims>>,
    #[serde(default, skip_serializing_if = "is_default", deserialize_with = "change")]
    pub(crate) hosts: Option<Option<Hosts>>,
    #[serde(default, skip_serializing_if = "is_default", deserialize_with = "change")]
    pub(crate) pause: Option<Option<Pause>>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Lock {
    Held(Held),
    Free,
    Unknown(Word<Unknown>),
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Held {
    mode: Word<Mode>,
    holders: Vec<Holder>,
    #[serde(default, skip_serializing_if = "is_default")]
    ghosts: u32,
    deadline: Deadline,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Holder {
    client: Blob,
    #[serde(default, skip_serializing_if = "is_default")]
    thread: Option<Blob>,
    #[serde(default, skip_serializing_if = "is_default")]
    entries: Option<u32>,
    #[serde(default, skip_serializing_if = "is_default")]
    secret: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Deadline {
    At(i64),
    Never,
    Torn,
}

impl From<&reading::LockReading> for Lock {
    fn from(lock: &reading::LockReading) -> Lock {
        match lock {
            reading::LockReading::Free => Lock::Free,
            reading::LockReading::Unknown(why) => Lock::Unknown(Word(*why)),
            reading::LockReading::Held(held) => Lock::Held(Held {
                mode: Word(held.mode),
                holders: held.holders.iter().map(Holder::from).collect(),
                ghosts: held.ghosts,
                deadline: match held.deadline {
                    reading::Deadline::At(at) => Deadline::At(at.0),
                    reading::Deadline::Never => Deadline::Never,
                    reading::Deadline::Torn => Deadline::Torn,
                },
            }),
        }
    }
}

impl From<Lock> for reading::LockReading {
    fn from(lock: Lock) -> reading::LockReading {
        match lock {
            Lock::Free => reading::LockReading::Free,
            Lock::Unknown(why) => reading::LockReading::Unknown(why.0),
            Lock::Held(Held { mode, holders, ghosts, deadline }) => {
                reading::LockReading::from(reading::Held {
                    mode: mode.0,
                    holders: holders.into_iter().map(reading::Holder::from).collect(),
                    ghosts,
                    deadline: match deadline {
                        Deadline::At(at) => reading::Deadline::At(ServerTime(at)),
                        Deadline::Never => reading::Deadline::Never,
                        Deadline::Torn => reading::Deadline::Torn,
                    },
                })
            }
        }
    }
}

impl From<&reading::Holder> for Holder {
    fn from(holder: &reading::Holder) -> Holder {
        let reading::Holder { client, thread, entries, secret } = holder;
        Holder {
            client: blob(client),
            thread: thread.as_deref().map(blob),
            entries: *entries,
            secret: *secret,
        }
    }
}

impl From<Holder> for reading::Holder {
    fn from(holder: Holder) -> reading::Holder {
        let Holder { client, thread, entries, secret } = holder;
        reading::Holder { client: client.0, thread: thread.map(|thread| thread.0), entries, secret }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Switches {
    Read {
        switches: Vec<(Blob, Switch)>,
        key_exists: bool,
        counted: Option<u64>,
        /// Left out where it is true, as in recordings from before.
        #[serde(default = "whole", skip_serializing_if = "is_whole")]
        whole: bool,
    },
    Unknown(Word<Unknown>),
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Switch {
    On,
    Off,
    Undecodable { value: Blob, fits: Option<Word<Codec>> },
}

fn whole() -> bool {
    true
}

fn is_whole(whole: &bool) -> bool {
    *whole
}

impl From<&reading::SwitchesReading> for Switches {
    fn from(reading: &reading::SwitchesReading) -> Switches {
        let switch = |(user, switch): &(Vec<u8>, reading::Switch)| {
            let switch = match switch {
                reading::Switch::On => Switch::On,
                reading::Switch::Off => Switch::Off,
                reading::Switch::Undecodable { value, fits } => {
                    Switch::Undecodable { value: blob(value), fits: fits.map(Word) }
                }
            };
            (blob(user), switch)
        };
        match reading {
            reading::SwitchesReading::Unknown(why) => Switches::Unknown(Word(*why)),
            reading::SwitchesReading::Read { switches, key_exists, counted, whole } => {
                Switches::Read {
                    switches: switches.iter().map(switch).collect(),
                    key_exists: *key_exists,
                    counted: *counted,
                    whole: *whole,
                }
            }
        }
    }
}

impl From<Switches> for reading::SwitchesReading {
    fn from(switches: Switches) -> reading::SwitchesReading {
        let switch = |(user, switch): (Blob, Switch)| {
            let switch = match switch {
                Switch::On => reading::Switch::On,
                Switch::Off => reading::Switch::Off,
                Switch::Undecodable { value, fits } => {
                    reading::Switch::Undecodable { value: value.0, fits: fits.map(|fits| fits.0) }
                }
            };
            (user.0, switch)
        };
        match switches {
            Switches::Unknown(why) => reading::SwitchesReading::Unknown(why.0),
            Switches::Read { switches, key_exists, counted, whole } => {
                reading::SwitchesReading::Read {
                    switches: switches.into_iter().map(switch).collect(),
                    key_exists,
                    counted,
                    whole,
                }
            }
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Progress {
    Value(Blob),
    Absent,
    Unknown(Word<Unknown>),
}

impl From<&reading::ProgressReading> for Progress {
    fn from(reading: &reading::ProgressReading) -> Progress {
        match reading {
            reading::ProgressReading::Value(value) => Progress::Value(blob(value)),
            reading::ProgressReading::Absent => Progress::Absent,
            reading::ProgressReading::Unknown(why) => Progress::Unknown(Word(*why)),
        }
    }
}

impl From<Progress> for reading::ProgressReading {
    fn from(progress: Progress) -> reading::ProgressReading {
        match progress {
            Progress::Value(value) => reading::ProgressReading::Value(value.0),
            Progress::Absent => reading::ProgressReading::Absent,
            Progress::Unknown(why) => reading::ProgressReading::Unknown(why.0),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Claims {
    Read(Vec<(Blob, Blob)>),
    Unknown(Word<Unknown>),
}

impl From<&reading::ClaimsReading> for Claims {
    fn from(reading: &reading::ClaimsReading) -> Claims {
        match reading {
            reading::ClaimsReading::Read(claims) => Claims::Read(pairs(claims)),
            reading::ClaimsReading::Unknown(why) => Claims::Unknown(Word(*why)),
        }
    }
}

impl From<Claims> for reading::ClaimsReading {
    fn from(claims: Claims) -> reading::ClaimsReading {
        match claims {
            Claims::Read(claims) => reading::ClaimsReading::Read(from_pairs(claims)),
            Claims::Unknown(why) => reading::ClaimsReading::Unknown(why.0),
        }
    }
}

/// Without a word about which it is: the first recordings have only what was read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum Hosts {
    Read(Vec<(Blob, Blob)>),
    Unknown(Word<Unknown>),
}

impl From<&reading::HostsReading> for Hosts {
    fn from(reading: &reading::HostsReading) -> Hosts {
        match reading {
            Ok(hosts) => Hosts::Read(pairs(hosts)),
            Err(why) => Hosts::Unknown(Word(*why)),
        }
    }
}

impl From<Hosts> for reading::HostsReading {
    fn from(hosts: Hosts) -> reading::HostsReading {
        match hosts {
            Hosts::Read(hosts) => Ok(from_pairs(hosts)),
            Hosts::Unknown(why) => Err(why.0),
        }
    }
}

pub(crate) fn pairs(pairs: &[(Vec<u8>, Vec<u8>)]) -> Vec<(Blob, Blob)> {
    pairs.iter().map(|(name, value)| (blob(name), blob(value))).collect()
}

pub(crate) fn from_pairs(pairs: Vec<(Blob, Blob)>) -> Vec<(Vec<u8>, Vec<u8>)> {
    pairs.into_iter().map(|(name, value)| (name.0, value.0)).collect()
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Pause {
    None,
    Until(i64),
    Undecodable,
    Unknown(Word<Unknown>),
}

impl From<reading::PauseReading> for Pause {
    fn from(reading: reading::PauseReading) -> Pause {
        match reading {
            reading::PauseReading::None => Pause::None,
            reading::PauseReading::Until(until) => Pause::Until(until.0),
            reading::PauseReading::Undecodable => Pause::Undecodable,
            reading::PauseReading::Unknown(why) => Pause::Unknown(Word(why)),
        }
    }
}

impl From<Pause> for reading::PauseReading {
    fn from(pause: Pause) -> reading::PauseReading {
        match pause {
            Pause::None => reading::PauseReading::None,
            Pause::Until(until) => reading::PauseReading::Until(ServerTime(until)),
            Pause::Undecodable => reading::PauseReading::Undecodable,
            Pause::Unknown(why) => reading::PauseReading::Unknown(why.0),
        }
    }
}
