"""Dependencies (A10): a job waits until the jobs it refers to are published."""

from __future__ import annotations

import pytest

from postrich.model.delivery import DeliveryState
from postrich.model.job import JobState
from postrich.store.port import Store
from tests.store.making import (
    BLUE,
    DAY,
    GREEN,
    HOUR,
    NOW,
    RED,
    cannot_sign,
    desk,
    draft,
    drafts,
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
    route_all,
    routed,
    signature_of,
    stage,
    state_of,
    wish,
)

pytestmark = pytest.mark.req("A10")


async def test_a_job_is_held_until_its_need_is_published(store: Store) -> None:
    need = await hand_in(store, "workout", RED)
    share = await hand_in(store, "share", BLUE, after=(need,))
    assert (await look(store, share)).waits_for == (need,)
    assert [work.destination.url for work in await store.work()] == [RED]
    assert await store.stage_due(NOW + DAY, 10) == []
    assert await store.next_stage() is None

    await publish(store, need)
    assert await store.next_stage() == NOW
    await route_all(store)
    assert await (await lane(store, BLUE)).jobs() == [share]


async def test_the_first_ok_is_enough_to_go(store: Store) -> None:
    need = await hand_in(store, "workout", RED, BLUE)
    share = await hand_in(store, "share", RED, after=(need,))
    red = await lane(store, RED)
    await red.deliver(need)
    await route_all(store)
    assert await red.jobs() == [share]


async def test_a_need_that_finishes_later_wakes_nobody_twice(store: Store) -> None:
    need = await hand_in(store, "workout", RED, BLUE)
    await hand_in(store, "share", RED, after=(need,))
    await (await lane(store, RED)).deliver(need)
    await route_all(store)
    await (await lane(store, BLUE)).deliver(need)
    assert await store.stage_due(NOW + DAY, 10) == []


async def test_a_need_that_is_taken_back_later_wakes_nobody_twice(store: Store) -> None:
    workout = note("workout")
    need = await hand_in(store, workout, RED, BLUE)
    await hand_in(store, "share", RED, after=(need,))
    await (await lane(store, RED)).deliver(need)
    await route_all(store)
    await hand_in(store, note("", kind=5, tags=(("e", workout.id),)), GREEN)
    assert await store.stage_due(NOW + DAY, 10) == []


async def test_all_needs_must_be_published(store: Store) -> None:
    needs = [await hand_in(store, f"need {n}") for n in range(2)]
    share = await hand_in(store, "share", BLUE, after=tuple(needs))
    await publish(store, needs[0])
    assert await store.next_stage() is None
    await publish(store, needs[1])
    assert [item.job for item in await store.stage_due(NOW, 10)] == [share]


async def test_a_need_that_is_published_already_holds_nothing(store: Store) -> None:
    need = await hand_in(store, "workout")
    await publish(store, need)
    share = await hand_in(store, "share", after=(need,))
    assert await (await lane(store)).jobs() == [share]


async def test_an_archived_need_counts(store: Store) -> None:
    need = await hand_in(store, "workout")
    await publish(store, need)
    await store.archive(NOW, 10)
    share = await hand_in(store, "share", after=(need,))
    assert await (await lane(store)).jobs() == [share]


async def test_a_need_forgotten_while_one_waits_for_its_hour_counts(store: Store) -> None:
    need = await hand_in(store, "workout")
    share = await hand_in(store, "share", after=(need,), due_at=NOW + HOUR)
    await publish(store, need)
    await store.archive(NOW, 10)
    await store.prune(NOW, 10)
    await route_all(store, NOW + HOUR)
    assert await (await lane(store)).jobs(NOW + HOUR) == [share]


async def test_a_need_deleted_after_it_was_published_counts(store: Store) -> None:
    need = await hand_in(store, "workout")
    share = await hand_in(store, "share", after=(need,), due_at=NOW + HOUR)
    await publish(store, need)
    await store.delete(named(need))
    await route_all(store, NOW + HOUR)
    assert await (await lane(store)).jobs(NOW + HOUR) == [share]


