"""Error texts that may be stored and shown (B7): readable, bounded, without secrets."""

from __future__ import annotations

import re

MAX_LENGTH = 500

_SECRETS: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"\bncryptsec1[a-z0-9]+", re.IGNORECASE), "[ncryptsec]"),
    (re.compile(r"\bnsec1[a-z0-9]+", re.IGNORECASE), "[nsec]"),
    (re.compile(r"\b(bunker|nostrconnect)://\S+", re.IGNORECASE), r"\1://[redacted]"),
    (re.compile(r"\b([a-z][a-z0-9+.-]*://)[^/\s@]+@", re.IGNORECASE), r"\1"),
    (re.compile(r"\b(Bearer|Basic|Nostr)\s+[A-Za-z0-9+/=._~-]{8,}", re.IGNORECASE), r"\1 [token]"),
    (
        re.compile(
            r"""(["']?\b(?:api[_-]?key|access[_-]?token|auth[_-]?token|token|secret|password|passwd|
            passphrase|private[_-]?key|sk|seckey)["']?\s*[=:]\s*)["']?[^\s"',;&]+["']?""",
            re.IGNORECASE | re.VERBOSE,
        ),
        r"\1[redacted]",
    ),
    (re.compile(r"\b[\w.+-]+@[\w-]+(?:\.[\w-]+)+\b"), "[e-mail]"),
)

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]+")


def redact(text: str) -> str:
    """The text on one line, without keys, tokens, credentials, addresses or control codes."""
    if not text:
        return ""
    clean = _CONTROL.sub(" ", text).encode("utf-8", "replace").decode()
    clean = clean[: 8 * MAX_LENGTH]
    for pattern, replacement in _SECRETS:
        clean = pattern.sub(replacement, clean)
    clean = clean.strip()
    return clean if len(clean) <= MAX_LENGTH else clean[: MAX_LENGTH - 1] + "…"
