"""Locks of Python's libraries on command: `locks.py PORT hold KEY LIBRARY`."""

import asyncio
import sys
from importlib.metadata import version

import redis

from driver import run

LEASE_MS = 3_000
LEASE_S = 3


class RedisPy:
    package = "redis"

    def __init__(self, client, key):
        self.lock = client.lock(key, timeout=LEASE_S)

    def take(self):
        assert self.lock.acquire(blocking=False)

    def renew(self):
        self.lock.reacquire()

    def release(self):
        self.lock.release()


class PythonRedisLock:
    package = "python-redis-lock"

    def __init__(self, client, key):
        import redis_lock

        self.lock = redis_lock.Lock(client, key, expire=LEASE_S)

    def take(self):
        assert self.lock.acquire(blocking=False)

    def renew(self):
        self.lock.extend(LEASE_S)

    def release(self):
        self.lock.release()


class RedlockPy:
    package = "redlock-py"

    def __init__(self, client, key):
        import redlock

        self.locks, self.key = redlock.Redlock([client], retry_count=1), key

    def take(self):
        self.lock = self.locks.lock(self.key, LEASE_MS)
        assert self.lock

    def release(self):
        self.locks.unlock(self.lock)


class Sherlock:
    package = "sherlock"

    def __init__(self, client, key):
        import sherlock

        self.lock = sherlock.RedisLock(key, client=client, expire=LEASE_S, timeout=1)

    def take(self):
        assert self.lock.acquire()

    def renew(self):
        self.lock.renew()

    def release(self):
        self.lock.release()


class Pottery:
    package = "pottery"

    def __init__(self, client, key):
        import pottery

        self.lock = pottery.Redlock(key=key, masters={client}, auto_release_time=LEASE_S)

    def take(self):
        assert self.lock.acquire(blocking=False)

    def renew(self):
        self.lock.extend()

    def release(self):
        self.lock.release()


class Rq:
    """What `rq worker --with-scheduler` holds as long as it schedules: for a minute at least."""

    package = "rq"

    def __init__(self, client, key):
        from rq.scheduler import RQScheduler

        # It logs to where the answers go.
        self.scheduler = RQScheduler([key], client, logging_level="ERROR")

    def take(self):
        assert self.scheduler.acquire_locks()

    def renew(self):
        self.scheduler.heartbeat()

    def release(self):
        self.scheduler.release_locks()


class Arq:
    """A job by this name, which a worker has while it works on it."""

    package = "arq"

    def __init__(self, client, key):
        from arq.connections import RedisSettings, create_pool
        from arq.worker import Worker, func

        settings = RedisSettings(port=client.connection_pool.connection_kwargs["port"])
        self.key = key
        self.loop = asyncio.new_event_loop()
        asyncio.set_event_loop(self.loop)
        self.pool = self.loop.run_until_complete(create_pool(settings))
        self.started, self.may_end = asyncio.Event(), asyncio.Event()

        async def nightly(_):
            self.started.set()
            await self.may_end.wait()

        self.worker = Worker([func(nightly, name="nightly")], redis_settings=settings, handle_signals=False,
                             poll_delay=0.05, keep_result=0)
        self.loop.create_task(self.worker.async_run())

    def take(self):
        self.may_end.clear()
        self.started.clear()
        self.loop.run_until_complete(self.pool.enqueue_job("nightly", _job_id=self.key))
        self.loop.run_until_complete(self.started.wait())

    def release(self):
        async def done():
            self.may_end.set()
            while await self.pool.exists(f"arq:in-progress:{self.key}"):
                await asyncio.sleep(0.005)

        self.loop.run_until_complete(done())


class Aiocache:
    package = "aiocache"

    def __init__(self, client, key):
        from aiocache import Cache
        from aiocache.lock import RedLock

        self.loop = asyncio.new_event_loop()
        port = client.connection_pool.connection_kwargs["port"]
        cache = Cache(Cache.REDIS, endpoint="127.0.0.1", port=port)
        self.new = lambda: RedLock(cache, key, lease=LEASE_S)

    def take(self):
        self.lock = self.new()
        self.loop.run_until_complete(self.lock.__aenter__())

    def release(self):
        self.loop.run_until_complete(self.lock.__aexit__(None, None, None))


class Huey:
    package = "huey"

    def __init__(self, client, key):
        from huey import RedisHuey

        port = client.connection_pool.connection_kwargs["port"]
        self.lock = RedisHuey("h", port=port).lock_task(key)

    def take(self):
        self.lock.__enter__()

    def release(self):
        self.lock.__exit__(None, None, None)


class Portalocker:
    package = "portalocker"

    def __init__(self, client, key):
        import portalocker

        port = client.connection_pool.connection_kwargs["port"]
        self.new = lambda: portalocker.RedisLock(
            key, connection=redis.Redis(port=port, decode_responses=True)
        )

    def take(self):
        self.lock = self.new()
        self.lock.acquire()

    def release(self):
        self.lock.release()


LIBRARIES = {
    one.package: one
    for one in (Aiocache, Arq, Huey, Portalocker, Pottery, PythonRedisLock, RedisPy, RedlockPy, Rq,
                Sherlock)
}

if __name__ == "__main__":
    port, _, key, library = sys.argv[1:]
    print("ready", version(library), flush=True)
    run(LIBRARIES[library](redis.Redis(port=int(port)), key))
