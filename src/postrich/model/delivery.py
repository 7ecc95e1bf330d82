"""Deliveries: a job at one destination, the verdicts on it, and what lanes carry."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import NamedTuple

import msgspec


class DeliveryState(enum.StrEnum):
    """Where one destination stands. Only `waiting` is worked on."""

    WAITING = "waiting"
    DELIVERED = "delivered"
    SUPERSEDED = "superseded"
    REFUSED = "refused"
    PARKED = "parked"
    SKIPPED = "skipped"
    UNKNOWN = "unknown"
    FAILED = "failed"
    CANCELLED = "cancelled"


class Outcome(enum.StrEnum):
    """What one reply, silence or fault means."""

    DELIVERED = "delivered"
    SUPERSEDED = "superseded"
    RETRY = "retry"
    AUTHENTICATE = "authenticate"
    UNKNOWN = "unknown"
    PARKED = "parked"
    REFUSED = "refused"
    SKIPPED = "skipped"


class Verdict(msgspec.Struct, frozen=True, gc=False):
    """An outcome with its evidence.

    `burns`: it counts as an attempt of this event (B10: a relay's own fault does not).
    `limit`: after that many attempts it is final, whatever the policy allows.
    """

    outcome: Outcome
    code: str
    text: str = ""
    burns: bool = True
    limit: int | None = None


class Target(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A destination chosen for a job, and why.

    `mine`: a relay of its author's own; `inbox_of`: the recipients who read there (D12).
    `stranger`: only others' lists name it, so that it may lead us nowhere inside (C11).
    """

    url: str
    reason: str = ""
    mine: bool = False
    inbox_of: tuple[str, ...] = ()
    stranger: bool = False


class Delivery(msgspec.Struct, frozen=True):
    """A job at one destination, as its owner sees it."""

    relay: str
    reason: str
    state: DeliveryState
    attempts: int
    next_at: int | None
    code: str | None
    detail: str
    settled_at: int | None


class Parcel(msgspec.Struct, frozen=True, gc=False):
    """What every lane needs of a job, read once and shared: the frame is sent as it is."""

    job: int
    event_id: str
    pubkey: str
    created_at: int
    priority: int
    expires_at: int
    policy: str
    frame: bytes


def event_frame(raw: bytes) -> bytes:
    """The message that carries an event, its bytes untouched."""
    return b'["EVENT",' + raw + b"]"


def event_in(frame: bytes) -> bytes:
    """The event's own bytes in the message that carries it."""
    return frame[len(b'["EVENT",') : -1]


class Flight:
    """A parcel on its way to one relay. Mutable and short-lived: it exists only in memory."""

    __slots__ = (
        "attempts",
        "auth_rounds",
        "event_id",
        "job",
        "parcel",
        "protected",
        "sent_at",
        "taken_at",
    )

    def __init__(self, parcel: Parcel, attempts: int, taken_at: float = 0.0) -> None:
        self.parcel = parcel
        self.job = parcel.job
        self.event_id = parcel.event_id
        self.attempts = attempts
        self.taken_at = taken_at
        self.sent_at = 0.0
        self.auth_rounds = 0
        self.protected = False


class Claimed(NamedTuple):
    """A delivery that is due, and its place in the queue."""

    job: int
    attempts: int
    band: int
    next_at: int


#: Where a claim begins in each band: after this (next_at, job).
Floors = Sequence[tuple[int, int]]
BANDS = 8
#: Before everything.
NO_FLOORS: Floors = ((-(2**62), 0),) * BANDS


class Settlement(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """What a lane writes of one attempt: the delivery's next state and the story's next line."""

    job: int
    state: DeliveryState
    attempts: int
    next_at: int
    code: str
    detail: str
    burnt: bool


class Destination(msgspec.Struct, frozen=True):
    """A relay as the store knows it: a small number for a URL, and whether the owner named it."""

    id: int
    url: str
    trusted: bool = True


class Fence(msgspec.Struct, frozen=True):
    """Proof of holding a lease: every result is written under it or not at all."""

    name: str
    owner: str
    epoch: int
