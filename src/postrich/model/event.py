"""Nostr events: what was handed in, checked once, byte for byte.

Promises: an `Event` has a true id, a well-formed signature field and the JSON bytes it came
with; a `Draft` has the id that its signed event will have. Never changes a field, never signs.
"""

from __future__ import annotations

import enum
import functools
import json
from collections.abc import Callable, Sequence
from hashlib import sha256
from typing import Any

import coincurve
import msgspec

from postrich.errors import InvalidEvent, RefusedKind

MAX_KIND = 65_535
_HEX_DIGITS = frozenset("0123456789abcdef")
MAX_CREATED_AT = 2**53 - 1  # past this, JavaScript relays read another number
MAX_EVENT_BYTES = 1_048_576

#: Kinds that are parts of other protocols and leak or break something when published.
NEVER_PUBLISHED = {
    13: "a seal, which travels only inside a gift wrap",
    14: "a direct message rumor, which travels only inside a gift wrap",
    15: "a file message rumor, which travels only inside a gift wrap",
    9734: "a zap request, which goes to a wallet service",
    22242: "a relay authentication, which is sent as AUTH",
    24242: "a Blossom authorization, which goes to a media server",
    27235: "an HTTP authorization, which goes to a web server",
}


class KindClass(enum.Enum):
    """What relays do with events of a kind (NIP-01)."""

    REGULAR = "regular"
    REPLACEABLE = "replaceable"
    EPHEMERAL = "ephemeral"
    ADDRESSABLE = "addressable"


def classify(kind: int) -> KindClass:
    """The class of a kind; what NIP-01 leaves unclassified counts as regular."""
    if kind in (0, 3) or 10_000 <= kind < 20_000:
        return KindClass.REPLACEABLE
    if 20_000 <= kind < 30_000:
        return KindClass.EPHEMERAL
    if 30_000 <= kind < 40_000:
        return KindClass.ADDRESSABLE
    return KindClass.REGULAR


