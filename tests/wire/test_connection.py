"""The shell round a relay's session: what goes over the wire, and how a socket ends."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from postrich import Event, SecretSigner, make_draft, parse_event
from postrich.model.delivery import Flight, Outcome, Parcel, Verdict, event_frame
from postrich.rules.replies import fault_of
from postrich.rules.session import AuthRequest, Session
from postrich.wire.connection import MAX_FRAME, Authenticator, Connection
from tests.deliver.outboxes import PATIENCE
from tests.relays.conversation import Client
from tests.relays.events import make_event, public_key
from tests.relays.framing import Frame, Opcode
from tests.relays.handshakes import (
    hang_up,
    hang_up_politely,
    http_status,
    never_answer,
    slow,
    wrong_key,
)
from tests.relays.script import Script, ignore_request, require_auth
from tests.relays.scripted import ScriptedRelay
from tests.relays.scripts import Gate, accept, close, hang, silent

KEY = bytes(range(1, 33))


def flight_of(event: Event) -> Flight:
    frame = event_frame(event.raw)
    return Flight(Parcel(1, event.id, event.pubkey, event.created_at, 1, 2**53, "once", frame), 0)


def a_flight(content: str = "") -> Flight:
    return flight_of(parse_event(json.dumps(make_event(KEY, content=content))))


class Caller:
    """Who dials: notes every outcome, and what the socket looked like when it came."""

    def __init__(self) -> None:
        self.outcomes: list[Verdict] = []
        self.calls = 0
        self.ended = asyncio.Event()
        self._changed = asyncio.Event()

    def on_progress(self, connection: Connection) -> None:
        self.calls += 1
        self.outcomes += [verdict for _, verdict in connection.session.outcomes]
        connection.session.outcomes.clear()
        self._changed.set()
        if not connection.is_open:
            self.ended.set()

    async def verdict(self) -> Verdict:
        """The first outcome."""
        async with asyncio.timeout(PATIENCE):
            while not self.outcomes:
                self._changed.clear()
                await self._changed.wait()
        return self.outcomes[0]


@asynccontextmanager
async def call(
    relay: ScriptedRelay,
    *,
    timeout: float = 10.0,  # noqa: ASYNC109 - the session's own
    identity: str | None = None,
    authenticator: Authenticator | None = None,
) -> AsyncIterator[tuple[Connection, Caller]]:
    caller = Caller()
    session = Session(f"{relay.url}/", timeout, identity)
    connection = await Connection.dial(session, caller.on_progress, authenticator, PATIENCE)
    try:
        yield connection, caller
    finally:
        await connection.close()


def send(connection: Connection, flight: Flight) -> None:
    connection.session.publish(flight, asyncio.get_running_loop().time())
    connection.flush()


async def test_an_event_goes_out_as_its_own_bytes_and_the_ok_comes_back() -> None:
    async with ScriptedRelay(accept) as relay, call(relay) as (connection, caller):
        flight = a_flight("hello")
        send(connection, flight)
        assert (await caller.verdict()).outcome is Outcome.DELIVERED
        assert relay.events[0]["id"] == flight.event_id
        assert connection.is_open
        await connection.close()
        assert not connection.is_open
        await relay.wait_disconnected(PATIENCE)
        assert relay.close_codes == [1000]
        await connection.close()  # twice is harmless


async def test_a_close_from_the_relay_is_told_with_its_words() -> None:
    async with ScriptedRelay(close(4001, "enough for today")) as relay:
        async with call(relay) as (connection, caller):
            send(connection, a_flight())
            verdict = await caller.verdict()
            assert verdict.text == "connection closed (4001) enough for today"
            assert not connection.is_open
            send(connection, a_flight("after the end"))
            assert len(relay.events) == 1
        await relay.wait_disconnected(PATIENCE)
        assert relay.close_codes == [1000], "and it was answered politely"


async def test_silence_ends_in_a_verdict_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("postrich.rules.session.READ_BACK_WAIT", 0.05)
    script = Script(silent, ignore_request)
    async with ScriptedRelay(script) as relay, call(relay, timeout=0.05) as (connection, caller):
        send(connection, a_flight())
        assert (await caller.verdict()).code == "timeout"
        assert [frame[0] for frame in relay.received[:2]] == ["EVENT", "REQ"]


@pytest.mark.req("C3")
async def test_an_early_deadline_is_kept_though_a_later_one_was_set_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The event may take an hour, the AUTH that comes up in between may not."""
    monkeypatch.setattr("postrich.rules.session.AUTH_WAIT", 0.05)
    monkeypatch.setattr("postrich.wire.connection.LOOK_AGAIN", 0.02)
    signer = SecretSigner(KEY)

    async def authenticate(request: AuthRequest) -> Event:
        tags = [["relay", request.relay], ["challenge", request.challenge]]
        return await signer.sign(make_draft(signer.pubkey, 5, 22242, tags))

    script = require_auth("with", on_auth=silent)
    async with (
        ScriptedRelay(script) as relay,
        call(relay, timeout=3600.0, identity=public_key(KEY), authenticator=authenticate) as (
            connection,
            caller,
        ),
    ):
        send(connection, a_flight())
        assert (await caller.verdict()).outcome is Outcome.DELIVERED
    assert len(relay.auths) == 1


