"""Stage: due events get their deliveries, under the stage lease."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from postrich.model.delivery import Fence, Target
from postrich.model.job import JobChange, JobError, JobState, Routed, StageItem
from postrich.rules.backoff import resolve_policy
from postrich.rules.redact import redact
from postrich.store.verbs.database import Database
from postrich.store.verbs.moving import (
    KnownUrls,
    RouteGroups,
    changes_of,
    intern,
    judge_jobs,
    make_deliveries,
    park_dependents,
    standings,
    tell_dependents,
)
from postrich.store.verbs.settling import check_lease

_Row = tuple[int, JobState, int, int | None, str, str, int, int, str | None]
_ROUTABLE = (JobState.SCHEDULED, JobState.PENDING_PUBLISH, JobState.PUBLISHED)


def stage_due(database: Database, now: int, limit: int, holding: Sequence[int]) -> list[StageItem]:
    values = {"now": now, "limit": limit, "holding": holding}
    return [
        StageItem(
            job,
            state,
            priority,
            due_at,
            tuple(msgspec.json.decode(targets, type=list[Target])),
            resolve_policy(policy),
            expires_at,
            attempts,
            event,
        )
        for job, state, priority, due_at, targets, policy, expires_at, attempts, event in (
            database.read(list[_Row], "stage_due", **values)
        )
    ]


def route(
    database: Database, fence: Fence, jobs: Sequence[Routed], now: int, known_urls: KnownUrls
) -> tuple[list[JobChange], set[int]]:
    """Make deliveries for those that wait for nobody; hold the others back."""
    check_lease(database, fence)
    numbers = [routed.item.job for routed in jobs]
    legal = {f.job for f in standings(database, numbers) if f.state in _ROUTABLE}
    timed = [routed.item.job for routed in jobs if routed.item.due_at is not None]
    if timed:  # somebody gave it a later hour meanwhile: never early (F3)
        legal -= database.read(set[int], "due_later", jobs=timed, now=now)
    changes, held = _hold(database, legal, now)
    intern(database, (target for routed in jobs for target in routed.targets), known_urls)
    groups: RouteGroups = {}
    going: list[tuple[int, int | None]] = []
    for routed in jobs:
        item = routed.item
        if item.job not in legal or item.job in held:
            continue
        band = item.priority * 2
        groups.setdefault((routed.targets, band, max(now, item.due_at or 0)), []).append(item.job)
        going.append((item.job, routed.again_at))
    database.run("stage_routed", rows=going)
    touched = make_deliveries(database, groups, known_urls)
    gone = [job for job, _ in going]
    judged = judge_jobs(database, gone, now)  # where it is all delivered already
    moved = {change.job for change in judged}
    return changes + judged + changes_of(database, [j for j in gone if j not in moved]), touched


def not_routed(
    database: Database, fence: Fence, job: int, error: JobError, next_at: int | None, now: int
) -> list[JobChange]:
    check_lease(database, fence)
    database.lock("live_jobs", jobs=[job])
    text = redact(error.message)
    values = {"job": job, "next_at": next_at, "now": now, "code": error.code, "text": text}
    database.run("stage_unrouted", **values)
    if not database.changes():
        database.run("stage_no_more", job=job, next_at=next_at)
        return judge_jobs(database, [job], now) if database.changes() else []
    detail = f"{error.code}: {text}"
    database.run("note_story", jobs=[job], what="not-routed", detail=detail, now=now)
    changes = changes_of(database, [job])
    return changes + tell_dependents(database, changes, now)


def _hold(database: Database, jobs: set[int], now: int) -> tuple[list[JobChange], set[int]]:
    """Of these jobs, hold back those that wait for others; returns what that changed, and them."""
    listed = sorted(jobs)
    held = database.read(set[int], "unmet", jobs=listed)
    if not held:
        return [], held
    hopeless = database.read(list[int], "hopeless", jobs=listed)
    waiting = sorted(held.difference(hopeless))
    database.run("hold_staged", jobs=waiting)
    changes = [JobChange(job, JobState.PENDING_PUBLISH, False) for job in waiting]
    parked = park_dependents(database, hopeless, now)
    return changes + parked + tell_dependents(database, parked, now), held
