"""A lane's sockets to its relay: an anonymous one, and one per account that must say who it is.

Promises: the anonymous socket never AUTHs; an account AUTHs only on its own socket, only where
the relay demanded it, a signer is at hand and the owner's settings allow it (C3).
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable

from postrich.deliver.shared import Shared
from postrich.errors import SignerError
from postrich.model.delivery import Destination, Flight, Outcome, Verdict
from postrich.model.event import Event
from postrich.rules.session import AuthRequest, Session
from postrich.wire.connection import Connection

MAX_IDENTITIES = 8
CHALLENGE_LOOKS = 100  # half a second


class Links:
    """The sockets by identity; None is the anonymous one."""

    def __init__(
        self,
        shared: Shared,
        destination: Destination,
        on_progress: Callable[[Connection], None],
        may_speak: Callable[[], bool],
    ) -> None:
        self._shared = shared
        self._url = destination.url
        self.trusted = destination.trusted
        self._on_progress = on_progress
        self._may_speak = may_speak
        self._dialling: asyncio.Task[Connection] | None = None
        self._leaving = False
        self.open: dict[str | None, Connection] = {}
        self.identities: set[str] = set()

    @property
    def load(self) -> int:
        """Events that await their outcome, on all sockets."""
        return sum(link.session.load for link in self.open.values())

    def of(self, flight: Flight) -> Connection | None:
        """The socket for an event, if it is open."""
        return self.open.get(self.identity_of(flight))

    def identity_of(self, flight: Flight) -> str | None:
        pubkey = flight.parcel.pubkey
        return pubkey if pubkey in self.identities else None

    async def dial(self, identity: str | None) -> bool:
        """Open a socket; raises what went wrong. False: we leave, and dial no more."""
        if self._leaving:
            return False
        if len(self.open) > MAX_IDENTITIES:
            await self._close_one()
        settings = self._shared.settings
        session = Session(self._url, settings.timeout, identity)
        authenticator = functools.partial(self._authenticate, identity) if identity else None
        self._dialling = asyncio.get_running_loop().create_task(
            Connection.dial(
                session,
                self._on_progress,
                authenticator,
                settings.connect_timeout,
                guard=settings.guard(trusted=self.trusted),
                may_speak=self._may_speak,
            )
        )
        try:
            link = await self._dialling
        except asyncio.CancelledError:
            if self._leaving:
                return False
            raise
        finally:
            self._dialling = None
        self.open[identity] = link
        if identity is not None:
            await self._await_challenge(link)
        return True

    async def _await_challenge(self, link: Connection) -> None:
        """This relay wants AUTH: let it ask for a moment, before it has anything to refuse."""
        for _ in range(CHALLENGE_LOOKS):
            if not link.is_open or link.session.is_challenged:
                return
            await asyncio.sleep(0.005)

    def leave(self) -> None:
        """Give up a dial that is under way, and begin none."""
        self._leaving = True
        if self._dialling is not None:
            self._dialling.cancel()

    def flush(self) -> None:
        for link in self.open.values():
            link.flush()

    def lost(self, link: Connection) -> bool:
        """A socket ended; False where that was known already."""
        known = [identity for identity, found in self.open.items() if found is link]
        for identity in known:
            del self.open[identity]
        return bool(known)

    async def hang_up(self) -> list[Flight]:
        """Close all; what was in flight is simply still due, and no attempt burnt (B8)."""
        links, self.open = self.open, {}
        dropped = [flight for link in links.values() for flight in link.session.abandon()]
        for link in links.values():
            await link.close()
        return dropped

    async def _close_one(self) -> None:
        for identity, link in list(self.open.items()):
            if not link.session.load:
                await self.open.pop(identity).close()
                return

    def authenticate_as(self, flight: Flight) -> bool:
        """The relay demands AUTH for this event: from now on its author has a socket."""
        if not self._may_authenticate(flight):
            return False
        self.identities.add(flight.parcel.pubkey)
        return True

    def recall(self, flight: Flight) -> list[Flight]:
        """Its author's other events on the anonymous socket, which must go where it goes."""
        anonymous = self.open.get(None)
        return anonymous.session.recall(flight.parcel.pubkey) if anonymous is not None else []

    def _may_authenticate(self, flight: Flight) -> bool:
        return flight.parcel.pubkey in self._shared.signers and self._is_allowed(flight)

    def _is_allowed(self, flight: Flight) -> bool:
        """Whether the owner wants this relay to be told who its author is."""
        match self._shared.settings.auth:
            case "never":
                return False
            case "always":
                return True
            case _:  # one's own relays: those of the settings, and of one's own list
                pubkey = flight.parcel.pubkey
                return self.trusted or self._shared.lists_relay(pubkey, self._url)

    def why_not(self, flight: Flight, verdict: Verdict) -> Verdict:
        """What becomes of an event whose author may not or cannot AUTH."""
        code, reason = "auth-required", "your settings forbid it"
        if self._is_allowed(flight):
            code, reason = "signer", f"no key of {flight.parcel.pubkey[:8]}… is at hand"
        return Verdict(Outcome.PARKED, code, f"{verdict.text} — but {reason}")

    async def _authenticate(self, identity: str, request: AuthRequest) -> Event | Verdict:
        try:
            return await self._shared.signers.sign(
                request.draft(identity, self._shared.clock.now())
            )
        except SignerError as problem:  # who is only away may come back, and is told of it
            code = "auth-required" if problem.needs_person else "signer"
            return Verdict(Outcome.PARKED, code, f"AUTH was not signed: {problem}")
