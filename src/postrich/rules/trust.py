"""Relay URLs in one form, so that one relay is one relay.

Follows the practice of the network, since no NIP says it: lowercase scheme and host, IDNA,
no default port, no fragment, no user name; a bare host ends in `/`; any other path stays.
"""

from __future__ import annotations

import re
from urllib.parse import SplitResult, urlsplit

from postrich.errors import BadSetting

MAX_URL = 1024
_SCHEMES = {"ws": "ws", "wss": "wss", "http": "ws", "https": "wss"}
_DEFAULT_PORTS = {"ws": 80, "wss": 443}
_FOREIGN = re.compile(r"[\s,<>\"\\^`{}|\x00-\x1f\x7f-\x9f\ud800-\udfff]")
_LABEL = re.compile(r"^(?!-)[a-z0-9_-]{1,63}(?<!-)$")


def normalise_url(text: str) -> str:
    """The one form of a relay URL, or `BadSetting` with what is wrong."""
    url = text.strip()
    if not url or len(url) > MAX_URL:
        raise BadSetting("a relay URL must not be empty or longer than 1,024 characters")
    if _FOREIGN.search(url) or url.count("://") > 1:
        raise BadSetting(f"{url[:80]!r} is not one relay URL; give each relay separately")
    if "://" not in url:
        place = url.split("/")[0].lower()
        if "@" in place:
            raise BadSetting(f"{url[:80]!r} is an address of a person, not a relay URL")
        url = f"{'ws' if place.endswith('.onion') else 'wss'}://{url}"
    parts = _split(url)
    scheme = _SCHEMES.get(parts.scheme.lower(), "")
    if not scheme:
        raise BadSetting(f"{text.strip()[:80]!r} is not a relay URL: it must start with wss://")
    host = _host(parts, text)
    port = _port(parts, text)
    place = host if port in (None, _DEFAULT_PORTS[scheme]) else f"{host}:{port}"
    query = f"?{parts.query}" if parts.query else ""
    return f"{scheme}://{place}{parts.path or '/'}{query}"


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
    if ":" in host:
        return f"[{host}]"
    try:
        host = host.encode("idna").decode() if not host.isascii() else host
    except UnicodeError:
        host = ""
    labels = host.split(".")
    # `wss:/host` and `wss//host` are slips, not hosts of that name.
    if len(host) > 253 or host in _SCHEMES or not all(_LABEL.match(label) for label in labels):
        raise BadSetting(f"{text.strip()[:80]!r} has no usable host name")
    return host
