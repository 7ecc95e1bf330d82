"""The lifeline's verbs: what outlived its time ends, what is over moves out of the way."""

from __future__ import annotations

import pytest

from postrich.model.delivery import DeliveryState
from postrich.model.job import JobChange, JobFilter, JobState, Phase
from postrich.store.port import Store
from tests.store.making import (
    BLUE,
    DAY,
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
    late_ok,
    look,
    named,
    note,
    park,
    publish,
    snapshot,
    state_of,
    where,
)

D = DeliveryState


# -- expire ---------------------------------------------------------------------------------


@pytest.mark.req("B9")
async def test_a_lifetime_ends_on_time(store: Store) -> None:
    number = await hand_in(store, "hello", expires_at=NOW + HOUR)
    await hand_in(store, "other", expires_at=NOW + DAY)
    assert await store.expire(NOW + HOUR - 1, 10) == []
    assert await store.expire(NOW + HOUR, 10) == [JobChange(number, JobState.FAILED, True)]
    assert await store.expire(NOW + HOUR, 10) == []
    job = await look(store, number)
    assert (job.state, job.finished_at) == (JobState.FAILED, NOW + HOUR)
    delivery = where(job, RED)
    assert (delivery.state, delivery.code) == (D.FAILED, "expired")
    assert job.error is not None
    assert (job.error.phase, job.error.code) == (Phase.PUBLISH, "EXPIRED")
    assert [chapter.what for chapter in await store.story(number)] == ["expired"]


@pytest.mark.req("B9", "C9")
async def test_what_was_never_answered_stays_unknown(store: Store) -> None:
    number = await hand_in(store, "hello", RED, BLUE, GREEN, expires_at=NOW + HOUR)
    await (await lane(store, RED)).report(again(number, 1, code="timeout"))
    await (await lane(store, BLUE)).report(again(number, 0, code="closed", burnt=False))
    await (await lane(store, GREEN)).report(again(number, 1, code="error", detail="disk full"))
    await store.expire(NOW + HOUR, 10)
    job = await look(store, number)
    assert {d.relay: d.state for d in job.deliveries} == {
        RED: D.UNKNOWN,
        BLUE: D.UNKNOWN,
        GREEN: D.FAILED,
    }
    assert "disk full" in where(job, GREEN).detail
    assert job.state is JobState.FAILED


@pytest.mark.req("B6", "C9")
async def test_what_was_never_answered_stays_unknown_after_a_retry(store: Store) -> None:
    number = await hand_in(store, "hello", RED, BLUE, expires_at=NOW + HOUR)
    await (await lane(store, RED)).report(again(number, 1, code="timeout"))
    await store.retry(named(number), NOW)
    await store.expire((await look(store, number)).expires_at, 10)
    job = await look(store, number)
    assert (where(job, RED).state, where(job, BLUE).state) == (D.UNKNOWN, D.FAILED)


@pytest.mark.req("C9")
async def test_a_late_ok_proves_an_expired_one_delivered(store: Store) -> None:
    number = await hand_in(store, "hello", expires_at=NOW + HOUR)
    hand = await lane(store)
    await hand.report(again(number, 1))
    await store.expire(NOW + HOUR, 10)
    await hand.report(late_ok(number, 1), now=NOW + HOUR + 1)
    assert await state_of(store, number) is JobState.PUBLISHED


async def test_a_published_job_only_gives_up_the_rest(store: Store) -> None:
    number = await hand_in(store, "hello", RED, BLUE, expires_at=NOW + HOUR)
    await (await lane(store, RED)).deliver(number)
    assert await store.expire(NOW + HOUR, 10) == [JobChange(number, JobState.PUBLISHED, True)]
    job = await look(store, number)
    assert (job.published_at, job.finished_at) == (NOW, NOW + HOUR)
    assert (where(job, RED).state, where(job, BLUE).state) == (D.DELIVERED, D.FAILED)


async def test_what_asks_for_a_person_goes_on_asking(store: Store) -> None:
    number = await hand_in(store, "hello", RED, BLUE, expires_at=NOW + HOUR)
    await (await lane(store, RED)).report(ended(number, D.PARKED))
    assert await store.expire(NOW + HOUR, 10) == [JobChange(number, JobState.PARKED, True)]
    parked = await hand_in(store, "parked", expires_at=NOW + HOUR)
    await park(store, parked)
    assert await store.expire(NOW + DAY, 10) == []


