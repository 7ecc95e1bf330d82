"""`/api/status`, `/api/plan`, `/api/events`: how it stands, where it would go, what happens."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Annotated

import msgspec
from litestar import Controller, get, post
from litestar.params import JSONBody
from litestar.response import Stream
from msgspec import Meta

from postrich.accept import Options
from postrich.doors.http.bodies import MOST_RELAYS, Tags
from postrich.doors.http.callers import Caller
from postrich.doors.http.desk import AtDesk, ByCaller, Desk
from postrich.model.job import JobFilter, QueueStatus
from postrich.observe.notices import (
    DeliveryChanged,
    JobAccepted,
    JobChanged,
    Missed,
    Notice,
    SignerAsks,
    SignerCame,
    Subscription,
)

HEARTBEAT = 15.0


class QueueView(msgspec.Struct, frozen=True):
    """A12, in figures and in words."""

    pending: int
    scheduled: int
    parked: int
    failed: int
    totalAttempts: int  # noqa: N815
    openDeliveries: int  # noqa: N815
    oldest: int | None
    text: str


class Mine(msgspec.Struct, frozen=True):
    """A caller's own posts that wait for their hour, and how many may."""

    pubkey: str
    scheduled: int
    limit: int


class StatusView(msgspec.Struct, frozen=True):
    """`queue`, `trouble`: the owner's and admins' view; `mine`: a pubkey's own."""

    online: bool
    time: int
    queue: QueueView | None = None
    trouble: str | None = None
    mine: Mine | None = None


class PlanRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An event or draft, to see where it would go."""

    content: str = ""
    kind: int = 1
    tags: Tags = []
    pubkey: str | None = None
    relays: Annotated[list[str], Meta(max_length=MOST_RELAYS)] = []


class TargetView(msgspec.Struct, frozen=True):
    relay: str
    reason: str


class PlanView(msgspec.Struct, frozen=True):
    """`unresolved`: people whose relay lists could not be read; `refusal`: it goes nowhere."""

    targets: list[TargetView]
    unresolved: list[str]
    refusal: str


class Looking(Controller):
    """How it stands."""

    path = "/api"
    tags = ("status",)

    @get("/status", summary="The queue in figures")
    async def status(self, caller: ByCaller, desk: AtDesk) -> StatusView:
        outbox = desk.outbox
        mine = None
        if caller.pubkey is not None:
            waiting = await outbox.schedule.waiting(caller.pubkey)
            mine = Mine(caller.pubkey, waiting, caller.tier.pending)
        if not caller.is_admin:
            return StatusView(outbox.online, outbox.now(), mine=mine)
        queue = _queue(await outbox.status())
        return StatusView(outbox.online, outbox.now(), queue, outbox.trouble, mine)

    @post("/plan", summary="Where an event would go, and why", status_code=200)
    async def plan(self, data: JSONBody[PlanRequest], caller: ByCaller, desk: AtDesk) -> PlanView:
        author = data.pubkey or caller.pubkey
        item = {"content": data.content, "kind": data.kind, "tags": data.tags}
        if author is not None:
            caller.check_author(author)
            item["pubkey"] = author
        plan = await desk.outbox.plan(item, Options(relays=tuple(data.relays)))
        targets = [TargetView(target.url, target.reason) for target in plan.targets]
        return PlanView(targets, list(plan.unresolved), plan.refusal)

    @get("/events", summary="What happens, as server-sent events")
    async def events(self, caller: ByCaller, desk: AtDesk) -> Stream:
        desk.check_streams(caller)
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        return Stream(_events(desk, caller), media_type="text/event-stream", headers=headers)


def _queue(status: QueueStatus) -> QueueView:
    return QueueView(
        pending=status.pending,
        scheduled=status.scheduled,
        parked=status.parked,
        failed=status.failed,
        totalAttempts=status.total_attempts,
        openDeliveries=status.open_deliveries,
        oldest=status.oldest,
        text=status.text,
    )


async def _events(desk: Desk, caller: Caller) -> AsyncIterator[bytes]:
    """Notices that concern the caller, and a comment now and then so that proxies stay."""
    mine = _Mine(desk, caller)
    tick = desk.outbox.clock.tick
    with desk.streaming(caller), desk.outbox.watch() as notices:
        said_at = tick()
        while True:
            try:
                left = max(0.0, said_at + HEARTBEAT - tick())
                notice = await asyncio.wait_for(_next(notices), left)
            except TimeoutError:
                said_at = tick()
                yield b": still here\n\n"
                continue
            if notice is None:
                return
            if await mine.concerns(notice):
                said_at = tick()
                kind = str(notice.__struct_config__.tag).encode()
                yield b"event: %b\ndata: %b\n\n" % (kind, msgspec.json.encode(notice))


async def _next(notices: Subscription) -> Notice | None:
    return await anext(notices, None)


class _Mine:
    """Which notices concern a caller: of their own jobs only, unless they may see all."""

    MOST = 10_000

    def __init__(self, desk: Desk, caller: Caller) -> None:
        self._desk = desk
        self._caller = caller
        self._known: dict[int, bool] = {}

    async def concerns(self, notice: Notice) -> bool:
        if self._caller.is_admin or isinstance(notice, Missed):
            return True
        if isinstance(notice, JobAccepted | JobChanged | DeliveryChanged):
            return await self._is_mine(notice.job)
        return isinstance(notice, SignerCame | SignerAsks) and notice.pubkey == self._caller.pubkey

    async def _is_mine(self, job: int) -> bool:
        if job not in self._known:
            if len(self._known) >= self.MOST:
                self._known.clear()
            which = JobFilter(jobs=(job,), pubkey=self._caller.pubkey)
            self._known[job] = bool(await self._desk.outbox.jobs(which, 1))
        return self._known[job]
