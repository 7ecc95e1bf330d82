"""The author's relay list goes along to every relay that hears from them (NIP-65, D5).

A courtesy: best effort, remembered in memory only, never part of any job. Once per list and
relay, again after a day; with new events, not with retries. A gift wrap's author has no list.
"""

from __future__ import annotations

from postrich.clock import Clock
from postrich.model.delivery import event_frame
from postrich.model.event import Event
from postrich.route.relay_lists import RelayLists
from postrich.rules.relay_lists import RELAYS

AGAIN_AFTER = 24 * 3600.0
MAX_REMEMBERED = 100_000


class Courtesy:
    """Which relay was sent whose list, and when."""

    def __init__(self, lists: RelayLists, clock: Clock) -> None:
        self._lists = lists
        self._clock = clock
        self._sent: dict[tuple[str, str], float] = {}

    def frame_for(self, pubkey: str, url: str, event_id: str) -> tuple[str, bytes] | None:
        """The id and message of the author's list, if it is due at this relay; counts as sent."""
        known = self._lists.kept_event((pubkey, RELAYS))
        if known is None or known.id == event_id:
            return None
        now = self._clock.tick()
        last = self._sent.get((known.id, url))
        if last is not None and now - last < AGAIN_AFTER:
            return None
        self._note(known, url, now)
        return known.id, event_frame(known.raw)

    def knock_for(self, pubkey: str) -> tuple[str, bytes] | None:
        """The same, sent only to be asked who we are: many relays ask nobody who says nothing."""
        known = self._lists.kept_event((pubkey, RELAYS))
        return None if known is None else (known.id, event_frame(known.raw))

    def _note(self, known: Event, url: str, now: float) -> None:
        self._sent[known.id, url] = now
        if len(self._sent) > MAX_REMEMBERED:
            del self._sent[next(iter(self._sent))]
