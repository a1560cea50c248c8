package lockwatch.redisson;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.Callable;
import java.util.concurrent.TimeUnit;
import org.redisson.api.RLock;
import org.redisson.api.RScript;
import org.redisson.api.RType;
import org.redisson.api.RedissonClient;
import org.redisson.api.TransactionOptions;
import org.redisson.client.codec.StringCodec;
import org.redisson.client.protocol.ScoredEntry;

/** What each kind of lock lays out in Redis, one text file per state of a lock. */
final class Layouts {
    private static final String NAME = "outbound:lock";
    /** A name with a hash tag: Redisson derives other names for the side keys of such a lock. */
    private static final String TAGGED = "{outbound}:lock";
    private static final long PATIENCE_MS = 20_000;
    private static final String HEADER = """
            # %s
            # Captured from Redisson 4.7.0 by the command `layouts` of tests/redisson; do not edit.
            # Columns are parted by tabs:
            #   lock, name given to Redisson
            #   client, its name in this capture, its id, the ids of its threads t1 and t2
            #   key, Redis type, TTL in ms (-1: none), name; below it its contents:
            #     field, name, value (hash) | value, text (string) | item, text (list, head first)
            #     | member, text, score (zset)
            """;

    private final Client a;
    private final Client b;
    private final String name;

    private Layouts(Client a, Client b, String name) {
        this.a = a;
        this.b = b;
        this.name = name;
    }

    @FunctionalInterface
    private interface Scenario {
        void play(Layouts layouts) throws Exception;
    }

    private record Capture(String file, String lock, String title, Scenario scenario) {}

    private static final List<Capture> CAPTURES = List.of(
            new Capture("plain", NAME, "RLock, held by a/t1.", l -> l.lock(l.a, "t1", l.plain(l.a))),
            new Capture("plain_reentered", NAME, "RLock, entered three times by a/t1.",
                    l -> l.repeat(3, l.a, "t1", l.plain(l.a))),
            new Capture("plain_lease", NAME, "RLock, held by a/t1 with a lease of 60 s of its own.",
                    l -> l.lease(60_000, l.a, "t1", l.plain(l.a))),
            new Capture("plain_partly_released", NAME, "RLock, entered twice by a/t1 and released once.", l -> {
                l.repeat(2, l.a, "t1", l.plain(l.a));
                l.unlock(l.a, "t1", l.plain(l.a));
            }),
            new Capture("spin", NAME, "RSpinLock, held by a/t1.",
                    l -> l.lock(l.a, "t1", l.a.redisson.getSpinLock(l.name))),
            new Capture("fenced", NAME, "RFencedLock, held by a/t1 for the third time.", Layouts::fenced),
            new Capture("fenced_hash_tag", TAGGED, "RFencedLock with a hash tag in its name, held by a/t1.",
                    Layouts::fenced),
            new Capture("fair_waiters", NAME, "RFairLock, held by a/t1; a/t2 and then b/t1 wait.", Layouts::fair),
            new Capture("fair_waiters_hash_tag", TAGGED,
                    "RFairLock with a hash tag in its name, held by a/t1; a/t2 and then b/t1 wait.", Layouts::fair),
            new Capture("read", NAME, "RReadWriteLock, read by a/t1.", l -> l.lock(l.a, "t1", l.read(l.a))),
            new Capture("read_hash_tag", TAGGED, "RReadWriteLock with a hash tag in its name, read by a/t1.",
                    l -> l.lock(l.a, "t1", l.read(l.a))),
            new Capture("read_two", NAME, "RReadWriteLock, read by a/t1 and b/t1.", l -> {
                l.lock(l.a, "t1", l.read(l.a));
                l.lock(l.b, "t1", l.read(l.b));
            }),
            new Capture("read_reentered", NAME, "RReadWriteLock, its read lock entered three times by a/t1.",
                    l -> l.repeat(3, l.a, "t1", l.read(l.a))),
            new Capture("read_ghost", NAME, "RReadWriteLock, read by a/t1; b/t1 read it with a lease of 200 ms that ran"
                    + " out, so its field is a ghost.", Layouts::ghost),
            new Capture("read_all_ghosts", NAME, "RReadWriteLock whose hash outlived its only reader, a/t1 (its entry"
                    + " was deleted by hand, as if it had run out).", Layouts::onlyGhosts),
            new Capture("write", NAME, "RReadWriteLock, written by a/t1.", l -> l.lock(l.a, "t1", l.write(l.a))),
            new Capture("write_reentered", NAME, "RReadWriteLock, its write lock entered twice by a/t1: the second"
                    + " entry adds a lease to the TTL.", l -> l.repeat(2, l.a, "t1", l.write(l.a))),
            new Capture("write_own_read", NAME, "RReadWriteLock, written and read by a/t1.", l -> {
                l.lock(l.a, "t1", l.write(l.a));
                l.lock(l.a, "t1", l.read(l.a));
            }),
            new Capture("write_downgraded", NAME, "RReadWriteLock, written and read by a/t1, then the write lock was"
                    + " released.", l -> {
                        l.lock(l.a, "t1", l.write(l.a));
                        l.lock(l.a, "t1", l.read(l.a));
                        l.unlock(l.a, "t1", l.write(l.a));
                    }),
            new Capture("multilock", NAME, "RedissonMultiLock of two plain locks, held by a/t1.",
                    l -> l.lock(l.a, "t1", l.a.redisson.getMultiLock(l.plain(l.a), l.a.redisson.getLock("other")))),
            new Capture("faster_multilock", NAME, "getMultiLock(name, values): a/t1 holds \"one\" and \"two\", b/t1"
                    + " holds \"three\".", l -> {
                        l.lock(l.a, "t1", l.a.redisson.getMultiLock(l.name, List.of("one", "two")));
                        l.lock(l.b, "t1", l.b.redisson.getMultiLock(l.name, List.of("three")));
                    }),
            new Capture("transaction", NAME, "RTransaction of client a on a set bucket of that name, not yet committed:"
                    + " its lock is a side key.", Layouts::transaction));

