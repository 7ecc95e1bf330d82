"""How lanes end: shutdown, a lost lease, a store in trouble. Nothing is lost or burnt (B8)."""

from __future__ import annotations

import asyncio
import os
import socket
from pathlib import Path
from typing import Any

import msgspec
import pytest

from postrich import JobState, Outbox, SecretSigner
from postrich.deliver.fleet import is_dead, this_machine, this_worker
from postrich.errors import StoreError, StoreFull
from postrich.model.delivery import DeliveryState
from postrich.sign.signer import Signer
from postrich.store.port import WorkerInfo
from tests.deliver.outboxes import (
    PATIENCE,
    all_published,
    hear_breaker,
    hear_delivery,
    lane_of,
    outbox_at,
    run_sql,
    some_notes,
    steal_leases,
    the_delivery,
    until,
)
from tests.relays.events import make_event
from tests.relays.handshakes import never_answer
from tests.relays.script import Script, ignore_request
from tests.relays.scripted import ScriptedRelay
from tests.relays.scripts import Gate, Sequence, accept, refuse, silent

pytestmark = pytest.mark.req("B8")


async def test_a_shutdown_burns_no_attempt(tmp_path: Path) -> None:
    mute = Sequence([*[silent] * 16, accept])
    async with ScriptedRelay(Script(mute, ignore_request)) as relay:
        async with outbox_at(tmp_path, relay, timeout=0.3) as outbox:
            handles = await outbox.publish_many(some_notes(40))
            await relay.wait_events(16, PATIENCE)
            for link in lane_of(outbox, relay)._links.open.values():
                link.session.timeout = 60.0
        async with outbox_at(tmp_path, relay, deliver=False) as outbox:
            status = await outbox.status()
            assert (status.pending, status.open_deliveries) == (40, 40)
            assert status.total_attempts == 0
        async with outbox_at(tmp_path, relay) as outbox:
            jobs = [await outbox.wait(handle.id, PATIENCE) for handle in handles]  # type: ignore[union-attr]
    assert {job.publish_attempts for job in jobs} == {1}
    assert len(relay.events) == 16 + 40


async def test_answers_on_their_way_still_count_at_shutdown(tmp_path: Path) -> None:
    gate = Gate(accept)
    async with ScriptedRelay(gate) as relay:
        async with outbox_at(tmp_path, relay) as outbox:
            handle = await outbox.publish(make_event())
            await relay.wait_events(1, PATIENCE)
            lane_of(outbox, relay).ask_to_stop()
            gate.open()
        async with outbox_at(tmp_path, relay, deliver=False) as outbox:
            job = await outbox.job(handle.id)
    assert job.state is JobState.PUBLISHED
    assert len(relay.events) == 1


async def test_a_relay_that_does_not_answer_the_dial_does_not_hold_up_the_end(
    tmp_path: Path,
) -> None:
    async with ScriptedRelay(Script(handshake=never_answer)) as relay:
        async with asyncio.timeout(PATIENCE):
            async with outbox_at(tmp_path, relay, connect_timeout=3600.0) as outbox:
                await outbox.publish(make_event())
                await relay.wait_connections(1, PATIENCE)
        async with outbox_at(tmp_path, relay, deliver=False) as outbox:
            assert (await outbox.status()).total_attempts == 0


async def test_a_signer_that_does_not_answer_does_not_hold_up_the_end(tmp_path: Path) -> None:
    signer = Sleeper()
    async with ScriptedRelay(accept) as relay:
        async with asyncio.timeout(PATIENCE):
            async with outbox_at(tmp_path, relay, signer=signer, sign_timeout=3600.0) as outbox:
                await outbox.post("to be signed")
                await signer.asked.wait()
        async with outbox_at(tmp_path, relay, deliver=False) as outbox:
            (job,) = await outbox.jobs()
            assert (job.state, job.sign_attempts) == (JobState.PENDING_SIGN, 0)


