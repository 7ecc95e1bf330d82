"""Relays for tests: two real ones as processes, and a scripted one for faults.

`local_relay` and `nostr_relay` launch relays nobody here wrote; `scripted.ScriptedRelay` plays
what they will not show on demand; `reader` tells what a relay really holds. Nothing in this
package may import the code under test.
"""

import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Literal

from tests.relays.process import RelayError, RelayProcess, free_port

__all__ = ["RelayError", "RelayProcess", "free_port", "local_relay", "nostr_relay"]


def local_relay(
    *,
    port: int | None = None,
    auth: Literal["write", "read", "both"] | None = None,
    min_pow: int | None = None,
    events_per_minute: int | None = None,
    max_connections: int | None = None,
    refuse_authors: Iterable[str] = (),
    refuse_contents: Iterable[str] = (),
    data: Path | None = None,
    persist: bool = False,
) -> RelayProcess:
    """nostr-sdk's LocalRelay (about 0.3 s to start). Forgets its events when it ends, unless
    given a `data` directory, or `persist` for a temporary one."""
    scratch = _scratch() if persist and data is None else None
    options = {
        "auth": auth,
        "min-pow": min_pow,
        "events-per-minute": events_per_minute,
        "max-connections": max_connections,
        "data": scratch.name if scratch else data,
    }
    arguments = _arguments(options)
    arguments += [f"--refuse-author={author}" for author in refuse_authors]
    arguments += [f"--refuse-content={content}" for content in refuse_contents]
    return RelayProcess("tests.relays.local", *arguments, port=port, scratch=scratch)


def nostr_relay(
    *,
    port: int | None = None,
    auth: bool = False,
    writers: Iterable[str] = (),
    rate_limit: str | None = None,
    require_pow: int | None = None,
    max_event_size: int | None = None,
    data: Path | None = None,
) -> RelayProcess:
    """PyPI nostr-relay (about 1 s to start). Keeps its events over a restart.

    With `auth`, only `writers` may save, after AUTH; anyone may query. `rate_limit` is per
    address, such as "3/min". Refusing a bad event takes it 2 s or more."""
    scratch = _scratch() if data is None else None
    options = {
        "data": scratch.name if scratch else data,
        "rate-limit": rate_limit,
        "require-pow": require_pow,
        "max-event-size": max_event_size,
    }
    arguments = _arguments(options) + (["--auth"] if auth else [])
    arguments += [f"--writer={writer}" for writer in writers]
    return RelayProcess("tests.relays.nostr_relay_server", *arguments, port=port, scratch=scratch)


def _scratch() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="relay-", ignore_cleanup_errors=True)


def _arguments(options: Mapping[str, object]) -> list[str]:
    return [f"--{name}={value}" for name, value in options.items() if value is not None]
