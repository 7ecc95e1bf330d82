"""A relay's plug for the demo: a TCP door in front of a real relay that can be shut.

Pulled, it refuses connections and drops the open ones, as a dead machine would; put back, the
same relay with the same events is behind it.
"""

from __future__ import annotations

import asyncio
import contextlib

BLOCK = 65_536


class Plug:
    """Listens on a port of its own and passes bytes on to the relay's."""

    def __init__(self, relay_port: int) -> None:
        self._relay_port = relay_port
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self.port = 0

    @property
    def url(self) -> str:
        return f"ws://127.0.0.1:{self.port}/"

    async def put_in(self) -> None:
        """Let connections through; always at the same port."""
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def pull(self) -> None:
        """Refuse new connections, drop those that are open."""
        if self._server is not None:
            self._server.close()
            self._server = None
        for writer in list(self._open):
            writer.transport.abort()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._pass_on(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._relay_port)
        except OSError:
            writer.transport.abort()
            return
        self._open |= {writer, far_writer}
        try:
            await asyncio.gather(_carry(reader, far_writer), _carry(far_reader, writer))
        finally:
            self._open -= {writer, far_writer}
            writer.transport.abort()
            far_writer.transport.abort()


async def _carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Pass bytes on until one side has had enough; then end the other."""
    with contextlib.suppress(OSError):
        while block := await reader.read(BLOCK):
            writer.write(block)
            await writer.drain()
    writer.close()
