"""Many workers on one PostgreSQL (G4): killed, stopped, cut off, with wrong clocks, coming, going.

Real processes, a real server, relays on loopback. Whatever is done to them, the history must be
right (`history.check_history`).
"""

from __future__ import annotations

import asyncio
import os
import random
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.journeys.crew import (
    LEASE,
    Crew,
    WatchedRelay,
    Worker,
    crew_of,
    feeder_at,
    until,
    wall,
    watched_relays,
)
from tests.journeys.history import check_history, holders, watch
from tests.relays.conversation import Client
from tests.relays.events import Event
from tests.relays.scripts import Behaviour, accept, drop, late, refuse, silent
from tests.store.servers import Admin, new_dsn, start_server, with_options

pytestmark = [pytest.mark.req("G4"), pytest.mark.timeout(180), pytest.mark.postgres]

SEED = int(os.environ.get("POSTRICH_SEED", "20261116"))


@pytest.fixture
async def dsn() -> str:
    """An outbox in a schema of its own, whose history is recorded."""
    place = with_options(await new_dsn("crew"), pool_size=4)
    await watch(place)
    return place


def slow(chance: random.Random) -> Behaviour:
    """Takes everything, after a while: something is always in flight."""

    async def act(client: Client, event: Event) -> None:
        await late(chance.uniform(0.02, 0.4))(client, event)

    return act


def moody(chance: random.Random) -> Behaviour:
    """Takes most events, refuses some for now, and sometimes says nothing or hangs up."""
    moods: list[Behaviour] = [refuse("error: try again")] * 8 + [silent, drop]

    async def act(client: Client, event: Event) -> None:
        mood = chance.choice(moods) if chance.random() < 0.1 else slow(chance)
        await mood(client, event)

    return act


def fickle(chance: random.Random) -> Behaviour:
    """Refuses every third event for now: whoever writes that down twice is found out."""

    async def act(client: Client, event: Event) -> None:
        mood = refuse("error: try again") if chance.random() < 0.33 else accept
        await mood(client, event)

    return act


def some_relays(chance: random.Random) -> list[Behaviour]:
    return [slow(chance), slow(chance), moody(chance), accept]


# Killed


@pytest.mark.req("A8", "B8")
async def test_workers_are_killed_again_and_again(dsn: str, tmp_path: Path) -> None:
    await kill_some(dsn, tmp_path, 8, SEED)


@pytest.mark.soak
@pytest.mark.timeout(1200)
async def test_workers_are_killed_a_hundred_times(dsn: str, tmp_path: Path) -> None:
    await kill_some(dsn, tmp_path, 100, new_seed())


def new_seed() -> int:
    seed = random.SystemRandom().randrange(1 << 30)
    sys.stderr.write(f"seed {seed}\n")
    return seed


async def kill_some(dsn: str, folder: Path, kills: int, seed: int) -> None:
    chance = random.Random(seed)
    killed: list[int] = []
    async with (
        watched_relays(*some_relays(chance)) as relays,
        feeder_at(dsn, relays) as feeder,
        crew_of(dsn, relays, folder) as crew,
    ):
        await crew.hire_all(0, 0, 0, 0)
        feeder.start()
        for _ in range(kills):
            await asyncio.sleep(chance.uniform(0.1, 0.8))  # the random point, not a wait
            killed.append(wall())
            await chance.choice(crew.running).kill()
            await crew.hire()
        await feeder.finish()
        await check_history(crew, relays, feeder, killed)


# Stopped for a while


@pytest.mark.req("B8")
async def test_a_worker_that_slept_for_longer_than_its_lease(dsn: str, tmp_path: Path) -> None:
    chance = random.Random(SEED)
    async with (
        watched_relays(*[late(1.0, fickle(chance))] * 4) as relays,
        feeder_at(dsn, relays) as feeder,
        crew_of(dsn, relays, tmp_path) as crew,
    ):
        sleeper, other = await crew.hire_all(0, 0)
        feeder.start(0.02)
        await until(lambda: evenly_spread(crew, 2, 2))
        await hear_from(sleeper, relays)  # of which it will not hear in time
        sleeper.pause()
        await until(lambda: evenly_spread(crew, 4))
        taken = wall()
        await asyncio.sleep(chance.uniform(2.0, 3.0))  # so that nothing it does now seems in time
        sleeper.resume()
        await until(lambda: evenly_spread(crew, 2, 2))
        await feeder.finish()
        history = await check_history(crew, relays, feeder)
        assert "its results are dropped" not in other.log
    later = [one for heard in history.heard.values() for one in heard if one.at > taken]
    assert {one.owner for one in later} == {sleeper.owner, other.owner}


async def evenly_spread(crew: Crew, *lanes: int) -> bool:
    """Whether so many workers hold so many lanes each."""
    return sorted((await holders(crew.dsn)).values()) == sorted(lanes)


# The database goes away


