//! The reading of one task at one instant. Failure is data: each part is either a full answer or
//! reports why there is none.

use alloc::sync::Arc;
use alloc::vec::Vec;
#[cfg(feature = "serde")]
use serde::{Deserialize, Serialize};

use crate::time::ServerTime;
use crate::verdict::Wanted;

named! {
    /// Why a value is unknown. The list is closed, because it is a label value.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    #[cfg_attr(feature = "serde", derive(Serialize, Deserialize), serde(rename_all = "snake_case"))]
    pub enum Unknown {
        /// Nothing was read yet.
        NotReadYet = "not_read_yet",
        /// The server's name could not be resolved.
        Dns = "dns",
        /// The connection was refused or could not be made.
        Connect = "connect",
        /// The connection broke.
        Closed = "closed",
        /// No reply within the timeout.
        Timeout = "timeout",
        /// The reply came too late to be evidence (also when the agent itself was paused).
        Late = "late",
        /// The server refused the given name or password.
        Auth = "auth",
        /// The server requires a password, and none is configured.
        NoPassword = "no_password",
        /// A password is configured, and the server has none.
        NeedlessPassword = "needless_password",
        /// The server is in protected mode: without a password it serves only its own machine.
        Protected = "protected",
        /// The user lacks a permission.
        NoPermission = "no_permission",
        /// The server does not have the configured database.
        Database = "database",
        /// The server speaks only TLS, and none is configured.
        NeedsTls = "needs_tls",
        /// No TLS session with the server, for another reason than the following ones.
        Tls = "tls",
        /// No authority that is trusted signed the server's certificate, or it cannot be used.
        TlsUntrusted = "tls_untrusted",
        /// The server's certificate is for other names.
        TlsName = "tls_name",
        /// The server's certificate has expired, or is not yet valid.
        TlsExpired = "tls_expired",
        /// The server wants a client certificate, or refused the given one.
        TlsClient = "tls_client",
        /// The files of the configuration for TLS cannot be used.
        TlsFiles = "tls_files",
        /// The server is loading its data.
        Loading = "loading",
        /// The server is busy running a script.
        Busy = "busy",
        /// The server reports that it is a replica.
        NotMaster = "not_master",
        /// The server is one of KeyDB's active replicas: others may grant the same lock.
        ActiveReplica = "active_replica",
        /// The server that should have the keys is a Sentinel.
        Sentinel = "sentinel",
        /// The server that should be a Sentinel is none.
        NoSentinel = "no_sentinel",
        /// The Sentinel does not know a master of the configured name.
        MasterName = "master_name",
        /// The server is part of a cluster, and is not configured as one.
        Cluster = "cluster",
        /// The server that should be part of a cluster is none.
        NoCluster = "no_cluster",
        /// No majority of the configured Sentinels agrees on a master, or its answers are too old;
        /// or no server of an ensemble has a majority of it behind it.
        Quorum = "quorum",
        /// The server of an ensemble lacks changes that another one showed before.
        Behind = "behind",
        /// None of the configured servers reports that it is master.
        NoMaster = "no_master",
        /// Two servers report that they are master, and contradict each other about this lock.
        TwoMasters = "two_masters",
        /// The configured servers never replicated from each other, so they are no master and
        /// replicas.
        Unrelated = "unrelated",
        /// The key's slot has moved, or is moving, to another server of the cluster.
        Moved = "moved",
        /// The cluster does not serve the key's slot.
        ClusterDown = "cluster_down",
        /// A server is announced at an address that the configuration does not allow.
        ForeignAddress = "foreign_address",
        /// The server's clock has just stepped.
        ClockStep = "clock_step",
        /// The server refuses to report its role.
        RoleRefused = "role_refused",
        /// The server is full: too many clients.
        MaxClients = "max_clients",
        /// The key has another type than the configured one.
        WrongType = "wrong_type",
        /// The key does not have the layout of the library.
        Layout = "layout",
        /// The value path finds nothing in the value, or no text there.
        ValuePath = "value_path",
        /// An instant in the value is years away, as if it were written in another unit.
        FarInstant = "far_instant",
        /// There is more data than lockwatch reads.
        TooLarge = "too_large",
        /// The answer does not follow the protocol, or answers another request.
        Protocol = "protocol",
        /// The server answered with another error.
        ServerError = "server_error",
        /// Too few of the lock's stores were read to know who has it.
        FewStores = "few_stores",
        /// The newest reading is too old: the watcher fell behind.
        Stale = "stale",
    }
}

