"""Lanes are pipelined: many in flight, a window that grows and shrinks, never past its limit."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from postrich.accept import Options
from postrich.model.delivery import DeliveryState
from postrich.wire.connection import Connection
from tests.deliver.outboxes import (
    PATIENCE,
    all_published,
    all_settled,
    hear_delivery,
    lane_of,
    one_pass,
    outbox_at,
    some_notes,
)
from tests.relays.conversation import Client
from tests.relays.events import make_event
from tests.relays.script import Script, ignore_request
from tests.relays.scripted import ScriptedRelay
from tests.relays.scripts import Gate, Sequence, accept, hang, late, refuse, silent

pytestmark = pytest.mark.req("C9")


async def test_many_events_are_in_flight_before_the_first_ok(tmp_path: Path) -> None:
    gate = Gate(accept)
    async with ScriptedRelay(gate) as relay, outbox_at(tmp_path, relay) as outbox:
        handles = await outbox.publish_many(some_notes(50))
        await relay.wait_events(16, PATIENCE)
        assert not relay.stored
        gate.open()
        jobs = await all_published(handles)
    assert all(job.publish_attempts == 1 for job in jobs)
    assert len(relay.events) == 50, "each was sent once"
    assert relay.connections == 1


async def test_the_window_grows_with_answers(tmp_path: Path) -> None:
    gate = Gate(accept)
    script = Sequence([*[accept] * 16, gate])
    async with ScriptedRelay(script) as relay, outbox_at(tmp_path, relay) as outbox:
        handles = await outbox.publish_many(some_notes(100))
        await relay.wait_events(16 + 32, PATIENCE)
        assert len(relay.stored) == 16, "twice as many are in flight as at the start"
        gate.open()
        await all_published(handles)
        assert lane_of(outbox, relay).pace.window > 32


async def test_the_window_never_passes_the_setting(tmp_path: Path) -> None:
    gate = Gate(accept)
    async with (
        ScriptedRelay(gate) as slow,
        ScriptedRelay(accept) as quick,
        outbox_at(tmp_path, slow, quick, window=4) as outbox,
    ):
        handles = await outbox.publish_many(some_notes(40))
        await quick.wait_events(40, PATIENCE)
        await slow.wait_events(4, PATIENCE)
        await one_pass(lane_of(outbox, slow))
        assert len(slow.events) == 4
        gate.open()
        await all_settled(handles)
        assert len(slow.events) == 40


async def test_silence_shrinks_the_window(tmp_path: Path) -> None:
    script = Script(Sequence([*[silent] * 16, accept]))
    async with ScriptedRelay(script) as relay, outbox_at(tmp_path, relay, timeout=0.2) as outbox:
        handles = await outbox.publish_many(some_notes(16), Options(policy="slow"))
        with outbox.watch() as notices:
            await hear_delivery(notices, DeliveryState.WAITING, "timeout")
        assert lane_of(outbox, relay).pace.window == 8
        for handle in handles:
            await handle.retry()  # type: ignore[union-attr]
        await all_published(handles)
        assert lane_of(outbox, relay).pace.window > 8


async def test_a_rate_limit_shrinks_the_window(tmp_path: Path) -> None:
    script = Sequence([*[accept] * 32, *[refuse("rate-limited: slow down")] * 8, accept])
    async with ScriptedRelay(script) as relay, outbox_at(tmp_path, relay) as outbox:
        with outbox.watch() as notices:
            handles = await outbox.publish_many(some_notes(80))
            await hear_delivery(notices, DeliveryState.WAITING, "rate-limited")
            assert lane_of(outbox, relay).pace.window < 48
        await all_published(handles)


async def test_answers_may_come_in_any_order(tmp_path: Path) -> None:
    slow_first = Sequence([late(0.05), late(0.03), accept, accept])
    async with ScriptedRelay(slow_first) as relay, outbox_at(tmp_path, relay) as outbox:
        notes = some_notes(4)
        jobs = await all_published(await outbox.publish_many(notes))
        assert [job.event_id for job in jobs] == [note["id"] for note in notes]
        assert list(relay.stored) != [note["id"] for note in notes]


async def test_a_relay_that_stops_reading_holds_nothing_else_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its socket's buffers fill up; the lane stops writing to it instead of piling up memory."""
    filled = asyncio.Event()
    pause_writing = Connection.pause_writing

    def pause(connection: Connection) -> None:
        pause_writing(connection)
        if connection.session.url == f"{relay.url}/":
            filled.set()

    monkeypatch.setattr(Connection, "pause_writing", pause)
    large = [make_event(content=f"{n} {'x' * 900_000}") for n in range(20)]
    deaf = Script(hang, ignore_request)
    async with (
        ScriptedRelay(deaf) as relay,
        ScriptedRelay(accept) as other,
        outbox_at(tmp_path, relay, other, timeout=1.0) as outbox,
    ):
        handles = await outbox.publish_many(large)
        async with asyncio.timeout(PATIENCE):
            await filled.wait()
        lane = lane_of(outbox, relay)
        assert len(lane._tray.waiting) + lane._links.load == 20
        await all_published(handles)
        assert not any(link.writable for link in lane._links.open.values())


async def test_a_relay_that_reads_slowly_gets_everything(tmp_path: Path) -> None:
    go_on = asyncio.Event()

    async def read_later(client: Client) -> None:
        await go_on.wait()

    large = [make_event(content=f"{n} {'x' * 900_000}") for n in range(20)]
    async with (
        ScriptedRelay(Script(on_open=read_later)) as relay,
        outbox_at(tmp_path, relay) as outbox,
    ):
        handles = await outbox.publish_many(large)
        await relay.wait_connections(1, PATIENCE)
        go_on.set()
        jobs = await all_published(handles)
    assert {job.publish_attempts for job in jobs} == {1}
