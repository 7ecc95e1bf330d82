"""Accept: durable before the answer, all or none, and one job per event for ever."""

from __future__ import annotations

import asyncio

import pytest

from postrich.errors import UnknownJob
from postrich.model.delivery import DeliveryState, Target, event_frame
from postrich.model.job import JobFilter, JobState, NewJob, Priority, RetryPolicy
from postrich.store.port import Store
from tests.store.conftest import Place
from tests.store.making import (
    ALICE,
    BLUE,
    CREATED,
    DAY,
    EVERYTHING,
    GREEN,
    HOUR,
    INTERACTIVE,
    NOW,
    RED,
    cannot_sign,
    draft,
    drafts,
    hand_in,
    lane,
    look,
    named,
    note,
    publish,
    signature_of,
    state_of,
    wish,
)


@pytest.mark.req("A1")
async def test_what_was_answered_is_on_disk(place: Place) -> None:
    store = await place.open()
    admission = await store.accept([wish("one", RED, BLUE), wish("two")], NOW)
    numbers = [accepted.job for accepted in admission.accepted]

    another = await place.open()  # while the first has not even been closed
    assert {job.id for job in await another.jobs(EVERYTHING, 10)} == set(numbers)
    reopened = await place.reopen()
    assert [job.content for job in await reopened.jobs(EVERYTHING, 10)] == ["two", "one"]
    assert {d.relay for d in (await look(reopened, numbers[0])).deliveries} == {RED, BLUE}


@pytest.mark.req("A2")
async def test_the_bytes_are_kept_as_they_came(store: Store) -> None:
    event = note('žluťoučký 🐦 \u2028 \\ " \x00 \x1f', tags=(("t", "a\x00b"), ("nonce", "7", "2")))
    number = await hand_in(store, event)

    [parcel] = await store.parcels([number])
    assert parcel.frame == event_frame(event.raw)
    assert (parcel.event_id, parcel.pubkey, parcel.created_at) == (event.id, ALICE, CREATED)
    job = await look(store, number)
    assert (job.content, [list(tag) for tag in job.tags]) == (
        event.content,
        [["t", "a\x00b"], ["nonce", "7", "2"]],
    )
    assert job.size == len(event.raw)


@pytest.mark.req("A1", "B1")
async def test_a_job_reads_back_as_it_was_handed_in(store: Store) -> None:
    policy = RetryPolicy("mine", delays=(1.5, 7), factor=2, max_attempts=4, retry_resets=True)
    targets = (Target(RED, "your write relay"), Target(BLUE, "inbox of bob"))
    wanted = NewJob(note("hi", kind=7), targets, policy, NOW + DAY, None, Priority.URGENT, 2)
    admission = await store.accept([wanted], NOW)

    [accepted] = admission.accepted
    assert accepted.is_new
    assert accepted.event_id == wanted.content.id
    assert accepted.state is JobState.PENDING_PUBLISH
    job = await look(store, accepted.job)
    assert (job.event_id, job.pubkey, job.kind) == (wanted.content.id, ALICE, 7)
    assert (job.priority, job.goal, job.policy) == (0, 2, policy)
    assert (job.accepted_at, job.expires_at, job.due_at) == (NOW, NOW + DAY, None)
    assert (job.published_at, job.finished_at, job.error) == (None, None, None)
    assert {(d.relay, d.reason) for d in job.deliveries} == {(t.url, t.reason) for t in targets}
    assert {d.state for d in job.deliveries} == {DeliveryState.WAITING}
    assert job.next_at == NOW


async def test_the_answer_says_where_work_is_now(store: Store) -> None:
    admission = await store.accept([wish("one", RED, BLUE)], NOW)
    at_work = {work.destination.id for work in await store.work()}
    assert admission.destinations == at_work
    later = await store.accept([wish("two", GREEN, due_at=NOW + HOUR)], NOW)
    assert later.destinations == set()


@pytest.mark.req("A9")
async def test_the_same_event_twice_is_one_job(store: Store) -> None:
    first = await hand_in(store, "hello")
    again = await store.accept([wish("hello")], NOW + HOUR)
    assert [(a.job, a.is_new, a.state) for a in again.accepted] == [
        (first, False, JobState.PENDING_PUBLISH)
    ]
    assert len(await store.jobs(EVERYTHING, 10)) == 1
    assert await (await lane(store)).claim() == [(first, 0)]


@pytest.mark.req("A9")
async def test_the_same_event_at_the_same_moment_is_one_job(store: Store) -> None:
    answers = await asyncio.gather(*(store.accept([wish("hello")], NOW) for _ in range(20)))
    accepted = [answer.accepted[0] for answer in answers]
    assert len({a.job for a in accepted}) == 1
    assert sum(a.is_new for a in accepted) == 1