async def test_a_chain_goes_one_by_one(store: Store) -> None:
    first = await hand_in(store, "first")
    second = await hand_in(store, "second", after=(first,))
    third = await hand_in(store, "third", after=(second,))
    for number in (first, second, third):
        assert await (await lane(store)).jobs() == [number]
        await publish(store, number)
        await route_all(store)
    assert await state_of(store, third) is JobState.PUBLISHED


async def test_a_scheduled_job_waits_for_its_hour_and_its_need(store: Store) -> None:
    early = await hand_in(store, "early need")
    late = await hand_in(store, "late need")
    one = await hand_in(store, "one", BLUE, after=(early,), due_at=NOW + HOUR)
    two = await hand_in(store, "two", BLUE, after=(late,), due_at=NOW + HOUR)
    await publish(store, early)
    assert await store.stage_due(NOW + HOUR - 1, 10) == []
    changes = await route_all(store, NOW + HOUR)
    assert {(c.job, c.state) for c in changes} == {
        (one, JobState.PENDING_PUBLISH),
        (two, JobState.PENDING_PUBLISH),
    }
    blue = await lane(store, BLUE)
    assert await blue.jobs(NOW + HOUR) == [one]
    assert await store.next_stage() is None  # held: the stager need not look again
    await publish(store, late, NOW + 2 * HOUR)
    await route_all(store, NOW + 2 * HOUR)
    assert await blue.jobs(NOW + 2 * HOUR) == [one, two]


async def test_a_draft_is_signed_while_it_waits(store: Store) -> None:
    need = await hand_in(store, "workout")
    content = draft("share")
    share = await hand_in(store, content, BLUE, after=(need,))
    assert [item.job for item in await drafts(store)] == [share]
    await store.signed(await desk(store), share, signature_of(content), NOW)
    await route_all(store)
    assert await state_of(store, share) is JobState.PENDING_PUBLISH
    assert [work.destination.url for work in await store.work()] == [RED]
    await publish(store, need)
    await route_all(store)
    assert await (await lane(store, BLUE)).jobs() == [share]


# -- needs that are not published -----------------------------------------------------------


async def test_a_failed_need_parks_who_waits_with_the_reason(store: Store) -> None:
    need = await hand_in(store, "workout")
    share = await hand_in(store, "share", BLUE, after=(need,))
    hand = await lane(store)
    changes = await hand.report(ended(need, DeliveryState.REFUSED), now=NOW + 1)
    assert {(c.job, c.state, c.finished) for c in changes} == {
        (need, JobState.FAILED, True),
        (share, JobState.PARKED, True),
    }
    job = await look(store, share)
    assert (job.state, job.finished_at) == (JobState.PARKED, NOW + 1)
    assert job.error is not None
    assert job.error.code == "DEPENDENCY"
    assert [d.state for d in job.deliveries] == [DeliveryState.PARKED]


