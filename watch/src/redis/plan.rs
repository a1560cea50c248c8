//! What the parts of a watcher report to each other: which server is asked for what, and what the others
//! must know of its answers.

use alloc::collections::BTreeMap;
use alloc::string::ToString as _;
use alloc::sync::Arc;
use alloc::vec::Vec;

use lockwatch_judge::input::{Announcer, Role, Standing, Topology};
use lockwatch_judge::reading::{SwitchesReading, Unknown};
use lockwatch_judge::spec::{StoreIndex, TaskIndex};
use lockwatch_judge::time::Mono;

use super::read::Scope;
use super::store::HostPort;
use super::tasks::{Server, Tasks};

/// How long a server that decided before is still read, in milliseconds: it may act as if it still
/// decided.
pub(super) const FORMER_MS: u64 = 300_000;

/// Which server is asked for what.
#[derive(Debug, Default)]
pub(super) struct Plan {
    pub(super) nodes: Vec<Planned>,
    /// Tasks about which nobody decides, each with the reason.
    pub(super) orphans: Vec<(Tasks, Unknown)>,
    /// Keys that live on another server than their lock: for each task, the server (or why there is
    /// none) and the parts that it has.
    pub(super) remote_parts: BTreeMap<TaskIndex, Vec<(Server, Scope)>>,
    /// Whether the topology must be reported to the engine.
    pub(super) is_known: bool,
    pub(super) masters: Option<Result<Vec<Arc<str>>, Unknown>>,
    pub(super) sentinels: Vec<Announcer>,
    pub(super) uncovered_slots: u32,
}

/// One server of the plan and its duty.
#[derive(Debug)]
pub(super) struct Planned {
    pub(super) at: HostPort,
    pub(super) address: Arc<str>,
    pub(super) duty: Duty,
}

/// What one server is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Duty {
    pub(super) standing: Standing,
    /// Tasks whose lock this server reads.
    pub(super) own: Tasks,
    /// All tasks of the Redis, so that keys beside other servers' locks can be read here.
    pub(super) all: Tasks,
    /// Tasks of which only parts live here.
    pub(super) scopes: Arc<BTreeMap<TaskIndex, Scope>>,
}

impl Planned {
    pub(super) fn new(at: HostPort, duty: Duty) -> Planned {
        let address = at.to_string().into();
        Planned { at, address, duty }
    }
}

/// All tasks as orphans, if nobody decides.
pub(super) fn orphans(all: &Tasks, why: Option<Unknown>) -> Vec<(Tasks, Unknown)> {
    why.map(|why| (Arc::clone(all), why)).into_iter().collect()
}

impl Duty {
    pub(super) fn none() -> Duty {
        Duty::new(Standing::Witness, &Tasks::default(), &Tasks::default())
    }

    pub(super) fn new(standing: Standing, own: &Tasks, all: &Tasks) -> Duty {
        Duty { standing, own: Arc::clone(own), all: Arc::clone(all), scopes: Arc::default() }
    }

    /// Which parts of `task` live here.
    pub(super) fn scope(&self, task: TaskIndex) -> Scope {
        self.scopes.get(&task).copied().unwrap_or(Scope::ALL)
    }
}

impl Plan {
    /// Whether no server or Sentinel has reported yet which servers there are.
    pub(super) fn knows_nothing(&self) -> bool {
        self.nodes.is_empty() && !self.is_known
    }

    /// The topology to report to the engine.
    pub(super) fn topology(&self, epoch: u32, store: StoreIndex) -> Topology {
        Topology {
            epoch,
            store,
            masters: self.masters.clone().unwrap_or(Err(Unknown::NotReadYet)),
            nodes: self.nodes.iter().map(|node| Arc::clone(&node.address)).collect(),
            announcers: self.sentinels.clone(),
            uncovered: self.uncovered_slots,
        }
    }
}

/// What other servers' nodes must know of a result.
#[derive(Debug, Default)]
pub(super) struct NodeReport {
    /// The role that the server reported.
    pub(super) role: Option<Role>,
    /// Why it reported none.
    pub(super) failed: Option<Unknown>,
    /// Whether a key is not on the expected server.
    pub(super) moved: bool,
    /// Tasks whose lock was read by a deciding server.
    pub(super) read: Option<Vec<TaskIndex>>,
    /// Switches whose lock lives on another server: that server, the instant of the request, the
    /// task and the reading.
    pub(super) switches: Vec<(Arc<str>, Mono, TaskIndex, SwitchesReading)>,
    /// Changes that it announced.
    pub(super) hints: Option<Hints>,
}

/// What a server's announcements concern.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Hints {
    /// The tasks, each once for each of its changed keys.
    pub(super) tasks: Vec<TaskIndex>,
    /// Whether any task may be concerned.
    pub(super) all: bool,
}
