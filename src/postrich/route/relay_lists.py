"""Finding people's relay lists (D1): remembered, kept in the store, looked for on the network.

Promises: only a truly signed list of the right person counts, and only a newer one replaces
another; *none published* is said only when somebody who should know was asked and had none;
many searches share their questions. Never raises for what relays do.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from postrich.clock import Clock
from postrich.config import Settings
from postrich.errors import PostrichError
from postrich.model.event import Event, parse_event
from postrich.route.asking import Asking, in_parts, newest_of
from postrich.route.names import Names
from postrich.route.nip05 import Nip05
from postrich.rules.dialling import DialBudget
from postrich.rules.relay_lists import (
    BLOCKED,
    KINDS,
    MESSAGES,
    RELAYS,
    UNKNOWN,
    Lookup,
    RelayList,
    Status,
    parse_list,
    replaces,
)
from postrich.rules.routing import Key
from postrich.store.port import KeptList, Store
from postrich.wire.pool import Answer

log = logging.getLogger("postrich.route")

GATHER = 0.02
AUTHORS_PER_FILTER = 100
#: As many as most relays give for one filter; what lies beyond would be kept from us unsaid.
MOST_PER_FILTER = 500
MAX_HINTS = 3
MAX_HINTED = 8
FOUND_FOR_MS = 6 * 3_600_000
NONE_FOR_MS = 3_600_000
UNKNOWN_FOR_MS = 10_000
MAX_REMEMBERED = 50_000


class Sighting(msgspec.Struct, frozen=True):
    """A lookup, when it was made, and the event it is from.

    `failed_at`: when somebody looked again and could not.
    """

    lookup: Lookup
    at: int
    event: Event | None = None
    failed_at: int = -1


class _Search:
    """Whose lists are looked for together, and where people say that they are found."""

    def __init__(self) -> None:
        self.keys: list[Key] = []
        self.hints: dict[str, set[str]] = {}


class RelayLists:
    """What is known of everybody's lists. `dialling`: how many relays of hints may be asked."""

    def __init__(
        self, store: Store, settings: Settings, clock: Clock, dialling: DialBudget | None = None
    ) -> None:
        self._store = store
        self._settings = settings
        self._can_say = settings.indexers or settings.relays
        self._clock = clock
        self._asking = Asking(settings, clock, dialling)
        self._asking.blocked = self._blocked
        self._names = Names(self._asking, Nip05(settings, clock))
        self._known: dict[Key, Sighting] = {}
        self._wanted: dict[Key, asyncio.Future[None]] = {}
        self._gathering: _Search | None = None
        self._doubted_at = -1
        self._searching: set[asyncio.Task[None]] = set()
        self.on_changed: Callable[[], None] = lambda: None
        #: What an account hides in its own list, if its key is at hand.
        self.hidden_tags: Callable[[Event], Sequence[Sequence[str]]] = lambda _event: ()

    async def close(self) -> None:
        for task in self._searching:
            task.cancel()
        await asyncio.gather(*self._searching, return_exceptions=True)
        await self._asking.close()

    # -- asking ------------------------------------------------------------------------------

    def remembered(self, keys: Iterable[Key]) -> dict[Key, Lookup] | None:
        """All of these lists, if every one is known and fresh; at once."""
        now = self._clock.now()
        found: dict[Key, Lookup] = {}
        for key in keys:
            memory = self._known.get(key)
            if memory is None or not self._is_fresh(memory, now):
                return None
            found[key] = memory.lookup
        return found

    async def find(
        self,
        keys: Iterable[Key],
        hints: Mapping[str, Sequence[str]] | None = None,
        *,
        refresh: bool = False,
    ) -> dict[Key, Lookup]:
        """These lists, fresh: from memory, the store, or (with `refresh` always) the network."""
        wanted = list(dict.fromkeys(keys))
        await self._recall([key for key in wanted if key not in self._known])
        now = self._clock.now()
        stale = [key for key in wanted if refresh or not self._is_fresh(self._known.get(key), now)]
        if stale:
            await self._search_for(stale, hints or {})
        return {key: self._known[key].lookup if key in self._known else UNKNOWN for key in wanted}

    async def recall(self, keys: Iterable[Key]) -> dict[Key, Sighting]:
        """What is known of these lists, however old; asks nobody."""
        wanted = list(dict.fromkeys(keys))
        await self._recall([key for key in wanted if key not in self._known])
        return {key: self._known[key] for key in wanted if key in self._known}

    def kept_event(self, key: Key) -> Event | None:
        """The signed list itself, if it is remembered."""
        memory = self._known.get(key)
        return memory.event if memory is not None else None

    def names(self, pubkey: str, url: str) -> bool:
        """Whether a relay is on somebody's own list."""
        memory = self._known.get((pubkey, RELAYS))
        found = memory.lookup.found if memory is not None else None
        return found is not None and url in found.relays

    @property
    def asking(self) -> Asking:
        """How relays are asked; others who look for events share its sockets and budget."""
        return self._asking

    def doubt(self) -> None:
        """A person wants another look: what was not found may be there by now (B6)."""
        self._doubted_at = self._clock.now()

    def _is_fresh(self, memory: Sighting | None, now: int) -> bool:
        if memory is None:
            return False
        status = memory.lookup.status
        if status is not Status.FOUND and memory.at <= self._doubted_at:
            return False
        lasts = {
            Status.FOUND: FOUND_FOR_MS,
            Status.NONE: NONE_FOR_MS,
            Status.UNKNOWN: UNKNOWN_FOR_MS,
        }
        if memory.failed_at > self._doubted_at and 0 <= now - memory.failed_at < UNKNOWN_FOR_MS:
            return True  # the best there is; to look again at once would come to the same
        return 0 <= now - memory.at < lasts[status]

    async def learn(self, event: Event) -> None:
        """A list was met, whose signature was checked: of two the newer one counts."""
        if event.kind not in KINDS:
            return
        key = (event.pubkey, event.kind)
        try:
            await self._recall([key] if key not in self._known else [])
            former = self._known.get(key)
            looked_at = former.at if former is not None else 0  # to meet one is not to look
            await self._keep({key: self._memory_of(event, looked_at)})
        except PostrichError as problem:
            log.error("a relay list was not kept: %s", problem)

    def read_again(self, pubkey: str) -> None:
        """A key came, which may open the hidden parts of its account's lists."""
        mine = [(key, seen) for key, seen in self._known.items() if key[0] == pubkey]
        for key, seen in mine:
            if seen.event is not None:
                again = self._memory_of(seen.event, seen.at, seen.failed_at)
                self._known[key] = again
        self.on_changed()

    def _memory_of(self, event: Event, at: int, failed_at: int = -1) -> Sighting:
        found = list_of(event, self.hidden_tags(event))
        return Sighting(Lookup(Status.FOUND, found), at, event, failed_at)

    async def _recall(self, keys: Sequence[Key]) -> None:
        for kept in await self._store.lists(keys) if keys else ():
            if kept.body is None:
                memory = Sighting(Lookup(Status.NONE), kept.looked_at)
            else:
                memory = self._memory_of(parse_event(kept.body), kept.looked_at)
            self._known.setdefault((kept.pubkey, kept.kind), memory)

    # -- searching -----------------------------------------------------------------------------

    async def _search_for(self, keys: Sequence[Key], hints: Mapping[str, Sequence[str]]) -> None:
        """Who asks for what is being looked for waits for the same answer."""
        loop = asyncio.get_running_loop()
        new = [key for key in keys if key not in self._wanted]
        if new:
            search = self._gathering or self._begin_search()
            search.keys += new
            self._wanted.update((key, loop.create_future()) for key in new)
            for pubkey, urls in hints.items():
                search.hints.setdefault(pubkey, set()).update(urls[:MAX_HINTS])
        await asyncio.wait([self._wanted[key] for key in keys])

    def _begin_search(self) -> _Search:
        search = self._gathering = _Search()
        task = asyncio.get_running_loop().create_task(self._gather_and_search(search))
        self._searching.add(task)
        task.add_done_callback(self._searching.discard)
        return search

    async def _gather_and_search(self, search: _Search) -> None:
        try:
            await asyncio.sleep(GATHER)
            self._gathering = None
            await self._search(search)
        except PostrichError as problem:
            log.error("relay lists were not kept: %s", problem)
        finally:
            for key in search.keys:
                self._wanted.pop(key).set_result(None)

    async def _search(self, search: _Search) -> None:
        keys = search.keys
        answers = await self._asking.ask_configured(_filters(keys))
        found = _newest(keys, answers.values())
        found |= await self._follow(_missing(keys, found), search.hints)
        told = any(answers[url].complete for url in self._can_say if url in answers)
        if told:
            found |= await self._follow_names(_missing(keys, found))
        trouble = "; ".join(f"{url}: {a.trouble}" for url, a in answers.items() if a.trouble)
        now = self._clock.now()
        nothing = Lookup(Status.NONE) if told else _unknown(trouble or "no relay is known to ask")
        await self._keep(
            {
                key: self._memory_of(found[key], now) if key in found else Sighting(nothing, now)
                for key in keys
            }
        )

    async def _follow(
        self, keys: Sequence[Key], hints: Mapping[str, Iterable[str]]
    ) -> dict[Key, Event]:
        """Hints are for those whom nobody else knows."""
        wanted: dict[str, list[Key]] = {}
        for key in keys:
            for url in sorted(hints.get(key[0], ())):
                wanted.setdefault(url, []).append(key)
        questions = {url: _filters(asked) for url, asked in wanted.items()}
        return _newest(keys, (await self._asking.ask_strangers(questions, MAX_HINTED)).values())

    async def _follow_names(self, keys: Sequence[Key]) -> dict[Key, Event]:
        """Whose list nobody has may have said at their domain where they are found (D6)."""
        keys = [key for key in keys if key[1] in (RELAYS, MESSAGES)]
        if not keys:
            return {}
        hints = await self._names.hints([key[0] for key in keys])
        found = await self._follow(keys, hints)
        self._names.served(hints, {pubkey for pubkey, _ in found})
        return found

    def _blocked(self) -> set[str]:
        """What its owner never wants dialled (D7), unless it is on the owner's own list."""
        return {
            url
            for (pubkey, kind), memory in self._known.items()
            if kind == BLOCKED and memory.lookup.found is not None
            for url in memory.lookup.found.relays
            if not self.names(pubkey, url)
        }

    async def _keep(self, results: Mapping[Key, Sighting]) -> None:
        changed: set[str] = set()
        kept: list[KeptList] = []
        for key, seen in results.items():
            former = self._known.get(key)
            memory = _the_better(seen, former)
            self._known[key] = memory
            if _changed(memory, former):
                changed.add(key[0])
            if memory.lookup.status is not Status.UNKNOWN:
                body = memory.event.raw.decode() if memory.event is not None else None
                kept.append(KeptList(key[0], key[1], memory.at, body))
        while len(self._known) > MAX_REMEMBERED:
            del self._known[next(iter(self._known))]
        if kept:
            await self._store.keep_lists(kept)
        if changed:
            await self._store.reroute(sorted(changed), self._clock.now())
            self.on_changed()


