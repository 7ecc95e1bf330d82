"""Which events end others that still wait (A11)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from postrich.model.event import make_draft
from postrich.rules.precedence import Cancellation, cancellation_of, is_newer, next_created_at

pytestmark = pytest.mark.req("A11")

ME, OTHER = "ab" * 32, "cd" * 32
ID, SECOND_ID = "0" * 63 + "1", "f" * 64
ARTICLE = f"30023:{ME}:article"


def cancelled(kind: int, *tags: list[str]) -> Cancellation | None:
    return cancellation_of(make_draft(ME, 1000, kind, tags))


@pytest.mark.parametrize(
    ("tags", "event_ids", "addresses"),
    [
        ([["e", ID]], (ID,), ()),
        ([["e", ID, "wss://hint"], ["k", "1"], ["e", SECOND_ID]], (ID, SECOND_ID), ()),
        ([["a", ARTICLE]], (), (ARTICLE,)),
        ([["a", f"10002:{ME}:"], ["e", ID]], (ID,), (f"10002:{ME}:",)),
        ([["a", f"30023:{ME}:a:b"]], (), (f"30023:{ME}:a:b",)),
        # What is no id, no address, or somebody else's, means nothing.
        ([["e", "note1xyz"], ["e", ID.upper().replace("0", "A")], ["e"], ["e", ID[1:]]], (), ()),
        ([["a", f"30023:{OTHER}:article"], ["a", f"10002:{ME}"], ["a", "x"], ["a"]], (), ()),
        ([], (), ()),
    ],
)
def test_a_deletion_takes_back_its_authors_events(
    tags: list[list[str]], event_ids: tuple[str, ...], addresses: tuple[str, ...]
) -> None:
    assert cancelled(5, *tags) == Cancellation(ME, 1000, event_ids, addresses)


@pytest.mark.parametrize(
    ("tags", "relays"),
    [
        ([["relay", "ALL_RELAYS"]], ()),
        ([["relay", "wss://one.example/"], ["relay", "ALL_RELAYS"]], ()),
        ([["relay", "wss://one.example/"]], ("wss://one.example/",)),
        # Deliveries know relays by the one form of their URL.
        (
            [["relay", "WSS://One.Example"], ["relay", "two.example:443"]],
            ("wss://one.example/", "wss://two.example/"),
        ),
        ([["relay", "wss://one.example/"], ["relay", "not a url"]], ("wss://one.example/",)),
    ],
)
def test_vanishing_takes_back_everything_so_far_where_it_was_asked(
    tags: list[list[str]], relays: tuple[str, ...]
) -> None:
    assert cancelled(62, *tags) == Cancellation(ME, 1000, everything_until=1000, relays=relays)


@pytest.mark.parametrize("tags", [[], [["relay"]], [["relay", "not a url"]], [["relay", ""]]])
def test_vanishing_from_nowhere_takes_nothing_back(tags: list[list[str]]) -> None:
    assert cancelled(62, *tags) is None


@pytest.mark.parametrize("kind", [0, 1, 3, 7, 10_002, 30_023])
def test_other_kinds_take_nothing_back(kind: int) -> None:
    assert cancelled(kind, ["e", ID], ["a", ARTICLE], ["relay", "ALL_RELAYS"]) is None


@pytest.mark.parametrize(
    ("created_at", "event_id", "than_at", "than_id", "newer"),
    [
        (2, "f", 1, "0", True),
        (1, "0", 2, "f", False),
        (1, "0", 1, "1", True),  # of one second, the lower id
        (1, "1", 1, "0", False),
        (1, "0", 1, "0", False),
    ],
)
def test_the_later_one_is_newer(
    created_at: int, event_id: str, than_at: int, than_id: str, newer: bool
) -> None:
    assert is_newer(created_at, event_id, than_at, than_id) is newer


versions = st.tuples(st.integers(0, 3), st.text("01", min_size=2, max_size=2))


@given(versions, versions, versions)
def test_of_different_versions_exactly_one_is_newest(
    one: tuple[int, str], two: tuple[int, str], three: tuple[int, str]
) -> None:
    assert is_newer(*one, *two) + is_newer(*two, *one) == (one != two)
    if is_newer(*one, *two) and is_newer(*two, *three):
        assert is_newer(*one, *three)


@pytest.mark.parametrize(
    ("now", "last", "expected"),
    [(100, None, 100), (100, 50, 100), (100, 99, 100), (100, 100, 101), (100, 500, 501)],
)
def test_a_new_version_is_dated_strictly_above_the_last(
    now: int, last: int | None, expected: int
) -> None:
    assert next_created_at(now, last) == expected
