"""What is known of a relay, in words: its health, its own description, where it is named. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from rich.text import Text

from postrich.doors.cli.standing import health_text
from postrich.doors.cli.words import ago, count, plain, span
from postrich.model.relay import Limitation, RelayHealth, RelayInfo
from postrich.store.port import Backlog

#: The kinds of lists that people publish, as one would call them.
LIST_NAMES = {
    10002: "relays",
    10006: "blocked relays",
    10007: "search relays",
    10009: "groups",
    10012: "favourite relays",
    10013: "relays for drafts",
    10019: "relays for nutzaps",
    10050: "message relays",
    10086: "indexers",
}


def health_words(health: RelayHealth | None, now: int) -> Text:
    """How a relay is: reachable or not, how fast, how often it said OK."""
    text = health_text(health, now)
    if health is None or health.state == "open":
        return text
    if health.latency_ms is not None:
        text.append(f", {health.latency_ms:.0f} ms")
    if (share := taken_share(health)) is not None:
        text.append(f", took {share:.0%}")
    if now - health.seen_at > 3_600_000:
        text.append(f" ({ago(health.seen_at, now)})", "dim")
    return text


def taken_share(health: RelayHealth) -> float | None:
    """Of all events that were tried there, how many it took; None where none was."""
    tried = health.oks + health.refusals + health.timeouts
    return health.oks / tried if tried else None


def health_document(health: RelayHealth | None) -> dict[str, Any] | None:
    """A relay's health for programs."""
    if health is None:
        return None
    document: dict[str, Any] = msgspec.to_builtins(health)
    return document | {"reachable": health.state != "open", "taken": taken_share(health)}


def backlog_words(waiting: Backlog | None) -> str:
    """`3 wait, 1 of them tried before`."""
    if waiting is None or not waiting.waiting:
        return "nothing waits for it"
    verb = "waits" if waiting.waiting == 1 else "wait"
    text = f"{count(waiting.waiting, 'event')} {verb} for it"
    return f"{text}, {waiting.tried:,} tried before" if waiting.tried else text


_LIMIT_WORDS = {
    "max_message_length": "messages up to {:,} bytes",
    "max_content_length": "texts up to {:,} characters",
    "max_event_tags": "up to {:,} tags",
    "max_subscriptions": "{:,} questions at once",
    "max_limit": "answers with up to {:,} events",
    "min_pow_difficulty": "wants {:,} bits of work",
}
_FLAG_WORDS = {
    "auth_required": "wants to know who you are (AUTH)",
    "payment_required": "wants to be paid",
    "restricted_writes": "takes only from those it knows",
}


def limits_in_words(limit: Limitation) -> list[str]:
    """What a relay says that it will not do, as far as it says anything."""
    found = [
        words.format(value)
        for name, words in _LIMIT_WORDS.items()
        if (value := getattr(limit, name))
    ]
    found += [words for name, words in _FLAG_WORDS.items() if getattr(limit, name)]
    if limit.created_at_lower_limit:
        found.append(f"takes nothing older than {span(limit.created_at_lower_limit * 1000)}")
    if limit.created_at_upper_limit is not None:
        found.append(f"takes nothing {span(limit.created_at_upper_limit * 1000)} ahead of time")
    return found


def info_lines(info: RelayInfo) -> list[tuple[str, str]]:
    """A relay's own description, as (what, text)."""
    software = " ".join(part for part in (info.software, info.version) if part)
    nips = ", ".join(map(str, info.supported_nips))
    lines = [
        ("name", info.name),
        ("says", info.description),
        ("software", software),
        ("NIPs", nips),
        ("pay at", info.payments_url if info.limitation.payment_required else ""),
        ("limits", "; ".join(limits_in_words(info.limitation))),
    ]
    return [(name, plain(text)) for name, text in lines if plain(text)]


def by_url(entries: list[Any]) -> Mapping[str, Any]:
    """Entries that name a relay, by its URL."""
    return {entry.url: entry for entry in entries}
