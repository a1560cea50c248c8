//! The three Lua scripts that change a lock. Each is one atomic step and changes the keys as
//! Redisson's scripts do.

use std::time::Duration;

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
    let prefix = b"redisson_lock__channel:".as_slice();
    if key.contains(&b'{') { [prefix, key].concat() } else { [prefix, b"{", key, b"}"].concat() }
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
