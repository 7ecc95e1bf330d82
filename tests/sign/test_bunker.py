"""Bunkers (NIP-46): connected to, asked, gone and back; real ones, and one that plays faults."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import quote, urlencode

import pytest
from websockets.asyncio.client import ClientConnection

from postrich import Draft, Event, SecretSigner, make_draft
from postrich.clock import SystemClock
from postrich.errors import (
    KeyProblem,
    SignerError,
    SignerFault,
    SignerRejected,
    SignerTimeout,
    SignerUnavailable,
)
from postrich.model.delivery import Outcome, Verdict
from postrich.rules.nip46 import Pace, Response
from postrich.sign import channel as channels
from postrich.sign.bunker import BunkerGrant, BunkerSigner, Invitation, connect_bunker
from postrich.sign.channel import Channel
from postrich.sign.rpc import Rpc
from postrich.sign.signer import Signers
from tests.bunkers import BunkerProcess
from tests.bunkers.behaviours import (
    FALSE_EVENTS,
    NO_SWITCH,
    NOISE,
    REFUSALS,
    after,
    answer,
    as_stranger,
    both,
    challenges,
    in_turn,
    says,
    sends,
    silence,
)
from tests.bunkers.makes import full, ndk, scripted, simple
from tests.bunkers.scripted import ScriptedBunker
from tests.deliver.outboxes import PATIENCE, until
from tests.relays import RelayProcess, free_port, local_relay, nostr_relay
from tests.relays.events import is_valid, make_auth, make_event, public_key
from tests.relays.script import Script, closed, ignore_request
from tests.relays.scripted import ScriptedRelay
from tests.relays.scripts import accept

SECRET = "open-sesame"
PAGE = "https://bunker.example/approve"
Bunker = BunkerProcess | ScriptedBunker


@pytest.fixture(scope="module")
def relay() -> Iterator[RelayProcess]:
    with local_relay() as running:
        yield running


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("postrich.rules.nip46.SPACING", 0.01)
    monkeypatch.setattr("postrich.rules.nip46.COOL_DOWN", (0.05, 0.2))
    monkeypatch.setattr("postrich.sign.rpc.LOOK_AGAIN", 0.02)
    monkeypatch.setattr("postrich.sign.channel.PAUSES", (0.05, 0.2))


@pytest.fixture
def _suspicious(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bunker that is silent for a moment is pinged, and soon thought asleep."""
    monkeypatch.setattr("postrich.sign.rpc.QUIET", 0.2)
    monkeypatch.setattr("postrich.sign.rpc.PING_PAUSES", (0.2, 0.2))


def plays(relay: RelayProcess, behaviour: Any, **options: Any) -> ScriptedBunker:
    """A bunker that does this when it is asked to sign."""
    return scripted(relay, plays={"sign_event": behaviour}, **options)


def asked(bunker: Bunker) -> list[str]:
    """What it was asked, without the pings that a slow machine may make us send."""
    return [method for method in bunker.methods() if method != "ping"]


class Client:
    """Our side: the bunker among our signers, and what we were told about it."""

    def __init__(self, signer: BunkerSigner, patience: float) -> None:
        self.signer = signer
        self.signers = Signers(patience)
        self.came = 0
        self.asked: list[str] = []
        self.signers.on_came = self._on_came
        self.signers.on_challenge = lambda _pubkey, url: self.asked.append(url)
        self.signers.add(signer)

    def _on_came(self, pubkey: str) -> None:
        assert pubkey == self.signer.pubkey
        self.came += 1

    @property
    def rpc(self) -> Rpc:
        assert self.signer._rpc is not None
        return self.signer._rpc

    async def is_open(self) -> None:
        await until(lambda: self.rpc.channel.is_open)

    def draft(self, content: str = "hello") -> Draft:
        return make_draft(self.signer.pubkey, 5, 1, [["t", "x"]], content)

    async def sign(self, content: str = "hello") -> Event:
        event = await self.signers.sign(self.draft(content))
        assert is_valid(json.loads(event.raw))
        assert event.id == self.draft(content).id
        return event

    async def fails(self, kind: type[SignerError], words: str | None = None) -> SignerError:
        with pytest.raises(kind, match=words) as caught:
            await self.sign()
        return caught.value


@asynccontextmanager
async def known_to(
    bunker: ScriptedBunker,
    *relays: str,
    patience: float = PATIENCE,
    pings: bool = True,
    key: SecretSigner | None = None,
) -> AsyncIterator[Client]:
    """A client that was connected to this bunker some time ago."""
    urls = relays or tuple(bunker._relays)
    grant = BunkerGrant(bunker.user_pubkey, bunker.signer_pubkey, urls, bunker.secret or "", pings)
    async with client_with(grant, key or SecretSigner.generate(), patience) as client:
        yield client