impl Unknown {
    /// Whether the key is there, and is not what the configuration says it is.
    pub fn is_about_the_key(self) -> bool {
        use Unknown::{FarInstant, Layout, TooLarge, ValuePath, WrongType};
        matches!(self, WrongType | Layout | ValuePath | FarInstant | TooLarge)
    }
}

impl Unknown {
    /// Whether the server answers, and not what was asked about this task.
    pub(crate) fn is_of_the_task(self) -> bool {
        self.is_about_the_key() || matches!(self, Unknown::NoPermission | Unknown::ServerError)
    }
}

/// The parts of one task read in one sweep.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize), serde(deny_unknown_fields))]
pub struct TaskReading {
    /// What guards it.
    pub guard: GuardReading,
    /// The parts beside that.
    pub parts: Parts,
}

impl TaskReading {
    /// Of a lock.
    pub fn of_lock(lock: LockReading, extras: Extras, parts: Parts) -> TaskReading {
        TaskReading { guard: GuardReading::Lock { lock, extras }, parts }
    }

    /// The same with another reading of what guards it. Extras of the lock stay.
    #[must_use]
    pub fn guarded_by(self, guard: GuardReading) -> TaskReading {
        let guard = match (guard, self.guard) {
            (GuardReading::Lock { lock, .. }, GuardReading::Lock { extras, .. }) => {
                GuardReading::Lock { lock, extras }
            }
            (guard, _) => guard,
        };
        TaskReading { guard, ..self }
    }

    /// Waiters and fencing token of the lock.
    pub fn extras(&self) -> Extras {
        match &self.guard {
            GuardReading::Lock { extras, .. } => extras.clone(),
            GuardReading::Turn(_) | GuardReading::Queue(_) => Extras::default(),
        }
    }

    /// The lock, if one guards the task.
    pub fn lock(&self) -> Option<&LockReading> {
        match &self.guard {
            GuardReading::Lock { lock, .. } => Some(lock),
            GuardReading::Turn(_) | GuardReading::Queue(_) => None,
        }
    }
}

/// What guards a task, at one instant.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize), serde(rename_all = "snake_case"))]
pub enum GuardReading {
    /// A lock.
    Lock {
        /// The lock itself.
        lock: LockReading,
        /// Waiters and fencing token, if the library has them and they were requested.
        extras: Extras,
    },
    /// Whose turn it is.
    Turn(TurnReading),
    /// A queue of delayed tasks.
    Queue(QueueReading),
}

impl GuardReading {
    /// Whether it shows that the key exists: it holds something, if only what cannot be read.
    pub fn shows_key(&self) -> bool {
        match self {
            GuardReading::Lock { lock: LockReading::Held(_), .. } => true,
            GuardReading::Lock { extras: Extras { queue: Some(_), .. }, .. } => true,
            GuardReading::Turn(TurnReading::Read(turns)) => !turns.is_empty(),
            GuardReading::Queue(QueueReading::Read(queue)) => queue.members > 0,
            _ => matches!(
                self.why_unknown(),
                Some(
                    Unknown::WrongType | Unknown::Layout | Unknown::FarInstant | Unknown::TooLarge
                )
            ),
        }
    }

    /// Why there is no trustworthy answer, if so.
    pub fn why_unknown(&self) -> Option<Unknown> {
        match self {
            GuardReading::Lock { lock: LockReading::Unknown(why), .. }
            | GuardReading::Turn(TurnReading::Unknown(why))
            | GuardReading::Queue(QueueReading::Unknown(why)) => Some(*why),
            GuardReading::Lock { .. } | GuardReading::Turn(_) | GuardReading::Queue(_) => None,
        }
    }
}

