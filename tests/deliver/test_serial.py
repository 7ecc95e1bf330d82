"""`serial = true`: one job in flight at any moment, at all of its relays (S0)."""

from __future__ import annotations

from pathlib import Path

import pytest

from postrich.deliver.shared import Gate as SerialGate
from postrich.model.delivery import DeliveryState
from tests.deliver.outboxes import (
    PATIENCE,
    all_settled,
    hear_delivery,
    lane_for,
    lane_of,
    one_pass,
    outbox_at,
    some_notes,
    steal_leases,
)
from tests.relays.conversation import Client
from tests.relays.events import Event, make_event
from tests.relays.script import Script, ignore_request
from tests.relays.scripted import ScriptedRelay
from tests.relays.scripts import Behaviour, Gate, Sequence, accept, choose, late, refuse, silent

pytestmark = pytest.mark.req("A8")


class Watchman:
    """Notes how many different jobs are in flight at all relays together."""

    def __init__(self, answer: Behaviour) -> None:
        self.most = 0
        self._answer = answer
        self._open: list[str] = []

    async def __call__(self, client: Client, event: Event) -> None:
        self._open.append(event["id"])
        self.most = max(self.most, len(set(self._open)))
        client.spawn(self._later(client, event))

    async def _later(self, client: Client, event: Event) -> None:
        await late(0.005, self._done)(client, event)

    async def _done(self, client: Client, event: Event) -> None:
        self._open.remove(event["id"])
        await self._answer(client, event)


@pytest.mark.parametrize(
    "answer", [accept, Sequence([refuse("error: again"), accept, refuse("error: again"), accept])]
)
async def test_there_are_never_two_jobs_in_flight(tmp_path: Path, answer: Behaviour) -> None:
    watchman = Watchman(answer)
    async with (
        ScriptedRelay(watchman) as one,
        ScriptedRelay(watchman) as two,
        outbox_at(tmp_path, one, two, serial=True) as outbox,
    ):
        jobs = await all_settled(await outbox.publish_many(some_notes(12)))
    assert all(len(job.delivered) == 2 for job in jobs)
    assert watchman.most == 1


async def test_a_late_ok_does_not_let_a_second_job_in(tmp_path: Path) -> None:
    """Job 1 timed out at one relay and is in flight at the other when its late OK comes."""
    first, second = some_notes(2)
    slow, slower = Gate(accept), Gate(accept)
    only_first = choose(lambda e: slower if e["id"] == first["id"] else accept)
    async with (
        ScriptedRelay(slow) as one,
        ScriptedRelay(only_first) as two,
        outbox_at(tmp_path, one, two, serial=True, timeout=0.3, policy="slow") as outbox,
    ):
        handle = await outbox.publish(first)
        await two.wait_events(1, PATIENCE)
        for link in lane_of(outbox, two)._links.open.values():
            link.session.timeout = 60  # this relay has all the time it needs
        with outbox.watch() as notices:
            await hear_delivery(notices, DeliveryState.WAITING, "timeout")
            other = await outbox.publish(second)
            slow.open()
            await hear_delivery(notices, DeliveryState.DELIVERED, "late")
        for relay in (one, two):
            await one_pass(lane_of(outbox, relay))
            assert second["id"] not in {event["id"] for event in relay.events}
        slower.open()
        await all_settled([handle, other])


async def test_a_late_ok_of_one_job_does_not_end_the_flight_of_another(tmp_path: Path) -> None:
    """Job 1 timed out, job 2 is in flight to the same relay when job 1's late OK comes."""
    first, second, third = some_notes(3)
    slow, slower = Gate(accept), Gate(accept)
    script = choose(lambda e: slow if e["id"] == first["id"] else slower)
    async with (
        ScriptedRelay(script) as one,
        ScriptedRelay(accept) as two,
        outbox_at(tmp_path, serial=True, timeout=0.2, policy="slow") as outbox,
    ):
        handles = [await outbox.publish(first, relays=[one.url])]
        await one.wait_events(1, PATIENCE)
        handles.append(await outbox.publish(second, relays=[one.url]))
        await one.wait_events(2, PATIENCE)
        for link in lane_of(outbox, one)._links.open.values():
            link.session.timeout = 60
        handles.append(await outbox.publish(third, relays=[two.url]))
        lane = await lane_for(outbox, two)
        with outbox.watch() as notices:
            slow.open()
            await hear_delivery(notices, DeliveryState.DELIVERED, "late")
        await one_pass(lane)
        assert not two.events, "job 2 has no answer yet"
        slower.open()
        await all_settled(handles)


async def test_a_lost_lease_does_not_keep_the_gate_shut(tmp_path: Path) -> None:
    gate = Gate(accept)
    async with (
        ScriptedRelay(Script(gate, ignore_request)) as one,
        ScriptedRelay(accept) as two,
        outbox_at(tmp_path, serial=True, timeout=0.3) as outbox,
    ):
        await outbox.publish(make_event(), relays=[one.url])
        await one.wait_events(1, PATIENCE)
        lane = lane_of(outbox, one)
        await steal_leases(tmp_path)
        lane._results.lease_lost = True
        lane.wake()
        await (await outbox.publish(make_event(), relays=[two.url])).published(PATIENCE)


async def test_a_silent_relay_holds_the_next_job_up_only_until_its_timeout(tmp_path: Path) -> None:
    async with (
        ScriptedRelay(silent) as mute,
        ScriptedRelay(accept) as other,
        outbox_at(tmp_path, serial=True, timeout=0.1, policy="slow") as outbox,
    ):
        await outbox.publish(make_event(), relays=[mute.url])
        await mute.wait_events(1, PATIENCE)
        await (await outbox.publish(make_event(), relays=[other.url])).published(PATIENCE)


def test_the_gate_lets_one_job_in_at_many_places() -> None:
    freed: list[bool] = []
    gate = SerialGate(serial=True)
    gate.on_free = lambda: freed.append(True)
    assert gate.admits(1)
    gate.enter(1, place=10)
    gate.enter(1, place=11)
    assert gate.admits(1)
    assert not gate.admits(2)
    gate.leave(10, 1)
    gate.leave(10, 1)  # a late OK: it has left already
    gate.leave(11, 2)  # another job's late OK
    assert not gate.admits(2)
    gate.leave(11)
    assert gate.admits(2)
    assert freed == [True]


def test_without_serial_the_gate_is_open() -> None:
    gate = SerialGate(serial=False)
    gate.enter(1, place=10)
    assert gate.admits(2)
    gate.leave(10, 1)
