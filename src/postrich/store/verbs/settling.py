"""What every settle has in common: its call, its lease, and results in their turn."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import TypeVar

import msgspec

from postrich.errors import LeaseLost
from postrich.model.delivery import Fence
from postrich.store.port import Results
from postrich.store.verbs.database import Database

T = TypeVar("T")


class Item(msgspec.Struct, frozen=True):
    """One settle call."""

    results: Results
    now: int


def holds(database: Database, fence: Fence) -> bool:
    """Whether the lease is still that worker's, under that epoch."""
    found = database.scalar("lease_check", name=fence.name, owner=fence.owner, epoch=fence.epoch)
    return bool(found)


def check_lease(database: Database, fence: Fence) -> None:
    """Raise `LeaseLost` unless the lease is still that worker's."""
    if not holds(database, fence):
        raise LeaseLost(f"another worker holds {fence.name} now")


def in_turn(results: Sequence[T], key: Callable[[T], Hashable]) -> list[Sequence[T]]:
    """The results such that each group has a delivery once: a late OK may follow its timeout."""
    if len(set(map(key, results))) == len(results):
        return [results] if results else []
    turns: list[list[T]] = []
    seen: dict[Hashable, int] = {}
    for result in results:
        turn = seen.get(key(result), 0)
        seen[key(result)] = turn + 1
        if turn == len(turns):
            turns.append([])
        turns[turn].append(result)
    return list(turns)
