"""Reading a relay's stored events backwards in time, page by page, to the end (D11).

Promises: what shares a second is read whole where the relay can give it, and where it cannot,
that second is named; every step asks for less or has brought something new, so that no relay
keeps us for ever. Some relays read `until` as *before*, others as *not after*: both are served.
"""

from __future__ import annotations

import enum
from typing import assert_never

import msgspec

PAGE = 500
WHOLE_SECOND = 5000
#: So few in one second are no sign that a relay held something back.
FEW = 10


class Stage(enum.Enum):
    """How the next page is asked for, each where the one before brought nothing new."""

    ON = "the next page"
    SECOND = "all of one second"
    TIGHT = "not later than that second"
    BELOW = "earlier than that second"


class Ask(msgspec.Struct, frozen=True):
    """One question: at most `limit` events up to `until`, none before `since`.

    `whole`: that second has come whole, or was said not to have.
    """

    until: int | None = None
    since: int | None = None
    limit: int = PAGE
    stage: Stage = Stage.ON
    whole: bool = False


class Page(msgspec.Struct, frozen=True):
    """What came of it: true events within the bounds, how many of them new, and their times."""

    count: int = 0
    fresh: int = 0
    oldest: int = 0
    newest: int = 0


class Step(msgspec.Struct, frozen=True):
    """The next question, or None at the end. `gap`: a second that may not have come whole."""

    ask: Ask | None = None
    gap: int | None = None


def following(ask: Ask, page: Page, largest: int, since: int | None = None) -> Step:
    """What to ask after a page. `largest`: the largest page that this relay ever gave."""
    if not page.count:
        return Step()
    if page.fresh and ask.stage is not Stage.SECOND:
        return _step(Ask(page.oldest + 1), since)
    is_full = page.count >= max(largest, FEW)
    second = page.oldest
    match ask.stage:
        case Stage.ON if is_full:
            return _step(Ask(second + 1, second, WHOLE_SECOND, Stage.SECOND), since)
        case Stage.ON:
            return _step(Ask(second, stage=Stage.TIGHT), since)
        case Stage.SECOND:
            # More than any page before: the relay does not cut its answers at that size.
            whole = largest < page.count < ask.limit
            is_cut = is_full and page.newest == second and not whole
            ask = Ask(second, stage=Stage.TIGHT, whole=whole or is_cut)
            return _step(ask, since, second if is_cut else None)
        case Stage.TIGHT | Stage.BELOW:
            is_cut = is_full and ask.stage is Stage.TIGHT and not ask.whole
            below = Ask(second - 1, stage=Stage.BELOW)
            return _step(below, since, second if is_cut else None)
        case _:
            assert_never(ask.stage)


def _step(ask: Ask, since: int | None, gap: int | None = None) -> Step:
    is_over = ask.until is not None and ask.until < (since or 0)
    return Step(None if is_over else ask, gap)
