"""Times as people write them, for `--at` and the API: one home for reading them.

    2026-05-31T09:00+02:00     tomorrow 9:00          in 90 minutes     1780210800 (Unix seconds)
    2026-05-31 09:00           monday at 09:00        in 2 hours        1780210800000 (milliseconds)
    09:00 (the next one)       next friday 17:30      in 3 days

A zone's name may follow (tomorrow 9:00 Europe/Berlin). `monday` is the next Monday at that time,
today included; `next monday` is never today. Days and weeks keep the time of day; hours are
hours that pass. Changes of the clocks: decision 15.
"""

from __future__ import annotations

import re
from datetime import datetime, time, timedelta
from zoneinfo import ZoneInfo

from postrich.errors import InvalidTime
from postrich.rules.recurrence import weekday_of
from postrich.rules.zones import LATEST, local_time, moment_of, parse_clock, zone_named

LONGEST = 100
#: Numbers from here on are milliseconds: as seconds they would be past the year 5000.
_MILLISECONDS_FROM = 100_000_000_000

_NUMBER = re.compile(r"\d{1,15}", re.ASCII)
_ISO = re.compile(
    r"(\d{4}-\d{2}-\d{2})[t ](\d{1,2}:\d{2})(?::(\d{2})(?:[.,](\d{1,6}))?)?"
    r" ?(z|[+-]\d{2}(?::?\d{2})?)?",
    re.ASCII,
)
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
_SPAN = re.compile(r"in (\d{1,6}) ?(second|minute|hour|day|week)s?", re.ASCII)
_DAY_AND_CLOCK = re.compile(r"(?:(today|tomorrow|(?:next )?[a-z]+) (?:at )?)?([0-9:]+)", re.ASCII)
_SECONDS = {"second": 1, "minute": 60, "hour": 3600}
_DAYS = {"day": 1, "week": 7}
_UTC_NAMES = ("utc", "gmt")


def parse_time(text: str, now: int, zone: str = "UTC", *, tolerance: int = 0) -> int:
    """The milliseconds that a text means, or `InvalidTime`; the past is refused.

    `tolerance`: how many milliseconds ago it may lie, for those whose clocks are behind.
    """
    if len(text) > LONGEST:
        raise InvalidTime(f"a time may be {LONGEST} characters long")
    words = text.split()
    if words and ("/" in words[-1] or words[-1].lower() in _UTC_NAMES):
        named = words.pop()
        zone = named if "/" in named else "UTC"
    moment = _read(" ".join(words).lower(), text, now, zone_named(zone))
    if moment <= now - tolerance:
        raise InvalidTime(f"{text!r} is in the past ({_ago(now - moment)}); give a time to come")
    if moment > LATEST:
        raise InvalidTime(f"{text!r} is too far away")
    return moment


def _read(plain: str, text: str, now: int, zone: ZoneInfo) -> int:
    if _NUMBER.fullmatch(plain):
        number = int(plain)
        return number if number >= _MILLISECONDS_FROM else number * 1000
    if found := _ISO.fullmatch(plain):
        return _iso(found, text, zone)
    if found := _SPAN.fullmatch(plain):
        return _span(int(found[1]), found[2], now, zone)
    if found := _DAY_AND_CLOCK.fullmatch(plain):
        return _day(found[1] or "", found[2], text, now, zone)
    if _DATE.fullmatch(plain):
        raise InvalidTime(f"{text!r} lacks the time of day, such as {plain} 09:00")
    raise InvalidTime(
        f"{text!r} is no time that is understood: write such as 2026-05-31T09:00, "
        "“tomorrow 9:00”, “next friday 17:30” or “in 2 hours”"
    )


def _iso(found: re.Match[str], text: str, zone: ZoneInfo) -> int:
    date, clock, second, fraction, offset = found.groups()
    whole = f"{date}T{clock:>05}:{second or '00'}.{fraction or '0':0<6}{(offset or '').upper()}"
    try:
        meant = datetime.fromisoformat(whole)
        if meant.tzinfo is None:
            return moment_of(meant, zone)
        return round(meant.timestamp() * 1000)
    except (ValueError, OverflowError):
        raise InvalidTime(f"{text!r} is no date and time of the calendar") from None


def _span(count: int, unit: str, now: int, zone: ZoneInfo) -> int:
    if unit in _SECONDS:
        return now + count * _SECONDS[unit] * 1000
    days = count * _DAYS[unit]
    if days > 366_000:
        return LATEST + 1
    here = local_time(now, zone)
    return max(now, moment_of(here + timedelta(days=days), zone))


def _day(day: str, clock: str, text: str, now: int, zone: ZoneInfo) -> int:
    found = parse_clock(clock)
    if found is None:
        raise InvalidTime(f"{clock!r} in {text!r} is no time of day such as 09:00")
    today = local_time(now, zone).date()

    def on(days: int) -> int:
        return moment_of(datetime.combine(today + timedelta(days=days), time(*found)), zone)

    if day in ("today", "tomorrow"):
        return on(("today", "tomorrow").index(day))
    if not day:
        return next(moment for moment in (on(0), on(1), on(2)) if moment > now)
    weekday = weekday_of(day.removeprefix("next "))
    if weekday is None:
        raise InvalidTime(f"{day!r} in {text!r} is no day such as today, tomorrow or monday")
    ahead = (weekday - today.weekday()) % 7
    is_over = day.startswith("next ") or on(ahead) <= now
    return on(ahead or 7) if is_over else on(ahead)


def _ago(ms: int) -> str:
    for unit, size in (("days", 86_400_000), ("hours", 3_600_000), ("minutes", 60_000)):
        if ms >= 2 * size:
            return f"{ms // size:,} {unit} ago"
    return f"{ms // 1000} s ago"
