"""Series in the store: each occurrence once, with its job, whoever comes and however often."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from postrich.errors import Conflict, IllegalMove, LeaseLost, QuotaExceeded, UnknownSeries
from postrich.model.delivery import Fence
from postrich.model.job import JobState, NewJob
from postrich.model.post import Revision
from postrich.model.series import (
    Missed,
    Occurrence,
    OccurrenceState,
    Occurring,
    Series,
    SeriesState,
    Step,
    Template,
    Terms,
)
from postrich.store.port import Store
from tests.store.conftest import Place
from tests.store.making import (
    ALICE,
    BOB,
    DAY,
    EVERYTHING,
    HOUR,
    NOW,
    draft,
    note,
    publish,
    state_of,
    wish,
)

pytestmark = pytest.mark.req("F5")

FIRST = NOW + HOUR
EVER = 2**62


def series(name: str = "daily", **more: Any) -> Series:
    values: dict[str, Any] = {"pubkey": ALICE, "next_at": FIRST, **more}
    template = values.pop("template", Template(1, (("t", "x"),), "good morning\0"))
    return Series(
        id=name,
        recurrence="every day 09:00",
        zone="Europe/Berlin",
        template=template,
        terms=Terms(relays=("wss://red.example/",), goal=1),
        starts_at=NOW,
        kept_at=NOW,
        **values,
    )


async def fence_of(store: Store, owner: str = "worker", now: int = NOW) -> Fence:
    fence = await store.take_lease("calendar", owner, now, now + HOUR)
    assert fence is not None
    return fence


def job_at(at: int, text: str = "good morning") -> NewJob:
    return wish(draft(text, at=at // 1000), due_at=at, expires_at=at + DAY)


def occurring(
    of: Series, at: int = FIRST, *, make: bool = True, following: int | None = -1
) -> Occurring:
    after = at + DAY if following == -1 else following
    return Occurring(of.id, of.revision, Step(at, make, 1, after), job_at(at) if make else None)


async def occurrences_of(store: Store, name: str = "daily") -> list[Occurrence]:
    return await store.occurrences(name, 0, EVER, 1000)


async def test_a_series_is_kept_as_it_is(store: Store) -> None:
    kept = series(until=NOW + 9 * DAY, count=7, missed=Missed.POST)
    admission = await store.keep_series(kept, (), NOW)
    assert admission.accepted == []
    assert await store.series("daily") == kept
    with pytest.raises(IllegalMove, match="already"):
        await store.keep_series(series(), (), NOW)
    with pytest.raises(UnknownSeries, match="no series weekly"):
        await store.series("weekly")


async def test_series_by_author_page_by_page(store: Store) -> None:
    for name in ("b", "a", "C", "d"):
        await store.keep_series(series(name, pubkey=BOB if name == "d" else ALICE), (), NOW)
    assert [one.id for one in await store.series_page(ALICE, 2)] == ["C", "a"]
    assert [one.id for one in await store.series_page(ALICE, 2, "a")] == ["b"]
    assert [one.id for one in await store.series_page(None, 9)] == ["C", "a", "b", "d"]


async def test_what_is_due_first(store: Store) -> None:
    assert await store.next_series() is None
    for name, at in (("later", FIRST + 2), ("soon", FIRST), ("sooner", FIRST - 2)):
        await store.keep_series(series(name, next_at=at), (), NOW)
    assert await store.next_series() == FIRST - 2
    assert [one.id for one in await store.series_due(FIRST, 9)] == ["sooner", "soon"]
    assert [one.id for one in await store.series_due(FIRST, 1)] == ["sooner"]
    await store.move_series(await store.series("sooner"), SeriesState.PAUSED, FIRST - 2, 0, NOW)
    assert await store.next_series() == FIRST


async def test_an_occurrence_its_job_and_the_advance_are_one(store: Store) -> None:
    await store.keep_series(series(), (), NOW)
    admission = await store.occur(await fence_of(store), occurring(series()), NOW)
    assert admission is not None
    [accepted] = admission.accepted
    assert accepted.is_new
    assert accepted.state is JobState.PENDING_SIGN
    moved = await store.series("daily")
    expected = {"made": 1, "passed": 1, "next_at": FIRST + DAY, "last_at": FIRST, "revision": 2}
    assert moved == msgspec.structs.replace(series(), **expected)
    made = Occurrence("daily", FIRST, OccurrenceState.MADE, accepted.job)
    assert await occurrences_of(store) == [made]
    last = await store.occur(
        await fence_of(store), occurring(moved, FIRST + DAY, following=None), NOW
    )
    assert last is not None
    over = await store.series("daily")
    assert (over.state, over.next_at, over.made) == (SeriesState.ENDED, None, 2)
    assert await store.next_series() is None


async def test_a_missed_one_is_written_down_without_a_job(store: Store) -> None:
    await store.keep_series(series(), (), NOW)
    missed = msgspec.structs.replace(occurring(series(), make=False), detail="missed")
    admission = await store.occur(await fence_of(store), missed, NOW)
    assert admission is not None
    assert admission.accepted == []
    skipped = Occurrence("daily", FIRST, OccurrenceState.SKIPPED, detail="missed")
    assert await occurrences_of(store) == [skipped]
    moved = await store.series("daily")
    assert (moved.made, moved.passed, moved.last_at) == (0, 1, None)


async def test_who_repeats_itself_makes_no_second_job(store: Store) -> None:
    await store.keep_series(series(), (), NOW)
    fence = await fence_of(store)
    assert await store.occur(fence, occurring(series()), NOW) is not None
    assert await store.occur(fence, occurring(series()), NOW) is None
    assert len(await store.jobs(EVERYTHING, 9)) == 1


async def test_who_lost_the_lease_makes_nothing(store: Store) -> None:
    await store.keep_series(series(), (), NOW)
    slow = await fence_of(store, "slow")
    await fence_of(store, "other", NOW + 2 * HOUR)
    with pytest.raises(LeaseLost):
        await store.occur(slow, occurring(series()), NOW)
    assert await store.jobs(EVERYTHING, 9) == []
    assert await store.series("daily") == series()


async def test_a_race_of_workers_makes_each_occurrence_once(place: Place) -> None:
    stores = [await place.open(), await place.open()]
    await stores[0].keep_series(series(), (), NOW)
    fence = await fence_of(stores[0])
    for day in range(10):
        seen = await stores[0].series("daily")
        # Each brings another text: were the store to take two, both would be seen.
        rivals = [
            msgspec.structs.replace(
                occurring(seen, FIRST + day * DAY), job=job_at(FIRST + day * DAY, f"rival {n}")
            )
            for n in range(8)
        ]
        answers = await asyncio.gather(
            *(stores[n % 2].occur(fence, rival, NOW) for n, rival in enumerate(rivals))
        )
        assert sum(answer is not None for answer in answers) == 1
    kept = await occurrences_of(stores[1])
    assert [one.at for one in kept] == [FIRST + day * DAY for day in range(10)]
    jobs = await stores[1].jobs(EVERYTHING, 100)
    assert sorted(job.id for job in jobs) == sorted(one.job or 0 for one in kept)
    assert (await stores[1].series("daily")).made == 10


async def test_an_edit_meanwhile_is_seen_or_refused_never_lost(place: Place) -> None:
    """Either the edit came first, and the maker looks again; or it came too late, and is told."""
    stores = [await place.open(), await place.open()]
    await stores[0].keep_series(series(), (), NOW)
    fence = await fence_of(stores[0])
    edited = Template(content="edited")
    for day in range(10):
        at = FIRST + day * DAY
        seen = await stores[0].series("daily")
        made, refused = await asyncio.gather(
            stores[0].occur(fence, occurring(seen, at), NOW),
            stores[1].edit_occurrence(seen, at, edited),
            return_exceptions=True,
        )
        [kept] = await stores[0].occurrences("daily", at, at, 1)
        if made is None:
            assert refused is None
            assert (kept.state, kept.template) == (OccurrenceState.PLANNED, edited)
            again = await stores[0].series("daily")
            assert await stores[0].occur(fence, occurring(again, at), NOW) is not None
        else:
            assert isinstance(refused, IllegalMove)
            assert (kept.state, kept.template) == (OccurrenceState.MADE, None)


async def test_one_that_was_edited_and_made_keeps_its_text(store: Store) -> None:
    await store.keep_series(series(), (), NOW)
    edited = Template(content="another")
    await store.edit_occurrence(series(), FIRST, edited)
    seen = await store.series("daily")
    assert seen.revision == 2
    await store.occur(await fence_of(store), occurring(seen), NOW)
    [kept] = await occurrences_of(store)
    assert (kept.state, kept.template) == (OccurrenceState.MADE, edited)
    with pytest.raises(IllegalMove, match="made already"):
        await store.edit_occurrence(await store.series("daily"), FIRST, Template())


async def test_one_that_is_skipped_before_it_is_made_has_no_job(store: Store) -> None:
    await store.keep_series(series(), (), NOW)
    assert await store.skip_occurrence(series(), FIRST, NOW) == []
    with pytest.raises(IllegalMove, match="in the meantime"):
        await store.skip_occurrence(series(), FIRST + DAY, NOW)
    seen = await store.series("daily")
    assert await store.skip_occurrence(seen, FIRST, NOW) == []  # for the second time
    admission = await store.occur(await fence_of(store), occurring(seen), NOW)
    assert admission is not None
    assert admission.accepted == []
    [kept] = await occurrences_of(store)
    assert (kept.state, kept.job, kept.detail) == (OccurrenceState.SKIPPED, None, "by hand")
    moved = await store.series("daily")
    assert (moved.made, moved.passed) == (0, 1)


async def test_one_that_is_skipped_after_it_was_made_is_cancelled(store: Store) -> None:
    await store.keep_series(series(), (), NOW)
    await store.occur(await fence_of(store), occurring(series()), NOW)
    [made] = await occurrences_of(store)
    assert made.job is not None
    changes = await store.skip_occurrence(await store.series("daily"), FIRST, NOW)
    assert [change.job for change in changes] == [made.job]
    assert await state_of(store, made.job) is JobState.CANCELLED


async def test_one_that_is_published_cannot_be_skipped(store: Store) -> None:
    signed = wish(note("now", at=NOW // 1000), due_at=NOW)
    await store.keep_series(series(template=None, next_at=None), [(NOW, signed)], NOW)
    [made] = await occurrences_of(store)
    assert made.job is not None
    await publish(store, made.job)
    with pytest.raises(IllegalMove, match="any more"):
        await store.skip_occurrence(await store.series("daily"), NOW, NOW)


@pytest.mark.parametrize("state", [SeriesState.PAUSED, SeriesState.ENDED])
async def test_what_rests_or_ends_takes_back_what_is_not_due(
    store: Store, state: SeriesState
) -> None:
    await store.keep_series(series(), (), NOW)
    fence = await fence_of(store)
    for day in range(3):
        await store.occur(fence, occurring(await store.series("daily"), FIRST + day * DAY), NOW)
    jobs = [one.job or 0 for one in await occurrences_of(store)]
    seen = await store.series("daily")
    changes = await store.move_series(seen, state, seen.next_at, seen.passed, FIRST)
    assert sorted(change.job for change in changes) == jobs[1:]
    assert [await state_of(store, job) for job in jobs] == [
        JobState.PENDING_SIGN,
        JobState.CANCELLED,
        JobState.CANCELLED,
    ]
    kept = await occurrences_of(store)
    assert [one.state for one in kept] == ["made", "skipped", "skipped"]
    assert kept[2].detail == f"its series was {state}"
    moved = await store.series("daily")
    assert moved.state is state
    assert await store.occur(fence, occurring(moved, FIRST + 3 * DAY), NOW) is None
    assert await store.series_due(EVER, 9) == []


async def test_a_series_goes_on_after_a_pause(store: Store) -> None:
    await store.keep_series(series(), (), NOW)
    await store.move_series(series(), SeriesState.PAUSED, FIRST, 0, NOW)
    paused = await store.series("daily")
    await store.move_series(paused, SeriesState.ACTIVE, FIRST + 5 * DAY, 5, NOW)
    on = await store.series("daily")
    assert (on.state, on.next_at, on.passed) == (SeriesState.ACTIVE, FIRST + 5 * DAY, 5)


async def test_signed_events_are_jobs_at_once(place: Place) -> None:
    store = await place.open()
    times = [FIRST + day * DAY for day in range(20)]
    signed = [
        (at, wish(note("hello", at=at // 1000), due_at=at, expires_at=at + DAY)) for at in times
    ]
    batch = series(template=None, next_at=None, last_at=times[-1], made=20, passed=20)
    admission = await store.keep_series(batch, signed, NOW)
    assert {accepted.state for accepted in admission.accepted} == {JobState.SCHEDULED}
    with pytest.raises(IllegalMove):
        await store.keep_series(batch, signed, NOW)
    store = await place.reopen()
    kept = await occurrences_of(store)
    assert [one.at for one in kept] == times
    assert [one.job for one in kept] == [accepted.job for accepted in admission.accepted]
    assert await store.series("daily") == batch
    assert await store.series_due(EVER, 9) == []


async def test_what_is_forgotten_takes_its_occurrence_along(store: Store) -> None:
    signed = wish(note("now", at=NOW // 1000), due_at=NOW)
    await store.keep_series(series(template=None, next_at=None), [(NOW, signed)], NOW)
    [made] = await occurrences_of(store)
    await publish(store, made.job or 0)
    await store.archive(NOW + DAY, 10)
    assert await occurrences_of(store) == [made]
    assert await store.prune(NOW + DAY, 10) == 1
    assert await occurrences_of(store) == []


def signed_batch(*texts: str) -> list[tuple[int, NewJob]]:
    times = [FIRST + n * DAY for n in range(len(texts))]
    return [
        (at, wish(note(text, at=at // 1000), due_at=at, expires_at=at + DAY))
        for at, text in zip(times, texts, strict=True)
    ]


async def test_events_that_have_a_job_are_not_taken_for_new_ones(store: Store) -> None:
    """Their job may be over, and then nothing would go out."""
    batch = signed_batch("one", "two")
    [old] = (await store.accept([batch[1][1]], NOW)).accepted
    await store.cancel(EVERYTHING, NOW)
    with pytest.raises(Conflict, match=f"job {old.job}"):
        await store.keep_series(series(template=None, next_at=None), batch, NOW)
    with pytest.raises(UnknownSeries):
        await store.series("daily")
    assert [job.id for job in await store.jobs(EVERYTHING, 10)] == [old.job]


@pytest.mark.req("F4")
async def test_signed_events_of_two_callers_at_once_stay_within_the_quota(place: Place) -> None:
    stores = [await place.open(), await place.open()]
    batches = [signed_batch(*(f"{n}.{m}" for m in range(3))) for n in range(6)]
    answers = await asyncio.gather(
        *(
            stores[n % 2].keep_series(
                series(f"s{n}", template=None, next_at=None), batch, NOW, most=6
            )
            for n, batch in enumerate(batches)
        ),
        return_exceptions=True,
    )
    assert [type(one) for one in answers].count(QuotaExceeded) == 4
    assert await stores[0].ahead(ALICE) == 6


@pytest.mark.parametrize("deed", ["end", "skip"])
async def test_who_takes_back_what_is_being_edited_takes_the_new_one_back(
    place: Place, deed: str
) -> None:
    stores = [await place.open(), await place.open()]
    for n in range(20):
        [(at, job)] = signed_batch(f"old {n}")
        kept = series(f"s{n}", template=None, next_at=None)
        [accepted] = (await stores[0].keep_series(kept, [(at, job)], NOW)).accepted
        new = wish(note(f"new {n}", at=at // 1000), due_at=at, expires_at=at + DAY)
        await asyncio.gather(
            stores[0].revise(Revision(accepted.job, at, at + DAY, new), NOW),
            stores[1].move_series(kept, SeriesState.ENDED, None, 1, NOW)
            if deed == "end"
            else stores[1].skip_occurrence(kept, at, NOW),
            return_exceptions=True,  # who edits may be too late
        )
    states = {job.state for job in await stores[0].jobs(EVERYTHING, 100)}
    assert JobState.CANCELLED in states
    assert JobState.SCHEDULED not in states
