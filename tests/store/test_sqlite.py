"""What is SQLite's own: durable settings, the schema's upgrades, and no rows left behind."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import apsw
import pytest

from postrich.errors import StoreError
from postrich.store.queries import migrations
from postrich.store.sqlite import SqliteStore, connection
from postrich.store.sqlite.connection import APPLICATION_ID
from tests.store.auditing import audit
from tests.store.making import (
    BLUE,
    NOW,
    RED,
    again,
    hand_in,
    lane,
    look,
    named,
    publish,
)

NEWEST = max(migrations("sqlite"))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "outbox.db"


@pytest.fixture
async def store(path: Path) -> AsyncIterator[SqliteStore]:
    store = await SqliteStore.open(str(path))
    yield store
    await audit(store)
    await store.close()


async def pragma(store: SqliteStore, name: str) -> object:
    found: object = await store._write(lambda db: db.pragma(name))
    return found


# -- settings and schema --------------------------------------------------------------------


@pytest.mark.req("A1")
async def test_commits_are_durable(store: SqliteStore) -> None:
    assert await pragma(store, "journal_mode") == "wal"
    assert await pragma(store, "synchronous") == 2  # FULL: every commit reaches the disk
    assert await pragma(store, "application_id") == APPLICATION_ID
    assert await pragma(store, "user_version") == NEWEST


@pytest.mark.req("F10")
def test_migrations_are_numbered_without_a_gap() -> None:
    assert list(migrations("sqlite")) == list(range(1, NEWEST + 1))


def schema_of(path: Path) -> list[tuple[str, ...]]:
    with closing(apsw.Connection(str(path))) as link:
        return list(link.execute("SELECT type, name, sql FROM sqlite_schema ORDER BY 1, 2"))


@pytest.mark.req("F10")
async def test_opening_again_changes_no_schema(path: Path) -> None:
    store = await SqliteStore.open(str(path))
    number = await hand_in(store, "hello")
    await store.close()
    before = schema_of(path)
    store = await SqliteStore.open(str(path))
    assert (await look(store, number)).content == "hello"
    await store.close()
    assert schema_of(path) == before


@pytest.mark.req("F10")
async def test_an_upgrade_keeps_the_data(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = await SqliteStore.open(str(path))
    number = await hand_in(store, "hello")
    await store.close()
    steps = {**migrations("sqlite"), NEWEST + 1: "CREATE TABLE added (n INTEGER) STRICT;"}
    monkeypatch.setattr(connection, "migrations", lambda _: steps)
    for _ in range(2):
        store = await SqliteStore.open(str(path))
        assert await pragma(store, "user_version") == NEWEST + 1
        assert (await look(store, number)).content == "hello"
        await store.close()
    assert any(name == "added" for _, name, _ in schema_of(path))


@pytest.mark.req("F10")
async def test_a_failed_upgrade_changes_nothing(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await SqliteStore.open(str(path))
    number = await hand_in(store, "hello")
    await store.close()
    before = schema_of(path)
    with monkeypatch.context() as patch:
        bad = "CREATE TABLE added (n INTEGER) STRICT; CREATE TABLE jobs (again INTEGER);"
        steps = {**migrations("sqlite"), NEWEST + 1: bad}
        patch.setattr(connection, "migrations", lambda _: steps)
        with pytest.raises(StoreError):
            await SqliteStore.open(str(path))
    assert schema_of(path) == before
    store = await SqliteStore.open(str(path))
    assert await pragma(store, "user_version") == NEWEST
    assert (await look(store, number)).content == "hello"
    await store.close()


# -- nothing is left behind -----------------------------------------------------------------


async def rows_of(store: SqliteStore, number: int) -> dict[str, int]:
    """How many rows each table has for a job."""
    columns = {
        "jobs": "id",
        "job_history": "id",
        "dependencies": "job",
        "deliveries": "job",
        "delivery_history": "job",
        "payloads": "job",
        "story": "job",
        "identities": "job",
        "idempotency": "job",
    }
    with closing(apsw.Connection(store.path)) as link:
        counts = {
            table: link.execute(f"SELECT count(*) FROM {table} WHERE {column} = ?", (number,)).get
            for table, column in columns.items()
        }
    return {table: count for table, count in counts.items() if count}


async def finished_job(store: SqliteStore, text: str) -> int:
    """A published job with a story, a key and a need."""
    need = await hand_in(store, f"need of {text}")
    await publish(store, need)
    number = await hand_in(store, text, RED, BLUE, key=text, after=(need,))
    await (await lane(store, RED)).report(again(number))
    await publish(store, number)
    return number


@pytest.mark.req("B6")
async def test_a_deleted_job_has_no_rows(store: SqliteStore) -> None:
    for archived in (False, True):
        number = await finished_job(store, f"hello {archived}")
        assert len(await rows_of(store, number)) == 7
        if archived:
            await store.archive(NOW, 10)
        await store.delete(named(number))
        assert await rows_of(store, number) == {}


@pytest.mark.req("A9")
async def test_a_pruned_job_leaves_its_names(store: SqliteStore) -> None:
    number = await finished_job(store, "hello")
    await store.archive(NOW, 10)
    assert set(await rows_of(store, number)) >= {"job_history", "delivery_history", "story"}
    await store.prune(NOW, 10)
    assert await rows_of(store, number) == {"identities": 1, "idempotency": 1}
