"""Settle: what lanes learnt, written once, and what it makes of jobs (DESIGN: truthfulness)."""

from __future__ import annotations

import asyncio

import pytest

from postrich.model.delivery import DeliveryState
from postrich.model.job import JobChange, JobState
from postrich.store.port import Results, Store
from tests.store.conftest import Place
from tests.store.making import (
    BLUE,
    CAPTURE,
    DAY,
    GREEN,
    NOW,
    RED,
    SECOND,
    again,
    ended,
    fail,
    hand_in,
    lane,
    late_ok,
    look,
    named,
    publish,
    snapshot,
    state_of,
    where,
)

D = DeliveryState


# -- deliveries -----------------------------------------------------------------------------


@pytest.mark.req("C1")
async def test_an_ok_is_a_delivery(store: Store) -> None:
    number = await hand_in(store, "hello")
    changes = await (await lane(store)).deliver(number, now=NOW + SECOND)
    assert changes == [JobChange(number, JobState.PUBLISHED, True)]
    job = await look(store, number)
    assert (job.published_at, job.finished_at) == (NOW + SECOND, NOW + SECOND)
    delivery = where(job, RED)
    assert (delivery.state, delivery.attempts, delivery.code) == (D.DELIVERED, 1, "ok")
    assert (delivery.settled_at, delivery.next_at) == (NOW + SECOND, None)
    assert await store.story(number) == []  # the plain road has no story


async def test_many_oks_at_once(store: Store) -> None:
    numbers = [await hand_in(store, f"note {n}") for n in range(50)]
    changes = await (await lane(store)).deliver(*numbers[:-1])
    assert {change.job for change in changes} == set(numbers[:-1])
    assert await state_of(store, numbers[-1]) is JobState.PENDING_PUBLISH


@pytest.mark.req("A7", "B2")
async def test_a_retry_waits_for_its_hour_and_counts(store: Store) -> None:
    number = await hand_in(store, "hello")
    hand = await lane(store)
    assert await hand.report(again(number, 1, at=NOW + 70, detail="no answer in 10 s")) == []
    job = await look(store, number)
    delivery = where(job, RED)
    assert (delivery.state, delivery.attempts, delivery.next_at) == (D.WAITING, 1, NOW + 70)
    assert (delivery.code, delivery.detail) == ("timeout", "no answer in 10 s")
    assert (job.state, job.next_at, job.publish_attempts) == (
        JobState.PENDING_PUBLISH,
        NOW + 70,
        1,
    )
    [chapter] = await store.story(number)
    assert (chapter.what, chapter.relay, chapter.attempt) == ("timeout", RED, 1)
    assert (chapter.at, chapter.detail) == (NOW, "no answer in 10 s")


@pytest.mark.req("A7")
async def test_every_attempt_counts_once(store: Store) -> None:
    number = await hand_in(store, "hello", RED, BLUE)
    red, blue = await lane(store, RED), await lane(store, BLUE)
    for attempt in (1, 2, 3):
        await red.report(again(number, attempt))
    await red.deliver(number)
    await red.deliver(number)  # told twice, delivered once
    await blue.deliver(number)
    job = await look(store, number)
    assert (where(job, RED).attempts, where(job, BLUE).attempts) == (4, 1)
    assert job.publish_attempts == 5
    assert [chapter.attempt for chapter in await store.story(number)] == [1, 2, 3]


@pytest.mark.req("A7", "C9", "G4")
async def test_results_that_are_told_twice_count_once(store: Store) -> None:
    """The answer to a commit may be lost: then nobody knows, and all is told again."""
    names = ("retried", "refused", "late", "ok", "skipped", "limited")
    numbers = {name: await hand_in(store, name) for name in names}
    hand = await lane(store)
    others = [
        again(numbers["retried"], 1),
        again(numbers["retried"], 2),
        ended(numbers["refused"], D.REFUSED, 1),
        again(numbers["late"], 1),
        late_ok(numbers["late"], 1),
        ended(numbers["skipped"], D.SKIPPED, 0, burnt=False),
        again(numbers["limited"], 0, code="rate-limited", burnt=False),
    ]
    results = Results(hand.fence, hand.destination.id, [numbers["ok"]], others)
    await store.settle(results, NOW)
    before = await snapshot(store)
    assert await store.settle(results, NOW + SECOND) == []
    assert await snapshot(store) == before
    job = await look(store, numbers["retried"])
    assert (where(job, RED).attempts, where(job, RED).state) == (2, D.WAITING)
    assert [chapter.attempt for chapter in await store.story(job.id)] == [1, 2]
    await hand.report(again(numbers["retried"], 3))
    assert where(await look(store, numbers["retried"]), RED).attempts == 3


