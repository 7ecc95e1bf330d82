"""A relay's own faults: they open its breaker, cost no attempt and hold up nobody else."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

from postrich import JobState, RetryPolicy
from postrich.accept import Options
from postrich.model.delivery import DeliveryState
from postrich.rules.health import BreakerState
from tests.deliver.outboxes import (
    PATIENCE,
    SLOW,
    all_published,
    all_settled,
    hear_breaker,
    hear_delivery,
    lane_of,
    one_pass,
    outbox_at,
    some_notes,
    the_delivery,
)
from tests.relays.conversation import Client
from tests.relays.events import Event, make_event
from tests.relays.handshakes import handshakes_in_turn, http_status, upgrade
from tests.relays.script import Script
from tests.relays.scripted import ScriptedRelay
from tests.relays.scripts import (
    Gate,
    Sequence,
    accept,
    choose,
    close,
    close_after,
    drop,
    notice,
    rate_limited,
    refuse,
    silent,
)

TWICE = RetryPolicy("twice", delays=(0.02,), max_attempts=2, lifetime=600.0)


@pytest.mark.req("B10", "C10")
async def test_a_dead_relay_opens_its_breaker_and_costs_no_attempt(tmp_path: Path) -> None:
    relay = ScriptedRelay(accept)
    async with outbox_at(tmp_path, relay) as outbox:
        with outbox.watch() as notices:
            handle = await outbox.publish(make_event(), policy=TWICE)
            told = await hear_breaker(notices, "open")
            assert told.detail == "connection refused"
            lane = lane_of(outbox, relay)
            for _ in range(5):  # more dials than the policy has attempts
                lane.network_back()
                lane.breaker = lane.breaker.__class__(BreakerState.CLOSED)
                await hear_breaker(notices, "open")
        delivery = await the_delivery(handle)
        assert (delivery.state, delivery.attempts) == (DeliveryState.WAITING, 0)
        await outbox._lifeline.note_health()
        (health,) = await outbox.health()
        assert health.state == "open"
        assert health.detail == "connection refused"
        assert health.next_probe is not None
        async with relay:
            lane.network_back()
            job = await handle.published(PATIENCE)
    assert job.publish_attempts == 1


@pytest.mark.req("B9", "B10")
async def test_a_job_for_a_dead_relay_ends_with_its_lifetime(tmp_path: Path) -> None:
    dead = ScriptedRelay(accept)
    brief = RetryPolicy("brief", delays=(0.01,), lifetime=0.3)
    async with outbox_at(tmp_path, dead, lease=0.9) as outbox:
        job = await (await outbox.publish(make_event(), policy=brief)).settled(PATIENCE)
    assert job.state is JobState.FAILED
    assert job.error is not None
    assert job.error.code == "EXPIRED"
    assert job.publish_attempts == 0


@pytest.mark.req("B10", "C1")
async def test_one_dead_relay_does_not_hold_up_the_others(tmp_path: Path) -> None:
    dead = ScriptedRelay(accept)
    async with ScriptedRelay(accept) as alive, outbox_at(tmp_path, dead, alive) as outbox:
        handles = await outbox.publish_many(some_notes(30))
        jobs = await all_published(handles)
        assert not any(job.is_finished for job in jobs), "the dead relay's part still waits"
        assert len(alive.stored) == 30
        async with dead:
            jobs = await all_settled(handles)
            assert len(dead.stored) == 30
    assert {d.attempts for job in jobs for d in job.deliveries} == {1}


@pytest.mark.req("B10")
async def test_dead_relays_leave_their_lanes_to_the_living(tmp_path: Path) -> None:
    dead = [ScriptedRelay(accept) for _ in range(3)]
    async with ScriptedRelay(accept) as alive, outbox_at(tmp_path, lanes=2) as outbox:
        for relay in dead:
            await outbox.publish(make_event(), relays=[relay.url])
        with outbox.watch() as notices:
            await hear_breaker(notices, "open")
        await (await outbox.publish(make_event(), relays=[alive.url])).published(PATIENCE)


@pytest.mark.req("B10")
async def test_a_relay_that_lost_its_lane_is_still_left_alone_for_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three dead relays on two lanes: no more dials than their breakers allow."""
    monkeypatch.setattr("postrich.rules.health.FIRST_WAIT", 600.0)
    async with (
        ScriptedRelay(Script(handshake=http_status(503))) as one,
        ScriptedRelay(Script(handshake=http_status(503))) as two,
        ScriptedRelay(Script(handshake=http_status(503))) as three,
        ScriptedRelay(accept) as alive,
        outbox_at(tmp_path, lanes=2) as outbox,
    ):
        opened: list[str] = []
        take_lease = outbox._store.take_lease

        async def note(name: str, *args: Any) -> Any:
            opened.append(name)
            return await take_lease(name, *args)

        monkeypatch.setattr(outbox._store, "take_lease", note)
        for relay in (one, two, three):
            await outbox.publish(make_event(), relays=[relay.url])
        for relay in (one, two, three):
            await relay.wait_connections(1, PATIENCE)
        for number in range(20):
            event = make_event(content=str(number))
            await (await outbox.publish(event, relays=[alive.url])).published(PATIENCE)
        assert [relay.connections for relay in (one, two, three)] == [1, 1, 1]
        assert len([name for name in opened if name.startswith("relay:")]) == 4


