"""Proof of work (NIP-13): how much an event shows, how much it promised, what it costs to make.

An id's difficulty is its number of leading zero bits. Who mines commits to a target in the nonce
tag, so that a lucky spammer who aimed low gains nothing: what was not aimed for does not count.
"""

from __future__ import annotations

from collections.abc import Sequence

ID_BITS = 256


def difficulty_of(event_id: str) -> int:
    """The leading zero bits of an id."""
    return ID_BITS - int(event_id, 16).bit_length()


def committed_difficulty(tags: Sequence[Sequence[str]]) -> int | None:
    """The target that the first nonce tag names; None where it names none that can be read."""
    nonce = nonce_tag(tags)
    target = nonce[2] if nonce is not None and len(nonce) > 2 else ""
    is_number = target.isascii() and target.isdigit() and len(target) <= len(str(ID_BITS))
    return int(target) if is_number and int(target) <= ID_BITS else None


def nonce_tag(tags: Sequence[Sequence[str]]) -> Sequence[str] | None:
    """The tag that carries the work, whole or not."""
    return next((tag for tag in tags if tag[0] == "nonce"), None)


def meets(event_id: str, tags: Sequence[Sequence[str]], required: int) -> bool:
    """Whether an event shows the work that is asked for, and aimed for it if it says what it did.

    Without a readable commitment the id alone counts, as it does for most relays.
    """
    actual = difficulty_of(event_id)
    committed = committed_difficulty(tags)
    return actual >= (required if committed is None else committed) >= required


def expected_hashes(bits: int) -> int:
    """How many ids must be tried on average before one has so many leading zero bits."""
    return 1 << bits
