"""Asking domains who a name is (NIP-05), and remembering what they said (D6).

Promises: only over HTTPS, never after a redirect, never inside our own networks, within five
seconds and a megabyte. Trouble is a value. What is found serves for reading alone: nothing here
is ever asked where an event goes.
"""

from __future__ import annotations

import logging
from urllib.parse import urlsplit

import msgspec

from postrich.clock import Clock
from postrich.config import Settings
from postrich.rules import nip05
from postrich.rules.nip05 import Address, Hint, Identity
from postrich.rules.redact import redact
from postrich.rules.relay_lists import Lookup
from postrich.rules.replies import Fault
from postrich.wire.http import HttpAnswer, exchange

log = logging.getLogger("postrich.route")

TIMEOUT = 5.0
MAX_REMEMBERED = 10_000
SCHEME = "https"


class Resolution(msgspec.Struct, frozen=True):
    """Who an address stands for, or why that is not known."""

    address: Address
    identity: Identity | None = None
    trouble: str = ""


class Nip05:
    """What domains said of names. `scheme`: tests have no certificates."""

    def __init__(self, settings: Settings, clock: Clock, scheme: str | None = None) -> None:
        self._guard = settings.guard(trusted=False)
        self._clock = clock
        self._scheme = scheme or SCHEME
        self._known: dict[Address, tuple[int, Resolution]] = {}
        self._hints: dict[str, Hint] = {}

    async def resolve(self, address: Address, *, refresh: bool = False) -> Resolution:
        """Who this is, from memory for an hour; a failure is not remembered."""
        now = self._clock.now()
        at, known = self._known.get(address, (0, None))
        if known is not None and not refresh and 0 <= now - at < nip05.HINT_FOR_MS:
            return known
        found = await self._fetch(address)
        if found.identity is not None:
            self._remember(found.identity, found, now)
        return found

    def _remember(self, identity: Identity, found: Resolution, now: int) -> None:
        former = self._hints.pop(identity.pubkey, Hint())
        self._hints[identity.pubkey] = nip05.on_found(former, identity, now)
        self._known.pop(found.address, None)
        self._known[found.address] = (now, found)
        if len(self._known) > MAX_REMEMBERED:
            del self._known[next(iter(self._known))]
        if len(self._hints) > MAX_REMEMBERED:
            del self._hints[next(iter(self._hints))]

    # -- hints -------------------------------------------------------------------------------

    def hints(self, pubkey: str, own_list: Lookup) -> tuple[str, ...]:
        """Where to read of somebody who has no relay list; never where to write."""
        hint = self._hints.get(pubkey)
        return () if hint is None else nip05.usable(hint, own_list, self._clock.now())

    def hit(self, pubkey: str) -> None:
        """The hint was true: the person was found there."""
        if pubkey in self._hints:
            self._hints[pubkey] = nip05.on_hit(self._hints[pubkey])

    def missed(self, pubkey: str) -> None:
        """The hint led nowhere."""
        if pubkey in self._hints:
            self._hints[pubkey] = nip05.on_miss(self._hints[pubkey], self._clock.now())

    # -- asking ------------------------------------------------------------------------------

    async def _fetch(self, address: Address) -> Resolution:
        url = address.document(self._scheme)
        answer = await exchange(url, guard=self._guard, within=TIMEOUT, read=nip05.MAX_DOCUMENT)
        if isinstance(answer, Fault):
            said = redact(answer.text)
            log.debug("%s: not resolved: %s", address, said)
            return Resolution(address, trouble=f"{address.domain} could not be asked: {said}")
        found = _understood(answer, urlsplit(url).netloc, address)
        if isinstance(found, Identity):
            return Resolution(address, found)
        return Resolution(address, trouble=found)


def _understood(answer: HttpAnswer, host: str, address: Address) -> Identity | str:
    """Who it is, or why that is not known."""
    if 300 <= answer.status < 400:
        return f"{host} sends elsewhere, which NIP-05 forbids"
    if answer.status != 200:
        return f"{host} answered {answer.status} instead of a document"
    if answer.body is None:
        return f"{host} sent more than {nip05.MAX_DOCUMENT:,} bytes"
    return nip05.read_document(answer.body, address)
