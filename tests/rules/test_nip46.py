"""NIP-46 without the network: addresses, answers, what bunkers' errors mean, and the pace."""

from __future__ import annotations

import itertools
import json
from urllib.parse import parse_qs, quote, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from postrich.errors import (
    BadSetting,
    SignerError,
    SignerRejected,
    SignerUnavailable,
    UnknownClient,
)
from postrich.rules.nip46 import (
    APPROVAL,
    ASK_AGAIN,
    COOL_DOWN,
    MAX_RELAYS,
    SPACING,
    BunkerAddress,
    Pace,
    Response,
    connect_uri,
    error_of,
    is_rate_limit,
    may_ask_again,
    parse_bunker_uri,
    parse_response,
    relays_of,
    request_text,
)

KEY = "fedcba9876543210" * 4
RELAY = "wss://relay.example"
HUSH = "hush-hush"

# Addresses


@pytest.mark.parametrize(
    ("text", "relays", "secret"),
    [
        (f"bunker://{KEY}?relay={RELAY}", (f"{RELAY}/",), ""),
        (f"  bunker://{KEY}?relay={RELAY}&secret=\n", (f"{RELAY}/",), ""),
        (f"bunker://{KEY}?relay={quote(RELAY, '')}&secret={HUSH}", (f"{RELAY}/",), HUSH),
        (f"BUNKER://{KEY.upper()}/?secret={HUSH}&relay={RELAY}#top", (f"{RELAY}/",), HUSH),
        (f"bunker://{KEY}?relay={RELAY}&relay={RELAY}/&relay=a.b", (f"{RELAY}/", "wss://a.b/"), ""),
        (f"bunker://{KEY}?relay={RELAY}&secret=a&secret=b&more=c", (f"{RELAY}/",), "a"),
        (f"bunker://{KEY}?relay={RELAY}&secret=a%26b%2Bc+d%20ü", (f"{RELAY}/",), "a&b+c d ü"),
    ],
)
def test_an_address_says_whom_to_meet_where(
    text: str, relays: tuple[str, ...], secret: str
) -> None:
    assert parse_bunker_uri(text) == BunkerAddress(KEY, relays, secret)


def test_an_address_names_only_so_many_relays() -> None:
    query = "&".join(f"relay=wss://r{number}.example" for number in range(50))
    found = parse_bunker_uri(f"bunker://{KEY}?{query}").relays
    assert found == tuple(f"wss://r{number}.example/" for number in range(MAX_RELAYS))


BAD_ADDRESSES = [
    "",
    HUSH,
    f"https://{KEY}?relay={RELAY}&secret={HUSH}",
    f"nostrconnect://{KEY}?relay={RELAY}&secret={HUSH}",
    f"bunker:{KEY}?relay={RELAY}&secret={HUSH}",
    f"bunker://?relay={RELAY}&secret={HUSH}",
    f"bunker://{'cd' * 32}?relay={RELAY}&secret={HUSH}",  # no point of the curve
    f"bunker://{KEY[:-1]}?relay={RELAY}&secret={HUSH}",
    f"bunker://{KEY[:32]}%20{KEY[32:]}?relay={RELAY}&secret={HUSH}",
    f"bunker://{KEY[:32]} {KEY[32:]}?relay={RELAY}&secret={HUSH}",
    f"bunker://{KEY[:-1]}g?relay={RELAY}&secret={HUSH}",
    f"bunker://{KEY}:80?relay={RELAY}&secret={HUSH}",
    f"bunker://{HUSH}@{KEY}?relay={RELAY}",
    f"bunker://{HUSH}?relay={RELAY}",
    f"bunker://{KEY}",
    f"bunker://{KEY}?secret={HUSH}",
    f"bunker://{KEY}?relay=&secret={HUSH}",
    f"bunker://{KEY}?relay=ftp://{HUSH}",
    f"bunker://{KEY}?relay={RELAY},secret={HUSH}",
    f"bunker://{KEY}?relay={RELAY}%20{HUSH}",
    f"bunker://{KEY}?relay={RELAY}&relay=wss://{HUSH}..x&secret={HUSH}",
    f"bunker://[{HUSH}",
    f"bunker://{KEY}\u2100?relay={RELAY}&secret={HUSH}",
    f"bunker://{KEY}?relay={RELAY}&secret={HUSH}\udcff",
]


