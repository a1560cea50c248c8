//! Decides whether replies may be believed. Only a complete, timely answer from a server that
//! reports itself as master counts, on that connection, and only for the replies it attests.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

use crate::command;
use crate::redis::reply::{Command, Reply, ServerError};
use lockwatch_judge::input::{Attestation, Fork, Generation, Refusal, Role};
use lockwatch_judge::reading::Unknown;
use lockwatch_judge::time::{AgentWall, Mono, ServerTime};

/// The capabilities of a server for the connected user, found when connecting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caps {
    /// The server has `PEXPIRETIME` (Redis 7.0).
    pub pexpiretime: bool,
    /// The server has `HPEXPIRETIME` (Redis 7.4, Valkey 9): fields of a hash can have deadlines.
    /// The user may lack the right to use it.
    pub hpexpiretime: bool,
    /// How the server reports its role.
    pub role: RoleCheck,
    /// The server answers `INFO`.
    pub info: bool,
    /// The server belongs to a cluster that sends messages only to the server of the channel's slot
    /// (Redis 7.0).
    pub sharded: bool,
}

impl Caps {
    /// Of a server of which nothing is known.
    pub const LEAST: Caps = Caps {
        pexpiretime: false,
        hpexpiretime: false,
        role: RoleCheck::Assumed,
        info: false,
        sharded: false,
    };
}

/// How a server's role is verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RoleCheck {
    /// By `ROLE`.
    Role,
    /// By `INFO replication`, because `ROLE` is refused.
    Info,
    /// Not verified: both commands are refused, and the user attests the role.
    Assumed,
}

/// The times at which a batch was sent and received.
#[derive(Clone, Copy, Debug)]
pub struct Timing {
    /// When the request was sent.
    pub sent: Mono,
    /// When the last reply arrived.
    pub received: Mono,
    /// The agent's wall clock when the request was sent.
    pub sent_wall: AgentWall,
    /// A reply older than this is not evidence.
    pub timeout_ms: u64,
}

/// Maximum number of replicas read from one server's `INFO`. It bounds memory for a hostile reply.
const REPLICAS_MAX: usize = 100;
/// Sections of `INFO` that identify a generation, in request order.
const INFO_SECTIONS: [&str; 6] =
    ["server", "replication", "persistence", "stats", "commandstats", "memory"];
/// Commands that empty a database, by their names in `INFO commandstats`.
const FLUSHES: [&str; 3] = ["cmdstat_flushall", "cmdstat_flushdb", "cmdstat_swapdb"];
/// The command that empties a slot of a cluster.
const SLOT_FLUSH: &str = "cmdstat_cluster|flushslot";

/// The commands that open each batch.
pub fn header() -> Vec<Command> {
    vec![command!("TIME")]
}

/// The commands that close each batch. `nonce` must differ from batch to batch.
///
/// The role and the nonce come last, so that they attest every reply before them.
pub fn footer(caps: Caps, nonce: &[u8]) -> Vec<Command> {
    let mut commands = Vec::new();
    if caps.info {
        commands.extend(INFO_SECTIONS.iter().map(|section| command!("INFO", section)));
    }
    commands.push(command!("TIME"));
    if caps.role == RoleCheck::Role {
        commands.push(command!("ROLE"));
    }
    commands.push(command!("ECHO", nonce));
    commands
}

/// Judges a batch from a deciding server by the replies to the batch's [`header`] and [`footer`].
///
/// # Errors
/// Returns why no reply of the batch may be believed, also when the server does not report that it
/// is master.
pub fn attestation(
    caps: Caps,
    timing: Timing,
    nonce: &[u8],
    header: &[Reply],
    footer: &[Reply],
) -> Result<Attestation, Unknown> {
    let attestation = witness(caps, timing, nonce, header, footer)?;
    match attestation.role {
        Role::Master => Ok(attestation),
        Role::Replica | Role::Member => Err(Unknown::NotMaster),
    }
}

