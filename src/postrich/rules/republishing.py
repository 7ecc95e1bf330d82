"""Which past events may be copied to another relay, and which must not (D11).

Promises: nothing goes out again that its author took back, that has expired, that belongs
elsewhere, or that only its author may publish. Whatever stays behind has a reason.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from postrich.model.event import (
    NEVER_PUBLISHED,
    Event,
    KindClass,
    address_of,
    classify,
    expiration_of,
)
from postrich.rules.precedence import DELETION, VANISH, Cancellation, cancellation_of
from postrich.rules.routing import is_grouped

#: What takes other events back: read before all others, and handed on after them.
TAKES_BACK = (DELETION, VANISH)


class TakenBack(msgspec.Struct, frozen=True):
    """What an author deleted: ids, addresses up to a time, everything up to a time."""

    event_ids: frozenset[str] = frozenset()
    addresses: dict[str, int] = {}
    everything_until: int = -1


def taken_back_at(relay: str, events: Iterable[Event]) -> TakenBack:
    """What deletions and requests to vanish mean for a relay."""
    ids: set[str] = set()
    addresses: dict[str, int] = {}
    until = -1
    for request in filter(None, map(cancellation_of, events)):
        if not _means(request, relay):
            continue
        ids.update(request.event_ids)
        for address in request.addresses:
            addresses[address] = max(request.created_at, addresses.get(address, -1))
        if request.everything_until is not None:
            until = max(until, request.everything_until)
    return TakenBack(frozenset(ids), addresses, until)


def _means(request: Cancellation, relay: str) -> bool:
    return not request.relays or relay in request.relays


def stays_behind(event: Event, gone: TakenBack, now: int, *, may_protect: bool) -> str | None:
    """Why an event is not copied; None: it is. `may_protect`: its author can AUTH (NIP-70)."""
    if event.kind in NEVER_PUBLISHED or event.kind == VANISH:
        return "never to be published again"
    if classify(event.kind) is KindClass.EPHEMERAL:
        return "ephemeral"
    if is_grouped(event):
        return "of a group, which has its own relay"
    if not may_protect and any(list(tag) == ["-"] for tag in event.tags):
        return "protected: only its author may publish it"
    expires = expiration_of(event.tags)
    if expires is not None and expires * 1000 <= now:
        return "expired"
    return "taken back by its author" if _is_gone(event, gone) else None


def _is_gone(event: Event, gone: TakenBack) -> bool:
    if event.kind == DELETION:  # deleting a deletion has no effect
        return False
    address = address_of(event.kind, event.pubkey, event.tags)
    deleted_until = gone.addresses.get(address, -1) if address is not None else -1
    return event.id in gone.event_ids or event.created_at <= max(
        deleted_until, gone.everything_until
    )
