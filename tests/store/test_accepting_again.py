"""A known event handed in again: its one job learns what is new (A9)."""

from __future__ import annotations

import pytest

from postrich.model.delivery import DeliveryState
from postrich.model.job import JobState
from postrich.store.port import Store
from tests.store.making import (
    BLUE,
    DAY,
    HOUR,
    NOW,
    RED,
    ended,
    fail,
    hand_in,
    lane,
    look,
    named,
    publish,
    snapshot,
    state_of,
    where,
    wish,
)


@pytest.mark.req("A9", "D11")
async def test_a_new_relay_for_a_known_event_is_one_more_delivery(store: Store) -> None:
    number = await hand_in(store, "hello", RED)
    hand = await lane(store, RED)
    await hand.deliver(number)
    finished = await look(store, number)
    assert finished.is_finished

    answer = await store.accept([wish("hello", RED, BLUE)], NOW + HOUR)
    assert answer.accepted[0].state is JobState.PUBLISHED
    assert answer.destinations >= {w.destination.id for w in await store.work()}
    job = await look(store, number)
    assert where(job, RED).state is DeliveryState.DELIVERED
    assert where(job, BLUE).state is DeliveryState.WAITING
    assert (job.state, job.is_finished) == (JobState.PUBLISHED, False)
    assert job.published_at == finished.published_at
    assert await hand.jobs(NOW + HOUR) == []  # never sent there again


@pytest.mark.req("A9", "D11")
async def test_a_new_relay_brings_an_archived_job_back(store: Store) -> None:
    number = await hand_in(store, "hello", RED)
    await publish(store, number)
    await store.archive(NOW, 10)
    assert await hand_in(store, "hello", BLUE, now=NOW + HOUR) == number

    await publish(store, number, NOW + HOUR)
    job = await look(store, number)
    assert {d.relay for d in job.delivered} == {RED, BLUE}
    assert job.is_finished


@pytest.mark.req("B9", "D11")
async def test_a_new_relay_gets_the_lifetime_it_was_handed_in_with(store: Store) -> None:
    number = await hand_in(store, "hello", RED)
    await publish(store, number)
    await store.archive(NOW, 10)
    later = NOW + 10 * DAY
    await hand_in(store, "hello", BLUE, now=later, expires_at=later + DAY)
    assert await store.expire(later, 10) == []
    assert await (await lane(store, BLUE)).jobs(later) == [number]


@pytest.mark.req("A9")
async def test_a_known_event_without_a_new_relay_changes_nothing(store: Store) -> None:
    number = await hand_in(store, "hello", RED, BLUE)
    await publish(store, number)
    before = await snapshot(store)
    await hand_in(store, "hello", BLUE, now=NOW + HOUR)
    assert await snapshot(store) == before
    await store.archive(NOW, 10)
    before = await snapshot(store)
    await hand_in(store, "hello", RED, now=NOW + HOUR)
    assert await snapshot(store) == before


@pytest.mark.req("A9")
async def test_a_new_relay_opens_a_failed_and_a_parked_job(store: Store) -> None:
    failed = await hand_in(store, "failed", RED)
    parked = await hand_in(store, "parked", RED)
    await fail(store, failed)
    hand = await lane(store, RED)
    await hand.report(ended(parked, DeliveryState.PARKED))
    for number, text in ((failed, "failed"), (parked, "parked")):
        await hand_in(store, text, BLUE)
        assert await state_of(store, number) is JobState.PENDING_PUBLISH
        await (await lane(store, BLUE)).deliver(number)
        assert await state_of(store, number) is JobState.PUBLISHED


@pytest.mark.req("A9")
async def test_a_new_relay_for_an_event_that_is_not_due_waits_with_it(store: Store) -> None:
    number = await hand_in(store, "later", RED, due_at=NOW + HOUR)
    await hand_in(store, "later", RED, BLUE)
    job = await look(store, number)
    assert (job.state, {d.relay for d in job.deliveries}) == (JobState.SCHEDULED, {RED, BLUE})
    await publish(store, number, NOW + HOUR)
    assert {d.relay for d in (await look(store, number)).delivered} == {RED, BLUE}


@pytest.mark.req("A9", "A11")
async def test_a_cancelled_event_stays_cancelled(store: Store) -> None:
    number = await hand_in(store, "hello")
    await store.cancel(named(number), NOW)
    [accepted] = (await store.accept([wish("hello", BLUE)], NOW)).accepted
    assert (accepted.job, accepted.state) == (number, JobState.CANCELLED)
    assert await store.work() == []
