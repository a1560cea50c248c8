//! What may happen in the world: data only, below those who make it happen.

use lockwatch_guard::{Action, Reply};
use lockwatch_watch::redis::driver::{Event as LinkEvent, LinkId, Push};

use crate::plan::{Act, Keeps, OldMaster};
use crate::request::Request;
use crate::truth::Turn;

/// Something that happens at an instant.
#[derive(Debug)]
pub(crate) enum Event {
    /// A step of the plan.
    Step(usize),
    /// A fault ends.
    Heal(Heal),
    /// A worker's timer.
    Worker(WorkerTurn),
    /// Something happens to a guard, its keeper or its script.
    Guard(GuardTurn),
    /// Somebody who takes turns does something.
    Turn { task: usize, job: TurnJob },
    /// Something happens to a queue of delayed tasks.
    Queue { task: usize, job: QueueJob },
    /// It is time for a run of a periodic task.
    Run { task: usize },
    /// The free lock of a task may be taken.
    Contend { task: usize },
    /// Workers check whether they are wanted.
    Poll { task: usize },
    /// A batch reaches its server, or continues there.
    Request(Box<Request>),
    /// Something reaches an agent over a connection. `number`: it is about that batch.
    Link { agent: usize, life: u32, link: LinkId, event: Box<LinkEvent>, number: Option<u64> },
    /// A server or a Sentinel announces something over a connection.
    Announced { agent: usize, life: u32, link: LinkId, push: Push },
    /// All connections between an agent and a server break.
    Break { agent: usize, server: usize },
    /// An agent has something to do.
    Wake { agent: usize, life: u32 },
    /// A second has passed for an agent's engine.
    Tick { agent: usize, life: u32 },
}

/// An event that ends a fault, or that another event causes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Heal {
    Switch {
        task: usize,
        user: usize,
    },
    Look {
        task: usize,
    },
    Odd {
        task: usize,
        fault: u64,
    },
    Start {
        server: usize,
        keeps: Keeps,
        loading_ms: u64,
    },
    Loaded {
        server: usize,
    },
    Thaw {
        server: usize,
    },
    Ready {
        server: usize,
    },
    Quick {
        server: usize,
    },
    Accepts {
        server: usize,
    },
    Allows {
        server: usize,
    },
    Link {
        agent: usize,
        server: usize,
        what: usize,
        fault: u64,
    },
    Phantom {
        task: usize,
        left: u64,
    },
    /// Something goes on.
    Act(Act),
    GiveBack {
        task: usize,
        number: u64,
    },
    Promote {
        to: usize,
        old: OldMaster,
        ms: u64,
    },
    Kill {
        server: usize,
    },
    Freeze {
        server: usize,
    },
    /// An agent reads its configuration again.
    Reload {
        agent: usize,
    },
    Follow {
        server: usize,
    },
    Names {
        sentinel: usize,
        server: usize,
    },
    Sentinel {
        sentinel: usize,
        fault: u64,
    },
    Lag {
        server: usize,
        lag_ms: u64,
    },
    SecondGone {
        task: usize,
    },
    Layout {
        server: usize,
    },
    Alone {
        server: usize,
    },
    Together {
        server: usize,
    },
}

/// A worker's timer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WorkerTurn {
    pub(crate) task: usize,
    pub(crate) worker: usize,
    pub(crate) life: u32,
    pub(crate) job: Job,
}

/// The purpose of a timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Job {
    /// The watchdog of the hold of this number.
    Renew(u64),
    Claim(u64),
    Progress(u64),
    /// It releases the lock, and stops.
    Leave(u64),
    /// It leaves one of several entries.
    Exit(u64),
    /// It notices that it works without the lock, and stops.
    GiveUp,
    /// Its process is restarted.
    Start,
    /// The thread of a hold is restarted.
    Mend(u64),
}

/// What one of them does next.
#[derive(Clone, Debug)]
pub(crate) enum TurnJob {
    Look,
    Take { who: usize, turn: Turn },
    Pass { who: usize, turn: Turn },
    Set { who: usize },
    Del { turn: Turn },
    Kick,
}

/// What happens next.
#[derive(Clone, Debug)]
pub(crate) enum QueueJob {
    Add,
    Look { worker: usize },
    Claim { worker: usize, number: u64, token: Vec<u8> },
    Renew { worker: usize, number: u64, id: Vec<u8>, token: Vec<u8> },
    Done { worker: usize, number: u64, id: Vec<u8>, token: Vec<u8> },
}

/// Something that happens to a guard, its keeper or its script.
#[derive(Clone, Debug)]
pub(crate) struct GuardTurn {
    pub(crate) task: usize,
    pub(crate) host: usize,
    /// The guard process, or that of the keeper's guard.
    pub(crate) life: u32,
    pub(crate) what: GuardJob,
}

/// What happens to it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum GuardJob {
    /// A guard process starts.
    Start,
    /// The guard's alarm, or the end of its pause.
    Wake,
    /// A request reaches its server.
    Arrives(GuardRequest),
    /// A reply, or a timeout, reaches the guard.
    Answered { number: u64, reply: Reply, is_refused: bool },
    /// What the guard watches may have changed.
    Changed,
    /// It is time to read the switches, and to claim.
    Parts { number: u64 },
    /// The keeper says that all is gone.
    Gone { code: Option<u8>, at: u64 },
    /// The keeper's process has ended before its script did.
    KeeperGone { script: u64 },
    /// The keeper's alarm, or the end of its pause.
    Keeper { script: u64 },
    /// The script ends by itself.
    Ends { script: u64 },
}

/// A request of a guard on its way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GuardRequest {
    pub(crate) number: u64,
    pub(crate) action: Action,
    /// The hold that it is about.
    pub(crate) hold: u64,
    /// The highest token that its guard knew.
    pub(crate) floor: u64,
    pub(crate) server: usize,
    pub(crate) process: u64,
    pub(crate) sent: u64,
    /// Another server refused it before, because this one decides.
    pub(crate) is_sent_on: bool,
    /// It reached a server that stands still.
    pub(crate) waits: bool,
}
