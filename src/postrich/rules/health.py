"""A relay's breaker and health figures (B10, C10).

A relay that cannot be reached is left alone for a while, longer each time, and probed by one
event. That costs no delivery an attempt: nothing is claimed while the breaker is open.
"""

from __future__ import annotations

import enum
import math

import msgspec

from postrich.model.relay import RelayHealth
from postrich.rules.replies import Fault

FIRST_WAIT = 1.0
LONGEST_WAIT = 200.0  # with jitter at most 5 min: the backstop of A13
LONGEST_WAIT_OFFLINE = 5.0


class BreakerState(enum.StrEnum):
    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half-open"


class Breaker(msgspec.Struct, frozen=True):
    """The state of one relay's breaker; `until` is in monotonic seconds."""

    state: BreakerState = BreakerState.CLOSED
    failures: int = 0
    until: float = 0.0
    fault: Fault | None = None


def on_fault(breaker: Breaker, fault: Fault, now: float, chance: float, online: bool) -> Breaker:
    """The relay failed us: stay away, doubling, with jitter. Offline it is us: look sooner."""
    failures = breaker.failures + 1
    longest = LONGEST_WAIT if online else LONGEST_WAIT_OFFLINE
    wait = min(longest, FIRST_WAIT * 2.0 ** min(failures - 1, 16)) * (0.5 + chance)
    return Breaker(BreakerState.OPEN, failures, now + wait, fault)


def on_dial(breaker: Breaker) -> Breaker:
    """A socket opened. After trouble that is a probe: only an answer closes the breaker."""
    if breaker.state is BreakerState.CLOSED:
        return breaker
    return msgspec.structs.replace(breaker, state=BreakerState.HALF_OPEN)


def on_answer(breaker: Breaker) -> Breaker:
    """The relay answered: all is well."""
    return breaker if breaker.state is BreakerState.CLOSED else Breaker()


def on_network_back(breaker: Breaker, now: float) -> Breaker:
    """The network is back: probe at once instead of waiting the rest out."""
    if breaker.state is not BreakerState.OPEN:
        return breaker
    return msgspec.structs.replace(breaker, until=now)


def may_dial(breaker: Breaker, now: float) -> bool:
    return breaker.state is not BreakerState.OPEN or now >= breaker.until


def smooth(average: float | None, sample: float, weight: float = 0.1) -> float:
    """An exponentially decayed mean."""
    return sample if average is None else average + weight * (sample - average)


#: A relay that failed so often in a row is dead as far as choosing goes, until that is old news:
#: who is never chosen is never probed, and would stay dead for ever.
DEAD_AFTER = 5
SLOW_MS = 1000.0
FORGET_MS = 7 * 86_400_000


def rank_of(health: RelayHealth, now: int) -> float:
    """How good a relay is to choose, from 0 (dead) to 1; an unknown one is in between."""
    age = max(0, now - health.seen_at) / FORGET_MS
    if health.failures >= DEAD_AFTER and age < 1.0:
        return 0.0
    tries = health.oks + health.timeouts + health.failures
    success = (health.success * tries + 1.0) / (tries + 2.0)
    speed = 1.0 / (1.0 + (health.latency_ms or SLOW_MS) / SLOW_MS)
    weight = math.exp2(-min(age, 60.0))  # old news count for little
    return 0.5 + weight * (0.8 * success + 0.2 * speed - 0.5)


class Connectivity(msgspec.Struct, frozen=True):
    """Whether the network is there, by what dialling showed (A13). Knows nothing of the OS."""

    unreachable: frozenset[str] = frozenset()
    reachable: frozenset[str] = frozenset()
    forced: bool | None = None

    @property
    def online(self) -> bool:
        """Offline only where every relay that was tried failed as a dead network fails."""
        if self.forced is not None:
            return self.forced
        return bool(self.reachable) or not self.unreachable


def on_reached(network: Connectivity, url: str) -> Connectivity:
    return msgspec.structs.replace(
        network, unreachable=network.unreachable - {url}, reachable=network.reachable | {url}
    )


def on_unreached(network: Connectivity, url: str, fault: Fault) -> Connectivity:
    """A dial failed. A refusal proves a network just as an answer does."""
    if not fault.network:
        return on_reached(network, url)
    return msgspec.structs.replace(
        network, unreachable=network.unreachable | {url}, reachable=network.reachable - {url}
    )


def on_left(network: Connectivity, url: str) -> Connectivity:
    """The relay is not worked with any more: it says nothing about the network now."""
    return msgspec.structs.replace(
        network, unreachable=network.unreachable - {url}, reachable=network.reachable - {url}
    )
