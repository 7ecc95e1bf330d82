"""Relays that only lists name: how many are dialled, where never, and who is told who we are."""

from __future__ import annotations

import json
import os
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from postrich import JobState, SecretSigner
from postrich.model.delivery import DeliveryState
from postrich.rules.routing import Budgets
from tests.deliver.neighbours import (
    ALICE,
    BOB,
    ME,
    at,
    ids,
    indexer_of,
    named_list,
    note_to,
    relay_list,
    routed,
    url_of,
    wrap_for,
)
from tests.deliver.outboxes import PATIENCE, JumpingClock, one_pass, until
from tests.relays.events import Event, make_event, public_key
from tests.relays.process import free_port
from tests.relays.script import require_auth
from tests.relays.scripted import ScriptedRelay
from tests.relays.scripts import Behaviour, Gate, accept, refuse

S = DeliveryState
INSIDE = [
    "wss://10.0.0.1/",
    "wss://169.254.169.254/latest",
    "wss://192.168.0.1:7777/",
    "wss://localhost/",
    "wss://[::1]:7777/",
    "wss://printer.local/",
]


class Town:
    """Many people, each of whom reads at a relay of their own."""

    def __init__(self, people: int, behaviour: Behaviour = accept) -> None:
        self.people = [os.urandom(32) for _ in range(people)]
        self.relays: list[ScriptedRelay] = []
        self._behaviour = behaviour

    async def open(self, stack: AsyncExitStack) -> None:
        for _ in self.people:
            relay = ScriptedRelay(self._behaviour)
            self.relays.append(await stack.enter_async_context(relay))

    @property
    def lists(self) -> list[Event]:
        pairs = list(zip(self.people, self.relays, strict=True))
        lists = [relay_list(person, read=[relay]) for person, relay in pairs]
        return lists + [named_list(person, 10050, relay) for person, relay in pairs]

    @property
    def dialled(self) -> int:
        return sum(relay.connections > 0 for relay in self.relays)

    @property
    def unreached(self) -> list[bytes]:
        """The people at whose relays nobody has been."""
        pairs = zip(self.people, self.relays, strict=True)
        return [person for person, relay in pairs if not relay.connections]

    def notes(self) -> list[Event]:
        return [note_to(person, content=str(n)) for n, person in enumerate(self.people)]


# -- budgets (C7, C8) ----------------------------------------------------------------------------


@pytest.mark.req("C7", "C8")
async def test_strangers_are_dialled_within_the_budget_and_own_relays_never_wait(
    tmp_path: Path,
) -> None:
    clock = JumpingClock()
    town = Town(14)
    async with AsyncExitStack() as stack:
        await town.open(stack)
        own = await stack.enter_async_context(ScriptedRelay(accept))
        indexer = await stack.enter_async_context(indexer_of(*town.lists))
        outbox = await stack.enter_async_context(
            routed(tmp_path, own, indexer=indexer, clock=clock)
        )
        handles = await outbox.publish_batch(town.notes())
        for handle in handles:
            await handle.published(PATIENCE)
        await until(lambda: town.dialled == 8)
        for _ in range(5):
            outbox._fleet.hint()
            await one_pass(outbox._fleet)
        assert town.dialled == 8, "four of twelve are kept for messages"
        assert len(own.events) == 14
        wraps = await outbox.publish_batch([wrap_for(person) for person in town.unreached])
        await until(lambda: town.dialled == 12)
        for _ in range(5):
            outbox._fleet.hint()
            await one_pass(outbox._fleet)
        assert town.dialled == 12
        clock.ahead += 60
        for handle in (*handles, *wraps):
            job = await handle.settled(PATIENCE)
            assert {delivery.state for delivery in job.deliveries} == {S.DELIVERED}
        assert town.dialled == 14


