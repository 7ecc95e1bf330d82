"""`lists`: somebody's relay lists as they published them, and what of them cannot be used.

Promises: *none published* is said only when somebody who should know was asked; what was not
found because nobody could be asked is said to be so. Publishes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from postrich.clock import SystemClock
from postrich.doors.cli.home import Home
from postrich.doors.cli.keys import npub_of
from postrich.doors.cli.outset import PUBLISHED, QUEUED
from postrich.doors.cli.persons import Person, find_person
from postrich.doors.cli.relay_words import LIST_NAMES
from postrich.doors.cli.showing import doing, say, write_json
from postrich.doors.cli.words import ago, clock_time, plain, relay_name
from postrich.outbox import Outbox
from postrich.route.relay_lists import Sighting
from postrich.rules.relay_lists import GROUPS, KINDS, RELAYS, UNKNOWN, RelayList, Status

SHOWN = tuple(sorted(KINDS))
#: Of a list that nobody could look for.
NEVER = Sighting(UNKNOWN, 0)


async def show_lists(home: Home, name: str, refresh: bool, as_json: bool) -> int:
    """Answer `postrich lists`; exit code 3 where some list could not be looked for."""
    async with home.looking() as outbox:
        person = await find_person(home, outbox.settings, name)
        sightings = await look_up(outbox, person, refresh)
    now = SystemClock().now()
    if as_json:
        write_json(_document(person, sightings))
    else:
        _print(person, sightings, now)
    unknown = any(s.lookup.status is Status.UNKNOWN for s in sightings.values())
    return QUEUED if unknown else PUBLISHED


async def look_up(outbox: Outbox, person: Person, refresh: bool) -> dict[int, Sighting]:
    """All lists of a person, by kind."""
    keys = [(person.pubkey, kind) for kind in SHOWN]
    lists = outbox.router.lists
    with doing(f"looking for the relay lists of {person.called}"):
        await lists.find(keys, {person.pubkey: person.hints}, refresh=refresh)
    found = await lists.recall(keys)
    return {kind: found.get((person.pubkey, kind), NEVER) for kind in SHOWN}


# -- for programs ------------------------------------------------------------------------------


def _document(person: Person, sightings: Mapping[int, Sighting]) -> dict[str, Any]:
    return {
        "pubkey": person.pubkey,
        "npub": npub_of(person.pubkey),
        "name": person.called,
        "hints": list(person.hints),
        "lists": [_list_document(kind, sighting) for kind, sighting in sightings.items()],
    }


def _list_document(kind: int, sighting: Sighting) -> dict[str, Any]:
    lookup, found = sighting.lookup, sighting.lookup.found
    document: dict[str, Any] = {
        "kind": kind,
        "name": LIST_NAMES[kind],
        "status": lookup.status,
        "looked_at": sighting.at,
        "trouble": lookup.detail,
    }
    if found is not None:
        document["list"] = msgspec.to_builtins(found)
        document["encrypted"] = bool(sighting.event is not None and sighting.event.content)
    return document


# -- for people --------------------------------------------------------------------------------


def _print(person: Person, sightings: Mapping[int, Sighting], now: int) -> None:
    say(person.called, "bold")
    say(f"  {npub_of(person.pubkey)}")
    if person.hints:
        named = ", ".join(relay_name(url) for url in person.hints)
        say(f"  said to be found at {named} (a hint: nothing is sent there for it)", "dim")
    _print_found(sightings, now)
    none = [kind for kind, s in sightings.items() if s.lookup.status is Status.NONE]
    if none:
        looked = min(sightings[kind].at for kind in none)
        say(f"\nNone published (looked {ago(looked, now)}): {_named(none)}", "dim")
    unknown = [kind for kind, s in sightings.items() if s.lookup.status is Status.UNKNOWN]
    if unknown:
        why = plain(sightings[unknown[0]].lookup.detail)
        say(f"\nCould not look for: {_named(unknown)}", "yellow")
        say(f"  {why}: check the network and `indexers` in postrich.toml", "yellow")


def _named(kinds: list[int]) -> str:
    return ", ".join(f"{LIST_NAMES[kind]} ({kind})" for kind in kinds)


def _print_found(sightings: Mapping[int, Sighting], now: int) -> None:
    for kind, sighting in sightings.items():
        found = sighting.lookup.found
        if found is None:
            continue
        made = found.created_at * 1000
        say(f"\n{LIST_NAMES[kind].capitalize()} (kind {kind})", "bold")
        say(
            f"  published {ago(made, now)} ({clock_time(made, now)}), "
            f"looked {ago(sighting.at, now)}",
            "dim",
        )
        _print_entries(found)
        if sighting.event is not None and sighting.event.content:
            say("  and an encrypted part, which only its owner can read", "dim")
        for text, why in found.refused:
            say(f"  {plain(text)[:80] or '(empty)'}: not used: {plain(why)}", "red")
        if sighting.lookup.detail:
            say(f"  could not look again: {plain(sighting.lookup.detail)}", "yellow")


def _print_entries(found: RelayList) -> None:
    if found.kind == GROUPS:
        lines = [f"{relay_name(url)}  group {plain(group)}" for group, url in found.groups]
    elif found.kind == RELAYS:
        lines = [f"{relay_name(url)}  {_way(found, url)}" for url in found.relays]
    else:
        lines = [relay_name(url) for url in found.relays]
    for line in lines:
        say(f"  {line}")
    if not lines:
        say("  nothing in it can be used" if found.refused else "  it is empty", "yellow")


def _way(found: RelayList, url: str) -> str:
    if url in found.read and url in found.write:
        return "read and write"
    return "read" if url in found.read else "write"