@asynccontextmanager
async def client_with(
    grant: BunkerGrant, key: SecretSigner, patience: float = PATIENCE
) -> AsyncIterator[Client]:
    client = Client(BunkerSigner(grant, key), patience)
    try:
        yield client
    finally:
        await client.signers.close()


# Being connected


@pytest.mark.parametrize("make", [simple, full, ndk, scripted])
@pytest.mark.req("A4")
async def test_a_bunker_is_connected_to_and_signs(relay: RelayProcess, make: Any) -> None:
    key = SecretSigner.generate()
    async with make(relay, secret=SECRET) as bunker:
        grant = await connect_bunker(bunker.uri, key, within=PATIENCE)
        assert grant.pubkey == bunker.user_pubkey
        assert grant.remote in bunker.uri
        assert (grant.remote == grant.pubkey) == (make is ndk)
        assert (grant.secret, grant.pings) == (SECRET, True)
        assert grant.relays == (f"{relay.url}/",)
        async with client_with(grant, key) as client:
            await client.sign("hello 🦤")
    assert asked(bunker) == ["connect", "get_public_key", "switch_relays", "sign_event"]
    assert "ping" in bunker.methods()
    assert {request.client for request in bunker.requests} == {key.pubkey}
    _, secret, permissions, metadata = bunker.requests[0].params
    assert secret == SECRET
    assert "sign_event" in permissions
    assert json.loads(metadata)["name"] == "Postrich"


@pytest.mark.parametrize("make", [ndk, scripted])
async def test_a_wrong_secret_is_refused(relay: RelayProcess, make: Any) -> None:
    async with make(relay, secret=SECRET) as bunker:
        uri = bunker.uri.replace(SECRET, "not-the-secret")
        with pytest.raises(SignerRejected, match="(?i)invalid (secret|token)") as caught:
            await connect_bunker(uri, SecretSigner.generate(), within=PATIENCE)
    assert "not-the-secret" not in str(caught.value)


async def test_nobody_at_the_address_is_told_in_time(relay: RelayProcess) -> None:
    uri = f"bunker://{'ab' * 32}?relay={quote(relay.url)}"
    with pytest.raises(SignerTimeout, match=r"did not answer in 0\.3 s"):
        await connect_bunker(uri, SecretSigner.generate(), within=0.3)


async def test_an_address_without_a_living_relay_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("postrich.sign.rpc.OPEN_WITHIN", 0.2)
    uri = f"bunker://{'ab' * 32}?relay=ws://127.0.0.1:{free_port()}"
    with pytest.raises(SignerUnavailable, match="no relay of the bunker can be reached.*127"):
        await connect_bunker(uri, SecretSigner.generate(), within=PATIENCE)


@pytest.mark.parametrize("told", ["", "npub1xyz", "AB" * 32, "ab" * 31, "xy" * 32])
async def test_a_bunker_must_say_whose_account_it_is(relay: RelayProcess, told: str) -> None:
    async with scripted(relay, plays={"get_public_key": says(result=told)}) as bunker:
        with pytest.raises(KeyProblem, match="did not say whose account"):
            await connect_bunker(bunker.uri, SecretSigner.generate(), within=PATIENCE)


async def test_a_person_is_sent_to_a_page_and_waited_for(relay: RelayProcess) -> None:
    shown: list[str] = []
    async with ndk(relay, auth_url=PAGE) as bunker, asyncio.TaskGroup() as group:
        connecting = group.create_task(
            connect_bunker(
                bunker.uri, SecretSigner.generate(), within=PATIENCE, on_challenge=shown.append
            )
        )
        await until(lambda: bool(shown))
        await bunker.approve()
        assert (await connecting).pubkey == bunker.user_pubkey
    assert shown == [PAGE]
    assert bunker.methods().count("connect") == 1


@pytest.mark.parametrize("make", [ndk, scripted])
async def test_a_signer_accepts_our_invitation(relay: RelayProcess, make: Any) -> None:
    key = SecretSigner.generate()
    invitation = Invitation((relay.url,), key)
    listening = asyncio.Event()
    async with make(relay) as bunker, scripted(relay) as impostor, asyncio.TaskGroup() as group:
        waiting = group.create_task(
            invitation.accepted(within=PATIENCE, on_listening=listening.set)
        )
        await listening.wait()
        for wrong in ("wrong", "ack", ""):
            body = json.dumps({"id": "x", "result": wrong})
            await impostor.send(body, key.pubkey)
        await impostor.send("junk", key.pubkey, encrypted=False)
        await bunker.nostrconnect(invitation.uri)
        grant = await waiting
        assert grant.pubkey == bunker.user_pubkey
        assert impostor.requests == []
        async with client_with(grant, key) as client:
            await client.sign()


