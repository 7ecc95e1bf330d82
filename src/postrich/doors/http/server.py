"""The server: the application on a port, in the engine's own process and loop."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import uvicorn

from postrich.config import HttpSettings
from postrich.doors.http.app import build
from postrich.doors.http.desk import Desk
from postrich.errors import BadSetting, PostrichError
from postrich.outbox import Outbox

TOKEN_FILE = "http.token"  # noqa: S105 - a file's name
#: Streams of notices end with the server; whoever is slower is cut off.
PATIENCE = 3


def read_token(home: Path) -> str:
    """The owner's token, made at first need: a file that only the owner can read."""
    path = home / TOKEN_FILE
    with contextlib.suppress(FileExistsError):
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "w") as file:
            file.write(secrets.token_urlsafe(32))
    token = path.read_text("ascii").strip()
    if len(token) < 20:
        raise BadSetting(f"{path} holds no token: delete it, and a new one is made")
    return token


@contextlib.asynccontextmanager
async def serving(outbox: Outbox, settings: HttpSettings, token: str) -> AsyncIterator[str]:
    """Serve as long as the context lasts; yields the address."""
    listener = _listen(settings)
    port = listener.getsockname()[1]
    host = settings.listen.rpartition(":")[0]
    bound = msgspec.structs.replace(settings, listen=f"{host}:{port}")
    server = _Server(
        uvicorn.Config(
            build(Desk(outbox, bound, token)),
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            lifespan="on",
            timeout_graceful_shutdown=PATIENCE,
        )
    )
    running = asyncio.create_task(server.serve([listener]), name="http")
    try:
        await server.is_up.wait()
        yield bound.public_url or f"http://{host}:{port}"
    finally:
        server.should_exit = True
        await asyncio.gather(running, return_exceptions=True)
        listener.close()


class _Server(uvicorn.Server):
    """Leaves signals to the command that runs it."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.is_up = asyncio.Event()

    @contextlib.contextmanager
    def capture_signals(self):  # type: ignore[no-untyped-def]
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.is_up.set()


def _listen(settings: HttpSettings) -> socket.socket:
    host, port = settings.host, settings.port
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, protocol)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(1024)
    except OSError as problem:
        raise PostrichError(
            f"cannot listen on {settings.listen}: {problem.strerror or problem}; choose another"
            " with http.listen or --listen"
        ) from None
    listener.setblocking(False)
    return listener