@pytest.mark.parametrize("text", BAD_ADDRESSES)
@pytest.mark.req("B7")
def test_a_bad_address_is_refused_without_repeating_its_secret(text: str) -> None:
    with pytest.raises(BadSetting) as caught:
        parse_bunker_uri(text)
    assert HUSH not in str(caught.value)
    assert HUSH not in str(caught.value.__cause__)


@given(st.text(max_size=60), st.text(max_size=60))
def test_whatever_is_pasted_is_an_address_or_refused(start: str, rest: str) -> None:
    for text in (start, f"bunker://{start}?{rest}", f"bunker://{KEY}?relay={start}&secret={rest}"):
        try:
            found = parse_bunker_uri(text)
        except BadSetting:
            continue
        assert found.remote == KEY
        assert found.relays
        assert request_text("1", "connect", [found.secret])


def test_an_invitation_says_who_we_are_and_where() -> None:
    uri = connect_uri(KEY, ["wss://a.example/", "wss://b.example/x?y=z&w=1"], "a&b c", "My & app")
    parts = urlsplit(uri)
    asked = parse_qs(parts.query)
    assert (parts.scheme, parts.netloc) == ("nostrconnect", KEY)
    assert asked["relay"] == ["wss://a.example/", "wss://b.example/x?y=z&w=1"]
    assert (asked["secret"], asked["name"]) == (["a&b c"], ["My & app"])
    assert "sign_event" in asked["perms"][0].split(",")
    assert "+" not in uri  # some signers do not read a plus as a space


# Requests and answers


def test_a_request_is_a_json_object_of_three() -> None:
    text = request_text("7", "sign_event", ['{"kind":1}', "ü"])
    assert json.loads(text) == {
        "id": "7",
        "method": "sign_event",
        "params": ['{"kind":1}', "ü"],
    }


@pytest.mark.parametrize(
    ("fields", "result", "error"),
    [
        ({"result": "ack"}, "ack", ""),
        ({"result": "ack", "error": None}, "ack", ""),
        ({"result": "ack", "error": "", "more": 1}, "ack", ""),
        ({"result": None, "error": "no"}, "", "no"),
        ({"error": "no"}, "", "no"),
        ({"result": "error", "error": "no"}, "error", "no"),
        ({"result": None}, "", ""),
        ({"result": {"kind": 1}}, '{"kind":1}', ""),
        ({"result": ["a", 1]}, '["a",1]', ""),
        ({"result": 10**40}, "1" + 40 * "0", ""),
        ({"result": True}, "true", ""),
        ({"error": {"code": 1, "message": "no"}}, "", '{"code":1,"message":"no"}'),
        ({"error": 403}, "", "403"),
    ],
)
def test_every_form_of_an_answer_is_read(
    fields: dict[str, object], result: str, error: str
) -> None:
    answer = parse_response(json.dumps({"id": "7", **fields}))
    assert answer == Response("7", result, error)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "pong",
        "null",
        "7",
        '"ack"',
        "[1, 2]",
        "{}",
        '{"id": "7"}',
        '{"result": "ack"}',
        '{"id": 7, "result": "ack"}',
        '{"id": null, "result": "ack"}',
        '{"id": "7", "method": "ping", "params": []}',
        '{"id": "7", "result": "ack"',
        '{"id": "7", "result": "\\ud800"}',
        '{"id": "7", "result": "\ud800"}',
        '{"id": "7", "result": 1e999}',
        '{"id": "7", "result": ' + "[" * 100_000,
        "[" * 100_000,
    ],
)
def test_what_is_no_answer_is_none(text: str) -> None:
    assert parse_response(text) is None


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


@given(st.text() | _JSON.map(json.dumps))
def test_any_text_is_an_answer_or_none(text: str) -> None:
    answer = parse_response(text)
    assert answer is None or isinstance(answer.id, str)


@given(st.text(), _JSON, _JSON)
def test_any_answer_is_read_as_text(name: str, result: object, error: object) -> None:
    try:
        text = json.dumps({"id": name, "result": result, "error": error})
    except UnicodeEncodeError:
        return
    answer = parse_response(text)
    if answer is not None:
        assert answer.id == name
        assert isinstance(answer.result, str)
        assert isinstance(error_of(answer.error), SignerError)
        assert isinstance(relays_of(answer.result), tuple)


