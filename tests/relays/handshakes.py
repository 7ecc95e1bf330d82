"""How a scripted relay meets a new connection: by the book, or not.

A handshake returns whether the connection is now a WebSocket. Several can follow each other:
`handshakes_in_turn(http_status(503), upgrade)`.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from tests.relays.conversation import Client, repeat_last
from tests.relays.framing import Request, http_response, upgrade_response

Handshake = Callable[[Client, Request], Awaitable[bool]]


async def upgrade(client: Client, request: Request) -> bool:
    """As every relay does; a plain GET is told 426."""
    if not request.is_upgrade:
        await client.write(http_response(426, {}, b""))
        return False
    await client.write(upgrade_response(request))
    return True


async def never_answer(client: Client, request: Request) -> bool:
    """TCP is accepted, then nothing until the client leaves."""
    await client.reader.read()
    return False


async def hang_up(client: Client, request: Request) -> bool:
    """TCP is accepted, then reset."""
    client.drop()
    return False


async def hang_up_politely(client: Client, request: Request) -> bool:
    """TCP is accepted, then ended by FIN without a word."""
    return False


async def wrong_key(client: Client, request: Request) -> bool:
    """101, but with a Sec-WebSocket-Accept that answers another key."""
    headers = {**request.headers, "sec-websocket-key": "AAAAAAAAAAAAAAAAAAAAAA=="}
    await client.write(upgrade_response(Request(request.path, headers)))
    return True


def http_status(status: int, headers: Mapping[str, str] | None = None, body: str = "") -> Handshake:
    """Refuse the upgrade, such as 403, 429 (with Retry-After) or 503."""

    async def refuse(client: Client, request: Request) -> bool:
        await client.write(http_response(status, dict(headers or {}), body.encode()))
        return False

    return refuse


def handshakes_in_turn(*handshakes: Handshake) -> Handshake:
    """The first for the first connection, and so on; the last for ever."""
    steps = repeat_last(handshakes)

    async def act(client: Client, request: Request) -> bool:
        return await next(steps)(client, request)

    return act


def slow(seconds: float, then: Handshake = upgrade) -> Handshake:
    """Answer the handshake after a pause."""

    async def wait(client: Client, request: Request) -> bool:
        await asyncio.sleep(seconds)
        return await then(client, request)

    return wait


def informing(document: Any, then: Handshake = upgrade) -> Handshake:
    """Answer a plain GET with a NIP-11 document, which need not be a sensible one."""
    headers = {"Content-Type": "application/nostr+json", "Access-Control-Allow-Origin": "*"}
    body = document if isinstance(document, str) else json.dumps(document)

    async def inform(client: Client, request: Request) -> bool:
        if request.is_upgrade:
            return await then(client, request)
        await client.write(http_response(200, headers, body.encode()))
        return False

    return inform
