"""What a relay's own description (NIP-11) means for an event.

Reads documents that any stranger may have written: what is not of the right kind is not there.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any
from urllib.parse import urlsplit

import msgspec

from postrich.model.delivery import Outcome, Parcel, Verdict
from postrich.model.event import Draft, Event, expiration_of
from postrich.model.relay import Limitation, RelayInfo
from postrich.rules.pow import committed_difficulty, difficulty_of

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


# -- what a relay would refuse, before it is sent (C5) --------------------------------------------


class Facts(msgspec.Struct, frozen=True):
    """What limits look at. `message`: bytes of the whole frame."""

    message: int
    content: int
    tags: int
    created_at: int
    work: int
    expires: bool


#: Until a relay says otherwise (C4). For questions; an event is only kept back on its word.
DEFAULTS = Limitation(
    max_message_length=131_072,
    max_subscriptions=20,
    max_limit=5_000,
    default_limit=100,
    auth_required=False,
    payment_required=False,
    restricted_writes=False,
)
SMALLEST_MESSAGE = 16 * 1024


def effective(info: RelayInfo | None) -> Limitation:
    """A relay's limits, with the defaults where it says nothing."""
    said = info.limitation if info is not None else Limitation()
    merged = {
        field.name: getattr(said, field.name)
        if getattr(said, field.name) is not None
        else getattr(DEFAULTS, field.name)
        for field in msgspec.structs.fields(Limitation)
    }
    return Limitation(**merged)


def surely_takes(
    parcel: Parcel, info: RelayInfo, now: int, *, trusted: bool, longest: int | None = None
) -> bool:
    """Whether the relay takes this by a look at its bytes alone; False: look closer.

    Nearly every event passes here without being read: its bytes bound whatever is in it.
    """
    limit, frame = info.limitation, parcel.frame
    size = len(frame)
    sizes = (limit.max_message_length, limit.max_content_length, longest)
    if any(most and size > most for most in sizes) or limit.min_pow_difficulty:
        return False
    if limit.max_event_tags and frame.count(b"[") > limit.max_event_tags + 2:
        return False
    if not trusted and (limit.payment_required or limit.restricted_writes):
        return False
    if b"expiration" in frame or b"\\u" in frame:  # which may be the same in disguise
        return False
    return _refuses_time(parcel.created_at, limit, now) is None


def facts_of(event: Draft | Event, message: int) -> Facts:
    event_id = event.id
    return Facts(
        message=message,
        content=len(event.content),
        tags=len(event.tags),
        created_at=event.created_at,
        work=committed_work(event_id, event.tags),
        expires=expiration_of(event.tags) is not None,
    )


def committed_work(event_id: str, tags: Sequence[Sequence[str]]) -> int:
    """The work that counts: what was aimed for, if that is less than what was found."""
    found = difficulty_of(event_id)
    aimed = committed_difficulty(tags)
    return found if aimed is None else min(found, aimed)


def refuses(
    facts: Facts, info: RelayInfo, now: int, *, trusted: bool, longest: int | None = None
) -> Verdict | None:
    """Why this relay would not take the event, by its own word; None: send it.

    `longest`: the size that it was found to take in this session (C6). Whether an owner's own
    relay wants payment or knows its writers is the owner's affair, who chose it.
    """
    limit = info.limitation
    sizes = [size for size in (limit.max_message_length, longest) if size]
    if sizes and facts.message > min(sizes):
        return _skip("too-large", f"{facts.message:,} bytes; it takes {min(sizes):,}")
    if limit.max_event_tags and facts.tags > limit.max_event_tags:
        return _skip("too-large", f"{facts.tags:,} tags; it takes {limit.max_event_tags:,}")
    if limit.max_content_length and facts.content > limit.max_content_length:
        said = f"{facts.content:,} characters; it takes {limit.max_content_length:,}"
        return _skip("too-large", said)
    if limit.min_pow_difficulty and facts.work < limit.min_pow_difficulty:
        said = f"it wants {limit.min_pow_difficulty} bits of work; this has {facts.work}"
        return Verdict(Outcome.PARKED, "pow", said, burns=False)
    return _refuses_time(facts.created_at, limit, now) or _refuses_us(facts, info, trusted=trusted)


def _refuses_time(created_at: int, limit: Limitation, now: int) -> Verdict | None:
    seconds = now // 1000
    oldest, newest = limit.created_at_lower_limit, limit.created_at_upper_limit
    if oldest and created_at < seconds - oldest:
        return _skip("too-old", f"it takes nothing older than {oldest:,} s")
    if newest is not None and created_at > seconds + newest:
        return Verdict(Outcome.RETRY, "future", f"it takes nothing {newest:,} s ahead of time")
    return None


def _refuses_us(facts: Facts, info: RelayInfo, *, trusted: bool) -> Verdict | None:
    if facts.expires and info.supported_nips and 40 not in info.supported_nips:
        return _skip("expiration", "it does not honour expirations (NIP-40)")
    if trusted:
        return None
    if info.limitation.payment_required:
        return _skip("payment", f"it wants to be paid {info.payments_url}".rstrip())
    if info.limitation.restricted_writes:
        return _skip("restricted", "it takes only from those it knows")
    return None


def _skip(code: str, text: str) -> Verdict:
    return Verdict(Outcome.SKIPPED, code, f"not sent: {text}", burns=False)


def smaller(size: int, known: int | None) -> int:
    """What to believe after a relay found a message too large: half of it, not below 16 KB (C6)."""
    return max(SMALLEST_MESSAGE, min(size, known or size) // 2)
