"""Signing: drafts become events under their account's lease, and a signer that comes wakes them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from postrich.model.delivery import Fence
from postrich.model.event import Draft, Event
from postrich.model.job import JobChange, JobError, JobState, Unsigned
from postrich.rules.backoff import resolve_policy
from postrich.rules.redact import redact
from postrich.store.verbs.accepting import adopt_signature
from postrich.store.verbs.database import Database
from postrich.store.verbs.moving import changes_of, standings, tell_dependents
from postrich.store.verbs.settling import check_lease

_Row = tuple[int, str, int, int, str]


def drafts_due(
    database: Database, pubkey: str, now: int, limit: int, holding: Sequence[int]
) -> list[Unsigned]:
    values = {"pubkey": pubkey, "now": now, "limit": limit, "holding": holding}
    return [
        Unsigned(
            job,
            resolve_policy(policy),
            sign_attempts,
            expires_at,
            msgspec.json.decode(body, type=Draft),
        )
        for job, policy, sign_attempts, expires_at, body in database.read(
            list[_Row], "drafts_due", **values
        )
    ]


def signer_came(database: Database, pubkey: str, now: int) -> tuple[list[JobChange], set[int]]:
    database.run("wake_unsigned", pubkey=pubkey, now=now)
    held = database.read(list[tuple[int, int]], "held_for_signer", pubkey=pubkey)
    if not held:
        return [], set()
    jobs = sorted({job for job, _ in held})
    database.run("resume_deliveries", jobs=jobs, now=now)
    database.run("reopen_jobs", jobs=jobs, expires_at=0)
    database.run("note_story", jobs=jobs, what="resumed", detail="a signer came", now=now)
    return changes_of(database, jobs), {destination for _, destination in held}


def signed(
    database: Database, fence: Fence, job: int, event: Event, now: int, by: str
) -> list[JobChange]:
    check_lease(database, fence)
    found = standings(database, [job])
    if not found or found[0].state is not JobState.PENDING_SIGN or found[0].event_id != event.id:
        return []  # cancelled or superseded meanwhile
    database.run("note_story", jobs=[job], what="signed", detail=by, now=now)
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
    check_lease(database, fence)
    state = JobState.PENDING_SIGN
    if next_at is None:
        state = JobState.PARKED if park else JobState.FAILED
    values: dict[str, Any] = {"job": job, "state": state, "next_at": next_at, "now": now}
    database.run("stage_unsigned", code=error.code, text=redact(error.message), **values)
    if not database.changes():
        return []
    detail = f"{error.code}: {redact(error.message)}"
    database.run("note_story", jobs=[job], what="not-signed", detail=detail, now=now)
    change = JobChange(job, state, next_at is None)
    return [change, *tell_dependents(database, [change], now)]
