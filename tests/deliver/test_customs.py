"""What a relay says that it would not take is not sent (C5), nor what it found too large (C6)."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from postrich import JobState
from postrich.model.delivery import DeliveryState
from tests.deliver.neighbours import ALICE, ME, at, indexer_of, note_to, relay_list, routed
from tests.deliver.outboxes import PATIENCE, JumpingClock, until
from tests.relays.conversation import Client
from tests.relays.events import Event, make_event, mine
from tests.relays.framing import Request
from tests.relays.handshakes import Handshake, http_status, informing, never_answer, upgrade
from tests.relays.script import Script, require_auth
from tests.relays.scripted import ScriptedRelay
from tests.relays.scripts import accept, choose, refuse

S = DeliveryState


def saying(limitation: dict[str, Any], **more: Any) -> ScriptedRelay:
    """A relay that takes everything, whatever it says of itself."""
    document = {"name": "a relay", "limitation": limitation, **more}
    return ScriptedRelay(Script(handshake=informing(document)))


def note(content: str = "hello", **more: Any) -> Event:
    return make_event(ME, content=content, **more)


LIMITS: dict[str, tuple[dict[str, Any], Event, S, str]] = {
    "message": ({"max_message_length": 500}, note("x" * 500), S.SKIPPED, "too-large"),
    "content": ({"max_content_length": 5}, note("six bytes"), S.SKIPPED, "too-large"),
    "tags": ({"max_event_tags": 1}, note(tags=[["t", "a"], ["t", "b"]]), S.SKIPPED, "too-large"),
    "work": ({"min_pow_difficulty": 30}, note("idle"), S.PARKED, "pow"),
    "age": ({"created_at_lower_limit": 60}, note(created_at=1_600_000_000), S.SKIPPED, "too-old"),
}


@pytest.mark.req("C5")
@pytest.mark.parametrize(("said", "event", "state", "code"), LIMITS.values(), ids=LIMITS.keys())
async def test_what_a_relay_says_it_would_not_take_is_not_sent(
    tmp_path: Path, said: dict[str, Any], event: Event, state: S, code: str
) -> None:
    async with (
        saying(said) as relay,
        ScriptedRelay(accept) as other,
        routed(tmp_path, relay, other, indexer=None, relay_info=True) as outbox,
    ):
        job = await (await outbox.publish(event)).settled(PATIENCE)
        delivery = at(job, relay)
        assert (delivery.state, delivery.code, delivery.attempts) == (state, code, 0)
        assert at(job, other).state is S.DELIVERED, "it said nothing"
        assert job.state is JobState.PUBLISHED
        good = await (await outbox.publish(mine(ME, content="ok", difficulty=1))).settled(PATIENCE)
        assert at(good, relay).state is (S.PARKED if code == "pow" else S.DELIVERED)
    assert event["id"] not in [sent["id"] for sent in relay.events]


@pytest.mark.req("C5")
async def test_what_is_ahead_of_its_time_goes_when_its_time_has_come(tmp_path: Path) -> None:
    async with (
        saying({"created_at_upper_limit": 0}) as relay,
        routed(tmp_path, relay, indexer=None, relay_info=True) as outbox,
    ):
        event = note(created_at=int(time.time()) + 2)
        job = await (await outbox.publish(event)).settled(PATIENCE)
        assert job.published_at is not None
        assert job.published_at >= event["created_at"] * 1000
    assert len(relay.events) == 1, "it was not sent before"


@pytest.mark.req("C5")
@pytest.mark.parametrize(
    ("limit", "code"), [("payment_required", "payment"), ("restricted_writes", "restricted")]
)
async def test_strangers_who_want_money_or_know_their_writers_are_passed_by(
    tmp_path: Path, limit: str, code: str
) -> None:
    async with (
        saying({limit: True}) as own,
        saying({limit: True}) as inbox,
        indexer_of(relay_list(ALICE, read=[inbox])) as indexer,
        routed(tmp_path, own, indexer=indexer, relay_info=True) as outbox,
    ):
        job = await (await outbox.publish(note_to(ALICE))).settled(PATIENCE)
        assert at(job, own).state is S.DELIVERED, "whose relay it is knows what he does"
        assert (at(job, inbox).state, at(job, inbox).code) == (S.SKIPPED, code)
    assert not inbox.events


async def garbage(client: Client, request: Request) -> bool:
    if request.is_upgrade:
        return await upgrade(client, request)
    await client.write(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nnot JSON!")
    return False


def only_sockets(then: Handshake) -> Handshake:
    """A relay that answers plain HTTP in another way."""

    async def act(client: Client, request: Request) -> bool:
        return await (upgrade if request.is_upgrade else then)(client, request)

    return act


SILENT = {
    "nothing to say": only_sockets(http_status(404)),
    "redirects": only_sockets(http_status(301, {"Location": "http://127.0.0.1:9/"})),
    "garbage": garbage,
    "no document": informing([1, 2, 3]),
    "nonsense": informing({"limitation": {"max_message_length": "tiny", "max_event_tags": -1}}),
    "never answers": only_sockets(never_answer),
}


@pytest.mark.req("C4", "C5")
@pytest.mark.parametrize("handshake", SILENT.values(), ids=SILENT.keys())
async def test_without_a_description_all_goes_on(
    tmp_path: Path, handshake: Handshake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("postrich.deliver.customs.WAIT_FOR_OWN", 0.1)
    async with (
        ScriptedRelay(Script(handshake=handshake)) as relay,
        routed(tmp_path, relay, indexer=None, relay_info=True) as outbox,
    ):
        job = await (await outbox.publish(note("x" * 5000))).settled(PATIENCE)
    assert at(job, relay).state is S.DELIVERED


@pytest.mark.req("C4")
async def test_a_description_is_fetched_once_and_again_after_six_hours(tmp_path: Path) -> None:
    clock = JumpingClock()
    fetched: list[str] = []
    inform = informing({"name": "a relay"})

    async def counting(client: Client, request: Request) -> bool:
        if not request.is_upgrade:
            fetched.append(request.headers.get("accept", ""))
        return await inform(client, request)

    async with (
        ScriptedRelay(Script(handshake=counting)) as relay,
        routed(tmp_path, relay, indexer=None, relay_info=True, clock=clock, idle=0.1) as outbox,
    ):
        for _ in range(2):
            await (await outbox.post("hello")).settled(PATIENCE)
        assert fetched == ["application/nostr+json"]
        for ahead, count in ((3600, 1), (6 * 3600, 2)):
            clock.ahead += ahead
            await until(lambda: not outbox.lanes())
            await (await outbox.post(f"after {ahead}")).settled(PATIENCE)
            await until(lambda count=count: len(fetched) == count)  # type: ignore[misc]


@pytest.mark.req("C5")
async def test_without_the_setting_nobody_is_asked(tmp_path: Path) -> None:
    async with (
        saying({"max_content_length": 1}) as relay,
        routed(tmp_path, relay, indexer=None, relay_info=False) as outbox,
    ):
        job = await (await outbox.publish(note())).settled(PATIENCE)
    assert at(job, relay).state is S.DELIVERED
    assert relay.connections == 2, "one for lists, one for the note"


# -- the size that a relay was found to take -------------------------------------------------------


def sized(bytes_of_content: int) -> Event:
    return note("x" * bytes_of_content)


@pytest.mark.req("C6")
@pytest.mark.parametrize(
    "refusal", ["invalid: event too large", "error: message too big", "blocked: max event size"]
)
async def test_what_is_larger_than_half_of_what_was_too_large_is_not_sent(
    tmp_path: Path, refusal: str
) -> None:
    limit = 40_000
    script = choose(lambda e: refuse(refusal) if len(e["content"]) > limit else accept)
    async with ScriptedRelay(script) as relay, routed(tmp_path, relay, indexer=None) as outbox:
        first = await (await outbox.publish(sized(100_000))).settled(PATIENCE)
        assert at(first, relay).state in (S.REFUSED, S.SKIPPED)
        assert len(relay.events) == 1
        second = await (await outbox.publish(sized(60_000))).settled(PATIENCE)
        assert (at(second, relay).state, at(second, relay).code) == (S.SKIPPED, "too-large")
        assert len(relay.events) == 1
        third = await (await outbox.publish(sized(30_000))).settled(PATIENCE)
        assert at(third, relay).state is S.DELIVERED


@pytest.mark.req("C6")
async def test_sixteen_kilobytes_are_always_tried(tmp_path: Path) -> None:
    script = choose(lambda e: refuse("invalid: too large") if len(e["content"]) > 10 else accept)
    async with ScriptedRelay(script) as relay, routed(tmp_path, relay, indexer=None) as outbox:
        for size in (90_000, 15_000, 11_000, 9):
            await (await outbox.publish(sized(size))).settled(PATIENCE)
    assert [len(event["content"]) for event in relay.events] == [90_000, 15_000, 11_000, 9]


@pytest.mark.req("C6")
async def test_a_person_who_retries_sees_the_reason(tmp_path: Path) -> None:
    async with (
        ScriptedRelay(refuse("invalid: event too large")) as relay,
        routed(tmp_path, relay, indexer=None) as outbox,
    ):
        handle = await outbox.publish(sized(100_000))
        await handle.settled(PATIENCE)
        await handle.retry()
        job = await handle.settled(PATIENCE)
        assert at(job, relay).code == "too-large"
        assert job.state is JobState.FAILED


# -- relays that say that they must know who writes -----------------------------------------------


@pytest.mark.req("C5", "C3")
async def test_who_writes_says_so_first_where_a_relay_wants_that(tmp_path: Path) -> None:
    info = informing({"limitation": {"auth_required": True}})
    script = require_auth("before", handshake=info)
    async with (
        ScriptedRelay(script) as relay,
        routed(tmp_path, relay, indexer=None, relay_info=True) as outbox,
    ):
        job = await (await outbox.publish(note())).settled(PATIENCE)
        assert job.state is JobState.PUBLISHED
    kinds = [frame[0] for frame in relay.received if frame[0] in ("AUTH", "EVENT")]
    assert kinds == ["AUTH", "EVENT"], "nothing was refused on the way"


@pytest.mark.req("C5", "D3")
async def test_who_cannot_say_so_is_left_to_the_relay(tmp_path: Path) -> None:
    """Many mean only those who read; and a gift wrap's key is nobody's."""
    async with (
        saying({"auth_required": True}) as relay,
        routed(tmp_path, relay, indexer=None, relay_info=True) as outbox,
    ):
        stranger = make_event(ALICE, content="handed in signed")
        job = await (await outbox.publish(stranger)).settled(PATIENCE)
        assert at(job, relay).state is S.DELIVERED