async def test_every_way_to_end_unpublished_parks_who_waits(store: Store) -> None:
    parked = await hand_in(store, "parked")
    await park(store, parked)
    cancelled = await hand_in(store, "cancelled")
    expired = await hand_in(store, "expired", expires_at=NOW + 1)
    unsent = await hand_in(store, "unsent", due_at=NOW + HOUR, expires_at=NOW + 1)
    unsigned = await hand_in(store, draft("unsigned"))
    rejected = await hand_in(store, draft("rejected"))
    replaced = await hand_in(store, draft("old profile", kind=0))
    waiting = {
        need: await hand_in(store, f"after {need}", BLUE, after=(need,))
        for need in (cancelled, expired, unsent, unsigned, rejected, replaced)
    }
    told = await store.cancel(named(cancelled), NOW)
    told += await store.expire(NOW + 1, 10)
    told += await cannot_sign(store, unsigned)
    told += await cannot_sign(store, rejected, park=True)
    newer = draft("new profile", kind=0, at=NOW // 1000 + 1)
    told += (await store.accept([wish(newer)], NOW)).changes

    for need, share in waiting.items():
        assert await state_of(store, share) is JobState.PARKED, f"after {need}"
    assert {c.job for c in told if c.state is JobState.PARKED} == {*waiting.values(), rejected}


async def test_a_chain_is_parked_to_its_end(store: Store) -> None:
    first = await hand_in(store, "first")
    second = await hand_in(store, "second", after=(first,))
    third = await hand_in(store, "third", after=(second,))
    await fail(store, first)
    assert await state_of(store, second) is JobState.PARKED
    assert await state_of(store, third) is JobState.PARKED


async def test_who_comes_after_a_failed_need_is_parked_at_birth(store: Store) -> None:
    need = await hand_in(store, "workout")
    await fail(store, need)
    admission = await store.accept(
        [wish("share", BLUE, after=(need,)), wish(draft("draft"), BLUE, after=(need,))], NOW
    )
    for accepted in admission.accepted:
        assert accepted.state is JobState.PARKED
        job = await look(store, accepted.job)
        assert job.state is JobState.PARKED
        assert job.error is not None


async def test_a_retried_need_may_still_be_published_and_waited_for(store: Store) -> None:
    need = await hand_in(store, "workout")
    share = await hand_in(store, "share", BLUE, after=(need,))
    await fail(store, need)
    await store.retry(named(need), NOW)
    await store.retry(named(share), NOW)
    await route_all(store)
    job = await look(store, share)
    assert (job.state, job.error) == (JobState.PENDING_PUBLISH, None)
    assert [work.destination.url for work in await store.work()] == [RED]
    await publish(store, need)
    await route_all(store)
    assert await (await lane(store, BLUE)).jobs() == [share]


async def test_a_retry_without_hope_is_parked_again(store: Store) -> None:
    need = await hand_in(store, "workout")
    share = await hand_in(store, "share", BLUE, after=(need,))
    more = await hand_in(store, "more", BLUE, after=(share,))
    await store.cancel(named(need), NOW)
    await store.retry(named(share, more), NOW)
    changes = await route_all(store)
    told = {change.job: change.state for change in changes}  # the last word counts
    assert told == {share: JobState.PARKED, more: JobState.PARKED}
    assert await state_of(store, share) is JobState.PARKED


async def test_a_retry_goes_once_the_failed_need_is_deleted(store: Store) -> None:
    need = await hand_in(store, "workout")
    share = await hand_in(store, "share", BLUE, after=(need,))
    await fail(store, need)
    await store.delete(named(need))
    await store.retry(named(share), NOW)
    await route_all(store)
    assert await (await lane(store, BLUE)).jobs() == [share]


async def test_a_late_ok_lets_a_retry_go(store: Store) -> None:
    need = await hand_in(store, "workout")
    share = await hand_in(store, "share", BLUE, after=(need,))
    hand = await lane(store)
    await store.cancel(named(need), NOW)
    await hand.report(late_ok(need, 0))
    await store.retry(named(share), NOW)
    await route_all(store)
    assert await (await lane(store, BLUE)).jobs() == [share]


async def test_a_held_job_that_was_cancelled_stays_cancelled(store: Store) -> None:
    need = await hand_in(store, "workout")
    share = await hand_in(store, "share", BLUE, after=(need,), due_at=NOW + 1)
    fence = await stage(store)
    items = await store.stage_due(NOW + 1, 10)
    await store.cancel(named(share), NOW + 1)
    changes, destinations = await store.route(fence, routed(items), NOW + 2)
    assert (changes, destinations) == ([], set())
    assert await state_of(store, share) is JobState.CANCELLED
    await publish(store, need)
    assert await store.next_stage() is None