@pytest.mark.parametrize(
    ("url", "is_shown"),
    [
        ("https://bunker.example/approve?id=7", True),
        ("http://localhost:3000/x", True),
        ("HTTPS://bunker.example", True),
        ("javascript:alert(1)", False),
        ("file:///etc/passwd", False),
        ("nostrconnect://x", False),
        ("bunker.example", False),
        (" https://bunker.example", False),
        ("", False),
        ("https://bunker.example/\x1b[2J", False),
        ("https://bunker.example/\n", False),
        ("https://bunker.example/\u202egpj.exe", False),
    ],
)
def test_only_a_web_page_is_shown_to_a_person(url: str, is_shown: bool) -> None:
    answer = Response("7", "auth_url", url)
    assert answer.is_challenge
    assert answer.challenge == (url if is_shown else "")


def test_a_url_that_is_no_challenge_is_not_shown() -> None:
    answer = Response("7", "error", "https://bunker.example")
    assert not answer.is_challenge
    assert answer.challenge == ""


@pytest.mark.parametrize(
    ("result", "relays"),
    [
        ('["wss://a.example","WSS://a.example/","b.example/x"]', ("wss://a.example/",)),
        (json.dumps([f"wss://r{n}.example" for n in range(9)]), ("wss://r0.example/",)),
        ("[]", ()),
        ("null", ()),
        ("", ()),
        ("ack", ()),
        ("wss://a.example", ()),
        ('{"relays": ["wss://a.example"]}', ()),
        ('["wss://a.example", 7]', ()),
        ('["wss://a.example", null]', ()),
        ('["wss://a.example", ""]', ()),
        ('["ftp://a.example"]', ()),
        ('["\ud800"]', ()),
        ("[" * 100_000, ()),
    ],
)
def test_where_a_bunker_wants_to_be_met(result: str, relays: tuple[str, ...]) -> None:
    found = relays_of(result)
    assert found[:1] == relays
    assert len(found) == len(set(found)) <= MAX_RELAYS
    assert bool(found) == bool(relays)


# What errors mean

#: Texts found in the sources of the bunkers that people use.
TEXTS: dict[type[SignerError], list[str]] = {
    SignerRejected: [
        "user rejected",  # Amber
        "invalid secret",  # Amber, to `connect`
        "no secret",
        "secret not in use",
        "already connected",
        "Unrecognized method: switch_relays",
        "Rejected",  # rust-nostr, Keycast
        "Secret not match",
        "Remote signer public key not match",
        "refusing to sign this event",  # go-nostr, nak
        "unknown method 'logout'",
        "Forbidden",  # nsec.app
        "Unsupported method",
        "Invalid token",  # nsecbunkerd
        "Token not found",
        "Token already redeemed",
        "Token expired",
        "Invalid secret",  # snstr
        "Unknown method: logout",
        '{"code":"INVALID_SECRET","message":"Invalid secret provided"}',
        '{"code":"CONNECTION_REJECTED","message":"Remote pubkey does not match"}',
        '{"code":"METHOD_NOT_SUPPORTED","message":"Method logout is not supported"}',
        '{"code":-32000,"message":"denied"}',
        "User denied permission",
        "the user has declined",
        "request cancelled by the user",
        "Permission request was rejected by user",
        "not allowed",
        "disallowed",
    ],
    UnknownClient: [
        "no permission",  # Amber, to a client that it does not know
        "unauthorized",  # go-nostr, nak
        "Not authorized",  # nsecbunkerd and nsec.app, on NDK
        "App not found",
        "Unauthorized",  # snstr
        "Not authorized to sign kind 1 events",
        '{"code":"PERMISSION_DENIED","message":"Permission denied for signing events"}',
        '{"code":"NOT_AUTHORIZED","message":"who are you?"}',
        "Insufficient permissions for this operation",
        "not connected",
        "Please connect first",
        "unknown client",
        "no such session",
        "session not found",
        "Unauthorised",
    ],
    SignerUnavailable: [
        "failed to compute shared secret",  # go-nostr
        "failed to sign event: context canceled",
        "failed to decode event/2: unexpected end of JSON input",
        "wrong number of arguments to 'sign_event'",
        "Empty response",  # nsec.app
        "Enclave not responding",
        "Key not found",
        "Too many requests, retry later",
        "Unexpected token < in JSON at position 0",
        "Rate limit exceeded Retry after 10 seconds.",  # snstr
        '{"code":"INTERNAL_ERROR","message":"Internal error during connection"}',
        '{"code":"TIMEOUT","message":"Operation timed out"}',
        '{"code":"SIGNING_FAILED","message":"Event signing failed"}',
        "connect ECONNREFUSED 127.0.0.1:5432",
        "dial tcp: connection refused",
        "403",
        "{}",
        "?",
    ],
}


