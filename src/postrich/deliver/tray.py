"""A lane's tray: the deliveries that it holds in memory and has not settled yet.

Promises: nothing is held twice; what is put back is simply still due, and the store need not be
told; what changed hands while the store was being asked is not taken from its answer; nothing is
thought to be all that is due unless all was looked at. What lies here for long is claimed anew,
since other processes may have cancelled it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence

from postrich.deliver.shared import Shared
from postrich.model.delivery import NO_FLOORS, Claimed, Flight, Parcel
from postrich.model.job import Priority
from postrich.rules.budget import SMALL_BYTES, goes_metered, thrift_order
from postrich.rules.floors import Marks
from postrich.rules.pace import shares

CLAIM = 512
#: What waits here for longer is claimed anew: other processes cancel it, or bring what is urgent.
TRUE_FOR = 1.0


class Tray:
    """`waiting` is to be sent in that order; `unlinked` waits for a socket of its own."""

    def __init__(self, shared: Shared, destination: int) -> None:
        self._shared = shared
        self._destination = destination
        self._meanwhile: set[int] | None = None
        self._marks = Marks()
        self.waiting: deque[Flight] = deque()
        self.unlinked: list[Flight] = []
        self.held: set[int] = set()
        self.more_due = True
        self.claimed_at = 0.0

    @property
    def is_low(self) -> bool:
        """Whether it is worth asking the store for more."""
        return self.more_due and len(self.waiting) < CLAIM // 2

    @property
    def is_stale(self) -> bool:
        """Whether what waits here was claimed too long ago to be sent unseen."""
        if not self.waiting:
            return False
        taken_at = self.claimed_at if self._shared.is_scarce else self.waiting[0].taken_at
        return self._shared.clock.tick() - taken_at > TRUE_FOR

    def has_room(self, count: int) -> bool:
        """Whether new work may be taken without asking the store: nothing else waits there."""
        return not self.more_due and len(self.waiting) + count <= 2 * CLAIM

    def take(self, parcels: Sequence[Parcel], now: float) -> None:
        """New work, straight from its commit; a claim may have been quicker."""
        new = [parcel for parcel in parcels if parcel.job not in self.held]
        jobs = [parcel.job for parcel in new]
        self.held.update(jobs)
        if self._meanwhile is not None:
            self._meanwhile.update(jobs)
        for parcel in new:
            if parcel.priority == Priority.URGENT:
                self.waiting.appendleft(Flight(parcel, 0, now))
            else:
                self.waiting.append(Flight(parcel, 0, now))

    async def refill(self) -> None:
        """Claim what is due, if there is room for a good deal of it."""
        if not self.is_low:
            return
        self.more_due = False
        self._meanwhile = set()
        try:
            flights = await self._claim(*shares(CLAIM - len(self.waiting)))
        finally:
            self._meanwhile = None
        self.held.update(flight.job for flight in flights)
        self.waiting.extend(flights)
        if self._shared.is_scarce:
            self.waiting = deque(sorted(self.waiting, key=self._thrift))

    async def _claim(self, fresh: int, retried: int) -> list[Flight]:
        """Due deliveries, but none that changed hands while we asked."""
        shared = self._shared
        now = shared.clock.now()
        self.claimed_at = shared.clock.tick()
        claimed = await self._ask(now, fresh, retried)
        answered_at = shared.clock.tick()
        is_much = len(claimed) >= min(fresh, retried)
        if is_much:
            self.more_due = True
        if not claimed:
            return []
        parcels = await shared.parcels.get([due.job for due in claimed], now)
        meanwhile, taken_at = self._meanwhile or (), self.claimed_at
        flights = [
            Flight(parcels[due.job], due.attempts, taken_at)
            for due in claimed
            if due.job in parcels and due.job not in meanwhile
        ]
        if is_much and len(flights) == len(claimed) and not shared.metered:
            self._marks.rise(claimed, answered_at)
        return flights

    async def _ask(self, now: int, fresh: int, retried: int) -> list[Claimed]:
        """What is due. Where that is little, it is all there is, whatever the floors were."""
        place, store = self._destination, self._shared.store
        small = SMALL_BYTES if self._shared.metered else None
        floors = self._marks.begin(self.claimed_at)
        claimed = await store.claim(place, now, fresh, retried, list(self.held), small, floors)
        if len(claimed) < min(fresh, retried) and floors != NO_FLOORS:
            self._marks.fall()
            claimed = await store.claim(place, now, fresh, retried, list(self.held), small)
        return claimed

    def _thrift(self, flight: Flight) -> tuple[bool, tuple[int, int]]:
        return (self._shared.metered and not goes_metered(flight), thrift_order(flight))

    def put_back(self, flights: Iterable[Flight]) -> None:
        """Not sent, so still due."""
        self.held.difference_update(flight.job for flight in flights)
        self._marks.fall()
        self.more_due = True

    def put_back_all(self) -> None:
        self.put_back([*self.waiting, *self.unlinked])
        self.waiting.clear()
        self.unlinked.clear()

    def take_waiting(self) -> list[Flight]:
        """All that was not sent, to be settled unsent."""
        flights = [*self.waiting, *self.unlinked]
        self.waiting.clear()
        self.unlinked.clear()
        return flights

    def forget(self, jobs: set[int]) -> None:
        """These jobs were cancelled or changed: what is not in flight must not be sent as it is."""
        if self._meanwhile is not None:
            self._meanwhile |= jobs
            self.more_due = True
        stale = [f for f in (*self.waiting, *self.unlinked) if f.job in jobs]
        if stale:
            self.put_back(stale)
            self.waiting = deque(flight for flight in self.waiting if flight.job not in jobs)
            self.unlinked = [flight for flight in self.unlinked if flight.job not in jobs]

    def link_again(self) -> None:
        """What waited for a socket goes to the front: a socket may be there now."""
        self.waiting.extendleft(reversed(self.unlinked))
        self.unlinked.clear()

    def settled(self, jobs: Iterable[int]) -> None:
        """Written down: not ours to hold any more."""
        self.held.difference_update(jobs)
        if self._meanwhile is not None:
            self._meanwhile.update(jobs)
