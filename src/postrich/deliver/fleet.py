"""The fleet: which relays have work, and a lane for each that we can hold.

Promises: wake-ups are hints, polling is the truth — a missed hint costs at most one poll.
"""

from __future__ import annotations

import logging
import os
import socket
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from postrich.deliver.lanes import Lane
from postrich.deliver.loop import Loop
from postrich.deliver.shared import Shared
from postrich.model.delivery import Destination, Parcel, Target
from postrich.model.relay import RelayHealth
from postrich.rules.dialling import Tier
from postrich.rules.health import Breaker, may_dial, on_network_back
from postrich.rules.spreading import Appetites, limit_of, may_take, surplus
from postrich.rules.trust import refuse_third_party
from postrich.store.port import Work, WorkerInfo

log = logging.getLogger("postrich.fleet")

#: A busy lane looks for others' work and for due retries at least so often.
LOOK_AGAIN = 1.0
#: So many strangers' relays are open that another one must wait for a place.
FULL_HOUSE = 1.0


LANE = "relay:"


class Spread(NamedTuple):
    """How many lanes we may hold, how many each holds, and which are not for us: others hold
    them, or shall."""

    limit: int
    held: Mapping[str, int]
    taken: frozenset[int]


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
        self._known: dict[str, RelayHealth] | None = None
        self._breakers: dict[int, Breaker] = {}  # of relays in trouble that have no lane now
        self._free_since: dict[int, float] = {}  # lanes that nobody holds, while others work here
        self._appetites = Appetites()
        self._granted: set[int] = set()  # strangers that may be dialled, and were not yet
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

    def offer(self, targets: Iterable[Target], parcels: Sequence[Parcel]) -> None:
        """New jobs for these relays, just committed: lanes that are free take them at once."""
        lanes = {lane.destination.url: lane for lane in self.lanes.values()}
        for target in targets:
            lane = lanes.get(target.url)
            if lane is None or lane.has_ended:
                self._alarm = 0
                self.wake()
                continue
            if not target.stranger:
                lane.trust()
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
        spread = await self._spread(due) if shared.others else None
        for work in sorted(due, key=lambda w: w.earliest):
            lane = self.lanes.get(work.destination.id)
            if lane is None:
                if spread is None or self._may_take(work.destination.id, spread):
                    await self._open_unless_broken(work, now)
                if spread is not None and work.destination.id in self.lanes:
                    self._note_left_lying(spread)
                continue
            if work.destination.trusted:
                lane.trust()
            if lane.is_idle or shared.clock.tick() - lane.claimed_at > LOOK_AGAIN:
                lane.hint()

    # -- beside others (G4) --------------------------------------------------------------------

    async def _spread(self, due: Sequence[Work]) -> Spread:
        """Who holds which lanes; what is beyond our share, and wanted elsewhere, is given up."""
        shared = self._shared
        now, tick = shared.clock.now(), shared.clock.tick()
        holders = {
            int(lease.name.removeprefix(LANE)): lease.owner
            for lease in await shared.store.leases()
            if lease.name.startswith(LANE) and lease.until > now
        }
        wanted = {work.destination.id for work in due}
        # A lease of ours without a lane is free for us: its taking or giving back went wrong.
        taken = {number for number, owner in holders.items() if owner != shared.owner}
        free = wanted - taken - self.lanes.keys()
        self._free_since = {number: self._free_since.get(number, tick) for number in free}
        held = Counter(holders.values())
        hungry = self._appetites.hungry(held, shared.others, tick)
        theirs = sum(held[other] for other in shared.others - hungry)
        lanes = len(wanted | holders.keys() | self.lanes.keys()) - theirs
        limit = limit_of(lanes, held, hungry)
        for _ in range(surplus(len(self.lanes), limit, held, hungry)):
            taken.add(await self._give_up_one())
        return Spread(limit, held, frozenset(taken))

    def _may_take(self, number: int, spread: Spread) -> bool:
        if number in spread.taken:
            self._held_elsewhere.add(number)
            return False
        tick = self._shared.clock.tick()
        free_for = tick - self._free_since.get(number, tick)  # we may have freed it just now
        taken = may_take(len(self.lanes), spread.limit, free_for)
        if not taken:
            self._held_elsewhere.add(number)  # so that we look again
        return taken

    def _note_left_lying(self, spread: Spread) -> None:
        """We have taken a lane; where that is one too many, others did not want it."""
        if len(self.lanes) > spread.limit:
            tick, others = self._shared.clock.tick(), self._shared.others
            self._appetites.left_lying(spread.limit, spread.held, others, tick)

    async def _give_up_one(self) -> int:
        """The lane that is needed least ends in an orderly way, and its lease is free."""
        lanes = list(self.lanes.items())
        idle = [number for number, lane in lanes if lane.is_idle]
        resting = [number for number, lane in lanes if lane.is_resting]
        number = next(iter([*idle, *resting, *self.lanes]))
        log.info("%s: its lane moves to another worker", self.lanes[number].destination.url)
        await self.lanes[number].stop()
        await self._remove(number)
        return number

    def keep_only(self, held: frozenset[str], asked_at: float) -> None:
        """These leases are still ours; a lane without its lease ends, and says nothing more."""
        for lane in self.lanes.values():
            if lane.fence.name not in held and lane.taken_at < asked_at:
                lane.lose()

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

    async def _open_unless_broken(self, work: Work, now: int) -> None:
        breaker = self._breakers.get(work.destination.id)
        tick = self._shared.clock.tick()
        wait = 0.0
        if breaker is not None and not may_dial(breaker, tick):
            wait = breaker.until - tick
        elif not work.destination.trusted:
            wait = await self._until_granted(work, tick)
        if not wait:
            await self._open(work.destination)
            return
        again_at = now + round(wait * 1000)
        self._alarm = again_at if self._alarm is None else min(self._alarm, again_at)

    async def _until_granted(self, work: Work, tick: float) -> float:
        """Strangers' relays are dialled within a budget (C7, C8): 0.0, or when to ask again."""
        shared = self._shared
        number, url = work.destination.id, work.destination.url
        guard = shared.settings.guard(trusted=False)
        if number in self._granted or (guard is not None and refuse_third_party(url, guard)):
            return 0.0  # it was granted before, or will not be dialled at all
        if not await self._has_place():
            return FULL_HOUSE
        tier = Tier.MESSAGE if work.messages else Tier.PUBLISH
        wait = shared.dialling.ask(url, tier, tick, shared.clock.chance())
        if not wait:
            self._granted.add(number)
        return wait

    async def _has_place(self) -> bool:
        """Whether another stranger's relay may be open. The dead take no place from the living,
        and who has nothing to do makes room."""
        strangers = {n: lane for n, lane in self.lanes.items() if not lane.destination.trusted}
        busy = [number for number, lane in strangers.items() if not lane.is_resting]
        if len(busy) < self._shared.settings.budgets.strangers_at_once:
            return True
        idle = next((number for number in busy if strangers[number].is_idle), None)
        if idle is None:
            return False
        await strangers[idle].stop()
        await self._remove(idle)
        return True

    async def _open(self, destination: Destination) -> None:
        shared = self._shared
        if len(self.lanes) >= shared.settings.lanes:
            await self._free_a_lane()
            if len(self.lanes) >= shared.settings.lanes:
                return
        now, tick = shared.clock.now(), shared.clock.tick()
        until = now + round(shared.settings.lease * 1000)
        name = f"{LANE}{destination.id}"
        fence = await shared.store.take_lease(name, shared.owner, now, until)
        if fence is None:
            self._held_elsewhere.add(destination.id)
            return
        lane = Lane(shared, destination, fence, tick)
        lane.breaker = self._breakers.pop(destination.id, lane.breaker)
        lane.recall(await self._remembered(destination.url))
        self.lanes[destination.id] = lane
        self._granted.discard(destination.id)
        lane.start()

    async def _remembered(self, url: str) -> RelayHealth | None:
        """What an earlier lane, of whichever process, knew of the relay (C10)."""
        if self._known is None:
            self._known = {health.url: health for health in await self._shared.store.health()}
        return self._known.pop(url, None)

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
        health = lane.health()
        if self._known is not None:
            self._known[health.url] = health
        await self._shared.store.note_health([(number, health)])
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


def this_machine() -> str:
    """Where process numbers mean what they mean here: containers may share a host's name."""
    try:
        return f"{socket.gethostname()} {Path('/proc/self/ns/pid').readlink()}"
    except OSError:  # not on Linux
        return socket.gethostname()


def this_worker(owner: str, role: str, now: int, started_at: int) -> WorkerInfo:
    """How this process signs its leases."""
    return WorkerInfo(owner, this_machine(), os.getpid(), role, started_at, now)


def is_dead(worker: WorkerInfo) -> bool:
    """Whether a worker of this machine is certainly gone; of other machines we know nothing."""
    if worker.host != this_machine():
        return False
    try:
        os.kill(worker.pid, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return False
