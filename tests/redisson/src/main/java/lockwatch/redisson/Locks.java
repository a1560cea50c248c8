package lockwatch.redisson;

import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.redisson.api.RFencedLock;
import org.redisson.api.RLock;

/** The commands on one lock. Each runs on the worker's thread and returns the fields of its answer. */
final class Locks {
    private Locks() {}

    /** Blocks until the lock is taken. Without {@code lease} the watchdog renews it. */
    static Map<String, Object> lock(RLock lock, Command command) throws InterruptedException {
        long leaseMs = command.millis("lease", -1);
        if (lock instanceof RFencedLock fenced) {
            Long token = leaseMs < 0 ? fenced.lockAndGetToken()
                    : fenced.lockAndGetToken(leaseMs, TimeUnit.MILLISECONDS);
            return answer("token", token);
        }
        lock.lockInterruptibly(leaseMs, TimeUnit.MILLISECONDS);
        return answer();
    }

    static Map<String, Object> tryLock(RLock lock, Command command) throws InterruptedException {
        long waitMs = command.millis("wait", 0);
        long leaseMs = command.millis("lease", -1);
        if (lock instanceof RFencedLock fenced) {
            Long token = fenced.tryLockAndGetToken(waitMs, leaseMs, TimeUnit.MILLISECONDS);
            Map<String, Object> answer = answer("acquired", token != null);
            answer.put("token", token);
            return answer;
        }
        return answer("acquired", lock.tryLock(waitMs, leaseMs, TimeUnit.MILLISECONDS));
    }

    static Map<String, Object> unlock(RLock lock) {
        lock.unlock();
        return answer();
    }

    static Map<String, Object> forceUnlock(RLock lock) {
        return answer("unlocked", lock.forceUnlock());
    }

    static Map<String, Object> held(RLock lock) {
        Map<String, Object> answer = answer("held", lock.isHeldByCurrentThread());
        answer.put("locked", lock.isLocked());
        answer.put("entries", lock.getHoldCount());
        return answer;
    }

    /** The answer's fields, beginning with when the command was done. */
    static Map<String, Object> answer() {
        Map<String, Object> answer = new LinkedHashMap<>();
        answer.put("at_ms", System.currentTimeMillis());
        return answer;
    }

    private static Map<String, Object> answer(String key, Object value) {
        Map<String, Object> answer = answer();
        answer.put(key, value);
        return answer;
    }
}
