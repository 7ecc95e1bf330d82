"""PostgreSQL's own faults: lost connections, a restart, timeouts, a full disk, no rights."""

from __future__ import annotations

import asyncio
import logging
import random
import traceback
from collections.abc import AsyncIterator

import pytest

from postrich.clock import SystemClock
from postrich.errors import (
    BadSetting,
    PostrichError,
    StoreAway,
    StoreBusy,
    StoreError,
    StoreFull,
    StoreUnusable,
)
from postrich.model.delivery import DeliveryState
from postrich.model.job import JobState
from postrich.store import open_store
from postrich.store.postgres import PostgresStore, sessions
from postrich.store.postgres.address import parse_address
from tests.store.auditing import audit
from tests.store.making import (
    BLUE,
    EVERYTHING,
    GREEN,
    NOW,
    RED,
    ended,
    hand_in,
    lane,
    look,
    named,
    note,
    publish,
    snapshot,
    state_of,
    wish,
)
from tests.store.processes import run_python
from tests.store.servers import Admin, empty_dsn, shared_dsn, start_server, with_options

pytestmark = pytest.mark.req("G4")

SECRET = "hunter2-and-more"


@pytest.fixture
async def dsn() -> str:
    return await empty_dsn()


@pytest.fixture
async def store(dsn: str) -> AsyncIterator[PostgresStore]:
    store = await PostgresStore.open(dsn)
    yield store
    await audit(store)
    await store.close()


@pytest.fixture
async def admin(dsn: str) -> AsyncIterator[Admin]:
    async with Admin(dsn) as admin:
        yield admin


# -- connections ----------------------------------------------------------------------------


async def test_connections_that_ended_while_idle_are_replaced_unseen(
    store: PostgresStore, admin: Admin
) -> None:
    number = await hand_in(store, "before")
    await store.status()
    assert await admin.hang_up() >= 2
    assert await hand_in(store, "after") > number
    assert await admin.hang_up() >= 1
    assert len(await store.jobs(EVERYTHING, 10)) == 2


@pytest.mark.req("A1", "A9")
async def test_hanging_up_again_and_again_loses_nothing_and_doubles_nothing(
    store: PostgresStore, admin: Admin
) -> None:
    working = True

    async def trouble() -> None:
        while working:
            await admin.hang_up()
            await asyncio.sleep(random.uniform(0.02, 0.25))

    async def insist(text: str) -> int:
        while True:
            try:
                return await hand_in(store, text, RED, BLUE, key=text)
            except StoreAway:
                await asyncio.sleep(0.01)

    nuisance = asyncio.ensure_future(trouble())
    numbers = [await asyncio.gather(*(insist(f"{n}.{i}") for i in range(5))) for n in range(30)]
    working = False
    await nuisance
    jobs = await store.jobs(EVERYTHING, 1000)
    assert {job.id for job in jobs} == {number for group in numbers for number in group}
    assert len(jobs) == 150


async def test_a_lost_connection_takes_the_transaction_back(
    store: PostgresStore, admin: Admin
) -> None:
    number = await hand_in(store, "hello", RED, BLUE)
    red = await lane(store, RED)
    async with admin.link.transaction():
        await admin.link.execute("SELECT 1 FROM jobs FOR UPDATE")
        settling = asyncio.ensure_future(red.deliver(number))
        await admin.see_waiting()
        await admin.hang_up()
        await admin.see_waiting()  # it was run again by itself
    await settling
    assert await state_of(store, number) is JobState.PUBLISHED


#: Commits take their time, so that one can be interrupted.
SLOW_COMMIT = """
CREATE FUNCTION dawdle() RETURNS trigger LANGUAGE plpgsql AS
  $$ BEGIN PERFORM pg_sleep(5); RETURN NULL; END $$;
CREATE CONSTRAINT TRIGGER slow AFTER INSERT ON payloads DEFERRABLE INITIALLY DEFERRED
  FOR EACH ROW EXECUTE FUNCTION dawdle();
"""


@pytest.mark.req("A1", "A9")
async def test_a_commit_of_unknown_fate_is_an_error_and_asking_again_is_safe(
    store: PostgresStore, admin: Admin
) -> None:
    await admin.link.execute(SLOW_COMMIT)
    try:
        accepting = asyncio.ensure_future(hand_in(store, "hello"))
        await admin.see_sleeping()
        await admin.hang_up()
        with pytest.raises(StoreAway, match="not known; ask again"):
            await accepting
    finally:
        await admin.link.execute("DROP FUNCTION dawdle CASCADE")
    number = await hand_in(store, "hello")
    assert await hand_in(store, "hello") == number
    assert len(await store.jobs(EVERYTHING, 10)) == 1


