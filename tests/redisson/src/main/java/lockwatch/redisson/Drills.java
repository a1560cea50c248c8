package lockwatch.redisson;

import java.util.Map;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import org.redisson.api.RLock;

/** Sequences of lock commands that must follow each other faster than lines of input could. */
final class Drills {
    private static final long POLL_NS = 50_000;
    private static final long PATIENCE_NS = TimeUnit.SECONDS.toNanos(60);

    private Drills() {}

    /** A thread of a client, with its own lock object of the common lock. */
    record Party(Client client, String thread, RLock lock) {
        Worker worker() {
            return client.worker(thread);
        }
    }

    /**
     * Lets the lock change hands n times by unlock while the other one waits in {@code lock()}. Begins with the first
     * party (which takes the lock unless it has it) and leaves the lock with the party that the answer names.
     */
    static Map<String, Object> handovers(Party first, Party second, int n, long pauseMs) throws Exception {
        Party holder = first;
        Party waiter = second;
        if (!holder.worker().run(holder.lock()::isHeldByCurrentThread)) {
            run(holder, holder.lock()::lock);
        }
        long began = System.nanoTime();
        for (int i = 0; i < n; i++) {
            RLock wanted = waiter.lock();
            Future<Boolean> acquired = waiter.worker().start(() -> {
                wanted.lock();
                return true;
            });
            awaitWaiting(waiter);
            run(holder, holder.lock()::unlock);
            acquired.get(60, TimeUnit.SECONDS);
            Party next = waiter;
            waiter = holder;
            holder = next;
            Thread.sleep(pauseMs);
        }
        Map<String, Object> answer = Locks.answer();
        answer.put("handovers", n);
        answer.put("took_ms", TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - began));
        answer.put("client", holder.client().name);
        answer.put("thread", holder.thread());
        return answer;
    }

    private static void awaitWaiting(Party waiter) {
        long began = System.nanoTime();
        while (!waiter.worker().awaitsRelease()) {
            if (System.nanoTime() - began > PATIENCE_NS) {
                throw new IllegalStateException(waiter.client().name + " never waited for the lock");
            }
            LockSupport.parkNanos(POLL_NS);
        }
    }

    /**
     * Takes and releases the lock n times and then keeps it. Each release within a renewal period leaves one timer of
     * Redisson's alive, so that n + 1 of them renew the last hold, each at the phase where its cycle began.
     */
    static Map<String, Object> pileUp(Party party, int n, long pauseMs) throws Exception {
        run(party, party.lock()::lock);
        for (int i = 0; i < n; i++) {
            Thread.sleep(pauseMs);
            run(party, party.lock()::unlock);
            run(party, party.lock()::lock);
        }
        Map<String, Object> answer = Locks.answer();
        answer.put("cycles", n);
        return answer;
    }

    private static void run(Party party, Runnable task) throws Exception {
        party.worker().run(() -> {
            task.run();
            return null;
        });
    }
}
