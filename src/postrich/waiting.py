"""The waiting room: who waits for a job is woken by our own news, and looks now and then.

Promises: nobody waits for news that already came (look first, then wait); work of other
processes is seen by looking, since they cannot call us.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from postrich.errors import JobFailed, UnknownJob
from postrich.model.job import Job, JobChange, JobFilter, JobState, QueueStatus
from postrich.store.port import Store

#: How long our own news are trusted where no other process works on the store.
BACKSTOP = 5.0

_ENDED = frozenset({JobState.FAILED, JobState.CANCELLED, JobState.PARKED, JobState.SUPERSEDED})


class WaitingRoom:
    """Waits for jobs of one store. `poll`: how often to look where others work on it too."""

    def __init__(self, store: Store, owner: str, poll: float) -> None:
        self._store = store
        self._owner = owner
        self._poll = poll
        self._watchers: dict[int, set[asyncio.Event]] = {}
        self._anything = asyncio.Event()
        self.delivers = False

    def tell(self, changes: Sequence[JobChange]) -> None:
        """These jobs moved."""
        self._anything.set()
        if self._watchers:
            for change in changes:
                for watcher in self._watchers.get(change.job, ()):
                    watcher.set()

    def stir(self) -> None:
        """Something changed, of which we know nothing: everybody looks."""
        self._anything.set()
        for watchers in self._watchers.values():
            for watcher in watchers:
                watcher.set()

    async def published(self, job: int, within: float | None) -> Job:
        """Wait until the job is published; `JobFailed` where that will not happen by itself."""
        found = await self._until(job, within, _is_published_or_over)
        if found.state is not JobState.PUBLISHED:
            why = f": {found.error.message}" if found.error else ""
            raise JobFailed(f"job {job} is {found.state}{why}")
        return found

    async def settled(self, job: int, within: float | None) -> Job:
        """Wait until nothing more will happen to the job by itself."""
        return await self._until(job, within, lambda found: found.is_finished)

    async def drained(self, within: float | None) -> QueueStatus:
        """Wait until nothing is pending and no delivery is open."""
        async with asyncio.timeout(within):
            while True:
                self._anything.clear()
                status = await self._store.status()
                if not (status.pending or status.open_deliveries):
                    return status
                await at_most(self._anything, await self._patience())

    async def _until(self, job: int, within: float | None, enough: Callable[[Job], bool]) -> Job:
        changed = asyncio.Event()
        self._watchers.setdefault(job, set()).add(changed)
        try:
            async with asyncio.timeout(within):
                while True:
                    changed.clear()
                    found = await read_job(self._store, job)
                    if enough(found):
                        return found
                    await at_most(changed, await self._patience())
        finally:
            self._watchers[job].discard(changed)
            if not self._watchers[job]:
                del self._watchers[job]

    async def _patience(self) -> float:
        others = [w for w in await self._store.workers() if w.owner != self._owner]
        return self._poll if others or not self.delivers else BACKSTOP


async def read_job(store: Store, job: int) -> Job:
    """The job as it stands, or `UnknownJob`."""
    found = await store.jobs(JobFilter(jobs=(job,)), 1)
    if not found:
        raise UnknownJob(f"there is no job {job}")
    return found[0]


async def at_most(event: asyncio.Event, seconds: float) -> None:
    """Wait for the event, but no longer than that."""
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        pass


def _is_published_or_over(job: Job) -> bool:
    return job.state is JobState.PUBLISHED or (job.state in _ENDED and job.is_finished)
