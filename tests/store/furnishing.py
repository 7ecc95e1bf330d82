"""An outbox that holds something of everything: every state, every table, awkward texts."""

from __future__ import annotations

import msgspec

from postrich.model.delivery import DeliveryState, Target
from postrich.model.job import JobFilter, Routed
from postrich.model.post import Grid, KeptAnswer, Network, NewPost
from postrich.model.relay import RelayHealth
from postrich.model.series import Series, Template, Terms
from postrich.store.port import KeptList, Store
from tests.store.making import (
    ALICE,
    BLUE,
    BOB,
    DAY,
    GREEN,
    HOUR,
    NOW,
    RED,
    again,
    cannot_sign,
    draft,
    ended,
    fail,
    hand_in,
    keep_hook,
    lane,
    named,
    note,
    park,
    publish,
    stage,
    wish,
)

AWKWARD = "nul \x00, mark \ufdd0, ostrich 🦃, and \\u0000"
LIST = (
    '{"id":"' + "ab" * 32 + '","pubkey":"' + BOB + '","created_at":1700000000,"kind":10002,'
    '"tags":[["r","wss://red.example/"]],"content":"","sig":"' + "5e" * 64 + '"}'
)


async def furnish(store: Store) -> None:
    """Put something of everything in."""
    await keep_hook(store)
    await _finish_some(store)
    await _leave_some_open(store)
    await _know_things(store)


async def _finish_some(store: Store) -> None:
    """Of history, and one that is forgotten but for its name."""
    for text in ("pruned", "archived"):
        await publish(store, await hand_in(store, text, key=f"key of {text} {AWKWARD}"))
        await store.archive(NOW + DAY, 10)
        if text == "pruned":
            await store.prune(NOW + DAY, 10)
    await publish(store, await hand_in(store, note("old profile", kind=0), key="profile"))
    await fail(store, await hand_in(store, "refused"))
    await park(store, await hand_in(store, "parked", RED, BLUE))
    await store.cancel(named(await hand_in(store, "cancelled", BLUE)), NOW)
    await hand_in(store, note("older", kind=30_000, tags=[("d", AWKWARD)]))
    await hand_in(store, note("newer", kind=30_000, at=NOW // 1000 + 9, tags=[("d", AWKWARD)]))


async def _leave_some_open(store: Store) -> None:
    await hand_in(store, draft("unsigned"))
    scheduled = NewPost(AWKWARD, wish("posted", due_at=NOW + HOUR), (Network.ATPROTO,))
    await store.schedule([scheduled], NOW)
    await cannot_sign(store, await hand_in(store, draft("asked")), next_at=NOW + HOUR)
    later = await hand_in(store, AWKWARD, due_at=NOW + HOUR, key=AWKWARD)
    await hand_in(store, "after another", after=(later,))
    tried = await hand_in(store, "tried", RED, BLUE, GREEN)
    red = await lane(store, RED)
    await red.report(again(tried, detail=AWKWARD))
    await red.report(again(await hand_in(store, "wants AUTH"), code="signer"))
    half = await hand_in(store, "half", RED, BLUE)
    await (await lane(store, BLUE)).report(ended(half, DeliveryState.UNKNOWN))
    await _route_by_lists(store)
    await store.retry(JobFilter(jobs=(tried,)), NOW)


async def _route_by_lists(store: Store) -> None:
    wanted = msgspec.structs.replace(wish("by lists"), targets=(), auto=True, goal_inbox=1)
    await store.accept([wanted], NOW)
    [item] = await store.stage_due(NOW, 10)
    target = Target("wss://inbox.example/", "where bob reads", False, (BOB,), True)
    await store.route(await stage(store), [Routed(item, (target,), NOW + HOUR)], NOW)


async def _know_things(store: Store) -> None:
    work = await store.work()
    reports = [(w.destination.id, RelayHealth(w.destination.url, "open", NOW)) for w in work]
    await store.note_health(reports)
    series = Series("daily", ALICE, "0 9 * * *", "UTC", Template(1, ((AWKWARD,),)), Terms(), 0, NOW)
    await store.keep_series(series, (), NOW)
    await store.edit_occurrence(series, NOW + HOUR, Template(content=AWKWARD))
    await store.keep_lists([KeptList(BOB, 10_002, NOW, LIST), KeptList(ALICE, 10_002, NOW)])
    await store.keep_grid(Grid(ALICE, AWKWARD, "mon 09:00", "UTC"))
    await store.keep_answer(KeptAnswer(ALICE, AWKWARD, "print", 201, AWKWARD, NOW))
