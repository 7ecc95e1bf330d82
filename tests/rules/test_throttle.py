"""Token buckets by key (F4)."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from postrich.errors import BadSetting
from postrich.rules.throttle import Throttle

pytestmark = pytest.mark.req("F4")


def test_a_burst_goes_at_once_and_then_as_the_bucket_fills() -> None:
    throttle = Throttle(rate=2.0, burst=4)
    assert [throttle.take("a", 0.0) for _ in range(5)] == [0, 0, 0, 0, 0.5]
    assert throttle.take("a", 0.5) == 0
    assert throttle.take("a", 0.5) == 0.5
    assert throttle.take("b", 0.5) == 0, "everybody has a bucket of their own"
    assert throttle.take("a", 100.0, cost=4) == 0
    assert throttle.take("a", 100.0, cost=2) == 1


def test_what_costs_more_than_a_burst_goes_when_the_bucket_is_full() -> None:
    throttle = Throttle(rate=1.0, burst=2)
    assert throttle.take("a", 0.0, cost=5) == 0
    assert throttle.take("a", 0.0) == 4
    assert throttle.take("a", 4.0) == 0


def test_time_that_goes_back_gives_nothing() -> None:
    throttle = Throttle(rate=1.0, burst=1)
    assert throttle.take("a", 100.0) == 0
    assert throttle.take("a", 50.0) == 1
    assert throttle.take("a", 50.5) == 0.5


def test_idle_buckets_are_forgotten_and_their_number_is_bounded() -> None:
    throttle = Throttle(rate=1.0, burst=2, most_keys=3)
    for key in "abc":
        throttle.take(key, 0.0)
    assert len(throttle) == 3
    throttle.take("d", 5.0)  # a and b are full by now
    assert len(throttle) == 2
    for number in range(100):
        throttle.take(f"key {number}", 5.0)
    assert len(throttle) == 3


def test_who_keeps_asking_is_not_forgotten() -> None:
    throttle = Throttle(rate=0.001, burst=1, most_keys=3)
    assert throttle.take("eager", 0.0) == 0
    for number in range(50):
        throttle.take(f"other {number}", 0.0)
        assert throttle.take("eager", 0.0) > 0


@pytest.mark.parametrize(
    ("rate", "burst", "keys"),
    [(0, 1, 1), (-1, 1, 1), (math.inf, 1, 1), (1, 0, 1), (1, math.inf, 1), (1, 1, 0)],
)
def test_what_cannot_work_is_refused(rate: float, burst: float, keys: int) -> None:
    with pytest.raises(BadSetting):
        Throttle(rate, burst, keys)


@given(
    st.floats(0.01, 1000),
    st.integers(1, 50),
    st.lists(st.tuples(st.sampled_from("abc"), st.floats(0, 10), st.integers(1, 5)), max_size=60),
)
def test_nobody_gets_more_than_rate_and_burst_and_who_waits_goes(
    rate: float, burst: int, asked: list[tuple[str, float, int]]
) -> None:
    throttle = Throttle(rate, burst)
    now = 0.0
    spent = dict.fromkeys("abc", 0)
    for key, pause, cost in asked:
        now += pause
        wait = throttle.take(key, now, cost)
        if wait:
            now += wait
            assert throttle.take(key, now, cost) == 0
        spent[key] += cost
        debt = max(0, cost - burst)
        assert spent[key] <= (burst + rate * now) * 1.001 + debt + 0.001


@given(st.lists(st.tuples(st.text(max_size=3), st.floats(0, 5)), max_size=100), st.integers(1, 5))
def test_keys_are_bounded_whoever_comes(asked: list[tuple[str, float]], most: int) -> None:
    throttle = Throttle(0.1, 3, most)
    now = 0.0
    for key, pause in asked:
        now += pause
        throttle.take(key, now)
        assert 1 <= len(throttle) <= most
