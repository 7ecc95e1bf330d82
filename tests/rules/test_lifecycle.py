"""The legal moves of jobs and deliveries, and what a verdict makes of a delivery (A3)."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from postrich.errors import IllegalMove
from postrich.model.delivery import Delivery, DeliveryState, Outcome, Verdict
from postrich.model.job import JobError, JobState, Phase, RetryPolicy
from postrich.rules.backoff import PRESETS
from postrich.rules.lifecycle import (
    CANCELLABLE,
    DELETABLE,
    DELIVERY_MOVES,
    JOB_MOVES,
    REOPENED,
    RETRIABLE,
    Attempt,
    Judgement,
    Tally,
    check_move,
    judge,
    publish_error,
    settle,
)

J, D = JobState, DeliveryState
NOW = 1_700_000_000_000
HOUR = 3_600_000

# -- the tables --------------------------------------------------------------------------------


@pytest.mark.req("A3")
def test_the_tables_know_every_state_and_no_other() -> None:
    assert set(JOB_MOVES) == set(JobState)
    assert set(DELIVERY_MOVES) == set(DeliveryState)
    assert all(moves <= set(JobState) for moves in JOB_MOVES.values())
    assert all(moves <= set(DeliveryState) for moves in DELIVERY_MOVES.values())


@pytest.mark.req("A3")
def test_states_have_the_names_that_the_documents_give_them() -> None:
    assert {str(state) for state in JobState} == {
        "pending-sign",
        "scheduled",
        "signed-pending-publish",
        "published",
        "failed",
        "cancelled",
        "parked",
        "superseded",
    }


@pytest.mark.req("A3")
def test_what_is_delivered_or_published_stays_so() -> None:
    assert JOB_MOVES[J.PUBLISHED] == frozenset()
    assert DELIVERY_MOVES[D.DELIVERED] == frozenset()


@pytest.mark.req("A3", "C9")
def test_an_ok_that_was_on_its_way_always_counts() -> None:
    sent = set(JobState) - {J.PENDING_SIGN, J.SCHEDULED, J.PUBLISHED}
    assert all(J.PUBLISHED in JOB_MOVES[state] for state in sent)
    settled = set(DeliveryState) - {D.DELIVERED}
    assert all(D.DELIVERED in DELIVERY_MOVES[state] for state in settled)


@pytest.mark.req("A3")
def test_nothing_is_published_before_it_was_signed_and_due() -> None:
    for state in (J.PENDING_SIGN, J.SCHEDULED):
        assert J.PUBLISHED not in JOB_MOVES[state]


@pytest.mark.req("A3")
def test_every_state_can_be_reached_and_every_open_one_can_end() -> None:
    def reachable(start: JobState) -> set[JobState]:
        seen, todo = {start}, [start]
        while todo:
            fresh = JOB_MOVES[todo.pop()] - seen
            seen |= fresh
            todo += fresh
        return seen

    assert reachable(J.PENDING_SIGN) == set(JobState)
    for state in JobState:
        assert J.PUBLISHED in reachable(state)


@pytest.mark.req("B6")
def test_what_people_may_do_is_what_the_table_allows() -> None:
    assert {s for s in JobState if J.CANCELLED in JOB_MOVES[s]} == CANCELLABLE
    resting = {J.FAILED, J.PARKED}
    assert resting <= RETRIABLE
    assert resting <= DELETABLE
    assert {J.PENDING_SIGN, J.SCHEDULED, J.PENDING_PUBLISH}.isdisjoint(DELETABLE)
    assert {J.CANCELLED, J.SUPERSEDED}.isdisjoint(RETRIABLE)
    assert {s for s in DeliveryState if D.WAITING in DELIVERY_MOVES[s]} == REOPENED


@pytest.mark.req("A3")
@pytest.mark.parametrize("old", JobState)
@pytest.mark.parametrize("new", JobState)
def test_a_move_is_allowed_only_if_the_table_has_it(old: JobState, new: JobState) -> None:
    if new is old or new in JOB_MOVES[old]:
        assert check_move(old, new) is new
    else:
        with pytest.raises(IllegalMove, match=f"a {old} job cannot become {new}"):
            check_move(old, new)


# -- judging a job -----------------------------------------------------------------------------


def tally(state: JobState = J.PENDING_PUBLISH, goal: int = 1, **counts: int) -> Tally:
    kinds = {"waiting": 0, "delivered": 0, "parked": 0, "superseded": 0, "dead": 0}
    return Tally(1, state, goal, **{**kinds, **counts})


JUDGED = [
    (tally(waiting=3), J.PENDING_PUBLISH, False),
    (tally(waiting=2, dead=1), J.PENDING_PUBLISH, False),
    (tally(waiting=2, delivered=1), J.PUBLISHED, False),
    (tally(delivered=1), J.PUBLISHED, True),
    (tally(delivered=1, dead=5), J.PUBLISHED, True),
    (tally(goal=2, waiting=1, delivered=1), J.PENDING_PUBLISH, False),
    (tally(goal=2, delivered=2), J.PUBLISHED, True),
    (tally(goal=2, delivered=1, dead=1), J.FAILED, True),
    (tally(dead=3), J.FAILED, True),
    (tally(dead=2, parked=1), J.PARKED, True),
    (tally(waiting=1, parked=1), J.PENDING_PUBLISH, False),
    (tally(parked=1, superseded=1), J.PARKED, True),
    (tally(superseded=2), J.SUPERSEDED, True),
    (tally(cancelled=2), J.CANCELLED, True),
    (tally(cancelled=1, dead=1), J.FAILED, True),
    (tally(cancelled=1, delivered=1), J.PUBLISHED, True),
    (tally(superseded=2, dead=1), J.FAILED, True),
    (tally(superseded=1, delivered=1), J.PUBLISHED, True),
    # Late news of what had ended already.
    (tally(J.FAILED, delivered=1, dead=2), J.PUBLISHED, True),
    (tally(J.PARKED, delivered=1, parked=1), J.PUBLISHED, True),
    (tally(J.PARKED, dead=2), J.FAILED, True),
    (tally(J.CANCELLED, dead=2), J.CANCELLED, True),
    (tally(J.CANCELLED, delivered=1, dead=2), J.PUBLISHED, True),
    (tally(J.SUPERSEDED, dead=2), J.SUPERSEDED, True),
    (tally(J.SUPERSEDED, delivered=1, superseded=1), J.PUBLISHED, True),
    (tally(J.PUBLISHED, delivered=1, dead=1), J.PUBLISHED, True),
    (tally(J.PUBLISHED, delivered=1, waiting=1), J.PUBLISHED, False),
]


@pytest.mark.req("A3", "C1")
@pytest.mark.parametrize(("counted", "state", "finished"), JUDGED)
def test_a_job_is_judged_by_its_deliveries(counted: Tally, state: JobState, finished: bool) -> None:
    assert judge(counted) == Judgement(state, finished)


few = st.integers(0, 3)


@pytest.mark.req("A3")
@given(
    st.sampled_from([J.PENDING_PUBLISH, J.FAILED, J.PARKED, J.CANCELLED, J.SUPERSEDED]),
    st.integers(1, 3),
    st.fixed_dictionaries(
        {"waiting": few, "delivered": few, "parked": few, "superseded": few, "dead": few}
    ),
)
def test_a_judgement_is_a_legal_move_and_published_needs_its_oks(
    state: JobState, goal: int, counts: dict[str, int]
) -> None:
    if state is J.FAILED:  # a failed job has nothing that waits for a person
        counts["parked"] = 0
    judged = judge(tally(state, goal, **counts))
    assert check_move(state, judged.state) is judged.state
    assert (judged.state is J.PUBLISHED) == (counts["delivered"] >= goal)
    assert judged.finished == (counts["waiting"] == 0)


# -- settling a delivery -----------------------------------------------------------------------


def attempt(
    before: int = 0, policy: str | RetryPolicy = "capture", expires_in: int = HOUR, ahead: int = 0
) -> Attempt:
    chosen = PRESETS[policy] if isinstance(policy, str) else policy
    return Attempt(7, before, chosen, NOW + expires_in, NOW // 1000 + ahead)


def verdict(outcome: Outcome, **fields: Any) -> Verdict:
    return Verdict(outcome, **{"code": "code", "text": "why", **fields})


FINAL = [
    (Outcome.DELIVERED, D.DELIVERED, 3),
    (Outcome.SUPERSEDED, D.SUPERSEDED, 3),
    (Outcome.PARKED, D.PARKED, 3),
    (Outcome.REFUSED, D.REFUSED, 3),
    (Outcome.AUTHENTICATE, D.PARKED, 3),
    (Outcome.SKIPPED, D.SKIPPED, 2),  # nothing was sent
]


@pytest.mark.req("A3", "B10")
@pytest.mark.parametrize(("outcome", "state", "attempts"), FINAL)
def test_a_final_verdict_settles_the_delivery(
    outcome: Outcome, state: DeliveryState, attempts: int
) -> None:
    settled = settle(attempt(2), verdict(outcome), NOW, 0.5)
    assert (settled.job, settled.state, settled.attempts) == (7, state, attempts)
    assert (settled.code, settled.detail, settled.next_at) == ("code", "why", NOW)
    assert settled.burnt == (attempts == 3)


@pytest.mark.req("A3")
def test_every_outcome_is_either_final_or_tried_again() -> None:
    final = {outcome for outcome, _, _ in FINAL}
    assert set(Outcome) - final == {Outcome.RETRY, Outcome.UNKNOWN}
    for outcome in (Outcome.RETRY, Outcome.UNKNOWN):
        assert settle(attempt(), verdict(outcome), NOW, 0.5).state is D.WAITING


@pytest.mark.req("B5", "C9")
@pytest.mark.parametrize(
    ("outcome", "end"), [(Outcome.RETRY, D.FAILED), (Outcome.UNKNOWN, D.UNKNOWN)]
)
def test_when_attempts_are_used_up_unknown_is_not_called_failed(
    outcome: Outcome, end: DeliveryState
) -> None:
    assert settle(attempt(8), verdict(outcome), NOW, 0.5).state is D.WAITING
    settled = settle(attempt(9), verdict(outcome), NOW, 0.5)
    assert (settled.state, settled.attempts, settled.next_at) == (end, 10, NOW)


@pytest.mark.req("B9")
def test_a_verdict_may_allow_less_than_the_policy() -> None:
    limited = verdict(Outcome.RETRY, limit=5)
    assert settle(attempt(3), limited, NOW, 0.5).state is D.WAITING
    assert settle(attempt(4), limited, NOW, 0.5).state is D.FAILED


@pytest.mark.req("B1", "B9")
@pytest.mark.parametrize(
    ("before", "pause", "expected"),
    [
        (0, 0, NOW + 1_000),
        (1, 0, NOW + 5_000),
        (3, NOW + 5, NOW + 300_000),
        (0, NOW + 60_000, NOW + 60_000),
    ],
)
def test_a_retry_waits_for_its_backoff_and_the_relays_pause(
    before: int, pause: int, expected: int
) -> None:
    settled = settle(attempt(before), verdict(Outcome.RETRY), NOW, 0.5, pause)
    assert (settled.state, settled.next_at, settled.burnt) == (D.WAITING, expected, True)


@pytest.mark.req("B10")
@pytest.mark.parametrize("pause", [0, NOW - 5, NOW + 60_000])
def test_the_relays_own_fault_costs_no_attempt_and_no_backoff(pause: int) -> None:
    settled = settle(attempt(4), verdict(Outcome.RETRY, burns=False), NOW, 0.5, pause)
    assert (settled.state, settled.attempts, settled.burnt) == (D.WAITING, 4, False)
    assert settled.next_at == max(NOW, pause)


@pytest.mark.req("B9")
@pytest.mark.parametrize(
    ("fields", "pause"),
    [({}, 0), ({"burns": False}, NOW + HOUR), ({"burns": False}, NOW + 2 * HOUR)],
)
def test_nothing_is_put_off_past_its_lifetime(fields: dict[str, Any], pause: int) -> None:
    lived = attempt(3, expires_in=HOUR if pause else 300_000)
    assert settle(lived, verdict(Outcome.RETRY, **fields), NOW, 0.5, pause).state is D.FAILED
    longer = attempt(3, expires_in=3 * HOUR)
    assert settle(longer, verdict(Outcome.RETRY, **fields), NOW, 0.5, pause).state is D.WAITING


def test_what_is_too_early_waits_for_its_own_date() -> None:
    early = verdict(Outcome.RETRY, code="future")
    assert settle(attempt(ahead=600), early, NOW, 0.5).next_at == NOW + 600_000
    assert settle(attempt(ahead=-600), early, NOW, 0.5).next_at == NOW + 1_000
    assert settle(attempt(ahead=9_999), early, NOW, 0.5).state is D.FAILED


verdicts = st.builds(
    Verdict,
    st.sampled_from(Outcome),
    st.sampled_from(["code", "future"]),
    burns=st.booleans(),
    limit=st.none() | st.integers(1, 12),
)


@pytest.mark.req("A7", "B5", "B9", "B10")
@given(
    st.sampled_from(sorted(PRESETS)),
    st.lists(st.tuples(verdicts, st.floats(0, 1, exclude_max=True), few), min_size=1, max_size=30),
    st.integers(1, 4 * 86_400_000),
)
def test_whatever_happens_to_a_delivery_its_counters_and_times_hold(
    name: str, happenings: list[tuple[Verdict, float, int]], lifetime: int
) -> None:
    policy = PRESETS[name]
    attempts, now, expires_at = 0, NOW, NOW + lifetime
    for happened, chance, pause in happenings:
        tried = Attempt(7, attempts, policy, expires_at, NOW // 1000)
        settled = settle(tried, happened, now, chance, now + pause * 60_000)
        assert settled.attempts - attempts == int(settled.burnt)
        assert not settled.burnt or happened.burns
        assert policy.max_attempts is None or settled.attempts <= policy.max_attempts
        if settled.state is not D.WAITING:
            break
        assert now <= settled.next_at < expires_at
        assert happened.limit is None or not settled.burnt or settled.attempts < happened.limit
        attempts, now = settled.attempts, settled.next_at


# -- the error that callers see ----------------------------------------------------------------


def delivery(state: DeliveryState, code: str | None, relay: str = "wss://a/") -> Delivery:
    return Delivery(relay, "your relay", state, 1, None, code, "the reason", None)


@pytest.mark.req("A7")
@pytest.mark.parametrize(
    ("code", "named"),
    [
        ("timeout", "TIMEOUT"),
        ("closed", "RELAY_UNAVAILABLE"),
        ("expired", "EXPIRED"),
        ("rate-limited", "RATE_LIMITED"),
        ("auth-required", "AUTH_REQUIRED"),
        ("blocked", "BLOCKED"),
    ],
)
def test_a_publish_error_has_a_stable_code(code: str, named: str) -> None:
    error = publish_error(J.FAILED, [delivery(D.FAILED, code)])
    assert error == JobError(Phase.PUBLISH, named, "wss://a/: the reason")


@pytest.mark.req("A7")
def test_the_delivery_that_tells_most_gives_the_error() -> None:
    told = [
        delivery(D.WAITING, "error", "wss://waiting/"),
        delivery(D.UNKNOWN, "timeout", "wss://unknown/"),
        delivery(D.FAILED, "error", "wss://failed/"),
        delivery(D.REFUSED, "blocked", "wss://refused/"),
        delivery(D.PARKED, "pow", "wss://parked/"),
    ]
    order = []
    while told:
        error = publish_error(J.PARKED, told)
        assert error is not None
        order.append(error.message.split(":")[1])
        told.pop()
    assert order == ["//parked/", "//refused/", "//failed/", "//unknown/", "//waiting/"]


@pytest.mark.req("A7")
def test_there_is_no_error_where_nothing_went_wrong() -> None:
    refused = [delivery(D.REFUSED, "blocked")]
    for state in (J.PENDING_SIGN, J.SCHEDULED, J.PUBLISHED, J.CANCELLED, J.SUPERSEDED):
        assert publish_error(state, refused) is None
    for state in (J.PENDING_PUBLISH, J.FAILED, J.PARKED):
        assert publish_error(state, refused) is not None
        assert publish_error(state, []) is None
        assert publish_error(state, [delivery(D.WAITING, None)]) is None
        assert publish_error(state, [delivery(D.DELIVERED, "ok")]) is None
