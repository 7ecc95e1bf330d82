"""When to try again (B1–B5): the presets to the second, their jitter, and policies of one's own."""

import math

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from postrich.errors import BadSetting
from postrich.model.job import RetryPolicy
from postrich.rules.backoff import (
    PRESETS,
    NextAttempt,
    check_policy,
    compute_next_attempt,
    policy_text,
    resolve_policy,
)

NOW = 1_700_000_000_000
MIDDLE = 0.5

#: The seconds between attempts; of the endless ones the last repeats for ever.
SEQUENCES: dict[str, list[float]] = {
    "interactive": [2, 5, 10, 30, 60, 120, 300],
    "offline": [5, 10, 20, 40, 80, 160, 320, 640, 1280, 2560, 3600],
    "scheduled": [60, 300, 900],
    "capture": [1, 5, 30, 300, 300, 300, 300, 300, 300],
    "once": [],
}
ENDLESS = {"interactive", "offline"}
JITTER = {
    "interactive": (0.5, 1.5),
    "offline": (0.8, 1.2),
    "scheduled": (1, 1),
    "capture": (1, 1),
    "once": (1, 1),
}


def delays(policy: RetryPolicy, chance: float, count: int) -> list[float]:
    """The waits in seconds that a delivery which always fails would see."""
    waits = []
    for attempt in range(1, count + 1):
        following = compute_next_attempt(attempt, policy, NOW, chance)
        if following is None:
            break
        assert following == NextAttempt(following.delay_ms, NOW + following.delay_ms)
        waits.append(following.delay_ms / 1000)
    return waits


@pytest.mark.req("B1", "B2", "B3", "B4", "B5")
def test_every_preset_is_shown_here() -> None:
    assert set(SEQUENCES) == set(JITTER) == set(PRESETS)


@pytest.mark.req("B1", "B2", "B3", "B4", "B5")
@pytest.mark.parametrize("name", SEQUENCES)
def test_a_preset_waits_exactly_as_written(name: str) -> None:
    expected, count = SEQUENCES[name], 2000
    if name in ENDLESS:
        expected = expected + expected[-1:] * (count - len(expected))
    assert delays(PRESETS[name], MIDDLE, count) == expected


@pytest.mark.req("B4")
def test_scheduled_fails_after_three_retries() -> None:
    assert compute_next_attempt(3, PRESETS["scheduled"], NOW, MIDDLE) is not None
    assert compute_next_attempt(4, PRESETS["scheduled"], NOW, MIDDLE) is None


@pytest.mark.req("B5")
def test_capture_has_no_eleventh_attempt() -> None:
    assert compute_next_attempt(9, PRESETS["capture"], NOW, MIDDLE) is not None
    assert compute_next_attempt(10, PRESETS["capture"], NOW, MIDDLE) is None
    assert compute_next_attempt(11, PRESETS["capture"], NOW, MIDDLE) is None


@pytest.mark.req("B2", "B5")
def test_only_capture_counts_anew_after_a_manual_retry() -> None:
    assert {name for name, policy in PRESETS.items() if policy.retry_resets} == {"capture"}


@pytest.mark.req("B9")
def test_every_preset_ends_some_day() -> None:
    lifetimes = {name: policy.lifetime for name, policy in PRESETS.items()}
    assert lifetimes["interactive"] == 3 * 86_400
    assert all(0 < lifetime <= 30 * 86_400 for lifetime in lifetimes.values())


@pytest.mark.req("B2", "B3", "B4", "B5")
@given(st.sampled_from(sorted(SEQUENCES)), st.integers(1, 40), st.floats(0, 1, exclude_max=True))
def test_jitter_stays_within_the_presets_bounds(name: str, attempt: int, chance: float) -> None:
    policy = PRESETS[name]
    low, high = JITTER[name]
    plain = compute_next_attempt(attempt, policy, NOW, MIDDLE)
    seen = compute_next_attempt(attempt, policy, NOW, chance)
    if plain is None or seen is None:
        assert plain is seen
        return
    assert plain.delay_ms * low <= seen.delay_ms <= plain.delay_ms * high


@pytest.mark.req("B2", "B3")
@pytest.mark.parametrize(
    ("name", "chance", "expected"),
    [
        ("interactive", 0.0, [1, 2.5, 5, 15]),
        ("interactive", 0.75, [2.5, 6.25, 12.5, 37.5]),
        ("offline", 0.0, [4, 8, 16, 32]),
        ("offline", 0.75, [5.5, 11, 22, 44]),
        ("scheduled", 0.9, [60, 300, 900]),
        ("capture", 0.9, [1, 5, 30, 300]),
    ],
)
def test_jitter_follows_chance(name: str, chance: float, expected: list[float]) -> None:
    assert delays(PRESETS[name], chance, 4) == expected


# -- policies of one's own ---------------------------------------------------------------------


def own(**fields: object) -> RetryPolicy:
    return RetryPolicy(**{"name": "mine", "delays": (1.0,), **fields})  # type: ignore[arg-type]


