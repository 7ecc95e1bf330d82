"""Moves of jobs that several verbs share: ending them, judging them, waking dependents."""

from __future__ import annotations

from collections.abc import Iterable, MutableMapping, Sequence

import msgspec

from postrich.model.delivery import Target
from postrich.model.job import JobChange, JobState
from postrich.rules.lifecycle import Tally, judge
from postrich.store.verbs.database import Database

#: Targets, band and due time, and the jobs that share them.
RouteGroups = dict[tuple[tuple[Target, ...], int, int], list[int]]


class Standing(msgspec.Struct, frozen=True, array_like=True):
    """Where a job stands, archived or not."""

    job: int
    state: JobState
    signed: int
    event_id: str
    finished: int


def standings(database: Database, jobs: Iterable[int]) -> list[Standing]:
    """Where jobs stand, and nobody moves them meanwhile; those that do not exist are left out."""
    listed = list(jobs)
    database.lock("jobs", jobs=listed)
    return database.read(list[Standing], "states_of", jobs=listed)


def judge_jobs(database: Database, jobs: Iterable[int], now: int) -> list[JobChange]:
    """Let the rules judge jobs whose deliveries changed, and carry the judgements out."""
    listed = list(jobs)
    database.lock("live_jobs", jobs=listed)
    tallies = database.read(list[Tally], "tally", jobs=listed)
    changes: list[JobChange] = []
    moved: list[JobChange] = []
    for tally in tallies:
        verdict = judge(tally)
        change = JobChange(tally.job, verdict.state, verdict.finished)
        changes.append(change)
        if verdict.state is not tally.state:
            moved.append(change)
    if changes:
        rows = [(change.job, change.state, change.finished) for change in changes]
        database.run("judge_jobs", rows=rows, now=now)
        changes += tell_dependents(database, moved, now)
    return changes


def end_jobs(
    database: Database, jobs: Sequence[int], state: JobState, detail: str, now: int
) -> list[JobChange]:
    """Supersede or cancel jobs: nothing of them goes out any more."""
    if not jobs:
        return []
    database.lock("live_jobs", jobs=jobs)
    database.run("end_deliveries", jobs=jobs, state=state, detail=detail, now=now, relays=None)
    database.run("end_jobs", jobs=jobs, state=state, now=now)
    database.run("note_story", jobs=jobs, what=state, detail=detail, now=now)
    changes = changes_of(database, jobs)
    return changes + tell_dependents(database, changes, now)


def changes_of(database: Database, jobs: Iterable[int]) -> list[JobChange]:
    """Where jobs stand now, as changes to be told."""
    return [
        JobChange(found.job, found.state, bool(found.finished))
        for found in standings(database, jobs)
    ]


def tell_dependents(database: Database, changes: Sequence[JobChange], now: int) -> list[JobChange]:
    """Who waited for a published job may go; who waited for one that ended needs a person."""
    published = [c.job for c in changes if c.state is JobState.PUBLISHED]
    if published:
        database.lock("dependents", jobs=published)
        released = database.read(list[int], "released", jobs=published)
        if released:
            database.run("wake_staged", jobs=released, now=now)
    told: list[JobChange] = []
    ended = [c.job for c in changes if c.finished and c.state is not JobState.PUBLISHED]
    while ended:
        ended = database.read(list[int], "dependents_of", jobs=ended)
        told += park_dependents(database, ended, now)
    return told


def park_dependents(database: Database, jobs: Sequence[int], now: int) -> list[JobChange]:
    """These wait for a job that will not be published by itself: a person must decide."""
    if jobs:
        text = "a job that this one waits for was not published"
        database.run("park_jobs", jobs=jobs, code="DEPENDENCY", text=text, now=now)
    return [JobChange(job, JobState.PARKED, True) for job in jobs]


#: Numbers of URLs, known apart for those that only strangers named.
KnownUrls = MutableMapping[tuple[str, bool], int]


def intern(database: Database, targets: Iterable[Target], known: KnownUrls) -> None:
    """Make sure that every target has its number in `known`."""
    missing = sorted({(t.url, t.stranger) for t in targets if (t.url, t.stranger) not in known})
    if missing:
        rows = [(url, int(not stranger)) for url, stranger in missing]
        database.run("destinations_add", rows=rows)
        urls = [url for url, _ in missing]
        numbers = dict(database.read(list[tuple[str, int]], "destinations_of", urls=urls))
        known.update((key, numbers[key[0]]) for key in missing)


def make_deliveries(database: Database, groups: RouteGroups, known: KnownUrls) -> set[int]:
    """Write the deliveries of routed jobs; returns the destinations concerned."""
    rows = []
    readers: list[tuple[int, str, int]] = []
    touched: set[int] = set()
    for (targets, band, next_at), jobs in groups.items():
        route = []
        for target in targets:
            number = known[target.url, target.stranger]
            route.append((number, target.reason, int(target.mine)))
            touched.add(number)
            readers += [(job, pubkey, number) for pubkey in target.inbox_of for job in jobs]
        rows.append((jobs, route, band, next_at))
    if rows:
        database.run("route_deliveries", groups=rows)
    if readers:
        database.run("route_inboxes", rows=readers)
    return touched
