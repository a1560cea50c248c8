//! Every block of the configuration file and the names of its fields. The parser refuses every
//! other field. A test checks that the documentation and its complete example name each of them.

use std::fmt;

use crate::text::nearest::nearest;

/// The kinds of stores that a task may be in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreKind {
    /// Keys of a Redis.
    Redis,
    /// Nodes of a ZooKeeper ensemble.
    ZooKeeper,
}

impl StoreKind {
    /// The field in which a task, and the top of the file, names such stores.
    pub fn field(self) -> &'static str {
        match self {
            StoreKind::Redis => "redis",
            StoreKind::ZooKeeper => "zookeeper",
        }
    }
}

impl fmt::Display for StoreKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            StoreKind::Redis => "Redis",
            StoreKind::ZooKeeper => "ZooKeeper",
        })
    }
}

/// A block and its fields.
#[derive(Clone, Copy, Debug)]
pub struct BlockSpec {
    /// The path of the block, for people.
    pub path: &'static str,
    /// The names of its fields.
    pub fields: &'static [&'static str],
    /// Fields that people expect here, each with what to write instead.
    pub otherwise: &'static [(&'static str, &'static str)],
}

/// All blocks.
pub const BLOCKS: [&BlockSpec; 23] = [
    &TOP,
    &LINKS,
    &REDIS,
    &TLS,
    &WANT,
    &ZOOKEEPER,
    &SENTINEL,
    &CLUSTER,
    &TASK,
    &LOCK,
    &RUNS,
    &HOLDER,
    &HOST,
    &TURN,
    &QUEUE,
    &MEMBER_ID,
    &WANTED,
    &PROGRESS,
    &CLAIMS,
    &HOSTS,
    &PAUSED_UNTIL,
    &GUARD,
    &BYTES,
];

const NO_PASSWORD: &str = "a password is not accepted here; use `password_file`, `password_env` or \
    `password_command`";
const NO_ZOOKEEPER_LOGIN: &str = "write `user:password` of the scheme `digest` into a file, and \
    name it with `auth_file: …`";
const NO_CHROOT: &str = "write whole paths: what stands after the servers in the clients' \
    connection string comes before each path";
const IN_REDIS: &str =
    "write it next to `cluster`, not in it: all servers of a cluster have the same users";
const TLS_IN_REDIS: &str =
    "write it next to this block, not in it: all servers of a redis are reached alike";
const UNCHECKED: &str = "is not supported: anybody could have answered; name the authority \
    that signed the certificate with `ca_file`, and its name with `server_name`";
const A_GLOB: (&str, &str) = ("pattern", "write the glob as `lock: {match: \"report:lock:*\"}`");

pub(super) const TOP: BlockSpec = BlockSpec {
    path: "",
    fields: &["redis", "zookeeper", "labels", "links", "metrics", "drill", "tasks", "max_tasks"],
    otherwise: &[("patterns", "write each as a task with `lock: {match: \"report:lock:*\"}`")],
};

pub(super) const LINKS: BlockSpec = BlockSpec {
    path: "links",
    fields: &["grafana", "lockwatch", "runbooks"],
    otherwise: &[("dashboards", "name the server with `grafana: …`")],
};

pub(super) const REDIS: BlockSpec = BlockSpec {
    path: "redis.<name>",
    fields: &[
        "url",
        "nodes",
        "sentinel",
        "cluster",
        "tls",
        "username",
        "password_file",
        "password_env",
        "password_command",
        "password_max_age",
        "db",
        "interval",
        "timeout",
        "assume_master",
        "wake_ups",
        "want",
    ],
    otherwise: &[
        ("password", NO_PASSWORD),
        ("host", "write it into the URL: `url: redis://host:port/db`"),
        ("port", "write it into the URL: `url: redis://host:port/db`"),
    ],
};

pub(super) const TLS: BlockSpec = BlockSpec {
    path: "redis.<name>.tls",
    fields: &["ca_file", "cert_file", "key_file", "server_name"],
    otherwise: &[
        ("insecure", UNCHECKED),
        ("insecure_skip_verify", UNCHECKED),
        ("skip_verify", UNCHECKED),
    ],
};

pub(super) const WANT: BlockSpec = BlockSpec {
    path: "redis.<name>.want",
    fields: &["username", "password_file", "password_env", "password_command", "page"],
    otherwise: &[("password", NO_PASSWORD)],
};

