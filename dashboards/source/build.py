#!/usr/bin/env python3
"""Writes the dashboards' JSON: build.py FOLDER (`make dashboards` calls it)."""

import sys
from pathlib import Path

import agent
import overview
import task

DASHBOARDS = {"lockwatch-overview": overview, "lockwatch-task": task, "lockwatch-agent": agent}

if __name__ == "__main__":
    folder = Path(sys.argv[1])
    for uid, dashboard in DASHBOARDS.items():
        (folder / f"{uid}.json").write_text(dashboard.build(uid))
