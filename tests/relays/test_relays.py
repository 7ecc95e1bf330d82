"""The real relays, their launchers and the reader do what they say.

What the relays answer here is what the rest of the tests rely on; a new version that answers
otherwise fails here first.
"""

import asyncio
import itertools
import os
import select as polling
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest
from websockets.exceptions import (
    ConnectionClosed,
    ConnectionClosedError,
)

from tests.relays import RelayError, RelayProcess, free_port, local_relay, nostr_relay
from tests.relays.events import (
    Event,
    is_valid,
    leading_zero_bits,
    make_auth,
    make_event,
    mine,
    public_key,
)
from tests.relays.process import ROOT
from tests.relays.reader import PageError, ReadError, fetch_events, fetch_ids
from tests.relays.speaker import ALICE, BOB, SECONDS, notes, publish, speaker

# Events


def test_made_events_are_valid_and_their_author_is_the_secret() -> None:
    event = make_event(ALICE, kind=7, content="é\n\"'\u2028", tags=[("e", "x")], created_at=5)
    assert is_valid(event)
    assert event["pubkey"] == public_key(ALICE)
    assert (event["kind"], event["created_at"], event["tags"]) == (7, 5, [["e", "x"]])
    assert not is_valid({**event, "content": "other"})
    assert not is_valid({**event, "sig": make_event(ALICE)["sig"]})


def test_events_without_a_secret_have_authors_of_their_own() -> None:
    assert make_event()["pubkey"] != make_event()["pubkey"]


def test_mined_events_commit_to_their_difficulty() -> None:
    event = mine(ALICE, content="work", difficulty=10)
    assert is_valid(event)
    assert leading_zero_bits(event["id"]) >= 10
    assert event["tags"][-1][0::2] == ["nonce", "10"]


# Launchers


@pytest.fixture(scope="module")
def local() -> Iterator[RelayProcess]:
    with local_relay() as relay:
        yield relay


@pytest.fixture(scope="module")
def python_relay() -> Iterator[RelayProcess]:
    with nostr_relay() as relay:
        yield relay


async def test_local_relay_accepts_and_knows_duplicates(local: RelayProcess) -> None:
    event = make_event(ALICE, content="once")
    assert await publish(local.url, event) == ["OK", event["id"], True, ""]
    again = await publish(local.url, event)
    assert again == ["OK", event["id"], True, "duplicate: already have this event"]
    assert await fetch_events(local.url, {"ids": [event["id"]]}) == [event]


async def test_local_relay_refuses_forgeries_with_their_id(local: RelayProcess) -> None:
    event = {**make_event(ALICE), "sig": "0" * 128}
    answer = await publish(local.url, event)
    assert answer == ["OK", event["id"], False, "invalid: invalid event signature"]


async def test_local_relay_calls_a_superseded_event_an_unknown_error(local: RelayProcess) -> None:
    key = os.urandom(32)
    newer, older = (make_event(key, kind=0, created_at=second) for second in (200, 100))
    assert (await publish(local.url, newer))[2] is True
    assert await publish(local.url, older) == ["OK", older["id"], False, "error: unknown"]


async def test_local_relay_asks_for_auth_to_write() -> None:
    event = make_event(ALICE)
    async with local_relay(auth="write") as relay, speaker(relay.url) as client:
        kind, challenge = await client.publish(event)
        assert kind == "AUTH"
        assert await client.hear() == ["OK", event["id"], False, "auth-required: you must auth"]
        wrong = make_auth(ALICE, relay.url, "wrong")
        await client.say("AUTH", wrong)
        refusal = "auth-required: received invalid challenge"
        assert await client.hear() == ["OK", wrong["id"], False, refusal]
        right = make_auth(ALICE, relay.url, challenge)
        await client.say("AUTH", right)
        assert await client.hear() == ["OK", right["id"], True, ""]
        assert await client.publish(event) == ["OK", event["id"], True, ""]