/// Judges a batch from a server that decides nothing. A replica's answers are as good as a master's
/// here.
///
/// # Errors
/// Returns why no reply of the batch may be believed.
pub fn witness(
    caps: Caps,
    timing: Timing,
    nonce: &[u8],
    header: &[Reply],
    footer: &[Reply],
) -> Result<Attestation, Unknown> {
    let took_ms = timing.received.since_ms(timing.sent);
    if took_ms > timing.timeout_ms {
        return Err(Unknown::Late);
    }
    let mut replies = header.iter().chain(footer);
    let mut next = || replies.next().ok_or(Unknown::Protocol);
    let first = server_time(next()?)?;
    let info = match caps.info {
        true => Some(Info::from_replies([next()?, next()?, next()?, next()?, next()?, next()?])?),
        false => None,
    };
    let last = server_time(next()?)?;
    let (role, offset) = match caps.role {
        RoleCheck::Role => role_by_role(next()?)?,
        RoleCheck::Info => role_by_info(info.as_ref())?,
        RoleCheck::Assumed => (Role::Master, None),
    };
    match next()? {
        Reply::Bytes(echo) if echo == nonce => {}
        Reply::Error(error) => return Err(Unknown::from(error)),
        _ => return Err(Unknown::Protocol),
    }
    if replies.next().is_some() {
        return Err(Unknown::Protocol);
    }
    if info.as_ref().is_some_and(|info| info.loading) {
        return Err(Unknown::Loading);
    }
    let halfway_server = first.ms().saturating_add(last.since_ms(first) / 2);
    let halfway_agent = timing.sent_wall.0.saturating_add(i64::try_from(took_ms / 2).unwrap_or(0));
    Ok(Attestation {
        first,
        last,
        role,
        role_verified: caps.role != RoleCheck::Assumed,
        offset,
        refuses_writes: info.as_ref().and_then(|info| info.refuses_writes),
        replicas: info.as_ref().map(|info| info.replicas.clone()).unwrap_or_default(),
        generation: info.map(|info| info.generation),
        clock_offset_ms: halfway_server.saturating_sub(halfway_agent),
    })
}

/// The role as `ROLE` or `INFO replication` names it.
pub fn role_named(name: &[u8]) -> Option<Role> {
    match name {
        b"master" => Some(Role::Master),
        b"slave" | b"replica" => Some(Role::Replica),
        _ => None,
    }
}

/// Why a server with another role than these two is not read.
fn stranger(role: &[u8]) -> Unknown {
    match role {
        b"active-replica" => Unknown::ActiveReplica,
        b"sentinel" => Unknown::Sentinel,
        _ => Unknown::NotMaster,
    }
}

/// The server's clock, from its reply to `TIME`.
///
/// # Errors
/// Why the reply says no time.
pub fn server_time(reply: &Reply) -> Result<ServerTime, Unknown> {
    match reply {
        Reply::Error(error) => Err(Unknown::from(error)),
        Reply::Array(parts) => {
            let [seconds, micros] = parts.as_slice() else { return Err(Unknown::Protocol) };
            let (Some(seconds), Some(micros)) = (seconds.as_int(), micros.as_int()) else {
                return Err(Unknown::Protocol);
            };
            Ok(ServerTime::at(seconds.saturating_mul(1_000).saturating_add(micros / 1_000)))
        }
        _ => Err(Unknown::Protocol),
    }
}

/// The role and the replication offset. A server that is neither master nor replica (a Sentinel)
/// decides nothing.
fn role_by_role(reply: &Reply) -> Result<(Role, Option<u64>), Unknown> {
    match reply {
        Reply::Error(error) => Err(match Unknown::from(error) {
            Unknown::NoPermission => Unknown::RoleRefused,
            other => other,
        }),
        Reply::Array(parts) => {
            let role = parts.first().and_then(Reply::as_bytes).ok_or(Unknown::Protocol)?;
            let role = role_named(role).ok_or_else(|| stranger(role))?;
            let position = if role == Role::Master { 1 } else { 4 };
            let offset = parts.get(position).and_then(Reply::as_int);
            Ok((role, offset.and_then(|offset| u64::try_from(offset).ok())))
        }
        _ => Err(Unknown::Protocol),
    }
}

