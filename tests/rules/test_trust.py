"""Relay URLs in one form, so that one relay is one relay (C11)."""

from pathlib import Path
from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from postrich.errors import BadSetting
from postrich.rules.trust import MAX_URL, normalise_url

pytestmark = pytest.mark.req("C11")

#: Thousands of URLs from real relay lists, where the machine has them.
SEEN_IN_THE_WILD = Path(__file__).parents[2].parent / "shared" / "data" / "relay_urls.txt"

FORMS = {
    "wss://relay.example/": [
        "wss://relay.example/",
        "wss://relay.example",
        "  wss://relay.example\n",
        "WSS://Relay.EXAMPLE",
        "relay.example",
        "relay.example/",
        "relay.example:443",
        "https://relay.example",
        "wss://relay.example:443",
        "wss://relay.example:0443/",
        "wss://relay.example:",
        "wss://relay.example.",
        "wss://relay.example/#top",
        "wss://relay.example?",
        "wss://user:secret@relay.example/",
    ],
    "ws://relay.example/": ["ws://relay.example", "http://relay.example:80/"],
    "ws://relay.example:443/": ["ws://relay.example:443"],
    "wss://relay.example:80/": ["wss://relay.example:80"],
    "wss://relay.example:7777/": ["relay.example:7777", "wss://RELAY.example:7777"],
    "wss://relay.example/Path": ["wss://relay.example/Path", "wss://RELAY.example/Path#x"],
    "wss://relay.example/Path/": ["wss://relay.example/Path/"],
    "wss://relay.example//": ["wss://relay.example//"],
    "wss://relay.example/?Key=A": ["wss://relay.example?Key=A", "relay.example/?Key=A"],
    "wss://relay.example/a?b=c&a=d": ["wss://relay.example/a?b=c&a=d"],
    "wss://relay.example/%7Efoo": ["wss://relay.example/%7Efoo"],
    "ws://abcdef.onion/": ["abcdef.onion", "ABCDEF.onion/", "ws://abcdef.onion:80"],
    "wss://abcdef.onion/": ["wss://abcdef.onion"],
    "wss://xn--bcher-kva.example/": [
        "wss://bücher.example",
        "wss://BÜCHER.example",
        "bücher.example",
    ],
    "wss://localhost:8080/": ["localhost:8080"],
    "ws://127.0.0.1:7000/": ["ws://127.0.0.1:7000"],
    "ws://[::1]:7000/": ["ws://[::1]:7000"],
    "wss://[2001:db8::a]/": ["wss://[2001:DB8::A]", "wss://[2001:db8::a]:443/"],
    "wss://my_relay.example/": ["wss://my_relay.example"],
}


@pytest.mark.parametrize(
    ("text", "expected"), [(text, form) for form, texts in FORMS.items() for text in texts]
)
def test_every_spelling_of_a_relay_has_one_form(text: str, expected: str) -> None:
    assert normalise_url(text) == expected


BAD = [
    "",
    "   ",
    "x" * (MAX_URL + 1),
    "wss://" + "a" * 64 + ".example",
    "wss://" + "a." * 130 + "example",
    "wss://",
    "wss:///path",
    "wss://.com",
    "wss://..",
    "wss://a..b",
    "wss://-a.example",
    "wss://a-.example",
    "wss://a%20b.example",
    "wss://a*b.example",
    "wss://a.example:0",
    "wss://a.example:99999",
    "wss://a.example:port",
    "wss://a.example:-1",
    "wss://a.example wss://b.example",
    "wss://a.example,wss://b.example",
    "wss://a.example,b.example",
    "wss://a.examplewss://b.example",
    "wss://wss://a.example",
    "wss:/a.example",
    "wss//a.example",
    "wss:a.example",
    "https//a.example",
    "ftp://a.example",
    "file:///etc/passwd",
    "javascript://a.example",
    "mailto:me@a.example",
    "alice@a.example",
    "wss://a.example/a b",
    "wss://a.example/a\tb",
    "wss://a.example/\x00",
    "wss://a.example/\x9b",
    "wss://a.example/\ud83e",
    "wss://\ud83e.example",
    'wss://a.example/"',
    "wss://a.example\\b",
    "<wss://a.example>",
    "wss://{host}",
    "wss://[::1",
    "wss://[]",
    "wss://[nonsense]",
    "wss://a\u2024example\u2100",
    "wss://" + "ü" * 70 + ".example",
    "wss://bücher。",
]


@pytest.mark.parametrize("text", BAD)
def test_what_is_not_one_relay_url_is_refused_in_a_sentence(text: str) -> None:
    with pytest.raises(BadSetting, match=r"URL|host|port"):
        normalise_url(text)


def check_form(text: str) -> None:
    """Refused, or in a form that stays as it is and can be dialled."""
    try:
        form = normalise_url(text)
    except BadSetting:
        return
    assert normalise_url(form) == form
    parts = urlsplit(form)
    assert parts.scheme in ("ws", "wss")
    assert parts.hostname
    assert parts.path.startswith("/")
    assert parts.username is None
    assert parts.password is None
    assert parts.fragment == ""
    assert parts.netloc.isascii()
    assert form.encode()


PIECES = (
    *("wss", "ws", "http", "://", ":", "/", "//", ".", "@", "#", "?", "[", "]", "::1", "%", "80"),
    *(
        "443",
        "relay",
        "example",
        "Ü",
        "ß",
        "。",
        "xn--",
        "-",
        "_",
        " ",
        ",",
        "\ud800",
        "\u200b",
        "0",
    ),
)
pieces = st.sampled_from(PIECES)


@given(st.lists(pieces | st.text(max_size=3), max_size=12).map("".join))
def test_any_text_is_refused_or_has_a_form_that_stays(text: str) -> None:
    check_form(text)


@given(
    st.sampled_from(["wss://", "ws://", "https://", "", "WSS://"]),
    st.from_regex(r"[A-Za-z0-9]{1,8}(\.[A-Za-z]{1,8}){1,2}", fullmatch=True),
    st.sampled_from(["", ":443", ":80", ":7777"]),
    st.sampled_from(["", "/", "/p", "/p/", "?q=1", "/p?q=1", "#f"]),
)
def test_every_ordinary_url_has_a_form(scheme: str, host: str, port: str, rest: str) -> None:
    form = normalise_url(f"{scheme}{host}{port}{rest}")
    assert host.lower() in form
    check_form(form)


def wild_urls() -> list[str]:
    """What people really wrote into their relay lists, or failing that, what we made up."""
    if not SEEN_IN_THE_WILD.exists():
        return [*BAD, *(text for texts in FORMS.values() for text in texts)]
    return SEEN_IN_THE_WILD.read_text(encoding="utf-8", errors="surrogateescape").splitlines()


def test_every_url_seen_in_the_wild_is_refused_or_has_a_form_that_stays() -> None:
    lines = wild_urls()
    assert lines
    for line in lines:
        check_form(line)