async def test_local_relay_asks_for_auth_to_read() -> None:
    event = make_event(ALICE)
    async with local_relay(auth="read") as relay:
        assert (await publish(relay.url, event))[2] is True
        with pytest.raises(ReadError, match="auth-required: you must auth"):
            await fetch_ids(relay.url, {"ids": [event["id"]]})
        found = await fetch_ids(relay.url, {"ids": [event["id"]]}, secret=BOB)
    assert found == {event["id"]}


async def test_local_relay_refuses_by_work_author_content_and_rate() -> None:
    async with local_relay(
        min_pow=8,
        refuse_authors=[public_key(BOB)],
        refuse_contents=["spam"],
        events_per_minute=4,
    ) as relay:
        async with speaker(relay.url) as client:
            weak = make_event(ALICE, created_at=1)  # its id has no leading zero byte
            assert (await client.publish(weak))[2:] == [False, "pow: required a difficulty >= 8"]
            bob = await client.publish(mine(BOB, difficulty=8))
            assert bob[2:] == [False, "blocked: author not welcome"]
            spam = await client.publish(mine(ALICE, content="spam!", difficulty=8))
            assert spam[2:] == [False, "blocked: content not welcome"]
            assert (await client.publish(mine(ALICE, difficulty=8)))[2] is True
            fifth = await client.publish(mine(ALICE, content="5", difficulty=8))
            assert fifth[2:] == [False, "rate-limited: slow down"]
        fresh = await publish(relay.url, mine(ALICE, content="5", difficulty=8))
        assert fresh[2] is True, "the rate is counted per connection"


async def test_local_relay_drops_connections_over_its_limit() -> None:
    async with local_relay(max_connections=1) as relay, speaker(relay.url) as first:
        with pytest.raises(ConnectionClosedError) as caught:
            await publish(relay.url, make_event())
        assert caught.value.rcvd is None, "after the handshake, without a close"
        assert (await first.publish(make_event()))[2] is True


async def test_local_relay_forgets_over_a_restart_unless_told_to_persist() -> None:
    event = make_event(ALICE)
    async with local_relay() as memory, local_relay(persist=True) as disk:
        for relay in (memory, disk):
            await publish(relay.url, event)
            url, pid = relay.url, relay.pid
            relay.kill()
            assert not relay.alive
            await relay.arestart()
            assert (relay.url, relay.pid != pid) == (url, True)
        assert await fetch_ids(memory.url, {"ids": [event["id"]]}) == set()
        assert await fetch_ids(disk.url, {"ids": [event["id"]]}) == {event["id"]}


async def test_stopping_a_relay_ends_its_connections(local: RelayProcess) -> None:
    async with local_relay() as relay, speaker(relay.url) as client:
        await relay.astop()
        with pytest.raises(ConnectionClosed):
            await client.hear()
        with pytest.raises(OSError, match="Connect call failed"):
            await publish(relay.url, make_event())


def test_a_relay_that_cannot_start_says_why(local: RelayProcess) -> None:
    with pytest.raises(RelayError, match="ddress already in use"):
        local_relay(port=local.port).start()


def test_a_relay_dies_with_its_launcher() -> None:
    code = (
        "import os, signal; from tests.relays import local_relay; relay = local_relay();"
        "relay.start(); print(relay.pid, flush=True); os.kill(os.getpid(), signal.SIGKILL)"
    )
    run = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert run.returncode == -signal.SIGKILL
    handle = _pidfd(int(run.stdout))
    if handle is not None:
        ended, _, _ = polling.select([handle], [], [], SECONDS)
        os.close(handle)
        assert ended


def _pidfd(pid: int) -> int | None:
    try:
        return os.pidfd_open(pid)
    except ProcessLookupError:
        return None


async def test_nostr_relay_calls_a_duplicate_false(python_relay: RelayProcess) -> None:
    event = make_event(ALICE, content="once")
    assert await publish(python_relay.url, event) == ["OK", event["id"], True, ""]
    again = await publish(python_relay.url, event)
    assert again == ["OK", event["id"], False, "duplicate: exists"]


async def test_nostr_relay_keeps_events_over_kill_and_stop(python_relay: RelayProcess) -> None:
    event = make_event(BOB)
    await publish(python_relay.url, event)
    python_relay.kill()
    await python_relay.astart()
    assert await fetch_events(python_relay.url, {"authors": [event["pubkey"]]}) == [event]