/// Whose turn it is at one instant.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize), serde(rename_all = "snake_case"))]
pub enum TurnReading {
    /// All fields of the hash, sorted by name. More than one is a passing, or a split.
    Read(Vec<Turn>),
    /// No trustworthy answer.
    Unknown(Unknown),
}

/// A field of the hash: a task that may run.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize), serde(deny_unknown_fields))]
pub struct Turn {
    /// The task's name.
    #[cfg_attr(feature = "serde", serde(with = "crate::bytes"))]
    pub name: Vec<u8>,
    /// From when on it may run.
    pub from: ServerTime,
}

/// A queue of delayed tasks at one instant.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize), serde(rename_all = "snake_case"))]
pub enum QueueReading {
    /// What is in it.
    Read(Queue),
    /// No trustworthy answer.
    Unknown(Unknown),
}

/// What is in a queue.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize), serde(deny_unknown_fields))]
pub struct Queue {
    /// Number of members.
    pub members: u64,
    /// Number of members that are due.
    pub due: u64,
    /// The first members in the order of their instants: at most [`QueueSpec::FIRST`] that are due,
    /// and if these are all, the next one.
    ///
    /// [`QueueSpec::FIRST`]: crate::spec::QueueSpec::FIRST
    pub first: Vec<Member>,
    /// What became of members that were seen before and are none of the first now.
    pub left: Vec<Left>,
}

/// One of the first members of a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize), serde(deny_unknown_fields))]
pub struct Member {
    /// The member as it stands in the set.
    pub id: Id,
    /// The id inside the member, if a value path names one.
    pub name: Option<Id>,
    /// When it was, or is, due.
    pub due: ServerTime,
    /// Its lock; `None` if that was not asked for.
    pub lock: Option<LockReading>,
}

/// What became of a member.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize), serde(deny_unknown_fields))]
pub struct Left {
    /// The member as it stood in the set.
    pub id: Id,
    /// Whether it is still in the queue.
    pub place: Place,
    /// Its lock.
    pub lock: LockReading,
}

/// Where a member is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize), serde(rename_all = "snake_case"))]
pub enum Place {
    /// Not in the queue.
    Gone,
    /// In the queue, due at this instant.
    Due(ServerTime),
}

