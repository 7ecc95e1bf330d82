"""Times as people write them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from postrich.errors import InvalidTime
from postrich.rules.times import LONGEST, parse_time
from postrich.rules.zones import LATEST
from tests.rules.years import ms

pytestmark = pytest.mark.req("F5")

BERLIN = "Europe/Berlin"
#: A Wednesday, 10:00 UTC: 12:00 in Berlin.
NOW = ms(2026, 5, 27, 10)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-05-31T09:00Z", ms(2026, 5, 31, 9)),
        ("2026-05-31t09:00z", ms(2026, 5, 31, 9)),
        ("2026-05-31 9:00", ms(2026, 5, 31, 7)),
        ("2026-05-31T09:00:01.5+05:45", ms(2026, 5, 31, 3, 15) + 1500),
        ("2026-05-31T09:00:30 -0300", ms(2026, 5, 31, 12) + 30_000),
        ("2026-05-31T09:00:00+02", ms(2026, 5, 31, 7)),
        ("2026-05-31T09:00 America/New_York", ms(2026, 5, 31, 13)),
        ("2026-05-31T09:00 utc", ms(2026, 5, 31, 9)),
        ("2026-05-31T09:00:00,25", ms(2026, 5, 31, 7) + 250),
        ("1780210800", 1_780_210_800_000),
        ("1780210800123", 1_780_210_800_123),
        ("today 18:00", ms(2026, 5, 27, 16)),
        ("  Tomorrow   AT 9:00 ", ms(2026, 5, 28, 7)),
        ("tomorrow 9:00 Asia/Kathmandu", ms(2026, 5, 28, 3, 15)),
        ("12:01", ms(2026, 5, 27, 10, 1)),
        ("12:00", ms(2026, 5, 28, 10)),
        ("09:00", ms(2026, 5, 28, 7)),
        ("wednesday 13:00", ms(2026, 5, 27, 11)),
        ("wed 11:00", ms(2026, 6, 3, 9)),
        ("next wednesday 13:00", ms(2026, 6, 3, 11)),
        ("next friday 17:30", ms(2026, 5, 29, 15, 30)),
        ("monday at 09:00", ms(2026, 6, 1, 7)),
        ("in 90 seconds", NOW + 90_000),
        ("in 1 minute", NOW + 60_000),
        ("in 2 hours", NOW + 7_200_000),
        ("in 3 days", NOW + 3 * 86_400_000),
        ("in 2 weeks", NOW + 14 * 86_400_000),
    ],
)
def test_what_is_understood(text: str, expected: int) -> None:
    assert parse_time(text, NOW, BERLIN) == expected


@pytest.mark.parametrize(
    ("text", "now", "expected"),
    [
        ("tomorrow 2:30", ms(2026, 3, 28, 12), ms(2026, 3, 29, 1)),
        ("2026-03-29T02:30", ms(2026, 3, 28, 12), ms(2026, 3, 29, 1)),
        ("sunday 2:30", ms(2026, 10, 24, 12), ms(2026, 10, 25, 0, 30)),
        ("in 1 day", ms(2026, 3, 28, 12), ms(2026, 3, 29, 11)),  # the same time of day
        ("in 24 hours", ms(2026, 3, 28, 12), ms(2026, 3, 29, 12)),  # hours that pass
    ],
)
def test_clocks_that_are_changed(text: str, now: int, expected: int) -> None:
    assert parse_time(text, now, BERLIN) == expected


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("2026-05-27T11:59+02:00", r"past \(60 s ago\)"),
        ("today 9:00", "past .3 hours ago"),
        ("2026-01-01 09:00", "past .146 days ago"),
        ("today 11:50", "past .10 minutes ago"),
        ("0", "past"),
        ("2026-05-31", "lacks the time of day"),
        ("2026-02-30T09:00", "calendar"),
        ("2026-05-31T25:00", "calendar"),
        ("9999-12-31T23:59-23:00", "too far"),
        ("9999-12-31 23:59", "too far"),
        ("9500-01-01T00:00Z", "too far"),
        ("in 999999 weeks", "too far"),
        ("999999999999999", "too far"),
        ("in 0 minutes", "past"),
        ("in a while", "understood"),
        ("", "understood"),
        ("Europe/Berlin", "understood"),
        ("tomorrow 9", "time of day"),
        ("tomorrow 24:00", "time of day"),
        ("someday 9:00", "no day"),
        ("tomorrow 9:00 Europe/Atlantis", "no time zone"),
        ("in ٣ hours", "understood"),
        ("x" * (LONGEST + 1), "characters long"),
    ],
)
def test_what_is_refused_and_why(text: str, words: str) -> None:
    with pytest.raises(InvalidTime, match=words):
        parse_time(text, NOW, BERLIN)


def test_a_clock_that_is_behind_is_forgiven() -> None:
    assert parse_time("2026-05-27T09:59:30Z", NOW, tolerance=60_000) == NOW - 30_000
    with pytest.raises(InvalidTime):
        parse_time("2026-05-27T09:59Z", NOW, tolerance=60_000)


@given(st.text(max_size=30) | st.from_regex(r"[a-z0-9:/+ T-]{0,25}", fullmatch=True))
def test_any_text_is_a_time_to_come_or_refused(text: str) -> None:
    try:
        moment = parse_time(text, NOW, BERLIN)
    except InvalidTime:
        return
    assert NOW < moment <= LATEST
