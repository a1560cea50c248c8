//! How the servers of a Redis are organised, and what that means to whoever judges.

use lockwatch_judge::named;
use lockwatch_judge::spec::{Authority, StoreSpec};

named! {
    /// How the servers of one store are organised, and what determines the deciding one.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum RedisKind {
        /// One server. It decides while it reports that it is master.
        Standalone = "standalone",
        /// A master and its replicas without Sentinel. The server that reports that it is master
        /// decides.
        Replicated = "replicated",
        /// The majority of the configured Sentinels names the master, which decides.
        Sentinel = "sentinel",
        /// The master of a key's slot decides.
        Cluster = "cluster",
    }
}

impl RedisKind {
    /// Who decides in a store of this kind.
    pub fn authority(self) -> Authority {
        match self {
            RedisKind::Standalone => Authority::ALONE,
            RedisKind::Replicated => Authority::SELF_DECLARED,
            RedisKind::Sentinel => Authority::ANNOUNCED,
            RedisKind::Cluster => Authority::DIVIDED,
        }
    }

    /// A store of this kind with default settings.
    pub fn store(self, name: &str, addresses: &[&str]) -> StoreSpec {
        StoreSpec { kind: self.name().into(), ..StoreSpec::new(name, self.authority(), addresses) }
    }

    /// The kind of a store.
    pub fn of(store: &StoreSpec) -> Option<RedisKind> {
        RedisKind::ALL.into_iter().find(|kind| kind.name() == &*store.kind)
    }
}
