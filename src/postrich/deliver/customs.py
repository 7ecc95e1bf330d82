"""What a relay would not take, found out before it is sent (C5, C6), and NIP-70's rule (D4).

Promises: nothing is kept back but by the relay's own word or refusal; whatever is kept back has
a verdict that says why. Costs nothing where a relay has said nothing.
"""

from __future__ import annotations

import asyncio

from postrich.deliver.shared import Shared
from postrich.model.delivery import Destination, Flight, Verdict
from postrich.model.event import Event, parse_event
from postrich.model.relay import RelayInfo
from postrich.rules.limits import facts_of, refuses, smaller, surely_takes

WAIT_FOR_OWN = 1.0
WAIT_FOR_OTHERS = 5.0
_SILENT = RelayInfo()


class Customs:
    """The rules of one relay, as far as they are known."""

    def __init__(self, shared: Shared, destination: Destination) -> None:
        self._shared = shared
        self._url = destination.url
        self.trusted = destination.trusted
        self.has_rules = False
        #: It says that it must know everybody (NIP-11); many mean only those who read.
        self.wants_auth = False
        self._asked: asyncio.Task[None] | None = None
        self._info = _SILENT
        self._longest: int | None = None

    async def learn(self) -> None:
        """Before an event goes out: what does the relay say of itself? Never for long."""
        if not self._shared.settings.relay_info:
            return
        guard = self._shared.settings.guard(trusted=self.trusted)
        infos = self._shared.infos
        fetch = infos.use if self._asked is None else infos.refresh
        asked = fetch(self._url, guard, own=self.trusted)
        if asked is self._asked:
            return
        self._asked = asked
        asked.add_done_callback(self._on_answer)
        await asyncio.wait((asked,), timeout=WAIT_FOR_OWN if self.trusted else WAIT_FOR_OTHERS)

    def leave(self) -> None:
        if self._asked is not None:
            self._shared.infos.leave(self._url)
            self._asked = None

    def _on_answer(self, _task: asyncio.Task[None]) -> None:
        info = self._shared.infos.of(self._url)
        if info is not None:
            self._info = info
            self.wants_auth = bool(info.limitation.auth_required)
            self.has_rules = True

    def judge(self, flight: Flight, now: int) -> Verdict | None:
        """Why the event is not sent here; None: it is."""
        info, longest, trusted = self._info, self._longest, self.trusted
        if surely_takes(flight.parcel, info, now, trusted=trusted, longest=longest):
            return None
        frame = flight.parcel.frame
        facts = facts_of(event_in(frame), len(frame))
        return refuses(facts, info, now, trusted=trusted, longest=longest)

    def too_large(self, flight: Flight) -> None:
        """The relay refused an event for its size: what is larger than half of it is not sent."""
        self._longest = smaller(len(flight.parcel.frame), self._longest)
        self.has_rules = True


def is_protected(frame: bytes) -> bool:
    """Whether only its author may publish it (NIP-70); however its JSON is written."""
    if b'"-"' not in frame and b"u002" not in frame:  # a dash in disguise is a dash
        return False
    return any(tag[0] == "-" for tag in event_in(frame).tags)


def event_in(frame: bytes) -> Event:
    """The event that an EVENT message carries; it was checked when it was accepted."""
    return parse_event(frame[9:-1], len(frame))
