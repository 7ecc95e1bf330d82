"""Reading: the queue in figures, jobs, stories, relays — as people and other processes see them."""

from __future__ import annotations

import asyncio

import pytest

from postrich.errors import StoreError
from postrich.model.delivery import DeliveryState
from postrich.model.job import JobError, JobState, Phase, QueueStatus
from postrich.model.relay import RelayHealth
from postrich.store.port import Backlog, Store
from tests.store.conftest import Place
from tests.store.making import (
    BLUE,
    EVERYTHING,
    GREEN,
    HOUR,
    NOW,
    RED,
    again,
    cannot_sign,
    draft,
    ended,
    fail,
    hand_in,
    lane,
    look,
    named,
    note,
    park,
    publish,
)

D = DeliveryState


# -- the queue in figures -------------------------------------------------------------------


@pytest.mark.req("A12")
async def test_an_empty_queue(store: Store) -> None:
    status = await store.status()
    assert status == QueueStatus(0, 0, 0, 0, 0, 0, None)
    assert status.text == "0 items waiting to publish"
    assert await store.backlog() == []
    assert await store.health() == []


@pytest.mark.req("A12")
async def test_the_queue_in_figures(store: Store) -> None:
    await hand_in(store, "first", RED, BLUE, now=NOW - 10)
    tried = await hand_in(store, "tried", RED, now=NOW - 5)
    unsigned = await hand_in(store, draft("unsigned"), now=NOW - 7)
    await hand_in(store, "scheduled", due_at=NOW + HOUR, now=NOW - 99)
    failed = await hand_in(store, "failed", GREEN)
    await fail(store, failed)
    parked = await hand_in(store, "parked", GREEN)
    await park(store, parked)
    half = await hand_in(store, "half", GREEN, BLUE)
    await (await lane(store, GREEN)).deliver(half)
    red = await lane(store, RED)
    for attempt in (1, 2):
        await red.report(again(tried, attempt))
    await cannot_sign(store, unsigned, next_at=NOW + 1)

    status = await store.status()
    assert status == QueueStatus(
        pending=3,
        scheduled=1,
        parked=1,
        failed=1,
        total_attempts=3,
        open_deliveries=4,
        oldest=NOW - 10,
    )
    assert status.text == "3 items waiting to publish"
    assert sorted(await store.backlog(), key=lambda b: b.url) == [
        Backlog(BLUE, 2, 0),
        Backlog(RED, 2, 1),
    ]


@pytest.mark.req("A12")
async def test_one_item_is_singular(store: Store) -> None:
    number = await hand_in(store, "hello")
    assert (await store.status()).text == "1 item waiting to publish"
    await publish(store, number)
    assert (await store.status()).text == "0 items waiting to publish"
    assert (await store.status()).oldest is None


# -- jobs -----------------------------------------------------------------------------------


async def test_pages_are_newest_first_without_gap_or_overlap(store: Store) -> None:
    numbers = [await hand_in(store, f"note {n}") for n in range(7)]
    for number in numbers[1:4]:
        await publish(store, number)
    await store.archive(NOW, 2)  # some in history, some not: one list all the same
    pages: list[list[int]] = []
    before: int | None = None
    while page := await store.jobs(EVERYTHING, 3, before):
        pages.append([job.id for job in page])
        before = page[-1].id
    assert pages == [numbers[:3:-1], numbers[3:0:-1], numbers[:1]]
    assert await store.jobs(EVERYTHING, 0) == []


async def test_a_job_is_found_by_the_beginning_of_its_event_id(store: Store) -> None:
    numbers = {note(f"note {n}").id: await hand_in(store, f"note {n}") for n in range(40)}
    for event_id, number in list(numbers.items())[:5]:
        for length in (8, 9, 31, 64):
            assert await store.find(event_id[:length]) == [number]
        assert await store.find(event_id[:12].upper()) == [number]
    first = next(iter(numbers))[0]
    matching = {number for event_id, number in numbers.items() if event_id.startswith(first)}
    found = await store.find(first)
    assert set(found) <= matching
    assert len(found) == min(3, len(matching))
    assert len(await store.find("")) == 3


@pytest.mark.parametrize("prefix", ["zz", "'", "%", "0x1", "é", "0" * 65, "ff" * 40])
async def test_what_is_no_event_id_finds_nothing(store: Store, prefix: str) -> None:
    await hand_in(store, "hello")
    assert await store.find(prefix) == []


async def test_a_story_is_told_in_order(store: Store) -> None:
    number = await hand_in(store, "hello", RED, BLUE)
    red, blue = await lane(store, RED), await lane(store, BLUE)
    await red.report(again(number, 1, detail="one"), now=NOW + 1)
    await blue.report(again(number, 1, detail="two"), now=NOW + 2)
    await red.report(again(number, 2, detail="three"), now=NOW + 3)
    await store.retry(named(number), NOW + 4)
    await blue.report(ended(number, D.REFUSED, 2, code="blocked"), now=NOW + 5)
    await store.cancel(named(number), NOW + 6)
    story = await store.story(number)
    assert [(c.at - NOW, c.what, c.relay, c.attempt) for c in story] == [
        (1, "timeout", RED, 1),
        (2, "timeout", BLUE, 1),
        (3, "timeout", RED, 2),
        (4, "retried", None, None),
        (5, "blocked", BLUE, 2),
        (6, "cancelled", None, None),
    ]
    assert [c.detail for c in story][:3] == ["one", "two", "three"]
    assert await store.story(4711) == []


