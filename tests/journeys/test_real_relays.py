"""Whole stories with two relays that nobody here wrote: nostr-sdk's LocalRelay and nostr-relay.

What a relay really holds is told by a reader that shares no code with Postrich.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest

from postrich import Job, JobState, Outbox, Priority, SecretSigner, parse_event, publish_to_relays
from postrich.accept import Options
from postrich.model.delivery import DeliveryState
from postrich.observe.notices import DeliveryChanged, Subscription
from tests.deliver.outboxes import (
    SLOW,
    hear_breaker,
    hear_delivery,
    outbox_at,
    some_notes,
    the_delivery,
)
from tests.relays import RelayProcess, local_relay, nostr_relay
from tests.relays.events import Event, leading_zero_bits, make_event, mine, public_key
from tests.relays.reader import fetch_events, fetch_ids

ALICE, BOB = os.urandom(32), os.urandom(32)
PATIENCE = 60.0

Launcher = Callable[..., RelayProcess]


def plain_local() -> RelayProcess:
    return local_relay(persist=True)


@pytest.fixture(params=[plain_local, nostr_relay], ids=["local", "nostr-relay"])
def launch(request: pytest.FixtureRequest) -> Launcher:
    """A relay of each make, that keeps its events over a restart."""
    found: Launcher = request.param
    return found


@pytest.fixture(scope="module", params=[local_relay, nostr_relay], ids=["local", "nostr-relay"])
def relay(request: pytest.FixtureRequest) -> Iterator[RelayProcess]:
    """A relay of each make that lives as long as these tests, for those that do it no harm."""
    launcher: Launcher = request.param
    with launcher() as found:
        yield found


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("postrich.rules.health.FIRST_WAIT", 0.1)
    monkeypatch.setattr("postrich.rules.session.AUTH_WAIT", 0.5)
    monkeypatch.setattr("postrich.wire.connection.LOOK_AGAIN", 0.1)


def open_for(
    folder: Path, relay: RelayProcess, **changes: Any
) -> AbstractAsyncContextManager[Outbox]:
    return outbox_at(folder, relay.url, **changes)


async def settled(handles: Iterable[Any]) -> list[Job]:
    return [await handle.settled(PATIENCE) for handle in handles]


async def held(relay: RelayProcess, events: Iterable[Event]) -> set[str]:
    return await fetch_ids(relay.url, {"ids": [event["id"] for event in events]}, within=PATIENCE)


@pytest.mark.req("A1", "A2", "C1")
async def test_what_is_published_is_really_there(relay: RelayProcess, folder: Path) -> None:
    strange = [
        make_event(content='quotes " and \\ and \n and \t and \x7f and \u2028'),
        make_event(content="🦤🏳️‍🌈 é e\u0301 العربية"),
        make_event(tags=[("t", "x"), ("e", "0" * 64, "wss://a.example", "root"), ("alone",)]),
        make_event(kind=30_023, tags=[("d", "essay")], content="# Essay"),
        make_event(kind=7, content="+", tags=[("e", "0" * 64), ("p", "1" * 64)]),
    ]
    events = [*strange, *some_notes(50)]
    async with open_for(folder, relay) as outbox:
        jobs = await settled(await outbox.publish_many(events))
        assert {job.state for job in jobs} == {JobState.PUBLISHED}
        assert {job.publish_attempts for job in jobs} == {1}
        found = await fetch_events(relay.url, {"ids": [event["id"] for event in events]})
    by_id = {event["id"]: event for event in found}
    assert by_id == {event["id"]: event for event in events}, "every byte of every field"


@pytest.mark.req("A6", "G3")
async def test_a_draft_is_signed_and_published(relay: RelayProcess, folder: Path) -> None:
    signer = SecretSigner.generate()
    async with open_for(folder, relay, signer=signer) as outbox:
        job = await (await outbox.post("hello, world")).published(PATIENCE)
        (event,) = await fetch_events(relay.url, {"authors": [signer.pubkey]})
    assert (event["id"], event["content"]) == (job.event_id, "hello, world")


@pytest.mark.req("A9", "C2")
async def test_the_same_event_by_two_outboxes_is_delivered_by_both(
    relay: RelayProcess, folder: Path
) -> None:
    events = some_notes(10)
    one, two = folder / "one", folder / "two"
    one.mkdir()
    two.mkdir()
    async with open_for(one, relay) as first, open_for(two, relay) as second:
        await settled(await first.publish_many(events))
        jobs = await settled(await second.publish_many(events))
        assert {job.state for job in jobs} == {JobState.PUBLISHED}
        assert {job.deliveries[0].code for job in jobs} == {"duplicate"}
        found = await fetch_events(relay.url, {"authors": [events[0]["pubkey"]]})
    assert len(found) == 10


@pytest.mark.req("C2", "B10")
async def test_who_is_not_welcome_is_refused_alone(folder: Path) -> None:
    bad = [make_event(BOB, content="hello"), make_event(ALICE, content="buy spam now")]
    good = some_notes(20, ALICE)
    async with (
        local_relay(refuse_authors=[public_key(BOB)], refuse_contents=["spam"]) as relay,
        open_for(folder, relay) as outbox,
    ):
        jobs = await settled(await outbox.publish_many([*bad, *good]))
        assert await held(relay, [*bad, *good]) == {event["id"] for event in good}
    for job, words in zip(jobs, ("author not welcome", "content not welcome"), strict=False):
        assert job.state is JobState.FAILED
        assert job.deliveries[0].state is DeliveryState.REFUSED
        assert words in job.deliveries[0].detail
        assert job.publish_attempts == 1
    assert {job.state for job in jobs[2:]} == {JobState.PUBLISHED}


@pytest.mark.req("C2", "B10")
async def test_what_is_too_large_is_refused_alone(folder: Path) -> None:
    """This relay refuses after two seconds and without saying which event it means."""
    large, small = make_event(content="x" * 300), make_event(content="small")
    async with nostr_relay(max_event_size=280) as relay, open_for(folder, relay) as outbox:
        refused = await (await outbox.publish(large)).settled(PATIENCE)
        await (await outbox.publish(small)).published(PATIENCE)
        assert await held(relay, [large, small]) == {small["id"]}
    assert refused.deliveries[0].state is DeliveryState.REFUSED
    assert "280 characters" in refused.deliveries[0].detail
    assert refused.publish_attempts == 1


def local_with_auth() -> RelayProcess:
    return local_relay(auth="write")


def nostr_relay_with_auth() -> RelayProcess:
    return nostr_relay(auth=True, writers=[public_key(ALICE)])


with_auth = pytest.mark.parametrize(
    "guarded", [local_with_auth, nostr_relay_with_auth], ids=["local", "nostr-relay"]
)


@with_auth
@pytest.mark.req("C3")
async def test_auth_is_answered_and_all_is_sent_again(guarded: Launcher, folder: Path) -> None:
    events = some_notes(20, ALICE)
    async with (
        guarded() as relay,
        open_for(folder, relay, signer=SecretSigner(ALICE)) as outbox,
    ):
        jobs = await settled(await outbox.publish_many(events))
        assert {job.state for job in jobs} == {JobState.PUBLISHED}
        assert {job.publish_attempts for job in jobs} == {1}
        assert await held(relay, events) == {event["id"] for event in events}


@with_auth
@pytest.mark.parametrize(
    ("folder", "why"),
    [("sqlite", "no key"), ("sqlite", "never"), ("postgres", "no key")],
    indirect=["folder"],
)
@pytest.mark.req("C3")
async def test_without_auth_it_is_parked_with_the_reason(
    guarded: Launcher, folder: Path, why: str
) -> None:
    signer = SecretSigner(ALICE) if why == "never" else SecretSigner(BOB)
    auth = "never" if why == "never" else "own"
    event = make_event(ALICE)
    async with guarded() as relay, open_for(folder, relay, signer=signer, auth=auth) as outbox:
        handle = await outbox.publish(event)
        job = await handle.settled(PATIENCE)
        assert job.state is JobState.PARKED
        assert job.deliveries[0].code == ("auth-required" if why == "never" else "signer")
        words = "your settings forbid it" if why == "never" else "no key of"
        assert words in job.deliveries[0].detail
        assert await held(relay, [event]) == set()
        if why == "no key":
            outbox.add_signer(SecretSigner(ALICE))
            while (await handle.status()).state is JobState.PARKED:
                await asyncio.sleep(0.01)
            await handle.published(PATIENCE)


@pytest.mark.req("C3")
async def test_an_identity_that_may_not_write_is_refused_for_good(folder: Path) -> None:
    async with (
        nostr_relay_with_auth() as relay,
        open_for(folder, relay, signer=SecretSigner(BOB)) as outbox,
    ):
        job = await (await outbox.publish(make_event(BOB))).settled(PATIENCE)
    assert job.deliveries[0].state is DeliveryState.REFUSED
    assert "restricted" in job.deliveries[0].detail


@pytest.mark.req("C1", "C3")
async def test_without_a_store_the_truth_comes_back_at_once(relay: RelayProcess) -> None:
    event = make_event(ALICE)
    async with local_with_auth() as guarded:
        parsed = parse_event(json.dumps(event))
        result = await publish_to_relays(parsed, [relay.url, guarded.url])
        assert [answer.status for answer in result.per_relay.values()] == ["ok", "parked"]
        signed = await publish_to_relays(parsed, [guarded.url], signer=SecretSigner(ALICE))
        assert signed.any_success
        assert await held(guarded, [event]) == await held(relay, [event]) == {event["id"]}


@pytest.mark.req("B9", "C9")
async def test_a_rate_limit_is_waited_out_without_burning_attempts(folder: Path) -> None:
    """So many events a second from one address: all arrive in the end, each at its first try."""
    events = some_notes(12)
    async with nostr_relay(rate_limit="10/s") as relay, open_for(folder, relay) as outbox:
        jobs = await settled(await outbox.publish_many(events, Options(policy=SLOW)))
        assert {job.publish_attempts for job in jobs} == {1}
        assert await held(relay, events) == {event["id"] for event in events}


@pytest.mark.req("B9", "C9")
async def test_over_the_rate_of_a_connection_the_rest_waits(folder: Path) -> None:
    events = some_notes(30)
    async with (
        local_relay(events_per_minute=20, persist=True) as relay,
        open_for(folder, relay) as outbox,
    ):
        with outbox.watch(10_000) as notices:
            handles = await outbox.publish_many(events, Options(policy=SLOW))
            await hear_delivery(notices, DeliveryState.WAITING, "rate-limited")
        assert (await outbox.status()).failed == 0
        for handle in handles:
            delivery = await the_delivery(handle)  # type: ignore[arg-type]
            expected = 1 if delivery.state is DeliveryState.DELIVERED else 0
            assert delivery.attempts == expected
        await relay.arestart()  # it counts by connection: a new one has all of its rate
        jobs = await settled(handles)
        assert {job.publish_attempts for job in jobs} == {1}
        assert await held(relay, events) == {event["id"] for event in events}


def local_with_work() -> RelayProcess:
    return local_relay(min_pow=8)


def nostr_relay_with_work() -> RelayProcess:
    return nostr_relay(require_pow=8)


@pytest.mark.parametrize(
    "demanding", [local_with_work, nostr_relay_with_work], ids=["local", "nostr-relay"]
)
@pytest.mark.req("A14", "C2")
async def test_work_is_asked_for_and_work_is_taken(demanding: Launcher, folder: Path) -> None:
    idle = next(e for e in iter(make_event, None) if leading_zero_bits(e["id"]) == 0)
    worked = mine(ALICE, content="worked", difficulty=8)
    async with demanding() as relay, open_for(folder, relay) as outbox:
        parked = await (await outbox.publish(idle)).settled(PATIENCE)
        await (await outbox.publish(worked)).published(PATIENCE)
        assert await held(relay, [idle, worked]) == {worked["id"]}
    assert parked.state is JobState.PARKED
    assert parked.deliveries[0].code == "pow"
    assert "8" in parked.deliveries[0].detail


@pytest.mark.req("A13", "B8", "B10")
async def test_down_and_back_it_drains_by_itself(launch: Launcher, folder: Path) -> None:
    before, during = some_notes(20, start="before"), some_notes(200, start="during")
    async with launch() as relay, open_for(folder, relay) as outbox:
        await settled(await outbox.publish_many(before))
        with outbox.watch() as notices:
            await relay.astop()
            handles = await outbox.publish_many(during)
            await hear_breaker(notices, "open")
        status = await outbox.status()
        assert (status.pending, status.total_attempts) == (200, 0)
        assert status.text == "200 items waiting to publish"
        urgent = await outbox.publish(make_event(content="urgent"), priority=Priority.URGENT)
        await relay.astart()
        jobs = await settled([*handles, urgent])
        assert {job.state for job in jobs} == {JobState.PUBLISHED}
        assert {job.publish_attempts for job in jobs} == {1}, "the time it was down cost nothing"
        everything = [*before, *during]
        assert await held(relay, everything) == {event["id"] for event in everything}


async def hear_deliveries(notices: Subscription, count: int) -> None:
    """Wait until that many events were taken."""
    async with asyncio.timeout(PATIENCE):
        async for notice in notices:
            if isinstance(notice, DeliveryChanged) and notice.state is DeliveryState.DELIVERED:
                count -= 1
                if not count:
                    return


@pytest.mark.parametrize(
    ("folder", "end"),
    [("sqlite", "killed"), ("sqlite", "stopped"), ("postgres", "killed")],
    indirect=["folder"],
)
@pytest.mark.req("B8", "C9")
async def test_a_relay_that_is_restarted_in_mid_stream_gets_every_event_once(
    launch: Launcher, folder: Path, end: str
) -> None:
    now = int(time.time())  # a few a second, for the reader's sake
    events = [make_event(ALICE, content=f"{n}", created_at=now - n // 9) for n in range(500)]
    async with launch() as relay, open_for(folder, relay) as outbox:
        with outbox.watch(100_000) as notices:
            handles = await outbox.publish_many(events)
            await hear_deliveries(notices, 100)
            if end == "killed":
                relay.kill()
            else:
                await relay.astop()
            assert (await outbox.status()).open_deliveries > 0, "it ended in mid-stream"
            await relay.astart()
        jobs = await settled(handles)
        assert {job.state for job in jobs} == {JobState.PUBLISHED}
        found = await fetch_events(relay.url, {"authors": [public_key(ALICE)]}, within=PATIENCE)
    ids = [event["id"] for event in found]
    assert sorted(ids) == sorted(event["id"] for event in events)
    assert max(job.publish_attempts for job in jobs) <= 2


@pytest.mark.req("A1", "C1", "D12")
async def test_two_makes_at_once_and_one_of_them_down(folder: Path) -> None:
    events = some_notes(100)
    async with local_relay() as one, nostr_relay() as two:
        await two.astop()
        async with outbox_at(folder, one.url, two.url) as outbox:
            handles = await outbox.publish_many(events)
            for handle in handles:
                await handle.published(PATIENCE)  # type: ignore[union-attr]
            await two.astart()
            jobs = await settled(handles)
        assert await held(one, events) == await held(two, events)
    assert all(len(job.delivered) == 2 for job in jobs)
    assert {delivery.attempts for job in jobs for delivery in job.deliveries} == {1}
