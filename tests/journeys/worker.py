"""A process that hands in and delivers until it is killed; run by `test_kills.py`.

    python -m tests.journeys.worker STORE ITEMS LEDGER URL…

Every line of ITEMS is handed in once, in order; what is known to be accepted, and every notice
of a delivery, goes into LEDGER with one unbuffered write each, so that a kill loses none that
was told. The first line on stdout is `ready`. Ends by itself when everything has settled.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import msgspec

from postrich import Outbox, RetryPolicy, Settings, parse_secret
from postrich.accept import Options
from postrich.model.job import QueueStatus
from postrich.observe.notices import DeliveryChanged, Subscription

QUICK = RetryPolicy("quick", delays=(0.05,), jitter=(0.5, 1.5))
CHUNK = 7


class Ledger:
    """What this process was told, one line each: survives its kill."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def write(self, *facts: object) -> None:
        os.write(self._file, msgspec.json.encode(facts) + b"\n")


async def watch(notices: Subscription, ledger: Ledger) -> None:
    async for notice in notices:
        if isinstance(notice, DeliveryChanged):
            ledger.write("delivery", notice.job, notice.relay, notice.state, notice.attempts)


async def hand_in(outbox: Outbox, lines: list[bytes], ledger: Ledger, done: int) -> None:
    options = Options(policy=QUICK)
    for start in range(done, len(lines), CHUNK):
        handles = await outbox.publish_batch(lines[start : start + CHUNK], options)
        for offset, handle in enumerate(handles):
            ledger.write("accepted", start + offset, handle.id, handle.event_id)


async def work(store: str, items: Path, ledger_path: Path, urls: list[str]) -> QueueStatus:
    lines = items.read_bytes().splitlines()
    told = ledger_path.read_bytes().splitlines() if ledger_path.exists() else []
    done = sum(line.startswith(b'["accepted"') for line in told)
    ledger = Ledger(ledger_path)
    signer = parse_secret(os.environ["POSTRICH_NSEC"])
    settings = Settings(timeout=2.0, indexers=())
    async with Outbox.open(store, relays=urls, signer=signer, settings=settings) as outbox:
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        watching = asyncio.create_task(watch(outbox.watch(100_000), ledger))
        await hand_in(outbox, lines, ledger, done)
        status = await outbox.drained()
    await watching
    return status


if __name__ == "__main__":
    asyncio.run(work(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]), sys.argv[4:]))
