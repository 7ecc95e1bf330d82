"""How lanes are spread over workers (G4): evenly, and nothing left lying.

Pure: what is held and by whom comes in as values. A lane is taken by who may hold one more; one
that nobody took for a while is taken by anybody, so that a wrong count costs time, never a
delivery. Who holds more than it may gives up what it needs least, if another would take it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

#: How long a lane may be free before anybody takes it, in seconds.
LEFT_LYING = 3.0


def limit_of(lanes: int, held: Mapping[str, int], others: Collection[str]) -> int:
    """How many lanes one may hold beside these others: the even share, rounded up; but rounded
    down as long as another has not even that. `held`: lanes by worker."""
    workers = 1 + len(others)
    least = lanes // workers
    if any(held.get(other, 0) < least for other in others):
        return least
    return -(-lanes // workers)


def may_take(mine: int, limit: int, free_for: float) -> bool:
    """Whether a lane that is free may be taken."""
    return mine < limit or free_for >= LEFT_LYING


def surplus(mine: int, limit: int, held: Mapping[str, int], others: Collection[str]) -> int:
    """How many lanes to give up: what is beyond the limit, as far as others would take it."""
    wanted = sum(max(0, limit - held.get(other, 0)) for other in others)
    return min(max(0, mine - limit), wanted)
