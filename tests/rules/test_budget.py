"""Limited bandwidth (A17): bytes per minute, and what goes first."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from postrich.errors import BadSetting
from postrich.model.job import Priority
from postrich.rules.budget import SMALL_BYTES, ByteBudget, goes_metered, thrift_order
from tests.rules.flights import make_flight

pytestmark = pytest.mark.req("A17")


def test_without_a_limit_everything_goes() -> None:
    budget = ByteBudget(None)
    assert [budget.take(10**9, 0.0) for _ in range(3)] == [0, 0, 0]


def test_a_minutes_bytes_go_at_once_and_then_as_they_trickle_in() -> None:
    budget = ByteBudget(6000)  # 100 bytes a second
    assert budget.take(5000, 0.0) == 0
    assert budget.take(1000, 0.0) == 0
    assert budget.take(500, 0.0) == 5
    assert budget.take(500, 4.0) == 1
    assert budget.take(500, 5.0) == 0
    assert budget.take(100, 5.0) == 1


def test_an_idle_hour_saves_no_more_than_a_minute() -> None:
    budget = ByteBudget(6000)
    assert budget.take(6000, 0.0) == 0
    assert budget.take(6000, 3600.0) == 0
    assert budget.take(1, 3600.0) > 0


def test_what_is_larger_than_the_budget_goes_when_it_is_full_and_is_paid_later() -> None:
    budget = ByteBudget(6000)
    assert budget.take(1, 0.0) == 0
    assert budget.take(9000, 0.0) == pytest.approx(0.01)
    assert budget.take(9000, 1.0) == 0
    assert budget.take(100, 1.0) == pytest.approx(31)


@pytest.mark.parametrize("per_minute", [0, -1])
def test_a_budget_of_nothing_is_refused(per_minute: int) -> None:
    with pytest.raises(BadSetting, match="budget"):
        ByteBudget(per_minute)


@given(
    st.integers(1, 10**8),
    st.lists(st.integers(1, 10**6), min_size=1, max_size=20),
    st.floats(0, 10**7),
)
def test_who_waits_as_told_goes_and_the_budget_holds(
    per_minute: int, sizes: list[int], start: float
) -> None:
    budget = ByteBudget(per_minute)
    now, sent = start, 0
    for size in sizes:
        wait = budget.take(size, now)
        if wait:
            now += wait
            assert budget.take(size, now) == 0
        sent += size
        allowed = per_minute * (1 + (now - start) / 60)
        assert sent <= allowed + max(size - per_minute, 0) + len(sizes)


def test_scarce_bytes_go_to_the_urgent_then_to_the_small() -> None:
    flights = [
        make_flight(1, priority=Priority.BULK, size=200),
        make_flight(2, priority=Priority.NORMAL, size=9000),
        make_flight(3, priority=Priority.NORMAL, size=300),
        make_flight(4, priority=Priority.URGENT, size=50_000),
    ]
    assert [flight.job for flight in sorted(flights, key=thrift_order)] == [4, 3, 2, 1]


@pytest.mark.parametrize(
    ("priority", "size", "goes"),
    [
        (Priority.URGENT, 500_000, True),
        (Priority.NORMAL, SMALL_BYTES, True),
        (Priority.NORMAL, SMALL_BYTES + 1, False),
        (Priority.BULK, 200, True),
        (Priority.BULK, 500_000, False),
    ],
)
def test_metered_the_urgent_and_the_small_go(priority: Priority, size: int, goes: bool) -> None:
    assert goes_metered(make_flight(1, priority=priority, size=size)) is goes
