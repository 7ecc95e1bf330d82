"""Every script, behaviour and handshake of the scripted relay does what it says."""

import asyncio
import json
import time
from typing import Any
from urllib.request import Request, urlopen

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import (
    ConnectionClosed,
    ConnectionClosedError,
    InvalidHandshake,
    InvalidStatus,
)

from tests.relays.events import (
    Event,
    make_auth,
    make_event,
    public_key,
)
from tests.relays.handshakes import (
    Handshake,
    handshakes_in_turn,
    hang_up,
    hang_up_politely,
    http_status,
    informing,
    never_answer,
    slow,
    upgrade,
    wrong_key,
)
from tests.relays.reader import ReadError, fetch_events, fetch_ids
from tests.relays.script import (
    AUTH_REQUIRED,
    Script,
    When,
    answer_stored,
    answers_in_turn,
    closed,
    ignore_request,
    require_auth,
    select,
)
from tests.relays.scripted import ScriptedRelay
from tests.relays.scripts import (
    Behaviour,
    Gate,
    Sequence,
    accept,
    accept_extra,
    accept_fragmented,
    accept_null_message,
    accept_number_message,
    accept_saying,
    accept_twice,
    accept_without_message,
    all_of,
    binary,
    choose,
    close,
    close_after,
    drop,
    drop_mid_frame,
    empty_id,
    hang,
    huge_text,
    invalid_utf8,
    late,
    long_close_reason,
    malformed,
    not_a_list,
    notice,
    question_mark_id,
    rate_limited,
    refuse,
    silent,
    store,
    wrong_id,
)
from tests.relays.speaker import ALICE, BOB, notes, publish, speaker

# The ordinary


async def test_accept_stores_answers_requests_and_tells_duplicates() -> None:
    first, second = notes(2)
    async with ScriptedRelay(accept) as relay, speaker(relay.url) as client:
        assert await client.publish(first) == ["OK", first["id"], True, ""]
        again = await client.publish(first)
        assert again == ["OK", first["id"], True, "duplicate: already have it"]
        await client.publish(second)
        assert [event["id"] for event in relay.events] == [first["id"], first["id"], second["id"]]
        assert list(relay.stored) == [first["id"], second["id"]]
        assert await fetch_events(relay.url, {"ids": [first["id"]]}) == [first]


async def test_frames_can_be_taken_one_by_one_and_waited_for() -> None:
    event = make_event(ALICE)
    async with ScriptedRelay(silent) as relay:
        async with speaker(relay.url) as client:
            await client.say("EVENT", event)
            await client.socket.send("not json")
            await client.say("CLOSE", "x")
            assert await relay.next_frame() == ["EVENT", event]
            assert await relay.next_frame() == "not json"
            assert await relay.next_frame() == ["CLOSE", "x"]
            assert await relay.wait_events(1) == [event]
            assert len(relay.clients) == relay.connections == 1
            with pytest.raises(TimeoutError, match="1 connections, 3 frames"):
                await relay.next_frame(within=0.01)
        await relay.wait_disconnected()
        assert relay.close_codes == [1000]


async def test_stop_resets_clients_and_start_takes_the_same_port() -> None:
    event = make_event(ALICE)
    async with ScriptedRelay(accept) as relay:
        async with speaker(relay.url) as client:
            await client.publish(event)
            await relay.stop()
            with pytest.raises(ConnectionClosedError):
                await client.hear()
        with pytest.raises(OSError, match="Connect call failed"):
            await publish(relay.url, event)
        await relay.start()
        assert (await publish(relay.url, event))[3].startswith("duplicate:")
        assert relay.connections == 2


async def test_an_error_in_a_script_is_raised_on_leaving() -> None:
    async def broken(client: object, event: Event) -> None:
        raise ZeroDivisionError

    async def failing_session() -> None:
        async with ScriptedRelay(broken) as relay, speaker(relay.url) as client:
            with pytest.raises(ConnectionClosed):
                await client.publish(make_event())

    with pytest.raises(ExceptionGroup) as caught:
        await failing_session()
    assert caught.group_contains(ZeroDivisionError)


