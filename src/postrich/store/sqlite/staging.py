"""Stage: drafts become events, due events get their deliveries — under the stage lease."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from postrich.errors import LeaseLost
from postrich.model.delivery import Fence, Target
from postrich.model.event import Event
from postrich.model.job import JobChange, JobError, JobState, StageItem
from postrich.rules.backoff import resolve_policy
from postrich.rules.redact import redact
from postrich.store.sqlite.accepting import adopt_signature
from postrich.store.sqlite.connection import Database, to_json
from postrich.store.sqlite.moving import (
    RouteGroups,
    intern,
    make_deliveries,
    park_dependents,
    standings,
    tell_dependents,
)
from postrich.store.sqlite.settling import holds

_Row = tuple[int, JobState, int, str, int, int, int | None, str, str]


def stage_due(database: Database, now: int, limit: int) -> list[StageItem]:
    rows = database.read(list[_Row], "stage_due", now=now, limit=limit)
    return [
        StageItem(
            job,
            state,
            priority,
            resolve_policy(policy),
            sign_attempts,
            expires_at,
            due_at,
            tuple(msgspec.json.decode(targets, type=list[Target])),
            body,
        )
        for job, state, priority, policy, sign_attempts, expires_at, due_at, targets, body in rows
    ]


def signed(database: Database, fence: Fence, job: int, event: Event, now: int) -> list[JobChange]:
    _check(database, fence)
    found = standings(database, [job])
    if not found or found[0].state is not JobState.PENDING_SIGN or found[0].event_id != event.id:
        return []  # cancelled or superseded meanwhile
    return [JobChange(job, adopt_signature(database, found[0], event, now), False)]


def not_signed(
    database: Database,
    fence: Fence,
    job: int,
    error: JobError,
    next_at: int | None,
    park: bool,
    now: int,
) -> list[JobChange]:
    _check(database, fence)
    state = JobState.PENDING_SIGN
    if next_at is None:
        state = JobState.PARKED if park else JobState.FAILED
    values: dict[str, Any] = {"job": job, "state": state, "next_at": next_at, "now": now}
    database.run("stage_unsigned", code=error.code, text=redact(error.message), **values)
    if not database.changes():
        return []
    listed = to_json([job])
    detail = f"{error.code}: {redact(error.message)}"
    database.run("note_story", jobs=listed, what="not-signed", detail=detail, now=now)
    change = JobChange(job, state, next_at is None)
    return [change, *tell_dependents(database, [change], now)]


def route(
    database: Database,
    fence: Fence,
    items: Sequence[StageItem],
    now: int,
    known_urls: dict[str, int],
) -> tuple[list[JobChange], set[int]]:
    """Make deliveries for those that wait for nobody; hold the others back."""
    _check(database, fence)
    legal = {
        found.job
        for found in standings(database, (item.job for item in items))
        if found.state in (JobState.SCHEDULED, JobState.PENDING_PUBLISH)
    }
    changes, held = _hold(database, legal, now)
    intern(database, (target.url for item in items for target in item.targets), known_urls)
    groups: RouteGroups = {}
    going: list[int] = []
    for item in items:
        if item.job not in legal or item.job in held:
            continue
        band = item.priority * 2
        groups.setdefault((item.targets, band, max(now, item.due_at or 0)), []).append(item.job)
        going.append(item.job)
    database.run("stage_routed", jobs=to_json(going))
    touched = make_deliveries(database, groups, known_urls)
    changes += [JobChange(job, JobState.PENDING_PUBLISH, False) for job in going]
    return changes, touched


def _hold(database: Database, jobs: set[int], now: int) -> tuple[list[JobChange], set[int]]:
    """Of these jobs, hold back those that wait for others; returns what that changed, and them."""
    listed = to_json(sorted(jobs))
    held = database.read(set[int], "unmet", jobs=listed)
    if not held:
        return [], held
    hopeless = database.read(list[int], "hopeless", jobs=listed)
    waiting = sorted(held.difference(hopeless))
    database.run("hold_staged", jobs=to_json(waiting))
    changes = [JobChange(job, JobState.PENDING_PUBLISH, False) for job in waiting]
    parked = park_dependents(database, hopeless, now)
    return changes + parked + tell_dependents(database, parked, now), held


def _check(database: Database, fence: Fence) -> None:
    if not holds(database, fence):
        raise LeaseLost(f"another worker holds {fence.name} now")
