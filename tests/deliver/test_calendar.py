"""Series on their way: made ahead, signed, posted at their hour; paused, skipped, missed, ended."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from postrich import JobState, Outbox, SecretSigner
from postrich.errors import (
    BadSetting,
    IllegalMove,
    InvalidEvent,
    InvalidRecurrence,
    InvalidTime,
    UnknownSeries,
)
from postrich.model.job import JobFilter
from postrich.model.series import Missed, OccurrenceState, Series, SeriesState, Template, Terms
from tests.deliver.outboxes import SteadyClock, outbox_at, until
from tests.relays.events import make_event
from tests.relays.scripted import ScriptedRelay
from tests.relays.scripts import accept
from tests.rules.years import any_day, expected, inside, ms

pytestmark = pytest.mark.req("F5")

ALICE, BOB = os.urandom(32), os.urandom(32)
RELAY = "wss://relay.example/"
HOUR = 3_600_000
DAY = 24 * HOUR
BERLIN = "Europe/Berlin"
MORNING = Template(content="good morning", tags=(("t", "gm"),))


class WallClock(SteadyClock):
    """A clock on the wall that stands where a test puts it."""

    def __init__(self, at: int) -> None:
        super().__init__()
        self.at = at

    def now(self) -> int:
        return self.at

    def follow(self, ahead: int) -> None:
        pass


@asynccontextmanager
async def quiet(folder: Path, clock: WallClock, **more: Any) -> AsyncIterator[Outbox]:
    """An outbox that does nothing by itself: the test turns its calendar's pages."""
    async with outbox_at(
        folder, RELAY, signer=SecretSigner(ALICE), clock=clock, deliver=False, **more
    ) as outbox:
        yield outbox


async def turn(outbox: Outbox) -> None:
    """Let the calendar make what is due now."""
    while await outbox._calendar.pass_once() == 0.0:
        pass


async def jobs_of(outbox: Outbox) -> list[tuple[int, str, JobState]]:
    """(due, content, state) of every job, the earliest first."""
    jobs = await outbox.jobs(limit=1000)
    return sorted((job.due_at or 0, job.content, job.state) for job in jobs)


async def daily(outbox: Outbox, **more: Any) -> Series:
    values = {"recurrence": "every day 09:00", "template": MORNING, "zone": BERLIN, **more}
    return await outbox.series.keep(id="daily", **values)


