"""An outbox moves from one adapter to the other and back, and nobody can tell."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import apsw
import asyncpg
import msgspec
import pytest

from postrich.errors import BadSetting, StoreError, StoreUnusable
from postrich.model.job import JobState
from postrich.store import open_store
from postrich.store.moving_house import TABLES, Digest, Moved, move_house
from postrich.store.places import Place
from postrich.store.port import Store, WorkerInfo
from postrich.store.schema import bring_up
from tests.store.auditing import audit
from tests.store.furnishing import AWKWARD, furnish
from tests.store.making import (
    EVERYTHING,
    NOW,
    RED,
    hand_in,
    lane,
    look,
    note,
    publish,
    snapshot,
)
from tests.store.servers import Admin, new_dsn
from tests.store.walking import Walk

pytestmark = [pytest.mark.req("G4"), pytest.mark.postgres]

Maker = Callable[[str], Awaitable[Place]]


@pytest.fixture
def a_file(tmp_path: Path) -> Maker:
    async def make(name: str) -> Place:
        return Place(str(tmp_path / f"{name}.db"))

    return make


@pytest.fixture
def a_database() -> Maker:
    async def make(name: str) -> Place:
        return Place(await new_dsn(name))

    return make


@pytest.fixture(params=["to a database", "to a file", "to another database", "to another file"])
async def way(
    request: pytest.FixtureRequest, a_file: Maker, a_database: Maker
) -> tuple[Place, Place]:
    """From where, to where."""
    source = a_database if request.param in ("to a file", "to another database") else a_file
    target = a_file if "file" in request.param else a_database
    return await source("old"), await target("new")


def nobody(_: WorkerInfo, __: int) -> bool:
    return False


def quietly(_: str, __: int, ___: int) -> None:
    pass


async def move(source: Place, target: Place) -> dict[str, Moved]:
    return {moved.table: moved for moved in await move_house(source, target, nobody, quietly)}


async def fill(place: Place, furnishing: Callable[[Store], Awaitable[object]] = furnish) -> None:
    store = await open_store(place.text)
    await furnishing(store)
    await store.close()


async def everything_of(store: Store) -> bytes:
    """What snapshot shows, and what it does not."""
    lists = await store.lists([(pubkey * 32, 10_002) for pubkey in ("a1", "b0")])
    health = sorted(await store.health(), key=lambda health: health.url)
    work = sorted(await store.work(), key=lambda work: work.destination.id)
    series = (await store.series("daily"), await store.occurrences("daily", 0, 2**62, 9))
    more = msgspec.json.encode((lists, health, work, series, await store.unsigned()))
    return await snapshot(store) + more


async def test_everything_is_moved(way: tuple[Place, Place]) -> None:
    source, target = way
    await fill(source)
    moved = await move(source, target)
    empty = {table.name for table in TABLES if moved[table.name].rows == 0}
    assert empty == set(), "the furnishing leaves tables empty"
    old, new = await open_store(source.text), await open_store(target.text)
    jobs = await audit(new)
    assert {job.state for job in jobs} == set(JobState)
    assert await everything_of(new) == await everything_of(old)
    assert any(job.content == AWKWARD for job in jobs)
    await old.close()
    await new.close()


@pytest.mark.req("F6")
async def test_hooks_are_moved_and_told_nothing_of_it(way: tuple[Place, Place]) -> None:
    source, target = way
    await fill(source)
    await move(source, target)
    old, new = await open_store(source.text), await open_store(target.text)
    assert await new.hooks() == await old.hooks()
    before = await new.messages("hook_a", 1000)
    assert before == await old.messages("hook_a", 1000)
    number = await hand_in(new, "told of at the new place")
    await publish(new, number)
    after = await new.messages("hook_a", 1000)
    assert [(m.job, m.kind) for m in after[:2]] == [(number, "delivered"), (number, "published")]
    assert after[2:] == before
    await old.close()
    await new.close()


async def test_it_goes_on_where_it_was(way: tuple[Place, Place]) -> None:
    """Numbers, keys, event ids, addresses and leases of the new place are those of the old."""
    source, target = way
    await fill(source)
    await move(source, target)
    store = await open_store(target.text)
    last = max(job.id for job in await store.jobs(EVERYTHING, 100))
    pruned = await hand_in(store, "pruned")
    assert (await hand_in(store, "another", key=f"key of pruned {AWKWARD}")) == pruned
    newer = await hand_in(store, note("newest", kind=30_000, at=NOW, tags=[("d", AWKWARD)]))
    assert newer > last
    assert await store.newest_version(f"30000:{'a1' * 32}:{AWKWARD}") == NOW
    [replaced] = [job for job in await store.jobs(EVERYTHING, 100) if job.content == "newer"]
    assert replaced.state is JobState.SUPERSEDED
    number = await hand_in(store, "to a new relay", "wss://never.seen/", RED)
    await publish(store, number)
    assert (await look(store, number)).state is JobState.PUBLISHED
    await (await lane(store, RED)).deliver(number)
    await audit(store)
    await store.close()


@pytest.mark.parametrize("seed", range(3))
async def test_there_and_back_is_the_same(seed: int, a_file: Maker, a_database: Maker) -> None:
    first, between, last = await a_file("first"), await a_database("between"), await a_file("last")

    async def walk(store: Store) -> None:
        async def stay() -> Store:
            return store

        await Walk(stay, seed).run(150)

    await fill(first, walk)
    there = await move(first, between)
    back = await move(between, last)
    assert there == back


async def test_only_to_an_empty_place(way: tuple[Place, Place]) -> None:
    source, target = way
    await fill(source)
    await fill(target, lambda store: hand_in(store, "here first"))
    with pytest.raises(StoreUnusable, match=r"is not empty \(destinations, identities, jobs"):
        await move(source, target)
    store = await open_store(target.text)
    assert [job.content for job in await audit(store)] == ["here first"]
    await store.close()


async def test_there_must_be_something_to_move(way: tuple[Place, Place]) -> None:
    source, target = way
    with pytest.raises(BadSetting, match="there is no outbox at"):
        await move(source, target)
    with pytest.raises(BadSetting, match="already"):
        await move(source, source)


async def test_who_is_at_work_is_named(way: tuple[Place, Place]) -> None:
    source, target = way
    worker = WorkerInfo("w", "alpha", 4711, "worker", NOW, NOW)
    await fill(source, lambda store: store.enlist(worker))
    with pytest.raises(StoreUnusable, match="worker 4711 on alpha; stop them"):
        await move_house(source, target, lambda found, now: found == worker, quietly)
    await move(source, target)
    new = await open_store(target.text)
    assert await new.workers() == []
    await new.close()


async def test_a_move_that_fails_keeps_nothing(way: tuple[Place, Place]) -> None:
    source, target = way
    await fill(source)

    def stumble(doing: str, _: int, __: int) -> None:
        if doing == "checking":
            raise RuntimeError("stumbled")

    with pytest.raises(RuntimeError, match="stumbled"):
        await move_house(source, target, nobody, stumble)
    store = await open_store(target.text)
    assert await audit(store) == []
    await store.close()
    await move(source, target)


async def test_a_copy_that_differs_is_not_kept(way: tuple[Place, Place]) -> None:
    """As where a database keeps something else than it was given."""
    source, target = way
    await fill(source)
    await bring_up(target)
    await _make_forgetful(target)
    with pytest.raises(StoreError, match="the copy of story .* nothing was kept"):
        await move(source, target)
    store = await open_store(target.text)
    assert await audit(store) == []
    await store.close()


async def _make_forgetful(place: Place) -> None:
    if not place.is_postgres:
        link = apsw.Connection(place.text)
        link.execute(
            "CREATE TRIGGER forget AFTER INSERT ON story "
            "BEGIN UPDATE story SET detail = 'forgot' WHERE id = new.id; END"
        )
        link.close()
        return
    async with Admin(place.text) as admin:
        await admin.link.execute(
            "CREATE FUNCTION forget() RETURNS trigger LANGUAGE plpgsql AS "
            "$$ BEGIN new.detail := 'forgot'; RETURN new; END $$;"
            "CREATE TRIGGER forget BEFORE INSERT ON story FOR EACH ROW EXECUTE FUNCTION forget()"
        )


async def test_nobody_writes_to_a_database_meanwhile(a_database: Maker) -> None:
    source, target = await a_database("held"), await a_database("filled")
    await fill(source)
    tried: list[tuple[str, str]] = []

    async def write(dsn: str) -> str:
        async with Admin(dsn) as admin:
            await admin.link.execute("SET lock_timeout = '20ms'")
            try:
                await admin.link.execute("UPDATE sequences SET next = next")
            except asyncpg.LockNotAvailableError:
                return "held"
            return "written"

    def try_both(doing: str, _: int, __: int) -> None:
        with ThreadPoolExecutor(1) as thread:
            writing = [thread.submit(asyncio.run, write(p.text)) for p in (source, target)]
            tried.extend((doing, one.result()) for one in writing)

    await move_house(source, target, nobody, try_both)
    assert set(tried) == {("copying", "held"), ("checking", "held")}


async def test_a_file_is_held_too(a_file: Maker) -> None:
    source, target = await a_file("held"), await a_file("free")
    await fill(source)
    tried: list[str] = []

    def write(doing: str, _: int, __: int) -> None:
        link = apsw.Connection(source.text)
        try:
            link.execute("UPDATE sequences SET next = next")
        except apsw.BusyError:
            tried.append(doing)
        link.close()

    await move_house(source, target, nobody, write)
    assert {"copying", "checking"} == set(tried)


async def test_digests_alone_cannot_be_moved(a_file: Maker, a_database: Maker) -> None:
    """A key that was kept before keys were kept in full."""
    source, target = await a_database("digests"), await a_file("full")
    await fill(source)
    async with Admin(source.text) as admin:
        await admin.link.execute("UPDATE idempotency SET full_key = NULL")
    with pytest.raises(StoreUnusable, match="4 keys or addresses .* it cannot be moved"):
        await move(source, target)


def test_a_digest_knows_rows_and_not_their_order() -> None:
    one, two, three = Digest(), Digest(), Digest()
    one.add([(1, "a", b"x", None), (2, "b", b"y", None)])
    two.add([(2, "b", b"y", None)])
    two.add([(1, "a", b"x", None)])
    three.add([(1, "a", b"x", None), (2, "b", "y", None)])
    assert (one.rows, one.text) == (two.rows, two.text)
    assert one.text != three.text
