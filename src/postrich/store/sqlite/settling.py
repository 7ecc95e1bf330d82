"""Settle: what lanes learnt, written under their leases (DESIGN: one settle per delivery)."""

from __future__ import annotations

from collections.abc import Sequence

from postrich.errors import LeaseLost, PostrichError
from postrich.model.delivery import DeliveryState, Settlement
from postrich.model.job import JobChange
from postrich.store.port import Results
from postrich.store.sqlite.connection import Database
from postrich.store.verbs.moving import judge_jobs
from postrich.store.verbs.settling import Item, holds, in_turn


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


def _write(database: Database, results: Results, now: int) -> set[int]:
    """Write one lane's results; returns the jobs that may have to move.

    Plain OKs come last: whatever else a lane learnt of such a delivery, it learnt before.
    """
    touched: set[int] = set()
    for others in in_turn(results.others, key=lambda other: other.job):
        _write_others(database, others, results.destination, now)
        touched.update(other.job for other in others if other.state is not DeliveryState.WAITING)
    if results.delivered:
        jobs = results.delivered
        database.run("settle_delivered", jobs=jobs, destination=results.destination, now=now)
        touched.update(jobs)
    return touched


def _write_others(
    database: Database, others: Sequence[Settlement], destination: int, now: int
) -> None:
    kept = database.read(set[int], "settle_kept", rows=others, destination=destination)
    others = [other for other in others if other.job in kept]
    database.run("settle_others", rows=others, destination=destination, now=now)
    database.run("settle_story", rows=others, destination=destination, now=now)