/// The id of a member.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize))]
pub struct Id(#[cfg_attr(feature = "serde", serde(with = "crate::bytes"))] pub Vec<u8>);

/// The parts of a task beside its lock. `None`: not configured, or (in a cluster) not on this
/// server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize), serde(deny_unknown_fields))]
pub struct Parts {
    /// The switches; `None` also when there are none to read (unset, always, never).
    pub switches: Option<SwitchesReading>,
    /// The progress.
    pub progress: Option<ProgressReading>,
    /// The claims.
    pub claims: Option<ClaimsReading>,
    /// What guards reported of themselves among the claims, sorted by instance.
    #[cfg_attr(feature = "serde", serde(default))]
    pub overruns: Vec<Overrun>,
    /// What guards state of the runs of their scripts, among the claims.
    #[cfg_attr(feature = "serde", serde(default))]
    pub runs: RunsReading,
    /// Host names by instance id; `None` also when not requested this time.
    #[cfg_attr(feature = "serde", serde(with = "crate::bytes"))]
    pub hosts: Option<HostsReading>,
    /// The pause.
    pub pause: Option<PauseReading>,
}

impl Parts {
    /// The same parts, none of which may be used.
    pub(crate) fn unreadable(&self, why: Unknown) -> Parts {
        Parts {
            switches: self.switches.as_ref().map(|_| SwitchesReading::Unknown(why)),
            progress: self.progress.as_ref().map(|_| ProgressReading::Unknown(why)),
            claims: self.claims.as_ref().map(|_| ClaimsReading::Unknown(why)),
            overruns: Vec::new(),
            runs: RunsReading::default(),
            hosts: None,
            pause: self.pause.map(|_| PauseReading::Unknown(why)),
        }
    }

    /// Why parts are unknown; names of hosts are for display only, and not among them.
    pub fn whys_unknown(&self) -> impl Iterator<Item = Unknown> {
        let Parts { switches, progress, claims, overruns: _, runs: _, hosts: _, pause } = self;
        let whys = [
            if let Some(SwitchesReading::Unknown(why)) = switches { Some(*why) } else { None },
            if let Some(ProgressReading::Unknown(why)) = progress { Some(*why) } else { None },
            if let Some(ClaimsReading::Unknown(why)) = claims { Some(*why) } else { None },
            if let Some(PauseReading::Unknown(why)) = pause { Some(*why) } else { None },
        ];
        whys.into_iter().flatten()
    }

    /// Why any part is unknown, to be corrected.
    pub fn whys_unknown_mut(&mut self) -> impl Iterator<Item = &mut Unknown> {
        let Parts { switches, progress, claims, overruns: _, runs: _, hosts, pause } = self;
        let whys = [
            if let Some(SwitchesReading::Unknown(why)) = switches { Some(why) } else { None },
            if let Some(ProgressReading::Unknown(why)) = progress { Some(why) } else { None },
            if let Some(ClaimsReading::Unknown(why)) = claims { Some(why) } else { None },
            if let Some(Err(why)) = hosts { Some(why) } else { None },
            if let Some(PauseReading::Unknown(why)) = pause { Some(why) } else { None },
        ];
        whys.into_iter().flatten()
    }
}

/// Host names by instance id, or why they cannot be read.
pub type HostsReading = Result<Vec<(Vec<u8>, Vec<u8>)>, Unknown>;

/// The lock at one instant.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize), serde(rename_all = "snake_case"))]
pub enum LockReading {
    /// Held. Readings that show the same state share one copy.
    Held(Arc<Held>),
    /// Not held.
    Free,
    /// No trustworthy answer.
    Unknown(Unknown),
}

impl From<Held> for LockReading {
    fn from(held: Held) -> LockReading {
        LockReading::Held(Arc::new(held))
    }
}

/// A held lock.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize), serde(deny_unknown_fields))]
pub struct Held {
    /// Whether holders exclude each other.
    pub mode: Mode,
    /// The holders, sorted. More than one in an exclusive mode is a split. Empty only for a read
    /// lock whose readers are all ghosts.
    pub holders: Vec<Holder>,
    /// Readers that died but still block writers.
    pub ghosts: u32,
    /// When the lease ends.
    pub deadline: Deadline,
}

named! {
    /// Whether holders exclude each other.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    #[cfg_attr(feature = "serde", derive(Serialize, Deserialize), serde(rename_all = "snake_case"))]
    pub enum Mode {
        /// A plain lock: one holder at most.
        Exclusive = "exclusive",
        /// The write side of a read/write lock: one holder at most.
        Write = "write",
        /// The read side: any number of holders.
        Read = "read",
    }
}

/// One holder.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize), serde(deny_unknown_fields))]
pub struct Holder {
    /// The id of the instance: Redisson's client id, the whole token of a string lock, or what a
    /// value path names. Empty: the lock's value identifies nobody.
    #[cfg_attr(feature = "serde", serde(with = "crate::bytes"))]
    pub client: Vec<u8>,
    /// The thread within the instance, if the library has it.
    #[cfg_attr(feature = "serde", serde(with = "crate::bytes"))]
    pub thread: Option<Vec<u8>>,
    /// How often the holder entered the lock; `None` if the library does not count.
    pub entries: Option<u32>,
    /// Whether knowing `client` is enough to release the lock. If so, only its digest may be shown.
    pub secret: bool,
}

impl Holder {
    /// A holder of whom nothing is known: every holder of the lock writes the same.
    pub const NOBODY_KNOWN: Holder =
        Holder { client: Vec::new(), thread: None, entries: None, secret: false };

    /// Whether its id tells it from other holders.
    pub fn is_identified(&self) -> bool {
        !self.client.is_empty() || self.thread.is_some()
    }

    /// The thread that `<client>:<thread>` names, or `<client>:<thread>:<transaction>`. The second
    /// form, and a thread that is a UUID (node-redisson), count only if the first part is certainly
    /// a client id.
    pub fn of_thread(name: &[u8]) -> Option<Holder> {
        let of = |client: &[u8], thread: &[u8]| Holder {
            client: client.to_vec(),
            thread: Some(thread.to_vec()),
            entries: None,
            secret: false,
        };
        let (client, thread) = split_at_last_colon(name)?;
        if !client.is_empty() && is_integer(thread) || is_uuid(client) && is_uuid(thread) {
            return Some(of(client, thread));
        }
        let (client, number) = split_at_last_colon(client)?;
        (is_uuid(client) && is_integer(number) && is_transaction_id(thread))
            .then(|| Some(of(client, name.get(client.len() + 1..)?)))
            .flatten()
    }
}

/// Whether an instance is in both lists.
pub fn clients_meet(a: &[Holder], b: &[Holder]) -> bool {
    a.iter().any(|holder| b.iter().any(|other| other.client == holder.client))
}

fn split_at_last_colon(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let colon = bytes.iter().rposition(|byte| *byte == b':')?;
    Some((bytes.get(..colon)?, bytes.get(colon + 1..)?))
}

fn is_integer(bytes: &[u8]) -> bool {
    let digits = bytes.strip_prefix(b"-").unwrap_or(bytes);
    !digits.is_empty() && digits.len() <= 20 && digits.iter().all(u8::is_ascii_digit)
}

/// Length of a UUID with dashes in bytes.
pub(crate) const UUID_BYTES: usize = 36;

pub(crate) fn is_uuid(bytes: &[u8]) -> bool {
    bytes.len() == UUID_BYTES
        && bytes.iter().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => *byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        })
}

