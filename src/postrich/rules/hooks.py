"""Webhooks as Standard Webhooks has them: what is said, how it is signed, what an answer means.

No secret is kept: a hook's is derived from one master secret, its id and its generation.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlsplit

import msgspec
from standardwebhooks import Webhook

from postrich.errors import BadSetting
from postrich.model.hook import (
    PING,
    Hook,
    HookEvent,
    HookMessage,
    MessageSettlement,
    MessageState,
)
from postrich.model.job import Job, RetryPolicy
from postrich.rules.backoff import compute_next_attempt
from postrich.rules.redact import redact
from postrich.rules.trust import DialPolicy, refuse_third_party

MAX_URL = 2048
DAY_MS = 86_400_000
#: How long after a rotation the secret before it still signs too.
BOTH_FOR_MS = DAY_MS
#: A server may put us off for so long, not longer.
LONGEST_PAUSE_MS = DAY_MS
SHORTEST_MASTER = 32

#: At once, then after 5 s, 5 min, 30 min, 2 h, 5 h, 10 h, 14 h, 20 h, 24 h.
SCHEDULE = RetryPolicy(
    "hooks",
    delays=(5, 300, 1800, 7200, 18_000, 36_000, 50_400, 72_000, 86_400),
    jitter=(1.0, 1.2),
    max_attempts=10,
    lifetime=5 * 86_400.0,
)


class HookPolicy(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How hooks are told (`[hooks]` in the settings). Times are seconds.

    A hook is disabled when it took nothing for `give_up_days` and said no `give_up_failures` times.
    """

    allow_private: bool = False
    allow_http: bool = False
    attempts: int = 10
    timeout: float = 15.0
    at_once: int = 32
    at_once_each: int = 4
    give_up_days: float = 5.0
    give_up_failures: int = 10
    per_pubkey: int = 20

    @property
    def guard(self) -> DialPolicy | None:
        """By which policy hooks are dialled; None: they may be anywhere."""
        return None if self.allow_private else DialPolicy(plain=self.allow_http)


def check_hook_policy(policy: HookPolicy) -> None:
    """Raise `BadSetting` where a value cannot work."""
    for field in msgspec.structs.fields(HookPolicy):
        value = getattr(policy, field.name)
        if not isinstance(value, bool) and not 0 < value < 1e9:
            raise BadSetting(f"hooks.{field.name} must be more than 0, and a number")


# -- what may be a hook ------------------------------------------------------------------------


def check_hook_url(text: str, policy: HookPolicy) -> str:
    """The address, if messages may be sent there; else `BadSetting` with the reason.

    Where its host name leads is judged whenever it is dialled.
    """
    url = text.strip()
    if not url or len(url) > MAX_URL or not url.isascii() or not url.isprintable() or " " in url:
        raise BadSetting(f"a hook's address must be a URL of at most {MAX_URL:,} plain characters")
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        raise BadSetting("the hook's address is not a URL") from None
    if parts.scheme not in ("https", "http") or not host:
        raise BadSetting("a hook's address must start with https:// and name a host")
    if parts.scheme == "http" and not policy.allow_http:
        raise BadSetting(
            "a hook's address must start with https:// (`hooks.allow_http` permits it)"
        )
    if "@" in parts.netloc or parts.fragment:
        raise BadSetting("a hook's address must have no user name, password or #fragment")
    place = f"{parts.scheme}://{parts.netloc}/"
    if policy.guard and (reason := refuse_third_party(place, policy.guard)):
        raise BadSetting(f"a hook cannot be there: {reason}")
    return url


def check_hook_events(names: Iterable[str]) -> tuple[HookEvent, ...]:
    """The events in the order in which they are listed here, each once; none: all of them."""
    wanted = set(names)
    if unknown := sorted(wanted - {event.value for event in HookEvent}):
        known = ", ".join(HookEvent)
        raise BadSetting(f"{redact(unknown[0])[:40]!r} is no event of hooks; there are {known}")
    return tuple(event for event in HookEvent if not wanted or event in wanted)


# -- secrets and signatures --------------------------------------------------------------------


def check_master(text: str) -> bytes:
    """A master secret from its text."""
    secret = text.strip()
    if len(secret) < SHORTEST_MASTER:
        raise BadSetting(
            f"the master secret of hooks must have {SHORTEST_MASTER} characters or more"
        )
    return secret.encode()


def master_key(master: bytes) -> str:
    """By which a master secret is told from others, and which tells nothing of it."""
    return hmac.digest(master, b"postrich hooks: which master", hashlib.sha256).hex()[:16]


def hook_secret(master: bytes, hook: str, generation: int) -> str:
    """A hook's signing secret, as Standard Webhooks writes it."""
    text = f"postrich hook {hook} generation {generation}".encode()
    return "whsec_" + base64.b64encode(hmac.digest(master, text, hashlib.sha256)).decode()


