"""The library on PostgreSQL: the same engine, several workers, one database (G4)."""

from __future__ import annotations

import asyncio
import os

import pytest

from postrich import JobState, Outbox, SecretSigner, Settings
from postrich.errors import StoreAway
from tests.deliver.outboxes import PATIENCE, until
from tests.relays.events import make_event
from tests.relays.scripted import ScriptedRelay
from tests.relays.scripts import accept
from tests.store.servers import empty_dsn, start_server

pytestmark = pytest.mark.req("G4")

KEY = os.urandom(32)
#: So rarely do they look by themselves that only hints can explain what happens at once.
DEAF = Settings(poll=60.0)


async def test_an_outbox_lives_in_a_database() -> None:
    dsn = await empty_dsn()
    async with ScriptedRelay(accept) as relay:
        async with Outbox.open(dsn, relays=[relay.url]) as outbox:
            handle = await outbox.publish(make_event())
            job = await handle.settled(PATIENCE)
            assert job.state is JobState.PUBLISHED
        async with Outbox.open(dsn, relays=[relay.url]) as outbox:
            assert (await outbox.job(job.id)).state is JobState.PUBLISHED


async def test_a_worker_delivers_at_once_what_another_process_handed_in() -> None:
    dsn = await empty_dsn()
    async with (
        ScriptedRelay(accept) as relay,
        Outbox.open(dsn, relays=[relay.url], settings=DEAF, signer=SecretSigner(KEY)) as worker,
        Outbox.open(dsn, relays=[relay.url], settings=DEAF, deliver=False) as door,
    ):
        for n in range(5):
            event = make_event(content=f"note {n}")
            handle = await door.publish(event)
            assert (await worker.wait(handle.id, PATIENCE)).state is JobState.PUBLISHED
        draft = {"kind": 1, "content": "unsigned", "tags": [], "pubkey": SecretSigner(KEY).pubkey}
        handle = await door.publish(draft)
        assert (await worker.wait(handle.id, PATIENCE)).state is JobState.PUBLISHED


async def test_workers_share_the_lanes_and_send_nothing_twice() -> None:
    dsn = await empty_dsn()
    async with ScriptedRelay(accept) as red, ScriptedRelay(accept) as blue:
        urls = [red.url, blue.url]
        async with (
            Outbox.open(dsn, relays=urls) as one,
            Outbox.open(dsn, relays=urls) as two,
        ):
            events = [make_event(content=f"note {n}") for n in range(40)]
            handles = await asyncio.gather(
                *(outbox.publish(event) for event in events for outbox in (one, two))
            )
            assert len({handle.id for handle in handles}) == len(events)
            await asyncio.gather(one.drained(PATIENCE), two.drained(PATIENCE))
            status = await two.status()
            assert (status.pending, status.open_deliveries) == (0, 0)
        for relay in (red, blue):
            seen = [event["id"] for event in relay.events]
            assert sorted(seen) == sorted(event["id"] for event in events)


async def test_a_worker_that_loses_the_database_says_so_and_goes_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    server = start_server("trouble")
    dsn = server.get_uri()
    try:
        async with (
            ScriptedRelay(accept) as relay,
            Outbox.open(dsn, relays=[relay.url]) as outbox,
        ):
            await (await outbox.publish(make_event(content="before"))).settled(PATIENCE)
            assert outbox.trouble == ""
            server.stop()
            await until(lambda: outbox.trouble != "")
            with pytest.raises(StoreAway):
                await outbox.publish(make_event(content="refused"))
            await asyncio.sleep(2.5)
            server.ensure_postgres_running()
            await until(lambda: outbox.trouble == "")
            await (await outbox.publish(make_event(content="after"))).settled(PATIENCE)
        told = [r for r in caplog.records if r.levelname == "ERROR" and "lifeline" in r.message]
        assert 1 <= len(told) <= 3, "trouble that stays the same is told once"
    finally:
        server.cleanup()
