//! News of servers and topologies. Their epoch is that of the configuration in force: the state
//! takes in no other.

use std::sync::Arc;

use lockwatch_model::input::{self, Role, WakeUpState};
use lockwatch_model::reading::Unknown;
use lockwatch_model::spec::RedisIndex;
use serde::{Deserialize, Serialize};

use super::scalar::{Word, arcs, is_default, texts};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct News {
    redis: u16,
    node: String,
    kind: NewsKind,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum NewsKind {
    Connected { version: Option<String>, role: Option<Word<Role>> },
    Failed { why: Word<Unknown> },
    TickSkipped,
    WakeUps(Option<WakeUps>),
}

/// How a server's telling of changes stands, and what came of it since that was told last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WakeUps {
    state: Word<WakeUpState>,
    #[serde(default, skip_serializing_if = "is_default")]
    connects: u64,
    #[serde(default, skip_serializing_if = "is_default")]
    read: u64,
    #[serde(default, skip_serializing_if = "is_default")]
    coalesced: u64,
    #[serde(default, skip_serializing_if = "is_default")]
    foreign: u64,
}

impl From<&input::NodeNews> for News {
    fn from(news: &input::NodeNews) -> News {
        let input::NodeNews { epoch: _, redis, node, kind } = news;
        let kind = match kind {
            input::NodeNewsKind::Connected { version, role } => NewsKind::Connected {
                version: version.as_ref().map(|version| version.to_string()),
                role: role.map(Word),
            },
            input::NodeNewsKind::Failed { why } => NewsKind::Failed { why: Word(*why) },
            input::NodeNewsKind::TickSkipped => NewsKind::TickSkipped,
            input::NodeNewsKind::WakeUps(wake_ups) => NewsKind::WakeUps(wake_ups.map(
                |input::WakeUps { state, connects, read, coalesced, foreign }| WakeUps {
                    state: Word(state),
                    connects,
                    read,
                    coalesced,
                    foreign,
                },
            )),
        };
        News { redis: redis.0, node: node.to_string(), kind }
    }
}

impl News {
    pub(crate) fn into_model(self, epoch: u32) -> input::NodeNews {
        let News { redis, node, kind } = self;
        let kind = match kind {
            NewsKind::Connected { version, role } => input::NodeNewsKind::Connected {
                version: version.map(Arc::from),
                role: role.map(|role| role.0),
            },
            NewsKind::Failed { why } => input::NodeNewsKind::Failed { why: why.0 },
            NewsKind::TickSkipped => input::NodeNewsKind::TickSkipped,
            NewsKind::WakeUps(wake_ups) => input::NodeNewsKind::WakeUps(wake_ups.map(
                |WakeUps { state, connects, read, coalesced, foreign }| input::WakeUps {
                    state: state.0,
                    connects,
                    read,
                    coalesced,
                    foreign,
                },
            )),
        };
        input::NodeNews { epoch, redis: RedisIndex(redis), node: node.into(), kind }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Topology {
    redis: u16,
    masters: Told<Vec<String>>,
    nodes: Vec<String>,
    #[serde(default, skip_serializing_if = "is_default")]
    sentinels: Vec<Sentinel>,
    #[serde(default, skip_serializing_if = "is_default")]
    uncovered_slots: u32,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Told<T> {
    Known(T),
    Unknown(Word<Unknown>),
}

impl<T> Told<T> {
    fn new<M>(told: &Result<M, Unknown>, known: impl Fn(&M) -> T) -> Told<T> {
        match told {
            Ok(value) => Told::Known(known(value)),
            Err(why) => Told::Unknown(Word(*why)),
        }
    }

    fn into_model<M>(self, known: impl Fn(T) -> M) -> Result<M, Unknown> {
        match self {
            Told::Known(value) => Ok(known(value)),
            Told::Unknown(why) => Err(why.0),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Sentinel {
    address: String,
    master: Option<Told<String>>,
}

impl From<&input::Topology> for Topology {
    fn from(topology: &input::Topology) -> Topology {
        let input::Topology { epoch: _, redis, masters, nodes, sentinels, uncovered_slots } =
            topology;
        let sentinel = |input::SentinelWord { address, master }: &input::SentinelWord| Sentinel {
            address: address.to_string(),
            master: master.as_ref().map(|master| Told::new(master, |master| master.to_string())),
        };
        Topology {
            redis: redis.0,
            masters: Told::new(masters, |masters| texts(masters)),
            nodes: texts(nodes),
            sentinels: sentinels.iter().map(sentinel).collect(),
            uncovered_slots: *uncovered_slots,
        }
    }
}

impl Topology {
    pub(crate) fn into_model(self, epoch: u32) -> input::Topology {
        let Topology { redis, masters, nodes, sentinels, uncovered_slots } = self;
        let sentinel = |Sentinel { address, master }| input::SentinelWord {
            address: Arc::from(address),
            master: master.map(|master| master.into_model(Arc::from)),
        };
        input::Topology {
            epoch,
            redis: RedisIndex(redis),
            masters: masters.into_model(arcs),
            nodes: arcs(nodes),
            sentinels: sentinels.into_iter().map(sentinel).collect(),
            uncovered_slots,
        }
    }
}
