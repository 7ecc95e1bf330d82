"""Slots: an author's weekly grids, and the next of their times at which nothing else is due (F5).

Promises: a slot is one post's alone, however many ask for it at the same moment: whoever is
second gets the next.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import msgspec

from postrich.clock import Clock
from postrich.errors import CallerError, SlotTaken, UnknownGrid
from postrich.model.post import Grid, Kept
from postrich.rules.scheduling import FARTHEST_MS, check_name
from postrich.rules.slots import next_free, parse_grid
from postrich.store.port import Store

#: Slots that are looked at before the store is asked anew which are free.
AT_ONCE = 10
#: Grids that one author may have.
MOST_GRIDS = 100
#: So often somebody else may be quicker before that is strange.
MOST_TRIES = 1000


class Slotted(msgspec.Struct, frozen=True):
    """A post that was kept, and the slot it has."""

    kept: Kept
    at: int


class SlotDesk:
    """The weekly grids of one outbox."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    async def grids(self, pubkey: str) -> list[Grid]:
        """An author's grids."""
        return await self._store.grids(pubkey)

    async def set_grid(self, pubkey: str, name: str, text: str, zone: str) -> Grid:
        """Keep a grid such as `mon,wed,fri 09:00 18:00; sat 10:30`, in place of one of that name.

        What is scheduled already stays where it is.
        """
        parse_grid(text, zone)
        others = [one.name for one in await self._store.grids(pubkey) if one.name != name]
        if len(others) >= MOST_GRIDS:
            raise CallerError(f"there are {MOST_GRIDS} weekly grids already; remove one first")
        grid = Grid(pubkey, check_name(name), text, zone)
        await self._store.keep_grid(grid)
        return grid

    async def drop_grid(self, pubkey: str, name: str) -> None:
        """Forget a grid; what was queued by it stays where it is."""
        if not await self._store.drop_grid(pubkey, name):
            raise UnknownGrid(f"there is no weekly grid {name!r}")

    async def next_slots(self, pubkey: str, name: str, count: int) -> list[int]:
        """The next free slots of a grid, in milliseconds; fewer where that is too far ahead."""
        return await self._free(await self._grid(pubkey, name), self._clock.now(), count)

    async def take(
        self, pubkey: str, name: str, keep: Callable[[int], Awaitable[Kept | CallerError]]
    ) -> Slotted | CallerError:
        """Let `keep` have the first free slot that nobody else takes meanwhile."""
        grid = await self._grid(pubkey, name)
        after = self._clock.now()
        for _ in range(MOST_TRIES // AT_ONCE):
            for at in await self._free(grid, after, AT_ONCE):
                answer = await keep(at)
                if isinstance(answer, Kept):
                    return Slotted(answer, await self._hour(pubkey, answer, at))
                if not isinstance(answer, SlotTaken):
                    return answer
                after = at
        return SlotTaken(f"others took every slot of the grid {name!r} that was free")

    async def _hour(self, pubkey: str, kept: Kept, at: int) -> int:
        """When it goes out: what was there already has the slot that it was given then."""
        if kept.accepted.is_new:
            return at
        [post] = await self._store.posts_called(kept.name, pubkey)
        return post.job.due_at or at

    async def _grid(self, pubkey: str, name: str) -> Grid:
        for grid in await self._store.grids(pubkey):
            if grid.name == name:
                return grid
        raise UnknownGrid(f"there is no weekly grid {name!r}")

    async def _free(self, grid: Grid, after: int, count: int) -> list[int]:
        last = self._clock.now() + FARTHEST_MS
        taken = await self._store.times_taken(grid.pubkey, after, last)
        slots = next_free(parse_grid(grid.grid, grid.zone), taken, after, count)
        return [slot for slot in slots if slot <= last]
