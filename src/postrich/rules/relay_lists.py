"""Relay lists that people publish (NIP-65, NIP-17, NIP-51), read as a stranger's word.

Promises: every URL that comes out is in normal form; what cannot be used is kept with its
reason; a list of a thousand relays is cut. Only a newer signed event replaces an older one.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Sequence

import msgspec

from postrich.errors import BadSetting
from postrich.rules.precedence import is_newer
from postrich.rules.trust import normalise_url

RELAYS = 10002
BLOCKED = 10006
GROUPS = 10009
DRAFTS = 10013
NUTZAPS = 10019
MESSAGES = 10050
#: The lists that routing asks for; each is worth keeping when it is met.
KINDS = (RELAYS, BLOCKED, 10007, GROUPS, 10012, DRAFTS, NUTZAPS, MESSAGES, 10086)

MAX_ENTRIES = 100
MAX_REFUSED = 20


class RelayList(msgspec.Struct, frozen=True):
    """One list: `read` and `write` differ only in a kind 10002. `groups`: NIP-29 id → relay."""

    pubkey: str
    kind: int
    created_at: int
    event_id: str
    read: tuple[str, ...] = ()
    write: tuple[str, ...] = ()
    groups: tuple[tuple[str, str], ...] = ()
    refused: tuple[tuple[str, str], ...] = ()

    @property
    def relays(self) -> tuple[str, ...]:
        """All of its relays, in its order."""
        return tuple(dict.fromkeys((*self.write, *self.read)))


class Status(enum.StrEnum):
    """What a search for a list came to. Not finding is not the same as not having looked."""

    FOUND = "found"
    NONE = "none published"
    UNKNOWN = "could not look"


class Lookup(msgspec.Struct, frozen=True):
    """What is known of one list of one person."""

    status: Status
    found: RelayList | None = None
    detail: str = ""


UNKNOWN = Lookup(Status.UNKNOWN)


def parse_list(
    pubkey: str, kind: int, created_at: int, event_id: str, tags: Sequence[Sequence[str]]
) -> RelayList:
    """The list that an event's tags make."""
    read: dict[str, None] = {}
    write: dict[str, None] = {}
    groups: list[tuple[str, str]] = []
    refused: list[tuple[str, str]] = []
    for tag in _entries(kind, tags):
        url, reason = _clean(tag)
        if url is None:
            refused.append((_text(tag), reason))
            continue
        marker = tag[2] if kind == RELAYS and len(tag) > 2 else ""
        if marker != "write":
            read[url] = None
        if marker != "read":
            write[url] = None
        if tag[0] == "group":
            groups.append((tag[1], url))
    return RelayList(
        pubkey,
        kind,
        created_at,
        event_id,
        tuple(read),
        tuple(write),
        tuple(groups),
        tuple(refused[:MAX_REFUSED]),
    )


def read_hidden(text: str) -> list[list[str]]:
    """The tags in the decrypted part of a list (NIP-51); none where it is not what it should be."""
    try:
        tags = msgspec.json.decode(text, type=list[list[str]])
    except (msgspec.DecodeError, UnicodeError):
        return []
    return [tag for tag in tags if tag]


def _entries(kind: int, tags: Sequence[Sequence[str]]) -> Iterable[Sequence[str]]:
    name = {RELAYS: "r", GROUPS: "group"}.get(kind, "relay")
    return [tag for tag in tags if tag[0] == name][:MAX_ENTRIES]


def _text(tag: Sequence[str]) -> str:
    at = 2 if tag[0] == "group" else 1
    return tag[at] if len(tag) > at else ""


def _clean(tag: Sequence[str]) -> tuple[str | None, str]:
    try:
        return normalise_url(_text(tag)), ""
    except BadSetting as problem:
        return None, str(problem)


def replaces(new: RelayList, old: RelayList | None) -> bool:
    """Whether a list takes the place of the one that is known."""
    if old is None:
        return True
    return is_newer(new.created_at, new.event_id, old.created_at, old.event_id)
