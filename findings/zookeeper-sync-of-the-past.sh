#!/usr/bin/env bash
# ZooKeeper 3.8.0: a read after sync() may return old data: a leader that was frozen while another one
# was elected answers both, for a second or two after it wakes.
#
# sync() is documented as the way to see what others have written before. A leader that was paused
# (SIGSTOP, a virtual machine's pause, a long collection of garbage) does not know yet that it is
# deposed when it wakes, and answers sync and read from its own data. What cannot be had from it is
# a new session: that takes a majority. So who must not act on the past asks for one, by another
# connection, before he believes that a lock is free.
#
# Seen on 2026-11-30 with three servers of Debian's ZooKeeper 3.8.0-11+deb12u2, tickTime 2000, in 3 of 3
# runs: about 1,000 pairs of sync and getData with the data from before, the last one 1.0 s
# after the leader woke; no new session was granted before it had followed the new leader:
#   old answers to sync and read: some
#   new sessions that showed old data: none
#
# Needs Debian's zookeeper, a JRE, and python3. Exits 0 if that is still so, 1 if it has changed.
set -euo pipefail

folder=$(mktemp --directory)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

cat >past.py <<'PY'
import os, signal, socket, struct, subprocess, sys, threading, time

ACL = struct.pack(">iii5si6s", 1, 31, 5, b"world", 6, b"anyone")
FOLDER = sys.argv[1]


def text(word):
    return struct.pack(">i", len(word)) + word.encode()


class Closed(Exception):
    pass


class Client:
    def __init__(self, port, zxid=0):
        try:
            self.socket = socket.create_connection(("127.0.0.1", port), timeout=3)
            self.xid = 0
            self.write(struct.pack(">iqiqi", 0, zxid, 40_000, 0, 16) + bytes(17))
            if not struct.unpack(">ii", self.read()[:8])[1]:
                raise Closed
        except (OSError, struct.error) as error:
            raise Closed from error

    def write(self, frame):
        self.socket.sendall(struct.pack(">i", len(frame)) + frame)

    def read(self):
        def exactly(count):
            data = b""
            while len(data) < count:
                part = self.socket.recv(count - len(data))
                if not part:
                    raise Closed
                data += part
            return data
        return exactly(struct.unpack(">i", exactly(4))[0])

    def ask(self, *requests):
        """Sends them in one write; returns the bodies of the answers."""
        frames = b""
        for operation, body in requests:
            self.xid += 1
            frame = struct.pack(">ii", self.xid, operation) + body
            frames += struct.pack(">i", len(frame)) + frame
        try:
            self.socket.sendall(frames)
            return [self.read()[16:] for _ in requests]
        except OSError as error:
            raise Closed from error

    def data(self):
        """sync, and then getData."""
        body = self.ask((9, text("/n")), (4, text("/n") + b"\0"))[1]
        return body[4:4 + struct.unpack(">i", body[:4])[0]].decode()


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def mode(port):
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=0.5) as ask:
            ask.sendall(b"srvr")
            said = b""
            while part := ask.recv(4096):
                said += part
        return said.split(b"Mode: ")[1].split()[0].decode()
    except (OSError, IndexError):
        return None


def until(what, condition):
    end = time.monotonic() + 60
    while not (found := condition()):
        if time.monotonic() > end:
            sys.exit(f"did not happen: {what}")
        time.sleep(0.05)
    return found


def leader(ports):
    return next((at for at, port in ports.items() if mode(port) == "leader"), None)


ports = {number: free_port() for number in (1, 2, 3)}
quorum = "".join(f"server.{n}=127.0.0.1:{free_port()}:{free_port()}\n" for n in ports)
servers = {}
try:
    for number, port in ports.items():
        home = f"{FOLDER}/{number}"
        os.mkdir(home)
        open(f"{home}/myid", "w").write(str(number))
        open(f"{home}/zoo.cfg", "w").write(
            f"tickTime=2000\ninitLimit=10\nsyncLimit=5\ndataDir={home}\nclientPort={port}\n"
            f"admin.enableServer=false\nmaxClientCnxns=0\n{quorum}")
        servers[number] = subprocess.Popen(
            ["java", "-Xmx128m", "-cp", "/usr/share/java/zookeeper.jar",
             "org.apache.zookeeper.server.quorum.QuorumPeerMain", f"{home}/zoo.cfg"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    until("all serve", lambda: all(mode(port) for port in ports.values()))
    old = until("a leader", lambda: leader(ports))
    reader = Client(ports[old])
    reader.ask((1, text("/n") + text("before") + ACL + struct.pack(">i", 0)))
    assert reader.data() == "before"

    servers[old].send_signal(signal.SIGSTOP)
    others = {number: port for number, port in ports.items() if number != old}
    new = until("another leader", lambda: leader(others))
    def write():
        try:
            return Client(others[new]).ask((5, text("/n") + text("after") + struct.pack(">i", -1)))
        except Closed:
            return None
    until("a write", write)

    stop, fresh = threading.Event(), []
    def ask_for_sessions():
        while not stop.is_set():
            try:
                fresh.append(Client(ports[old]).data())
            except Closed:
                time.sleep(0.02)
    asking = threading.Thread(target=ask_for_sessions)
    servers[old].send_signal(signal.SIGCONT)
    woke, answers, last = time.monotonic(), 0, 0
    asking.start()
    try:
        while reader.data() == "before":
            answers, last = answers + 1, time.monotonic() - woke
    except Closed:
        pass
    until("it follows", lambda: mode(ports[old]) == "follower" and fresh)
    stop.set()
    asking.join()
    print(f"{answers} old answers, the last one {last:.1f} s after the leader woke", file=sys.stderr)
    print("old answers to sync and read:", "some" if answers else "none")
    print("new sessions that showed old data:", "some" if "before" in fresh else "none")
finally:
    for server in servers.values():
        server.kill()
        server.wait()
PY
timeout 150 python3 past.py "$folder" | tee seen
diff seen - <<'END'
old answers to sync and read: some
new sessions that showed old data: none
END
echo "as seen before"
