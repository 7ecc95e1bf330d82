"""Reading backwards: every event that a relay can give, whatever its habits, and always an end."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from postrich.rules.paging import FEW, Ask, Page, Stage, following

Times = list[int]


class Habits:
    """A relay with events at these seconds: how it cuts answers, and how it reads `until`."""

    def __init__(self, times: Times, cap: int, *, exclusive: bool) -> None:
        self.events = sorted(enumerate(times), key=lambda event: (-event[1], event[0]))
        self.cap = cap
        self.exclusive = exclusive

    def answer(self, ask: Ask) -> list[tuple[int, int]]:
        found = [
            (name, at)
            for name, at in self.events
            if (ask.until is None or (at < ask.until if self.exclusive else at <= ask.until))
            and at >= (ask.since or 0)
        ]
        return found[: min(ask.limit, self.cap)]


def read_all(relay: Habits, since: int | None = None) -> tuple[set[int], list[int], int]:
    """All names that come, the gaps that are told, and how many questions it took."""
    seen: set[int] = set()
    gaps: list[int] = []
    ask: Ask | None = Ask()
    asked = largest = 0
    while ask is not None:
        asked += 1
        assert asked < 10_000, "it never ends"
        found = [event for event in relay.answer(ask) if event[1] >= (since or 0)]
        times = [at for _, at in found]
        fresh = {name for name, _ in found} - seen
        seen |= fresh
        page = Page(len(found), len(fresh), min(times, default=0), max(times, default=0))
        step = following(ask, page, largest, since)
        if ask.stage is not Stage.SECOND:
            largest = max(largest, len(found))
        gaps += [step.gap] if step.gap is not None else []
        ask = step.ask
    return seen, gaps, asked


@pytest.mark.req("D11")
@given(
    times=st.lists(st.integers(1, 60), max_size=150),
    cap=st.integers(1, 40),
    exclusive=st.booleans(),
)
def test_what_is_missing_is_only_in_seconds_that_are_named(
    times: Times, cap: int, exclusive: bool
) -> None:
    relay = Habits(times, cap, exclusive=exclusive)
    seen, gaps, _ = read_all(relay)
    missing = Counter(at for name, at in enumerate(times) if name not in seen)
    unexplained = {at for at in missing if at not in gaps and times.count(at) >= max(cap, FEW)}
    assert not unexplained
    assert all(times.count(at) > cap for at in missing)


@pytest.mark.req("D11")
@given(times=st.lists(st.integers(1, 1000), max_size=200), since=st.integers(0, 1000))
def test_a_bound_is_kept(times: Times, since: int) -> None:
    seen, gaps, _ = read_all(Habits(times, 50, exclusive=False), since)
    assert seen == {name for name, at in enumerate(times) if at >= since}
    assert not [gap for gap in gaps if times.count(gap) < 50]


@pytest.mark.req("D11")
@pytest.mark.parametrize("exclusive", [False, True])
def test_hundreds_in_one_second_are_read_whole(exclusive: bool) -> None:
    times = [*range(1, 300), *[300] * 450, *[301] * 450, *range(302, 900)]
    seen, gaps, asked = read_all(Habits(times, 500, exclusive=exclusive))
    assert len(seen) == len(times)
    assert gaps == []
    assert asked < 15


@pytest.mark.req("D11")
@pytest.mark.parametrize("exclusive", [False, True])
def test_a_second_of_more_than_a_page_is_asked_for_by_itself(exclusive: bool) -> None:
    times = [1, 2, *[50] * 900, 99]
    seen, gaps, _ = read_all(Habits(times, 5000, exclusive=exclusive))
    assert (len(seen), gaps) == (len(times), [])


@pytest.mark.req("D11")
@pytest.mark.parametrize("exclusive", [False, True])
def test_where_a_relay_cuts_a_second_short_that_is_said(exclusive: bool) -> None:
    times = [1, 2, *[50] * 900, 99]
    seen, gaps, _ = read_all(Habits(times, 500, exclusive=exclusive))
    assert len(times) - len(seen) == 400
    assert gaps == [50]


@pytest.mark.req("D11")
def test_few_events_raise_no_alarm() -> None:
    for number in range(FEW):
        seen, gaps, asked = read_all(Habits([7] * number, 500, exclusive=False))
        assert (len(seen), gaps) == (number, [])
        assert asked <= 4


@pytest.mark.req("D11")
def test_it_goes_down_strictly_where_nothing_new_comes() -> None:
    stuck = Page(count=20, fresh=0, oldest=100, newest=100)
    below = following(Ask(100, stage=Stage.TIGHT, whole=True), stuck, 20)
    assert (below.ask, below.gap) == (Ask(99, stage=Stage.BELOW), None)
    again = following(Ask(99, stage=Stage.BELOW), Page(20, 0, 90, 99), 20)
    assert again.ask == Ask(89, stage=Stage.BELOW)
    assert following(Ask(5, stage=Stage.TIGHT), Page(1, 0, 5, 5), 1, since=5).ask is None
