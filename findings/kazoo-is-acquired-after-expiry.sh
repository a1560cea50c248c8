#!/usr/bin/env bash
# Kazoo 2.11.0: Lock.is_acquired stays True for ever after the session expired and another client got
# the lock.
#
# A process that was paused for longer than its session's timeout wakes with a lock that it has lost:
# ZooKeeper deleted its node, and the next contender holds the lock. Kazoo reconnects with a new
# session, says so only to listeners of the connection's state, and leaves is_acquired as it was. So a
# loop `while lock.is_acquired: work()` works on while another one holds the lock. release() raises
# nothing either.
#
# Seen on 2026-11-30 with kazoo 2.11.0 and Debian's ZooKeeper 3.8.0-11+deb12u2, timeout 4 s:
#   frozen for 10 s, while another one waits: the other one got the lock
#   awake, with a new session: is_acquired True, children of the lock: 1, of another session
#   20 s later: is_acquired True
#   release() raised nothing
#
# Needs Debian's zookeeper, a JRE, and python3 with venv; all else is installed into a temporary
# folder. Exits 0 if that is still so, 1 if it has changed.
set -euo pipefail

readonly kazoo=2.11.0
folder=$(mktemp --directory)
server=
trap 'kill $server 2>/dev/null || :; rm -rf "$folder"' EXIT
cd "$folder"

python3 -m venv python
python/bin/pip install --quiet "kazoo==$kazoo"
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
printf '%s\n' tickTime=2000 "dataDir=$folder/data" "clientPort=$port" admin.enableServer=false >zoo.cfg
java -cp /usr/share/java/zookeeper.jar org.apache.zookeeper.server.quorum.QuorumPeerMain zoo.cfg \
    >server.log 2>&1 &
server=$!

cat >holder.py <<'PY'
import logging, sys
from kazoo.client import KazooClient

logging.disable()
client = KazooClient(sys.argv[1], timeout=4)
client.start(60)
lock = client.Lock("/nightly", sys.argv[2])
lock.acquire()
print("acquired", flush=True)
for line in sys.stdin:
    if line == "ask\n":
        # Answered by the new session, once there is one.
        owners = {client.get("/nightly/" + child)[1].ephemeralOwner for child in client.get_children("/nightly")}
        whose = "mine" if client.client_id[0] in owners else "of another session"
        print(f"is_acquired {lock.is_acquired}, children of the lock: {len(owners)}, {whose}", flush=True)
    else:
        lock.release()
        print("release() raised nothing", flush=True)
PY

cat >run.py <<'PY'
import signal, subprocess, sys, time


def start(name):
    return subprocess.Popen([sys.executable, "holder.py", sys.argv[1], name], text=True,
                            stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def say(process, word):
    process.stdin.write(word + "\n")
    process.stdin.flush()
    return process.stdout.readline().strip()


first, second = start("first"), None
try:
    assert first.stdout.readline() == "acquired\n"
    second = start("second")
    time.sleep(2)
    first.send_signal(signal.SIGSTOP)
    time.sleep(10)
    assert second.stdout.readline() == "acquired\n"
    print("frozen for 10 s, while another one waits: the other one got the lock")
    first.send_signal(signal.SIGCONT)
    time.sleep(3)
    print("awake, with a new session:", say(first, "ask"))
    time.sleep(20)
    print("20 s later:", say(first, "ask").split(",")[0])
    print(say(first, "release"))
finally:
    for process in (first, second):
        if process:
            process.kill()
PY
timeout 120 python/bin/python run.py "127.0.0.1:$port" | tee seen
diff seen - <<'END'
frozen for 10 s, while another one waits: the other one got the lock
awake, with a new session: is_acquired True, children of the lock: 1, of another session
20 s later: is_acquired True
release() raised nothing
END
echo "as seen before"
