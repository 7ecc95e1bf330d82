"""The stager's verbs: what it is given, and what signing and routing make of a job."""

from __future__ import annotations

import pytest

from postrich.model.delivery import DeliveryState, Target, event_frame
from postrich.model.job import JobChange, JobError, JobState, Phase, Priority, StageItem
from postrich.store.port import Store
from tests.store.making import (
    BLUE,
    CAPTURE,
    GREEN,
    HOUR,
    NOW,
    RED,
    SECOND,
    cannot_sign,
    draft,
    hand_in,
    lane,
    look,
    named,
    note,
    publish,
    route_all,
    signature_of,
    snapshot,
    stage,
    state_of,
    wish,
)


@pytest.mark.req("A8")
async def test_unsigned_first_then_signed_then_scheduled_each_by_time(store: Store) -> None:
    scheduled = await hand_in(store, "scheduled", due_at=NOW + 1)
    earlier = await hand_in(store, draft("earlier"), now=NOW - 9)
    content = draft("signed")
    signed = await hand_in(store, content, now=NOW - 99)
    await store.signed(await stage(store), signed, signature_of(content), NOW - 50)
    later = await hand_in(store, draft("later"), now=NOW - 5)
    urgent = await hand_in(store, draft("urgent"), priority=Priority.URGENT)

    items = await store.stage_due(NOW + 1, 10)
    assert [item.job for item in items] == [urgent, earlier, later, signed, scheduled]
    assert [item.job for item in await store.stage_due(NOW + 1, 2)] == [urgent, earlier]
    assert await store.next_stage() == NOW - 50


@pytest.mark.req("A8")
async def test_an_item_carries_what_the_stager_needs(store: Store) -> None:
    content = draft("hello", tags=(("t", "x"),))
    number = await hand_in(
        store,
        content,
        RED,
        BLUE,
        policy=CAPTURE,
        priority=Priority.LATER,
        due_at=NOW + HOUR,
        expires_at=NOW + 2 * HOUR,
    )
    [item] = await store.stage_due(NOW, 10)
    assert isinstance(item, StageItem)
    assert (item.job, item.state, item.priority) == (number, JobState.PENDING_SIGN, 2)
    assert (item.policy, item.sign_attempts) == (CAPTURE, 0)
    assert (item.due_at, item.expires_at) == (NOW + HOUR, NOW + 2 * HOUR)
    assert [target.url for target in item.targets] == [RED, BLUE]
    assert content.content in item.body


async def test_nothing_to_stage(store: Store) -> None:
    await hand_in(store, "goes at once")
    assert await store.stage_due(NOW + HOUR, 10) == []
    assert await store.next_stage() is None


# -- signing --------------------------------------------------------------------------------


@pytest.mark.req("A2")
async def test_a_signed_draft_is_sent_as_it_was_signed(store: Store) -> None:
    content = draft("hello")
    number = await hand_in(store, content)
    event = signature_of(content)
    changes = await store.signed(await stage(store), number, event, NOW)
    assert changes == [JobChange(number, JobState.PENDING_PUBLISH, False)]
    [item] = await store.stage_due(NOW, 10)
    assert (item.state, item.body) == (JobState.PENDING_PUBLISH, event.raw.decode())

    await route_all(store)
    [parcel] = await store.parcels([number])
    assert parcel.frame == event_frame(event.raw)
    job = await look(store, number)
    assert (job.event_id, job.size) == (event.id, len(event.raw))
    await publish(store, number)
    assert await state_of(store, number) is JobState.PUBLISHED


@pytest.mark.req("A3", "F3")
async def test_a_signed_draft_with_an_hour_is_scheduled(store: Store) -> None:
    content = draft("hello")
    number = await hand_in(store, content, due_at=NOW + HOUR)
    changes = await store.signed(await stage(store), number, signature_of(content), NOW)
    assert changes == [JobChange(number, JobState.SCHEDULED, False)]
    assert await store.stage_due(NOW + HOUR - 1, 10) == []
    assert [item.job for item in await store.stage_due(NOW + HOUR, 10)] == [number]


async def test_a_draft_signed_after_its_hour_goes_at_once(store: Store) -> None:
    content = draft("hello")
    number = await hand_in(store, content, due_at=NOW + 1)
    changes = await store.signed(await stage(store), number, signature_of(content), NOW + HOUR)
    assert changes == [JobChange(number, JobState.PENDING_PUBLISH, False)]


@pytest.mark.req("A5", "A7")
async def test_a_signer_that_is_away_is_asked_again(store: Store) -> None:
    number = await hand_in(store, draft("hello"))
    changes = await cannot_sign(store, number, next_at=NOW + 2 * SECOND)
    assert changes == [JobChange(number, JobState.PENDING_SIGN, False)]
    job = await look(store, number)
    assert (job.sign_attempts, job.publish_attempts) == (1, 0)
    assert job.error == JobError(Phase.SIGN, "TIMEOUT", "the signer said no")
    assert job.next_at == NOW + 2 * SECOND
    assert await store.stage_due(NOW + 2 * SECOND - 1, 10) == []
    [item] = await store.stage_due(NOW + 2 * SECOND, 10)
    assert item.sign_attempts == 1
    [chapter] = await store.story(number)
    assert (chapter.what, chapter.detail) == ("not-signed", "TIMEOUT: the signer said no")


