"""Who works on an outbox, and what each holds."""

from __future__ import annotations

import msgspec


class Hold(msgspec.Struct, frozen=True):
    """Something that one worker alone does, until `until` unless it renews that.

    `duty` is `relay` (`name`: its URL), `stage`, `sign` (`name`: the account's public key), or
    `hooks` (`name`: which master secret they have).
    """

    duty: str
    name: str
    until: int
    lapsed: bool


class Worker(msgspec.Struct, frozen=True):
    """A process that delivers. `alive`: it was heard of lately and is not known to be gone;
    `is_self`: it is the process that asks."""

    owner: str
    host: str
    pid: int
    role: str
    started_at: int
    seen_at: int
    alive: bool
    is_self: bool
    holds: tuple[Hold, ...] = ()
