"""What all programs of this folder share: the commands of a test, and the lines of a fixture."""

import sys
import time

import redis


def now_ms():
    return time.time_ns() // 1_000_000


def main(made_by, layouts, lock):
    """`layouts` yields the names of states and what was done; `lock` has take, renew, release."""
    port, command, *arguments = sys.argv[1:]
    client = redis.Redis(port=int(port))
    if command == "layouts":
        print(f"# made by tests/libraries with {made_by}")
        print("# state, PTTL, value (- for none)")
        for state, key in layouts(client):
            print(f"{state}\t{client.pttl(key)}\t{written(client, key)}")
        return
    key = arguments[0]
    print("ready", made_by.split()[-1], flush=True)
    run(lock(client, key))


def run(lock):
    """Does what it reads, and says when."""
    for line in sys.stdin:
        action = line.strip()
        began = now_ms()
        getattr(lock, action)()
        print(action, began, now_ms(), flush=True)


def written(client, key):
    """The value: a string as it is, members of a sorted set as `member=score`."""
    kind = client.type(key)
    if kind == b"none":
        return "-"
    if kind == b"zset":
        words = client.execute_command("ZREVRANGE", key, 0, -1, "WITHSCORES")
        # Redis-py makes floats of the scores; as text they are what the agent reads.
        return " ".join(f"{name.decode()}={score:.17g}" for name, score in words)
    return client.get(key).decode()
