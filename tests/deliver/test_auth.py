"""NIP-42 in the lane: who says who they are, to whom, and what else becomes of the events."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from postrich import JobState, SecretSigner
from postrich.errors import SignerRejected
from postrich.model.delivery import DeliveryState
from postrich.model.event import Draft
from postrich.model.event import Event as SignedEvent
from postrich.sign.signer import Signer
from tests.deliver.outboxes import (
    PATIENCE,
    all_published,
    all_settled,
    hear_delivery,
    lane_of,
    outbox_at,
    some_notes,
)
from tests.relays.conversation import Client
from tests.relays.events import Event, is_valid, make_event, public_key
from tests.relays.script import Script, When, challenge_of, require_auth
from tests.relays.scripted import ScriptedRelay
from tests.relays.scripts import Behaviour, Gate, accept, refuse, reply, silent

pytestmark = pytest.mark.req("C3")

ALICE, BOB = os.urandom(32), os.urandom(32)


@pytest.mark.parametrize("when", ["before", "with", "after"])
async def test_auth_is_answered_and_the_event_sent_again(tmp_path: Path, when: When) -> None:
    async with (
        ScriptedRelay(require_auth(when)) as relay,
        outbox_at(tmp_path, relay, signer=SecretSigner(ALICE)) as outbox,
    ):
        handles = await outbox.publish_many(some_notes(30, ALICE))
        jobs = await all_published(handles)
    assert {job.publish_attempts for job in jobs} == {1}
    (auth,) = relay.auths
    assert is_valid(auth)
    assert auth["kind"] == 22242
    assert auth["pubkey"] == public_key(ALICE)
    assert ["relay", f"{relay.url}/"] in auth["tags"]
    assert relay.connections == 2, "an anonymous socket, and one for the identity"


async def test_each_account_has_a_socket_of_its_own(tmp_path: Path) -> None:
    script = require_auth("with")
    async with ScriptedRelay(script) as relay, outbox_at(tmp_path, relay) as outbox:
        outbox.add_signer(SecretSigner(ALICE))
        outbox.add_signer(SecretSigner(BOB))
        notes = [*some_notes(10, ALICE), *some_notes(10, BOB)]
        await all_published(await outbox.publish_many(notes))
        anonymous, *named = relay.clients
        assert not anonymous.auths, "the anonymous socket never says who we are"
        assert sorted(client.auths[0]["pubkey"] for client in named) == sorted(
            [public_key(ALICE), public_key(BOB)]
        )
        for client in named:
            assert len(client.auths) == 1
            authors = {event["pubkey"] for event in client.events}
            assert authors == {client.auths[0]["pubkey"]}


async def test_events_of_strangers_go_by_the_anonymous_socket(tmp_path: Path) -> None:
    async def only_alice(client: Client, event: Event) -> None:
        if event["pubkey"] == public_key(ALICE) and not client.auths:
            await client.send("AUTH", challenge_of(client))
            await refuse("auth-required: alice, is that you?")(client, event)
        else:
            await accept(client, event)

    async with (
        ScriptedRelay(only_alice) as relay,
        outbox_at(tmp_path, relay, signer=SecretSigner(ALICE)) as outbox,
    ):
        await (await outbox.publish(make_event(ALICE))).published(PATIENCE)
        await (await outbox.publish(make_event(BOB))).published(PATIENCE)
        anonymous = relay.clients[0]
    assert [event["pubkey"] for event in anonymous.events] == [
        public_key(ALICE),
        public_key(BOB),
    ]
    assert not anonymous.auths


async def test_what_waits_behind_the_refused_event_is_not_waited_for(tmp_path: Path) -> None:
    """Some relays refuse one event after the other, each later than the one before."""

    async def refuse_one(client: Client, event: Event) -> None:
        if client.auths:
            await client.send("OK", event["id"], True, "")
        elif len(client.events) == 1:
            await client.send("OK", event["id"], False, "auth-required: who are you?")

    async def ask(client: Client) -> None:
        await client.send("AUTH", "who are you?")

    script = Script(refuse_one, on_open=ask)
    async with (
        ScriptedRelay(script) as relay,
        outbox_at(tmp_path, relay, signer=SecretSigner(ALICE)) as outbox,
    ):
        jobs = await all_published(await outbox.publish_many(some_notes(8, ALICE)))
    assert {job.publish_attempts for job in jobs} == {1}


@pytest.mark.req("A6")
async def test_without_the_key_it_is_parked_until_the_key_comes(tmp_path: Path) -> None:
    script = require_auth("with")
    async with ScriptedRelay(script) as relay, outbox_at(tmp_path, relay) as outbox:
        handle = await outbox.publish(make_event(ALICE))
        job = await handle.settled(PATIENCE)
        assert job.state is JobState.PARKED
        assert job.deliveries[0].code == "signer"
        assert f"no key of {public_key(ALICE)[:8]}… is at hand" in job.deliveries[0].detail
        assert not relay.auths
        outbox.add_signer(SecretSigner(ALICE))
        while (await handle.status()).state is JobState.PARKED:
            await asyncio.sleep(0.01)
        await handle.published(PATIENCE)


async def test_by_policy_we_never_say_who_we_are(tmp_path: Path) -> None:
    async with (
        ScriptedRelay(require_auth("before")) as relay,
        outbox_at(tmp_path, relay, signer=SecretSigner(ALICE), auth="never") as outbox,
    ):
        job = await (await outbox.publish(make_event(ALICE))).settled(PATIENCE)
    assert job.state is JobState.PARKED
    assert "your settings forbid it" in job.deliveries[0].detail
    assert not relay.auths


async def test_a_challenge_alone_is_not_answered(tmp_path: Path) -> None:
    async def ask(client: Client) -> None:
        await client.send("AUTH", "who are you?")

    async with (
        ScriptedRelay(Script(on_open=ask)) as relay,
        outbox_at(tmp_path, relay, signer=SecretSigner(ALICE)) as outbox,
    ):
        await (await outbox.publish(make_event(ALICE))).published(PATIENCE)
    assert not relay.auths


async def test_a_relay_that_never_sends_its_challenge_is_tried_again(tmp_path: Path) -> None:
    async with (
        ScriptedRelay(require_auth("never")) as relay,
        outbox_at(tmp_path, relay, signer=SecretSigner(ALICE), policy="slow") as outbox,
    ):
        with outbox.watch() as notices:
            handle = await outbox.publish(make_event(ALICE))
            await hear_delivery(notices, DeliveryState.WAITING)
        job = await handle.status()
    assert job.deliveries[0].state is DeliveryState.WAITING
    assert "sends no challenge" in job.deliveries[0].detail


@pytest.mark.parametrize(
    ("on_auth", "state"),
    [
        (refuse("restricted: not on the list"), DeliveryState.PARKED),
        (refuse("auth-required: bad challenge"), DeliveryState.PARKED),
    ],
)
async def test_a_refused_auth_parks_the_event(
    tmp_path: Path, on_auth: Behaviour, state: DeliveryState
) -> None:
    async with (
        ScriptedRelay(require_auth("with", on_auth=on_auth)) as relay,
        outbox_at(tmp_path, relay, signer=SecretSigner(ALICE)) as outbox,
    ):
        jobs = await all_settled(await outbox.publish_many(some_notes(3, ALICE)))
    assert {job.deliveries[0].state for job in jobs} == {state}
    assert all("AUTH refused" in job.deliveries[0].detail for job in jobs)
    assert len(relay.auths) == 2, "at most two rounds"
    urls = {tag[1] for auth in relay.auths for tag in auth["tags"] if tag[0] == "relay"}
    assert urls == {relay.url, f"{relay.url}/"}, "the second round tries the other spelling"


async def test_an_auth_that_helps_nothing_is_a_refusal(tmp_path: Path) -> None:
    stubborn = require_auth("with", then=refuse("auth-required: still not"))
    async with (
        ScriptedRelay(stubborn) as relay,
        outbox_at(tmp_path, relay, signer=SecretSigner(ALICE)) as outbox,
    ):
        job = await (await outbox.publish(make_event(ALICE))).settled(PATIENCE)
    assert job.deliveries[0].state is DeliveryState.REFUSED
    assert "even after AUTH" in job.deliveries[0].detail


async def test_restricted_after_auth_is_final(tmp_path: Path) -> None:
    closed_club = require_auth("with", then=refuse("restricted: members only"))
    async with (
        ScriptedRelay(closed_club) as relay,
        outbox_at(tmp_path, relay, signer=SecretSigner(ALICE)) as outbox,
    ):
        job = await (await outbox.publish(make_event(ALICE))).settled(PATIENCE)
    assert job.deliveries[0].state in (DeliveryState.REFUSED, DeliveryState.PARKED)
    assert job.publish_attempts == 1


async def test_a_relay_that_takes_an_auth_without_a_word(tmp_path: Path) -> None:
    """nostr-relay never answers AUTH: after a while the event is sent all the same."""
    quiet = require_auth("with", on_auth=silent)
    async with (
        ScriptedRelay(quiet) as relay,
        outbox_at(tmp_path, relay, signer=SecretSigner(ALICE)) as outbox,
    ):
        job = await (await outbox.publish(make_event(ALICE))).published(PATIENCE)
    assert job.publish_attempts == 1


async def test_a_refusal_without_an_id_that_asks_for_auth_asks_it_of_all(tmp_path: Path) -> None:
    """As nostr-relay does: a challenge at once, and refusals that do not say whose."""
    strict = require_auth("before")

    async def on_event(client: Client, event: Event) -> None:
        answer = accept if client.auths else reply("OK", "", False, "restricted: who are you?")
        await answer(client, event)

    script = Script(on_event, strict.on_request, strict.on_auth, strict.on_open)
    async with (
        ScriptedRelay(script) as relay,
        outbox_at(tmp_path, relay, signer=SecretSigner(ALICE)) as outbox,
    ):
        jobs = await all_published(await outbox.publish_many(some_notes(30, ALICE)))
    assert {job.publish_attempts for job in jobs} == {1}
    assert len(relay.auths) == 1


async def test_who_needs_no_auth_is_delivered_though_others_are_asked(tmp_path: Path) -> None:
    """A refusal that names nobody parks those without a key; the OK that follows sets it right."""
    gate = Gate(accept)

    async def only_bob(client: Client, event: Event) -> None:
        if event["pubkey"] == public_key(BOB):
            await gate(client, event)
        elif client.auths:
            await accept(client, event)
        else:
            await client.send("OK", "?", False, "auth-required: not bob")

    strict = require_auth("before")
    script = Script(only_bob, strict.on_request, strict.on_auth, strict.on_open)
    async with (
        ScriptedRelay(script) as relay,
        outbox_at(tmp_path, relay, signer=SecretSigner(ALICE)) as outbox,
    ):
        handles = await outbox.publish_many([make_event(BOB), make_event(ALICE)])
        await handles[1].published(PATIENCE)  # type: ignore[union-attr]
        gate.open()
        with outbox.watch() as notices:
            late = await hear_delivery(notices, DeliveryState.DELIVERED)
            assert late.code == "late"
        job = await handles[0].status()  # type: ignore[union-attr]
        assert job.state is JobState.PUBLISHED


@pytest.mark.parametrize("refusal", ["restricted: who are you?", "auth-required: who are you?"])
async def test_an_event_refused_from_before_our_auth_is_sent_again(
    tmp_path: Path, refusal: str
) -> None:
    """It went out ahead of the challenge, and its refusal comes when AUTH is long done."""
    authenticated = asyncio.Event()

    async def slow_to_refuse(client: Client, event: Event) -> None:
        if client.auths:
            await accept(client, event)
        else:
            client.spawn(refuse_later(client, event))

    async def refuse_later(client: Client, event: Event) -> None:
        if client.number > 0:  # not the anonymous one
            await authenticated.wait()
        await client.send("AUTH", challenge_of(client))
        await refuse(refusal)(client, event)

    async def ask(client: Client) -> None:
        if client.number > 0:  # not the anonymous one
            client.spawn(ask_later(client))

    async def ask_later(client: Client) -> None:
        while not client.events:
            await asyncio.sleep(0.001)
        await client.send("AUTH", challenge_of(client))

    async def on_auth(client: Client, event: Event) -> None:
        await client.send("OK", event["id"], True, "")
        authenticated.set()

    script = Script(slow_to_refuse, on_auth=on_auth, on_open=ask)
    async with (
        ScriptedRelay(script) as relay,
        outbox_at(tmp_path, relay, signer=SecretSigner(ALICE)) as outbox,
    ):
        job = await (await outbox.publish(make_event(ALICE))).published(PATIENCE)
    assert job.publish_attempts == 1
    assert len(relay.auths) == 1


async def test_a_socket_that_ends_during_auth_burns_nothing(tmp_path: Path) -> None:
    async def on_auth(client: Client, event: Event) -> None:
        if len(client.ledger.auths) == 1:
            client.drop()
        else:
            await client.send("OK", event["id"], True, "")

    async with (
        ScriptedRelay(require_auth("with", on_auth=on_auth)) as relay,
        outbox_at(tmp_path, relay, signer=SecretSigner(ALICE)) as outbox,
    ):
        job = await (await outbox.publish(make_event(ALICE))).published(PATIENCE)
    assert job.publish_attempts == 1


class Shy(Signer):
    """A signer that says no to AUTH."""

    def __init__(self, secret: bytes) -> None:
        self._signer = SecretSigner(secret)

    @property
    def pubkey(self) -> str:
        return self._signer.pubkey

    async def sign(self, draft: Draft) -> SignedEvent:
        if draft.kind == 22242:
            raise SignerRejected("the person said no")
        return await self._signer.sign(draft)


async def test_a_signer_that_refuses_auth_parks_the_event(tmp_path: Path) -> None:
    async with (
        ScriptedRelay(require_auth("with")) as relay,
        outbox_at(tmp_path, relay, signer=Shy(ALICE)) as outbox,
    ):
        job = await (await outbox.publish(make_event(ALICE))).settled(PATIENCE)
    assert job.state is JobState.PARKED
    assert "AUTH was not signed: the person said no" in job.deliveries[0].detail


async def test_many_identities_share_a_few_sockets(tmp_path: Path) -> None:
    keys = [os.urandom(32) for _ in range(14)]
    async with ScriptedRelay(require_auth("with")) as relay, outbox_at(tmp_path, relay) as outbox:
        for key in keys:
            outbox.add_signer(SecretSigner(key))
        for key in keys:
            await (await outbox.publish(make_event(key))).published(PATIENCE)
        assert len(lane_of(outbox, relay)._links.open) <= 9
    assert {event["pubkey"] for event in relay.auths} == {public_key(key) for key in keys}
