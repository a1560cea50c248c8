//! The Lua scripts that change a lock. Each is one atomic step and changes the keys as
//! Redisson's scripts do.

use lockwatch_watch::redis::reply::Command;

/// Replies 1 if renewed, 0 if the lock is not held by this holder.
const RENEW: &str = "
if redis.call('hexists', KEYS[1], ARGV[1]) == 0 then return 0 end
return redis.call('pexpire', KEYS[1], ARGV[2])
";

/// Takes the lock for a guard, which holds it once however often it asks. The token grows above
/// ARGV[3], and stays if an earlier attempt took the lock and its answer was lost. ARGV[4] is the
/// holder's hold before this one, whose release may not have arrived. Replies `{1, token}`, or
/// `{0, newest token, PTTL of the current hold}`.
const TAKE: &str = "
local newest = tonumber(redis.call('get', KEYS[2]) or '0')
redis.call('hdel', KEYS[1], ARGV[4])
local ours = redis.call('hexists', KEYS[1], ARGV[1]) == 1
if not ours and redis.call('exists', KEYS[1]) == 1 then
    return {0, newest, redis.call('pttl', KEYS[1])}
end
redis.call('hset', KEYS[1], ARGV[1], 1)
redis.call('pexpire', KEYS[1], ARGV[2])
if ours and newest > tonumber(ARGV[3]) then return {1, newest} end
local token = redis.call('incr', KEYS[2])
if token <= tonumber(ARGV[3]) then
    token = tonumber(ARGV[3]) + 1
    redis.call('set', KEYS[2], string.format('%.0f', token))
end
return {1, token}
";

/// Gives a guard's lock back, and publishes `0`, the message that waiters of an `RLock` expect, in
/// a cluster also to those that listen to the shard alone. Replies 1, or 0 if the lock is not held
/// by this holder. The channel is no key: its user would need a right to such a key.
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

pub(super) fn take(key: &[u8], field: &str, lease_ms: u64, floor: u64, before: &str) -> Command {
    let (lease_ms, floor) = (lease_ms.to_string(), floor.to_string());
    let words = [field, &lease_ms, &floor, before];
    script(TAKE, &[key, &token(key)], &words.map(str::as_bytes))
}

pub(super) fn renew(key: &[u8], field: &str, lease_ms: u64) -> Command {
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
    companion("redisson_lock_token", key)
}

fn script(script: &str, keys: &[&[u8]], arguments: &[&[u8]]) -> Command {
    let count = keys.len().to_string();
    let words = [b"EVAL".as_slice(), script.trim().as_bytes(), count.as_bytes()];
    Command::new(words.into_iter().chain(keys.iter().chain(arguments).copied()))
}

/// The channel on which a release is published. It is in the same cluster slot as the lock.
pub(super) fn channel(key: &[u8]) -> Vec<u8> {
    companion("redisson_lock__channel", key)
}

/// The name of a key next to the lock's, in its slot.
fn companion(prefix: &str, key: &[u8]) -> Vec<u8> {
    let prefix = prefix.as_bytes();
    match key.contains(&b'{') {
        true => [prefix, b":", key].concat(),
        false => [prefix, b":{", key, b"}"].concat(),
    }
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
