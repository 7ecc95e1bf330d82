"""The signing desk's verbs: what it is given, and what a signature or its want makes of a job."""

from __future__ import annotations

import pytest

from postrich.model.delivery import DeliveryState, event_frame
from postrich.model.job import JobChange, JobError, JobState, Phase, Priority
from postrich.store.port import Store
from tests.store.making import (
    BLUE,
    CAPTURE,
    DAY,
    HOUR,
    NOW,
    RED,
    SECOND,
    cannot_sign,
    desk,
    draft,
    drafts,
    ended,
    hand_in,
    lane,
    look,
    named,
    note,
    publish,
    route_all,
    signature_of,
    snapshot,
    state_of,
)

ANN, BEN, EVE = "aa" * 32, "bb" * 32, "ee" * 32


@pytest.mark.req("A8", "A6")
async def test_an_account_is_given_its_own_drafts_urgent_ones_first(store: Store) -> None:
    later = await hand_in(store, draft("later", author=ANN), now=NOW - 5)
    earlier = await hand_in(store, draft("earlier", author=ANN), now=NOW - 9)
    other = await hand_in(store, draft("other", author=BEN))
    urgent = await hand_in(store, draft("urgent", author=ANN), priority=Priority.URGENT)
    await hand_in(store, "signed already")
    assert await store.unsigned() == [(ANN, NOW - 9), (BEN, NOW)]

    items = await store.drafts_due(ANN, NOW, 10)
    assert [item.job for item in items] == [urgent, earlier, later]
    assert [item.job for item in await store.drafts_due(ANN, NOW, 1)] == [urgent]
    assert [item.job for item in await store.drafts_due(ANN, NOW, 9, [urgent])] == [earlier, later]
    assert [item.job for item in await store.drafts_due(BEN, NOW, 10)] == [other]
    assert await store.drafts_due(EVE, NOW, 10) == []
    assert await store.drafts_due(BEN, NOW - 1, 10) == []


@pytest.mark.req("A2")
async def test_a_draft_comes_back_as_it_was_handed_in(store: Store) -> None:
    content = draft("hello", tags=(("t", "x"), ("nonce", "7", "2")))
    number = await hand_in(store, content, policy=CAPTURE, expires_at=NOW + HOUR)
    [item] = await drafts(store)
    assert (item.job, item.policy, item.sign_attempts) == (number, CAPTURE, 0)
    assert item.expires_at == NOW + HOUR
    assert item.draft.id == content.id


@pytest.mark.req("A6")
async def test_a_signer_that_comes_makes_its_own_drafts_due(store: Store) -> None:
    mine = await hand_in(store, draft("mine", author=ANN))
    other = await hand_in(store, draft("other", author=BEN))
    refused = await hand_in(store, draft("refused", author=ANN))
    for number in (mine, other):
        await cannot_sign(store, number, next_at=NOW + HOUR)
    await cannot_sign(store, refused, park=True)
    before = await look(store, mine)
    assert await store.signer_came(ANN, NOW + 5) == ([], set())
    assert [item.job for item in await drafts(store, NOW + 5)] == [mine]
    after = await look(store, mine)
    assert (after.sign_attempts, after.expires_at) == (1, before.expires_at)
    assert (await look(store, other)).next_at == NOW + HOUR
    assert await state_of(store, refused) is JobState.PARKED  # it was a person who said no
    assert await store.signer_came(EVE, NOW) == ([], set())


@pytest.mark.req("A6", "C3")
async def test_a_signer_that_comes_reopens_what_a_relay_wanted_auth_for(store: Store) -> None:
    number = await hand_in(store, note("hello"), RED, BLUE)
    for url, code in ((RED, "signer"), (BLUE, "restricted")):
        hand = await lane(store, url)
        await hand.report(ended(number, DeliveryState.PARKED, code=code))
    job = await look(store, number)
    assert job.state is JobState.PARKED
    changes, destinations = await store.signer_came(job.pubkey, NOW + 1)
    assert changes == [JobChange(number, JobState.PENDING_PUBLISH, False)]
    assert destinations == {(await lane(store, RED)).destination.id}
    again = await look(store, number)
    assert {(d.relay, d.state) for d in again.deliveries} == {
        (RED, DeliveryState.WAITING),
        (BLUE, DeliveryState.PARKED),
    }
    assert again.expires_at == job.expires_at
    assert [(c.what, c.detail) for c in await store.story(number)][-1] == (
        "resumed",
        "a signer came",
    )
    assert await store.signer_came(job.pubkey, NOW + DAY) == ([], set())


