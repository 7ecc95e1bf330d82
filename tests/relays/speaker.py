"""The plain client the relays' own tests talk with: the `websockets` library and JSON.

Promises nothing clever: says a frame, hears a frame, gives up after some seconds.
"""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from websockets.asyncio.client import ClientConnection, connect

from tests.relays.events import Event, make_event

ALICE = b"\x01" * 32
BOB = b"\x02" * 32
SECONDS = 5.0


class Speaker:
    """A plain client: says frames, hears frames."""

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket

    async def say(self, *parts: object) -> None:
        await self.socket.send(json.dumps(parts))

    async def hear(self) -> Any:
        async with asyncio.timeout(SECONDS):
            return json.loads(await self.socket.recv())

    async def publish(self, event: Event) -> Any:
        """Say an EVENT, return the next frame heard."""
        await self.say("EVENT", event)
        return await self.hear()


@asynccontextmanager
async def speaker(url: str) -> AsyncIterator[Speaker]:
    async with connect(url, max_size=None, open_timeout=SECONDS) as socket:
        yield Speaker(socket)


async def publish(url: str, event: Event) -> Any:
    async with speaker(url) as client:
        return await client.publish(event)


def notes(count: int, created_at: int | None = None) -> list[Event]:
    return [make_event(ALICE, content=str(n), created_at=created_at) for n in range(count)]
