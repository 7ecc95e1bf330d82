"""The notice board: nobody waits for a listener, and a slow one knows what it lost."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from postrich.model.job import JobState
from postrich.observe.notices import (
    JobChanged,
    Missed,
    NetworkChanged,
    Notice,
    Notices,
    Subscription,
)

pytestmark = pytest.mark.req("A12")


def change(number: int) -> JobChanged:
    return JobChanged(number, JobState.PUBLISHED, True)


async def everything(listener: Subscription) -> list[Notice]:
    return [notice async for notice in listener]


async def test_every_listener_hears_everything_from_when_it_began() -> None:
    board = Notices()
    board.publish(change(0))
    early = board.subscribe()
    board.publish(change(1))
    late = board.subscribe()
    board.publish(change(2))
    board.close()
    assert await everything(early) == [change(1), change(2)]
    assert await everything(late) == [change(2)]


async def test_who_listens_may_wait() -> None:
    board = Notices()
    listener = board.subscribe()
    waiting = asyncio.create_task(anext(listener))
    await asyncio.sleep(0)
    board.publish(change(1))
    assert await waiting == change(1)


async def test_a_listener_that_leaves_hears_no_more() -> None:
    board = Notices()
    assert not board.is_watched
    with board.subscribe() as listener:
        assert board.is_watched
        board.publish(change(1))
    assert not board.is_watched
    board.publish(change(2))
    listener.close()  # twice is harmless
    assert await everything(listener) == [change(1)]


async def test_a_listener_that_waits_ends_when_the_board_closes() -> None:
    board = Notices()
    waiting = asyncio.create_task(everything(board.subscribe()))
    await asyncio.sleep(0)
    board.close()
    assert await waiting == []


@pytest.mark.parametrize("backlog", [1, 3])
async def test_a_slow_listener_loses_the_oldest_and_is_told_how_many(backlog: int) -> None:
    board = Notices()
    listener = board.subscribe(backlog)
    for number in range(10):
        board.publish(change(number))
    assert await anext(listener) == Missed(10 - backlog)
    kept = [await anext(listener) for _ in range(backlog)]
    assert kept == [change(number) for number in range(10 - backlog, 10)]
    board.publish(change(99))
    assert await anext(listener) == change(99), "and from then on all is as before"


async def test_a_listener_without_any_backlog_still_hears_the_last() -> None:
    board = Notices()
    listener = board.subscribe(0)
    board.publish(change(1))
    board.publish(change(2))
    board.close()
    assert await everything(listener) == [Missed(1), change(2)]


def test_notices_have_names_of_their_own_for_other_programs() -> None:
    text = msgspec.json.encode(NetworkChanged(True))
    assert msgspec.json.decode(text) == {"type": "NETWORK_CHANGED", "online": True}
    assert msgspec.json.decode(text, type=Notice) == NetworkChanged(True)