class Sleeper(Signer):
    """A signer that never answers."""

    def __init__(self) -> None:
        self._signer = SecretSigner.generate()
        self.asked = asyncio.Event()

    @property
    def pubkey(self) -> str:
        return self._signer.pubkey

    async def sign(self, draft: Any) -> Any:
        self.asked.set()
        await asyncio.Event().wait()


async def give_leases_back(folder: Path) -> None:
    await run_sql(folder, "UPDATE leases SET lease_until = 0 WHERE owner = 'another'")


@pytest.mark.req("B8", "G4")
async def test_results_of_a_lost_lane_are_dropped_and_nothing_is_harmed(tmp_path: Path) -> None:
    gate = Gate(accept)
    async with ScriptedRelay(gate) as relay, outbox_at(tmp_path, relay) as outbox:
        handles = await outbox.publish_many(some_notes(5))
        await relay.wait_events(5, PATIENCE)
        lane = lane_of(outbox, relay)
        await steal_leases(tmp_path)
        gate.open()
        await until(lambda: lane.has_ended)
        status = await outbox.status()
        assert (status.open_deliveries, status.total_attempts) == (5, 0), "nothing was written"
        await until(lambda: outbox.lanes() == [])
        await give_leases_back(tmp_path)
        jobs = await all_published(handles)
        assert lane_of(outbox, relay) is not lane
    assert {job.publish_attempts for job in jobs} == {1}
    assert len(relay.stored) == 5


@pytest.mark.req("G4")
async def test_a_lane_held_elsewhere_is_left_to_its_holder(tmp_path: Path) -> None:
    gate = Gate(accept)
    async with ScriptedRelay(gate) as relay, outbox_at(tmp_path, relay) as first:
        one = await first.publish(make_event())
        await relay.wait_events(1, PATIENCE)
        async with outbox_at(tmp_path, relay) as second:
            two = await second.publish(make_event())
            gate.open()
            await two.published(PATIENCE)
            assert second.lanes() == []
        await one.published(PATIENCE)
        assert relay.connections == 1


@pytest.mark.req("B8")
async def test_the_leases_of_a_killed_process_are_free_at_once(tmp_path: Path) -> None:
    """Its process is gone from this machine: nobody waits for the lease to lapse."""
    killed = await asyncio.create_subprocess_exec("true")
    await killed.wait()
    async with ScriptedRelay(accept) as relay:
        async with outbox_at(tmp_path, relay) as outbox:
            await (await outbox.publish(make_event())).published(PATIENCE)
        await steal_leases(tmp_path)
        async with outbox_at(tmp_path, relay, lease=0.9) as outbox:
            ghost = WorkerInfo("another", this_machine(), killed.pid, "library", 0, 0)
            await outbox._store.enlist(ghost)
            await (await outbox.publish(make_event())).published(PATIENCE)
            assert "another" not in {worker.owner for worker in await outbox.workers()}


def test_only_a_process_of_this_machine_is_known_to_be_dead(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    here, gone = this_machine(), 2**22 + 1  # no process of Linux has such a number
    assert is_dead(WorkerInfo("o", here, gone, "library", 0, 0))
    assert not is_dead(WorkerInfo("o", here, os.getpid(), "library", 0, 0))
    assert not is_dead(WorkerInfo("o", "elsewhere", gone, "library", 0, 0))

    def not_ours(pid: int, number: int) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "kill", not_ours)
    assert not is_dead(WorkerInfo("o", here, 1, "library", 0, 0))


