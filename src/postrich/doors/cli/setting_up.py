"""`init`: a home with settings and an encrypted key. Never overwrites anything."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Sequence

from postrich.doors.cli.home import Home
from postrich.doors.cli.keys import ask_passphrase, new_passphrase, npub_of, read_secret
from postrich.doors.cli.outset import misuse
from postrich.doors.cli.showing import say
from postrich.errors import BadSetting, KeyProblem
from postrich.rules.trust import normalise_url
from postrich.sign.secret import SecretSigner, parse_secret, write_key_file
from postrich.store.sqlite import SqliteStore

_SETTINGS = """\
# Postrich's settings. Times are seconds. A line without # is in force.

# Your relays: where your notes go unless a post names others.
relays = [{relays}]

# A note counts as published once that many relays said OK.
goal = 1

# How to try again: "interactive", "offline", "scheduled", "capture", or one of your own below.
policy = "interactive"

# How long a relay may take to answer, and to be reached.
# timeout = 10
# connect_timeout = 10

# Whether to say who you are where a relay asks (NIP-42): "own", "always" or "never".
# auth = "own"

# Save on a metered connection: only urgent and small events go out.
# metered = true
# bytes_per_minute = 100000

# How many days the story of finished jobs is kept.
# history_days = 90

# A retry policy of your own.
# [policies.patient]
# delays = [60, 600, 3600]
# lifetime = 604800
"""


def init(home: Home, relays: Sequence[str], import_key: bool, no_key: bool) -> int:
    """Make the home; says the public key and what to do next."""
    if import_key and no_key:
        raise misuse("--import and --no-key exclude each other")
    for file in (home.settings_file, home.key_file):
        if file.exists():
            raise BadSetting(f"{file} is there already; nothing was changed")
    urls = _checked(relays)
    secret = None if no_key else _imported() if import_key else _new()
    home.make()
    if secret is not None:
        signer, passphrase = secret
        write_key_file(home.key_file, signer, passphrase)
    listed = "".join(f"\n  {json.dumps(url)}," for url in urls)
    home.settings_file.write_text(_SETTINGS.format(relays=listed + "\n" * bool(urls)), "utf-8")
    asyncio.run(_make_store(home))
    _report(home, urls, secret[0] if secret else None)
    return 0


def _checked(relays: Sequence[str]) -> list[str]:
    try:
        return list(dict.fromkeys(normalise_url(url) for url in relays))
    except BadSetting as problem:
        raise misuse(str(problem), "--relay") from None


def _new() -> tuple[SecretSigner, str]:
    return SecretSigner.generate(), new_passphrase()


def _imported() -> tuple[SecretSigner, str]:
    """The owner's own key; an encrypted one keeps its passphrase."""
    text = read_secret()
    if not text:
        raise KeyProblem("no key came")
    if text.startswith("ncryptsec1"):
        passphrase = ask_passphrase()
        return parse_secret(text, passphrase), passphrase
    return parse_secret(text), new_passphrase()


async def _make_store(home: Home) -> None:
    store = await SqliteStore.open(str(home.store))
    await store.close()


def _report(home: Home, urls: Sequence[str], signer: SecretSigner | None) -> None:
    say(f"Your outbox is in {home.path}")
    if signer is not None:
        say(f"You are {npub_of(signer.pubkey)}")
        say(f"Your key is in {home.key_file.name}, encrypted: keep its passphrase, and a copy.")
    if not urls:
        say(f"Next: add your relays to {home.settings_file}")
    elif signer is not None:
        say('Next: postrich post "hello"')
    else:
        say("Next: postrich post --event FILE")
    sys.stdout.flush()
