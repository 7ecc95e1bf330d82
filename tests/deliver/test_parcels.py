"""The cache of events on their way: bounded, and never older than the store where it matters."""

from __future__ import annotations

from collections.abc import Sequence

from postrich.deliver.parcels import Parcels
from postrich.model.delivery import Parcel
from postrich.store.port import Store


def parcel(job: int, size: int = 1000, expires_at: int = 100) -> Parcel:
    return Parcel(job, f"{job:064x}", "a" * 64, 1, 1, expires_at, "once", b"x" * size)


class Shelf:
    """As much of a store as the cache asks for."""

    def __init__(self, *kept: Parcel) -> None:
        self.kept = {found.job: found for found in kept}
        self.asked: list[list[int]] = []

    async def parcels(self, jobs: Sequence[int]) -> list[Parcel]:
        self.asked.append(list(jobs))
        return [self.kept[job] for job in jobs if job in self.kept]


def cache(shelf: Shelf, max_bytes: int = 10_000) -> Parcels:
    store: Store = shelf  # type: ignore[assignment]
    return Parcels(store, max_bytes)


async def test_each_is_read_once_and_those_that_are_gone_are_left_out() -> None:
    shelf = Shelf(parcel(1), parcel(2))
    parcels = cache(shelf)
    parcels.add([parcel(3)])
    assert set(await parcels.get([1, 2, 3, 4])) == {1, 2, 3}
    assert set(await parcels.get([1, 2, 3])) == {1, 2, 3}
    assert shelf.asked == [[1, 2, 4]]


async def test_the_oldest_go_when_there_is_no_room() -> None:
    shelf = Shelf(*(parcel(job) for job in range(20)))
    parcels = cache(shelf)
    parcels.add(parcel(job) for job in range(20))
    assert set(await parcels.get(range(20))) == set(range(20)), "but none is missing"
    (read_again,) = shelf.asked
    assert read_again == list(range(len(read_again)))
    assert len(read_again) >= 13
    parcels.add([parcel(99, size=50_000)])
    assert set(await parcels.get([99])) == set(), "what is larger than all room is not kept"


async def test_what_changed_is_read_again() -> None:
    shelf = Shelf(parcel(1), parcel(2))
    parcels = cache(shelf)
    await parcels.get([1, 2])
    parcels.forget([2, 7])
    await parcels.get([1, 2])
    assert shelf.asked == [[1, 2], [2]]


async def test_one_whose_life_seems_over_is_read_again() -> None:
    """Another process may have given it a new life by a retry."""
    shelf = Shelf(parcel(1, expires_at=500))
    parcels = cache(shelf)
    parcels.add([parcel(1, expires_at=100)])
    assert (await parcels.get([1], now=50))[1].expires_at == 100
    assert (await parcels.get([1], now=200))[1].expires_at == 500
    assert shelf.asked == [[1]]