async def test_broadcast_speaks_unasked() -> None:
    async with ScriptedRelay(silent) as relay, speaker(relay.url) as client:
        await relay.wait_connections(1)
        await client.say("CLOSE", "x")
        await relay.next_frame()
        await relay.broadcast("NOTICE", "going down")
        assert await client.hear() == ["NOTICE", "going down"]


# One answer


@pytest.mark.parametrize(
    ("behaviour", "expected", "stored"),
    [
        (refuse("blocked: no"), ["OK", "ID", False, "blocked: no"], False),
        (refuse("no prefix"), ["OK", "ID", False, "no prefix"], False),
        (accept_saying("pow: strong"), ["OK", "ID", True, "pow: strong"], True),
        (accept_extra, ["OK", "ID", True, "", {"more": 1}, "elements"], True),
        (accept_without_message, ["OK", "ID", True], True),
        (accept_null_message, ["OK", "ID", True, None], True),
        (accept_number_message, ["OK", "ID", True, 7], True),
        (accept_fragmented, ["OK", "ID", True, "in three parts"], True),
        (empty_id, ["OK", "", False, "invalid: Bad signature"], False),
        (question_mark_id, ["OK", "?", False, "invalid: unparseable"], False),
        (wrong_id, ["OK", "f" * 64, True, ""], False),
        (notice("rate limited"), ["NOTICE", "rate limited"], False),
        (huge_text(), ["NOTICE", "x" * 10_000_000], False),
        (binary(), ["OK", "ID", True, ""], False),
        (not_a_list, {"OK": True}, False),
    ],
)
async def test_one_answer(behaviour: Behaviour, expected: Any, stored: bool) -> None:
    event = make_event(ALICE)
    async with ScriptedRelay(behaviour) as relay:
        answer = await publish(relay.url, event)
        if isinstance(expected, list):
            expected = [event["id"] if part == "ID" else part for part in expected]
        assert answer == expected
        assert (event["id"] in relay.stored) is stored


async def test_ok_twice() -> None:
    event = make_event(ALICE)
    async with ScriptedRelay(accept_twice) as relay, speaker(relay.url) as client:
        assert await client.publish(event) == await client.hear() == ["OK", event["id"], True, ""]


async def test_malformed_json_and_binary_frames_arrive_as_such() -> None:
    steps = Sequence([malformed, binary(b"\x00\xff")])
    async with ScriptedRelay(steps) as relay, speaker(relay.url) as client:
        await client.say("EVENT", make_event())
        assert await client.socket.recv() == '["OK", "unfinished'
        await client.say("EVENT", make_event())
        assert await client.socket.recv() == b"\x00\xff"


# Ends of a connection


@pytest.mark.parametrize(
    ("behaviour", "code_sent_by_client"),
    [(invalid_utf8, 1007), (long_close_reason, 1002)],
)
async def test_protocol_violations_are_noticed_by_a_correct_client(
    behaviour: Behaviour, code_sent_by_client: int
) -> None:
    async with ScriptedRelay(behaviour) as relay, speaker(relay.url) as client:
        with pytest.raises(ConnectionClosedError) as caught:
            await client.publish(make_event())
        assert caught.value.sent is not None
        assert caught.value.sent.code == code_sent_by_client


@pytest.mark.parametrize("behaviour", [drop, drop_mid_frame, all_of(store, drop)])
async def test_dropped_connections_have_no_close_code(behaviour: Behaviour) -> None:
    event = make_event(ALICE)
    async with ScriptedRelay(Sequence([behaviour, accept])) as relay:
        async with speaker(relay.url) as client:
            with pytest.raises(ConnectionClosedError) as caught:
                await client.publish(event)
            assert caught.value.rcvd is None
        assert (await publish(relay.url, event))[2] is True


async def test_taken_but_never_said() -> None:
    event = make_event(ALICE)
    async with ScriptedRelay(Sequence([all_of(store, drop), accept])) as relay:
        with pytest.raises(ConnectionClosedError):
            await publish(relay.url, event)
        assert event["id"] in relay.stored
        assert (await publish(relay.url, event))[3].startswith("duplicate:")


