"""A running service: a real outbox and engine behind a real port, and callers to ask it."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Self

import aiohttp
import pytest

from postrich import Outbox
from postrich.config import HttpSettings
from postrich.doors.http.server import serving
from tests.deliver.outboxes import outbox_at
from tests.doors.http.clients import Client
from tests.relays.process import free_port
from tests.relays.scripted import ScriptedRelay
from tests.relays.scripts import accept

TOKEN = "a token for tests only, long enough"


class Service:
    """The service and who may call it."""

    def __init__(
        self,
        outbox: Outbox,
        base: str,
        port: int,
        session: aiohttp.ClientSession,
        relay: ScriptedRelay,
    ) -> None:
        self.outbox = outbox
        self.name = base
        self.base = base = f"http://127.0.0.1:{port}"
        self.session = session
        self.relay = relay
        self.owner = Client(session, base, token=TOKEN)
        self.nobody = Client(session, base)

    def somebody(self, secret: bytes | None = None) -> Client:
        """A caller with a key."""
        return Client(self.session, self.base, secret or os.urandom(32))

    @classmethod
    @asynccontextmanager
    async def at(
        cls, folder: Path, relay: ScriptedRelay, http: dict[str, Any], **settings: Any
    ) -> AsyncIterator[Self]:
        free = free_port()
        listen = f"127.0.0.1:{free}"
        chosen = HttpSettings(
            **{
                "listen": listen,
                "public_url": f"http://{listen}",
                "rate": 1000.0,
                "burst": 10_000,
                **http,
            }
        )
        async with (
            outbox_at(folder, relay, **settings) as outbox,
            serving(outbox, chosen, TOKEN) as address,
            aiohttp.ClientSession() as session,
        ):
            yield cls(outbox, address, free, session, relay)


Opener = Callable[..., Any]


@pytest.fixture
async def relay() -> AsyncIterator[ScriptedRelay]:
    async with ScriptedRelay(accept) as relay:
        yield relay


@pytest.fixture
def open_service(tmp_path: Path, relay: ScriptedRelay) -> Opener:
    """Opens the same home's service again and again; keywords are HTTP settings."""

    def open_it(settings: dict[str, Any] | None = None, **http: Any) -> Any:
        return Service.at(tmp_path, relay, http, **(settings or {}))

    return open_it


@pytest.fixture
async def service(open_service: Opener) -> AsyncIterator[Service]:
    async with open_service() as service:
        yield service


@pytest.fixture
def alice(service: Service) -> Client:
    return service.somebody()


@pytest.fixture
def bob(service: Service) -> Client:
    return service.somebody()
