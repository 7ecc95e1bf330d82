"""A lane's tray: claims of a busy lane begin where the last one ended, and miss nothing (G4)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from postrich import Settings
from postrich.clock import SystemClock
from postrich.deliver.shared import Shared
from postrich.deliver.tray import CLAIM, Tray
from postrich.model.delivery import DeliveryState, Destination, Fence, Settlement
from postrich.observe.notices import Notices
from postrich.rules.floors import LONGEST
from postrich.sign.signer import Signers
from postrich.store.port import Results, Store
from tests.store.conftest import ADAPTERS
from tests.store.making import NOW, ended, hand_in, lane, named, wish

pytestmark = pytest.mark.req("G4")

EARLIER = 60_000


class SlowClock(SystemClock):
    """It is always the same hour, and everything takes a tenth of a second."""

    def __init__(self) -> None:
        super().__init__()
        self.ticks = 0.0

    def now(self) -> int:
        return NOW

    def tick(self) -> float:
        self.ticks += 0.1
        return self.ticks


class Desk:
    """A tray of a real store, emptied by hand."""

    def __init__(self, store: Store, destination: Destination, fence: Fence) -> None:
        self.clock = SlowClock()
        self.store = store
        self.shared = Shared(
            store=store,
            clock=self.clock,
            settings=Settings(),
            notices=Notices(),
            signers=Signers(),
            owner=fence.owner,
            on_changes=lambda _: None,
        )
        self.tray = Tray(self.shared, destination.id)
        self._destination = destination
        self._fence = fence

    async def take(self) -> list[int]:
        """Claim, and take all that is there in hand."""
        await self.tray.refill()
        taken = [flight.job for flight in self.tray.waiting]
        self.tray.waiting.clear()
        return taken

    async def deliver(self, jobs: list[int], *others: Settlement) -> None:
        await self.store.settle(Results(self._fence, self._destination.id, jobs, others), NOW)
        self.tray.settled([*jobs, *(other.job for other in others)])

    async def work_off(self) -> list[int]:
        """Claim and deliver until the tray thinks that nothing is due."""
        done: list[int] = []
        while self.tray.more_due:
            taken = await self.take()
            await self.deliver(taken)
            done += taken
        return done


@pytest.fixture(params=ADAPTERS)
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    store = await ADAPTERS[request.param](tmp_path)()
    yield store
    await store.close()


async def busy_desk(store: Store, count: int = 3 * CLAIM) -> tuple[Desk, list[int]]:
    """A tray with so many due, and their numbers."""
    admission = await store.accept([wish(f"note {n}") for n in range(count)], NOW)
    hand = await lane(store)
    numbers = [accepted.job for accepted in admission.accepted]
    return Desk(store, hand.destination, hand.fence), numbers


async def test_a_busy_lane_goes_on_where_it_was(store: Store) -> None:
    desk, numbers = await busy_desk(store)
    first = await desk.take()
    assert first == numbers[:CLAIM]
    late = await hand_in(store, "late", now=NOW - EARLIER)
    assert await desk.take() == numbers[CLAIM : 2 * CLAIM], "a look at everything would find it"
    desk.clock.ticks += LONGEST
    assert (await desk.take())[0] == late, "which is had in time, however much is due"


async def test_nothing_is_thought_to_be_all_before_everything_was_looked_at(store: Store) -> None:
    desk, numbers = await busy_desk(store)
    await desk.deliver(await desk.take())
    late = [await hand_in(store, f"late {n}", now=NOW - EARLIER) for n in range(3)]
    assert sorted(await desk.work_off()) == sorted([*numbers[CLAIM:], *late])
    assert await store.work() == []


async def test_a_retry_by_hand_is_found_by_a_lane_whose_clock_is_ahead(store: Store) -> None:
    desk, numbers = await busy_desk(store)
    first = await desk.take()
    await desk.deliver(first[1:], ended(first[0], DeliveryState.REFUSED))
    await store.retry(named(first[0]), NOW - EARLIER)
    assert sorted(await desk.work_off()) == [first[0], *numbers[CLAIM:]]


async def test_what_is_put_back_is_claimed_again(store: Store) -> None:
    desk, numbers = await busy_desk(store)
    await desk.tray.refill()
    desk.tray.put_back_all()
    assert await desk.take() == numbers[:CLAIM]


async def test_what_was_forgotten_while_the_store_was_asked_is_claimed_again(store: Store) -> None:
    desk, numbers = await busy_desk(store)
    asked = store.claim

    async def and_meanwhile(*values: object, **more: object) -> object:
        claimed = await asked(*values, **more)  # type: ignore[arg-type]
        desk.tray.forget({numbers[1]})
        return claimed

    desk.shared.store.claim = and_meanwhile  # type: ignore[method-assign,assignment]
    await desk.take()
    desk.shared.store.claim = asked  # type: ignore[method-assign]
    assert (await desk.take())[0] == numbers[1]


async def test_what_a_claim_was_quicker_to_find_is_not_taken_twice(store: Store) -> None:
    """New work is offered after its commit; a lane that looked in between has it already."""
    desk, [number] = await busy_desk(store, 1)
    await desk.tray.refill()
    assert [flight.job for flight in desk.tray.waiting] == [number]
    [parcel] = await store.parcels([number])
    desk.tray.take([parcel], 0.0)
    assert [flight.job for flight in desk.tray.waiting] == [number]