pub(super) const ZOOKEEPER: BlockSpec = BlockSpec {
    path: "zookeeper.<name>",
    fields: &["servers", "auth_file", "tls", "interval", "timeout"],
    otherwise: &[
        ("password", NO_ZOOKEEPER_LOGIN),
        ("password_file", NO_ZOOKEEPER_LOGIN),
        ("password_env", NO_ZOOKEEPER_LOGIN),
        ("password_command", NO_ZOOKEEPER_LOGIN),
        ("username", NO_ZOOKEEPER_LOGIN),
        ("auth", NO_ZOOKEEPER_LOGIN),
        ("digest", NO_ZOOKEEPER_LOGIN),
        ("url", "list the servers: `servers: [\"zk1:2181\", \"zk2:2181\", \"zk3:2181\"]`"),
        ("nodes", "list the servers: `servers: [\"zk1:2181\", \"zk2:2181\", \"zk3:2181\"]`"),
        ("chroot", NO_CHROOT),
        ("root", NO_CHROOT),
        ("session_timeout", "leave it out: the agent's own session has no locks"),
    ],
};

pub(super) const SENTINEL: BlockSpec = BlockSpec {
    path: "redis.<name>.sentinel",
    fields: &[
        "master",
        "nodes",
        "username",
        "password_file",
        "password_env",
        "password_command",
        "password_max_age",
        "announce_map",
        "allow_peers",
    ],
    otherwise: &[
        ("password", NO_PASSWORD),
        ("tls", TLS_IN_REDIS),
        ("db", "write it next to `sentinel`, not in it: Sentinels have no databases"),
        ("quorum", "leave it out: more than half of `nodes` must agree"),
    ],
};

pub(super) const CLUSTER: BlockSpec = BlockSpec {
    path: "redis.<name>.cluster",
    fields: &["nodes", "announce_map", "allow_peers"],
    otherwise: &[
        ("username", IN_REDIS),
        ("password", NO_PASSWORD),
        ("password_file", IN_REDIS),
        ("password_env", IN_REDIS),
        ("password_command", IN_REDIS),
        ("password_max_age", IN_REDIS),
        ("tls", TLS_IN_REDIS),
        ("db", "write it next to `cluster`, not in it: all servers of a cluster have the same"),
    ],
};

pub(super) const TASK: BlockSpec = BlockSpec {
    path: "tasks[]",
    fields: &[
        "name",
        "redis",
        "zookeeper",
        "lock",
        "turn",
        "queue",
        "runs",
        "wanted",
        "grace",
        "settle",
        "wind_down",
        "blind_after",
        "paused_until",
        "progress",
        "claims",
        "hosts",
        "max_hold",
        "labels",
        "metrics",
        "guard",
    ],
    otherwise: &[A_GLOB],
};

pub(super) const GUARD: BlockSpec = BlockSpec {
    path: "tasks[].guard",
    fields: &[
        "lease",
        "stop_after",
        "backoff",
        "backoff_max",
        "give_up_after",
        "restart",
        "progress",
        "username",
        "password_file",
        "password_env",
        "password_command",
        "password_max_age",
    ],
    otherwise: &[("password", NO_PASSWORD)],
};

pub(super) const LOCK: BlockSpec = BlockSpec {
    path: "tasks[].lock",
    fields: &[
        "key",
        "path",
        "match",
        "max_keys",
        "field",
        "stores",
        "mode",
        "library",
        "holder",
        "host",
        "score",
        "limit",
        "lease",
        "renew_every",
    ],
    otherwise: &[A_GLOB],
};

/// Fields that people expect in a value path.
const NO_PATH: [(&str, &str); 2] = [
    ("pointer", "write the JSON Pointer as `json: /owner`"),
    ("pattern", "write the pattern as `regex: \"^[0-9]+:(.*)$\"`"),
];

pub(super) const HOLDER: BlockSpec =
    BlockSpec { path: "tasks[].lock.holder", fields: &["json", "regex"], otherwise: &NO_PATH };

pub(super) const HOST: BlockSpec =
    BlockSpec { path: "tasks[].lock.host", fields: &["json", "regex"], otherwise: &NO_PATH };

pub(super) const RUNS: BlockSpec =
    BlockSpec { path: "tasks[].runs", fields: &["every", "late_after", "max"], otherwise: &[] };