fn role_by_info(info: Option<&Info>) -> Result<(Role, Option<u64>), Unknown> {
    match info {
        Some(info) if !info.role.is_empty() => {
            let role = role_named(&info.role).ok_or_else(|| stranger(&info.role))?;
            Ok((role, info.offset))
        }
        _ => Err(Unknown::RoleRefused),
    }
}

/// The fields of `INFO` that are used.
struct Info {
    role: Vec<u8>,
    loading: bool,
    offset: Option<u64>,
    refuses_writes: Option<Refusal>,
    replicas: Vec<Arc<str>>,
    generation: Generation,
}

impl Info {
    /// From the replies to [`INFO_SECTIONS`]. A refused section counts as empty.
    fn from_replies(sections: [&Reply; INFO_SECTIONS.len()]) -> Result<Info, Unknown> {
        let mut texts: [&[u8]; INFO_SECTIONS.len()] = [b""; INFO_SECTIONS.len()];
        for (text, reply) in texts.iter_mut().zip(sections) {
            *text = match reply {
                Reply::Bytes(bytes) => bytes,
                Reply::Error(error) => match Unknown::from(error) {
                    Unknown::NoPermission | Unknown::ServerError => b"",
                    other => return Err(other),
                },
                _ => return Err(Unknown::Protocol),
            };
        }
        let [server, replication, persistence, stats, commandstats, memory] = texts;
        let called = |name: &str| calls(info_field(commandstats, name)?);
        let policy = info_field(memory, "maxmemory_policy").unwrap_or_default();
        Ok(Info {
            role: info_field(replication, "role").unwrap_or_default().to_vec(),
            loading: info_number(persistence, "loading") == Some(1),
            offset: info_number(replication, "master_repl_offset"),
            refuses_writes: refusal(replication, persistence, memory),
            replicas: replicas(replication),
            generation: Generation {
                process: info_field(server, "run_id").unwrap_or_default().to_vec(),
                history: info_field(replication, "master_replid").unwrap_or_default().to_vec(),
                forked_from: forked_from(replication),
                flushes: FLUSHES.into_iter().filter_map(called).sum(),
                slot_flushes: called(SLOT_FLUSH).unwrap_or(0),
                evicts_only_with_ttl: policy.starts_with(b"volatile-"),
                evictions: info_number(stats, "evicted_keys").unwrap_or(0),
                started_empty: started_empty(persistence),
            },
        })
    }
}

/// Why the server refuses writes, in the order in which it looks. That a snapshot failed does not
/// matter to one with `stop-writes-on-bgsave-error no`, which `INFO` does not say; nor does it say
/// how many replicas are needed, only that some are and none is left.
fn refusal(replication: &[u8], persistence: &[u8], memory: &[u8]) -> Option<Refusal> {
    let of_memory = |name: &str| info_number(memory, name).unwrap_or(0);
    let limit = of_memory("maxmemory");
    let used = of_memory("used_memory").saturating_sub(of_memory("mem_not_counted_for_evict"));
    let policy = info_field(memory, "maxmemory_policy").unwrap_or_default();
    let may_evict_any = policy.starts_with(b"allkeys-");
    let is_bad = |name: &str| info_field(persistence, name) == Some(b"err");
    match () {
        () if limit > 0 && used > limit && !policy.is_empty() && !may_evict_any => {
            Some(Refusal::Oom)
        }
        () if is_bad("rdb_last_bgsave_status") || is_bad("aof_last_write_status") => {
            Some(Refusal::Misconf)
        }
        () if info_number(replication, "min_slaves_good_slaves") == Some(0) => {
            Some(Refusal::NoReplicas)
        }
        () => None,
    }
}

/// The history that this one continues. A server that never changed its history reports an
/// impossible one.
fn forked_from(replication: &[u8]) -> Option<Fork> {
    let offset = info_number(replication, "second_repl_offset")?;
    let replication_id = info_field(replication, "master_replid2")?.to_vec();
    Some(Fork { history: replication_id, offset })
}

