"""How lanes are spread over workers (G4)."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from postrich.rules.spreading import LEFT_LYING, limit_of, may_take, surplus

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