pub(super) const TURN: BlockSpec = BlockSpec {
    path: "tasks[].turn",
    fields: &["hash", "children", "path", "unit", "tasks", "max_late", "handover", "min_turn"],
    otherwise: &[("key", "name the hash with `hash: …`")],
};

pub(super) const QUEUE: BlockSpec = BlockSpec {
    path: "tasks[].queue",
    fields: &["zset", "unit", "id", "lock", "library", "max_late"],
    otherwise: &[("key", "name the sorted set with `zset: …`")],
};

pub(super) const MEMBER_ID: BlockSpec =
    BlockSpec { path: "tasks[].queue.id", fields: &["json", "regex"], otherwise: &NO_PATH };

pub(super) const WANTED: BlockSpec = BlockSpec {
    path: "tasks[].wanted",
    fields: &[
        "redis",
        "zookeeper",
        "hash",
        "set",
        "counter",
        "keys",
        "children",
        "names",
        "paths",
        "codec",
    ],
    otherwise: &[
        ("pattern", "`pattern` is not supported yet; list the switches with `keys: […]`"),
        ("always", "write the plain word: `wanted: always`"),
        ("never", "write the plain word: `wanted: never`"),
    ],
};

pub(super) const PROGRESS: BlockSpec = BlockSpec {
    path: "tasks[].progress",
    fields: &[
        "hash",
        "field",
        "key",
        "length",
        "zset",
        "member",
        "stream",
        "path",
        "children",
        "moves",
        "stale_after",
    ],
    otherwise: &[],
};

pub(super) const CLAIMS: BlockSpec = BlockSpec {
    path: "tasks[].claims",
    fields: &["hash", "children", "fresh_for"],
    otherwise: &[],
};

pub(super) const HOSTS: BlockSpec =
    BlockSpec { path: "tasks[].hosts", fields: &["hash", "children"], otherwise: &[] };

pub(super) const PAUSED_UNTIL: BlockSpec =
    BlockSpec { path: "tasks[].paused_until", fields: &["key", "path"], otherwise: &[] };

pub(super) const BYTES: BlockSpec =
    BlockSpec { path: "a key", fields: &["hex", "base64"], otherwise: &[] };

/// A field that only tasks in one kind of store have.
struct OfOneKind {
    /// The path of its block.
    block: &'static str,
    /// Its name.
    field: &'static str,
    /// Where it is a field.
    store: StoreKind,
    /// What to write in the other kind of store.
    otherwise: &'static str,
}

const fn redis(block: &'static str, field: &'static str, otherwise: &'static str) -> OfOneKind {
    OfOneKind { block, field, store: StoreKind::Redis, otherwise }
}

const fn zookeeper(block: &'static str, field: &'static str, otherwise: &'static str) -> OfOneKind {
    OfOneKind { block, field, store: StoreKind::ZooKeeper, otherwise }
}

const NO_KEY: &str = "its name says nothing of a node; remove it";
const NO_DEADLINE: &str = "a lock ends with its holder's session, which asks for its own timeout; \
    remove it";
const NOT_SEVERAL: &str = "all servers of an ensemble have the same nodes; remove it";
const NO_SCORES: &str = "the names of the contenders say who has the lock; remove it";
const ENSEMBLE: &str = "or name the task's ensemble with `zookeeper: …`";

