"""Where people say at their own domain that they are found, for want of anything better (D6).

Promises: a domain's word counts only for who claims it in a signed profile and whom the domain
confirms; few are asked at once. What comes out is where to look for lists, never where to send.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping

from postrich.model.event import Event
from postrich.route.asking import Asking, newest_of
from postrich.route.nip05 import Nip05
from postrich.rules.nip05 import address_in
from postrich.rules.relay_lists import Lookup, Status

PROFILE = 0
MAX_PEOPLE = 8
_NOT_FOUND = Lookup(Status.NONE)


class Names:
    """People's names at domains (NIP-05), as hints."""

    def __init__(self, asking: Asking, nip05: Nip05) -> None:
        self._asking = asking
        self._nip05 = nip05

    async def hints(self, people: Iterable[str]) -> dict[str, tuple[str, ...]]:
        """The relays that a domain names for each of these people, of whom no list was found."""
        wanted = list(dict.fromkeys(people))[:MAX_PEOPLE]
        profiles = await self._profiles(wanted)
        await asyncio.gather(*(self._confirm(profile) for profile in profiles.values()))
        found = {pubkey: self._nip05.hints(pubkey, _NOT_FOUND) for pubkey in profiles}
        return {pubkey: urls for pubkey, urls in found.items() if urls}

    def served(self, hinted: Mapping[str, object], found: Collection[str]) -> None:
        """Who was found where the hints led; who was not."""
        for pubkey in hinted:
            if pubkey in found:
                self._nip05.hit(pubkey)
            else:
                self._nip05.missed(pubkey)

    async def _profiles(self, people: Collection[str]) -> dict[str, Event]:
        wanted = {"kinds": [PROFILE], "authors": list(people), "limit": 2 * len(people)}
        answers = await self._asking.ask_configured([wanted])

        def whose(event: Event) -> str | None:
            is_meant = event.kind == PROFILE and event.pubkey in people
            return event.pubkey if is_meant else None

        return newest_of(answers.values(), whose)

    async def _confirm(self, profile: Event) -> None:
        """Ask the domain; another's key there means that the name was only claimed."""
        address = address_in(profile.content)
        if address is not None:
            await self._nip05.resolve(address)
