"""How lanes are spread over workers (G4)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from postrich.rules.spreading import (
    LEFT_LYING,
    SATED_FOR,
    Appetites,
    limit_of,
    may_take,
    surplus,
)

pytestmark = pytest.mark.req("G4")


@pytest.mark.parametrize(
    ("lanes", "held", "others", "limit"),
    [
        (0, {}, set(), 0),
        (3, {}, set(), 3),
        (3, {"b": 1}, {"b"}, 2),
        (3, {"b": 0}, {"b"}, 1),
        (4, {"b": 2}, {"b"}, 2),
        (1, {}, {"b", "c"}, 1),
        (4, {"b": 2, "c": 0}, {"b", "c"}, 1),
        (4, {"b": 1, "c": 1}, {"b", "c"}, 2),
        (10, {"b": 3, "c": 3}, {"b", "c"}, 4),
    ],
)
def test_everybody_may_hold_the_same(
    lanes: int, held: dict[str, int], others: set[str], limit: int
) -> None:
    assert limit_of(lanes, held, others) == limit


def test_what_is_free_is_taken_by_who_has_too_few_or_by_anybody_after_a_while() -> None:
    assert may_take(1, 2, 0.0)
    assert not may_take(2, 2, 0.0)
    assert not may_take(2, 2, LEFT_LYING - 0.1)
    assert may_take(2, 2, LEFT_LYING)


@pytest.mark.parametrize(
    ("mine", "limit", "held", "others", "given"),
    [
        (3, 2, {"b": 0}, {"b"}, 1),
        (3, 2, {}, {"b"}, 1),
        (6, 3, {"b": 0}, {"b"}, 3),
        (3, 2, {"b": 2}, {"b"}, 0),
        (2, 2, {"b": 0}, {"b"}, 0),
        (5, 2, {"b": 1, "c": 2}, {"b", "c"}, 1),
        (5, 2, {}, set(), 0),
    ],
)
def test_who_has_too_many_gives_up_what_others_would_take(
    mine: int, limit: int, held: dict[str, int], others: set[str], given: int
) -> None:
    assert surplus(mine, limit, held, others) == given


@given(
    workers=st.lists(st.integers(0, 40), min_size=1, max_size=8),
    free=st.integers(0, 20),
)
@example(workers=[2, 2, 0], free=0)
@example(workers=[9, 0, 0, 0, 0, 0, 0, 0], free=0)
def test_it_comes_to_rest_evenly_and_loses_no_lane(workers: list[int], free: int) -> None:
    """Each gives up and takes in turn, as worker processes do."""
    held = dict(enumerate(workers))
    total = sum(workers) + free
    for _ in range(4 * len(workers)):
        for me in held:
            counts = {str(name): number for name, number in held.items() if name != me}
            limit = limit_of(total, counts, set(counts))
            gone = surplus(held[me], limit, counts, set(counts))
            held[me] -= gone
            free += gone
            while free and not gone and may_take(held[me], limit, 0.0):
                held[me] += 1
                free -= 1
    assert free == 0
    assert sum(held.values()) == total
    assert max(held.values()) - min(held.values()) <= 1


class Process:
    """A worker as far as the spreading goes: it holds no more than its settings allow."""

    def __init__(self, name: str, most: int) -> None:
        self.name = name
        self.most = most
        self.lanes: set[int] = set()
        self.limit = 0
        self._appetites = Appetites()
        self._free_since: dict[int, float] = {}

    def look(self, lanes: int, workers: list[Process], now: float) -> bool:
        """One look of its fleet; whether anything moved."""
        held = {worker.name: len(worker.lanes) for worker in workers}
        others = held.keys() - {self.name}
        taken = {lane for worker in workers for lane in worker.lanes}
        free = set(range(lanes)) - taken
        self._free_since = {lane: self._free_since.get(lane, now) for lane in free}
        hungry = self._appetites.hungry(held, others, now)
        theirs = sum(held[other] for other in others - hungry)
        self.limit = limit_of(lanes - theirs, held, hungry)
        given = sorted(self.lanes)[: surplus(len(self.lanes), self.limit, held, hungry)]
        self.lanes -= set(given)
        moved = bool(given)
        for lane in sorted(free):
            free_for = now - self._free_since[lane]
            if not may_take(len(self.lanes), self.limit, free_for) or len(self.lanes) >= self.most:
                continue
            if len(self.lanes) >= self.limit:
                self._appetites.left_lying(self.limit, held, others, now)
            self.lanes.add(lane)
            moved = True
        return moved


@given(
    caps=st.lists(st.integers(0, 12) | st.just(99), min_size=1, max_size=5),
    lanes=st.integers(0, 30),
    starts=st.randoms(use_true_random=False),
)
@example(caps=[2, 100], lanes=10, starts=None)
@example(caps=[1, 1, 100], lanes=9, starts=None)
@example(caps=[30, 30, 30], lanes=8, starts=None)
def test_workers_with_different_caps_come_to_rest(caps: list[int], lanes: int, starts: Any) -> None:
    """No lane goes to and fro, and none is left lying that somebody has room for."""
    workers = [Process(f"worker {n}", most) for n, most in enumerate(caps)]
    if starts is not None:
        for lane in range(lanes):
            worker = starts.choice(workers)
            if len(worker.lanes) < worker.most and starts.random() < 0.8:
                worker.lanes.add(lane)
    now, rest_since = 0.0, 0.0
    while now < SATED_FOR / 2:
        for worker in workers:
            now += 0.2
            if worker.look(lanes, workers, now):
                rest_since = now
    assert now - rest_since > 2 * LEFT_LYING, "they still pass lanes round"
    assert sum(len(worker.lanes) for worker in workers) == min(lanes, sum(caps))
    if min(caps) >= lanes:
        counts = [len(worker.lanes) for worker in workers]
        assert max(counts) - min(counts) <= 1, "where nobody is capped, all have the same"


def test_who_left_lanes_lying_is_not_counted_on_until_it_moves() -> None:
    appetites = Appetites()
    others = {"b", "c"}
    held = {"b": 2, "c": 5}
    assert appetites.hungry(held, others, 0.0) == others
    appetites.left_lying(5, held, others, 0.0)
    assert appetites.hungry(held, others, 1.0) == {"c"}, "who has its share left nothing lying"
    assert appetites.hungry(held | {"b": 1}, others, 2.0) == others, "it has room again"
    appetites.left_lying(5, held, others, 3.0)
    assert appetites.hungry(held | {"b": 3}, others, 4.0) == others, "it takes more"
    appetites.left_lying(5, held, others, 5.0)
    assert appetites.hungry(held, others, 5.0 + SATED_FOR) == others, "it is asked again in time"
    appetites.left_lying(5, held, others, 100.0)
    assert appetites.hungry(held, {"c"}, 101.0) == {"c"}
    assert appetites.hungry(held, others, 102.0) == others, "gone, and here again"
