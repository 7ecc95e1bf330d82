"""A new event ends older ones that still wait (A11): newer versions, deletions, vanishing."""

from __future__ import annotations

import pytest

from postrich.model.delivery import DeliveryState
from postrich.model.event import Event
from postrich.model.job import JobState
from postrich.store.port import Store
from tests.store.making import (
    ALICE,
    BLUE,
    BOB,
    CREATED,
    HOUR,
    NOW,
    RED,
    Tags,
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
    state_of,
    where,
    wish,
)

pytestmark = pytest.mark.req("A11")

PROFILE = 0
ARTICLE = 30_023
DELETION = 5
VANISH = 62


def profile(text: str, at: int = CREATED, author: str = ALICE) -> Event:
    return note(text, at=at, kind=PROFILE, author=author)


def article(text: str, name: str = "a", at: int = CREATED, author: str = ALICE) -> Event:
    return note(text, at=at, kind=ARTICLE, author=author, tags=(("d", name),))


def deletion(*tags: tuple[str, str], at: int = CREATED + 60, author: str = ALICE) -> Event:
    return note("", at=at, kind=DELETION, author=author, tags=tags)


def vanish(*relays: str, at: int = CREATED + 60, author: str = ALICE) -> Event:
    tags: Tags = [("relay", relay) for relay in relays]
    return note("", at=at, kind=VANISH, author=author, tags=tags)


# -- newer versions -------------------------------------------------------------------------


@pytest.mark.parametrize("make", [profile, article])
async def test_a_newer_version_ends_the_one_that_waits(store: Store, make: object) -> None:
    assert callable(make)
    old = await hand_in(store, make("old"), RED, BLUE)
    admission = await store.accept([wish(make("new", at=CREATED + 1))], NOW + 1)

    job = await look(store, old)
    assert (job.state, job.finished_at) == (JobState.SUPERSEDED, NOW + 1)
    assert {d.state for d in job.deliveries} == {DeliveryState.SUPERSEDED}
    new = admission.accepted[0]
    assert [(c.job, c.state, c.finished) for c in admission.changes] == [
        (old, JobState.SUPERSEDED, True)
    ]
    assert await (await lane(store, RED)).jobs(NOW + 1) == [new.job]
    assert [c.what for c in await store.story(old)] == ["superseded"]
    assert str(new.job) in (await store.story(old))[0].detail


async def test_an_older_version_is_superseded_at_birth(store: Store) -> None:
    await hand_in(store, profile("new", CREATED + 1))
    [accepted] = (await store.accept([wish(profile("old"))], NOW)).accepted
    assert (accepted.state, accepted.is_new) == (JobState.SUPERSEDED, True)
    job = await look(store, accepted.job)
    assert job.finished_at == NOW
    assert {d.state for d in job.deliveries} == {DeliveryState.SUPERSEDED}
    assert await store.newest_version(f"0:{ALICE}:") == CREATED + 1


async def test_of_the_same_second_the_lower_id_wins(store: Store) -> None:
    one, two = sorted((profile("one"), profile("two")), key=lambda event: event.id)
    loser = await hand_in(store, two)
    winner = await hand_in(store, one)
    assert await state_of(store, loser) is JobState.SUPERSEDED
    assert await state_of(store, winner) is JobState.PENDING_PUBLISH


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
async def test_versions_in_one_batch_leave_the_newest(store: Store, order: tuple[int, int]) -> None:
    versions = [profile("old"), profile("new", CREATED + 1)]
    batch = [wish(versions[index]) for index in order]
    accepted = (await store.accept(batch, NOW)).accepted
    states = {(await look(store, a.job)).content: await state_of(store, a.job) for a in accepted}
    assert states == {"old": JobState.SUPERSEDED, "new": JobState.PENDING_PUBLISH}
    assert [a.state for a in accepted] == [await state_of(store, a.job) for a in accepted]


async def test_whatever_still_waits_is_ended(store: Store) -> None:
    unsigned = await hand_in(store, draft("old", kind=3))
    scheduled = await hand_in(store, article("old"), due_at=NOW + HOUR)
    parked = await hand_in(store, profile("old"))
    await park(store, parked)
    admission = await store.accept(
        [
            wish(note("new", kind=3, at=CREATED + 1)),
            wish(article("new", at=CREATED + 1)),
            wish(profile("new", CREATED + 1)),
        ],
        NOW,
    )
    for number in (unsigned, scheduled, parked):
        job = await look(store, number)
        assert job.state is JobState.SUPERSEDED
        assert {d.state for d in job.deliveries} == {DeliveryState.SUPERSEDED}
    assert {change.job for change in admission.changes} == {unsigned, scheduled, parked}


async def test_a_parked_draft_is_ended_too(store: Store) -> None:
    number = await hand_in(store, draft("old", kind=0))
    await cannot_sign(store, number, park=True)
    await hand_in(store, profile("new", CREATED + 1))
    assert await state_of(store, number) is JobState.SUPERSEDED


