"""Which relays must have an event, each with its reason (D2–D5, D9, D10): the outbox model.

Promises: own relays are always kept; what others' lists name is bounded and shared fairly;
a gift wrap goes to its recipient's message relays or nowhere; a relay that the owner blocked
is not gone to (D7); whatever is left out says why. Pure: all that is known comes in as values.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from postrich.errors import BadSetting
from postrich.model.delivery import Target
from postrich.model.event import Draft, Event, is_hex_name, tag_value, tag_values
from postrich.rules.pow import nonce_tag
from postrich.rules.precedence import EVERYWHERE
from postrich.rules.references import ANSWERS, POLL, REPOSITORY, Reference, reference_of
from postrich.rules.relay_lists import (
    BLOCKED,
    DRAFTS,
    GROUPS,
    MESSAGES,
    NUTZAPS,
    RELAYS,
    UNKNOWN,
    Lookup,
    Status,
    parse_list,
)
from postrich.rules.selection import UNKNOWN_HEALTH, Why, share
from postrich.rules.trust import clean_urls, normalise_url

NAMED = "named for this event"
OWN = "your relay"
WRITE = "write relay of its author"
MINED = "your relay for proof of work"
INDEX = "indexer: others look here for it"
ORIGINAL = "has what this takes back"
GROUP = "relay of its group"
ASKED = "asked to forget"
PRIVATE = "your relay for drafts"
REFERRED = {REPOSITORY: "relay of its repository", POLL: "relay of its poll"}

WRAPS = (1059, 21059)
DELETION = 5
VANISH = 62
NUTZAP = 9321
JOINING = (28934, 28936)
#: NIP-37: unfinished events, encrypted to their author.
UNFINISHED = (1234, 31234)
#: Profile, follows and relay lists: where strangers look for them.
WIDE = (0, 3, RELAYS, BLOCKED, NUTZAPS, MESSAGES)
#: Follows, mutes and other lists (NIP-51) name people without speaking to them.
LISTS = frozenset((3, *range(10_000, 20_000), *range(30_000, 30_008), 39_089, 39_092))
MAX_RECIPIENTS = 100

Key = tuple[str, int]


class Budgets(msgspec.Struct, frozen=True):
    """How far one publish may reach (C7)."""

    fanout: int = 6
    per_author: int = 2
    messages: int = 3
    new_per_minute: int = 12
    strangers_at_once: int = 20


class LeftOut(msgspec.Struct, frozen=True):
    """A relay that is not gone to, and why."""

    url: str
    reason: str


class Known(msgspec.Struct, frozen=True):
    """All that a plan may use. `originals`: where that went which the event takes back;
    `referred`: the relays that its repository or poll names, None where that is not known."""

    own: tuple[str, ...] = ()
    indexers: tuple[str, ...] = ()
    pow_relay: str | None = None
    lists: Mapping[Key, Lookup] = {}
    blocked: frozenset[str] = frozenset()
    originals: tuple[str, ...] = ()
    referred: tuple[str, ...] | None = ()
    rank: Mapping[str, float] = {}
    budgets: Budgets = Budgets()

    def look(self, pubkey: str, kind: int) -> Lookup:
        return self.lists.get((pubkey, kind), UNKNOWN)


class Plan(msgspec.Struct, frozen=True):
    """Where an event goes and where not. `unresolved`: whose lists could not be looked up, so
    that more may follow; `refusal`: why it goes nowhere at all, until a person acts."""

    targets: tuple[Target, ...] = ()
    left_out: tuple[LeftOut, ...] = ()
    unresolved: tuple[str, ...] = ()
    refusal: str = ""


def fixed_plan(named: Iterable[str], own: Iterable[str]) -> tuple[Target, ...]:
    """Without lists: the relays that were named, else the owner's own, in the order given."""
    chosen = [(url, NAMED, False) for url in named] or [(url, OWN, True) for url in own]
    if not chosen:
        raise BadSetting("no relay is known: name one for this event or configure your own")
    unique: dict[str, Target] = {}
    for url, reason, mine in chosen:
        clean = normalise_url(url)
        unique.setdefault(clean, Target(clean, reason, mine))
    return tuple(unique.values())


