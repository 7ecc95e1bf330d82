"""The schema of a store, whichever adapter it has: what there is, and bringing it up to date.

Promises: `schema_status` changes nothing; `bring_up` takes nothing away from older workers unless
it is told to, and then only where none of them is seen.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec

from postrich.store import driver_needed
from postrich.store.places import Place
from postrich.store.port import WorkerInfo
from postrich.store.queries import migrations

#: Who was not heard of for longer has certainly lost its leases, and may be gone.
LATELY_MS = 60_000


class SchemaStatus(msgspec.Struct, frozen=True):
    """Which schema a store has (0: none), the oldest whose software may work with it, the newest
    that this software knows, and what is to be applied; `contracting` of these take away."""

    version: int
    min_version: int
    newest: int
    pending: tuple[int, ...] = ()
    contracting: tuple[int, ...] = ()

    @property
    def is_newer(self) -> bool:
        """Made by a newer Postrich, so that this one cannot work with it."""
        return self.version > self.newest and self.min_version > self.newest


async def schema_status(place: Place) -> SchemaStatus:
    """What a store has; changes nothing."""
    if not place.is_postgres:
        return await asyncio.to_thread(_file_status, place.path)
    with driver_needed():
        from postrich.store.postgres import migrating
    found = await migrating.status(place.text)
    return SchemaStatus(*msgspec.structs.astuple(found))


def _file_status(path: Path) -> SchemaStatus:
    from postrich.store.sqlite.connection import version_of

    version = version_of(path) if path.is_file() else 0
    steps = migrations("sqlite")
    todo = tuple(number for number in steps if number > version)
    return SchemaStatus(version, version, max(steps), todo)


async def bring_up(place: Place, *, contract: bool = False) -> SchemaStatus:
    """Apply what is pending, contracting steps only where that is asked for."""
    if not place.is_postgres:
        await asyncio.to_thread(_upgrade_file, place.path)
        return await schema_status(place)
    with driver_needed():
        from postrich.store.postgres import migrating
    found = await migrating.upgrade(place.text, contract=contract)
    return SchemaStatus(*msgspec.structs.astuple(found))


def _upgrade_file(path: Path) -> None:
    from postrich.store.sqlite.connection import open_writer

    open_writer(str(path)).close()


async def older_workers(place: Place, schema: int) -> list[WorkerInfo]:
    """Workers that may not know this schema; a file is worked on by software that knows all."""
    if not place.is_postgres:
        return []
    with driver_needed():
        from postrich.store.postgres import migrating
    return await migrating.older_workers(place.text, schema)
