"""A small world for routing: an index relay, relays of people, and lists that lead to them."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web
from websockets.sync.client import connect

from tests.doors.shell import Shell
from tests.relays import RelayProcess
from tests.relays.events import Event, make_event, public_key
from tests.relays.process import free_port

Tags = Sequence[Sequence[str]]


def put(url: str, events: Iterable[Event]) -> None:
    """Store events at a relay by hand."""
    with connect(url) as socket:
        held = list(events)
        for event in held:
            socket.send(json.dumps(["EVENT", event]))
        for _ in held:
            answer = json.loads(socket.recv())
            assert answer[2], answer


@dataclass
class Person:
    """Somebody with a key, who publishes lists at the index relay."""

    secret: bytes
    index: str
    pubkey: str = field(init=False)

    def __post_init__(self) -> None:
        self.pubkey = public_key(self.secret)

    def publish(self, kind: int, tags: Tags, content: str = "", at: int | None = None) -> Event:
        event = make_event(self.secret, kind, content, tags, at)
        put(self.index, [event])
        return event


def settle_in(shell: Shell, index: RelayProcess, *relays: str, secret: bytes | None = None) -> None:
    """A home of the shell whose index is this relay; strangers' lists may lead to loopback."""
    shell.variables["POSTRICH_INDEXERS"] = index.url
    if secret is not None:
        shell.variables["POSTRICH_NSEC"] = secret.hex()
    arguments: list[Any] = [part for url in relays for part in ("--relay", url)]
    assert shell.run("init", "--no-key", *arguments).code == 0
    file = shell.home / "postrich.toml"
    file.write_text("trust_lists = true\n" + file.read_text())


@asynccontextmanager
async def describing(document: dict[str, Any]) -> AsyncIterator[str]:
    """A relay that describes itself so (NIP-11), and does nothing else; yields its URL."""

    async def answer(_request: web.Request) -> web.StreamResponse:
        return web.json_response(document)

    app = web.Application()
    app.router.add_get("/", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    port = free_port()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    try:
        yield f"ws://127.0.0.1:{port}"
    finally:
        await runner.cleanup()