async def test_a_story_of_one_moment_keeps_its_order(store: Store) -> None:
    number = await hand_in(store, "hello")
    hand = await lane(store)
    for attempt in range(1, 6):
        await hand.report(again(number, attempt), now=NOW)
    assert [chapter.attempt for chapter in await store.story(number)] == [1, 2, 3, 4, 5]


async def test_next_at_is_the_earliest_of_what_waits(store: Store) -> None:
    number = await hand_in(store, "hello", RED, BLUE, GREEN)
    await (await lane(store, RED)).report(again(number, at=NOW + 90))
    await (await lane(store, BLUE)).report(again(number, at=NOW + 70))
    assert (await look(store, number)).next_at == NOW
    await (await lane(store, GREEN)).deliver(number)
    assert (await look(store, number)).next_at == NOW + 70
    await (await lane(store, BLUE)).deliver(number)
    assert (await look(store, number)).next_at == NOW + 90
    await (await lane(store, RED)).deliver(number)
    assert (await look(store, number)).next_at is None


@pytest.mark.req("A7")
async def test_the_error_is_that_of_the_delivery_that_tells_most(store: Store) -> None:
    number = await hand_in(store, "hello", RED, BLUE)
    assert (await look(store, number)).error is None
    await (await lane(store, RED)).report(again(number, 1, detail="no answer in 10 s"))
    assert (await look(store, number)).error == JobError(
        Phase.PUBLISH, "TIMEOUT", f"{RED}: no answer in 10 s"
    )
    await (await lane(store, BLUE)).report(
        ended(number, D.REFUSED, code="blocked", detail="you are not welcome")
    )
    assert (await look(store, number)).error == JobError(
        Phase.PUBLISH, "BLOCKED", f"{BLUE}: you are not welcome"
    )
    await (await lane(store, RED)).deliver(number)
    assert (await look(store, number)).error is None


# -- relays ---------------------------------------------------------------------------------


@pytest.mark.req("C10")
async def test_health_is_kept_as_it_was_told_last(store: Store) -> None:
    await hand_in(store, "hello", RED, BLUE)
    red, blue = await lane(store, RED), await lane(store, BLUE)
    first = RelayHealth(RED, "open", NOW, NOW + HOUR, 3, 12.5, 4, 5, 6, "refused “here”")
    other = RelayHealth(BLUE, "closed")
    await store.note_health([(red.destination.id, first), (blue.destination.id, other)])
    assert sorted(await store.health(), key=lambda h: h.url) == [other, first]
    better = RelayHealth(RED, "closed", NOW + 1)
    await store.note_health([(red.destination.id, better)])
    assert sorted(await store.health(), key=lambda h: h.url) == [other, better]
    await store.note_health([])
    assert len(await store.health()) == 2


# -- other processes ------------------------------------------------------------------------


async def test_another_process_sees_what_was_committed(place: Place) -> None:
    one, two = await place.open(), await place.open()
    number = await hand_in(one, "hello")
    assert [job.id for job in await two.jobs(EVERYTHING, 10)] == [number]
    await publish(two, number)
    assert (await look(one, number)).state is JobState.PUBLISHED
    assert await hand_in(two, "hello") == number


async def test_a_change_by_another_process_is_noticed(place: Place) -> None:
    one, two = await place.open(), await place.open()
    await hand_in(one, "hello")
    seen = set(await asyncio.gather(*(one.changed() for _ in range(16))))
    assert len(seen) == 1  # quiet: the same number, whoever is asked
    for text in ("a", "b", "c"):
        before = await one.changed()
        await hand_in(two, text)
        assert await one.changed() != before


async def test_a_closed_store_says_so(place: Place) -> None:
    store = await place.open()
    number = await hand_in(store, "hello")
    await store.close()
    with pytest.raises(StoreError, match="closed"):
        await store.status()
    with pytest.raises(StoreError, match="closed"):
        await store.cancel(named(number), NOW)
    await store.close()  # twice does no harm


@pytest.mark.req("A1")
async def test_closing_writes_what_was_handed_in(place: Place) -> None:
    store = await place.open()
    handed_in = [asyncio.ensure_future(hand_in(store, f"note {n}")) for n in range(50)]
    await asyncio.sleep(0)
    await store.close()
    numbers = await asyncio.gather(*handed_in)
    again_open = await place.open()
    assert {job.id for job in await again_open.jobs(EVERYTHING, 100)} == set(numbers)
