"""Which events end others that still wait (A11): newer versions, deletions, vanishing."""

from __future__ import annotations

import msgspec

from postrich.model.event import Draft, Event, is_hex_name, tag_values
from postrich.rules.trust import clean_urls

DELETION = 5
VANISH = 62
EVERYWHERE = "ALL_RELAYS"


class Cancellation(msgspec.Struct, frozen=True):
    """What a kind 5 or 62 of `pubkey` takes out of the queue.

    `everything_until`: all of the author's events up to that second (vanish).
    `relays`: only the deliveries there; empty means everywhere.
    """

    pubkey: str
    created_at: int
    event_ids: tuple[str, ...] = ()
    addresses: tuple[str, ...] = ()
    everything_until: int | None = None
    relays: tuple[str, ...] = ()


def cancellation_of(event: Event | Draft) -> Cancellation | None:
    """What the event cancels; only its author's own events are ever meant."""
    if event.kind == DELETION:
        ids = tuple(value for value in tag_values(event.tags, "e") if is_hex_name(value))
        addresses = tuple(
            value for value in tag_values(event.tags, "a") if _owner(value) == event.pubkey
        )
        return Cancellation(event.pubkey, event.created_at, ids, addresses)
    if event.kind == VANISH:
        named = tag_values(event.tags, "relay")
        relays = clean_urls(named)
        if EVERYWHERE in named:
            relays = ()
        elif not relays:
            return None
        return Cancellation(
            event.pubkey, event.created_at, everything_until=event.created_at, relays=relays
        )
    return None


def is_newer(created_at: int, event_id: str, than_at: int, than_id: str) -> bool:
    """NIP-01: the later one wins, and of two of the same second the lower id."""
    return (created_at, than_id) > (than_at, event_id)


def next_created_at(now: int, last: int | None) -> int:
    """A time for a new version that every relay takes for newer than the last one."""
    return now if last is None else max(now, last + 1)


def _owner(address: str) -> str:
    parts = address.split(":", 2)
    return parts[1] if len(parts) == 3 else ""