@pytest.mark.req("A9")
async def test_an_archived_and_a_pruned_event_stay_known(store: Store) -> None:
    number = await hand_in(store, "hello")
    await publish(store, number)
    assert await store.archive(NOW, 10) == 1
    archived = await store.accept([wish("hello")], NOW)
    assert await store.prune(NOW, 10) == 1
    pruned = await store.accept([wish("hello")], NOW)

    for admission in (archived, pruned):
        [accepted] = admission.accepted
        assert (accepted.job, accepted.is_new) == (number, False)
        assert accepted.state is JobState.PUBLISHED
    assert await store.work() == []


@pytest.mark.req("A9")
async def test_a_pruned_job_is_not_said_to_be_published_if_it_was_cancelled(store: Store) -> None:
    number = await hand_in(store, "hello")
    await store.cancel(named(number), NOW)
    await store.archive(NOW, 10)
    await store.prune(NOW, 10)
    [accepted] = (await store.accept([wish("hello")], NOW)).accepted
    assert (accepted.job, accepted.state, accepted.is_new) == (number, JobState.CANCELLED, False)


@pytest.mark.req("A9")
async def test_an_idempotency_key_names_one_job(store: Store) -> None:
    first = await hand_in(store, "first", key="k")
    answer = await store.accept([wish("second", BLUE, key="k"), wish("third", key="l")], NOW)

    repeated, other = answer.accepted
    assert (repeated.job, repeated.is_new) == (first, False)
    assert repeated.event_id == note("first").id
    assert other.is_new
    assert {job.content for job in await store.jobs(EVERYTHING, 10)} == {"first", "third"}
    assert [d.relay for d in (await look(store, first)).deliveries] == [RED]


@pytest.mark.req("A9")
async def test_a_key_used_twice_at_the_same_moment_names_one_job(store: Store) -> None:
    answers = await asyncio.gather(
        *(store.accept([wish(f"try {n}", key="k")], NOW) for n in range(10))
    )
    assert len({answer.accepted[0].job for answer in answers}) == 1
    assert len(await store.jobs(EVERYTHING, 10)) == 1


@pytest.mark.req("A9")
async def test_a_key_used_twice_in_one_batch_names_one_job(store: Store) -> None:
    batch = [wish("one", key="k"), wish("two", key="k"), wish("three"), wish("one", key="k")]
    accepted = (await store.accept(batch, NOW)).accepted
    assert [a.job == accepted[0].job for a in accepted] == [True, True, False, True]
    assert [a.is_new for a in accepted] == [True, False, True, False]
    assert {job.content for job in await store.jobs(EVERYTHING, 10)} == {"one", "three"}


@pytest.mark.req("A9")
async def test_a_new_key_for_a_known_event_names_its_job(store: Store) -> None:
    first = await hand_in(store, "hello")
    assert await hand_in(store, "hello", key="k") == first
    assert await hand_in(store, "other", key="k") == first


@pytest.mark.req("A2", "A9")
async def test_a_repeated_key_never_lends_another_events_bytes(store: Store) -> None:
    number = await hand_in(store, draft("mine"), key="k")
    answer = await store.accept([wish(note("not mine"), key="k")], NOW)
    assert answer.accepted[0].state is JobState.PENDING_SIGN
    job = await look(store, number)
    assert (job.state, job.content) == (JobState.PENDING_SIGN, "mine")


@pytest.mark.req("A9")
@pytest.mark.parametrize(
    ("one", "two"), [("a\x00b", "a\x00c"), ("é", "e\u0301"), ("k", "K"), ("1", "1.0"), ("", " ")]
)
async def test_keys_that_differ_are_different(store: Store, one: str, two: str) -> None:
    assert await hand_in(store, "one", key=one) != await hand_in(store, "two", key=two)


@pytest.mark.req("A17")
async def test_a_batch_with_an_unknown_need_is_refused_whole(store: Store) -> None:
    batch = [wish("one", GREEN, key="k"), wish("two", after=(77,)), wish("three")]
    with pytest.raises(UnknownJob, match="no job 77"):
        await store.accept(batch, NOW)

    assert await store.jobs(EVERYTHING, 10) == []
    assert await store.work() == []
    assert await store.find(note("one").id) == []
    [accepted] = (await store.accept([wish("other", key="k")], NOW)).accepted
    assert accepted.is_new  # not even its key was kept


@pytest.mark.req("A17")
async def test_a_refused_batch_does_not_touch_those_accepted_with_it(store: Store) -> None:
    answers = await asyncio.gather(
        store.accept([wish("good 1")], NOW),
        store.accept([wish("bad"), wish("worse", after=(77,))], NOW),
        store.accept([wish("good 2")], NOW),
        return_exceptions=True,
    )
    assert [isinstance(answer, UnknownJob) for answer in answers] == [False, True, False]
    assert {job.content for job in await store.jobs(EVERYTHING, 10)} == {"good 1", "good 2"}


async def test_an_empty_batch_is_nothing(store: Store) -> None:
    assert (await store.accept([], NOW)).accepted == []


