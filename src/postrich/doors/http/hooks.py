"""`/api/hooks`: addresses that are told what becomes of posts, signed and retried (F6)."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

import msgspec
from litestar import Controller, Request, Response, delete, get, post
from litestar.params import FromPath, FromQuery, JSONBody, QueryParameter
from msgspec import Meta

from postrich.doors.http.bodies import Milliseconds
from postrich.doors.http.callers import Caller
from postrich.doors.http.desk import AtDesk, ByCaller
from postrich.errors import Forbidden
from postrich.hooks import HookGrant
from postrich.model.hook import Hook, HookMessage


class NewHook(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where to tell, and of what; no events: of all. `everybody`: of all posts, for admins."""

    url: Annotated[str, Meta(max_length=2048)]
    events: Annotated[list[str], Meta(max_length=20)] = []
    pubkey: str | None = None
    everybody: bool = False


class Replay(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One message, or all that failed (since then)."""

    message: str | None = None
    since: datetime | None = None


class HookView(msgspec.Struct, frozen=True, omit_defaults=True):
    """A hook. `secret` is shown once: when it is made or rotated."""

    id: str
    pubkey: str
    url: str
    events: list[str]
    state: str
    createdAt: Milliseconds  # noqa: N815
    failingSince: int | None = None  # noqa: N815
    reason: str = ""
    secret: str = ""


class HookList(msgspec.Struct, frozen=True):
    hooks: list[HookView]


class MessageView(msgspec.Struct, frozen=True):
    """What a hook was told, or is to be."""

    id: str
    type: str
    job: int | None
    state: str
    attempts: int
    nextAttempt: int | None  # noqa: N815
    status: int | None
    error: str


class MessageList(msgspec.Struct, frozen=True):
    messages: list[MessageView]
    next: int | None = None


class HookDone(msgspec.Struct, frozen=True):
    status: str
    id: str
    messages: int = 0


class Hooks(Controller):
    """Webhooks."""

    path = "/api/hooks"
    tags = ("hooks",)

    @post("/", summary="Tell an address what becomes of posts", status_code=201)
    async def add(
        self,
        request: Request[Any, Any, Any],
        data: JSONBody[NewHook],
        caller: ByCaller,
        desk: AtDesk,
    ) -> Response[HookView]:
        async def act() -> Response[HookView]:
            if data.everybody and not caller.is_admin:
                raise Forbidden("only an admin may hear of everybody's posts")
            owner = "" if data.everybody else caller.author(data.pubkey)
            grant = await desk.outbox.hooks.add(data.url, data.events, pubkey=owner)
            return Response(_granted(grant), status_code=201)

        return await desk.once(request, caller, act, kept=_without_secret)

    @get("/", summary="The caller's hooks")
    async def listed(
        self, caller: ByCaller, desk: AtDesk, pubkey: FromQuery[str | None] = None
    ) -> HookList:
        found = await desk.outbox.hooks.list(of=caller.scope(pubkey))
        return HookList([_view(hook) for hook in found])

    @get("/{name:str}", summary="One hook")
    async def show(self, name: FromPath[str], caller: ByCaller, desk: AtDesk) -> HookView:
        return _view(await desk.outbox.hooks.show(name, of=_of(caller)))

    @delete("/{name:str}", summary="Forget a hook", status_code=200)
    async def remove(self, name: FromPath[str], caller: ByCaller, desk: AtDesk) -> HookDone:
        await desk.outbox.hooks.remove(name, of=_of(caller))
        return HookDone("removed", name)

    @post("/{name:str}/rotate", summary="A new secret", status_code=200)
    async def rotate(self, name: FromPath[str], caller: ByCaller, desk: AtDesk) -> HookView:
        return _granted(await desk.outbox.hooks.rotate(name, of=_of(caller)))

    @post("/{name:str}/enable", summary="Tell it again", status_code=200)
    async def enable(self, name: FromPath[str], caller: ByCaller, desk: AtDesk) -> HookView:
        return _view(await desk.outbox.hooks.enable(name, of=_of(caller)))

    @post("/{name:str}/disable", summary="Tell it nothing more", status_code=200)
    async def disable(self, name: FromPath[str], caller: ByCaller, desk: AtDesk) -> HookView:
        return _view(await desk.outbox.hooks.disable(name, of=_of(caller)))

    @post("/{name:str}/test", summary="Send it a ping", status_code=202)
    async def test(self, name: FromPath[str], caller: ByCaller, desk: AtDesk) -> MessageView:
        return _message(await desk.outbox.hooks.test(name, of=_of(caller)))

    @post("/{name:str}/replay", summary="Send again what failed", status_code=202)
    async def replay(
        self, name: FromPath[str], data: JSONBody[Replay], caller: ByCaller, desk: AtDesk
    ) -> HookDone:
        count = await desk.outbox.hooks.replay(
            name, message=data.message, since=data.since, of=_of(caller)
        )
        return HookDone("queued", name, count)

    @get("/{name:str}/messages", summary="What it was told, newest first")
    async def messages(
        self,
        name: FromPath[str],
        caller: ByCaller,
        desk: AtDesk,
        limit: Annotated[int, QueryParameter(ge=1, le=500)] = 50,
        cursor: Annotated[int | None, QueryParameter(ge=1, le=2**63 - 1)] = None,
    ) -> MessageList:
        found = await desk.outbox.hooks.messages(name, limit, cursor, of=_of(caller))
        following = found[-1].number if len(found) == limit else None
        return MessageList([_message(one) for one in found], following)


def _without_secret(view: HookView) -> HookView:
    return msgspec.structs.replace(view, secret="")


def _of(caller: Caller) -> str | None:
    return caller.scope(None)


def _granted(grant: HookGrant) -> HookView:
    return msgspec.structs.replace(_view(grant.hook), secret=grant.secret)


def _view(hook: Hook) -> HookView:
    return HookView(
        id=hook.id,
        pubkey=hook.pubkey,
        url=hook.url,
        events=list(hook.events),
        state=hook.state,
        createdAt=hook.created_at,
        failingSince=hook.failing_since,
        reason=hook.reason,
    )


def _message(message: HookMessage) -> MessageView:
    return MessageView(
        id=message.id,
        type=message.kind,
        job=message.job,
        state=message.state,
        attempts=message.attempts,
        nextAttempt=message.next_at,
        status=message.status,
        error=message.error,
    )
