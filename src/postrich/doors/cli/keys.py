"""Keys and passphrases at the command line.

Promises: a secret comes from the environment, a hidden prompt or stdin, never from arguments,
and goes nowhere but into the encrypted key file.
"""

from __future__ import annotations

import getpass
import os
import sys

from postrich.doors.cli.home import Home
from postrich.errors import KeyProblem
from postrich.sign.secret import SecretSigner, find_signer, parse_secret

PASSPHRASE = "POSTRICH_PASSPHRASE"  # noqa: S105 - its name, not itself


def unlock(home: Home) -> SecretSigner:
    """The key that signs here, or `KeyProblem` with what to do."""
    if not (os.environ.get("POSTRICH_NSEC") or home.key_file.is_file()):
        raise KeyProblem(
            f"there is no key in {home.path}: `postrich init` makes one, or set POSTRICH_NSEC"
        )
    if _needs_passphrase(home):
        return parse_secret(home.key_file.read_text("utf-8"), ask_passphrase())
    signer = find_signer(os.environ, home.key_file)
    assert signer is not None
    return signer


def unlock_if_possible(home: Home, *, may_ask: bool) -> SecretSigner | None:
    """The key where it is at hand; None where it is locked and nobody can be asked."""
    if not _needs_passphrase(home):
        return find_signer(os.environ, home.key_file)
    if not (may_ask and sys.stdin.isatty()):
        return None
    answer = _ask("Passphrase of your key (empty: go on without it): ")
    return parse_secret(home.key_file.read_text("utf-8"), answer) if answer else None


def _needs_passphrase(home: Home) -> bool:
    given = os.environ.get("POSTRICH_NSEC") or os.environ.get(PASSPHRASE)
    return not given and home.key_file.is_file()


def ask_passphrase() -> str:
    """The passphrase of a key that is there already."""
    if given := os.environ.get(PASSPHRASE):
        return given
    _check_somebody_is_there()
    return _ask("Passphrase of your key: ")


def new_passphrase() -> str:
    """A passphrase for a new key, asked for twice."""
    if given := os.environ.get(PASSPHRASE):
        return given
    _check_somebody_is_there()
    first = _ask("A passphrase for your key: ")
    if not first:
        raise KeyProblem("the passphrase must not be empty")
    if _ask("The same again: ") != first:
        raise KeyProblem("the two passphrases differ")
    return first


def read_secret() -> str:
    """A secret key from a hidden prompt, or the first line of stdin."""
    if sys.stdin.isatty():
        return _ask("Your secret key (nsec, hex or ncryptsec): ")
    return sys.stdin.readline().strip()


def npub_of(pubkey: str) -> str:
    """A public key as people pass it on."""
    from nostr_sdk import PublicKey

    return str(PublicKey.parse(pubkey).to_bech32())


def note_of(event_id: str) -> str:
    """An event id as people pass it on."""
    from nostr_sdk import EventId

    return str(EventId.parse(event_id).to_bech32())


def _check_somebody_is_there() -> None:
    if not sys.stdin.isatty():
        raise KeyProblem(f"the key is locked: set {PASSPHRASE}, or use a terminal")


def _ask(prompt: str) -> str:
    try:
        return getpass.getpass(prompt, stream=sys.stderr)
    except EOFError:
        raise KeyProblem("no answer came") from None
