"""Asking relays: every question has its answer in time, whatever the relay does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from postrich.rules.trust import STRANGERS
from postrich.wire.pool import Pool
from tests.relays import local_relay
from tests.relays.conversation import Client
from tests.relays.events import make_event
from tests.relays.script import Filter, Script, answer_stored, answers_in_turn, closed
from tests.relays.scripted import ScriptedRelay
from tests.relays.speaker import publish

pytestmark = pytest.mark.req("D1")

NOTES = [make_event(content=str(number)) for number in range(5)]
PLENTY = 10.0


@asynccontextmanager
async def asking(script: Script) -> AsyncIterator[tuple[Pool, ScriptedRelay]]:
    pool = Pool()
    async with ScriptedRelay(script) as relay:
        relay.stored.update((note["id"], note) for note in NOTES)
        try:
            yield pool, relay
        finally:
            await pool.close()


def said(relay: ScriptedRelay, word: str) -> list[Any]:
    return [frame for frame in relay.received if frame[0] == word]


async def test_an_answer_is_whole_when_the_relay_says_so() -> None:
    async with asking(Script()) as (pool, relay):
        answer = await pool.ask(relay.url, [{"kinds": [1]}], within=PLENTY)
        assert answer.complete
        assert not answer.trouble
        assert {event["id"] for event in answer.events} == {note["id"] for note in NOTES}
        await relay.wait_until(lambda: len(said(relay, "CLOSE")) == 1)


async def test_a_real_relay_answers() -> None:
    pool = Pool()
    with local_relay() as relay:
        await publish(relay.url, NOTES[0])
        answer = await pool.ask(relay.url, [{"kinds": [1]}], within=PLENTY)
        none = await pool.ask(relay.url, [{"kinds": [7]}], within=PLENTY)
        await pool.close()
    assert (answer.complete, [event["id"] for event in answer.events]) == (True, [NOTES[0]["id"]])
    assert (none.complete, none.events) == (True, [])


async def test_many_questions_share_a_socket_and_do_not_mix() -> None:
    async with asking(Script()) as (pool, relay):
        questions = [pool.ask(relay.url, [{"ids": [note["id"]]}], within=PLENTY) for note in NOTES]
        answers = await asyncio.gather(*questions)
        assert relay.connections == 1
    assert [answer.events for answer in answers] == [[note] for note in NOTES]


async def test_what_comes_beyond_the_bound_is_not_taken() -> None:
    async with asking(Script()) as (pool, relay):
        answer = await pool.ask(relay.url, [{"kinds": [1]}], within=PLENTY, most=3)
        assert (len(answer.events), answer.complete) == (3, False)
        assert answer.trouble == "it would not stop"
        enough = await pool.ask(relay.url, [{"kinds": [1]}], within=PLENTY, most=5)
        assert (len(enough.events), enough.complete) == (5, True)


async def test_a_flood_of_large_events_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("postrich.wire.pool.MOST_BYTES", 1_000_000)

    async def flood(client: Client, subscription: str, filters: list[Filter]) -> None:
        large = make_event(content="x" * 400_000)
        while True:
            await client.send("EVENT", subscription, large)

    async with asking(Script(on_request=flood)) as (pool, relay):
        answer = await pool.ask(relay.url, [{}], within=PLENTY)
    assert len(answer.events) == 2
    assert (answer.complete, answer.trouble) == (False, "it would not stop")


async def test_silence_ends_in_time() -> None:
    async def half(client: Client, subscription: str, filters: list[Filter]) -> None:
        await client.send("EVENT", subscription, NOTES[0])

    async with asking(Script(on_request=half)) as (pool, relay):
        answer = await pool.ask(relay.url, [{}], within=0.2)
        assert (answer.complete, answer.trouble) == (False, "no answer in time")
        assert answer.events == [NOTES[0]], "what came counts"


async def test_a_relay_that_would_not_say_says_why() -> None:
    script = Script(on_request=answers_in_turn(closed("blocked: nsec1secret"), answer_stored))
    async with asking(script) as (pool, relay):
        answer = await pool.ask(relay.url, [{}], within=PLENTY)
        assert (answer.complete, answer.events) == (False, [])
        assert answer.trouble.startswith("blocked")
        assert (await pool.ask(relay.url, [{}], within=PLENTY)).complete, "the socket is good"
        assert relay.connections == 1


async def test_a_lost_socket_ends_all_questions_and_the_next_one_dials_anew() -> None:
    async def drop(client: Client, subscription: str, filters: list[Filter]) -> None:
        client.drop()

    script = Script(on_request=answers_in_turn(drop, answer_stored))
    async with asking(script) as (pool, relay):
        lost = await asyncio.gather(*(pool.ask(relay.url, [{}], within=PLENTY) for _ in range(3)))
        assert not any(answer.complete for answer in lost[:1])
        assert all(answer.trouble or answer.complete for answer in lost)
        assert (await pool.ask(relay.url, [{}], within=PLENTY)).complete


async def test_who_cannot_be_reached_is_trouble_not_an_exception() -> None:
    pool = Pool()
    dead = ScriptedRelay(Script())
    answer = await pool.ask(dead.url, [{}], within=PLENTY)
    assert (answer.complete, answer.trouble) == (False, "connection refused")
    async with dead:
        assert (await pool.ask(dead.url, [{}], within=PLENTY)).complete
    await pool.close()


@pytest.mark.req("C11")
async def test_a_strangers_relay_is_dialled_by_the_guard() -> None:
    async with asking(Script()) as (pool, relay):
        answer = await pool.ask(relay.url, [{}], within=PLENTY, guard=STRANGERS)
        assert "may not send us there" in answer.trouble
        assert relay.connections == 0


async def test_an_idle_socket_is_closed_and_another_opened_when_need_be(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("postrich.wire.pool.IDLE", 0.05)
    async with asking(Script()) as (pool, relay):
        await pool.ask(relay.url, [{}], within=PLENTY)
        await relay.wait_disconnected()
        assert relay.close_codes == [1000]
        assert (await pool.ask(relay.url, [{}], within=PLENTY)).complete
        assert relay.connections == 2


async def test_the_end_of_the_pool_ends_what_is_asked() -> None:
    async def never(client: Client, subscription: str, filters: list[Filter]) -> None:
        pass

    async with asking(Script(on_request=never)) as (pool, relay):
        question = asyncio.create_task(pool.ask(relay.url, [{}], within=PLENTY))
        await relay.wait_until(lambda: bool(said(relay, "REQ")))
        await pool.close()
        answer = await question
        assert (answer.complete, answer.trouble) == (False, "closed")


async def test_what_comes_after_the_end_changes_nothing() -> None:
    async def chatter(client: Client, subscription: str, filters: list[Filter]) -> None:
        await client.send("EVENT", "somebody-else", NOTES[1])
        await client.send("EVENT", subscription, NOTES[0])
        await client.send("EOSE", subscription)
        await client.send("EVENT", subscription, NOTES[2])
        await client.send("CLOSED", subscription, "error: no")

    async with asking(Script(on_request=chatter)) as (pool, relay):
        answer = await pool.ask(relay.url, [{}], within=PLENTY)
        await pool.ask(relay.url, [{}], within=PLENTY)
    assert answer.complete
    assert answer.events[0] == NOTES[0]
    assert not answer.trouble
