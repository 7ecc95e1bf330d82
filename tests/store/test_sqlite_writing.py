"""SQLite under stress: a full disk, faults within a group, several processes, a kill."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import apsw
import pytest

from postrich.errors import StoreBusy, StoreFull
from postrich.model.job import JobFilter
from postrich.store.sqlite import SqliteStore, connection
from postrich.store.sqlite.connection import Database, open_writer
from tests.store.auditing import audit
from tests.store.making import (
    BLUE,
    EVERYTHING,
    GREEN,
    NOW,
    RED,
    hand_in,
    lane,
    note,
    publish,
    snapshot,
    wish,
)
from tests.store.processes import run_python


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "outbox.db"


@pytest.fixture
async def store(path: Path) -> AsyncIterator[SqliteStore]:
    store = await SqliteStore.open(str(path))
    yield store
    await audit(store)
    await store.close()


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
