"""Who goes first: priorities, fresh work before retries, and jobs that wait for others."""

from __future__ import annotations

from pathlib import Path

import pytest

from postrich import JobState, Priority, RetryPolicy
from postrich.accept import Options
from postrich.deliver.tray import TRUE_FOR
from postrich.errors import JobFailed, UnknownJob
from tests.deliver.outboxes import (
    PATIENCE,
    JumpingClock,
    all_published,
    contents,
    lane_of,
    one_pass,
    outbox_at,
    some_notes,
)
from tests.relays.events import make_event
from tests.relays.scripted import ScriptedRelay
from tests.relays.scripts import Gate, Sequence, accept, choose, refuse

ONCE = RetryPolicy("one try", delays=(0.01,), max_attempts=1, lifetime=600.0)


@pytest.mark.req("A10")
async def test_urgent_goes_before_normal_before_bulk(tmp_path: Path) -> None:
    async with ScriptedRelay(accept) as relay, outbox_at(tmp_path, relay) as outbox:
        outbox.set_online(False)
        handles = []
        for priority in (Priority.BULK, Priority.NORMAL, Priority.LATER, Priority.URGENT):
            for number in range(3):
                note = make_event(content=f"{priority.name} {number}")
                handles.append(await outbox.publish(note, priority=priority))
        outbox.set_online(True)
        await all_published(handles)
    assert contents(relay.events) == [
        f"{name} {number}" for name in ("URGENT", "NORMAL", "LATER", "BULK") for number in range(3)
    ]


@pytest.mark.parametrize("elsewhere", [False, True])
@pytest.mark.req("A10")
async def test_an_urgent_event_overtakes_what_a_slow_relay_has_not_taken_yet(
    tmp_path: Path, elsewhere: bool
) -> None:
    """Whether this process or another one on the same file takes it in."""
    gate, clock = Gate(accept), JumpingClock()
    async with (
        ScriptedRelay(gate) as relay,
        outbox_at(tmp_path, relay, window=1, clock=clock) as outbox,
    ):
        handles = await outbox.publish_many(some_notes(100), Options(priority=Priority.BULK))
        await relay.wait_events(1, PATIENCE)
        urgent = make_event(content="urgent")
        if elsewhere:
            async with outbox_at(tmp_path, relay, deliver=False) as other:
                await other.publish(urgent, priority=Priority.URGENT)
        else:
            await outbox.publish(urgent, priority=Priority.URGENT)
        clock.ahead += TRUE_FOR + 0.1
        gate.open()
        await all_published(handles)
        await relay.wait_events(101, PATIENCE)
    assert contents(relay.events)[1] == "urgent"


@pytest.mark.req("A10")
async def test_an_urgent_event_goes_ahead_of_what_was_just_handed_in(tmp_path: Path) -> None:
    gate = Gate(accept)
    async with ScriptedRelay(gate) as relay, outbox_at(tmp_path, relay, window=1) as outbox:
        first = await outbox.publish(make_event(content="first"))
        await relay.wait_events(1, PATIENCE)
        await one_pass(lane_of(outbox, relay))  # it has looked: nothing else is due
        handles = [first, *await outbox.publish_batch(some_notes(3))]
        handles.append(await outbox.publish(make_event(content="urgent"), priority=Priority.URGENT))
        gate.open()
        await all_published(handles)
    assert contents(relay.events) == ["first", "urgent", "note 0", "note 1", "note 2"]


@pytest.mark.req("B9")
async def test_fresh_work_is_not_starved_by_retries(tmp_path: Path) -> None:
    """Hundreds of events that come back at once, again and again, and one that is new."""
    script = choose(
        lambda event: refuse("error: busy") if event["content"].startswith("old") else accept
    )
    storm = RetryPolicy("storm", delays=(0.0,), lifetime=600.0)
    async with ScriptedRelay(script) as relay, outbox_at(tmp_path, relay) as outbox:
        await outbox.publish_many(some_notes(600, start="old"), Options(policy=storm))
        await relay.wait_events(1200, PATIENCE)
        for number in range(5):
            fresh = await outbox.publish(make_event(content=f"fresh {number}"))
            job = await fresh.published(PATIENCE)
            assert job.publish_attempts == 1


@pytest.mark.req("A10")
async def test_a_share_waits_for_its_workout(tmp_path: Path) -> None:
    slow = Sequence([refuse("error: not now"), refuse("error: not yet"), accept])
    async with ScriptedRelay(slow) as relay, outbox_at(tmp_path, relay) as outbox:
        workout = await outbox.publish(make_event(content="workout"))
        share = await outbox.publish(make_event(content="share"), after=[workout])
        further = await outbox.publish(make_event(content="further"), after=[share.id])
        assert (await further.status()).waits_for == (share.id,)
        await further.published(PATIENCE)
    assert contents(relay.events) == ["workout"] * 3 + ["share", "further"]


@pytest.mark.req("A10")
async def test_what_waits_for_a_published_job_goes_at_once(tmp_path: Path) -> None:
    async with ScriptedRelay(accept) as relay, outbox_at(tmp_path, relay) as outbox:
        workout = await outbox.publish(make_event(content="workout"))
        await workout.published(PATIENCE)
        await (await outbox.publish(make_event(), after=[workout])).published(PATIENCE)


@pytest.mark.req("A10")
async def test_what_waits_for_a_failed_job_is_parked_until_that_is_retried(tmp_path: Path) -> None:
    moody = Sequence([refuse("blocked: no"), accept])
    async with ScriptedRelay(moody) as relay, outbox_at(tmp_path, relay) as outbox:
        workout = await outbox.publish(make_event(content="workout"))
        share = await outbox.publish(make_event(content="share"), after=[workout])
        with pytest.raises(JobFailed, match="waits for was not published"):
            await share.published(PATIENCE)
        parked = await share.status()
        assert parked.state is JobState.PARKED
        assert parked.error is not None
        assert parked.error.code == "DEPENDENCY"
        await workout.retry()
        await workout.published(PATIENCE)
        await share.retry()
        await share.published(PATIENCE)
    assert contents(relay.events) == ["workout", "workout", "share"]


@pytest.mark.req("A10")
async def test_nothing_is_kept_for_a_job_that_waits_for_none(tmp_path: Path) -> None:
    async with ScriptedRelay(accept) as relay, outbox_at(tmp_path, relay) as outbox:
        with pytest.raises(UnknownJob, match="no job 99"):
            await outbox.publish(make_event(), after=[99])
        assert await outbox.jobs() == []
