"""What a scheduled post must be (F2, F3, F5), by tables."""

from __future__ import annotations

import pytest

from postrich.errors import CallerError, Conflict
from postrich.model.job import JobState
from postrich.rules.scheduling import (
    FARTHEST_MS,
    LONGEST_NAME,
    RESERVED,
    STALE_S,
    TOLERANCE_MS,
    PastHour,
    check_created_at,
    check_hour,
    check_name,
    check_new_hour,
    status_word,
)

NOW = 1_700_000_000_000
SECOND = NOW // 1000


@pytest.mark.req("F2")
@pytest.mark.parametrize("due", [NOW, NOW + 1, NOW - TOLERANCE_MS, NOW + FARTHEST_MS])
def test_hours_that_can_be(due: int) -> None:
    assert check_hour(due, NOW) == due


@pytest.mark.req("F2")
@pytest.mark.parametrize(
    ("due", "words"),
    [
        (NOW - TOLERANCE_MS - 1, "scheduledAt is in the past"),
        (0, "scheduledAt is in the past"),
        (-5, "scheduledAt is in the past"),
        (999_999_999, "scheduledAt is in the past"),
        (1_000_000_000, "looks like seconds"),
        (SECOND + 3600, "looks like seconds"),
    ],
)
def test_hours_that_are_over(due: int, words: str) -> None:
    with pytest.raises(PastHour, match=words):
        check_hour(due, NOW)


@pytest.mark.req("F2")
def test_hours_that_nobody_means() -> None:
    with pytest.raises(CallerError, match="ten years"):
        check_hour(NOW + FARTHEST_MS + 1, NOW)


@pytest.mark.req("F2")
@pytest.mark.parametrize("created_at", [0, SECOND - 86_400, SECOND, SECOND + TOLERANCE_MS // 1000])
def test_events_that_are_not_from_the_future(created_at: int) -> None:
    check_created_at(created_at, NOW)


@pytest.mark.req("F2")
def test_events_from_the_future() -> None:
    with pytest.raises(CallerError, match="from the future"):
        check_created_at(SECOND + TOLERANCE_MS // 1000 + 1, NOW)


@pytest.mark.req("F5")
@pytest.mark.parametrize(
    ("created_at", "is_warned"),
    [
        (SECOND + TOLERANCE_MS // 1000, False),
        (SECOND, False),
        (SECOND - STALE_S, False),
        (SECOND - STALE_S - 1, True),
    ],
)
def test_a_signature_that_is_kept(created_at: int, is_warned: bool) -> None:
    assert bool(check_new_hour(created_at, NOW)) is is_warned


@pytest.mark.req("F5")
def test_a_signature_that_cannot_be_kept() -> None:
    with pytest.raises(Conflict, match="new signed event"):
        check_new_hour(SECOND + TOLERANCE_MS // 1000 + 1, NOW)


@pytest.mark.req("F1")
@pytest.mark.parametrize("name", ["a", "x" * LONGEST_NAME, "ümläut 🦃", "a%2Fb", "statuses"])
def test_names_that_can_be(name: str) -> None:
    assert check_name(name) == name


@pytest.mark.req("F1")
@pytest.mark.parametrize(
    "name", ["", "x" * (LONGEST_NAME + 1), "a/b", "a?b", "a#b", "a\nb", "\x7f", *sorted(RESERVED)]
)
def test_names_that_cannot_be(name: str) -> None:
    with pytest.raises(CallerError, match="id "):
        check_name(name)


@pytest.mark.req("F1")
def test_every_state_has_its_word() -> None:
    assert {status_word(state) for state in JobState} == {
        "pending",
        "published",
        "failed",
        "cancelled",
    }
    assert status_word(JobState.PARKED) == "pending"  # it can still go out