@pytest.mark.req("C7")
async def test_so_many_strangers_at_once_and_who_is_idle_makes_room(tmp_path: Path) -> None:
    gate = Gate(accept)
    town = Town(6, gate)
    budgets = Budgets(new_per_minute=100, strangers_at_once=2)
    async with AsyncExitStack() as stack:
        await town.open(stack)
        own = await stack.enter_async_context(ScriptedRelay(accept))
        indexer = await stack.enter_async_context(indexer_of(*town.lists))
        outbox = await stack.enter_async_context(
            routed(tmp_path, own, indexer=indexer, budgets=budgets)
        )
        handles = await outbox.publish_batch(town.notes())
        await until(lambda: town.dialled == 2)
        for _ in range(5):
            outbox._fleet.hint()
            await one_pass(outbox._fleet)
        assert town.dialled == 2
        gate.open()
        for handle in handles:
            job = await handle.settled(PATIENCE)
            assert job.state is JobState.PUBLISHED
        strangers = [lane for lane in outbox.lanes() if not lane.destination.trusted]
        assert len(strangers) <= 2


@pytest.mark.req("C7", "B10")
async def test_dead_strangers_take_no_place_from_the_living(tmp_path: Path) -> None:
    dead = Town(3)
    async with AsyncExitStack() as stack:
        await dead.open(stack)
    budgets = Budgets(new_per_minute=100, strangers_at_once=2)
    async with (
        ScriptedRelay(accept) as own,
        ScriptedRelay(accept) as inbox,
        indexer_of(*dead.lists, relay_list(ALICE, read=[inbox])) as indexer,
        routed(tmp_path, own, indexer=indexer, budgets=budgets) as outbox,
    ):
        for note in dead.notes():
            await (await outbox.publish(note)).published(PATIENCE)
        await until(lambda: sum(lane.breaker.failures > 0 for lane in outbox.lanes()) >= 2)
        job = await (await outbox.publish(note_to(ALICE))).settled(PATIENCE)
    assert at(job, inbox).state is S.DELIVERED


@pytest.mark.req("C7")
async def test_a_relay_that_another_process_serves_costs_no_budget(tmp_path: Path) -> None:
    async with (
        ScriptedRelay(accept) as own,
        ScriptedRelay(Gate(accept)) as held,
        indexer_of(relay_list(ALICE, read=[held])) as indexer,
        routed(tmp_path, own, indexer=indexer) as first,
    ):
        await first.publish(note_to(ALICE, content="held"))
        await held.wait_events(1)
        async with routed(tmp_path, own, indexer=indexer) as other:
            await other.publish(note_to(ALICE, content="held too"))
            for _ in range(10):
                other._fleet.hint()
                await one_pass(other._fleet)
            assert len(other._shared.dialling._granted) == 1, "asked once, and kept"


@pytest.mark.req("C7")
async def test_a_hostile_list_of_thirty_relays_is_clamped(tmp_path: Path) -> None:
    town = Town(30)
    async with AsyncExitStack() as stack:
        await town.open(stack)
        own = await stack.enter_async_context(ScriptedRelay(accept))
        hostile = relay_list(ALICE, read=town.relays)
        messages = named_list(BOB, 10050, *town.relays)
        indexer = await stack.enter_async_context(indexer_of(hostile, messages))
        outbox = await stack.enter_async_context(routed(tmp_path, own, indexer=indexer))
        job = await (await outbox.publish(note_to(ALICE))).settled(PATIENCE)
        assert len(job.deliveries) == 3
        wrap = await (await outbox.publish(wrap_for(BOB))).settled(PATIENCE)
        assert len(wrap.deliveries) == 3
        assert town.dialled <= 5


# -- where never (C11) ----------------------------------------------------------------------------


