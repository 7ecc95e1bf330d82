"""Signature checks in bulk: the same answers as one by one, whatever happens to the helpers."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
from collections.abc import AsyncIterator, Coroutine
from pathlib import Path
from typing import Any

import pytest
import uvloop

from postrich import Event, parse_event
from postrich.model.event import is_signed
from postrich.sign.verifier import BULK, Verifier
from tests.relays.events import make_event

KEY = bytes(range(1, 33))


def make_events(count: int) -> list[Event]:
    return [parse_event(json.dumps(make_event(KEY, content=str(n)))) for n in range(count)]


EVENTS = make_events(300)


def forge(event: Event, chance: random.Random) -> Event:
    """One bit of the signature is another, or the signature is of another event."""
    if chance.random() < 0.5:
        other = EVENTS[(EVENTS.index(event) + 1) % len(EVENTS)]
        return Event(
            event.id,
            event.pubkey,
            event.created_at,
            event.kind,
            event.tags,
            event.content,
            other.sig,
            event.raw,
        )
    sig = bytearray.fromhex(event.sig)
    sig[chance.randrange(64)] ^= 1 << chance.randrange(8)
    return Event(
        event.id,
        event.pubkey,
        event.created_at,
        event.kind,
        event.tags,
        event.content,
        sig.hex(),
        event.raw,
    )


@pytest.fixture
async def verifier() -> AsyncIterator[Verifier]:
    found = Verifier(1)
    yield found
    await found.close()


@pytest.mark.parametrize("count", [0, 1, BULK - 1, BULK, 300])
@pytest.mark.req("F2")
async def test_all_good_ones_are_good(verifier: Verifier, count: int) -> None:
    assert await verifier.check(EVENTS[:count]) == [True] * count
    assert len(verifier._helpers) == (1 if count >= BULK else 0)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.req("F2")
async def test_forged_ones_are_found_wherever_they_are(verifier: Verifier, seed: int) -> None:
    chance = random.Random(seed)
    events = list(EVENTS)
    places = set(chance.sample(range(len(events)), chance.randint(1, 40)))
    for place in places:
        events[place] = forge(events[place], chance)
    answers = await verifier.check(events)
    assert {n for n, good in enumerate(answers) if not good} == places
    assert answers == [is_signed(event) for event in events]


async def test_a_key_that_is_no_point_of_the_curve_signs_nothing(verifier: Verifier) -> None:
    event = EVENTS[0]
    stranger = Event(
        event.id, "f" * 64, event.created_at, 1, event.tags, event.content, event.sig, event.raw
    )
    assert await verifier.check([stranger, *EVENTS]) == [False, *[True] * 300]


async def test_many_may_ask_at_once(verifier: Verifier) -> None:
    """Each gets its own answer, though one helper does all of them."""
    chance = random.Random(1)
    batches = [list(EVENTS[: 50 + 10 * n]) for n in range(20)]
    for number, batch in enumerate(batches):
        batch[number] = forge(batch[number], chance)
    answers = await asyncio.gather(*map(verifier.check, batches))
    for number, answer in enumerate(answers):
        assert [n for n, good in enumerate(answer) if not good] == [number]


@pytest.mark.req("F2")
async def test_few_of_many_callers_go_together(verifier: Verifier) -> None:
    chance = random.Random(3)
    events = [forge(event, chance) if n % 3 == 0 else event for n, event in enumerate(EVENTS)]
    answers = await asyncio.gather(*(verifier.check([event]) for event in events))
    assert [answer == [True] for answer in answers] == [n % 3 != 0 for n in range(300)]
    assert len(verifier._helpers) == 1


async def test_who_is_cancelled_among_many_harms_nobody(verifier: Verifier) -> None:
    asking = [asyncio.create_task(verifier.check([event])) for event in EVENTS[:20]]
    await asyncio.sleep(0)
    asking[3].cancel()
    answers = await asyncio.gather(*asking, return_exceptions=True)
    assert isinstance(answers.pop(3), asyncio.CancelledError)
    assert answers == [[True]] * 19


async def test_without_a_helper_it_is_done_here(
    verifier: Verifier, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def none_left(_: str) -> None:
        raise OSError("no process can be started")

    monkeypatch.setattr("postrich.sign.verifier.start_helper", none_left)
    answers = await asyncio.gather(*(verifier.check([event]) for event in EVENTS[:20]))
    assert answers == [[True]] * 20


@pytest.mark.req("F2")
async def test_who_gives_up_does_not_leave_its_answer_to_the_next(verifier: Verifier) -> None:
    """A caller that is cancelled in mid-check must not make a forgery look good."""
    chance = random.Random(2)
    forged = [forge(event, chance) for event in EVENTS]
    await verifier.check(EVENTS)
    for steps in range(12):
        impatient = asyncio.create_task(verifier.check(EVENTS))
        for _ in range(steps):
            await asyncio.sleep(0)
        impatient.cancel()
        await asyncio.gather(impatient, return_exceptions=True)
        assert await verifier.check(forged) == [False] * 300


def run(loop: str, main: Coroutine[Any, Any, None]) -> None:
    factory = uvloop.new_event_loop if loop == "uvloop" else asyncio.new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(main)


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
@pytest.mark.parametrize("when", ["before", "between", "during"])
def test_a_helper_that_is_killed_changes_no_answer(loop: str, when: str) -> None:
    async def check() -> None:
        verifier = Verifier(1)
        forged = [*EVENTS[:-1], forge(EVENTS[-1], random.Random(3))]
        right = [*[True] * 299, False]
        assert await verifier.check(forged) == right
        (helper,) = verifier._helpers
        asking = []
        if when == "during":
            asking = [asyncio.create_task(verifier.check(forged)) for _ in range(4)]
            await asyncio.sleep(0)
        os.kill(helper._process.pid, signal.SIGKILL)
        if when == "between":
            await helper._process.wait()
        asking += [asyncio.create_task(verifier.check(forged)) for _ in range(4)]
        for answer in await asyncio.gather(*asking):
            assert answer == right
        assert await verifier.check(forged) == right
        assert helper not in verifier._helpers
        assert len(verifier._helpers) == 1, "a new one is at work"
        await verifier.close()

    run(loop, check())


@pytest.mark.req("A16")
async def test_helpers_are_told_no_secrets(
    verifier: Verifier, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("POSTRICH_NSEC", "nsec1" + "q" * 58)
    monkeypatch.setenv("POSTRICH_PASSPHRASE", "correct horse")
    await verifier.check(EVENTS)
    (helper,) = verifier._helpers
    environment = Path(f"/proc/{helper._process.pid}/environ").read_bytes()
    arguments = Path(f"/proc/{helper._process.pid}/cmdline").read_bytes()
    for told in (environment, arguments):
        assert b"nsec1" not in told
        assert b"correct horse" not in told


async def test_helpers_end_with_the_verifier() -> None:
    verifier = Verifier(2)
    await asyncio.gather(verifier.check(EVENTS), verifier.check(EVENTS))
    processes = [helper._process for helper in verifier._helpers]
    assert len(processes) == 2
    await verifier.close()
    assert [process.returncode for process in processes] == [0, 0]
