"""Hours as people read and write them: in their own time zone, and how far away they are."""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path

from postrich.doors.cli.outset import misuse
from postrich.doors.cli.words import span
from postrich.errors import InvalidTime
from postrich.rules.times import parse_time
from postrich.rules.zones import local_time, zone_named

LOCALTIME = Path("/etc/localtime")


def zone_meant(name: str | None) -> str:
    """The time zone that a command means: the one named, or the person's own."""
    if name is None:
        return own_zone()
    try:
        zone_named(name)
    except InvalidTime as problem:
        raise misuse(str(problem), "--zone") from None
    return name


def own_zone() -> str:
    """The person's time zone by its IANA name; UTC where the machine does not say."""
    linked = os.path.realpath(LOCALTIME).partition("zoneinfo/")[2]
    for name in (os.environ.get("TZ", "").removeprefix(":"), linked):
        try:
            zone_named(name)
        except InvalidTime:
            continue
        return name
    return "UTC"


def read_hour(text: str, now: int, zone: str, option: str = "--at") -> int:
    """Milliseconds from what a person typed, such as `tomorrow 9:00`."""
    try:
        return parse_time(text, now, zone)
    except InvalidTime as problem:
        raise misuse(str(problem), option) from None


def day_words(at: int, now: int, zone: str) -> str:
    """`today 18:00`, `tomorrow 09:00`, `Fri 2026-06-05 09:00`."""
    there, here = local_time(at, zone_named(zone)), local_time(now, zone_named(zone))
    clock = f"{there:%H:%M}" if there.second == 0 else f"{there:%H:%M:%S}"
    for days, word in ((0, "today"), (1, "tomorrow")):
        if there.date() == here.date() + timedelta(days=days):
            return f"{word} {clock}"
    return f"{there:%a %Y-%m-%d} {clock}"


def hour_words(at: int, now: int, zone: str) -> str:
    """`tomorrow 09:00 (Europe/Berlin), in 14 h`."""
    return f"{day_words(at, now, zone)} ({zone}), {away_words(at, now) or 'now'}"


def away_words(at: int, now: int) -> str:
    """`in 14 h`, by whole seconds; "" for what is due."""
    seconds = -(-(at - now) // 1000)
    return f"in {span(seconds * 1000)}" if at > now else ""
