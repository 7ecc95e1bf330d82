"""Jobs that are routed by relay lists, as the store keeps them (D3, D9, D11, D12)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import apsw
import msgspec
import pytest

from postrich.model.delivery import DeliveryState, Target
from postrich.model.event import Draft, Event, parse_event
from postrich.model.job import JobChange, JobError, JobFilter, JobState, Phase, Routed, StageItem
from postrich.rules.precedence import Cancellation, cancellation_of
from postrich.store.port import KeptList, Store
from postrich.store.queries import migrations
from postrich.store.sqlite import SqliteStore
from postrich.store.sqlite.connection import APPLICATION_ID
from tests.store.conftest import Place
from tests.store.making import (
    ALICE,
    BLUE,
    BOB,
    CREATED,
    DAY,
    GREEN,
    HOUR,
    NOW,
    RED,
    desk,
    draft,
    ended,
    lane,
    look,
    named,
    note,
    publish,
    signature_of,
    stage,
    state_of,
    where,
    wish,
)

PENDING, PUBLISHED, PARKED = JobState.PENDING_PUBLISH, JobState.PUBLISHED, JobState.PARKED
FAILED = JobState.FAILED
D = DeliveryState
NO_ROUTE = JobError(Phase.PUBLISH, "NO_ROUTE", "no relay is known for it")


async def auto(
    store: Store, content: Draft | Event | str = "hello", *now: Target, **more: Any
) -> int:
    """Hand a job in that lists decide about; `now`: where it goes at once."""
    body = note(content) if isinstance(content, str) else content
    job = msgspec.structs.replace(wish(body, **more), targets=now, auto=True)
    return (await store.accept([job], NOW)).accepted[0].job


async def due(store: Store, now: int = NOW) -> list[StageItem]:
    return await store.stage_due(now, 100)


async def send(
    store: Store, *targets: Target, again_at: int | None = None, now: int = NOW
) -> list[JobChange]:
    """What the stager does with the one job that is due."""
    [item] = await due(store, now)
    changes, _ = await store.route(await stage(store), [Routed(item, targets, again_at)], now)
    return changes


def to(url: str, *readers: str, mine: bool = False, stranger: bool = True) -> Target:
    return Target(url, "because", mine, readers, stranger)


def mine(url: str) -> Target:
    return to(url, mine=True, stranger=False)


def urls(job: Any) -> set[str]:
    return {delivery.relay for delivery in job.deliveries}


# -- staged ---------------------------------------------------------------------------------------


@pytest.mark.req("A1", "D11")
async def test_a_job_whose_relays_are_not_known_is_staged_with_its_event(store: Store) -> None:
    event = note("hello")
    number = await auto(store, event)
    [item] = await due(store)
    assert (item.job, item.state, item.targets, item.route_attempts) == (number, PENDING, (), 0)
    assert item.event is not None
    assert item.event.encode() == event.raw
    assert await store.stage_due(NOW, 100, [number]) == []
    assert await store.work() == []
    job = await look(store, number)
    assert (job.state, job.deliveries, job.next_at) == (PENDING, (), NOW)


async def test_a_job_whose_relays_are_known_goes_at_once(store: Store) -> None:
    number = await auto(store, "hello", mine(RED))
    assert await due(store) == []
    assert await (await lane(store)).jobs() == [number]


async def test_jobs_that_need_no_lists_come_first(store: Store) -> None:
    waiting = [await auto(store, f"note {n}") for n in range(3)]
    content = draft("signed")
    fixed = (await store.accept([wish(content)], NOW)).accepted[0].job
    await store.signed(await desk(store), fixed, signature_of(content), NOW)
    assert [item.job for item in await due(store)] == [fixed, *waiting]
    assert [item.event is None for item in await due(store)] == [True, False, False, False]


@pytest.mark.req("F3", "D11")
async def test_a_scheduled_job_is_planned_when_it_is_due(store: Store) -> None:
    number = await auto(store, "later", mine(RED), due_at=NOW + HOUR)
    assert await due(store) == []
    assert urls(await look(store, number)) == {RED}, "as it looks today"
    await send(store, mine(BLUE), now=NOW + HOUR)
    assert urls(await look(store, number)) == {BLUE}


@pytest.mark.req("A2", "D11")
async def test_a_draft_is_planned_once_it_is_signed(store: Store) -> None:
    content = draft("draft")
    number = await auto(store, content)
    assert await due(store) == []
    await store.signed(await desk(store), number, signature_of(content), NOW)
    [item] = await due(store)
    assert item.event is not None
    assert item.event.encode() == signature_of(content).raw


# -- routed, in parts -----------------------------------------------------------------------------


@pytest.mark.req("D11")
async def test_a_job_is_routed_in_parts_and_not_finished_before_the_last(store: Store) -> None:
    number = await auto(store)
    changes = await send(store, mine(RED), again_at=NOW + HOUR)
    assert changes == [JobChange(number, PENDING, False)]
    await (await lane(store)).deliver(number)
    job = await look(store, number)
    assert (job.state, job.is_finished, job.next_at) == (PUBLISHED, False, NOW + HOUR)
    [item] = await due(store, NOW + HOUR)
    assert (item.state, item.route_attempts) == (PUBLISHED, 1)
    await send(store, mine(RED), to(BLUE, BOB), now=NOW + HOUR)
    job = await look(store, number)
    assert (job.state, job.is_finished) == (PUBLISHED, False)
    assert where(job, RED).state is D.DELIVERED
    assert where(job, BLUE).state is D.WAITING
    await (await lane(store, BLUE)).deliver(number, now=NOW + HOUR)
    assert (await look(store, number)).is_finished
    assert await store.next_stage() is None


@pytest.mark.req("D11")
async def test_a_second_part_that_brings_nothing_new_finishes_the_job(store: Store) -> None:
    number = await auto(store)
    await send(store, mine(RED), again_at=NOW + HOUR)
    await (await lane(store)).deliver(number)
    changes = await send(store, mine(RED), now=NOW + HOUR)
    assert changes == [JobChange(number, PUBLISHED, True)]
    assert (await look(store, number)).published_at == NOW


@pytest.mark.req("D11")
async def test_each_part_that_is_missing_counts_and_the_last_begins_anew(store: Store) -> None:
    number = await auto(store)
    for attempt in range(3):
        [item] = await due(store, NOW + attempt)
        assert item.route_attempts == attempt
        await send(store, mine(RED), again_at=NOW + attempt + 1, now=NOW + attempt)
    await send(store, mine(RED), now=NOW + 3)
    await store.reroute([ALICE], NOW + 4)
    [item] = await due(store, NOW + 4)
    assert (item.job, item.route_attempts) == (number, 0)


@pytest.mark.req("A10", "D11")
async def test_a_job_that_waits_for_another_is_not_routed_before_it(store: Store) -> None:
    first = await auto(store, "first")
    second = await auto(store, "second", after=(first,))
    assert [item.job for item in await due(store)] == [first]
    await store.reroute([ALICE], NOW)
    items = {item.job: item for item in await due(store)}
    fence = await stage(store)
    await store.route(fence, [Routed(items[second], (mine(RED),))], NOW)
    assert (await look(store, second)).deliveries == ()
    await store.route(fence, [Routed(items[first], (mine(RED),))], NOW)
    await (await lane(store)).deliver(first)
    assert [item.job for item in await due(store)] == [second]
    await send(store, mine(RED))
    await publish(store, second)


# -- nowhere to go --------------------------------------------------------------------------------


@pytest.mark.req("D3", "A7")
async def test_nowhere_to_go_waits_for_a_person(store: Store) -> None:
    number = await auto(store)
    changes = await store.not_routed(await stage(store), number, NO_ROUTE, None, NOW)
    assert changes == [JobChange(number, PARKED, True)]
    job = await look(store, number)
    assert (job.error, job.next_at, job.is_finished) == (NO_ROUTE, None, True)
    assert [chapter.what for chapter in await store.story(number)] == ["not-routed"]
    assert await store.next_stage() is None
    await store.retry(named(number), NOW + 5)
    [item] = await due(store, NOW + 5)
    assert item.job == number
    assert (await look(store, number)).error is None


@pytest.mark.req("D3")
async def test_lists_that_cannot_be_read_are_looked_for_again(store: Store) -> None:
    number = await auto(store)
    error = JobError(Phase.PUBLISH, "LISTS_UNAVAILABLE", "wss://user:secret@x.example is away")
    changes = await store.not_routed(await stage(store), number, error, NOW + HOUR, NOW)
    assert changes == [JobChange(number, PENDING, False)]
    job = await look(store, number)
    assert (job.state, job.next_at) == (PENDING, NOW + HOUR)
    assert job.error is not None
    assert "secret" not in job.error.message
    [item] = await due(store, NOW + HOUR)
    assert item.route_attempts == 1
    await send(store, mine(RED), now=NOW + HOUR)
    assert (await look(store, number)).error is None


@pytest.mark.req("D11")
@pytest.mark.parametrize("next_at", [None, NOW + HOUR])
@pytest.mark.parametrize("published", [False, True])
async def test_nowhere_else_to_go_parks_no_job_that_went_somewhere(
    store: Store, published: bool, next_at: int | None
) -> None:
    number = await auto(store, "hello", mine(RED), mine(BLUE))
    if published:
        await (await lane(store)).deliver(number)
    await store.reroute([ALICE], NOW + 1)
    assert [item.job for item in await due(store, NOW + 1)] == [number]
    await store.not_routed(await stage(store), number, NO_ROUTE, next_at, NOW + 1)
    job = await look(store, number)
    assert (job.state, job.is_finished) == (PUBLISHED if published else PENDING, False)
    assert job.error is None
    assert await store.next_stage() == next_at
    await publish(store, number, now=NOW + 2)
    assert (await look(store, number)).is_finished is (next_at is None)


@pytest.mark.req("D11")
async def test_the_last_that_was_to_be_routed_was_nothing(store: Store) -> None:
    number = await auto(store)
    await send(store, mine(RED), again_at=NOW + HOUR)
    await (await lane(store)).deliver(number)
    changes = await store.not_routed(await stage(store), number, NO_ROUTE, None, NOW + HOUR)
    assert changes == [JobChange(number, PUBLISHED, True)]


async def test_a_job_that_ended_meanwhile_is_neither_routed_nor_parked(store: Store) -> None:
    number = await auto(store)
    [item] = await due(store)
    await store.cancel(named(number), NOW)
    fence = await stage(store)
    assert await store.not_routed(fence, number, NO_ROUTE, None, NOW) == []
    assert await store.route(fence, [Routed(item, (mine(RED),))], NOW) == ([], set())
    assert await state_of(store, number) is JobState.CANCELLED


@pytest.mark.req("A10")
async def test_who_waits_for_a_job_that_goes_nowhere_is_parked_too(store: Store) -> None:
    first = await auto(store, "first")
    second = await auto(store, "second", after=(first,))
    changes = await store.not_routed(await stage(store), first, NO_ROUTE, None, NOW)
    assert {change.job: change.state for change in changes} == {first: PARKED, second: PARKED}


# -- lists that change (D11) ----------------------------------------------------------------------


@pytest.mark.req("D11")
async def test_open_jobs_that_depend_on_a_list_are_routed_again(store: Store) -> None:
    mine_open = await auto(store, "mine", mine(RED))
    to_bob = await auto(store, note("to bob", author="dd" * 32), to(BLUE, BOB))
    other = await auto(store, note("other", author="dd" * 32), to(BLUE, "cc" * 32))
    done = await auto(store, "done", mine(GREEN))
    await (await lane(store, GREEN)).deliver(done)
    fixed = (await store.accept([wish("fixed")], NOW)).accepted[0].job
    await store.reroute([ALICE], NOW + 1)
    assert [item.job for item in await due(store, NOW + 1)] == [mine_open]
    await store.reroute([BOB], NOW + 1)
    assert {item.job for item in await due(store, NOW + 1)} == {mine_open, to_bob}
    assert {other, done, fixed}.isdisjoint({mine_open, to_bob})
    for item in await due(store, NOW + 1):
        await store.route(await stage(store), [Routed(item, item.targets)], NOW + 1)
    assert await store.next_stage() is None


@pytest.mark.req("D11")
async def test_a_changed_list_adds_destinations_and_takes_none_away(store: Store) -> None:
    number = await auto(store, "hello", mine(RED), to(BLUE, BOB))
    await (await lane(store)).deliver(number)
    await store.reroute([BOB], NOW + 1)
    await send(store, mine(RED), to(GREEN, BOB), now=NOW + 1)
    job = await look(store, number)
    assert {d.relay: d.state for d in job.deliveries} == {
        RED: D.DELIVERED,
        BLUE: D.WAITING,
        GREEN: D.WAITING,
    }
    assert where(job, RED).attempts == 1


async def test_a_job_that_is_to_be_looked_at_later_keeps_its_hour(store: Store) -> None:
    number = await auto(store)
    await send(store, mine(RED), again_at=NOW + HOUR)
    await store.reroute([ALICE], NOW + 1)
    assert (await look(store, number)).next_at == NOW + HOUR


# -- goals (D12) ----------------------------------------------------------------------------------


@pytest.mark.req("D12")
async def test_so_many_of_mine_decide(store: Store) -> None:
    targets = (mine(RED), to(BLUE, BOB))
    number = await auto(store, "hello", *targets, goal_mine=1)
    await (await lane(store, BLUE)).deliver(number)
    assert await state_of(store, number) is PENDING
    await (await lane(store, RED)).deliver(number)
    assert await state_of(store, number) is PUBLISHED


@pytest.mark.req("D12")
async def test_each_inbox_decides(store: Store) -> None:
    carol = "cc" * 32
    targets = (mine(RED), to(BLUE, BOB, carol), to(GREEN, BOB))
    number = await auto(store, "hello", *targets, goal_inbox=1)
    await (await lane(store, RED)).deliver(number)
    await (await lane(store, GREEN)).deliver(number)
    assert await state_of(store, number) is PENDING, "carol has nothing"
    await (await lane(store, BLUE)).deliver(number)
    assert await state_of(store, number) is PUBLISHED


@pytest.mark.req("D12")
async def test_nobody_can_have_more_than_all_of_his_relays(store: Store) -> None:
    number = await auto(store, "hello", to(BLUE, BOB), to(RED, BOB, "cc" * 32), goal_inbox=2)
    await (await lane(store, BLUE)).deliver(number)
    assert await state_of(store, number) is PENDING
    await (await lane(store, RED)).deliver(number)
    assert await state_of(store, number) is PUBLISHED


@pytest.mark.req("D12", "D11")
async def test_an_inbox_that_is_not_known_yet_is_not_served(store: Store) -> None:
    number = await auto(store, "hello", goal_inbox=1)
    await send(store, mine(RED), again_at=NOW + HOUR)
    await (await lane(store)).deliver(number)
    assert await state_of(store, number) is PENDING
    await send(store, mine(RED), to(BLUE, BOB), now=NOW + HOUR)
    assert await state_of(store, number) is PENDING
    await (await lane(store, BLUE)).deliver(number, now=NOW + HOUR)
    assert await state_of(store, number) is PUBLISHED


@pytest.mark.req("D12", "D11")
async def test_who_turns_out_to_have_no_inbox_is_not_waited_for(store: Store) -> None:
    number = await auto(store, "hello", goal_inbox=1)
    await send(store, mine(RED), again_at=NOW + HOUR)
    await (await lane(store)).deliver(number)
    await send(store, mine(RED), now=NOW + HOUR)
    assert await state_of(store, number) is PUBLISHED


@pytest.mark.req("D12")
@pytest.mark.parametrize("goal", [{"goal_mine": 1}, {"goal_inbox": 1}])
async def test_a_goal_that_cannot_be_met_fails(store: Store, goal: dict[str, int]) -> None:
    number = await auto(store, "hello", mine(RED), to(BLUE, BOB), to(GREEN), **goal)
    refused = RED if "goal_mine" in goal else BLUE
    for url in {RED, BLUE, GREEN} - {refused}:
        await (await lane(store, url)).deliver(number)
    hand = await lane(store, refused)
    await hand.report(ended(number, D.REFUSED, code="blocked"))
    assert await state_of(store, number) is FAILED
    await store.retry(named(number), NOW + 1)
    await send(store, mine(RED), to(BLUE, BOB), now=NOW + 1)
    await (await lane(store, refused)).deliver(number, now=NOW + 1)
    assert await state_of(store, number) is PUBLISHED


# -- people and time ------------------------------------------------------------------------------


@pytest.mark.req("B9")
async def test_a_job_that_was_never_routed_ends_with_its_lifetime(store: Store) -> None:
    number = await auto(store)
    await store.not_routed(await stage(store), number, NO_ROUTE, NOW + 5 * DAY, NOW)
    await store.expire(NOW + 3 * DAY, 10)
    job = await look(store, number)
    assert (job.state, job.next_at) == (FAILED, None)
    assert job.error is not None
    assert "no relay is known for it" in job.error.message


@pytest.mark.req("B9", "D11")
@pytest.mark.parametrize("delivered", [True, False])
async def test_a_job_that_was_routed_in_part_ends_with_its_lifetime(
    store: Store, delivered: bool
) -> None:
    number = await auto(store)
    await send(store, mine(RED), again_at=NOW + 5 * DAY)
    if delivered:
        await (await lane(store)).deliver(number)
    await store.expire(NOW + 3 * DAY, 10)
    job = await look(store, number)
    assert (job.state, job.is_finished) == (PUBLISHED if delivered else FAILED, True)
    assert await store.next_stage() is None


@pytest.mark.req("B6")
async def test_a_job_that_was_routed_in_part_can_be_cancelled(store: Store) -> None:
    number = await auto(store)
    await send(store, mine(RED), again_at=NOW + HOUR)
    await store.cancel(named(number), NOW + 1)
    job = await look(store, number)
    assert (job.state, job.is_finished) == (JobState.CANCELLED, True)
    assert await due(store, NOW + DAY) == []
    await store.reroute([ALICE], NOW + 2)
    assert await store.next_stage() is None


@pytest.mark.req("B6", "D11")
async def test_a_retry_plans_anew_and_a_finished_job_is_open_until_then(store: Store) -> None:
    number = await auto(store, "hello", mine(RED))
    await (await lane(store)).deliver(number)
    assert (await look(store, number)).is_finished
    await store.retry(named(number), NOW + 1)
    job = await look(store, number)
    assert (job.state, job.is_finished) == (PUBLISHED, False)
    await send(store, mine(RED), to(BLUE, BOB), now=NOW + 1)
    assert not (await look(store, number)).is_finished
    assert await store.archive(NOW + DAY, 10) == 0, "it is not over"
    await (await lane(store, BLUE)).deliver(number, now=NOW + 2)
    assert (await look(store, number)).is_finished


@pytest.mark.req("B6")
async def test_a_retry_that_brings_nothing_new_closes_the_job_again(store: Store) -> None:
    number = await auto(store, "hello", mine(RED))
    await (await lane(store)).deliver(number)
    await store.retry(named(number), NOW + 1)
    assert await send(store, mine(RED), now=NOW + 1) == [JobChange(number, PUBLISHED, True)]


@pytest.mark.req("B6", "D12")
async def test_history_keeps_routes_and_goals(store: Store) -> None:
    number = await auto(store, "hello", mine(RED), to(BLUE, BOB), goal_mine=1, goal_inbox=1)
    await publish(store, number)
    assert await store.archive(NOW + HOUR, 10) == 1
    assert await due(store, NOW + HOUR) == []
    await store.retry(named(number), NOW + 2 * HOUR)
    [item] = await due(store, NOW + 2 * HOUR)
    assert item.event is not None, "lists decide about it as before"
    await send(store, to(GREEN, "cc" * 32), now=NOW + 2 * HOUR)
    job = await look(store, number)
    assert urls(job) == {RED, BLUE, GREEN}
    await (await lane(store, GREEN)).deliver(number, now=NOW + 2 * HOUR)
    assert await store.archive(NOW + 4 * HOUR, 10) == 1
    assert await store.prune(NOW + 9 * HOUR, 10) == 1
    assert await store.jobs(JobFilter(), 10) == []


@pytest.mark.req("A9")
async def test_relays_named_later_are_given_to_the_stager(store: Store) -> None:
    event = note("hello")
    number = await auto(store, event)
    again = await store.accept([wish(event, BLUE)], NOW)
    assert again.accepted[0].job == number
    [item] = await due(store)
    assert [target.url for target in item.targets] == [BLUE]
    assert item.event is not None


# -- relay lists ----------------------------------------------------------------------------------


def kept(created_at: int, looked_at: int = NOW, text: str = "", author: str = ALICE) -> KeptList:
    event = note(text, author=author, at=created_at, kind=10002)
    return KeptList(author, 10002, looked_at, event.raw.decode())


HERS = (ALICE, 10002)


@pytest.mark.req("D1")
async def test_lists_are_kept_as_they_were_signed(place: Place) -> None:
    store = await place.open()
    found = kept(CREATED)
    none = KeptList(BOB, 10050, NOW + 5)
    await store.keep_lists([found, none])
    store = await place.reopen()
    keys = [HERS, (BOB, 10050), (BOB, 10002)]
    assert sorted(await store.lists(keys), key=lambda one: one.kind) == [found, none]
    assert await store.lists([]) == []
    await store.keep_lists([])


@pytest.mark.req("D1")
async def test_a_search_that_found_nothing_takes_nothing_away(store: Store) -> None:
    await store.keep_lists([kept(CREATED)])
    await store.keep_lists([KeptList(ALICE, 10002, NOW + 9)])
    [found] = await store.lists([HERS])
    assert (found.looked_at, found.body) == (NOW + 9, kept(CREATED).body)
    await store.keep_lists([KeptList(BOB, 10002, NOW)])
    await store.keep_lists([kept(CREATED, author=BOB)])
    assert (await store.lists([(BOB, 10002)]))[0].body is not None


@pytest.mark.req("D1")
async def test_only_a_newer_list_replaces_one(store: Store) -> None:
    twins = sorted((kept(CREATED, text="a"), kept(CREATED, text="b")), key=_id_of)
    steps: Sequence[tuple[KeptList, KeptList]] = [
        (twins[1], twins[1]),
        (kept(CREATED - 1), twins[1]),
        (twins[0], twins[0]),
        (twins[1], twins[0]),
        (kept(CREATED + 1), kept(CREATED + 1)),
        (twins[0], kept(CREATED + 1)),
        (kept(99_999), kept(CREATED + 1)),
    ]
    for found, stays in steps:
        await store.keep_lists([found])
        assert (await store.lists([HERS]))[0].body == stays.body


def _id_of(one: KeptList) -> str:
    assert one.body is not None
    return parse_event(one.body).id


# -- where things went (D9) -----------------------------------------------------------------------


def taking_back(*tags: list[str], kind: int = 5) -> Cancellation:
    request = cancellation_of(note(kind=kind, tags=tags, at=CREATED + 10))
    assert request is not None
    return request


@pytest.mark.req("D9")
async def test_where_an_original_went(store: Store) -> None:
    event = note("original")
    number = await auto(store, event, mine(RED), to(BLUE, BOB))
    await auto(store, "another", mine(GREEN))
    request = taking_back(["e", event.id])
    assert set(await store.where_sent(request)) == {RED, BLUE}
    await publish(store, number)
    await store.archive(NOW + HOUR, 10)
    assert set(await store.where_sent(request)) == {RED, BLUE}, "history counts"
    assert await store.where_sent(taking_back(["e", "f" * 64])) == []


@pytest.mark.req("D9")
async def test_where_versions_of_an_article_went(store: Store) -> None:
    tags = [["d", "essay"]]
    first = await auto(store, note("v1", kind=30023, tags=tags), mine(RED))
    await publish(store, first)
    await store.archive(NOW + HOUR, 10)
    await auto(store, note("v2", kind=30023, tags=tags, at=CREATED + 1), mine(BLUE))
    request = taking_back(["a", f"30023:{ALICE}:essay"])
    assert set(await store.where_sent(request)) == {RED, BLUE}


@pytest.mark.req("D9")
async def test_where_everything_of_an_author_went(store: Store) -> None:
    await auto(store, "one", mine(RED))
    await auto(store, note("other", author=BOB), mine(GREEN))
    request = taking_back(["relay", "ALL_RELAYS"], kind=62)
    assert await store.where_sent(request) == [RED]


@pytest.mark.req("D9")
async def test_what_was_taken_back_before_it_was_sent_went_nowhere(store: Store) -> None:
    event = note("original")
    number = await auto(store, event, mine(RED), mine(BLUE))
    await (await lane(store)).deliver(number)
    deletion = note(kind=5, tags=[["e", event.id]], at=CREATED + 10)
    taken = await auto(store, deletion)
    assert await store.where_sent(taking_back(["e", event.id])) == [RED]
    await send(store, mine(RED))
    await publish(store, taken)


# -- trust (C11) ----------------------------------------------------------------------------------


async def trusted(store: Store) -> dict[str, bool]:
    return {work.destination.url: work.destination.trusted for work in await store.work()}


@pytest.mark.req("C11")
async def test_who_is_named_by_the_owner_is_trusted_for_ever(place: Place) -> None:
    store = await place.open()
    await auto(store, "one", to(RED), mine(BLUE))
    assert await trusted(store) == {RED: False, BLUE: True}
    await auto(store, "two", to(BLUE), to(GREEN))
    assert await trusted(store) == {RED: False, BLUE: True, GREEN: False}
    await store.accept([wish("named", RED)], NOW)
    assert await trusted(store) == {RED: True, BLUE: True, GREEN: False}
    store = await place.reopen()
    await auto(store, "three", to(RED))
    assert await trusted(store) == {RED: True, BLUE: True, GREEN: False}


@pytest.mark.req("C11")
async def test_both_at_once_is_trusted(store: Store) -> None:
    strange = msgspec.structs.replace(wish("strange"), targets=(to(RED),))
    await store.accept([strange, wish("own", RED)], NOW)
    assert await trusted(store) == {RED: True}


@pytest.mark.req("C8")
async def test_messages_for_strangers_are_told_apart(store: Store) -> None:
    await auto(store, note("wrap", kind=1059), to(RED))
    await auto(store, note("note"), to(BLUE))
    await auto(store, note("wrap to oneself", kind=1059), mine(GREEN))
    assert {work.destination.url: work.messages for work in await store.work()} == {
        RED: True,
        BLUE: False,
        GREEN: False,
    }


# -- upgrades (F10) -------------------------------------------------------------------------------


OLD_JOB = """
INSERT INTO {table} (id, event_id, pubkey, kind, created_at, signed, state, priority, goal, policy,
  accepted_at, expires_at, published_at, finished_at, size)
