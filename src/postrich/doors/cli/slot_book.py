"""`schedule slots`: weekly grids of an account's own, and their next free times."""

from __future__ import annotations

from typing import Any

from postrich.doors.cli.home import Home
from postrich.doors.cli.hours import hour_words
from postrich.doors.cli.roster import Roster
from postrich.doors.cli.showing import say, write_json
from postrich.doors.cli.words import plain
from postrich.doors.rows import iso
from postrich.model.post import Grid
from postrich.outbox import Outbox

SHOWN = 3


async def show_grids(home: Home, account: str | None, as_json: bool) -> int:
    """The grids of an account, and when their next slots are."""
    pubkey = Roster(home).find(account).pubkey
    async with home.looking() as outbox:
        grids = await outbox.schedule.slots.grids(pubkey)
        documents = [await _document(outbox, grid, SHOWN) for grid in grids]
        now = outbox.now()
    if as_json:
        write_json({"grids": documents})
        return 0
    if not grids:
        say(
            'There is no weekly grid. `postrich schedule slots set main "mon,thu 09:00"` makes one.'
        )
    for grid, document in zip(grids, documents, strict=True):
        say(f"{plain(grid.name)}: {plain(grid.grid)} ({grid.zone})")
        for at in document["free"]:
            say(f"  free: {hour_words(at, now, grid.zone)}")
    return 0


async def set_grid(
    home: Home, name: str, text: str, zone: str, account: str | None, as_json: bool
) -> int:
    """Keep a grid; what was queued by an older one stays where it is."""
    pubkey = Roster(home).find(account).pubkey
    async with home.looking() as outbox:
        grid = await outbox.schedule.slots.set_grid(pubkey, name, text, zone)
        document = await _document(outbox, grid, SHOWN)
        now = outbox.now()
    if as_json:
        write_json(document)
        return 0
    say(f"✓ kept the grid {plain(grid.name)}: {plain(grid.grid)} ({grid.zone})", "green")
    for at in document["free"]:
        say(f"  free: {hour_words(at, now, grid.zone)}")
    return 0


async def drop_grid(home: Home, name: str, account: str | None, as_json: bool) -> int:
    pubkey = Roster(home).find(account).pubkey
    async with home.looking() as outbox:
        await outbox.schedule.slots.drop_grid(pubkey, name)
    if as_json:
        write_json({"removed": name})
    else:
        say(f"Removed the grid {plain(name)}; what is scheduled stays.")
    return 0


async def show_free(home: Home, name: str, number: int, account: str | None, as_json: bool) -> int:
    """The next free slots of a grid."""
    pubkey = Roster(home).find(account).pubkey
    async with home.looking() as outbox:
        free = await outbox.schedule.slots.next_slots(pubkey, name, number)
        [grid] = [grid for grid in await outbox.schedule.slots.grids(pubkey) if grid.name == name]
        now = outbox.now()
    if as_json:
        write_json({"name": name, "free": free, "at": [iso(at) for at in free]})
        return 0
    for at in free:
        say(hour_words(at, now, grid.zone))
    return 0


async def _document(outbox: Outbox, grid: Grid, number: int) -> dict[str, Any]:
    free = await outbox.schedule.slots.next_slots(grid.pubkey, grid.name, number)
    return {"name": grid.name, "grid": grid.grid, "zone": grid.zone, "free": free}
