//! What an operator can do about a value that is unknown.

use lockwatch_judge::reading::Unknown;

/// What an operator can do about it, in one sentence.
pub fn remedy(why: Unknown) -> &'static str {
    match why {
        Unknown::NotReadYet => "Wait for the first sweep.",
        Unknown::Dns => "Check the host name of the store and the resolver.",
        Unknown::Connect => {
            "Check that a server runs at this address, which is configured, or named by Sentinels \
             or a cluster, and that a firewall lets the agent through."
        }
        Unknown::Closed => {
            "The server or something between closed the connection: look at its log and at its \
             limits of clients. If it never answers, perhaps this port speaks TLS: use \
             `rediss://` or the block `tls`. A proxy that closes at a command which it does not know cannot be read: give the \
             address of the server behind it."
        }
        Unknown::Timeout => {
            "The server did not answer in time: is it stopped, paused or overloaded? `timeout` \
             sets how long to wait. If it never answers over TLS, perhaps this port speaks none."
        }
        Unknown::Late => "The agent was paused or starved: give it CPU time, or raise `timeout`.",
        Unknown::Auth => {
            "Set `username` and `password_file` (or `password_env`, `password_command`) to a user \
             that this server knows. Each server needs the line of `lockwatch acl`: users are not \
             replicated, and a restart forgets those that neither `ACL SAVE` nor `CONFIG REWRITE` \
             has saved."
        }
        Unknown::NoPassword => {
            "This server wants a password: set `password_file` (or `password_env`, \
             `password_command`), and `username` if it is not the default user; for a Sentinel in \
             the block `sentinel`."
        }
        Unknown::NeedlessPassword => {
            "This server has no password: remove `password_file` (or `password_env`, \
             `password_command`) from this redis, for a Sentinel from the block `sentinel`; or set \
             `requirepass` on the server."
        }
        Unknown::Protected => {
            "This server is in protected mode, so it serves only its own machine: set \
             `requirepass` on it and `password_file` here, or run lockwatch beside it and use its \
             loopback address."
        }
        Unknown::Database => {
            "This server does not have that database: correct the number at the end of `url` (or \
             `db`), or raise `databases` on the server (in a cluster of Valkey 9 \
             `cluster-databases`; other clusters have only database 0)."
        }
        Unknown::NeedsTls => {
            "This port speaks TLS: use `rediss://` in `url`, or add the block `tls`."
        }
        Unknown::ActiveReplica => {
            "KeyDB's active replicas are not supported: two of them can grant one lock at the same \
             time. Use a server without `active-replica yes` for locks, and configure that."
        }
        Unknown::Sentinel => {
            "This is a Sentinel: write `sentinel: {master: NAME, nodes: [HOST:PORT, …]}` instead \
             of `url`, `nodes` or `cluster`, with a name that it knows."
        }
        Unknown::NoSentinel => {
            "This is no Sentinel: correct the addresses in `sentinel.nodes` (Sentinels listen on \
             26379 by default), or configure this server with `url` or `nodes`."
        }
        Unknown::MasterName => {
            "The Sentinels do not know a master of this name: correct `sentinel.master`."
        }
        Unknown::Cluster => {
            "This server is part of a cluster: write `cluster: {nodes: [HOST:PORT, …]}` instead of \
             `url` or `nodes`. A cluster has only database 0, except one of Valkey 9 (`db: 1`)."
        }
        Unknown::NoCluster => {
            "This server is part of no cluster: write `url: redis://HOST:PORT` (with replicas: \
             `nodes: [redis://HOST:PORT, …]`) instead of `cluster`."
        }
        Unknown::NoPermission => {
            "Give the user the rights that `lockwatch acl` prints for this configuration."
        }
        Unknown::Tls => {
            "Check that this port speaks TLS 1.2 or 1.3, as `rediss://` or `tls` say; if it does \
             not, use `redis://`. The agent's log has what the server said."
        }
        Unknown::TlsUntrusted => {
            "Put the certificate of the authority that signed the server's into the file that \
             `tls.ca_file` names. The agent's log says what is wrong with it."
        }
        Unknown::TlsName => {
            "Connect by a name that is in the server's certificate, or set `tls.server_name` to \
             one; the agent's log has them. Sentinels and clusters announce addresses unless they \
             are told to announce names."
        }
        Unknown::TlsExpired => {
            "Renew the server's certificate, and have the server load it; or correct this machine's \
             clock."
        }
        Unknown::TlsClient => {
            "Set `tls.cert_file` and `tls.key_file` to a certificate that the server's own \
             authority (`tls-ca-cert-file`, a trust store) has signed and that is valid now."
        }
        Unknown::TlsFiles => {
            "Correct the files of `tls` in the store's block: the agent's log names the field, the \
             file and what is wrong. They are read again at every connect."
        }
        Unknown::Loading => "Redis is loading its data; wait for it.",
        Unknown::Busy => "A script blocks Redis: `SCRIPT KILL` stops one that has not written.",
        Unknown::NotMaster => {
            "This server is a replica, which may lie about expired locks: configure the \
             master's address, or all \
             servers with `nodes`, `sentinel` or `cluster`."
        }
        Unknown::Quorum => {
            "Less than half of the configured Sentinels, or of the ensemble's servers, answer and \
             agree: look which of them are up and reach each other, and what each Sentinel names \
             as master."
        }
        Unknown::Behind => {
            "This server lacks what another one showed: it is asked again, or another one is. If \
             that lasts, look in its log why it does not follow the leader."
        }
        Unknown::FewStores => {
            "Too few of the stores of this lock can be read: mend those that are named, or the \
             agent's way to them. Clients cannot take the lock either while a majority is away."
        }
        Unknown::NoMaster => {
            "None of the servers says that it is master: promote one, or wait for the failover."
        }
        Unknown::TwoMasters => {
            "Two servers take writes and contradict each other: make the wrong one a replica \
             (`REPLICAOF`)."
        }
        Unknown::Unrelated => {
            "Masters of a cluster: write `cluster: {nodes: [HOST:PORT, …]}` instead of `nodes`. \
             Otherwise configure each of these servers as a redis of its own, with tasks of its \
             own. Do not make one a replica of another: that deletes its data. A lock on several \
             independent masters (Redlock) is one task with `stores: [r1, r2, r3]`."
        }
        Unknown::Moved => {
            "The cluster is moving this slot; wait for it, or look at `CLUSTER SHARDS`."
        }
        Unknown::ClusterDown => {
            "No master of the cluster serves this key's slot: look at `CLUSTER INFO`."
        }
        Unknown::ForeignAddress => {
            "Add the announced address to `allow_peers`, or translate it with `announce_map`."
        }
        Unknown::ClockStep => {
            "Wait for the next sweep; and let the servers' clocks be kept by NTP, without \
             steps."
        }
        Unknown::RoleRefused => {
            "Allow `ROLE` or `INFO` (see `lockwatch acl`), or set `assume_master: true` if a \
             proxy forbids both."
        }
        Unknown::MaxClients => {
            "Redis has too many clients: raise `maxclients` or find who leaks connections."
        }
        Unknown::WrongType => {
            "The key holds another type than the configuration says: correct the key, or what \
             it is read as (`library`, `hash`, `set`, …)."
        }
        Unknown::Layout => {
            "The key does not look like a lock of this library: correct the key or the library. \
             Redisson's locks are a hash with fields `<id>:<thread>`; for a hash whose only field is \
             its owner write `library: hash`. The value of a `counter` is a whole number, that of a \
             `deadline` an instant; the scores of a `zset` are instants, and it ends with them \
             (`score`, `lease`). Of turns, each value must be a number. The numbers of a folder in \
             ZooKeeper end at 2147483647: delete it while nobody needs the lock."
        }
        Unknown::ValuePath => {
            "Correct `holder` or `host` of the lock, or `id` of the queue: the path must lead to a text or a \
             whole number in each value."
        }
        Unknown::FarInstant => {
            "An instant in the key is years from now: set `unit: ms` or `unit: s`, as the program \
             writes it."
        }
        Unknown::TooLarge => {
            "The key or folder has more entries than a lock or a switch list can have, or the field \
             or node a longer value: correct the key."
        }
        Unknown::Protocol => {
            "The answer does not follow the protocol: is this address really a Redis (or ZooKeeper) \
             server? Behind a proxy, give the address of the server itself."
        }
        Unknown::ServerError => {
            "The agent's log names the command, and `lockwatch explain` shows most answers."
        }
        Unknown::Stale => {
            "The agent fell behind: look at `lockwatch_store_skipped_ticks_total` and at its \
             CPU."
        }
    }
}

/// Whether one side refuses the other's certificate, or cannot use its own.
pub(crate) fn is_about_tls(why: Unknown) -> bool {
    matches!(
        why,
        Unknown::TlsUntrusted
            | Unknown::TlsName
            | Unknown::TlsExpired
            | Unknown::TlsClient
            | Unknown::TlsFiles
    )
}

/// Whether the reason is a login that one side must correct. Somebody may be about to do that.
pub(crate) fn is_about_login(why: Unknown) -> bool {
    matches!(why, Unknown::Auth | Unknown::NoPassword | Unknown::NeedlessPassword)
}

/// Whether the reason names a mistake that stands in the configuration, so that it explains why no
/// server decides if all of them give it.
pub(crate) fn is_mistake(why: Unknown) -> bool {
    is_about_login(why)
        || is_about_tls(why)
        || matches!(
            why,
            Unknown::Protected
                | Unknown::NoPermission
                | Unknown::Database
                | Unknown::NeedsTls
                | Unknown::ActiveReplica
                | Unknown::Sentinel
                | Unknown::NoSentinel
                | Unknown::MasterName
                | Unknown::Cluster
                | Unknown::NoCluster
        )
}