@pytest.mark.req("C11")
async def test_lists_lead_nowhere_inside(tmp_path: Path) -> None:
    async with (
        ScriptedRelay(accept) as own,
        ScriptedRelay(accept) as inside,
        indexer_of(
            make_event(ALICE, 10002, tags=[["r", url] for url in INSIDE]),
            named_list(BOB, 10050, inside),
        ) as indexer,
        routed(tmp_path, own, indexer=indexer, trust_lists=False) as outbox,
    ):
        job = await (await outbox.publish(note_to(ALICE))).settled(PATIENCE)
        assert job.state is JobState.PUBLISHED
        others = [delivery for delivery in job.deliveries if delivery.relay != url_of(own)]
        assert len(others) == 2
        for delivery in others:
            assert (delivery.state, delivery.code) == (S.SKIPPED, "forbidden")
            assert "a stranger's list may not send us there" in delivery.detail
            assert delivery.attempts == 0
        wrap = await (await outbox.publish(wrap_for(BOB))).settled(PATIENCE)
        assert at(wrap, inside).code == "forbidden"
        assert wrap.state is JobState.FAILED
    assert inside.connections == 0


@pytest.mark.req("C11", "C7")
async def test_what_may_not_be_dialled_costs_nothing_of_the_budget(tmp_path: Path) -> None:
    async with (
        ScriptedRelay(accept) as own,
        indexer_of(make_event(ALICE, 10002, tags=[["r", url] for url in INSIDE])) as indexer,
        routed(tmp_path, own, indexer=indexer, trust_lists=False) as outbox,
    ):
        await (await outbox.publish(note_to(ALICE))).settled(PATIENCE)
        assert not outbox._shared.dialling._granted
        await until(lambda: [lane.destination.trusted for lane in outbox.lanes()] == [True])


@pytest.mark.req("C11")
async def test_hints_lead_nowhere_inside(tmp_path: Path) -> None:
    async with (
        ScriptedRelay(accept) as own,
        ScriptedRelay(accept) as inside,
        indexer_of() as indexer,
        routed(tmp_path, own, indexer=indexer, trust_lists=False) as outbox,
    ):
        tags = [["p", public_key(ALICE), inside.url], ["p", public_key(BOB), "wss://127.0.0.1:1"]]
        await (await outbox.publish(make_event(ME, tags=tags))).settled(PATIENCE)
    assert inside.connections == 0


@pytest.mark.req("C11", "D3")
async def test_what_the_owner_named_is_trusted_though_a_stranger_names_it_too(
    tmp_path: Path,
) -> None:
    async with (
        ScriptedRelay(accept) as own,
        indexer_of(named_list(ALICE, 10050, own)) as indexer,
        routed(tmp_path, own, indexer=indexer, trust_lists=False) as outbox,
    ):
        job = await (await outbox.publish(wrap_for(ALICE))).settled(PATIENCE)
    assert at(job, own).state is S.DELIVERED


@pytest.mark.req("C11")
async def test_a_stranger_that_the_owner_names_becomes_trusted(tmp_path: Path) -> None:
    async with (
        ScriptedRelay(accept) as own,
        ScriptedRelay(accept) as inside,
        indexer_of(relay_list(ALICE, read=[inside])) as indexer,
        routed(tmp_path, own, indexer=indexer, trust_lists=False) as outbox,
    ):
        job = await (await outbox.publish(note_to(ALICE))).settled(PATIENCE)
        assert at(job, inside).code == "forbidden"
        named = await outbox.publish(make_event(ME, content="named"), relays=[inside.url])
        assert at(await named.settled(PATIENCE), inside).state is S.DELIVERED
        after = await (await outbox.publish(note_to(ALICE, content="after"))).settled(PATIENCE)
        assert at(after, inside).state is S.DELIVERED


@pytest.mark.req("C11", "C3")
async def test_a_lane_that_works_for_a_stranger_learns_that_he_is_trusted(tmp_path: Path) -> None:
    async with (
        ScriptedRelay(require_auth("with")) as relay,
        ScriptedRelay(accept) as own,
        indexer_of(relay_list(ALICE, read=[relay])) as indexer,
        routed(tmp_path, own, indexer=indexer) as outbox,
    ):
        job = await (await outbox.publish(note_to(ALICE))).settled(PATIENCE)
        assert at(job, relay).state is S.PARKED
        named = await outbox.publish(make_event(ME, content="named"), relays=[relay.url])
        assert at(await named.settled(PATIENCE), relay).state is S.DELIVERED
        assert len(relay.auths) == 1


