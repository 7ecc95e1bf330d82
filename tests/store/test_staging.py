"""The stager's verbs: what it is given, and what routing makes of a job."""

from __future__ import annotations

import pytest

from postrich.model.delivery import DeliveryState, Target
from postrich.model.job import JobChange, JobState, Priority, Routed, StageItem
from postrich.store.port import Store
from tests.store.making import (
    BLUE,
    GREEN,
    HOUR,
    NOW,
    RED,
    desk,
    draft,
    hand_in,
    lane,
    look,
    named,
    route_all,
    routed,
    signature_of,
    stage,
    state_of,
    wish,
)


@pytest.mark.req("A8")
async def test_signed_first_then_scheduled_each_by_time(store: Store) -> None:
    scheduled = await hand_in(store, "scheduled", due_at=NOW + 1)
    await hand_in(store, draft("unsigned"), now=NOW - 9)
    content = draft("signed")
    signed = await hand_in(store, content, now=NOW - 99)
    await store.signed(await desk(store), signed, signature_of(content), NOW - 50)
    urgent = await hand_in(store, "urgent", due_at=NOW + 1, priority=Priority.URGENT)

    items = await store.stage_due(NOW + 1, 10)
    assert [item.job for item in items] == [signed, urgent, scheduled]
    assert [item.job for item in await store.stage_due(NOW + 1, 2)] == [signed, urgent]
    assert await store.next_stage() == NOW - 50


@pytest.mark.req("A8")
async def test_an_item_carries_what_the_stager_needs(store: Store) -> None:
    number = await hand_in(store, "hello", RED, BLUE, priority=Priority.LATER, due_at=NOW + HOUR)
    [item] = await store.stage_due(NOW + HOUR, 10)
    assert isinstance(item, StageItem)
    assert (item.job, item.state, item.priority) == (number, JobState.SCHEDULED, 2)
    assert item.due_at == NOW + HOUR
    assert [target.url for target in item.targets] == [RED, BLUE]


async def test_nothing_to_stage(store: Store) -> None:
    await hand_in(store, "goes at once")
    assert await store.stage_due(NOW + HOUR, 10) == []
    assert await store.next_stage() is None


# -- routing --------------------------------------------------------------------------------


@pytest.mark.req("F3")
async def test_a_due_job_gets_its_deliveries(store: Store) -> None:
    number = await hand_in(store, "later", RED, BLUE, due_at=NOW + HOUR)
    fence = await stage(store)
    items = await store.stage_due(NOW + HOUR, 10)
    changes, destinations = await store.route(fence, routed(items), NOW + HOUR + 5)
    assert changes == [JobChange(number, JobState.PENDING_PUBLISH, False)]
    assert destinations == {work.destination.id for work in await store.work()}
    job = await look(store, number)
    assert {(d.relay, d.state, d.next_at) for d in job.deliveries} == {
        (RED, DeliveryState.WAITING, NOW + HOUR + 5),
        (BLUE, DeliveryState.WAITING, NOW + HOUR + 5),
    }
    assert await store.stage_due(NOW + HOUR + 5, 10) == []


@pytest.mark.req("D11")
async def test_the_router_has_the_last_word_on_where(store: Store) -> None:
    number = await hand_in(store, "later", RED, due_at=NOW + 1)
    fence = await stage(store)
    [item] = await store.stage_due(NOW + 1, 10)
    elsewhere = (Target(BLUE, "new list"), Target(GREEN, "inbox"))
    await store.route(fence, [Routed(item, elsewhere)], NOW + 1)
    job = await look(store, number)
    assert {(d.relay, d.reason) for d in job.deliveries} == {(BLUE, "new list"), (GREEN, "inbox")}


async def test_many_are_routed_at_once_each_to_its_own_relays(store: Store) -> None:
    wishes = [wish(f"note {n}", (RED, BLUE, GREEN)[n % 3], due_at=NOW + 1) for n in range(30)]
    numbers = [a.job for a in (await store.accept(wishes, NOW)).accepted]
    await route_all(store, NOW + 1)
    for index, url in enumerate((RED, BLUE, GREEN)):
        assert await (await lane(store, url)).jobs(NOW + 1) == numbers[index::3]


@pytest.mark.req("A10")
async def test_a_routed_job_keeps_its_priority(store: Store) -> None:
    await hand_in(store, "normal", due_at=NOW + 1)
    urgent = await hand_in(store, "urgent", due_at=NOW + 1, priority=Priority.URGENT)
    await route_all(store, NOW + 1)
    assert (await (await lane(store)).jobs(NOW + 1))[0] == urgent


async def test_a_job_that_ended_meanwhile_is_not_routed(store: Store) -> None:
    cancelled = await hand_in(store, "cancelled", due_at=NOW + 1)
    deleted = await hand_in(store, "deleted", due_at=NOW + 1)
    fence = await stage(store)
    items = await store.stage_due(NOW + 1, 10)
    await store.cancel(named(cancelled, deleted), NOW + 1)
    await store.delete(named(deleted))
    assert await store.route(fence, routed(items), NOW + 1) == ([], set())
    assert await state_of(store, cancelled) is JobState.CANCELLED
    assert await store.work() == []


async def test_routing_twice_makes_no_second_delivery(store: Store) -> None:
    number = await hand_in(store, "later", due_at=NOW + 1)
    fence = await stage(store)
    items = await store.stage_due(NOW + 1, 10)
    await store.route(fence, routed(items), NOW + 1)
    await store.route(fence, routed(items), NOW + 1)
    hand = await lane(store)
    assert await hand.jobs(NOW + 1) == [number]
    await hand.deliver(number, now=NOW + 1)
    await store.route(fence, routed(items), NOW + 1)
    assert await hand.jobs(NOW + 1) == []
    assert await state_of(store, number) is JobState.PUBLISHED


async def test_routing_nothing(store: Store) -> None:
    assert await store.route(await stage(store), [], NOW) == ([], set())
