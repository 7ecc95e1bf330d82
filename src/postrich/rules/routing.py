"""Which relays must have an event, each with its reason (D10).

So far: the relays that were named for it, else the owner's own.
"""

from __future__ import annotations

from collections.abc import Iterable

from postrich.errors import BadSetting
from postrich.model.delivery import Target
from postrich.rules.trust import normalise_url

NAMED = "named for this event"
OWN = "your relay"


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
