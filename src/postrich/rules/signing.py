"""What a signer's answer is worth: it must be the draft, field by field, and truly signed (A2).

Whatever bytes came, the event that is kept has the draft's own fields and only their signature.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from postrich.errors import InvalidEvent, SignerFault
from postrich.model.event import Draft, Event, is_signed, seal

MAX_ANSWER = 2 * 1024 * 1024
_FIELDS = ("pubkey", "created_at", "kind", "tags", "content")
_SHOWN = 60


def template_of(draft: Draft) -> dict[str, Any]:
    """The draft as signers take it (NIP-07, NIP-46): they add who signs, the id and the sig."""
    return {
        "kind": draft.kind,
        "created_at": draft.created_at,
        "tags": [list(tag) for tag in draft.tags],
        "content": draft.content,
    }


def read_answer(text: str | bytes) -> Mapping[str, Any]:
    """A signer's JSON, or `SignerFault`."""
    try:
        answer = msgspec.json.decode(text) if len(text) <= MAX_ANSWER else None
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        answer = None
    if not isinstance(answer, dict):
        raise SignerFault("the signer's answer is not an event")
    return answer


def take_signature(draft: Draft, answer: Mapping[str, Any]) -> Event:
    """The draft signed by the answer's signature, or `SignerFault` that names the difference."""
    ours = template_of(draft) | {"pubkey": draft.pubkey}
    for name in _FIELDS:
        if name not in answer:
            raise SignerFault(f"the signer left out {name}")
        if type(answer[name]) is not type(ours[name]) or answer[name] != ours[name]:
            was, became = _short(ours[name]), _short(answer[name])
            raise SignerFault(f"the signer changed {name}: {was} became {became}")
    if answer.get("id") != draft.id:
        raise SignerFault("the signer's id is not the id of the event")
    return _sealed(draft, answer.get("sig"))


def _sealed(draft: Draft, sig: Any) -> Event:
    try:
        event = seal(draft, sig)
    except InvalidEvent:
        raise SignerFault("the signer's signature has not the form of one") from None
    if not is_signed(event):
        raise SignerFault("the signer's signature is not the account's")
    return event


def _short(value: Any) -> str:
    try:
        text = msgspec.json.encode(value).decode()
    except (TypeError, ValueError, RecursionError):
        return "what is no JSON"
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"
