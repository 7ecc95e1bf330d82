"""Relay URLs in one form, so that one relay is one relay, and where strangers may lead (C11)."""

from ipaddress import IPv4Address, IPv6Address
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from postrich.errors import BadSetting
from postrich.rules.trust import (
    MAX_URL,
    DialPolicy,
    normalise_url,
    refuse_address,
    refuse_port,
    refuse_third_party,
)

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
    "ws://abcdef.onion:8080/": ["abcdef.onion:8080", "ABCDEF.onion.:8080"],
    "ws://abcdef.onion/?q=a@b": ["abcdef.onion?q=a@b", "abcdef.onion?q=a@b#f"],
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
    "ws://[fe80::1%eth0]/": ["ws://[FE80::1%eth0]:80"],
    "ws://[::ffff:127.0.0.1]/": ["ws://me@[::FFFF:127.0.0.1]"],
    "ws://127.0.0.1/": ["ws://１２７。０。０。１", "http://127.0.0.1:80"],
    "ws://2130706433/": ["ws://2130706433"],
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
    "wss://[v1.host]",
    "wss://[v1.a:b]",
    "wss://relay.example[::1]",
    "wss://[::1]relay.example",
    "wss://[::1%é]",
    "wss://[127.0.0.1]",
    "wss://%31%32%37.0.0.1",
    "wss://relay.example%00",
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
        assert refuse_third_party(line) != ""


# -- where strangers may not lead --------------------------------------------------------------

SPECIAL = {
    "a loopback address": [
        *("127.0.0.1", "127.255.255.255", "::1", "::ffff:127.0.0.1", "::ffff:7f00:1"),
        *("64:ff9b::127.0.0.1", "2002:7f00:1::", "2002:7f00:1:2::3"),
        *("2600:1f00::5efe:127.0.0.1", "2600:1f00::200:5efe:127.0.0.1"),
        "2001:0:808:808:0:0:80ff:fffe",  # Teredo: a client at 127.0.0.1
        "2001:0:7f00:1:0:0:f7f7:f7f7",  # and a server there
    ],
    "a private address": [
        *("10.0.0.0", "10.255.255.255", "172.16.0.0", "172.31.255.255", "192.168.0.0"),
        *("192.168.255.255", "fc00::", "fdff::1", "fec0::1", "::ffff:10.0.0.1"),
    ],
    "an address inside a provider's network": ["100.64.0.0", "100.127.255.255"],
    "a link-local address": [
        *("169.254.0.0", "169.254.255.255", "fe80::1", "febf::1", "fe80::1%eth0"),
        *("2600:1f00::1%1", "::ffff:169.254.0.1"),
    ],
    "a cloud's metadata service": [
        *("169.254.169.254", "100.100.100.200", "168.63.129.16", "::ffff:169.254.169.254"),
        *("fd00:ec2::254", "fd20:ce::254", "64:ff9b::a9fe:a9fe"),
    ],
    "a multicast address": ["224.0.0.0", "239.255.255.255", "ff00::", "ff02::1"],
    "the broadcast address": ["255.255.255.255"],
    "the unspecified address": ["0.0.0.0", "::", "::ffff:0.0.0.0"],
    "an address for documentation": [
        *("192.0.2.0", "192.0.2.255", "198.51.100.0", "198.51.100.255", "203.0.113.0"),
        *("203.0.113.255", "2001:db8::", "3fff::1"),
    ],
    "an address for benchmarks": ["198.18.0.0", "198.19.255.255", "2001:2::1"],
    "a reserved address": [
        *("0.0.0.1", "0.255.255.255", "192.0.0.0", "192.0.0.255", "192.88.99.1", "240.0.0.0"),
        *("255.255.255.254", "::2", "::127.0.0.1", "::8.8.8.8", "::ffff:0:127.0.0.1"),
        *("64:ff9b:1::8.8.8.8", "100::1", "2001:10::1", "2001:1ff:ffff::1", "200::1", "4000::"),
        *("5f00::1", "1fff:ffff::"),
    ],
    "not an address in plain notation": [
        *("", "127.1", "0177.0.0.1", "0x7f.0.0.1", "2130706433", "127.0.0.1.", "127.0.0.01"),
        *("１２７.0.0.1", " 127.0.0.1", "127.0.0.1/8", "[::1]", "relay.example", "fe80::1%"),
    ],
}
PUBLIC = [
    *("1.0.0.0", "9.255.255.255", "11.0.0.0", "100.63.255.255", "100.128.0.0", "126.255.255.255"),
    *("128.0.0.0", "168.63.129.15", "169.253.255.255", "169.255.0.0", "172.15.255.255"),
    *("172.32.0.0", "192.0.1.0", "192.0.3.0", "192.167.255.255", "192.169.0.0", "198.17.255.255"),
    *("198.20.0.0", "203.0.112.255", "203.0.114.0", "223.255.255.255", "2606:4700::1111"),
    *("2001:200::1", "2001:db7::1", "2001:db9::1", "2000::", "3ffe::1", "2a00:1450::5eff:8.8.8.8"),
    *("::ffff:8.8.8.8", "64:ff9b::8.8.8.8", "2002:808:808::1", "2600:1f00::5efe:8.8.8.8"),
    "2001:0:808:808:0:0:f7f7:f7f7",
]


