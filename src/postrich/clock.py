"""The only source of now and chance. Rules take both as arguments; shells ask here."""

from __future__ import annotations

import random
import time
from typing import Protocol


class Clock(Protocol):
    """What the engine asks for; a test passes its own."""

    def now(self) -> int:
        """Wall-clock milliseconds since the epoch: what is stored and shown."""
        ...

    def tick(self) -> float:
        """Monotonic seconds: what timeouts are measured with."""
        ...

    def chance(self) -> float:
        """A number in [0, 1): jitter."""
        ...

    def follow(self, ahead: int) -> None:
        """The store's own clock is so many milliseconds ahead: its time is everybody's."""
        ...


class SystemClock:
    """The machine's clock and a generator seeded by the operating system."""

    def __init__(self) -> None:
        self._random = random.Random()  # noqa: S311 - jitter, not cryptography
        self._ahead = 0

    def now(self) -> int:
        return time.time_ns() // 1_000_000 + self._ahead

    def tick(self) -> float:
        return time.monotonic()

    def chance(self) -> float:
        return self._random.random()

    def follow(self, ahead: int) -> None:
        self._ahead += ahead