async def test_a_series_is_posted_at_its_hour(tmp_path: Path) -> None:
    """The whole road, in real time: made at once, signed, sent when it is due, not before."""
    async with (
        ScriptedRelay(accept) as relay,
        outbox_at(tmp_path, relay, signer=SecretSigner(ALICE), series_lead=60.0) as outbox,
    ):
        soon = (outbox.now() // 1000 + 2) * 1000
        await outbox.series.keep(
            recurrence="every 7 hours", template=MORNING, starts_at=soon, count=1, id="once"
        )
        await until(lambda: bool(relay.events))
        assert outbox.now() >= soon
        series = await outbox.series.get("once")
        [occurrence] = await outbox.series.occurrences("once", since=0)
    assert (series.state, series.made) == (SeriesState.ENDED, 1)
    [event] = relay.events
    assert event["created_at"] * 1000 == soon == occurrence.at
    assert (event["content"], event["tags"]) == ("good morning", [["t", "gm"]])


async def test_made_an_hour_ahead_and_once(tmp_path: Path) -> None:
    clock = WallClock(ms(2026, 5, 1))
    async with quiet(tmp_path, clock) as outbox:
        series = await daily(outbox)
        first = ms(2026, 5, 1, 7)
        assert series.next_at == first
        clock.at = first - HOUR - 1
        await turn(outbox)
        assert await jobs_of(outbox) == []
        clock.at = first - HOUR
        for _ in range(3):
            await turn(outbox)
        assert await jobs_of(outbox) == [(first, "good morning", JobState.PENDING_SIGN)]
        [job] = await outbox.jobs()
        assert job.created_at * 1000 == first
        shown = await outbox.series.occurrences("daily", limit=3)
        assert [(one.at, one.state, one.job) for one in shown] == [
            (first, OccurrenceState.MADE, job.id),
            (first + DAY, OccurrenceState.PLANNED, None),
            (first + 2 * DAY, OccurrenceState.PLANNED, None),
        ]


async def test_a_year_with_its_changes_of_the_clocks_and_many_restarts(tmp_path: Path) -> None:
    """Half past two in Berlin, all year: one post each day, whoever was asleep when."""
    clock = WallClock(ms(2026, 1, 1))
    async with quiet(tmp_path, clock) as outbox:
        await outbox.series.keep(
            id="night", recurrence="every day 02:30", zone=BERLIN, template=MORNING
        )
    hours = iter(range(0, 366 * 24, 5))
    for _ in range(12):
        async with quiet(tmp_path, clock, series_lead=6 * 3600.0) as outbox:
            for _ in range(366 * 24 // 5 // 12 + 1):
                clock.at = ms(2026, 1, 1) + next(hours, 366 * 24) * HOUR
                await turn(outbox)
    async with quiet(tmp_path, clock) as outbox:
        made = await outbox._store.occurrences("night", 0, 2**62, 1000)
        jobs = await outbox.jobs(limit=1000)
    slowly = expected(BERLIN, 2026, [(2, 30)], any_day, passing=False)
    assert inside((one.at for one in made), 2026) == slowly
    assert ms(2026, 3, 29, 1) in slowly
    assert {one.state for one in made} == {OccurrenceState.MADE}
    assert sorted(one.job or 0 for one in made) == sorted(job.id for job in jobs)
    assert sorted(job.due_at or 0 for job in jobs) == [one.at for one in made]


async def test_what_was_missed_is_not_posted_late(tmp_path: Path) -> None:
    clock = WallClock(ms(2026, 5, 1))
    async with quiet(tmp_path, clock) as outbox:
        await daily(outbox)
        clock.at = ms(2026, 5, 9, 12)
        await turn(outbox)
        assert await jobs_of(outbox) == []
        [missed, *coming] = await outbox.series.occurrences("daily", since=0, limit=2)
        assert (missed.at, missed.state) == (ms(2026, 5, 9, 7), OccurrenceState.SKIPPED)
        assert "missed" in missed.detail
        assert [one.at for one in coming] == [ms(2026, 5, 10, 7)]


async def test_unless_it_is_wanted_and_then_only_the_last(tmp_path: Path) -> None:
    clock = WallClock(ms(2026, 5, 1))
    async with quiet(tmp_path, clock) as outbox:
        await daily(outbox, missed=Missed.POST)
        clock.at = ms(2026, 5, 9, 12)
        await turn(outbox)
        assert [due for due, *_ in await jobs_of(outbox)] == [ms(2026, 5, 9, 7)]


async def test_one_is_skipped_and_one_says_something_else(tmp_path: Path) -> None:
    clock = WallClock(ms(2026, 5, 1))
    first = ms(2026, 5, 1, 7)
    async with quiet(tmp_path, clock) as outbox:
        await daily(outbox, count=3)
        await outbox.series.skip("daily", first + DAY)
        await outbox.series.edit("daily", first + 2 * DAY, Template(content="farewell"))
        for day in range(5):
            clock.at = first + day * DAY - HOUR
            await turn(outbox)
        assert [(due, text) for due, text, _ in await jobs_of(outbox)] == [
            (first, "good morning"),
            (first + 2 * DAY, "farewell"),
        ]
        series = await outbox.series.get("daily")
        assert (series.state, series.made, series.passed) == (SeriesState.ENDED, 2, 3)


async def test_one_that_is_made_can_be_skipped_but_not_edited(tmp_path: Path) -> None:
    clock = WallClock(ms(2026, 5, 1, 6, 30))
    first = ms(2026, 5, 1, 7)
    async with quiet(tmp_path, clock) as outbox:
        await daily(outbox)
        await turn(outbox)
        with pytest.raises(IllegalMove, match="made already: edit the scheduled post"):
            await outbox.series.edit("daily", first, Template(content="too late"))
        await outbox.series.skip("daily", first)
        assert await jobs_of(outbox) == [(first, "good morning", JobState.CANCELLED)]
        with pytest.raises(UnknownSeries, match="does not happen"):
            await outbox.series.skip("daily", first + 1)
        clock.at = first
        with pytest.raises(IllegalMove, match="not to come"):
            await outbox.series.skip("daily", first)


async def test_a_pause_takes_back_what_was_made_and_loses_nothing_else(tmp_path: Path) -> None:
    clock = WallClock(ms(2026, 5, 1, 6, 30))
    first = ms(2026, 5, 1, 7)
    async with quiet(tmp_path, clock) as outbox:
        await daily(outbox, count=9)
        await turn(outbox)
        paused = await outbox.series.pause("daily")
        assert paused.state is SeriesState.PAUSED
        assert await jobs_of(outbox) == [(first, "good morning", JobState.CANCELLED)]
        with pytest.raises(IllegalMove, match="cannot be paused"):
            await outbox.series.pause("daily")
        clock.at = first + 3 * DAY + HOUR
        await turn(outbox)
        resumed = await outbox.series.resume("daily")
        assert (resumed.state, resumed.next_at) == (SeriesState.ACTIVE, first + 4 * DAY)
        assert resumed.passed == 4
        with pytest.raises(IllegalMove, match="cannot be resumed"):
            await outbox.series.resume("daily")
        clock.at = first + 4 * DAY - HOUR
        await turn(outbox)
        assert [due for due, _, state in await jobs_of(outbox) if state != "cancelled"] == [
            first + 4 * DAY
        ]


async def test_a_pause_in_which_all_passed_is_the_end(tmp_path: Path) -> None:
    clock = WallClock(ms(2026, 5, 1))
    async with quiet(tmp_path, clock) as outbox:
        await daily(outbox, count=2)
        await outbox.series.pause("daily")
        clock.at = ms(2026, 5, 20)
        over = await outbox.series.resume("daily")
        assert (over.state, over.next_at, over.passed) == (SeriesState.ENDED, None, 2)


async def test_the_end_is_for_good(tmp_path: Path) -> None:
    clock = WallClock(ms(2026, 5, 1, 6, 30))
    async with quiet(tmp_path, clock) as outbox:
        await daily(outbox)
        await turn(outbox)
        assert (await outbox.series.end("daily")).state is SeriesState.ENDED
        assert [state for *_, state in await jobs_of(outbox)] == [JobState.CANCELLED]
        clock.at += 3 * DAY
        await turn(outbox)
        assert len(await jobs_of(outbox)) == 1
        with pytest.raises(IllegalMove):
            await outbox.series.resume("daily")
        with pytest.raises(UnknownSeries):
            await outbox.series.edit("daily", ms(2026, 6, 1, 7), MORNING)


async def test_what_cannot_be_posted_any_more_is_said_and_the_series_goes_on(
    tmp_path: Path,
) -> None:
    clock = WallClock(ms(2026, 5, 1))
    async with quiet(tmp_path, clock) as outbox:
        await daily(outbox, terms=Terms(policy="slow"))
    async with quiet(tmp_path, clock, policies={}, policy="offline") as outbox:
        clock.at = ms(2026, 5, 1, 6, 30)
        await turn(outbox)
        [refused] = await outbox.series.occurrences("daily", limit=1)
        assert refused.state is OccurrenceState.SKIPPED
        assert "retry policy 'slow'" in refused.detail
        assert (await outbox.series.get("daily")).next_at == ms(2026, 5, 2, 7)


async def test_a_series_that_is_not_understood_any_more_holds_up_no_other(
    tmp_path: Path,
) -> None:
    """As after an upgrade of the zones in which one was dropped."""
    clock = WallClock(ms(2026, 5, 1))
    async with quiet(tmp_path, clock) as outbox:
        await daily(outbox)
        strange = msgspec.structs.replace(
            await outbox.series.get("daily"), id="a strange one", zone="Europe/Atlantis"
        )
        await outbox._store.keep_series(strange, (), clock.at)
        clock.at = ms(2026, 5, 1, 6, 30)
        await turn(outbox)
        assert (await outbox.series.get("a strange one")).state is SeriesState.PAUSED
        assert len(await jobs_of(outbox)) == 1


async def test_many_at_the_same_hour(tmp_path: Path) -> None:
    clock = WallClock(ms(2026, 5, 1))
    async with quiet(tmp_path, clock) as outbox:
        for number in range(150):
            await outbox.series.keep(
                id=f"{number}", recurrence="0 9 * * *", template=Template(content=f"{number}")
            )
        clock.at = ms(2026, 5, 1, 8)
        await turn(outbox)
        found = await jobs_of(outbox)
        assert sorted(text for _, text, _ in found) == sorted(map(str, range(150)))
        assert {due for due, *_ in found} == {ms(2026, 5, 1, 9)}


# -- signed beforehand ------------------------------------------------------------------------


def signed_at(*times: int, secret: bytes = ALICE) -> list[dict[str, Any]]:
    return [make_event(secret, content=f"at {at}", created_at=at // 1000) for at in times]


async def test_signed_events_one_for_each_occurrence(tmp_path: Path) -> None:
    clock = WallClock(ms(2026, 10, 24))
    times = [ms(2026, 10, 24, 7), ms(2026, 10, 25, 8), ms(2026, 10, 26, 8)]  # clocks go back
    async with quiet(tmp_path, clock) as outbox:
        kept = await daily(outbox, template=None, signed=signed_at(*times))
        assert kept == await outbox.series.get("daily")
        assert (kept.made, kept.last_at, kept.next_at) == (3, times[-1], None)
        assert [(due, state) for due, _, state in await jobs_of(outbox)] == [
            (at, JobState.SCHEDULED) for at in times
        ]
        assert [one.at for one in await outbox.series.occurrences("daily")] == times
        await outbox.series.skip("daily", times[1])
        with pytest.raises(IllegalMove, match="signed"):
            await outbox.series.edit("daily", times[2], MORNING)
        with pytest.raises(IllegalMove, match="end the series"):
            await outbox.series.pause("daily")
        clock.at = times[0]
        await outbox.series.end("daily")
        assert [state for *_, state in await jobs_of(outbox)] == [
            JobState.SCHEDULED,
            JobState.CANCELLED,
            JobState.CANCELLED,
        ]


@pytest.mark.parametrize("more", [{}, {"count": 2}, {"until": ms(2026, 5, 2, 12)}])
async def test_signed_events_end_the_series(tmp_path: Path, more: dict[str, Any]) -> None:
    clock = WallClock(ms(2026, 5, 1))
    times = [ms(2026, 5, 1, 7), ms(2026, 5, 2, 7)]
    async with quiet(tmp_path, clock) as outbox:
        await daily(outbox, template=None, signed=signed_at(*times), **more)
        clock.at = times[-1]
        assert (await outbox.series.get("daily")).state is SeriesState.ENDED


def _forged() -> list[dict[str, Any]]:
    [event] = signed_at(ms(2026, 5, 1, 7))
    return [{**event, "sig": "0" * 128}]


@pytest.mark.parametrize(
    ("signed", "more", "words"),
    [
        (signed_at(ms(2026, 5, 1, 7)), {"count": 2}, "1 signed events came.* 2 times"),
        (signed_at(*[ms(2026, 5, d, 7) for d in (1, 2, 3)]), {"count": 2}, "3 .* 2 times"),
        (signed_at(ms(2026, 5, 1, 7)), {"until": ms(2026, 5, 9)}, "2 times or more"),
        (signed_at(ms(2026, 5, 1, 7) + 1000), {}, "created_at"),
        (_forged(), {}, "signature"),
        (
            [
                *signed_at(ms(2026, 5, 1, 7)),
                *signed_at(ms(2026, 5, 2, 7), secret=BOB),
            ],
            {},
            "one author",
        ),
        (signed_at(ms(2026, 5, 1, 7)), {"pubkey": "ab" * 32}, "one author"),
        ([{"content": "a draft", "created_at": ms(2026, 5, 1, 7) // 1000}], {}, "not signed"),
    ],
)
async def test_signed_events_that_do_not_fit_are_refused_whole(
    tmp_path: Path, signed: list[dict[str, Any]], more: dict[str, Any], words: str
) -> None:
    async with quiet(tmp_path, WallClock(ms(2026, 5, 1))) as outbox:
        with pytest.raises(InvalidEvent, match=words):
            await daily(outbox, template=None, signed=signed, **more)
        assert await outbox.jobs(JobFilter()) == []
        assert await outbox.series.page() == []


# -- what is refused --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("more", "kind", "words"),
    [
        ({"recurrence": "now and then"}, InvalidRecurrence, "not understood"),
        ({"until": ms(2026, 5, 1, 6)}, InvalidRecurrence, "before its end"),
        ({"zone": "Europe/Atlantis"}, InvalidTime, "no time zone"),
        ({"template": Template(kind=20_001)}, Exception, "ephemeral"),
        ({"template": Template(kind=13)}, Exception, "seal"),
        ({"template": None}, BadSetting, "one of the two"),
        ({"signed": ["{}"]}, BadSetting, "one of the two"),
        ({"template": None, "signed": ["{}"] * 1001}, BadSetting, "up to 1,000"),
        ({"count": 0}, BadSetting, "1 to 10,000"),
        ({"terms": Terms(policy="nope")}, BadSetting, "retry policy"),
        ({"terms": Terms(relays=("ftp://x",))}, BadSetting, "relay"),
        ({"starts_at": -1}, BadSetting, "starts_at"),
    ],
)
async def test_series_that_could_never_work(
    tmp_path: Path, more: dict[str, Any], kind: type[Exception], words: str
) -> None:
    async with quiet(tmp_path, WallClock(ms(2026, 5, 1))) as outbox:
        with pytest.raises(kind, match=words):
            await daily(outbox, **more)
        with pytest.raises(BadSetting, match="id is 1 to 64"):
            await outbox.series.keep(recurrence="every hour", template=MORNING, id="a b")
        assert await outbox.series.page() == []


async def test_series_of_an_author_and_their_names(tmp_path: Path) -> None:
    async with quiet(tmp_path, WallClock(ms(2026, 5, 1))) as outbox:
        await daily(outbox)
        made = await outbox.series.keep(recurrence="every hour", template=MORNING, pubkey="cd" * 32)
        assert made.starts_at == made.next_at == ms(2026, 5, 1, 0, 1)
        assert [one.id for one in await outbox.series.page("cd" * 32)] == [made.id]
        assert len(await outbox.series.page()) == 2
        with pytest.raises(IllegalMove, match="already"):
            await daily(outbox)
        with pytest.raises(UnknownSeries):
            await outbox.series.get("nothing")
