"""Calendar: makes the occurrences of series, ahead of their hour so that there is time to sign.

Promises: each occurrence has one job, whoever makes it and however often it is tried: the store
keeps job, occurrence and the series' advance in one transaction. One series that cannot go on
holds up no other. Must keep nothing in memory that a crash would lose.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence

from postrich.deliver.loop import Loop
from postrich.deliver.shared import Shared
from postrich.errors import CallerError
from postrich.model.delivery import Fence
from postrich.model.job import NewJob
from postrich.model.series import Occurring, Series, SeriesState, Template
from postrich.rules.redact import redact
from postrich.rules.series import next_step
from postrich.store.port import Admission

log = logging.getLogger("postrich.calendar")

BATCH = 64
LEASE = "calendar"
MISSED = "missed: nobody was at work then"

#: The job of one occurrence: its series, what it says, and when.
MakeJob = Callable[[Series, Template, int], Awaitable[NewJob]]
#: Told what was kept.
OnAccepted = Callable[[Admission, Sequence[NewJob]], None]


class Calendar(Loop):
    """Turns what is due into jobs; one process at a time."""

    name = "calendar"

    def __init__(self, shared: Shared, make_job: MakeJob, on_accepted: OnAccepted) -> None:
        super().__init__()
        self._shared = shared
        self._make_job = make_job
        self._on_accepted = on_accepted
        self._fence: Fence | None = None

    async def pass_once(self) -> float | None:
        shared = self._shared
        now = shared.clock.now()
        horizon = now + round(shared.settings.series_lead * 1000)
        soonest = await shared.store.next_series()
        if soonest is None or soonest > horizon:
            await self._let_go()
            pause = shared.settings.poll
            return pause if soonest is None else min(pause, (soonest - horizon) / 1000)
        until = now + round(shared.settings.lease * 1000)
        self._fence = await shared.store.take_lease(LEASE, shared.owner, now, until)
        if self._fence is None:
            return shared.settings.poll
        due = await shared.store.series_due(horizon, BATCH)
        await asyncio.gather(*(self._occur(self._fence, series, now) for series in due))
        return 0.0

    async def _let_go(self) -> None:
        if self._fence is not None:
            fence, self._fence = self._fence, None
            await self._shared.store.drop_lease(fence)

    async def _occur(self, fence: Fence, series: Series, now: int) -> None:
        try:
            step = next_step(series, now)
        except CallerError as problem:
            await self._rest(series, problem)
            return
        job, detail = None, MISSED
        if step.make:
            job, detail = await self._job(series, step.at)
        occurring = Occurring(series.id, series.revision, step, job, detail)
        admission = await self._shared.store.occur(fence, occurring, self._shared.clock.now())
        if admission is None or job is None or not admission.accepted:
            return
        log.debug("series %s: job %s for %s", series.id, admission.accepted[0].job, step.at)
        self._on_accepted(admission, [job])

    async def _rest(self, series: Series, problem: CallerError) -> None:
        """It was understood once: its zone or form is not known here any more."""
        log.error("series %s is paused, since it is not understood: %s", series.id, problem)
        self._shared.on_changes(
            await self._shared.store.move_series(
                series, SeriesState.PAUSED, series.next_at, series.passed, self._shared.clock.now()
            )
        )

    async def _job(self, series: Series, at: int) -> tuple[NewJob | None, str]:
        """The occurrence's job, or why there can be none: the series goes on without it."""
        known = await self._shared.store.occurrences(series.id, at, at, 1)
        template = (known[0].template if known else None) or series.template or Template()
        try:
            return await self._make_job(series, template, at), ""
        except CallerError as refusal:
            log.error("series %s: its occurrence at %s is skipped: %s", series.id, at, refusal)
            return None, redact(str(refusal))
