package lockwatch.zookeeper;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.leader.LeaderSelector;
import org.apache.curator.framework.recipes.leader.LeaderSelectorListenerAdapter;
import org.apache.curator.framework.recipes.locks.InterProcessLock;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.retry.RetryForever;

/**
 * Curator's locks on command: reads one command a line, and answers each with a line of JSON that
 * has "ok" or "error". What happens later is reported as a line with "event". README.md lists the
 * commands.
 */
public final class Locks {
    private final String servers;
    private final Map<String, CuratorFramework> sessions = new ConcurrentHashMap<>();
    private final Map<String, CountDownLatch> releases = new ConcurrentHashMap<>();

    private Locks(String servers) {
        this.servers = servers;
    }

    /** A part of a program that may fail. */
    private interface Work {
        void run() throws Exception;
    }

    public static void main(String[] arguments) throws Exception {
        Locks locks = new Locks(arguments[0]);
        say("\"ok\":\"ready\"");
        BufferedReader input =
                new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            String[] words = line.split(" ");
            try {
                say("\"ok\":\"" + words[0] + "\"" + locks.obey(words));
            } catch (Exception error) {
                say("\"error\":\"" + error.toString().replace("\"", "'") + "\"");
            }
        }
        System.exit(0);
    }

    private String obey(String[] words) throws Exception {
        switch (words[0]) {
            case "session":
                return session(words[1], Integer.parseInt(words[2]));
            case "close":
                sessions.remove(words[1]).close();
                return "";
            case "take":
                return take(sessions.get(words[1]), words[2], words[3], words[4], words[5]);
            case "release":
                releases.remove(words[1]).countDown();
                return "";
            case "holds":
                return holds(words);
            default:
                throw new IllegalArgumentException("no such command: " + words[0]);
        }
    }

    private String session(String name, int timeoutMs) throws Exception {
        CuratorFramework client =
                CuratorFrameworkFactory.newClient(servers, timeoutMs, 5000, new RetryForever(100));
        client.start();
        if (!client.blockUntilConnected(60, TimeUnit.SECONDS)) {
            throw new IllegalStateException("no connection");
        }
        sessions.put(name, client);
        long id = client.getZookeeperClient().getZooKeeper().getSessionId();
        return ",\"id\":\"0x" + Long.toHexString(id) + "\"";
    }

    /** Contends for a lock until it is released; reports when it is held and when it is gone. */
    private String take(CuratorFramework client, String lock, String kind, String path, String data)
            throws Exception {
        CountDownLatch release = new CountDownLatch(1);
        releases.put(lock, release);
        long[] begin = new long[1];
        Work hold =
                () -> {
                    say("\"event\":\"held\",\"lock\":\"" + lock + "\",\"at\":" + now());
                    release.await();
                    begin[0] = now();
                };
        Work gone =
                () ->
                        say(
                                String.format(
                                        "\"event\":\"released\",\"lock\":\"%s\",\"begin\":%d,\"at\":%d",
                                        lock, begin[0], now()));
        start(
                () -> {
                    switch (kind) {
                        case "latch" -> latch(client, path, data, hold);
                        case "selector" -> selector(client, path, data, hold, release);
                        default -> {
                            InterProcessLock taken = lock(client, kind, path, data);
                            taken.acquire();
                            hold.run();
                            taken.release();
                        }
                    }
                    gone.run();
                });
        return "";
    }

    private static InterProcessLock lock(
            CuratorFramework client, String kind, String path, String data) {
        byte[] bytes = data.getBytes(StandardCharsets.UTF_8);
        return switch (kind) {
            case "mutex" ->
                    new InterProcessMutex(client, path) {
                        @Override
                        protected byte[] getLockNodeBytes() {
                            return bytes;
                        }
                    };
            // Its data are what Curator writes by itself: this machine's address.
            case "default-mutex" -> new InterProcessMutex(client, path);
            case "read" -> new InterProcessReadWriteLock(client, path, bytes).readLock();
            case "write" -> new InterProcessReadWriteLock(client, path, bytes).writeLock();
            default -> throw new IllegalArgumentException("no such lock: " + kind);
        };
    }

    private static void latch(CuratorFramework client, String path, String id, Work hold)
            throws Exception {
        try (LeaderLatch latch = new LeaderLatch(client, path, id)) {
            latch.start();
            latch.await();
            hold.run();
        }
    }

    private static void selector(
            CuratorFramework client, String path, String id, Work hold, CountDownLatch release)
            throws Exception {
        CountDownLatch over = new CountDownLatch(1);
        LeaderSelectorListenerAdapter leader =
                new LeaderSelectorListenerAdapter() {
                    @Override
                    public void takeLeadership(CuratorFramework unused) throws Exception {
                        hold.run();
                        over.countDown();
                    }
                };
        LeaderSelector selector = new LeaderSelector(client, path, leader);
        selector.setId(id);
        selector.start();
        release.await();
        over.await();
        selector.close();
    }

    /** Takes and releases a lock many times; reports each hold with what surrounds it. */
    private String holds(String[] words) {
        CuratorFramework client = sessions.get(words[1]);
        String lock = words[2];
        int count = Integer.parseInt(words[5]);
        int holdMs = Integer.parseInt(words[6]);
        int pauseMs = Integer.parseInt(words[7]);
        start(
                () -> {
                    InterProcessLock taken = lock(client, "mutex", words[3], words[4]);
                    for (int number = 0; number < count; number++) {
                        long asked = now();
                        taken.acquire();
                        long held = now();
                        Thread.sleep(holdMs);
                        long leaving = now();
                        taken.release();
                        say(
                                String.format(
                                        "\"event\":\"hold\",\"lock\":\"%s\",\"asked\":%d,\"held\":%d,"
                                                + "\"leaving\":%d,\"left\":%d",
                                        lock, asked, held, leaving, now()));
                        Thread.sleep(pauseMs);
                    }
                    say("\"event\":\"done\",\"lock\":\"" + lock + "\"");
                });
        return "";
    }

    private static void start(Work work) {
        Thread thread =
                new Thread(
                        () -> {
                            try {
                                work.run();
                            } catch (Exception error) {
                                say(
                                        "\"event\":\"failed\",\"why\":\""
                                                + error.toString().replace("\"", "'")
                                                + "\"");
                            }
                        });
        thread.setDaemon(true);
        thread.start();
    }

    private static long now() {
        return System.currentTimeMillis();
    }

    private static synchronized void say(String fields) {
        System.out.println("{" + fields + "}");
        System.out.flush();
    }
}
