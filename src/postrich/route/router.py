"""The router: gathers what a plan needs to know, and lets the rules make it.

Promises: a plan for an event whose lists are remembered is made at once; otherwise the lists
are looked for, within seconds. Decides nothing itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from postrich.clock import Clock
from postrich.config import Settings
from postrich.model.delivery import Target
from postrich.model.event import Draft, Event
from postrich.route.references import References
from postrich.route.relay_lists import RelayLists
from postrich.rules.health import rank_of
from postrich.rules.precedence import cancellation_of
from postrich.rules.references import reference_of
from postrich.rules.relay_lists import BLOCKED, RELAYS, UNKNOWN, Lookup
from postrich.rules.routing import (
    Key,
    Known,
    Plan,
    hints_of,
    kin_of,
    needs,
    plan,
)
from postrich.sign.signer import Signers
from postrich.store.port import Store

RANK_FOR = 30.0
PLANS_FOR_MS = 10_000
MANY_PLANS = 10_000


class Router:
    """Plans for events, by the outbox model."""

    def __init__(
        self, settings: Settings, lists: RelayLists, store: Store, signers: Signers, clock: Clock
    ) -> None:
        self.lists = lists
        #: Whose blocked relays count for every event, besides those of the signers at hand.
        self.owners: frozenset[str] = frozenset()
        self._settings = settings
        self._store = store
        self._signers = signers
        self._clock = clock
        self._references = References(lists.asking, clock)
        self._rank: dict[str, float] = {}
        self._ranked_at = float("-inf")
        self._plans: dict[tuple[str, ...], Plan] = {}
        self._routes: dict[tuple[Target, ...], tuple[Target, ...]] = {}
        self._planned_at = -PLANS_FOR_MS

    def plan_now(self, event: Draft | Event) -> Plan | None:
        """The plan, if everything is known that it needs."""
        kin = kin_of(event)
        if kin is not None and 0 <= self._clock.now() - self._planned_at < PLANS_FOR_MS:
            known = self._plans.get(kin)
            if known is not None:
                return known
        if cancellation_of(event) is not None or reference_of(event) is not None:
            return None  # what it takes back or answers must be looked for
        found = self.lists.remembered(self._needs(event))
        if found is None:
            return None
        made = plan(event, self._known(found, ()))
        return made if kin is None else self._remember(kin, made)

    def _remember(self, kin: tuple[str, ...], made: Plan) -> Plan:
        """One plan serves thousands, for a while. Equal targets are made the very same: what
        has the same targets is stored and sent together."""
        now = self._clock.now()
        is_old = not 0 <= now - self._planned_at < PLANS_FOR_MS
        if is_old or len(self._plans) >= MANY_PLANS:
            self._plans, self._routes = {}, {}
            self._planned_at = now
        targets = self._routes.setdefault(made.targets, made.targets)
        made = self._plans[kin] = msgspec.structs.replace(made, targets=targets)
        return made

    async def close(self) -> None:
        await self._references.close()

    def forget(self) -> None:
        """Some list changed."""
        self._plans = {}

    async def plan(self, event: Draft | Event) -> Plan:
        """The plan, with lists looked for where they are not known."""
        found = await self.lists.find(self._needs(event), hints_of(event))
        request = cancellation_of(event)
        originals = await self._store.where_sent(request) if request is not None else ()
        referred = await self._referred(event, found)
        await self._refresh_rank()
        return plan(event, self._known(found, originals, referred))

    async def _referred(
        self, event: Draft | Event, found: Mapping[Key, Lookup]
    ) -> Sequence[str] | None:
        reference = reference_of(event)
        if reference is None:
            return ()
        theirs = found.get((reference.pubkey, RELAYS), UNKNOWN).found
        return await self._references.find(reference, theirs.write if theirs is not None else ())

    async def plan_meanwhile(self, event: Draft | Event) -> Plan:
        """The plan by what is known now, however old; it asks nobody."""
        known = await self.lists.recall(self._needs(event))
        found = {key: seen.lookup for key, seen in known.items()}
        return plan(event, self._known(found, (), None))

    def _needs(self, event: Draft | Event) -> tuple[Key, ...]:
        owners = self.owners | {signer.pubkey for signer in self._signers}
        return (*needs(event), *((pubkey, BLOCKED) for pubkey in sorted(owners)))

    def _known(
        self,
        found: dict[Key, Lookup],
        originals: Sequence[str],
        referred: Sequence[str] | None = (),
    ) -> Known:
        settings = self._settings
        blocked = {
            url
            for (_, kind), lookup in found.items()
            if kind == BLOCKED and lookup.found is not None
            for url in lookup.found.relays
        }
        return Known(
            own=settings.relays,
            indexers=settings.indexers or (),
            pow_relay=settings.pow_relay,
            lists=found,
            blocked=frozenset(blocked),
            originals=tuple(originals),
            referred=None if referred is None else tuple(referred),
            rank=self._rank,
            budgets=settings.budgets,
        )

    async def _refresh_rank(self) -> None:
        tick = self._clock.tick()
        if tick - self._ranked_at >= RANK_FOR:
            self._ranked_at = tick
            now = self._clock.now()
            self._rank = {h.url: rank_of(h, now) for h in await self._store.health()}
