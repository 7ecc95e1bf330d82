"""What people and the lifeline do: retry, cancel, delete; expire, archive, prune."""

from __future__ import annotations

from collections.abc import Sequence

from postrich.errors import IllegalMove, UnknownJob
from postrich.model.job import JobChange, JobFilter, JobState
from postrich.rules.backoff import resolve_policy
from postrich.rules.lifecycle import CANCELLABLE, DELETABLE, RETRIABLE
from postrich.store.sqlite.connection import Database, to_json
from postrich.store.sqlite.moving import changes_of, end_jobs, judge_jobs, tell_dependents
from postrich.store.sqlite.reading import Selected, select

EVERYTHING = 1_000_000_000


def retry(database: Database, which: JobFilter, now: int) -> list[JobChange]:
    chosen = _choose(database, which, RETRIABLE, "retried")
    archived = [row.id for row in chosen if database.scalar("is_archived", job=row.id)]
    if archived:
        database.run("revive_jobs", jobs=to_json(archived))
    by_policy: dict[str, list[int]] = {}
    for row in chosen:
        by_policy.setdefault(row.policy, []).append(row.id)
    for text, jobs in by_policy.items():
        policy = resolve_policy(text)
        resets = int(policy.retry_resets)
        listed = to_json(jobs)
        database.run("retry_deliveries", jobs=listed, now=now, resets=resets)
        expires_at = now + round(policy.lifetime * 1000)
        database.run("retry_jobs", jobs=listed, now=now, resets=resets, expires_at=expires_at)
        database.run("nudge", jobs=listed)
        database.run("note_story", jobs=listed, what="retried", detail="by hand", now=now)
    numbers = [row.id for row in chosen]
    ended = judge_jobs(database, numbers, now)  # where nothing could be reopened
    return changes_of(database, {*numbers, *(change.job for change in ended)})


def cancel(database: Database, which: JobFilter, now: int) -> list[JobChange]:
    chosen = [row.id for row in _choose(database, which, CANCELLABLE, "cancelled")]
    return end_jobs(database, chosen, JobState.CANCELLED, "by hand", now)


def delete(database: Database, which: JobFilter) -> list[int]:
    chosen = [row.id for row in _choose(database, which, DELETABLE, "deleted")]
    if chosen:
        database.run("delete_jobs", jobs=to_json(chosen))
    return chosen


def expire(database: Database, now: int, limit: int) -> list[JobChange]:
    jobs = database.read(list[int], "expire_candidates", now=now, limit=limit)
    if not jobs:
        return []
    listed = to_json(jobs)
    database.run("expire_deliveries", jobs=listed, now=now)
    database.run("expire_unsent", jobs=listed, now=now)
    database.run("note_story", jobs=listed, what="expired", detail="lifetime over", now=now)
    judged = judge_jobs(database, jobs, now)
    unsent = changes_of(database, sorted(set(jobs) - {change.job for change in judged}))
    return judged + unsent + tell_dependents(database, unsent, now)


def archive(database: Database, before: int, limit: int) -> int:
    jobs = database.read(list[int], "archive_candidates", before=before, limit=limit)
    if jobs:
        database.run("archive_jobs", jobs=to_json(jobs))
    return len(jobs)


def prune(database: Database, before: int, limit: int) -> int:
    jobs = database.read(list[int], "prune_candidates", before=before, limit=limit)
    if jobs:
        database.run("prune_jobs", jobs=to_json(jobs))
    return len(jobs)


def _choose(
    database: Database, which: JobFilter, allowed: frozenset[JobState], deed: str
) -> Sequence[Selected]:
    """The jobs meant. Naming one that cannot be is an error; a filter just leaves it out."""
    rows = select(database, which, EVERYTHING)
    missing = set(which.jobs) - {row.id for row in rows}
    if missing:
        raise UnknownJob(f"there is no job {min(missing)}")
    for row in rows:
        if which.jobs and row.state not in allowed:
            raise IllegalMove(f"job {row.id} is {row.state} and cannot be {deed}")
    return [row for row in rows if row.state in allowed]
