"""What people do (B6): retry, cancel and delete, one job or many."""

from __future__ import annotations

import pytest

from postrich.errors import IllegalMove, UnknownJob
from postrich.model.delivery import DeliveryState
from postrich.model.job import JobChange, JobFilter, JobState, RetryPolicy
from postrich.rules.lifecycle import CANCELLABLE, DELETABLE, RETRIABLE
from postrich.store.port import Store
from tests.store.making import (
    ALICE,
    BLUE,
    BOB,
    CAPTURE,
    CREATED,
    DAY,
    EVERYTHING,
    GREEN,
    HOUR,
    NOW,
    RED,
    again,
    cannot_sign,
    draft,
    drafts,
    ended,
    fail,
    hand_in,
    lane,
    look,
    named,
    note,
    park,
    publish,
    route_all,
    snapshot,
    state_of,
    where,
    wish,
)

pytestmark = pytest.mark.req("B6")
D = DeliveryState


async def in_state(store: Store, state: JobState) -> int:
    """A job in that state."""
    kind = 10_000 + list(JobState).index(state)  # replaceable, each its own
    number = await hand_in(
        store,
        draft(state) if state is JobState.PENDING_SIGN else note(state, kind=kind),
        due_at=NOW + HOUR if state is JobState.SCHEDULED else None,
    )
    match state:
        case JobState.PUBLISHED:
            await publish(store, number)
        case JobState.FAILED:
            await fail(store, number)
        case JobState.PARKED:
            await park(store, number)
        case JobState.CANCELLED:
            await store.cancel(named(number), NOW)
        case JobState.SUPERSEDED:
            await hand_in(store, note("newer", kind=kind, at=CREATED + 1), GREEN)
        case _:
            pass
    assert await state_of(store, number) is state
    return number


# -- retry ----------------------------------------------------------------------------------


async def test_a_retry_acts_at_once_whatever_the_backoff(store: Store) -> None:
    number = await hand_in(store, "hello")
    hand = await lane(store)
    await hand.report(again(number, 5, at=NOW + HOUR))
    assert await hand.jobs(NOW + 1) == []
    changes = await store.retry(named(number), NOW + 1)
    assert changes == [JobChange(number, JobState.PENDING_PUBLISH, False)]
    assert await hand.jobs(NOW + 1) == [number]
    assert [chapter.what for chapter in await store.story(number)][-1] == "retried"


async def test_a_retried_delivery_is_fresh_work(store: Store) -> None:
    number = await hand_in(store, "hello")
    hand = await lane(store)
    await hand.report(again(number, 1, at=NOW + HOUR))
    await store.retry(named(number), NOW)
    assert await hand.claim(fresh=1, retried=0) == [(number, 1)]


@pytest.mark.parametrize("state", [D.REFUSED, D.PARKED, D.SKIPPED, D.UNKNOWN, D.FAILED])
async def test_a_retry_reopens_what_was_not_delivered(store: Store, state: DeliveryState) -> None:
    number = await hand_in(store, "hello", RED, BLUE)
    red, blue = await lane(store, RED), await lane(store, BLUE)
    await red.report(ended(number, state))
    await blue.deliver(number)
    assert await state_of(store, number) is JobState.PUBLISHED
    assert await store.retry(named(number), NOW + 1) == [
        JobChange(number, JobState.PUBLISHED, False)
    ]
    job = await look(store, number)
    assert (job.state, job.is_finished) == (JobState.PUBLISHED, False)
    assert (where(job, RED).state, where(job, BLUE).state) == (D.WAITING, D.DELIVERED)
    assert await red.jobs(NOW + 1) == [number]
    assert await blue.jobs(NOW + 1) == []


