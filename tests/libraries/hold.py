"""Holds a lock of a real library until a line comes in: hold.py LIBRARY PORT NAME."""

import sys

import redis

library, port, name = sys.argv[1], int(sys.argv[2]), sys.argv[3]
if library == "huey":
    from huey import RedisHuey

    lock = RedisHuey(port=port).lock_task(name)
elif library == "portalocker":
    import portalocker

    connection = redis.Redis(port=port, decode_responses=True)
    lock = portalocker.RedisLock(name, connection=connection)
else:
    sys.exit(f"no such library: {library}")
with lock:
    print("held", flush=True)
    sys.stdin.readline()
print("released", flush=True)
sys.stdin.readline()
