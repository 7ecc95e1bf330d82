"""Relay URLs in one form, and which of them a stranger may name (C11).

One relay is one relay: the form follows the practice of the network, since no NIP says it:
lowercase scheme and host, IDNA, no default port, no fragment, no user name; a bare host ends
in `/`; any other path stays. What is judged here is the form, and the form is what is dialled.

What strangers' lists name never leads to this machine, its networks or its cloud. The owner's
own relays are not judged: they may be anywhere.
"""

from __future__ import annotations

import contextlib
import functools
import re
from collections.abc import Iterable
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from urllib.parse import SplitResult, urlsplit

import msgspec

from postrich.errors import BadSetting

MAX_URL = 1024
_SCHEMES = {"ws": "ws", "wss": "wss", "http": "ws", "https": "wss"}
_DEFAULT_PORTS = {"ws": 80, "wss": 443}
_FOREIGN = re.compile(r"[\s,<>\"\\^`{}|\x00-\x1f\x7f-\x9f\ud800-\udfff]")
_LABEL = re.compile(r"^(?!-)[a-z0-9_-]{1,63}(?<!-)$")
_BRACKETED = re.compile(r"\[[0-9A-Fa-f:.]+(?:%[\w.~-]+)?\](?::[^:]*)?", re.ASCII)


@functools.lru_cache(4096)
def normalise_url(text: str) -> str:
    """The one form of a relay URL, or `BadSetting` with what is wrong."""
    url = text.strip()
    if not url or len(url) > MAX_URL:
        raise BadSetting("a relay URL must not be empty or longer than 1,024 characters")
    if _FOREIGN.search(url) or url.count("://") > 1:
        raise BadSetting(f"{url[:80]!r} is not one relay URL; give each relay separately")
    if "://" not in url:
        place = re.split("[/?#]", url, maxsplit=1)[0].lower()
        if "@" in place:
            raise BadSetting(f"{url[:80]!r} is an address of a person, not a relay URL")
        url = f"{'ws' if is_onion(place.split(':')[0].rstrip('.')) else 'wss'}://{url}"
    parts = _split(url)
    scheme = _SCHEMES.get(parts.scheme.lower(), "")
    if not scheme:
        raise BadSetting(f"{text.strip()[:80]!r} is not a relay URL: it must start with wss://")
    host = _host(parts, text)
    port = _port(parts, text)
    place = host if port in (None, _DEFAULT_PORTS[scheme]) else f"{host}:{port}"
    query = f"?{parts.query}" if parts.query else ""
    return f"{scheme}://{place}{parts.path or '/'}{query}"


def clean_urls(texts: Iterable[str]) -> tuple[str, ...]:
    """The relay URLs among strangers' texts, each once, in normal form."""
    found: dict[str, None] = {}
    for text in texts:
        with contextlib.suppress(BadSetting):
            found[normalise_url(text)] = None
    return tuple(found)


def is_onion(host: str) -> bool:
    """Whether only Tor knows this host. Its name must never be asked of DNS (RFC 7686)."""
    return host.endswith(".onion")


def _split(url: str) -> SplitResult:
    try:
        return urlsplit(url)
    except ValueError as problem:
        raise BadSetting(f"{url[:80]!r} is not a relay URL: {problem}") from None


def _port(parts: SplitResult, text: str) -> int | None:
    try:
        port = parts.port
    except ValueError:
        port = 0
    if port == 0:
        raise BadSetting(f"{text.strip()[:80]!r} has no usable port")
    return port


def _host(parts: SplitResult, text: str) -> str:
    host = (parts.hostname or "").rstrip(".")
    place = parts.netloc.rpartition("@")[2]
    if _BRACKETED.fullmatch(place):
        return f"[{host}]"
    try:
        host = host.encode("idna").decode() if not host.isascii() else host
    except UnicodeError:
        host = ""
    if "[" in place:  # `host[::1]` and `[v1.host]` are hosts to some versions of `urlsplit`
        host = ""
    labels = host.split(".")
    # `wss:/host` and `wss//host` are slips, not hosts of that name.
    if len(host) > 253 or host in _SCHEMES or not all(_LABEL.match(label) for label in labels):
        raise BadSetting(f"{text.strip()[:80]!r} has no usable host name")
    return host


# -- what strangers may name -------------------------------------------------------------------


class DialPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """Where the relay lists of strangers may send us; the default is the safe one."""

    #: The only ports. None: 80, 443, and those above 1023 that belong to no other service:
    #: of the public relays in people's lists one in ten is at 4848, 7777 or another such port.
    ports: frozenset[int] | None = None
    #: Whether `ws://`, which anyone on the way can read and change, will do.
    plain: bool = False
    #: The SOCKS proxy by which `.onion` hosts are reached, as `socks5://127.0.0.1:9050`.
    #: None: they are not dialled.
    onion: str | None = None


STRANGERS = DialPolicy()

_WEB_PORTS = {80, 443}
_FIRST_FREE_PORT = 1024
#: The ports above 1023 that browsers refuse (Fetch standard, "bad port"), and two stores that
#: act on any line of text they are sent.
_OTHER_SERVICES = {
    *(1719, 1720, 1723, 2049, 3659, 4045, 4190, 5060, 5061, 6000, 6566, 10080),
    *(6665, 6666, 6667, 6668, 6669, 6679, 6697),
    *(6379, 11211),
}
#: Names that no public DNS gives out: RFC 6761, 6762 and 8375, ICANN's `internal`, and what
#: routers and firms use. Their addresses would be refused too; this spares the question.
_LOCAL_NAMES = (
    *("localhost", "local", "internal", "home.arpa", "test", "invalid"),
    *("lan", "home", "corp", "intranet", "localdomain", "private"),
)
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")


