"""Hints between processes on PostgreSQL: from others only, few, and back after a cut."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from postrich.store.postgres import PostgresStore, hints
from tests.store.making import RED, hand_in, lane, look
from tests.store.servers import Admin, empty_dsn, shared_dsn

pytestmark = pytest.mark.req("G4")


@pytest.fixture
async def stores() -> AsyncIterator[list[PostgresStore]]:
    dsn = await empty_dsn()
    stores = [await PostgresStore.open(dsn) for _ in range(2)]
    yield stores
    for store in stores:
        await store.close()


@pytest.fixture
async def admin() -> AsyncIterator[Admin]:
    async with Admin(shared_dsn()) as admin:
        yield admin


class Ear:
    """Counts hints."""

    def __init__(self) -> None:
        self.count = 0
        self._heard = asyncio.Event()

    def __call__(self) -> None:
        self.count += 1
        self._heard.set()

    async def hear(self) -> None:
        async with asyncio.timeout(10):
            await self._heard.wait()
        self._heard.clear()


async def test_hints_come_from_others_only(stores: list[PostgresStore], admin: Admin) -> None:
    ours, theirs = Ear(), Ear()
    stores[0].listen(ours)
    stores[1].listen(theirs)
    await ours.hear()  # it listens now: what was before must be looked at
    await theirs.hear()
    number = await hand_in(stores[0], "hello", RED)
    await theirs.hear()
    assert ours.count == 1
    await (await lane(stores[1])).deliver(number)
    await ours.hear()


async def test_hints_are_few(stores: list[PostgresStore], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hints, "GAP_S", 0.3)
    ear = Ear()
    stores[1].listen(ear)
    await ear.hear()
    for n in range(20):
        await hand_in(stores[0], f"note {n}")
    await ear.hear()
    before = ear.count
    number = await hand_in(stores[0], "the last")
    await ear.hear()  # it is told of, if a little later
    assert (await look(stores[1], number)).content == "the last"
    assert ear.count <= before + 2 <= 10


async def test_a_listener_that_was_cut_off_listens_again(
    stores: list[PostgresStore], admin: Admin
) -> None:
    ear = Ear()
    stores[1].listen(ear)
    await ear.hear()
    await admin.see_listening()
    await admin.hang_up()
    await ear.hear()  # it is back, and says that something may have been missed
    await hand_in(stores[0], "hello")
    await ear.hear()


async def test_the_last_hint_is_sent_before_the_end(
    stores: list[PostgresStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hints, "GAP_S", 60.0)
    ear = Ear()
    stores[1].listen(ear)
    await ear.hear()
    await hand_in(stores[0], "one")
    await ear.hear()
    await hand_in(stores[0], "two")  # its hint must wait for its turn
    await stores[0].close()
    await ear.hear()
