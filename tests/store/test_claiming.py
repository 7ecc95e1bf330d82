"""Claim: what a lane is given, in which order, and that asking changes nothing."""

from __future__ import annotations

import pytest

from postrich.model.delivery import NO_FLOORS, DeliveryState, Floors, event_frame
from postrich.model.job import JobFilter, Priority
from postrich.store.port import Store, Work
from tests.store.making import (
    BLUE,
    HOUR,
    INTERACTIVE,
    NOW,
    RED,
    again,
    draft,
    ended,
    hand_in,
    lane,
    named,
    note,
    publish,
    snapshot,
)


@pytest.mark.req("A10")
async def test_urgent_goes_before_later_and_early_before_late(store: Store) -> None:
    bulk = await hand_in(store, "bulk", priority=Priority.BULK, now=NOW - 9)
    later = await hand_in(store, "later", priority=Priority.LATER, now=NOW - 8)
    second = await hand_in(store, "second", now=NOW - 2)
    first = await hand_in(store, "first", now=NOW - 3)
    urgent = await hand_in(store, "urgent", priority=Priority.URGENT, now=NOW - 1)
    assert await (await lane(store)).jobs() == [urgent, first, second, later, bulk]


@pytest.mark.req("B9")
async def test_fresh_work_goes_before_retried_each_with_its_limit(store: Store) -> None:
    numbers = [await hand_in(store, f"note {n}") for n in range(8)]
    hand = await lane(store)
    tried, fresh = numbers[:4], numbers[4:]
    await hand.report(*(again(number, at=NOW) for number in tried))

    assert await hand.jobs() == fresh + tried
    assert await hand.claim(fresh=2, retried=1) == [(fresh[0], 0), (fresh[1], 0), (tried[0], 1)]
    assert await hand.claim(fresh=0, retried=10) == [(number, 1) for number in tried]
    assert await hand.claim(fresh=10, retried=0) == [(number, 0) for number in fresh]


@pytest.mark.req("A10", "B9")
async def test_retried_work_keeps_its_priority(store: Store) -> None:
    normal = await hand_in(store, "normal")
    urgent = await hand_in(store, "urgent", priority=Priority.URGENT)
    hand = await lane(store)
    await hand.report(again(normal, at=NOW - 1), again(urgent, at=NOW))
    assert await hand.claim() == [(urgent, 1), (normal, 1)]


async def test_what_a_lane_holds_is_left_out(store: Store) -> None:
    numbers = [await hand_in(store, f"note {n}") for n in range(4)]
    hand = await lane(store)
    claimed = [job for job, _ in await hand.claim(holding=numbers[:2])]
    assert claimed == numbers[2:]
    assert await hand.claim(fresh=1, retried=1, holding=numbers[:1]) == [(numbers[1], 0)]
    assert await hand.claim(holding=numbers) == []


def floors(band: int, next_at: int, job: int) -> Floors:
    """Only this band has a floor."""
    return tuple((next_at, job) if b == band else low for b, low in enumerate(NO_FLOORS))


@pytest.mark.req("G4")
async def test_a_claim_tells_each_delivery_s_place_and_goes_on_after_it(store: Store) -> None:
    early = await hand_in(store, "early", now=NOW - 2)
    numbers = [await hand_in(store, f"note {n}") for n in range(4)]
    hand = await lane(store)
    queue = [early, *numbers]
    claimed = await store.claim(hand.destination.id, NOW, 10, 10, [])
    assert [(due.job, due.attempts) for due in claimed] == [(number, 0) for number in queue]
    assert {due.band for due in claimed} == {2}
    for place, due in enumerate(claimed):
        after = floors(due.band, due.next_at, due.job)
        assert await hand.claim(after=after) == [(number, 0) for number in queue[place + 1 :]]
    after = floors(2, NOW - 1, 10**9)  # the hour counts before the number
    assert await hand.claim(after=after) == [(number, 0) for number in numbers]
    assert await hand.claim(fresh=1, holding=numbers[:1], after=after) == [(numbers[1], 0)]


@pytest.mark.req("G4", "A10")
async def test_a_floor_holds_in_its_own_band(store: Store) -> None:
    urgent = await hand_in(store, "urgent", priority=Priority.URGENT)
    normal = await hand_in(store, "normal")
    tried = await hand_in(store, "tried")
    hand = await lane(store)
    await hand.report(again(tried, at=NOW))
    claimed = await store.claim(hand.destination.id, NOW, 10, 10, [])
    everything = [(urgent, 0), (normal, 0), (tried, 1)]
    assert [(due.job, due.attempts) for due in claimed] == everything
    assert [due.band for due in claimed] == [0, 2, 3]
    for place, due in enumerate(claimed):
        after = floors(due.band, NOW, due.job)
        assert await hand.claim(after=after) == everything[:place] + everything[place + 1 :]
    assert await hand.claim(after=floors(5, NOW, 10**9)) == everything