# -- who is told who we are (C3, D4) --------------------------------------------------------------


@pytest.mark.req("C3")
async def test_strangers_are_not_told_who_we_are(tmp_path: Path) -> None:
    async with (
        ScriptedRelay(accept) as own,
        ScriptedRelay(require_auth("with")) as inbox,
        ScriptedRelay(require_auth("with")) as write,
        indexer_of(relay_list(ME, write=[write]), relay_list(ALICE, read=[inbox])) as indexer,
        routed(tmp_path, own, indexer=indexer) as outbox,
    ):
        job = await (await outbox.publish(note_to(ALICE))).settled(PATIENCE)
        assert job.state is JobState.PUBLISHED
        assert at(job, inbox).state is S.PARKED
        assert "your settings forbid it" in at(job, inbox).detail
        assert at(job, write).state is S.DELIVERED, "it is on one's own list"
    assert not inbox.auths
    assert [auth["pubkey"] for auth in write.auths] == [public_key(ME)]


@pytest.mark.req("C3")
@pytest.mark.parametrize(("policy", "auths"), [("always", 1), ("never", 0)])
async def test_who_is_told_is_a_setting(tmp_path: Path, policy: str, auths: int) -> None:
    async with (
        ScriptedRelay(accept) as own,
        ScriptedRelay(require_auth("with")) as inbox,
        indexer_of(relay_list(ALICE, read=[inbox])) as indexer,
        routed(tmp_path, own, indexer=indexer, auth=policy) as outbox,
    ):
        job = await (await outbox.publish(note_to(ALICE))).settled(PATIENCE)
    assert len(inbox.auths) == auths
    assert at(job, inbox).state is (S.DELIVERED if auths else S.PARKED)


@pytest.mark.req("D5", "C3")
async def test_a_relay_that_wants_auth_gets_the_authors_list_too(tmp_path: Path) -> None:
    mine = relay_list(ME)
    async with (
        ScriptedRelay(require_auth("with")) as own,
        indexer_of(mine) as indexer,
        routed(tmp_path, own, indexer=indexer) as outbox,
    ):
        await (await outbox.publish(make_event(ME))).settled(PATIENCE)
        await until(lambda: mine["id"] in own.stored)


@pytest.mark.req("C3")
@pytest.mark.parametrize("then", ["refuses for ever", "takes it"])
async def test_auth_for_an_event_is_tried_twice_at_most(tmp_path: Path, then: str) -> None:
    always = refuse("auth-required: who are you?")
    behaviour = accept if then == "takes it" else always
    async with (
        ScriptedRelay(require_auth("with", behaviour)) as own,
        routed(tmp_path, own, indexer=None) as outbox,
    ):
        job = await (await outbox.publish(make_event(ME))).settled(PATIENCE)
    assert at(job, own).state is (S.DELIVERED if then == "takes it" else S.REFUSED)
    assert len(own.auths) == (1 if then == "takes it" else 2)


def protected(content: str = "", *people: bytes) -> Event:
    tags = [["-"], *(["p", public_key(person)] for person in people)]
    return make_event(ME, content=content, tags=tags)


@pytest.mark.req("D4")
async def test_a_protected_event_goes_only_where_auth_as_its_author_succeeded(
    tmp_path: Path,
) -> None:
    async with (
        ScriptedRelay(require_auth("before")) as own,
        ScriptedRelay(accept) as careless,
        ScriptedRelay(require_auth("before")) as inbox,
        indexer_of(relay_list(ALICE, read=[inbox])) as indexer,
        routed(tmp_path, own, careless, indexer=indexer) as outbox,
    ):
        event = protected("", ALICE)
        job = await (await outbox.publish(event)).settled(PATIENCE)
        assert job.state is JobState.PUBLISHED
        assert at(job, own).state is S.DELIVERED
        for relay, why in (
            (careless, "does not ask who we are"),
            (inbox, "your settings forbid it"),
        ):
            delivery = at(job, relay)
            assert (delivery.state, delivery.code) == (S.SKIPPED, "protected")
            assert "only its author may send it" in delivery.detail
            assert why in delivery.detail
    assert ids(own.events) == [event["id"]], "not even once without AUTH"
    assert not careless.events
    assert not inbox.events