@pytest.mark.parametrize("lanes", [1, 256])
@pytest.mark.req("B6", "B10")
async def test_a_retry_by_hand_tries_a_relay_that_is_left_alone(tmp_path: Path, lanes: int) -> None:
    """Whether the relay has a lane now, or lost it to another relay."""
    dead = ScriptedRelay(accept)
    async with ScriptedRelay(accept) as alive, outbox_at(tmp_path, lanes=lanes) as outbox:
        with outbox.watch() as notices:
            handle = await outbox.publish(make_event(), relays=[dead.url])
            await hear_breaker(notices, "open")
        lane = lane_of(outbox, dead)
        patient = msgspec.structs.replace(lane.breaker, until=lane.breaker.until + 3600)
        lane.breaker = patient
        await (await outbox.publish(make_event(), relays=[alive.url])).published(PATIENCE)
        assert len(outbox.lanes()) == min(lanes, 2)
        async with dead:
            await handle.retry()
            await handle.published(PATIENCE)


@pytest.mark.req("B9", "G4")
async def test_more_relays_than_lanes_all_get_theirs(tmp_path: Path) -> None:
    relays = [ScriptedRelay(accept) for _ in range(6)]
    for relay in relays:
        await relay.start()
    async with outbox_at(tmp_path, *relays, lanes=2) as outbox:
        jobs = await all_settled(await outbox.publish_many(some_notes(3)))
        assert len(outbox._fleet.lanes) <= 2
    assert all(len(job.delivered) == 6 for job in jobs)
    for relay in relays:
        assert len(relay.events) == 3
        await relay.stop()


@pytest.mark.req("B10")
async def test_the_probe_after_a_fault_is_exactly_one_event(tmp_path: Path) -> None:
    gate = Gate(accept)
    script = Script(gate, handshake=handshakes_in_turn(http_status(503), upgrade))
    async with ScriptedRelay(script) as relay, outbox_at(tmp_path, relay) as outbox:
        with outbox.watch() as notices:
            handles = await outbox.publish_many(some_notes(20))
            assert (await hear_breaker(notices, "open")).detail.startswith("no WebSocket")
            await hear_breaker(notices, "half-open")
            await relay.wait_events(1, PATIENCE)
            lane = lane_of(outbox, relay)
            lane.hint()
            await one_pass(lane)
            assert len(relay.events) == 1
            gate.open()
            await hear_breaker(notices, "closed")
        jobs = await all_published(handles)
    assert all(job.publish_attempts == 1 for job in jobs)


@pytest.mark.req("B9", "C9")
async def test_a_rate_limit_pauses_the_relay_and_burns_nothing(tmp_path: Path) -> None:
    async with ScriptedRelay(rate_limited(8)) as relay, outbox_at(tmp_path, relay) as outbox:
        with outbox.watch() as notices:
            handles = await outbox.publish_many(some_notes(12), Options(policy=SLOW))
            told = await hear_delivery(notices, DeliveryState.WAITING, "rate-limited")
            assert told.attempts == 0
            assert told.next_at is not None
            assert told.next_at > outbox._clock.now(), "the relay is left alone for a moment"
        jobs = await all_published(handles)
    assert {job.publish_attempts for job in jobs} == {1}


@pytest.mark.req("C2", "C9")
async def test_a_rate_limit_by_notice_pauses_too(tmp_path: Path) -> None:
    script = Sequence([notice("rate limited"), accept])
    async with ScriptedRelay(script) as relay, outbox_at(tmp_path, relay, timeout=0.3) as outbox:
        handles = await outbox.publish_many(some_notes(5))
        jobs = await all_published(handles)
        assert lane_of(outbox, relay).pace.resume_at > 0
    assert len(relay.stored) == 5
    assert max(job.publish_attempts for job in jobs) <= 2


@pytest.mark.req("B10", "C9")
async def test_a_close_for_going_too_fast_burns_nothing(tmp_path: Path) -> None:
    script = Sequence([close(1013, "try again later"), accept])
    async with ScriptedRelay(script) as relay, outbox_at(tmp_path, relay) as outbox:
        job = await (await outbox.publish(make_event(), policy=SLOW)).published(PATIENCE)
    assert job.publish_attempts == 1


@pytest.mark.req("B10", "C9")
async def test_after_a_socket_that_broke_under_many_the_window_begins_at_one(
    tmp_path: Path,
) -> None:
    async with (
        ScriptedRelay(Sequence([*[silent] * 15, drop, accept])) as relay,
        outbox_at(tmp_path, relay) as outbox,
    ):
        with outbox.watch() as notices:
            handles = await outbox.publish_many(some_notes(16))
            await hear_breaker(notices, "open")
            assert lane_of(outbox, relay).pace.window == 1
        jobs = await all_published(handles)
    assert {job.publish_attempts for job in jobs} == {1}