@pytest.mark.req("B1")
@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        (own(delays=(3, 1)), [3, 1, 1, 1, 1]),
        (own(delays=(0,)), [0, 0, 0, 0, 0]),
        (own(delays=(1, 4), factor=3, cap=100), [1, 4, 12, 36, 100]),
        (own(delays=(50,), factor=2, cap=10), [50, 10, 10, 10, 10]),
        (own(delays=(1,), max_attempts=3), [1, 1]),
    ],
)
def test_a_policy_of_ones_own_is_followed(policy: RetryPolicy, expected: list[float]) -> None:
    assert delays(check_policy(policy), MIDDLE, 5) == expected


policies = st.builds(
    RetryPolicy,
    name=st.sampled_from(["mine", "", "été", *PRESETS]),
    delays=st.lists(st.floats(0, 1e8), min_size=1, max_size=5).map(tuple),
    factor=st.floats(1, 1000),
    cap=st.floats(0, 1e8),
    jitter=st.tuples(st.floats(0, 1), st.floats(1, 1000)),
    max_attempts=st.none() | st.integers(1, 100),
    lifetime=st.floats(0.001, 1e8),
    retry_resets=st.booleans(),
)


@pytest.mark.req("B1")
@given(policies, st.integers(0, 10**9), st.floats(0, 1, exclude_max=True))
def test_no_accepted_policy_can_break_the_clock(
    policy: RetryPolicy, attempt: int, chance: float
) -> None:
    following = compute_next_attempt(attempt, check_policy(policy), NOW, chance)
    if following is None:
        assert policy.max_attempts is not None
        assert attempt >= policy.max_attempts
    else:
        assert NOW <= following.at < 2**63


@pytest.mark.req("B1")
@given(policies | st.sampled_from(list(PRESETS.values())))
def test_a_policys_text_is_read_back_to_the_same_policy(policy: RetryPolicy) -> None:
    assert resolve_policy(policy_text(policy)) == policy


@pytest.mark.req("B1")
def test_a_preset_is_written_by_name_unless_it_was_changed() -> None:
    assert policy_text(PRESETS["capture"]) == "capture"
    changed = msgspec.structs.replace(PRESETS["capture"], max_attempts=11)
    assert policy_text(changed).startswith("{")
    assert resolve_policy(policy_text(changed)).max_attempts == 11


@pytest.mark.req("B1")
def test_a_policy_in_json_needs_only_its_delays() -> None:
    policy = resolve_policy('{"name": "mine", "delays": [1, 2.5]}')
    assert delays(policy, MIDDLE, 3) == [1, 2.5, 2.5]


NAN, INFINITE = math.nan, math.inf
BAD_POLICIES = {
    "no delays": (own(delays=()), "delays"),
    "negative delay": (own(delays=(1, -1)), "delays"),
    "endless delay": (own(delays=(INFINITE,)), "delays"),
    "delay that is no number": (own(delays=(NAN,)), "delays"),
    "delay past every calendar": (own(delays=(1e12,)), "delays"),
    "shrinking factor": (own(factor=0.5), "factor"),
    "factor that overflows": (own(factor=1e10), "factor"),
    "factor that is no number": (own(factor=NAN), "factor"),
    "negative cap": (own(cap=-1), "cap"),
    "endless cap": (own(cap=INFINITE), "cap"),
    "jitter the wrong way round": (own(jitter=(1.5, 0.5)), "jitter"),
    "negative jitter": (own(jitter=(-0.5, 0.5)), "jitter"),
    "endless jitter": (own(jitter=(0.5, INFINITE)), "jitter"),
    "no attempt at all": (own(max_attempts=0), "max_attempts"),
    "no lifetime": (own(lifetime=0), "lifetime"),
    "endless lifetime": (own(lifetime=INFINITE), "lifetime"),
}


@pytest.mark.req("B1", "B9")
@pytest.mark.parametrize(("policy", "named"), BAD_POLICIES.values(), ids=BAD_POLICIES.keys())
def test_a_policy_that_cannot_work_is_refused_by_name(policy: RetryPolicy, named: str) -> None:
    with pytest.raises(BadSetting, match=f"'mine': {named}"):
        check_policy(policy)


@pytest.mark.req("B1")
@pytest.mark.parametrize(
    "text",
    [
        "",
        "Interactive",
        "fast",
        "[1, 2]",
        "{",
        "{}",
        '{"name": "mine"}',
        '{"name": "mine", "delays": []}',
        '{"name": "mine", "delays": [-1]}',
        '{"name": "mine", "delays": [1], "factor": 1e999}',
        '{"name": "mine", "delays": ["1"]}',
        '{"name": "mine", "delays": [1], "jitter": [1]}',
        '{"name": "mine", "delays": [1], "max_attemps": 3}',
        '{"name": "mine", "delays": [1], "max_attempts": 1.5}',
        '{"name": "\ud800", "delays": [1]}',
    ],
)
def test_text_that_names_no_policy_is_refused(text: str) -> None:
    with pytest.raises(BadSetting, match="retry policy"):
        resolve_policy(text)


@pytest.mark.req("B1")
def test_an_unknown_name_is_answered_with_the_known_ones() -> None:
    with pytest.raises(BadSetting, match="interactive, offline, scheduled, capture"):
        resolve_policy("fast")
