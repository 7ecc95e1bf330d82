"""Which moves are legal for jobs and deliveries, and which move a verdict makes (A3).

The tables are the truth; a missing entry is the error. The diagrams in the documentation
are drawn from them.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from postrich.errors import IllegalMove
from postrich.model.delivery import Delivery, DeliveryState, Outcome, Settlement, Verdict
from postrich.model.job import JobError, JobState, Phase, RetryPolicy
from postrich.rules.backoff import compute_next_attempt

J = JobState
D = DeliveryState

JOB_MOVES: dict[JobState, frozenset[JobState]] = {
    J.PENDING_SIGN: frozenset(
        {J.SCHEDULED, J.PENDING_PUBLISH, J.FAILED, J.CANCELLED, J.PARKED, J.SUPERSEDED}
    ),
    J.SCHEDULED: frozenset({J.PENDING_PUBLISH, J.FAILED, J.CANCELLED, J.PARKED, J.SUPERSEDED}),
    J.PENDING_PUBLISH: frozenset({J.PUBLISHED, J.FAILED, J.CANCELLED, J.PARKED, J.SUPERSEDED}),
    J.PUBLISHED: frozenset(),
    # A person may retry these; and an OK that was on its way makes them published after all.
    J.FAILED: frozenset(
        {J.PENDING_SIGN, J.PENDING_PUBLISH, J.PUBLISHED, J.CANCELLED, J.SUPERSEDED}
    ),
    J.PARKED: frozenset(
        {J.PENDING_SIGN, J.PENDING_PUBLISH, J.PUBLISHED, J.FAILED, J.CANCELLED, J.SUPERSEDED}
    ),
    J.CANCELLED: frozenset({J.PUBLISHED}),
    J.SUPERSEDED: frozenset({J.PUBLISHED}),
}

#: Waiting goes anywhere; a settled one is reopened by a person, or proven delivered later.
DELIVERY_MOVES: dict[DeliveryState, frozenset[DeliveryState]] = {
    D.WAITING: frozenset(DeliveryState),
    D.DELIVERED: frozenset(),
    D.SUPERSEDED: frozenset({D.DELIVERED}),
    D.REFUSED: frozenset({D.WAITING, D.DELIVERED}),
    D.PARKED: frozenset({D.WAITING, D.DELIVERED, D.FAILED, D.CANCELLED, D.SUPERSEDED}),
    D.SKIPPED: frozenset({D.WAITING, D.DELIVERED}),
    D.UNKNOWN: frozenset({D.WAITING, D.DELIVERED}),
    D.FAILED: frozenset({D.WAITING, D.DELIVERED}),
    D.CANCELLED: frozenset({D.DELIVERED}),
}

#: A person may stop these, retry these, and delete these.
CANCELLABLE = frozenset({J.PENDING_SIGN, J.SCHEDULED, J.PENDING_PUBLISH, J.PARKED, J.FAILED})
RETRIABLE = frozenset({J.PENDING_SIGN, J.PENDING_PUBLISH, J.PUBLISHED, J.FAILED, J.PARKED})
DELETABLE = frozenset({J.FAILED, J.PARKED, J.CANCELLED, J.SUPERSEDED, J.PUBLISHED})

#: What a manual retry reopens.
REOPENED = frozenset({D.WAITING, D.REFUSED, D.PARKED, D.SKIPPED, D.UNKNOWN, D.FAILED})


def check_move(old: JobState, new: JobState) -> JobState:
    """`new`, if a job may go there from `old`."""
    if new is not old and new not in JOB_MOVES[old]:
        raise IllegalMove(f"a {old} job cannot become {new}")
    return new


class Tally(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A job's deliveries counted by what they mean for the job.

    `unmet`: recipients with too few OKs in their inboxes.
    """

    job: int
    state: JobState
    goal: int
    waiting: int
    delivered: int
    parked: int
    superseded: int
    dead: int
    cancelled: int = 0
    goal_mine: int = 0
    mine: int = 0
    unmet: int = 0

    @property
    def is_met(self) -> bool:
        """Whether the goal is met by real OKs: of all relays, one's own, and each inbox (D12)."""
        return self.delivered >= self.goal and self.mine >= self.goal_mine and not self.unmet


