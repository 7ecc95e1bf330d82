"""Which relays to read authors from (D8), and which inboxes to write to (C7), under a budget.

Both spread few connections over many people by one rule: nobody gets a second relay while somebody
else can still get a first. It is greedy set cover with a lazy heap; after each pick, relays are
exchanged one for one as long as that helps, which is within 1 % of the optimum. Promises: no cap is
ever passed, no blocked relay is dialled for another's sake, the user's own relays are always in and
cost nothing, and the same lists give the same answer, whatever the order they come in.

A list of thirty relays cannot inflate a plan: it never brings its author more than `per_author`
relays, and only its `CONSIDERED` most popular ones are looked at. Looking at only `per_author` of
them, before choosing, would miss up to 2 % of the authors that as many connections can reach.
"""

from __future__ import annotations

import enum
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from heapq import heapify, heappop, heapreplace
from itertools import chain
from typing import TypeAlias

import msgspec

from postrich.errors import BadSetting

MOST_CONNECTIONS = 8
MOST_FANOUT = 6
PER_PERSON = 2
CONSIDERED = 8
#: For a relay of which nothing is known: half of the URLs in the wild are offline.
UNKNOWN_HEALTH = 0.5

#: Sets of people, each an integer with a bit for everyone in it, by how many relays they have.
_Waiting: TypeAlias = tuple[int, ...]
#: A heap of relays by the most that each can give, negated.
_Bounds: TypeAlias = list[tuple[int, int]]


class RelayPlan(msgspec.Struct, frozen=True):
    """Whom to ask where. Relays and authors come in an order that depends on the lists alone."""

    #: Which authors to ask each relay for; no relay is here for nobody.
    assignments: dict[str, tuple[str, ...]]
    #: Authors whom no relay of the plan serves: ask the hubs for them.
    fallback: tuple[str, ...]
    #: The user's own relays, whether or not an author is assigned to them.
    hubs: tuple[str, ...]

    @property
    def total(self) -> int:
        """How many relays are read from, hubs included."""
        return len({*self.assignments, *self.hubs})


class Why(enum.StrEnum):
    """Why an inbox relay is not written to."""

    BUDGET = "budget"
    ENOUGH_OTHERS = "enough others"
    BLOCKED = "blocked"


class LeftOut(msgspec.Struct, frozen=True):
    """An inbox relay that is not written to: whose it is, and why not."""

    recipients: tuple[str, ...]
    why: Why


class Fanout(msgspec.Struct, frozen=True):
    """Where one event goes, and where it does not."""

    #: Every relay, one's own first, with all whose inbox it is; for one's own perhaps nobody.
    chosen: dict[str, tuple[str, ...]]
    left_out: dict[str, LeftOut]
    #: Recipients of whose inbox relays none is written to, or who have none.
    unreached: tuple[str, ...]


def cover(
    authors: Mapping[str, Collection[str]],
    *,
    own: Collection[str] = (),
    blocked: Collection[str] = (),
    most: int = MOST_CONNECTIONS,
    per_author: int = PER_PERSON,
    health: Mapping[str, float] | None = None,
) -> RelayPlan:
    """Which relays to ask for these authors, given where each of them writes.

    `most` bounds the relays beyond one's own: those are connected anyway, so they serve first. A
    blocked relay serves nobody, even if it is one's own (decision 14 of the source document: its
    owner may use it, but nobody else's events are looked for there). Relays known to be dead
    belong in `blocked` too. Of equally useful relays the more popular one is taken, then the
    healthier (0 to 1), then the first by URL.
    """
    known = health or {}
    hubs = set(own).difference(blocked)
    lists = _Lists(authors, hubs, known, blocked, max(CONSIDERED, per_author))
    picks = _choose(lists, most, per_author)
    # Of an author's relays the healthiest serve, and small ones before those that serve everybody.
    picks.sort(key=lambda relay: (-known.get(lists.urls[relay], UNKNOWN_HEALTH), -relay))
    assignments, fallback = _assign(lists, picks, per_author)
    return RelayPlan(assignments, fallback, tuple(sorted(hubs)))


