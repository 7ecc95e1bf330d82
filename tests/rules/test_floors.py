"""Floors (G4): where the next claim of a busy lane begins, and how long that is believed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from postrich.model.delivery import BANDS, NO_FLOORS, Claimed
from postrich.rules.floors import HOLD_FOR, LONGEST, Marks

pytestmark = pytest.mark.req("G4")

START = 100.0
TOOK = 0.01


def risen(*claimed: Claimed, took: float = TOOK) -> Marks:
    """Marks after one claim that brought these."""
    marks = Marks()
    marks.begin(START)
    marks.rise(claimed, START + took)
    return marks


def floor_of(marks: Marks, band: int, now: float = START + TOOK) -> tuple[int, int]:
    return marks.begin(now)[band]


def test_the_first_claim_begins_before_everything() -> None:
    assert Marks().begin(START) == NO_FLOORS
    assert len(NO_FLOORS) == BANDS
    assert all(floor < (0, 0) for floor in NO_FLOORS)


def test_each_band_goes_on_after_the_last_that_was_brought() -> None:
    marks = risen(Claimed(7, 0, 2, 50), Claimed(3, 0, 2, 60), Claimed(9, 1, 3, 55))
    floors = list(NO_FLOORS)
    floors[2], floors[3] = (60, 3), (55, 9)
    assert marks.begin(START + TOOK) == tuple(floors)


def test_floors_rise_from_claim_to_claim() -> None:
    marks = risen(Claimed(1, 0, 2, 50))
    marks.begin(START + TOOK)
    marks.rise([Claimed(2, 0, 2, 50)], START + 2 * TOOK)
    assert floor_of(marks, 2) == (50, 2)


@given(took=st.floats(0.0001, 1.0), later=st.floats(0.0, 10.0))
def test_they_hold_for_a_time_that_a_look_without_them_earns(took: float, later: float) -> None:
    marks = risen(Claimed(1, 0, 2, 50), took=took)
    ended = START + took
    until = ended + min(LONGEST, HOLD_FOR * (ended - START))
    now = ended + later
    assert (floor_of(marks, 2, now) == (50, 1)) == (now < until)


def test_claims_by_floors_do_not_make_them_hold_for_longer() -> None:
    marks = risen(Claimed(1, 0, 2, 50))
    until = START + TOOK + HOLD_FOR * TOOK
    for number in range(2, 9):
        now = START + TOOK + number * 0.01
        marks.begin(now)
        marks.rise([Claimed(number, 0, 2, 50)], now + 0.009)
    assert marks.begin(until - 0.001) != NO_FLOORS
    assert marks.begin(until + 0.001) == NO_FLOORS


def test_what_is_put_back_is_found_again() -> None:
    marks = risen(Claimed(1, 0, 2, 50))
    marks.fall()
    assert marks.begin(START + TOOK) == NO_FLOORS


def test_what_is_put_back_while_the_store_is_asked_is_found_again() -> None:
    marks = risen(Claimed(1, 0, 2, 50))
    marks.begin(START + TOOK)
    marks.fall()
    marks.rise([Claimed(2, 0, 2, 60)], START + 2 * TOOK)
    assert marks.begin(START + 2 * TOOK) == NO_FLOORS