@pytest.mark.req("A7", "B6")
async def test_an_answer_after_a_retry_by_hand_still_counts(store: Store) -> None:
    """Retried by hand while it was in flight: its attempts were forgotten, the answer is news."""
    number = await hand_in(store, "hello", policy=CAPTURE)
    hand = await lane(store)
    for attempt in (1, 2):
        await hand.report(again(number, attempt))
    await store.retry(named(number), NOW)
    await hand.report(ended(number, D.REFUSED, 3))
    delivery = where(await look(store, number), RED)
    assert (delivery.state, delivery.attempts) == (D.REFUSED, 1)


@pytest.mark.req("B10")
async def test_what_is_not_the_events_fault_costs_no_attempt(store: Store) -> None:
    number = await hand_in(store, "hello")
    hand = await lane(store)
    await hand.report(again(number, 0, code="rate-limited", burnt=False))
    job = await look(store, number)
    assert (job.publish_attempts, where(job, RED).code) == (0, "rate-limited")
    assert await store.story(number) == []


@pytest.mark.req("C9")
async def test_a_late_ok_is_not_another_attempt(store: Store) -> None:
    number = await hand_in(store, "hello")
    hand = await lane(store)
    await hand.report(again(number, 1))
    await hand.report(late_ok(number, 1))
    delivery = where(await look(store, number), RED)
    assert (delivery.state, delivery.attempts, delivery.code) == (D.DELIVERED, 1, "late")


@pytest.mark.req("C9")
async def test_a_timeout_and_its_late_ok_may_come_together(store: Store) -> None:
    number, other = await hand_in(store, "hello"), await hand_in(store, "other")
    hand = await lane(store)
    changes = await hand.report(again(number, 1), again(other, 1), late_ok(number, 1))
    assert changes == [JobChange(number, JobState.PUBLISHED, True)]
    delivery = where(await look(store, number), RED)
    assert (delivery.state, delivery.attempts) == (D.DELIVERED, 1)
    assert [chapter.what for chapter in await store.story(number)] == ["timeout", "late"]
    assert await state_of(store, other) is JobState.PENDING_PUBLISH


@pytest.mark.req("A7", "C9")
async def test_a_retry_and_the_next_plain_ok_may_come_together(store: Store) -> None:
    number = await hand_in(store, "hello")
    hand = await lane(store)
    both = Results(hand.fence, hand.destination.id, [number], [again(number, 1)])
    assert await store.settle(both, NOW) == [JobChange(number, JobState.PUBLISHED, True)]
    delivery = where(await look(store, number), RED)
    assert (delivery.state, delivery.attempts) == (D.DELIVERED, 2)


async def test_an_accepted_duplicate_is_delivered_with_its_evidence(store: Store) -> None:
    number = await hand_in(store, "hello")
    hand = await lane(store)
    result = ended(number, D.DELIVERED, code="duplicate", detail="already have it")
    assert await hand.report(result) == [JobChange(number, JobState.PUBLISHED, True)]
    delivery = where(await look(store, number), RED)
    assert (delivery.code, delivery.detail, delivery.attempts) == (
        "duplicate",
        "already have it",
        1,
    )


@pytest.mark.parametrize("state", [s for s in D if s not in (D.WAITING, D.DELIVERED)])
@pytest.mark.req("C1")
async def test_a_settled_delivery_is_not_worked_on(store: Store, state: DeliveryState) -> None:
    number = await hand_in(store, "hello", RED, BLUE)
    hand = await lane(store)
    await hand.report(ended(number, state, code="why", detail="because"), now=NOW + 5)
    delivery = where(await look(store, number), RED)
    assert (delivery.state, delivery.code, delivery.detail) == (state, "why", "because")
    assert (delivery.settled_at, delivery.next_at) == (NOW + 5, None)
    assert await hand.jobs(NOW + DAY) == []
    assert not (await look(store, number)).is_finished
    [chapter] = await store.story(number)
    assert (chapter.what, chapter.detail) == ("why", "because")


