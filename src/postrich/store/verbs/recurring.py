"""Series and their occurrences: each occurrence is one row and one job, in one transaction (F5).

Whoever makes an occurrence says which revision of the series was seen; if that is not what is
kept any more, nothing is written. So neither a second worker, nor one that was killed and tries
again, nor an edit meanwhile can make two jobs of one occurrence, or one of an old text.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from postrich.errors import (
    ChangedMeanwhile,
    Conflict,
    IllegalMove,
    QuotaExceeded,
    UnknownSeries,
)
from postrich.model.delivery import Fence
from postrich.model.job import JobChange, JobState, NewJob
from postrich.model.series import (
    Missed,
    Occurrence,
    OccurrenceState,
    Occurring,
    Series,
    SeriesState,
    Template,
    Terms,
    post_name,
)
from postrich.rules.lifecycle import CANCELLABLE
from postrich.store.port import Admission
from postrich.store.verbs import accepting, scheduling
from postrich.store.verbs.database import Database, to_json
from postrich.store.verbs.moving import KnownUrls, end_jobs, standings
from postrich.store.verbs.settling import check_lease

FOR_EVER = 2**62
_MANY = 1_000_000


class _Row(msgspec.Struct, frozen=True, array_like=True):
    pubkey: str
    id: str
    recurrence: str
    zone: str
    template: str | None
    terms: str
    starts_at: int
    kept_at: int
    until: int | None
    count: int | None
    missed: Missed
    state: SeriesState
    made: int
    passed: int
    next_at: int | None
    last_at: int | None
    revision: int

    def series(self) -> Series:
        fields = msgspec.structs.asdict(self)
        fields["template"] = _template(self.template)
        fields["terms"] = msgspec.json.decode(self.terms, type=Terms)
        return Series(**fields)


class _OccurrenceRow(msgspec.Struct, frozen=True, array_like=True):
    series: str
    at: int
    state: OccurrenceState
    job: int | None
    template: str | None
    detail: str

    def occurrence(self) -> Occurrence:
        template = _template(self.template)
        return Occurrence(self.series, self.at, self.state, self.job, template, self.detail)


def _template(text: str | None) -> Template | None:
    return None if text is None else msgspec.json.decode(text, type=Template)


def _text(template: Template | None) -> str | None:
    return None if template is None else to_json(template)


# -- looking -------------------------------------------------------------------------------------


def named(database: Database, name: str) -> Series:
    found = database.read(list[_Row], "series_named", id=name)
    if not found:
        raise UnknownSeries(f"there is no series {name}")
    return found[0].series()


def page(database: Database, pubkey: str | None, limit: int, after: str) -> list[Series]:
    values: dict[str, Any] = {"limit": limit, "after": after}
    if pubkey is None:
        rows = database.read(list[_Row], "series_page", **values)
    else:
        rows = database.read(list[_Row], "series_of_author", pubkey=pubkey, **values)
    return [row.series() for row in rows]


def due(database: Database, until: int, limit: int) -> list[Series]:
    rows = database.read(list[_Row], "series_due", until=until, limit=limit)
    return [row.series() for row in rows]


def occurrences(
    database: Database, name: str, since: int, until: int, limit: int
) -> list[Occurrence]:
    values = {"series": name, "since": since, "until": until, "limit": limit}
    rows = database.read(list[_OccurrenceRow], "occurrences_of", **values)
    return [row.occurrence() for row in rows]


# -- keeping and making --------------------------------------------------------------------------


def keep(
    database: Database,
    series: Series,
    signed: Sequence[tuple[int, NewJob]],
    now: int,
    known_urls: KnownUrls,
    most: int | None = None,
) -> Admission:
    """A new series; events that were signed beforehand become its jobs at once."""
    if database.read(list[_Row], "series_named", id=series.id):
        raise IllegalMove(f"there is a series {series.id} already")
    if signed:
        _check_signed(database, series.pubkey, [job for _, job in signed], most)
    values = msgspec.structs.asdict(series)
    values |= {"template": _text(series.template), "terms": to_json(series.terms)}
    database.run("series_keep", **values)
    if not database.changes():
        raise IllegalMove(f"there is a series {series.id} already")
    admission = _accept(database, [job for _, job in signed], now, known_urls)
    for accepted in admission.accepted:
        if not accepted.is_new:  # handed in while we looked: nothing of this is kept
            raise _known(accepted.event_id, accepted.job)
    rows = [
        Occurrence(series.id, at, OccurrenceState.MADE, accepted.job)
        for (at, _), accepted in zip(signed, admission.accepted, strict=True)
    ]
    _put(database, rows)
    _name(database, series, rows)
    return admission


def _check_signed(
    database: Database, pubkey: str, jobs: Sequence[NewJob], most: int | None
) -> None:
    """Refuse events that have jobs, which may be over, and more than may wait (F4)."""
    database.lock("authors", pubkeys=[pubkey])
    ids = [job.content.id for job in jobs]
    known = database.read(list[tuple[str, int, str, int | None]], "known_events", ids=ids)
    if known:
        raise _known(*known[0][:2])
    if most is not None and scheduling.ahead(database, pubkey) + len(jobs) > most:
        raise QuotaExceeded(f"{most} posts of this pubkey may wait for their hour", 3600)


def _known(event_id: str, job: int) -> Conflict:
    return Conflict(f"event {event_id[:8]}… was handed in before, as job {job}: sign a new one")


def occur(
    database: Database, fence: Fence, occurring: Occurring, now: int, known_urls: KnownUrls
) -> Admission | None:
    """Carry a step out; None where the series is not what was seen, so that nothing was done."""
    series = _locked(database, occurring.series)
    check_lease(database, fence)
    if series.revision != occurring.revision or series.state is not SeriesState.ACTIVE:
        return None
    step, job = occurring.step, occurring.job
    [before] = occurrences(database, series.id, step.at, step.at, 1) or [
        Occurrence(series.id, step.at)
    ]
    is_made = job is not None and before.state is OccurrenceState.PLANNED
    admission = _accept(database, [job] if is_made and job is not None else [], now, known_urls)
    if before.state is OccurrenceState.PLANNED:
        state = OccurrenceState.MADE if is_made else OccurrenceState.SKIPPED
        number = admission.accepted[0].job if is_made else None
        now_is = msgspec.structs.replace(before, state=state, job=number, detail=occurring.detail)
        _put(database, [now_is])
        _name(database, series, [now_is])
    _move(
        database,
        series,
        state=SeriesState.ENDED if step.following is None else series.state,
        made=series.made + is_made,
        passed=series.passed + step.passed,
        next_at=step.following,
        last_at=step.at if is_made else series.last_at,
    )
    return admission


# -- what people do ------------------------------------------------------------------------------


def skip(database: Database, seen: Series, at: int, now: int) -> list[JobChange]:
    """This one shall not happen; its job, if it has one that is not on its way, is cancelled."""
    series = _unchanged(database, seen)
    [before] = _held(database, series.id, at, at, 1) or [Occurrence(series.id, at)]
    if before.state is OccurrenceState.SKIPPED:
        return []
    changes = _take_back(database, [before], "its occurrence was skipped", now)
    skipped = msgspec.structs.replace(before, state=OccurrenceState.SKIPPED, detail="by hand")
    _put(database, [skipped])
    _move(database, series)
    return changes


def edit(database: Database, seen: Series, at: int, template: Template) -> None:
    """This one says something else; only before it is made."""
    series = _unchanged(database, seen)
    [before] = occurrences(database, series.id, at, at, 1) or [Occurrence(series.id, at)]
    if before.state is OccurrenceState.MADE:
        raise IllegalMove(
            f"this occurrence is made already: edit the scheduled post {post_name(series.id, at)}"
        )
    _put(database, [Occurrence(series.id, at, OccurrenceState.PLANNED, None, template)])
    _move(database, series)


def move(
    database: Database,
    seen: Series,
    state: SeriesState,
    next_at: int | None,
    passed: int,
    now: int,
) -> list[JobChange]:
    """Pause, resume or end; unless it goes on, what is made and not due yet is taken back."""
    series = _unchanged(database, seen)
    changes: list[JobChange] = []
    if state is not SeriesState.ACTIVE:
        ahead = [
            found
            for found in _held(database, series.id, now + 1, FOR_EVER, _MANY)
            if found.state is OccurrenceState.MADE
        ]
        detail = f"its series was {state}"
        changes = _take_back(database, ahead, detail, now, strictly=False)
        over = {change.job for change in changes}
        gone = [found for found in ahead if found.job in over]
        _put(
            database,
            [
                msgspec.structs.replace(found, state=OccurrenceState.SKIPPED, detail=detail)
                for found in gone
            ],
        )
    _move(database, series, state=state, next_at=next_at, passed=passed)
    return changes


# -- parts ---------------------------------------------------------------------------------------


def _locked(database: Database, name: str) -> Series:
    database.lock("series", id=name)
    return named(database, name)


def _unchanged(database: Database, seen: Series) -> Series:
    """The series, for this transaction alone; who judged by an older one must look again."""
    series = _locked(database, seen.id)
    if series.revision != seen.revision:
        raise ChangedMeanwhile(f"series {seen.id} was changed in the meantime; look again")
    return series


def _held(database: Database, name: str, since: int, until: int, limit: int) -> list[Occurrence]:
    """Occurrences whose jobs nobody moves or edits until the commit; an edit gives a new job."""
    while True:
        found = occurrences(database, name, since, until, limit)
        jobs = sorted(one.job for one in found if one.job is not None)
        if not jobs or not database.lock("jobs", jobs=jobs):
            return found
        if occurrences(database, name, since, until, limit) == found:
            return found


def _accept(
    database: Database, jobs: Sequence[NewJob], now: int, known_urls: KnownUrls
) -> Admission:
    [answer] = accepting.accept(database, [accepting.Item(jobs, now)], known_urls)
    if isinstance(answer, Admission):
        return answer
    raise answer


def _name(database: Database, series: Series, made: Sequence[Occurrence]) -> None:
    """Occurrences are scheduled posts like others: shown, edited and called off by a name."""
    rows = [
        (post_name(series.id, one.at), series.pubkey, one.job, "")
        for one in made
        if one.job is not None
    ]
    if rows:
        database.run("posts_keep", rows=rows)


def _put(database: Database, found: Sequence[Occurrence]) -> None:
    if found:
        rows = [(one.at, one.state, one.job, _text(one.template), one.detail) for one in found]
        database.run("occurrences_put", series=found[0].series, rows=rows)


def _move(database: Database, series: Series, **changed: object) -> None:
    moved = msgspec.structs.replace(series, **changed)
    names = ("id", "state", "made", "passed", "next_at", "last_at")
    database.run("series_move", **{name: getattr(moved, name) for name in names})


def _take_back(
    database: Database,
    found: Sequence[Occurrence],
    detail: str,
    now: int,
    *,
    strictly: bool = True,
) -> list[JobChange]:
    """Cancel the jobs of occurrences. `strictly`: one that cannot be is an error."""
    jobs = [one.job for one in found if one.job is not None]
    if not jobs:
        return []
    chosen = [
        standing.job for standing in standings(database, jobs) if standing.state in CANCELLABLE
    ]
    if strictly and len(chosen) < len(jobs):
        raise IllegalMove(f"job {jobs[0]} of this occurrence cannot be cancelled any more")
    return end_jobs(database, chosen, JobState.CANCELLED, detail, now)
