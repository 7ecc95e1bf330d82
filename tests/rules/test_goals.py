"""When a job is published: so many relays, so many of one's own, so many of each inbox (D12)."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from postrich.model.job import JobState
from postrich.rules.lifecycle import Judgement, Tally, judge

PENDING, PUBLISHED, FAILED = JobState.PENDING_PUBLISH, JobState.PUBLISHED, JobState.FAILED
PARKED = JobState.PARKED


def tally(state: JobState = PENDING, goal: int = 1, **counts: int) -> Tally:
    fields: dict[str, Any] = {
        **dict.fromkeys(("waiting", "delivered", "parked", "superseded", "dead"), 0),
        **counts,
    }
    return Tally(1, state, goal, **fields)


GOALS = {
    "any relay": (tally(delivered=1, waiting=3), True),
    "none yet": (tally(waiting=3), False),
    "two relays": (tally(goal=2, delivered=1, waiting=1), False),
    "one of mine, and others took it": (tally(goal_mine=1, delivered=5, waiting=1), False),
    "one of mine": (tally(goal_mine=1, mine=1, delivered=1, waiting=1), True),
    "two of mine, one took it": (tally(goal_mine=2, mine=1, delivered=4, waiting=1), False),
    "somebody has nothing": (tally(unmet=1, delivered=9, waiting=1), False),
    "everybody has it": (tally(unmet=0, delivered=9, waiting=1), True),
    "everybody has it but I do not": (
        tally(goal_mine=1, delivered=9, waiting=1),
        False,
    ),
}


@pytest.mark.req("D12")
@pytest.mark.parametrize(("counted", "met"), GOALS.values(), ids=GOALS.keys())
def test_published_means_that_every_goal_is_met(counted: Tally, met: bool) -> None:
    assert judge(counted) == Judgement(PUBLISHED if met else PENDING, False)


@pytest.mark.req("D12")
def test_a_goal_that_cannot_be_met_any_more_fails() -> None:
    assert judge(tally(unmet=1, delivered=3, dead=1)) == Judgement(FAILED, True)
    assert judge(tally(goal_mine=1, delivered=3, dead=1)) == Judgement(FAILED, True)
    assert judge(tally(unmet=1, delivered=3, parked=1)) == Judgement(PARKED, True)


@pytest.mark.req("D11", "D12")
def test_what_is_published_stays_so_when_a_new_list_brings_more_to_do() -> None:
    assert judge(tally(PUBLISHED, delivered=2, waiting=2, unmet=1)) == Judgement(PUBLISHED, False)


@pytest.mark.req("D12")
@given(*[st.integers(0, 3) for _ in range(6)])
def test_more_oks_never_make_it_worse(
    goal: int, goal_mine: int, mine: int, delivered: int, unmet: int, waiting: int
) -> None:
    less = tally(
        goal=goal, goal_mine=goal_mine, mine=mine, delivered=delivered, unmet=unmet, waiting=waiting
    )
    more = tally(
        goal=goal,
        goal_mine=goal_mine,
        mine=mine + 1,
        delivered=delivered + 1,
        unmet=max(0, unmet - 1),
        waiting=waiting,
    )
    assert less.is_met <= more.is_met
