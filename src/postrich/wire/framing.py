"""Many messages in one write.

picows sends every frame with a system call of its own. A lane speaks in bursts; written together
they cost less on both sides, and leave in fewer packets (docs/decisions/0007). Frames are
RFC 6455 text frames of a client, each masked with fresh random bytes.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

try:
    from websockets.speedups import apply_mask
except ImportError:  # no compiled wheel for this platform: slower, and as right
    from websockets.utils import apply_mask

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
        parts += (head, mask, apply_mask(message, mask))
    return b"".join(parts)
