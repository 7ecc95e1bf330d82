"""Postrich's own side of the benches, each in a fresh process: `python -m bench.ours TASK …`.

Prints one JSON line. Everything is the real thing: a file with synchronous=FULL, every
signature checked, every OK recorded.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Coroutine
from pathlib import Path
from typing import Any

import msgspec
import uvloop

from postrich.config import Settings
from postrich.doors.cli.outset import tune
from postrich.model.delivery import Target
from postrich.model.event import Event, is_signed, make_draft, parse_event
from postrich.model.job import JobFilter, NewJob
from postrich.outbox import Handle, Outbox
from postrich.rules.backoff import PRESETS
from postrich.sign.mine import HOPELESS, MiningProgress, mine
from postrich.sign.verifier import Verifier
from postrich.store.sqlite import SqliteStore

WARM_UP = 64
BATCH = 100
FAR = 4_000_000_000_000

#: To named relays; and as it comes, planned by relay lists, but for the network's indexers:
#: nothing here leaves this machine.
ALONE = Settings(autopilot=False)
PLANNED = Settings(indexers=())


def _scratch() -> tempfile.TemporaryDirectory[str]:
    """A folder on a real disk: /tmp may be memory, which would flatter us."""
    folder = Path(__file__).parent / ".cache"
    folder.mkdir(exist_ok=True)
    return tempfile.TemporaryDirectory(dir=folder)


def _lines(path: str) -> list[bytes]:
    return Path(path).read_bytes().splitlines()


async def fanout(
    events_path: str, urls: str, live: str = "", settings: Settings = ALONE
) -> dict[str, Any]:
    """Hand in all events, wait until every delivery to a live relay is recorded."""
    lines = _lines(events_path)
    relays = urls.split(",")
    awaited = live.split(",") if live else relays
    with _scratch() as folder:
        async with Outbox.open(f"{folder}/outbox.db", relays=relays, settings=settings) as outbox:
            await outbox.publish_many(lines[:WARM_UP])
            await _recorded(outbox, awaited)
            gc.collect()
            started = time.perf_counter()
            answers = await outbox.publish_many(lines[WARM_UP:])
            accepted = time.perf_counter() - started
            await _recorded(outbox, awaited)
            seconds = time.perf_counter() - started
    good = sum(isinstance(answer, Handle) for answer in answers)
    return {"seconds": seconds, "accept_seconds": accepted, "oks": good * len(awaited)}


async def planned(events_path: str, urls: str) -> dict[str, Any]:
    """The same, where every event is planned: whose lists say where it goes?"""
    return await fanout(events_path, urls, settings=PLANNED)


async def _recorded(outbox: Outbox, live: list[str]) -> None:
    """Wait until nothing waits for these relays any more: every OK is on disk."""
    if len(outbox.settings.relays) == len(live):
        await outbox.drained()
        return
    while any(  # noqa: ASYNC110 - the dead relay never drains, so look now and then
        _bare(row.url) in map(_bare, live) for row in await outbox.backlog()
    ):
        await asyncio.sleep(0.01)


def _bare(url: str) -> str:
    return url.rstrip("/")


async def accept(events_path: str) -> dict[str, Any]:
    """Durable, verified accepts, with the relays switched off: the way in alone."""
    lines = _lines(events_path)
    with _scratch() as folder:
        relays = [f"ws://127.0.0.1:{port}/" for port in (1, 2, 3)]
        async with Outbox.open(f"{folder}/outbox.db", relays=relays, settings=ALONE) as outbox:
            outbox.set_online(False)
            await outbox.publish_many(lines[:WARM_UP])
            started = time.perf_counter()
            answers = await outbox.publish_many(lines[WARM_UP:])
            seconds = time.perf_counter() - started
    return {"seconds": seconds, "accepted": sum(isinstance(a, Handle) for a in answers)}


async def verify(events_path: str) -> dict[str, Any]:
    """The bare check: parse, id and signature, on one core and on all of them."""
    lines = _lines(events_path)
    started = time.perf_counter()
    assert all(is_signed(parse_event(line)) for line in lines[:2000])
    one_core = 2000 / (time.perf_counter() - started)
    verifier = Verifier(os.cpu_count())
    events: list[Event] = [parse_event(line) for line in lines]
    chunks = [events[at : at + 512] for at in range(0, len(events), 512)]
    await asyncio.gather(*(verifier.check(chunk) for chunk in chunks[:4]))
    started = time.perf_counter()
    await asyncio.gather(*(verifier.check(chunk) for chunk in chunks))
    all_cores = len(events) / (time.perf_counter() - started)
    await verifier.close()
    return {"one_core": one_core, "all_cores": all_cores}


async def mine_alone(seconds: str, processes: str) -> dict[str, Any]:
    """What the miner tries in a second when nothing else is to be done."""
    async with _miner(int(processes)) as progress:
        await asyncio.sleep(float(seconds))
    return {"rate": _hash_rate(progress)}


async def beside(
    events_path: str, urls: str, pace: str, processes: str, seconds: str
) -> dict[str, Any]:
    """Batches at a pace (0: all at once), with a miner of so many processes beside (0: none)."""
    lines = _lines(events_path)
    batch = BATCH if float(pace) else len(lines)
    with _scratch() as folder:
        async with Outbox.open(
            f"{folder}/outbox.db", relays=urls.split(","), settings=ALONE
        ) as outbox:
            await outbox.publish_many(lines[:WARM_UP])
            await outbox.drained()
            async with _miner(int(processes)) as progress:
                busy, count = await _deliver(outbox, lines[WARM_UP:], batch, float(pace), seconds)
    rate = count * len(urls.split(",")) / busy
    return {"oks_rate": rate, "hash_rate": _hash_rate(progress)}


async def _deliver(
    outbox: Outbox, lines: list[bytes], batch: int, pace: float, seconds: str
) -> tuple[float, int]:
    """How long the batches took, each from its handing in to its last OK on disk."""
    busy, count, started = 0.0, 0, time.perf_counter()
    for start in range(0, len(lines), batch):
        begun = time.perf_counter()
        if begun - started > float(seconds):
            break
        answers = await outbox.publish_many(lines[start : start + batch])
        await outbox.drained()
        busy += time.perf_counter() - begun
        count += sum(isinstance(answer, Handle) for answer in answers)
        await asyncio.sleep(max(0.0, pace - (time.perf_counter() - begun)))
    return busy, count


@contextlib.asynccontextmanager
async def _miner(processes: int) -> AsyncIterator[list[MiningProgress]]:
    """Mine something that is never found, meanwhile; 0 processes mine nothing."""
    progress: list[MiningProgress] = []
    if not processes:
        yield progress
        return
    at_work = asyncio.Event()

    def note(report: MiningProgress) -> None:
        if report.hashes:
            progress.append(report)
            at_work.set()

    draft = make_draft("ab" * 32, 1_700_000_000, 1, (), "work")
    mining = asyncio.create_task(mine(draft, HOPELESS, processes=processes, on_progress=note))
    await at_work.wait()
    yield progress
    mining.cancel()
    await asyncio.wait([mining])


def _hash_rate(progress: list[MiningProgress]) -> float:
    """Between the first and the last report, so that starting up does not count."""
    if len(progress) < 2:
        return 0.0
    first, last = progress[0], progress[-1]
    return (last.hashes - first.hashes) / (last.seconds - first.seconds)


async def fill(store_path: str, count: str, events_path: str) -> dict[str, Any]:
    """Make an outbox in which `count` jobs wait for a relay that is not there."""
    template = parse_event(_lines(events_path)[0])
    store = await SqliteStore.open(store_path)
    targets = (Target("ws://127.0.0.1:1/", "your relay"),)
    total, now = int(count), 1_000
    for start in range(0, total, 2000):
        jobs = [
            NewJob(_another(template, n), targets, PRESETS["interactive"], FAR)
            for n in range(start, min(start + 2000, total))
        ]
        await store.accept(jobs, now)
    await store.close()
    return {"jobs": total}


def _another(event: Event, number: int) -> Event:
    """An event with an id of its own; the store does not look at signatures."""
    fresh = number.to_bytes(32, "big").hex()
    return msgspec.structs.replace(
        event, id=fresh, raw=event.raw.replace(event.id.encode(), fresh.encode())
    )


async def waiting(store_path: str) -> dict[str, Any]:
    """Start on a full outbox: how long, how much memory, how quick are claims."""
    started = time.perf_counter()
    async with Outbox.open(store_path, settings=Settings(timeout=1, indexers=())) as outbox:
        jobs = await outbox.jobs(JobFilter(open_only=True), 20)
        start_up = time.perf_counter() - started
        status = await outbox.status()
        await asyncio.sleep(3)  # let every loop run: the lane, the lifeline, the polls
        memory = _peak_memory()
    store = await SqliteStore.open(store_path)
    claims = []
    for _ in range(200):
        begun = time.perf_counter()
        claimed = await store.claim(1, FAR, 512, 128, [])
        claims.append(time.perf_counter() - begun)
    await store.close()
    return {
        "start_up": start_up,
        "memory_mb": memory,
        "claim_ms": sorted(claims)[len(claims) // 10] * 1000,
        "claimed": len(claimed),
        "pending": status.pending,
        "listed": len(jobs),
    }


def _peak_memory() -> float:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) / 1024
    return 0.0


TASKS = {
    task.__name__: task
    for task in (fanout, planned, accept, verify, mine_alone, beside, fill, waiting)
}


def main() -> None:
    tune()
    task: Coroutine[Any, Any, dict[str, Any]] = TASKS[sys.argv[1]](*sys.argv[2:])
    print(msgspec.json.encode(uvloop.run(task)).decode())


if __name__ == "__main__":
    main()
