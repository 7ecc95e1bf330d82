"""Whatever a relay sends or does: a clear verdict, a lane that lives on, the next event goes."""

from __future__ import annotations

from pathlib import Path

import pytest

from postrich import JobState
from postrich.model.delivery import DeliveryState
from tests.deliver.outboxes import (
    PATIENCE,
    all_published,
    hear_breaker,
    hear_delivery,
    lane_of,
    outbox_at,
    some_notes,
    the_delivery,
)
from tests.relays.conversation import Client
from tests.relays.events import Event, make_event
from tests.relays.framing import Frame, Opcode, Request
from tests.relays.handshakes import (
    Handshake,
    handshakes_in_turn,
    hang_up,
    hang_up_politely,
    http_status,
    never_answer,
    upgrade,
    wrong_key,
)
from tests.relays.script import Script
from tests.relays.scripted import ScriptedRelay
from tests.relays.scripts import (
    ID,
    Behaviour,
    Sequence,
    accept,
    accept_fragmented,
    all_of,
    binary,
    close,
    drop,
    drop_mid_frame,
    huge_text,
    invalid_utf8,
    long_close_reason,
    malformed,
    not_a_list,
    refuse,
    reply,
    text,
)


def raw(data: bytes) -> Behaviour:
    """Bytes on the TCP connection as they are."""

    async def act(client: Client, event: Event) -> None:
        await client.write(data)

    return act


def frames(*parts: Frame) -> Behaviour:
    async def act(client: Client, event: Event) -> None:
        for part in parts:
            await client.send_frame(part)

    return act


async def endless_fragments(client: Client, event: Event) -> None:
    """A message that never ends, until the other side has had enough."""
    await client.send_frame(Frame(Opcode.TEXT, b'["NOTICE","', final=False))
    for _ in range(200):
        await client.send_frame(Frame(Opcode.CONTINUATION, b"x" * 65_536, final=False))


async def half_a_message_then_another(client: Client, event: Event) -> None:
    await client.send_frame(Frame(Opcode.TEXT, b'["OK","', final=False))
    await client.send("NOTICE", "on second thoughts")


MEGABYTE = 1024 * 1024

BAD_FRAMES: dict[str, Behaviour] = {
    "malformed JSON": malformed,
    "not a list": not_a_list,
    "null": text("null"),
    "a number": text("1e999"),
    "an empty list": text("[]"),
    "an empty text": text(""),
    "a list of lists": text("[[[]]]"),
    "nesting without end": text("[" * 500_000),
    "invalid UTF-8": invalid_utf8,
    "a lone surrogate": text(r'["NOTICE","\ud800"]'),
    "binary": binary(),
    "binary noise": binary(bytes(range(256))),
    "a word unknown": reply("HELLO", ID),
    "OK alone": reply("OK"),
    "OK without a verdict": reply("OK", ID),
    "OK with a number for an id": reply("OK", 5, True, ""),
    "OK with null for an id": reply("OK", None, False, "invalid: x"),
    "OK with a text for a verdict": reply("OK", ID, "true", ""),
    "OK with null for a verdict": reply("OK", ID, None, ""),
    "OK with a list for a verdict": reply("OK", ID, [True], ""),
    "NOTICE without a text": reply("NOTICE", {"a": 1}),
    "AUTH without a challenge": reply("AUTH", 5),
    "EVENT of no subscription": reply("EVENT", "nobody", {"id": "x"}),
    "EVENT without an event": reply("EVENT", "nobody"),
    "EOSE of no subscription": reply("EOSE", "nobody"),
    "CLOSED of no subscription": reply("CLOSED", "nobody", 7),
    "a refusal of 1 MB": refuse("rate-limited: " + "x" * MEGABYTE),
    "a refusal that is no text": reply("OK", ID, False, {"reason": ["no"]}),
    "10 MB": huge_text(10_000_000),
    "11 MB": huge_text(11_000_000),
    "endless fragments": endless_fragments,
    "a continuation of nothing": frames(Frame(Opcode.CONTINUATION, b"tail")),
    "a message within a message": half_a_message_then_another,
    "a reserved opcode": frames(Frame(0x3, b"what?")),
    "a control frame in fragments": frames(Frame(Opcode.PING, b"half", final=False)),
    "a ping of 200 bytes": frames(Frame(Opcode.PING, b"x" * 200)),
    "an unasked pong": frames(Frame(Opcode.PONG, b"?")),
    "reserved bits": raw(b"\xf1\x02[]"),
    "noise": raw(bytes(range(256)) * 4),
    "a close of one byte": frames(Frame(Opcode.CLOSE, b"\x03")),
    "a close without a code": frames(Frame(Opcode.CLOSE, b"")),
    "a close with a code of its own": close(4242, "because"),
    "a close with a code that is none": close(7, "why"),
    "a close with broken UTF-8": frames(Frame(Opcode.CLOSE, b"\x03\xe8\xff\xfe")),
    "a close with a reason too long": long_close_reason,
    "a reset": drop,
    "an end in mid-frame": drop_mid_frame,
    "a frame after its close": all_of(close(1000), text("[]")),
}


