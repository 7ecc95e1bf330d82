"""What is SQLite's own: settings, upgrades, bad files, full disks, groups, processes."""

from __future__ import annotations

import asyncio
import os
import random
import subprocess
import sys
import threading
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import apsw
import pytest

import postrich
from postrich.errors import StoreBusy, StoreError, StoreFull, StoreUnusable
from postrich.model.job import JobFilter
from postrich.store.queries import migrations
from postrich.store.sqlite import SqliteStore, connection
from postrich.store.sqlite.connection import APPLICATION_ID, Database, open_writer
from tests.store.auditing import audit
from tests.store.making import (
    BLUE,
    EVERYTHING,
    GREEN,
    NOW,
    RED,
    again,
    hand_in,
    lane,
    look,
    named,
    note,
    publish,
    snapshot,
    wish,
)

NEWEST = max(migrations("sqlite"))
NOISE = random.Random(1).randbytes(8192)


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


def run_python(script: str, *arguments: object) -> subprocess.Popen[str]:
    """Another process with this Postrich, running `script`."""
    roots = [str(Path(root).parent) for root in postrich.__path__] + [str(Path.cwd())]
    return subprocess.Popen(
        [sys.executable, "-c", script, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(roots)},
    )


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


# -- files that are not ours to use ---------------------------------------------------------


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
    for folder in list(path.parents)[:3]:
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


# -- a full disk ----------------------------------------------------------------------------


async def limit_pages(store: SqliteStore, more: int) -> None:
    """From now on the file may grow by that many pages."""
    await store._write(lambda db: db.pragma("max_page_count", db.pragma("page_count") + more))


async def test_a_full_disk_keeps_nothing_of_the_call(store: SqliteStore) -> None:
    number = await hand_in(store, "before")
    await limit_pages(store, 2)
    before = await snapshot(store)
    large = [wish(note(f"{n}" * 3000), GREEN, key=f"k{n}") for n in range(50)]
    with pytest.raises(StoreFull, match="no space is left"):
        await store.accept(large, NOW)
    assert await snapshot(store) == before
    await publish(store, number)  # what fits still works

    await limit_pages(store, 10_000)
    accepted = (await store.accept(large, NOW)).accepted
    assert all(answer.is_new for answer in accepted)
    # The green relay was first heard of in the call that failed: it must be a real one now.
    hand = await lane(store, GREEN)
    assert len(await hand.jobs()) == len(large)
    await hand.deliver(*(answer.job for answer in accepted))


async def test_all_who_were_in_the_group_are_told(store: SqliteStore) -> None:
    await limit_pages(store, 0)
    answers = await asyncio.gather(
        *(store.accept([wish(note(f"{n}" * 50_000))], NOW) for n in range(10)),
        return_exceptions=True,
    )
    assert {type(answer) for answer in answers} == {StoreFull}
    assert await store.jobs(EVERYTHING, 10) == []


# -- groups ---------------------------------------------------------------------------------


class Pause:
    """Keeps the writer busy, so that what is handed in meanwhile becomes one group."""

    def __init__(self, store: SqliteStore) -> None:
        self._store = store
        self._go = threading.Event()

    async def __aenter__(self) -> None:
        started = threading.Event()

        def wait(_: Database) -> None:
            started.set()
            self._go.wait()

        self._task = asyncio.ensure_future(self._store._write(wait))
        await asyncio.to_thread(started.wait)

    async def __aexit__(self, *_: object) -> None:
        await asyncio.sleep(0)
        self._go.set()
        await self._task


def fault(_: Database) -> None:
    raise ValueError("a bug of ours")


async def test_one_bad_operation_fails_alone(store: SqliteStore) -> None:
    bad_key = "\ud800"  # cannot be encoded: the batch that holds it cannot even begin
    async with Pause(store):
        calls = [
            asyncio.ensure_future(call)
            for call in (
                store.accept([wish("one", GREEN)], NOW),
                store.accept([wish("two", GREEN, key=bad_key)], NOW),
                store._write(fault),
                store.accept([wish("three", BLUE)], NOW),
                store.accept([wish("four", RED)], NOW),
            )
        ]
    answers = await asyncio.gather(*calls, return_exceptions=True)
    assert [isinstance(answer, BaseException) for answer in answers] == [
        False,
        True,
        True,
        False,
        False,
    ]
    assert isinstance(answers[2], ValueError)
    jobs = await store.jobs(EVERYTHING, 10)
    assert {job.content for job in jobs} == {"one", "three", "four"}
    for job in jobs:  # the relays first heard of in a group that failed are real ones
        await publish(store, job.id)