async def test_close_after_counts_on_each_connection() -> None:
    behaviour = close_after(2, 1008, "enough")
    async with ScriptedRelay(behaviour) as relay:
        for _ in range(2):
            async with speaker(relay.url) as client:
                for event in notes(2):
                    assert (await client.publish(event))[2] is True
                with pytest.raises(ConnectionClosedError) as caught:
                    await client.hear()
                assert caught.value.rcvd is not None
                assert (caught.value.rcvd.code, caught.value.rcvd.reason) == (1008, "enough")
        await relay.wait_disconnected()
        assert relay.close_codes == [1008, 1008]


async def test_close_instead_of_an_answer() -> None:
    async with ScriptedRelay(close(1013, "try later")) as relay:
        with pytest.raises(ConnectionClosedError) as caught:
            await publish(relay.url, make_event())
        assert caught.value.rcvd is not None
        assert caught.value.rcvd.code == 1013


async def test_a_hanging_relay_answers_no_ping() -> None:
    async with ScriptedRelay(Sequence([accept, hang])) as relay, speaker(relay.url) as client:
        await client.publish(make_event())
        await (await client.socket.ping())
        await client.say("EVENT", make_event())
        await relay.wait_events(2)
        pong = await client.socket.ping()
        await relay.stop()
        with pytest.raises(ConnectionClosed):
            await pong


# Order and time


async def test_rate_limited_at_first_and_over_connections() -> None:
    event = make_event(ALICE)
    async with ScriptedRelay(rate_limited(2)) as relay:
        answers = [await publish(relay.url, event) for _ in range(3)]
    assert [answer[2] for answer in answers] == [False, False, True]
    assert answers[0][3] == "rate-limited: slow down"


async def test_choose_looks_at_the_event() -> None:
    polite = choose(lambda event: refuse("blocked: spam") if "spam" in event["content"] else accept)
    async with ScriptedRelay(polite) as relay:
        assert (await publish(relay.url, make_event(content="spam")))[2] is False
        assert (await publish(relay.url, make_event(content="ham")))[2] is True


async def test_a_gate_holds_answers_while_others_pass() -> None:
    held, passing = notes(2)
    gate = Gate(accept)
    async with ScriptedRelay(Sequence([gate, accept])) as relay, speaker(relay.url) as client:
        await client.say("EVENT", held)
        assert (await client.publish(passing))[1] == passing["id"]
        gate.open()
        assert (await client.hear())[1] == held["id"]


async def test_a_late_answer() -> None:
    event = make_event(ALICE)
    async with ScriptedRelay(late(0.05)) as relay:
        asked = time.monotonic()
        assert await publish(relay.url, event) == ["OK", event["id"], True, ""]
        assert time.monotonic() - asked >= 0.05


# AUTH


@pytest.mark.parametrize(
    ("when", "kinds"),
    [
        ("before", ["AUTH", "OK"]),
        ("with", ["AUTH", "OK"]),
        ("after", ["OK", "AUTH"]),
        ("never", ["OK"]),
    ],
)
async def test_auth_challenges_come_when_told(when: When, kinds: list[str]) -> None:
    event, auth = make_event(ALICE), make_event(ALICE, kind=22242)
    async with ScriptedRelay(require_auth(when)) as relay, speaker(relay.url) as client:
        if when == "before":
            assert await client.hear() == ["AUTH", "challenge-0"]
        await client.say("EVENT", event)
        heard = [await client.hear() for _ in kinds[when == "before" :]]
        assert [frame[0] for frame in heard] == kinds[when == "before" :]
        assert ["OK", event["id"], False, AUTH_REQUIRED] in heard
        await client.say("AUTH", auth)
        assert await client.hear() == ["OK", auth["id"], True, ""]
        assert relay.auths == [auth]
        assert await client.publish(event) == ["OK", event["id"], True, ""]


async def test_auth_may_lead_to_restricted() -> None:
    script = require_auth("before", refuse("restricted: members only"))
    async with ScriptedRelay(script) as relay, speaker(relay.url) as client:
        _, challenge = await client.hear()
        await client.say("AUTH", make_auth(ALICE, relay.url, challenge))
        await client.hear()
        assert (await client.publish(make_event()))[3] == "restricted: members only"


