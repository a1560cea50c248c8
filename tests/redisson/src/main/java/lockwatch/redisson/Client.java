package lockwatch.redisson;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.redisson.Redisson;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.api.redisnode.RedisNodes;
import org.redisson.config.Config;
import org.redisson.config.SingleServerConfig;

/** One Redisson instance with its own id, its own named threads and the lock objects that it keeps, as services do. */
final class Client {
    final String name;
    final RedissonClient redisson;
    private final Map<String, Worker> workers = new ConcurrentHashMap<>();
    private final Map<String, RLock> locks = new ConcurrentHashMap<>();

    Client(String name, Command command) {
        this.name = name;
        this.redisson = Redisson.create(config(command));
    }

    private static Config config(Command command) {
        Config config = new Config();
        config.setThreads(4).setNettyThreads(4);
        config.setLockWatchdogTimeout(command.millis("watchdog", config.getLockWatchdogTimeout()));
        config.setFairLockWaitTimeout(command.millis("fair_wait", config.getFairLockWaitTimeout()));
        SingleServerConfig server = config.useSingleServer();
        server.setAddress("redis://" + command.option("host", "127.0.0.1") + ":" + command.option("port", "6379"));
        server.setDatabase(command.count("db", 0));
        server.setConnectionMinimumIdleSize(1).setConnectionPoolSize(8);
        server.setSubscriptionConnectionMinimumIdleSize(1).setSubscriptionConnectionPoolSize(4);
        if (command.options().containsKey("password")) {
            config.setPassword(command.option("password", ""));
        }
        if (command.options().containsKey("username")) {
            config.setUsername(command.option("username", ""));
        }
        return config;
    }

    Worker worker(String thread) {
        return workers.computeIfAbsent(thread, name -> new Worker(this.name + "/" + name));
    }

    /** The lock object of this kind and name: always the same one, unless the command asks for a fresh one. */
    RLock lock(String lockName, Command command) {
        String kind = command.option("kind", "plain");
        if (command.options().containsKey("fresh")) {
            return newLock(kind, lockName, command);
        }
        String values = command.option("values", "");
        return locks.computeIfAbsent(kind + " " + values + " " + lockName, key -> newLock(kind, lockName, command));
    }

    private RLock newLock(String kind, String lockName, Command command) {
        return switch (kind) {
            case "plain" -> redisson.getLock(lockName);
            case "spin" -> redisson.getSpinLock(lockName);
            case "nonreentrant" -> redisson.getNonReentrantLock(lockName);
            case "fair" -> redisson.getFairLock(lockName);
            case "fenced" -> redisson.getFencedLock(lockName);
            case "read" -> redisson.getReadWriteLock(lockName).readLock();
            case "write" -> redisson.getReadWriteLock(lockName).writeLock();
            case "multi" -> redisson.getMultiLock(members(lockName));
            case "faster" -> {
                List<Object> values = new ArrayList<>(List.of(command.option("values", "one").split(",")));
                yield redisson.getMultiLock(lockName, values);
            }
            default -> throw new IllegalArgumentException("no lock of kind " + kind);
        };
    }

    private RLock[] members(String lockNames) {
        return List.of(lockNames.split(",")).stream().map(redisson::getLock).toArray(RLock[]::new);
    }

    /** Seconds and microseconds of the server's clock, as microseconds since the epoch. */
    long serverMicros() {
        var time = redisson.getRedisNodes(RedisNodes.SINGLE).getInstance().time();
        return time.getSeconds() * 1_000_000L + time.getMicroseconds();
    }

    void shutdown() {
        redisson.shutdown();
    }
}