@pytest.mark.parametrize("state", [s for s in D if s not in (D.WAITING, D.DELIVERED)])
async def test_a_settled_delivery_moves_only_by_a_late_ok(
    store: Store, state: DeliveryState
) -> None:
    number = await hand_in(store, "hello", RED, BLUE)
    hand = await lane(store)
    await hand.report(ended(number, state, code="first"))
    for result in (again(number, 2), ended(number, D.FAILED, 3), ended(number, D.PARKED, 4)):
        await hand.report(result, now=NOW + 5)
    delivery = where(await look(store, number), RED)
    assert (delivery.state, delivery.code, delivery.settled_at) == (state, "first", NOW)
    assert delivery.attempts == 4  # they were made
    await hand.report(late_ok(number, 4), now=NOW + 6)
    delivery = where(await look(store, number), RED)
    assert (delivery.state, delivery.settled_at) == (D.DELIVERED, NOW + 6)


async def test_nothing_moves_a_delivered_one_back(store: Store) -> None:
    number = await hand_in(store, "hello")
    hand = await lane(store)
    await hand.deliver(number)
    for state in D:
        assert await hand.report(ended(number, state, 1, burnt=False), now=NOW + 5) == []
    job = await look(store, number)
    assert (job.state, job.finished_at) == (JobState.PUBLISHED, NOW)
    delivery = where(job, RED)
    assert (delivery.state, delivery.code, delivery.settled_at) == (D.DELIVERED, "ok", NOW)


@pytest.mark.req("C9")
async def test_a_late_ok_publishes_what_was_given_up(store: Store) -> None:
    cancelled = await hand_in(store, "cancelled")
    failed = await hand_in(store, "failed")
    hand = await lane(store)
    await store.cancel(named(cancelled), NOW)
    await hand.report(ended(failed, D.UNKNOWN, code="timeout"))
    assert await state_of(store, failed) is JobState.FAILED
    changes = await hand.deliver(cancelled, now=NOW + 1)
    changes += await hand.report(late_ok(failed), now=NOW + 1)
    assert changes == [
        JobChange(cancelled, JobState.PUBLISHED, True),
        JobChange(failed, JobState.PUBLISHED, True),
    ]
    for number in (cancelled, failed):
        job = await look(store, number)
        assert (job.state, job.published_at) == (JobState.PUBLISHED, NOW + 1)
        assert (job.finished_at, job.error) == (NOW, None)


@pytest.mark.req("C9")
async def test_an_attempt_in_flight_when_its_job_was_cancelled_is_told(store: Store) -> None:
    number = await hand_in(store, "hello")
    hand = await lane(store)
    await store.cancel(named(number), NOW)
    assert await hand.report(again(number, 1), now=NOW + 5) == []
    job = await look(store, number)
    assert (job.state, where(job, RED).state) == (JobState.CANCELLED, D.CANCELLED)
    assert job.publish_attempts == 1
    assert [c.what for c in await store.story(number)] == ["cancelled", "timeout"]


@pytest.mark.req("B6")
async def test_results_of_a_deleted_job_leave_nothing(store: Store) -> None:
    number, other = await hand_in(store, "hello"), await hand_in(store, "other")
    hand = await lane(store)
    await hand.report(ended(number, D.FAILED))
    await store.delete(named(number))
    await hand.report(again(number, 2), ended(number, D.FAILED, 3), again(other, 1))
    await hand.deliver(number)
    assert await store.story(number) == []
    assert [chapter.what for chapter in await store.story(other)] == ["timeout"]
    assert [job.id for job in await store.jobs(named(), 10)] == [other]


async def test_results_for_nothing_write_nothing(store: Store) -> None:
    number = await hand_in(store, "hello")
    hand = await lane(store)
    before = await snapshot(store)
    assert await hand.deliver() == []
    assert await hand.report() == []
    assert await hand.deliver(4711) == []
    assert await hand.report(again(4711), ended(4712, D.FAILED)) == []
    assert await snapshot(store) == before
    assert await store.story(4711) == []
    assert await state_of(store, number) is JobState.PENDING_PUBLISH


# -- jobs -----------------------------------------------------------------------------------


