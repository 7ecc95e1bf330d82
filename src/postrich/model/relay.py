"""Relays: what they say of themselves, and what is known of their health."""

from __future__ import annotations

import msgspec


class Limitation(msgspec.Struct, frozen=True):
    """What a relay says that it will not do (NIP-11); None: it does not say."""

    max_message_length: int | None = None
    max_subscriptions: int | None = None
    max_limit: int | None = None
    default_limit: int | None = None
    max_event_tags: int | None = None
    max_content_length: int | None = None
    min_pow_difficulty: int | None = None
    auth_required: bool | None = None
    payment_required: bool | None = None
    restricted_writes: bool | None = None
    created_at_lower_limit: int | None = None
    created_at_upper_limit: int | None = None


class RelayInfo(msgspec.Struct, frozen=True):
    """A relay's own description (NIP-11). Hints, not promises: relays differ from what they say."""

    name: str = ""
    description: str = ""
    software: str = ""
    version: str = ""
    payments_url: str = ""
    supported_nips: tuple[int, ...] = ()
    limitation: Limitation = Limitation()


class RelayHealth(msgspec.Struct, frozen=True):
    """What the lane of a relay last knew: kept so that other processes can tell (C10)."""

    url: str
    state: str = "unknown"
    since: int = 0
    next_probe: int | None = None
    failures: int = 0
    latency_ms: float | None = None
    oks: int = 0
    refusals: int = 0
    timeouts: int = 0
    detail: str = ""
    success: float = 0.0
    seen_at: int = 0