async def test_what_was_delivered_stays_delivered(store: Store) -> None:
    published = await hand_in(store, profile("old"), RED, BLUE)
    await (await lane(store, RED)).deliver(published)
    short = await hand_in(store, article("old"), RED, BLUE, goal=2)
    await (await lane(store, RED)).deliver(short)
    await store.accept(
        [wish(profile("new", CREATED + 1)), wish(article("new", at=CREATED + 1))], NOW
    )

    for number, state in ((published, JobState.PUBLISHED), (short, JobState.SUPERSEDED)):
        job = await look(store, number)
        assert (job.state, job.is_finished) == (state, True)
        assert where(job, RED).state is DeliveryState.DELIVERED
        assert where(job, BLUE).state is DeliveryState.SUPERSEDED


async def test_a_late_ok_still_publishes_a_superseded_job(store: Store) -> None:
    old = await hand_in(store, profile("old"))
    hand = await lane(store)
    await hand_in(store, profile("new", CREATED + 1))
    changes = await hand.deliver(old)
    assert [(c.job, c.state) for c in changes] == [(old, JobState.PUBLISHED)]
    assert where(await look(store, old), RED).state is DeliveryState.DELIVERED


async def test_what_has_failed_is_left_to_its_owner(store: Store) -> None:
    old = await hand_in(store, profile("old"))
    await fail(store, old)
    await hand_in(store, profile("new", CREATED + 1))
    assert await state_of(store, old) is JobState.FAILED


async def test_other_addresses_are_untouched(store: Store) -> None:
    others = [
        await hand_in(store, profile("old", author=BOB)),
        await hand_in(store, note("old", kind=3)),
        await hand_in(store, note("old")),
        await hand_in(store, article("old", "b")),
        await hand_in(store, article("old", "a", author=BOB)),
        await hand_in(store, article("old", "a\x00b")),
    ]
    for event in (profile("new", CREATED + 1), article("new", "a", CREATED + 1)):
        assert (await store.accept([wish(event)], NOW)).changes == []
    assert {await state_of(store, number) for number in others} == {JobState.PENDING_PUBLISH}


async def test_the_newest_version_ever_is_remembered(store: Store) -> None:
    address = f"{ARTICLE}:{ALICE}:a"
    assert await store.newest_version(address) is None
    number = await hand_in(store, article("v1", at=CREATED + 5))
    await publish(store, number)
    await store.archive(NOW, 10)
    await store.prune(NOW, 10)
    assert await store.newest_version(address) == CREATED + 5
    assert await store.newest_version(f"{ARTICLE}:{ALICE}:b") is None


@pytest.mark.req("B6")
async def test_a_deleted_version_may_be_handed_in_anew(store: Store) -> None:
    number = await hand_in(store, profile("mine"))
    await fail(store, number)
    await store.delete(named(number))
    [accepted] = (await store.accept([wish(profile("mine"))], NOW)).accepted
    assert (accepted.is_new, accepted.state) == (True, JobState.PENDING_PUBLISH)


# -- deletions ------------------------------------------------------------------------------


async def test_a_deletion_takes_back_what_still_waits(store: Store) -> None:
    events = [note(f"oops {n}") for n in range(3)]
    sent = await hand_in(store, events[0], RED, BLUE)
    later = await hand_in(store, events[1], due_at=NOW + HOUR)
    parked = await hand_in(store, events[2])
    await (await lane(store)).report(ended(parked, DeliveryState.PARKED))
    unsigned_draft = draft("oops 4")
    unsigned = await hand_in(store, unsigned_draft)
    ids = [event.id for event in events] + [unsigned_draft.id]
    admission = await store.accept([wish(deletion(*(("e", i) for i in ids)))], NOW)

    assert {(c.job, c.state, c.finished) for c in admission.changes} == {
        (number, JobState.CANCELLED, True) for number in (sent, later, parked, unsigned)
    }
    for number in (sent, later, parked, unsigned):
        job = await look(store, number)
        assert (job.state, job.is_finished) == (JobState.CANCELLED, True)
        assert {d.state for d in job.deliveries} == {DeliveryState.CANCELLED}
        assert [c.what for c in await store.story(number)][-1] == "cancelled"
    assert await (await lane(store)).jobs() == [admission.accepted[0].job]


async def test_a_deletion_stops_what_is_only_partly_delivered(store: Store) -> None:
    event = note("oops")
    number = await hand_in(store, event, RED, BLUE)
    await (await lane(store, RED)).deliver(number)
    await hand_in(store, deletion(("e", event.id)), RED)
    job = await look(store, number)
    assert (job.state, job.is_finished) == (JobState.PUBLISHED, True)
    assert where(job, RED).state is DeliveryState.DELIVERED
    assert where(job, BLUE).state is DeliveryState.CANCELLED


async def test_a_deletion_leaves_what_is_over(store: Store) -> None:
    published, failed = note("published"), note("failed")
    numbers = [await hand_in(store, published), await hand_in(store, failed)]
    hand = await lane(store)
    await hand.deliver(numbers[0])
    await hand.report(ended(numbers[1], DeliveryState.FAILED))
    admission = await store.accept(
        [wish(deletion(("e", published.id), ("e", failed.id)), BLUE)], NOW
    )
    assert admission.changes == []
    assert await state_of(store, numbers[0]) is JobState.PUBLISHED
    assert await state_of(store, numbers[1]) is JobState.FAILED


