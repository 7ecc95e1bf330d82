"""Names at domains: what they mean, and how little their relay hints are believed."""

from __future__ import annotations

import json

import pytest

from postrich.errors import BadSetting
from postrich.rules.nip05 import (
    DEMOTED_FOR_MS,
    HINT_FOR_MS,
    MAX_RELAYS,
    Address,
    Hint,
    Identity,
    address_in,
    is_address,
    on_found,
    on_hit,
    on_miss,
    parse_address,
    read_document,
    usable,
)
from postrich.rules.relay_lists import Lookup, RelayList, Status

KEY = "ab" * 32
BOB = Address("bob", "example.com")
NONE = Lookup(Status.NONE)
FOUND = Lookup(Status.FOUND, RelayList(KEY, 10002, 1, "00" * 32))
UNKNOWN = Lookup(Status.UNKNOWN)
NOW = 1_000_000_000_000


@pytest.mark.req("D6")
@pytest.mark.parametrize(
    ("text", "local", "domain"),
    [
        ("bob@example.com", "bob", "example.com"),
        ("  Bob@Example.COM ", "bob", "example.com"),
        ("_@example.com", "_", "example.com"),
        ("@example.com", "_", "example.com"),
        ("b.o-b_9@sub.example.com:8443", "b.o-b_9", "sub.example.com:8443"),
        ("bob@example.com:443", "bob", "example.com"),
    ],
)
def test_addresses(text: str, local: str, domain: str) -> None:
    assert is_address(text)
    assert parse_address(text) == Address(local, domain)


@pytest.mark.req("D6")
def test_an_address_says_where_its_document_is() -> None:
    assert BOB.document() == "https://example.com/.well-known/nostr.json?name=bob"
    assert str(BOB) == "bob@example.com"
    assert str(Address("_", "example.com")) == "example.com"


@pytest.mark.req("D6")
@pytest.mark.parametrize(
    "text",
    [
        "bo b@example.com",
        "bob+x@example.com",
        "bób@example.com",
        "a@b@example.com",
        "bob@",
        "bob@exa mple.com",
        "bob@example.com/path",
        "bob@example.com?x=1",
        "bob@example.com#x",
        f"{'b' * 65}@example.com",
    ],
)
def test_what_is_no_address_is_refused_with_a_reason(text: str) -> None:
    with pytest.raises(BadSetting, match="NIP-05 name"):
        parse_address(text)


def document(**fields: object) -> bytes:
    return json.dumps(fields).encode()


@pytest.mark.req("D6")
def test_a_document_names_a_key_and_relays() -> None:
    urls = ["wss://one.example", "not a url", 7, "wss://one.example/", "wss://two.example"]
    body = document(names={"bob": KEY}, relays={KEY: urls})
    relays = ("wss://one.example/", "wss://two.example/")
    assert read_document(body, BOB) == Identity(KEY, relays)


@pytest.mark.req("D6")
@pytest.mark.parametrize("relays", [None, [], "x", {KEY: "wss://x.example"}, {"cd" * 32: ["x"]}])
def test_relays_that_cannot_be_read_are_not_there(relays: object) -> None:
    assert read_document(document(names={"bob": KEY}, relays=relays), BOB) == Identity(KEY)


@pytest.mark.req("D6", "C11")
def test_a_thousand_hints_are_cut() -> None:
    urls = [f"wss://r{number}.example" for number in range(1000)]
    found = read_document(document(names={"bob": KEY}, relays={KEY: urls}), BOB)
    assert isinstance(found, Identity)
    assert len(found.relays) == MAX_RELAYS


@pytest.mark.req("D6")
@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"<html>", "no JSON document"),
        (b"\xff", "no JSON document"),
        (b"[]", "no names"),
        (document(names=[]), "no names"),
        (document(names={"alice": KEY}), "knows nobody of the name bob"),
        (document(names={"bob": "npub1abc"}), "no hex key"),
        (document(names={"bob": KEY.upper()}), "no hex key"),
        (document(names={"bob": 7}), "no hex key"),
    ],
)
def test_documents_that_name_nobody_say_why(body: bytes, reason: str) -> None:
    found = read_document(body, BOB)
    assert isinstance(found, str)
    assert reason in found


HINT = on_found(Hint(), Identity(KEY, ("wss://hint.example/",)), NOW)


@pytest.mark.req("D6")
def test_a_hint_is_good_for_an_hour_and_only_without_a_list() -> None:
    assert usable(HINT, NONE, NOW) == ("wss://hint.example/",)
    assert usable(HINT, UNKNOWN, NOW + HINT_FOR_MS - 1) == ("wss://hint.example/",)
    assert usable(HINT, NONE, NOW + HINT_FOR_MS) == ()
    assert usable(HINT, NONE, NOW - 1) == ()  # the clock was put back
    assert usable(HINT, FOUND, NOW) == ()


@pytest.mark.req("D6")
def test_three_misses_in_a_row_demote_it_for_a_day() -> None:
    twice = on_miss(on_miss(HINT, NOW), NOW)
    assert usable(twice, NONE, NOW)
    assert usable(on_miss(on_miss(on_hit(twice), NOW), NOW), NONE, NOW)
    demoted = on_miss(twice, NOW)
    asked_again = on_found(demoted, Identity(KEY, HINT.relays), NOW + DEMOTED_FOR_MS - 1)
    assert usable(demoted, NONE, NOW) == ()
    assert usable(asked_again, NONE, NOW + DEMOTED_FOR_MS - 1) == ()
    assert usable(asked_again, NONE, NOW + DEMOTED_FOR_MS) == HINT.relays
    assert usable(on_miss(asked_again, NOW + DEMOTED_FOR_MS), NONE, NOW + DEMOTED_FOR_MS)


@pytest.mark.req("D6")
def test_the_name_that_a_profile_claims() -> None:
    assert address_in('{"name":"x","nip05":"Bob@Domain.example"}') == Address(
        "bob", "domain.example"
    )
    for profile in ("", "x", "[]", "{}", '{"nip05":1}', '{"nip05":"a b@c"}', '{"nip05":""}'):
        assert address_in(profile) is None
