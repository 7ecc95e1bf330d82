"""Settle: what lanes learnt, written under their leases (DESIGN: one settle per delivery)."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from postrich.errors import LeaseLost, PostrichError
from postrich.model.delivery import DeliveryState, Fence, Settlement
from postrich.model.job import JobChange
from postrich.store.port import Results
from postrich.store.sqlite.connection import Database, to_json
from postrich.store.sqlite.moving import judge_jobs


class Item(msgspec.Struct, frozen=True):
    """One settle call."""

    results: Results
    now: int


def settle(database: Database, items: Sequence[Item]) -> list[list[JobChange] | PostrichError]:
    """Write the results of several lanes, then judge the jobs they touch once.

    All changes are told to the first lane that holds its lease: they concern the process.
    """
    answers: list[list[JobChange] | PostrichError] = []
    touched: set[int] = set()
    changes: list[JobChange] = []
    for item in items:
        if holds(database, item.results.fence):
            touched |= _write(database, item.results, item.now)
            answers.append(changes if not any(isinstance(a, list) for a in answers) else [])
        else:
            answers.append(LeaseLost(f"another worker holds {item.results.fence.name} now"))
    if touched:
        changes += judge_jobs(database, touched, max(item.now for item in items))
    return answers


def holds(database: Database, fence: Fence) -> bool:
    """Whether the lease is still that worker's, under that epoch."""
    found = database.scalar("lease_check", name=fence.name, owner=fence.owner, epoch=fence.epoch)
    return bool(found)


def check_lease(database: Database, fence: Fence) -> None:
    """Raise `LeaseLost` unless the lease is still that worker's."""
    if not holds(database, fence):
        raise LeaseLost(f"another worker holds {fence.name} now")


def _write(database: Database, results: Results, now: int) -> set[int]:
    """Write one lane's results; returns the jobs that may have to move.

    Plain OKs come last: whatever else a lane learnt of such a delivery, it learnt before.
    """
    touched: set[int] = set()
    for others in _in_turn(results.others):
        _write_others(database, others, results.destination, now)
        touched.update(other.job for other in others if other.state is not DeliveryState.WAITING)
    if results.delivered:
        listed = to_json(results.delivered)
        database.run("settle_delivered", jobs=listed, destination=results.destination, now=now)
        touched.update(results.delivered)
    return touched


def _write_others(
    database: Database, others: Sequence[Settlement], destination: int, now: int
) -> None:
    rows = to_json(others)
    database.run("settle_others", rows=rows, destination=destination, now=now)
    if database.changes() < len(others):  # deleted meanwhile: no job, no story
        listed = to_json([other.job for other in others])
        kept = database.read(set[int], "settle_kept", jobs=listed, destination=destination)
        rows = to_json([other for other in others if other.job in kept])
    database.run("settle_story", rows=rows, destination=destination, now=now)


def _in_turn(others: Sequence[Settlement]) -> list[Sequence[Settlement]]:
    """The results such that each group has a job once: a late OK may follow its own timeout."""
    if len({other.job for other in others}) == len(others):
        return [others] if others else []
    turns: list[list[Settlement]] = []
    seen: dict[int, int] = {}
    for other in others:
        turn = seen.get(other.job, 0)
        seen[other.job] = turn + 1
        if turn == len(turns):
            turns.append([])
        turns[turn].append(other)
    return list(turns)
