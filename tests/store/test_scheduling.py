"""Scheduled posts: names, quotas, slots, edits and cancels that win or lose for certain."""

from __future__ import annotations

import asyncio

import pytest

from postrich.errors import Conflict, QuotaExceeded, SlotTaken, TooLate, UnknownJob
from postrich.model.job import JobFilter, JobState
from postrich.model.post import Grid, Kept, KeptAnswer, Network, NewPost, Revision
from postrich.store.port import Store
from tests.store.conftest import Place
from tests.store.making import (
    ALICE,
    BOB,
    HOUR,
    NOW,
    RED,
    draft,
    look,
    note,
    route_all,
    routed,
    signature_of,
    stage,
    wish,
)

LATER = NOW + HOUR


def post(
    text: str,
    *,
    name: str = "",
    author: str = ALICE,
    at: int = LATER,
    signed: bool = True,
    crosspost: tuple[Network, ...] = (),
    alone: bool = False,
) -> NewPost:
    content = note(text, author=author) if signed else draft(text, author=author)
    return NewPost(name or text, wish(content, RED, due_at=at), crosspost, alone)


async def keep(store: Store, *posts: NewPost, most: int | None = None) -> list[Kept]:
    answers = (await store.schedule(posts, NOW, most)).answers
    for answer in answers:
        if isinstance(answer, Exception):
            raise answer
    return [answer for answer in answers if isinstance(answer, Kept)]


async def job_of(store: Store, new: NewPost) -> int:
    [kept] = await keep(store, new)
    return kept.accepted.job


# -- keeping -----------------------------------------------------------------------------------


@pytest.mark.req("F1")
async def test_a_post_is_found_by_its_name(store: Store) -> None:
    [kept] = await keep(store, post("one", crosspost=(Network.ATPROTO,)))
    assert kept.accepted.is_new
    assert kept.accepted.state is JobState.SCHEDULED
    [found] = await store.posts_called("one", ALICE)
    assert (found.name, found.job.id, found.crosspost) == (
        "one",
        kept.accepted.job,
        (Network.ATPROTO,),
    )
    assert found.job.due_at == LATER
    assert await store.names_of([kept.accepted.job]) == {kept.accepted.job: "one"}
    assert await store.posts_called("two", ALICE) == []


@pytest.mark.req("F9")
async def test_names_are_each_author_s_own(store: Store) -> None:
    await keep(store, post("one", name="id"), post("two", name="id", author=BOB))
    assert [p.job.content for p in await store.posts_called("id", ALICE)] == ["one"]
    assert [p.job.content for p in await store.posts_called("id", BOB)] == ["two"]
    assert {p.job.pubkey for p in await store.posts_called("id")} == {ALICE, BOB}


@pytest.mark.req("F1", "A9")
async def test_the_same_request_again_is_the_same_post(store: Store) -> None:
    [first] = await keep(store, post("one"))
    [second] = await keep(store, post("one"))
    assert second.accepted.job == first.accepted.job
    assert not second.accepted.is_new
    assert len(await store.jobs(JobFilter(), 10)) == 1


@pytest.mark.req("F1", "A9")
async def test_a_draft_s_event_brings_its_signature(store: Store) -> None:
    job = await job_of(store, post("one", signed=False))
    assert (await look(store, job)).state is JobState.PENDING_SIGN
    [kept] = await keep(store, post("one"), most=1)
    assert (kept.accepted.job, kept.accepted.is_new) == (job, False)
    assert kept.accepted.state is JobState.SCHEDULED
    assert (await look(store, job)).state is JobState.SCHEDULED
    assert [item.job for item in await store.stage_due(LATER, 10)] == [job]


@pytest.mark.req("F1")
async def test_a_name_means_one_post(store: Store) -> None:
    await keep(store, post("one", name="id"))
    [answer] = (await store.schedule([post("two", name="id")], NOW)).answers
    assert isinstance(answer, Conflict)
    assert [job.content for job in await store.jobs(JobFilter(), 10)] == ["one"]


