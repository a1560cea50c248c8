import java.nio.file.Files;
import java.nio.file.Path;
import java.util.concurrent.locks.LockSupport;
import org.redisson.Redisson;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

/** What the test needs around both Java workers: a connection, and the work. */
final class Orders {
    private static final long PAUSE_NS = 50_000_000;

    static RedissonClient redisson() {
        Config config = new Config().setThreads(2).setNettyThreads(2);
        config.useSingleServer().setAddress(System.getenv("REDIS_URL")).setConnectionMinimumIdleSize(1);
        return Redisson.create(config);
    }

    static boolean isThere(String name) {
        return Files.exists(Path.of(System.getenv("FOLDER"), name));
    }

    /** A piece of work. Returns whether to go on. */
    boolean shipNext() {
        do {
            LockSupport.parkNanos(PAUSE_NS);
        } while (isThere("hang"));
        return !isThere("stop");
    }
}
