"""Limited bandwidth (A17): a byte budget per minute, and a metered mode."""

from __future__ import annotations

from postrich.errors import BadSetting
from postrich.model.delivery import Flight
from postrich.model.job import Priority
from postrich.rules.throttle import Bucket

SMALL_BYTES = 4096
_DUST = 0.5  # what rounding may lack: who waited as told goes


class ByteBudget:
    """A token bucket in bytes. An event larger than the bucket may go when the bucket is full."""

    __slots__ = ("_bucket", "per_minute")

    def __init__(self, per_minute: int | None) -> None:
        if per_minute is not None and per_minute < 1:
            raise BadSetting("a byte budget must be 1 or more; leave it out for no limit")
        self.per_minute = per_minute
        self._bucket = Bucket(per_minute or 0)

    def take(self, size: int, now: float) -> float:
        """Spend `size` bytes and return 0, or spend nothing and return the seconds to wait."""
        if self.per_minute is None:
            return 0.0
        return self._bucket.take(size, now, self.per_minute / 60.0, self.per_minute, _DUST)


def thrift_order(flight: Flight) -> tuple[int, int]:
    """The order of sending when bytes are scarce: urgent first, then small."""
    return (flight.parcel.priority, len(flight.parcel.frame))


def goes_metered(flight: Flight) -> bool:
    """Whether an event may go in metered mode: urgent or small ones; the rest waits."""
    return flight.parcel.priority == Priority.URGENT or len(flight.parcel.frame) <= SMALL_BYTES