@pytest.mark.parametrize("when", ["before", "with", "after"])
async def test_reading_may_need_auth(when: When) -> None:
    event = make_event(ALICE)
    async with ScriptedRelay(require_auth(when, reads=True)) as relay:
        relay.stored[event["id"]] = event
        with pytest.raises(ReadError, match="auth-required"):
            await fetch_ids(relay.url, {"ids": [event["id"]]})
        assert await fetch_ids(relay.url, {"ids": [event["id"]]}, secret=BOB) == {event["id"]}
        assert relay.auths[0]["pubkey"] == public_key(BOB)


# Requests


async def test_a_request_may_be_closed_or_ignored() -> None:
    async with ScriptedRelay(Script(on_request=closed("error: no index"))) as relay:
        with pytest.raises(ReadError, match="error: no index"):
            await fetch_ids(relay.url, {"kinds": [1]})
    async with ScriptedRelay(Script(on_request=ignore_request)) as relay:
        with pytest.raises(TimeoutError):
            await fetch_ids(relay.url, {"kinds": [1]}, within=0.1)
        assert relay.received[0][0] == "REQ"
    event = make_event()
    script = Script(on_request=answers_in_turn(closed("error: not yet"), answer_stored))
    async with ScriptedRelay(script) as relay:
        relay.stored[event["id"]] = event
        with pytest.raises(ReadError, match="not yet"):
            await fetch_ids(relay.url, {"kinds": [1]})
        assert await fetch_ids(relay.url, {"kinds": [1]}) == {event["id"]}


def test_filters_are_judged_as_nip_01_says() -> None:
    old = make_event(ALICE, kind=1, tags=[["e", "x"]], created_at=10)
    new = make_event(BOB, kind=2, tags=[["p", "y"], ["-"]], created_at=20)
    events = [old, new]
    assert select(events, [{}]) == [new, old]
    assert select(events, [{"limit": 1}]) == [new]
    assert select(events, [{"kinds": [1]}, {"authors": [new["pubkey"]]}]) == [new, old]
    assert select(events, [{"#e": ["x"]}]) == [old]
    assert select(events, [{"#p": ["x"]}]) == []
    assert select(events, [{"since": 10, "until": 10}]) == [old]
    assert select(events, [{"since": 11}]) == [new]
    assert select(events, [{"ids": [old["id"]], "kinds": [2]}]) == []


# Handshakes


@pytest.mark.parametrize("status", [403, 429, 503])
async def test_the_upgrade_may_be_refused_at_first(status: int) -> None:
    refusal = http_status(status, {"Retry-After": "7"}, "not now")
    async with ScriptedRelay(Script(handshake=handshakes_in_turn(refusal, upgrade))) as relay:
        socket = connect(relay.url, process_exception=lambda error: error)
        with pytest.raises(InvalidStatus) as caught:
            await socket
        assert caught.value.response.status_code == status
        assert caught.value.response.headers["Retry-After"] == "7"
        assert (await publish(relay.url, make_event()))[2] is True
        assert relay.connections == 2


@pytest.mark.parametrize("handshake", [hang_up, hang_up_politely, wrong_key])
async def test_broken_handshakes(handshake: Handshake) -> None:
    async with ScriptedRelay(Script(handshake=handshake)) as relay:
        with pytest.raises(InvalidHandshake):
            await publish(relay.url, make_event())


async def test_a_handshake_may_never_be_answered() -> None:
    async with ScriptedRelay(Script(handshake=never_answer)) as relay:
        with pytest.raises(TimeoutError):
            await connect(relay.url, open_timeout=0.1)
        assert relay.connections == 1
        await relay.wait_disconnected()


async def test_a_handshake_may_be_slow() -> None:
    async with ScriptedRelay(Script(handshake=slow(0.05))) as relay:
        asked = time.monotonic()
        assert (await publish(relay.url, make_event()))[2] is True
        assert time.monotonic() - asked >= 0.05


async def test_a_plain_get_is_told_about_the_relay() -> None:
    document = {"name": "scripted", "limitation": {"min_pow_difficulty": 8}}
    async with ScriptedRelay(Script(handshake=informing(document))) as relay:
        url = relay.url.replace("ws://", "http://")
        assert json.loads(await asyncio.to_thread(_get, url)) == document
        assert (await publish(relay.url, make_event()))[2] is True


def _get(url: str) -> bytes:
    with urlopen(Request(url, headers={"Accept": "application/nostr+json"})) as response:
        body: bytes = response.read()
        return body