@pytest.mark.req("B8")
async def test_the_server_may_be_restarted() -> None:
    server = start_server("restarted")
    dsn = server.get_uri()
    store = await PostgresStore.open(dsn)
    hinted = asyncio.Event()
    store.listen(hinted.set)
    try:
        number = await hand_in(store, "before", RED, BLUE)
        red = await lane(store, RED)
        await asyncio.to_thread(server.stop)
        for verb in (store.status(), red.deliver(number), hand_in(store, "meanwhile")):
            with pytest.raises(StoreAway, match="cannot be reached"):
                await verb
        await asyncio.to_thread(server.ensure_postgres_running)
        await red.deliver(number)
        assert await state_of(store, number) is JobState.PUBLISHED
        hinted.clear()
        async with asyncio.timeout(15):
            await hinted.wait()  # it listens again, and says so
        await audit(store)
    finally:
        await store.close()
        server.cleanup()


async def test_a_server_that_is_not_there(tmp_path: object) -> None:
    for dsn in ("postgresql://127.0.0.1:9/x", f"postgresql:///x?host={tmp_path}"):
        with pytest.raises(StoreAway, match="cannot be reached"):
            await PostgresStore.open(dsn)


async def test_no_connection_left(admin: Admin) -> None:
    crowd = await admin.new_role("crowd", "CONNECTION LIMIT 0")
    with pytest.raises(StoreAway, match="max_connections"):
        await PostgresStore.open(crowd)


# -- what the server refuses ------------------------------------------------------------------


@pytest.mark.parametrize("setting", ["lock_timeout", "statement_timeout"])
async def test_waiting_for_too_long_is_busy(
    dsn: str, admin: Admin, monkeypatch: pytest.MonkeyPatch, setting: str
) -> None:
    monkeypatch.setitem(sessions.SETTINGS, setting, "100ms")
    store = await PostgresStore.open(dsn)
    number = await hand_in(store, "hello")
    red = await lane(store)
    async with admin.link.transaction():
        await admin.link.execute("SELECT 1 FROM jobs FOR UPDATE")
        with pytest.raises(StoreBusy, match="try again"):
            await red.deliver(number)
        with pytest.raises(StoreBusy):
            await store.cancel(named(number), NOW)
        assert await state_of(store, number) is JobState.PENDING_PUBLISH  # reading goes on
    await red.deliver(number)
    assert await state_of(store, number) is JobState.PUBLISHED
    await store.close()


async def test_a_standby_is_refused(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sessions.SETTINGS, "default_transaction_read_only", "on")
    store = await PostgresStore.open(dsn)
    with pytest.raises(StoreUnusable, match="read-only.*primary"):
        await hand_in(store, "hello")
    assert await store.jobs(EVERYTHING, 10) == []
    await store.close()


FULL_DISK = """
CREATE FUNCTION fill() RETURNS trigger LANGUAGE plpgsql AS
  $$ BEGIN RAISE EXCEPTION 'No space left on device' USING ERRCODE = '53100'; END $$;
CREATE TRIGGER full_disk AFTER INSERT ON deliveries FOR EACH ROW EXECUTE FUNCTION fill();
"""


async def test_a_full_disk_keeps_nothing_of_the_call(store: PostgresStore, admin: Admin) -> None:
    number = await hand_in(store, "before")
    before = await snapshot(store)
    await admin.link.execute(FULL_DISK)
    try:
        with pytest.raises(StoreFull, match="no space is left"):
            await store.accept([wish("hello", GREEN, key="k"), wish("other", GREEN)], NOW)
        assert await snapshot(store) == before
        await publish(store, number)  # what fits still works
    finally:
        await admin.link.execute("DROP FUNCTION fill CASCADE")
    # The green relay was first heard of in the call that failed: it must be a real one now.
    again = await hand_in(store, "hello", GREEN, key="k")
    assert await (await lane(store, GREEN)).jobs() == [again]


async def test_one_bad_operation_fails_alone(store: PostgresStore) -> None:
    answers = await asyncio.gather(
        store.accept([wish("one", GREEN)], NOW),
        store.accept([wish("two", GREEN, key="\ud800")], NOW),
        store.accept([wish("three", BLUE)], NOW),
        store.accept([wish("four", RED)], NOW),
        return_exceptions=True,
    )
    assert [isinstance(answer, StoreError) for answer in answers] == [False, True, False, False]
    jobs = await store.jobs(EVERYTHING, 10)
    assert {job.content for job in jobs} == {"one", "three", "four"}
    for job in jobs:  # the relays first heard of in a group that failed are real ones
        await publish(store, job.id)