def with_pow_relay(
    targets: tuple[Target, ...], tags: Sequence[Sequence[str]], relay: str | None
) -> tuple[Target, ...]:
    """The targets of this event, with the relay that every mined event goes to (A14)."""
    if relay is None or nonce_tag(tags) is None or any(t.url == relay for t in targets):
        return targets
    return (*targets, Target(relay, MINED))


# -- what must be known first ---------------------------------------------------------------------


def recipients_of(event: Draft | Event) -> tuple[str, ...]:
    """Who is spoken to: everybody tagged but the author. A list speaks to nobody."""
    if event.kind in LISTS:
        return ()
    tagged = [*tag_values(event.tags, "p"), *tag_values(event.tags, "P")]
    people = dict.fromkeys(pubkey for pubkey in tagged if is_hex_name(pubkey))
    people.pop(event.pubkey, None)
    return tuple(people)[:MAX_RECIPIENTS]


def needs(event: Draft | Event) -> tuple[Key, ...]:
    """Whose lists the plan of this event depends on."""
    if event.kind in WRAPS:
        return tuple((pubkey, MESSAGES) for pubkey in _addressees(event))
    wanted: list[Key] = [(event.pubkey, RELAYS), (event.pubkey, BLOCKED)]
    if is_grouped(event):
        return (*wanted, (event.pubkey, GROUPS))
    if event.kind in (DELETION, VANISH) or event.kind in JOINING:
        return tuple(wanted)
    if event.kind in UNFINISHED:
        return (*wanted, (event.pubkey, DRAFTS))
    kind = NUTZAPS if event.kind == NUTZAP else RELAYS
    return (*wanted, *((pubkey, kind) for pubkey in recipients_of(event)))


def hints_of(event: Draft | Event) -> dict[str, tuple[str, ...]]:
    """Where the event says that people are found (NIP-01 p tags): worth asking for their lists."""
    hints: dict[str, tuple[str, ...]] = {}
    for tag in event.tags:
        if tag[0] in ("p", "P") and len(tag) > 2 and is_hex_name(tag[1]):
            hints[tag[1]] = (*hints.get(tag[1], ()), *clean_urls(tag[2:3]))
    return {pubkey: urls for pubkey, urls in hints.items() if urls}


_SPECIAL = frozenset((DELETION, VANISH, NUTZAP, *WRAPS, *JOINING, *WIDE, *UNFINISHED, *ANSWERS))


def kin_of(event: Draft | Event) -> tuple[str, ...] | None:
    """What the plans of most events depend on: their author and whom they speak to. Events of
    the same kin have the same plan; None: this one is like no other."""
    if event.kind in _SPECIAL or any(tag[0] in ("h", "nonce") for tag in event.tags):
        return None
    return (event.pubkey, *recipients_of(event))


def is_grouped(event: Draft | Event) -> bool:
    """Whether it belongs to a NIP-29 group."""
    return tag_value(event.tags, "h") is not None


def _addressees(event: Draft | Event) -> tuple[str, ...]:
    """The recipient of a gift wrap, who may be its sender too."""
    return tuple(p for p in tag_values(event.tags, "p") if is_hex_name(p))[:1]


# -- the plan -------------------------------------------------------------------------------------


def plan(event: Draft | Event, known: Known) -> Plan:
    """Where the event goes by the outbox model."""
    sketch = _Sketch(event, known)
    if event.kind in WRAPS:
        _plan_wrap(event, known, sketch)
    elif is_grouped(event):
        _plan_group(event, known, sketch)
    elif event.kind in UNFINISHED:
        _plan_draft(event, known, sketch)
    elif event.kind in JOINING:
        sketch.refuse("a request to join or leave must name its relay")
    elif event.kind == VANISH and EVERYWHERE not in tag_values(event.tags, "relay"):
        sketch.add(clean_urls(tag_values(event.tags, "relay")), ASKED, stranger=True)
    else:
        _plan_note(event, known, sketch)
    return sketch.finish()


