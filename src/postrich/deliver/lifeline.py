"""The lifeline: keeps leases alive, frees those of the dead, ends what is too old, tidies up."""

from __future__ import annotations

import logging

from postrich.deliver.fleet import Fleet, is_dead, this_worker
from postrich.deliver.loop import Loop
from postrich.deliver.shared import MARGIN, Shared
from postrich.model.job import QueueStatus
from postrich.model.relay import RelayHealth
from postrich.observe.notices import QueueStatusChanged, QueueSyncComplete

log = logging.getLogger("postrich.lifeline")

BATCH = 500
DAY_MS = 86_400_000
#: Clocks that differ by less are the same: so much may be the way to the database.
SKEW_MS = 50
#: Commands that deliver something on their way out: no lanes are moved for their sake.
PASSERS_BY = frozenset({"post", "sign"})
#: Counting a long queue takes time: it may take at most this share of it.
STATUS_SHARE = 0.05


class Lifeline(Loop):
    """Housekeeping of one process."""

    name = "lifeline"

    def __init__(self, shared: Shared, fleet: Fleet, role: str) -> None:
        super().__init__()
        self._shared = shared
        self._fleet = fleet
        self._role = role
        self._started_at = shared.clock.now()
        self._told: dict[int, RelayHealth] = {}
        self._swept_at = shared.clock.tick()

    async def pass_once(self) -> float | None:
        await self.follow_time()
        await self.keep_leases()
        await self.free_the_dead()
        await self.end_the_old()
        await self.tidy()
        await self.sweep()
        await self.note_health()
        return min(1.0, self._shared.settings.lease / 3)

    async def follow_time(self) -> None:
        """Many machines, one time: the database's. Where the answer took long, ours may be any
        of that while: a clock that may be right is left alone, and none is put too far ahead."""
        clock = self._shared.clock
        before = clock.now()
        time = await self._shared.store.time()
        if time is None:
            return
        at_least, at_most = time - clock.now(), time - before
        if at_least >= SKEW_MS or at_most <= -SKEW_MS:
            log.info("the database's clock is %s ms ahead of ours: its time counts", at_least)
            clock.follow(at_least)

    async def keep_leases(self) -> None:
        shared = self._shared
        started, now = shared.clock.tick(), shared.clock.now()
        await shared.store.enlist(this_worker(shared.owner, self._role, now, self._started_at))
        until = now + round(shared.settings.lease * 1000)
        held = await shared.store.renew_leases(shared.owner, until)
        shared.kept_until = started + shared.settings.lease - MARGIN
        self._fleet.keep_only(frozenset(held), started)

    async def free_the_dead(self) -> None:
        """A worker of this machine that was killed need not be waited for; one that has not been
        heard of for long is forgotten, once what it held has lapsed: its lease may be longer than
        ours. Who is left works beside us."""
        shared = self._shared
        now = shared.clock.now()
        lapsed = now - round(shared.settings.lease * 1000)
        others = set()
        for worker in await shared.store.workers():
            if worker.owner == shared.owner:
                continue
            is_silent = worker.seen_at < lapsed
            if is_dead(worker) or (is_silent and not await self._holds_something(worker.owner)):
                await shared.store.dismiss(worker.owner)
                self._fleet.hint()
            elif not is_silent and worker.role not in PASSERS_BY:
                others.add(worker.owner)
        if shared.others != others:
            shared.others = frozenset(others)
            self._fleet.hint()

    async def _holds_something(self, owner: str) -> bool:
        now = self._shared.clock.now()
        leases = await self._shared.store.leases()
        return any(lease.owner == owner and lease.until > now for lease in leases)

    async def end_the_old(self) -> None:
        shared = self._shared
        while changes := await shared.store.expire(shared.clock.now(), BATCH):
            self._fleet.forget({change.job for change in changes})
            shared.on_changes(changes)
            if len(changes) < BATCH:
                break

    async def tidy(self) -> None:
        """Move what is finished to history, a batch at a time, and forget what is old."""
        shared = self._shared
        now = shared.clock.now()
        await shared.store.archive(now - round(shared.settings.archive_after * 1000), BATCH)
        await shared.store.prune(now - round(shared.settings.history_days * DAY_MS), BATCH)

    async def sweep(self) -> None:
        """Every few hours: whatever no loop looks at any more is due now (F3)."""
        shared = self._shared
        if shared.clock.tick() - self._swept_at < shared.settings.sweep:
            return
        self._swept_at = shared.clock.tick()
        if found := await shared.store.sweep(shared.clock.now()):
            log.warning("the sweep found %s jobs that nobody looked at: they are due now", found)
            self._fleet.hint()

    async def note_health(self) -> None:
        """Keep what lanes know, where it changed, for other processes to see."""
        reports = []
        for number, lane in self._fleet.lanes.items():
            health = lane.health()
            if self._told.get(number) != health:
                self._told[number] = health
                reports.append((number, health))
        if reports:
            await self._shared.store.note_health(reports)

    async def finish(self) -> None:
        await self._shared.store.dismiss(self._shared.owner)


class StatusTeller(Loop):
    """Tells who listens how the queue stands (A12): when it changes, but not too often."""

    name = "status"

    def __init__(self, shared: Shared) -> None:
        super().__init__()
        self._shared = shared
        self._last: QueueStatus | None = None
        self._dirty = False
        self._syncing = False

    def changed(self, more: bool = False) -> None:
        """The queue is another one now; `more`: something was added that waits."""
        if self._shared.notices.is_watched:
            self._syncing = self._syncing or more
            if not self._dirty:
                self._dirty = True
                self.wake()

    async def pass_once(self) -> float | None:
        if not self._dirty or not self._shared.notices.is_watched:
            return None
        self._dirty = False
        clock = self._shared.clock
        started = clock.tick()
        status = await self._shared.store.status()
        self.tell(status)
        return None if not self._dirty else max(0.1, (clock.tick() - started) / STATUS_SHARE)

    def tell(self, status: QueueStatus) -> None:
        was, self._last = self._last, status
        if was != status:
            self._shared.notices.publish(QueueStatusChanged(status))
        self._syncing = self._syncing or status.pending > 0
        if self._syncing and status.pending == 0:  # perhaps it never was seen waiting
            self._syncing = False
            self._shared.notices.publish(QueueSyncComplete(status))