def test_a_container_by_the_same_name_is_another_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its process numbers are its own: who is not among ours may be alive there."""
    monkeypatch.setattr(os, "readlink", lambda _: "pid:[1]")
    theirs = this_worker("o", "library", 0, 0)
    monkeypatch.setattr(os, "readlink", lambda _: "pid:[2]")
    assert not is_dead(msgspec.structs.replace(theirs, pid=2**22 + 1))


def test_without_namespaces_a_machine_is_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    def not_here(_: str) -> str:
        raise FileNotFoundError

    monkeypatch.setattr(os, "readlink", not_here)
    assert this_machine() == socket.gethostname()


@pytest.mark.parametrize("problem", [StoreFull("no space is left"), StoreError("I/O error")])
async def test_a_store_in_trouble_keeps_the_results_and_writes_them_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, problem: StoreError
) -> None:
    async with ScriptedRelay(accept) as relay, outbox_at(tmp_path, relay) as outbox:
        settle = outbox._store.settle
        failures = 0

        async def failing(*args: Any) -> Any:
            nonlocal failures
            failures += 1
            if failures <= 3:
                raise problem
            return await settle(*args)

        monkeypatch.setattr(outbox._store, "settle", failing)
        handles = await outbox.publish_many(some_notes(30))
        jobs = await all_published(handles)
    assert failures > 3
    assert {job.publish_attempts for job in jobs} == {1}
    assert len(relay.events) == 30, "nothing had to be sent again"


async def test_a_store_that_stays_in_trouble_stops_the_sending(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Results are kept in memory, but not without end; and the end does not wait for ever."""
    monkeypatch.setattr("postrich.deliver.results.MANY", 20)
    monkeypatch.setattr("postrich.deliver.results.LAST_PATIENCE", 0.1)

    async def full(*_: Any) -> Any:
        raise StoreFull("no space is left")

    async with ScriptedRelay(accept) as relay:
        async with outbox_at(tmp_path, relay, window=8) as outbox:
            monkeypatch.setattr(outbox._store, "settle", full)
            await outbox.publish_many(some_notes(200))
            lane = await _lane_that_is_full(outbox, relay)
            sent = len(relay.events)
            assert sent <= 20 + 2 * 8
            lane.wake()
            await lane._results.drain()
            assert len(relay.events) == sent
        async with outbox_at(tmp_path, relay) as outbox:
            await outbox.drained(PATIENCE)
    assert len(relay.stored) == 200


async def _lane_that_is_full(outbox: Outbox, relay: ScriptedRelay) -> Any:
    await relay.wait_events(21, PATIENCE)
    lane = lane_of(outbox, relay)
    await until(lambda: lane._results.is_full and not lane._links.load)
    return lane


async def test_a_loop_that_fails_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with ScriptedRelay(accept) as relay, outbox_at(tmp_path, relay) as outbox:
        work = outbox._store.work
        problems: list[Exception] = [StoreError("disk on fire"), ZeroDivisionError("a slip")]

        async def failing() -> Any:
            if problems:
                raise problems.pop(0)
            return await work()

        monkeypatch.setattr(outbox._store, "work", failing)
        await (await outbox.publish(make_event())).published(PATIENCE)
    assert not problems
    assert "fleet: disk on fire" in caplog.text
    assert "fleet: unexpected fault" in caplog.text


@pytest.mark.req("B8")
async def test_timers_are_armed_again_after_a_restart(tmp_path: Path) -> None:
    script = Sequence([refuse("error: busy"), accept])
    async with ScriptedRelay(script) as relay:
        async with outbox_at(tmp_path, relay) as outbox:
            with outbox.watch() as notices:
                handle = await outbox.publish(make_event(), policy="slow")
                await hear_delivery(notices, DeliveryState.WAITING, "error")
            planned = (await the_delivery(handle)).next_at
        async with outbox_at(tmp_path, relay) as outbox:
            again = (await outbox.job(handle.id)).deliveries[0]
            assert (again.next_at, again.attempts) == (planned, 1)
            await outbox.retry(await _only(handle.id))
            job = await outbox.wait(handle.id, PATIENCE)
    assert job.publish_attempts == 2


async def _only(job: int) -> Any:
    from postrich import JobFilter

    return JobFilter(jobs=(job,))


async def test_health_is_known_to_other_processes(tmp_path: Path) -> None:
    dead = ScriptedRelay(accept)
    async with (
        outbox_at(tmp_path, dead, lease=0.3) as outbox,
        outbox_at(tmp_path, deliver=False) as other,
    ):
        with outbox.watch() as notices:
            await outbox.publish(make_event())
            await hear_breaker(notices, "open")
        async with asyncio.timeout(PATIENCE):
            while not [h for h in await other.health() if h.state == "open"]:
                await asyncio.sleep(0.01)