async def test_an_invitation_that_nobody_accepts_ends(relay: RelayProcess) -> None:
    key = SecretSigner.generate()
    with pytest.raises(KeyProblem, match=r"no signer accepted within 0\.2 s$"):
        await Invitation((relay.url,), key).accepted(within=0.2)
    gone = f"ws://127.0.0.1:{free_port()}"
    with pytest.raises(KeyProblem, match=r"no signer accepted within 0\.2 s \(ws://127"):
        await Invitation((gone,), key).accepted(within=0.2)


async def test_we_meet_where_the_bunker_wants_to_be_met(relay: RelayProcess) -> None:
    async with local_relay() as new:
        switch = says(result=json.dumps([new.url]))
        async with ScriptedBunker([relay.url, new.url], plays={"switch_relays": switch}) as bunker:
            uri = f"bunker://{bunker.signer_pubkey}?{urlencode({'relay': relay.url})}"
            key = SecretSigner.generate()
            grant = await connect_bunker(uri, key, within=PATIENCE)
            assert grant.relays == (f"{new.url}/",)
            assert grant.pings
            bunker._sockets.pop(relay.url)  # from now on it answers at the new one only
            async with client_with(grant, key) as client:
                await client.sign()


async def test_a_bunker_that_moves_at_once_is_followed(relay: RelayProcess) -> None:
    """The ping that follows is asked at the new relay: it has left the old one."""
    async with local_relay() as new:

        async def move(exchange: Any) -> None:
            await exchange.say({"result": json.dumps([new.url])})
            bunker._sockets.pop(relay.url)

        async with ScriptedBunker([relay.url, new.url], plays={"switch_relays": move}) as bunker:
            uri = f"bunker://{bunker.signer_pubkey}?{urlencode({'relay': relay.url})}"
            grant = await connect_bunker(uri, SecretSigner.generate(), within=PATIENCE)
            assert (grant.relays, grant.pings) == ((f"{new.url}/",), True)


@pytest.mark.parametrize("form", NO_SWITCH)
async def test_where_a_bunker_stays_we_stay(relay: RelayProcess, form: str) -> None:
    async with scripted(relay, plays={"switch_relays": NO_SWITCH[form]}) as bunker:
        grant = await connect_bunker(bunker.uri, SecretSigner.generate(), within=PATIENCE)
    assert grant.relays == (f"{relay.url}/",)


@pytest.mark.parametrize("ping", [silence, says(error="unknown method: ping"), says(result="ok")])
async def test_a_bunker_that_knows_no_ping_is_connected_to_as_well(
    relay: RelayProcess, monkeypatch: pytest.MonkeyPatch, ping: Any
) -> None:
    monkeypatch.setattr("postrich.sign.bunker.OPTIONAL_WITHIN", 0.5)
    async with scripted(relay, plays={"ping": ping}) as bunker:
        grant = await connect_bunker(bunker.uri, SecretSigner.generate(), within=PATIENCE)
    assert not grant.pings


