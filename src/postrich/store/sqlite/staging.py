"""Stage: due events get their deliveries, under the stage lease."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from postrich.model.delivery import Fence, Target
from postrich.model.job import JobChange, JobState, StageItem
from postrich.store.sqlite.connection import Database, to_json
from postrich.store.sqlite.moving import (
    RouteGroups,
    intern,
    make_deliveries,
    park_dependents,
    standings,
    tell_dependents,
)
from postrich.store.sqlite.settling import check_lease

_Row = tuple[int, JobState, int, int | None, str]


def stage_due(database: Database, now: int, limit: int) -> list[StageItem]:
    rows = database.read(list[_Row], "stage_due", now=now, limit=limit)
    return [
        StageItem(
            job, state, priority, due_at, tuple(msgspec.json.decode(targets, type=list[Target]))
        )
        for job, state, priority, due_at, targets in rows
    ]


def route(
    database: Database,
    fence: Fence,
    items: Sequence[StageItem],
    now: int,
    known_urls: dict[str, int],
) -> tuple[list[JobChange], set[int]]:
    """Make deliveries for those that wait for nobody; hold the others back."""
    check_lease(database, fence)
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
