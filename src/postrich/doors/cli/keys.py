"""Keys and passphrases at the command line.

Promises: a secret comes from the environment, a file of its owner's, a hidden prompt or stdin,
never from arguments, and is never repeated. A wrong passphrase is asked for again at a
terminal; from elsewhere it is an error that names its source.
"""

from __future__ import annotations

import getpass
import os
import stat
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from postrich.errors import KeyProblem
from postrich.sign.accounts import Account
from postrich.sign.secret import SecretSigner, parse_secret

NSEC = "POSTRICH_NSEC"
PASSPHRASE = "POSTRICH_PASSPHRASE"  # noqa: S105 - its name, not itself
PASSPHRASE_FILE = "POSTRICH_PASSPHRASE_FILE"  # noqa: S105
TRIES = 3
OTHERS = stat.S_IRWXG | stat.S_IRWXO

#: What a passphrase is tried on; `KeyProblem` where it is not the right one.
Lock = Callable[[str], SecretSigner]


class Locked(KeyProblem):
    """The key is there, but cannot be opened now: its drafts wait."""


@dataclass(frozen=True)
class Passphrase:
    """A passphrase that was given beforehand, and where."""

    text: str = field(repr=False)
    source: str


# -- passphrases -------------------------------------------------------------------------------


def given_passphrase() -> Passphrase | None:
    """The passphrase of the environment, or of the file that it names."""
    if text := os.environ.get(PASSPHRASE):
        return Passphrase(text, PASSPHRASE)
    if name := os.environ.get(PASSPHRASE_FILE):
        return Passphrase(_first_line(Path(name).expanduser()), PASSPHRASE_FILE)
    return None


def _first_line(path: Path) -> str:
    try:
        with path.open("rb") as file:
            is_open = os.fstat(file.fileno()).st_mode & OTHERS and not _is_credential(path)
            line = file.readline().decode("utf-8").rstrip("\r\n")
    except OSError as problem:
        raise _bad_file(path, f"which cannot be read ({problem.strerror})") from None
    except UnicodeDecodeError:
        raise _bad_file(path, "which is not UTF-8") from None
    if is_open:
        raise _bad_file(path, f"which others can read; run `chmod 600 {path}`")
    if not line:
        raise _bad_file(path, "whose first line is empty")
    return line


def _bad_file(path: Path, why: str) -> KeyProblem:
    return KeyProblem(f"{PASSPHRASE_FILE} names {path}, {why}")


def _is_credential(path: Path) -> bool:
    """systemd guards its credentials by an access list, which looks like a group that may read."""
    folder = os.environ.get("CREDENTIALS_DIRECTORY")
    return bool(folder) and path.absolute().is_relative_to(Path(folder or "").absolute())


def unlock(lock: Lock, whose: str, *, may_ask: bool = True) -> SecretSigner:
    """Open it by the passphrase given beforehand, or by a person's; `Locked` without either."""
    given = given_passphrase()
    if given is not None:
        try:
            return lock(given.text)
        except KeyProblem as problem:
            raise KeyProblem(f"{problem}: {given.source} does not open {whose}") from None
    if not (may_ask and somebody_is_there()):
        raise Locked(f"{whose} is locked: set {PASSPHRASE} or {PASSPHRASE_FILE}, or use a terminal")
    opened = ask_until_right(lock, f"Passphrase of {whose}: ")
    if opened is None:
        raise KeyProblem("no passphrase came")
    return opened


def ask_until_right(lock: Lock, prompt: str) -> SecretSigner | None:
    """A person has three tries; an empty answer is none."""
    for tries_left in reversed(range(TRIES)):
        answer = ask(prompt)
        if not answer:
            return None
        try:
            return lock(answer)
        except KeyProblem as problem:
            if not tries_left:
                raise
            sys.stderr.write(f"postrich: {problem}: try again\n")
    return None


def new_passphrase() -> str:
    """A passphrase for a new key, asked for twice."""
    given = given_passphrase()
    if given is not None:
        return given.text
    if not somebody_is_there():
        raise KeyProblem(
            f"the key needs a passphrase: set {PASSPHRASE} or {PASSPHRASE_FILE}, "
            "use a terminal, or give it to the keyring with --keyring"
        )
    first = ask("A passphrase for your key: ")
    if not first:
        raise KeyProblem("the passphrase must not be empty")
    if ask("The same again: ") != first:
        raise KeyProblem("the two passphrases differ")
    return first


# -- keys --------------------------------------------------------------------------------------


def environment_signer(*, may_ask: bool = True) -> SecretSigner | None:
    """The account of the environment, which comes before all others in this process."""
    text = os.environ.get(NSEC, "").strip()
    if not text:
        return None
    if text.startswith("ncryptsec1"):
        check_encrypted(text, NSEC)
        lock = partial(parse_secret, text)
        return unlock(lock, f"the key in {NSEC}", may_ask=may_ask)
    try:
        return parse_secret(text)
    except KeyProblem as problem:
        raise KeyProblem(f"{NSEC}: {problem}") from None


def environment_pubkey() -> str | None:
    """Whose key the environment holds, where that can be seen without a passphrase."""
    text = os.environ.get(NSEC, "").strip()
    try:
        return parse_secret(text).pubkey
    except KeyProblem:
        return None


def check_encrypted(text: str, where: str) -> None:
    """Refuse what no passphrase can open."""
    from nostr_sdk import EncryptedSecretKey, NostrSdkError

    try:
        EncryptedSecretKey.from_bech32(text.strip())
    except NostrSdkError:
        raise KeyProblem(f"{where} holds no whole ncryptsec: put a copy in its place") from None


def read_hidden(prompt: str) -> str:
    """A secret from a hidden prompt, or the first line of stdin."""
    text = ask(prompt) if sys.stdin.isatty() else sys.stdin.readline()
    return text.strip()


def npub_of(pubkey: str) -> str:
    """A public key as people pass it on."""
    from nostr_sdk import PublicKey

    return str(PublicKey.parse(pubkey).to_bech32())


def called(account: Account) -> str:
    """An account as people say it: its name, or the start of its npub."""
    return account.name or f"{npub_of(account.pubkey)[:12]}…"


def note_of(event_id: str) -> str:
    """An event id as people pass it on."""
    from nostr_sdk import EventId

    return str(EventId.parse(event_id).to_bech32())


# -- asking ------------------------------------------------------------------------------------


def somebody_is_there() -> bool:
    """Whether a person can be asked; what is piped in is no answer."""
    if sys.stdin.isatty():
        return True
    if not sys.stderr.isatty():
        return False
    try:
        os.close(os.open("/dev/tty", os.O_RDWR))
    except OSError:
        return False
    return True


def ask(prompt: str) -> str:
    """A hidden answer."""
    try:
        return getpass.getpass(prompt, stream=sys.stderr)
    except EOFError:
        raise KeyProblem("no answer came") from None
