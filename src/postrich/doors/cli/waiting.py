"""Waiting for jobs: until they are published, and their other relays had a fair chance.

Promises: gives up after some seconds without news; never waits for a relay that is known to be
unreachable once the goal is met. What was not reached in time is simply still queued.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager

from postrich.clock import SystemClock
from postrich.doors.cli.home import Home
from postrich.doors.cli.outset import FAILED, PUBLISHED, QUEUED
from postrich.doors.cli.showing import aside
from postrich.model.delivery import DeliveryState
from postrich.model.job import Job, JobFilter, JobState
from postrich.observe.notices import DeliveryChanged, JobChanged, RelayChanged, SignerAsks
from postrich.outbox import Outbox
from postrich.sign.signer import Signer
from postrich.waiting import at_most

GRACE_MS = 5_000
CHUNK = 500
MANY_PAUSE = 0.2
_ENDED = frozenset({JobState.FAILED, JobState.CANCELLED, JobState.PARKED, JobState.SUPERSEDED})


class Vigil:
    """Watches an outbox from before jobs are handed in until they are done.

    `elsewhere`: a `serve` works on the same outbox; what is published may be left to it.
    `unreachable`: the relays that this process cannot reach now, and why.
    """

    def __init__(self, outbox: Outbox, *, elsewhere: bool) -> None:
        self._outbox = outbox
        self._elsewhere = elsewhere
        self._clock = SystemClock()
        self.unreachable: dict[str, str] = {}
        self._news = asyncio.Event()
        self._told: set[str] = set()
        self._notices = outbox.watch()
        self._task = asyncio.create_task(self._listen())

    async def close(self) -> None:
        self._notices.close()
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def wait(
        self,
        jobs: Sequence[int],
        seconds: float,
        on_done: Callable[[int], None] = lambda _: None,
    ) -> dict[int, JobState]:
        """The state of each job once it is done, or as it stands after `seconds` without news."""
        states: dict[int, JobState] = {}
        remaining = deque(dict.fromkeys(jobs))
        deadline = self._clock.tick() + seconds
        while remaining:
            before = len(remaining)
            while await self._look(remaining, states):
                continue
            if len(remaining) < before:
                on_done(before - len(remaining))
                deadline = self._clock.tick() + seconds
            if not remaining or self._clock.tick() >= deadline:
                break
            if await self.news(deadline) and len(remaining) > 1:
                await asyncio.sleep(MANY_PAUSE)  # looking at many costs what delivering needs
        return states

    async def news(self, deadline: float) -> bool:
        """Until there is news; polling is the truth, since others may work on it."""
        left = max(0.0, deadline - self._clock.tick())
        await at_most(self._news, min(left, self._outbox.settings.poll))
        was_set = self._news.is_set()
        self._news.clear()
        return was_set

    async def _look(self, remaining: deque[int], states: dict[int, JobState]) -> bool:
        """Look at the next jobs; those not done go to the back. True: all were done, go on."""
        chunk = [remaining.popleft() for _ in range(min(CHUNK, len(remaining)))]
        if not chunk:
            return False
        found = await self._outbox.jobs(JobFilter(jobs=tuple(chunk)), len(chunk))
        now = self._clock.now()
        waiting = {job.id for job in found if not self._is_done(job, now)}
        states.update((job.id, job.state) for job in found)
        remaining.extend(job for job in chunk if job in waiting)
        return not waiting

    def _is_done(self, job: Job, now: int) -> bool:
        if job.state is not JobState.PUBLISHED:
            return job.state in _ENDED and job.is_finished
        if job.is_finished or self._elsewhere:
            return True
        since = job.published_at if job.published_at is not None else now
        return now - since > GRACE_MS or not any(
            delivery.state is DeliveryState.WAITING
            and delivery.code is None
            and delivery.relay not in self.unreachable
            for delivery in job.deliveries
        )

    async def _listen(self) -> None:
        async for notice in self._notices:
            match notice:
                case RelayChanged(relay=relay, state="open", detail=detail):
                    self.unreachable[relay] = detail
                case RelayChanged(relay=relay, state="closed"):
                    self.unreachable.pop(relay, None)
                case SignerAsks(url=url):
                    self._tell_once(f"Your bunker wants you to approve at {url}")
                case JobChanged() | DeliveryChanged():
                    pass
                case _:
                    continue
            self._news.set()

    def _tell_once(self, text: str) -> None:
        if text not in self._told:
            self._told.add(text)
            aside(text)


@asynccontextmanager
async def following(
    home: Home, role: str, signers: Iterable[Signer]
) -> AsyncIterator[tuple[Outbox, Vigil]]:
    """The home's outbox at work, and a vigil over it."""
    elsewhere = home.serving_pid() is not None
    async with home.working(role, signers) as outbox:
        vigil = Vigil(outbox, elsewhere=elsewhere)
        try:
            yield outbox, vigil
        finally:
            await vigil.close()


def exit_code(states: Sequence[JobState]) -> int:
    """0 where all are published, 1 where one ended without, else 3."""
    if any(state in _ENDED for state in states):
        return FAILED
    return PUBLISHED if all(state is JobState.PUBLISHED for state in states) else QUEUED