@pytest.mark.req("B2", "B5", "B6")
@pytest.mark.parametrize(
    ("policy", "left"),
    [(CAPTURE, 0), (RetryPolicy("mine", delays=(1,)), 7)],
    ids=["resets", "keeps"],
)
async def test_counters_are_reset_only_where_the_policy_says_so(
    store: Store, policy: RetryPolicy, left: int
) -> None:
    number = await hand_in(store, "hello", policy=policy)
    unsigned = await hand_in(store, draft("unsigned"), policy=policy)
    hand = await lane(store)
    for attempt in range(1, 8):
        await hand.report(again(number, attempt))
        await cannot_sign(store, unsigned, next_at=NOW + HOUR)
    await store.retry(EVERYTHING, NOW)
    assert (await look(store, number)).publish_attempts == left
    assert (await look(store, unsigned)).sign_attempts == left
    assert await hand.claim() == [(number, left)]


@pytest.mark.req("B5", "B6")
async def test_an_attempt_in_flight_counts_after_the_reset(store: Store) -> None:
    number = await hand_in(store, "hello", policy=CAPTURE)
    hand = await lane(store)
    for attempt in (1, 2):
        await hand.report(again(number, attempt))
    await store.retry(named(number), NOW)
    await hand.report(again(number, 3))  # sent before the person asked
    assert (await look(store, number)).publish_attempts == 1


async def test_counters_of_what_was_delivered_are_never_reset(store: Store) -> None:
    number = await hand_in(store, "hello", RED, BLUE, policy=CAPTURE)
    await (await lane(store, RED)).deliver(number)
    await (await lane(store, BLUE)).report(ended(number, D.FAILED, 1))
    await store.retry(named(number), NOW)
    job = await look(store, number)
    assert (where(job, RED).attempts, where(job, BLUE).attempts) == (1, 0)


async def test_a_retry_clears_the_errors(store: Store) -> None:
    failed, unsigned = await hand_in(store, "failed"), await hand_in(store, draft("unsigned"))
    await fail(store, failed)
    await cannot_sign(store, unsigned, park=True)
    assert (await look(store, failed)).error is not None
    assert (await look(store, unsigned)).error is not None
    await store.retry(named(failed, unsigned), NOW)
    for number, state in (
        (failed, JobState.PENDING_PUBLISH),
        (unsigned, JobState.PENDING_SIGN),
    ):
        job = await look(store, number)
        assert (job.state, job.error, job.finished_at) == (state, None, None)
        assert job.next_at == NOW
    assert [item.job for item in await drafts(store)] == [unsigned]


@pytest.mark.req("B6", "B9")
async def test_a_retry_gives_a_new_lifetime(store: Store) -> None:
    policy = RetryPolicy("mine", delays=(1,), lifetime=3600)
    number = await hand_in(store, "hello", policy=policy, expires_at=NOW + HOUR)
    await store.expire(NOW + HOUR, 10)
    later = NOW + 5 * DAY
    await store.retry(named(number), later)
    assert (await look(store, number)).expires_at == later + HOUR
    assert await store.expire(later + HOUR - 1, 10) == []
    assert len(await store.expire(later + HOUR, 10)) == 1


async def test_a_retry_never_shortens_a_lifetime(store: Store) -> None:
    number = await hand_in(store, "hello", expires_at=NOW + 100 * DAY)
    await store.retry(named(number), NOW)
    assert (await look(store, number)).expires_at == NOW + 100 * DAY


async def test_a_retry_before_the_hour_does_not_send_early(store: Store) -> None:
    need = await hand_in(store, "need")
    number = await hand_in(store, "later", BLUE, due_at=NOW + HOUR, after=(need,))
    await fail(store, need)
    await store.delete(named(need))
    await store.retry(named(number), NOW)
    await route_all(store, NOW)
    hand = await lane(store, BLUE)
    assert await hand.jobs(NOW + HOUR - 1) == []
    assert await hand.jobs(NOW + HOUR) == [number]


async def test_a_retry_of_what_is_all_delivered_leaves_it_finished(store: Store) -> None:
    number = await hand_in(store, "hello")
    await publish(store, number)
    assert await store.retry(named(number), NOW + 1) == [
        JobChange(number, JobState.PUBLISHED, True)
    ]
    assert (await look(store, number)).finished_at == NOW