def _the_better(new: Sighting, former: Sighting | None) -> Sighting:
    """What is known is not forgotten because a search found less."""
    if former is None or former.lookup.found is None:
        return new
    if new.lookup.found is None:  # found before: a relay that lost it proves nothing
        lookup = msgspec.structs.replace(former.lookup, detail=new.lookup.detail)
        if new.lookup.status is Status.NONE:
            return Sighting(lookup, new.at, former.event)
        return Sighting(lookup, former.at, former.event, failed_at=new.at)
    if replaces(new.lookup.found, former.lookup.found):
        return new
    return Sighting(msgspec.structs.replace(former.lookup, detail=""), new.at, former.event)


def _changed(memory: Sighting, former: Sighting | None) -> bool:
    was = former.lookup.found if former is not None else None
    found = memory.lookup.found
    return (
        former is not None and found is not None and (was is None or was.event_id != found.event_id)
    )


def list_of(event: Event, hidden: Sequence[Sequence[str]] = ()) -> RelayList:
    """The list that an event carries, with what it hides from others."""
    tags = (*event.tags, *hidden)
    return parse_list(event.pubkey, event.kind, event.created_at, event.id, tags)


def _unknown(detail: str) -> Lookup:
    return Lookup(Status.UNKNOWN, detail=detail)


