"""Names of the form name@domain (NIP-05), and how little their relay hints are believed (D6).

A domain says which public key a name stands for, and may name relays where that key is found.
That is a stranger's word about a stranger: a hint is good for an hour, only while the person has
no relay list (kind 10002), only for reading, and not at all for a day after it has led nowhere
three times in a row.
"""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import urlsplit

import msgspec

from postrich.errors import BadSetting
from postrich.model.event import is_hex_name
from postrich.rules.relay_lists import Lookup, Status
from postrich.rules.trust import normalise_url

ROOT = "_"
HINT_FOR_MS = 3_600_000
MISSES_ALLOWED = 3
DEMOTED_FOR_MS = 24 * 3_600_000
MAX_DOCUMENT = 1_048_576
MAX_RELAYS = 10

_LOCAL = re.compile(r"[a-z0-9._-]{1,64}")


class Address(msgspec.Struct, frozen=True):
    """A name and the domain that knows it; the name `_` is the domain itself."""

    local: str
    domain: str

    def __str__(self) -> str:
        return self.domain if self.local == ROOT else f"{self.local}@{self.domain}"

    def document(self, scheme: str = "https") -> str:
        """Where the domain says who this is."""
        return f"{scheme}://{self.domain}/.well-known/nostr.json?name={self.local}"


class Identity(msgspec.Struct, frozen=True):
    """Who a name stands for, by its domain's word; `relays` are hints."""

    pubkey: str
    relays: tuple[str, ...] = ()


def is_address(text: str) -> bool:
    """Whether it looks like name@domain, right or wrong."""
    return "@" in text


def parse_address(text: str) -> Address:
    """The address that a person typed, or `BadSetting` with what is wrong."""
    local, _, domain = text.strip().rpartition("@")
    local = local.lower() or ROOT
    if not _LOCAL.fullmatch(local):
        raise BadSetting(
            f"{local[:80]!r} is not a NIP-05 name: it may have a-z, 0-9, - _ and . only"
        )
    try:
        place = urlsplit(normalise_url(f"https://{domain}"))
    except BadSetting:
        place = urlsplit("")
    if not place.netloc or place.path != "/" or place.query or set("/?#@") & set(domain):
        raise BadSetting(f"{domain[:80]!r} is not a domain: a NIP-05 name is name@domain")
    return Address(local, place.netloc)


def address_in(profile: str) -> Address | None:
    """The name that somebody's profile (kind 0) claims; it is true only if its domain agrees."""
    try:
        claimed = msgspec.json.decode(profile)["nip05"]
        return parse_address(claimed)
    except (msgspec.DecodeError, UnicodeError, TypeError, KeyError, AttributeError, BadSetting):
        return None


def read_document(body: bytes, address: Address) -> Identity | str:
    """Whom the document names, or why it names nobody that can be used."""
    try:
        document = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return f"{address.domain} gives no JSON document of names"
    names = document.get("names") if isinstance(document, dict) else None
    if not isinstance(names, dict):
        return f"{address.domain} gives no names"
    pubkey = names.get(address.local)
    if pubkey is None:
        return f"{address.domain} knows nobody of the name {address.local}"
    if not isinstance(pubkey, str) or not is_hex_name(pubkey):
        return f"{address.domain} gives no hex key for {address.local}"
    return Identity(pubkey, _relays(document.get("relays"), pubkey))


def _relays(found: Any, pubkey: str) -> tuple[str, ...]:
    listed = found.get(pubkey) if isinstance(found, dict) else None
    urls: dict[str, None] = {}
    for text in listed if isinstance(listed, list) else ():
        try:
            urls[normalise_url(text)] = None
        except (BadSetting, AttributeError):  # no URL, or not even text
            continue
    return tuple(urls)[:MAX_RELAYS]


# -- how far hints are trusted --------------------------------------------------------------------


class Hint(msgspec.Struct, frozen=True):
    """Relays that a domain named for somebody, and how they have served."""

    relays: tuple[str, ...] = ()
    found_at: int = 0
    misses: int = 0
    demoted_until: int = 0


def on_found(hint: Hint, identity: Identity, now: int) -> Hint:
    """The domain was asked (again); that makes no demotion undone."""
    return msgspec.structs.replace(hint, relays=identity.relays, found_at=now)


def on_hit(hint: Hint) -> Hint:
    """The person was found there."""
    return msgspec.structs.replace(hint, misses=0)


def on_miss(hint: Hint, now: int) -> Hint:
    """Nobody was found there; after the third time in a row it is not used for a day."""
    misses = hint.misses + 1
    if misses < MISSES_ALLOWED:
        return msgspec.structs.replace(hint, misses=misses)
    return msgspec.structs.replace(hint, misses=0, demoted_until=now + DEMOTED_FOR_MS)


def usable(hint: Hint, own_list: Lookup, now: int) -> tuple[str, ...]:
    """The relays to read from on the hint's word; none where the person's own list is known."""
    is_fresh = 0 <= now - hint.found_at < HINT_FOR_MS
    if own_list.status is Status.FOUND or not is_fresh or now < hint.demoted_until:
        return ()
    return hint.relays