@pytest.mark.req("C3")
async def test_a_challenge_for_whom_nobody_signs_parks_the_event() -> None:
    async with (
        ScriptedRelay(require_auth("with")) as relay,
        call(relay, identity=public_key(KEY)) as (connection, caller),
    ):
        send(connection, a_flight())
        verdict = await caller.verdict()
        assert verdict.outcome is Outcome.PARKED
        assert verdict.text == "no signer can AUTH to this relay"


@pytest.mark.req("C3")
async def test_closing_while_a_signature_is_awaited_asks_no_more() -> None:
    asked, answered = asyncio.Event(), False

    async def sleepy(_: AuthRequest) -> Verdict:
        nonlocal answered
        asked.set()
        await asyncio.Event().wait()
        answered = True
        raise AssertionError

    async with (
        ScriptedRelay(require_auth("before")) as relay,
        call(relay, identity=public_key(KEY), authenticator=sleepy) as (connection, caller),
    ):
        send(connection, a_flight())
        async with asyncio.timeout(PATIENCE):
            await asked.wait()
        await connection.close()
        async with asyncio.timeout(PATIENCE):
            await caller.ended.wait()
    assert not answered
    assert not relay.auths


@pytest.mark.parametrize("size", [MAX_FRAME + 1, 4 * MAX_FRAME])
async def test_a_message_too_large_ends_the_socket(size: int) -> None:
    """In one frame or in many: what is not worth its memory is not collected."""

    async def one_frame(client: Client) -> None:
        await client.send_text("x" * size)

    async def many_frames(client: Client) -> None:
        await client.send_frame(Frame(Opcode.TEXT, b"x", final=False))
        for _ in range(size // 65_536 + 1):
            await client.send_frame(Frame(Opcode.CONTINUATION, b"x" * 65_536, final=False))

    for opening in (one_frame, many_frames):
        async with (
            ScriptedRelay(Script(on_open=opening)) as relay,
            call(relay) as (connection, caller),
        ):
            async with asyncio.timeout(PATIENCE):
                await caller.ended.wait()
            assert connection._fragments is None or len(connection._fragments) < 2 * MAX_FRAME


async def test_a_socket_that_takes_no_more_says_so_and_goes_on_later() -> None:
    go_on = asyncio.Event()

    async def read_later(client: Client) -> None:
        await go_on.wait()

    async with (
        ScriptedRelay(Script(on_open=read_later)) as relay,
        call(relay, timeout=3600.0) as (connection, caller),
    ):
        flights = [a_flight(f"{n} {'x' * 900_000}") for n in range(20)]
        for flight in flights:
            send(connection, flight)
        assert not connection.writable
        calls = caller.calls
        go_on.set()
        await relay.wait_events(20, PATIENCE)
        async with asyncio.timeout(PATIENCE):
            while len(caller.outcomes) < 20:
                await asyncio.sleep(0.01)
        assert connection.writable
        assert caller.calls > calls


async def test_a_relay_that_does_not_say_goodbye_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("postrich.wire.connection.CLOSE_TIMEOUT", 0.05)
    async with ScriptedRelay(Script(hang)) as relay, call(relay) as (connection, caller):
        send(connection, a_flight())
        await relay.wait_events(1, PATIENCE)
        async with asyncio.timeout(PATIENCE):
            await connection.close()
        assert not connection.is_open
        assert caller.ended.is_set()


@pytest.mark.req("C9")
async def test_a_relay_that_answers_no_ping_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("postrich.wire.connection.PING_AFTER", 0.05)
    monkeypatch.setattr("postrich.wire.connection.PONG_WITHIN", 0.05)
    async with ScriptedRelay(Script(hang)) as relay, call(relay) as (connection, caller):
        send(connection, a_flight())
        verdict = await caller.verdict()
        assert verdict.outcome is Outcome.UNKNOWN
        assert verdict.code == "closed"


async def test_a_relay_that_answers_pings_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("postrich.wire.connection.PING_AFTER", 1.0)
    monkeypatch.setattr("postrich.wire.connection.PONG_WITHIN", 1.0)
    answered = asyncio.Event()
    send_frame = Client.send_frame

    async def send_and_note(client: Client, frame: Frame) -> None:
        await send_frame(client, frame)
        if frame.opcode == Opcode.PONG:
            answered.set()

    monkeypatch.setattr(Client, "send_frame", send_and_note)
    gate = Gate(accept)
    async with ScriptedRelay(gate) as relay, call(relay) as (connection, caller):
        send(connection, a_flight())
        async with asyncio.timeout(PATIENCE):
            await answered.wait()
        gate.open()
        assert (await caller.verdict()).outcome is Outcome.DELIVERED
        assert connection.is_open


@pytest.mark.parametrize(
    ("handshake", "code", "network"),
    [
        (http_status(403), "http-403", False),
        (http_status(503), "http-503", False),
        (never_answer, "timeout", True),
        (slow(60.0), "timeout", True),
        (wrong_key, "handshake", False),
    ],
)
@pytest.mark.req("B10")
async def test_a_dial_that_fails_says_how(handshake, code: str, network: bool) -> None:  # type: ignore[no-untyped-def]
    caller = Caller()
    async with ScriptedRelay(Script(handshake=handshake)) as relay:
        with pytest.raises(Exception) as caught:
            await Connection.dial(Session(f"{relay.url}/", 1.0), caller.on_progress, None, 0.2)
        fault = fault_of(caught.value)
    assert (fault.code, fault.network) == (code, network)
    assert caller.outcomes == []


@pytest.mark.parametrize("handshake", [hang_up, hang_up_politely])
async def test_a_relay_that_hangs_up_at_the_handshake(handshake) -> None:  # type: ignore[no-untyped-def]
    async with ScriptedRelay(Script(handshake=handshake)) as relay:
        with pytest.raises(Exception) as caught:
            await Connection.dial(Session(f"{relay.url}/", 1.0), Caller().on_progress, None, 5.0)
    assert not fault_of(caught.value).network, "it is there, so there is a network"


async def test_nobody_there_is_a_refused_connection() -> None:
    relay = ScriptedRelay(accept)
    with pytest.raises(OSError, match="refused|Connect") as caught:
        await Connection.dial(Session(f"{relay.url}/", 1.0), Caller().on_progress)
    assert fault_of(caught.value).code == "refused"


async def test_a_relay_without_tls_where_tls_is_asked_for() -> None:
    async with ScriptedRelay(accept) as relay:
        url = relay.url.replace("ws://", "wss://")
        with pytest.raises(Exception) as caught:
            await Connection.dial(Session(f"{url}/", 1.0), Caller().on_progress, None, 1.0)
    assert fault_of(caught.value).code in ("tls", "timeout", "unreachable")