VALUES ({id}, x'{event_id}', x'{pubkey}', 1, {created_at}, 1, '{state}', 1, 1, 'interactive',
  {now}, {expires}, {done}, {done}, 9)"""


def old_outbox(path: Path, version: int) -> list[Event]:
    """A store as an earlier schema left it: a job that waits, and one of history."""
    waiting, done = note("waiting"), note("done")
    link = apsw.Connection(str(path))
    for number, step in migrations("sqlite").items():
        if number <= version:
            link.execute(step)
    link.execute(f"INSERT INTO destinations (id, url) VALUES (1, '{RED}')")
    for number, event, table, state, at in (
        (1, waiting, "jobs", "signed-pending-publish", "NULL"),
        (2, done, "job_history", "published", str(NOW)),
    ):
        values = {"event_id": event.id, "pubkey": ALICE, "created_at": CREATED, "state": state}
        times = {"now": NOW, "expires": NOW + DAY, "done": at}
        link.execute(OLD_JOB.format(table=table, id=number, **values, **times))
        link.execute("INSERT INTO payloads VALUES (?, ?)", (number, event.raw))
        link.execute(
            "INSERT INTO identities VALUES (?, ?, NULL)", (bytes.fromhex(event.id), number)
        )
    link.execute("UPDATE sequences SET next = 3")
    row = "(job, destination, state, band, next_at, attempts, settled_at, code)"
    link.execute(f"INSERT INTO deliveries {row} VALUES (1, 1, 'waiting', 2, {NOW}, 0, NULL, NULL)")
    history = f"(2, 1, 'delivered', 2, {NOW}, 1, {NOW}, 'ok')"
    link.execute(f"INSERT INTO delivery_history {row} VALUES {history}")
    link.pragma("application_id", APPLICATION_ID)
    link.pragma("user_version", version)
    link.close()
    return [waiting, done]


@pytest.mark.req("F10")
@pytest.mark.parametrize("version", [1, 2])
async def test_an_older_outbox_is_upgraded_with_all_it_holds(tmp_path: Path, version: int) -> None:
    path = tmp_path / "outbox.db"
    waiting, done = old_outbox(path, version)
    store = await SqliteStore.open(str(path))
    jobs = {job.event_id: job for job in await store.jobs(JobFilter(), 10)}
    assert (jobs[waiting.id].state, jobs[done.id].state) == (PENDING, PUBLISHED)
    assert await trusted(store) == {RED: True}, "whom the owner named before"
    await (await lane(store)).deliver(1)
    assert (await look(store, 1)).is_finished
    assert (await store.accept([wish(waiting)], NOW)).accepted[0].job == 1
    await store.reroute([ALICE], NOW)
    assert await due(store) == [], "what was handed in before stays as it was"
    await store.retry(named(2), NOW + 1)
    assert await due(store, NOW + 1) == []
    new = await auto(store, "new", mine(RED), goal_mine=1)
    await (await lane(store)).deliver(new)
    assert await state_of(store, new) is PUBLISHED
    await store.archive(NOW + DAY, 10)
    assert len(await store.jobs(JobFilter(), 10)) == 3
    await store.close()
