"""Events on their way, read once and shared by all lanes (DESIGN: serialise once, parse once)."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence

from postrich.model.delivery import Parcel
from postrich.store.port import Store

MAX_BYTES = 32 * 1024 * 1024
_OVERHEAD = 500


class Parcels:
    """A cache of what lanes need of jobs, bounded in bytes, least recently used out first."""

    def __init__(self, store: Store, max_bytes: int = MAX_BYTES) -> None:
        self._store = store
        self._max_bytes = max_bytes
        self._bytes = 0
        self._kept: OrderedDict[int, Parcel] = OrderedDict()

    def add(self, parcels: Iterable[Parcel]) -> None:
        for parcel in parcels:
            if parcel.job not in self._kept:
                self._bytes += len(parcel.frame) + _OVERHEAD
            self._kept[parcel.job] = parcel  # the event in it is the same one, for ever
        while self._bytes > self._max_bytes and self._kept:
            _, oldest = self._kept.popitem(last=False)
            self._bytes -= len(oldest.frame) + _OVERHEAD

    def forget(self, jobs: Iterable[int]) -> None:
        for job in jobs:
            parcel = self._kept.pop(job, None)
            if parcel is not None:
                self._bytes -= len(parcel.frame) + _OVERHEAD

    async def get(self, jobs: Sequence[int], now: int = 0) -> dict[int, Parcel]:
        """The parcels of these jobs; those that are gone from the store are left out.

        One whose lifetime seems over is read again: a retry may have given it a new one.
        """
        kept = self._kept
        found = {job: kept[job] for job in jobs if job in kept and kept[job].expires_at > now}
        missing = [job for job in jobs if job not in found]
        if missing:
            read = await self._store.parcels(missing)
            self.add(read)
            found.update((parcel.job, parcel) for parcel in read)
        return found