def refuse_third_party(url: str, policy: DialPolicy = STRANGERS) -> str | None:
    """Why a stranger's list may not send us to this URL, as far as can be told without DNS."""
    try:
        parts = urlsplit(normalise_url(url))
    except BadSetting as problem:
        return str(problem)
    host = parts.hostname or ""
    if parts.scheme == "ws" and not policy.plain and not is_onion(host):
        return f"{host} would be spoken to without encryption"
    return _refuse_host(host, policy) or refuse_port(
        parts.port or _DEFAULT_PORTS[parts.scheme], policy
    )


def refuse_port(port: int, policy: DialPolicy = STRANGERS) -> str | None:
    """Why a stranger may not send us to this port."""
    if policy.ports is not None:
        is_open = port in policy.ports
    else:
        is_open = port in _WEB_PORTS or port >= _FIRST_FREE_PORT
        is_open = is_open and port not in _OTHER_SERVICES
    return None if is_open else f"port {port} is not one for relays"


def _refuse_host(host: str, policy: DialPolicy) -> str | None:
    # No domain ends in a number: what does, resolvers read as IPv4 in one of many notations.
    if ":" in host or _NUMBER.fullmatch(host.rpartition(".")[2]):
        reason = refuse_address(host)
        return None if reason is None else f"{host} is {reason}"
    if is_onion(host):
        return None if policy.onion else f"{host} is a Tor host, and no proxy for Tor is set"
    if "." not in host or f".{host}".endswith(tuple(f".{name}" for name in _LOCAL_NAMES)):
        return f"{host} is a name of a local network"
    return None


_PRIVATE = "a private address"
_LINK_LOCAL = "a link-local address"
_METADATA = "a cloud's metadata service"
_RESERVED = "a reserved address"
_DOCUMENTATION = "an address for documentation"
_BENCHMARK = "an address for benchmarks"

#: The special-purpose registries of IANA, and what clouds tell their machines at. The first
#: that holds an address names it. Ours, because `ipaddress` judges differently by version.
_SPECIAL = [
    (ip_network(network), reason)
    for network, reason in (
        ("0.0.0.0/32", "the unspecified address"),
        ("0.0.0.0/8", _RESERVED),
        ("10.0.0.0/8", _PRIVATE),
        ("100.100.100.200/32", _METADATA),
        ("100.64.0.0/10", "an address inside a provider's network"),
        ("127.0.0.0/8", "a loopback address"),
        ("168.63.129.16/32", _METADATA),
        ("169.254.169.254/32", _METADATA),
        ("169.254.0.0/16", _LINK_LOCAL),
        ("172.16.0.0/12", _PRIVATE),
        ("192.0.0.0/24", _RESERVED),
        ("192.0.2.0/24", _DOCUMENTATION),
        ("192.88.99.0/24", _RESERVED),
        ("192.168.0.0/16", _PRIVATE),
        ("198.18.0.0/15", _BENCHMARK),
        ("198.51.100.0/24", _DOCUMENTATION),
        ("203.0.113.0/24", _DOCUMENTATION),
        ("224.0.0.0/4", "a multicast address"),
        ("255.255.255.255/32", "the broadcast address"),
        ("240.0.0.0/4", _RESERVED),
        ("::/128", "the unspecified address"),
        ("::1/128", "a loopback address"),
        ("2001:2::/48", _BENCHMARK),
        ("2001::/23", _RESERVED),
        ("2001:db8::/32", _DOCUMENTATION),
        ("3fff::/20", _DOCUMENTATION),
        ("fd00:ec2::254/128", _METADATA),
        ("fd20:ce::254/128", _METADATA),
        ("fc00::/7", _PRIVATE),
        ("fe80::/10", _LINK_LOCAL),
        ("fec0::/10", _PRIVATE),
        ("ff00::/8", "a multicast address"),
    )
]
#: IPv6 addresses that only carry an IPv4 one: mapped, NAT64, 6to4, Teredo.
_CARRIERS = [ip_network(n) for n in ("::ffff:0:0/96", "64:ff9b::/96", "2002::/16", "2001::/32")]
#: All that is given out of IPv6; what lies outside is reserved, whatever it will be one day.
_PUBLIC_IPV6 = ip_network("2000::/3")


def refuse_address(address: str | IPv4Address | IPv6Address) -> str | None:
    """Why a stranger may not send us to this address: what it is instead of a public one."""
    try:
        found = ip_address(address)
    except ValueError:
        return "not an address in plain notation"
    if isinstance(found, IPv6Address):
        return _refuse_ipv6(found)
    return _special(found)


def _refuse_ipv6(address: IPv6Address) -> str | None:
    if address.scope_id is not None:
        return _LINK_LOCAL
    for inner in _carried(address):
        if reason := _special(inner):
            return reason
    if any(address in network for network in _CARRIERS):
        return None
    return _special(address) or (None if address in _PUBLIC_IPV6 else _RESERVED)


def _carried(address: IPv6Address) -> tuple[IPv4Address, ...]:
    """The IPv4 addresses that a packet to this one would be sent to in the end."""
    if address.teredo:
        return address.teredo
    if address.sixtofour:
        return (address.sixtofour,)
    is_isatap = int(address) >> 32 & 0xFDFFFFFF == 0x5EFE
    if is_isatap or any(address in network for network in _CARRIERS):
        return (IPv4Address(int(address) & 0xFFFFFFFF),)
    return ()


def _special(address: IPv4Address | IPv6Address) -> str | None:
    return next((reason for network, reason in _SPECIAL if address in network), None)
