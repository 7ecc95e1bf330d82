"""One engine among others (G4): what it holds, what it gives up, and whose time counts.

Two outboxes on one store stand for two processes; faults of the store are played on one of them.
"""

from __future__ import annotations

from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from postrich import JobState, Outbox
from postrich.errors import StoreAway
from postrich.store.port import WorkerInfo
from tests.deliver.outboxes import PATIENCE, JumpingClock, one_pass, outbox_at, until
from tests.relays.events import make_event
from tests.relays.scripted import ScriptedRelay
from tests.relays.scripts import accept, silent

pytestmark = pytest.mark.req("G4")


def fail_once(monkeypatch: pytest.MonkeyPatch, outbox: Outbox, verb: str) -> list[str]:
    """The store is away when this verb is used next; the list then says so."""
    real = getattr(outbox._store, verb)
    failed: list[str] = []

    async def act(*arguments: Any) -> Any:
        if not failed:
            failed.append(verb)
            raise StoreAway("away for a moment")
        return await real(*arguments)

    monkeypatch.setattr(outbox._store, verb, act)
    return failed


async def know_each_other(*outboxes: Outbox) -> None:
    await until(lambda: all(len(one._shared.others) == len(outboxes) - 1 for one in outboxes))


@pytest.mark.req("B8")
async def test_a_lease_that_could_not_be_given_back_is_used_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with (
        ScriptedRelay(accept) as relay,
        outbox_at(tmp_path, relay, idle=0.2) as one,
        outbox_at(tmp_path, relay, idle=0.2) as two,
    ):
        await know_each_other(one, two)
        await (await one.publish(make_event())).settled(PATIENCE)
        await until(lambda: bool(one.lanes() or two.lanes()))
        holder = one if one.lanes() else two
        failed = fail_once(monkeypatch, holder, "drop_lease")
        await until(lambda: bool(failed) and not holder.lanes())
        await (await one.publish(make_event())).settled(PATIENCE)


@pytest.mark.req("B8")
async def test_a_lease_whose_taking_seemed_to_fail_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with (
        ScriptedRelay(accept) as relay,
        outbox_at(tmp_path, relay) as one,
        outbox_at(tmp_path, relay) as two,
    ):
        await know_each_other(one, two)
        take_lease = one._store.take_lease
        taken: list[str] = []

        async def take_and_fail(name: str, *arguments: Any) -> Any:
            fence = await take_lease(name, *arguments)
            if fence is not None and not taken and name.startswith("relay:"):
                taken.append(name)
                raise StoreAway("whether it was kept is not known")
            return fence

        for outbox in (one, two):
            monkeypatch.setattr(outbox._store, "take_lease", take_and_fail)
        handle = await one.publish(make_event())
        await handle.settled(PATIENCE)
        assert taken


@pytest.mark.parametrize("verb", ["work", "claim", "parcels"])
@pytest.mark.req("B8")
async def test_work_is_looked_for_again_after_a_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    async with (
        ScriptedRelay(accept) as relay,
        outbox_at(tmp_path, relay) as one,
        outbox_at(tmp_path, relay, deliver=False) as door,
    ):
        failed = fail_once(monkeypatch, one, verb)
        handle = await door.publish(make_event())
        await one.wait_settled(handle.id, PATIENCE)
        assert failed


@pytest.mark.req("B8")
async def test_a_silent_worker_keeps_what_it_holds_for_as_long_as_it_was_told(
    tmp_path: Path,
) -> None:
    """Its lease is longer than ours: it may still be at work on the other side."""
    clock = JumpingClock()
    async with (
        ScriptedRelay(accept) as relay,
        outbox_at(tmp_path, relay, lease=1.0, clock=clock, deliver=False) as outbox,
    ):
        handle = await outbox.publish(make_event())
        [work] = await outbox._store.work()
        name, now = f"relay:{work.destination.id}", clock.now()
        await outbox._store.enlist(WorkerInfo("patient", "elsewhere", 1, "serve", now, now))
        assert await outbox._store.take_lease(name, "patient", now, now + 60_000)
        clock.wall_ahead += 30.0
        await outbox._lifeline.free_the_dead()
        assert [lease.owner for lease in await outbox._store.leases()] == ["patient"]
        assert outbox._shared.others == frozenset()
        clock.wall_ahead += 31.0
        await outbox._lifeline.free_the_dead()
        assert await outbox._store.workers() == []
        assert (await handle.status()).state is JobState.PENDING_PUBLISH


