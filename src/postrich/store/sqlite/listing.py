"""Relay lists that were found, and what depends on them."""

from __future__ import annotations

from collections.abc import Sequence

from postrich.rules.precedence import Cancellation
from postrich.store.port import KeptList
from postrich.store.sqlite.connection import Database, to_json


def lists(database: Database, keys: Sequence[tuple[str, int]]) -> list[KeptList]:
    return database.read(list[KeptList], "lists_of", keys=to_json(keys))


def keep(database: Database, found: Sequence[KeptList]) -> None:
    database.run("lists_keep", rows=to_json(found))


def reroute(database: Database, pubkeys: Sequence[str], now: int) -> None:
    for pubkey in pubkeys:
        database.run("reroute", pubkey=pubkey, now=now)


def where_sent(database: Database, request: Cancellation) -> list[str]:
    return database.read(
        list[str],
        "where_sent",
        event_ids=to_json(request.event_ids),
        addresses=to_json(request.addresses),
        pubkey=request.pubkey,
        everything=int(request.everything_until is not None),
    )