# -- texts ----------------------------------------------------------------------------------


async def test_every_text_comes_back_as_it_was(store: PostgresStore) -> None:
    texts = ["a\x00b", "\x00", "\ufdd0", "\ufdd00\x00\ufdd01", 'q"\\\x1f\u2028🐦', ""]
    for text in texts:
        number = await hand_in(store, note(f"about {text}"), RED, BLUE)
        await (await lane(store)).report(
            ended(number, DeliveryState.REFUSED, code="blocked", detail=text)
        )
        job = await look(store, number)
        assert job.content == f"about {text}"
        assert [d.detail for d in job.deliveries if d.relay == RED] == [text]
        assert [chapter.detail for chapter in await store.story(number)] == [text]


@pytest.mark.req("A9", "A11")
async def test_names_may_be_longer_than_an_index_takes(store: PostgresStore) -> None:
    long = "".join(f"{n:x}" for n in range(20_000))
    first = await hand_in(store, "one", key=long)
    assert await hand_in(store, "two", key=long) == first
    assert await hand_in(store, "two", key=long + "!") != first
    tags = [("d", long)]
    old = await hand_in(store, note("old", kind=30023, tags=tags, at=1))
    await hand_in(store, note("new", kind=30023, tags=tags, at=2))
    assert await state_of(store, old) is JobState.SUPERSEDED


async def test_its_clock_is_told(store: PostgresStore) -> None:
    told = await store.time()
    assert told is not None
    assert abs(told - SystemClock().now()) < 60_000


# -- addresses ------------------------------------------------------------------------------


async def test_a_password_is_never_told(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    good = parse_address(shared_dsn()).dsn
    host = good.partition("?")[2]
    addresses = [
        f"postgresql://me:{SECRET}@127.0.0.1:9/x",
        f"postgresql://me:{SECRET}@localhost:port/x",
        f"postgresql://me:{SECRET}@[::1/x",
        f"postgresql://me:{SECRET}@/nowhere?{host}",
        f"postgresql:///x?password={SECRET}&host=/nowhere",
        f"postgresql://me:{SECRET}@127.0.0.1:9/x?pool_size=none",
        f"postgresql://me:{SECRET}@127.0.0.1:9/x?schema=a;b",
        f"postgresql://me:{SECRET}@127.0.0.1:9/x?sslmode=perhaps",
        f"postgres://me:{SECRET}@127.0.0.1:9/x?sslmode=require",
    ]
    for address in addresses:
        with pytest.raises(PostrichError) as caught:
            await open_store(address)
        told = "".join(traceback.format_exception(caught.value, chain=True)).replace(address, "")
        assert SECRET not in told
        assert SECRET not in repr(caught.value)
    assert SECRET not in caplog.text
    assert SECRET not in repr(parse_address(addresses[0]))


@pytest.mark.parametrize("size", ["1", "-3", "x", "", "9999"])
async def test_a_pool_has_a_sane_size(size: str) -> None:
    with pytest.raises(BadSetting, match="pool_size"):
        await open_store(with_options(shared_dsn(), pool_size=size))


async def test_a_small_pool_does_all_the_same(dsn: str) -> None:
    store = await PostgresStore.open(with_options(dsn, pool_size=2))
    numbers = await asyncio.gather(*(hand_in(store, f"note {n}", RED, BLUE) for n in range(30)))
    for url in (RED, BLUE):
        await (await lane(store, url)).deliver(*numbers)
    found = await asyncio.gather(*(state_of(store, number) for number in numbers))
    assert set(found) == {JobState.PUBLISHED}
    await store.close()


WITHOUT_ASYNCPG = """
import asyncio, sys
sys.modules["asyncpg"] = None
from postrich.errors import BadSetting
from postrich.store import open_store
try:
    asyncio.run(open_store("postgresql:///x"))
except BadSetting as problem:
    print(problem)
"""


def test_who_lacks_the_packages_is_told_which() -> None:
    told, trouble = run_python(WITHOUT_ASYNCPG).communicate(timeout=30)
    assert "pip install 'postrich[postgres]'" in told, trouble


async def test_a_user_without_rights_is_told(admin: Admin) -> None:
    guest = await admin.new_role("guest")
    with pytest.raises(StoreUnusable, match="check user, password, database, rights"):
        await PostgresStore.open(guest)
