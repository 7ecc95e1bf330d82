"""Changing one's mind: newer versions, deletions, cancelling, retrying and deleting by hand."""

from __future__ import annotations

import asyncio
import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from postrich import JobFilter, JobState, RetryPolicy, parse_event
from postrich.accept import parcel_of
from postrich.deliver.tray import TRUE_FOR
from postrich.errors import IllegalMove, JobFailed, UnknownJob
from postrich.model.delivery import DeliveryState, Flight
from postrich.model.job import NewJob
from postrich.wire.connection import Connection
from tests.deliver.outboxes import (
    PATIENCE,
    SLOW,
    JumpingClock,
    all_published,
    contents,
    hear_delivery,
    lane_of,
    outbox_at,
    some_notes,
)
from tests.relays.events import make_event, public_key
from tests.relays.scripted import ScriptedRelay
from tests.relays.scripts import Gate, Sequence, accept, refuse

KEY = os.urandom(32)
ONE_TRY = RetryPolicy("one try", delays=(0.01,), max_attempts=1, lifetime=600.0)
RESETTING = RetryPolicy(
    "resetting", delays=(0.01,), max_attempts=2, lifetime=600.0, retry_resets=True
)


@pytest.mark.parametrize(("kind", "tags"), [(0, []), (10002, []), (30023, [("d", "essay")])])
@pytest.mark.req("A11")
async def test_a_newer_version_supersedes_the_one_that_waits(
    tmp_path: Path, kind: int, tags: list[tuple[str, str]]
) -> None:
    now = int(time.time())
    async with ScriptedRelay(accept) as relay, outbox_at(tmp_path, relay) as outbox:
        outbox.set_online(False)
        old = await outbox.publish(make_event(KEY, kind, "old", tags, now - 5))
        new = await outbox.publish(make_event(KEY, kind, "new", tags, now))
        older = await outbox.publish(make_event(KEY, kind, "older", tags, now - 9))
        assert older.state is JobState.SUPERSEDED
        outbox.set_online(True)
        await new.published(PATIENCE)
        for handle in (old, older):
            assert (await handle.settled(PATIENCE)).state is JobState.SUPERSEDED
            with pytest.raises(JobFailed, match="superseded"):
                await handle.published(PATIENCE)
    assert contents(relay.events) == ["new"]


@pytest.mark.req("A11")
async def test_versions_handed_in_together_send_only_the_newest(tmp_path: Path) -> None:
    """Also to a relay whose lane is open and free to send at once."""
    now = int(time.time())
    versions = [make_event(KEY, 0, f"version {n}", created_at=now + n) for n in range(3)]
    async with ScriptedRelay(accept) as relay, outbox_at(tmp_path, relay) as outbox:
        await (await outbox.publish(make_event())).published(PATIENCE)
        handles = await outbox.publish_batch(versions)
        await handles[2].published(PATIENCE)
        await (await outbox.publish(make_event(content="last"))).published(PATIENCE)
        states = [(await handle.status()).state for handle in handles]
    assert states == [JobState.SUPERSEDED, JobState.SUPERSEDED, JobState.PUBLISHED]
    assert contents(relay.events) == ["", "version 2", "last"]


@pytest.mark.req("A11")
async def test_a_deletion_takes_back_what_waits(tmp_path: Path) -> None:
    note, kept = make_event(KEY, content="a slip"), make_event(content="another's")
    targets = [("e", note["id"]), ("e", kept["id"])]
    deletion = make_event(KEY, 5, "deletion", targets)
    async with ScriptedRelay(accept) as relay, outbox_at(tmp_path, relay) as outbox:
        outbox.set_online(False)
        first, other, third = await outbox.publish_batch([note, kept, deletion])
        assert (await first.status()).state is JobState.CANCELLED
        outbox.set_online(True)
        await all_published([other, third])
    assert set(contents(relay.events)) == {"another's", "deletion"}