async def test_nostr_relay_says_goodbye_when_stopped(python_relay: RelayProcess) -> None:
    async with speaker(python_relay.url) as client:
        await python_relay.astop()
        with pytest.raises(ConnectionClosedError) as caught:
            await client.hear()
    assert caught.value.rcvd is not None
    assert caught.value.rcvd.code == 1012
    await python_relay.astart()


async def test_nostr_relay_refuses_late_and_without_an_id() -> None:
    """Each refusal costs 2 s, so all are asked for at once, each on a connection of its own."""
    async with nostr_relay(
        auth=True, writers=[public_key(ALICE)], max_event_size=100, require_pow=4
    ) as relay:
        asked = time.monotonic()
        answers = await asyncio.gather(
            _publish_as(ALICE, relay.url, {**make_event(ALICE), "sig": "0" * 128}),
            _publish_as(ALICE, relay.url, make_event(ALICE, content="x" * 101)),
            _publish_as(ALICE, relay.url, _without_work()),
            _publish_as(BOB, relay.url, mine(BOB, difficulty=4)),
        )
        assert time.monotonic() - asked >= 2.0
        good = mine(ALICE, difficulty=4)
        assert await _publish_as(ALICE, relay.url, good) == ["OK", good["id"], True, ""]
        assert await fetch_ids(relay.url, {"kinds": [1]}) == {good["id"]}
    assert list(answers) == [
        ["OK", "", False, "invalid: Bad signature"],
        ["OK", "", False, "invalid: 280 characters should be enough for anybody"],
        ["OK", "", False, "rejected: 4 PoW required. Found: 0"],
        ["OK", "", False, "restricted: permission denied"],
    ]


async def _publish_as(secret: bytes, url: str, event: Event) -> Any:
    """Publish after AUTH, which this relay asks for at once and never answers."""
    async with speaker(url) as client:
        kind, challenge = await client.hear()
        assert kind == "AUTH"
        await client.say("AUTH", make_auth(secret, url, challenge))
        return await client.publish(event)


def _without_work() -> Event:
    events = (make_event(ALICE, content=str(counter)) for counter in itertools.count())
    return next(event for event in events if leading_zero_bits(event["id"]) == 0)


async def test_nostr_relay_counts_its_rate_by_address() -> None:
    first, second = notes(2)
    async with nostr_relay(rate_limit="1/min") as relay:
        assert (await publish(relay.url, first))[2] is True
        limited = ["OK", second["id"], False, "rate-limited: slow down"]
        assert await publish(relay.url, second) == limited


# Reader


@pytest.mark.parametrize("name", ["local", "python_relay"])
async def test_reader_pages_past_the_limit(name: str, request: pytest.FixtureRequest) -> None:
    relay: RelayProcess = request.getfixturevalue(name)
    key = os.urandom(32)
    now = int(time.time())
    # Three a second: more than fit a page of two, so that one must fail rather than lie.
    events = [make_event(key, content=str(n), created_at=now - n // 3) for n in range(30)]
    async with speaker(relay.url) as client:
        for event in events:
            await client.say("EVENT", event)
        assert all([(await client.hear())[2] for _ in events])
    wanted = {"authors": [public_key(key)]}
    found = await fetch_events(relay.url, wanted, page=7)
    assert {event["id"] for event in found} == {event["id"] for event in events}
    assert len(found) == len(events)
    bounded = await fetch_events(relay.url, {**wanted, "until": now - 5}, page=7)
    exclusive = name == "python_relay"
    assert max(event["created_at"] for event in bounded) == now - 5 - exclusive
    with pytest.raises(PageError):
        await fetch_events(relay.url, wanted, page=2)
    missing = ["0" * 64] * 200
    by_id = await fetch_events(relay.url, {"ids": missing + [event["id"] for event in events]})
    assert by_id == found


def test_free_ports_are_below_the_range_of_outgoing_connections() -> None:
    assert all(20000 <= free_port() < 32000 for _ in range(20))
