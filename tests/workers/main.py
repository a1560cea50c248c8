"""What the test needs around outbound.py: a connection, and the work."""

import os
import time
from pathlib import Path

import redis

import outbound

FOLDER = Path(os.environ["FOLDER"])


def ship_next():
    """A piece of work. Returns whether to go on."""
    time.sleep(0.05)
    while (FOLDER / "hang").exists():
        time.sleep(0.05)
    return not (FOLDER / "stop").exists()


outbound.run(redis.Redis.from_url(os.environ["REDIS_URL"]), ship_next)