/// Replicas that are in sync or nearly so: `slave0:ip=10.0.0.6,port=6379,state=online,…`.
fn replicas(replication: &[u8]) -> Vec<Arc<str>> {
    let line = |number: usize| {
        let fields =
            core::str::from_utf8(info_field(replication, &alloc::format!("slave{number}"))?)
                .ok()?;
        let field = |name: &str| {
            fields.split(',').find_map(|field| field.strip_prefix(name)?.strip_prefix('='))
        };
        Some(address(field("ip")?, field("port")?.parse().ok()?))
    };
    (0..REPLICAS_MAX).map_while(line).map(Arc::from).collect()
}

/// Formats `host:port`, with brackets around an IPv6 address.
pub fn address(host: &str, port: u16) -> String {
    if host.contains(':') {
        alloc::format!("[{host}]:{port}")
    } else {
        alloc::format!("{host}:{port}")
    }
}

/// Whether the process started without data. Only an RDB file reports how much was loaded; with an
/// append-only file the answer is unknown.
fn started_empty(persistence: &[u8]) -> Option<bool> {
    let loaded = info_number(persistence, "rdb_last_load_keys_loaded")?;
    match (loaded, info_number(persistence, "aof_enabled")?) {
        (0, 0) => Some(true),
        (0, _) => None,
        _ => Some(false),
    }
}

/// The value of `name:` in a section of `INFO`.
pub fn info_field<'a>(section: &'a [u8], name: &str) -> Option<&'a [u8]> {
    section.split(|byte| *byte == b'\n').find_map(|line| {
        let value = line.strip_prefix(name.as_bytes())?.strip_prefix(b":")?;
        Some(value.strip_suffix(b"\r").unwrap_or(value))
    })
}

/// The databases that have keys, and how many, from lines such as `db2:keys=1,expires=0,avg_ttl=0`
/// of `INFO keyspace`.
pub fn databases(keyspace: &[u8]) -> Vec<(u32, u64)> {
    let lines = keyspace.split(|byte| *byte == b'\n').filter_map(|line| str::from_utf8(line).ok());
    let of = |line: &str| {
        let (db, rest) = line.strip_prefix("db")?.split_once(":keys=")?;
        Some((db.parse().ok()?, rest.split(',').next()?.parse().ok()?))
    };
    lines.filter_map(of).collect()
}

fn info_number(section: &[u8], name: &str) -> Option<u64> {
    core::str::from_utf8(info_field(section, name)?).ok()?.parse().ok()
}

/// Parses `calls=7,usec=…` as 7.
fn calls(stats: &[u8]) -> Option<u64> {
    let digits = stats.strip_prefix(b"calls=")?.split(|byte| *byte == b',').next()?;
    core::str::from_utf8(digits).ok()?.parse().ok()
}

