"""When a series happens again (F5): cron expressions, and the simple forms that people write.

    every weekday 09:00          every month on the 1st 09:00     every hour
    every day 9:00, 18:30        every month on the last day 12:00   every 2 hours
    every monday, thursday 18:30   every first monday 8:00       every 15 minutes
    every weekend 11:00          every last friday 17:00          30 9 * * mon-fri

Promises: the same text, zone and start give the same moments for ever, whoever asks and from when
on; no text costs more than a bounded search. Changes of the clocks: decision 15.
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import islice
from zoneinfo import ZoneInfo

import msgspec
from cronsim import CronSim, CronSimError

from postrich.errors import InvalidRecurrence
from postrich.rules.zones import (
    LATEST,
    local_time,
    moment_of,
    moments_of,
    parse_clock,
    zone_named,
)

LONGEST = 200
_MINUTE = 60_000
_LONGEST_INTERVAL = 366 * 24 * 60 * _MINUTE
_DAY = timedelta(days=1)
_SECOND = timedelta(seconds=1)
#: No local time past this is looked for.
_END = datetime(9000, 1, 1)  # noqa: DTZ001 - a local time
#: Whether an expression ever happens is looked up from here, for the library's fifty years.
_LOOK_FROM = datetime(2000, 1, 1)  # noqa: DTZ001 - a local time

WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_NAMED_DAYS = {"day": "*", "weekday": "MON-FRI", "weekend": "SAT,SUN"}
_WHICH = {"first": "#1", "second": "#2", "third": "#3", "fourth": "#4", "last": "L"}
_UNITS = {"minute": _MINUTE, "hour": 60 * _MINUTE}

_INTERVAL = re.compile(r"(?:(\d{1,6}) )?(minute|hour)s?", re.ASCII)
_MONTHLY = re.compile(r"month on the (?:([1-9]|[12]\d|3[01])(?:st|nd|rd|th)|last day)", re.ASCII)
_NTH = re.compile(rf"({'|'.join(_WHICH)}) ([a-z]+)")
_TIMES = re.compile(r"(.*?)(?: at)?((?:[ ,]+[0-9:]+)+)")


class Recurrence(msgspec.Struct, frozen=True):
    """A form that was understood: cron lines in local time, or an interval in milliseconds.

    `counts_hours`: its hours are those that pass (`*`), not those on the wall.
    """

    text: str
    crons: tuple[str, ...] = ()
    interval: int | None = None
    counts_hours: bool = False


def parse_recurrence(text: str) -> Recurrence:
    """What a text means, or `InvalidRecurrence`; a form that never happens is refused."""
    if len(text) > LONGEST:
        raise InvalidRecurrence(f"a recurrence may be {LONGEST} characters long")
    plain = " ".join(text.lower().split())
    if not plain.startswith("every "):
        return _cron(text, " ".join(text.split()))
    form = plain.removeprefix("every ")
    if found := _INTERVAL.fullmatch(form):
        return _interval(text, int(found[1] or 1) * _UNITS[found[2]])
    times = _TIMES.fullmatch(form)
    days = _days(times[1]) if times else None
    if times is None or days is None:
        raise InvalidRecurrence(
            f"{text!r} is not understood: write a cron expression, or such as "
            "“every weekday 09:00”, “every monday, thursday 18:30”, “every 2 hours”, "
            "“every month on the 1st 09:00” or “every last friday 17:00”"
        )
    clocks = [_clock(part, text) for part in re.split(r"[ ,]+", times[2].strip(" ,"))]
    crons = tuple(f"{minute} {hour} {days}" for hour, minute in sorted(set(clocks)))
    return Recurrence(text, crons)


def weekday_of(word: str) -> int | None:
    """Monday is 0, from its name or its first letters (three or more); None: it is no day."""
    found = [index for index, name in enumerate(WEEKDAYS) if name.startswith(word)]
    return found[0] if len(word) >= 3 and found else None


def occurrences(
    recurrence: Recurrence,
    zone: str,
    after: int,
    until: int | None = None,
    count: int | None = None,
    *,
    start: int = 0,
) -> Iterator[int]:
    """The moments after `after`, up to and with `until`, at most `count`; milliseconds.

    Intervals are counted from `start`, which is the first of them.
    """
    if recurrence.interval is not None:
        zone_named(zone)
        found = _ticks(recurrence.interval, max(after, start - 1), start)
    else:
        found = _on_the_wall(recurrence, zone_named(zone), after)
    last = LATEST if until is None else min(until, LATEST)
    return islice(_up_to(found, last), count)


# -- reading -------------------------------------------------------------------------------------


def _cron(text: str, expression: str) -> Recurrence:
    if len(expression.split(" ")) != 5:
        raise InvalidRecurrence(
            f"{text!r} is not understood: a cron expression has five fields (minute, hour, day, "
            "month, weekday), and a simple form begins with “every”"
        )
    try:
        found = CronSim(expression, _LOOK_FROM)
    except CronSimError as problem:
        reason = str(problem).removeprefix("Bad ")
        raise InvalidRecurrence(f"the {reason} of {text!r} is not understood") from None
    if next(found, None) is None:
        raise InvalidRecurrence(f"{text!r} never happens")
    return Recurrence(text, (expression,), counts_hours=len(found.hours) == 24)


def _interval(text: str, length: int) -> Recurrence:
    if not _MINUTE <= length <= _LONGEST_INTERVAL:
        raise InvalidRecurrence(f"{text!r}: an interval is a minute at the least, a year at most")
    return Recurrence(text, interval=length)


def _days(words: str) -> str | None:
    """The day, month and weekday fields of a simple form's days; None: not understood."""
    if words in _NAMED_DAYS:
        return f"* * {_NAMED_DAYS[words]}"
    if monthly := _MONTHLY.fullmatch(words):
        return f"{monthly[1] or 'L'} * *"
    if nth := _NTH.fullmatch(words):
        weekday = weekday_of(nth[2])
        return None if weekday is None else f"* * {weekday + 1}{_WHICH[nth[1]]}"
    listed = [weekday_of(word) for word in re.split(r", ?| and | ", words)]
    weekdays = sorted({day + 1 for day in listed if day is not None})
    return None if None in listed else f"* * {','.join(map(str, weekdays))}"


