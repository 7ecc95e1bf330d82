"""`relays`: the relays that this outbox has to do with, how they are, and where they are named.

Promises: `list` asks nobody unless told to; `show` asks the one relay for its description;
`add` and `remove` change one line of postrich.toml and nothing else.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec
from rich.table import Table

from postrich.clock import SystemClock
from postrich.doors.cli.home import Home
from postrich.doors.cli.keys import called
from postrich.doors.cli.outset import PUBLISHED, QUEUED, misuse
from postrich.doors.cli.relay_words import (
    backlog_words,
    by_url,
    health_document,
    health_words,
    info_lines,
)
from postrich.doors.cli.roster import known_accounts
from postrich.doors.cli.settings_file import change_relays
from postrich.doors.cli.showing import console, doing, say, write_json
from postrich.doors.cli.words import ago, plain, relay_name
from postrich.errors import BadSetting, CallerError
from postrich.model.relay import RelayHealth, RelayInfo
from postrich.outbox import Outbox
from postrich.rules.relay_lists import BLOCKED, MESSAGES, RELAYS, RelayList, Status
from postrich.rules.trust import normalise_url
from postrich.sign.accounts import Account
from postrich.store.port import Backlog
from postrich.wire.relay_info import fetch_infos

ENVIRONMENT = "POSTRICH_RELAYS"
YOURS = "yours"
INDEXER = "indexer"
MINED = "for mined events"
USED = "used before"
_SHOWN = (RELAYS, BLOCKED, MESSAGES)


@dataclass
class Book:
    """Every relay that is known here, with the places that name it."""

    now: int
    health: Mapping[str, RelayHealth] = field(default_factory=dict)
    backlog: Mapping[str, Backlog] = field(default_factory=dict)
    places: dict[str, list[str]] = field(default_factory=dict)
    blocked: set[str] = field(default_factory=set)
    remarks: list[str] = field(default_factory=list)

    def note(self, url: str, place: str) -> None:
        self.places.setdefault(url, []).append(place)


def url_meant(text: str) -> str:
    """A relay as typed, in normal form; what is none is a usage error."""
    try:
        return normalise_url(text)
    except BadSetting as problem:
        raise misuse(str(problem), "URL") from None


# -- all of them -------------------------------------------------------------------------------


async def show_relays(home: Home, refresh: bool, as_json: bool) -> int:
    """Answer `postrich relays`."""
    async with home.looking() as outbox:
        book = await _open_book(home, outbox, refresh)
    if as_json:
        write_json({"relays": [_entry(book, url) for url in book.places], "remarks": book.remarks})
        return PUBLISHED
    if book.places:
        console().print(_table(book))
    else:
        say("No relay is known yet: `postrich relays add URL` adds one of yours.")
    for remark in book.remarks:
        say(remark, "dim")
    return PUBLISHED


async def _open_book(home: Home, outbox: Outbox, refresh: bool) -> Book:
    settings = outbox.settings
    book = Book(SystemClock().now(), by_url(await outbox.health()), by_url(await outbox.backlog()))
    for url in settings.relays:
        book.note(url, YOURS)
    if settings.pow_relay is not None:
        book.note(settings.pow_relay, MINED)
    accounts = known_accounts(home)
    for account in accounts:
        await _note_lists(outbox, account, book, len(accounts) > 1, refresh)
    for url in settings.indexers or ():
        book.note(url, INDEXER)
    for url in (*book.backlog, *book.health):
        if url not in book.places:
            book.note(url, USED)
    if os.environ.get(ENVIRONMENT):
        book.remarks.append(f"{ENVIRONMENT} is set: it counts instead of `relays` in the settings.")
    return book


async def _note_lists(
    outbox: Outbox, account: Account, book: Book, is_one_of_many: bool, refresh: bool
) -> None:
    keys = [(account.pubkey, kind) for kind in _SHOWN]
    if refresh:
        with doing(f"looking for the relay lists of {called(account)}"):
            await outbox.router.lists.find(keys, refresh=True)
    sightings = await outbox.router.lists.recall(keys)
    for sighting in sightings.values():
        if sighting.lookup.found is not None:
            _note_list(book, sighting.lookup.found, called(account) if is_one_of_many else "")
    listed = sightings.get((account.pubkey, RELAYS))
    whose = f"The relay lists of {called(account)}" if is_one_of_many else "Your relay lists"
    if listed is None:
        book.remarks.append(f"{whose} were not looked up yet: --refresh does.")
    elif listed.lookup.status is Status.UNKNOWN or listed.lookup.detail:
        book.remarks.append(f"{whose} could not be looked up: {plain(listed.lookup.detail)}")
    else:
        book.remarks.append(f"{whose} were looked up {ago(listed.at, book.now)}.")


def _note_list(book: Book, found: RelayList, name: str) -> None:
    for url in found.relays:
        match found.kind:
            case kind if kind == BLOCKED:
                book.blocked.add(url)
                book.note(url, f"blocked by {name}" if name else "blocked")
            case kind if kind == MESSAGES:
                book.note(url, f"messages of {name}" if name else "your messages")
            case _:
                ways = " and ".join(way for way in ("write", "read") if url in getattr(found, way))
                book.note(url, f"list of {name}: {ways}" if name else f"your list: {ways}")


def _entry(book: Book, url: str) -> dict[str, Any]:
    waiting = book.backlog.get(url)
    return {
        "url": url,
        "places": book.places[url],
        "blocked": url in book.blocked,
        "waiting": waiting.waiting if waiting is not None else 0,
        "tried": waiting.tried if waiting is not None else 0,
        "health": health_document(book.health.get(url)),
    }


def _table(book: Book) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("RELAY", overflow="fold")
    table.add_column("NAMED", overflow="fold")
    table.add_column("WAITING", justify="right")
    table.add_column("TRIED", justify="right")
    table.add_column("HEALTH", overflow="fold")
    for url, places in book.places.items():
        waiting = book.backlog.get(url)
        table.add_row(
            relay_name(url),
            plain(", ".join(places)),
            f"{waiting.waiting:,}" if waiting is not None else "0",
            f"{waiting.tried:,}" if waiting is not None else "0",
            health_words(book.health.get(url), book.now),
            style="dim" if url in book.blocked else None,
        )
    return table


# -- one of them -------------------------------------------------------------------------------


async def show_relay(home: Home, text: str, as_json: bool) -> int:
    """Answer `postrich relays show`; exit code 3 where the relay tells nothing of itself."""
    url = url_meant(text)
    async with home.looking() as outbox:
        book = await _open_book(home, outbox, refresh=False)
        with doing(f"asking {relay_name(url)} what it is"):
            info = (await fetch_infos([url]))[url]
    book.places.setdefault(url, [])
    if as_json:
        write_json(_entry(book, url) | {"info": msgspec.to_builtins(info)})
    else:
        _print(book, url, info)
    return PUBLISHED if info is not None else QUEUED


def _print(book: Book, url: str, info: RelayInfo | None) -> None:
    facts = Table.grid(padding=(0, 2))
    facts.add_column(style="dim", no_wrap=True)
    facts.add_column(overflow="fold")
    facts.add_row("relay", url)
    facts.add_row("named", plain(", ".join(book.places[url])) or "nowhere here")
    facts.add_row("health", health_words(book.health.get(url), book.now))
    facts.add_row("queue", backlog_words(book.backlog.get(url)))
    for name, said in info_lines(info) if info is not None else ():
        facts.add_row(name, said)
    console().print(facts)
    if info is None:
        say("It tells nothing of itself now (NIP-11): it may be down, or not describe itself.")


# -- changing ----------------------------------------------------------------------------------


def add_relay(home: Home, text: str, as_json: bool) -> int:
    """Answer `postrich relays add`."""
    url = url_meant(text)
    was_there = url in _former(home)
    relays = change_relays(home.settings_file, lambda known: list(dict.fromkeys([*known, url])))
    happened = "is one of yours already" if was_there else "is one of yours now"
    _report(home, url, relays, happened, changed=not was_there, as_json=as_json)
    return PUBLISHED


def remove_relay(home: Home, text: str, as_json: bool) -> int:
    """Answer `postrich relays remove`."""
    url = url_meant(text)
    if url not in _former(home):
        raise CallerError(f"{relay_name(url)} is not among `relays` in {home.settings_file}")
    relays = change_relays(home.settings_file, lambda known: [u for u in known if u != url])
    _report(home, url, relays, "is no longer one of yours", changed=True, as_json=as_json)
    return PUBLISHED


def _former(home: Home) -> list[str]:
    """What the file has; a look that also says where it cannot be read."""
    home.check()
    return change_relays(home.settings_file, lambda known: known)


def _report(
    home: Home, url: str, relays: list[str], happened: str, *, changed: bool, as_json: bool
) -> None:
    if as_json:
        write_json({"relay": url, "relays": relays, "changed": changed})
        return
    say(f"{relay_name(url)} {happened}.")
    if not relays:
        say("You have no relay left: notes go by your relay list alone, if there is one.", "yellow")
    if os.environ.get(ENVIRONMENT):
        say(f"{ENVIRONMENT} is set, and counts instead: unset it.", "yellow")
    if changed and home.serving_pid() is not None:
        say("Start `postrich serve` anew: the one that runs knows the former list.", "yellow")
    if changed and "no longer" in happened:
        say("What already waits for it is still delivered there; `postrich queue` shows it.", "dim")
