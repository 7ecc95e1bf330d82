"""People, their relay lists and what is known of them, for the tests of plans."""

from collections.abc import Mapping, Sequence
from typing import Any

from postrich.model.event import Draft, make_draft
from postrich.rules.relay_lists import (
    BLOCKED,
    GROUPS,
    MESSAGES,
    RELAYS,
    Lookup,
    RelayList,
    Status,
    parse_list,
)
from postrich.rules.routing import Known, Plan, plan

ME, ALICE, BOB, CAROL = "11" * 32, "a1" * 32, "b0" * 32, "ca" * 32
NONE = Lookup(Status.NONE)

Tags = Sequence[Sequence[str]]


def relay(name: str) -> str:
    return f"wss://{name}.example/"


def relays(names: str) -> list[str]:
    return [relay(name) for name in names.split()]


def listed(pubkey: str, kind: int, tags: Tags) -> Lookup:
    found: RelayList = parse_list(pubkey, kind, 1_700_000_000, "e" * 64, tags)
    return Lookup(Status.FOUND, found)


def nip65(pubkey: str, write: str = "", read: str = "") -> Lookup:
    tags = [["r", url, "write"] for url in relays(write)]
    return listed(pubkey, RELAYS, tags + [["r", url, "read"] for url in relays(read)])


def simple(pubkey: str, kind: int, names: str) -> Lookup:
    return listed(pubkey, kind, [["relay", url] for url in relays(names)])


def knowing(lists: Mapping[tuple[str, int], Lookup] | None = None, **more: Any) -> Known:
    """What is known: of everybody not named here, that they published no list."""
    defaults = {
        (pubkey, kind): NONE
        for pubkey in (ME, ALICE, BOB, CAROL)
        for kind in (RELAYS, MESSAGES, BLOCKED, GROUPS, 10019)
    }
    return Known(lists={**defaults, **(lists or {})}, **more)


def event(kind: int, *tags: Sequence[str], author: str = ME, content: str = "") -> Draft:
    return make_draft(author, 1_700_000_000, kind, tags, content)


def going(made: Plan) -> list[str]:
    """Where a plan goes, by the relays' short names."""
    return [target.url.removeprefix("wss://").removesuffix(".example/") for target in made.targets]


def where(kind: int, *tags: Sequence[str], known: Known) -> str:
    return " ".join(going(plan(event(kind, *tags), known)))


def left(made: Plan) -> dict[str, str]:
    return {
        out.url.removeprefix("wss://").removesuffix(".example/"): out.reason
        for out in made.left_out
    }
