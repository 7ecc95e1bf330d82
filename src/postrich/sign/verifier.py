"""Signature checks at full speed beside a busy event loop.

A check costs 50 µs and a thread that does it must win the interpreter's lock back each time,
which a busy loop does not give (measured: 160 checks/s). So bulk goes to helper processes,
which are told only public keys, ids and signatures; a few checks at a time are done on the spot.
Few come from each of many callers at once: what is asked within one turn of the loop goes together.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Sequence

from postrich.model.event import Event, check_signature, is_signed
from postrich.sign.helpers import start_helper

BULK = 24
#: Of what many callers ask within one turn of the loop, less is checked on the spot.
TOGETHER = 6
RECORD = 128
_PROGRAM = "from postrich.sign.verifier import serve; serve()"


class Verifier:
    """Checks signatures of many events at once; one answer per event."""

    def __init__(self, processes: int | None = None) -> None:
        self._size = processes or max(1, (os.cpu_count() or 2) - 1)
        self._helpers: list[_Helper] = []
        self._starting = asyncio.Lock()
        self._next = 0
        self._few: list[tuple[Event, asyncio.Future[bool]]] = []
        self._callers = 0
        self._tasks: set[asyncio.Task[None]] = set()

    async def check(self, events: Sequence[Event]) -> list[bool]:
        """Whether each event carries its author's signature."""
        if len(events) >= BULK:
            return await self._check_in_bulk(events)
        self._callers += bool(events)
        return [await answer for answer in [self._ask(event) for event in events]]

    def _ask(self, event: Event) -> asyncio.Future[bool]:
        loop = asyncio.get_running_loop()
        if not self._few:
            loop.call_soon(self._flush)
        future: asyncio.Future[bool] = loop.create_future()
        self._few.append((event, future))
        return future

    def _flush(self) -> None:
        """Check what was asked in this turn: on the spot, or by a helper if that is worth it."""
        few, self._few = self._few, []
        callers, self._callers = self._callers, 0
        if callers < 2 or len(few) < TOGETHER:
            for event, future in few:
                _tell(future, is_signed(event))
            return
        task = asyncio.get_running_loop().create_task(self._check_together(few))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _check_together(self, few: list[tuple[Event, asyncio.Future[bool]]]) -> None:
        try:
            answers = await self._check_in_bulk([event for event, _ in few])
        except OSError:  # no helper can be started
            answers = [is_signed(event) for event, _ in few]
        for (_, future), answer in zip(few, answers, strict=True):
            _tell(future, answer)

    async def _check_in_bulk(self, events: Sequence[Event]) -> list[bool]:
        helper = await self._helper()
        records = bytes.fromhex("".join(e.pubkey + e.id + e.sig for e in events))
        answer = await helper.ask(records)
        if answer is None:  # it died: check here, start anew later
            if helper in self._helpers:
                self._helpers.remove(helper)
            await helper.close()
            return [is_signed(event) for event in events]
        return [byte == 1 for byte in answer]

    async def _helper(self) -> _Helper:
        async with self._starting:
            if len(self._helpers) < self._size:
                self._helpers.append(await _Helper.start())
        self._next += 1
        return self._helpers[self._next % len(self._helpers)]

    async def close(self) -> None:
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for helper in self._helpers:
            await helper.close()
        self._helpers.clear()


def _tell(future: asyncio.Future[bool], answer: bool) -> None:
    if not future.done():  # else who asked was cancelled meanwhile
        future.set_result(answer)


class _Helper:
    """A process that answers requests in their order: length, records → one byte each."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._writing = asyncio.Lock()
        self._reading = asyncio.Lock()

    @classmethod
    async def start(cls) -> _Helper:
        return cls(await start_helper(_PROGRAM))

    async def ask(self, records: bytes) -> bytes | None:
        """One byte per record, or None where the process has died.

        Who is cancelled meanwhile leaves the reading to the shielded half: an answer that
        stayed in the pipe would be taken for the next one's.
        """
        return await asyncio.shield(asyncio.ensure_future(self._ask(records)))

    async def _ask(self, records: bytes) -> bytes | None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            async with self._writing:  # locks are fair: answers are read in the order of asking
                self._process.stdin.write(len(records).to_bytes(4, "big") + records)
                await self._process.stdin.drain()
            async with self._reading:
                return await self._process.stdout.readexactly(len(records) // RECORD)
        except (OSError, RuntimeError, asyncio.IncompleteReadError):  # RuntimeError: uvloop
            return None

    async def close(self) -> None:
        if self._process.stdin is not None:
            self._process.stdin.close()
        await self._process.wait()


def serve() -> None:
    """The helper's whole life: read records from stdin, answer on stdout, end with stdin."""
    source, sink = sys.stdin.buffer, sys.stdout.buffer
    while head := source.read(4):
        records = source.read(int.from_bytes(head, "big"))
        sink.write(
            bytes(
                check_signature(
                    records[at : at + 32], records[at + 32 : at + 64], records[at + 64 : at + 128]
                )
                for at in range(0, len(records), RECORD)
            )
        )
        sink.flush()