    /** {@code layouts DIR [connection options]}: needs an empty database and leaves it empty. */
    static void write(Command command, Path directory) throws Exception {
        Files.createDirectories(directory);
        for (Capture capture : CAPTURES) {
            Client a = new Client("a", command);
            Client b = new Client("b", command);
            try {
                if (a.redisson.getKeys().count() != 0) {
                    throw new IllegalStateException("the database is not empty");
                }
                Layouts layouts = new Layouts(a, b, capture.lock());
                capture.scenario().play(layouts);
                layouts.awaitNoLatch();
                Files.writeString(directory.resolve(capture.file() + ".txt"), layouts.dump(capture.title()));
                layouts.release();
            } finally {
                a.shutdown();
                b.shutdown();
            }
        }
    }

    private RLock plain(Client client) {
        return client.redisson.getLock(name);
    }

    private RLock read(Client client) {
        return client.redisson.getReadWriteLock(name).readLock();
    }

    private RLock write(Client client) {
        return client.redisson.getReadWriteLock(name).writeLock();
    }

    private void lock(Client client, String thread, RLock lock) throws Exception {
        repeat(1, client, thread, lock);
    }

    private void repeat(int times, Client client, String thread, RLock lock) throws Exception {
        client.worker(thread).run(() -> {
            for (int i = 0; i < times; i++) {
                lock.lock();
            }
            return null;
        });
    }

    private void lease(long leaseMs, Client client, String thread, RLock lock) throws Exception {
        client.worker(thread).run(() -> {
            lock.lock(leaseMs, TimeUnit.MILLISECONDS);
            return null;
        });
    }

    private void unlock(Client client, String thread, RLock lock) throws Exception {
        client.worker(thread).run(() -> {
            lock.unlock();
            return null;
        });
    }

    private void fenced() throws Exception {
        RLock lock = a.redisson.getFencedLock(name);
        for (int i = 0; i < 2; i++) {
            lock(a, "t1", lock);
            unlock(a, "t1", lock);
        }
        lock(a, "t1", lock);
    }

