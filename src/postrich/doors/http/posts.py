"""`/api/schedule`: posts for their hour, as in the document (F1), and what it leaves open (F5)."""

from __future__ import annotations

from typing import Annotated, Any
from urllib.parse import quote

from litestar import Controller, Request, Response, delete, get, patch, post
from litestar.params import FromPath, FromQuery, JSONBody, QueryParameter

from postrich.doors.http.bodies import (
    BulkPosts,
    BulkResult,
    BulkResults,
    EditPost,
    PostEdited,
    PostKept,
    PostList,
    PostView,
    SchedulePost,
    SignedEvent,
    SweepDone,
    body_of,
    post_view,
)
from postrich.doors.http.callers import Caller, check_pubkey
from postrich.doors.http.desk import AtDesk, ByCaller, Desk
from postrich.doors.http.problems import problem_of
from postrich.errors import CallerError, Forbidden, InvalidEvent
from postrich.model.post import Kept, Network, Post
from postrich.rules.scheduling import LONGEST_NAME
from postrich.schedule import Wish

Limit = Annotated[int, QueryParameter(ge=1, le=1000)]
Cursor = Annotated[int | None, QueryParameter(ge=1, le=2**63 - 1)]


class Posts(Controller):
    """Scheduled posts."""

    path = "/api/schedule"
    tags = ("schedule",)

    @post("/", summary="Schedule a signed event", status_code=201)
    async def add(
        self,
        request: Request[Any, Any, Any],
        data: JSONBody[SchedulePost],
        caller: ByCaller,
        desk: AtDesk,
    ) -> Response[PostKept]:
        async def act() -> Response[PostKept]:
            kept, answer = await keep_one(desk, caller, data)
            status = 201 if kept.accepted.is_new else 200
            headers = {"Location": location_of(kept.name)}
            return Response(answer, status_code=status, headers=headers)

        return await desk.once(request, caller, act)

    @post("/bulk", summary="Schedule up to 1,000 signed events in one commit", status_code=200)
    async def add_many(
        self,
        request: Request[Any, Any, Any],
        data: JSONBody[BulkPosts],
        caller: ByCaller,
        desk: AtDesk,
    ) -> Response[BulkResults]:
        desk.reception.spend(caller, len(data.posts) / 100)

        async def act() -> Response[BulkResults]:
            return Response(await _put_many(desk, caller, data.posts), status_code=200)

        return await desk.once(request, caller, act)

    @get("/status", summary="An author's posts, newest first")
    async def listed(
        self,
        caller: ByCaller,
        desk: AtDesk,
        pubkey: FromQuery[str | None] = None,
        limit: Limit = 100,
        cursor: Cursor = None,
    ) -> PostList:
        author = caller.author(pubkey)
        found = await desk.outbox.schedule.posts(author, limit, cursor)
        following = found[-1].job.id if len(found) == limit else None
        return PostList(author, [post_view(one) for one in found], following)

    @post("/sweep", summary="Look at once for what is due", status_code=200)
    async def sweep(self, caller: ByCaller, desk: AtDesk) -> SweepDone:
        if not caller.is_admin:
            raise Forbidden("only an admin may ask for a sweep; nothing waits for one")
        return SweepDone("swept", await desk.outbox.schedule.sweep())

    @get("/{name:str}", summary="One post")
    async def show(
        self,
        name: FromPath[str],
        caller: ByCaller,
        desk: AtDesk,
        pubkey: FromQuery[str | None] = None,
    ) -> PostView:
        return post_view(await _find(desk, caller, name, pubkey))

    @patch("/{name:str}", summary="Another hour, or another event in its place")
    async def edit(
        self,
        name: FromPath[str],
        data: JSONBody[EditPost],
        caller: ByCaller,
        desk: AtDesk,
        pubkey: FromQuery[str | None] = None,
    ) -> PostEdited:
        if data.scheduledAt is None and data.nostrEvent is None:
            raise InvalidEvent("Missing required fields: scheduledAt or nostrEvent")
        found = await _find(desk, caller, name, pubkey)
        item = None if data.nostrEvent is None else signed_body(data.nostrEvent)
        edited = await desk.outbox.schedule.edit(found, at=data.scheduledAt, item=item)
        return PostEdited("scheduled", name, post_view(edited.post), edited.warning)

    @delete("/{name:str}", summary="Call a post off", status_code=200)
    async def cancel(
        self,
        name: FromPath[str],
        caller: ByCaller,
        desk: AtDesk,
        pubkey: FromQuery[str | None] = None,
    ) -> PostKept:
        await desk.outbox.schedule.cancel([await _find(desk, caller, name, pubkey)])
        return PostKept("cancelled", name)