@pytest.mark.req("B9")
async def test_what_never_left_expires_too(store: Store) -> None:
    unsigned = await hand_in(store, draft("unsigned"), expires_at=NOW + HOUR)
    await cannot_sign(store, unsigned, next_at=NOW + DAY)
    need = await hand_in(store, "need")
    held = await hand_in(store, "held", after=(need,), expires_at=NOW + HOUR)
    changes = await store.expire(NOW + HOUR, 10)
    assert {(c.job, c.state, c.finished) for c in changes} == {
        (unsigned, JobState.FAILED, True),
        (held, JobState.FAILED, True),
    }
    assert await store.next_stage() is None
    assert await store.unsigned() == []
    job = await look(store, unsigned)
    assert job.error is not None
    assert (job.error.phase, job.error.code) == (Phase.SIGN, "EXPIRED")
    assert "the signer said no" in job.error.message
    assert {d.state for d in job.deliveries} == {D.FAILED}


async def test_expire_takes_the_oldest_up_to_its_limit(store: Store) -> None:
    numbers = [await hand_in(store, f"note {n}", expires_at=NOW + n) for n in (3, 1, 2)]
    first = await store.expire(NOW + 9, 2)
    assert {change.job for change in first} == {numbers[1], numbers[2]}
    assert [change.job for change in await store.expire(NOW + 9, 2)] == [numbers[0]]


# -- archive and prune ----------------------------------------------------------------------


async def test_what_is_over_is_archived_and_still_seen(store: Store) -> None:
    published = await hand_in(store, "published", RED, BLUE)
    await (await lane(store, RED)).report(again(published, 1))
    await publish(store, published)
    cancelled = await hand_in(store, "cancelled")
    await store.cancel(named(cancelled), NOW)
    old = await hand_in(store, note("old", kind=0))
    newer = await hand_in(store, note("new", kind=0, at=NOW // 1000 + 1))
    before = await snapshot(store)

    assert await store.archive(NOW - 1, 10) == 0
    assert await store.archive(NOW, 10) == 3
    assert await store.archive(NOW, 10) == 0
    assert await snapshot(store) == before
    assert [job.id for job in await store.jobs(EVERYTHING, 10)] == [
        newer,
        old,
        cancelled,
        published,
    ]
    assert await store.find(note("published").id) == [published]
    by_relay = await store.jobs(JobFilter(relay=BLUE), 10)
    assert [job.id for job in by_relay] == [published]


async def test_what_needs_a_person_or_is_open_is_not_archived(store: Store) -> None:
    failed = await hand_in(store, "failed")
    await fail(store, failed)
    parked = await hand_in(store, "parked")
    await park(store, parked)
    await hand_in(store, draft("unsigned"))
    await hand_in(store, "open", due_at=NOW + HOUR)
    half = await hand_in(store, "half", RED, BLUE)
    await (await lane(store, RED)).deliver(half)
    assert await store.archive(NOW + DAY, 10) == 0
    status = await store.status()
    assert (status.failed, status.parked) == (1, 1)


async def test_archive_takes_the_oldest_up_to_its_limit(store: Store) -> None:
    numbers = [await hand_in(store, f"note {n}") for n in range(3)]
    for index, number in enumerate(numbers):
        await publish(store, number, NOW + index)
    assert await store.archive(NOW + 9, 2) == 2
    assert await store.prune(NOW + 9, 1) == 1
    left = [job.id for job in await store.jobs(EVERYTHING, 10)]
    assert left == [numbers[2], numbers[1]]


async def test_prune_forgets_history_by_age(store: Store) -> None:
    early, late = await hand_in(store, "early"), await hand_in(store, "late")
    hand = await lane(store)
    await hand.report(again(early, 1))
    await hand.deliver(early, now=NOW)
    await hand.deliver(late, now=NOW + DAY)
    assert await store.prune(NOW + 9 * DAY, 10) == 0  # only history is pruned
    await store.archive(NOW + 9 * DAY, 10)
    assert await store.prune(NOW, 10) == 1
    assert [job.id for job in await store.jobs(EVERYTHING, 10)] == [late]
    assert await store.story(early) == []
    assert await store.parcels([early]) == []


@pytest.mark.req("A9")
async def test_numbers_are_never_used_again(store: Store) -> None:
    number = await hand_in(store, "hello")
    await publish(store, number)
    await store.archive(NOW, 10)
    await store.prune(NOW, 10)
    other = await hand_in(store, "other")
    await store.cancel(named(other), NOW)
    await store.delete(named(other))
    assert await hand_in(store, "third") > other > number
