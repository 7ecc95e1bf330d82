"""Who calls (F9): the owner by a token, anybody by NIP-98; what each may see, and how often.

Promises: no request is answered for a pubkey that did not sign it, unless an admin or the owner
asks; an authorization counts once; the token is compared in constant time and never logged.
"""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable

import msgspec

from postrich.clock import Clock
from postrich.config import HttpSettings, Tier
from postrich.errors import Forbidden, InvalidEvent, NotAuthorised, TooOften
from postrich.model.event import Event, is_hex_name
from postrich.rules.nip98 import Replays, judge_authorization, read_authorization
from postrich.rules.throttle import Throttle

OWNER = "owner"
#: Who has the token owns the machine: no limits but those of the machine.
OWNERS = Tier(name=OWNER)


class Caller(msgspec.Struct, frozen=True):
    """Who made a request. The owner (by token) has no pubkey of their own."""

    pubkey: str | None
    is_admin: bool
    tier: Tier

    @property
    def name(self) -> str:
        return self.pubkey or OWNER

    @property
    def most(self) -> int | None:
        """So many posts may wait for their hour; the owner's are not even counted."""
        return None if self.pubkey is None else self.tier.pending

    def scope(self, asked: str | None) -> str | None:
        """Whose things a request is about: `asked`, if this caller may; None: everybody's."""
        if asked is not None:
            check_pubkey(asked)
        if self.is_admin:
            return asked
        if asked is not None and asked != self.pubkey:
            raise Forbidden("a pubkey may only see and change its own posts")
        return self.pubkey

    def author(self, asked: str | None = None) -> str:
        """The one pubkey that a request is about."""
        found = self.scope(asked) or self.pubkey
        if found is None:
            raise InvalidEvent("say which pubkey is meant")
        return found

    def check_author(self, pubkey: str) -> None:
        """Refuse to take somebody's event from somebody else."""
        if not self.is_admin and pubkey != self.pubkey:
            raise Forbidden("the event's author is not who signed this request")


def check_pubkey(text: str) -> str:
    """A pubkey of 64 hex digits (F2)."""
    if not is_hex_name(text):
        raise InvalidEvent("Invalid pubkey format: it must be 64 lower-case hex digits")
    return text


class Reception:
    """Tells who calls. One per server: it remembers used authorizations and who came how often."""

    def __init__(
        self,
        settings: HttpSettings,
        clock: Clock,
        token: str,
        is_genuine: Callable[[Event], Awaitable[bool]],
        is_ours: Callable[[str], bool],
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._is_genuine = is_genuine
        self._is_ours = is_ours
        self._token = token.encode()
        self._replays = Replays()
        tiers = (settings.everybody, *settings.tiers.values())
        names = ("", *settings.tiers)
        self._throttles = {
            name: Throttle(tier.rate, tier.burst) for name, tier in zip(names, tiers, strict=True)
        }

    async def identify(
        self, authorization: str | None, method: str, url: str, body: bytes
    ) -> Caller:
        """The caller of a request, or `NotAuthorised`, `TooOften`."""
        if authorization and authorization[:7].lower() == "bearer ":
            caller = self._by_token(authorization[7:].strip())
        else:
            caller = await self._by_event(authorization, method, url, body)
        self.spend(caller)
        return caller

    def _by_token(self, token: str) -> Caller:
        if not self._token or not hmac.compare_digest(token.encode(), self._token):
            raise NotAuthorised("the token is not this server's")
        return Caller(None, True, OWNERS)

    async def _by_event(self, header: str | None, method: str, url: str, body: bytes) -> Caller:
        event = read_authorization(header)
        now = self._clock.now() // 1000
        judge_authorization(event, method, url, body, now)
        if not await self._is_genuine(event):
            raise NotAuthorised("the authorization's signature is not its author's")
        self._replays.use(event, now)
        self._check_personal(event.pubkey)
        tier = self._settings.tier_of(event.pubkey)
        return Caller(event.pubkey, event.pubkey in self._settings.admins, tier)

    def _check_personal(self, pubkey: str) -> None:
        """A personal service is its owner's: of keys, only those of accounts here count."""
        settings = self._settings
        if not (settings.is_hosted or pubkey in settings.admins or self._is_ours(pubkey)):
            raise Forbidden(
                "this service is personal: use its token, or sign with an account that it has;"
                " with http.public_url it serves others"
            )

    def spend(self, caller: Caller, cost: float = 1.0) -> None:
        """Count a request; `cost`: as many as it stands for."""
        if caller.pubkey is None:
            return
        throttle = self._throttles[caller.tier.name]
        wait = throttle.take(caller.name, self._clock.tick(), cost)
        if wait > 0:
            raise TooOften("too many requests by this pubkey", wait)