/// A hexadecimal id, with or without dashes; never the name of one of the library's own helper
/// fields.
fn is_transaction_id(bytes: &[u8]) -> bool {
    bytes.len() >= 32 && bytes.iter().all(|byte| byte.is_ascii_hexdigit() || *byte == b'-')
}

/// When a lease ends, on the server's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize), serde(rename_all = "snake_case"))]
pub enum Deadline {
    /// At this server time.
    At(ServerTime),
    /// Never: the key has no TTL.
    Never,
    /// Unknown: the deadline moved during two reads, or the read took too long to compute it from
    /// the remaining time.
    Torn,
}

impl Deadline {
    /// The deadline, if there is one and it is known.
    pub fn instant(self) -> Option<ServerTime> {
        match self {
            Deadline::At(instant) => Some(instant),
            Deadline::Never | Deadline::Torn => None,
        }
    }
}

/// Details of a lock beyond holder and deadline. `None`: not requested, refused, or not a property
/// of this lock.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize), serde(deny_unknown_fields))]
pub struct Extras {
    /// Waiters: queued threads of a fair lock, otherwise instances that listen for the release.
    pub waiters: Option<u64>,
    /// The fencing token last given out.
    pub fencing_token: Option<i64>,
    /// Those at the head of its queue, in their order.
    #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "Option::is_none"))]
    pub queue: Option<Arc<Vec<Contender>>>,
}

/// An entry in the queue of a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize), serde(deny_unknown_fields))]
pub struct Contender {
    /// Its name in the queue.
    #[cfg_attr(feature = "serde", serde(with = "crate::bytes"))]
    pub name: Vec<u8>,
    /// What it does there.
    pub stands: Stands,
    /// The session with which it ends, as the holder's client; `None`: with none.
    #[cfg_attr(feature = "serde", serde(with = "crate::bytes"))]
    pub session: Option<Vec<u8>>,
    /// When it came, by the store's clock.
    pub since: Option<ServerTime>,
    /// What it says of itself, cut to [`Contender::SAYS_BYTES_MAX`].
    #[cfg_attr(feature = "serde", serde(with = "crate::bytes"))]
    pub says: Option<Vec<u8>>,
}

impl Contender {
    /// More of what it says is not kept.
    pub const SAYS_BYTES_MAX: usize = 128;
}