@pytest.mark.req("A11")
async def test_a_note_handed_in_with_its_own_deletion_never_goes_out(tmp_path: Path) -> None:
    note = make_event(KEY, content="a slip")
    deletion = make_event(KEY, 5, "deletion", [("e", note["id"])])
    async with ScriptedRelay(accept) as relay, outbox_at(tmp_path, relay) as outbox:
        await (await outbox.publish(make_event(content="first"))).published(PATIENCE)
        slip, deleted = await outbox.publish_batch([note, deletion])
        await deleted.published(PATIENCE)
        await (await outbox.publish(make_event(content="last"))).published(PATIENCE)
        assert (await slip.status()).state is JobState.CANCELLED
    assert contents(relay.events) == ["first", "deletion", "last"]


@pytest.mark.req("A11")
async def test_vanishing_takes_back_everything_older(tmp_path: Path) -> None:
    now = int(time.time())
    notes = [make_event(KEY, content=f"{n}", created_at=now - n) for n in range(3)]
    vanish = make_event(KEY, 62, "farewell", [("relay", "ALL_RELAYS")], now)
    async with ScriptedRelay(accept) as relay, outbox_at(tmp_path, relay) as outbox:
        outbox.set_online(False)
        handles = await outbox.publish_batch(notes)
        last = await outbox.publish(vanish)
        outbox.set_online(True)
        await last.published(PATIENCE)
        states = {(await handle.status()).state for handle in handles}
    assert states == {JobState.CANCELLED}
    assert contents(relay.events) == ["farewell"]


@pytest.mark.req("A11")
async def test_vanishing_from_one_relay_leaves_the_others_alone(tmp_path: Path) -> None:
    async with (
        ScriptedRelay(accept) as left,
        ScriptedRelay(accept) as kept,
        outbox_at(tmp_path, left, kept) as outbox,
    ):
        outbox.set_online(False)
        note = await outbox.publish(make_event(KEY, content="note"))
        vanish = make_event(KEY, 62, "farewell", [("relay", left.url)])
        goodbye = await outbox.publish(vanish, relays=[left.url])
        outbox.set_online(True)
        await all_published([note, goodbye])
    assert contents(left.events) == ["farewell"]
    assert contents(kept.events) == ["note"]


async def test_cancelled_while_it_waits_it_is_never_sent(tmp_path: Path) -> None:
    async with ScriptedRelay(accept) as relay, outbox_at(tmp_path, relay) as outbox:
        outbox.set_online(False)
        handle = await outbox.publish(make_event(content="cancelled"))
        await handle.cancel()
        outbox.set_online(True)
        await (await outbox.publish(make_event(content="sent"))).published(PATIENCE)
        job = await handle.status()
        assert job.state is JobState.CANCELLED
        assert job.deliveries[0].state is DeliveryState.CANCELLED
        with pytest.raises(JobFailed, match="cancelled"):
            await handle.published(PATIENCE)
    assert contents(relay.events) == ["sent"]


@pytest.mark.parametrize("elsewhere", [False, True])
async def test_cancelled_while_a_lane_holds_it_it_is_never_sent(
    tmp_path: Path, elsewhere: bool
) -> None:
    """By this process or by another one that works on the same file."""
    gate, clock = Gate(accept), JumpingClock()
    async with (
        ScriptedRelay(gate) as relay,
        outbox_at(tmp_path, relay, window=1, clock=clock) as outbox,
    ):
        first, second, third = await outbox.publish_batch(some_notes(3))
        await relay.wait_events(1, PATIENCE)
        lane = lane_of(outbox, relay)
        assert second.id in lane._tray.held
        if elsewhere:
            async with outbox_at(tmp_path, relay, deliver=False) as other:
                await other.cancel(JobFilter(jobs=(second.id,)))
        else:
            await second.cancel()
        clock.ahead += TRUE_FOR + 0.1
        gate.open()
        await all_published([first, third])
        assert (await second.status()).state is JobState.CANCELLED
    assert contents(relay.events) == ["note 0", "note 2"]


async def test_cancelled_during_the_claim_it_is_never_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with ScriptedRelay(accept) as relay, outbox_at(tmp_path, relay) as outbox:
        outbox.set_online(False)
        handle = await outbox.publish(make_event(content="cancelled"))
        claim = outbox._store.claim
        was_cancelled = False

        async def claim_and_cancel(*args, **values):  # type: ignore[no-untyped-def]
            nonlocal was_cancelled
            found = await claim(*args, **values)
            if found and not was_cancelled:
                was_cancelled = True
                await handle.cancel()
            return found

        monkeypatch.setattr(outbox._store, "claim", claim_and_cancel)
        outbox.set_online(True)
        await (await outbox.publish(make_event(content="sent"))).published(PATIENCE)
        await (await outbox.publish(make_event(content="last"))).published(PATIENCE)
        assert was_cancelled
        assert (await handle.status()).state is JobState.CANCELLED
    assert "cancelled" not in contents(relay.events)