@pytest.mark.req("C1")
async def test_a_job_is_published_by_the_first_ok_and_finished_by_the_last(store: Store) -> None:
    number = await hand_in(store, "hello", RED, BLUE, GREEN)
    hands = [await lane(store, url) for url in (RED, BLUE, GREEN)]
    assert await hands[0].deliver(number, now=NOW + 1) == [
        JobChange(number, JobState.PUBLISHED, False)
    ]
    assert await hands[1].deliver(number, now=NOW + 2) == []
    assert await hands[2].report(ended(number, D.REFUSED), now=NOW + 3) == [
        JobChange(number, JobState.PUBLISHED, True)
    ]
    job = await look(store, number)
    assert (job.published_at, job.finished_at) == (NOW + 1, NOW + 3)
    assert job.error is None


@pytest.mark.req("C1", "D12")
async def test_a_goal_of_two_needs_two_oks(store: Store) -> None:
    met = await hand_in(store, "met", RED, BLUE, goal=2)
    missed = await hand_in(store, "missed", RED, BLUE, goal=2)
    red, blue = await lane(store, RED), await lane(store, BLUE)
    assert await red.deliver(met, missed) == []
    assert await state_of(store, met) is JobState.PENDING_PUBLISH
    assert await blue.deliver(met) == [JobChange(met, JobState.PUBLISHED, True)]
    assert await blue.report(ended(missed, D.REFUSED)) == [JobChange(missed, JobState.FAILED, True)]


@pytest.mark.parametrize(
    ("states", "outcome"),
    [
        ((D.REFUSED, D.REFUSED), JobState.FAILED),
        ((D.FAILED, D.SKIPPED), JobState.FAILED),
        ((D.UNKNOWN, D.UNKNOWN), JobState.FAILED),
        ((D.PARKED, D.REFUSED), JobState.PARKED),
        ((D.PARKED, D.SUPERSEDED), JobState.PARKED),
        ((D.SUPERSEDED, D.SUPERSEDED), JobState.SUPERSEDED),
        ((D.SUPERSEDED, D.REFUSED), JobState.FAILED),
        ((D.DELIVERED, D.PARKED), JobState.PUBLISHED),
        ((D.UNKNOWN, D.DELIVERED), JobState.PUBLISHED),
    ],
)
@pytest.mark.req("A3")
async def test_the_last_delivery_decides(
    store: Store, states: tuple[DeliveryState, DeliveryState], outcome: JobState
) -> None:
    number = await hand_in(store, "hello", RED, BLUE)
    red, blue = await lane(store, RED), await lane(store, BLUE)
    await red.report(ended(number, states[0]))
    assert not (await look(store, number)).is_finished
    assert await blue.report(ended(number, states[1]), now=NOW + 1) == [
        JobChange(number, outcome, True)
    ]
    job = await look(store, number)
    assert (job.state, job.finished_at) == (outcome, NOW + 1)


async def test_lanes_that_settle_at_the_same_moment_judge_once(store: Store) -> None:
    numbers = [await hand_in(store, f"note {n}", RED, BLUE, GREEN) for n in range(20)]
    hands = [await lane(store, url) for url in (RED, BLUE, GREEN)]
    answers = await asyncio.gather(*(hand.deliver(*numbers) for hand in hands))
    finished = [change for answer in answers for change in answer if change.finished]
    assert sorted(change.job for change in finished) == numbers
    assert {await state_of(store, number) for number in numbers} == {JobState.PUBLISHED}


async def test_only_moves_are_told(store: Store) -> None:
    cancelled, failed = await hand_in(store, "cancelled"), await hand_in(store, "failed")
    hand = await lane(store)
    await store.cancel(named(cancelled), NOW)
    await fail(store, failed)
    assert await hand.report(ended(cancelled, D.FAILED), ended(failed, D.FAILED, 2)) == []
    await hand.deliver(cancelled)
    assert await hand.deliver(cancelled) == []


@pytest.mark.req("B8")
async def test_results_survive_a_restart(place: Place) -> None:
    store = await place.open()
    number = await hand_in(store, "hello", RED, BLUE)
    red = await lane(store, RED)
    await red.report(again(number, 1, at=NOW + 50))
    store = await place.reopen()
    job = await look(store, number)
    assert (where(job, RED).attempts, where(job, RED).next_at) == (1, NOW + 50)
    assert [chapter.what for chapter in await store.story(number)] == ["timeout"]
    await publish(store, number, NOW + 60)
    assert (await look(store, number)).publish_attempts == 3
