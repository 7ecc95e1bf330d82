"""When a series happens again: forms that are understood, and whole years with their changes."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from postrich.errors import CallerError, InvalidRecurrence, InvalidTime
from postrich.rules.recurrence import LONGEST, Recurrence, occurrences, parse_recurrence
from postrich.rules.zones import LATEST
from tests.rules.years import (
    MINUTE,
    Clock,
    IsDay,
    any_day,
    expected,
    inside,
    is_last_day,
    is_last_week,
    ms,
    on,
)

pytestmark = pytest.mark.req("F5")

#: A zone and a year in which its clocks were changed in one way or another.
YEARS = [
    ("UTC", 2026),
    ("Europe/Berlin", 2026),
    ("America/New_York", 2024),
    ("Australia/Lord_Howe", 2025),  # by half an hour
    ("Africa/Casablanca", 2026),  # back for Ramadan
    ("Asia/Kathmandu", 2026),  # 5:45 ahead, all year
    ("Pacific/Apia", 2011),  # a day was left out, and summer time
    ("America/Santiago", 2026),  # at midnight
    ("Africa/Cairo", 2024),  # at midnight, on a Friday
]

HOURS = range(24)

#: A form, its times of day, and its days, said in another way.
WALL: list[tuple[str, list[Clock], IsDay]] = [
    ("every day 02:30", [(2, 30)], any_day),
    ("every day at 9:00, 18:30", [(9, 0), (18, 30)], any_day),
    ("every day 00:00 00:30 01:00 02:00", [(0, 0), (0, 30), (1, 0), (2, 0)], any_day),
    ("every weekday 09:00", [(9, 0)], on(0, 1, 2, 3, 4)),
    ("every weekend 0:15", [(0, 15)], on(5, 6)),
    ("every sunday 02:15", [(2, 15)], on(6)),
    ("every Monday, thursday and sat 18:30", [(18, 30)], on(0, 3, 5)),
    ("every mon tue 18:30", [(18, 30)], on(0, 1)),
    ("every month on the 1st 09:00", [(9, 0)], lambda t: t.day == 1),
    ("every month on the 30th 00:00", [(0, 0)], lambda t: t.day == 30),
    ("every month on the last day 23:55", [(23, 55)], is_last_day),
    ("every second sunday 02:30", [(2, 30)], lambda t: t.weekday() == 6 and 8 <= t.day <= 14),
    ("every last friday 17:00", [(17, 0)], lambda t: t.weekday() == 4 and is_last_week(t)),
    ("every last sunday 02:30", [(2, 30)], lambda t: t.weekday() == 6 and is_last_week(t)),
    ("30 2 * * *", [(2, 30)], any_day),
    ("*/20 2 * * *", [(2, 0), (2, 20), (2, 40)], any_day),
    ("0 */2 * * *", [(hour, 0) for hour in range(0, 24, 2)], any_day),
    ("0 9 13 * fri", [(9, 0)], lambda t: t.day == 13 or t.weekday() == 4),
]

PASSING: list[tuple[str, list[Clock], IsDay]] = [
    ("*/15 * * * *", [(hour, minute) for hour in HOURS for minute in (0, 15, 30, 45)], any_day),
    ("0 * * * *", [(hour, 0) for hour in HOURS], any_day),
    ("5 * * * sun", [(hour, 5) for hour in HOURS], on(6)),
    ("45 * 30 12 *", [(hour, 45) for hour in HOURS], lambda t: (t.month, t.day) == (12, 30)),
    ("10 0-23 1-7 * *", [(hour, 10) for hour in HOURS], lambda t: t.day <= 7),
]


@pytest.mark.parametrize(("zone", "year"), YEARS)
def test_a_year_of_times_on_the_wall(zone: str, year: int) -> None:
    for text, clocks, is_day in WALL:
        found = occurrences(parse_recurrence(text), zone, ms(year, 1, 1), ms(year + 1, 1, 1))
        slowly = expected(zone, year, clocks, is_day, passing=False)
        assert slowly
        assert inside(found, year) == slowly, text


@pytest.mark.parametrize(("zone", "year"), YEARS)
def test_a_year_of_hours_that_pass(zone: str, year: int) -> None:
    for text, clocks, is_day in PASSING:
        found = occurrences(parse_recurrence(text), zone, ms(year, 1, 1), ms(year + 1, 1, 1))
        assert inside(found, year) == expected(zone, year, clocks, is_day, passing=True), text


@pytest.mark.parametrize(
    ("text", "zone", "day", "clocks"),
    [
        # Berlin, 29 March 2026: 2:00 becomes 3:00
        ("every day 02:30", "Europe/Berlin", (2026, 3, 29), [(1, 0)]),
        ("every day 02:10, 02:50, 03:00", "Europe/Berlin", (2026, 3, 29), [(1, 0)]),
        # Berlin, 25 October 2026: 3:00 becomes 2:00
        ("every day 02:30", "Europe/Berlin", (2026, 10, 25), [(0, 30)]),
        ("30 * * * *", "Europe/Berlin", (2026, 10, 25), [(h, 30) for h in range(24)]),
        # Lord Howe, 5 October 2025: 2:00 becomes 2:30 (UTC+10:30 till then)
        ("every day 02:15", "Australia/Lord_Howe", (2025, 10, 4), [(15, 30)]),
    ],
)
def test_days_on_which_clocks_are_changed(
    text: str, zone: str, day: tuple[int, int, int], clocks: list[tuple[int, int]]
) -> None:
    begin = ms(*day)
    found = list(occurrences(parse_recurrence(text), zone, begin - 1, begin + 1439 * MINUTE))
    assert found == [ms(*day, hour, minute) for hour, minute in clocks]


def test_a_day_that_was_left_out_happens_at_its_end() -> None:
    """Samoa had no 30 December 2011: what was due on it happens as the 31st begins."""
    daily = parse_recurrence("every day 09:00")
    begin = ms(2011, 12, 29, 9, zone="Pacific/Apia")
    found = list(occurrences(daily, "Pacific/Apia", begin, count=2))
    assert found == [
        ms(2011, 12, 31, 0, zone="Pacific/Apia"),
        ms(2011, 12, 31, 9, zone="Pacific/Apia"),
    ]


@pytest.mark.parametrize(
    ("text", "minutes"),
    [("every hour", 60), ("every 2 hours", 120), ("every minute", 1), ("every 90 minutes", 90)],
)
def test_intervals_are_time_that_passes(text: str, minutes: int) -> None:
    """Also across a change of the clocks, and counted from their start."""
    start = ms(2026, 3, 28, 9, 17)
    every = parse_recurrence(text)
    found = list(occurrences(every, "Europe/Berlin", start - 1, ms(2026, 3, 30), start=start))
    assert found[0] == start
    assert {later - earlier for earlier, later in pairwise(found)} == {minutes * MINUTE}
    later = occurrences(every, "Europe/Berlin", found[3], count=2, start=start)
    assert list(later) == found[4:6]
    assert next(occurrences(every, "Europe/Berlin", 0, start=start)) == start


def test_the_end_and_the_count() -> None:
    daily = parse_recurrence("every day 09:00")
    begin, end = ms(2026, 1, 1, 9), ms(2026, 1, 4, 9)
    assert list(occurrences(daily, "UTC", begin, end)) == [ms(2026, 1, d, 9) for d in (2, 3, 4)]
    assert list(occurrences(daily, "UTC", begin, end, 2)) == [ms(2026, 1, 2, 9), ms(2026, 1, 3, 9)]
    assert list(occurrences(daily, "UTC", begin, end, 0)) == []
    assert list(occurrences(daily, "UTC", begin, begin)) == []


def test_time_has_an_end() -> None:
    for text in ("every day 09:00", "30 * * * *", "every hour"):
        every = parse_recurrence(text)
        found = list(occurrences(every, "UTC", LATEST - 2 * 1440 * MINUTE))
        assert found
        assert max(found) <= LATEST
        assert list(occurrences(every, "UTC", LATEST)) == []
        assert next(occurrences(every, "UTC", -(10**17))) >= 0


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "five fields"),
        ("0 9 * *", "five fields"),
        ("0 0 9 * * *", "five fields"),  # seconds: a minute is the least
        ("@daily", "five fields"),
        ("61 9 * * *", "minute"),
        ("0 9 * * noday", "day-of-week"),
        ("0 9 30 2 *", "day-of-month"),
        ("0 9 * 2 mon#5,tue#9", "day-of-week"),
        ("0 9 31 4,6 *", "day-of-month"),
        ("0 0 30 2 */8", "day-of-month"),
        ("every", "five fields"),
        ("every day", "not understood"),
        ("every 09:00", "not understood"),
        ("every day 25:00", "time of day"),
        ("every day 9:00:00", "time of day"),
        ("every day ٩:00", "not understood"),
        ("every someday 09:00", "not understood"),
        ("every last weekday 09:00", "not understood"),
        ("every month on the 32nd 09:00", "not understood"),
        ("every mo 09:00", "not understood"),
        ("every 0 minutes", "a minute at the least"),
        ("every 527041 minutes", "a year at most"),
        ("every 3 seconds", "not understood"),
        ("x" * (LONGEST + 1), "characters long"),
    ],
)
def test_what_is_not_understood_is_said(text: str, words: str) -> None:
    with pytest.raises(InvalidRecurrence, match=words):
        parse_recurrence(text)


def test_what_never_happens_is_refused() -> None:
    for text in ("0 9 */31 2 1#2", "0 * */31 * 3#5"):  # the 1st is never a second Monday
        with pytest.raises(InvalidRecurrence, match="never happens"):
            parse_recurrence(text)


def test_zones_that_are_none() -> None:
    for text in ("every day 09:00", "every hour"):
        with pytest.raises(InvalidTime, match="no time zone"):
            occurrences(parse_recurrence(text), "Europe/Atlantis", 0)


FIELD = st.text("0123456789*/-,#LWMONJAFEB ", max_size=12)


@given(st.lists(FIELD, min_size=5, max_size=5).map(" ".join) | st.text(max_size=40))
def test_any_text_is_understood_or_refused(text: str) -> None:
    try:
        found = parse_recurrence(text)
    except CallerError:
        return
    moments = list(occurrences(found, "America/New_York", ms(2026, 1, 1), count=5))
    assert len(moments) == 5
    assert all(earlier < later for earlier, later in pairwise(moments))


FORMS = st.sampled_from(
    [text for text, *_ in (*WALL, *PASSING)] + ["every 7 hours", "every 25 minutes"]
)


@given(
    FORMS.map(parse_recurrence),
    st.sampled_from([zone for zone, _ in YEARS]),
    st.integers(ms(2025, 1, 1), ms(2027, 1, 1)),
    st.integers(0, 20),
)
def test_where_one_begins_to_look_changes_nothing(
    recurrence: Recurrence, zone: str, after: int, jump: int
) -> None:
    """A restart between two occurrences goes on exactly where it was."""
    found = list(occurrences(recurrence, zone, after, count=25))
    assert list(occurrences(recurrence, zone, found[jump], count=24 - jump)) == found[jump + 1 :]
    assert list(occurrences(recurrence, zone, found[jump] - 1, count=1)) == [found[jump]]
