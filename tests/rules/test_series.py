"""What a series does next: in time, late, after a long sleep, and at its end."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from postrich.model.series import Missed, Series, SeriesState, Step, Template, Terms
from postrich.rules.series import GRACE, behind_by, moments, next_step, to_come
from tests.rules.years import MINUTE, ms

pytestmark = pytest.mark.req("F5")

DAY = 1440 * MINUTE
START = ms(2026, 5, 1)
FIRST = ms(2026, 5, 1, 9)


def series(recurrence: str = "every day 09:00", **more: Any) -> Series:
    values: dict[str, Any] = {"next_at": FIRST, **more}
    return Series("s", "ab" * 32, recurrence, "UTC", Template(), Terms(), START, START, **values)


def test_an_occurrence_ahead_of_its_hour_is_made() -> None:
    assert next_step(series(), FIRST - 60 * MINUTE) == Step(FIRST, True, 1, FIRST + DAY)


def test_one_that_is_a_little_late_is_made_too() -> None:
    assert next_step(series(), FIRST + GRACE) == Step(FIRST, True, 1, FIRST + DAY)
    assert next_step(series(), FIRST + GRACE + 1) == Step(FIRST, False, 1, FIRST + DAY)


def test_after_a_long_sleep_only_the_last_may_be_made() -> None:
    later = FIRST + 9 * DAY + 60 * MINUTE
    asleep = series()
    assert next_step(asleep, later) == Step(FIRST + 9 * DAY, False, 1, FIRST + 10 * DAY)
    posts = msgspec.structs.replace(asleep, missed=Missed.POST)
    assert next_step(posts, later) == Step(FIRST + 9 * DAY, True, 1, FIRST + 10 * DAY)
    in_time = FIRST + 9 * DAY + MINUTE
    assert next_step(asleep, in_time) == Step(FIRST + 9 * DAY, True, 1, FIRST + 10 * DAY)


def test_a_long_sleep_costs_little_however_often_it_happens() -> None:
    every_minute = series("* * * * *", next_at=START + MINUTE)
    later = START + 3650 * DAY + 1
    assert next_step(every_minute, later).at == START + 3650 * DAY
    yearly = series("0 0 1 1 *", next_at=ms(2027, 1, 1))
    assert next_step(yearly, ms(2029, 3, 1)) == Step(ms(2029, 1, 1), False, 1, ms(2030, 1, 1))


@pytest.mark.parametrize(
    ("now", "expected"),
    [
        (FIRST - MINUTE, Step(FIRST, True, 1, FIRST + DAY)),
        (FIRST + DAY, Step(FIRST + DAY, True, 2, FIRST + 2 * DAY)),
        (FIRST + 2 * DAY + MINUTE, Step(FIRST + 2 * DAY, True, 3, None)),
        (FIRST + 50 * DAY, Step(FIRST + 2 * DAY, False, 3, None)),
    ],
)
def test_a_count_counts_what_passed(now: int, expected: Step) -> None:
    assert next_step(series(count=5, passed=2), now) == expected


def test_the_end() -> None:
    ends = series(until=FIRST + DAY)
    assert next_step(ends, FIRST).following == FIRST + DAY
    last = msgspec.structs.replace(ends, next_at=FIRST + DAY)
    assert next_step(last, FIRST + DAY) == Step(FIRST + DAY, True, 1, None)
    assert to_come(last, 9) == [FIRST + DAY]
    assert to_come(series(next_at=None), 9) == []
    assert to_come(series(count=3, passed=1), 9) == [FIRST, FIRST + DAY]
    assert to_come(series(), 2) == [FIRST, FIRST + DAY]


def test_nothing_happens_before_the_start() -> None:
    assert next(moments(series(), 0)) == FIRST
    assert list(moments(series(until=FIRST), 0, FIRST + DAY)) == [FIRST]
    assert behind_by(series(), FIRST - 1) == []


def test_signed_series_end_with_their_last_event() -> None:
    signed = msgspec.structs.replace(series(), template=None, last_at=FIRST)
    assert signed.is_signed
    assert signed.state_at(FIRST - 1) is SeriesState.ACTIVE
    assert signed.state_at(FIRST) is SeriesState.ENDED
    assert series().state_at(FIRST) is SeriesState.ACTIVE


@given(
    st.sampled_from(["every day 09:00", "every 7 hours", "*/30 8-10 * * *", "every hour"]),
    st.sampled_from(list(Missed)),
    st.none() | st.integers(1, 40),
    st.lists(st.integers(0, 5000), min_size=1, max_size=40),
)
def test_whoever_looks_whenever_the_order_is_kept(
    recurrence: str, missed: Missed, count: int | None, pauses: list[int]
) -> None:
    """Every step goes forward along the calendar, makes each moment once, and keeps the count."""
    current = series(recurrence, missed=missed, count=count)
    current = msgspec.structs.replace(current, next_at=next(moments(current, START - 1)))
    calendar = set(moments(current, START - 1, START + 400 * DAY, count))
    now, last = START, 0
    for pause in pauses:
        now += pause * MINUTE
        while current.next_at is not None and current.next_at <= now + 60 * MINUTE:
            step = next_step(current, now)
            assert step.at in calendar
            assert step.at > last
            assert step.following is None or step.following > step.at
            assert step.make or step.at < now - GRACE
            last = step.at
            passed = current.passed + step.passed
            assert count is None or passed <= count
            current = msgspec.structs.replace(current, next_at=step.following, passed=passed)
