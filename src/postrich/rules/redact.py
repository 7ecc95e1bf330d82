"""Error texts that may be stored and shown (B7): readable, bounded, without secrets."""

from __future__ import annotations

import re

MAX_LENGTH = 500

_SECRETS: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"ncryptsec1[a-z0-9]+", re.IGNORECASE), "[ncryptsec]"),
    (re.compile(r"nsec1[a-z0-9]+", re.IGNORECASE), "[nsec]"),
    (re.compile(r"whsec_[a-z0-9+/=]+", re.IGNORECASE), "[whsec]"),
    (re.compile(r"\b(bunker|nostrconnect)://\S+", re.IGNORECASE), r"\1://[redacted]"),
    (re.compile(r"\b(postgres(?:ql)?://)\S*@", re.IGNORECASE), r"\1"),
    (re.compile(r"\b([a-z][a-z0-9+.-]{0,20}://)[^/\s]*@", re.IGNORECASE), r"\1"),
    (re.compile(r"\b(Bearer)\s+[a-z0-9+/=._~-]{8,}", re.IGNORECASE), r"\1 [token]"),
    # A word of plain letters is prose ("Basic authentication failed"), not a token.
    (
        re.compile(
            r"\b(?i:(Basic|Nostr))\s+(?=[A-Za-z]*(?:[0-9+/=]|[a-z][A-Z]))[A-Za-z0-9+/=._~-]{8,}"
        ),
        r"\1 [token]",
    ),
    (re.compile(r"\beyJ[\w-]{10,}(?:\.[\w-]+)*"), "[token]"),
    (
        re.compile(
            r"""((?:api[_-]?key|token|secret(?:[_-]?key)?|password|passwd|passphrase|
            private[_-]?key|seckey|\bsk)[\\"']*\s*[=:]\s*)
            (?:"[^"]*"|'[^']*'|[\\"']*[^\s"',;&]+)""",
            re.IGNORECASE | re.VERBOSE,
        ),
        r"\1[redacted]",
    ),
    (re.compile(r"\b[\w.+-]{1,64}@[\w-]+(?:\.[\w-]+)+\b"), "[e-mail]"),
)

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]+")


def redact(text: str) -> str:
    """The text on one line, without keys, tokens, credentials, addresses or control codes."""
    if not text:
        return ""
    clean = _CONTROL.sub(" ", text[: 8 * MAX_LENGTH]).encode("utf-8", "replace").decode()
    for pattern, replacement in _SECRETS:
        clean = pattern.sub(replacement, clean)
    clean = clean.strip()
    return clean if len(clean) <= MAX_LENGTH else clean[: MAX_LENGTH - 1] + "…"
