"""`/api/jobs`: the queue itself: list, show with every relay, retry, cancel, delete (F9, B6)."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from litestar import Controller, delete, get, post
from litestar.params import FromQuery, JSONBody, PathParameter, QueryParameter
from msgspec import Meta

from postrich.doors.http.bodies import MOST_ITEMS, Changed, JobList, JobView, job_view
from postrich.doors.http.callers import Caller
from postrich.doors.http.desk import AtDesk, ByCaller, Desk
from postrich.errors import InvalidEvent, UnknownJob
from postrich.model.job import Job, JobFilter, JobState
from postrich.rules.trust import normalise_url

Number = Annotated[int, PathParameter(ge=1, le=2**63 - 1)]
Limit = Annotated[int, QueryParameter(ge=1, le=500)]

Action = Literal["retry", "cancel", "delete"]


class BulkJobs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One action for many jobs: those that are named, or those that a filter means."""

    action: Action
    jobs: Annotated[list[int], Meta(max_length=MOST_ITEMS)] = []
    states: list[JobState] = []
    kind: int | None = None
    relay: str | None = None
    pubkey: str | None = None


class Jobs(Controller):
    """Jobs: events on their road."""

    path = "/api/jobs"
    tags = ("jobs",)

    @get("/", summary="Jobs, newest first")
    async def listed(
        self,
        caller: ByCaller,
        desk: AtDesk,
        states: Annotated[list[JobState] | None, QueryParameter(name="state")] = None,
        pubkey: FromQuery[str | None] = None,
        kind: FromQuery[int | None] = None,
        relay: FromQuery[str | None] = None,
        open: FromQuery[bool] = False,  # noqa: A002 - the parameter's name
        limit: Limit = 50,
        cursor: Annotated[int | None, QueryParameter(ge=1, le=2**63 - 1)] = None,
    ) -> JobList:
        which = JobFilter(
            states=tuple(states or ()),
            pubkey=caller.scope(pubkey),
            kind=_number(kind),
            relay=normalise_url(relay) if relay else None,
            open_only=open,
        )
        found = await desk.outbox.jobs(which, limit, cursor)
        names = await desk.outbox.schedule.names([job.id for job in found])
        following = found[-1].id if len(found) == limit else None
        return JobList([job_view(job, names.get(job.id)) for job in found], following)

    @get("/{number:int}", summary="A job with its relays and its story")
    async def show(self, number: Number, caller: ByCaller, desk: AtDesk) -> JobView:
        job = await find_job(desk, caller, number)
        names = await desk.outbox.schedule.names([job.id])
        return job_view(job, names.get(job.id), await desk.outbox.story(job.id))

    @post("/{number:int}/retry", summary="Try again now", status_code=200)
    async def retry(self, number: Number, caller: ByCaller, desk: AtDesk) -> Changed:
        return await _act(desk, "retry", _one(caller, number))

    @post("/{number:int}/cancel", summary="Stop what is not published yet", status_code=200)
    async def cancel(self, number: Number, caller: ByCaller, desk: AtDesk) -> Changed:
        return await _act(desk, "cancel", _one(caller, number))

    @delete("/{number:int}", summary="Remove a finished job", status_code=200)
    async def remove(self, number: Number, caller: ByCaller, desk: AtDesk) -> Changed:
        return await _act(desk, "delete", _one(caller, number))

    @post("/bulk", summary="One action for many jobs", status_code=200)
    async def bulk(self, data: JSONBody[BulkJobs], caller: ByCaller, desk: AtDesk) -> Changed:
        if not (data.jobs or data.states or data.kind is not None or data.relay):
            raise InvalidEvent("say which jobs are meant: jobs, states, kind or relay")
        which = JobFilter(
            jobs=tuple(_number(job) or 0 for job in data.jobs),
            states=tuple(data.states),
            kind=_number(data.kind),
            relay=normalise_url(data.relay) if data.relay else None,
            pubkey=caller.scope(data.pubkey),
        )
        return await _act(desk, data.action, which)


async def find_job(desk: Desk, caller: Caller, number: int) -> Job:
    """A job that the caller may see; others' are as unknown as none."""
    found = await desk.outbox.jobs(_one(caller, number), 1)
    if not found:
        raise UnknownJob(f"there is no job {number}")
    return found[0]


def _one(caller: Caller, number: int) -> JobFilter:
    return JobFilter(jobs=(number,), pubkey=caller.scope(None))


async def _act(desk: Desk, action: Action, which: JobFilter) -> Changed:
    outbox = desk.outbox
    match action:
        case "retry":
            return Changed("retried", await outbox.retry(which))
        case "cancel":
            return Changed("cancelled", await outbox.cancel(which))
        case "delete":
            return Changed("deleted", await outbox.delete(which))


def _number(value: int | None) -> int | None:
    if value is not None and not 0 <= value < 2**63:
        raise InvalidEvent(f"{value} is out of range")
    return value