def share(
    own: Iterable[str],
    recipients: Mapping[str, Collection[str]],
    *,
    blocked: Collection[str] = (),
    most: int = MOST_FANOUT,
    per_recipient: int = PER_PERSON,
    health: Mapping[str, float] | None = None,
) -> Fanout:
    """Which relays an event goes to, given the inbox relays of those whom it is for.

    Own relays are all kept, and where they are somebody's inbox they count as such. `most` bounds
    the relays beyond them, and no relay is added for who has `per_recipient` already. What serves
    several recipients comes first; ties are broken as in `cover`. A blocked relay is nobody's
    inbox; if it is one's own, the event goes there, but for oneself only.
    """
    kept = dict.fromkeys(own)
    lists = _Lists(recipients, kept, health or {}, blocked)
    picks = _choose(lists, most, per_recipient)
    inboxes = lists.people_by_relay()
    picked = (lists.urls[relay] for relay in picks)
    chosen = {url: inboxes.get(url, ()) for url in (*kept, *picked)}
    reached = Counter(chain.from_iterable(chosen.values()))
    left_out = {}
    for url, names in inboxes.items():
        if url not in chosen:
            enough = all(reached[name] >= per_recipient for name in names)
            left_out[url] = LeftOut(names, Why.ENOUGH_OTHERS if enough else Why.BUDGET)
    for url in sorted(set(blocked).difference(kept)):
        names = tuple(name for name in lists.names if url in recipients[name])
        if names:
            left_out[url] = LeftOut(names, Why.BLOCKED)
    return Fanout(chosen, left_out, tuple(name for name in lists.names if name not in reached))


class _Lists:
    """People's relay lists in numbers: people by name, relays by preference, hubs first."""

    def __init__(
        self,
        lists: Mapping[str, Collection[str]],
        hubs: Collection[str],
        health: Mapping[str, float],
        blocked: Collection[str],
        considered: int | None = None,
    ) -> None:
        votes = Counter(chain.from_iterable(map(set, lists.values())))
        for url in blocked:
            votes.pop(url, None)

        def preference(url: str) -> tuple[bool, int, float, str]:
            return (url not in hubs, -votes[url], -health.get(url, UNKNOWN_HEALTH), url)

        self.names = sorted(lists)
        self.urls = sorted(votes, key=preference)
        self.hubs = sum(url in votes for url in hubs)
        number = {url: number for number, url in enumerate(self.urls)}
        #: For each person the relays that may serve them, the preferred first.
        self.choices = [
            sorted({number[url] for url in lists[name] if url in number})[:considered]
            for name in self.names
        ]

    def people_by_relay(self) -> dict[str, tuple[str, ...]]:
        people: dict[str, list[str]] = {url: [] for url in self.urls}
        for name, choices in zip(self.names, self.choices, strict=True):
            for relay in choices:
                people[self.urls[relay]].append(name)
        return {url: tuple(names) for url, names in people.items()}


def _assign(
    lists: _Lists, picks: Iterable[int], per_author: int
) -> tuple[dict[str, tuple[str, ...]], tuple[str, ...]]:
    """Give every author to the first relays that serve them, in the order hubs, then picks."""
    turns = {relay: turn for turn, relay in enumerate([*range(lists.hubs), *picks])}
    served: list[list[str]] = [[] for _ in turns]
    fallback = []
    for name, choices in zip(lists.names, lists.choices, strict=True):
        serving = sorted([turns[relay] for relay in choices if relay in turns])
        for turn in serving[:per_author]:
            served[turn].append(name)
        if not serving:
            fallback.append(name)
    assignments = {lists.urls[relay]: tuple(served[turn]) for relay, turn in turns.items()}
    return {url: names for url, names in assignments.items() if names}, tuple(fallback)


