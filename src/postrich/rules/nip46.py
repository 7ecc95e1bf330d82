"""NIP-46 without the network: addresses, requests and answers, and how often one may ask.

Never holds a key. Error texts of bunkers are free prose: the table here reads them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any
from urllib.parse import parse_qs, quote, urlencode, urlsplit

import msgspec

from postrich.errors import (
    BadSetting,
    SignerError,
    SignerRejected,
    SignerUnavailable,
    UnknownClient,
)
from postrich.rules.trust import normalise_url

KIND = 24133
#: What we ask leave for; a bunker may grant less.
PERMISSIONS = "sign_event,get_public_key,ping,switch_relays"
MAX_RELAYS = 5
#: Relays throttle bursts of these events: so far apart, and so long a pause once they complain.
SPACING = 0.4
COOL_DOWN = (2.0, 30.0)
#: The same signature is asked for again after that long, then after twice that long, and so on.
ASK_AGAIN = 20.0
#: A person who was shown a page to approve at is given that long before we ask anew.
APPROVAL = 600.0

_HEX = re.compile(r"[0-9a-f]{64}")


class BunkerAddress(msgspec.Struct, frozen=True):
    """Where a bunker listens, and the word that lets us in the first time."""

    remote: str
    relays: tuple[str, ...]
    secret: str = ""


def parse_bunker_uri(text: str) -> BunkerAddress:
    """A `bunker://` address, or `BadSetting` that says what is wrong without repeating it."""
    parts = urlsplit(text.strip())
    if parts.scheme != "bunker":
        raise BadSetting("a bunker's address begins with bunker://")
    remote = parts.netloc.lower()
    if not _HEX.fullmatch(remote):
        raise BadSetting("a bunker's address must name its key as 64 hex characters")
    query = parse_qs(parts.query)
    relays = tuple(dict.fromkeys(normalise_url(url) for url in query.get("relay", ())))
    if not relays:
        raise BadSetting("the bunker's address names no relay to meet at")
    return BunkerAddress(remote, relays[:MAX_RELAYS], query.get("secret", [""])[0])


def connect_uri(client: str, relays: Sequence[str], secret: str, name: str) -> str:
    """The `nostrconnect://` invitation that a signer scans."""
    asked = [("relay", url) for url in relays]
    asked += [("secret", secret), ("perms", PERMISSIONS), ("name", name)]
    return f"nostrconnect://{client}?{urlencode(asked, quote_via=quote)}"


def request_text(name: str, method: str, params: Sequence[str]) -> str:
    """A request, ready to be encrypted."""
    return msgspec.json.encode({"id": name, "method": method, "params": params}).decode()


class Response(msgspec.Struct, frozen=True):
    """What a bunker answered to the request `id`."""

    id: str
    result: str = ""
    error: str = ""

    @property
    def challenge(self) -> str:
        """The page at which a person must approve first; empty where it is no such answer."""
        is_one = self.result == "auth_url" and self.error.startswith(("https://", "http://"))
        return self.error if is_one and self.error.isprintable() else ""


def parse_response(text: str) -> Response | None:
    """An answer, or None for what is none (bunkers also send requests, and relays send junk)."""
    try:
        fields = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None
    if not isinstance(fields, dict) or not isinstance(fields.get("id"), str):
        return None
    if "result" not in fields and "error" not in fields:
        return None
    return Response(fields["id"], _text(fields.get("result")), _text(fields.get("error")))


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return "" if value is None else msgspec.json.encode(value).decode()


def relays_of(result: str) -> tuple[str, ...]:
    """The relays that a bunker wants to move to; empty where it stays."""
    try:
        found = msgspec.json.decode(result, type=list[str])
        return tuple(dict.fromkeys(normalise_url(url) for url in found))[:MAX_RELAYS]
    except (msgspec.DecodeError, UnicodeError, BadSetting):
        return ()


_UNKNOWN_CLIENT = re.compile(
    r"not connected|unknown (client|app|session)|no (such )?(session|connection|client)"
    r"|connect first|unauthori[sz]ed|not authori[sz]ed",
    re.IGNORECASE,
)
_REJECTED = re.compile(
    r"reject|den(y|ied)|declin|refus|cancel|forbid|disallow|not (allowed|permitted|approved)"
    r"|permission|secret|unsupported|not supported|unknown method|invalid method",
    re.IGNORECASE,
)


def error_of(text: str) -> SignerError:
    """What a bunker's error means: it does not know us, a person said no, or it is in trouble."""
    if _UNKNOWN_CLIENT.search(text):
        return UnknownClient(f"the bunker does not know this client: {text}")
    if _REJECTED.search(text):
        return SignerRejected(f"the bunker said no: {text}")
    return SignerUnavailable(f"the bunker could not sign: {text}")


class Pace:
    """When the next request may go out."""

    def __init__(self) -> None:
        self._next = 0.0
        self._cool_down = 0.0

    def reserve(self, now: float) -> float:
        """Take the next free moment; returns how long to wait for it."""
        at = max(now, self._next)
        self._next = at + SPACING
        return at - now

    def on_rate_limit(self, now: float) -> None:
        """A relay complained: pause, twice as long each time."""
        shortest, longest = COOL_DOWN
        self._cool_down = min(longest, max(shortest, 2 * self._cool_down))
        self._next = max(self._next, now + self._cool_down)

    def on_answer(self) -> None:
        self._cool_down = 0.0


def may_ask_again(asks: int, last: float, now: float, *, was_away: bool, challenged: bool) -> bool:
    """Whether to send a request anew that was not answered yet.

    A bunker that was away never got it. One that shows it to a person must not be pestered.
    """
    if asks == 0 or was_away:
        return True
    if challenged:
        return now - last >= APPROVAL
    return bool(now - last >= ASK_AGAIN * 2 ** min(asks - 1, 10))