async def test_a_signature_is_part_of_the_story(store: Store) -> None:
    content = draft("hello")
    number = await hand_in(store, content)
    await store.signed(await desk(store), number, signature_of(content), NOW + 3, "by your bunker")
    [chapter] = await store.story(number)
    assert (chapter.at, chapter.what, chapter.detail) == (NOW + 3, "signed", "by your bunker")


@pytest.mark.req("A2")
async def test_a_signed_draft_is_sent_as_it_was_signed(store: Store) -> None:
    content = draft("hello")
    number = await hand_in(store, content)
    event = signature_of(content)
    changes = await store.signed(await desk(store), number, event, NOW)
    assert changes == [JobChange(number, JobState.PENDING_PUBLISH, False)]
    [item] = await store.stage_due(NOW, 10)
    assert (item.job, item.state) == (number, JobState.PENDING_PUBLISH)

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
    changes = await store.signed(await desk(store), number, signature_of(content), NOW)
    assert changes == [JobChange(number, JobState.SCHEDULED, False)]
    assert await store.stage_due(NOW + HOUR - 1, 10) == []
    assert [item.job for item in await store.stage_due(NOW + HOUR, 10)] == [number]


async def test_a_draft_signed_after_its_hour_goes_at_once(store: Store) -> None:
    content = draft("hello")
    number = await hand_in(store, content, due_at=NOW + 1)
    changes = await store.signed(await desk(store), number, signature_of(content), NOW + HOUR)
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
    assert await drafts(store, NOW + 2 * SECOND - 1) == []
    [item] = await drafts(store, NOW + 2 * SECOND)
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
    assert await store.unsigned() == []


@pytest.mark.req("A7")
async def test_signing_at_last_clears_the_error(store: Store) -> None:
    content = draft("hello")
    number = await hand_in(store, content)
    await cannot_sign(store, number, next_at=NOW)
    await store.signed(await desk(store), number, signature_of(content), NOW)
    job = await look(store, number)
    assert (job.error, job.sign_attempts) == (None, 1)


@pytest.mark.req("B7")
async def test_a_signers_words_are_redacted(store: Store) -> None:
    number = await hand_in(store, draft("hello"))
    secret = "nsec1" + "q" * 58
    error = JobError(Phase.SIGN, "TIMEOUT", f"bunker://abc?secret=xyz said {secret}")
    await store.not_signed(await desk(store), number, error, NOW, False, NOW)
    job = await look(store, number)
    told = f"{job.error} {await store.story(number)}"
    assert secret not in told
    assert "secret=xyz" not in told


async def test_a_job_that_was_cancelled_meanwhile_is_not_signed(store: Store) -> None:
    content = draft("hello")
    number = await hand_in(store, content)
    await store.cancel(named(number), NOW)
    before = await snapshot(store)
    fence = await desk(store)
    assert await store.signed(fence, number, signature_of(content), NOW) == []
    assert await cannot_sign(store, number) == []
    assert await store.signed(fence, 4711, signature_of(content), NOW) == []
    assert await snapshot(store) == before


@pytest.mark.req("A2")
async def test_another_events_signature_is_not_taken(store: Store) -> None:
    number = await hand_in(store, draft("hello"))
    before = await snapshot(store)
    assert await store.signed(await desk(store), number, note("other"), NOW) == []
    assert await snapshot(store) == before


async def test_a_second_signature_changes_nothing(store: Store) -> None:
    content = draft("hello")
    number = await hand_in(store, content)
    fence = await desk(store)
    await store.signed(fence, number, signature_of(content), NOW)
    before = await snapshot(store)
    assert await store.signed(fence, number, signature_of(content), NOW + 1) == []
    assert await cannot_sign(store, number) == []
    assert await snapshot(store) == before
