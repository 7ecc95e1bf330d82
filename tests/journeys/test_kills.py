"""The promise itself: killed at any moment, again and again, nothing is lost or doubled.

A worker hands in signed events and drafts and delivers them to two real relays and a moody one,
while it is killed with SIGKILL at random points. Afterwards a ledger compares what was accepted,
what is stored and what the relays really hold.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import sys
import time
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest

from postrich import Outbox
from postrich.model.delivery import DeliveryState
from postrich.model.job import Job, JobState
from tests.deliver import outboxes
from tests.relays import local_relay, nostr_relay
from tests.relays.events import make_event, public_key
from tests.relays.reader import fetch_events
from tests.relays.script import Script
from tests.relays.scripted import ScriptedRelay
from tests.relays.scripts import accept, choose, drop, refuse, silent

KILLS = {"sqlite": 40, "postgres": 15}
ITEMS_PER_KILL = 40
SECRET = bytes(range(1, 33))
#: How long a worker lives at most once it is ready, in seconds; its first commit takes some of it.
LIFE = {"sqlite": 0.15, "postgres": 0.8}


class Moods:
    """A relay that takes most events, refuses some for now, and sometimes hangs up."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)

    def __call__(self, _event: dict[str, Any]) -> Any:
        mood = self._chance.random()
        if mood < 0.08:
            return refuse("error: try again")
        if mood < 0.09:
            return silent
        return drop if mood < 0.10 else accept


def make_items(count: int) -> list[dict[str, Any]]:
    """Half signed events, half drafts that the worker signs itself."""
    now = int(time.time())
    items: list[dict[str, Any]] = []
    for number in range(count):
        if number % 2:
            event = make_event(SECRET, content=f"signed {number}", created_at=now - number)
            items.append(event)
        else:
            draft = {"pubkey": public_key(SECRET), "created_at": now - number, "kind": 1}
            items.append({**draft, "tags": [], "content": f"draft {number}"})
    return items


async def start_worker(arguments: list[str]) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tests.journeys.worker",
        *arguments,
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "POSTRICH_NSEC": SECRET.hex()},
    )


async def kill_at_random(arguments: list[str], chance: random.Random) -> None:
    """One life of the worker, ended anywhere: while starting, handing in, or delivering."""
    worker = await start_worker(arguments)
    assert worker.stdout is not None
    if chance.random() < 0.85:
        await worker.stdout.readline()
        longest = LIFE[outboxes.STORE]
        await asyncio.sleep(chance.uniform(0.0, longest))  # the random point, not a wait
    else:
        await asyncio.sleep(chance.uniform(0.0, 0.5))
    if worker.returncode is None:
        worker.send_signal(signal.SIGKILL)
    await worker.wait()


async def life(arguments: list[str], chance: random.Random, ledger: Path) -> int:
    """A life and its end; returns how much the ledger grew by it."""
    before = ledger.stat().st_size if ledger.exists() else 0
    await kill_at_random(arguments, chance)
    return (ledger.stat().st_size if ledger.exists() else 0) - before


async def stories(store: Path | str) -> tuple[dict[int, Job], dict[int, list[Any]]]:
    async with Outbox.open(store, deliver=False) as outbox:
        jobs: dict[int, Job] = {}
        before: int | None = None
        while page := await outbox.jobs(limit=500, before=before):
            jobs.update((job.id, job) for job in page)
            before = page[-1].id
        return jobs, {number: await outbox.story(number) for number in jobs}


def check_attempts(job: Job, story: list[Any]) -> None:
    """Every counted attempt is told once; a first plain OK is told by the delivery itself."""
    told: dict[str, list[int]] = defaultdict(list)
    for chapter in story:
        if chapter.relay is not None and chapter.attempt is not None:
            told[chapter.relay].append(chapter.attempt)
    for delivery in job.deliveries:
        lines = told[delivery.relay]
        assert lines == list(range(1, len(lines) + 1)), (job.id, delivery.relay, lines)
        if not lines:
            assert delivery.attempts == 1
        else:
            assert delivery.attempts == len(lines), (job.id, delivery, lines)


def check_ledger(ledger: Path, items: list[dict[str, Any]], jobs: dict[int, Job]) -> None:
    """Everything that was told before a kill is still true after it."""
    numbers: dict[int, set[int]] = defaultdict(set)
    for line in ledger.read_text().splitlines():
        what, *facts = json.loads(line)
        if what == "accepted":
            index, job, event_id = facts
            numbers[index].add(job)
            assert jobs[job].event_id == event_id
            assert jobs[job].content == items[index]["content"]
        else:
            job, relay, state, attempts = facts
            (delivery,) = [d for d in jobs[job].deliveries if d.relay == relay]
            assert delivery.attempts >= attempts
            if state == DeliveryState.DELIVERED:
                assert delivery.state is DeliveryState.DELIVERED
    assert set(numbers) == set(range(len(items)))
    assert all(len(found) == 1 for found in numbers.values()), "an item has two jobs"


async def check_relays(urls: list[str], jobs: dict[int, Job]) -> None:
    """Each relay holds every event once, and no second id for the same content."""
    expected = {job.event_id for job in jobs.values()}
    for url in urls:
        held = await fetch_events(url, {"authors": [public_key(SECRET)]})
        assert {event["id"] for event in held} == expected
        contents = Counter(event["content"] for event in held)
        assert max(contents.values()) == 1


@pytest.mark.req("A1", "A2", "A9", "B8", "C9")
@pytest.mark.timeout(600)
async def test_nothing_is_lost_or_doubled_by_kills(folder: Path) -> None:
    seed = int(os.environ.get("POSTRICH_SEED", "20260705"))
    await kill_again_and_again(folder, KILLS[outboxes.STORE], seed)


@pytest.mark.soak
async def test_nothing_is_lost_or_doubled_by_six_hundred_kills(folder: Path) -> None:
    seed = random.SystemRandom().randrange(1 << 30)
    sys.stderr.write(f"seed {seed}\n")
    await kill_again_and_again(folder, 600, seed)


async def kill_again_and_again(folder: Path, kills: int, seed: int) -> None:
    chance = random.Random(seed)
    items = make_items(kills * ITEMS_PER_KILL)
    handed = folder / "items.jsonl"
    handed.write_text("\n".join(json.dumps(item) for item in items))
    store, ledger = await outboxes.place_in(folder), folder / "ledger.jsonl"
    script = Script(on_event=choose(Moods(chance.randrange(1 << 30))))
    with local_relay() as first, nostr_relay() as second:
        async with ScriptedRelay(script) as moody:
            urls = [first.url, second.url, moody.url]
            arguments = [str(store), str(handed), str(ledger), *urls]
            grown = [await life(arguments, chance, ledger) for _ in range(kills)]
            last = await start_worker(arguments)
            assert await last.wait() == 0
            jobs, told = await stories(store)
            await check_relays([first.url, second.url], jobs)
            held = set(moody.stored)
    assert sum(growth > 0 for growth in grown) > kills / 2, "too few kills hit a worker at work"
    assert len(jobs) == len(items)
    assert held == {job.event_id for job in jobs.values()}
    for number, job in jobs.items():
        assert job.state is JobState.PUBLISHED
        assert {d.state for d in job.deliveries} == {DeliveryState.DELIVERED}
        check_attempts(job, told[number])
    check_ledger(ledger, items, jobs)
