"""A lane's results on their way to the store: written in groups, kept until they are.

Promises: nothing learnt is dropped while the lease is held — a full disk only delays it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from postrich.deliver.shared import Shared
from postrich.errors import LeaseLost, StoreError
from postrich.model.delivery import DeliveryState, Destination, Fence, Settlement
from postrich.observe.notices import DeliveryChanged
from postrich.store.port import Results

log = logging.getLogger("postrich.lane")

TRY_AGAIN = 1.0
MANY = 4096
LAST_PATIENCE = 5.0


class ResultsWriter:
    """Collects what a lane learns and settles it; `on_settled` gets the jobs written."""

    def __init__(
        self,
        shared: Shared,
        destination: Destination,
        fence: Fence,
        on_settled: Callable[[list[int]], None],
    ) -> None:
        self._shared = shared
        self._destination = destination
        self._fence = fence
        self._on_settled = on_settled
        self._task: asyncio.Task[None] | None = None
        self.delivered: list[int] = []
        self.others: list[Settlement] = []
        self.lease_lost = False

    @property
    def is_full(self) -> bool:
        """Too much waits for the store: send no more until it has caught up."""
        return len(self.delivered) + len(self.others) > MANY

    def flush(self) -> None:
        """Write what there is; while a write is under way, the next group gathers."""
        if self._task is None and (self.delivered or self.others):
            self._task = asyncio.get_running_loop().create_task(self._write_all())

    async def drain(self) -> None:
        """The end: wait until everything is written, the lease is lost, or the store too long
        in trouble. What is not written is still due, and answered as a duplicate next time."""
        self.flush()
        if self._task is None:
            return
        try:
            async with asyncio.timeout(LAST_PATIENCE):
                await self._task
        except TimeoutError:
            log.error("%s: the store took no results; they are dropped", self._destination.url)

    async def _write_all(self) -> None:
        try:
            while (self.delivered or self.others) and not self.lease_lost:
                await self._write_group()
        finally:
            self._task = None

    async def _write_group(self) -> None:
        delivered, self.delivered = self.delivered, []
        others, self.others = self.others, []
        shared = self._shared
        results = Results(self._fence, self._destination.id, delivered, others)
        now = shared.clock.now()
        try:
            changes = await shared.store.settle(results, now)
        except LeaseLost as lost:
            log.warning("%s: %s; its results are dropped", self._destination.url, lost)
            self.lease_lost = True
            self._on_settled([])
            return
        except StoreError as problem:
            log.error("%s: results wait: %s", self._destination.url, problem)
            self.delivered[:0] = delivered
            self.others[:0] = others
            await asyncio.sleep(TRY_AGAIN)
            return
        self._on_settled([*delivered, *(other.job for other in others)])
        shared.meters.settled(len(delivered), others)
        if shared.notices.is_watched:
            self._tell(delivered, others)
        shared.on_changes(changes)

    def _tell(self, delivered: list[int], others: list[Settlement]) -> None:
        publish = self._shared.notices.publish
        url = self._destination.url
        for job in delivered:
            publish(DeliveryChanged(job, url, DeliveryState.DELIVERED, 1, "ok", "", None))
        for other in others:
            next_at = other.next_at if other.state is DeliveryState.WAITING else None
            publish(
                DeliveryChanged(
                    other.job, url, other.state, other.attempts, other.code, other.detail, next_at
                )
            )