@pytest.mark.req("D4")
async def test_a_protected_event_without_its_authors_key_is_skipped(tmp_path: Path) -> None:
    async with (
        ScriptedRelay(require_auth("before")) as own,
        routed(tmp_path, own, indexer=None, signer=SecretSigner(BOB)) as outbox,
    ):
        job = await (await outbox.publish(protected())).settled(PATIENCE)
    assert (at(job, own).state, at(job, own).code) == (S.SKIPPED, "protected")
    assert "no key of" in at(job, own).detail
    assert not own.events
    assert not own.auths


@pytest.mark.req("D4")
async def test_an_auth_that_is_refused_skips_what_is_protected(tmp_path: Path) -> None:
    script = require_auth("before", on_auth=refuse("restricted: not you"))
    async with ScriptedRelay(script) as own, routed(tmp_path, own, indexer=None) as outbox:
        job = await (await outbox.publish(protected())).settled(PATIENCE)
    assert (at(job, own).state, at(job, own).code) == (S.SKIPPED, "protected")
    assert not own.events
    assert len(own.auths) == 2


@pytest.mark.req("D4")
@pytest.mark.parametrize("spelt", ["spread out", "in disguise"])
async def test_a_protected_event_is_known_however_its_json_is_written(
    tmp_path: Path, spelt: str
) -> None:
    event = protected(f"written {spelt}")
    text = json.dumps(event, indent=1)
    if spelt == "in disguise":
        text = json.dumps(event).replace('"-"', '"\\u002d"')
    assert json.loads(text) == event
    async with (
        ScriptedRelay(accept) as own,
        routed(tmp_path, own, indexer=None) as outbox,
    ):
        job = await (await outbox.publish(text)).settled(PATIENCE)
    assert (at(job, own).state, at(job, own).code) == (S.SKIPPED, "protected")
    assert not own.events


@pytest.mark.req("C10")
async def test_a_good_relay_ranks_above_one_that_nobody_knows(tmp_path: Path) -> None:
    port = free_port()
    async with (
        ScriptedRelay(accept) as own,
        routed(tmp_path, own, f"ws://127.0.0.1:{port}", indexer=None) as outbox,
    ):
        handles = await outbox.publish_many([make_event(ME, content=str(n)) for n in range(50)])
        for handle in handles:
            await handle.published(PATIENCE)  # type: ignore[union-attr]
        await outbox.router._refresh_rank()
        await until(lambda: all(lane.health().seen_at for lane in outbox.lanes()))
        await outbox._lifeline.note_health()
        outbox.router._ranked_at = float("-inf")
        await outbox.router._refresh_rank()
        rank = outbox.router._rank
        assert rank[url_of(own)] > 0.5 > rank[f"ws://127.0.0.1:{port}/"]


@pytest.mark.req("C10")
async def test_health_is_written_down_only_when_there_is_news(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = JumpingClock()
    async with (
        ScriptedRelay(accept) as own,
        routed(tmp_path, own, indexer=None, clock=clock) as outbox,
    ):
        await (await outbox.publish(make_event(ME))).settled(PATIENCE)
        await outbox._lifeline.note_health()
        written: list[object] = []
        note = outbox._store.note_health

        async def watched(reports: object) -> None:
            written.append(reports)
            await note(reports)  # type: ignore[arg-type]

        monkeypatch.setattr(outbox._store, "note_health", watched)
        clock.wall_ahead += 5
        await outbox._lifeline.note_health()
        assert not written