@pytest.mark.parametrize(
    ("text", "kind"), [(text, kind) for kind, texts in TEXTS.items() for text in texts]
)
@pytest.mark.req("A5")
def test_the_errors_of_real_bunkers_are_read_rightly(text: str, kind: type[SignerError]) -> None:
    problem = error_of(text)
    assert type(problem) is kind
    assert text in str(problem)
    assert problem.needs_person == (kind is not SignerUnavailable)


@pytest.mark.req("B7")
def test_an_errors_text_is_safe_to_show() -> None:
    problem = error_of(f"user rejected\x1b[2J\nsecret={HUSH} nsec1{'q' * 58} {'x' * 70_000}")
    text = str(problem)
    assert text.isprintable()
    assert len(text) < 1000
    assert HUSH not in text
    assert "nsec1" not in text


@pytest.mark.parametrize(
    ("text", "is_one"),
    [
        ("Rate limit exceeded Retry after 10 seconds.", True),
        ('{"code":"RATE_LIMITED","message":"slow down"}', True),
        ("Too many requests, retry later", True),
        ("", False),
        ("user rejected", False),
    ],
)
def test_who_asks_too_fast_is_told(text: str, is_one: bool) -> None:
    assert is_rate_limit(text) == is_one


# The pace


def test_requests_go_out_some_way_apart() -> None:
    pace = Pace()
    assert pace.reserve(100.0) == 0.0
    assert pace.reserve(100.0) == pytest.approx(SPACING)
    assert pace.reserve(100.1) == pytest.approx(2 * SPACING - 0.1)
    assert pace.reserve(200.0) == 0.0


def test_a_complaint_makes_us_pause_twice_as_long_each_time() -> None:
    pace = Pace()
    pauses = []
    for number in range(7):
        now = 1000.0 * number
        pace.on_rate_limit(now)
        pauses.append(pace.reserve(now))
    assert pauses == pytest.approx([2, 4, 8, 16, 30, 30, 30])
    pace.on_answer()
    pace.on_rate_limit(9000.0)
    assert pace.reserve(9000.0) == pytest.approx(COOL_DOWN[0])


def test_a_complaint_brings_nothing_forward() -> None:
    pace = Pace()
    for _ in range(20):
        pace.reserve(0.0)
    pace.on_rate_limit(0.0)
    assert pace.reserve(0.0) == pytest.approx(20 * SPACING)


@given(
    st.lists(st.tuples(st.floats(0, 5), st.sampled_from(["ask", "ask", "limit", "answer"]))),
)
def test_no_two_requests_are_closer_than_the_spacing(steps: list[tuple[float, str]]) -> None:
    pace, now = Pace(), 0.0
    sent: list[float] = []
    until = 0.0
    for passed, what in steps:
        now += passed
        if what == "ask":
            sent.append(now + pace.reserve(now))
            assert sent[-1] >= until - 1e-9
        elif what == "limit":
            pace.on_rate_limit(now)
            until = now + COOL_DOWN[0]
        else:
            pace.on_answer()
    gaps = [later - earlier for earlier, later in itertools.pairwise(sent)]
    assert all(gap >= SPACING - 1e-9 for gap in gaps)


@pytest.mark.parametrize(
    ("asks", "passed", "was_lost", "challenged", "may"),
    [
        (0, 0.0, False, False, True),
        (1, 0.0, False, False, False),
        (1, ASK_AGAIN - 0.1, False, False, False),
        (1, ASK_AGAIN, False, False, True),
        (2, 2 * ASK_AGAIN - 0.1, False, False, False),
        (2, 2 * ASK_AGAIN, False, False, True),
        (3, 4 * ASK_AGAIN - 0.1, False, False, False),
        (3, 4 * ASK_AGAIN, False, False, True),
        (1, 0.0, True, False, True),
        (1, 0.0, True, True, True),
        (1, ASK_AGAIN, False, True, False),
        (1, APPROVAL - 0.1, False, True, False),
        (1, APPROVAL, False, True, True),
        (10_000, 1e9, False, False, True),
    ],
)
def test_when_the_same_may_be_asked_again(
    asks: int, passed: float, was_lost: bool, challenged: bool, may: bool
) -> None:
    now = 50.0 + passed
    assert may_ask_again(asks, 50.0, now, was_lost=was_lost, challenged=challenged) is may
