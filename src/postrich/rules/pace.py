"""How many events may be in flight to one relay, and when to pause (C9, B9).

Starts small, doubles while all is well, grows slowly past the last trouble, halves on
rate limits and timeouts. After a closed socket it is 1, so that a culprit is found alone.
"""

from __future__ import annotations

START = 16
LONGEST_PAUSE = 60.0


class Pace:
    """The window of one lane. Times are monotonic seconds."""

    __slots__ = ("_calm", "_pause", "_shrunk_at", "ceiling", "resume_at", "threshold", "window")

    def __init__(self, ceiling: int) -> None:
        self.ceiling = max(1, ceiling)
        self.window: float = min(START, self.ceiling)
        self.threshold: float = self.ceiling
        self.resume_at = 0.0
        self._pause = 0.0
        self._calm = 0
        self._shrunk_at = float("-inf")

    def on_answers(self, count: int) -> None:
        """That many events were answered without complaint."""
        if self.window < self.threshold:
            self.window = min(self.threshold, self.window + count)
        elif self.window < self.ceiling:
            self.window = min(self.ceiling, self.window + count / self.window)
        if self._pause:
            self._calm += count
            if self._calm >= START:
                self._pause = 0.0

    def on_rate_limit(self, now: float, chance: float) -> float:
        """The relay wants less: halve, and pause for longer each time. Returns the resume time."""
        if now >= self.resume_at:
            self._shrink(now)
            self._pause = min(LONGEST_PAUSE, self._pause * 2 or 1.0)
            self._calm = 0
            self.resume_at = now + self._pause * (0.75 + 0.5 * chance)
        return self.resume_at

    def on_silence(self, now: float) -> None:
        """Answers stayed out. Many silences at once are one trouble."""
        if now - self._shrunk_at > 1.0:
            self._shrink(now)

    def on_lost(self) -> None:
        """The socket broke with events in flight."""
        self.threshold = min(self.ceiling, max(2.0, self.window / 2))
        self.window = 1

    def _shrink(self, now: float) -> None:
        self.window = max(1.0, self.window / 2)
        self.threshold = max(1.0, self.window)
        self._shrunk_at = now


def shares(room: int) -> tuple[int, int]:
    """How a claim is split into (fresh, retries): retries get a quarter at the most (B9)."""
    retries = max(1, room // 4)
    return room, retries