@pytest.mark.parametrize("bad", BAD_FRAMES.values(), ids=BAD_FRAMES.keys())
@pytest.mark.req("C2", "C9")
async def test_bad_frames_cost_a_moment_and_nothing_else(tmp_path: Path, bad: Behaviour) -> None:
    async with (
        ScriptedRelay(Sequence([bad, accept])) as relay,
        outbox_at(tmp_path, relay, timeout=0.2) as outbox,
    ):
        with outbox.watch() as notices:
            first = await outbox.publish(make_event(content="first"))
            told = await hear_delivery(notices, DeliveryState.WAITING)
            assert told.code in ("timeout", "closed", "rate-limited", "unexplained")
            assert told.detail
        lane = lane_of(outbox, relay)
        job = await first.published(PATIENCE)
        assert job.publish_attempts <= 2
        await all_published(await outbox.publish_many(some_notes(3)))
        assert lane_of(outbox, relay) is lane
        assert not lane.has_ended


@pytest.mark.parametrize("bad", ["binary", "malformed JSON", "10 MB", "endless fragments"])
@pytest.mark.req("C2")
async def test_bad_frames_among_many_harm_nobody(tmp_path: Path, bad: str) -> None:
    script = Sequence([accept, accept, all_of(accept, BAD_FRAMES[bad]), accept])
    async with ScriptedRelay(script) as relay, outbox_at(tmp_path, relay, timeout=0.5) as outbox:
        jobs = await all_published(await outbox.publish_many(some_notes(20)))
    assert {job.state for job in jobs} == {JobState.PUBLISHED}
    assert {job.publish_attempts for job in jobs} == {1}


@pytest.mark.parametrize("size", [100_000, 1_500_000])
async def test_large_frames_within_reason_are_read(tmp_path: Path, size: int) -> None:
    script = all_of(huge_text(size), accept)
    async with ScriptedRelay(script) as relay, outbox_at(tmp_path, relay) as outbox:
        job = await (await outbox.publish(make_event())).published(PATIENCE)
        assert relay.connections == 1
    assert job.publish_attempts == 1


async def test_an_ok_in_fragments_is_an_ok(tmp_path: Path) -> None:
    async with ScriptedRelay(accept_fragmented) as relay, outbox_at(tmp_path, relay) as outbox:
        jobs = await all_published(await outbox.publish_many(some_notes(5)))
    assert {job.deliveries[0].detail for job in jobs} == {"in three parts"}
    assert {job.publish_attempts for job in jobs} == {1}


async def test_a_relay_that_echoes_our_goodbye_does_not_condemn_the_event(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its message was too large, so we close with 1009; as the protocol asks, it answers 1009."""
    monkeypatch.setattr("postrich.wire.connection.MAX_FRAME", 1000)
    script = Sequence([huge_text(2000), accept])
    async with ScriptedRelay(script) as relay, outbox_at(tmp_path, relay) as outbox:
        with outbox.watch() as notices:
            handle = await outbox.publish(make_event())
            told = await hear_delivery(notices, DeliveryState.WAITING, "closed")
            assert "exceeding max allowed size" in told.detail
        await handle.published(PATIENCE)
        assert 1009 in relay.close_codes


async def not_http(client: Client, request: Request) -> bool:
    await client.write(b"SSH-2.0-OpenSSH_9.6\r\n\r\n")
    return False


async def half_a_handshake(client: Client, request: Request) -> bool:
    await client.write(b"HTTP/1.1 101 Switching")
    return False


BAD_HANDSHAKES: dict[str, tuple[Handshake, str]] = {
    "403": (http_status(403), "403"),
    "429": (http_status(429, {"Retry-After": "1"}), "429"),
    "503": (http_status(503, body="<html>busy</html>"), "503"),
    "200": (http_status(200, body="hello"), "no WebSocket"),
    "a redirect": (http_status(302, {"Location": "ws://127.0.0.1:1/"}), ""),
    "a wrong key": (wrong_key, "no WebSocket"),
    "no answer": (never_answer, "no connection in time"),
    "a reset": (hang_up, ""),
    "an end": (hang_up_politely, ""),
    "another protocol": (not_http, ""),
    "half an answer": (half_a_handshake, ""),
}


@pytest.mark.parametrize(("bad", "words"), BAD_HANDSHAKES.values(), ids=BAD_HANDSHAKES.keys())
@pytest.mark.req("B10", "C10")
async def test_failed_handshakes_open_the_breaker_and_cost_no_attempt(
    tmp_path: Path, bad: Handshake, words: str
) -> None:
    script = Script(handshake=handshakes_in_turn(bad, bad, upgrade))
    async with (
        ScriptedRelay(script) as relay,
        outbox_at(tmp_path, relay, connect_timeout=0.3) as outbox,
    ):
        with outbox.watch() as notices:
            handle = await outbox.publish(make_event())
            told = await hear_breaker(notices, "open")
            assert told.detail, "it says why"
            assert words in told.detail
            assert (await the_delivery(handle)).attempts == 0
        job = await handle.published(PATIENCE)
        lane = lane_of(outbox, relay)
        assert lane.breaker.failures == 0
    assert job.publish_attempts == 1
    assert relay.connections == 3
