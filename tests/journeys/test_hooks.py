"""Killed at any moment, again and again: no hook misses what happened to any job.

At least once, and always under the same id: whoever is told twice can tell.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import sys
from collections import Counter, defaultdict
from pathlib import Path

import pytest
from aiohttp import web

from postrich import Outbox
from postrich.model.hook import MessageState
from tests.deliver import outboxes
from tests.deliver.hook_server import HookServer
from tests.deliver.outboxes import outbox_at, place_in, some_notes
from tests.journeys.hook_worker import OPEN
from tests.relays import local_relay

NOTES = 150
KILLS = 8
#: A life's share of what there is to tell, such that there is enough for all of them.
MOST = 25
PATIENCE = 90.0


async def life(arguments: list[str], chance: random.Random, server: HookServer) -> None:
    """One life of the worker, ended while it tells."""
    worker = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.journeys.hook_worker", *arguments),
        env=os.environ.copy(),
    )
    await server.wait(len(server.told) + chance.randint(1, MOST))
    await asyncio.sleep(chance.uniform(0.0, 0.03))  # the random point, not a wait
    worker.send_signal(signal.SIGKILL)
    await worker.wait()


async def all_sent(outbox: Outbox, hook: str, count: int) -> list[str]:
    """The ids of all messages, once every one was taken."""
    async with asyncio.timeout(PATIENCE):
        while True:
            messages = await outbox.hooks.messages(hook, 10_000)
            if sum(m.state is MessageState.SENT for m in messages) >= count:
                return [message.id for message in messages]
            await asyncio.sleep(0.05)


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
@pytest.mark.req("F6", "A2")
@pytest.mark.timeout(300)
async def test_kills_lose_no_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr(outboxes, "STORE", kind)
    monkeypatch.setenv("POSTRICH_HOOKS_SECRET", "a secret of at least thirty-two characters")
    chance = random.Random(int(os.environ.get("POSTRICH_SEED", "20260712")))

    async def moody(_: web.Request) -> web.StreamResponse:
        await asyncio.sleep(chance.uniform(0.0, 0.05))
        return web.Response(status=204)

    notes = some_notes(NOTES)
    handed = tmp_path / "items.jsonl"
    handed.write_text("\n".join(json.dumps(note) for note in notes))
    async with HookServer(moody) as server:
        with local_relay() as relay:
            async with outbox_at(tmp_path, relay.url, hooks=OPEN, deliver=False) as outbox:
                grant = await outbox.hooks.add(server.url)
            arguments = [str(await place_in(tmp_path)), str(handed), relay.url]
            for _ in range(KILLS):
                await life(arguments, chance, server)
            async with outbox_at(tmp_path, relay.url, hooks=OPEN) as outbox:
                handles = await outbox.publish_batch([json.dumps(note) for note in notes])
                ids = await all_sent(outbox, grant.hook.id, 2 * NOTES)
    assert sorted(ids) == sorted({told.id for told in server.told})
    heard: dict[int, list[str]] = defaultdict(list)
    of_message: dict[str, set[tuple[int | None, str]]] = defaultdict(set)
    for told in server.told:
        told.check(grant.secret)
        assert told.job is not None
        heard[told.job].append(told.type)
        of_message[told.id].add((told.job, told.type))
    assert all(len(facts) == 1 for facts in of_message.values())
    assert set(heard) == {handle.id for handle in handles}
    for kinds in heard.values():
        assert set(kinds) == {"published", "delivered"}
        assert kinds[0] == "published"
    assert Counter(kind for facts in of_message.values() for _, kind in facts) == {
        "published": NOTES,
        "delivered": NOTES,
    }
