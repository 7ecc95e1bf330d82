"""`account add`, `account import` and `account default`: accounts whose key is kept here.

Promises: a key is kept encrypted, or in the keyring; an encrypted one that is imported keeps
its passphrase, which is tried first; nothing that is kept is overwritten.
"""

from __future__ import annotations

import re

from postrich.doors.cli.account_book import account_document
from postrich.doors.cli.home import Home
from postrich.doors.cli.keys import (
    called,
    check_encrypted,
    new_passphrase,
    npub_of,
    read_hidden,
    unlock,
)
from postrich.doors.cli.outset import misuse
from postrich.doors.cli.showing import say, write_json
from postrich.errors import KeyProblem
from postrich.sign.accounts import Account
from postrich.sign.secret import SecretSigner, parse_secret

MAX_NAME = 40
_LIKE_A_KEY = re.compile(
    r"(npub|nsec|ncryptsec)1|(bunker|nostrconnect):|[0-9a-f]{64}$", re.IGNORECASE
)

#: A key, and the passphrase that encrypts it (None: the keyring keeps it).
Key = tuple[SecretSigner, str | None]


def new_key(keyring: bool) -> Key:
    """A key that nobody had before."""
    passphrase = None if keyring else new_passphrase()
    return SecretSigner.generate(), passphrase


def imported_key(keyring: bool) -> Key:
    """The owner's own key; an encrypted one keeps its passphrase."""
    text = read_hidden("Your secret key (nsec, hex or ncryptsec): ")
    if not text:
        raise KeyProblem("no key came")
    if not text.startswith("ncryptsec1"):
        signer = parse_secret(text)
        return signer, None if keyring else new_passphrase()
    check_encrypted(text, "what came")
    typed: list[str] = []

    def lock(passphrase: str) -> SecretSigner:
        signer = parse_secret(text, passphrase)
        typed.append(passphrase)
        return signer

    signer = unlock(lock, "this key")
    return signer, None if keyring else typed[-1]


def checked_name(name: str) -> str:
    """A name by which an account can be called, and that is nobody's key."""
    if _LIKE_A_KEY.match(name):
        raise misuse("a name must not look like a key or an address", "--name")
    if not name.isprintable() or name != name.strip() or len(name) > MAX_NAME:
        raise misuse(f"a name has at most {MAX_NAME} visible characters", "--name")
    return name


def add(home: Home, key: Key, name: str, default: bool, as_json: bool) -> int:
    """Keep the key as an account's, and say whose it is."""
    home.make()
    account = home.accounts.add_key(*key, name)
    if default:
        home.accounts.make_default(account)
    if as_json:
        write_json(account_document(home, account))
        return 0
    say(f"You have the account {npub_of(account.pubkey)}")
    say(where_the_key_is(home, account))
    say(how_to_post(home, account))
    return 0


def where_the_key_is(home: Home, account: Account) -> str:
    """Where the key is, and what its owner must look after."""
    if account.key == "keyring":
        return "Your key is in the keyring of this machine: keep a copy of it elsewhere."
    place = home.accounts.key_file(account.pubkey).relative_to(home.path)
    return f"Your key is in {place}, encrypted: keep its passphrase, and a copy."


def how_to_post(home: Home, account: Account) -> str:
    """What to do with an account that has just come."""
    if home.accounts.all()[0].pubkey == account.pubkey:
        return 'Next: postrich post "hello"'
    return f'Next: postrich post --as {_typed(account)} "hello"'


def _typed(account: Account) -> str:
    name = account.name or account.pubkey[:8]
    return f"'{name}'" if re.search(r"[^\w.-]", name) else name


def make_default(home: Home, name: str, as_json: bool) -> int:
    """From now on this account posts where none is named."""
    account = home.accounts.find(name)
    home.accounts.make_default(account)
    if as_json:
        write_json(account_document(home, account))
    else:
        say(f"From now on {called(account)} posts, unless told otherwise.")
    return 0
