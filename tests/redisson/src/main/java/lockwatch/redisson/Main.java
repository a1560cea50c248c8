package lockwatch.redisson;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.redisson.api.RLock;

/**
 * Real Redisson clients on command: one line on stdin, one JSON line as answer on stdout ({@code "ok": true} with
 * fields, or {@code "ok": false} with {@code "error"}); besides, lines with {@code "event"}. See README.md.
 */
public final class Main {
    private final ObjectMapper json = new ObjectMapper();
    private final PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
    private final Map<String, Client> clients = new ConcurrentHashMap<>();

    private Main() {}

    public static void main(String[] args) throws IOException {
        System.setProperty("org.slf4j.simpleLogger.defaultLogLevel", "warn");
        new Main().serve();
        // Clients are not shut down: the end of this process is a crash of theirs unless `shutdown` was commanded.
        Runtime.getRuntime().halt(0);
    }

    private void serve() throws IOException {
        var in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            if (line.isBlank()) {
                continue;
            }
            if (line.strip().equals("quit")) {
                print(ok(Map.of()));
                return;
            }
            print(answer(line));
        }
    }

    private Map<String, Object> answer(String line) {
        try {
            return ok(execute(Command.parse(line)));
        } catch (Exception e) {
            return failed(e);
        }
    }

    private Map<String, Object> execute(Command command) throws Exception {
        switch (command.name()) {
            case "connect" -> connect(command);
            case "id" -> {
                return Map.of("id", client(command).redisson.getId());
            }
            case "thread-id" -> {
                return Map.of("id", client(command).worker(command.word(1)).threadId());
            }
            case "time" -> {
                long serverUs = client(command).serverMicros(command.word(0));
                return Map.of("server_us", serverUs, "at_ms", System.currentTimeMillis());
            }
            case "shutdown" -> {
                client(command).shutdown();
                clients.remove(command.word(0));
            }
            case "map-get" -> {
                return Values.mapGet(client(command).redisson, command);
            }
            case "map-put" -> Values.mapPut(client(command).redisson, command);
            case "set-add" -> Values.setAdd(client(command).redisson, command);
            case "bucket-set" -> Values.bucketSet(client(command).redisson, command);
            case "fixtures" -> Fixtures.write(Path.of(command.word(0)));
            case "layouts" -> Layouts.write(command, Path.of(command.word(0)));
            default -> {
                return onThread(command);
            }
        }
        return Map.of();
    }

    private Map<String, Object> onThread(Command command) throws Exception {
        return switch (command.name()) {
            case "lock", "trylock", "unlock", "force-unlock", "held" -> {
                RLock lock = client(command).lock(command.word(2), command);
                yield worker(command).run(() -> onLock(lock, command));
            }
            case "lock-async" -> {
                Client client = client(command);
                RLock lock = client.lock(command.word(2), command);
                worker(command).start(() -> {
                    print(waited(client, lock, command));
                    return null;
                });
                yield Map.of();
            }
            case "interrupt" -> Map.of("interrupted", worker(command).interrupt());
            case "waiting" -> Map.of("waiting", worker(command).awaitsRelease());
            case "handovers" -> {
                String name = command.word(4);
                Drills.Party first = party(command.word(0), command.word(1), name, command);
                Drills.Party second = party(command.word(2), command.word(3), name, command);
                yield Drills.handovers(first, second, command.count("n", 1), command.millis("pause", 0));
            }
            case "pile-up" -> {
                Drills.Party party = party(command.word(0), command.word(1), command.word(2), command);
                yield Drills.pileUp(party, command.count("n", 10), command.millis("pause", 0));
            }
            default -> throw new IllegalArgumentException("no command " + command.name());
        };
    }

    private static Map<String, Object> onLock(RLock lock, Command command) throws InterruptedException {
        return switch (command.name()) {
            case "lock" -> Locks.lock(lock, command);
            case "trylock" -> Locks.tryLock(lock, command);
            case "unlock" -> Locks.unlock(lock);
            case "force-unlock" -> Locks.forceUnlock(lock);
            default -> Locks.held(lock);
        };
    }

    private static Map<String, Object> waited(Client client, RLock lock, Command command) {
        Map<String, Object> event = new LinkedHashMap<>();
        try {
            Map<String, Object> acquired = Locks.lock(lock, command);
            event.put("event", "acquired");
            event.putAll(acquired);
            event.put("server_us", client.serverMicros(command.word(2)));
        } catch (Exception e) {
            event.put("event", "refused");
            event.put("error", e.toString());
        }
        event.put("client", client.name);
        event.put("thread", command.word(1));
        event.put("lock", command.word(2));
        return event;
    }

    private void connect(Command command) {
        String name = command.word(0);
        if (clients.containsKey(name)) {
            throw new IllegalArgumentException("there is a client " + name);
        }
        clients.put(name, new Client(name, command));
    }

    private Client client(Command command) {
        return client(command.word(0));
    }

    private Client client(String name) {
        Client client = clients.get(name);
        if (client == null) {
            throw new IllegalArgumentException("no client " + name);
        }
        return client;
    }

    private Worker worker(Command command) {
        return client(command).worker(command.word(1));
    }

    private Drills.Party party(String client, String thread, String name, Command command) {
        return new Drills.Party(client(client), thread, client(client).lock(name, command));
    }

    private static Map<String, Object> ok(Map<String, Object> fields) {
        Map<String, Object> answer = new LinkedHashMap<>();
        answer.put("ok", true);
        answer.putAll(fields);
        return answer;
    }

    private static Map<String, Object> failed(Exception e) {
        Map<String, Object> answer = new LinkedHashMap<>();
        answer.put("ok", false);
        answer.put("error", e.getCause() == null ? e.toString() : e + ", by " + e.getCause());
        return answer;
    }

    private synchronized void print(Map<String, Object> line) {
        try {
            out.println(json.writeValueAsString(line));
        } catch (JsonProcessingException e) {
            throw new IllegalStateException(e);
        }
    }
}
