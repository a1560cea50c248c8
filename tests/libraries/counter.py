"""dramatiq's ConcurrentRateLimiter."""

import dramatiq
from dramatiq.rate_limits import ConcurrentRateLimiter
from dramatiq.rate_limits.backends import RedisBackend

from driver import main

def limiter(client, key, limit=1, lease_ms=30_000):
    return ConcurrentRateLimiter(RedisBackend(client=client), key, limit=limit, ttl=lease_ms)


def layouts(client):
    key = "nightly-mutex"
    with limiter(client, key).acquire():
        yield "held", key
    yield "released", key
    with limiter(client, key).acquire():
        yield "held-again", key
    with limiter(client, "two", 2).acquire(), limiter(client, "two", 2).acquire():
        yield "held-twice", "two"


class Lock:
    """A worker takes the lock for a while, and has no way to renew it."""

    def __init__(self, client, key):
        self.limiter = limiter(client, key, lease_ms=3_000)
        self.held = None

    def take(self):
        self.held = self.limiter.acquire()
        assert self.held.__enter__()

    def release(self):
        self.held.__exit__(None, None, None)


if __name__ == "__main__":
    main(f"dramatiq {dramatiq.__version__}", layouts, Lock)
