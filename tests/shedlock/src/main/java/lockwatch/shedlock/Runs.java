package lockwatch.shedlock;

import java.lang.reflect.Field;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import net.javacrumbs.shedlock.core.LockConfiguration;
import net.javacrumbs.shedlock.core.SimpleLock;
import net.javacrumbs.shedlock.provider.redis.jedis4.JedisLockProvider;
import net.javacrumbs.shedlock.support.Utils;
import redis.clients.jedis.Jedis;
import redis.clients.jedis.JedisPool;

/**
 * Runs tasks side by side, and prints of each run when its key came and went: one line with its
 * task, its host, the Unix milliseconds before and after the lock was taken and those between which
 * the key was gone, and whether lockAtLeastFor kept it until then.
 */
public final class Runs {
    /** Milliseconds of a run, its lockAtLeastFor and its lockAtMostFor. */
    private static final long[][] PLANS = {
        {250, 800, 5_000}, {900, 300, 10_000}, {600, 1_200, 2_000}, {700, 0, 3_000},
    };

    /** How long a key stays free unless another host takes it. */
    private static final long PAUSE_MS = 600;

    private static final long RETRY_MS = 10;

    private Runs() {}

    /**
     * {@code Runs PORT HOST COUNT TASK...}: HOST {@code -} is the name of this machine; a COUNT of 0
     * leaves the keys behind for a minute.
     */
    public static void main(String[] arguments) throws Exception {
        if (!arguments[1].equals("-")) {
            rename(arguments[1]);
        }
        int count = Integer.parseInt(arguments[2]);
        try (JedisPool pool = new JedisPool("127.0.0.1", Integer.parseInt(arguments[0]))) {
            pool.setMaxTotal(2 * arguments.length);
            List<Thread> threads = new ArrayList<>();
            for (int at = 3; at < arguments.length; at++) {
                String task = arguments[at];
                int first = at;
                Thread thread = new Thread(() -> run(pool, task, first, count));
                thread.start();
                threads.add(thread);
            }
            for (Thread thread : threads) {
                thread.join();
            }
        }
    }

    private static void run(JedisPool pool, String task, int first, int count) {
        JedisLockProvider provider = new JedisLockProvider(pool, "prod");
        if (count == 0) {
            taken(provider, task, Duration.ofMinutes(2), Duration.ofMinutes(1)).unlock();
        }
        for (int run = 0; run < count; run++) {
            long[] plan = PLANS[(first + run) % PLANS.length];
            // Not always at the same distance from a reading.
            pause(PAUSE_MS + (7 * first + 13 * run) % 10 * 20);
            Duration least = Duration.ofMillis(plan[1]);
            Optional<SimpleLock> lock = Optional.empty();
            long before = 0;
            while (lock.isEmpty()) {
                pause(RETRY_MS);
                before = System.currentTimeMillis();
                lock = provider.lock(new LockConfiguration(
                        Instant.now(), task, Duration.ofMillis(plan[2]), least));
            }
            long after = System.currentTimeMillis();
            pause(plan[0]);
            long from = System.currentTimeMillis();
            lock.get().unlock();
            long to = System.currentTimeMillis();
            boolean kept = plan[1] > plan[0];
            if (kept) {
                try (Jedis jedis = pool.getResource()) {
                    from = jedis.pexpireTime("job-lock:prod:" + task);
                    to = from;
                }
                pause(from - System.currentTimeMillis());
            }
            String line = String.join("\t", task, Utils.getHostname(), "" + before, "" + after,
                    "" + from, "" + to, "" + kept);
            System.out.println(line);
        }
    }

    private static SimpleLock taken(
            JedisLockProvider provider, String task, Duration most, Duration least) {
        return provider.lock(new LockConfiguration(Instant.now(), task, most, least)).orElseThrow();
    }

    private static void pause(long ms) {
        try {
            Thread.sleep(Math.max(ms, 0));
        } catch (InterruptedException e) {
            throw new IllegalStateException(e);
        }
    }

    /** ShedLock reads the name once, and offers no setting for it. */
    @SuppressWarnings({"deprecation", "removal"})
    private static void rename(String host) throws ReflectiveOperationException {
        Field access = sun.misc.Unsafe.class.getDeclaredField("theUnsafe");
        access.setAccessible(true);
        sun.misc.Unsafe unsafe = (sun.misc.Unsafe) access.get(null);
        Utils.getHostname();
        Field name = Utils.class.getDeclaredField("hostname");
        unsafe.putObject(unsafe.staticFieldBase(name), unsafe.staticFieldOffset(name), host);
    }
}
