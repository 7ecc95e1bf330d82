"""Recurring posts, as the library's callers see them: `outbox.series`.

    await outbox.series.keep(recurrence="every weekday 09:00", zone="Europe/Berlin",
                             template=Template(content="good morning"))

Promises: what is answered is on disk; a series that could never be posted is refused when it is
handed in. After `pause`, `end` or `skip` nothing of it goes out that was not due yet.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import uuid
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

import msgspec

from postrich.accept import Intake, Options, Publishable
from postrich.clock import Clock
from postrich.deliver.calendar import OnAccepted
from postrich.errors import (
    BadSetting,
    CallerError,
    ChangedMeanwhile,
    IllegalMove,
    InvalidEvent,
    InvalidRecurrence,
    UnknownSeries,
)
from postrich.model.event import Event
from postrich.model.job import JobChange, NewJob
from postrich.model.series import (
    Missed,
    Occurrence,
    OccurrenceState,
    Series,
    SeriesState,
    Template,
    Terms,
)
from postrich.rules.recurrence import parse_recurrence
from postrich.rules.series import MOST_COUNT, behind_by, moments, to_come
from postrich.rules.zones import LATEST, zone_named
from postrich.store.port import Store

MOST_SIGNED = 1000
TRIES = 4
_MINUTE = 60_000
_NAME = re.compile(r"[A-Za-z0-9._:-]{1,64}")


T = TypeVar("T")


async def _insist(act: Callable[[], Awaitable[T]]) -> T:
    """Look and act again where the calendar was quicker; it is never quicker for long."""
    for _ in range(TRIES):
        with contextlib.suppress(ChangedMeanwhile):
            return await act()
    return await act()


class SeriesDesk:
    """Takes series in, changes them, and makes the jobs of their occurrences."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        intake: Intake,
        on_accepted: OnAccepted,
        on_changed: Callable[[list[JobChange]], object],
    ) -> None:
        self._store = store
        self._clock = clock
        self._intake = intake
        self._on_accepted = on_accepted
        self._on_changed = on_changed

    # -- handing in --------------------------------------------------------------------------

    async def keep(
        self,
        *,
        recurrence: str,
        template: Template | None = None,
        signed: Sequence[Publishable] = (),
        zone: str = "UTC",
        pubkey: str | None = None,
        id: str | None = None,  # noqa: A002 - that is what callers call it
        terms: Terms | None = None,
        starts_at: int | None = None,
        until: int | None = None,
        count: int | None = None,
        missed: Missed = Missed.SKIP,
        most: int | None = None,
    ) -> Series:
        """Keep a series: a template that is signed in time, or signed events, one for
        each occurrence. Without `starts_at` it begins with the next full minute.

        `most`: so many posts of its author may wait for their hour, signed events included.
        """
        if (template is None) == (not signed):
            raise BadSetting("a series needs a template, or signed events: one of the two")
        if id is not None and not _NAME.fullmatch(id):
            raise BadSetting("a series' id is 1 to 64 letters, digits or . _ : -")
        parse_recurrence(recurrence)
        zone_named(zone)
        if count is not None and not 1 <= count <= MOST_COUNT:
            raise BadSetting(f"a series may happen 1 to {MOST_COUNT:,} times, or without end")
        now = self._clock.now()
        begin = (now // _MINUTE + 1) * _MINUTE if starts_at is None else starts_at
        if not 0 <= begin <= LATEST:
            raise BadSetting("starts_at is no usable time in milliseconds")
        if until is not None and not 0 <= until <= LATEST:
            raise BadSetting("until is no usable time in milliseconds")
        series = Series(
            id=id or uuid.uuid4().hex,
            pubkey=pubkey or "",
            recurrence=recurrence,
            zone=zone,
            template=template,
            terms=terms or Terms(),
            starts_at=-(-begin // 1000) * 1000,
            kept_at=now,
            until=until,
            count=count,
            missed=missed,
        )
        if template is None:
            return await self._keep_signed(series, signed, most)
        return await self._keep_template(series, template)

    async def _keep_template(self, series: Series, template: Template) -> Series:
        """Its first job is made to see whether it can be, and not kept."""
        first = next(moments(series, self._clock.now(), count=1), None)
        if first is None:
            raise InvalidRecurrence(f"{series.recurrence!r} does not happen before its end")
        job = await self.make_job(series, template, first)
        series = msgspec.structs.replace(series, pubkey=job.content.pubkey, next_at=first)
        await self._store.keep_series(series, (), self._clock.now())
        self._on_changed([])
        return series

    async def _keep_signed(
        self, series: Series, items: Sequence[Publishable], most: int | None
    ) -> Series:
        if len(items) > MOST_SIGNED:
            raise BadSetting(f"up to {MOST_SIGNED:,} signed events can be handed in at once")
        times = list(moments(series, self._clock.now(), count=series.count or len(items) + 1))
        if series.count is None and series.until is None:
            times = times[: len(items)]  # it ends with them
        if len(items) != len(times):
            raise InvalidEvent(
                f"{len(items)} signed events came, and the series happens {len(times)} times"
                f"{'' if series.count else ' or more'}: there must be one for each"
            )
        jobs = await asyncio.gather(
            *(self._signed_job(series, *pair) for pair in zip(items, times, strict=True))
        )
        authors = {job.content.pubkey for job in jobs}
        if len(authors | ({series.pubkey} - {""})) != 1:
            raise InvalidEvent("the events of a series must be of one author")
        made = len(jobs)
        series = msgspec.structs.replace(
            series, pubkey=authors.pop(), made=made, passed=made, last_at=times[-1]
        )
        pairs = list(zip(times, jobs, strict=True))
        admission = await self._store.keep_series(series, pairs, self._clock.now(), most)
        self._on_accepted(admission, jobs)
        return series

    async def _signed_job(self, series: Series, item: Publishable, at: int) -> NewJob:
        job = await self._admit(item, series, at)
        if not isinstance(job.content, Event):
            raise InvalidEvent("an event of the series is not signed")
        if job.content.created_at != at // 1000:
            raise InvalidEvent(
                f"event {job.content.id[:8]}… has created_at {job.content.created_at}; its "
                f"occurrence is at {at // 1000}"
            )
        return job

    async def make_job(self, series: Series, template: Template, at: int) -> NewJob:
        """The job of one occurrence: a draft of its second, due at its time."""
        fields = {**msgspec.structs.asdict(template), "created_at": at // 1000}
        if series.pubkey:
            fields["pubkey"] = series.pubkey
        return await self._admit(fields, series, at)

    async def _admit(self, item: Publishable, series: Series, at: int) -> NewJob:
        options = Options(at=at, **msgspec.structs.asdict(series.terms))
        [found] = await self._intake.admit([item], options)
        if isinstance(found, CallerError):
            raise found
        return found

    # -- looking -----------------------------------------------------------------------------

    async def get(self, name: str) -> Series:
        """The series, or `UnknownSeries`."""
        return self._shown(await self._store.series(name))

    async def page(
        self, pubkey: str | None = None, limit: int = 100, after: str = ""
    ) -> list[Series]:
        """Series by their ids, of one author or of all; `after` pages on."""
        return [self._shown(one) for one in await self._store.series_page(pubkey, limit, after)]

    async def occurrences(
        self, name: str, since: int | None = None, limit: int = 20
    ) -> list[Occurrence]:
        """What happened and what is to come from `since` on (now, unless told), in order."""
        series = await self._store.series(name)
        begin = self._clock.now() if since is None else since
        kept = await self._store.occurrences(name, begin, LATEST, limit)
        known = {one.at: one for one in kept}
        if series.state is SeriesState.ACTIVE:
            for at in to_come(series, limit):
                if at >= begin:
                    known.setdefault(at, Occurrence(name, at))
        return [known[at] for at in sorted(known)][:limit]

    def _shown(self, series: Series) -> Series:
        return msgspec.structs.replace(series, state=series.state_at(self._clock.now()))

    # -- changing one's mind -----------------------------------------------------------------

    async def skip(self, name: str, at: int) -> None:
        """That occurrence shall not happen; it counts as one that did."""

        async def act() -> list[JobChange]:
            series = await self._to_come(name, at)
            return await self._store.skip_occurrence(series, at, self._clock.now())

        self._on_changed(await _insist(act))

    async def edit(self, name: str, at: int, template: Template) -> None:
        """That occurrence says something else; refused once its job is made."""

        async def act() -> None:
            series = await self._to_come(name, at)
            if series.is_signed:
                raise IllegalMove("its events are signed: skip this one, and post another")
            await self.make_job(series, template, at)  # to see whether it can be
            await self._store.edit_occurrence(series, at, template)

        await _insist(act)

    async def pause(self, name: str) -> Series:
        """Nothing more happens until `resume`; what was made and is not due yet is cancelled."""
        return await _insist(lambda: self._pause(name))

    async def _pause(self, name: str) -> Series:
        series = await self._store.series(name)
        if series.is_signed:
            raise IllegalMove("signed events cannot be made again: skip some, or end the series")
        if series.state is not SeriesState.ACTIVE:
            raise IllegalMove(f"series {name} is {series.state} and cannot be paused")
        return await self._move(series, SeriesState.PAUSED, series.next_at, series.passed)

    async def resume(self, name: str) -> Series:
        """It goes on with what is to come; what passed meanwhile is not made up for."""
        return await _insist(lambda: self._resume(name))

    async def _resume(self, name: str) -> Series:
        series = await self._store.series(name)
        if series.state is not SeriesState.PAUSED or series.next_at is None:
            raise IllegalMove(f"series {name} is {series.state} and cannot be resumed")
        now = self._clock.now()
        passed = series.passed + (len(behind_by(series, now)) if series.next_at <= now else 0)
        is_over = series.count is not None and passed >= series.count
        after = max(now, series.next_at - 1)
        following = None if is_over else next(moments(series, after, count=1), None)
        state = SeriesState.ENDED if following is None else SeriesState.ACTIVE
        return await self._move(series, state, following, passed)

    async def end(self, name: str) -> Series:
        """Nothing more happens, for good; what was made and is not due yet is cancelled."""
        return await _insist(lambda: self._end(name))

    async def _end(self, name: str) -> Series:
        series = await self._store.series(name)
        return await self._move(series, SeriesState.ENDED, None, series.passed)

    async def _move(
        self, series: Series, state: SeriesState, next_at: int | None, passed: int
    ) -> Series:
        now = self._clock.now()
        self._on_changed(await self._store.move_series(series, state, next_at, passed, now))
        return await self.get(series.id)

    async def _to_come(self, name: str, at: int) -> Series:
        """The series, if it happens at that moment and the moment is to come."""
        series = await self._store.series(name)
        if at <= self._clock.now():
            raise IllegalMove("that occurrence is not to come any more")
        kept = await self._store.occurrences(name, at, at, 1)
        if kept and kept[0].state is OccurrenceState.MADE:
            return series
        is_one = series.next_at is not None and next(moments(series, at - 1, at, 1), None) == at
        if not is_one or series.state is SeriesState.ENDED:
            raise UnknownSeries(f"series {name} does not happen at {at}")
        return series