async def _find(desk: Desk, caller: Caller, name: str, pubkey: str | None) -> Post:
    return await desk.outbox.schedule.get(name, caller.scope(pubkey))


async def keep_one(desk: Desk, caller: Caller, data: SchedulePost) -> tuple[Kept, PostKept]:
    """Schedule one post; raises what speaks against it."""
    [kept] = await desk.outbox.schedule.put([wish_of(data, caller)], caller.most)
    if isinstance(kept, CallerError):
        raise kept
    return kept, PostKept("scheduled", kept.name)


def location_of(name: str) -> str:
    return f"/api/schedule/{quote(name, safe='')}"


async def _put_many(desk: Desk, caller: Caller, posts: list[SchedulePost]) -> BulkResults:
    wishes = [_wish_or_refusal(one, caller) for one in posts]
    good = [wish for wish in wishes if isinstance(wish, Wish)]
    answers = iter(await desk.outbox.schedule.put(good, caller.most))
    results = [
        _result(next(answers) if isinstance(wish, Wish) else wish, one.id)
        for wish, one in zip(wishes, posts, strict=True)
    ]
    refused = sum(result.status == "refused" for result in results)
    return BulkResults(len(results) - refused, refused, results)


def _wish_or_refusal(one: SchedulePost, caller: Caller) -> Wish | CallerError:
    try:
        return wish_of(one, caller)
    except CallerError as refusal:
        return refusal


def _result(answer: Kept | CallerError, name: str) -> BulkResult:
    if isinstance(answer, Kept):
        return BulkResult("scheduled", answer.name, 201 if answer.accepted.is_new else 200)
    problem = problem_of(answer)
    return BulkResult("refused", name[:LONGEST_NAME], problem.status, problem.detail)


def wish_of(data: SchedulePost, caller: Caller) -> Wish:
    """What a caller wants scheduled, if they may."""
    check_pubkey(data.nostrEvent.pubkey)
    caller.check_author(data.nostrEvent.pubkey)
    return Wish(
        item=signed_body(data.nostrEvent),
        at=data.scheduledAt,
        name=data.id,
        relays=tuple(data.relays),
        priority=caller.tier.priority,
        crosspost=_crosspost(data),
        alone=data.alone,
    )


def signed_body(event: SignedEvent) -> bytes:
    """A signed event's JSON; unsigned ones have a door of their own."""
    if not event.id or not event.sig:
        raise InvalidEvent(
            "Event not pre-signed: nostrEvent needs its id and sig; unsigned work goes to"
            " /api/drafts"
        )
    return body_of(event)


def _crosspost(data: SchedulePost) -> tuple[Network, ...]:
    flags = {Network.ACTIVITYPUB: data.crossPostAP, Network.ATPROTO: data.crossPostAT}
    return refuse_crosspost(tuple(network for network, wanted in flags.items() if wanted))


_SPOKEN = {Network.ACTIVITYPUB: "ActivityPub", Network.ATPROTO: "ATProto"}


def refuse_crosspost(wanted: tuple[Network, ...]) -> tuple[Network, ...]:
    """Nobody can connect an account of another network yet: a post that wants one is refused."""
    for network in wanted:
        raise InvalidEvent(f"this pubkey has no {_SPOKEN[network]} account connected")
    return wanted
