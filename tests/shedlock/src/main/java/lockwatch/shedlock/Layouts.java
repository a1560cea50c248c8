package lockwatch.shedlock;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.Optional;
import net.javacrumbs.shedlock.core.LockConfiguration;
import net.javacrumbs.shedlock.core.SimpleLock;
import net.javacrumbs.shedlock.provider.redis.jedis4.JedisLockProvider;
import redis.clients.jedis.Jedis;
import redis.clients.jedis.JedisPool;

/** Writes what ShedLock lays out: while a run lasts, after a short one, extended, and released. */
public final class Layouts {
    private static final String KEY = "job-lock:prod:nightly";

    private Layouts() {}

    /** {@code Layouts PORT FILE}: on an empty Redis of this host. */
    public static void main(String[] arguments) throws IOException {
        try (JedisPool pool = new JedisPool("127.0.0.1", Integer.parseInt(arguments[0]))) {
            JedisLockProvider provider = new JedisLockProvider(pool, "prod");
            StringBuilder text = new StringBuilder();
            text.append("# made by tests/shedlock with shedlock-provider-redis-jedis4 5.12.0\n");
            text.append("# state, PTTL, value (- for none)\n");
            SimpleLock lock = taken(provider, Duration.ofSeconds(30), Duration.ofSeconds(20));
            text.append(line(pool, "running"));
            Optional<SimpleLock> extended = lock.extend(Duration.ofSeconds(60), Duration.ofSeconds(20));
            text.append(line(pool, "extended"));
            extended.orElseThrow().unlock();
            text.append(line(pool, "over-and-kept"));
            try (Jedis jedis = pool.getResource()) {
                jedis.del(KEY);
            }
            taken(provider, Duration.ofSeconds(30), Duration.ZERO).unlock();
            text.append(line(pool, "released"));
            Files.writeString(Path.of(arguments[1]), text);
        }
    }

    private static SimpleLock taken(JedisLockProvider provider, Duration most, Duration least) {
        return provider.lock(new LockConfiguration(Instant.now(), "nightly", most, least))
                .orElseThrow();
    }

    private static String line(JedisPool pool, String state) {
        try (Jedis jedis = pool.getResource()) {
            String value = jedis.get(KEY);
            return state + "\t" + jedis.pttl(KEY) + "\t" + (value == null ? "-" : value) + "\n";
        }
    }
}
