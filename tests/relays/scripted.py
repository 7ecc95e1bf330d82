"""A relay on loopback that follows a script, for faults real relays do not show on demand.

    async with ScriptedRelay(Sequence([refuse("rate-limited: slow down"), accept])) as relay:
        ...
        await relay.wait_events(2)

Behaviours are in `scripts`, whole conversations in `script`, handshakes in `handshakes`. Must
never pass over an error of a script: leaving the `async with` raises it.
"""

import asyncio
import json
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from tests.relays.conversation import Client, Ledger
from tests.relays.events import Event
from tests.relays.framing import read_request
from tests.relays.process import free_port
from tests.relays.script import Script
from tests.relays.scripts import Behaviour

WAIT_SECONDS = 5.0


class ScriptedRelay:
    """Give it a `Script`, or just the behaviour at an EVENT. Its port outlives `stop`."""

    def __init__(self, script: Script | Behaviour, *, port: int | None = None) -> None:
        self.script = script if isinstance(script, Script) else Script(script)
        self.port = port or free_port()
        self.url = f"ws://127.0.0.1:{self.port}"
        self.clients: list[Client] = []
        self._ledger = Ledger()
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._taken = 0

    @property
    def received(self) -> list[Any]:
        """Every frame, decoded; a text that is not JSON stays a string."""
        return self._ledger.received

    @property
    def events(self) -> list[Event]:
        """Every event sent to us, in order, repeats included."""
        return self._ledger.events

    @property
    def auths(self) -> list[Event]:
        return self._ledger.auths

    @property
    def stored(self) -> dict[str, Event]:
        """What a REQ would find, by id; tests may put events in."""
        return self._ledger.stored

    @property
    def connections(self) -> int:
        """TCP connections so far, failed handshakes included."""
        return self._ledger.connections

    @property
    def close_codes(self) -> list[int | None]:
        """The codes clients closed with, or echoed."""
        return self._ledger.close_codes

    async def start(self) -> None:
        """Listen; again on the same port after `stop`."""
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", self.port)

    async def stop(self) -> None:
        """Refuse new connections and reset the open ones, as a crash would."""
        if self._server is not None:
            self._server.close()
            self._server = None
        for client in list(self.clients):
            client.drop()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def wait_until(self, condition: Callable[[], bool], within: float = WAIT_SECONDS) -> None:
        """Return when the condition holds; asked after every frame and (dis)connection."""
        await self._ledger.until(condition, within)

    async def next_frame(self, within: float = WAIT_SECONDS) -> Any:
        """The oldest received frame this method has not returned yet."""
        await self.wait_until(lambda: len(self.received) > self._taken, within)
        self._taken += 1
        return self.received[self._taken - 1]

    async def wait_events(self, count: int, within: float = WAIT_SECONDS) -> list[Event]:
        """Wait for that many events in all; return them."""
        await self.wait_until(lambda: len(self.events) >= count, within)
        return self.events

    async def wait_connections(self, count: int, within: float = WAIT_SECONDS) -> None:
        await self.wait_until(lambda: self.connections >= count, within)

    async def wait_disconnected(self, within: float = WAIT_SECONDS) -> None:
        """Wait until no client is connected."""
        await self.wait_until(lambda: not self.clients, within)

    async def broadcast(self, *parts: object) -> None:
        """Say something unasked to everyone connected."""
        for client in list(self.clients):
            await client.send(*parts)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.stop()
        if self._ledger.errors:
            raise ExceptionGroup(f"script of {self.url} failed", self._ledger.errors)

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        client = Client(self._ledger, reader, writer)
        self._ledger.connections += 1
        self.clients.append(client)
        self._ledger.changed()
        task = asyncio.create_task(self._converse(client))
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    async def _converse(self, client: Client) -> None:
        try:
            await self._follow_script(client)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # the client left, or we dropped it
        finally:
            client.end()
            self.clients.remove(client)
            self._ledger.changed()

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._ledger.note_error(task)

    async def _follow_script(self, client: Client) -> None:
        request = await read_request(client.reader)
        if not await self.script.handshake(client, request):
            return
        await self.script.on_open(client)
        while (text := await client.next_text()) is not None:
            message = _decoded(text)
            client.record(message)
            await self.script.answer(client, message)


def _decoded(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text
