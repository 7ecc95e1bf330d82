"""Finding what an event answers, if that names relays of its own: repositories and polls (D9).

Promises: only a truly signed event counts; few relays are asked, none inside our own networks
on a stranger's word; what was found is remembered. Never raises for what relays do.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

from postrich.clock import Clock
from postrich.model.event import Event, tag_value
from postrich.route.asking import Asking, newest_of
from postrich.rules.references import Reference, relays_named

FOUND_FOR_MS = 6 * 3_600_000
NONE_FOR_MS = 600_000
UNKNOWN_FOR_MS = 10_000
MAX_REMEMBERED = 10_000
MAX_ASKED = 8

Relays = tuple[str, ...]


class References:
    """What is known of repositories and polls."""

    def __init__(self, asking: Asking, clock: Clock) -> None:
        self._asking = asking
        self._clock = clock
        self._known: dict[Reference, tuple[int, Relays | None]] = {}
        self._searching: dict[Reference, asyncio.Task[Relays | None]] = {}

    async def find(self, reference: Reference, places: Iterable[str]) -> Relays | None:
        """The relays that it names; None where nobody who was asked could say."""
        until, known = self._known.get(reference, (0, None))
        if self._clock.now() < until:
            return known
        search = self._searching.get(reference)
        if search is None:
            urls = dict.fromkeys((*reference.hints, *places))
            search = asyncio.get_running_loop().create_task(self._search(reference, urls))
            self._searching[reference] = search
            search.add_done_callback(lambda _task: self._searching.pop(reference))
        return await asyncio.shield(search)

    async def _search(self, reference: Reference, urls: Iterable[str]) -> Relays | None:
        filters = [_filter(reference)]
        mine, others = await asyncio.gather(
            self._asking.ask_configured(filters),
            self._asking.ask_strangers(dict.fromkeys(urls, filters), MAX_ASKED),
        )
        answers = [*mine.values(), *others.values()]
        event = newest_of(answers, lambda e: _is_meant(reference, e) or None).get(True)
        if event is not None:
            found, lasts = relays_named(reference, event.tags), FOUND_FOR_MS
        elif any(answer.complete for answer in answers):
            found, lasts = (), NONE_FOR_MS
        else:
            return self._keep(reference, None, UNKNOWN_FOR_MS)
        return self._keep(reference, found, lasts)

    def _keep(self, reference: Reference, found: Relays | None, lasts: int) -> Relays | None:
        self._known.pop(reference, None)
        self._known[reference] = (self._clock.now() + lasts, found)
        if len(self._known) > MAX_REMEMBERED:
            del self._known[next(iter(self._known))]
        return found

    async def close(self) -> None:
        for task in list(self._searching.values()):
            task.cancel()
        await asyncio.gather(*self._searching.values(), return_exceptions=True)


def _filter(reference: Reference) -> dict[str, Any]:
    if reference.event_id:
        return {"ids": [reference.event_id], "kinds": [reference.kind], "limit": 1}
    return {
        "kinds": [reference.kind],
        "authors": [reference.pubkey],
        "#d": [reference.name],
        "limit": 2,
    }


def _is_meant(reference: Reference, event: Event) -> bool:
    if event.kind != reference.kind:
        return False
    if reference.event_id:
        return event.id == reference.event_id
    return event.pubkey == reference.pubkey and (tag_value(event.tags, "d") or "") == reference.name
