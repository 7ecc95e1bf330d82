"""Accept: every job and its deliveries in one transaction, known events recognised (A1, A9).

Also the place where a new event ends older ones that still wait (A11).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from postrich.errors import PostrichError, UnknownJob
from postrich.model.delivery import Target
from postrich.model.event import Event, address_of
from postrich.model.job import Accepted, JobChange, JobState, NewJob
from postrich.rules.backoff import policy_text
from postrich.rules.precedence import Cancellation, cancellation_of, is_newer
from postrich.store.port import Admission
from postrich.store.verbs.database import Database, to_json
from postrich.store.verbs.moving import (
    KnownUrls,
    RouteGroups,
    Standing,
    end_jobs,
    intern,
    judge_jobs,
    make_deliveries,
    park_dependents,
    standings,
)

#: A person or a newer version ended these: handing the event in again changes nothing.
_OVER = (JobState.CANCELLED, JobState.SUPERSEDED)


class Item(msgspec.Struct, frozen=True):
    """One accept call: all of its jobs or none."""

    jobs: Sequence[NewJob]
    now: int


def accept(
    database: Database, items: Sequence[Item], known_urls: KnownUrls
) -> list[Admission | PostrichError]:
    """Carry out many accept calls at once; each gets its own answer."""
    refusals = _missing_needs(database, items)
    good = [item for index, item in enumerate(items) if index not in refusals]
    batch = _Batch(database, [job for item in good for job in item.jobs], known_urls)
    now = max((item.now for item in good), default=0)
    accepted = batch.keep(now)
    changes = batch.changes
    answers: list[Admission | PostrichError] = []
    start = 0
    for index, item in enumerate(items):
        if index in refusals:
            answers.append(refusals[index])
            continue
        mine = accepted[start : start + len(item.jobs)]
        start += len(item.jobs)
        answers.append(Admission(mine, changes, batch.destinations))
        changes = []  # told once
    return answers


def _missing_needs(database: Database, items: Sequence[Item]) -> dict[int, PostrichError]:
    refusals: dict[int, PostrichError] = {}
    all_needed = {need for item in items for job in item.jobs for need in job.after}
    if all_needed:
        database.lock("jobs", jobs=all_needed)
    for index, item in enumerate(items):
        needed = {need for job in item.jobs for need in job.after}
        if not needed:
            continue
        missing = needed - {found.job for found in standings(database, needed)}
        if missing:
            refusals[index] = UnknownJob(f"there is no job {min(missing)} to wait for")
    return refusals


class _Batch:
    """The jobs of one transaction, on their way into the tables."""

    def __init__(self, database: Database, jobs: Sequence[NewJob], known_urls: KnownUrls) -> None:
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
        routes = {id(job.targets): job.targets for job in self.jobs}.values()
        intern(database, (target for route in routes for target in route), self.known_urls)
        ids = [job.content.id for job in self.jobs]
        base = database.scalar("accept_numbers", count=len(ids))
        duplicates = self._known(ids, base)
        fresh = {
            base + index: job for index, job in enumerate(self.jobs) if index not in duplicates
        }
        if duplicates:  # all at once: the order in which they were handed in is nobody's
            database.lock("jobs", jobs=duplicates.values())
        states = self._insert(fresh, ids, base, now)
        accepted = [
            Accepted(base + index, ids[index], states[base + index], is_new=True)
            if index not in duplicates
            else self._again(duplicates[index], job, now)
            for index, job in enumerate(self.jobs)
        ]
        self._end_others(fresh, now)
        if not self.changes:
            return accepted
        moved = {change.job: change.state for change in self.changes}
        return [
            msgspec.structs.replace(answer, state=moved.get(answer.job, answer.state))
            for answer in accepted
        ]

    def _known(self, ids: list[str], base: int) -> dict[int, int]:
        """Index → job of those that are known already, by key or by event id."""
        database = self.database
        keyed: dict[str, int] = {}
        twins: dict[int, int] = {}  # the same key twice in one transaction: the first counts
        for index, job in enumerate(self.jobs):
            if job.key is not None and keyed.setdefault(job.key, index) != index:
                twins[index] = keyed[job.key]
        known: dict[int, int] = {}
        if keyed:
            claims = [(key, base + index) for key, index in sorted(keyed.items())]
            database.run("accept_keys", rows=claims)
            used = database.read(list[tuple[int, int]], "accept_known_keys", rows=claims)
            known = {mine - base: job for mine, job in used}
        wanted: list[str | None] = list(ids)
        for index in (*known, *twins):
            wanted[index] = None
        database.run("accept_identities", ids=wanted, base=base)
        if database.changes() < len(ids):
            known.update(
                database.read(list[tuple[int, int]], "accept_known", ids=wanted, base=base)
            )
        if keyed:
            moved = [(base + index, known[index]) for index in keyed.values() if index in known]
            if moved:  # the event had a job before its key came
                database.run("accept_keys_moved", rows=moved)
            known.update((index, known.get(first, base + first)) for index, first in twins.items())
        return known

    def _insert(
        self, fresh: dict[int, NewJob], ids: list[str], base: int, now: int
    ) -> dict[int, JobState]:
        unmet, hopeless = self._depend(fresh)
        addresses = self._lock_addresses(fresh.values())
        kin: dict[tuple[object, ...], _Kin] = {}
        states: dict[int, JobState] = {}
        bodies = [b""] * len(ids)
        for (number, job), address in zip(fresh.items(), addresses, strict=True):
            event = job.content
            body = _body(job)
            bodies[number - base] = body
            state, goes_now = self._fate(number, job, address, number in unmet, now)
            states[number] = state
            waits = number in unmet
            goals = (job.goal, job.goal_mine, job.goal_inbox)
            terms = (id(job.policy), id(job.targets), job.priority, *goals, job.auto)
            key = (*terms, state, goes_now, waits)
            group = kin.get(key)
            if group is None:
                group = kin[key] = _Kin(job, state, goes_now, waits)
            who = (number, event.id, event.pubkey, event.kind, event.created_at)
            group.rows.append((*who, address, len(body), job.expires_at, job.due_at))
        for group in kin.values():
            self.database.run("accept_jobs", rows=group.rows, now=now, **group.constants)
        self.database.run("accept_payloads", bodies=bodies, base=base)
        self._route(kin.values(), now)
        needy = [job for job in hopeless if states[job] is not JobState.SUPERSEDED]
        states.update((c.job, c.state) for c in park_dependents(self.database, needy, now))
        return states

    def _lock_addresses(self, jobs: Iterable[NewJob]) -> list[str | None]:
        """The addresses of replaceable events; nobody else has a say about these meanwhile."""
        contents = (job.content for job in jobs)
        found = [address_of(event.kind, event.pubkey, event.tags) for event in contents]
        named = {address for address in found if address is not None}
        if named:
            self.database.lock("addresses", addresses=sorted(named))
        return found

    def _depend(self, fresh: dict[int, NewJob]) -> tuple[set[int], list[int]]:
        """Which of them wait for others, and which of these for one that ended unpublished."""
        rows = [(number, need) for number, job in fresh.items() for need in job.after]
        if not rows:
            return set(), []
        self.database.run("accept_dependencies", rows=rows)
        numbers = [number for number, _ in rows]
        unmet = self.database.read(set[int], "unmet", jobs=numbers)
        return unmet, self.database.read(list[int], "hopeless", jobs=numbers)

    def _fate(
        self, number: int, job: NewJob, address: str | None, waits: bool, now: int
    ) -> tuple[JobState, bool]:
        """Where the job begins, and whether its deliveries are made at once."""
        if address is not None and not self._is_newest(number, address, job):
            return JobState.SUPERSEDED, False
        if not job.is_signed:
            return JobState.PENDING_SIGN, False
        if job.due_at is not None and job.due_at > now:
            return JobState.SCHEDULED, False
        return JobState.PENDING_PUBLISH, not waits and bool(job.targets)

    def _route(self, kin: Iterable[_Kin], now: int) -> None:
        groups: RouteGroups = {}
        for group in kin:
            if group.goes_now:
                numbers = groups.setdefault((group.targets, group.band, now), [])
                numbers.extend(row[0] for row in group.rows)
        self.destinations |= make_deliveries(self.database, groups, self.known_urls)

    def _is_newest(self, number: int, address: str, job: NewJob) -> bool:
        event = job.content
        found = self.database.scalar("address_of", address=address)
        if found is not None and found[1] != event.id:  # deleted, and handed in anew: the same
            newest_at, newest_id = found
            if not is_newer(event.created_at, event.id, newest_at, newest_id):
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
            event_ids=request.event_ids,
            addresses=request.addresses,
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
            jobs=originals,
            state="cancelled",
            detail=detail,
            now=now,
            relays=request.relays,
        )
        self.changes += judge_jobs(self.database, originals, now)

    def _again(self, number: int, job: NewJob, now: int) -> Accepted:
        """A known event: its job learns of new relays, and of a signature it lacked."""
        found = standings(self.database, [number])
        if not found:  # pruned long ago: known, and done
            ended = self.database.scalar("ended_as", event_id=job.content.id)
            state = JobState(ended or JobState.PUBLISHED)
            return Accepted(number, job.content.id, state, is_new=False)
        standing = found[0]
        state = standing.state
        if standing.event_id == job.content.id and state not in _OVER:
            state = self._learn(standing, job, now)
        return Accepted(number, standing.event_id, state, is_new=False)

    def _learn(self, standing: Standing, job: NewJob, now: int) -> JobState:
        database = self.database
        number = standing.job
        if database.scalar("has_deliveries", job=number):
            return self._extend(number, job, now)
        self._widen(number, job.targets)
        if isinstance(job.content, Event) and not standing.signed:
            return adopt_signature(database, standing, job.content, now, job.expires_at)
        return standing.state

    def _widen(self, number: int, targets: tuple[Target, ...]) -> None:
        """New relays for a job that was not sent on its way yet."""
        text = self.database.scalar("unrouted_targets", job=number)
        if text is None:
            return
        planned = msgspec.json.decode(text, type=list[Target])
        urls = {target.url for target in planned}
        more = [target for target in targets if target.url not in urls]
        if more:
            self.database.run("widen_targets", job=number, targets=to_json(planned + more))

    def _extend(self, number: int, job: NewJob, now: int) -> JobState:
        """New relays for a job that has deliveries."""
        database = self.database
        listed = [number]
        urls = [target.url for target in job.targets]
        if database.scalar("lacks_targets", job=number, urls=urls):
            if database.read(list[int], "archived", jobs=listed):
                database.run("revive_jobs", jobs=listed)
            due = max(now, job.due_at or 0)
            group: RouteGroups = {(job.targets, int(job.priority) * 2, due): [number]}
            self.destinations |= make_deliveries(database, group, self.known_urls)
            database.run("reopen_jobs", jobs=listed, expires_at=job.expires_at)
        return standings(database, [number])[0].state


class _Kin:
    """Jobs of one batch that differ only in their events: one statement keeps them all."""

    __slots__ = ("band", "constants", "goes_now", "rows", "targets")

    def __init__(self, job: NewJob, state: JobState, goes_now: bool, waits: bool) -> None:
        self.goes_now = goes_now
        self.targets = job.targets
        self.band = int(job.priority) * 2
        self.rows: list[tuple[Any, ...]] = []
        self.constants: dict[str, Any] = {
            "signed": int(job.is_signed),
            "state": state,
            "priority": int(job.priority),
            "goal": job.goal,
            "goal_mine": job.goal_mine,
            "goal_inbox": job.goal_inbox,
            "route": "auto" if job.auto else "fixed",
            "to_route": int(state is JobState.PENDING_PUBLISH and not (goes_now or waits)),
            "policy": policy_text(job.policy),
            "targets": None if goes_now else to_json(job.targets),
        }


def adopt_signature(
    database: Database, standing: Standing, event: Event, now: int, expires_at: int = 0
) -> JobState:
    """A draft's job gets its signed bytes, and goes back to the stager to be routed."""
    job = standing.job
    database.run("payload_signed", job=job, body=event.raw)
    due = database.scalar("due_of", job=job) or 0
    is_early = due > now and standing.state is JobState.PENDING_SIGN
    state = JobState.SCHEDULED if is_early else JobState.PENDING_PUBLISH
    values = {"stage_at": max(now, due), "size": len(event.raw), "expires_at": expires_at}
    database.run("stage_signed", job=job, state=state, **values)
    return state


def _body(job: NewJob) -> bytes:
    content = job.content
    return content.raw if isinstance(content, Event) else to_json(content).encode()
