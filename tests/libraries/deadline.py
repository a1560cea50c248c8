"""TaskTiger's old lock, whose value is when it ends."""

import importlib.util
import time
from importlib.metadata import distribution

from driver import main

LEASE_S = 30


def tasktiger_lock():
    """Only this file of the package: the rest needs an older redis-py."""
    package = distribution("tasktiger")
    path = package.locate_file("tasktiger/redis_lock.py")
    spec = importlib.util.spec_from_file_location("redis_lock", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.Lock, f"tasktiger {package.version}"


LOCK, MADE_BY = tasktiger_lock()


def layouts(client):
    key = "t:lock:nightly"
    lock = LOCK(client, key, timeout=LEASE_S)
    assert lock.acquire(blocking=False)
    yield "held", key
    time.sleep(1.1)
    lock.renew()
    yield "renewed", key
    lock.release()
    yield "released", key
    crashed = LOCK(client, key, timeout=0.2, sleep=0.1)
    assert crashed.acquire(blocking=False)
    time.sleep(0.3)
    yield "expired", key
    assert lock.acquire(blocking=False)
    yield "taken-over", key
    # What other programs of this recipe write: whole seconds and milliseconds.
    client.set("seconds", int(time.time()) + LEASE_S + 1)
    yield "by-hand-seconds", "seconds"
    client.set("milliseconds", int(time.time() * 1000) + LEASE_S * 1000)
    yield "by-hand-milliseconds", "milliseconds"


class Lock:
    """Held for three seconds."""

    def __init__(self, client, key):
        self.lock = LOCK(client, key, timeout=3)
        self.taken_at = None

    def take(self):
        assert self.lock.acquire(blocking=False)
        self.taken_at = time.time()

    def renew(self):
        """It writes whole seconds, so soon after the lock was taken this would shorten the lease."""
        time.sleep(max(0, self.taken_at + 1.1 - time.time()))
        self.lock.renew()

    def release(self):
        self.lock.release()


if __name__ == "__main__":
    main(MADE_BY, layouts, Lock)
