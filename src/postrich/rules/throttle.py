"""Token buckets: how often something may be done, by whom (F4).

Never knows a clock: time is an argument, in seconds that only grow. Whoever waits as told goes.
"""

from __future__ import annotations

from collections import OrderedDict

from postrich.errors import BadSetting


class Bucket:
    """Fills at `rate` a second up to `burst`. What costs more than that goes when it is full,
    and is paid for later."""

    __slots__ = ("_filled_at", "_level")

    def __init__(self, burst: float) -> None:
        self._level = burst
        self._filled_at: float | None = None

    def take(self, cost: float, now: float, rate: float, burst: float, dust: float) -> float:
        """Spend `cost` and return 0, or spend nothing and return the seconds to wait.

        `dust`: what rounding may lack.
        """
        self._fill(now, rate, burst)
        needed = min(cost, burst)
        if self._level + dust >= needed:
            self._level -= cost
            return 0.0
        return (needed - self._level) / rate

    def is_full(self, now: float, rate: float, burst: float) -> bool:
        """Whether it is as good as new."""
        self._fill(now, rate, burst)
        return self._level >= burst

    def _fill(self, now: float, rate: float, burst: float) -> None:
        since = 0.0 if self._filled_at is None else max(0.0, now - self._filled_at)
        self._filled_at = now
        self._level = min(burst, self._level + since * rate)


class Throttle:
    """A bucket per key: `rate` a second, `burst` at once, for `most_keys` keys at most.

    Buckets that are full again are forgotten. When there are too many others, the one that was
    asked about longest ago is: memory is bounded, whoever comes.
    """

    def __init__(self, rate: float, burst: float, most_keys: int = 10_000) -> None:
        if not (0 < rate < float("inf") and 1 <= burst < float("inf") and most_keys >= 1):
            raise BadSetting("a rate must be more than 0, its burst and its keys 1 or more")
        self.rate = rate
        self.burst = float(burst)
        self.most_keys = most_keys
        self._buckets: OrderedDict[str, Bucket] = OrderedDict()

    def __len__(self) -> int:
        return len(self._buckets)

    def take(self, key: str, now: float, cost: float = 1.0) -> float:
        """Spend and return 0, or spend nothing and return the seconds to wait."""
        bucket = self._buckets.get(key)
        if bucket is None:
            self._make_room(now)
            bucket = self._buckets[key] = Bucket(self.burst)
        self._buckets.move_to_end(key)
        return bucket.take(cost, now, self.rate, self.burst, dust=1e-6 * self.burst)

    def _make_room(self, now: float) -> None:
        """Two at a time, so that the idle ones go faster than new ones come."""
        for _ in range(2):
            key, oldest = next(iter(self._buckets.items()), (None, None))
            if key is None or oldest is None:
                return
            if len(self._buckets) < self.most_keys and not oldest.is_full(
                now, self.rate, self.burst
            ):
                return
            del self._buckets[key]