@pytest.mark.req("A9", "A17")
async def test_an_event_twice_in_one_batch_is_one_job(store: Store) -> None:
    admission = await store.accept([wish("x"), wish("y"), wish("x", BLUE)], NOW)
    first, other, repeated = admission.accepted
    assert (repeated.job, repeated.is_new) == (first.job, False)
    assert other.is_new
    job = await look(store, first.job)
    assert {d.relay for d in job.deliveries} == {RED, BLUE}


@pytest.mark.req("A17")
async def test_a_large_batch_is_numbered_in_order(store: Store) -> None:
    batch = [wish(f"note {n}", RED, BLUE) for n in range(500)]
    numbers = [a.job for a in (await store.accept(batch, NOW)).accepted]
    assert numbers == sorted(set(numbers))
    jobs = await store.jobs(EVERYTHING, 1000)
    assert [job.content for job in reversed(jobs)] == [f"note {n}" for n in range(500)]
    assert (await store.status()).open_deliveries == 1000


# -- drafts and hours -----------------------------------------------------------------------


@pytest.mark.req("A2", "A3")
async def test_a_draft_waits_for_its_signature(store: Store) -> None:
    content = draft("unsigned")
    [accepted] = (await store.accept([wish(content, RED)], NOW)).accepted
    assert accepted.state is JobState.PENDING_SIGN
    assert accepted.event_id == content.id
    assert await store.work() == []
    assert (await look(store, accepted.job)).next_at == NOW


@pytest.mark.req("A2", "A9")
async def test_the_signed_event_of_a_waiting_draft_is_its_signature(store: Store) -> None:
    content = draft("unsigned")
    number = await hand_in(store, content)
    event = signature_of(content)
    [accepted] = (await store.accept([wish(event)], NOW)).accepted
    assert (accepted.job, accepted.is_new) == (number, False)
    assert accepted.state is JobState.PENDING_PUBLISH

    assert await drafts(store) == []
    await publish(store, number)
    assert (await store.parcels([number]))[0].frame == event_frame(event.raw)
    assert await state_of(store, number) is JobState.PUBLISHED


@pytest.mark.req("A9")
async def test_the_signed_event_of_a_scheduled_draft_keeps_its_hour(store: Store) -> None:
    content = draft("unsigned")
    number = await hand_in(store, content, due_at=NOW + HOUR)
    assert await state_of(store, number) is JobState.PENDING_SIGN
    await hand_in(store, signature_of(content), BLUE)
    job = await look(store, number)
    assert (job.state, job.next_at) == (JobState.SCHEDULED, NOW + HOUR)
    assert {d.relay for d in job.deliveries} == {RED, BLUE}
    assert await store.stage_due(NOW + HOUR - 1, 10) == []


@pytest.mark.req("A9")
@pytest.mark.parametrize("park", [True, False])
async def test_a_signature_from_elsewhere_helps_where_the_signer_did_not(
    store: Store, park: bool
) -> None:
    content = draft("unsigned")
    number = await hand_in(store, content)
    await cannot_sign(store, number, park=park)
    later = NOW + 10 * DAY
    await hand_in(store, signature_of(content), now=later, expires_at=later + DAY)
    job = await look(store, number)
    assert (job.state, job.error, job.is_finished) == (JobState.PENDING_PUBLISH, None, False)
    assert await store.expire(later, 10) == []
    await publish(store, number, later)
    assert await state_of(store, number) is JobState.PUBLISHED


@pytest.mark.req("A3", "F3")
async def test_a_signed_event_with_an_hour_is_scheduled(store: Store) -> None:
    [accepted] = (await store.accept([wish("later", due_at=NOW + HOUR)], NOW)).accepted
    assert accepted.state is JobState.SCHEDULED
    assert await store.work() == []
    assert await store.next_stage() == NOW + HOUR
    job = await look(store, accepted.job)
    assert (job.due_at, job.next_at) == (NOW + HOUR, NOW + HOUR)
    assert [d.relay for d in job.deliveries] == [RED]  # planned, and shown as such


@pytest.mark.req("A3")
async def test_an_hour_that_has_passed_is_now(store: Store) -> None:
    number = await hand_in(store, "late", due_at=NOW - HOUR)
    assert await state_of(store, number) is JobState.PENDING_PUBLISH
    assert await (await lane(store)).jobs() == [number]


@pytest.mark.req("A10")
async def test_priorities_are_kept(store: Store) -> None:
    for priority in Priority:
        number = await hand_in(store, f"p{priority}", priority=priority)
        assert (await look(store, number)).priority == priority


async def test_a_preset_is_read_back_as_itself(store: Store) -> None:
    number = await hand_in(store, "hello")
    assert (await look(store, number)).policy == INTERACTIVE
    assert len(await store.jobs(JobFilter(open_only=True), 10)) == 1
