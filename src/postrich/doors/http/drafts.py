"""`/api/drafts`: unsigned work, kept until a signer comes; `/api/sign`: a page is that signer.

Promises: a draft is shown and given only to its own pubkey; what a page returns is the draft with
a true signature, or is refused with the difference named (`sign/browser.py`).
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Annotated, Any

import msgspec
from litestar import Controller, Request, Response, delete, get, post
from litestar.di import NamedDependency
from litestar.params import FromQuery, JSONBody, PathParameter, QueryParameter
from msgspec import Meta

from postrich.doors.http.bodies import (
    MOST_RELAYS,
    Changed,
    JobList,
    Milliseconds,
    SignedEvent,
    Tags,
    job_view,
)
from postrich.doors.http.callers import Caller
from postrich.doors.http.desk import AtDesk, ByCaller, Desk
from postrich.errors import CallerError, InvalidEvent, NotAuthorised, UnknownJob
from postrich.model.event import Draft
from postrich.model.job import JobFilter, JobState
from postrich.model.post import Kept
from postrich.schedule import Wish

#: A page that has not asked for so long is gone.
GONE_AFTER = 45.0
LONGEST_WAIT = 25.0


class NewDraft(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An unsigned event. With `scheduledAt` it goes out then, and that is its created_at; with
    `slot` it goes out in the next free slot of that weekly grid."""

    content: str
    kind: int = 1
    tags: Tags = []
    pubkey: str | None = None
    created_at: int | None = None
    scheduledAt: Milliseconds | None = None  # noqa: N815
    id: str = ""
    relays: Annotated[list[str], Meta(max_length=MOST_RELAYS)] = []
    alone: bool = False
    slot: str | None = None


class DraftKept(msgspec.Struct, frozen=True):
    status: str
    job: int
    eventId: str  # noqa: N815
    id: str | None = None
    scheduledAt: int | None = None  # noqa: N815


class Drafts(Controller):
    """Work that waits for a signature."""

    path = "/api/drafts"
    tags = ("drafts",)

    @post("/", summary="Keep unsigned work until its signer comes", status_code=201)
    async def add(
        self,
        request: Request[Any, Any, Any],
        data: JSONBody[NewDraft],
        caller: ByCaller,
        desk: AtDesk,
    ) -> Response[DraftKept]:
        async def act() -> Response[DraftKept]:
            key = request.headers.get("idempotency-key")
            unique = None if key is None else f"http:{caller.name}:{key}"
            return await _keep(desk, caller, data, unique)

        return await desk.once(request, caller, act)

    @get("/", summary="What waits for a signature")
    async def listed(
        self,
        caller: ByCaller,
        desk: AtDesk,
        pubkey: FromQuery[str | None] = None,
        limit: Annotated[int, QueryParameter(ge=1, le=500)] = 50,
        cursor: Annotated[int | None, QueryParameter(ge=1, le=2**63 - 1)] = None,
    ) -> JobList:
        which = JobFilter(states=(JobState.PENDING_SIGN,), pubkey=caller.scope(pubkey))
        found = await desk.outbox.jobs(which, limit, cursor)
        names = await desk.outbox.schedule.names([job.id for job in found])
        following = found[-1].id if len(found) == limit else None
        return JobList([job_view(job, names.get(job.id)) for job in found], following)

    @delete("/{number:int}", summary="Take a draft back", status_code=200)
    async def cancel(
        self,
        number: Annotated[int, PathParameter(ge=1, le=2**63 - 1)],
        caller: ByCaller,
        desk: AtDesk,
    ) -> Changed:
        which = JobFilter(
            jobs=(number,), pubkey=caller.scope(None), states=(JobState.PENDING_SIGN,)
        )
        if not await desk.outbox.jobs(which, 1):
            raise UnknownJob(f"there is no draft {number} that waits for a signature")
        return Changed("cancelled", await desk.outbox.cancel(which))


def _fields(caller: Caller, data: NewDraft) -> dict[str, Any]:
    if data.pubkey is not None:
        caller.check_author(data.pubkey)
    fields: dict[str, Any] = {"content": data.content, "kind": data.kind, "tags": data.tags}
    if (pubkey := data.pubkey or caller.pubkey) is not None:
        fields["pubkey"] = pubkey
    if data.created_at is not None:
        fields["created_at"] = data.created_at
    return fields


