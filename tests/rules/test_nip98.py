"""Who makes an HTTP request (F9, NIP-98)."""

from __future__ import annotations

import base64
from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from postrich.errors import NotAuthorised
from postrich.model.event import Event, make_draft, seal
from postrich.rules.nip98 import (
    LONGEST_HEADER,
    WINDOW,
    Replays,
    judge_authorization,
    read_authorization,
)

pytestmark = pytest.mark.req("F9")

NOW = 1_780_000_000
URL = "https://postrich.example/api/schedule?x=1"
KEY = "ab" * 32
BODY = b'{"a":1}'


def make(
    *tags: tuple[str, ...], kind: int = 27235, created_at: int = NOW, content: str = ""
) -> Event:
    return seal(make_draft(KEY, created_at, kind, tags, content), "0" * 128)


def usual(url: str = URL, method: str = "GET", *more: tuple[str, ...]) -> Event:
    return make(("u", url), ("method", method), *more)


def header_of(event: Event) -> str:
    return "Nostr " + base64.b64encode(event.raw).decode()


def payload(body: bytes) -> tuple[str, str]:
    return ("payload", sha256(body).hexdigest())


def test_the_header_is_read() -> None:
    event = usual()
    assert read_authorization(header_of(event)) == event
    assert read_authorization(header_of(event).rstrip("=").replace("Nostr", "nostr ")) == event


@pytest.mark.parametrize(
    ("header", "words"),
    [
        (None, "needs an Authorization header"),
        ("", "needs an Authorization header"),
        ("Bearer abc", "form: Nostr"),
        ("Nostr", "no event"),
        ("Nostr ***", "no base64"),
        ("Nostr é", "no base64"),
        ("Nostr " + base64.b64encode(b"{}").decode(), "no event"),
        ("Nostr " + base64.b64encode(b"\xff\xfe").decode(), "no event"),
        ("Nostr " + "a" * LONGEST_HEADER, "longer than"),
    ],
)
def test_headers_that_are_refused(header: str | None, words: str) -> None:
    with pytest.raises(NotAuthorised, match=words):
        read_authorization(header)


@pytest.mark.parametrize(
    ("event", "method", "url", "body"),
    [
        (usual(), "GET", URL, b""),
        (usual(method="get"), "GET", URL, b""),
        (usual("https://postrich.example"), "GET", "https://postrich.example/", b""),
        (usual("https://postrich.example/"), "GET", "https://postrich.example", b""),
        (usual("http://[::1]:80?a=/"), "GET", "http://[::1]:80/?a=/", b""),
        (usual(URL, "POST", payload(BODY)), "POST", URL, BODY),
        (usual(URL, "POST", ("payload", payload(BODY)[1].upper())), "POST", URL, BODY),
        (usual(URL, "POST"), "POST", URL, b""),
        (usual(URL, "POST", payload(b"")), "POST", URL, b""),
        (make(("u", URL), ("method", "GET"), created_at=NOW - WINDOW), "GET", URL, b""),
        (make(("u", URL), ("method", "GET"), created_at=NOW + WINDOW), "GET", URL, b""),
    ],
)
def test_what_is_granted(event: Event, method: str, url: str, body: bytes) -> None:
    judge_authorization(event, method, url, body, NOW)


@pytest.mark.parametrize(
    ("event", "method", "body", "words"),
    [
        (make(("u", URL), ("method", "GET"), kind=1), "GET", b"", "kind 27235, not 1"),
        (make(("u", URL), ("method", "GET"), created_at=NOW - 61), "GET", b"", "61 s off"),
        (make(("u", URL), ("method", "GET"), created_at=NOW + 61), "GET", b"", "61 s off"),
        (make(("method", "GET")), "GET", b"", "one u tag; this one has 0"),
        (usual(URL, "GET", ("u", URL)), "GET", b"", "one u tag; this one has 2"),
        (make(("u", URL)), "GET", b"", "one method tag"),
        (usual(URL + "&y=2"), "GET", b"", "not this request's URL"),
        (usual(URL.replace("https", "http")), "GET", b"", "not this request's URL"),
        (usual("https://postrich.example/api/schedule"), "GET", b"", "not this request's URL"),
        (usual(URL.upper()), "GET", b"", "not this request's URL"),
        (usual(), "DELETE", b"", "not for DELETE"),
        (usual(URL, "POST"), "POST", BODY, "one payload tag"),
        (usual(URL, "DELETE"), "DELETE", BODY, "one payload tag"),
        (usual(URL, "POST", payload(BODY), payload(b"")), "POST", BODY, "one payload tag"),
        (usual(URL, "POST", payload(BODY)), "POST", BODY + b" ", "not the SHA-256"),
        (usual(URL, "POST", payload(BODY)), "POST", b"", "not the SHA-256"),
    ],
)
def test_what_is_refused_and_why(event: Event, method: str, body: bytes, words: str) -> None:
    with pytest.raises(NotAuthorised, match=words):
        judge_authorization(event, method, URL, body, NOW)


def test_an_authorization_is_used_once() -> None:
    replays = Replays()
    event, other = usual(), make(content="other")
    replays.use(event, NOW)
    replays.use(other, NOW)
    for now in (NOW, NOW + WINDOW):
        with pytest.raises(NotAuthorised, match="used before"):
            replays.use(event, now)
    assert len(replays) == 2
    replays.use(make(created_at=NOW + 61), NOW + WINDOW + 1)
    assert len(replays) == 1, "those that nobody could use any more are forgotten"


def test_a_full_memory_refuses_rather_than_forgets() -> None:
    replays = Replays(most=2)
    first = make(content="0")
    replays.use(first, NOW)
    replays.use(make(content="1"), NOW)
    with pytest.raises(NotAuthorised, match="too many"):
        replays.use(make(content="2"), NOW)
    with pytest.raises(NotAuthorised, match="used before"):
        replays.use(first, NOW)
    replays.use(make(content="3", created_at=NOW + 100), NOW + 61)


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 40)), max_size=60), st.integers(1, 8))
def test_nothing_that_is_valid_is_taken_twice(story: list[tuple[int, int]], most: int) -> None:
    replays = Replays(most)
    now = NOW
    used: set[str] = set()
    for age, pause in story:
        now += pause
        event = make(created_at=NOW + age * 30)
        if abs(event.created_at - now) > WINDOW:
            continue
        try:
            replays.use(event, now)
        except NotAuthorised:
            continue
        assert event.id not in used
        used.add(event.id)
        assert len(replays) <= most
