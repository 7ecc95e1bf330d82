"""Which past events are copied: nothing that was taken back, expired, or is not ours to copy."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest

from postrich.model.event import Event, parse_event
from postrich.rules.republishing import TakenBack, stays_behind, taken_back_at
from tests.relays.events import make_event, public_key

SECRET = bytes(range(32))
AUTHOR = public_key(SECRET)
TARGET = "wss://new.example/"
NOW = 1_700_000_000


def event(kind: int = 1, tags: Sequence[Sequence[str]] = (), at: int = NOW - 1000) -> Event:
    return parse_event(json.dumps(make_event(SECRET, kind, "text", tags, at)))


def fate(given: Event, *requests: Event, may_protect: bool = False) -> str | None:
    gone = taken_back_at(TARGET, requests)
    return stays_behind(given, gone, NOW * 1000, may_protect=may_protect)


@pytest.mark.req("D11")
@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (event(), None),
        (event(0), None),
        (event(30023, [["d", "x"]]), None),
        (event(5, [["e", "ab" * 32]]), None),
        (event(20001), "ephemeral"),
        (event(22242), "never"),
        (event(62, [["relay", "ALL_RELAYS"]]), "never"),
        (event(9, [["h", "group"]]), "of a group"),
        (event(1, [["-"]]), "protected"),
        (event(1, [["expiration", str(NOW)]]), "expired"),
        (event(1, [["expiration", str(NOW + 1)]]), None),
    ],
)
def test_what_stays_behind(given: Event, reason: str | None) -> None:
    found = fate(given)
    assert found is None if reason is None else (found or "").startswith(reason)


@pytest.mark.req("D4", "D11")
def test_who_can_say_who_they_are_may_copy_what_is_protected() -> None:
    assert fate(event(1, [["-"]]), may_protect=True) is None


@pytest.mark.req("A11", "D11")
def test_what_was_deleted_is_not_copied() -> None:
    note, other = event(), event(at=NOW - 999)
    assert fate(note, event(5, [["e", note.id]])) == "taken back by its author"
    assert fate(other, event(5, [["e", note.id]])) is None


@pytest.mark.req("A11", "D11")
def test_an_address_is_deleted_up_to_the_request() -> None:
    tags = [["a", f"30023:{AUTHOR}:x"]]
    requests = [event(5, tags, NOW - 500), event(5, tags, NOW - 700)]
    assert fate(event(30023, [["d", "x"]], NOW - 600), *requests)
    assert fate(event(30023, [["d", "x"]], NOW - 499), *requests) is None
    assert fate(event(30023, [["d", "y"]], NOW - 600), *requests) is None


@pytest.mark.req("A11", "D11")
def test_a_deletion_is_not_deleted() -> None:
    deletion = event(5, [["e", "ab" * 32]])
    assert fate(deletion, event(5, [["e", deletion.id]])) is None


@pytest.mark.req("A11", "D11")
@pytest.mark.parametrize("relay", ["ALL_RELAYS", TARGET])
def test_who_asked_to_vanish_is_not_brought_back(relay: str) -> None:
    vanish = event(62, [["relay", relay]], NOW - 500)
    later = event(62, [["relay", "ALL_RELAYS"]], NOW - 600)
    assert fate(event(at=NOW - 500), vanish, later)
    assert fate(event(at=NOW - 499), vanish, later) is None


@pytest.mark.req("A11", "D11")
def test_who_vanished_elsewhere_is_copied_here() -> None:
    elsewhere = event(62, [["relay", "wss://other.example"]], NOW)
    nowhere = event(62, [["relay", "no url at all"]], NOW)
    assert taken_back_at(TARGET, [elsewhere, nowhere]) == TakenBack()
