"""The store under test: one fixture, every adapter. A test's last act is an audit of the file."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from postrich.store.port import Store
from postrich.store.postgres import PostgresStore
from postrich.store.sqlite import SqliteStore
from tests.store.auditing import audit
from tests.store.servers import empty_dsn

Opener = Callable[[], Awaitable[Store]]


def sqlite_at(folder: Path) -> Opener:
    """Opens the same SQLite file again and again."""
    return lambda: SqliteStore.open(str(folder / "outbox.db"))


def postgres_at(_: Path) -> Opener:
    """Opens the same PostgreSQL schema again and again; the first time it is empty."""
    places: list[str] = []

    async def open_it() -> Store:
        if not places:
            places.append(await empty_dsn())
        return await PostgresStore.open(places[0])

    return open_it


ADAPTERS: dict[str, Callable[[Path], Opener]] = {"sqlite": sqlite_at, "postgres": postgres_at}


class Place:
    """Where one test's outbox is kept: opened as often as a test wants, by any adapter."""

    def __init__(self, opener: Opener) -> None:
        self._opener = opener
        self._stores: list[Store] = []

    async def open(self) -> Store:
        store = await self._opener()
        self._stores.append(store)
        return store

    async def reopen(self) -> Store:
        """As after an orderly end of the process."""
        await self.close()
        return await self.open()

    async def close(self) -> None:
        while self._stores:
            await self._stores.pop().close()


@pytest.fixture(params=ADAPTERS)
async def place(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Place]:
    place = Place(ADAPTERS[request.param](tmp_path))
    yield place
    await audit(await place.reopen())
    await place.close()


@pytest.fixture
async def store(place: Place) -> Store:
    return await place.open()
