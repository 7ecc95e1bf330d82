"""Jobs: one event on its road, and the words for where it stands."""

from __future__ import annotations

import enum
from collections.abc import Sequence

import msgspec

from postrich.model.delivery import Delivery, DeliveryState, Target
from postrich.model.event import Draft, Event


class JobState(enum.StrEnum):
    """A3. The legal moves between them are in `rules/lifecycle.py`."""

    PENDING_SIGN = "pending-sign"
    SCHEDULED = "scheduled"
    PENDING_PUBLISH = "signed-pending-publish"
    PUBLISHED = "published"
    FAILED = "failed"
    CANCELLED = "cancelled"
    PARKED = "parked"
    SUPERSEDED = "superseded"


class Phase(enum.StrEnum):
    """Which half of the road an error belongs to (A7)."""

    SIGN = "sign"
    PUBLISH = "publish"


class Priority(enum.IntEnum):
    """P0 goes first (A10)."""

    URGENT = 0
    NORMAL = 1
    LATER = 2
    BULK = 3


class RetryPolicy(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """When to try again, as data (B1). Seconds; the last delay repeats, growing by `factor`."""

    name: str
    delays: tuple[float, ...]
    factor: float = 1.0
    cap: float = 3600.0
    jitter: tuple[float, float] = (1.0, 1.0)
    max_attempts: int | None = None
    lifetime: float = 3 * 86_400.0
    retry_resets: bool = False


class JobError(msgspec.Struct, frozen=True):
    """Why a job is not further than it is (A7); the message is already redacted."""

    phase: Phase
    code: str
    message: str


class NewJob(msgspec.Struct, frozen=True, gc=False):
    """What a door hands to the store: checked, classified and ready to be kept.

    `auto`: its targets are worked out from relay lists when it is due.
    """

    content: Draft | Event
    targets: tuple[Target, ...]
    policy: RetryPolicy
    expires_at: int
    due_at: int | None = None
    priority: Priority = Priority.NORMAL
    goal: int = 1
    after: tuple[int, ...] = ()
    key: str | None = None
    auto: bool = False
    goal_mine: int = 0
    goal_inbox: int = 0

    @property
    def is_signed(self) -> bool:
        return isinstance(self.content, Event)


class Accepted(msgspec.Struct, frozen=True, gc=False):
    """The store's answer: the job's number, and whether it was there already (A9)."""

    job: int
    event_id: str
    state: JobState
    is_new: bool


class Job(msgspec.Struct, frozen=True):
    """A job as its owner sees it, evidence included."""

    id: int
    event_id: str
    pubkey: str
    kind: int
    created_at: int
    state: JobState
    priority: int
    goal: int
    policy: RetryPolicy
    accepted_at: int
    due_at: int | None
    expires_at: int
    published_at: int | None
    finished_at: int | None
    sign_attempts: int
    next_at: int | None
    error: JobError | None
    content: str
    tags: Sequence[Sequence[str]]
    size: int
    waits_for: tuple[int, ...]
    deliveries: tuple[Delivery, ...]

    @property
    def publish_attempts(self) -> int:
        """`attempts.publish` (A7): every counted try at every relay."""
        return sum(delivery.attempts for delivery in self.deliveries)

    @property
    def delivered(self) -> tuple[Delivery, ...]:
        return tuple(d for d in self.deliveries if d.state is DeliveryState.DELIVERED)

    @property
    def is_finished(self) -> bool:
        return self.finished_at is not None


class JobChange(msgspec.Struct, frozen=True, gc=False):
    """A move that a commit made: what notices and waiters are told."""

    job: int
    state: JobState
    finished: bool


class Unsigned(msgspec.Struct, frozen=True):
    """A job whose draft is to be signed now."""

    job: int
    policy: RetryPolicy
    sign_attempts: int
    expires_at: int
    draft: Draft


class StageItem(msgspec.Struct, frozen=True):
    """A signed job that the stager must send on its way, now that it is due.

    `event`: its JSON, where the targets are still to be worked out from relay lists.
    """

    job: int
    state: JobState
    priority: int
    due_at: int | None
    targets: tuple[Target, ...]
    policy: RetryPolicy
    expires_at: int
    route_attempts: int = 0
    event: str | None = None


class Routed(msgspec.Struct, frozen=True):
    """Where a staged job goes; `again_at`: some lists could not be read, so look again then."""

    item: StageItem
    targets: tuple[Target, ...]
    again_at: int | None = None


class Chapter(msgspec.Struct, frozen=True):
    """One line of a job's story: what happened, when, where."""

    at: int
    what: str
    relay: str | None = None
    attempt: int | None = None
    detail: str = ""


class QueueStatus(msgspec.Struct, frozen=True):
    """A12: what waits, how often it was tried, and since when."""

    pending: int
    scheduled: int
    parked: int
    failed: int
    total_attempts: int
    open_deliveries: int
    oldest: int | None

    @property
    def text(self) -> str:
        noun = "item" if self.pending == 1 else "items"
        return f"{self.pending} {noun} waiting to publish"


class JobFilter(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which jobs a list or a bulk action means; empty means all."""

    states: tuple[JobState, ...] = ()
    pubkey: str | None = None
    kind: int | None = None
    relay: str | None = None
    jobs: tuple[int, ...] = ()
    open_only: bool = False
