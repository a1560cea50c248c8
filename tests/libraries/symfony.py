"""The commands of symfony/lock's RedisStore, which is in no registry of Python: a member for each
token whose score is when it ends, and a mark for a writer."""

import uuid

from driver import main, now_ms

WRITER = "__write__"
LEASE_MS = 3_000


class Lock:
    def __init__(self, client, key, lease_ms=LEASE_MS):
        self.client, self.key, self.lease_ms = client, key, lease_ms
        self.token = uuid.uuid4().hex

    def write(self, members, *, shared=False):
        until = now_ms() + self.lease_ms
        with self.client.pipeline(transaction=True) as pipe:
            pipe.zremrangebyscore(self.key, "-inf", now_ms())
            pipe.zadd(self.key, dict.fromkeys(members, until))
            if shared:
                pipe.zrem(self.key, WRITER)
            # The newest member ends last.
            pipe.pexpireat(self.key, until)
            pipe.execute()

    def take(self):
        self.write([self.token, WRITER])

    def renew(self):
        self.write([self.token, WRITER])

    def read(self):
        self.write([self.token], shared=True)

    def release(self):
        self.client.zrem(self.key, self.token, WRITER)


def layouts(client):
    key = "nightly"
    first, second = Lock(client, key, 300_000), Lock(client, key, 300_000)
    first.take()
    yield "written", key
    first.read()
    yield "downgraded", key
    second.read()
    yield "read-by-two", key
    first.release()
    yield "read-by-one", key
    second.release()
    yield "released", key


if __name__ == "__main__":
    main("the commands of symfony/lock 5.4", layouts, Lock)