@pytest.mark.req("A3")
async def test_cancelled_in_flight_the_truth_is_recorded(tmp_path: Path) -> None:
    gate = Gate(accept)
    async with ScriptedRelay(gate) as relay, outbox_at(tmp_path, relay) as outbox:
        handle = await outbox.publish(make_event())
        await relay.wait_events(1, PATIENCE)
        await handle.cancel()
        assert (await handle.status()).state is JobState.CANCELLED
        with outbox.watch() as notices:
            gate.open()
            await hear_delivery(notices, DeliveryState.DELIVERED)
        job = await handle.status()
    assert job.state is JobState.PUBLISHED, "the relay has it, whatever we wished"
    assert job.deliveries[0].state is DeliveryState.DELIVERED


async def test_cancelled_in_flight_and_refused_it_stays_cancelled(tmp_path: Path) -> None:
    gate = Gate(refuse("error: later"))
    async with ScriptedRelay(gate) as relay, outbox_at(tmp_path, relay) as outbox:
        handle = await outbox.publish(make_event())
        await relay.wait_events(1, PATIENCE)
        await handle.cancel()
        with outbox.watch() as notices:
            gate.open()
            await hear_delivery(notices, DeliveryState.WAITING, "error")
        job = await handle.status()
        assert job.state is JobState.CANCELLED
        assert len(relay.events) == 1


@pytest.mark.req("B2", "B6")
async def test_retry_by_hand_acts_at_once_and_keeps_the_counter(tmp_path: Path) -> None:
    script = Sequence([refuse("error: busy"), accept])
    async with ScriptedRelay(script) as relay, outbox_at(tmp_path, relay) as outbox:
        with outbox.watch() as notices:
            handle = await outbox.publish(make_event(), policy=SLOW)
            await hear_delivery(notices, DeliveryState.WAITING, "error")
            before = await handle.status()
            assert before.error is not None
            assert before.next_at is not None
            assert before.next_at > outbox._clock.now() + 1_000_000
            outbox.set_online(False)
            await handle.retry()
            assert (await handle.status()).error is None, "the phase error is cleared"
            outbox.set_online(True)
            job = await handle.published(PATIENCE)
    assert job.publish_attempts == 2


@pytest.mark.req("B5", "B6")
async def test_retry_of_a_failed_job_resets_the_counter_where_the_policy_says(
    tmp_path: Path,
) -> None:
    script = Sequence([*[refuse("error: busy")] * 3, accept])
    async with ScriptedRelay(script) as relay, outbox_at(tmp_path, relay) as outbox:
        handle = await outbox.publish(make_event(), policy=RESETTING)
        assert (await handle.settled(PATIENCE)).publish_attempts == 2
        await handle.retry()
        job = await handle.published(PATIENCE)
    assert job.publish_attempts == 2, "one refused and one accepted since the retry"


@pytest.mark.req("B6")
async def test_retry_of_one_that_expired_gives_it_a_new_life(tmp_path: Path) -> None:
    """Also where another process retries it, while this one has its old lifetime in memory."""
    brief = RetryPolicy("brief", delays=(0.01,), lifetime=0.3)
    dead = ScriptedRelay(accept)
    async with outbox_at(tmp_path, dead, lease=0.9) as outbox:
        handle = await outbox.publish(make_event(), policy=brief)
        assert (await handle.settled(PATIENCE)).state is JobState.FAILED
        again = await outbox.publish(make_event(content="kept"), policy="quick")
        old = await outbox._shared.parcels.get([again.id])
        stale = old[again.id]
        outbox._shared.parcels._kept[again.id] = type(stale)(
            stale.job,
            stale.event_id,
            stale.pubkey,
            stale.created_at,
            stale.priority,
            1,
            stale.policy,
            stale.frame,
        )
        async with dead, outbox_at(tmp_path, dead, deliver=False) as other:
            await other.retry(JobFilter(jobs=(again.id,)))
            lane_of(outbox, dead).network_back()
            await again.published(PATIENCE)


