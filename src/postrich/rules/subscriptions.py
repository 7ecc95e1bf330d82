"""Standing subscriptions on one socket, without the socket (NIP-01 REQ, EOSE, CLOSED).

Promises: what a subscription finds comes out in `news`, in the order of its coming; a relay
that wants AUTH first is asked again after it; one that says no is not asked again here.
"""

from __future__ import annotations

from typing import Any

import msgspec

MAX_AUTH_ROUNDS = 2

_encode = msgspec.json.Encoder().encode


class Subscriptions:
    """What is asked on one socket. `live`: the relay has sent all it has, and goes on sending.

    `told`: it has sent all it had, whatever became of the subscription then.
    """

    def __init__(self) -> None:
        self.news: list[tuple[str, dict[str, Any]]] = []
        self.live: set[str] = set()
        self.told: set[str] = set()
        self.closed: dict[str, str] = {}
        self._frames: dict[str, bytes] = {}
        self._rounds: dict[str, int] = {}
        self._held: set[str] = set()

    def open(self, name: str, filters: tuple[dict[str, Any], ...]) -> bytes:
        """Ask; a subscription of the same name is replaced. Returns the frame to send."""
        self.live.discard(name)
        self.told.discard(name)
        self.closed.pop(name, None)
        self._rounds[name] = 0
        self._frames[name] = _encode(["REQ", name, *filters])
        return self._frames[name]

    def close(self, name: str) -> bytes | None:
        """Ask no more; the frame that says so, where the relay still knows of it."""
        known = self._frames.pop(name, None) is not None and name not in self.closed
        self.live.discard(name)
        self.told.discard(name)
        self.closed.pop(name, None)
        self._held.discard(name)
        return _encode(["CLOSE", name]) if known else None

    def on_event(self, name: str, event: dict[str, Any]) -> bool:
        """An event came; False where nothing of ours asked for it."""
        if name not in self._frames:
            return False
        self.news.append((name, event))
        return True

    def on_end_of_stored(self, name: str) -> bool:
        if name not in self._frames:
            return False
        self.live.add(name)
        self.told.add(name)
        return True

    def on_closed(self, name: str, reason: str, *, wants_auth: bool) -> bool:
        """The relay ended it; True where AUTH may help, and it is held until then."""
        self.live.discard(name)
        if wants_auth and self._rounds[name] < MAX_AUTH_ROUNDS:
            self._rounds[name] += 1
            self._held.add(name)
            return True
        self.closed[name] = reason
        return False

    def after_auth(self) -> list[bytes]:
        """The relay knows us now: what it held against us is asked again."""
        held, self._held = sorted(self._held), set()
        return [self._frames[name] for name in held]

    def give_up(self, reason: str) -> None:
        """There will be no AUTH: what waited for it is closed."""
        for name in self._held:
            self.closed[name] = reason
        self._held.clear()

    def __contains__(self, name: str) -> bool:
        return name in self._frames
