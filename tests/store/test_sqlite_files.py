"""Files that SQLite cannot or must not use: refused with a sentence, and left as they were."""

from __future__ import annotations

import random
from contextlib import closing
from pathlib import Path

import apsw
import pytest

from postrich.errors import StoreUnusable
from postrich.store.queries import migrations
from postrich.store.sqlite import SqliteStore
from tests.store.making import (
    EVERYTHING,
    NOW,
    hand_in,
    wish,
)
from tests.store.processes import run_python

NEWEST = max(migrations("sqlite"))
NOISE = random.Random(1).randbytes(8192)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "outbox.db"


def write_other_database(path: Path, application_id: int, user_version: int) -> None:
    with closing(apsw.Connection(str(path))) as link:
        link.execute("CREATE TABLE songs (title TEXT); INSERT INTO songs VALUES ('la')")
        link.pragma("application_id", application_id)
        link.pragma("user_version", user_version)


def content_of(path: Path) -> bytes:
    return path.read_bytes()


def make_file(path: Path, content: bytes) -> None:
    path.write_bytes(content)


def forbid_writing(path: Path) -> None:
    """The file may be read by all and written by nobody."""
    path.chmod(0o444)
    for folder in path.parents:
        if folder.owner() == path.owner() and not folder.stat().st_mode & 0o005:
            folder.chmod(folder.stat().st_mode | 0o055)


async def refused(path: Path) -> str:
    """Why a file was refused, having shown that it was not touched."""
    before = content_of(path)
    with pytest.raises(StoreUnusable) as caught:
        await SqliteStore.open(str(path))
    assert content_of(path) == before
    assert sorted(other.name for other in path.parent.iterdir()) == [path.name]
    assert str(path) in str(caught.value)
    return str(caught.value)


@pytest.mark.req("F10")
async def test_a_newer_schema_is_refused(path: Path) -> None:
    store = await SqliteStore.open(str(path))
    await store.close()
    with closing(apsw.Connection(str(path))) as link:
        link.pragma("user_version", NEWEST + 1)
    assert "newer Postrich" in await refused(path)


@pytest.mark.parametrize(
    ("application_id", "user_version"), [(0, 0), (0, NEWEST), (0, NEWEST + 1), (7, 0), (7, NEWEST)]
)
async def test_another_programs_database_is_refused(
    path: Path, application_id: int, user_version: int
) -> None:
    write_other_database(path, application_id, user_version)
    assert "another program" in await refused(path)


@pytest.mark.parametrize("content", [b"dear diary", b"\x00" * 5000, NOISE])
async def test_garbage_is_refused(path: Path, content: bytes) -> None:
    make_file(path, content)
    assert "not a usable outbox" in await refused(path)


async def test_an_empty_file_is_a_new_outbox(path: Path) -> None:
    make_file(path, b"")
    store = await SqliteStore.open(str(path))
    assert await hand_in(store, "hello")
    await store.close()


async def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    path = tmp_path / "nowhere" / "outbox.db"
    with pytest.raises(StoreUnusable, match="folder exists"):
        await SqliteStore.open(str(path))
    assert not path.parent.exists()


async def test_a_folder_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(StoreUnusable, match=str(tmp_path)):
        await SqliteStore.open(str(tmp_path))


async def test_a_damaged_file_is_said_to_be_damaged(path: Path) -> None:
    store = await SqliteStore.open(str(path))
    await store.accept([wish(f"note {n}") for n in range(100)], NOW)
    await store.close()
    first_page = content_of(path)[:4096]
    make_file(path, first_page + NOISE * 20)
    with pytest.raises(StoreUnusable, match="not a usable outbox"):
        await (await SqliteStore.open(str(path))).jobs(EVERYTHING, 10)


OPEN_AND_TELL = """
import os, sys
from postrich.errors import StoreUnusable
from postrich.store.queries import migrations, queries
from postrich.store.sqlite.connection import open_writer
queries("sqlite"), migrations("sqlite")
if os.getuid() == 0:
    os.setuid(65534)  # to root every file is writable
try:
    open_writer(sys.argv[1])
except StoreUnusable as problem:
    print(problem)
"""


async def test_a_file_that_may_not_be_written_is_refused(path: Path) -> None:
    store = await SqliteStore.open(str(path))
    await hand_in(store, "hello")
    await store.close()
    before = content_of(path)
    forbid_writing(path)
    told, trouble = run_python(OPEN_AND_TELL, path).communicate(timeout=30)
    assert "cannot be written" in told, trouble
    assert content_of(path) == before