async def test_a_retry_with_nothing_left_to_try_ends_as_before(store: Store) -> None:
    number = await hand_in(store, "hello", RED, goal=2)
    await publish(store, number)
    assert await state_of(store, number) is JobState.FAILED
    assert await store.retry(named(number), NOW) == [JobChange(number, JobState.FAILED, True)]
    assert (await store.status()).pending == 0


async def test_a_retry_brings_an_archived_job_back(store: Store) -> None:
    number = await hand_in(store, "hello", RED, BLUE)
    await (await lane(store, RED)).deliver(number)
    await (await lane(store, BLUE)).report(ended(number, D.REFUSED))
    assert await store.archive(NOW, 10) == 1
    await store.retry(named(number), NOW + 1)
    assert await (await lane(store, BLUE)).jobs(NOW + 1) == [number]
    await publish(store, number, NOW + 2)
    job = await look(store, number)
    assert {d.relay for d in job.delivered} == {RED, BLUE}
    assert await store.archive(NOW + 2, 10) == 1


# -- cancel ---------------------------------------------------------------------------------


async def test_a_cancelled_job_goes_nowhere_and_keeps_its_story(store: Store) -> None:
    number = await hand_in(store, "hello", RED, BLUE)
    hand = await lane(store)
    await hand.report(again(number, 1))
    assert await store.cancel(named(number), NOW + 1) == [
        JobChange(number, JobState.CANCELLED, True)
    ]
    job = await look(store, number)
    assert (job.state, job.finished_at) == (JobState.CANCELLED, NOW + 1)
    assert {d.state for d in job.deliveries} == {D.CANCELLED}
    assert await store.work() == []
    assert [chapter.what for chapter in await store.story(number)] == ["timeout", "cancelled"]


async def test_what_never_left_can_be_cancelled(store: Store) -> None:
    numbers = [await hand_in(store, draft("x")), await hand_in(store, "y", due_at=NOW + HOUR)]
    await store.cancel(named(*numbers), NOW)
    assert await store.next_stage() is None
    assert await store.unsigned() == []
    for number in numbers:
        job = await look(store, number)
        assert (job.state, job.next_at) == (JobState.CANCELLED, None)
        assert {d.state for d in job.deliveries} == {D.CANCELLED}


async def test_a_cancel_keeps_what_was_delivered(store: Store) -> None:
    number = await hand_in(store, "hello", RED, BLUE, GREEN, goal=3)
    await (await lane(store, RED)).deliver(number)
    await (await lane(store, BLUE)).report(ended(number, D.REFUSED))
    await store.cancel(named(number), NOW)
    job = await look(store, number)
    assert {d.relay: d.state for d in job.deliveries} == {
        RED: D.DELIVERED,
        BLUE: D.REFUSED,
        GREEN: D.CANCELLED,
    }


# -- delete ---------------------------------------------------------------------------------


async def test_a_deleted_job_leaves_nothing_behind(store: Store) -> None:
    number = await hand_in(store, "hello", key="k")
    await fail(store, number)
    assert await store.delete(named(number)) == [number]
    assert await store.jobs(EVERYTHING, 10) == []
    assert await store.story(number) == []
    assert await store.find(note("hello").id) == []
    assert await store.parcels([number]) == []
    assert (await store.status()).failed == 0
    with pytest.raises(UnknownJob):
        await store.retry(named(number), NOW)


async def test_a_deleted_event_may_be_handed_in_anew(store: Store) -> None:
    for archived in (False, True):
        number = await hand_in(store, "hello", key="k")
        await publish(store, number)
        if archived:
            await store.archive(NOW, 10)
        await store.delete(named(number))
        [accepted] = (await store.accept([wish("hello", key="k")], NOW)).accepted
        assert accepted.is_new
        assert accepted.job != number
        await store.cancel(named(accepted.job), NOW)
        await store.delete(named(accepted.job))


