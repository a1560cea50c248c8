//! Locks of schedulers and groups, held by one process for as long as it lives: what lockwatch is
//! for. Their names are fixed, so the name says which library it is, whatever the value is.

use super::recognise::ScannedKey;
use super::shape::Shape;

/// The host and the process in a value; a nonce behind them is left out.
pub(super) const HOST_AND_PROCESS: &str = "^(.+?[:#][0-9]+)";

/// What a key's name begins with, what is in it, what it ends in, and whose it is.
struct Leader(&'static str, &'static str, &'static str, &'static str);

const LEADERS: [Leader; 12] = [
    Leader("", "", "redbeat::lock", "Celery redbeat: the scheduler that is active"),
    Leader("", "", "redbeat:lock", "Celery redbeat: the scheduler that is active"),
    Leader(
        "rq:scheduler-lock:",
        "",
        "",
        "RQ: the worker that runs the scheduler of this queue; its host is in the hash \
         rq:scheduler:<value>",
    ),
    Leader("", "", "resque_scheduler_leader_lock", "node-resque: the scheduler that is active"),
    Leader(
        "",
        "",
        "resque_scheduler_master_lock",
        "resque-scheduler: the scheduler that is active",
    ),
    Leader("", "", "dear-leader", "Sidekiq Enterprise: the process that leads"),
    Leader("", "", "main_instance_leader", "n8n: the main instance that leads"),
    Leader("_tooz_leader_of_", "", "_lock", "tooz: the leader of a group"),
    Leader("_tooz_", "", "_lock", "tooz: a lock"),
    Leader("", LEASES, "", "docket: the worker that has this lease"),
    Leader("", "/crontab-", "-sv", "Hyperf: the server that runs this crontab"),
    Leader("leader:", "", "", "redis-leader or safe-redis-leader: the leader of a group"),
];

const LEASES: &str = ":leases:";
/// Length of a SHA-1 digest in hex.
const DIGEST: usize = 40;

/// What such a lock is, and the pattern of its holder's name, if its value shows that in clear.
pub(super) fn known(seen: &ScannedKey) -> Option<(&'static str, Option<&'static str>)> {
    let shape = seen.shape().filter(|shape| shape.is_token() || *shape == Shape::Word)?;
    let key = core::str::from_utf8(&seen.key).ok()?;
    let fits = |Leader(start, part, end, _): &&Leader| {
        // Others use these names, too, but not with a digest, or for a process.
        let is_of_others = *start == "leader:" && !ends_in_a_digest(key)
            || *part == LEASES && shape != Shape::HostAndProcess;
        key.starts_with(start) && key.contains(part) && key.ends_with(end) && !is_of_others
    };
    let Leader(_, _, _, what) = LEADERS.iter().find(fits)?;
    Some((what, (shape == Shape::HostAndProcess).then_some(HOST_AND_PROCESS)))
}

fn ends_in_a_digest(key: &str) -> bool {
    let last = key.rsplit([':', ' ']).next().unwrap_or_default();
    last.len() == DIGEST && last.bytes().all(|byte| byte.is_ascii_hexdigit())
}