async def test_lanes_that_another_may_not_hold_stay_where_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its settings allow it fewer lanes than its share: what is given up for it comes back."""
    monkeypatch.setattr("postrich.rules.spreading.LEFT_LYING", 0.3)
    async with AsyncExitStack() as stack:
        relays = [await stack.enter_async_context(ScriptedRelay(silent)) for _ in range(4)]
        small = await stack.enter_async_context(outbox_at(tmp_path, *relays, lanes=1))
        large = await stack.enter_async_context(outbox_at(tmp_path, *relays))
        await know_each_other(small, large)
        await large.publish(make_event())
        await until(lambda: len(small.lanes()) == 1 and len(large.lanes()) == 3)
        lanes = large.lanes()
        for _ in range(10):
            await one_pass(large._fleet)
        assert large.lanes() == lanes


async def test_who_slept_through_its_lease_does_not_ask_about_what_it_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its timers go off before it knows that it slept; another may be talking to the relay."""
    monkeypatch.setattr("postrich.wire.connection.LOOK_AGAIN", 60.0)  # asleep, it does not look
    clock = JumpingClock()
    async with (
        ScriptedRelay(silent) as relay,
        outbox_at(tmp_path, relay, clock=clock, timeout=0.5, poll=60.0) as outbox,
    ):
        await outbox.publish(make_event())
        await relay.wait_events(1)
        await outbox._lifeline.stop()  # it would find out in time that the lease still holds
        clock.ahead += 3600.0
        await relay.wait_disconnected()
        assert [frame[0] for frame in relay.received] == ["EVENT"]


# The time


class WrongClock(JumpingClock):
    """A clock that follows the store's, as all but a test's do."""

    def follow(self, ahead: int) -> None:
        self._ahead += ahead


class SlowTime:
    """A store's clock that is read at the beginning or at the end of a long wait."""

    def __init__(self, clock: WrongClock, waits: float, *, at_end: bool) -> None:
        self._clock, self._waits, self._at_end = clock, waits, at_end

    async def time(self) -> int:
        before = self._clock.now() - self._clock._ahead  # the right time: nobody follows it
        self._clock.wall_ahead += self._waits
        return self._clock.now() - self._clock._ahead if self._at_end else before


@pytest.mark.parametrize("at_end", [True, False])
async def test_a_slow_answer_does_not_move_a_clock_that_is_right(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at_end: bool
) -> None:
    clock = WrongClock()
    async with outbox_at(tmp_path, deliver=False, clock=clock) as outbox:
        slow = SlowTime(clock, 6.0, at_end=at_end)
        monkeypatch.setattr(outbox._store, "time", slow.time)
        await outbox._lifeline.follow_time()
        assert clock._ahead == 0


@pytest.mark.parametrize("skew", [90.0, -90.0])
async def test_a_clock_that_is_wrong_is_never_early_after_a_slow_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, skew: float
) -> None:
    clock = WrongClock()
    async with outbox_at(tmp_path, deliver=False, clock=clock) as outbox:
        right = JumpingClock()
        clock.wall_ahead = skew

        async def time() -> int:
            clock.wall_ahead += 3.0
            right.wall_ahead += 3.0
            return right.now()

        monkeypatch.setattr(outbox._store, "time", time)
        await outbox._lifeline.follow_time()
        assert clock.now() <= right.now()
        assert clock.now() > right.now() - 3100


# More relays than lanes


async def test_relays_out_of_reach_take_turns_beside_others(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    relays = [ScriptedRelay(accept) for _ in range(6)]
    async with outbox_at(tmp_path, lanes=1) as one, outbox_at(tmp_path, lanes=1) as two:
        await know_each_other(one, two)
        handles = [await one.publish(make_event(), relays=[relay.url]) for relay in relays]
        seen: set[str] = set()

        def all_were_tried_again() -> bool:
            lanes = [*one.lanes(), *two.lanes()]
            seen.update(lane.destination.url for lane in lanes if lane.breaker.failures > 2)
            return len(seen) == len(relays)

        await until(all_were_tried_again)
        async with AsyncExitStack() as stack:
            for relay in relays:
                await stack.enter_async_context(relay)
            for handle in handles:
                await handle.settled(PATIENCE)
    assert "unexpected fault" not in caplog.text
