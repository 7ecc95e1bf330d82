"""Relay lists that were found, and what depends on them."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from postrich.rules.precedence import Cancellation
from postrich.store.port import KeptList
from postrich.store.verbs.database import Database


class _Version(msgspec.Struct, frozen=True):
    created_at: int = 0
    id: str = ""


def lists(database: Database, keys: Sequence[tuple[str, int]]) -> list[KeptList]:
    return database.read(list[KeptList], "lists_of", keys=keys)


def keep(database: Database, found: Sequence[KeptList]) -> None:
    rows = [(*msgspec.structs.astuple(kept), *version_of(kept.body)) for kept in found]
    database.run("lists_keep", rows=rows)


def version_of(body: str | None) -> tuple[int, str]:
    """What tells the newer of two lists: created_at and id."""
    found = _Version() if body is None else msgspec.json.decode(body, type=_Version)
    return found.created_at, found.id


def reroute(database: Database, pubkeys: Sequence[str], now: int) -> None:
    for pubkey in pubkeys:
        database.run("reroute", pubkey=pubkey, now=now)


def where_sent(database: Database, request: Cancellation) -> list[str]:
    return database.read(
        list[str],
        "where_sent",
        event_ids=request.event_ids,
        addresses=request.addresses,
        pubkey=request.pubkey,
        everything=int(request.everything_until is not None),
    )
