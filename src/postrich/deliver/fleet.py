"""The fleet: which relays have work, and a lane for each that we can hold.

Promises: wake-ups are hints, polling is the truth — a missed hint costs at most one poll.
"""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Iterable, Sequence

from postrich.deliver.lanes import Lane
from postrich.deliver.loop import Loop
from postrich.deliver.shared import Shared
from postrich.model.delivery import Destination, Parcel
from postrich.rules.health import Breaker, may_dial, on_network_back
from postrich.store.port import Work, WorkerInfo

log = logging.getLogger("postrich.fleet")

#: A busy lane looks for others' work and for due retries at least so often.
LOOK_AGAIN = 1.0


class Fleet(Loop):
    """All lanes of this process."""

    name = "fleet"

    def __init__(self, shared: Shared) -> None:
        super().__init__()
        self.lanes: dict[int, Lane] = {}
        self._shared = shared
        self._seen_version: int | None = None
        self._alarm: int | None = 0
        self._held_elsewhere: set[int] = set()
        self._breakers: dict[int, Breaker] = {}  # of relays in trouble that have no lane now
        shared.network.on_back.append(self._on_network_back)
        shared.gate.on_free = self.wake_lanes

    def hint(self, destinations: set[int] | None = None) -> None:
        """Work came in, for these destinations or for any."""
        unknown = destinations is None
        for number in destinations or ():
            lane = self.lanes.get(number)
            if lane is None:
                unknown = True
            else:
                lane.hint()
        if unknown:
            self._alarm = 0
            self.wake()

    def offer(self, urls: Iterable[str], parcels: Sequence[Parcel]) -> None:
        """New jobs for these relays, just committed: lanes that are free take them at once."""
        lanes = {lane.destination.url: lane for lane in self.lanes.values()}
        for url in urls:
            lane = lanes.get(url)
            if lane is None or lane.has_ended:
                self._alarm = 0
                self.wake()
            else:
                lane.offer(parcels)

    def forget(self, jobs: set[int]) -> None:
        """These jobs changed under the lanes' hands."""
        for lane in self.lanes.values():
            lane.forget(jobs)
        self._shared.parcels.forget(jobs)

    async def pass_once(self) -> float | None:
        await self._bury_ended()
        shared = self._shared
        now = shared.clock.now()
        version = await shared.store.changed()
        is_due = self._alarm is not None and self._alarm <= now
        if version != self._seen_version or is_due or self._held_elsewhere:
            self._seen_version = version
            self._alarm = None
            await self._look(now)
        pause = shared.settings.poll
        if self._alarm is not None:
            pause = min(pause, max(0.0, (self._alarm - now) / 1000))
        return pause

    async def finish(self) -> None:
        for lane in self.lanes.values():
            lane.ask_to_stop()
        for lane in list(self.lanes.values()):
            await lane.stop()
        reports = [(number, lane.health()) for number, lane in self.lanes.items()]
        if reports:
            await self._shared.store.note_health(reports)
        self.lanes.clear()

    async def _look(self, now: int) -> None:
        """Wake the lanes whose work is due, open those that are missing, note the next hour."""
        due: list[Work] = []
        shared = self._shared
        self._held_elsewhere.clear()
        everything = await shared.store.work()
        await self._grant([work.destination.id for work in everything if work.nudged])
        for work in everything:
            if work.earliest <= now:
                due.append(work)
            elif self._alarm is None or work.earliest < self._alarm:
                self._alarm = work.earliest
        for work in sorted(due, key=lambda w: w.earliest):
            lane = self.lanes.get(work.destination.id)
            if lane is None:
                await self._open_unless_broken(work.destination, now)
            elif lane.is_idle or shared.clock.tick() - lane.claimed_at > LOOK_AGAIN:
                lane.hint()

    async def _grant(self, nudged: list[int]) -> None:
        """A person wants these relays tried now (B6): those that are ours are."""
        tick = self._shared.clock.tick()
        granted = []
        for number in nudged:
            if number in self.lanes:
                self.lanes[number].network_back()
                granted.append(number)
            elif number in self._breakers:
                self._breakers[number] = on_network_back(self._breakers[number], tick)
        if granted:
            await self._shared.store.probing(granted)

    async def _open_unless_broken(self, destination: Destination, now: int) -> None:
        breaker = self._breakers.get(destination.id)
        tick = self._shared.clock.tick()
        if breaker is None or may_dial(breaker, tick):
            await self._open(destination)
            return
        probe_at = now + round((breaker.until - tick) * 1000)
        self._alarm = probe_at if self._alarm is None else min(self._alarm, probe_at)

    async def _open(self, destination: Destination) -> None:
        shared = self._shared
        if len(self.lanes) >= shared.settings.lanes:
            await self._free_a_lane()
            if len(self.lanes) >= shared.settings.lanes:
                return
        now = shared.clock.now()
        until = now + round(shared.settings.lease * 1000)
        name = f"relay:{destination.id}"
        fence = await shared.store.take_lease(name, shared.owner, now, until)
        if fence is None:
            self._held_elsewhere.add(destination.id)
            return
        lane = Lane(shared, destination, fence)
        lane.breaker = self._breakers.pop(destination.id, lane.breaker)
        self.lanes[destination.id] = lane
        lane.start()

    async def _free_a_lane(self) -> None:
        """Close a lane that has nothing to do, or else one that can do nothing now."""
        lanes = list(self.lanes.items())
        free = [number for number, lane in lanes if lane.is_idle]
        free += [number for number, lane in lanes if lane.is_resting]
        if free:
            await self.lanes[free[0]].stop()
            await self._remove(free[0])

    async def _bury_ended(self) -> None:
        for number, lane in list(self.lanes.items()):
            if lane.has_ended:
                await self._remove(number)

    async def _remove(self, number: int) -> None:
        lane = self.lanes.pop(number)
        if lane.breaker.failures:
            self._breakers[number] = lane.breaker
        await self._shared.store.note_health([(number, lane.health())])
        await self._shared.store.drop_lease(lane.fence)

    def _on_network_back(self) -> None:
        tick = self._shared.clock.tick()
        self._breakers = {n: on_network_back(b, tick) for n, b in self._breakers.items()}
        for lane in self.lanes.values():
            lane.network_back()
        self.hint()

    def wake_lanes(self) -> None:
        for lane in self.lanes.values():
            lane.wake()

    def reclaim(self) -> None:
        """Other rules hold now for what may be sent."""
        for lane in self.lanes.values():
            lane.reclaim()


def this_worker(owner: str, role: str, now: int) -> WorkerInfo:
    """How this process signs its leases."""
    return WorkerInfo(owner, socket.gethostname(), os.getpid(), role, now, now)


def is_dead(worker: WorkerInfo) -> bool:
    """Whether a worker of this machine is certainly gone; of other machines we know nothing."""
    if worker.host != socket.gethostname():
        return False
    try:
        os.kill(worker.pid, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return False
