"""Signed Nostr events for tests, made without any of the project's own code.

Promises an id and a signature every relay accepts. Must never import what is under test: a
fault shared by both sides would otherwise cancel out.
"""

import hashlib
import json
import time
from collections.abc import Iterable, Sequence
from typing import Any

from coincurve import PrivateKey, PublicKeyXOnly

Event = dict[str, Any]
Tags = Iterable[Sequence[str]]

AUTH_KIND = 22242


def public_key(secret: bytes) -> str:
    """The lowercase hex x-only public key of a 32-byte secret."""
    return PrivateKey(secret).public_key_xonly.format().hex()


def event_id(event: Event) -> str:
    """The NIP-01 id of an event body, whether or not it carries an id already."""
    body = [0, event["pubkey"], event["created_at"], event["kind"], event["tags"], event["content"]]
    text = json.dumps(body, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def make_event(
    secret: bytes | None = None,
    kind: int = 1,
    content: str = "",
    tags: Tags = (),
    created_at: int | None = None,
) -> Event:
    """A signed event. Without a secret the author is a key made for this one event."""
    key = PrivateKey(secret)
    return _signed(key, _body(key, kind, content, tags, created_at))


def mine(
    secret: bytes | None = None,
    kind: int = 1,
    content: str = "",
    tags: Tags = (),
    created_at: int | None = None,
    *,
    difficulty: int,
) -> Event:
    """A signed event whose id has at least `difficulty` leading zero bits (NIP-13)."""
    key = PrivateKey(secret)
    event = _body(key, kind, content, tags, created_at)
    nonce = ["nonce", "0", str(difficulty)]
    event["tags"].append(nonce)
    counter = 0
    while leading_zero_bits(event_id(event)) < difficulty:
        counter += 1
        nonce[1] = str(counter)
    return _signed(key, event)


def make_auth(secret: bytes, relay_url: str, challenge: str) -> Event:
    """The NIP-42 event that answers a relay's challenge."""
    tags = [["relay", relay_url], ["challenge", challenge]]
    return make_event(secret, kind=AUTH_KIND, tags=tags)


def leading_zero_bits(event_id: str) -> int:
    """The NIP-13 difficulty of a hex id."""
    return 256 - int(event_id, 16).bit_length()


def is_valid(event: Event) -> bool:
    """Whether the id matches the body and the signature matches the id."""
    if event_id(event) != event["id"]:
        return False
    key = PublicKeyXOnly(bytes.fromhex(event["pubkey"]))
    return key.verify(bytes.fromhex(event["sig"]), bytes.fromhex(event["id"]))


def _body(
    key: PrivateKey, kind: int, content: str, tags: Tags, created_at: int | None
) -> dict[str, Any]:
    return {
        "pubkey": key.public_key_xonly.format().hex(),
        "created_at": int(time.time()) if created_at is None else created_at,
        "kind": kind,
        "tags": [list(tag) for tag in tags],
        "content": content,
    }


def _signed(key: PrivateKey, event: Event) -> Event:
    identity = event_id(event)
    signature = key.sign_schnorr(bytes.fromhex(identity))
    return {"id": identity, **event, "sig": signature.hex()}
