"""Accept: every job and its deliveries in one transaction, known events recognised (A1, A9).

Also the place where a new event ends older ones that still wait (A11).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from postrich.errors import PostrichError, UnknownJob
from postrich.model.delivery import Target
from postrich.model.event import Event, address_of
from postrich.model.job import Accepted, JobChange, JobState, NewJob
from postrich.rules.backoff import policy_text
from postrich.rules.precedence import Cancellation, cancellation_of, is_newer
from postrich.store.port import Admission
from postrich.store.sqlite.connection import Database, to_json
from postrich.store.sqlite.moving import RouteGroups, end_jobs, intern, judge_jobs, make_deliveries

_NEEDED_NOTHING: frozenset[int] = frozenset()


class Item(msgspec.Struct, frozen=True):
    """One accept call: all of its jobs or none."""

    jobs: Sequence[NewJob]
    now: int


def accept(
    database: Database, items: Sequence[Item], known_urls: dict[str, int]
) -> list[Admission | PostrichError]:
    """Carry out many accept calls at once; each gets its own answer."""
    refusals = _missing_needs(database, items)
    good = [item for index, item in enumerate(items) if index not in refusals]
    batch = _Batch(database, [job for item in good for job in item.jobs], known_urls)
    now = max((item.now for item in good), default=0)
    accepted = batch.keep(now)
    answers: list[Admission | PostrichError] = []
    start = 0
    for index, item in enumerate(items):
        if index in refusals:
            answers.append(refusals[index])
            continue
        mine = accepted[start : start + len(item.jobs)]
        start += len(item.jobs)
        changes = batch.changes if start == len(accepted) else []
        answers.append(Admission(mine, changes, batch.destinations))
    return answers


def _missing_needs(database: Database, items: Sequence[Item]) -> dict[int, PostrichError]:
    refusals: dict[int, PostrichError] = {}
    for index, item in enumerate(items):
        needed = {need for job in item.jobs for need in job.after}
        if not needed:
            continue
        found = database.read(list[Any], "states_of", jobs=to_json(sorted(needed)))
        missing = needed - {row[0] for row in found}
        if missing:
            refusals[index] = UnknownJob(f"there is no job {min(missing)} to wait for")
    return refusals


class _Batch:
    """The jobs of one transaction, on their way into the tables."""

    def __init__(
        self, database: Database, jobs: Sequence[NewJob], known_urls: dict[str, int]
    ) -> None:
        self.database = database
        self.jobs = jobs
        self.known_urls = known_urls
        self.changes: list[JobChange] = []
        self.destinations: set[int] = set()
        self._winners: dict[str, int] = {}

    def keep(self, now: int) -> list[Accepted]:
        if not self.jobs:
            return []
        database = self.database
        intern(database, (t.url for job in self.jobs for t in job.targets), self.known_urls)
        ids = [job.content.id for job in self.jobs]
        base = database.scalar("accept_numbers", count=len(ids))
        duplicates = self._known(ids, base)
        fresh = {
            base + index: job for index, job in enumerate(self.jobs) if index not in duplicates
        }
        states = self._insert(fresh, ids, base, now)
        accepted = [
            Accepted(base + index, ids[index], states[base + index], is_new=True)
            if index not in duplicates
            else self._again(duplicates[index], job, now)
            for index, job in enumerate(self.jobs)
        ]
        self._end_others(fresh, now)
        return accepted

    def _known(self, ids: list[str], base: int) -> dict[int, int]:
        """Index → job of those that are known already, by key or by event id."""
        database = self.database
        known: dict[int, int] = {}
        keyed = {job.key: index for index, job in enumerate(self.jobs) if job.key is not None}
        if keyed:
            used = database.read(
                list[tuple[str, int]], "accept_known_keys", keys=to_json(list(keyed))
            )
            known = {keyed[key]: job for key, job in used}
        wanted = [None if index in known else event_id for index, event_id in enumerate(ids)]
        database.run("accept_identities", ids=to_json(wanted), base=base)
        if database.changes() < len(ids):
            rows = database.read(
                list[tuple[int, int]], "accept_known", ids=to_json(wanted), base=base
            )
            known.update(rows)
        new_keys = [(key, known.get(index, base + index)) for key, index in keyed.items()]
        if new_keys:
            database.run("accept_keys", rows=to_json(new_keys))
        return known

    def _insert(
        self, fresh: dict[int, NewJob], ids: list[str], base: int, now: int
    ) -> dict[int, JobState]:
        unmet = self._depend(fresh)
        rows: list[tuple[Any, ...]] = []
        groups: RouteGroups = {}
        states: dict[int, JobState] = {}
        bodies: list[str | None] = [None] * len(ids)
        for number, job in fresh.items():
            body = _body(job)
            bodies[number - base] = body
            row, goes_now = self._row(number, job, number in unmet, len(body), now)
            rows.append(row)
            states[number] = row[7]
            if goes_now:
                due = max(now, job.due_at or 0)
                groups.setdefault((job.targets, int(job.priority) * 2, due), []).append(number)
        self.database.run("accept_jobs", rows=to_json(rows), now=now)
        self.database.run("accept_payloads", bodies=to_json(bodies), base=base)
        self.destinations |= make_deliveries(self.database, groups, self.known_urls)
        return states

    def _depend(self, fresh: dict[int, NewJob]) -> frozenset[int]:
        rows = [(number, need) for number, job in fresh.items() for need in job.after]
        if not rows:
            return _NEEDED_NOTHING
        self.database.run("accept_dependencies", rows=to_json(rows))
        numbers = to_json([number for number, _ in rows])
        return frozenset(self.database.read(list[int], "unmet", jobs=numbers))

    def _row(
        self, number: int, job: NewJob, waits: bool, size: int, now: int
    ) -> tuple[tuple[Any, ...], bool]:
        """The job's row, and whether its deliveries are made at once."""
        event = job.content
        address = address_of(event.kind, event.pubkey, event.tags)
        is_late = job.due_at is not None and job.due_at > now
        goes_now = False
        stage_at: int | None = None
        if address is not None and not self._is_newest(number, address, job):
            state = JobState.SUPERSEDED
        elif not job.is_signed:
            state, stage_at = JobState.PENDING_SIGN, now
        elif is_late:
            state, stage_at = JobState.SCHEDULED, job.due_at
        else:
            state, goes_now = JobState.PENDING_PUBLISH, not waits
        targets = None if goes_now else to_json(job.targets)
        row = (
            number,
            event.id,
            event.pubkey,
            event.kind,
            event.created_at,
            address,
            int(job.is_signed),
            state,
            int(job.priority),
            job.goal,
            policy_text(job.policy),
            targets,
            job.due_at,
            job.expires_at,
            stage_at,
            size,
        )
        return row, goes_now

    def _is_newest(self, number: int, address: str, job: NewJob) -> bool:
        event = job.content
        found = self.database.scalar("address_of", address=address)
        if found is not None and not is_newer(event.created_at, event.id, found[0], found[1]):
            return False
        self.database.run(
            "address_note", address=address, created_at=event.created_at, event_id=event.id
        )
        self._winners[address] = number
        return True

    def _end_others(self, fresh: dict[int, NewJob], now: int) -> None:
        database = self.database
        for address, winner in self._winners.items():
            older = database.read(list[int], "older_versions", address=address, winner=winner)
            detail = f"job {winner} is a newer version"
            self.changes += end_jobs(database, older, JobState.SUPERSEDED, detail, now)
        for number, job in fresh.items():
            if job.content.kind in (5, 62):
                request = cancellation_of(job.content)
                if request is not None:
                    self._take_back(number, request, now)

    def _take_back(self, number: int, request: Cancellation, now: int) -> None:
        originals = self.database.read(
            list[int],
            "deleted_originals",
            pubkey=request.pubkey,
            by=number,
            event_ids=to_json(request.event_ids),
            addresses=to_json(request.addresses),
            created_at=request.created_at,
            everything_until=request.everything_until,
        )
        if not originals:
            return
        detail = f"taken back by job {number}"
        if not request.relays:
            self.changes += end_jobs(self.database, originals, JobState.CANCELLED, detail, now)
            return
        self.database.run(
            "end_deliveries",
            jobs=to_json(originals),
            state="cancelled",
            detail=detail,
            now=now,
            relays=to_json(request.relays),
        )
        self.changes += judge_jobs(self.database, originals, now)

    def _again(self, number: int, job: NewJob, now: int) -> Accepted:
        """A known event: its job learns of new relays, and of a signature it lacked."""
        database = self.database
        rows = database.read(
            list[tuple[int, JobState, int, str]], "states_of", jobs=to_json([number])
        )
        if not rows:  # pruned long ago: known, and done
            return Accepted(number, job.content.id, JobState.PUBLISHED, is_new=False)
        _, state, is_signed, event_id = rows[0]
        if state is JobState.PENDING_SIGN and isinstance(job.content, Event) and not is_signed:
            state = adopt_signature(database, number, job.content, now)
        elif state in (JobState.PENDING_PUBLISH, JobState.PUBLISHED, JobState.FAILED):
            state = self._extend(number, job.targets, job, now)
        return Accepted(number, event_id, state, is_new=False)

    def _extend(self, number: int, targets: tuple[Target, ...], job: NewJob, now: int) -> JobState:
        database = self.database
        listed = to_json([number])
        has_deliveries = database.scalar("has_deliveries", job=number)
        if has_deliveries and database.scalar(
            "lacks_targets", job=number, targets=to_json(targets)
        ):
            if database.scalar("is_archived", job=number):
                database.run("revive_jobs", jobs=listed)
            group: RouteGroups = {(targets, int(job.priority) * 2, now): [number]}
            self.destinations |= make_deliveries(database, group, self.known_urls)
            database.run("reopen_jobs", jobs=listed)
        found = database.read(list[tuple[int, JobState, int, str]], "states_of", jobs=listed)
        return found[0][1]


def adopt_signature(database: Database, job: int, event: Event, now: int) -> JobState:
    """A draft's job gets its signed bytes, and goes back to the stager to be routed."""
    database.run("payload_signed", job=job, body=event.raw.decode())
    due = database.scalar("due_of", job=job)
    state = JobState.SCHEDULED if due is not None and due > now else JobState.PENDING_PUBLISH
    database.run(
        "stage_signed", job=job, state=state, stage_at=max(now, due or 0), size=len(event.raw)
    )
    return state


def _body(job: NewJob) -> str:
    content = job.content
    if isinstance(content, Event):
        return content.raw.decode()
    return to_json(content)