class _Wire(msgspec.Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    id: str
    pubkey: str
    created_at: int
    kind: int
    tags: list[list[str]]
    content: str
    sig: str


class Draft(msgspec.Struct, frozen=True, gc=False):
    """An unsigned event. Its id is already settled, since every field that makes it is."""

    pubkey: str
    created_at: int
    kind: int
    tags: Sequence[Sequence[str]]
    content: str

    @property
    def id(self) -> str:
        return event_id(self.pubkey, self.created_at, self.kind, self.tags, self.content)


class Event(msgspec.Struct, frozen=True, gc=False):
    """A signed event and the exact JSON bytes that will be sent to every relay."""

    id: str
    pubkey: str
    created_at: int
    kind: int
    tags: Sequence[Sequence[str]]
    content: str
    sig: str
    raw: bytes


_decode_wire = msgspec.json.Decoder(_Wire).decode
_encode = msgspec.json.Encoder().encode


def event_id(
    pubkey: str, created_at: int, kind: int, tags: Sequence[Sequence[str]], content: str
) -> str:
    """The NIP-01 id. msgspec escapes exactly what the NIP says (shown by a test over Unicode)."""
    return sha256(_encode((0, pubkey, created_at, kind, tags, content))).hexdigest()


def parse_event(raw: bytes | str, max_bytes: int = MAX_EVENT_BYTES) -> Event:
    """Read a signed event and check its form and id, or raise `InvalidEvent`.

    The signature itself is checked by `is_signed`, which costs a hundred times more.
    """
    body = raw.encode("utf-8", "surrogatepass") if isinstance(raw, str) else bytes(raw)
    _check_size(len(body), max_bytes)
    wire: _Wire = _read(_decode_wire, body)
    _check_fields(wire, body)
    _check_hex("id", wire.id, 64)
    _check_hex("pubkey", wire.pubkey, 64)
    _check_hex("sig", wire.sig, 128)
    _check_numbers(wire.kind, wire.created_at)
    _check_tags(wire.tags)
    if event_id(wire.pubkey, wire.created_at, wire.kind, wire.tags, wire.content) != wire.id:
        raise InvalidEvent("id does not match the event's content")
    return Event(
        wire.id,
        wire.pubkey,
        wire.created_at,
        wire.kind,
        wire.tags,
        wire.content,
        wire.sig,
        body,
    )


def make_draft(
    pubkey: str,
    created_at: int,
    kind: int = 1,
    tags: Sequence[Sequence[str]] = (),
    content: str = "",
) -> Draft:
    """A draft whose every field has been checked, or `InvalidEvent`."""
    _check_hex("pubkey", pubkey, 64)
    for name, value in (("kind", kind), ("created_at", created_at)):
        if type(value) is not int:
            raise InvalidEvent(f"{name} must be a whole number")
    if not isinstance(content, str):
        raise InvalidEvent("content must be text")
    _check_numbers(kind, created_at)
    draft = Draft(pubkey, created_at, kind, _freeze_tags(tags), content)
    try:
        size = len(seal(draft, "0" * 128).raw)
    except UnicodeEncodeError:
        raise InvalidEvent("text holds a lone surrogate, which UTF-8 cannot carry") from None
    _check_size(size, MAX_EVENT_BYTES)
    return draft


def seal(draft: Draft, sig: str) -> Event:
    """The signed event of a draft; every field but `sig` is the draft's own."""
    _check_hex("sig", sig, 128)
    wire = _Wire(
        draft.id,
        draft.pubkey,
        draft.created_at,
        draft.kind,
        [list(tag) for tag in draft.tags],
        draft.content,
        sig,
    )
    return Event(
        wire.id,
        wire.pubkey,
        wire.created_at,
        wire.kind,
        wire.tags,
        wire.content,
        sig,
        _encode(wire),
    )


def is_signed(event: Event) -> bool:
    """Whether the BIP-340 signature over the id is the author's."""
    return check_signature(
        bytes.fromhex(event.pubkey), bytes.fromhex(event.id), bytes.fromhex(event.sig)
    )


def check_signature(pubkey: bytes, digest: bytes, sig: bytes) -> bool:
    """One Schnorr check; a pubkey that is no point of the curve signs nothing."""
    try:
        return bool(_point(pubkey).verify(sig, digest))
    except ValueError:
        return False


@functools.lru_cache(4096)
def _point(pubkey: bytes) -> coincurve.PublicKeyXOnly:
    """An author's key, unpacked: an eighth of a check's cost."""
    return coincurve.PublicKeyXOnly(pubkey)


def refuse_kind(kind: int) -> None:
    """Raise for kinds that no outbox may send (A15)."""
    what = NEVER_PUBLISHED.get(kind)
    if what is not None:
        raise RefusedKind(f"kind {kind} is {what}; it is never published")


def address_of(kind: int, pubkey: str, tags: Sequence[Sequence[str]]) -> str | None:
    """`kind:pubkey:d` of a replaceable or addressable event, else None."""
    match classify(kind):
        case KindClass.REPLACEABLE:
            return f"{kind}:{pubkey}:"
        case KindClass.ADDRESSABLE:
            return f"{kind}:{pubkey}:{tag_value(tags, 'd') or ''}"
        case _:
            return None


def is_hex_name(text: str) -> bool:
    """Whether it can be the id of an event or a public key: 64 hex digits, in lower case."""
    return len(text) == 64 and _HEX_DIGITS.issuperset(text)


def tag_value(tags: Sequence[Sequence[str]], name: str) -> str | None:
    """The first value of the first tag of that name."""
    return next((tag[1] for tag in tags if tag[0] == name and len(tag) > 1), None)


def tag_values(tags: Sequence[Sequence[str]], name: str) -> list[str]:
    """The first value of every tag of that name."""
    return [tag[1] for tag in tags if tag[0] == name and len(tag) > 1]


def expiration_of(tags: Sequence[Sequence[str]]) -> int | None:
    """NIP-40's expiration in seconds, or None where there is none that can be read."""
    value = tag_value(tags, "expiration") or ""
    is_number = value.isascii() and value.isdigit() and len(value) <= len(str(MAX_CREATED_AT))
    return int(value) if is_number else None


def _read(decode: Callable[[bytes], Any], body: bytes) -> Any:
    try:
        return decode(body)
    except msgspec.ValidationError as problem:
        raise InvalidEvent(f"not a signed event: {problem}") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as problem:
        raise InvalidEvent(f"not valid JSON: {problem}") from None


def _check_hex(name: str, value: str, length: int) -> None:
    try:
        if len(value) == length and bytes.fromhex(value).hex() == value:
            return
    except (ValueError, TypeError):
        pass
    raise InvalidEvent(f"{name} must be {length} lowercase hex characters")


def _check_numbers(kind: int, created_at: int) -> None:
    if not 0 <= kind <= MAX_KIND:
        raise InvalidEvent(f"kind {kind} is outside 0..{MAX_KIND}")
    if not 0 <= created_at <= MAX_CREATED_AT:
        raise InvalidEvent(f"created_at {created_at} is no usable time in seconds")


def _check_size(size: int, limit: int) -> None:
    if size > limit:
        raise InvalidEvent(f"event is {size:,} bytes; the limit is {limit:,}")


def _check_fields(wire: _Wire, body: bytes) -> None:
    """Readers differ on which of two equal names counts, so there must be one of each."""
    if len(body) == len(_encode(wire)):
        return  # as short as it can be: there is no room for a second one
    names = json.loads(body, object_pairs_hook=lambda pairs: [name for name, _ in pairs])
    if len(names) != len(_Wire.__struct_fields__):
        raise InvalidEvent("not a signed event: a field is there twice")


def _freeze_tags(tags: Sequence[Sequence[str]]) -> tuple[tuple[str, ...], ...]:
    if not _is_list(tags) or not all(map(_is_list, tags)):
        raise InvalidEvent("tags must be an array of arrays of strings")
    frozen = tuple(tuple(tag) for tag in tags)
    if any(not isinstance(value, str) for tag in frozen for value in tag):
        raise InvalidEvent("tags must be an array of arrays of strings")
    _check_tags(frozen)
    return frozen


def _is_list(value: object) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)


def _check_tags(tags: Sequence[Sequence[str]]) -> None:
    if not all(tags):
        raise InvalidEvent("a tag must have at least one value")
