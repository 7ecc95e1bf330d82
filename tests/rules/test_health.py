"""A relay's breaker (B10, C10) and what dialling says of the network (A13)."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from postrich.model.relay import RelayHealth
from postrich.rules.health import (
    DEAD_AFTER,
    FORGET_MS,
    LONGEST_WAIT,
    LONGEST_WAIT_OFFLINE,
    Breaker,
    BreakerState,
    Connectivity,
    may_dial,
    on_answer,
    on_dial,
    on_fault,
    on_left,
    on_network_back,
    on_reached,
    on_unreached,
    rank_of,
    smooth,
)
from postrich.rules.replies import Fault

REFUSED = Fault("refused", "connection refused")
NO_NETWORK = Fault("unreachable", "no route", network=True)
MIDDLE = 0.5


def failing(times: int, *, online: bool = True) -> list[float]:
    """The waits of a breaker whose every probe fails."""
    breaker, now, waits = Breaker(), 1000.0, []
    for _ in range(times):
        breaker = on_fault(breaker, REFUSED, now, MIDDLE, online)
        waits.append(breaker.until - now)
        now = breaker.until
        breaker = on_dial(breaker)
    return waits


@pytest.mark.req("B10")
def test_a_relay_that_keeps_failing_is_left_alone_for_longer_each_time() -> None:
    assert failing(12) == [1, 2, 4, 8, 16, 32, 64, 128, *[LONGEST_WAIT] * 4]
    assert failing(2000)[-1] == LONGEST_WAIT


@pytest.mark.req("A13")
def test_offline_it_looks_again_soon() -> None:
    assert failing(6, online=False) == [1, 2, 4, *[LONGEST_WAIT_OFFLINE] * 3]


@pytest.mark.req("B9")
@given(st.integers(0, 100), st.floats(0, 1, exclude_max=True), st.booleans())
def test_the_wait_has_jitter_and_an_end(failures: int, chance: float, online: bool) -> None:
    plain = on_fault(Breaker(failures=failures), REFUSED, 0.0, MIDDLE, online)
    opened = on_fault(Breaker(failures=failures), REFUSED, 0.0, chance, online)
    assert plain.until * 0.5 <= opened.until <= plain.until * 1.5
    assert opened.failures == failures + 1
    assert opened.fault is REFUSED


@pytest.mark.req("B10")
def test_an_open_breaker_lets_nobody_through_until_its_time() -> None:
    opened = on_fault(Breaker(), REFUSED, 100.0, MIDDLE, online=True)
    assert opened.state is BreakerState.OPEN
    assert not may_dial(opened, 100.9)
    assert may_dial(opened, 101.0)
    assert may_dial(Breaker(), 0.0)


@pytest.mark.req("B10")
def test_only_an_answer_closes_a_breaker_after_trouble() -> None:
    opened = on_fault(Breaker(), REFUSED, 100.0, MIDDLE, online=True)
    probing = on_dial(opened)
    assert probing.state is BreakerState.HALF_OPEN
    assert may_dial(probing, 100.0)
    assert on_dial(probing) == probing
    assert on_answer(probing) == Breaker()
    failed = on_fault(probing, REFUSED, 101.0, MIDDLE, online=True)
    assert (failed.state, failed.failures) == (BreakerState.OPEN, 2)


def test_a_healthy_relay_stays_so() -> None:
    assert on_dial(Breaker()) == Breaker()
    assert on_answer(Breaker()) == Breaker()


@pytest.mark.req("A13")
def test_when_the_network_is_back_an_open_breaker_probes_at_once() -> None:
    opened = on_fault(Breaker(failures=9), NO_NETWORK, 100.0, MIDDLE, online=True)
    back = on_network_back(opened, 150.0)
    assert may_dial(back, 150.0)
    assert (back.state, back.failures) == (BreakerState.OPEN, 10)
    for other in (Breaker(), on_dial(opened)):
        assert on_network_back(other, 150.0) == other


@pytest.mark.req("C10")
def test_latency_is_smoothed() -> None:
    assert smooth(None, 80.0) == 80.0
    assert smooth(100.0, 200.0) == 110.0
    assert smooth(100.0, 200.0, weight=0.5) == 150.0


# -- rank --------------------------------------------------------------------------------------

NOW = 1_800_000_000_000


def known(age: int = 0, **figures: Any) -> RelayHealth:
    return RelayHealth("wss://a.example/", seen_at=NOW - age, **figures)


GOOD = known(oks=100, success=1.0, latency_ms=50.0)


@pytest.mark.req("C10")
def test_good_relays_come_before_unknown_ones_and_these_before_bad_ones() -> None:
    unknown = rank_of(RelayHealth("wss://a.example/"), NOW)
    slow = rank_of(known(oks=100, success=1.0, latency_ms=5000.0), NOW)
    silent = rank_of(known(oks=10, timeouts=90, success=0.1), NOW)
    dead = rank_of(known(failures=DEAD_AFTER, oks=1000, success=1.0), NOW)
    assert 1 > rank_of(GOOD, NOW) > slow > unknown > silent > dead == 0.0
    assert unknown == pytest.approx(0.5, abs=0.01)


@pytest.mark.req("C10")
def test_a_few_good_answers_are_enough_to_be_better_than_unknown() -> None:
    assert rank_of(known(oks=1, success=1.0, latency_ms=100.0), NOW) > 0.5
    assert rank_of(known(failures=1, success=0.0), NOW) < 0.5


@pytest.mark.req("C10")
def test_old_news_count_for_less_and_less() -> None:
    weeks = [rank_of(known(FORGET_MS * n, oks=100, success=1.0), NOW) for n in range(5)]
    assert weeks == sorted(weeks, reverse=True)
    assert weeks[4] == pytest.approx(0.5, abs=0.05)
    assert rank_of(known(10**15, oks=100, success=1.0), NOW) == pytest.approx(0.5)
    ahead = rank_of(known(-FORGET_MS, oks=100, success=1.0), NOW)
    assert ahead == weeks[0], "a clock that was put back makes nothing new"


@pytest.mark.req("C10")
def test_the_dead_are_given_another_chance_when_that_is_old_news() -> None:
    assert rank_of(known(FORGET_MS - 1, failures=50), NOW) == 0.0
    assert rank_of(known(FORGET_MS, failures=50), NOW) > 0.0


@pytest.mark.req("C10")
@given(
    st.integers(0, 10**6),
    st.integers(0, 10**6),
    st.integers(0, DEAD_AFTER - 1),
    st.floats(0, 1),
    st.none() | st.floats(0, 10**6),
    st.integers(0, 10**13),
)
def test_who_is_not_dead_has_a_rank_between_nothing_and_one(
    oks: int, timeouts: int, failures: int, success: float, latency: float | None, age: int
) -> None:
    figures = {"oks": oks, "timeouts": timeouts, "failures": failures, "success": success}
    assert 0.0 < rank_of(known(age, latency_ms=latency, **figures), NOW) <= 1.0


# -- connectivity ------------------------------------------------------------------------------


def network(*dials: tuple[str, Fault | None]) -> Connectivity:
    known = Connectivity()
    for url, fault in dials:
        known = on_reached(known, url) if fault is None else on_unreached(known, url, fault)
    return known


CONNECTIVITY = [
    ([], True),
    ([("a", None)], True),
    ([("a", NO_NETWORK)], False),
    ([("a", NO_NETWORK), ("b", NO_NETWORK)], False),
    ([("a", NO_NETWORK), ("b", None)], True),
    # Who says no is there.
    ([("a", REFUSED)], True),
    ([("a", NO_NETWORK), ("b", REFUSED)], True),
    # The last word of each relay counts.
    ([("a", None), ("a", NO_NETWORK)], False),
    ([("a", NO_NETWORK), ("a", None)], True),
    ([("a", None), ("b", None), ("a", NO_NETWORK)], True),
    ([("a", None), ("b", None), ("a", NO_NETWORK), ("b", NO_NETWORK)], False),
]


@pytest.mark.req("A13")
@pytest.mark.parametrize(("dials", "online"), CONNECTIVITY)
def test_we_are_offline_only_if_nobody_can_be_reached(
    dials: list[tuple[str, Fault | None]], online: bool
) -> None:
    assert network(*dials).online is online


@pytest.mark.req("A13")
def test_a_relay_that_is_left_says_nothing_any_more() -> None:
    assert network(("a", NO_NETWORK)).online is False
    assert on_left(network(("a", NO_NETWORK)), "a").online is True
    assert on_left(network(("a", NO_NETWORK), ("b", None)), "b").online is False


@pytest.mark.req("A13")
@pytest.mark.parametrize("forced", [True, False])
def test_a_person_may_say_so_instead(forced: bool) -> None:
    assert on_unreached(Connectivity(forced=forced), "a", NO_NETWORK).online is forced
    assert on_reached(Connectivity(forced=forced), "a").online is forced