@pytest.mark.req("B2")
async def test_what_is_not_due_is_left_out(store: Store) -> None:
    number = await hand_in(store, "hello")
    hand = await lane(store)
    await hand.report(again(number, at=NOW + 500))
    assert await hand.claim(NOW + 499) == []
    assert await hand.claim(NOW + 500) == [(number, 1)]


async def test_only_waiting_deliveries_of_that_relay_are_given(store: Store) -> None:
    states = [state for state in DeliveryState if state is not DeliveryState.WAITING]
    settled = [await hand_in(store, f"{state}", RED, BLUE) for state in states]
    waiting = await hand_in(store, "waiting", RED)
    hand = await lane(store)
    await hand.report(*(ended(job, state) for job, state in zip(settled, states, strict=True)))
    assert await hand.jobs() == [waiting]
    assert sorted(await (await lane(store, BLUE)).jobs()) == settled


@pytest.mark.req("A17")
async def test_a_metered_lane_gets_small_and_urgent_events(store: Store) -> None:
    small = await hand_in(store, note("s"))
    large = await hand_in(store, note("l" * 5000))
    wide = await hand_in(store, note("é" * 600))  # 600 characters, 1,200 bytes
    urgent = await hand_in(store, note("u" * 5000), priority=Priority.URGENT)
    hand = await lane(store)
    limit = len(note("é" * 600).raw) - 1

    assert [job for job, _ in await hand.claim(small=limit)] == [urgent, small]
    assert [job for job, _ in await hand.claim(small=limit + 1)] == [urgent, small, wide]
    assert [job for job, _ in await hand.claim()] == [urgent, small, large, wide]
    await hand.report(again(large, at=NOW), again(small, at=NOW))
    assert [job for job, _ in await hand.claim(small=limit)] == [urgent, small]


@pytest.mark.req("B8")
async def test_a_claim_writes_nothing(store: Store) -> None:
    await hand_in(store, "hello", RED, BLUE)
    hand = await lane(store)
    before = await snapshot(store)
    first = await hand.claim()
    assert await hand.claim() == first
    assert await snapshot(store) == before


async def test_an_unknown_destination_has_nothing(store: Store) -> None:
    await hand_in(store, "hello")
    assert await store.claim(4711, NOW, 10, 10, []) == []


async def test_parcels_carry_what_lanes_need(store: Store) -> None:
    event = note("hello")
    number = await hand_in(store, event, priority=Priority.LATER, expires_at=NOW + HOUR)
    [parcel] = await store.parcels([number, 4711])
    assert (parcel.job, parcel.event_id, parcel.priority) == (number, event.id, 2)
    assert (parcel.expires_at, parcel.policy) == (NOW + HOUR, INTERACTIVE.name)
    assert parcel.frame == event_frame(event.raw)
    assert await store.parcels([]) == []


async def test_parcels_of_what_is_gone_are_left_out(store: Store) -> None:
    number = await hand_in(store, "hello")
    await publish(store, number)
    await store.delete(named(number))
    assert await store.parcels([number]) == []


async def test_work_tells_each_relay_once_with_its_earliest_hour(store: Store) -> None:
    assert await store.work() == []
    one = await hand_in(store, "one", RED, BLUE, now=NOW - 5)
    two = await hand_in(store, "two", RED, priority=Priority.URGENT)
    await hand_in(store, draft("unsigned"), BLUE, now=NOW - 99)
    await hand_in(store, "scheduled", BLUE, due_at=NOW + HOUR)
    red = await lane(store, RED)
    await red.report(again(one, at=NOW + 70))

    works = {work.destination.url: work for work in await store.work()}
    assert works == {
        RED: Work(red.destination, NOW),
        BLUE: Work((await lane(store, BLUE)).destination, NOW - 5),
    }
    await red.deliver(two)
    assert {w.destination.url: w.earliest for w in await store.work()} == {
        RED: NOW + 70,
        BLUE: NOW - 5,
    }
    await red.deliver(one)
    assert [work.destination.url for work in await store.work()] == [BLUE]


async def test_a_destination_keeps_its_number(store: Store) -> None:
    number = await hand_in(store, "one")
    first = (await lane(store)).destination
    await publish(store, number)
    await hand_in(store, "two")
    assert (await lane(store)).destination == first
    assert len(await store.jobs(JobFilter(relay=RED), 10)) == 2
