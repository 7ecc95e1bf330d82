"""What relays say, read once into closed words (C2), and what it means for a delivery.

Every wild form that is known lives here; nobody else looks at a prefix.
"""

from __future__ import annotations

import enum
import re
from typing import assert_never

import msgspec

from postrich.errors import ForbiddenRelay
from postrich.model.delivery import Outcome, Verdict
from postrich.rules.redact import redact


class Prefix(enum.StrEnum):
    """The single words before a relay's reason. The last three are seen, not standard."""

    AUTH_REQUIRED = "auth-required"
    RESTRICTED = "restricted"
    DUPLICATE = "duplicate"
    POW = "pow"
    BLOCKED = "blocked"
    RATE_LIMITED = "rate-limited"
    INVALID = "invalid"
    ERROR = "error"
    MUTE = "mute"
    REPLACED = "replaced"
    DELETED = "deleted"
    REJECTED = "rejected"
    UNKNOWN = "unknown"


class Reply(msgspec.Struct, frozen=True):
    """A relay's reason: its word, and the raw text, which an unknown word never loses."""

    prefix: Prefix
    text: str
    raw: str


DELIVERED = Verdict(Outcome.DELIVERED, "ok")

#: Refusals that say nothing we know are tried again, but not for ever.
UNEXPLAINED_LIMIT = 5
SILENCE_LIMIT = 10
#: How much of a relay's text is read: a megabyte of it must not hold everything up.
MAX_READ = 2000

_FORM = re.compile(r"^\s*([a-z][a-z-]*):\s*(.*)$", re.DOTALL)
_KNOWN = {prefix.value: prefix for prefix in Prefix if prefix is not Prefix.UNKNOWN}
#: Words so vague that a second one after them says more ("blocked: auth-required: …").
_VAGUE = {
    Prefix.BLOCKED,
    Prefix.ERROR,
    Prefix.INVALID,
    Prefix.REJECTED,
    Prefix.RESTRICTED,
    Prefix.UNKNOWN,
}

_MONEY = re.compile(
    r"\bpay(?!load)|\bpaid\b|invoice|admi(?:ssion|tted)|balance|subscri|\bmember|\bsats?\b",
    re.IGNORECASE,
)
_FUTURE = re.compile(
    r"future|too far ahead|created_?at.*\b(?:late|later|ahead|upper)\b|not yet valid", re.IGNORECASE
)
_WORK = re.compile(r"\bpow\b|proof.of.work|difficulty", re.IGNORECASE)
# Tight, since it makes a refusal an acceptance: "duplicate tags" or "name already exists" is none.
_EXISTS = re.compile(
    r"\bevent (?:is |was )?already (?:exists|known|seen|stored)"
    r"|^already (?:exists|known|seen|stored|have (?:it|this|the event))"
    r"|^duplicate(?: event|:|\W*$)",
    re.IGNORECASE,
)
# Too many of what comes in time, that is: too many tags stay too many.
_SLOW = re.compile(
    r"rate.?limit|too (?:fast|quick|often|frequent)|slow(?:ing)? down|throttl"
    r"|too many (?:connection|event|message|note|post|request|write)s",
    re.IGNORECASE,
)
_LARGE = re.compile(
    r"too (?:large|big|long)|max(?:imum)? (?:\w+ )?size|exceed\w* .*size",
    re.IGNORECASE,
)
_UNREADABLE = re.compile(
    r"could not parse|bad msg|invalid (?:message|json)|malformed",
    re.IGNORECASE,
)


def parse_reply(message: object) -> Reply:
    """Read the last element of an OK or CLOSED, whatever its type."""
    raw = message[:MAX_READ] if isinstance(message, str) else ""
    found = _FORM.match(raw)
    if found is None:
        return Reply(Prefix.UNKNOWN, raw, raw)
    prefix = _KNOWN.get(found[1], Prefix.UNKNOWN)
    nested = _FORM.match(found[2])
    if nested is not None and nested[1] in _KNOWN and prefix in _VAGUE:
        return Reply(_KNOWN[nested[1]], nested[2], raw)
    return Reply(prefix, raw if prefix is Prefix.UNKNOWN else found[2], raw)


def verdict_of_ok(  # noqa: C901 - one table, best read as one
    accepted: bool, message: object, *, may_authenticate: bool = False
) -> Verdict:
    """The meaning of `["OK", id, accepted, message]`.

    `may_authenticate`: the relay has sent a challenge that was not answered yet, so that
    even a `restricted` may turn out to mean "say who you are first".
    """
    if accepted:
        return DELIVERED if not message else _delivered(message)
    reply = parse_reply(message)
    text = redact(reply.raw)
    match reply.prefix:
        case Prefix.DUPLICATE:
            return Verdict(Outcome.DELIVERED, "duplicate", text)
        case Prefix.REPLACED:
            return Verdict(Outcome.SUPERSEDED, "replaced", text)
        case Prefix.AUTH_REQUIRED:
            return Verdict(Outcome.AUTHENTICATE, "auth-required", text)
        case Prefix.RATE_LIMITED:
            return _rate_limited(text)
        case Prefix.ERROR:
            return Verdict(Outcome.RETRY, "error", text)
        case Prefix.POW:
            return Verdict(Outcome.PARKED, "pow", text)
        case Prefix.RESTRICTED if may_authenticate:
            return Verdict(Outcome.AUTHENTICATE, "restricted", text)
        case Prefix.RESTRICTED | Prefix.BLOCKED:
            outcome = Outcome.PARKED if _MONEY.search(reply.text) else Outcome.REFUSED
            return Verdict(outcome, reply.prefix.value, text)
        case Prefix.INVALID | Prefix.REJECTED:
            return _invalid(reply, text)
        case Prefix.DELETED | Prefix.MUTE:
            return Verdict(Outcome.REFUSED, reply.prefix.value, text)
        case Prefix.UNKNOWN:
            return _unexplained(reply, text)
        case _:
            assert_never(reply.prefix)


