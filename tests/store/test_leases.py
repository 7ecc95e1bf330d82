"""Leases: one holder at a time, and nothing is written by one who holds no more."""

from __future__ import annotations

import asyncio

import pytest

from postrich.errors import LeaseLost
from postrich.model.delivery import DeliveryState, Fence
from postrich.model.job import JobError, JobState, Phase
from postrich.store.port import Store, WorkerInfo
from tests.store.making import (
    BLUE,
    HOUR,
    NOW,
    RED,
    SECOND,
    again,
    desk,
    draft,
    ended,
    hand_in,
    lane,
    look,
    routed,
    signature_of,
    snapshot,
    stage,
    state_of,
)

pytestmark = pytest.mark.req("A8")


async def take(
    store: Store, owner: str, now: int = NOW, name: str = "lane", until: int = 0
) -> Fence | None:
    return await store.take_lease(name, owner, now, until or now + 10 * SECOND)


async def test_a_lease_has_one_holder(store: Store) -> None:
    fence = await take(store, "one")
    assert fence == Fence("lane", "one", fence.epoch if fence else 0)
    assert await take(store, "two") is None
    assert await take(store, "two", name="other lane") is not None


async def test_many_ask_and_one_gets_it(store: Store) -> None:
    answers = await asyncio.gather(*(take(store, f"worker {n}") for n in range(20)))
    assert sum(answer is not None for answer in answers) == 1


async def test_a_lapsed_lease_is_free_and_its_epoch_rises(store: Store) -> None:
    first = await take(store, "one", until=NOW + 100)
    assert await take(store, "two", now=NOW + 99) is None
    second = await take(store, "two", now=NOW + 100)
    assert first is not None
    assert second is not None
    assert second.epoch > first.epoch
    third = await take(store, "one", now=NOW + HOUR)
    assert third is not None
    assert third.epoch > second.epoch


async def test_its_holder_keeps_the_epoch(store: Store) -> None:
    first = await take(store, "one")
    assert await take(store, "one", now=NOW + SECOND) == first
    assert await take(store, "one", now=NOW + HOUR) == first  # lapsed, and nobody came


async def test_taking_it_again_holds_it_for_longer(store: Store) -> None:
    await take(store, "one", until=NOW + 100)
    await take(store, "one", until=NOW + 200)
    assert await take(store, "two", now=NOW + 150) is None


async def test_renewing_holds_all_of_ones_own(store: Store) -> None:
    await take(store, "one", name="a", until=NOW + 100)
    await take(store, "one", name="b", until=NOW + 100)
    await take(store, "two", name="c", until=NOW + 100)
    await store.renew_leases("one", NOW + 300)
    assert await take(store, "three", now=NOW + 200, name="a") is None
    assert await take(store, "three", now=NOW + 200, name="b") is None
    assert await take(store, "three", now=NOW + 200, name="c") is not None


async def test_what_was_taken_over_is_not_renewed(store: Store) -> None:
    await take(store, "one", until=NOW + 100)
    await take(store, "two", now=NOW + 100, until=NOW + 200)
    await store.renew_leases("one", NOW + HOUR)
    assert await take(store, "three", now=NOW + 300) is not None


async def test_a_dropped_lease_is_free_and_stays_so(store: Store) -> None:
    fence = await take(store, "one")
    kept = await take(store, "one", name="kept")
    assert fence is not None
    assert kept is not None
    await store.drop_lease(fence)
    await store.renew_leases("one", NOW + HOUR)
    assert await take(store, "two", name="kept") is None
    taken = await take(store, "two")
    assert taken is not None
    assert taken.epoch > fence.epoch


async def test_dropping_a_lost_lease_does_not_free_it(store: Store) -> None:
    lost = await take(store, "one", until=NOW + 100)
    await take(store, "two", now=NOW + 100)
    assert lost is not None
    await store.drop_lease(lost)
    assert await take(store, "three", now=NOW + 101) is None


@pytest.mark.req("B8")
async def test_a_worker_that_left_holds_nothing(store: Store) -> None:
    for owner in ("one", "two"):
        await store.enlist(WorkerInfo(owner, "host", 7, "serve", NOW, NOW))
        await take(store, owner, name=owner)
    await store.dismiss("one")
    assert [worker.owner for worker in await store.workers()] == ["two"]
    assert await take(store, "three", name="one") is not None
    assert await take(store, "three", name="two") is None