@pytest.mark.req("F1", "F4")
async def test_a_post_has_one_name(store: Store) -> None:
    """Names beyond the first would be counted by no quota, and lost between two pages."""
    await keep(store, post("one"))
    scheduled = await store.schedule([post("one", name="two"), post("one", name="three")], NOW)
    assert [type(answer) for answer in scheduled.answers] == [Conflict, Conflict]
    assert "'one'" in str(scheduled.answers[0])
    assert [found.name for found in await store.posts_of(ALICE, 10)] == ["one"]
    await store.accept([wish(note("plain"), RED, due_at=LATER)], NOW)
    scheduled = await store.schedule([post("plain", name="a"), post("plain", name="b")], NOW)
    assert [type(answer) for answer in scheduled.answers] == [Kept, Conflict]


@pytest.mark.req("F1")
async def test_an_event_that_is_over_is_not_scheduled_again(store: Store) -> None:
    job = await job_of(store, post("one"))
    await store.call_off([job], NOW)
    [answer] = (await store.schedule([post("one", name="other")], NOW)).answers
    assert isinstance(answer, Conflict)
    assert "cancelled" in str(answer)


@pytest.mark.req("F1")
async def test_an_event_has_one_hour(store: Store) -> None:
    await keep(store, post("one"))
    [answer] = (await store.schedule([post("one", name="two", at=LATER + 1)], NOW)).answers
    assert isinstance(answer, Conflict)
    assert "another time" in str(answer)


@pytest.mark.req("F5")
async def test_each_of_a_bulk_has_its_own_answer_in_one_commit(store: Store) -> None:
    await keep(store, post("taken", name="id"))
    scheduled = await store.schedule(
        [post("a"), post("b", name="id"), post("a", name="again"), post("c", name="a"), post("d")],
        NOW,
    )
    kinds = [type(answer) for answer in scheduled.answers]
    assert kinds == [Kept, Conflict, Conflict, Conflict, Kept]
    assert len({job.accepted_at for job in await store.jobs(JobFilter(), 10)}) == 1
    assert len(await store.jobs(JobFilter(), 10)) == 3


@pytest.mark.req("F4")
async def test_limits_are_those_of_each_call_in_one_commit(store: Store) -> None:
    await keep(store, post("0"), post("1"))
    calls = [(ALICE, 2), (ALICE, None), (BOB, 2), (BOB, None)]
    answers = await asyncio.gather(
        *(
            store.schedule([post(f"{author}{n}", author=author)], NOW, most)
            for n, (author, most) in enumerate(calls)
        )
    )
    kinds = [type(answer.answers[0]) for answer in answers]
    assert kinds == [QuotaExceeded, Kept, Kept, Kept]
    assert (await store.ahead(ALICE), await store.ahead(BOB)) == (3, 2)


@pytest.mark.req("F4")
async def test_so_many_may_wait_and_no_more(store: Store) -> None:
    scheduled = await store.schedule([post(f"{n}") for n in range(4)], NOW, most=3)
    assert [type(a) for a in scheduled.answers] == [Kept, Kept, Kept, QuotaExceeded]
    refusal = scheduled.answers[3]
    assert isinstance(refusal, QuotaExceeded)
    assert await store.ahead(ALICE) == 3
    [other] = (await store.schedule([post("bob", author=BOB)], NOW, most=3)).answers
    assert isinstance(other, Kept)
    [known] = (await store.schedule([post("0")], NOW, most=3)).answers
    assert isinstance(known, Kept)  # it is one of the three
    [job] = [a.accepted.job for a in scheduled.answers[:1] if isinstance(a, Kept)]
    await store.call_off([job], NOW)
    [again] = (await store.schedule([post("4")], NOW, most=3)).answers
    assert isinstance(again, Kept)