/// Fields that mean keys of a Redis or nodes of a ZooKeeper.
const OF_ONE_KIND: [OfOneKind; 39] = [
    redis("tasks[]", "queue", "a queue is a sorted set; watch a `lock` or a `turn`"),
    redis("tasks[]", "guard", "a guard takes and renews locks in Redis only; remove it"),
    redis("tasks[].lock", "key", "name the folder of the contenders with `path: …`"),
    redis("tasks[].lock", "match", "list each lock as a task with `path: …`"),
    redis("tasks[].lock", "max_keys", "list each lock as a task; remove it"),
    redis("tasks[].lock", "field", NO_KEY),
    redis("tasks[].lock", "stores", NOT_SEVERAL),
    redis("tasks[].lock", "mode", NOT_SEVERAL),
    redis("tasks[].lock", "holder", "the holder is a session; remove it, or write `host: …`"),
    redis("tasks[].lock", "score", NO_SCORES),
    redis("tasks[].lock", "limit", NO_SCORES),
    redis("tasks[].lock", "lease", NO_DEADLINE),
    redis("tasks[].lock", "renew_every", NO_DEADLINE),
    zookeeper("tasks[].lock", "path", "write `key: …`"),
    redis("tasks[].turn", "hash", "write `children: …`, or `path: …` of one node with JSON"),
    zookeeper("tasks[].turn", "children", "write `hash: …`"),
    zookeeper("tasks[].turn", "path", "write `hash: …`"),
    redis("tasks[].wanted", "hash", "write `children: …`: a node per user, its data the switch"),
    redis("tasks[].wanted", "set", "write `names: …`: a node for each user who wants it"),
    redis("tasks[].wanted", "keys", "write `paths: […]`"),
    zookeeper("tasks[].wanted", "children", "write `hash: …`"),
    zookeeper("tasks[].wanted", "names", "write `set: …`"),
    zookeeper("tasks[].wanted", "paths", "write `keys: […]`"),
    redis("tasks[].progress", "hash", "write `path: …` of the node whose data the work changes"),
    redis("tasks[].progress", "field", NO_KEY),
    redis("tasks[].progress", "key", "write `path: …`"),
    redis("tasks[].progress", "length", "write `children: …`, whose number moves"),
    redis("tasks[].progress", "zset", "write `path: …` of the node whose data the work changes"),
    redis("tasks[].progress", "member", NO_KEY),
    redis("tasks[].progress", "stream", "write `children: …`, whose number moves"),
    redis("tasks[].progress", "moves", "a node has no TTL, so its data count; remove it"),
    zookeeper("tasks[].progress", "path", "write `key: …`"),
    zookeeper("tasks[].progress", "children", "write `length: …`"),
    redis("tasks[].claims", "hash", "write `children: …`"),
    zookeeper("tasks[].claims", "children", "write `hash: …`"),
    redis("tasks[].hosts", "hash", "write `children: …`"),
    zookeeper("tasks[].hosts", "children", "write `hash: …`"),
    redis("tasks[].paused_until", "key", "write `path: …`"),
    zookeeper("tasks[].paused_until", "path", "write `key: …`"),
];

/// Older names of fields, with the path of their block.
const OLDER: [(&str, &str); 1] = [("tasks[].lock", "scheme")];

impl BlockSpec {
    /// Whether the field `name` stands for something that this block expresses differently, or
    /// cannot express yet.
    pub(super) fn says_otherwise(&self, name: &str, store: Option<StoreKind>) -> bool {
        self.otherwise.iter().any(|(field, _)| *field == name)
            || self.of_other_kind(name, store).is_some()
    }

    /// The field `name`, if it is none in this kind of store.
    fn of_other_kind(&self, name: &str, store: Option<StoreKind>) -> Option<&'static OfOneKind> {
        let is_it = |of: &&OfOneKind| (of.block, of.field) == (self.path, name);
        OF_ONE_KIND.iter().find(is_it).filter(|of| store.is_some_and(|store| store != of.store))
    }

    /// The names of its fields in a task in `store`.
    pub(super) fn fields_in(&self, store: Option<StoreKind>) -> Vec<&'static str> {
        let fields = self.fields.iter().copied();
        fields.filter(|field| self.of_other_kind(field, store).is_none()).collect()
    }

    /// The message for the field `name`, if it is not a field of this block of a task in `store`.
    pub(super) fn refusal(&self, name: &str, store: Option<StoreKind>) -> Option<String> {
        if let Some(of) = self.of_other_kind(name, store) {
            let or = match of.store {
                StoreKind::ZooKeeper => format!(", {ENSEMBLE}"),
                StoreKind::Redis => String::new(),
            };
            return Some(format!("is only for tasks in {}; {}{or}", of.store, of.otherwise));
        }
        if self.fields.contains(&name) || OLDER.contains(&(self.path, name)) {
            return None;
        }
        if let Some((_, remedy)) = self.otherwise.iter().find(|(otherwise, _)| *otherwise == name) {
            return Some((*remedy).to_owned());
        }
        let fields = self.fields_in(store);
        Some(match nearest(name, fields.iter().copied()).first() {
            Some(field) => format!("is not a known field; did you mean `{field}`?"),
            _ => format!("is not a known field; the fields here are {}", fields.join(", ")),
        })
    }
}
