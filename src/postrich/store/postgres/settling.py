"""Settle on PostgreSQL: the results of all lanes of a group in a handful of statements.

The order of locks is that of all verbs: leases by name, then jobs by number, then deliveries. Two
processes that settle the same job are one after the other, hence the second sees what the first
wrote, and a goal that both of them met together is never missed.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from postrich.errors import LeaseLost, PostrichError
from postrich.model.delivery import DeliveryState
from postrich.model.job import JobChange
from postrich.store.postgres.database import Database
from postrich.store.verbs.moving import judge_jobs
from postrich.store.verbs.settling import Item, in_turn

Answer = list[JobChange] | PostrichError


def settle(database: Database, items: Sequence[Item]) -> list[Answer]:
    """Write what lanes learnt that still hold their leases, then judge the jobs once."""
    fences = {item.results.fence for item in items}
    rows = [msgspec.structs.astuple(fence) for fence in fences]
    held = set(database.read(list[tuple[str, str, int]], "leases_held", rows=rows))
    good = [item for item in items if msgspec.structs.astuple(item.results.fence) in held]
    changes = _write(database, good) if good else []
    answers: list[Answer] = []
    for item in items:
        if msgspec.structs.astuple(item.results.fence) not in held:
            answers.append(LeaseLost(f"another worker holds {item.results.fence.name} now"))
            continue
        answers.append(changes)
        changes = []  # told once: they concern the process
    return answers


def _write(database: Database, items: Sequence[Item]) -> list[JobChange]:
    others = [
        (*msgspec.structs.astuple(other), item.results.destination, item.now)
        for item in items
        for other in item.results.others
    ]
    delivered = [
        (job, item.results.destination, item.now)
        for item in items
        for job in item.results.delivered
    ]
    touched = {row[0] for row in delivered}
    touched |= {row[0] for row in others if row[1] is not DeliveryState.WAITING}
    database.lock("live_jobs", jobs=touched | {row[0] for row in others})
    for rows in in_turn(others, key=lambda row: (row[0], row[7])):
        database.run("settle_others", rows=rows)
    if delivered:  # they come last: whatever else was learnt of these was learnt before
        database.run("settle_delivered", rows=delivered)
    return judge_jobs(database, touched, max(item.now for item in items)) if touched else []