@pytest.mark.req("F4")
async def test_who_is_over_the_quota_hears_when_to_come_again(store: Store) -> None:
    await keep(store, post("one"))
    [answer] = (await store.schedule([post("two")], NOW, most=1)).answers
    assert isinstance(answer, QuotaExceeded)
    assert answer.retry_after == HOUR // 1000 + 1


@pytest.mark.req("F4")
async def test_the_quota_holds_against_callers_at_once(place_store: Store, store: Store) -> None:
    calls = [
        (place_store if n % 2 else store).schedule([post(f"{n}")], NOW, most=5) for n in range(20)
    ]
    answers = [scheduled.answers[0] for scheduled in await asyncio.gather(*calls)]
    assert sum(isinstance(answer, Kept) for answer in answers) == 5
    assert await store.ahead(ALICE) == 5


@pytest.fixture
async def place_store(place: Place) -> Store:
    """Another connection to the same outbox, as another process has one."""
    return await place.open()


@pytest.mark.req("F5")
async def test_a_slot_is_given_once(store: Store) -> None:
    await keep(store, post("one", alone=True))
    [answer] = (await store.schedule([post("two", alone=True)], NOW)).answers
    assert isinstance(answer, Conflict)
    await keep(store, post("three", alone=True, at=LATER + 1), post("four", at=LATER))
    assert await store.times_taken(ALICE, NOW, LATER) == {LATER}
    assert await store.times_taken(ALICE, NOW, LATER + 1) == {LATER, LATER + 1}
    assert await store.times_taken(BOB, NOW, LATER + 1) == set()


@pytest.mark.req("F5")
async def test_a_slot_is_given_once_within_a_request(store: Store) -> None:
    answers = (
        await store.schedule([post("one", alone=True), post("two", alone=True)], NOW)
    ).answers
    assert [type(answer) for answer in answers] == [Kept, SlotTaken]


# -- changing one's mind -----------------------------------------------------------------------


@pytest.mark.req("F5", "F3")
async def test_another_hour_keeps_the_signature(store: Store) -> None:
    job = await job_of(store, post("one"))
    revised = await store.revise(Revision(job, LATER + HOUR, NOW + 9 * HOUR), NOW)
    assert revised.job == job
    found = await look(store, job)
    assert (found.due_at, found.next_at, found.expires_at) == (
        LATER + HOUR,
        LATER + HOUR,
        NOW + 9 * HOUR,
    )
    assert found.state is JobState.SCHEDULED
    assert await store.next_stage() == LATER + HOUR
    assert "rescheduled" in [chapter.what for chapter in await store.story(job)]


@pytest.mark.req("F5")
async def test_another_event_takes_the_place_and_the_name(store: Store) -> None:
    job = await job_of(store, post("one", name="id", crosspost=(Network.ACTIVITYPUB,)))
    new = wish(note("two"), RED, due_at=LATER)
    revised = await store.revise(Revision(job, LATER, NOW + HOUR, new), NOW)
    assert revised.job != job
    assert (await look(store, job)).state is JobState.SUPERSEDED
    [found] = await store.posts_called("id", ALICE)
    assert (found.job.id, found.job.content) == (revised.job, "two")
    assert found.crosspost == (Network.ACTIVITYPUB,)
    assert await store.stage_due(LATER - 1, 10) == []
    assert [item.job for item in await store.stage_due(LATER, 10)] == [revised.job]


@pytest.mark.req("F5")
async def test_an_event_that_is_known_takes_nobody_s_place(store: Store) -> None:
    job = await job_of(store, post("one"))
    await keep(store, post("two"))
    with pytest.raises(Conflict):
        await store.revise(
            Revision(job, LATER, NOW + HOUR, wish(note("two"), RED, due_at=LATER)), NOW
        )
    assert (await look(store, job)).state is JobState.SCHEDULED