class _Demand:
    """Who still wants relays, and what a relay would give them.

    People are bits, and `waiting[n]` holds those who have n relays: sets of people are then
    integers, and a relay's gain is a few ANDs and bit counts.
    """

    def __init__(self, choices: Iterable[Sequence[int]], hubs: int, copies: int) -> None:
        self._takers: dict[int, list[int]] = defaultdict(list)
        self._masks: dict[int, int] = {}
        waiting: list[list[int]] = [[] for _ in range(copies)]
        people = 0
        for relays in choices:
            have = bisect_left(relays, hubs)
            if have >= min(copies, len(relays)):
                continue
            waiting[have].append(people)
            for relay in relays[have:]:
                self._takers[relay].append(people)
            people += 1
        self._people = people
        self._base = people + 1
        self.waiting = tuple(map(self._bits, waiting))
        each = sum(self._base**level for level in range(copies))
        #: What holds whatever is taken: a relay gives each of its takers one relay at most.
        self.bounds: _Bounds = [
            (-len(takers) * each, relay) for relay, takers in self._takers.items()
        ]
        heapify(self.bounds)

    def gain(self, relay: int, waiting: _Waiting) -> int:
        """What a relay gives to those who wait: first relays count above any number of seconds."""
        mask = self._masks.get(relay) or self._mask(relay)
        worth = 0
        for people in waiting:
            worth = worth * self._base + (mask & people).bit_count()
        return worth

    def after(self, relays: Iterable[int]) -> _Waiting:
        """Who waits once these relays are taken."""
        waiting = self.waiting
        for relay in relays:
            waiting = self.serve(relay, waiting)
        return waiting

    def serve(self, relay: int, waiting: _Waiting) -> _Waiting:
        """Who waits once this relay is taken too: whom it serves moves one level up, or is done."""
        mask = self._masks[relay]
        risen = (0, *(people & mask for people in waiting))
        return tuple(
            (people & ~mask) | coming for people, coming in zip(waiting, risen, strict=False)
        )

    def _mask(self, relay: int) -> int:
        mask = self._masks[relay] = self._bits(self._takers[relay])
        return mask

    def _bits(self, people: Iterable[int]) -> int:
        bits = bytearray(self._people // 8 + 1)
        for person in people:
            bits[person >> 3] |= 1 << (person & 7)
        return int.from_bytes(bits, "little")


def _choose(lists: _Lists, most: int, copies: int) -> list[int]:
    """The relays to take beside the hubs, at most `most`; a larger `most` never serves fewer.

    Exchanging after each pick, not only in the end, is what makes that so.
    """
    if most < 0 or copies < 1:
        raise BadSetting("a plan needs room for 0 or more relays, and 1 or more for each person")
    demand = _Demand(lists.choices, lists.hubs, copies)
    bounds = demand.bounds.copy()
    picks: dict[int, _Bounds] = {}
    while len(picks) < most:
        relay = _best(demand, bounds, picks, demand.after(picks))
        if relay is None:
            break
        picks[relay] = bounds.copy()
        while _exchange(demand, picks):
            bounds = demand.bounds.copy()
    return list(picks)


def _best(
    demand: _Demand, bounds: _Bounds, taken: Collection[int], waiting: _Waiting, floor: int = 0
) -> int | None:
    """The untaken relay that gives most to those who wait, if that is more than `floor`.

    Lazy: a relay gives less the more are taken. What it once gave is kept in `bounds` and bounds
    what it gives now, so only relays on top of that heap are looked at.
    """
    while bounds and -bounds[0][0] > floor:
        bound, relay = bounds[0]
        if relay in taken:
            heappop(bounds)
            continue
        gain = demand.gain(relay, waiting)
        if gain == -bound:
            return relay
        heapreplace(bounds, (-gain, relay))
    return None


def _exchange(demand: _Demand, picks: dict[int, _Bounds]) -> bool:
    """Replace the first pick that another relay betters; drop any that is not needed any more.

    Each pick comes with bounds of what others give in its place. They hold while picks are added,
    not once one is taken away.
    """
    for pick in tuple(picks):
        rest = picks.keys() - {pick}
        waiting = demand.after(rest)
        gain = demand.gain(pick, waiting)
        other = _best(demand, picks[pick], rest, waiting, gain)
        if other is None and gain:
            continue
        del picks[pick]
        kept = [*picks, *([] if other is None else [other])]
        picks.update((relay, demand.bounds.copy()) for relay in kept)
        return True
    return False
