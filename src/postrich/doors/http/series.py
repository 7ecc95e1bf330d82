"""`/api/series`: recurring posts (F5), by a template that is signed in time, or signed before."""

from __future__ import annotations

import contextlib
import hashlib
from typing import Annotated, Any

import msgspec
from litestar import Controller, Request, Response, delete, get, post, put
from litestar.params import FromPath, FromQuery, JSONBody, PathParameter, QueryParameter
from msgspec import Meta

from postrich.doors.http.bodies import MOST_ITEMS, MOST_RELAYS, Milliseconds, SignedEvent, Tags
from postrich.doors.http.callers import Caller
from postrich.doors.http.desk import AtDesk, ByCaller, Desk
from postrich.doors.http.posts import signed_body
from postrich.errors import QuotaExceeded, UnknownSeries
from postrich.model.series import Missed, Occurrence, Series, SeriesState, Template, Terms

#: So many of one pubkey may be at work or paused: each makes its posts an hour ahead.
MOST_AT_WORK = 20
#: Ended ones included: they are kept for their story.
MOST_SERIES = 5000
Moment = Annotated[int, PathParameter(ge=0, le=2**53)]


class Words(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What an occurrence says."""

    content: str = ""
    kind: int = 1
    tags: Tags = []


class NewSeries(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """When, in which zone, and what: a template, or signed events, one for each occurrence.

    `recurrence`: a cron expression, or words like "every weekday 09:00". `missed`: what is done
    about hours that passed while nobody was at work: skip, or post the last one.
    """

    recurrence: Annotated[str, Meta(max_length=200)]
    zone: Annotated[str, Meta(max_length=100)] = "UTC"
    template: Words | None = None
    events: Annotated[list[SignedEvent], Meta(max_length=MOST_ITEMS)] = []
    pubkey: str | None = None
    relays: Annotated[list[str], Meta(max_length=MOST_RELAYS)] = []
    startsAt: Milliseconds | None = None  # noqa: N815
    until: Milliseconds | None = None
    count: Annotated[int, Meta(ge=1)] | None = None
    missed: Missed = Missed.SKIP


class SeriesView(msgspec.Struct, frozen=True):
    """A series. `made`: how many posts it made so far; `nextAt`: the next that it will make."""

    id: str
    pubkey: str
    recurrence: str
    zone: str
    state: str
    template: Words | None
    startsAt: int  # noqa: N815
    until: int | None
    count: int | None
    missed: str
    made: int
    nextAt: int | None  # noqa: N815


class SeriesList(msgspec.Struct, frozen=True):
    series: list[SeriesView]
    next: str | None = None


class OccurrenceView(msgspec.Struct, frozen=True, omit_defaults=True):
    """One time that it happens; `words`: what was edited for this one alone."""

    at: int
    state: str
    job: int | None = None
    words: Words | None = None
    detail: str = ""


class OccurrenceList(msgspec.Struct, frozen=True):
    occurrences: list[OccurrenceView]


class OccurrenceChanged(msgspec.Struct, frozen=True):
    status: str
    at: int


class SeriesRoutes(Controller):
    """Recurring posts."""

    path = "/api/series"
    tags = ("series",)

    @post("/", summary="Post again and again", status_code=201)
    async def add(
        self,
        request: Request[Any, Any, Any],
        data: JSONBody[NewSeries],
        caller: ByCaller,
        desk: AtDesk,
    ) -> Response[SeriesView]:
        async def act() -> Response[SeriesView]:
            kept = await _keep(desk, caller, data, await _name_by_key(request, caller))
            return Response(_view(kept), status_code=201)

        return await desk.once(request, caller, act)

    @get("/", summary="The caller's series")
    async def listed(
        self,
        caller: ByCaller,
        desk: AtDesk,
        pubkey: FromQuery[str | None] = None,
        limit: Annotated[int, QueryParameter(ge=1, le=500)] = 50,
        cursor: FromQuery[str] = "",
    ) -> SeriesList:
        found = await desk.outbox.series.page(caller.scope(pubkey), limit, cursor)
        following = found[-1].id if len(found) == limit else None
        return SeriesList([_view(one) for one in found], following)

    @get("/{name:str}", summary="One series")
    async def show(self, name: FromPath[str], caller: ByCaller, desk: AtDesk) -> SeriesView:
        return _view(await _find(desk, caller, name))

    @delete("/{name:str}", summary="End a series", status_code=200)
    async def end(self, name: FromPath[str], caller: ByCaller, desk: AtDesk) -> SeriesView:
        await _find(desk, caller, name)
        return _view(await desk.outbox.series.end(name))

    @post("/{name:str}/pause", summary="Pause it", status_code=200)
    async def pause(self, name: FromPath[str], caller: ByCaller, desk: AtDesk) -> SeriesView:
        await _find(desk, caller, name)
        return _view(await desk.outbox.series.pause(name))

    @post("/{name:str}/resume", summary="Go on with what is to come", status_code=200)
    async def resume(self, name: FromPath[str], caller: ByCaller, desk: AtDesk) -> SeriesView:
        await _find(desk, caller, name)
        return _view(await desk.outbox.series.resume(name))

    @get("/{name:str}/occurrences", summary="What is to come, and what was")
    async def occurrences(
        self,
        name: FromPath[str],
        caller: ByCaller,
        desk: AtDesk,
        since: Annotated[int | None, QueryParameter(ge=0, le=2**53)] = None,
        limit: Annotated[int, QueryParameter(ge=1, le=500)] = 20,
    ) -> OccurrenceList:
        await _find(desk, caller, name)
        found = await desk.outbox.series.occurrences(name, since, limit)
        return OccurrenceList([_occurrence(one) for one in found])

    @put("/{name:str}/occurrences/{at:int}", summary="Edit one occurrence")
    async def edit(
        self,
        name: FromPath[str],
        at: Moment,
        data: JSONBody[Words],
        caller: ByCaller,
        desk: AtDesk,
    ) -> OccurrenceChanged:
        await _find(desk, caller, name)
        await desk.outbox.series.edit(name, at, _template(data))
        return OccurrenceChanged("edited", at)

    @delete("/{name:str}/occurrences/{at:int}", summary="Skip one occurrence", status_code=200)
    async def skip(
        self, name: FromPath[str], at: Moment, caller: ByCaller, desk: AtDesk
    ) -> OccurrenceChanged:
        await _find(desk, caller, name)
        await desk.outbox.series.skip(name, at)
        return OccurrenceChanged("skipped", at)


async def _name_by_key(request: Request[Any, Any, Any], caller: Caller) -> str | None:
    """A series' name by its request's key: made and not answered, it is found when asked again."""
    key = request.headers.get("idempotency-key")
    if key is None:
        return None
    said = f"{caller.name}\n{key}\n".encode() + await request.body()
    return hashlib.sha256(said).hexdigest()[:32]


async def _keep(desk: Desk, caller: Caller, data: NewSeries, name: str | None) -> Series:
    if name is not None:
        with contextlib.suppress(UnknownSeries):
            return await _find(desk, caller, name)
    for event in data.events:
        caller.check_author(event.pubkey)
    if data.pubkey is not None:
        caller.check_author(data.pubkey)
    await _check_quota(desk, caller)
    return await desk.outbox.series.keep(
        id=name,
        recurrence=data.recurrence,
        zone=data.zone,
        template=None if data.template is None else _template(data.template),
        signed=[signed_body(event) for event in data.events],
        pubkey=data.pubkey or caller.pubkey,
        terms=Terms(relays=tuple(data.relays), priority=caller.tier.priority, policy="scheduled"),
        starts_at=data.startsAt,
        until=data.until,
        count=data.count,
        missed=data.missed,
        most=caller.most,
    )


async def _check_quota(desk: Desk, caller: Caller) -> None:
    """As many series as posts may wait (F4); posts that are signed already wait at once."""
    if caller.pubkey is None:
        return
    most = min(caller.tier.pending, MOST_AT_WORK)
    series = await desk.outbox.series.page(caller.pubkey, MOST_SERIES)
    active = sum(one.state is not SeriesState.ENDED for one in series)
    if active >= most or len(series) >= MOST_SERIES:
        raise QuotaExceeded(f"there are {active} series of this pubkey, and {most} may be", 3600)


async def _find(desk: Desk, caller: Caller, name: str) -> Series:
    """A series that the caller may see; others' are as unknown as none."""
    found = await desk.outbox.series.get(name)
    if caller.scope(None) not in (None, found.pubkey):
        raise UnknownSeries(f"there is no series {name[:64]}")
    return found


def _template(words: Words) -> Template:
    return Template(words.kind, tuple(tuple(tag) for tag in words.tags), words.content)


def _words(template: Template | None) -> Words | None:
    if template is None:
        return None
    return Words(template.content, template.kind, [list(tag) for tag in template.tags])


def _view(series: Series) -> SeriesView:
    return SeriesView(
        id=series.id,
        pubkey=series.pubkey,
        recurrence=series.recurrence,
        zone=series.zone,
        state=series.state,
        template=_words(series.template),
        startsAt=series.starts_at,
        until=series.until,
        count=series.count,
        missed=series.missed,
        made=series.made,
        nextAt=series.next_at,
    )


def _occurrence(one: Occurrence) -> OccurrenceView:
    return OccurrenceView(one.at, one.state, one.job, _words(one.template), one.detail)
