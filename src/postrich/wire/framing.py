"""Many messages in one write.

picows sends every frame with a system call of its own. A lane speaks in bursts; written together
they cost less on both sides, and leave in fewer packets (docs/decisions/0007). Frames are
RFC 6455 text frames of a client, each masked with fresh random bytes.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Sequence

#: From so many messages on, one write is worth it; longer messages go their own way.
BURST = 4
LONGEST = 0xFFFF
_TEXT = 0x81  # final frame, text
_MASKED = 0x80
_LONG = bytes((_TEXT, _MASKED | 126))


def is_burst(messages: Sequence[bytes]) -> bool:
    """Whether to write these together."""
    return len(messages) >= BURST and max(map(len, messages)) <= LONGEST


def pack(messages: Sequence[bytes]) -> bytes:
    """The frames of all messages, ready to be written."""
    masks = os.urandom(4 * len(messages))
    parts: list[bytes] = []
    for index, message in enumerate(messages):
        mask = masks[4 * index : 4 * index + 4]
        size = len(message)
        head = bytes((_TEXT, _MASKED | size)) if size < 126 else _LONG + size.to_bytes(2, "big")
        parts += (head, mask, _masked(message, size, mask))
    return b"".join(parts)


def _masked(message: bytes, size: int, mask: bytes) -> bytes:
    """The message XOR the mask, over and over: as one long number, the quick way in Python."""
    words = (size + 3) // 4
    key = int.from_bytes(mask, "little") * _ones(words)
    number = int.from_bytes(message, "little") ^ key
    return number.to_bytes(4 * words, "little")[:size]


@functools.lru_cache(1024)
def _ones(words: int) -> int:
    """1 in each of so many 32-bit words: times a mask, the mask in each."""
    return int.from_bytes(b"\x01\x00\x00\x00" * words, "little")