@pytest.mark.req("B6")
async def test_bulk_retry_and_delete_by_filter(tmp_path: Path) -> None:
    async with (
        ScriptedRelay(Sequence([*[refuse("blocked: no")] * 3, accept])) as relay,
        outbox_at(tmp_path, relay) as outbox,
    ):
        handles = await outbox.publish_batch(some_notes(3))
        for handle in handles:
            await handle.settled(PATIENCE)
        failed = JobFilter(states=(JobState.FAILED,))
        assert sorted(await outbox.retry(failed)) == [handle.id for handle in handles]
        await all_published(handles)
        assert await outbox.retry(failed) == []
        gone = await outbox.delete(JobFilter(states=(JobState.PUBLISHED,)))
        assert sorted(gone) == [handle.id for handle in handles]
        assert await outbox.jobs() == []


@pytest.mark.req("B6")
async def test_delete_removes_a_failed_item_with_all_that_belongs_to_it(tmp_path: Path) -> None:
    async with (
        ScriptedRelay(Sequence([refuse("error: no"), accept])) as relay,
        outbox_at(tmp_path, relay) as outbox,
    ):
        event = make_event()
        handle = await outbox.publish(event, policy=ONE_TRY)
        await handle.settled(PATIENCE)
        await handle.delete()
        with pytest.raises(UnknownJob):
            await handle.status()
        assert await outbox.story(handle.id) == []
        assert (await outbox.status()).failed == 0
        with pytest.raises(UnknownJob):
            await handle.delete()
        again = await outbox.publish(event)
        assert again.is_new, "the same event may be handed in anew"
        await again.published(PATIENCE)


@pytest.mark.req("A3", "B6")
async def test_what_the_state_does_not_allow_is_refused(tmp_path: Path) -> None:
    async with ScriptedRelay(accept) as relay, outbox_at(tmp_path, relay) as outbox:
        outbox.set_online(False)
        waiting = await outbox.publish(make_event())
        with pytest.raises(IllegalMove, match="cannot be deleted"):
            await waiting.delete()
        outbox.set_online(True)
        await waiting.published(PATIENCE)
        with pytest.raises(IllegalMove, match="cannot be cancelled"):
            await waiting.cancel()


@pytest.mark.req("B6", "C3")
async def test_cancelled_while_its_socket_is_dialled_it_is_never_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dialling, go_on = asyncio.Event(), asyncio.Event()
    dial = Connection.dial

    async def slow_dial(*args: Any, **options: Any) -> Connection:
        dialling.set()
        await go_on.wait()
        return await dial(*args, **options)

    monkeypatch.setattr(Connection, "dial", slow_dial)
    async with ScriptedRelay(accept) as relay, outbox_at(tmp_path, relay) as outbox:
        handle = await outbox.publish(make_event(content="cancelled"))
        await dialling.wait()
        await handle.cancel()
        go_on.set()
        await (await outbox.publish(make_event(content="sent"))).published(PATIENCE)
        assert (await handle.status()).state is JobState.CANCELLED
    assert contents(relay.events) == ["sent"]


async def test_what_waits_for_a_socket_of_its_own_is_put_back_when_it_changes(
    tmp_path: Path,
) -> None:
    key = os.urandom(32)
    async with ScriptedRelay(accept) as relay, outbox_at(tmp_path, relay) as outbox:
        await (await outbox.publish(make_event())).published(PATIENCE)
        lane = lane_of(outbox, relay)
        lane._links.identities.add(public_key(key))
        flight = Flight(parcel_of(7, _job(make_event(key))), 0, lane._shared.clock.tick())
        lane._tray.held.add(7)
        lane._tray.waiting.append(flight)
        lane._pump()
        assert lane._tray.unlinked == [flight]
        lane.forget({7})
        assert not lane._tray.unlinked
        assert 7 not in lane._tray.held


def _job(event: dict[str, Any]) -> NewJob:
    content = parse_event(json.dumps(event))
    return NewJob(content, (), SLOW, 2**53)
