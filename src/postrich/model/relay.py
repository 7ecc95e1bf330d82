"""Relays: their URLs in one form, and what is known of their health."""

from __future__ import annotations

import msgspec


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