    private void fair() throws Exception {
        lock(a, "t1", a.redisson.getFairLock(name));
        await(a, "t2", a.redisson.getFairLock(name));
        await(b, "t1", b.redisson.getFairLock(name));
    }

    private void await(Client client, String thread, RLock lock) throws Exception {
        client.worker(thread).start(() -> {
            lock.lockInterruptibly();
            return null;
        });
        until(client.worker(thread)::awaitsRelease);
    }

    private void ghost() throws Exception {
        lock(a, "t1", read(a));
        lease(200, b, "t1", read(b));
        String entries = "*" + b.redisson.getId() + "*rwlock_timeout*";
        until(() -> a.redisson.getKeys().getKeysStreamByPattern(entries).findAny().isEmpty());
    }

    private void onlyGhosts() throws Exception {
        lock(a, "t1", read(a));
        a.redisson.getKeys().deleteByPattern("*rwlock_timeout*");
    }

    private void transaction() {
        a.redisson.createTransaction(TransactionOptions.defaults()).getBucket(name, StringCodec.INSTANCE).set("x");
    }

    /** Redisson deletes the memo of an unlock after it was answered. */
    private void awaitNoLatch() throws Exception {
        until(() -> a.redisson.getKeys().getKeysStreamByPattern("redisson_unlock_latch*").findAny().isEmpty());
    }

    private static void until(Callable<Boolean> condition) throws Exception {
        long began = System.currentTimeMillis();
        while (!condition.call()) {
            if (System.currentTimeMillis() - began > PATIENCE_MS) {
                throw new IllegalStateException("it never came true");
            }
            Thread.sleep(2);
        }
    }

    private void release() {
        a.worker("t2").interrupt();
        b.worker("t1").interrupt();
        a.redisson.getKeys().flushdb();
    }

    private String dump(String title) throws Exception {
        StringBuilder text = new StringBuilder(HEADER.formatted(title));
        line(text, "lock", name);
        for (Client client : List.of(a, b)) {
            line(text, "client", client.name, client.redisson.getId(), client.worker("t1").threadId(),
                    client.worker("t2").threadId());
        }
        for (String key : a.redisson.getKeys().getKeysStream().sorted().toList()) {
            dumpKey(text, a.redisson, key);
        }
        return text.toString();
    }

    private static void dumpKey(StringBuilder text, RedissonClient redisson, String key) throws IOException {
        RType type = redisson.getKeys().getType(key);
        Long ttlMs = redisson.getScript(StringCodec.INSTANCE).eval(RScript.Mode.READ_ONLY,
                "return redis.call('pttl', KEYS[1])", RScript.ReturnType.LONG, List.of(key));
        switch (type) {
            case MAP -> {
                line(text, "key", "hash", ttlMs, key);
                Map<String, String> fields = redisson.<String, String>getMap(key, StringCodec.INSTANCE).readAllMap();
                new TreeMap<>(fields).forEach((field, value) -> line(text, "field", field, value));
            }
            case OBJECT -> {
                line(text, "key", "string", ttlMs, key);
                line(text, "value", redisson.getBucket(key, StringCodec.INSTANCE).get());
            }
            case LIST -> {
                line(text, "key", "list", ttlMs, key);
                redisson.getList(key, StringCodec.INSTANCE).readAll().forEach(item -> line(text, "item", item));
            }
            case ZSET -> {
                line(text, "key", "zset", ttlMs, key);
                for (ScoredEntry<Object> entry : redisson.getScoredSortedSet(key, StringCodec.INSTANCE).entryRange(0,
                        -1)) {
                    line(text, "member", entry.getValue(), entry.getScore().longValue());
                }
            }
            default -> throw new IOException("a key of type " + type);
        }
    }

    private static void line(StringBuilder text, Object... columns) {
        for (int i = 0; i < columns.length; i++) {
            text.append(i == 0 ? "" : "\t").append(columns[i]);
        }
        text.append('\n');
    }
}
