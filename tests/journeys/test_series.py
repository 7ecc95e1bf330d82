"""A series whose calendar is killed again and again, by two workers at once: each minute once."""

from __future__ import annotations

import asyncio
import os
import random
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from postrich import Outbox, SecretSigner
from postrich.model.series import OccurrenceState, Template
from tests.deliver import outboxes
from tests.deliver.outboxes import PATIENCE, outbox_at
from tests.deliver.test_calendar import WallClock
from tests.journeys.calendar_worker import SECRET
from tests.rules.years import MINUTE, ms

KILLS = 8
START = ms(2026, 10, 25)  # the night in which Berlin's clocks go back


async def a_short_life(store: str, chance: random.Random) -> None:
    """Start a worker, and kill it in the middle of whatever it does."""
    worker = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tests.journeys.calendar_worker",
        store,
        str(START),
        stdout=asyncio.subprocess.PIPE,
        env=dict(os.environ),
    )
    try:
        assert worker.stdout is not None
        async with asyncio.timeout(PATIENCE):
            assert await worker.stdout.readline() == b"ready\n"
        await asyncio.sleep(chance.uniform(0.02, 0.4))
    finally:
        worker.kill()
        await worker.wait()


async def make_series(outbox: Outbox) -> None:
    await outbox.series.keep(
        id="minutely",
        recurrence="* * * * *",
        zone="Europe/Berlin",
        template=Template(content="tick"),
        starts_at=START,
    )


@pytest.mark.req("F5", "A1")
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_each_minute_once_whoever_is_killed(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outboxes, "STORE", kind)
    chance = random.Random(7)
    clock = WallClock(START - 1)
    settings: dict[str, Any] = {"clock": clock, "deliver": False, "signer": SecretSigner(SECRET)}
    async with outbox_at(tmp_path, "wss://relay.example/", **settings) as outbox:
        await make_series(outbox)
    store = str(await outboxes.place_in(tmp_path))
    for _ in range(KILLS):
        await asyncio.gather(a_short_life(store, chance), a_short_life(store, chance))
        await outboxes.run_sql(tmp_path, "DELETE FROM leases")  # as if it had been long ago
    async with outbox_at(tmp_path, "wss://relay.example/", **settings) as outbox:
        made = await outbox._store.occurrences("minutely", 0, 2**62, 100_000)
        jobs = await outbox.jobs(limit=100_000)
        series = await outbox.series.get("minutely")
    assert len(made) > KILLS
    assert [one.at for one in made] == [START + n * MINUTE for n in range(len(made))]
    assert {one.state for one in made} == {OccurrenceState.MADE}
    assert Counter(one.job for one in made) == Counter(job.id for job in jobs)
    assert Counter(job.due_at for job in jobs) == Counter(one.at for one in made)
    assert (series.made, series.next_at) == (len(made), START + len(made) * MINUTE)
