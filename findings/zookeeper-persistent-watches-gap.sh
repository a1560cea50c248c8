#!/usr/bin/env bash
# ZooKeeper 3.8.0: a client that reconnects with its session gets the events that it missed for one-shot
# watches, but none for persistent ones.
#
# A client that comes back sends its watches again (setWatches2) with the newest zxid that it has seen.
# For a data, exists or child watch the server compares that with the node, and sends the event of what
# changed meanwhile. For watches of addWatch (PERSISTENT and PERSISTENT_RECURSIVE) it only registers
# them again. So a program that moved from one-shot watches to persistent ones, to lose no event, loses
# those of each reconnect, and must read everything again.
#
# Seen on 2026-11-30 with Debian's ZooKeeper 3.8.0-11+deb12u2:
#   one-shot watches, after the reconnect: changed /n, children /c, created /e
#   persistent watches, after the reconnect: nothing
#   persistent watches, of a change after that: changed /p, changed /r/x
#
# Needs Debian's zookeeper, a JRE, and python3. Exits 0 if that is still so, 1 if it has changed.
set -euo pipefail

folder=$(mktemp --directory)
server=
trap 'kill $server 2>/dev/null || :; rm -rf "$folder"' EXIT
cd "$folder"

port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
printf '%s\n' tickTime=2000 "dataDir=$folder/data" "clientPort=$port" admin.enableServer=false >zoo.cfg
java -cp /usr/share/java/zookeeper.jar org.apache.zookeeper.server.quorum.QuorumPeerMain zoo.cfg \
    >server.log 2>&1 &
server=$!

cat >watches.py <<'PY'
import socket, struct, sys, time

PORT = int(sys.argv[1])
TYPES = {1: "created", 2: "deleted", 3: "changed", 4: "children"}
ACL = struct.pack(">ii", 1, 31) + struct.pack(">i5si6s", 5, b"world", 6, b"anyone")


def text(word):
    return struct.pack(">i", len(word)) + word.encode()


def texts(*words):
    return struct.pack(">i", len(words)) + b"".join(map(text, words))


class Client:
    session, password, zxid = 0, bytes(16), 0

    def connect(self):
        end = time.monotonic() + 30
        while True:
            # A server that has just begun may close the connection.
            try:
                return self.try_to_connect()
            except (OSError, AssertionError):
                assert time.monotonic() < end
                time.sleep(0.1)

    def try_to_connect(self):
        self.socket = socket.create_connection(("127.0.0.1", PORT), timeout=5)
        self.events, self.xid = [], 0
        self.write(struct.pack(">iqiqi", 0, self.zxid, 10_000, self.session, 16) + self.password + b"\0")
        _, timeout, self.session, _ = struct.unpack(">iiqi", (reply := self.read())[:20])
        assert timeout, "no session"
        self.password = reply[20:36]
        return self

    def write(self, frame):
        self.socket.sendall(struct.pack(">i", len(frame)) + frame)

    def read(self):
        data = b""
        while len(data) < 4 or len(data) < 4 + struct.unpack(">i", data[:4])[0]:
            wanted = 4 if len(data) < 4 else 4 + struct.unpack(">i", data[:4])[0]
            part = self.socket.recv(wanted - len(data))
            assert part, "closed"
            data += part
        return data[4:]

    def ask(self, operation, body, xid=None):
        self.xid += 1
        xid = xid or self.xid
        self.write(struct.pack(">ii", xid, operation) + body)
        while True:
            reply = self.read()
            got, zxid, error = struct.unpack(">iqi", reply[:16])
            if got == xid:
                self.zxid = max(self.zxid, zxid)
                return error
            kind, _, length = struct.unpack(">iii", reply[16:28])
            self.events.append(f"{TYPES[kind]} {reply[28:28 + length].decode()}")

    def create(self, path):
        assert self.ask(1, text(path) + text("") + ACL + struct.pack(">i", 0)) == 0

    def write_data(self, path):
        assert self.ask(5, text(path) + text("x") + struct.pack(">i", -1)) == 0

    def seen(self, *nodes):
        """What came about these nodes until now: whatever the server sends for itself is there first."""
        self.ask(3, text("/") + b"\0")
        seen = sorted(event for event in self.events if event.split()[1][:2] in nodes)
        return ", ".join(seen) or "nothing"


writer, watcher = Client().connect(), Client().connect()
for path in ("/n", "/c", "/p", "/r", "/r/x"):
    writer.create(path)
watcher.ask(9, text("/"))
watcher.ask(4, text("/n") + b"\1")
watcher.ask(3, text("/e") + b"\1")
watcher.ask(8, text("/c") + b"\1")
assert watcher.ask(106, text("/p") + struct.pack(">i", 0)) == 0
assert watcher.ask(106, text("/r") + struct.pack(">i", 1)) == 0
watcher.socket.close()
time.sleep(0.5)

writer.write_data("/n")
writer.create("/e")
writer.create("/c/x")
writer.write_data("/p")
writer.create("/p/x")
writer.write_data("/r/x")
writer.create("/r/y")

watcher.connect()
again = struct.pack(">q", watcher.zxid) + texts("/n") + texts("/e") + texts("/c") + texts("/p") + texts("/r")
assert watcher.ask(105, again, xid=-8) == 0
print("one-shot watches, after the reconnect:", watcher.seen("/n", "/e", "/c"))
print("persistent watches, after the reconnect:", watcher.seen("/p", "/r"))
writer.write_data("/p")
writer.write_data("/r/x")
print("persistent watches, of a change after that:", watcher.seen("/p", "/r"))
PY
timeout 60 python3 watches.py "$port" | tee seen
diff seen - <<'END'
one-shot watches, after the reconnect: changed /n, children /c, created /e
persistent watches, after the reconnect: nothing
persistent watches, of a change after that: changed /p, changed /r/x
END
echo "as seen before"
