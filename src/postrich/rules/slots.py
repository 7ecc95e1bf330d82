"""A weekly grid of times to post at, and the next of them that are free (F5).

    mon,wed,fri 09:00 18:00; sat 10:30; day 12:00

Lines are parted by `;`. A slot is taken when something is due in its minute. Slots keep the
clock on the wall; what happens when clocks are changed is decision 15.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

import msgspec

from postrich.errors import InvalidRecurrence, InvalidTime
from postrich.rules.recurrence import Recurrence, occurrences, parse_recurrence
from postrich.rules.zones import zone_named

LONGEST = 2000
MOST_TIMES = 96  # per week and line together: a bound on the work, generous to people
MOST_ASKED = 1000
_MINUTE = 60_000


class Grid(msgspec.Struct, frozen=True):
    """A grid that was understood, and the zone whose clocks it means."""

    text: str
    zone: str
    times: Recurrence


def parse_grid(text: str, zone: str) -> Grid:
    """What a grid means, or `InvalidTime` that names the line."""
    if len(text) > LONGEST:
        raise InvalidTime(f"a grid may be {LONGEST:,} characters long")
    zone_named(zone)
    crons: dict[str, None] = {}
    for line in filter(None, map(str.strip, text.split(";"))):
        try:
            found = parse_recurrence(f"every {line}")
        except InvalidRecurrence:
            found = None
        if found is None or not found.crons:
            raise InvalidTime(
                f"the line {line!r} of the grid is not understood: "
                "write days and times, such as mon,wed,fri 09:00 18:00"
            )
        crons.update(dict.fromkeys(found.crons))
    if not 0 < len(crons) <= MOST_TIMES:
        raise InvalidTime(f"a grid has between 1 and {MOST_TIMES} times")
    return Grid(text, zone, Recurrence(text, tuple(crons)))


def next_free(grid: Grid, taken: Iterable[int], after: int, count: int) -> list[int]:
    """The next `count` slots after `after` at which nothing is due, in milliseconds."""
    if not 0 <= count <= MOST_ASKED:
        raise InvalidTime(f"up to {MOST_ASKED:,} slots can be asked for at once")
    minutes = {moment // _MINUTE for moment in taken}
    slots = occurrences(grid.times, grid.zone, after)
    return list(islice((slot for slot in slots if slot // _MINUTE not in minutes), count))