@pytest.mark.parametrize(("park", "outcome"), [(True, JobState.PARKED), (False, JobState.FAILED)])
@pytest.mark.req("A5", "A7")
async def test_a_signer_that_will_not_sign_leaves_it_to_a_person(
    store: Store, park: bool, outcome: JobState
) -> None:
    number = await hand_in(store, draft("hello"))
    changes = await cannot_sign(store, number, park=park, now=NOW + 1)
    assert changes == [JobChange(number, outcome, True)]
    job = await look(store, number)
    assert (job.state, job.sign_attempts, job.finished_at) == (outcome, 1, NOW + 1)
    assert job.error is not None
    assert job.error.phase is Phase.SIGN
    assert await store.next_stage() is None


@pytest.mark.req("A7")
async def test_signing_at_last_clears_the_error(store: Store) -> None:
    content = draft("hello")
    number = await hand_in(store, content)
    await cannot_sign(store, number, next_at=NOW)
    await store.signed(await stage(store), number, signature_of(content), NOW)
    job = await look(store, number)
    assert (job.error, job.sign_attempts) == (None, 1)


@pytest.mark.req("B7")
async def test_a_signers_words_are_redacted(store: Store) -> None:
    number = await hand_in(store, draft("hello"))
    secret = "nsec1" + "q" * 58
    error = JobError(Phase.SIGN, "TIMEOUT", f"bunker://abc?secret=xyz said {secret}")
    await store.not_signed(await stage(store), number, error, NOW, False, NOW)
    job = await look(store, number)
    told = f"{job.error} {await store.story(number)}"
    assert secret not in told
    assert "secret=xyz" not in told


async def test_a_job_that_was_cancelled_meanwhile_is_not_signed(store: Store) -> None:
    content = draft("hello")
    number = await hand_in(store, content)
    await store.cancel(named(number), NOW)
    before = await snapshot(store)
    fence = await stage(store)
    assert await store.signed(fence, number, signature_of(content), NOW) == []
    assert await cannot_sign(store, number) == []
    assert await store.signed(fence, 4711, signature_of(content), NOW) == []
    assert await snapshot(store) == before


@pytest.mark.req("A2")
async def test_another_events_signature_is_not_taken(store: Store) -> None:
    number = await hand_in(store, draft("hello"))
    before = await snapshot(store)
    assert await store.signed(await stage(store), number, note("other"), NOW) == []
    assert await snapshot(store) == before


async def test_a_second_signature_changes_nothing(store: Store) -> None:
    content = draft("hello")
    number = await hand_in(store, content)
    fence = await stage(store)
    await store.signed(fence, number, signature_of(content), NOW)
    before = await snapshot(store)
    assert await store.signed(fence, number, signature_of(content), NOW + 1) == []
    assert await cannot_sign(store, number) == []
    assert await snapshot(store) == before


# -- routing --------------------------------------------------------------------------------


@pytest.mark.req("F3")
async def test_a_due_job_gets_its_deliveries(store: Store) -> None:
    number = await hand_in(store, "later", RED, BLUE, due_at=NOW + HOUR)
    fence = await stage(store)
    items = await store.stage_due(NOW + HOUR, 10)
    changes, destinations = await store.route(fence, items, NOW + HOUR + 5)
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
    rerouted = StageItem(
        item.job,
        item.state,
        item.priority,
        item.policy,
        item.sign_attempts,
        item.expires_at,
        item.due_at,
        (Target(BLUE, "new list"), Target(GREEN, "inbox")),
        item.body,
    )
    await store.route(fence, [rerouted], NOW + 1)
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
    assert await store.route(fence, items, NOW + 1) == ([], set())
    assert await state_of(store, cancelled) is JobState.CANCELLED
    assert await store.work() == []


async def test_routing_twice_makes_no_second_delivery(store: Store) -> None:
    number = await hand_in(store, "later", due_at=NOW + 1)
    fence = await stage(store)
    items = await store.stage_due(NOW + 1, 10)
    await store.route(fence, items, NOW + 1)
    await store.route(fence, items, NOW + 1)
    hand = await lane(store)
    assert await hand.jobs(NOW + 1) == [number]
    await hand.deliver(number, now=NOW + 1)
    await store.route(fence, items, NOW + 1)
    assert await hand.jobs(NOW + 1) == []
    assert await state_of(store, number) is JobState.PUBLISHED


async def test_routing_nothing(store: Store) -> None:
    assert await store.route(await stage(store), [], NOW) == ([], set())
