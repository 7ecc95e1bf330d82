"""`init`: a home with settings and a first account. Never overwrites anything."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from postrich.doors.cli.adding import checked_name, imported_key, new_key, where_the_key_is
from postrich.doors.cli.home import Home
from postrich.doors.cli.keys import npub_of
from postrich.doors.cli.outset import misuse
from postrich.doors.cli.showing import aside, say
from postrich.errors import BadSetting
from postrich.rules.trust import normalise_url
from postrich.sign.accounts import Account
from postrich.store.places import Place, place_of
from postrich.store.schema import bring_up

_SETTINGS = """\
# Postrich's settings. Times are seconds. A line without # is in force.

# Your relays: where your notes go unless a post names others.
relays = [{relays}]

# Where the outbox is kept: a file, or a PostgreSQL database that many workers may share.
# Keep the password out of it: in ~/.pgpass, or PGPASSWORD.
{store}

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

# How many seconds ahead of its hour a recurring post is made, so that there is time to sign it.
# series_lead = 3600

# How many days the story of finished jobs is kept.
# history_days = 90

# A retry policy of your own.
# [policies.patient]
# delays = [60, 600, 3600]
# lifetime = 604800
"""


@dataclass(frozen=True)
class KeyWish:
    """Which key the home shall begin with."""

    import_key: bool = False
    no_key: bool = False
    keyring: bool = False
    name: str = ""

    def check(self) -> None:
        if self.import_key and self.no_key:
            raise misuse("--import and --no-key exclude each other")
        if self.no_key and (self.keyring or self.name):
            raise misuse("--no-key makes no account: give no --keyring or --name with it")


def init(home: Home, relays: Sequence[str], wish: KeyWish, store: str = "") -> int:
    """Make the home; says the public key and what to do next."""
    wish.check()
    if home.settings_file.exists():
        raise BadSetting(f"{home.settings_file} is there already; nothing was changed")
    if home.accounts.all():
        raise BadSetting(f"{home.path} has accounts already; nothing was changed")
    urls = _checked(relays)
    place = place_of(store, Path.cwd()) if store else home.place()
    warn_of_password(place, store)
    name = checked_name(wish.name)
    if place.is_postgres:
        asyncio.run(bring_up(place))  # before anything is made here: it may not be there
    key = None
    if not wish.no_key:
        key = imported_key(wish.keyring) if wish.import_key else new_key(wish.keyring)
    home.make()
    account = home.accounts.add_key(*key, name) if key is not None else None
    listed = "".join(f"\n  {json.dumps(url)}," for url in urls)
    line = f"store = {toml_text(place.text)}" if store else "# store = 'postgresql://host/database'"
    _write(home.settings_file, _SETTINGS.format(relays=listed + "\n" * bool(urls), store=line))
    asyncio.run(bring_up(place))
    _report(home, place, urls, account)
    return 0


def _checked(relays: Sequence[str]) -> list[str]:
    try:
        return list(dict.fromkeys(normalise_url(url) for url in relays))
    except BadSetting as problem:
        raise misuse(str(problem), "--relay") from None


def toml_text(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)  # TOML knows no pairs of surrogates


def warn_of_password(place: Place, given: str) -> None:
    """What is on a command line can be seen by everybody on this machine."""
    if given and place.has_password:
        aside(
            "postrich: other users of this machine can see a password on the command line; "
            "leave it out, and put it into ~/.pgpass or PGPASSWORD"
        )


def _write(path: Path, text: str) -> None:
    """For its owner's eyes only: a store's address may hold a password."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(text)


def _report(home: Home, place: Place, urls: Sequence[str], account: Account | None) -> None:
    say(f"Your outbox is in {place.shown if place.is_postgres else home.path}")
    if account is not None:
        say(f"You are {npub_of(account.pubkey)}")
        say(where_the_key_is(home, account))
    if not urls:
        say(f"Next: add your relays to {home.settings_file}")
    elif account is not None:
        say('Next: postrich post "hello"')
    else:
        say("Next: postrich account connect, or postrich post --event FILE")
    sys.stdout.flush()
