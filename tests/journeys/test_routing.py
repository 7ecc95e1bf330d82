"""Stories of routing, with relays that nobody here wrote (D2–D5, D7, D9, D11, C5)."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from postrich import JobState
from postrich.model.delivery import DeliveryState
from tests.deliver import outboxes
from tests.deliver.neighbours import (
    ALICE,
    BOB,
    ME,
    at,
    indexer_of,
    named_list,
    note_to,
    relay_list,
    relays_of,
    routed,
    url_of,
    wrap_for,
)
from tests.deliver.outboxes import PATIENCE, until
from tests.relays import RelayProcess, local_relay, nostr_relay
from tests.relays.events import Event, make_event, public_key
from tests.relays.handshakes import never_answer
from tests.relays.reader import fetch_events, fetch_ids
from tests.relays.script import Script
from tests.relays.scripted import ScriptedRelay
from tests.relays.speaker import publish

S = DeliveryState


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("postrich.route.relay_lists.UNKNOWN_FOR_MS", 50)
    monkeypatch.setattr("postrich.rules.health.FIRST_WAIT", 0.1)
    monkeypatch.setattr("postrich.rules.session.CHALLENGE_WAIT", 0.5)


async def holds(relay: RelayProcess, event_id: str, secret: bytes | None = None) -> bool:
    return event_id in await fetch_ids(relay.url, {"ids": [event_id]}, secret=secret)


async def tell(indexer: RelayProcess, *lists: Event) -> None:
    for event in lists:
        answer = await publish(indexer.url, event)
        assert answer[2] is True, answer


@pytest.mark.req("D2", "D3", "D5", "D9", "D12")
async def test_a_note_a_message_and_a_deletion_find_their_ways(folder: Path) -> None:
    async with (
        local_relay() as own,
        nostr_relay() as inbox,
        local_relay() as messages,
        nostr_relay() as indexer,
    ):
        mine = relay_list(ME, write=[own.url], created_at=int(time.time()) - 100)
        await tell(
            indexer,
            mine,
            relay_list(ALICE, read=[inbox.url]),
            named_list(ALICE, 10050, messages.url),
        )
        async with routed(folder, indexer=indexer.url, relay_info=True) as outbox:
            note = note_to(ALICE)
            handle = await outbox.publish(note, goal_mine=1, goal_inbox=1)
            job = await handle.settled(PATIENCE)
            assert job.state is JobState.PUBLISHED
            assert relays_of(job) == {url_of(own.url), url_of(inbox.url)}
            assert await holds(own, note["id"])
            assert await holds(inbox, note["id"])

            wrap = wrap_for(ALICE)
            job = await (await outbox.publish(wrap)).settled(PATIENCE)
            assert relays_of(job) == {url_of(messages.url)}
            assert await holds(messages, wrap["id"])
            for relay in (own, inbox, indexer):
                assert not await holds(relay, wrap["id"])
            assert not await fetch_events(messages.url, {"kinds": [10002]}), "who wrote is unsaid"

            deletion = make_event(ME, 5, tags=[["e", note["id"]], ["k", "1"]])
            job = await (await outbox.publish(deletion)).settled(PATIENCE)
            assert relays_of(job) == {url_of(own.url), url_of(inbox.url)}
            assert not await holds(own, note["id"])
        assert await holds(inbox, mine["id"]), "the author's list went along"
        assert await holds(own, mine["id"])


@pytest.mark.req("D3", "D11")
async def test_an_indexer_that_comes_back_lets_all_go_on(folder: Path) -> None:
    async with local_relay() as own, local_relay() as inbox, nostr_relay() as indexer:
        await tell(indexer, relay_list(ALICE, read=[inbox.url]), named_list(BOB, 10050, inbox.url))
        await indexer.astop()
        async with routed(folder, own.url, indexer=indexer.url) as outbox:
            note = await outbox.publish(note_to(ALICE))
            wrap = await outbox.publish(wrap_for(BOB))
            await note.published(PATIENCE)
            assert not (await wrap.status()).deliveries
            await indexer.astart()
            for handle in (note, wrap):
                job = await handle.settled(PATIENCE)
                assert at(job, inbox.url).state is S.DELIVERED
                assert await holds(inbox, handle.event_id)


@pytest.mark.req("D4")
async def test_protected_events_go_to_real_relays_that_know_their_author(folder: Path) -> None:
    """LocalRelay asks who we are only when it is sent something."""
    async with (
        local_relay(auth="write") as known,
        nostr_relay() as careless,
        indexer_of(relay_list(ME, write=[known.url])) as indexer,
        routed(folder, known.url, careless.url, indexer=indexer) as outbox,
    ):
        event = make_event(ME, content="mine alone", tags=[["-"]])
        job = await (await outbox.publish(event)).settled(PATIENCE)
        assert at(job, known.url).state is S.DELIVERED
        assert (at(job, careless.url).state, at(job, careless.url).code) == (S.SKIPPED, "protected")
        assert await holds(known, event["id"])
        assert not await holds(careless, event["id"])


@pytest.mark.req("C5")
async def test_what_a_real_relay_says_of_itself_is_heard(folder: Path) -> None:
    """nostr-relay says that it honours expirations; LocalRelay answers no HTTP at all."""
    async with (
        nostr_relay() as one,
        local_relay() as two,
        routed(folder, one.url, two.url, indexer=None, relay_info=True) as outbox,
    ):
        tags = [["expiration", str(int(time.time()) + 3600)]]
        job = await (await outbox.publish(make_event(ME, tags=tags))).settled(PATIENCE)
        assert {delivery.state for delivery in job.deliveries} == {S.DELIVERED}
        info = outbox._shared.infos.of(url_of(one.url))
        assert info is not None
        assert 40 in info.supported_nips
        assert outbox._shared.infos.of(url_of(two.url)) is None


@pytest.mark.req("D7")
async def test_a_blocked_relay_gets_nothing_and_hears_nothing(folder: Path) -> None:
    async with (
        local_relay() as own,
        nostr_relay() as indexer,
        ScriptedRelay(Script()) as blocked,
    ):
        await tell(
            indexer,
            named_list(ME, 10006, blocked),
            relay_list(ALICE, read=[blocked, own.url]),
            named_list(BOB, 10050, blocked),
        )
        async with routed(folder, own.url, indexer=indexer.url) as outbox:
            job = await (await outbox.publish(note_to(ALICE))).settled(PATIENCE)
            assert relays_of(job) == {url_of(own.url)}
            wrap = await (await outbox.publish(wrap_for(BOB))).settled(PATIENCE)
            assert wrap.state is JobState.PARKED
    assert blocked.connections == 0


@asynccontextmanager
async def planner(
    store: Path | str, own: str, indexer: str, events: list[Event]
) -> AsyncIterator[tuple[asyncio.subprocess.Process, list[int]]]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tests.journeys.planner",
        *(str(store), own, indexer),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(json.dumps(events).encode() + b"\n")
        async with asyncio.timeout(PATIENCE):
            numbers = json.loads(await process.stdout.readline())
        yield process, numbers
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


@pytest.mark.req("A1", "B8", "D11")
async def test_a_process_killed_while_it_looks_for_lists_loses_nothing(folder: Path) -> None:
    store = await outboxes.place_in(folder)
    silent = ScriptedRelay(Script(handshake=never_answer))
    async with local_relay() as own, local_relay() as inbox:
        events = [*(note_to(ALICE, content=str(n)) for n in range(10)), wrap_for(BOB)]
        async with silent, planner(store, own.url, silent.url, events) as (process, numbers):
            await silent.wait_connections(1, PATIENCE)
            process.kill()
            await process.wait()
        lists = relay_list(ALICE, read=[inbox.url]), named_list(BOB, 10050, inbox.url)
        indexer = indexer_of(*lists)
        async with indexer, routed(folder, own.url, indexer=indexer) as outbox:
            for number in numbers:
                job = await outbox.wait_settled(number, PATIENCE)
                assert job.state is JobState.PUBLISHED
                assert at(job, inbox.url).state is S.DELIVERED
        wanted = {event["id"] for event in events}
        assert await fetch_ids(inbox.url, {"ids": sorted(wanted)}) == wanted
        assert await fetch_ids(own.url, {"authors": [public_key(ME)], "kinds": [1]}) == {
            event["id"] for event in events[:-1]
        }


@pytest.mark.req("D11")
async def test_a_new_list_moves_what_is_still_open(folder: Path) -> None:
    """An inbox that is down for good; its owner moves, and gets the note at the new place."""
    async with local_relay() as own, local_relay() as new, nostr_relay() as indexer:
        gone = ScriptedRelay(Script())
        await tell(indexer, relay_list(ALICE, read=[gone], created_at=int(time.time()) - 100))
        async with routed(folder, own.url, indexer=indexer.url) as outbox:
            handle = await outbox.publish(note_to(ALICE))
            await handle.published(PATIENCE)
            await tell(indexer, relay_list(ALICE, read=[new.url]))
            await outbox.lists_of(public_key(ALICE), [10002], refresh=True)
            lanes = outbox.lanes
            await until(lambda: any(lane.destination.url == url_of(new.url) for lane in lanes()))
            async with asyncio.timeout(PATIENCE):
                while not await holds(new, handle.event_id):
                    await asyncio.sleep(0.02)
            job = await handle.status()
            assert relays_of(job) == {url_of(own.url), url_of(gone), url_of(new.url)}
            assert at(job, gone).state is S.WAITING
            assert at(job, gone).attempts == 0
