//! Every block of the configuration file and the names of its fields. The parser refuses every
//! other field. A test checks that the documentation and its complete example name each of them.

use crate::text::nearest::nearest;

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
const IN_REDIS: &str =
    "write it next to `cluster`, not in it: all servers of a cluster have the same users";
const TLS_IN_REDIS: &str =
    "write it next to this block, not in it: all servers of a redis are reached alike";
const UNCHECKED: &str = "is not supported: anybody could have answered; name the authority \
    that signed the certificate with `ca_file`, and its name with `server_name`";
const A_GLOB: (&str, &str) = ("pattern", "write the glob as `lock: {match: \"report:lock:*\"}`");

pub(super) const TOP: BlockSpec = BlockSpec {
    path: "",
    fields: &["redis", "zookeeper", "labels", "links", "metrics", "tasks", "max_tasks"],
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
    otherwise: &[("password", NO_PASSWORD)],
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
    fields: &["hash", "unit", "tasks", "max_late", "handover", "min_turn"],
    otherwise: &[
        ("key", "name the hash with `hash: …`"),
        ("path", "turns in ZooKeeper are not supported yet; watch a hash in Redis"),
    ],
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
    fields: &["hash", "set", "counter", "keys", "codec"],
    otherwise: &[
        ("pattern", "`pattern` is not supported yet; list the switches with `keys: […]`"),
        ("always", "write the plain word: `wanted: always`"),
        ("never", "write the plain word: `wanted: never`"),
    ],
};

pub(super) const PROGRESS: BlockSpec = BlockSpec {
    path: "tasks[].progress",
    fields: &["hash", "field", "key", "length", "zset", "member", "stream", "moves", "stale_after"],
    otherwise: &[],
};

pub(super) const CLAIMS: BlockSpec =
    BlockSpec { path: "tasks[].claims", fields: &["hash", "fresh_for"], otherwise: &[] };

pub(super) const HOSTS: BlockSpec =
    BlockSpec { path: "tasks[].hosts", fields: &["hash"], otherwise: &[] };

pub(super) const PAUSED_UNTIL: BlockSpec =
    BlockSpec { path: "tasks[].paused_until", fields: &["key"], otherwise: &[] };

pub(super) const BYTES: BlockSpec =
    BlockSpec { path: "a key", fields: &["hex", "base64"], otherwise: &[] };

/// Older names of fields, with the path of their block.
const OLDER: [(&str, &str); 1] = [("tasks[].lock", "scheme")];

impl BlockSpec {
    /// Whether the field `name` stands for something that this block expresses differently, or
    /// cannot express yet.
    pub(super) fn says_otherwise(&self, name: &str) -> bool {
        self.otherwise.iter().any(|(field, _)| *field == name)
    }

    /// The message for the field `name`, if it is not a field of this block.
    pub(super) fn refusal(&self, name: &str) -> Option<String> {
        if self.fields.contains(&name) || OLDER.contains(&(self.path, name)) {
            return None;
        }
        if let Some((_, remedy)) = self.otherwise.iter().find(|(otherwise, _)| *otherwise == name) {
            return Some((*remedy).to_owned());
        }
        Some(match nearest(name, self.fields.iter().copied()).first() {
            Some(field) => format!("is not a known field; did you mean `{field}`?"),
            _ => format!("is not a known field; the fields here are {}", self.fields.join(", ")),
        })
    }
}
