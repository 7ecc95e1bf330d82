"""The clock on the wall: what a local time means in a zone, also when clocks are changed.

The one home of the rule of decision 15: a local time that is left out happens at the first moment
after the gap, and one that comes twice happens at its first. Milliseconds are UTC, always.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from postrich.errors import InvalidTime

#: No time past this is understood: the year 9000.
LATEST = 221_845_392_000_000
_CLOCK = re.compile(r"([01]?\d|2[0-3]):([0-5]\d)", re.ASCII)
_LONGEST_NAME = 64


def zone_named(name: str) -> ZoneInfo:
    """An IANA time zone, such as Europe/Berlin, or `InvalidTime`."""
    try:
        if not 0 < len(name) <= _LONGEST_NAME:
            raise ValueError  # noqa: TRY301 - the same sentence for all that are none
        return ZoneInfo(name)
    except (LookupError, ValueError, OSError):  # OSError: "Europe" is a folder
        shown = name[:_LONGEST_NAME]
        raise InvalidTime(f"{shown!r} is no time zone such as Europe/Berlin or UTC") from None


def parse_clock(text: str) -> tuple[int, int] | None:
    """Hour and minute of 9:00 or 18:30; None: it is no such time."""
    found = _CLOCK.fullmatch(text)
    return (int(found[1]), int(found[2])) if found else None


def local_time(ms: int, zone: ZoneInfo) -> datetime:
    """What the clocks of a zone show at a moment, without the zone; ms are cut off."""
    return datetime.fromtimestamp(ms // 1000, zone).replace(tzinfo=None, fold=0)


def moment_of(local: datetime, zone: ZoneInfo) -> int:
    """When a local time happens: never twice, and never not at all.

    It never runs backwards: a later local time happens later, or at the same moment.
    """
    before = local.replace(tzinfo=zone, fold=0)
    ms = _ms(before)
    if local_time(ms, zone) == local.replace(microsecond=0):
        return ms
    return _end_of_gap(_ms(local.replace(tzinfo=zone, fold=1)) // 1000, ms // 1000, zone)


def moments_of(local: datetime, zone: ZoneInfo) -> tuple[int, ...]:
    """Every moment at which the clocks show a local time: none in a gap, two where it is twice."""
    found = {_ms(local.replace(tzinfo=zone, fold=fold)) for fold in (0, 1)}
    shown = local.replace(microsecond=0)
    return tuple(ms for ms in sorted(found) if local_time(ms, zone) == shown)


def _ms(moment: datetime) -> int:
    return (moment - _EPOCH) // _MILLISECOND


def _end_of_gap(early: int, late: int, zone: ZoneInfo) -> int:
    """The second at which the clocks are put forward; it lies between the two readings."""
    after = _offset(late, zone)
    while late - early > 1:
        middle = (early + late) // 2
        if _offset(middle, zone) == after:
            late = middle
        else:
            early = middle
    return late * 1000


def _offset(second: int, zone: ZoneInfo) -> timedelta | None:
    return datetime.fromtimestamp(second, zone).utcoffset()


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
