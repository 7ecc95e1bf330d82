"""`/api/slots`: weekly grids of one's own, and the next of their times that is free (F5)."""

from __future__ import annotations

from typing import Annotated

import msgspec
from litestar import Controller, delete, get, put
from litestar.params import FromPath, FromQuery, JSONBody, QueryParameter
from msgspec import Meta

from postrich.doors.http.desk import AtDesk, ByCaller
from postrich.model.post import Grid


class NewGrid(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A grid such as `mon,wed,fri 09:00 18:00; sat 10:30`, in a zone such as Europe/Berlin."""

    grid: Annotated[str, Meta(max_length=2000)]
    zone: Annotated[str, Meta(max_length=100)] = "UTC"


class GridView(msgspec.Struct, frozen=True):
    name: str
    grid: str
    zone: str


class GridList(msgspec.Struct, frozen=True):
    pubkey: str
    grids: list[GridView]


class GridRemoved(msgspec.Struct, frozen=True):
    status: str
    name: str


class FreeSlots(msgspec.Struct, frozen=True):
    """Milliseconds since 1970. Schedule a post for one with `alone`, and it is its own."""

    slots: list[int]


class Slots(Controller):
    """Weekly grids."""

    path = "/api/slots"
    tags = ("slots",)

    @get("/", summary="An author's grids")
    async def listed(
        self, caller: ByCaller, desk: AtDesk, pubkey: FromQuery[str | None] = None
    ) -> GridList:
        author = caller.author(pubkey)
        found = await desk.outbox.schedule.slots.grids(author)
        return GridList(author, [_view(grid) for grid in found])

    @put("/{name:str}", summary="Keep a grid")
    async def keep(
        self,
        name: FromPath[str],
        data: JSONBody[NewGrid],
        caller: ByCaller,
        desk: AtDesk,
        pubkey: FromQuery[str | None] = None,
    ) -> GridView:
        author = caller.author(pubkey)
        return _view(await desk.outbox.schedule.slots.set_grid(author, name, data.grid, data.zone))

    @delete("/{name:str}", summary="Forget a grid", status_code=200)
    async def remove(
        self,
        name: FromPath[str],
        caller: ByCaller,
        desk: AtDesk,
        pubkey: FromQuery[str | None] = None,
    ) -> GridRemoved:
        await desk.outbox.schedule.slots.drop_grid(caller.author(pubkey), name)
        return GridRemoved("removed", name)

    @get("/{name:str}/next", summary="The next free slots")
    async def free(
        self,
        name: FromPath[str],
        caller: ByCaller,
        desk: AtDesk,
        count: Annotated[int, QueryParameter(ge=1, le=100)] = 10,
        pubkey: FromQuery[str | None] = None,
    ) -> FreeSlots:
        slots = desk.outbox.schedule.slots
        return FreeSlots(await slots.next_slots(caller.author(pubkey), name, count))


def _view(grid: Grid) -> GridView:
    return GridView(grid.name, grid.grid, grid.zone)
