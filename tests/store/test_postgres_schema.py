"""PostgreSQL's schema: upgraded by whoever starts first, while older versions go on working."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator

import pytest

from postrich.errors import StoreError, StoreUnusable
from postrich.store.postgres import PostgresStore, migrating
from postrich.store.postgres.migrating import SchemaStatus, read_step, status, steps, upgrade
from postrich.store.queries import migrations, queries
from tests.store.making import hand_in, look, publish
from tests.store.processes import run_python
from tests.store.servers import Admin, new_dsn

pytestmark = pytest.mark.req("F10", "G4")

NEWEST = max(migrations("postgres"))
EXPAND = "-- step: expand\nCREATE TABLE added (n integer);"
CONTRACT = "-- step: contract\nDROP TABLE nudges;"


@pytest.fixture
async def dsn(request: pytest.FixtureRequest) -> str:
    return await new_dsn(re.sub(r"\W", "", request.node.name)[-20:].lower())


@pytest.fixture
async def admin(dsn: str) -> AsyncIterator[Admin]:
    async with Admin(dsn) as admin:
        yield admin


def use(patch: pytest.MonkeyPatch, *more: str) -> None:
    """As a Postrich that knows these migrations too."""
    known = {**migrations("postgres"), **{NEWEST + n: sql for n, sql in enumerate(more, 1)}}
    patch.setattr(migrating, "migrations", lambda _: known)


async def tables(admin: Admin) -> set[str]:
    found = await admin.link.fetch(
        "SELECT tablename FROM pg_tables WHERE schemaname = $1", admin.schema
    )
    return {row[0] for row in found}


async def hand_in_and_publish(dsn: str, text: str) -> None:
    store = await PostgresStore.open(dsn)
    number = await hand_in(store, text)
    await publish(store, number)
    assert (await look(store, number)).content == text
    await store.close()


def test_migrations_are_numbered_without_a_gap_and_say_what_they_are() -> None:
    assert [step.number for step in steps()] == list(range(1, NEWEST + 1))
    with pytest.raises(ValueError, match="which step"):
        read_step(7, "CREATE TABLE x ();")
    assert read_step(7, "-- step: contract\n").leaves == 7
    assert read_step(7, "-- step: contract 5\n").leaves == 5


def test_every_verb_of_sqlite_is_there() -> None:
    """But for those that are others here."""
    missing = set(queries("sqlite")) - set(queries("postgres"))
    assert missing == {"settle_kept", "settle_story", "route_deliveries"}


async def test_a_new_place_is_empty_until_it_is_opened(dsn: str, admin: Admin) -> None:
    assert await status(dsn) == SchemaStatus(0, 0, NEWEST, tuple(range(1, NEWEST + 1)), ())
    assert await tables(admin) == set()
    await hand_in_and_publish(dsn, "hello")
    assert await status(dsn) == SchemaStatus(NEWEST, 1, NEWEST, (), ())


OPEN = """
import asyncio, sys
from postrich.store.postgres import PostgresStore
from tests.store.making import hand_in

async def main():
    store = await PostgresStore.open(sys.argv[1])
    await hand_in(store, f"of {sys.argv[2]}")
    await store.close()

asyncio.run(main())
"""


async def test_many_may_start_at_once(dsn: str) -> None:
    processes = [run_python(OPEN, dsn, n) for n in range(4)]
    for process in processes:
        _, trouble = process.communicate(timeout=60)
        assert process.returncode == 0, trouble
    store = await PostgresStore.open(dsn)
    assert (await store.status()).pending == 4
    await store.close()


async def test_an_old_version_goes_on_with_an_extended_schema(
    dsn: str, admin: Admin, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = await PostgresStore.open(dsn)
    with monkeypatch.context() as patch:
        use(patch, EXPAND)
        await hand_in_and_publish(dsn, "by the new one")
        assert await status(dsn) == SchemaStatus(NEWEST + 1, 1, NEWEST + 1, (), ())
    assert "added" in await tables(admin)
    await publish(old, await hand_in(old, "by the old one"))
    await old.close()
    await hand_in_and_publish(dsn, "by the old one, started anew")


async def test_only_an_upgrade_takes_away(
    dsn: str, admin: Admin, monkeypatch: pytest.MonkeyPatch
) -> None:
    await hand_in_and_publish(dsn, "before")
    with monkeypatch.context() as patch:
        use(patch, EXPAND, CONTRACT)
        store = await PostgresStore.open(dsn)
        await store.close()
        assert {"added", "nudges"} <= await tables(admin)
        found = await status(dsn)
        assert (found.version, found.contracting) == (NEWEST + 1, (NEWEST + 2,))
        found = await upgrade(dsn)
        assert (found.version, found.min_version, found.pending) == (NEWEST + 2, NEWEST + 2, ())
        assert "nudges" not in await tables(admin)
    with pytest.raises(StoreUnusable, match="newer Postrich"):
        await PostgresStore.open(dsn)


async def test_a_failed_upgrade_changes_nothing(
    dsn: str, admin: Admin, monkeypatch: pytest.MonkeyPatch
) -> None:
    await hand_in_and_publish(dsn, "before")
    before = await tables(admin)
    with monkeypatch.context() as patch:
        use(patch, f"{EXPAND} CREATE TABLE jobs (again integer);")
        with pytest.raises(StoreError, match="already exists"):
            await PostgresStore.open(dsn)
    assert await tables(admin) == before
    assert (await status(dsn)).version == NEWEST
    await hand_in_and_publish(dsn, "after")