@pytest.mark.parametrize(
    ("text", "reason"), [(text, reason) for reason, texts in SPECIAL.items() for text in texts]
)
def test_an_address_that_is_not_public_is_refused_by_what_it_is(text: str, reason: str) -> None:
    assert refuse_address(text) == reason


@pytest.mark.parametrize("text", PUBLIC)
def test_a_public_address_may_be_named_by_anyone(text: str) -> None:
    assert refuse_address(text) is None


@given(st.ip_addresses())
def test_no_address_is_let_pass_that_the_standard_library_calls_private(
    address: IPv4Address | IPv6Address,
) -> None:
    """Where an IPv4 address is carried inside, its versions disagree: the tables above decide."""
    carriers = ("::ffff:", "64:ff9b:", "2002:", "2001:0:", "2001::")
    if refuse_address(address) is None and not str(address).startswith(carriers):
        assert address.is_global
        assert not address.is_multicast
    assert refuse_address(address) == refuse_address(str(address))


@given(st.ip_addresses(v=4))
def test_an_address_is_judged_the_same_in_whatever_carries_it(address: IPv4Address) -> None:
    number, reason = int(address), refuse_address(address)
    carried = (
        IPv6Address(0xFFFF << 32 | number),
        IPv6Address(0x64FF9B << 96 | number),
        IPv6Address(0x2002 << 112 | number << 80 | 1),
        IPv6Address(0x20010000 << 96 | 0x08080808 << 64 | (number ^ 0xFFFFFFFF)),
        IPv6Address(0x26001F00 << 96 | 0x5EFE << 32 | number),
    )
    assert [refuse_address(outer) for outer in carried] == [reason] * len(carried)


LOCAL_URLS = [
    *("wss://127.0.0.1", "wss://127.0.0.1.", "wss://127.1", "wss://2130706433", "wss://0x7f000001"),
    *("wss://0x7f.1", "wss://0177.0.0.1", "wss://017700000001", "wss://127.0.0x1", "wss://0"),
    *("wss://0x", "wss://relay.example.0x", "wss://1.2.3.4.5", "wss://100.127.36.484/8:4848"),
    *("wss://256.256.256.256", "wss://999999999999", "wss://127.0.0.1:7777", "wss://0.0.0.0"),
    *("wss://１２７.0.0.1", "wss://127。0。0。1", "wss://①②⑦.0.0.1", "wss://%6cocalhost"),
    *("wss://%31%32%37.0.0.1", "wss://user@127.0.0.1", "wss://8.8.8.8@127.0.0.1"),
    *("wss://127.0.0.1#@8.8.8.8", "wss://127.0.0.1?@8.8.8.8", "wss://127.0.0.1\\@8.8.8.8"),
    *("wss://[::1]", "wss://[::ffff:127.0.0.1]", "wss://[::]", "wss://[fe80::1%eth0]"),
    *("wss://[fd00::1]", "wss://[64:ff9b::10.0.0.1]", "wss://[2002:c0a8:1::]", "wss://10.0.0.1"),
    *("wss://localhost", "wss://LOCALHOST.", "wss://ｌocalhost", "wss://a.localhost", "localhost"),
    *("wss://printer.local", "wss://metadata.google.internal", "wss://nas.lan", "wss://x.home"),
    *("wss://umbrel.home.arpa:4848", "wss://a.corp", "wss://a.intranet", "wss://a.private"),
    *("wss://a.localdomain", "wss://a.test", "wss://a.invalid", "wss://relay", "wss://onion"),
    *("wss://abcdef.onion", "ws://abcdef.onion", "abcdef.onion", "ws://relay.example"),
    *("http://relay.example", "wss://relay.example:22", "wss://relay.example:25"),
    *("wss://relay.example:6379", "wss://relay.example:6667", "wss://relay.example:1023"),
    *("", "nonsense://", "file:///etc/passwd", "gopher://relay.example:70", "wss://a..b"),
]