@pytest.mark.req("B8")
async def test_the_database_is_restarted(tmp_path: Path) -> None:
    server = start_server("under-load")
    try:
        dsn = with_options(server.get_uri(), pool_size=4)
        await watch(dsn)
        chance = random.Random(SEED)
        async with (
            watched_relays(*some_relays(chance)) as relays,
            feeder_at(dsn, relays) as feeder,
            crew_of(dsn, relays, tmp_path) as crew,
        ):
            await crew.hire_all(0, 0, 0)
            feeder.start()
            await relays[0].wait_events(30, within=30)
            await asyncio.to_thread(server.stop)
            stopped = wall()
            await asyncio.sleep(LEASE + 2.0)  # how long it is away
            started = wall()
            await asyncio.to_thread(server.ensure_postgres_running)
            count = len(relays[0].events)
            await relays[0].wait_events(count + 30, within=30)
            assert len(crew.running) == 3
            await feeder.finish()
            history = await check_history(crew, relays, feeder, [started])
    finally:
        server.cleanup()
    for heard in history.heard.values():
        assert not [o for o in heard if stopped + LEASE * 1000 + 500 < o.at < started]


@pytest.mark.req("B8")
async def test_connections_to_the_database_are_cut_at_random(dsn: str, tmp_path: Path) -> None:
    await cut_some(dsn, tmp_path, 60, SEED)


@pytest.mark.soak
@pytest.mark.timeout(1200)
async def test_connections_to_the_database_are_cut_for_long(dsn: str, tmp_path: Path) -> None:
    await cut_some(dsn, tmp_path, 1500, new_seed())


CUT = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE application_name LIKE 'crew-%' AND datname = current_database() ORDER BY random() LIMIT 1
"""


async def cut_some(dsn: str, folder: Path, cuts: int, seed: int) -> None:
    chance = random.Random(seed)
    async with (
        Admin(dsn) as admin,
        watched_relays(*some_relays(chance)) as relays,
        feeder_at(dsn, relays) as feeder,
        crew_of(dsn, relays, folder) as crew,
    ):
        await crew.hire_all(0, 0, 0)
        feeder.start()
        for _ in range(cuts):
            await asyncio.sleep(chance.uniform(0.0, 0.16))  # the random point, not a wait
            await admin.link.execute(CUT)
        assert len(crew.running) == 3
        await feeder.finish()
        await check_history(crew, relays, feeder)


# Wrong clocks


@pytest.mark.req("A8")
async def test_workers_whose_clocks_are_wrong(dsn: str, tmp_path: Path) -> None:
    chance = random.Random(SEED)
    async with (
        watched_relays(*some_relays(chance), accept, accept) as relays,
        feeder_at(dsn, relays) as feeder,
        crew_of(dsn, relays, tmp_path) as crew,
    ):
        workers = await crew.hire_all(90_000, -90_000, 0)
        feeder.start()
        for worker in workers:
            await hear_from(worker, relays)
        await asyncio.sleep(LEASE)  # the time in which a wrong clock would do harm
        await feeder.finish()
        await check_history(crew, relays, feeder)
        for worker in workers:
            assert "its results are dropped" not in worker.log


async def hear_from(worker: Worker, relays: list[WatchedRelay]) -> None:
    """Wait until it sends something from now on."""
    now = wall()

    async def has_spoken() -> bool:
        return any(h.owner == worker.owner and h.at > now for r in relays for h in r.heard)

    await until(has_spoken)


# Coming and going


@pytest.mark.req("B8")
async def test_workers_come_and_go_and_lanes_are_spread_evenly(dsn: str, tmp_path: Path) -> None:
    lease = 60.0  # so that whatever waits for it to lapse is seen
    chance = random.Random(SEED)
    async with (
        watched_relays(*[slow(chance)] * 8) as relays,
        feeder_at(dsn, relays) as feeder,
        crew_of(dsn, relays, tmp_path, lease) as crew,
    ):
        feeder.start()
        await crew.hire_all(0)
        await until(lambda: evenly_spread(crew, 8))
        await crew.hire_all(0)
        await until(lambda: evenly_spread(crew, 4, 4))
        first, second, *_ = [*crew.running, *await crew.hire_all(0, 0)]
        await until(lambda: evenly_spread(crew, 2, 2, 2, 2))
        await asyncio.gather(first.end(), second.end())
        left = wall()
        await until(lambda: evenly_spread(crew, 4, 4), within=lease / 2)
        await feeder.finish()
        history = await check_history(crew, relays, feeder, [left])
    for url, heard in history.heard.items():
        assert Counter(one.event_id for one in heard).most_common(1)[0][1] == 1, url
    assert {d.attempts for job in history.jobs.values() for d in job.deliveries} == {1}


# An old transaction


async def test_somebody_holds_an_old_transaction(dsn: str, tmp_path: Path) -> None:
    chance = random.Random(SEED)
    async with (
        watched_relays(*some_relays(chance)) as relays,
        feeder_at(dsn, relays) as feeder,
        crew_of(dsn, relays, tmp_path) as crew,
        Admin(dsn) as admin,
    ):
        await admin.link.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        await admin.link.execute("CREATE TEMP TABLE old (id integer)")  # it has a number, too
        assert await admin.link.fetchval("SELECT count(*) FROM jobs") == 0
        await crew.hire_all(0, 0)
        feeder.start()
        await relays[0].wait_events(100, within=30)
        await feeder.finish()
        await check_history(crew, relays, feeder)
        assert await admin.link.fetchval("SELECT count(*) FROM jobs") == 0
