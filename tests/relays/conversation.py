"""One client's connection to a scripted relay, and the ledger all connections write to.

Promises that a frame is in the ledger before any script answers it. Knows how to say anything,
decides nothing: what to say is the scripts' business.
"""

import asyncio
import contextlib
import itertools
import json
import socket
import struct
from collections.abc import Callable, Coroutine, Iterable, Iterator
from typing import Any, TypeVar

from tests.relays.events import Event
from tests.relays.framing import Frame, Opcode, frame_bytes, read_message

Step = TypeVar("Step")

ABORT_ON_CLOSE = struct.pack("ii", 1, 0)


class Ledger:
    """What a scripted relay has seen and holds, over all its connections and restarts."""

    def __init__(self) -> None:
        self.received: list[Any] = []
        self.events: list[Event] = []
        self.auths: list[Event] = []
        self.stored: dict[str, Event] = {}
        self.close_codes: list[int | None] = []
        self.connections = 0
        self.errors: list[Exception] = []
        self._changed = asyncio.Event()

    def changed(self) -> None:
        """Wake everyone in `until`."""
        self._changed.set()
        self._changed = asyncio.Event()

    async def until(self, condition: Callable[[], bool], within: float) -> None:
        """Return when the condition holds; it is asked again after every change."""
        try:
            async with asyncio.timeout(within):
                while not condition():
                    await self._changed.wait()
        except TimeoutError:
            raise TimeoutError(f"not within {within} s; seen so far: {self}") from None

    def note_error(self, task: asyncio.Task[None]) -> None:
        """Keep what a finished task raised, if anything."""
        if not task.cancelled() and isinstance(error := task.exception(), Exception):
            self.errors.append(error)

    def __str__(self) -> str:
        frames = ", ".join(str(frame)[:60] for frame in self.received[-10:])
        return f"{self.connections} connections, {len(self.received)} frames: {frames}"


class Client:
    """A connected client, as a script sees it."""

    def __init__(
        self, ledger: Ledger, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.ledger = ledger
        self.number = ledger.connections
        self.events: list[Event] = []
        self.auths: list[Event] = []
        self.reader = reader
        self._writer = writer
        self._tasks: set[asyncio.Task[None]] = set()
        self._closing = False

    async def send(self, *parts: object) -> None:
        """Send a relay message, such as `send("NOTICE", "hello")`."""
        await self.send_text(json.dumps(parts))

    async def send_text(self, text: str | bytes) -> None:
        """Send a text frame; bytes need not be UTF-8."""
        payload = text.encode() if isinstance(text, str) else text
        await self.send_frame(Frame(Opcode.TEXT, payload))

    async def send_frame(self, frame: Frame) -> None:
        await self.write(frame_bytes(frame))

    async def write(self, data: bytes) -> None:
        """Put bytes on the TCP connection as they are."""
        self._writer.write(data)
        await self._writer.drain()

    async def close(self, code: int = 1000, reason: str = "") -> None:
        """Start the closing handshake; a reason over 123 bytes breaks the protocol."""
        if not self._closing:
            self._closing = True
            payload = code.to_bytes(2, "big") + reason.encode()
            await self.send_frame(Frame(Opcode.CLOSE, payload))

    def drop(self, *, reset: bool = True) -> None:
        """End the TCP connection without a WebSocket close, by RST or else by FIN."""
        self._closing = True
        if reset:
            connection = self._writer.get_extra_info("socket")
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, ABORT_ON_CLOSE)
            self._writer.transport.abort()
        else:
            self._writer.close()

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Say something later, while the connection goes on."""
        task = asyncio.create_task(_unless_gone(work))
        self._tasks.add(task)
        task.add_done_callback(self._finished)

    async def next_text(self) -> str | None:
        """The next text of the client; None once it, or we, closed. Answers pings."""
        while True:
            frame = await read_message(self.reader)
            if frame.opcode == Opcode.CLOSE:
                await self._closed(frame.payload)
                return None
            if frame.opcode == Opcode.PING:
                await self.send_frame(Frame(Opcode.PONG, frame.payload))
            elif frame.opcode == Opcode.TEXT and not self._closing:
                return frame.payload.decode()

    def record(self, message: Any) -> None:
        """Enter a decoded frame into the ledger."""
        self.ledger.received.append(message)
        match message:
            case ["EVENT", dict() as event, *_]:
                self.events.append(event)
                self.ledger.events.append(event)
            case ["AUTH", dict() as event, *_]:
                self.auths.append(event)
                self.ledger.auths.append(event)
        self.ledger.changed()

    def end(self) -> None:
        """Let go of the connection and of everything still to be said on it."""
        for task in self._tasks:
            task.cancel()
        self._writer.close()

    async def _closed(self, payload: bytes) -> None:
        code = int.from_bytes(payload[:2], "big") if payload else None
        self.ledger.close_codes.append(code)
        await self.close(code or 1000)

    def _finished(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self.ledger.note_error(task)


def repeat_last(steps: Iterable[Step]) -> Iterator[Step]:
    """The steps in order, then the last one for ever: how scripts go on."""
    known = list(steps)
    return itertools.chain(known, itertools.repeat(known[-1]))


async def _unless_gone(work: Coroutine[Any, Any, None]) -> None:
    with contextlib.suppress(ConnectionError):
        await work
