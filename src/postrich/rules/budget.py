"""Limited bandwidth (A17): a byte budget per minute, and a metered mode."""

from __future__ import annotations

from postrich.errors import BadSetting
from postrich.model.delivery import Flight
from postrich.model.job import Priority

SMALL_BYTES = 4096
_DUST = 0.5  # what rounding may lack: who waited as told goes


class ByteBudget:
    """A token bucket in bytes. An event larger than the bucket may go when the bucket is full."""

    __slots__ = ("_filled_at", "_level", "per_minute")

    def __init__(self, per_minute: int | None) -> None:
        if per_minute is not None and per_minute < 1:
            raise BadSetting("a byte budget must be 1 or more; leave it out for no limit")
        self.per_minute = per_minute
        self._level = float(per_minute or 0)
        self._filled_at: float | None = None

    def take(self, size: int, now: float) -> float:
        """Spend `size` bytes and return 0, or spend nothing and return the seconds to wait."""
        if self.per_minute is None:
            return 0.0
        self._fill(now)
        needed = min(size, self.per_minute)
        if self._level + _DUST >= needed:
            self._level -= size
            return 0.0
        return (needed - self._level) * 60.0 / self.per_minute

    def _fill(self, now: float) -> None:
        assert self.per_minute is not None
        since = now - (self._filled_at if self._filled_at is not None else now)
        self._filled_at = now
        self._level = min(float(self.per_minute), self._level + since * self.per_minute / 60.0)


def thrift_order(flight: Flight) -> tuple[int, int]:
    """The order of sending when bytes are scarce: urgent first, then small."""
    return (flight.parcel.priority, len(flight.parcel.frame))


def goes_metered(flight: Flight) -> bool:
    """Whether an event may go in metered mode: urgent or small ones; the rest waits."""
    return flight.parcel.priority == Priority.URGENT or len(flight.parcel.frame) <= SMALL_BYTES
