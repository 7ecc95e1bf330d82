"""Limited bandwidth: a byte budget per minute, and a metered mode (A17)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from postrich import Priority
from postrich.accept import Options
from tests.deliver.outboxes import (
    PATIENCE,
    JumpingClock,
    all_published,
    contents,
    lane_of,
    one_pass,
    outbox_at,
)
from tests.relays.events import Event, make_event
from tests.relays.scripted import ScriptedRelay
from tests.relays.scripts import Gate, accept

pytestmark = pytest.mark.req("A17")


def sized(name: str, size: int) -> Event:
    return make_event(content=f"{name} {'x' * size}")


def names(events: list[Event]) -> list[str]:
    return [text.split(" ")[0] for text in contents(events)]


async def test_the_budget_is_kept_and_the_rest_goes_in_time(tmp_path: Path) -> None:
    clock = JumpingClock()
    async with (
        ScriptedRelay(accept) as relay,
        outbox_at(tmp_path, relay, bytes_per_minute=5000, clock=clock) as outbox,
    ):
        handles = await outbox.publish_many([sized(str(n), 1500) for n in range(6)])
        await relay.wait_events(2, PATIENCE)
        lane = lane_of(outbox, relay)
        await one_pass(lane)
        await one_pass(lane)
        assert len(relay.events) == 2, "5,000 bytes hold two of them"
        clock.ahead += 60
        lane.wake()
        await relay.wait_events(4, PATIENCE)
        await one_pass(lane)
        assert len(relay.events) == 4
        clock.ahead += 60
        lane.wake()
        await all_published(handles)


async def test_the_budget_wakes_the_lane_by_itself(tmp_path: Path) -> None:
    async with (
        ScriptedRelay(accept) as relay,
        outbox_at(tmp_path, relay, bytes_per_minute=60_000) as outbox,
    ):
        handles = await outbox.publish_many([sized(str(n), 20_000) for n in range(3)])
        jobs = await all_published(handles[:2])
        assert {job.publish_attempts for job in jobs} == {1}
        third = await handles[2].published(PATIENCE)  # type: ignore[union-attr]
        assert third.publish_attempts == 1


async def test_urgent_and_small_go_first_when_bytes_are_scarce(tmp_path: Path) -> None:
    async with (
        ScriptedRelay(accept) as relay,
        outbox_at(tmp_path, relay, bytes_per_minute=1_000_000) as outbox,
    ):
        outbox.set_online(False)
        handles = [
            await outbox.publish(sized("large", 3000)),
            await outbox.publish(sized("small", 10)),
            await outbox.publish(sized("urgent", 5000), priority=Priority.URGENT),
            await outbox.publish(sized("later", 10), priority=Priority.LATER),
        ]
        outbox.set_online(True)
        await all_published(handles)
    assert names(relay.events) == ["urgent", "small", "large", "later"]


async def test_an_event_larger_than_the_budget_goes_when_the_budget_is_full(
    tmp_path: Path,
) -> None:
    async with (
        ScriptedRelay(accept) as relay,
        outbox_at(tmp_path, relay, bytes_per_minute=1000) as outbox,
    ):
        await (await outbox.publish(sized("large", 3000))).published(PATIENCE)


@pytest.mark.parametrize("metered_from", ["settings", "later"])
async def test_metered_mode_lets_only_urgent_and_small_events_go(
    tmp_path: Path, metered_from: str
) -> None:
    async with (
        ScriptedRelay(accept) as relay,
        outbox_at(tmp_path, relay, metered=metered_from == "settings") as outbox,
    ):
        outbox.set_metered(True)
        large = await outbox.publish(sized("large", 10_000))
        urgent = await outbox.publish(sized("urgent", 10_000), priority=Priority.URGENT)
        small = await outbox.publish(sized("small", 10))
        await all_published([urgent, small])
        await one_pass(lane_of(outbox, relay))
        assert sorted(names(relay.events)) == ["small", "urgent"]
        assert (await outbox.status()).open_deliveries == 1
        outbox.set_metered(False)
        await large.published(PATIENCE)


async def test_metered_mode_holds_for_what_is_being_claimed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The switch comes while the store is being asked for all that is due."""
    async with ScriptedRelay(accept) as relay, outbox_at(tmp_path, relay) as outbox:
        outbox.set_online(False)
        large = await outbox.publish(sized("large", 10_000))
        small = await outbox.publish(sized("small", 10))
        claim = outbox._store.claim

        async def claim_and_switch(*args: Any) -> Any:
            found = await claim(*args)
            if found and not outbox._shared.metered:
                outbox.set_metered(True)
            return found

        monkeypatch.setattr(outbox._store, "claim", claim_and_switch)
        outbox.set_online(True)
        await small.published(PATIENCE)
        assert names(relay.events) == ["small"]
        monkeypatch.setattr(outbox._store, "claim", claim)
        outbox.set_metered(False)
        await large.published(PATIENCE)


async def test_metered_mode_also_holds_for_what_a_lane_has_in_hand(tmp_path: Path) -> None:
    """Claimed before the switch, and not sent because the relay's window was full."""
    gate = Gate(accept)
    async with ScriptedRelay(gate) as relay, outbox_at(tmp_path, relay, window=1) as outbox:
        first = await outbox.publish(sized("first", 10))
        await relay.wait_events(1, PATIENCE)
        large = await outbox.publish_many([sized("large", 10_000) for _ in range(3)])
        small = await outbox.publish(sized("small", 10))
        outbox.set_metered(True)
        gate.open()
        await all_published([first, small])
        assert names(relay.events) == ["first", "small"]
        outbox.set_metered(False)
        await all_published(large)


def at_the_edge() -> Event:
    """Small in the store's eyes, a few bytes too large with the frame round it."""
    key = b"\x07" * 32
    empty = json.dumps(make_event(key, created_at=1_700_000_000), separators=(",", ":"))
    return make_event(key, content="x" * (4092 - len(empty)), created_at=1_700_000_000)


@pytest.mark.parametrize("event", [make_event(content="é" * 3000), at_the_edge()])
async def test_an_event_at_the_edge_of_small_does_not_block_the_others(
    tmp_path: Path, event: Event
) -> None:
    """Whoever counts it as small or not: it may wait, but the others go on."""
    async with ScriptedRelay(accept) as relay, outbox_at(tmp_path, relay, metered=True) as outbox:
        edge = await outbox.publish(event)
        later = Options(priority=Priority.LATER)
        small = await outbox.publish_many([sized(str(n), 1000) for n in range(5)], later)
        await all_published(small)
        outbox.set_metered(False)
        await edge.published(PATIENCE)