def verdict_of_silence(seconds: float, hint: str = "") -> Verdict:
    """No OK in time. Not a failure: the relay may well have it."""
    text = f"no answer in {seconds:g} s"
    if hint:
        text += f"; the relay said: {hint}"
    return Verdict(Outcome.UNKNOWN, "timeout", redact(text), limit=SILENCE_LIMIT)


def verdict_of_close(code: int, reason: str, *, alone: bool) -> Verdict:
    """The socket ended with the event in flight. Only an event that was alone can be blamed."""
    text = redact(f"connection closed ({code}) {reason}")
    if code == 1009 and alone:
        return Verdict(Outcome.REFUSED, "too-large", text)
    if code == 1013 or _SLOW.search(reason):
        return _rate_limited(text)
    return Verdict(
        Outcome.UNKNOWN, "closed", text, burns=alone, limit=SILENCE_LIMIT if alone else None
    )


def is_about_size(verdict: Verdict) -> bool:
    """Whether the relay found the message too large, whatever word it put before that (C6)."""
    is_refusal = verdict.outcome in (Outcome.REFUSED, Outcome.RETRY)
    return verdict.code == "too-large" or (is_refusal and _LARGE.search(verdict.text) is not None)


class Hint(enum.StrEnum):
    """What a NOTICE seems to be about; NOTICEs have no semantics, so it stays a hint."""

    SLOW_DOWN = "slow-down"
    REFUSAL = "refusal"
    OTHER = "other"


def hint_of_notice(text: str) -> Hint:
    """Read a NOTICE that came while something was in flight."""
    start = text[:MAX_READ]
    if _SLOW.search(start):
        return Hint.SLOW_DOWN
    if _LARGE.search(start) or _UNREADABLE.search(start):
        return Hint.REFUSAL
    return Hint.OTHER


def verdict_of_notice(text: str, hint: Hint) -> Verdict | None:
    """The verdict on the one event in flight; None where the NOTICE does not decide it."""
    match hint:
        case Hint.SLOW_DOWN:
            return _rate_limited(redact(text))
        case Hint.REFUSAL:
            return Verdict(Outcome.REFUSED, "notice", redact(text))
        case Hint.OTHER:
            return None
        case _:
            assert_never(hint)


class Fault(msgspec.Struct, frozen=True):
    """Why a relay could not be reached. `network`: perhaps it is us who are offline."""

    code: str
    text: str
    network: bool = False


def fault_of(problem: BaseException) -> Fault:
    """Sort a dialling exception by class name and errno, without knowing any library."""
    names = {cls.__name__ for cls in type(problem).__mro__}
    text = redact(str(problem) or type(problem).__name__)
    if isinstance(problem, ForbiddenRelay):  # an OSError too, but no attempt was made
        return Fault("forbidden", text)
    if "gaierror" in names:
        return Fault("dns", f"host name cannot be resolved: {text}", network=True)
    if "SSLError" in names:
        return Fault("tls", f"TLS failed: {text}")
    if "TimeoutError" in names:
        return Fault("timeout", "no connection in time", network=True)
    if "ConnectionRefusedError" in names:
        return Fault("refused", "connection refused")
    if names & {"WSError", "WSHandshakeError", "WSInvalidStatusError"}:
        return _handshake_fault(text)
    if isinstance(problem, OSError):
        return Fault("unreachable", f"cannot be reached: {text}", network=_no_route(problem))
    return Fault("fault", text)


def _handshake_fault(text: str) -> Fault:
    statuses = re.findall(r"\b[1-5]\d\d\b", text)
    code = f"http-{statuses[-1]}" if statuses else "handshake"
    return Fault(code, f"no WebSocket: {text}")


def _no_route(problem: OSError) -> bool:
    unreachable = {101, 113, 100, 51, 50, 65}  # ENETUNREACH, EHOSTUNREACH, ENETDOWN; Linux, BSD
    numbers = {problem.errno}
    if problem.errno is None:  # asyncio folds the failures of several addresses into one text
        numbers = {int(number) for number in re.findall(r"\[Errno (\d+)\]", str(problem))}
    return bool(numbers) and numbers <= unreachable


def _delivered(message: object) -> Verdict:
    code = "duplicate" if parse_reply(message).prefix is Prefix.DUPLICATE else "ok"
    return Verdict(Outcome.DELIVERED, code, redact(str(message)))


def _rate_limited(text: str) -> Verdict:
    return Verdict(Outcome.RETRY, "rate-limited", text, burns=False)


def _invalid(reply: Reply, text: str) -> Verdict:
    return _told_by_words(reply, text) or Verdict(Outcome.REFUSED, reply.prefix.value, text)


def _told_by_words(reply: Reply, text: str) -> Verdict | None:
    """What a reason says that came behind a vague word or none; None where nothing is known."""
    if _EXISTS.search(reply.text):
        return Verdict(Outcome.DELIVERED, "duplicate", text)
    if _SLOW.search(reply.text):
        return _rate_limited(text)
    if _WORK.search(reply.text):
        return Verdict(Outcome.PARKED, "pow", text)
    if _FUTURE.search(reply.text):
        return Verdict(Outcome.RETRY, "future", text)
    if _MONEY.search(reply.text):
        return Verdict(Outcome.PARKED, reply.prefix.value, text)
    return None


def _unexplained(reply: Reply, text: str) -> Verdict:
    return _told_by_words(reply, text) or Verdict(
        Outcome.RETRY,
        "unexplained",
        text or "refused without a reason",
        limit=UNEXPLAINED_LIMIT,
    )
