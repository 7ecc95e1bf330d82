"""How many strangers' relays may be dialled, and for whom first (C7, C8).

A list that anybody may publish must not make us dial the whole world: so many new relays a
minute, of which some are kept for direct messages; so many at once. Time and chance come in.
"""

from __future__ import annotations

import enum
from collections import deque

PER_MINUTE = 12
WINDOW = 60.0
SLICE = 10.0
PAUSE = 0.1
JITTER = 0.2
FORGET_ASKER = 1.0


class Tier(enum.IntEnum):
    """What a relay is wanted for, most urgent first."""

    MESSAGE = 0
    PUBLISH = 1
    FEED = 2
    LOOKUP = 3


class DialBudget:
    """Grants new relays in a sliding minute. Ask again after the time that a refusal returns."""

    def __init__(self, per_minute: int = PER_MINUTE) -> None:
        self._per_minute = per_minute
        self._for_messages = per_minute // 3  # 4 of 12; a smaller budget must leave room too
        self._granted: deque[tuple[float, Tier]] = deque()
        self._asking: dict[str, tuple[Tier, float]] = {}

    def ask(self, who: str, tier: Tier, now: float, chance: float) -> float:
        """0.0: dial. Else wait that many seconds and ask again."""
        while self._granted and now - self._granted[0][0] >= WINDOW:
            self._granted.popleft()
        self._asking = {
            name: (wanted, at)
            for name, (wanted, at) in self._asking.items()
            if now - at < FORGET_ASKER
        }
        if self._has_room(tier) and not self._must_yield(tier, now):
            self._asking.pop(who, None)
            self._granted.append((now, tier))
            return 0.0
        self._asking[who] = (tier, now)
        return PAUSE + JITTER * chance

    def _has_room(self, tier: Tier) -> bool:
        free = self._per_minute - len(self._granted)
        if tier is Tier.MESSAGE:
            return free > 0
        messages = sum(1 for _, granted in self._granted if granted is Tier.MESSAGE)
        kept = max(0, self._for_messages - messages)
        return free > kept

    def _must_yield(self, tier: Tier, now: float) -> bool:
        """Somebody wants to publish and got nothing in this slice: feeds and lookups wait."""
        if tier <= Tier.PUBLISH:
            return False
        if not any(wanted is Tier.PUBLISH for wanted, _ in self._asking.values()):
            return False
        slice_began = now - now % SLICE
        return not any(
            granted is Tier.PUBLISH and at >= slice_began for at, granted in self._granted
        )
