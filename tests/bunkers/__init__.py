"""Bunkers (NIP-46 signers) for tests: real ones as processes, and a scripted one for faults.

`snstr_bunker` and `ndk_bunker` launch signers nobody here wrote; `scripted.ScriptedBunker` plays
what they will not show on demand. Nothing in this package may import the code under test.
"""

import os
from collections.abc import Iterable, Mapping
from typing import Literal

from tests.bunkers.process import BunkerError, BunkerProcess, Request

__all__ = ["BunkerError", "BunkerProcess", "Request", "ndk_bunker", "snstr_bunker"]


def snstr_bunker(
    relays: Iterable[str],
    *,
    user: str | None = None,
    signer: str | None = None,
    secret: str | None = None,
    refuse: Iterable[str] = (),
    delays: Mapping[str, float] | None = None,
    make: Literal["simple", "full"] = "simple",
    auth_url: str | None = None,
    burst: int | None = None,
) -> BunkerProcess:
    """snstr's signer (about 0.7 s to start); forgets its clients when it ends.

    Keys are 64 hex characters, made up where not given; the same keys and secret have the same
    URI. `secret` needs 8 characters. `delays` holds answers back, in seconds by method. `refuse`
    names what needs a permission: `sign_event`, `nip44_encrypt` and its like. Only the full make
    knows `auth_url` and `burst`, the requests it takes from a client in ten seconds.
    """
    config = {
        "relays": list(relays),
        "user": user or new_key(),
        "signer": signer or new_key(),
        "secret": secret,
        "refuse": list(refuse),
        "delays": dict(delays or {}),
        "make": make,
        "auth_url": auth_url,
        "burst": burst,
    }
    return BunkerProcess("snstr_bunker.cjs", config)


def ndk_bunker(
    relays: Iterable[str],
    *,
    user: str | None = None,
    secret: str | None = None,
    refuse: Iterable[str] = (),
    delays: Mapping[str, float] | None = None,
    known: Iterable[str] | None = None,
    auth_url: str | None = None,
) -> BunkerProcess:
    """NDK's signer (about 0.9 s to start), whose own key is the user's key.

    Serves every client, known or not; with `known`, only those public keys and whoever connects
    with the secret. With `auth_url` a client is first sent there, until `approve` is called.
    `refuse` may name any method but `get_public_key`. It adds tags to what it signs: see
    test_partners.
    """
    config = {
        "relays": list(relays),
        "user": user or new_key(),
        "secret": secret,
        "refuse": list(refuse),
        "delays": dict(delays or {}),
        "known": None if known is None else list(known),
        "auth_url": auth_url,
    }
    return BunkerProcess("ndk_bunker.mjs", config)


def new_key() -> str:
    """A secret key in hex."""
    return os.urandom(32).hex()
