"""Where a lane's next claim may begin (G4): what comes before is settled, or in the lane's hands.

A database cannot forget what was settled as long as somebody's old transaction might still look
at it, and each claim would read through all of that. Floors are a hint and nothing depends on
them: work may appear below, by a clock that is behind or a commit that came late. So they hold
only while much is due, never prove that nothing is, and for fifty times as long as it took to look
without them: cheap looks are frequent, dear ones take a fiftieth of the time.
"""

from __future__ import annotations

from collections.abc import Iterable

from postrich.model.delivery import NO_FLOORS, Claimed, Floors

HOLD_FOR = 50.0
#: What appears below the floors of a busy lane waits no longer than this, in seconds.
LONGEST = 5.0


class Marks:
    """The floors of one lane. Times are monotonic seconds."""

    __slots__ = ("_began_at", "_floors", "_is_steady", "_until")

    def __init__(self) -> None:
        self._floors = list(NO_FLOORS)
        self._until = float("-inf")
        self._began_at = 0.0
        self._is_steady = False

    def begin(self, now: float) -> Floors:
        """A claim begins now: after which floors."""
        if now >= self._until:
            self.fall()
        self._began_at = now
        self._is_steady = True
        return tuple(self._floors)

    def rise(self, claimed: Iterable[Claimed], now: float) -> None:
        """The claim has brought these, in the queue's order, and the lane has taken them all."""
        if not self._is_steady:
            return
        if self._until == float("-inf"):
            self._until = now + min(LONGEST, HOLD_FOR * (now - self._began_at))
        for due in claimed:
            self._floors[due.band] = (due.next_at, due.job)

    def fall(self) -> None:
        """Something below may be due again: it was put back, or nobody knows."""
        self._floors = list(NO_FLOORS)
        self._until = float("-inf")
        self._is_steady = False
