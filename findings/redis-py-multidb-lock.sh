#!/usr/bin/env bash
# redis-py 8.1.0: whether a lock can be made with its client for several databases (MultiDBClient)
# depends on whether the same process has made one with an ordinary client before.
#
# MultiDBClient takes the place of Redis where an application fails over between independent servers.
# It has no lock(), so one writes Lock(client, name). Lock registers its scripts when the first lock of
# a process is made, for the class and not for the client. With a MultiDBClient that raises
# AttributeError: register_script() wants an encoder or a connection pool of the client, which a
# MultiDBClient does not have. But once any Redis has made a lock, the scripts are there, and locks of
# a MultiDBClient are taken and released. So a program that works can fail after a change that has
# nothing to do with it, and the other way round. The same holds for asyncio.
#
# Seen on 2026-11-29 with redis 8.1.0, pybreaker 1.4.1 and Redis 7.0.15:
#   first lock of the process: AttributeError
#   asyncio, first lock of the process: AttributeError
#   after a lock of Redis: taken True, released
#   asyncio, after a lock of Redis: taken True, released
#
# Needs python3 with venv and redis-server; all else is installed into a temporary folder. Exits 0 if
# that is still so, 1 if it has changed.
set -euo pipefail

readonly redis=8.1.0 pybreaker=1.4.1
folder=$(mktemp --directory)
servers=()
trap 'kill "${servers[@]}" 2>/dev/null || :; rm -rf "$folder"' EXIT
cd "$folder"

python3 -m venv python
python/bin/pip install --quiet "redis==$redis" "pybreaker==$pybreaker"

free_port() {
    python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}
ports=()
for _ in 1 2; do
    port=$(free_port)
    redis-server --port "$port" --save '' --dir "$folder" >/dev/null &
    servers+=($!) ports+=("$port")
    until redis-cli -p "$port" ping >/dev/null 2>&1; do sleep 0.1; done
done
redis-server --version

cat >locks.py <<'PY'
import asyncio
import sys
import warnings

import redis
import redis.asyncio
import redis.asyncio.lock
import redis.asyncio.multidb.client as async_client
import redis.asyncio.multidb.config as async_config
import redis.multidb.client as client
import redis.multidb.config as config

warnings.simplefilter("ignore")
MODE, PORTS = sys.argv[1], [int(port) for port in sys.argv[2:]]


def configuration(module):
    databases = [
        module.DatabaseConfig(client_kwargs={"host": "127.0.0.1", "port": port}, weight=1.0 / place)
        for place, port in enumerate(PORTS, 1)
    ]
    return module.MultiDbConfig(databases_config=databases)


def plain():
    if MODE == "after":
        redis.Redis(port=PORTS[0]).lock("other:lock", timeout=60)
    multi = client.MultiDBClient(configuration(config))
    try:
        lock = redis.lock.Lock(multi, "nightly:lock", timeout=60)
    except AttributeError as error:
        return type(error).__name__
    taken = lock.acquire(blocking=False)
    lock.release()
    return f"taken {taken}, released"


async def in_asyncio():
    if MODE == "after":
        redis.asyncio.Redis(port=PORTS[0]).lock("other:lock", timeout=60)
    multi = async_client.MultiDBClient(configuration(async_config))
    await multi.initialize()
    try:
        lock = redis.asyncio.lock.Lock(multi, "nightly:lock", timeout=60)
        taken = await lock.acquire(blocking=False)
        await lock.release()
        return f"taken {taken}, released"
    except AttributeError as error:
        return type(error).__name__
    finally:
        await multi.aclose()


when = {"first": "first lock of the process", "after": "after a lock of Redis"}[MODE]
print(f"{when}: {plain()}")
# Each has its own class of locks.
print(f"asyncio, {when}: {asyncio.run(in_asyncio())}")
PY
for mode in first after; do
    timeout 60 python/bin/python locks.py "$mode" "${ports[@]}"
done | tee seen
diff seen - <<'EOF'
first lock of the process: AttributeError
asyncio, first lock of the process: AttributeError
after a lock of Redis: taken True, released
asyncio, after a lock of Redis: taken True, released
EOF
echo "as seen before"
