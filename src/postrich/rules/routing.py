"""Which relays must have an event, each with its reason (D10).

So far: the relays that were named for it, else the owner's own; a mined event also goes to the
owner's relay for proof of work.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from postrich.errors import BadSetting
from postrich.model.delivery import Target
from postrich.rules.pow import nonce_tag
from postrich.rules.trust import normalise_url

NAMED = "named for this event"
OWN = "your relay"
MINED = "your relay for proof of work"


def plan(named: Iterable[str], own: Iterable[str]) -> tuple[Target, ...]:
    """The targets of an event: one per relay, in the order given."""
    chosen = [(url, NAMED) for url in named] or [(url, OWN) for url in own]
    if not chosen:
        raise BadSetting("no relay is known: name one for this event or configure your own")
    unique: dict[str, Target] = {}
    for url, reason in chosen:
        clean = normalise_url(url)
        unique.setdefault(clean, Target(clean, reason))
    return tuple(unique.values())


def with_pow_relay(
    targets: tuple[Target, ...], tags: Sequence[Sequence[str]], relay: str | None
) -> tuple[Target, ...]:
    """The targets of this event, with the relay that every mined event goes to (A14)."""
    if relay is None or nonce_tag(tags) is None or any(t.url == relay for t in targets):
        return targets
    return (*targets, Target(relay, MINED))