@pytest.mark.req("F3", "F5")
async def test_what_was_given_a_later_hour_is_not_routed_by_who_read_it_before(
    store: Store,
) -> None:
    job = await job_of(store, post("one"))
    items = await store.stage_due(LATER, 10)
    await store.revise(Revision(job, LATER + HOUR, NOW + 9 * HOUR), NOW)
    await store.route(await stage(store), routed(items), LATER)
    assert (await look(store, job)).state is JobState.SCHEDULED
    assert await store.work() == []


@pytest.mark.req("F3", "F5")
async def test_what_was_called_off_is_not_routed_by_who_read_it_before(store: Store) -> None:
    job = await job_of(store, post("one"))
    items = await store.stage_due(LATER, 10)
    await store.call_off([job], NOW)
    await store.route(await stage(store), routed(items), LATER)
    assert (await look(store, job)).state is JobState.CANCELLED
    assert await store.work() == []


@pytest.mark.req("F5")
async def test_what_is_on_its_way_is_neither_changed_nor_called_off(store: Store) -> None:
    job = await job_of(store, post("one"))
    await route_all(store, LATER)
    with pytest.raises(TooLate, match="being published"):
        await store.call_off([job], LATER)
    with pytest.raises(TooLate):
        await store.revise(Revision(job, LATER + HOUR, NOW + 9 * HOUR), LATER)
    assert (await look(store, job)).state is JobState.PENDING_PUBLISH


@pytest.mark.req("F5")
async def test_what_is_over_or_unknown_is_not_changed(store: Store) -> None:
    job = await job_of(store, post("one"))
    await store.call_off([job], NOW)
    with pytest.raises(TooLate, match="cancelled already"):
        await store.call_off([job], NOW)
    with pytest.raises(UnknownJob):
        await store.call_off([999], NOW)


@pytest.mark.req("F5", "A6")
async def test_a_draft_that_was_edited_is_not_signed_as_it_was(store: Store) -> None:
    job = await job_of(store, post("one", signed=False))
    old = draft("one")
    new = wish(draft("two"), RED, due_at=LATER)
    revised = await store.revise(Revision(job, LATER, NOW + HOUR, new), NOW)
    fence = await store.take_lease("sign", "me", NOW, NOW + HOUR)
    assert fence is not None
    assert await store.signed(fence, job, signature_of(old), NOW) == []
    assert (await look(store, job)).state is JobState.SUPERSEDED
    assert (await look(store, revised.job)).state is JobState.PENDING_SIGN


@pytest.mark.req("F5")
async def test_races_of_edit_cancel_and_alarm_have_one_winner(store: Store) -> None:
    """Whatever was answered stays true: a post that was called off or moved has no deliveries."""
    jobs = [await job_of(store, post(f"{n}")) for n in range(60)]
    fence = await stage(store)
    items = {item.job: item for item in await store.stage_due(LATER, 100)}

    async def call_off(job: int) -> str:
        try:
            await store.call_off([job], LATER)
        except TooLate:
            return "late"
        return "cancelled"

    async def move(job: int) -> str:
        try:
            await store.revise(Revision(job, LATER + HOUR, NOW + 99 * HOUR), LATER)
        except TooLate:
            return "late"
        return "moved"

    async def alarm(job: int) -> str:
        await store.route(fence, routed([items[job]]), LATER)
        return "alarm"

    races = [
        asyncio.gather(alarm(job), (call_off if job % 2 else move)(job)) for job in jobs[:30]
    ] + [asyncio.gather((call_off if job % 2 else move)(job), alarm(job)) for job in jobs[30:]]
    outcomes = await asyncio.gather(*races)
    for job, outcome in zip(jobs, outcomes, strict=True):
        found = await look(store, job)
        if "cancelled" in outcome:
            assert found.state is JobState.CANCELLED
        elif "moved" in outcome:
            assert found.state is JobState.SCHEDULED
        else:
            assert found.state is JobState.PENDING_PUBLISH


