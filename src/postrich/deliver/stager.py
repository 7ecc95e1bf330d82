"""The stager: sends signed jobs on their way to the lanes when their hour has come.

Promises: nothing leaves before its time; jobs wait for those they depend on. Works under one
lease per store, which is given up when there is nothing to do.
"""

from __future__ import annotations

from postrich.deliver.fleet import Fleet
from postrich.deliver.loop import Loop
from postrich.deliver.shared import Shared
from postrich.model.delivery import Fence

BATCH = 256
LEASE = "stage"


class Stager(Loop):
    """Moves jobs from `scheduled` and `signed-pending-publish` to the lanes."""

    name = "stager"

    def __init__(self, shared: Shared, fleet: Fleet) -> None:
        super().__init__()
        self._shared = shared
        self._fleet = fleet
        self._fence: Fence | None = None

    async def pass_once(self) -> float | None:
        shared = self._shared
        now = shared.clock.now()
        due = await shared.store.next_stage()
        if due is None or due > now:
            await self._let_go()
            return self._until(due, now)
        until = now + round(shared.settings.lease * 1000)
        self._fence = await shared.store.take_lease(LEASE, shared.owner, now, until)
        if self._fence is None:
            return shared.settings.poll
        await self._stage(self._fence, now)
        return self._until(await shared.store.next_stage(), shared.clock.now())

    async def _let_go(self) -> None:
        if self._fence is not None:
            fence, self._fence = self._fence, None
            await self._shared.store.drop_lease(fence)

    def _until(self, due: int | None, now: int) -> float:
        pause = self._shared.settings.poll
        return pause if due is None else min(pause, max(0.0, (due - now) / 1000))

    async def _stage(self, fence: Fence, now: int) -> None:
        ready = await self._shared.store.stage_due(now, BATCH)
        routed, destinations = await self._shared.store.route(fence, ready, now)
        self._fleet.hint(destinations)
        self._shared.on_changes(routed)