async def test_only_the_authors_own_events_are_taken_back(store: Store) -> None:
    event, post = note("mine"), article("mine")
    numbers = [await hand_in(store, event), await hand_in(store, post)]
    request = deletion(("e", event.id), ("a", f"{ARTICLE}:{ALICE}:a"), author=BOB)
    assert (await store.accept([wish(request)], NOW)).changes == []
    assert {await state_of(store, number) for number in numbers} == {JobState.PENDING_PUBLISH}


async def test_a_deletion_cannot_be_taken_back(store: Store) -> None:
    first = deletion(("e", "00" * 32))
    number = await hand_in(store, first)
    second = await hand_in(store, deletion(("e", first.id), at=CREATED + 90))
    everything = await hand_in(store, vanish("ALL_RELAYS", at=CREATED + 99))
    for deletion_job in (number, second, everything):
        assert await state_of(store, deletion_job) is JobState.PENDING_PUBLISH


async def test_a_deletion_by_address_means_versions_up_to_its_time(store: Store) -> None:
    old = await hand_in(store, article("old", "a"))
    other = await hand_in(store, article("other", "b"))
    newer = await hand_in(store, article("newer", "c", at=CREATED + 99))
    addresses = [("a", f"{ARTICLE}:{ALICE}:{name}") for name in "ac"]
    await hand_in(store, deletion(*addresses))
    assert await state_of(store, old) is JobState.CANCELLED
    assert await state_of(store, other) is JobState.PENDING_PUBLISH
    assert await state_of(store, newer) is JobState.PENDING_PUBLISH


@pytest.mark.parametrize("first", [0, 1])
async def test_an_original_in_the_same_batch_is_taken_back(store: Store, first: int) -> None:
    event = note("oops")
    batch = [wish(event), wish(deletion(("e", event.id)))]
    admission = await store.accept(batch if first == 0 else batch[::-1], NOW)
    assert admission.accepted[first].state is JobState.CANCELLED
    jobs = {job.kind: job.state for job in await store.jobs(named(), 10)}
    assert jobs == {1: JobState.CANCELLED, DELETION: JobState.PENDING_PUBLISH}


async def test_a_late_ok_still_publishes_what_was_taken_back(store: Store) -> None:
    event = note("oops")
    number = await hand_in(store, event)
    hand = await lane(store)
    await hand_in(store, deletion(("e", event.id)))
    await hand.report(late_ok(number, 0))
    assert await state_of(store, number) is JobState.PUBLISHED


# -- vanishing ------------------------------------------------------------------------------


async def test_a_vanish_from_everywhere_takes_back_everything_so_far(store: Store) -> None:
    mine = [
        await hand_in(store, note("one"), RED, BLUE),
        await hand_in(store, profile("me")),
        await hand_in(store, note("later"), due_at=NOW + HOUR),
        await hand_in(store, draft("unsigned")),
    ]
    newer = await hand_in(store, note("after", at=CREATED + 61))
    bobs = await hand_in(store, note("one", author=BOB))
    request = await hand_in(store, vanish("ALL_RELAYS"))

    assert {await state_of(store, number) for number in mine} == {JobState.CANCELLED}
    for number in (newer, bobs, request):
        assert await state_of(store, number) is JobState.PENDING_PUBLISH


async def test_a_vanish_from_one_relay_takes_back_only_what_goes_there(store: Store) -> None:
    both = await hand_in(store, note("both"), RED, BLUE)
    there = await hand_in(store, note("there"), RED)
    elsewhere = await hand_in(store, note("elsewhere"), BLUE)
    await hand_in(store, vanish(RED), RED)

    job = await look(store, both)
    assert (job.state, job.is_finished) == (JobState.PENDING_PUBLISH, False)
    assert where(job, RED).state is DeliveryState.CANCELLED
    assert where(job, BLUE).state is DeliveryState.WAITING
    gone = await look(store, there)
    assert gone.is_finished
    assert where(gone, RED).state is DeliveryState.CANCELLED
    assert await state_of(store, elsewhere) is JobState.PENDING_PUBLISH
    await (await lane(store, BLUE)).deliver(both, elsewhere)
    assert (await look(store, both)).is_finished


async def test_a_vanish_from_a_relay_that_asked_for_something_ends_the_asking(store: Store) -> None:
    number = await hand_in(store, note("parked"), RED)
    await park(store, number)
    await hand_in(store, vanish(RED), BLUE)
    job = await look(store, number)
    assert where(job, RED).state is DeliveryState.CANCELLED
    assert job.state is not JobState.PARKED


async def test_a_vanish_that_names_no_relay_takes_nothing_back(store: Store) -> None:
    number = await hand_in(store, note("one"))
    await hand_in(store, vanish())
    assert await state_of(store, number) is JobState.PENDING_PUBLISH
