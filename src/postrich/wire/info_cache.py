"""What relays said of themselves, remembered (C4).

Promises: a relay's description is fetched once when it is first needed, without anybody having
to wait; kept six hours for the owner's relays, and ten minutes after the last use for others;
a fetch that failed is not repeated before that.
"""

from __future__ import annotations

import asyncio

from postrich.clock import Clock
from postrich.model.relay import RelayInfo
from postrich.rules.trust import DialPolicy
from postrich.wire.relay_info import AT_ONCE, fetch_infos

OWN_FOR = 6 * 3600.0
OTHERS_FOR = 600.0


class _Entry:
    def __init__(self, task: asyncio.Task[None], asked_at: float, own: bool) -> None:
        self.task = task
        self.asked_at = asked_at
        self.own = own
        self.info: RelayInfo | None = None
        self.users = 0
        self.left_at = asked_at

    def is_old(self, now: float) -> bool:
        """Whether it is to be asked for again. What is not used by now may be forgotten, too."""
        if not self.task.done():
            return False
        if now - self.asked_at >= OWN_FOR:
            return True
        return not (self.own or self.users) and now - self.left_at >= OTHERS_FOR


class RelayInfos:
    """Descriptions by URL."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._entries: dict[str, _Entry] = {}
        self._slots = asyncio.Semaphore(AT_ONCE)

    def use(self, url: str, guard: DialPolicy | None, *, own: bool) -> asyncio.Task[None]:
        """A lane works with this relay: begin to fetch, if need be. Done once it is known."""
        self._evict(self._clock.tick())
        task = self.refresh(url, guard, own=own)
        self._entries[url].users += 1
        return task

    def refresh(self, url: str, guard: DialPolicy | None, *, own: bool) -> asyncio.Task[None]:
        """A lane that works with it dials anew: what is too old is asked for again."""
        now = self._clock.tick()
        entry = self._entries.get(url)
        if entry is None or entry.is_old(now):
            fetching = asyncio.get_running_loop().create_task(self._fetch(url, guard))
            users = entry.users if entry is not None else 0
            entry = self._entries[url] = _Entry(fetching, now, own)
            entry.users = users
        return entry.task

    def leave(self, url: str) -> None:
        """That lane does not work with it any more."""
        entry = self._entries.get(url)
        if entry is not None:
            entry.users -= 1
            entry.left_at = self._clock.tick()

    def of(self, url: str) -> RelayInfo | None:
        """What is known now."""
        entry = self._entries.get(url)
        return entry.info if entry is not None else None

    async def close(self) -> None:
        tasks = [entry.task for entry in self._entries.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _evict(self, now: float) -> None:
        for url, entry in list(self._entries.items()):
            if not entry.users and entry.is_old(now):
                del self._entries[url]

    async def _fetch(self, url: str, guard: DialPolicy | None) -> None:
        async with self._slots:
            infos = await fetch_infos([url], lambda _url: guard)
        self._entries[url].info = infos[url]
