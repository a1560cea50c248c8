//! The Lua scripts that change a lock. Each is one atomic step and changes the keys as
//! Redisson's scripts do.

use std::time::Duration;

use lockwatch_watch::redis::reply::Command;
use redis::Cmd;

use super::Holder;

/// Replies `{1, entries}` if taken, else `{0, PTTL of the current hold}`.
const ACQUIRE: &str = "
local ours = redis.call('hexists', KEYS[1], ARGV[1]) == 1
if ours or redis.call('exists', KEYS[1]) == 0 then
    local entries = redis.call('hincrby', KEYS[1], ARGV[1], 1)
    redis.call('pexpire', KEYS[1], ARGV[2])
    return {1, entries}
end
return {0, redis.call('pttl', KEYS[1])}
";

/// Replies 1 if renewed, 0 if the lock is not held by this holder.
const RENEW: &str = "
if redis.call('hexists', KEYS[1], ARGV[1]) == 0 then return 0 end
return redis.call('pexpire', KEYS[1], ARGV[2])
";

/// Replies with the remaining entries, or −1 if the lock is not held by this holder. Publishes `0`,
/// the message that waiters of an `RLock` expect.
const RELEASE: &str = "
if redis.call('hexists', KEYS[1], ARGV[1]) == 0 then return -1 end
local entries = redis.call('hincrby', KEYS[1], ARGV[1], -1)
if entries > 0 then
    redis.call('pexpire', KEYS[1], ARGV[2])
    return entries
end
redis.call('del', KEYS[1])
redis.call('publish', KEYS[2], '0')
return 0
";

/// Takes the lock for a guard, which holds it once however often it asks. The token grows above
/// ARGV[3]. Replies `{1, token}`, or `{0, newest token, PTTL of the current hold}`.
const TAKE: &str = "
if redis.call('hexists', KEYS[1], ARGV[1]) == 0 and redis.call('exists', KEYS[1]) == 1 then
    local newest = tonumber(redis.call('get', KEYS[2]) or '0')
    return {0, newest, redis.call('pttl', KEYS[1])}
end
redis.call('hset', KEYS[1], ARGV[1], 1)
redis.call('pexpire', KEYS[1], ARGV[2])
local token = redis.call('incr', KEYS[2])
if token <= tonumber(ARGV[3]) then
    token = tonumber(ARGV[3]) + 1
    redis.call('set', KEYS[2], string.format('%.0f', token))
end
return {1, token}
";

/// Gives a guard's lock back, and tells its waiters, in a cluster also those that listen to the
/// shard alone. Replies 1, or 0 if the lock is not held by this holder. The channel is no key: its
/// user would need a right to such a key.
const GIVE_BACK: &str = "
if redis.call('hexists', KEYS[1], ARGV[1]) == 0 then return 0 end
redis.call('del', KEYS[1])
redis.call('publish', ARGV[2], '0')
if ARGV[3] == '1' then redis.pcall('spublish', ARGV[2], '0') end
return 1
";

/// Replies whether this holder has the lock, and the newest token.
const FENCE: &str = "
return {redis.call('hexists', KEYS[1], ARGV[1]), tonumber(redis.call('get', KEYS[2]) or '0')}
";

pub(super) fn take(key: &[u8], field: &str, lease_ms: u64, floor: u64) -> Command {
    let (lease_ms, floor) = (lease_ms.to_string(), floor.to_string());
    script(TAKE, &[key, &token(key)], &[field, &lease_ms, &floor].map(str::as_bytes))
}

pub(super) fn renew_for(key: &[u8], field: &str, lease_ms: u64) -> Command {
    script(RENEW, &[key], &[field.as_bytes(), lease_ms.to_string().as_bytes()])
}

pub(super) fn give_back(key: &[u8], field: &str, cluster: bool) -> Command {
    let cluster: &[u8] = if cluster { b"1" } else { b"0" };
    script(GIVE_BACK, &[key], &[field.as_bytes(), &channel(key), cluster])
}

pub(super) fn fence(key: &[u8], field: &str) -> Command {
    script(FENCE, &[key, &token(key)], &[field.as_bytes()])
}

/// The counter of the fencing tokens, as `RFencedLock` names it.
pub(super) fn token(key: &[u8]) -> Vec<u8> {
    beside("redisson_lock_token", key)
}

fn script(script: &str, keys: &[&[u8]], arguments: &[&[u8]]) -> Command {
    let count = keys.len().to_string();
    let words = [b"EVAL".as_slice(), script.trim().as_bytes(), count.as_bytes()];
    Command::new(words.into_iter().chain(keys.iter().chain(arguments).copied()))
}

pub(super) fn acquire(key: &[u8], holder: &Holder, lease: Duration) -> Cmd {
    eval(ACQUIRE, &[key], holder, lease)
}

pub(super) fn renew(key: &[u8], holder: &Holder, lease: Duration) -> Cmd {
    eval(RENEW, &[key], holder, lease)
}

pub(super) fn release(key: &[u8], holder: &Holder, lease: Duration) -> Cmd {
    eval(RELEASE, &[key, &channel(key)], holder, lease)
}

/// The channel on which a release is published. It is in the same cluster slot as the lock.
pub(super) fn channel(key: &[u8]) -> Vec<u8> {
    beside("redisson_lock__channel", key)
}

/// A name beside that of the lock, in its slot.
fn beside(prefix: &str, key: &[u8]) -> Vec<u8> {
    let prefix = prefix.as_bytes();
    match key.contains(&b'{') {
        true => [prefix, b":", key].concat(),
        false => [prefix, b":{", key, b"}"].concat(),
    }
}

fn eval(script: &str, keys: &[&[u8]], holder: &Holder, lease: Duration) -> Cmd {
    let lease_ms = u64::try_from(lease.as_millis()).unwrap_or(u64::MAX);
    let mut command = redis::cmd("EVAL");
    command.arg(script.trim()).arg(keys.len()).arg(keys).arg(holder.field()).arg(lease_ms);
    command
}

#[cfg(test)]
mod tests {
    use super::channel;

    #[test]
    fn the_channel_shares_the_locks_slot() {
        assert_eq!(channel(b"outbound:lock"), b"redisson_lock__channel:{outbound:lock}");
        assert_eq!(channel(b"{outbound}:lock"), b"redisson_lock__channel:{outbound}:lock");
        assert_eq!(channel(b"\xff\n"), b"redisson_lock__channel:{\xff\n}");
    }
}
