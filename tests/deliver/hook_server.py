"""A web server that is told by hooks: it checks every signature with the standard's own library."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Any, NamedTuple, Self

from aiohttp import web
from standardwebhooks import Webhook

from tests.relays.process import free_port

PATIENCE = 30.0
Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Told(NamedTuple):
    """One request as it came, its signature not yet checked."""

    id: str
    type: str
    job: int | None
    body: bytes
    headers: dict[str, str]
    path: str

    @property
    def data(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.body)["data"]
        return found

    def check(self, secret: str) -> None:
        """Raises unless the secret's owner made it, just now."""
        Webhook(secret).verify(self.body, self.headers)


async def take(_: web.Request) -> web.StreamResponse:
    return web.Response(status=204)


def status(number: int, **headers: str) -> Answer:
    async def answer(_: web.Request) -> web.StreamResponse:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return web.Response(status=number, headers=named)

    return answer


class HookServer:
    """Give it what it answers: always the same, or by path in `answers`. Its port outlives it."""

    def __init__(
        self,
        answer: Answer = take,
        *,
        port: int | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.answer = answer
        self.tls = tls
        self.answers: dict[str, Answer] = {}
        self.port = port or free_port()
        self.url = f"http://127.0.0.1:{self.port}/"
        self.told: list[Told] = []
        self.leave = asyncio.Event()
        self._changed = asyncio.Condition()
        self._runner: web.AppRunner | None = None

    async def __aenter__(self) -> Self:
        app = web.Application()
        app.router.add_route("*", "/{tail:.*}", self._serve)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self.port, ssl_context=self.tls).start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.leave.set()
        assert self._runner is not None
        await self._runner.cleanup()

    async def hang(self, _: web.Request) -> web.StreamResponse:
        """Answer nothing for as long as the server is there."""
        await self.leave.wait()
        return web.Response(status=204)

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        said: dict[str, Any] = json.loads(body)
        name = request.headers.get("webhook-id", "")
        job = said["data"].get("job")
        self.told.append(Told(name, said["type"], job, body, dict(request.headers), request.path))
        async with self._changed:
            self._changed.notify_all()
        return await self.answers.get(request.path, self.answer)(request)

    async def wait(self, count: int) -> list[Told]:
        """Until it was told so much."""
        async with asyncio.timeout(PATIENCE), self._changed:
            await self._changed.wait_for(lambda: len(self.told) >= count)
        return self.told

    def kinds(self, job: int) -> list[str]:
        return [told.type for told in self.told if told.job == job]