named! {
    /// What an entry does in the queue of a lock.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    #[cfg_attr(feature = "serde", derive(Serialize, Deserialize), serde(rename_all = "snake_case"))]
    pub enum Stands {
        /// It has the lock.
        Holds = "holds",
        /// It waits for the lock.
        Waits = "waits",
        /// It is no living contender, and everybody behind it waits in vain.
        Blocks = "blocks",
    }
}

/// All switches of a task at one instant.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize), serde(rename_all = "snake_case"))]
pub enum SwitchesReading {
    /// The switches that exist, sorted by user.
    Read {
        /// The switches.
        #[cfg_attr(feature = "serde", serde(with = "crate::bytes"))]
        switches: Vec<(User, Switch)>,
        /// Whether the key that holds them exists (for named keys: any of them).
        key_exists: bool,
        /// Number of users that want the task, if a counter holds it instead of single switches.
        counted: Option<u64>,
        /// Whether these are all switches. If there are more than are read, the server chooses
        /// which ones come first.
        whole: bool,
        /// When they end by themselves.
        ends: Ends,
    },
    /// No trustworthy answer.
    Unknown(Unknown),
}

/// When switches end by themselves, because their keys or fields have a TTL.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize), serde(deny_unknown_fields))]
pub struct Ends {
    /// When the key ends that holds all of them. If each has a key of its own: `Never` if the
    /// deadlines of all are known, else `Torn`.
    pub key: Deadline,
    /// The known deadlines of single switches, sorted by user: of a field, or of a user's own key.
    #[cfg_attr(feature = "serde", serde(with = "crate::bytes"))]
    pub own: Vec<(User, ServerTime)>,
}

impl Ends {
    /// Nothing is known.
    pub const UNKNOWN: Ends = Ends { key: Deadline::Torn, own: Vec::new() };

    /// When the switch of `user` has ended, if that is known.
    pub fn of(&self, user: &User) -> Option<ServerTime> {
        let own = self.own.iter().find(|(other, _)| other == user).map(|(_, at)| *at);
        own.into_iter().chain(self.key.instant()).min()
    }
}

impl Default for Ends {
    fn default() -> Ends {
        Ends::UNKNOWN
    }
}

/// A user's name as it is stored.
pub type User = Vec<u8>;

/// One switch.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize), serde(rename_all = "snake_case"))]
pub enum Switch {
    /// The user wants the task.
    On,
    /// The user does not want the task.
    Off,
    /// The value decodes as neither.
    Undecodable {
        /// The value, cut to 64 bytes.
        #[cfg_attr(feature = "serde", serde(with = "crate::bytes"))]
        value: Vec<u8>,
        /// The codec that would have decoded it, if any.
        fits: Option<Codec>,
    },
}

#[cfg(feature = "serde")]
impl crate::bytes::Bytes for Switch {
    type Written = Switch;

    fn written(&self) -> Switch {
        self.clone()
    }

    fn read(written: Switch) -> Option<Switch> {
        Some(written)
    }
}

named! {
    /// The encoding of switches.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    #[cfg_attr(feature = "serde", derive(Serialize, Deserialize), serde(rename_all = "snake_case"))]
    pub enum Codec {
        /// The text itself.
        Raw = "raw",
        /// A JSON scalar.
        Json = "json",
        /// Java serialization (Spring's default).
        Jdk = "jdk",
        /// Kryo 5 (Redisson's default).
        Kryo5 = "kryo5",
    }
}

/// The progress at one instant.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize), serde(rename_all = "snake_case"))]
pub enum ProgressReading {
    /// It is there.
    Value(ProgressValue),
    /// The progress key, field or member does not exist.
    Absent,
    /// No trustworthy answer.
    Unknown(Unknown),
}

/// The value of a progress, and when it ends.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize), serde(deny_unknown_fields))]
pub struct ProgressValue {
    /// The bytes (of a length, a score or a count: its decimal digits).
    #[cfg_attr(feature = "serde", serde(with = "crate::bytes"))]
    pub bytes: Vec<u8>,
    /// When the value by itself ends: a string key, or a field that has a TTL of its own. `Err`:
    /// this cannot be read.
    pub own: Result<Deadline, Unknown>,
    /// When the hash, list, set or stream ends that it stands in.
    pub whole: Deadline,
}