# -- looking -----------------------------------------------------------------------------------


@pytest.mark.req("F1")
async def test_an_author_s_posts_in_pages(store: Store) -> None:
    await keep(store, *[post(f"{n}") for n in range(5)], post("bob", author=BOB))
    first = await store.posts_of(ALICE, 3)
    assert [p.name for p in first] == ["4", "3", "2"]
    assert [p.name for p in await store.posts_of(ALICE, 3, first[-1].job.id)] == ["1", "0"]


@pytest.mark.req("F1")
async def test_deleted_jobs_take_their_names_along(store: Store) -> None:
    job = await job_of(store, post("one"))
    await store.call_off([job], NOW)
    await store.delete(JobFilter(jobs=(job,)))
    assert await store.posts_called("one", ALICE) == []
    await keep(store, post("one"))


@pytest.mark.req("F1")
async def test_forgotten_jobs_take_their_names_along(store: Store) -> None:
    job = await job_of(store, post("one"))
    await store.call_off([job], NOW)
    await store.archive(NOW + 1, 10)
    assert [p.job.state for p in await store.posts_called("one")] == [JobState.CANCELLED]
    await store.prune(NOW + 1, 10)
    assert await store.posts_called("one") == []


@pytest.mark.req("F9")
async def test_an_author_s_jobs_live_and_past(store: Store) -> None:
    job = await job_of(store, post("one"))
    await keep(store, post("two"), post("bob", author=BOB))
    await store.call_off([job], NOW)
    await store.archive(NOW + 1, 10)
    found = await store.jobs(JobFilter(pubkey=ALICE), 10)
    assert [job.content for job in found] == ["two", "one"]
    assert [j.content for j in await store.jobs(JobFilter(pubkey=ALICE), 10, found[0].id)] == [
        "one"
    ]


@pytest.mark.req("F5")
async def test_grids_are_kept_replaced_and_dropped(store: Store) -> None:
    await store.keep_grid(Grid(ALICE, "week", "mon 09:00", "UTC"))
    await store.keep_grid(Grid(ALICE, "week", "tue 09:00", "Europe/Berlin"))
    await store.keep_grid(Grid(BOB, "week", "wed 09:00", "UTC"))
    assert await store.grids(ALICE) == [Grid(ALICE, "week", "tue 09:00", "Europe/Berlin")]
    assert await store.drop_grid(ALICE, "week")
    assert not await store.drop_grid(ALICE, "week")
    assert await store.grids(ALICE) == []
    assert len(await store.grids(BOB)) == 1


@pytest.mark.req("F1")
async def test_the_first_answer_counts_for_a_day(store: Store) -> None:
    first = KeptAnswer(ALICE, "key", "print", 201, "{}", NOW)
    await store.keep_answer(first)
    await store.keep_answer(KeptAnswer(ALICE, "key", "other", 200, "[]", NOW))
    assert await store.answer_of(ALICE, "key") == first
    assert await store.answer_of(BOB, "key") is None
    await store.keep_answer(KeptAnswer(ALICE, "new", "print", 201, "{}", NOW + 25 * HOUR))
    assert await store.answer_of(ALICE, "key") is None


@pytest.mark.req("A9", "F5")
async def test_a_key_that_was_used_means_its_first_post(store: Store) -> None:
    """A request that was carried out and not answered comes again, and says another time."""
    first = NewPost("one", wish(draft("one"), RED, due_at=LATER, key="key"), alone=True)
    [kept] = await keep(store, first)
    again = NewPost("two", wish(draft("two"), RED, due_at=LATER + 1, key="key"), alone=True)
    [found] = await keep(store, again)
    assert (found.name, found.accepted.job) == ("one", kept.accepted.job)
    assert not found.accepted.is_new
    assert await store.posts_called("two") == []
    assert len(await store.jobs(JobFilter(), 10)) == 1
