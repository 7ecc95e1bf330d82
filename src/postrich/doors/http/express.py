"""The road of most requests: one post to be scheduled, well formed, nothing special about it.

A framework's way through routing, injection and responses costs more than the work itself here
(measured: `bench http`; docs/decisions/0017). So the plain `POST /api/schedule` is answered on the
spot, by the same functions as the route in `posts.py`; whatever is not plain goes there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from litestar.enums import ScopeType

from postrich.doors.http.bodies import SchedulePost
from postrich.doors.http.desk import Desk
from postrich.doors.http.gate import url_of
from postrich.doors.http.posts import keep_one, location_of
from postrich.doors.http.problems import MEDIA_TYPE, headers_of, problem_of
from postrich.errors import PostrichError

if TYPE_CHECKING:
    from litestar.types import ASGIApp, Receive, Scope, Send

_PATH = "/api/schedule"
#: Not plain: answers that are kept, and answers for pages of others.
_SPECIAL = (b"idempotency-key", b"origin", b"transfer-encoding")
_decode = msgspec.json.Decoder(SchedulePost).decode
_encode = msgspec.json.Encoder().encode


class Express:
    """Wraps the application."""

    def __init__(self, app: ASGIApp, desk: Desk) -> None:
        self._app = app
        self._desk = desk

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != ScopeType.HTTP or scope["path"] != _PATH or scope["method"] != "POST":
            await self._app(scope, receive, send)
            return
        headers = dict(scope["headers"])
        body = await self._plain_body(headers, receive)
        if body is None:
            await self._app(scope, receive, send)
            return
        try:
            data = _decode(body)
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            await self._app(scope, _again(body), send)
            return
        await _send(send, *await self._answer(scope, headers, body, data))

    async def _plain_body(self, headers: dict[bytes, bytes], receive: Receive) -> bytes | None:
        """The body, if it comes in one piece and nothing is special about the request."""
        length = headers.get(b"content-length", b"")
        if any(name in headers for name in _SPECIAL) or not length.isdigit():
            return None
        if not 0 < int(length) <= self._desk.settings.max_body:
            return None
        body: bytes = b""
        while True:
            message: Any = await receive()
            if message["type"] != "http.request":
                return b""  # who asked has left
            body += message["body"]
            if not message.get("more_body"):
                return body

    async def _answer(
        self, scope: Scope, headers: dict[bytes, bytes], body: bytes, data: SchedulePost
    ) -> tuple[int, list[tuple[bytes, bytes]], bytes]:
        desk = self._desk
        authorization = headers.get(b"authorization", b"").decode("latin-1")
        try:
            caller = await desk.reception.identify(
                authorization, "POST", url_of(scope, desk.settings), body
            )
            kept, answer = await keep_one(desk, caller, data)
        except PostrichError as error:
            problem = problem_of(error)
            extra = [(k.lower().encode(), v.encode()) for k, v in headers_of(error).items()]
            kind = [(b"content-type", MEDIA_TYPE.encode())]
            return problem.status, kind + extra, _encode(problem)
        named = [
            (b"content-type", b"application/json"),
            (b"location", location_of(kept.name).encode()),
        ]
        return 201 if kept.accepted.is_new else 200, named, _encode(answer)


def _again(body: bytes) -> Receive:
    """The body once more, for who reads it next."""
    messages: list[Any] = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> Any:
        return messages.pop() if messages else {"type": "http.disconnect"}

    return receive


async def _send(send: Send, status: int, headers: list[tuple[bytes, bytes]], body: bytes) -> None:
    length = (b"content-length", str(len(body)).encode())
    await send({"type": "http.response.start", "status": status, "headers": [*headers, length]})
    await send({"type": "http.response.body", "body": body, "more_body": False})
