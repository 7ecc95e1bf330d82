"""Without a network nothing is attempted and nothing is burnt; on its return all goes at once."""

from __future__ import annotations

import errno
import socket
from pathlib import Path
from typing import Any

import pytest

from postrich import JobState, RetryPolicy
from postrich.errors import RefusedKind
from postrich.model.delivery import DeliveryState
from postrich.observe.notices import NetworkChanged
from postrich.wire.connection import Connection
from tests.deliver.outboxes import (
    PATIENCE,
    all_published,
    hear,
    hear_breaker,
    hear_delivery,
    lane_for,
    lane_of,
    one_pass,
    outbox_at,
    some_notes,
    the_delivery,
)
from tests.relays.events import make_event
from tests.relays.scripted import ScriptedRelay
from tests.relays.scripts import Gate, Sequence, accept, refuse

pytestmark = pytest.mark.req("A13")

ONE_TRY = RetryPolicy("one try", delays=(0.01,), max_attempts=1, lifetime=600.0)


async def test_told_to_be_offline_nothing_is_attempted(tmp_path: Path) -> None:
    async with ScriptedRelay(accept) as relay, outbox_at(tmp_path, relay) as outbox:
        with outbox.watch() as notices:
            outbox.set_online(False)
            assert not outbox.online
            assert not (await hear(notices, NetworkChanged)).online
            kinds = {"note": 1, "reaction": 7, "comment": 1111, "repost": 6}
            notes = [make_event(kind=kind, content=what) for what, kind in kinds.items()]
            handles = await outbox.publish_batch(notes)
            await one_pass(await lane_for(outbox, relay))
            assert relay.connections == 0
            status = await outbox.status()
            assert (status.pending, status.total_attempts) == (4, 0)
            assert status.text == "4 items waiting to publish"
            outbox.set_online(True)
            assert (await hear(notices, NetworkChanged)).online
        jobs = await all_published(handles)
    assert {job.publish_attempts for job in jobs} == {1}


async def test_back_online_the_backoff_of_relays_is_forgotten(tmp_path: Path) -> None:
    """The breaker would wait for minutes; a network that is back is tried at once."""
    relay = ScriptedRelay(accept)
    async with outbox_at(tmp_path, relay) as outbox:
        with outbox.watch() as notices:
            handle = await outbox.publish(make_event())
            await hear_breaker(notices, "open")
        lane = lane_of(outbox, relay)
        lane.breaker = type(lane.breaker)(
            lane.breaker.state, 12, outbox._clock.tick() + 300, lane.breaker.fault
        )
        outbox.set_online(False)
        async with relay:
            outbox.set_online(True)
            await handle.published(PATIENCE)


@pytest.mark.parametrize("forced_back", [True, None])
async def test_going_offline_in_mid_stream_burns_nothing(
    tmp_path: Path, forced_back: bool | None
) -> None:
    gate = Gate(accept)
    async with ScriptedRelay(gate) as relay, outbox_at(tmp_path, relay, timeout=0.5) as outbox:
        handles = await outbox.publish_many(some_notes(40))
        await relay.wait_events(16, PATIENCE)
        outbox.set_online(False)
        await relay.wait_disconnected(PATIENCE)
        assert len(relay.events) == 16
        status = await outbox.status()
        assert (status.open_deliveries, status.total_attempts) == (40, 0)
        gate.open()
        outbox.set_online(forced_back)
        jobs = await all_published(handles)
    assert {job.publish_attempts for job in jobs} == {1}


@pytest.mark.parametrize(
    "problem",
    [
        OSError(errno.ENETUNREACH, "Network is unreachable"),
        OSError("Multiple exceptions: [Errno 101] unreachable, [Errno 113] no route to host"),
        socket.gaierror(-3, "Temporary failure in name resolution"),
        TimeoutError(),
    ],
)
async def test_when_every_dial_fails_as_without_a_network_we_are_offline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, problem: Exception
) -> None:
    dial = Connection.dial

    async def unreachable(*_: Any, **__: Any) -> Connection:
        raise problem

    async with (
        ScriptedRelay(accept) as one,
        ScriptedRelay(accept) as two,
        outbox_at(tmp_path, one, two) as outbox,
    ):
        monkeypatch.setattr(Connection, "dial", unreachable)
        with outbox.watch() as notices:
            handle = await outbox.publish(make_event(), policy=ONE_TRY)
            assert not (await hear(notices, NetworkChanged)).online
            assert not outbox.online
            with pytest.raises(RefusedKind, match="no network"):
                await outbox.publish(make_event(kind=20001))
            job = await handle.status()
            assert job.state is JobState.PENDING_PUBLISH
            assert job.publish_attempts == 0
            monkeypatch.setattr(Connection, "dial", dial)
            assert (await hear(notices, NetworkChanged)).online
        job = await handle.settled(PATIENCE)
    assert len(job.delivered) == 2
    assert job.publish_attempts == 2


async def test_a_refused_connection_proves_a_network(tmp_path: Path) -> None:
    dead = ScriptedRelay(accept)
    async with outbox_at(tmp_path, dead) as outbox:
        with outbox.watch() as notices:
            await outbox.publish(make_event())
            await hear_breaker(notices, "open")
        assert outbox.online


async def test_an_event_whose_retry_comes_due_offline_waits(tmp_path: Path) -> None:
    script = Sequence([refuse("error: once more"), accept])
    async with ScriptedRelay(script) as relay, outbox_at(tmp_path, relay) as outbox:
        with outbox.watch() as notices:
            outbox.set_online(True)
            handle = await outbox.publish(make_event())
            await hear_delivery(notices, DeliveryState.WAITING, "error")
            outbox.set_online(False)
            await relay.wait_disconnected(PATIENCE)
        sent = len(relay.events)
        await one_pass(outbox._fleet)
        await one_pass(lane_of(outbox, relay))
        assert len(relay.events) == sent
        if sent == 1:
            assert (await the_delivery(handle)).attempts == 1
        outbox.set_online(True)
        await handle.published(PATIENCE)
