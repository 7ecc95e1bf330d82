"""The window of a lane (C9) and its pauses (B9)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from postrich.rules.pace import LONGEST_PAUSE, START, Pace, shares

MIDDLE = 0.5


def fill(pace: Pace, rounds: int) -> list[int]:
    """The window after each round in which everything that was sent was answered."""
    seen = []
    for _ in range(rounds):
        pace.on_answers(int(pace.window))
        seen.append(int(pace.window))
    return seen


@pytest.mark.req("C9")
def test_the_window_doubles_while_all_is_well() -> None:
    pace = Pace(512)
    assert pace.window == START
    assert fill(pace, 7) == [32, 64, 128, 256, 512, 512, 512]


@pytest.mark.req("C9")
@pytest.mark.parametrize(
    ("ceiling", "start"), [(1, 1), (0, 1), (-3, 1), (8, 8), (16, 16), (99, 16)]
)
def test_the_window_never_starts_above_its_ceiling(ceiling: int, start: int) -> None:
    assert Pace(ceiling).window == start


@pytest.mark.req("C9")
def test_past_the_last_trouble_it_grows_by_one_a_round() -> None:
    pace = Pace(512)
    fill(pace, 3)
    pace.on_silence(10.0)
    assert pace.window == 64
    assert fill(pace, 3) == [65, 66, 67]


@pytest.mark.req("C9", "B9")
def test_many_silences_at_once_are_one_trouble() -> None:
    pace = Pace(64)
    fill(pace, 2)
    for now in (10.0, 10.0, 10.5, 11.0):
        pace.on_silence(now)
    assert pace.window == 32
    pace.on_silence(11.01)
    assert pace.window == 16


@pytest.mark.req("B9")
def test_every_rate_limit_halves_and_pauses_for_longer() -> None:
    pace = Pace(64)
    now, waits, windows = 100.0, [], []
    for _ in range(8):
        resume = pace.on_rate_limit(now, MIDDLE)
        waits.append(resume - now)
        windows.append(pace.window)
        now = resume
    assert waits == [1, 2, 4, 8, 16, 32, LONGEST_PAUSE, LONGEST_PAUSE]
    assert windows == [8, 4, 2, 1, 1, 1, 1, 1]


@pytest.mark.req("B9")
@pytest.mark.parametrize(("chance", "wait"), [(0.0, 0.75), (0.5, 1.0), (0.999, 1.25)])
def test_a_pause_has_jitter(chance: float, wait: float) -> None:
    assert Pace(64).on_rate_limit(0.0, chance) == pytest.approx(wait, abs=0.001)


@pytest.mark.req("B9")
def test_refusals_during_a_pause_are_the_same_trouble() -> None:
    pace = Pace(64)
    resume = pace.on_rate_limit(100.0, MIDDLE)
    for now in (100.0, 100.5, resume - 0.001):
        assert pace.on_rate_limit(now, MIDDLE) == resume
    assert pace.window == START / 2


@pytest.mark.req("B9")
def test_after_a_calm_while_pauses_are_short_again() -> None:
    pace = Pace(64)
    now = 100.0
    for _ in range(4):
        now = pace.on_rate_limit(now, MIDDLE)
    pace.on_answers(START - 1)
    assert pace.on_rate_limit(now, MIDDLE) - now == 16
    now = pace.resume_at
    pace.on_answers(START - 1)
    pace.on_answers(1)
    assert pace.on_rate_limit(now, MIDDLE) - now == 1


@pytest.mark.req("B10", "C9")
def test_after_a_broken_socket_one_goes_alone_and_then_it_recovers() -> None:
    pace = Pace(512)
    fill(pace, 2)
    pace.on_lost()
    assert pace.window == 1
    assert fill(pace, 8) == [2, 4, 8, 16, 32, 33, 34, 35]


@pytest.mark.req("C9")
def test_one_at_a_time_stays_one_at_a_time_whatever_happens() -> None:
    pace = Pace(1)
    pace.on_lost()
    assert fill(pace, 3) == [1, 1, 1]
    pace.on_silence(10.0)
    pace.on_rate_limit(20.0, MIDDLE)
    assert fill(pace, 3) == [1, 1, 1]


@pytest.mark.req("C9")
@given(
    st.integers(1, 600),
    st.lists(
        st.one_of(
            st.tuples(st.just("answers"), st.integers(1, 600)),
            st.tuples(st.just("rate"), st.floats(0, 100)),
            st.tuples(st.just("silence"), st.floats(0, 100)),
            st.tuples(st.just("lost"), st.just(0)),
        ),
        max_size=30,
    ),
)
def test_the_window_stays_between_one_and_its_ceiling(
    ceiling: int, happenings: list[tuple[str, float]]
) -> None:
    pace = Pace(ceiling)
    now = 0.0
    for what, amount in happenings:
        if what == "answers":
            pace.on_answers(int(amount))
        elif what == "lost":
            pace.on_lost()
        else:
            now += amount
            if what == "rate":
                resume = pace.on_rate_limit(now, MIDDLE)
                assert now < resume <= now + LONGEST_PAUSE
            else:
                pace.on_silence(now)
        assert 1 <= pace.window <= ceiling


@pytest.mark.req("B9")
@pytest.mark.parametrize(
    ("room", "expected"), [(1, (1, 1)), (4, (4, 1)), (8, (8, 2)), (512, (512, 128))]
)
def test_retries_get_a_quarter_beside_fresh_work(room: int, expected: tuple[int, int]) -> None:
    assert shares(room) == expected