def _clock(part: str, text: str) -> tuple[int, int]:
    clock = parse_clock(part)
    if clock is None:
        raise InvalidRecurrence(f"{part!r} in {text!r} is no time of day such as 09:00")
    return clock


# -- counting ------------------------------------------------------------------------------------


def _up_to(moments: Iterator[int], last: int) -> Iterator[int]:
    for moment in moments:
        if moment > last:
            return
        yield moment


def _ticks(interval: int, after: int, start: int) -> Iterator[int]:
    moment = start + ((after - start) // interval + 1) * interval
    while True:
        yield moment
        moment += interval


def _on_the_wall(recurrence: Recurrence, zone: ZoneInfo, after: int) -> Iterator[int]:
    """The moments of cron lines, in order, each once."""
    if after >= LATEST:
        return
    latest = max(after, 0)
    reading = _hours_that_pass if recurrence.counts_hours else _wall_times
    for moment in heapq.merge(*(reading(cron, zone, latest) for cron in recurrence.crons)):
        if moment > latest:  # several local times in one gap are one moment
            yield moment
            latest = moment


def _wall_times(cron: str, zone: ZoneInfo, after: int) -> Iterator[int]:
    found = CronSim(cron, local_time(after, zone) - _SECOND)
    while (local := next(found)) < _END:  # what happens once happens again within 50 years
        yield moment_of(local, zone)


def _hours_that_pass(cron: str, zone: ZoneInfo, after: int) -> Iterator[int]:
    """Every moment at which the wall shows such a time; what is shown twice counts twice."""
    soon = local_time(after + 86_400_000, zone) - _DAY  # earlier, if clocks are put back by then
    found = CronSim(cron, min(local_time(after, zone), soon) - _SECOND)
    waiting: list[int] = []
    while (local := next(found)) < _END:
        first = moment_of(local, zone)  # no later local time comes before this
        while waiting and waiting[0] < first:
            yield heapq.heappop(waiting)
        for moment in moments_of(local, zone):
            heapq.heappush(waiting, moment)
    yield from sorted(waiting)