@pytest.mark.req("B10")
async def test_an_event_that_makes_the_relay_hang_up_is_found_alone(tmp_path: Path) -> None:
    poison = make_event(content="poison")
    script = choose(lambda event: drop if event["id"] == poison["id"] else accept)
    async with ScriptedRelay(script) as relay, outbox_at(tmp_path, relay) as outbox:
        notes = some_notes(40)
        notes.insert(7, poison)
        handles = await outbox.publish_many(notes, Options(policy=TWICE))
        jobs = {job.event_id: job for job in await all_settled(handles)}
    culprit = jobs.pop(poison["id"])
    assert culprit.state is JobState.FAILED
    assert culprit.deliveries[0].state is DeliveryState.UNKNOWN
    assert culprit.deliveries[0].code == "closed"
    assert culprit.publish_attempts == 2
    assert {job.state for job in jobs.values()} == {JobState.PUBLISHED}
    assert {job.publish_attempts for job in jobs.values()} == {1}, "the innocent lost no attempt"


@pytest.mark.req("B10")
async def test_an_event_too_large_for_the_relay_is_refused_alone(tmp_path: Path) -> None:
    large = make_event(content="x" * 3000)

    def by_size(event: Event):  # type: ignore[no-untyped-def]
        return close(1009, "too big") if len(event["content"]) > 2000 else accept

    async with ScriptedRelay(choose(by_size)) as relay, outbox_at(tmp_path, relay) as outbox:
        handles = await outbox.publish_many([large, *some_notes(10)])
        first, *others = await all_settled(handles)
    assert first.deliveries[0].state is DeliveryState.REFUSED
    assert first.deliveries[0].code == "too-large"
    assert {job.state for job in others} == {JobState.PUBLISHED}


@pytest.mark.parametrize("reason", ["", "bye"])
@pytest.mark.req("B8", "C9")
async def test_a_relay_that_closes_after_every_few_events_gets_them_all(
    tmp_path: Path, reason: str
) -> None:
    script = close_after(5, 1000, reason)
    async with ScriptedRelay(script) as relay, outbox_at(tmp_path, relay) as outbox:
        jobs = await all_published(await outbox.publish_many(some_notes(40)))
        assert relay.connections >= 8
    assert len(relay.stored) == 40
    assert all(job.publish_attempts == 1 for job in jobs)


async def test_a_relay_that_hangs_up_on_idle_lanes_is_no_fault(tmp_path: Path) -> None:
    async with ScriptedRelay(accept) as relay, outbox_at(tmp_path, relay) as outbox:
        await (await outbox.publish(make_event())).published(PATIENCE)
        lane = lane_of(outbox, relay)
        for client in list(relay.clients):
            await client.close(1000, "idle")
        await relay.wait_disconnected(PATIENCE)
        await (await outbox.publish(make_event())).published(PATIENCE)
        assert lane_of(outbox, relay) is lane
        assert lane.breaker.failures == 0
        assert relay.connections == 2


async def test_a_relay_that_opens_and_hangs_up_counts_as_one_fault(tmp_path: Path) -> None:
    async def leave(client: Client) -> None:
        client.drop()

    async with ScriptedRelay(Script(on_open=leave)) as relay, outbox_at(tmp_path, relay) as outbox:
        with outbox.watch() as notices:
            await outbox.publish(make_event())
            await hear_breaker(notices, "open")
            assert lane_of(outbox, relay).breaker.failures == 1


async def test_an_idle_lane_closes_its_socket_and_gives_its_lease_back(tmp_path: Path) -> None:
    async with (
        ScriptedRelay(accept) as relay,
        outbox_at(tmp_path, relay, idle=0.2) as outbox,
    ):
        await (await outbox.publish(make_event())).published(PATIENCE)
        lane = lane_of(outbox, relay)
        await relay.wait_disconnected(PATIENCE)
        assert relay.close_codes == [1000]
        taken = None
        async with asyncio.timeout(PATIENCE):
            while taken is None:
                now = outbox._clock.now()
                taken = await outbox._store.take_lease(lane.fence.name, "another", now, now)
        assert outbox.lanes() == []
        assert (await outbox.health())[0].state == "closed", "and its health stays known"
        await outbox._store.drop_lease(taken)
        await (await outbox.publish(make_event())).published(PATIENCE)
        assert relay.connections == 2


async def test_a_silent_event_does_not_hold_up_others_of_its_relay(tmp_path: Path) -> None:
    """One event in flight that gets no answer for long; another one's retry comes due."""
    mute = make_event(content="mute")
    again = Sequence([refuse("error: once more"), accept])
    script = choose(lambda event: silent if event["id"] == mute["id"] else again)
    async with ScriptedRelay(script) as relay, outbox_at(tmp_path, relay, timeout=3600) as outbox:
        await outbox.publish(mute)
        await relay.wait_events(1, PATIENCE)
        other = await outbox.publish(make_event(content="other"))
        job = await other.published(PATIENCE)
        assert job.publish_attempts == 2
        assert lane_of(outbox, relay)._links.load == 1, "the first is still in flight"
