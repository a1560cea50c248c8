"""Kazoo's locks on command, and other writes to ZooKeeper, for tests/it/zookeeper.rs.

    python3 tests/zookeeper/kazoo_locks.py HOST:PORT,...

Reads one command a line and answers each with a line of JSON that has "ok" or "error". What happens
later is reported as a line with "event". Words are separated by spaces; README.md lists the
commands. Instants are Unix milliseconds.
"""

import itertools
import json
import logging
import sys
import threading
import time

from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError
from kazoo.security import make_acl, make_digest_acl

HOSTS = sys.argv[1]
sessions = {}
releases = {}
printing = threading.Lock()


def say(**fields):
    with printing:
        print(json.dumps(fields), flush=True)


def now():
    return time.time() * 1000


def session(name, timeout_ms, login=None):
    auth = [("digest", login)] if login else None
    client = KazooClient(hosts=HOSTS, timeout=int(timeout_ms) / 1000, auth_data=auth)
    client.start(timeout=60)
    sessions[name] = client
    return {"id": "0x%x" % (client.client_id[0] & (2**64 - 1))}


def close(name):
    client = sessions.pop(name)
    before = now()
    client.stop()
    client.close()
    return {"from": before, "to": now()}


def take(name, lock, kind, path, data="", *others):
    """Contends for a lock until it is released; reports when it is held and when it is gone."""
    client, release = sessions[name], threading.Event()
    releases[lock] = release
    free = threading.Event()

    def hold():
        say(event="held", lock=lock, at=now())
        release.wait()
        free.at = now()

    def contend():
        if kind == "election":
            client.Election(path, data).run(hold)
        else:
            recipe = {"lock": client.Lock, "read": client.ReadLock, "write": client.WriteLock}[kind]
            taken = recipe(path, data, extra_lock_patterns=others)
            taken.acquire()
            hold()
            taken.release()
        say(event="released", lock=lock, begin=free.at, at=now())

    threading.Thread(target=contend, daemon=True).start()
    return {}


def release(lock):
    releases.pop(lock).set()
    return {}


def holds(name, lock, path, data, count, hold_ms, pause_ms):
    """Takes and releases a lock many times; reports each hold with what surrounds it."""
    client = sessions[name]

    def run():
        for _ in range(int(count)):
            taken = client.Lock(path, data)
            asked = now()
            taken.acquire()
            held = now()
            time.sleep(int(hold_ms) / 1000)
            leaving = now()
            taken.release()
            say(event="hold", lock=lock, asked=asked, held=held, leaving=leaving, left=now())
            time.sleep(int(pause_ms) / 1000)
        say(event="done", lock=lock)

    threading.Thread(target=run, daemon=True).start()
    return {}


def alternate(name, lock, path, me, other, count, work_ms, kind):
    """Runs when the turn is mine, found by a watch, and then makes it the other's."""
    client, awake = sessions[name], threading.Event()

    def whose():
        if kind == "children":
            return client.get_children(path, watch=lambda _: awake.set())
        return list(json.loads(client.get(path, watch=lambda _: awake.set())[0]))

    def hand_over():
        at = str(int(now()))
        if kind == "children":
            both = client.transaction()
            both.delete(path + "/" + me)
            both.create(path + "/" + other, at.encode())
            for done in both.commit():
                if isinstance(done, Exception):
                    raise done
        else:
            client.set(path, json.dumps({other: int(at)}).encode())

    def run():
        for _ in range(int(count)):
            while True:
                awake.clear()
                if whose() == [me]:
                    break
                awake.wait()
            say(event="turn", lock=lock, at=now())
            time.sleep(int(work_ms) / 1000)
            hand_over()
        say(event="done", lock=lock)

    threading.Thread(target=run, daemon=True).start()
    return {}


def create(name, path, data="", *how):
    """`how`: ephemeral, sequence, parents; read=LOGIN and all=LOGIN are an ACL."""
    acl = []
    for word in how:
        rights, _, login = word.partition("=")
        if login:
            user, password = login.split(":")
            acl.append(make_digest_acl(user, password, read=True, all=rights == "all"))
    made = sessions[name].create(
        path,
        data.encode(),
        acl=acl or None,
        ephemeral="ephemeral" in how,
        sequence="sequence" in how,
        makepath="parents" in how,
    )
    return {"path": made}


def open_to_all_but_reading(name, path):
    acl = make_acl("world", "anyone", create=True, delete=True, write=True, admin=True)
    sessions[name].set_acls(path, [acl])
    return {}


def write(name, path, data=""):
    sessions[name].set(path, data.encode())
    return {}


def big(name, path, count):
    """Makes the data of a node this many bytes."""
    sessions[name].set(path, b"x" * int(count))
    return {}


def many(name, path, prefix, count):
    """Makes this many children, a thousand in each change."""
    numbers = iter(range(int(count)))
    while part := list(itertools.islice(numbers, 1000)):
        together = sessions[name].transaction()
        for number in part:
            together.create("%s/%s%d" % (path, prefix, number))
        for done in together.commit():
            if isinstance(done, Exception):
                raise done
    return {}


def delete(name, path):
    try:
        sessions[name].delete(path, recursive=True)
    except NoNodeError:
        pass
    return {}


def children(name, path):
    return {"names": sorted(sessions[name].get_children(path))}


COMMANDS = {
    "session": session,
    "close": close,
    "take": take,
    "release": release,
    "holds": holds,
    "alternate": alternate,
    "create": create,
    "unreadable": open_to_all_but_reading,
    "write": write,
    "big": big,
    "many": many,
    "delete": delete,
    "children": children,
}


def main():
    logging.basicConfig(level=logging.WARNING)
    say(ok="ready")
    for line in sys.stdin:
        word, *words = line.split()
        try:
            say(ok=word, **COMMANDS[word](*words))
        except Exception as error:  # Each failure is the answer to its command.
            say(error="%s: %r" % (word, error))


main()
