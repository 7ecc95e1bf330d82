"""Hooks and what they are told (F6). Messages of jobs are queued by triggers, in the transaction
that moves the job; everything else of them is here."""

from __future__ import annotations

from collections.abc import Sequence

from postrich.errors import UnknownHook
from postrich.model.delivery import Fence
from postrich.model.hook import (
    DueMessage,
    Hook,
    HookMessage,
    HookOutlook,
    HookState,
    MessageSettlement,
)
from postrich.rules.hooks import GONE, HookPolicy, give_up_reason
from postrich.store.verbs.database import Database, to_json
from postrich.store.verbs.settling import check_lease

NEWEST = 1 << 62


def keep(database: Database, hook: Hook) -> None:
    values = {"id": hook.id, "pubkey": hook.pubkey, "url": hook.url, "key": hook.key}
    database.run("hook_keep", **values, events=to_json(hook.events), now=hook.created_at)
    database.run("hooks_watch")


def hooks(
    database: Database, ids: Sequence[str] | None = None, pubkey: str | None = None
) -> list[Hook]:
    listed = None if ids is None else list(ids)
    return database.read(list[Hook], "hooks_of", ids=listed, pubkey=pubkey)


def remove(database: Database, hook: str) -> None:
    _the_hook(database, hook)
    database.run("hook_remove", id=hook)
    if not hooks(database):
        database.run("hooks_ignore")


def disable(database: Database, hook: str, reason: str, now: int) -> Hook:
    _the_hook(database, hook)
    database.run("hook_disable", id=hook, reason=reason, now=now)
    return _the_hook(database, hook)


def enable(database: Database, hook: str) -> Hook:
    _the_hook(database, hook)
    database.run("hook_enable", id=hook)
    return _the_hook(database, hook)


def rotate(database: Database, hook: str, key: str, now: int) -> Hook:
    _the_hook(database, hook)
    database.run("hook_rotate", id=hook, key=key, now=now)
    return _the_hook(database, hook)


def _the_hook(database: Database, hook: str) -> Hook:
    found = hooks(database, [hook])
    if not found:
        raise UnknownHook(f"there is no hook {hook[:60]}")
    return found[0]


# -- messages ----------------------------------------------------------------------------------


def say(database: Database, hook: str, message: str, kind: str, now: int) -> HookMessage:
    _the_hook(database, hook)
    database.run("hook_say", hook=hook, id=message, kind=kind, now=now)
    [found] = messages(database, hook, 1, message=message)
    return found


def messages(
    database: Database,
    hook: str,
    limit: int,
    before: int | None = None,
    message: str | None = None,
) -> list[HookMessage]:
    below = NEWEST if before is None else before
    which = {"hook": hook, "id": message, "before": below, "limit": limit}
    found = database.read(list[HookMessage], "hook_messages_of", numbers=[], **which)
    return sorted(found, key=lambda found: -found.number)


def replay(
    database: Database, hook: str, now: int, since: int = 0, message: str | None = None
) -> int:
    database.run("hook_replay", hook=hook, now=now, since=since, id=message)
    return database.changes()


def outlook(database: Database, key: str) -> HookOutlook:
    return HookOutlook(*database.scalar("hook_outlook", key=key))


def due(
    database: Database, key: str, now: int, each: int, holding: Sequence[int]
) -> list[DueMessage]:
    values = {"key": key, "now": now, "each": each, "holding": list(holding)}
    numbers = database.read(list[int], "hook_due", **values)
    if not numbers:
        return []
    nobody = {"hook": None, "id": None, "before": 0, "limit": 0}
    found = {
        message.number: message
        for message in database.read(
            list[HookMessage], "hook_messages_of", numbers=numbers, **nobody
        )
    }
    whom = sorted({message.hook for message in found.values()})
    known = {hook.id: hook for hook in hooks(database, whom)}
    there = (found[number] for number in numbers if number in found)
    return [DueMessage(known[m.hook], m) for m in there if m.hook in known]


def settle(
    database: Database,
    fence: Fence,
    results: Sequence[MessageSettlement],
    policy: HookPolicy,
    now: int,
) -> list[Hook]:
    """Write what attempts came to; returns the hooks that are disabled by that."""
    check_lease(database, fence)
    rows = [(r.number, r.state, r.attempts, r.next_at, r.status, r.text) for r in results]
    for result in sorted(results, key=lambda result: result.hook):
        values = {"status": result.status, "text": result.text, "ok": int(result.taken)}
        database.run("hook_answered", id=result.hook, now=now, **values)
    database.run("hook_settle", rows=rows, now=now)
    gone = {result.hook for result in results if result.gone}
    disabled = []
    for hook in hooks(database, sorted({result.hook for result in results})):
        reason = GONE if hook.id in gone else give_up_reason(hook, policy, now)
        if reason is not None and hook.state is HookState.ACTIVE:
            disabled.append(disable(database, hook.id, reason, now))
    return disabled
