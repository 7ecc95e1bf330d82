"""Weekly grids: the next free slot is one post's alone, however many ask at once (F5)."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from postrich import JobState, Outbox, Settings
from postrich.errors import CallerError, Conflict, InvalidTime, QuotaExceeded, UnknownGrid
from postrich.model.post import Grid
from postrich.schedule import Wish
from postrich.slots import Slotted
from tests.relays.events import make_event, public_key
from tests.store.servers import new_dsn

ALICE = os.urandom(32)
PUBKEY = public_key(ALICE)
DAILY = "day 09:00 18:00"
HOUR = 3_600_000


@asynccontextmanager
async def opened(place: str) -> AsyncIterator[Outbox]:
    settings = Settings(relays=("ws://127.0.0.1:1/",), autopilot=False)
    async with Outbox.open(place, settings=settings, deliver=False) as outbox:
        yield outbox


@pytest.fixture(params=["sqlite", "postgres"])
async def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where an outbox is to be, in either store."""
    return str(tmp_path / "outbox.db") if request.param == "sqlite" else await new_dsn("slots")


@pytest.fixture
async def outbox(place: str) -> AsyncIterator[Outbox]:
    async with opened(place) as one:
        yield one


def wish(text: str) -> Wish:
    return Wish(item=make_event(ALICE, content=text), at=0, name=text)


async def take(outbox: Outbox, text: str, most: int | None = None) -> Slotted | CallerError:
    return await outbox.schedule.put_in_slot(wish(text), PUBKEY, "main", most=most)


@pytest.mark.req("F5")
async def test_grids_are_kept_changed_and_dropped(outbox: Outbox) -> None:
    slots = outbox.schedule.slots
    await slots.set_grid(PUBKEY, "main", DAILY, "Europe/Berlin")
    await slots.set_grid(PUBKEY, "main", "mon 08:00", "UTC")
    assert await slots.grids(PUBKEY) == [Grid(PUBKEY, "main", "mon 08:00", "UTC")]
    assert await slots.grids("ab" * 32) == []
    await slots.drop_grid(PUBKEY, "main")
    for call in (
        slots.drop_grid(PUBKEY, "main"),
        slots.next_slots(PUBKEY, "main", 1),
        take(outbox, "one"),
    ):
        with pytest.raises(UnknownGrid, match="no weekly grid 'main'"):
            await call


@pytest.mark.req("F5")
@pytest.mark.parametrize(
    ("name", "text", "zone"),
    [("main", "someday", "UTC"), ("main", DAILY, "Mars/North"), ("a/b", DAILY, "UTC")],
)
async def test_a_grid_that_means_nothing_is_refused(
    outbox: Outbox, name: str, text: str, zone: str
) -> None:
    with pytest.raises(CallerError):
        await outbox.schedule.slots.set_grid(PUBKEY, name, text, zone)
    with pytest.raises(InvalidTime):
        await outbox.schedule.slots.set_grid(PUBKEY, "main", "", "UTC")
    assert await outbox.schedule.slots.grids(PUBKEY) == []


@pytest.mark.req("F5")
async def test_posts_fill_the_grid_in_order(outbox: Outbox) -> None:
    slots = outbox.schedule.slots
    await slots.set_grid(PUBKEY, "main", DAILY, "UTC")
    first, second, third = await slots.next_slots(PUBKEY, "main", 3)
    by_hand = Wish(item=make_event(ALICE, content="by hand"), at=second + 30_000, name="by hand")
    await outbox.schedule.put([by_hand])
    assert await slots.next_slots(PUBKEY, "main", 2) == [first, third]
    taken = [await take(outbox, text) for text in ("one", "two")]
    assert [slot.at for slot in taken if isinstance(slot, Slotted)] == [first, third]
    post = await outbox.schedule.get("two")
    assert (post.job.due_at, post.job.state) == (third, JobState.SCHEDULED)
    await outbox.schedule.cancel([await outbox.schedule.get("one")])
    assert (await slots.next_slots(PUBKEY, "main", 1)) == [first]


@pytest.mark.req("F4", "F5")
async def test_what_is_refused_for_another_reason_takes_no_slot(outbox: Outbox) -> None:
    await outbox.schedule.slots.set_grid(PUBKEY, "main", DAILY, "UTC")
    assert isinstance(await take(outbox, "one", most=1), Slotted)
    assert isinstance(await take(outbox, "two", most=1), QuotaExceeded)
    assert isinstance(await take(outbox, "one"), Conflict)
    assert len(await outbox.jobs()) == 1


@pytest.mark.req("F5")
async def test_a_wish_is_made_ready_for_the_slot_it_gets(outbox: Outbox) -> None:
    await outbox.schedule.slots.set_grid(PUBKEY, "main", DAILY, "UTC")

    async def signed(here: Wish) -> Wish:
        event = make_event(ALICE, content="later", created_at=here.at // 1000)
        return Wish(item=event, at=here.at, name=here.name, alone=here.alone)

    found = await outbox.schedule.put_in_slot(wish("one"), PUBKEY, "main", prepare=signed)
    assert isinstance(found, Slotted)
    post = await outbox.schedule.get("one")
    assert (post.job.content, post.job.created_at) == ("later", found.at // 1000)


@pytest.mark.req("F5")
async def test_a_slot_is_one_post_s_alone_however_many_ask(place: str) -> None:
    async with opened(place) as one, opened(place) as other:
        await one.schedule.slots.set_grid(PUBKEY, "main", DAILY, "UTC")
        expected = await one.schedule.slots.next_slots(PUBKEY, "main", 40)
        asking = [take((one, other)[n % 2], f"note {n}") for n in range(40)]
        answers = await asyncio.gather(*asking)
        taken = [slot.at for slot in answers if isinstance(slot, Slotted)]
        assert sorted(taken) == expected
        assert {job.due_at for job in await one.jobs()} == set(expected)
