"""Which events end others that still wait (A11): newer versions, deletions, vanishing."""

from __future__ import annotations

import msgspec

from postrich.errors import BadSetting
from postrich.model.event import Draft, Event, tag_values
from postrich.rules.trust import normalise_url

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
        ids = tuple(value for value in tag_values(event.tags, "e") if _is_id(value))
        addresses = tuple(
            value for value in tag_values(event.tags, "a") if _owner(value) == event.pubkey
        )
        return Cancellation(event.pubkey, event.created_at, ids, addresses)
    if event.kind == VANISH:
        named = tag_values(event.tags, "relay")
        relays = _urls(named)
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


def _urls(named: list[str]) -> tuple[str, ...]:
    """The relays named, in the form that deliveries have; what is no URL names none."""
    urls = []
    for text in named:
        try:
            urls.append(normalise_url(text))
        except BadSetting:
            continue
    return tuple(urls)


def _is_id(value: str) -> bool:
    return len(value) == 64 and all(c in "0123456789abcdef" for c in value)


def _owner(address: str) -> str:
    parts = address.split(":", 2)
    return parts[1] if len(parts) == 3 else ""
