"""What the clock on the wall means when it is changed (decision 15)."""

from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from postrich.errors import InvalidTime
from postrich.rules.zones import local_time, moment_of, moments_of, parse_clock, zone_named
from tests.rules.years import ms, wall

ZONES = ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Pacific/Apia", "UTC"]
BERLIN = "Europe/Berlin"


@pytest.mark.req("F5")
@pytest.mark.parametrize(
    ("local", "zone", "expected", "shown"),
    [
        (wall(2026, 3, 29, 1, 59), BERLIN, ms(2026, 3, 29, 0, 59), 1),
        (wall(2026, 3, 29, 2, 0), BERLIN, ms(2026, 3, 29, 1, 0), 0),
        (wall(2026, 3, 29, 2, 59), BERLIN, ms(2026, 3, 29, 1, 0), 0),
        (wall(2026, 3, 29, 3, 0), BERLIN, ms(2026, 3, 29, 1, 0), 1),
        (wall(2026, 10, 25, 2, 30), BERLIN, ms(2026, 10, 25, 0, 30), 2),
        (wall(2026, 10, 25, 3, 0), BERLIN, ms(2026, 10, 25, 2, 0), 1),
        (wall(2011, 12, 30, 17, 3), "Pacific/Apia", ms(2011, 12, 30, 10), 0),
        (wall(2026, 10, 4, 2, 29), "Australia/Lord_Howe", ms(2026, 10, 3, 15, 30), 0),
        (wall(2026, 1, 1, 0, 0, 1, 500_000), "UTC", ms(2026, 1, 1) + 1500, 1),
    ],
)
def test_gaps_and_overlaps(local: datetime, zone: str, expected: int, shown: int) -> None:
    assert moment_of(local, zone_named(zone)) == expected
    assert len(moments_of(local, zone_named(zone))) == shown


@pytest.mark.req("F5")
@given(
    st.datetimes(wall(1990, 1, 1), wall(2080, 1, 1)),
    st.datetimes(wall(1990, 1, 1), wall(2080, 1, 1)),
    st.sampled_from(ZONES),
)
def test_time_never_runs_backwards(one: datetime, other: datetime, name: str) -> None:
    zone = zone_named(name)
    earlier, later = sorted((one, other))
    assert moment_of(earlier, zone) <= moment_of(later, zone)
    for moment in moments_of(one, zone):
        assert local_time(moment, zone) == one.replace(microsecond=0)


def test_zones_by_name() -> None:
    assert zone_named("Asia/Kathmandu").key == "Asia/Kathmandu"
    for name in ("", "Europe", "../etc/passwd", "/etc/passwd", "x" * 100, "a\0b", "\ud800", "Mars"):
        with pytest.raises(InvalidTime, match="no time zone"):
            zone_named(name)


def test_times_of_day() -> None:
    assert parse_clock("9:05") == (9, 5)
    assert parse_clock("23:59") == (23, 59)
    for text in ("24:00", "9", "9:5", "9:60", "-1:00", "09:00:00", ""):
        assert parse_clock(text) is None
