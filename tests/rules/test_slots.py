"""A weekly grid, and its next free slots."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from postrich.errors import InvalidTime
from postrich.rules.slots import LONGEST, MOST_ASKED, next_free, parse_grid
from tests.rules.years import MINUTE, ms

pytestmark = pytest.mark.req("F5")

BERLIN = "Europe/Berlin"
GRID = parse_grid("mon,wed,fri 09:00 18:00; sat 10:30", BERLIN)
MONDAY = ms(2026, 5, 25)


def test_the_next_slots_in_their_order() -> None:
    assert next_free(GRID, (), MONDAY, 8) == [
        ms(2026, 5, 25, 7),
        ms(2026, 5, 25, 16),
        ms(2026, 5, 27, 7),
        ms(2026, 5, 27, 16),
        ms(2026, 5, 29, 7),
        ms(2026, 5, 29, 16),
        ms(2026, 5, 30, 8, 30),
        ms(2026, 6, 1, 7),
    ]
    assert next_free(GRID, (), ms(2026, 5, 25, 7), 1) == [ms(2026, 5, 25, 16)]
    assert next_free(GRID, (), MONDAY, 0) == []


def test_what_is_due_within_a_slots_minute_takes_it() -> None:
    first = ms(2026, 5, 25, 7)
    taken = [first + 59_999, ms(2026, 5, 25, 16) - 1, ms(2026, 5, 27, 7)]
    assert next_free(GRID, taken, MONDAY, 2) == [ms(2026, 5, 25, 16), ms(2026, 5, 27, 16)]


def test_slots_keep_the_clock_on_the_wall() -> None:
    nights = parse_grid("sun 02:15 02:30 03:00", BERLIN)
    spring = next_free(nights, (), ms(2026, 3, 28), 2)
    assert spring == [ms(2026, 3, 29, 1), ms(2026, 4, 5, 0, 15)]  # three in one gap are one
    autumn = next_free(nights, (), ms(2026, 10, 24), 3)
    assert autumn == [ms(2026, 10, 25, 0, 15), ms(2026, 10, 25, 0, 30), ms(2026, 10, 25, 2)]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "between 1 and"),
        (" ; ", "between 1 and"),
        ("mon", "'mon'"),
        ("mon 9:00; noday 9:00", "'noday 9:00'"),
        ("mon 25:00", "not understood"),
        ("2 hours", "not understood"),
        ("0 9 * * *", "not understood"),
        (";".join(f"mon {h}:{m:02}" for h in range(10) for m in range(10)), "between 1 and"),
        ("x" * (LONGEST + 1), "characters long"),
    ],
)
def test_grids_that_are_refused(text: str, words: str) -> None:
    with pytest.raises(InvalidTime, match=words):
        parse_grid(text, BERLIN)


def test_a_zone_that_is_none_and_too_many_slots() -> None:
    with pytest.raises(InvalidTime, match="no time zone"):
        parse_grid("mon 9:00", "Nowhere")
    for count in (-1, MOST_ASKED + 1):
        with pytest.raises(InvalidTime, match="at once"):
            next_free(GRID, (), MONDAY, count)


@given(st.sets(st.integers(0, 60)), st.integers(0, 20), st.integers(0, 10**9))
def test_free_slots_are_slots_and_free(taken: set[int], count: int, later: int) -> None:
    slots = next_free(GRID, (), MONDAY + later, 100)
    full = {slots[index] for index in taken}
    free = next_free(GRID, full, MONDAY + later, count)
    assert free == [slot for slot in slots if slot not in full][:count]
    assert all(slot % (5 * MINUTE) == 0 for slot in free)
