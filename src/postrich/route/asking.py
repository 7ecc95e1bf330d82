"""Asking many relays at once: one's own freely, strangers' seldom and never inside (C8, C11).

Promises: an answer from everybody who gave one in time; after the first that told all, the
others have a moment left. Signatures are not checked here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from postrich.clock import Clock
from postrich.config import Settings
from postrich.errors import InvalidEvent
from postrich.model.event import Event, is_signed, parse_event
from postrich.rules.dialling import DialBudget, Tier
from postrich.rules.trust import refuse_third_party
from postrich.wire.pool import Answer, Pool

SEARCH_WITHIN = 5.0
AFTER_FIRST = 2.0
FILTERS_PER_QUESTION = 5
QUESTIONS_AT_ONCE = 8

T = TypeVar("T")
Filters = Sequence[dict[str, Any]]
Key = TypeVar("Key")


class Asking:
    """Questions to relays. `dialling`: how many strangers' relays may be asked."""

    def __init__(self, settings: Settings, clock: Clock, dialling: DialBudget | None) -> None:
        self._clock = clock
        self._dialling = dialling or DialBudget()
        self._stranger = settings.guard(trusted=False)
        self._pool = Pool()
        #: The relays of the settings: those who know everybody's lists, and one's own.
        self.configured = tuple(dict.fromkeys((*(settings.indexers or ()), *settings.relays)))
        #: What its owner never wants dialled (D7).
        self.blocked: Callable[[], set[str]] = set

    async def close(self) -> None:
        await self._pool.close()

    async def ask_configured(self, filters: Filters) -> dict[str, Answer]:
        """The same question to every relay of the settings."""
        blocked = self.blocked()
        return await self._ask_all(
            {url: filters for url in self.configured if url not in blocked}, trusted=True
        )

    async def ask_strangers(self, questions: Mapping[str, Filters], most: int) -> dict[str, Answer]:
        """Relays that only others name: few, within the budget, none inside."""
        barred = {*self.configured, *self.blocked()}
        allowed = [url for url in questions if url not in barred and self._may_lead_to(url)]
        chosen = {url: questions[url] for url in allowed[:most] if self._may_dial(url)}
        return await self._ask_all(chosen, trusted=False)

    def _may_lead_to(self, url: str) -> bool:
        return self._stranger is None or not refuse_third_party(url, self._stranger)

    def _may_dial(self, url: str) -> bool:
        tick, chance = self._clock.tick(), self._clock.chance()
        return not self._dialling.ask(url, Tier.LOOKUP, tick, chance)

    async def _ask_all(
        self, questions: Mapping[str, Filters], *, trusted: bool
    ) -> dict[str, Answer]:
        tasks = {
            asyncio.create_task(self._ask(url, filters, trusted=trusted)): url
            for url, filters in questions.items()
        }
        waiting = set(tasks)
        deadline: float | None = None
        try:
            while waiting:
                left = None if deadline is None else max(0.0, deadline - self._clock.tick())
                done, waiting = await asyncio.wait(
                    waiting, timeout=left, return_when=asyncio.FIRST_COMPLETED
                )
                if not done:
                    break
                if deadline is None and any(task.result().complete for task in done):
                    deadline = self._clock.tick() + AFTER_FIRST
        finally:
            for task in waiting:
                task.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)
        return {url: task.result() for task, url in tasks.items() if task not in waiting}

    async def _ask(self, url: str, filters: Filters, *, trusted: bool) -> Answer:
        """Everything that one relay is asked, in questions of a size that relays take."""
        slots = asyncio.Semaphore(QUESTIONS_AT_ONCE)
        guard = None if trusted else self._stranger

        async def one(part: Filters) -> Answer:
            most = sum(wanted["limit"] for wanted in part)
            async with slots:
                return await self._pool.ask(url, part, within=SEARCH_WITHIN, guard=guard, most=most)

        parts = await asyncio.gather(*map(one, in_parts(filters, FILTERS_PER_QUESTION)))
        return Answer(
            [event for part in parts for event in part.events],
            all(part.complete for part in parts),
            next((part.trouble for part in parts if part.trouble), ""),
        )


def in_parts(items: Sequence[T], size: int) -> list[Sequence[T]]:
    return [items[at : at + size] for at in range(0, len(items), size)]


def newest_of(answers: Iterable[Answer], key_of: Callable[[Event], Key | None]) -> dict[Key, Event]:
    """The newest true event of each key; relays may send anything. No key: it was not asked for."""
    found: dict[Key, dict[str, Event]] = {}
    for fields in (fields for answer in answers for fields in answer.events):
        try:
            event = parse_event(msgspec.json.encode(fields))
        except (InvalidEvent, TypeError):
            continue
        key = key_of(event)
        if key is not None:
            found.setdefault(key, {})[event.id] = event
    newest: dict[Key, Event] = {}
    for key, events in found.items():
        ordered = sorted(events.values(), key=lambda e: (-e.created_at, e.id))
        true = next(filter(is_signed, ordered), None)
        if true is not None:
            newest[key] = true
    return newest
