"""People as one names them: an account of this home, npub1…, nprofile1…, a hex key, name@domain.

Promises: opens no key. A name@domain is asked of its domain (NIP-05); what that says besides is
a hint, and kept apart.
"""

from __future__ import annotations

from dataclasses import dataclass

from postrich.clock import SystemClock
from postrich.config import Settings
from postrich.doors.cli.home import Home
from postrich.doors.cli.keys import NSEC, npub_of
from postrich.doors.cli.outset import misuse
from postrich.doors.cli.roster import known_accounts
from postrich.doors.cli.showing import doing
from postrich.doors.cli.words import plain
from postrich.errors import BadSetting, CallerError, KeyProblem
from postrich.route.nip05 import Nip05
from postrich.rules.nip05 import is_address, parse_address
from postrich.sign.accounts import Account


@dataclass(frozen=True)
class Person:
    """Somebody. `called`: as one says it here; `hints`: relays that a stranger named for them."""

    pubkey: str
    called: str
    account: Account | None = None
    hints: tuple[str, ...] = ()


def default_account(home: Home) -> Account:
    """Who posts when none is named, or `KeyProblem` with what to do."""
    accounts = known_accounts(home)
    if not accounts:
        raise KeyProblem(
            f"there is no account in {home.path}: `postrich init` makes one, "
            f"`postrich account connect` uses your bunker's, or set {NSEC}"
        )
    return accounts[0]


async def find_person(home: Home, settings: Settings, text: str) -> Person:
    """Who is meant; asks a domain where the name is one of its own."""
    if is_address(text):
        return await _at_domain(settings, text)
    return known_person(home, text)


def known_person(home: Home, text: str) -> Person:
    """Who is meant, without asking anybody."""
    wanted = text.strip().removeprefix("nostr:")
    accounts = known_accounts(home)
    for account in accounts:
        if account.name and account.name == wanted:
            return Person(account.pubkey, plain(account.name), account)
    pubkey, hints = _keys_in(wanted)
    if not pubkey:
        raise CallerError(
            f"nobody is known as {plain(text)[:80]!r}: give an npub, a hex key, name@domain, "
            "or an account's name (`postrich account list` shows them)"
        )
    own = next((known for known in accounts if known.pubkey == pubkey), None)
    called = plain(own.name) if own is not None else ""
    return Person(pubkey, called or short_npub(pubkey), own, hints)


def short_npub(pubkey: str) -> str:
    """Enough of an npub to tell people apart."""
    return f"{npub_of(pubkey)[:12]}…"


def _keys_in(text: str) -> tuple[str, tuple[str, ...]]:
    """The public key in a text, and the relays that came along with it; "" where there is none."""
    from nostr_sdk import Nip19Profile, NostrSdkError, PublicKey

    if text.startswith("nsec1"):
        raise KeyProblem("that is a secret key: it must never be typed here; give the npub")
    try:
        if text.startswith("nprofile1"):
            profile = Nip19Profile.from_bech32(text)
            relays = tuple(str(url) for url in profile.relays())
            return str(profile.public_key().to_hex()), relays
        if text.startswith("npub1") or len(text) == 64:
            return str(PublicKey.parse(text).to_hex()), ()
    except NostrSdkError:
        return "", ()
    return "", ()


async def _at_domain(settings: Settings, text: str) -> Person:
    try:
        address = parse_address(text)
    except BadSetting as problem:
        raise misuse(str(problem)) from None
    with doing(f"asking {address.domain} who that is"):
        found = await Nip05(settings, SystemClock()).resolve(address)
    if found.identity is None:
        raise CallerError(f"{plain(found.trouble)}; give an npub instead")
    return Person(found.identity.pubkey, str(address), None, found.identity.relays)
