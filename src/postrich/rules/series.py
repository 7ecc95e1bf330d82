"""What a series does next (F5): which occurrence, whether it is made, and when to look again.

Of several that are due at once only the last may be made: nobody wants yesterday's posts in a
row. One that is later than `GRACE` is missed, and made only if the series wants it posted.
"""

from __future__ import annotations

from collections.abc import Iterator

from postrich.model.series import Missed, Series, Step
from postrich.rules.recurrence import occurrences, parse_recurrence

GRACE = 600_000
MOST_COUNT = 10_000
_HOUR = 3_600_000
#: Where the last occurrence before now is looked for: further back if there is none.
_LOOK_BACK = (_HOUR, 24 * _HOUR, 32 * 24 * _HOUR)


def moments(
    series: Series, after: int, until: int | None = None, count: int | None = None
) -> Iterator[int]:
    """The series' moments after `after`, whatever became of them; never past its end."""
    ends = [end for end in (series.until, until) if end is not None]
    after = max(after, series.starts_at - 1)
    return occurrences(
        parse_recurrence(series.recurrence),
        series.zone,
        after,
        min(ends, default=None),
        count,
        start=series.starts_at,
    )


def to_come(series: Series, count: int) -> list[int]:
    """The moments that are still to be made, at most so many."""
    if series.next_at is None:
        return []
    left = count if series.count is None else min(count, series.count - series.passed)
    return list(moments(series, series.next_at - 1, count=left))


def next_step(series: Series, now: int) -> Step:
    """What is to be done about a series whose next occurrence is to be made (`next_at`)."""
    assert series.next_at is not None
    behind = behind_by(series, now)
    at = behind[-1] if behind else series.next_at
    passed = max(1, len(behind))
    is_last = series.count is not None and series.passed + passed >= series.count
    following = None if is_last else next(moments(series, at, count=1), None)
    make = at >= now - GRACE or series.missed is Missed.POST
    return Step(at, make, passed, following)


def behind_by(series: Series, now: int) -> list[int]:
    """The occurrences from the next one up to now: all where they are counted, else the last."""
    assert series.next_at is not None
    first = series.next_at - 1
    if series.count is not None:
        return list(moments(series, first, now, series.count - series.passed))
    for span in _LOOK_BACK:
        found = list(moments(series, max(first, now - span), now))
        if found or now - span <= first:
            return found[-1:]
    return list(moments(series, first, now))[-1:]