def _plan_wrap(event: Draft | Event, known: Known, sketch: _Sketch) -> None:
    """To the recipient's message relays, or nowhere (D3): anything else would tell on people."""
    people = _addressees(event)
    if not people:
        sketch.refuse("a gift wrap must name its recipient in a p tag")
        return
    found = known.look(people[0], MESSAGES)
    whom = f"{people[0][:8]}…"
    if found.status is Status.NONE or (found.found is not None and not found.found.relays):
        sketch.refuse(f"{whom} has published no message relays (kind 10050): not ready for this")
    elif found.found is None:
        sketch.wait_for(people[0])
    else:
        sketch.inbox(
            {people[0]: found.found.relays},
            f"message relay of {whom}",
            most=known.budgets.messages,
            each=known.budgets.messages,
        )
        if not sketch.targets:
            sketch.refuse(f"no message relay of {whom} may be gone to")


def _plan_group(event: Draft | Event, known: Known, sketch: _Sketch) -> None:
    """To the group's own relay only (NIP-29)."""
    tag = next(tag for tag in event.tags if tag[0] == "h" and len(tag) > 1)
    named = clean_urls(tag[2:3])
    found = known.look(event.pubkey, GROUPS)
    if not named and found.found is not None:
        named = tuple(url for group, url in found.found.groups if group == tag[1])
    if named:
        sketch.add(named[:1], GROUP, stranger=True)
    elif found.status is Status.UNKNOWN:
        sketch.wait_for(event.pubkey)
    else:
        sketch.refuse(f"the relay of group {tag[1]} is not known: name it for this event")


def _plan_draft(event: Draft | Event, known: Known, sketch: _Sketch) -> None:
    """To the author's relays for drafts (NIP-37), else to where all else of theirs is."""
    listed = known.look(event.pubkey, DRAFTS).found
    if listed is not None and listed.relays:
        sketch.add(listed.relays, PRIVATE, mine=True, stranger=True)
    else:
        _plan_note(event, known, sketch)


def _plan_note(event: Draft | Event, known: Known, sketch: _Sketch) -> None:
    """To the author's write relays, and to where each person spoken to reads."""
    author = known.look(event.pubkey, RELAYS)
    sketch.add(known.own, OWN, mine=True)
    if author.found is not None:
        sketch.add(author.found.write, WRITE, mine=True, stranger=True)
    elif author.status is Status.UNKNOWN and (known.indexers or not known.own):
        sketch.wait_for(event.pubkey)
    if event.kind == RELAYS:  # where it was looked for, and where it will be
        sketch.add(_written_in(event), WRITE, mine=True, stranger=True)
    if known.pow_relay is not None and nonce_tag(event.tags) is not None:
        sketch.add((known.pow_relay,), MINED)
    if event.kind in WIDE:
        sketch.add(known.indexers, INDEX)
    if event.kind in (DELETION, VANISH):
        sketch.add(known.originals, ORIGINAL, stranger=True)
        return
    _plan_reference(reference_of(event), known, sketch)
    _plan_inboxes(event, known, sketch)


def _plan_inboxes(event: Draft | Event, known: Known, sketch: _Sketch) -> None:
    """To where each person spoken to reads, within the budget."""
    kind = NUTZAPS if event.kind == NUTZAP else RELAYS
    inboxes: dict[str, tuple[str, ...]] = {}
    for pubkey in recipients_of(event):
        lookup = known.look(pubkey, kind)
        if lookup.found is not None and lookup.found.read:
            inboxes[pubkey] = lookup.found.read
        elif lookup.status is Status.UNKNOWN:
            sketch.wait_for(pubkey)
    if inboxes:
        most, each = known.budgets.fanout, known.budgets.per_author
        sketch.inbox(inboxes, "inbox of", most=most, each=each)


def _plan_reference(reference: Reference | None, known: Known, sketch: _Sketch) -> None:
    """To some of the relays where a repository or a poll wants its answers."""
    if reference is None:
        return
    if known.referred is None:
        sketch.wait_for(reference.pubkey or reference.event_id)
        return
    new = [url for url in known.referred if url not in sketch.targets]
    sketch.add(new[: known.budgets.fanout], REFERRED[reference.kind], stranger=True)
    for url in new[known.budgets.fanout :]:
        sketch.leave_out(url, _WORDS[Why.BUDGET])