impl From<&ServerError> for Unknown {
    fn from(error: &ServerError) -> Unknown {
        match error.code.as_slice() {
            b"NOAUTH" | b"WRONGPASS" => Unknown::Auth,
            b"NOPERM" => Unknown::NoPermission,
            b"LOADING" => Unknown::Loading,
            b"BUSY" => Unknown::Busy,
            b"MASTERDOWN" => Unknown::NotMaster,
            b"MOVED" | b"ASK" | b"TRYAGAIN" => Unknown::Moved,
            b"CLUSTERDOWN" => Unknown::ClusterDown,
            b"WRONGTYPE" => Unknown::WrongType,
            _ if error.detail.starts_with(b"max number of clients") => Unknown::MaxClients,
            _ => Unknown::ServerError,
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::borrow::ToOwned;

    use super::*;

    const CAPS: Caps = Caps {
        pexpiretime: true,
        hpexpiretime: false,
        role: RoleCheck::Role,
        info: true,
        sharded: false,
    };

    fn bytes(text: &str) -> Reply {
        Reply::Bytes(text.as_bytes().to_vec())
    }

    fn time(seconds: i64, micros: i64) -> Reply {
        Reply::Array(vec![Reply::Int(seconds), Reply::Int(micros)])
    }

    fn timing(took_ms: u64) -> Timing {
        Timing {
            sent: Mono::at(5_000),
            received: Mono::at(5_000 + took_ms),
            sent_wall: AgentWall(10_000),
            timeout_ms: 3_000,
        }
    }

    fn good_footer() -> Vec<Reply> {
        vec![
            bytes("# Server\r\nredis_version:7.0.15\r\nrun_id:abc\r\n"),
            bytes("# Replication\r\nrole:master\r\nmaster_replid:r1\r\n"),
            bytes("loading:0\r\nrdb_last_load_keys_loaded:0\r\naof_enabled:0\r\n"),
            bytes("evicted_keys:3\r\n"),
            bytes("cmdstat_flushall:calls=2,usec=9\r\ncmdstat_flushdb:calls=1,usec=3\r\n"),
            bytes("# Memory\r\nmaxmemory:0\r\nmaxmemory_policy:noeviction\r\n"),
            time(12, 345_678),
            Reply::Array(vec![bytes("master"), Reply::Int(0), Reply::Array(vec![])]),
            bytes("n1"),
        ]
    }

    #[test]
    fn a_full_timely_answer_of_a_master_is_believed() {
        let attestation =
            attestation(CAPS, timing(4), b"n1", &[time(12, 340_000)], &good_footer()).unwrap();
        assert_eq!(
            (attestation.first, attestation.last, attestation.role_verified),
            (ServerTime::at(12_340), ServerTime::at(12_345), true)
        );
        assert_eq!(attestation.clock_offset_ms, 12_342 - 10_002);
        let generation = attestation.generation.unwrap();
        assert_eq!(
            (generation.flushes, generation.evictions, generation.started_empty),
            (3, 3, Some(true))
        );
        assert_eq!(generation.process, b"abc");
    }

    /// A swapped database has other keys. For its readers that is a flush.
    #[test]
    fn each_command_that_empties_a_database_is_a_flush() {
        let _rule = crate::truth::rule("10 lost switches");
        for (said, flushes) in [
            ("cmdstat_flushall:calls=2,usec=9\r\n", 2),
            ("cmdstat_flushdb:calls=3,usec=9\r\n", 3),
            ("cmdstat_swapdb:calls=4,usec=9\r\n", 4),
            (
                "cmdstat_flushall:calls=2,usec=9\r\ncmdstat_flushdb:calls=3,usec=9\r\n\
                 cmdstat_swapdb:calls=4,usec=9\r\n",
                9,
            ),
            ("cmdstat_get:calls=5,usec=9\r\n", 0),
        ] {
            let mut footer = good_footer();
            footer[4] = bytes(said);
            let attestation =
                attestation(CAPS, timing(4), b"n1", &[time(12, 340_000)], &footer).unwrap();
            assert_eq!(attestation.generation.unwrap().flushes, flushes, "{said}");
        }
    }

    /// Valkey 9 can empty a single slot of a cluster.
    #[test]
    fn what_empties_a_slot_is_counted_apart() {
        let _rule = crate::truth::rule("10 lost switches");
        let mut footer = good_footer();
        footer[4] = bytes("cmdstat_cluster|flushslot:calls=2,usec=9\r\n");
        let attestation =
            attestation(CAPS, timing(4), b"n1", &[time(12, 340_000)], &footer).unwrap();
        let generation = attestation.generation.unwrap();
        assert_eq!((generation.flushes, generation.slot_flushes), (0, 2));
    }

    #[test]
    fn the_policy_says_which_keys_are_evicted() {
        let _rule = crate::truth::rule("10 lost switches");
        let only_with_ttl = |memory: &str| {
            let mut footer = good_footer();
            footer[5] = bytes(memory);
            let attestation =
                attestation(CAPS, timing(4), b"n1", &[time(12, 340_000)], &footer).unwrap();
            attestation.generation.unwrap().evicts_only_with_ttl
        };
        for (policy, expected) in [
            ("volatile-lru", true),
            ("volatile-ttl", true),
            ("allkeys-lru", false),
            ("noeviction", false),
        ] {
            assert_eq!(only_with_ttl(&alloc::format!("maxmemory_policy:{policy}\r\n")), expected);
        }
        assert!(!only_with_ttl(""), "a server that does not say may evict any key");
    }

    #[test]
    fn header_and_footer_have_a_reply_each() {
        assert_eq!(header().len(), 1);
        assert_eq!(footer(CAPS, b"n1").len(), good_footer().len());
    }

    #[test]
    fn whatever_is_missing_or_wrong_is_unknown() {
        let check = |change: &dyn Fn(&mut Vec<Reply>), took_ms: u64, nonce: &[u8]| {
            let mut replies = good_footer();
            change(&mut replies);
            attestation(CAPS, timing(took_ms), nonce, &[time(12, 340_000)], &replies).unwrap_err()
        };
        let replace =
            |at: usize, reply: Reply| move |replies: &mut Vec<Reply>| replies[at] = reply.clone();
        let error = |code: &str| {
            Reply::Error(ServerError {
                code: code.as_bytes().to_vec(),
                detail: b"max number of clients reached".to_vec(),
            })
        };
        assert_eq!(check(&|_| (), 3_001, b"n1"), Unknown::Late);
        assert_eq!(check(&|_| (), 4, b"other"), Unknown::Protocol);
        assert_eq!(check(&|replies| drop(replies.pop()), 4, b"n1"), Unknown::Protocol);
        assert_eq!(check(&|replies| replies.push(Reply::Nil), 4, b"n1"), Unknown::Protocol);
        assert_eq!(
            check(&replace(7, Reply::Array(vec![bytes("slave")])), 4, b"n1"),
            Unknown::NotMaster
        );
        assert_eq!(check(&replace(7, error("NOPERM")), 4, b"n1"), Unknown::RoleRefused);
        assert_eq!(check(&replace(7, error("BUSY")), 4, b"n1"), Unknown::Busy);
        assert_eq!(check(&replace(8, error("ERR")), 4, b"n1"), Unknown::MaxClients);
        assert_eq!(check(&replace(6, error("NOAUTH")), 4, b"n1"), Unknown::Auth);
        assert_eq!(check(&replace(2, bytes("loading:1\r\n")), 4, b"n1"), Unknown::Loading);
    }

    #[test]
    fn a_role_told_by_info_only_must_be_master_too() {
        let caps = Caps { role: RoleCheck::Info, ..CAPS };
        let mut replies = good_footer();
        replies.remove(7);
        assert!(
            attestation(caps, timing(4), b"n1", &[time(1, 0)], &replies).unwrap().role_verified
        );
        replies[1] = bytes("role:slave\r\n");
        assert_eq!(
            attestation(caps, timing(4), b"n1", &[time(1, 0)], &replies),
            Err(Unknown::NotMaster)
        );
        replies[1] = bytes("");
        assert_eq!(
            attestation(caps, timing(4), b"n1", &[time(1, 0)], &replies),
            Err(Unknown::RoleRefused)
        );
    }

    #[test]
    fn a_server_tells_where_its_history_stands_and_who_follows_it() {
        let attested = |role: &[Reply], replication: &str| {
            let mut footer = good_footer();
            footer[1] = bytes(replication);
            footer[7] = Reply::Array(role.to_vec());
            witness(CAPS, timing(4), b"n1", &[time(12, 340_000)], &footer).unwrap()
        };
        let master = [bytes("master"), Reply::Int(700), Reply::Array(vec![])];
        let replica = [
            bytes("slave"),
            bytes("10.0.0.5"),
            Reply::Int(6379),
            bytes("connected"),
            Reply::Int(600),
        ];
        assert_eq!(attested(&master, "").offset, Some(700));
        assert_eq!(attested(&replica, "").offset, Some(600));
        assert_eq!(attested(&[bytes("master"), Reply::Int(-1)], "").offset, None);

        let history = "master_replid:r2\r\nmaster_replid2:r1\r\nmaster_repl_offset:900\r\n\
            second_repl_offset:501\r\n";
        let fork = Fork { history: b"r1".to_vec(), offset: 501 };
        assert_eq!(attested(&master, history).generation.unwrap().forked_from, Some(fork));
        let never = "master_replid:r2\r\nmaster_replid2:0000\r\nsecond_repl_offset:-1\r\n";
        assert_eq!(attested(&master, never).generation.unwrap().forked_from, None);

        let followers = "connected_slaves:2\r\nslave0:ip=10.0.0.6,port=6379,state=online\r\n\
            slave1:ip=fd00::7,port=6380\r\n";
        let addresses = attested(&master, followers).replicas;
        assert_eq!(
            addresses.iter().map(|address| &**address).collect::<Vec<_>>(),
            ["10.0.0.6:6379", "[fd00::7]:6380"]
        );
        let refuses = ["", "min_slaves_good_slaves:0\r\n", "min_slaves_good_slaves:1\r\n"]
            .map(|replication| attested(&master, replication).refuses_writes);
        assert_eq!(refuses, [None, Some(Refusal::NoReplicas), None]);
    }

    #[test]
    fn why_a_server_refuses_writes() {
        let full = "used_memory:1100\r\nmem_not_counted_for_evict:50\r\nmaxmemory:1000\r\n";
        let memory = |policy: &str| alloc::format!("{full}maxmemory_policy:{policy}\r\n");
        let of = |replication: &str, persistence: &str, memory: &str| {
            refusal(replication.as_bytes(), persistence.as_bytes(), memory.as_bytes())
        };
        for policy in ["noeviction", "volatile-lru"] {
            assert_eq!(of("", "", &memory(policy)), Some(Refusal::Oom), "{policy}");
        }
        for room in [
            memory("allkeys-lru"),
            memory("noeviction").replace(":50", ":100"),
            memory("noeviction").replace("maxmemory:1000", "maxmemory:0"),
            full.to_owned(),
            String::new(),
        ] {
            assert_eq!(of("", "", &room), None, "{room}");
        }
        for (persistence, expected) in [
            ("rdb_last_bgsave_status:err\r\n", Some(Refusal::Misconf)),
            ("aof_last_write_status:err\r\n", Some(Refusal::Misconf)),
            ("rdb_last_bgsave_status:ok\r\naof_last_write_status:ok\r\n", None),
        ] {
            assert_eq!(of("", persistence, ""), expected, "{persistence}");
        }
        assert_eq!(of("min_slaves_good_slaves:0\r\n", "", ""), Some(Refusal::NoReplicas));
    }

    #[test]
    fn each_error_has_its_reason() {
        let reason = |code: &str, detail: &str| {
            Unknown::from(&ServerError {
                code: code.as_bytes().to_vec(),
                detail: detail.as_bytes().to_vec(),
            })
        };
        for (codes, expected) in [
            ("NOAUTH WRONGPASS", Unknown::Auth),
            ("NOPERM", Unknown::NoPermission),
            ("LOADING", Unknown::Loading),
            ("BUSY", Unknown::Busy),
            ("MASTERDOWN", Unknown::NotMaster),
            ("MOVED ASK TRYAGAIN", Unknown::Moved),
            ("CLUSTERDOWN", Unknown::ClusterDown),
            ("WRONGTYPE", Unknown::WrongType),
            ("ERR READONLY", Unknown::ServerError),
        ] {
            codes.split(' ').for_each(|code| assert_eq!(reason(code, "why"), expected, "{code}"));
        }
        assert_eq!(reason("ERR", "max number of clients reached"), Unknown::MaxClients);
    }

    /// A user that may not see a section gets less information. A section that cannot be read now
    /// fails the batch.
    #[test]
    fn a_section_that_is_refused_is_empty() {
        let with = |code: &str| {
            let mut footer = good_footer();
            footer[3] =
                Reply::Error(ServerError { code: code.as_bytes().to_vec(), detail: Vec::new() });
            attestation(CAPS, timing(4), b"n1", &[time(12, 340_000)], &footer)
                .map(|attestation| attestation.generation.unwrap().evictions)
        };
        assert_eq!(["NOPERM", "ERR"].map(with), [Ok(0), Ok(0)]);
        assert_eq!(["LOADING", "NOAUTH"].map(with), [Err(Unknown::Loading), Err(Unknown::Auth)]);
    }

    #[test]
    fn an_append_only_file_leaves_open_what_was_loaded() {
        assert_eq!(started_empty(b"rdb_last_load_keys_loaded:0\r\naof_enabled:1\r\n"), None);
        assert_eq!(started_empty(b"rdb_last_load_keys_loaded:4\r\naof_enabled:0\r\n"), Some(false));
        assert_eq!(started_empty(b"aof_enabled:0\r\n"), None);
    }
}
