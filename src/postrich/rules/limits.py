"""What a relay's own description (NIP-11) means for an event.

Reads documents that any stranger may have written: what is not of the right kind is not there.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from urllib.parse import urlsplit

import msgspec

from postrich.model.relay import Limitation, RelayInfo

MAX_DOCUMENT = 256 * 1024
MAX_NUMBER = 2**53
_TEXTS = ("name", "description", "software", "version", "payments_url")
_LONGEST_TEXT = 500


def info_url(relay: str) -> str | None:
    """Where a relay describes itself: its own address, over HTTP (C4). None: it has none."""
    scheme = {"ws": "http", "wss": "https"}.get(urlsplit(relay).scheme)
    return None if scheme is None else scheme + relay[relay.index(":") :]


def parse_info(body: bytes) -> RelayInfo | None:
    """A description, as far as it can be read; None where it is no JSON object."""
    try:
        document = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None
    if not isinstance(document, dict):
        return None
    texts = {name: _text(document.get(name)) for name in _TEXTS}
    nips = document.get("supported_nips")
    listed = nips if isinstance(nips, list) else []
    numbers = tuple(dict.fromkeys(nip for nip in map(_number, listed) if nip is not None))
    return RelayInfo(
        **texts, supported_nips=numbers, limitation=_limitation(document.get("limitation"))
    )


def _limitation(found: Any) -> Limitation:
    if not isinstance(found, dict):
        return Limitation()
    known: dict[str, Any] = {}
    for field in msgspec.structs.fields(Limitation):
        is_flag = field.name.endswith(("_required", "_writes"))
        value = found.get(field.name)
        known[field.name] = _flag(value) if is_flag else _number(value)
    return Limitation(**known)


def _text(value: Any) -> str:
    return value[:_LONGEST_TEXT] if isinstance(value, str) else ""


def _flag(value: Any) -> bool | None:
    return value if isinstance(value, bool) else None


def _number(value: Any) -> int | None:
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 16:
        value = int(value)
    is_number = type(value) is int or (type(value) is float and value.is_integer())
    return int(value) if is_number and 0 <= value < MAX_NUMBER else None


def required_pow(infos: Iterable[RelayInfo | None]) -> int:
    """The work that satisfies all of these relays."""
    asked = (info.limitation.min_pow_difficulty for info in infos if info is not None)
    return max((bits for bits in asked if bits), default=0)