def _written_in(event: Draft | Event) -> tuple[str, ...]:
    """The write relays of a relay list that is itself on its way."""
    return parse_list(event.pubkey, RELAYS, event.created_at, event.id, event.tags).write


BLOCKED_BY_OWNER = "you have blocked it (kind 10006)"
_WORDS = {
    Why.BUDGET: "the budget for others' relays is used up",
    Why.ENOUGH_OTHERS: "its readers are reached at other relays",
    Why.BLOCKED: BLOCKED_BY_OWNER,
}


class _Sketch:
    """A plan in the making: each relay once, the first reason counts."""

    def __init__(self, event: Draft | Event, known: Known) -> None:
        self.targets: dict[str, Target] = {}
        self._known = known
        self._left: dict[str, str] = {}
        self._unresolved: dict[str, None] = {}
        self._refusal = ""
        listed = known.look(event.pubkey, RELAYS).found
        self._overrides = frozenset(listed.relays if listed is not None else ())
        self._configured = {*known.own, *known.indexers, known.pow_relay}

    def refuse(self, reason: str) -> None:
        self._refusal = reason

    def leave_out(self, url: str, reason: str) -> None:
        self._left.setdefault(url, reason)

    def wait_for(self, pubkey: str) -> None:
        self._unresolved[pubkey] = None

    def add(
        self, urls: Iterable[str], reason: str, *, mine: bool = False, stranger: bool = False
    ) -> None:
        for url in urls:
            if self._is_blocked(url, mine=mine):
                self._left[url] = BLOCKED_BY_OWNER
            else:
                is_stranger = stranger and url not in self._configured
                self.targets.setdefault(url, Target(url, reason, mine, (), is_stranger))

    def _is_blocked(self, url: str, *, mine: bool) -> bool:
        """D7: a relay of one's own list may be used for oneself though it is blocked."""
        return url in self._known.blocked and not (mine and url in self._overrides)

    def inbox(
        self, inboxes: Mapping[str, tuple[str, ...]], reason: str, *, most: int, each: int
    ) -> None:
        """Share the budget over the recipients; relays that are targets already cost nothing."""
        fanout = share(
            tuple(self.targets),
            {pubkey: self._alive(urls) for pubkey, urls in inboxes.items()},
            blocked=self._known.blocked,
            most=most,
            per_recipient=each,
            health=self._known.rank,
        )
        for url, people in fanout.chosen.items():
            known = self.targets.get(url)
            if known is not None:
                self.targets[url] = msgspec.structs.replace(known, inbox_of=people)
                continue
            whom = ", ".join(f"{pubkey[:8]}…" for pubkey in people[:3])
            more = f" and {len(people) - 3} more" if len(people) > 3 else ""
            words = reason if reason.endswith("…") else f"{reason} {whom}{more}"
            self.targets[url] = Target(url, words, False, people, url not in self._configured)
        for url, left in fanout.left_out.items():
            self.leave_out(url, _WORDS[left.why])

    def _alive(self, urls: tuple[str, ...]) -> tuple[str, ...]:
        """Without relays that are known to be dead, as long as there are others (C10)."""
        dead = {url for url in urls if self._known.rank.get(url, UNKNOWN_HEALTH) <= 0}
        if dead.issuperset(url for url in urls if url not in self._known.blocked):
            return urls
        self._left.update(dict.fromkeys(dead, "it is dead"))
        return tuple(url for url in urls if url not in dead)

    def finish(self) -> Plan:
        targets = tuple(self.targets.values())
        refusal = self._refusal
        if not targets and not refusal and not self._unresolved:
            refusal = "no relay is known for it: name one, or configure your own"
            if self._left:
                url, why = next(iter(self._left.items()))
                refusal = f"no relay for it may be gone to: {url}: {why}"
        left = (LeftOut(url, why) for url, why in self._left.items() if url not in self.targets)
        return Plan(() if refusal else targets, tuple(left), tuple(self._unresolved), refusal)
