"""Backfill: somebody's past events, copied to another relay (D11).

Promises: only events of the author with a true id and signature go on, by the road that every
event walks, each once; deletions are read first, so that nothing goes out that was taken back,
and handed on last. The cursor moves only after the events above it are on disk: whoever is
killed goes on there. Sources may lie, stall or never end: that costs their own events only.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import msgspec

from postrich.clock import Clock
from postrich.errors import CallerError, InvalidEvent
from postrich.model.event import Event, is_signed, parse_event
from postrich.model.job import JobState
from postrich.route.cursors import Cursor, Cursors, Key
from postrich.rules.paging import Ask, Page, Stage, following
from postrich.rules.precedence import DELETION
from postrich.rules.republishing import TAKES_BACK, TakenBack, stays_behind, taken_back_at
from postrich.wire.guard import GuardOf
from postrich.wire.pool import Answer, Pool

ANSWER_WITHIN = 20.0
TRIES = 3
PAUSE = 1.0
MOST_AT_ONCE = 256
_SOURCE_TOO_LONG = 2


class Kept(Protocol):
    """A job that an event has now, or had before."""

    id: int
    is_new: bool
    state: JobState


#: Keeps events for the target; each gets its job or its refusal, after both are on disk.
HandIn = Callable[[Sequence[Event]], Awaitable[Sequence[Kept | CallerError]]]


class Copying(msgspec.Struct, frozen=True):
    """What is wanted. `since` in seconds, and as its owner said it; `rate` in events a second.
    `trusted`: sources that the owner named, which may be anywhere (C11)."""

    author: str
    relay: str
    sources: tuple[str, ...]
    trusted: frozenset[str] = frozenset()
    since: int | None = None
    since_text: str = ""
    kinds: tuple[int, ...] = ()
    rate: float = 20.0
    may_protect: bool = False

    def key(self, source: str) -> Key:
        return Key(self.author, self.relay, source, self.kinds, self.since_text)


@dataclass
class Tally:
    """What was found and what became of it, so far. `back_to`: how far in time, in seconds."""

    found: int = 0
    jobs: set[int] = field(default_factory=set)
    new: int = 0
    superseded: int = 0
    forged: int = 0
    stayed: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    troubles: dict[str, str] = field(default_factory=dict)
    gaps: dict[str, list[int]] = field(default_factory=dict)
    resumed: bool = False
    source: str = ""
    back_to: int | None = None


class SourceTrouble(Exception):
    """A source does not go on; what it gave so far counts."""


class Backfill:
    """One copying. `run` does it all; `tally` can be looked at meanwhile."""

    def __init__(
        self, wanted: Copying, cursors: Cursors, hand_in: HandIn, guard_of: GuardOf, clock: Clock
    ) -> None:
        self.tally = Tally()
        self._wanted = wanted
        self._cursors = cursors
        self._hand_in = hand_in
        self._guard_of = guard_of
        self._clock = clock
        self._pool = Pool()
        self._rest_until = clock.tick()
        self._handled: set[bytes] = set()
        self.on_progress: Callable[[Tally], None] = lambda _: None

    async def run(self, *, again: bool = False) -> Tally:
        """Copy everything that is to be had; `again`: whatever was copied before."""
        wanted, tally = self._wanted, self.tally
        begun = {
            source: Cursor() if again else self._cursors.load(wanted.key(source))
            for source in wanted.sources
        }
        try:
            requests = await self._read_requests()
            gone = taken_back_at(wanted.relay, requests)
            for source, cursor in begun.items():
                if source not in tally.troubles:
                    await self._copy(source, cursor, gone)
            floor = min((cursor.newest or 0 for cursor in begun.values()), default=0)
            late = [e for e in requests if e.kind == DELETION and e.created_at >= floor]
            if not wanted.kinds or DELETION in wanted.kinds:
                await self._pass_on(late, gone)
        finally:
            await self._pool.close()
        return tally

    # -- what was taken back -------------------------------------------------------------------

    async def _read_requests(self) -> list[Event]:
        """All deletions of the author, oldest first; a source that fails here is not used."""
        found: dict[str, Event] = {}
        for source in self._wanted.sources:
            reader = _Reader(self, source, TAKES_BACK, self._wanted.since)
            try:
                async for events in reader.pages(None):
                    found.update((event.id, event) for event in events)
            except SourceTrouble as problem:
                self.tally.troubles[source] = str(problem)
        return sorted(found.values(), key=lambda event: (event.created_at, event.id))

    # -- everything else -----------------------------------------------------------------------

    async def _copy(self, source: str, cursor: Cursor, gone: TakenBack) -> None:
        """One source to its end; a sweep that was cut off is finished before a new one begins."""
        self.tally.source = source
        try:
            if cursor.until is not None:
                self.tally.resumed = True
                cursor = await self._sweep(source, cursor, gone)
            await self._sweep(source, cursor, gone)
        except SourceTrouble as problem:
            self.tally.troubles[source] = str(problem)

    async def _sweep(self, source: str, cursor: Cursor, gone: TakenBack) -> Cursor:
        """From the newest event down to what is known; the cursor follows on disk."""
        wanted = self._wanted
        bounds = [bound for bound in (wanted.since, cursor.newest) if bound is not None]
        reader = _Reader(self, source, wanted.kinds, max(bounds, default=None))
        top = cursor.top
        async for events in reader.pages(cursor.until):
            await self._pass_on([e for e in events if e.kind not in TAKES_BACK], gone)
            if events:
                now = self._clock.now() // 1000  # a date in the future must not hide what follows
                top = max(top or 0, min(now, max(e.created_at for e in events)))
            if reader.resume_at is not None:
                cursor = Cursor(cursor.newest, reader.resume_at, top)
                self._cursors.save(wanted.key(source), cursor)
        newest = max((at for at in (cursor.newest, top) if at is not None), default=None)
        done = Cursor(newest)
        self._cursors.save(wanted.key(source), done)
        return done

    async def _pass_on(self, events: Sequence[Event], gone: TakenBack) -> None:
        """Hand events in, no faster than the rate; each once, whichever sources have it."""
        now = self._clock.now()
        going: list[Event] = []
        for event in events:
            name = bytes.fromhex(event.id[:32])
            if name in self._handled:
                continue
            self._handled.add(name)
            self.tally.found += 1
            self.tally.back_to = event.created_at
            reason = stays_behind(event, gone, now, may_protect=self._wanted.may_protect)
            if reason is None:
                going.append(event)
            else:
                self.tally.stayed[reason] += 1
        step = max(1, min(MOST_AT_ONCE, round(self._wanted.rate)))
        for start in range(0, len(going), step):
            await self._hand_in_some(going[start : start + step])
        self.on_progress(self.tally)

    async def _hand_in_some(self, events: Sequence[Event]) -> None:
        await self._rest(len(events))
        for answer in await self._hand_in(events):
            if isinstance(answer, CallerError):
                self.tally.refused[str(answer)] += 1
                continue
            self.tally.jobs.add(answer.id)
            self.tally.new += answer.is_new
            self.tally.superseded += answer.state is JobState.SUPERSEDED
        self.on_progress(self.tally)

    async def _rest(self, events: int) -> None:
        now = self._clock.tick()
        if self._rest_until > now:
            await asyncio.sleep(self._rest_until - now)
        self._rest_until = max(now, self._rest_until) + events / self._wanted.rate

    # -- asking --------------------------------------------------------------------------------

    async def ask(self, source: str, question: dict[str, Any], limit: int) -> Answer:
        """One page of a source, tried again where it does not come to its end."""
        trouble = ""
        for attempt in range(TRIES):
            if attempt:
                await asyncio.sleep(PAUSE * 2.0 ** (attempt - 1))
            answer = await self._pool.ask(
                source,
                [question],
                within=ANSWER_WITHIN,
                guard=self._guard_of(source),
                most=limit * _SOURCE_TOO_LONG,
            )
            if answer.complete:
                return answer
            trouble = answer.trouble or "it did not finish its answer"
        raise SourceTrouble(trouble)

    @property
    def author(self) -> str:
        return self._wanted.author


class _Reader:
    """Reads one source backwards. `resume_at`: from where a later reader may go on."""

    def __init__(
        self, backfill: Backfill, source: str, kinds: Sequence[int], since: int | None
    ) -> None:
        self._backfill = backfill
        self._source = source
        self._kinds = kinds
        self._since = since
        self._seen: dict[str, int] = {}
        self._largest = 0
        self.resume_at: int | None = None

    async def pages(self, until: int | None) -> AsyncIterator[list[Event]]:
        """New true events, page by page."""
        ask: Ask | None = Ask(until)
        while ask is not None:
            answer = await self._backfill.ask(self._source, self._question(ask), ask.limit)
            found = await self._genuine(answer.events, ask)
            fresh = [event for event in found if event.id not in self._seen]
            self._seen.update((event.id, event.created_at) for event in fresh)
            times = [event.created_at for event in found]
            page = Page(len(found), len(fresh), min(times, default=0), max(times, default=0))
            step = following(ask, page, self._largest, self._since)
            if ask.stage is not Stage.SECOND:
                self._largest = max(self._largest, len(found))
            if step.gap is not None:
                gaps = self._backfill.tally.gaps.setdefault(self._source, [])
                gaps.append(step.gap)
            ask = step.ask
            self.resume_at = ask.until if ask is not None else None
            yield fresh
            if ask is not None and ask.until is not None:
                bound = ask.until + 1
                self._seen = {name: at for name, at in self._seen.items() if at <= bound}

    def _question(self, ask: Ask) -> dict[str, Any]:
        question: dict[str, Any] = {"authors": [self._backfill.author], "limit": ask.limit}
        if self._kinds:
            question["kinds"] = sorted(self._kinds)
        if ask.until is not None:
            question["until"] = ask.until
        since = max((at for at in (ask.since, self._since) if at is not None), default=0)
        if since > 0:
            question["since"] = since - 1  # some relays read it as *after*
        return question

    async def _genuine(self, found: Sequence[dict[str, Any]], ask: Ask) -> list[Event]:
        """What was asked for, with a true id and signature; the rest is counted."""
        events = [event for event in map(_parsed, found) if event is not None]
        self._backfill.tally.forged += len(found) - len(events)
        asked_for = [event for event in events if self._was_asked(event, ask)]
        known = {event.id: event for event in asked_for if event.id in self._seen}
        others = {event.id: event for event in asked_for if event.id not in self._seen}
        true = await asyncio.to_thread(lambda: [e for e in others.values() if is_signed(e)])
        self._backfill.tally.forged += len(others) - len(true)
        return [*known.values(), *true]

    def _was_asked(self, event: Event, ask: Ask) -> bool:
        since = max((at for at in (ask.since, self._since) if at is not None), default=0)
        return (
            event.pubkey == self._backfill.author
            and (not self._kinds or event.kind in self._kinds)
            and (ask.until is None or event.created_at <= ask.until)
            and event.created_at >= since
        )


def _parsed(fields: dict[str, Any]) -> Event | None:
    try:
        return parse_event(msgspec.json.encode(fields))
    except (InvalidEvent, TypeError, ValueError):
        return None
