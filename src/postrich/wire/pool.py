"""Asking relays: a socket per relay, opened when there is a question, closed when there is none.

Promises: an answer comes within its time, whatever the relay does; it says whether the relay
had told all; what a relay sends beyond the bound is not read. Signatures are not checked here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from postrich.rules.redact import redact
from postrich.rules.replies import fault_of
from postrich.rules.session import Session
from postrich.rules.trust import DialPolicy
from postrich.wire.connection import Connection

IDLE = 15.0
CONNECT_WITHIN = 5.0
MOST_EVENTS = 1000
MOST_BYTES = 8 * 1024 * 1024


class Answer(msgspec.Struct):
    """What one relay said to one question. Complete: it said that this is all (EOSE)."""

    events: list[dict[str, Any]] = []
    complete: bool = False
    trouble: str = ""


class Pool:
    """The sockets by relay."""

    def __init__(self) -> None:
        self._askers: dict[str, _Asker] = {}
        self._leaving: set[asyncio.Task[None]] = set()

    async def ask(
        self,
        url: str,
        filters: Sequence[dict[str, Any]],
        *,
        within: float,
        guard: DialPolicy | None = None,
        most: int = MOST_EVENTS,
    ) -> Answer:
        """One question to one relay; trouble is part of the answer, never an exception."""
        asker = self._askers.get(url)
        if asker is None:
            asker = self._askers[url] = _Asker(url, guard, self._on_idle)
        return await asker.ask(filters, within, most)

    async def close(self) -> None:
        for asker in list(self._askers.values()):
            await asker.close()
        self._askers.clear()
        await asyncio.gather(*self._leaving)

    def _on_idle(self, asker: _Asker) -> None:
        """No question for a while: who asks now gets a new socket."""
        del self._askers[asker.url]
        task = asyncio.get_running_loop().create_task(asker.close())
        self._leaving.add(task)
        task.add_done_callback(self._leaving.discard)


class _Question:
    def __init__(self, most: int) -> None:
        self.answer = Answer(events=[])
        self.done = asyncio.Event()
        self._room = most
        self._bytes_left = MOST_BYTES

    def take(self, event: dict[str, Any]) -> None:
        """An event came; one more than there is room for ends the question."""
        self._room -= 1
        self._bytes_left -= len(msgspec.json.encode(event))
        if self._room < 0 or self._bytes_left < 0:
            self.end("it would not stop")
        else:
            self.answer.events.append(event)

    def end(self, trouble: str = "") -> None:
        """What comes after the end of an answer changes nothing of it."""
        if not self.done.is_set():
            self.answer.trouble = trouble
            self.answer.complete = not trouble
            self.done.set()


class _Asker:
    """One relay and the questions that are open there."""

    def __init__(
        self, url: str, guard: DialPolicy | None, on_idle: Callable[[_Asker], None]
    ) -> None:
        self.url = url
        self._guard = guard
        self._on_idle = on_idle
        self._link: Connection | None = None
        self._dialling = asyncio.Lock()
        self._questions: dict[str, _Question] = {}
        self._asked = 0
        self._idle: asyncio.TimerHandle | None = None

    async def ask(self, filters: Sequence[dict[str, Any]], within: float, most: int) -> Answer:
        question = _Question(most)
        self._asked += 1
        name = f"postrich-ask-{self._asked}"
        self._questions[name] = question
        self._rest(None)
        try:
            async with asyncio.timeout(within):
                link = await self._connect()
                link.session.subscribe(name, *filters)
                link.flush()
                await question.done.wait()
        except TimeoutError:
            question.end("no answer in time")
        except Exception as problem:  # noqa: BLE001 - every fault of dialling is the relay's
            question.end(redact(fault_of(problem).text))
        finally:
            self._end(name)
        return question.answer

    async def _connect(self) -> Connection:
        async with self._dialling:
            if self._link is None or not self._link.is_open:
                session = Session(self.url, CONNECT_WITHIN)
                self._link = await Connection.dial(
                    session, self._on_progress, None, CONNECT_WITHIN, guard=self._guard
                )
            return self._link

    def _end(self, name: str) -> None:
        del self._questions[name]
        link = self._link
        if link is not None and link.is_open:
            frame = link.session.subscriptions.close(name)
            if frame is not None:
                link.session.outgoing.append(frame)
                link.flush()
        if not self._questions:
            self._rest(IDLE)

    def _rest(self, after: float | None) -> None:
        if self._idle is not None:
            self._idle.cancel()
        loop = asyncio.get_running_loop()
        self._idle = None if after is None else loop.call_later(after, self._on_idle, self)

    async def close(self) -> None:
        self._rest(None)
        for question in self._questions.values():
            question.end("closed")
        link, self._link = self._link, None
        if link is not None:
            await link.close()

    def _on_progress(self, link: Connection) -> None:
        asked = link.session.subscriptions
        news, asked.news = asked.news, []
        for name, event in news:
            question = self._questions.get(name)
            if question is not None and not question.done.is_set():
                question.take(event)
        for name, question in self._questions.items():
            if name in asked.told:
                question.end()
            elif name in asked.closed:
                question.end(redact(asked.closed[name]) or "the relay would not say")
            elif not link.is_open:
                question.end(link.session.last_words or "connection closed")