async def test_a_bunker_is_told_when_we_leave_for_good(
    relay: RelayProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with scripted(relay) as bunker, known_to(bunker) as client:
        await client.signer.log_out()
        assert asked(bunker) == ["logout"]
    monkeypatch.setattr("postrich.sign.bunker.LOGOUT_WITHIN", 0.1)
    signer = BunkerSigner(client.signer.grant, SecretSigner.generate())
    await signer.log_out()  # nobody hears it
    await signer.close()


# Meeting at relays


class Member(ScriptedBunker):
    """A bunker that says who it is where the relay asks."""

    async def _serve(self, url: str, socket: ClientConnection) -> None:
        wanted = {"kinds": [24133], "#p": [self.signer_pubkey], "limit": 0}
        await socket.send(json.dumps(["REQ", "who", wanted]))
        while True:
            match json.loads(await socket.recv()):
                case ["AUTH", challenge]:
                    event = make_auth(self.signer, url, challenge)
                    await socket.send(json.dumps(["AUTH", event]))
                    break  # not every relay answers that
        await super()._serve(url, socket)


CLIENT, BUNKER = SecretSigner(b"\x05" * 32), b"\x06" * 32


def with_writers() -> RelayProcess:
    return nostr_relay(auth=True, writers=[CLIENT.pubkey, public_key(BUNKER)])


@pytest.mark.parametrize(
    "guarded",
    [
        lambda: local_relay(auth="both"),
        with_writers,
    ],
    ids=["local", "nostr-relay"],
)
@pytest.mark.req("C3")
async def test_a_relay_that_asks_who_we_are_is_told(guarded: Callable[[], RelayProcess]) -> None:
    async with (
        guarded() as relay,
        Member([relay.url], signer=BUNKER) as bunker,
        known_to(bunker, key=CLIENT) as client,
    ):
        await client.sign("one")
        await client.sign("two")


async def test_a_relay_that_keeps_requests_serves_too() -> None:
    async with (
        nostr_relay() as relay,
        scripted(relay) as bunker,
        known_to(bunker) as client,
    ):
        await client.sign()


async def test_one_relay_of_two_may_be_dead(relay: RelayProcess) -> None:
    dead = f"ws://127.0.0.1:{free_port()}"
    async with scripted(relay) as bunker, known_to(bunker, dead, relay.url) as client:
        await client.sign()
        assert client.signer.is_available


async def test_what_comes_over_two_relays_counts_once(
    relay: RelayProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard: list[str] = []
    on_answer = Rpc._on_answer

    def noted(self: Rpc, found: Response) -> None:
        heard.append(found.id)
        on_answer(self, found)

    monkeypatch.setattr(Rpc, "_on_answer", noted)
    async with local_relay() as second:
        urls = [relay.url, second.url]
        async with ScriptedBunker(urls) as bunker, known_to(bunker, *urls) as client:
            await until(lambda: all(link.is_open for link in client.rpc.channel._links.values()))
            await client.sign("one")
            await client.sign("two")
            assert asked(bunker) == ["sign_event"] * 2
            assert len(heard) == len(set(heard)) == 2


@pytest.mark.req("A5", "A6")
async def test_a_bunkers_relay_goes_and_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("postrich.sign.rpc.OPEN_WITHIN", 0.2)
    async with local_relay() as relay, scripted(relay) as bunker, known_to(bunker) as client:
        await client.sign("before")
        relay.kill()
        await until(lambda: not client.signer.is_available)
        await client.fails(SignerUnavailable, "no relay of the bunker can be reached")
        came = client.came
        await relay.astart()
        await bunker.reachable()
        await until(lambda: client.came > came)
        await client.sign("after")
        assert "connect" not in bunker.methods()


async def test_a_request_that_was_lost_with_its_relay_is_made_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Even where we are back at the relay before the bunker is."""
    monkeypatch.setattr("postrich.rules.nip46.ASK_AGAIN", 3600.0)
    monkeypatch.setattr("postrich.sign.rpc.PING_PAUSES", (0.2, 0.2))
    async with local_relay() as relay:
        bunker = plays(relay, in_turn(silence, answer))
        async with known_to(bunker, pings=False) as client, asyncio.TaskGroup() as group:
            await bunker.start()
            signing = group.create_task(client.sign())
            first = await bunker.wait_for("sign_event", seconds=PATIENCE)
            (call,) = client.rpc._calls.values()
            await bunker.stop()
            relay.kill()
            await relay.astart()
            await until(lambda: call.asks == 2)
            await asyncio.sleep(0.3)  # so that a ping gets lost, too
            await bunker.start()
            second = await bunker.wait_for("sign_event", 2, seconds=PATIENCE)
            await signing
        await bunker.stop()
    assert first.params == second.params
    assert first.id != second.id  # some bunkers drop a name that they have seen


async def test_a_nudge_dials_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("postrich.sign.channel.PAUSES", (3600.0, 3600.0))
    relay = local_relay()
    bunker = scripted(relay)
    async with known_to(bunker) as client:
        await until(lambda: not client.signer.is_available)
        async with relay, bunker:
            client.signers.nudge()
            await until(lambda: client.signer.is_available)
            await client.sign()
    client.signer.nudge()  # nobody to nudge any more


async def test_a_relay_that_will_not_listen_for_us_is_not_hammered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("postrich.sign.channel.PAUSES", (0.01, 3600.0))
    monkeypatch.setattr("postrich.sign.channel.GROWTH", 1e9)
    script = Script(accept, on_request=closed("restricted: not for you"))
    async with ScriptedRelay(script) as relay:
        grant = BunkerGrant("ab" * 32, "ab" * 32, (relay.url,))
        async with client_with(grant, SecretSigner.generate()) as client:
            await until(lambda: not client.signer.is_available)
            assert "restricted: not for you" in client.signer.trouble
            await relay.wait_connections(2, PATIENCE)
            await asyncio.sleep(0.2)
            assert relay.connections == 2


async def test_a_relay_that_never_says_that_it_listens_is_tried_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("postrich.sign.channel.LIVE_WITHIN", 0.1)
    async with ScriptedRelay(Script(accept, on_request=ignore_request)) as relay:
        grant = BunkerGrant("ab" * 32, "ab" * 32, (relay.url,))
        async with client_with(grant, SecretSigner.generate(), patience=0.5) as client:
            await client.is_open()
            await client.fails(SignerTimeout)
            assert len(relay.events) == 1


def channel_of(told: list[str]) -> Channel:
    return Channel(
        CLIENT,
        (),
        SystemClock(),
        lambda event: told.append(event.id),
        lambda: None,
        lambda _letter, _verdict: None,
    )


async def test_only_true_letters_are_told_and_each_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channels, "REMEMBERED", 3)
    told: list[str] = []
    channel = channel_of(told)
    letter = make_event(BUNKER, 24133, "hello")
    letters: tuple[object, ...] = (
        None,
        7,
        [],
        {},
        {"id": 10**40},
        make_event(BUNKER, 1, "hello"),
        {**letter, "content": "other"},
        {**letter, "sig": "0" * 128},
        {**letter, "id": "0" * 64},
        {**letter, "pubkey": CLIENT.pubkey},
    )
    for junk in letters:
        channel.take(junk)
    assert told == []
    for _ in range(2):
        channel.take(letter)
    assert told == [letter["id"]]
    more = [make_event(BUNKER, 24133, str(number)) for number in range(5)]
    for event in more:
        channel.take(event)
        channel.take(event)
    assert told[1:] == [event["id"] for event in more]
    assert len(channel._seen) == 3


# Asking


async def test_requests_are_paced(relay: RelayProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("postrich.rules.nip46.SPACING", 0.2)
    slots: list[float] = []
    reserve = Pace.reserve

    def noted(self: Pace, now: float) -> float:
        pause = reserve(self, now)
        slots.append(now + pause)
        return pause

    monkeypatch.setattr(Pace, "reserve", noted)
    async with scripted(relay) as bunker, known_to(bunker) as client, asyncio.TaskGroup() as group:
        for number in range(4):
            group.create_task(client.sign(str(number)))
    assert len(slots) == 4
    for number, request in enumerate(bunker.requests):
        assert slots[number] >= slots[0] + number * 0.2 - 0.001
        assert request.at >= slots[number]


@pytest.mark.req("B9")
async def test_a_relay_that_limits_us_is_given_time(monkeypatch: pytest.MonkeyPatch) -> None:
    complaints: list[float] = []
    complain = Pace.on_rate_limit

    def noted(self: Pace, now: float) -> None:
        complaints.append(now)
        complain(self, now)

    monkeypatch.setattr(Pace, "on_rate_limit", noted)
    async with (
        local_relay(events_per_minute=3) as relay,
        scripted(relay) as bunker,
        known_to(bunker, patience=2.0) as client,
    ):
        for number in range(3):
            await client.sign(str(number))
        await client.fails(SignerTimeout, "relay did not take the request: .*rate.?limit")
        assert len(complaints) >= 2
        assert len(bunker.requests) == 3


async def test_what_a_relay_would_not_take_is_sent_again(relay: RelayProcess) -> None:
    too_fast = Verdict(Outcome.RETRY, "rate-limited", "rate-limited: slow down")
    async with (
        plays(relay, in_turn(silence, answer)) as bunker,
        known_to(bunker) as client,
        asyncio.TaskGroup() as group,
    ):
        signing = group.create_task(client.sign())
        await bunker.wait_for("sign_event")
        (call,) = client.rpc._calls.values()
        await until(lambda: not call.letter)  # the relay took it
        client.rpc._on_verdict("0" * 64, too_fast)
        assert not call.is_lost
        call.letter = "1" * 64
        client.rpc._on_verdict("1" * 64, too_fast)
        assert call.is_lost
        await signing
    first, second = bunker.requests
    assert first.params == second.params
    assert first.id != second.id  # some bunkers drop a name that they have seen


async def test_a_bunker_that_finds_us_too_fast_is_asked_again_more_slowly(
    relay: RelayProcess,
) -> None:
    """As snstr says it: about no request in particular, and the request itself is dropped."""
    limited = '{"id": "unknown", "error": "Rate limit exceeded Retry after 10 seconds."}'
    async with plays(relay, in_turn(sends(limited), answer)) as bunker, known_to(bunker) as client:
        await client.sign()
        assert len(bunker.requests) == 2
        await client.rpc.close()
        client.rpc._on_answer(Response("unknown", "", "rate limit"))  # and nothing is under way


async def test_what_never_went_out_is_not_held_for_asked(
    relay: RelayProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("postrich.rules.nip46.ASK_AGAIN", 3600.0)
    async with scripted(relay) as bunker, known_to(bunker) as client:
        await client.is_open()
        client.rpc._pace._next = client.rpc._clock.tick() + 1.0
        client.signer.patience = 0.05
        await client.fails(SignerTimeout)
        assert bunker.requests == []
        client.signer.patience = PATIENCE
        await client.sign()
        assert asked(bunker) == ["sign_event"]


async def test_what_no_message_can_carry_is_not_sent(relay: RelayProcess) -> None:
    """A bunker cannot sign it, but a key or a page may: it is left to them."""
    async with scripted(relay) as bunker, known_to(bunker) as client:
        await client.sign("x" * 30_000)
        with pytest.raises(SignerUnavailable, match=r"too long for a bunker: 70,\d{3} of 64,000 B"):
            await client.sign("x" * 70_000)
        assert asked(bunker) == ["sign_event"]
        assert client.rpc._calls == client.rpc._by_key == {}
        client.signers.add(SecretSigner(bunker.user))
        await client.sign("x" * 70_000)


@pytest.mark.parametrize("noise", NOISE)
async def test_noise_before_the_answer_is_passed_over(relay: RelayProcess, noise: str) -> None:
    async with plays(relay, both(NOISE[noise], answer)) as bunker, known_to(bunker) as client:
        await client.sign()
        assert asked(bunker) == ["sign_event"]


async def test_an_answer_by_another_key_is_none(relay: RelayProcess) -> None:
    async with plays(relay, as_stranger) as bunker, known_to(bunker, patience=0.5) as client:
        await client.is_open()
        await client.fails(SignerTimeout)
        assert asked(bunker) == ["sign_event"]


async def test_an_answer_that_comes_twice_counts_once(relay: RelayProcess) -> None:
    async with plays(relay, both(answer, answer, answer)) as bunker, known_to(bunker) as client:
        for number in range(3):
            await client.sign(str(number))
        assert asked(bunker) == ["sign_event"] * 3


#: What each false answer is told as; None: it is no answer at all.
FAULTS = {
    "other content": 'changed content: "hello" became "other"',
    "other time": "changed created_at: 5 became 1600000000",
    "other kind": "changed kind: 1 became 30023",
    "added tag": r'changed tags: \[\["t","x"\]\] became \[\["t","x"\],\["t","added"\]\]',
    "other author": "changed pubkey",
    "wrong id": "id is not the id of the event",
    "bad signature": "is not the account's",
    "signature missing": "has not the form of one",
    "not JSON": "is not an event",
    "empty": "is not an event",
    "null": "is not an event",
    "number": "is not an event",
    "object": "left out pubkey",
    "list": "is not an event",
    "huge": "is not an event",
    "neither result nor error": None,
}


@pytest.mark.parametrize("fault", FALSE_EVENTS)
@pytest.mark.req("A2")
async def test_what_is_not_our_draft_signed_is_refused_and_named(
    relay: RelayProcess, fault: str
) -> None:
    words = FAULTS[fault]
    patience = PATIENCE if words else 0.5
    async with (
        plays(relay, FALSE_EVENTS[fault]) as bunker,
        known_to(bunker, patience=patience) as client,
    ):
        await client.is_open()
        if words is None:
            await client.fails(SignerTimeout)
        else:
            await client.fails(SignerFault, words)
        assert asked(bunker) == ["sign_event"]


async def test_a_bunker_that_adds_tags_of_its_own_is_not_believed(relay: RelayProcess) -> None:
    key = SecretSigner.generate()
    async with ndk(relay) as bunker:
        grant = await connect_bunker(bunker.uri, key, within=PATIENCE)
        async with client_with(grant, key) as client:
            with pytest.raises(SignerFault, match="changed tags.*nostr"):
                await client.sign("#nostr")


#: Each form of a refusal, and what becomes of it.
CODES = {
    "text": "USER_REJECTED",
    "text beside a result": "USER_REJECTED",
    "text beside null": "USER_REJECTED",
    "JSON text": "USER_REJECTED",
    "object": "USER_REJECTED",
    "number": "SIGNER_UNAVAILABLE",
    "empty": "SIGNER_FAULT",
}


@pytest.mark.parametrize("form", REFUSALS)
@pytest.mark.req("A5")
async def test_every_form_of_a_refusal_has_its_code(relay: RelayProcess, form: str) -> None:
    async with plays(relay, REFUSALS[form]) as bunker, known_to(bunker) as client:
        problem = await client.fails(SignerError)
        assert problem.code == CODES[form]


@pytest.mark.parametrize("make", [full, ndk])
@pytest.mark.req("A5")
async def test_real_bunkers_that_refuse_are_heard(relay: RelayProcess, make: Any) -> None:
    key = SecretSigner.generate()
    async with make(relay, secret=SECRET, refuse=["sign_event"]) as bunker:
        grant = await connect_bunker(bunker.uri, key, within=PATIENCE)
        async with client_with(grant, key) as client:
            problem = await client.fails(SignerRejected)
            assert problem.needs_person
    assert bunker.methods().count("sign_event") <= 2


# Being known


async def test_who_is_known_need_not_introduce_themselves(relay: RelayProcess) -> None:
    key = SecretSigner.generate()
    async with ndk(relay, secret=SECRET, known=[key.pubkey]) as bunker:
        grant = await connect_bunker(bunker.uri, key, within=PATIENCE)
        for content in ("first life", "second life"):
            async with client_with(grant, key) as client:
                await client.sign(content)
            await bunker.restart()
    assert bunker.methods().count("connect") == 1
    assert bunker.methods().count("sign_event") == 2


@pytest.mark.parametrize("make", [simple, full])
@pytest.mark.req("A6")
async def test_a_bunker_that_forgot_us_is_told_who_we_are_once(
    relay: RelayProcess, make: Any
) -> None:
    key = SecretSigner.generate()
    async with make(relay, secret=SECRET) as bunker:
        grant = await connect_bunker(bunker.uri, key, within=PATIENCE)
        async with client_with(grant, key) as client:
            await client.sign("before")
            await bunker.restart()
            async with asyncio.TaskGroup() as group:
                for number in range(3):
                    group.create_task(client.sign(str(number)))
            assert bunker.methods().count("connect") == 2


async def test_a_bunker_that_does_not_want_us_back_needs_a_person(relay: RelayProcess) -> None:
    answers = {
        "sign_event": says(error="no permission"),
        "connect": says(error="already connected"),
    }
    async with scripted(relay, plays=answers, secret=SECRET) as bunker, known_to(bunker) as client:
        words = "already connected; connect to it anew with `postrich account connect`"
        problem = await client.fails(SignerRejected, words)
        assert problem.code == "USER_REJECTED"
        assert asked(bunker) == ["sign_event", "connect"]
        assert bunker.requests[1].params[1] == SECRET


# Awake or not


@pytest.mark.usefixtures("_suspicious")
@pytest.mark.parametrize("make", [simple, ndk])
@pytest.mark.req("A5", "A6")
async def test_a_bunker_is_killed_in_mid_request_and_comes_back(
    relay: RelayProcess, make: Any
) -> None:
    key = SecretSigner.generate()
    async with make(relay, secret=SECRET, delays={"sign_event": 600}) as bunker:
        grant = await connect_bunker(bunker.uri, key, within=PATIENCE)
        async with client_with(grant, key) as client:
            async with asyncio.TaskGroup() as group:
                signing = group.create_task(client.fails(SignerUnavailable, "does not answer"))
                await bunker.wait_for("sign_event", seconds=PATIENCE)
                await bunker.kill()
            assert signing.done()
            assert not client.signer.is_available
            assert client.signer.trouble == "the bunker does not answer"
            came = client.came
            bunker._config["delays"] = {}
            await bunker.start()
            await until(lambda: client.came > came)
            await client.sign()


@pytest.mark.usefixtures("_suspicious")
@pytest.mark.req("A5", "A6")
async def test_a_bunker_that_sleeps_is_noticed_and_so_is_its_waking(relay: RelayProcess) -> None:
    bunker = scripted(relay)
    async with known_to(bunker) as client:
        await client.fails(SignerUnavailable, "the bunker does not answer")
        assert not client.signer.is_available
        came = client.came
        async with bunker:
            await until(lambda: client.came > came)
            assert client.signer.is_available
            assert client.signer.trouble == ""
            await client.sign()
            # What it was asked in its sleep is asked anew, under the same id.
            assert bunker.methods().count("sign_event") == 1


@pytest.mark.usefixtures("_suspicious")
@pytest.mark.parametrize("ping", [silence, says(error="unknown method")])
@pytest.mark.req("A5")
async def test_who_does_not_know_ping_is_never_locked_out(relay: RelayProcess, ping: Any) -> None:
    answers = {"ping": ping, "sign_event": after(1.5)}
    async with scripted(relay, plays=answers) as bunker:
        async with known_to(bunker, pings=False) as client:
            await client.sign()
            assert client.signer.is_available
        assert bunker.methods().count("ping") > 0
        assert bunker.methods().count("sign_event") == 1


@pytest.mark.usefixtures("_suspicious")
async def test_a_slow_bunker_that_answers_pings_is_waited_for(relay: RelayProcess) -> None:
    async with plays(relay, after(1.5)) as bunker, known_to(bunker) as client:
        await client.sign()
        assert bunker.methods().count("sign_event") == 1


async def test_pings_become_seldom(relay: RelayProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("postrich.sign.rpc.PING_PAUSES", (0.01, 3600.0))
    monkeypatch.setattr("postrich.sign.rpc.PING_OFTEN", 5)
    monkeypatch.setattr("postrich.sign.rpc.PING_GROWTH", 1e9)
    async with scripted(relay, plays={"ping": silence}) as bunker, known_to(bunker) as client:
        await client.is_open()
        client.rpc.doubt()
        await bunker.wait_for("ping", 7, seconds=PATIENCE)
        await asyncio.sleep(0.2)
        assert bunker.methods().count("ping") == 7


@pytest.mark.req("A5", "A6")
async def test_a_late_answer_is_used_without_asking_again(relay: RelayProcess) -> None:
    async with plays(relay, after(1.2)) as bunker, known_to(bunker, patience=0.5) as client:
        await client.is_open()
        came = client.came
        problem = await client.fails(SignerTimeout, r"did not answer in 0\.5 s")
        assert problem.code == "TIMEOUT"
        await until(lambda: client.came > came)
        bunker.plays["sign_event"] = silence
        await client.sign()
        assert bunker.methods().count("sign_event") == 1


async def test_a_late_no_is_heard_too(relay: RelayProcess) -> None:
    no = after(1.2, says(error="user rejected"))
    async with plays(relay, no) as bunker, known_to(bunker, patience=0.5) as client:
        await client.is_open()
        came = client.came
        await client.fails(SignerTimeout)
        await until(lambda: client.came > came)
        await client.fails(SignerRejected, "user rejected")
        assert bunker.methods().count("sign_event") == 1


async def test_an_answer_in_the_last_moment_counts(
    relay: RelayProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer and our giving up, in the same turn of the loop."""

    async def at_once(_self: Rpc, call: Any) -> None:
        call.answer.set_result(Response("x", "pong"))
        await asyncio.Event().wait()

    monkeypatch.setattr(Rpc, "_wait_for", at_once)
    async with scripted(relay) as bunker, known_to(bunker) as client:
        assert await client.rpc.call("ping", within=0.01, key="x") == "pong"
        assert client.rpc._calls == client.rpc._by_key == {}


async def test_a_page_is_shown_once_and_the_same_request_waited_for(
    relay: RelayProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    once_more = says(result="auth_url", error=PAGE)
    behaviour = both(once_more, challenges(PAGE))
    async with plays(relay, behaviour) as bunker, known_to(bunker, patience=1.0) as client:
        await client.is_open()
        for _ in range(3):
            await client.fails(SignerTimeout, f"waits for you to approve at {PAGE}")
            client.signer.patience = 0.1
            monkeypatch.setattr("postrich.rules.nip46.ASK_AGAIN", 0.0)  # but a person is reading
        assert client.asked == [PAGE]
        came = client.came
        bunker.go()
        await until(lambda: client.came > came)
        client.signer.patience = PATIENCE
        await client.sign()
        assert bunker.methods().count("sign_event") == 1


async def test_what_is_no_page_is_not_shown(relay: RelayProcess) -> None:
    behaviour = both(says(result="auth_url", error="javascript:alert(1)"), answer)
    async with plays(relay, behaviour) as bunker, known_to(bunker) as client:
        await client.sign()
        assert client.asked == []


async def test_two_who_ask_for_one_draft_ask_once(relay: RelayProcess) -> None:
    async with (
        plays(relay, after(0.2)) as bunker,
        known_to(bunker) as client,
        asyncio.TaskGroup() as group,
    ):
        one, other = (group.create_task(client.sign()) for _ in range(2))
        assert await one == await other
        assert asked(bunker) == ["sign_event"]


async def test_only_so_many_unanswered_requests_are_kept(
    relay: RelayProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("postrich.sign.rpc.MAX_CALLS", 2)
    async with plays(relay, silence) as bunker, known_to(bunker, patience=0.05) as client:
        for number in range(4):
            with pytest.raises(SignerTimeout):
                await client.sign(str(number))
        kept = [client.draft(str(number)).id for number in (2, 3)]
        assert list(client.rpc._by_key) == kept
        assert len(client.rpc._calls) == 2


@pytest.mark.req("A6")
async def test_who_was_asked_before_being_added_is_heard_all_the_same(relay: RelayProcess) -> None:
    async with plays(relay, both(challenges(PAGE))) as bunker:
        grant = BunkerGrant(bunker.user_pubkey, bunker.signer_pubkey, (relay.url,))
        signer = BunkerSigner(grant, SecretSigner.generate())
        signer.patience = 0.01
        with pytest.raises(SignerTimeout):
            await signer.sign(make_draft(signer.pubkey, 5, 1, [["t", "x"]], "hello"))
        client = Client(signer, 1.0)
        await client.is_open()
        await client.fails(SignerTimeout)
        assert client.asked == [PAGE]
        came = client.came
        bunker.go()
        await until(lambda: client.came > came)
        await client.signers.close()


async def test_who_was_removed_lets_go_of_its_relays(relay: RelayProcess) -> None:
    async with scripted(relay) as bunker, known_to(bunker) as client:
        await client.sign()
        assert [task for task in asyncio.all_tasks() if task.get_name().startswith("bunker ")]
        client.signers.remove(client.signer)
        await client.signers.close()
        assert client.signer._rpc is None
        assert not client.signer.is_available
        assert not [task for task in asyncio.all_tasks() if task.get_name().startswith("bunker ")]