async def test_a_fault_after_a_write_takes_the_write_back(store: SqliteStore) -> None:
    def half(database: Database) -> None:
        database.run("note_story", jobs="[1]", what="half", detail="", now=NOW)
        raise ValueError("half way")

    number = await hand_in(store, "hello")
    async with Pause(store):
        bad = asyncio.ensure_future(store._write(half))
        good = asyncio.ensure_future(hand_in(store, "good"))
    with pytest.raises(ValueError, match="half way"):
        await bad
    assert await good > number
    assert await store.story(1) == []


# -- other processes ------------------------------------------------------------------------


async def test_a_file_locked_for_too_long_is_busy(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "BUSY_MS", 50)
    store = await SqliteStore.open(str(path))
    with closing(apsw.Connection(str(path))) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreBusy, match="locked by another process"):
            await hand_in(store, "hello")
        assert await store.jobs(EVERYTHING, 10) == []  # reading goes on
        other.execute("ROLLBACK")
    assert await hand_in(store, "hello")
    await store.close()


async def test_many_may_create_the_same_file(tmp_path: Path) -> None:
    def create(path: Path, barrier: threading.Barrier) -> None:
        barrier.wait()
        open_writer(str(path)).close()

    with ThreadPoolExecutor(6) as pool:
        for turn in range(8):
            barrier = threading.Barrier(6)
            path = tmp_path / f"{turn}.db"
            for done in [pool.submit(create, path, barrier) for _ in range(6)]:
                done.result()


WRITE_TOO = """
import asyncio, sys
from postrich.store.sqlite import SqliteStore
from tests.store.making import BLUE, NOW, RED, hand_in, lane, wish

async def main():
    store = await SqliteStore.open(sys.argv[1])
    print("ready", flush=True)
    for n in range(60):
        await store.accept([wish(f"theirs {n}", BLUE), wish(f"shared {n}", RED, BLUE)], NOW)
    hand = await lane(store, BLUE, "them")
    while claimed := await hand.jobs():
        await hand.deliver(*claimed)
    await store.close()

asyncio.run(main())
"""


@pytest.mark.req("A1", "A9")
async def test_two_processes_write_at_once(store: SqliteStore, path: Path) -> None:
    process = run_python(WRITE_TOO, path)
    assert process.stdout is not None
    assert await asyncio.to_thread(process.stdout.readline) == "ready\n"
    for n in range(60):
        await store.accept([wish(f"ours {n}", RED), wish(f"shared {n}", RED, BLUE)], NOW)
    hand = await lane(store, RED, "us")
    while process.poll() is None or await hand.jobs():
        await hand.deliver(*await hand.jobs())
    _, trouble = await asyncio.to_thread(process.communicate)
    assert process.returncode == 0, trouble

    jobs = await store.jobs(JobFilter(), 1000)
    texts = [job.content for job in jobs]
    assert sorted(texts) == sorted(
        f"{whose} {n}" for whose in ("ours", "theirs", "shared") for n in range(60)
    )
    late = await lane(store, BLUE, "us") if await store.work() else None
    if late is not None:  # ours that came after they had left
        await late.deliver(*await late.jobs())
    assert await store.work() == []
    assert (await store.status()).pending == 0


WRITE_UNTIL_KILLED = """
import asyncio, sys
from postrich.store.sqlite import SqliteStore
from tests.store.making import hand_in

async def main():
    store = await SqliteStore.open(sys.argv[1])
    n = 0
    while True:
        numbers = await asyncio.gather(*(hand_in(store, f"note {n + i}") for i in range(5)))
        n += 5
        print(*numbers, flush=True)

asyncio.run(main())
"""


@pytest.mark.req("A1", "B8")
async def test_what_was_answered_survives_a_kill(path: Path) -> None:
    process = run_python(WRITE_UNTIL_KILLED, path)
    assert process.stdout is not None
    lines = [await asyncio.to_thread(process.stdout.readline) for _ in range(20)]
    process.kill()
    rest, _ = process.communicate()
    whole = "".join(lines) + rest[: rest.rfind("\n") + 1]
    answered = {int(number) for number in whole.split()}
    assert len(answered) >= 100
    store = await SqliteStore.open(str(path))
    jobs = await audit(store)
    assert answered <= {job.id for job in jobs}
    await store.close()