def signatures(master: bytes, hook: Hook, message: str, now: int, body: bytes) -> dict[str, str]:
    """The headers of a message: by the hook's secret, and for a day by the one before it."""
    generations = [hook.generation]
    if hook.rotated_at is not None and now - hook.rotated_at < BOTH_FOR_MS:
        generations.append(hook.generation - 1)
    at = datetime.fromtimestamp(now // 1000, UTC)
    signed = (
        Webhook(hook_secret(master, hook.id, generation)).sign(message, at, body.decode())
        for generation in generations
    )
    return {
        "webhook-id": message,
        "webhook-timestamp": str(now // 1000),
        "webhook-signature": " ".join(signed),
    }


# -- what is said ------------------------------------------------------------------------------


def payload(message: HookMessage, job: Job | None, name: str | None = None) -> bytes:
    """A message's body: what happened and when, and the job as it stands now (None: it is gone);
    `name`: what its owner calls the scheduled post."""
    at = datetime.fromtimestamp(message.created_at / 1000, UTC).isoformat(timespec="milliseconds")
    data: dict[str, Any] = {"hook": message.hook}
    if message.kind != PING:
        data |= {
            "job": message.job,
            "id": name,
            "key": _shown(message.key),
            "event_id": message.event_id,
            "pubkey": message.pubkey,
            **_standing(job),
        }
    found = {"type": message.kind, "timestamp": at.replace("+00:00", "Z"), "data": data}
    return msgspec.json.encode(found)


def _shown(key: str | None) -> str | None:
    """A key as it was given; those that doors make of requests are nobody's business."""
    return None if key is None or key.startswith("http:") else key


def _standing(job: Job | None) -> dict[str, Any]:
    if job is None:
        return {"state": None}
    tally = Counter(delivery.state.value for delivery in job.deliveries)
    return {
        "state": job.state,
        "kind": job.kind,
        "goal": job.goal,
        "accepted_at": job.accepted_at,
        "due_at": job.due_at,
        "published_at": job.published_at,
        "finished_at": job.finished_at,
        "relays": {"total": len(job.deliveries), **tally},
        "error": job.error,
    }


# -- what an answer means ----------------------------------------------------------------------


class HookAnswer(msgspec.Struct, frozen=True):
    """What came of one attempt: a status, or why there was none."""

    status: int | None = None
    trouble: str = ""
    retry_after: str = ""


def settle_message(
    message: HookMessage, answer: HookAnswer, policy: HookPolicy, now: int, chance: float
) -> MessageSettlement:
    """What an answer makes of a message: sent, to be tried again, or failed."""
    attempts = message.attempts + 1
    text = _said(answer)
    state, next_at = MessageState.SENT, now
    if not _is_taken(answer.status):
        retries = msgspec.structs.replace(SCHEDULE, max_attempts=policy.attempts)
        following = compute_next_attempt(attempts, retries, now, chance)
        state = MessageState.FAILED
        if following is not None and answer.status != 410:
            state = MessageState.WAITING
            next_at = max(following.at, now + _pause(answer, now))
    gone = answer.status == 410
    return MessageSettlement(
        message.number, message.hook, state, attempts, next_at, answer.status, text, gone
    )


def _is_taken(status: int | None) -> bool:
    return status is not None and 200 <= status < 300


def _said(answer: HookAnswer) -> str:
    if answer.status is None:
        return redact(answer.trouble) or "no answer"
    if _is_taken(answer.status):
        return ""
    if 300 <= answer.status < 400:
        return f"answered {answer.status}: redirects are not followed"
    return f"answered {answer.status}"


def _pause(answer: HookAnswer, now: int) -> int:
    """For how long a busy server puts us off, in milliseconds."""
    text = answer.retry_after.strip()
    if answer.status not in (429, 503) or not text:
        return 0
    if text.isascii() and text.isdigit():
        return min(int(text[:9]) * 1000, LONGEST_PAUSE_MS)
    try:
        at = parsedate_to_datetime(text)
    except ValueError:
        return 0
    until = at if at.tzinfo else at.replace(tzinfo=UTC)
    return max(0, min(round(until.timestamp() * 1000) - now, LONGEST_PAUSE_MS))


def give_up_reason(hook: Hook, policy: HookPolicy, now: int) -> str | None:
    """Why a hook that fails is to be disabled; None: there is hope."""
    if hook.failing_since is None or hook.failures < policy.give_up_failures:
        return None
    if now - hook.failing_since < policy.give_up_days * DAY_MS:
        return None
    return (
        f"it took nothing for {policy.give_up_days:g} days, and said no {hook.failures} times; "
        f"the last time: {hook.answer_text}"
    )


#: Why a hook is disabled whose server says 410.
GONE = "its server answered 410: it wants to be told nothing more"