class Judgement(msgspec.Struct, frozen=True, gc=False):
    """What the job becomes; finished: nothing more will happen to it by itself."""

    state: JobState
    finished: bool


def judge(tally: Tally) -> Judgement:
    """The job's state by its deliveries: published only by real OKs, failed only at the end."""
    finished = tally.waiting == 0
    if tally.is_met:
        return Judgement(J.PUBLISHED, finished)
    if not finished or tally.state in (J.CANCELLED, J.SUPERSEDED):
        return Judgement(tally.state, finished)
    if tally.parked:
        return Judgement(J.PARKED, finished)
    if tally.superseded and not tally.dead:
        return Judgement(J.SUPERSEDED, finished)
    if tally.cancelled and not tally.dead:
        return Judgement(J.CANCELLED, finished)
    return Judgement(J.FAILED, finished)


_FINAL: dict[Outcome, DeliveryState] = {
    Outcome.DELIVERED: D.DELIVERED,
    Outcome.SUPERSEDED: D.SUPERSEDED,
    Outcome.PARKED: D.PARKED,
    Outcome.REFUSED: D.REFUSED,
    Outcome.SKIPPED: D.SKIPPED,
    # An AUTH that a lane could not carry out: a person may unlock a key or change the policy.
    Outcome.AUTHENTICATE: D.PARKED,
}


class Attempt(msgspec.Struct, frozen=True, gc=False):
    """The facts about one try, besides its verdict."""

    job: int
    attempts_before: int
    policy: RetryPolicy
    expires_at: int
    created_at: int


def settle(
    attempt: Attempt, verdict: Verdict, now: int, chance: float, pause_until: int = 0
) -> Settlement:
    """What a verdict makes of a delivery: settled, or waiting for a time that is written down."""
    final = _FINAL.get(verdict.outcome)
    counts = verdict.burns and verdict.outcome is not Outcome.SKIPPED
    attempts = attempt.attempts_before + (1 if counts else 0)
    if final is not None:
        return _settlement(attempt, final, attempts, now, verdict, counts)
    again = _again(attempt, verdict, attempts, now, chance, pause_until)
    if again is None:
        ended = D.UNKNOWN if verdict.outcome is Outcome.UNKNOWN else D.FAILED
        return _settlement(attempt, ended, attempts, now, verdict, counts)
    return _settlement(attempt, D.WAITING, attempts, again, verdict, counts)


def _again(
    attempt: Attempt, verdict: Verdict, attempts: int, now: int, chance: float, pause_until: int
) -> int | None:
    """When the next attempt is, or None where attempts or the lifetime are used up."""
    if not verdict.burns:
        at = max(now, pause_until)
    else:
        if verdict.limit is not None and attempts >= verdict.limit:
            return None
        following = compute_next_attempt(attempts, attempt.policy, now, chance)
        if following is None:
            return None
        at = max(following.at, pause_until)
        if verdict.code == "future":
            at = max(at, attempt.created_at * 1000)
    return at if at < attempt.expires_at else None


def _settlement(
    attempt: Attempt,
    state: DeliveryState,
    attempts: int,
    at: int,
    verdict: Verdict,
    counts: bool,
) -> Settlement:
    return Settlement(attempt.job, state, attempts, at, verdict.code, verdict.text, counts)


#: How a job's publish error is named for callers (A7), by the code of the telling delivery.
_ERROR_CODES = {
    "timeout": "TIMEOUT",
    "closed": "RELAY_UNAVAILABLE",
    "expired": "EXPIRED",
    "rate-limited": "RATE_LIMITED",
}
_TELLING = (D.PARKED, D.REFUSED, D.FAILED, D.UNKNOWN, D.WAITING)


def publish_error(state: JobState, deliveries: Sequence[Delivery]) -> JobError | None:
    """The error of the publish phase: that of the delivery which tells most."""
    if state not in (J.PENDING_PUBLISH, J.FAILED, J.PARKED):
        return None
    for wanted in _TELLING:
        for delivery in deliveries:
            if delivery.state is wanted and delivery.code:
                code = _ERROR_CODES.get(delivery.code, delivery.code.upper().replace("-", "_"))
                return JobError(Phase.PUBLISH, code, f"{delivery.relay}: {delivery.detail}")
    return None
