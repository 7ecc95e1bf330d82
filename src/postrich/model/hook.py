"""Hooks: who is told over HTTP what became of jobs (F6), and the messages that tell it."""

from __future__ import annotations

import enum

import msgspec


class HookEvent(enum.StrEnum):
    """What may be told of a job. A job that fails is `exhausted` where its attempts or its lifetime
    ran out, else `failed`."""

    SCHEDULED = "scheduled"
    PUBLISHED = "published"
    DELIVERED = "delivered"
    FAILED = "failed"
    EXHAUSTED = "exhausted"
    CANCELLED = "cancelled"


#: The kind of a message that tells of nothing, but asks whether somebody is there.
PING = "ping"


class HookState(enum.StrEnum):
    ACTIVE = "active"
    DISABLED = "disabled"


class MessageState(enum.StrEnum):
    WAITING = "waiting"
    SENT = "sent"
    FAILED = "failed"


class Hook(msgspec.Struct, frozen=True):
    """An address that wants to be told. Its secret is derived, and kept nowhere.

    `pubkey`: whose jobs, "": everybody's. `key`: which master secret its own is derived from.
    `failing_since`: since when no message was taken; `failures`: how many times since then.
    The `answer…` fields are what its server said last.
    """

    id: str
    pubkey: str
    url: str
    events: tuple[HookEvent, ...]
    state: HookState
    created_at: int
    key: str
    reason: str = ""
    generation: int = 1
    rotated_at: int | None = None
    failing_since: int | None = None
    failures: int = 0
    answered_at: int | None = None
    answer_status: int | None = None
    answer_text: str = ""


class HookMessage(msgspec.Struct, frozen=True):
    """One thing to be told to one hook, at least once and always under the same `id`.

    `number`: its place in the order. `key`: the idempotency key that its job was handed in with.
    """

    number: int
    id: str
    hook: str
    kind: str
    pubkey: str
    state: MessageState
    attempts: int
    created_at: int
    job: int | None = None
    event_id: str = ""
    next_at: int | None = None
    settled_at: int | None = None
    status: int | None = None
    error: str = ""
    key: str | None = None


class DueMessage(msgspec.Struct, frozen=True):
    """A message to be sent now, and to whom."""

    hook: Hook
    message: HookMessage


class HookOutlook(msgspec.Struct, frozen=True):
    """How many hooks there are that this process can sign for, when the next message to one of them
    is due, and how many there are of another master secret."""

    hooks: int
    next_at: int | None
    strangers: int


class MessageSettlement(msgspec.Struct, frozen=True):
    """What an attempt made of a message. `gone`: the server wants no more (410)."""

    number: int
    hook: str
    state: MessageState
    attempts: int
    next_at: int
    status: int | None
    text: str
    gone: bool = False

    @property
    def taken(self) -> bool:
        return self.state is MessageState.SENT
