package lockwatch.redisson;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.redisson.Redisson;
import org.redisson.api.RLock;
import org.redisson.api.RScript;
import org.redisson.api.RedissonClient;
import org.redisson.client.codec.StringCodec;

/** One Redisson instance with its own id, its own named threads and the lock objects that it keeps, as services do. */
final class Client {
    final String name;
    final RedissonClient redisson;
    private final Map<String, Worker> workers = new ConcurrentHashMap<>();
    private final Map<String, RLock> locks = new ConcurrentHashMap<>();

    Client(String name, Command command) {
        this.name = name;
        this.redisson = Redisson.create(Connection.config(command));
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

    /** The clock of the server that has the lock (any word will do where there is one), as microseconds since 1970. */
    long serverMicros(String lockName) {
        List<String> time = redisson.getScript(StringCodec.INSTANCE).eval(RScript.Mode.READ_WRITE,
                "return redis.call('time')", RScript.ReturnType.LIST, List.of(lockName));
        return Long.parseLong(time.get(0)) * 1_000_000L + Long.parseLong(time.get(1));
    }

    void shutdown() {
        redisson.shutdown();
    }
}
