"""Where work is kept: a port of domain verbs and its adapters."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from postrich.errors import BadSetting
from postrich.store.places import is_postgres
from postrich.store.port import Store


async def open_store(place: str | os.PathLike[str]) -> Store:
    """The store at `place`: a `postgresql://…` address, else the path of a SQLite file."""
    text = os.fspath(place)
    if not is_postgres(text):
        from postrich.store.sqlite import SqliteStore

        return await SqliteStore.open(text)
    with driver_needed():
        from postrich.store.postgres import PostgresStore
    return await PostgresStore.open(text)


@contextmanager
def driver_needed() -> Iterator[None]:
    """Around imports of the PostgreSQL adapter: says how to get what it needs."""
    try:
        yield
    except ModuleNotFoundError as missing:
        if missing.name not in ("asyncpg", "greenlet"):
            raise
        raise BadSetting(
            "PostgreSQL needs more packages: pip install 'postrich[postgres]'"
        ) from None
