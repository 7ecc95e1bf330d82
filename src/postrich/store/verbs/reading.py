"""Reading: what people and lanes see. Nothing here writes."""

from __future__ import annotations

import string
from collections.abc import Sequence
from typing import Any

import msgspec

from postrich.model.delivery import (
    Claimed,
    Delivery,
    DeliveryState,
    Destination,
    Floors,
    Parcel,
    Target,
    event_frame,
)
from postrich.model.job import Job, JobError, JobFilter, JobState, Phase, QueueStatus
from postrich.rules.backoff import resolve_policy
from postrich.rules.lifecycle import publish_error
from postrich.store.port import Work
from postrich.store.verbs.database import Database


class Selected(msgspec.Struct, frozen=True, array_like=True):
    """A job found by a filter."""

    id: int
    state: JobState
    signed: int
    policy: str


class _JobRow(msgspec.Struct, frozen=True):
    id: int
    event_id: str
    pubkey: str
    kind: int
    created_at: int
    state: JobState
    priority: int
    goal: int
    policy: str
    accepted_at: int
    due_at: int | None
    expires_at: int
    published_at: int | None
    finished_at: int | None
    sign_attempts: int
    stage_at: int | None
    error_code: str | None
    error_text: str | None
    size: int
    signed: int
    targets: str | None
    body: str | None
    waits_for: list[int]
    deliveries: list[Delivery]


class _Body(msgspec.Struct, frozen=True):
    content: str = ""
    tags: list[list[str]] = []


_WorkRow = tuple[int, str, int, int, int, int]
_ParcelRow = tuple[int, str, str, int, int, int, str, str]


def select(
    database: Database, which: JobFilter, limit: int, before: int | None = None
) -> list[Selected]:
    """The jobs that a filter means, newest first. Named jobs are looked up, not searched for."""
    named = {"jobs": which.jobs} if which.jobs else {}
    by = "select_of_author" if which.pubkey else "select_jobs"
    return database.read(
        list[Selected],
        "select_named" if named else by,
        **named,
        before=before,
        states=which.states or None,
        pubkey=which.pubkey,
        kind=which.kind,
        relay=which.relay,
        open_only=int(which.open_only),
        limit=limit,
    )


def show(database: Database, which: JobFilter, limit: int, before: int | None = None) -> list[Job]:
    numbers = [row.id for row in select(database, which, limit, before)]
    rows = database.read(list[_JobRow], "show_jobs", jobs=numbers)
    return [_job(row) for row in rows]


def _job(row: _JobRow) -> Job:
    body = msgspec.json.decode(row.body, type=_Body) if row.body else _Body()
    deliveries = row.deliveries or _planned(row)
    return Job(
        id=row.id,
        event_id=row.event_id,
        pubkey=row.pubkey,
        kind=row.kind,
        created_at=row.created_at,
        state=row.state,
        priority=row.priority,
        goal=row.goal,
        policy=resolve_policy(row.policy),
        accepted_at=row.accepted_at,
        due_at=row.due_at,
        expires_at=row.expires_at,
        published_at=row.published_at,
        finished_at=row.finished_at,
        sign_attempts=row.sign_attempts,
        next_at=_next_at(row),
        error=_error(row),
        content=body.content,
        tags=body.tags,
        size=row.size,
        waits_for=tuple(row.waits_for),
        deliveries=tuple(deliveries),
    )


#: What became of the destinations of a job that ended before it was sent on its way.
_NEVER_SENT = {
    JobState.CANCELLED: DeliveryState.CANCELLED,
    JobState.SUPERSEDED: DeliveryState.SUPERSEDED,
    JobState.FAILED: DeliveryState.FAILED,
    JobState.PARKED: DeliveryState.PARKED,
}


def _planned(row: _JobRow) -> list[Delivery]:
    """The destinations of a job that was not sent on its way (yet)."""
    if row.targets is None:
        return []
    state = _NEVER_SENT.get(row.state, DeliveryState.WAITING)
    return [
        Delivery(target.url, target.reason, state, 0, None, None, "", row.finished_at)
        for target in msgspec.json.decode(row.targets, type=list[Target])
    ]


def _next_at(row: _JobRow) -> int | None:
    if row.stage_at is not None:
        return row.stage_at
    return min((d.next_at for d in row.deliveries if d.next_at is not None), default=None)


def _error(row: _JobRow) -> JobError | None:
    if row.error_code is not None:
        phase = Phase.PUBLISH if row.signed else Phase.SIGN
        return JobError(phase, row.error_code, row.error_text or "")
    return publish_error(row.state, row.deliveries)


def work(database: Database) -> list[Work]:
    return [
        Work(Destination(number, url, bool(trusted)), earliest, bool(nudged), bool(messages))
        for number, url, trusted, earliest, nudged, messages in (
            database.read(list[_WorkRow], "work")
        )
    ]


def claim(database: Database, after: Floors, **values: Any) -> list[Claimed]:
    """Due deliveries of one destination that come after the floors of their bands."""
    hours, jobs = [hour for hour, _ in after], [job for _, job in after]
    return database.read(list[Claimed], "claim", hours=hours, jobs=jobs, **values)


def parcels(database: Database, jobs: Sequence[int]) -> list[Parcel]:
    rows = database.read(list[_ParcelRow], "parcels", jobs=jobs)
    return [
        Parcel(job, event_id, pubkey, at, priority, expires, policy, event_frame(body.encode()))
        for job, event_id, pubkey, at, priority, expires, policy, body in rows
    ]


def status(database: Database) -> QueueStatus:
    rows = database.read(list[tuple[JobState, int, int, int]], "status_open")
    waiting = {state: (count, tries, oldest) for state, count, tries, oldest in rows}
    pending = [
        waiting[state]
        for state in (JobState.PENDING_SIGN, JobState.PENDING_PUBLISH)
        if state in waiting
    ]
    trouble = dict(database.read(list[tuple[JobState, int]], "status_trouble"))
    open_deliveries, tries = database.read(tuple[int, int], "status_deliveries")
    return QueueStatus(
        pending=sum(count for count, _, _ in pending),
        scheduled=waiting.get(JobState.SCHEDULED, (0, 0, 0))[0],
        parked=trouble.get(JobState.PARKED, 0),
        failed=trouble.get(JobState.FAILED, 0),
        total_attempts=tries + sum(sign for _, sign, _ in pending),
        open_deliveries=open_deliveries,
        oldest=min((oldest for _, _, oldest in pending), default=None),
    )


def find(database: Database, prefix: str) -> list[int]:
    if len(prefix) > 64 or not set(prefix) <= set(string.hexdigits):
        return []
    low, high = prefix.ljust(64, "0"), prefix.ljust(64, "f")
    return database.read(list[int], "find_jobs", low=low, high=high)
