"""When to try again (B1–B5): policies are data, and time and chance are arguments."""

from __future__ import annotations

import msgspec

from postrich.errors import BadSetting
from postrich.model.job import RetryPolicy

_DAY = 86_400.0
_LONGEST = 3660 * _DAY  # ten years: past that a number is a slip, and too large for a clock
_STEEPEST = 1000.0

#: The presets. `max_attempts` counts the first attempt too: three retries are four attempts.
PRESETS: dict[str, RetryPolicy] = {
    policy.name: policy
    for policy in (
        RetryPolicy(
            "interactive",
            delays=(2, 5, 10, 30, 60, 120, 300),
            jitter=(0.5, 1.5),
            lifetime=3 * _DAY,
        ),
        RetryPolicy(
            "offline", delays=(5,), factor=2, cap=3600, jitter=(0.8, 1.2), lifetime=30 * _DAY
        ),
        RetryPolicy("scheduled", delays=(60, 300, 900), max_attempts=4, lifetime=_DAY),
        RetryPolicy(
            "capture",
            delays=(1, 5, 30, 300),
            max_attempts=10,
            lifetime=7 * _DAY,
            retry_resets=True,
        ),
        # For ephemeral events (A15): now or never.
        RetryPolicy("once", delays=(1,), max_attempts=1, lifetime=60),
    )
}


class NextAttempt(msgspec.Struct, frozen=True):
    """How long to wait, and until when."""

    delay_ms: int
    at: int


def compute_next_attempt(
    attempt: int, policy: RetryPolicy, now: int, chance: float
) -> NextAttempt | None:
    """The attempt after `attempt` (1 = the first one was just made), or None: no more."""
    if policy.max_attempts is not None and attempt >= policy.max_attempts:
        return None
    low, high = policy.jitter
    delay_ms = round(_base_delay(attempt, policy) * (low + (high - low) * chance) * 1000)
    return NextAttempt(delay_ms, now + delay_ms)


def _base_delay(attempt: int, policy: RetryPolicy) -> float:
    step = max(attempt, 1) - 1
    if step < len(policy.delays):
        return policy.delays[step]
    last = policy.delays[-1]
    if policy.factor == 1.0:
        return last
    exponent = min(step - len(policy.delays) + 1, 64)
    return min(policy.cap, last * policy.factor**exponent)


def resolve_policy(text: str) -> RetryPolicy:
    """A preset's name, or a policy of one's own as JSON."""
    if not text.startswith("{"):
        preset = PRESETS.get(text)
        if preset is None:
            raise BadSetting(f"retry policy {text!r} is none of {', '.join(PRESETS)}")
        return preset
    try:
        return check_policy(msgspec.json.decode(text, type=RetryPolicy))
    except (msgspec.DecodeError, UnicodeEncodeError) as problem:
        raise BadSetting(f"retry policy cannot be read: {problem}") from None


def policy_text(policy: RetryPolicy) -> str:
    """The shortest text that `resolve_policy` reads back to the same policy."""
    preset = PRESETS.get(policy.name)
    if preset is policy or preset == policy:
        return policy.name
    return msgspec.json.encode(policy).decode()


def check_policy(policy: RetryPolicy) -> RetryPolicy:
    """The policy itself, if it can work; else `BadSetting` with the reason."""
    low, high = policy.jitter
    problems = {
        "delays must name at least one wait": not policy.delays,
        "delays must be 0 s to 10 years": not all(0 <= d <= _LONGEST for d in policy.delays),
        "factor must be 1 to 1,000": not 1 <= policy.factor <= _STEEPEST,
        "cap must be 0 s to 10 years": not 0 <= policy.cap <= _LONGEST,
        "jitter must be a low and a high factor": not 0 <= low <= high <= _STEEPEST,
        "max_attempts must be 1 or more": policy.max_attempts is not None
        and policy.max_attempts < 1,
        "lifetime must be more than 0 s, up to 10 years": not 0 < policy.lifetime <= _LONGEST,
    }
    for problem, holds in problems.items():
        if holds:
            raise BadSetting(f"retry policy {policy.name!r}: {problem}")
    return policy
