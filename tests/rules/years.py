"""What the clocks of a zone show, five minutes by five minutes: a slow way, to compare with."""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

MINUTE = 60_000
STEP = timedelta(minutes=5)
Clock = tuple[int, int]
Shown = tuple[datetime, int]
IsDay = Callable[[datetime], bool]


def ms(year: int, month: int, day: int, hour: int = 0, minute: int = 0, zone: str = "UTC") -> int:
    """The first moment at which clocks show that."""
    local = datetime(year, month, day, hour, minute, tzinfo=ZoneInfo(zone))
    return round(local.timestamp() * 1000)


def wall(*parts: int) -> datetime:
    """What a clock on a wall shows: no zone."""
    year, month, day, *clock = parts
    hour, minute, second, micro = (*clock, 0, 0, 0, 0)[:4]
    return datetime(year, month, day, hour, minute, second, micro, tzinfo=UTC).replace(tzinfo=None)


@functools.lru_cache(16)
def _as_they_pass(zone: str, year: int) -> list[Shown]:
    """Every fifth minute of a UTC year, and what the clocks show then."""
    begin = round(datetime(year, 1, 1, tzinfo=UTC).timestamp())
    end = round(datetime(year + 1, 1, 1, tzinfo=UTC).timestamp())
    info = ZoneInfo(zone)
    return [
        (datetime.fromtimestamp(second, info).replace(tzinfo=None, fold=0), second * 1000)
        for second in range(begin, end, 300)
    ]


@functools.lru_cache(16)
def _on_the_wall(zone: str, year: int) -> list[Shown]:
    """Every local time: when it is shown first, or at the end of its gap."""
    shown = _as_they_pass(zone, year)
    found: list[Shown] = []
    following = shown[0][0]
    for local, moment in shown:
        while following <= local:
            found.append((following, moment))
            following += STEP
    return found


@functools.lru_cache(32)
def _by_clock(zone: str, year: int, passing: bool) -> dict[Clock, list[Shown]]:
    index: dict[Clock, list[Shown]] = defaultdict(list)
    for local, moment in (_as_they_pass if passing else _on_the_wall)(zone, year):
        index[local.hour, local.minute].append((local, moment))
    return index


def expected(
    zone: str, year: int, clocks: Iterable[Clock], is_day: IsDay, *, passing: bool
) -> list[int]:
    """The moments of these times on those days."""
    index = _by_clock(zone, year, passing)
    return inside(
        sorted({m for clock in clocks for local, m in index[clock] if is_day(local)}), year
    )


def inside(moments: Iterable[int], year: int) -> list[int]:
    """Those that are surely of the year in every zone's eyes."""
    first, last = ms(year, 1, 2), ms(year, 12, 31)
    return [moment for moment in moments if first <= moment < last]


def any_day(local: datetime) -> bool:
    return True


def on(*days: int) -> IsDay:
    return lambda local: local.weekday() in days


def is_last_week(local: datetime) -> bool:
    return (local + timedelta(days=7)).month != local.month


def is_last_day(local: datetime) -> bool:
    return (local + timedelta(days=1)).month != local.month