# -- who is meant ---------------------------------------------------------------------------


VERBS = {"retry": RETRIABLE, "cancel": CANCELLABLE, "delete": DELETABLE}


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("state", JobState)
@pytest.mark.req("A3", "B6")
async def test_naming_a_job_in_the_wrong_state_is_an_error(
    store: Store, verb: str, state: JobState
) -> None:
    number = await in_state(store, state)
    before = await snapshot(store)

    async def act() -> object:
        match verb:
            case "retry":
                return await store.retry(named(number), NOW)
            case "cancel":
                return await store.cancel(named(number), NOW)
            case _:
                return await store.delete(named(number))

    if state in VERBS[verb]:
        assert await act()
    else:
        with pytest.raises(IllegalMove, match=f"job {number} is {state}"):
            await act()
        assert await snapshot(store) == before


async def test_naming_an_unknown_job_is_an_error_and_nothing_is_done(store: Store) -> None:
    number = await hand_in(store, "hello")
    before = await snapshot(store)
    for act in (store.retry(named(number, 4711), NOW), store.cancel(named(number, 4711), NOW)):
        with pytest.raises(UnknownJob, match="4711"):
            await act
    with pytest.raises(UnknownJob):
        await store.delete(named(4711))
    assert await snapshot(store) == before


async def test_one_job_in_the_wrong_state_stops_the_whole_act(store: Store) -> None:
    good = await hand_in(store, "good")
    done = await in_state(store, JobState.PUBLISHED)
    with pytest.raises(IllegalMove):
        await store.cancel(named(good, done), NOW)
    assert await state_of(store, good) is JobState.PENDING_PUBLISH


async def test_a_filter_leaves_out_what_cannot_be(store: Store) -> None:
    numbers = {state: await in_state(store, state) for state in JobState}
    cancelled = await store.cancel(EVERYTHING, NOW)
    assert {change.job for change in cancelled} >= {
        number for state, number in numbers.items() if state in CANCELLABLE
    }
    assert await state_of(store, numbers[JobState.PUBLISHED]) is JobState.PUBLISHED
    assert await state_of(store, numbers[JobState.SUPERSEDED]) is JobState.SUPERSEDED


async def test_filters_mean_what_they_say(store: Store) -> None:
    mine = await hand_in(store, note("mine", kind=7), RED)
    bobs = await hand_in(store, note("bobs", author=BOB), BLUE)
    failed = await hand_in(store, note("failed"), GREEN)
    await fail(store, failed)

    async def found(**filters: object) -> list[int]:
        return [job.id for job in await store.jobs(JobFilter(**filters), 10)]  # type: ignore[arg-type]

    assert await found() == [failed, bobs, mine]
    assert await found(pubkey=BOB) == [bobs]
    assert await found(pubkey=ALICE) == [failed, mine]
    assert await found(kind=7) == [mine]
    assert await found(relay=BLUE) == [bobs]
    assert await found(relay="wss://nowhere.example/") == []
    assert await found(states=(JobState.FAILED, JobState.PARKED)) == [failed]
    assert await found(open_only=True) == [bobs, mine]
    assert await found(jobs=(mine, failed, 4711)) == [failed, mine]
    assert await found(jobs=(mine, failed), kind=7) == [mine]
    assert await found(pubkey=ALICE, open_only=True) == [mine]


async def test_many_are_retried_and_deleted_at_once(store: Store) -> None:
    numbers = [await hand_in(store, f"note {n}") for n in range(20)]
    for number in numbers:
        await fail(store, number)
    retried = await store.retry(JobFilter(states=(JobState.FAILED,), kind=1), NOW)
    assert sorted(change.job for change in retried) == numbers
    hand = await lane(store)
    await hand.report(*(ended(number, D.FAILED, 2) for number in numbers[:10]))
    deleted = await store.delete(JobFilter(states=(JobState.FAILED,)))
    assert sorted(deleted) == numbers[:10]
    assert await hand.jobs() == numbers[10:]
