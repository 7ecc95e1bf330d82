"""How lanes are spread over workers (G4): evenly, and nothing left lying.

Pure: what is held and by whom comes in as values. A lane is taken by who may hold one more; one
that nobody took for a while is taken by anybody, so that a wrong count costs time, never a
delivery. Who holds more than it may gives up what it needs least, if another would take it; and
who left some lying is not counted on for a while, or lanes would go to and fro: it may hold as
many as its settings allow, or may not dial those relays now.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

#: How long a lane may be free before anybody takes it, in seconds.
LEFT_LYING = 3.0
#: How long who left lanes lying is thought to want no more, in seconds.
SATED_FOR = 60.0


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


class Appetites:
    """Which of the others would take another lane, by what they did. Times are monotonic."""

    def __init__(self) -> None:
        self._sated: dict[str, tuple[int, float]] = {}

    def left_lying(
        self, limit: int, held: Mapping[str, int], others: Collection[str], now: float
    ) -> None:
        """A lane was free for long, and none of the others took it that has too few."""
        for other in others:
            if held.get(other, 0) < limit:
                self._sated[other] = (held.get(other, 0), now)

    def hungry(self, held: Mapping[str, int], others: Collection[str], now: float) -> set[str]:
        """The others that may take another: who has more or fewer than it had then has moved."""
        self._sated = {
            other: (count, since)
            for other, (count, since) in self._sated.items()
            if other in others and held.get(other, 0) == count and now - since < SATED_FOR
        }
        return set(others) - self._sated.keys()