def _filters(keys: Sequence[Key]) -> list[dict[str, Any]]:
    """Few filters for many people, and none that asks for more than is wanted."""
    kinds_of: dict[str, list[int]] = {}
    for pubkey, kind in sorted(set(keys)):
        kinds_of.setdefault(pubkey, []).append(kind)
    alike: dict[tuple[int, ...], list[str]] = {}
    for pubkey, kinds in kinds_of.items():
        alike.setdefault(tuple(kinds), []).append(pubkey)
    return [
        {
            "authors": authors,
            "kinds": list(kinds),
            # Twice what there should be: some relays keep older versions too.
            "limit": min(MOST_PER_FILTER, 2 * len(kinds) * len(authors)),
        }
        for kinds, everybody in alike.items()
        for authors in in_parts(everybody, AUTHORS_PER_FILTER)
    ]


def _missing(keys: Sequence[Key], found: Mapping[Key, Event]) -> list[Key]:
    return [key for key in keys if key not in found]


def _newest(keys: Sequence[Key], answers: Iterable[Answer]) -> dict[Key, Event]:
    """The newest true list of each that was asked for."""
    asked = set(keys)

    def key_of(event: Event) -> Key | None:
        key = (event.pubkey, event.kind)
        return key if key in asked else None

    return newest_of(answers, key_of)
