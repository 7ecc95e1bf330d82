"""NIP-46 without the network: addresses, requests and answers, and how often one may ask.

Never holds a key. Error texts of bunkers are free prose: the table here reads them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any
from urllib.parse import SplitResult, parse_qs, quote, urlencode, urlsplit

import coincurve
import msgspec

from postrich.errors import (
    BadSetting,
    SignerError,
    SignerRejected,
    SignerUnavailable,
    UnknownClient,
)
from postrich.model.event import is_hex_name
from postrich.rules.redact import redact
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


class BunkerAddress(msgspec.Struct, frozen=True):
    """Where a bunker listens, and the word that lets us in the first time."""

    remote: str
    relays: tuple[str, ...]
    secret: str = ""


def parse_bunker_uri(text: str) -> BunkerAddress:
    """A `bunker://` address, or `BadSetting` that says what is wrong without repeating it."""
    parts = _split(text.strip())
    if parts.scheme != "bunker":
        raise BadSetting("a bunker's address begins with bunker://")
    remote = parts.netloc.lower()
    if not _is_key(remote):
        raise BadSetting("a bunker's address must name its key as 64 hex characters")
    query = parse_qs(parts.query)
    try:
        relays = _distinct(query.get("relay", ()))
    except BadSetting:  # whose text quotes the URL, into which the secret may have slipped
        raise BadSetting("the bunker's address names a relay that has no usable URL") from None
    if not relays:
        raise BadSetting("the bunker's address names no relay to meet at")
    return BunkerAddress(remote, relays, query.get("secret", [""])[0])


def _split(text: str) -> SplitResult:
    try:
        text.encode()  # what cannot be written cannot be sent to a bunker either
        return urlsplit(text)
    except ValueError:
        raise BadSetting("a bunker's address has the form bunker://key?relay=…") from None


def _is_key(text: str) -> bool:
    try:
        coincurve.PublicKeyXOnly(bytes.fromhex(text))
    except ValueError:
        return False
    return is_hex_name(text)


def _distinct(urls: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(map(normalise_url, urls)))[:MAX_RELAYS]


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
        is_page = self.error[:8].lower().startswith(("https://", "http://"))
        return self.error if is_page and self.is_challenge and self.error.isprintable() else ""

    @property
    def is_challenge(self) -> bool:
        """The answer itself comes later, once a person has approved."""
        return self.result == "auth_url"


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
        return _distinct(msgspec.json.decode(result, type=list[str]))
    except (msgspec.DecodeError, UnicodeError, BadSetting):
        return ()


def _words(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE | re.VERBOSE)


#: Read from the top. "Permission denied" is what some say to a client that they forgot.
_READINGS: tuple[tuple[re.Pattern[str], type[SignerError], str], ...] = (
    (
        _words(r"conn(ection[ ])?refused | context[ ]cancell?ed | shared[ ]secret"),
        SignerUnavailable,
        "the bunker could not sign",
    ),
    (
        _words(
            r"""\buser\b.{0,9}\b(reject|den|declin|refus|cancel)
            | (reject|deni|declin|refus|cancell?)ed[ ]by"""
        ),
        SignerRejected,
        "the bunker said no",
    ),
    (
        _words(
            r"""(un|not[ _])authori[sz]ed | permission | not[ ]connected | connect[ ]first
            | (unknown|no[ ]such)[ ](client|app|session|connection)
            | (client|app|session|connection)[ ]not[ ]found"""
        ),
        UnknownClient,
        "the bunker does not know this client",
    ),
    (
        _words(
            r"""reject | den(y|ied) | declin | refus | cancel | forbid | disallow
            | not[ ](allowed|permitted|approved|match) | already[ ]connected
            | secret | (invalid|expired)[ ]token | token[ ](not|already|expired)
            | (unknown|unrecogni[sz]ed|unsupported|invalid)[ ]method | not[ _]supported"""
        ),
        SignerRejected,
        "the bunker said no",
    ),
)


def error_of(text: str) -> SignerError:
    """What a bunker's error means: it does not know us, a person said no, or it is in trouble."""
    for words, error, meaning in _READINGS:
        if words.search(text):
            return error(f"{meaning}: {redact(text)}")
    return SignerUnavailable(f"the bunker could not sign: {redact(text)}")


_TOO_FAST = _words(r"rate.?limit | too[ ]many")


def is_rate_limit(text: str) -> bool:
    """Whether a bunker's error says that we ask too fast."""
    return _TOO_FAST.search(text) is not None


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


def may_ask_again(asks: int, last: float, now: float, *, was_lost: bool, challenged: bool) -> bool:
    """Whether to send a request anew that was not answered yet.

    A bunker that was away never got it. One that shows it to a person must not be pestered.
    """
    if asks == 0 or was_lost:
        return True
    if challenged:
        return now - last >= APPROVAL
    return bool(now - last >= ASK_AGAIN * 2 ** min(asks - 1, 10))