async def test_workers_are_known_by_what_they_said(store: Store) -> None:
    worker = WorkerInfo("one", "host", 4711, "serve", NOW, NOW + SECOND)
    await store.enlist(worker)
    assert await store.workers() == [worker]
    await store.enlist(WorkerInfo("one", "host", 4711, "serve", NOW, NOW + HOUR))
    assert await store.workers() == [WorkerInfo("one", "host", 4711, "serve", NOW, NOW + HOUR)]


async def test_a_lane_that_was_taken_over_writes_nothing(store: Store) -> None:
    number = await hand_in(store, "hello", RED)
    hand = await lane(store, RED, "one")
    stolen = await store.take_lease(hand.fence.name, "two", NOW + 2 * HOUR, NOW + 3 * HOUR)
    assert stolen is not None
    before = await snapshot(store)
    with pytest.raises(LeaseLost, match="another worker"):
        await hand.deliver(number)
    with pytest.raises(LeaseLost):
        await hand.report(ended(number, DeliveryState.REFUSED), again(number))
    assert await snapshot(store) == before


async def test_the_same_owner_under_an_old_epoch_writes_nothing(store: Store) -> None:
    number = await hand_in(store, "hello", RED)
    hand = await lane(store, RED, "one")
    name = hand.fence.name
    await store.take_lease(name, "two", NOW + 2 * HOUR, NOW + 3 * HOUR)
    await store.take_lease(name, "one", NOW + 4 * HOUR, NOW + 5 * HOUR)
    with pytest.raises(LeaseLost):
        await hand.deliver(number)
    assert await state_of(store, number) is JobState.PENDING_PUBLISH


async def test_one_lost_lane_does_not_spoil_the_others(store: Store) -> None:
    number = await hand_in(store, "hello", RED, BLUE)
    red, blue = await lane(store, RED, "one"), await lane(store, BLUE, "one")
    await store.take_lease(red.fence.name, "two", NOW + 2 * HOUR, NOW + 3 * HOUR)
    answers = await asyncio.gather(
        red.deliver(number), blue.deliver(number), return_exceptions=True
    )
    assert isinstance(answers[0], LeaseLost)
    assert isinstance(answers[1], list)
    job = await look(store, number)
    assert {d.relay: d.state for d in job.deliveries} == {
        RED: DeliveryState.WAITING,
        BLUE: DeliveryState.DELIVERED,
    }


async def test_a_lapsed_lease_that_nobody_took_still_counts(store: Store) -> None:
    number = await hand_in(store, "hello")
    hand = await lane(store)
    await hand.deliver(number, now=NOW + 2 * HOUR)
    assert await state_of(store, number) is JobState.PUBLISHED


@pytest.mark.req("A8", "A2")
async def test_a_stager_that_was_taken_over_writes_nothing(store: Store) -> None:
    content = draft("unsigned")
    unsigned = await hand_in(store, content)
    await hand_in(store, "later", due_at=NOW + 1)
    lost, lost_desk = await stage(store, "one"), await desk(store, "one")
    items = await store.stage_due(NOW + 1, 10)
    for name in ("stage", lost_desk.name):
        await store.take_lease(name, "two", NOW + 2 * HOUR, NOW + 3 * HOUR)
    before = await snapshot(store)
    with pytest.raises(LeaseLost):
        await store.signed(lost_desk, unsigned, signature_of(content), NOW)
    error = JobError(Phase.SIGN, "TIMEOUT", "too late")
    with pytest.raises(LeaseLost):
        await store.not_signed(lost_desk, unsigned, error, None, False, NOW)
    with pytest.raises(LeaseLost):
        await store.route(lost, routed(items), NOW + 1)
    assert await snapshot(store) == before


@pytest.mark.req("G4")
async def test_destinations_have_names(store: Store) -> None:
    await hand_in(store, "for two", RED, BLUE)
    numbers = {work.destination.url: work.destination.id for work in await store.work()}
    assert await store.relay_urls([numbers[RED]]) == {numbers[RED]: RED}
    assert await store.relay_urls([*numbers.values(), 10**6]) == {n: u for u, n in numbers.items()}
    assert await store.relay_urls([]) == {}