@pytest.mark.parametrize("url", LOCAL_URLS)
def test_a_stranger_may_not_name_it(url: str) -> None:
    assert refuse_third_party(url)


@pytest.mark.parametrize(
    "url",
    [
        *("wss://relay.example", "relay.example", "https://relay.example/path", "wss://8.8.8.8"),
        *("wss://[2606:4700::1111]:7777", "wss://localhost.example", "wss://local.example"),
        *("wss://notlocal.mylocal", "wss://onion.example", "wss://relay.example:80"),
        *("wss://relay.example:1024", "wss://relay.example:4848", "wss://relay.example:8008"),
        *("wss://0x7f.example", "wss://127.0.0.1.example", "wss://1.2.3.4a", "wss://a.0xg"),
        *("wss://bücher.example", "wss://relay.example:65535"),
    ],
)
def test_a_stranger_may_name_it(url: str) -> None:
    assert refuse_third_party(url) is None


@pytest.mark.parametrize(
    ("url", "sentence"),
    [
        ("wss://127.0.0.1:7000/x", "127.0.0.1 is a loopback address"),
        ("wss://[::ffff:7f00:1]", "::ffff:7f00:1 is a loopback address"),
        ("wss://127.1", "127.1 is not an address in plain notation"),
        ("wss://nas.local", "nas.local is a name of a local network"),
        ("wss://x.onion", "x.onion is a Tor host, and no proxy for Tor is set"),
        ("ws://relay.example", "relay.example would be spoken to without encryption"),
        ("wss://relay.example:22", "port 22 is not one for relays"),
        ("wss://", "'wss://' has no usable host name"),
    ],
)
def test_a_refusal_says_why(url: str, sentence: str) -> None:
    assert refuse_third_party(url) == sentence


def test_the_owner_may_let_strangers_do_more_or_less() -> None:
    tor = DialPolicy(onion="socks5://127.0.0.1:9050")
    assert refuse_third_party("wss://abcdef.onion", tor) is None
    assert refuse_third_party("ws://abcdef.onion", tor) is None, "Tor encrypts"
    assert refuse_third_party("ws://relay.example", tor)
    plain = DialPolicy(plain=True)
    assert refuse_third_party("ws://relay.example", plain) is None
    assert refuse_third_party("ws://127.0.0.1", plain)
    assert refuse_third_party("ws://abcdef.onion", plain)
    ports = DialPolicy(ports=frozenset({443, 444}), plain=True)
    assert refuse_third_party("wss://relay.example", ports) is None
    assert refuse_third_party("wss://relay.example:444", ports) is None
    assert refuse_third_party("ws://relay.example", ports) == "port 80 is not one for relays"
    assert refuse_third_party("wss://relay.example:4848", ports)


def test_which_ports_are_for_relays() -> None:
    allowed = [port for port in range(1, 65536) if refuse_port(port) is None]
    assert allowed[:3] == [80, 443, 1024]
    assert not {1720, 2049, 5060, 6000, 6379, 6666, 6697, 10080, 11211} & set(allowed)
    assert {3000, 4848, 5432, 7777, 8008, 8080, 8443, 65535} <= set(allowed)


@given(st.lists(pieces | st.text(max_size=3) | st.ip_addresses().map(str), max_size=12))
def test_any_text_of_a_stranger_is_judged(words: list[str]) -> None:
    text = "".join(words)
    reason = refuse_third_party(text)
    assert reason != ""
    if reason is None:
        assert refuse_third_party(normalise_url(text)) is None