impl ProgressValue {
    /// A value that never ends.
    pub fn lasting(bytes: Vec<u8>) -> ProgressValue {
        ProgressValue { bytes, own: Ok(Deadline::Never), whole: Deadline::Never }
    }

    /// When it is gone, if nothing renews it.
    pub fn ends(&self) -> Option<ServerTime> {
        self.own.ok().into_iter().chain([self.whole]).filter_map(Deadline::instant).min()
    }
}

/// The claims at one instant.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize), serde(rename_all = "snake_case"))]
pub enum ClaimsReading {
    /// Instance id and the bytes it wrote, sorted by id.
    #[cfg_attr(feature = "serde", serde(with = "crate::bytes"))]
    Read(Vec<(Vec<u8>, Vec<u8>)>),
    /// No trustworthy answer.
    Unknown(Unknown),
}

/// A guard's own statement that its script ran on after its lease may have ended.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize), serde(deny_unknown_fields))]
pub struct Overrun {
    /// The instance that the script ran for.
    #[cfg_attr(feature = "serde", serde(with = "crate::bytes"))]
    pub instance: Vec<u8>,
    /// Its fencing token.
    pub token: u64,
    /// For how long, in milliseconds.
    pub ms: u64,
}

/// What guards state of the runs of their scripts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize), serde(deny_unknown_fields))]
pub struct RunsReading {
    /// Those that can be read, sorted by instance.
    pub guards: Vec<GuardRuns>,
    /// Number of fields that no guard wrote, or not completely.
    pub unreadable: u32,
}

/// A guard's own statement of the runs of its script.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize), serde(deny_unknown_fields))]
pub struct GuardRuns {
    /// The guard's instance.
    #[cfg_attr(feature = "serde", serde(with = "crate::bytes"))]
    pub instance: Vec<u8>,
    /// The host that it runs on.
    #[cfg_attr(feature = "serde", serde(with = "crate::bytes"))]
    pub host: Vec<u8>,
    /// Its newest runs that ended, oldest first: at most [`GuardRuns::ENDED_MAX`].
    pub ended: Vec<Ended>,
    /// When the present run began.
    pub since: Option<ServerTime>,
}

impl GuardRuns {
    /// So many runs that ended are stated at most.
    pub const ENDED_MAX: usize = 3;

    /// When a run began or ended last.
    pub fn newest(&self) -> ServerTime {
        let ended = self.ended.iter().map(|run| run.to);
        self.since.into_iter().chain(ended).max().unwrap_or_default()
    }
}

/// A run that ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize), serde(deny_unknown_fields))]
pub struct Ended {
    /// When it began.
    pub from: ServerTime,
    /// When it ended.
    pub to: ServerTime,
    /// Its exit code; 128 and more for a signal.
    pub code: u8,
    /// Its guard ended it, for whatever reason.
    pub asked: bool,
}

impl Ended {
    /// How long it lasted, in milliseconds.
    pub fn lasted_ms(&self) -> u64 {
        u64::try_from(self.to.since_ms(self.from)).unwrap_or(0)
    }

    /// Whether the script failed.
    pub fn is_error(&self) -> bool {
        self.code != 0 && !self.asked
    }
}

/// The pause at one instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize), serde(rename_all = "snake_case"))]
pub enum PauseReading {
    /// No pause is set.
    None,
    /// Alerts wait until this instant of the server's clock.
    Until(ServerTime),
    /// The value is neither Unix seconds nor RFC 3339.
    Undecodable,
    /// No trustworthy answer.
    Unknown(Unknown),
}
/// Combines switches: any on is yes; otherwise any that cannot be read is unknown; otherwise no.
pub fn wanted(switches: &[(User, Switch)]) -> Wanted {
    if switches.iter().any(|(_, switch)| *switch == Switch::On) {
        return Wanted::Yes;
    }
    match switches.iter().any(|(_, switch)| matches!(switch, Switch::Undecodable { .. })) {
        true => Wanted::Unknown,
        false => Wanted::No,
    }
}
