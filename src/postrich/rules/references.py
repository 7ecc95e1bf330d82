"""What an event answers that names relays of its own (D9): repositories (NIP-34), polls (NIP-88).

Pure: reads tags that anybody may have written, and never fails on them.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from postrich.model.event import Draft, Event, is_hex_name, tag_values
from postrich.rules.trust import clean_urls

REPOSITORY = 30617
#: Patches, pull requests, issues and what becomes of them.
ABOUT_CODE = (1617, 1618, 1619, 1621, 1630, 1631, 1632, 1633)
POLL = 1068
VOTE = 1018
ANSWERS = (VOTE, *ABOUT_CODE)


class Reference(msgspec.Struct, frozen=True):
    """An event that names the relays where others answer it: a repository, or a poll."""

    kind: int
    pubkey: str = ""
    name: str = ""
    event_id: str = ""
    hints: tuple[str, ...] = ()


def reference_of(event: Draft | Event) -> Reference | None:
    """What the event answers that has relays of its own (NIP-34, NIP-88)."""
    if event.kind in ABOUT_CODE:
        return next(filter(None, map(_repository, event.tags)), None)
    if event.kind == VOTE:
        return next(filter(None, map(_poll, event.tags)), None)
    return None


def _repository(tag: Sequence[str]) -> Reference | None:
    kind, _, rest = (tag[1] if tag[0] == "a" and len(tag) > 1 else "").partition(":")
    pubkey, _, name = rest.partition(":")
    if kind != str(REPOSITORY) or not is_hex_name(pubkey):
        return None
    return Reference(REPOSITORY, pubkey, name, hints=clean_urls(tag[2:3]))


def _poll(tag: Sequence[str]) -> Reference | None:
    if tag[0] != "e" or len(tag) < 2 or not is_hex_name(tag[1]):
        return None
    return Reference(POLL, event_id=tag[1], hints=clean_urls(tag[2:3]))


def relays_named(reference: Reference, tags: Sequence[Sequence[str]]) -> tuple[str, ...]:
    """The relays that a repository or a poll names for its answers."""
    if reference.kind == REPOSITORY:
        return clean_urls(url for tag in tags if tag[0] == "relays" for url in tag[1:])
    return clean_urls(tag_values(tags, "relay"))
