"""What people and the lifeline do: retry, cancel, delete; expire, archive, prune."""

from __future__ import annotations

from collections.abc import Sequence

from postrich.errors import IllegalMove, UnknownJob
from postrich.model.job import JobChange, JobFilter, JobState
from postrich.rules.backoff import resolve_policy
from postrich.rules.lifecycle import CANCELLABLE, DELETABLE, RETRIABLE
from postrich.store.verbs.database import Database
from postrich.store.verbs.moving import changes_of, end_jobs, judge_jobs, tell_dependents
from postrich.store.verbs.reading import Selected, select

EVERYTHING = 1_000_000_000


def retry(database: Database, which: JobFilter, now: int) -> list[JobChange]:
    chosen = _choose(database, which, RETRIABLE, "retried")
    archived = database.read(list[int], "archived", jobs=[row.id for row in chosen])
    if archived:
        database.run("revive_jobs", jobs=archived)
    by_policy: dict[str, list[int]] = {}
    for row in chosen:
        by_policy.setdefault(row.policy, []).append(row.id)
    for text, jobs in by_policy.items():
        policy = resolve_policy(text)
        resets = int(policy.retry_resets)
        database.run("retry_deliveries", jobs=jobs, now=now, resets=resets)
        expires_at = now + round(policy.lifetime * 1000)
        database.run("retry_jobs", jobs=jobs, now=now, resets=resets, expires_at=expires_at)
        database.run("nudge", jobs=jobs)
        database.run("note_story", jobs=jobs, what="retried", detail="by hand", now=now)
    numbers = [row.id for row in chosen]
    ended = judge_jobs(database, numbers, now)  # where nothing could be reopened
    return changes_of(database, {*numbers, *(change.job for change in ended)})


def cancel(database: Database, which: JobFilter, now: int) -> list[JobChange]:
    chosen = [row.id for row in _choose(database, which, CANCELLABLE, "cancelled")]
    return end_jobs(database, chosen, JobState.CANCELLED, "by hand", now)


def delete(database: Database, which: JobFilter) -> list[int]:
    chosen = [row.id for row in _choose(database, which, DELETABLE, "deleted", names=True)]
    if chosen:
        database.run("delete_jobs", jobs=chosen)
    return chosen


def expire(database: Database, now: int, limit: int) -> list[JobChange]:
    jobs = database.read(list[int], "expire_candidates", now=now, limit=limit)
    if not jobs:
        return []
    database.run("expire_deliveries", jobs=jobs, now=now)
    database.run("expire_unsent", jobs=jobs, now=now)
    database.run("note_story", jobs=jobs, what="expired", detail="lifetime over", now=now)
    judged = judge_jobs(database, jobs, now)
    unsent = changes_of(database, sorted(set(jobs) - {change.job for change in judged}))
    return judged + unsent + tell_dependents(database, unsent, now)


def archive(database: Database, before: int, limit: int) -> int:
    jobs = database.read(list[int], "archive_candidates", before=before, limit=limit)
    if jobs:
        database.run("archive_jobs", jobs=jobs)
    return len(jobs)


def prune(database: Database, before: int, limit: int) -> int:
    jobs = database.read(list[int], "prune_candidates", before=before, limit=limit)
    if jobs:
        database.run("prune_jobs", jobs=jobs)
    database.run("hook_prune", before=before, limit=limit)
    return len(jobs)


def _choose(
    database: Database,
    which: JobFilter,
    allowed: frozenset[JobState],
    deed: str,
    *,
    names: bool = False,
) -> Sequence[Selected]:
    """The jobs meant. Naming one that cannot be is an error; a filter just leaves it out.

    `names`: what they are known by goes with them.
    """
    rows = _select_locked(database, which, names)
    missing = set(which.jobs) - {row.id for row in rows}
    if missing:
        raise UnknownJob(f"there is no job {min(missing)}")
    for row in rows:
        if which.jobs and row.state not in allowed:
            raise IllegalMove(f"job {row.id} is {row.state} and cannot be {deed}")
    return [row for row in rows if row.state in allowed]


def _select_locked(database: Database, which: JobFilter, names: bool) -> list[Selected]:
    """The jobs that a filter means, such that they stay as they are until the commit."""
    rows = select(database, which, EVERYTHING)
    locked = {row.id for row in rows}
    if names:
        database.lock("names", jobs=sorted(locked))
    if not database.lock("jobs", jobs=sorted(locked)):
        return rows
    return [row for row in select(database, which, EVERYTHING) if row.id in locked]
