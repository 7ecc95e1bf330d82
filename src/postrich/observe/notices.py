"""Notices: typed happenings for who wants to watch, after they are committed.

Promises: publishing never waits and never fails; a slow listener loses its oldest notices and
is told how many (`Missed`). Never the source of truth: that is the store.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator

import msgspec

from postrich.model.delivery import DeliveryState
from postrich.model.job import JobState, QueueStatus

QUEUE_STATUS_CHANGED = "QUEUE_STATUS_CHANGED"
QUEUE_SYNC_COMPLETE = "QUEUE_SYNC_COMPLETE"

BACKLOG = 1000


class JobAccepted(msgspec.Struct, frozen=True, tag="JOB_ACCEPTED"):
    """A job is kept."""

    job: int
    event_id: str
    state: JobState


class JobChanged(msgspec.Struct, frozen=True, tag="JOB_CHANGED"):
    """A job moved; finished: nothing more will happen to it by itself."""

    job: int
    state: JobState
    finished: bool


class DeliveryChanged(msgspec.Struct, frozen=True, tag="DELIVERY_CHANGED"):
    """One attempt at one relay ended."""

    job: int
    relay: str
    state: DeliveryState
    attempts: int
    code: str
    detail: str
    next_at: int | None


class RelayChanged(msgspec.Struct, frozen=True, tag="RELAY_CHANGED"):
    """A relay became reachable or not."""

    relay: str
    state: str
    detail: str


class NetworkChanged(msgspec.Struct, frozen=True, tag="NETWORK_CHANGED"):
    """The network went or came back."""

    online: bool


class SignerCame(msgspec.Struct, frozen=True, tag="SIGNER_CAME"):
    """An account can sign (again): what waited for it goes on (A6)."""

    pubkey: str


class SignerAsks(msgspec.Struct, frozen=True, tag="SIGNER_ASKS"):
    """A bunker wants a person to approve at this page before it signs."""

    pubkey: str
    url: str


class HookDisabled(msgspec.Struct, frozen=True, tag="HOOK_DISABLED"):
    """A hook is told nothing more, and why; a person may enable it again (F6)."""

    hook: str
    pubkey: str
    reason: str


class QueueStatusChanged(msgspec.Struct, frozen=True, tag=QUEUE_STATUS_CHANGED):
    """What waits has changed (A12)."""

    status: QueueStatus


class QueueSyncComplete(msgspec.Struct, frozen=True, tag=QUEUE_SYNC_COMPLETE):
    """Nothing waits to be published any more (A12)."""

    status: QueueStatus


class Missed(msgspec.Struct, frozen=True, tag="MISSED"):
    """This listener was too slow for that many notices."""

    count: int


Notice = (
    JobAccepted
    | JobChanged
    | DeliveryChanged
    | RelayChanged
    | NetworkChanged
    | SignerCame
    | SignerAsks
    | HookDisabled
    | QueueStatusChanged
    | QueueSyncComplete
    | Missed
)


class Subscription(AsyncIterator[Notice]):
    """One listener's notices; ends when it or the outbox is closed."""

    def __init__(self, board: Notices, backlog: int) -> None:
        self._board = board
        self._waiting: deque[Notice] = deque(maxlen=max(1, backlog))
        self._missed = 0
        self._ready = asyncio.Event()
        self._closed = False

    def put(self, notice: Notice) -> None:
        if len(self._waiting) == self._waiting.maxlen:
            self._missed += 1
        self._waiting.append(notice)
        self._ready.set()

    def close(self) -> None:
        """Hear no more; what is waiting is still handed out."""
        self._closed = True
        self._board.forget(self)
        self._ready.set()

    def __enter__(self) -> Subscription:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __anext__(self) -> Notice:
        while not self._waiting:
            if self._closed:
                raise StopAsyncIteration
            self._ready.clear()
            await self._ready.wait()
        if self._missed:
            missed, self._missed = self._missed, 0
            return Missed(missed)
        return self._waiting.popleft()


class Notices:
    """The board: doors and lanes publish here, listeners subscribe."""

    def __init__(self) -> None:
        self._listeners: list[Subscription] = []

    @property
    def is_watched(self) -> bool:
        """Whether anybody listens: notices that cost something are made only then."""
        return bool(self._listeners)

    def subscribe(self, backlog: int = BACKLOG) -> Subscription:
        subscription = Subscription(self, backlog)
        self._listeners.append(subscription)
        return subscription

    def publish(self, notice: Notice) -> None:
        for listener in self._listeners:
            listener.put(notice)

    def forget(self, listener: Subscription) -> None:
        if listener in self._listeners:
            self._listeners.remove(listener)

    def close(self) -> None:
        for listener in list(self._listeners):
            listener.close()