async def _keep(desk: Desk, caller: Caller, data: NewDraft, key: str | None) -> Response[DraftKept]:
    """A draft without an hour is due now: it waits for its signer only, and counts as waiting."""
    if data.scheduledAt is not None and data.slot is not None:
        raise InvalidEvent("a draft has an hour or a slot, not both: scheduledAt or slot")
    is_now = data.scheduledAt is None and data.slot is None
    wish = Wish(
        item=_fields(caller, data),
        at=desk.outbox.now() if data.scheduledAt is None else data.scheduledAt,
        name=data.id,
        policy=desk.outbox.settings.policy if is_now else None,
        relays=tuple(data.relays),
        priority=caller.tier.priority,
        alone=data.alone,
        key=key,
    )
    most = caller.most
    if data.slot is not None:
        author = caller.author(data.pubkey)
        slotted = await desk.outbox.schedule.put_in_slot(wish, author, data.slot, most=most)
        if isinstance(slotted, CallerError):
            raise slotted
        return _draft_kept(slotted.kept, slotted.at)
    [answer] = await desk.outbox.schedule.put([wish], most)
    if isinstance(answer, CallerError):
        raise answer
    return _draft_kept(answer, wish.at)


def _draft_kept(kept: Kept, at: int) -> Response[DraftKept]:
    accepted = kept.accepted
    view = DraftKept(accepted.state, accepted.job, accepted.event_id, kept.name, at)
    return Response(view, status_code=201)


# -- a page that signs -------------------------------------------------------------------------


class DraftToSign(msgspec.Struct, frozen=True):
    """As the page hands it to the extension (NIP-07)."""

    id: str
    pubkey: str
    created_at: int
    kind: int
    tags: Tags
    content: str


class DraftsToSign(msgspec.Struct, frozen=True):
    pubkey: str
    drafts: list[DraftToSign]


class SignatureOrRefusal(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The draft's id, and the signed event or the reason why not."""

    id: str
    event: SignedEvent | None = None
    refusal: Annotated[str, Meta(max_length=500)] | None = None


class Signed(msgspec.Struct, frozen=True):
    status: str
    id: str


class Pages:
    """Pages that sign, one per pubkey; a page that stops asking is closed."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._open: dict[str, Any] = {}
        self._closers: dict[str, asyncio.TimerHandle] = {}

    def page(self, pubkey: str) -> Any:
        session = self._open.get(pubkey)
        if session is None or not session.is_open:
            session = self._open[pubkey] = self._desk.outbox.open_page(pubkey)
        closer = self._closers.pop(pubkey, None)
        if closer is not None:
            closer.cancel()
        loop = asyncio.get_running_loop()
        self._closers[pubkey] = loop.call_later(GONE_AFTER, self._close, pubkey)
        return session

    def _close(self, pubkey: str) -> None:
        self._closers.pop(pubkey, None)
        session = self._open.pop(pubkey, None)
        if session is not None:
            session.close()

    def close(self) -> None:
        for closer in self._closers.values():
            closer.cancel()
        for session in self._open.values():
            session.close()
        self._closers.clear()
        self._open.clear()


AtPages = NamedDependency[Pages]


class Signing(Controller):
    """A page with a browser extension signs what waits for its pubkey."""

    path = "/api/sign"
    tags = ("drafts",)

    @get("/", summary="Drafts of this pubkey to be signed; waits for one if there is none")
    async def offered(
        self,
        caller: ByCaller,
        pages: AtPages,
        pubkey: FromQuery[str | None] = None,
        wait: Annotated[float, QueryParameter(ge=0, le=LONGEST_WAIT)] = 0.0,
    ) -> DraftsToSign:
        who = _signer(caller, pubkey)
        page = pages.page(who)
        drafts = page.drafts()
        if not drafts and wait:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(page.changed.wait(), wait)
            drafts = pages.page(who).drafts()
        return DraftsToSign(who, [_offer(draft) for draft in drafts])

    @post("/", summary="Hand a signature back, or a refusal", status_code=200)
    async def answer(
        self,
        data: JSONBody[SignatureOrRefusal],
        caller: ByCaller,
        pages: AtPages,
        pubkey: FromQuery[str | None] = None,
    ) -> Signed:
        page = pages.page(_signer(caller, pubkey))
        if data.event is not None:
            fields = {name: getattr(data.event, name) for name in data.event.__struct_fields__}
            page.take(data.id, fields)
            return Signed("signed", data.id)
        if data.refusal is None:
            raise InvalidEvent("Missing required fields: event or refusal")
        page.refuse(data.id, data.refusal)
        return Signed("refused", data.id)


def _signer(caller: Caller, pubkey: str | None) -> str:
    """A page signs for who is at it; an admin is not everybody."""
    if caller.pubkey is not None and pubkey not in (None, caller.pubkey):
        raise NotAuthorised("a page signs for its own pubkey only")
    return caller.author(pubkey)


def _offer(draft: Draft) -> DraftToSign:
    return DraftToSign(
        draft.id,
        draft.pubkey,
        draft.created_at,
        draft.kind,
        [list(tag) for tag in draft.tags],
        draft.content,
    )
