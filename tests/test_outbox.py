"""The library as its users meet it: open, publish, wait, look, change one's mind (G3)."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import postrich
from postrich import (
    Handle,
    JobFilter,
    JobState,
    Outbox,
    QueueStatus,
    RetryPolicy,
    SecretSigner,
    Settings,
    parse_event,
    publish_to_relays,
)
from postrich.deliver.once import RelayStatus
from postrich.errors import (
    BadSetting,
    InvalidEvent,
    JobFailed,
    RefusedKind,
    SignerUnavailable,
    StoreError,
    StoreUnusable,
    UnknownJob,
)
from postrich.model.delivery import DeliveryState
from postrich.model.event import Draft
from postrich.model.event import Event as SignedEvent
from postrich.observe.notices import (
    QUEUE_STATUS_CHANGED,
    QUEUE_SYNC_COMPLETE,
    DeliveryChanged,
    JobAccepted,
    JobChanged,
    Missed,
    QueueStatusChanged,
    QueueSyncComplete,
)
from postrich.sign.signer import Signer
from tests.deliver.outboxes import (
    PATIENCE,
    SLOW,
    all_published,
    all_settled,
    hear,
    hear_delivery,
    heard_so_far,
    one_pass,
    outbox_at,
    some_notes,
)
from tests.relays.events import Event, make_event, public_key
from tests.relays.handshakes import handshakes_in_turn, http_status, never_answer, upgrade
from tests.relays.script import Script, ignore_request, require_auth
from tests.relays.scripted import ScriptedRelay
from tests.relays.scripts import (
    Gate,
    Sequence,
    accept,
    accept_saying,
    drop,
    refuse,
    silent,
    store,
)

KEY = os.urandom(32)
ONE_TRY = RetryPolicy("one try", delays=(0.01,), max_attempts=1, lifetime=600.0)

# The road, as in the docstring


@pytest.mark.req("G3", "A1")
async def test_the_library_as_in_its_docstring(tmp_path: Path) -> None:
    async with ScriptedRelay(accept) as relay:
        signer = SecretSigner(KEY)
        async with Outbox.open(tmp_path / "outbox.db", relays=[relay.url], signer=signer) as outbox:
            job = await outbox.post("hello")
            done = await job.published(PATIENCE)
    assert done.state is JobState.PUBLISHED
    assert done.content == "hello"
    assert [event["content"] for event in relay.events] == ["hello"]


async def test_everything_named_is_there() -> None:
    for name in postrich.__all__:
        assert getattr(postrich, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'Inbox'"):
        _ = postrich.Inbox


@pytest.mark.req("A1")
async def test_publishing_never_waits_for_a_relay(tmp_path: Path) -> None:
    async with (
        ScriptedRelay(Script(handshake=never_answer)) as relay,
        outbox_at(tmp_path, relay) as outbox,
    ):
        handles = [await outbox.publish(make_event()) for _ in range(3)]
        await relay.wait_connections(1, PATIENCE)
        handles.append(await outbox.publish(make_event()))
        assert {handle.state for handle in handles} == {JobState.PENDING_PUBLISH}


@pytest.mark.req("G3")
async def test_a_handle_tells_where_its_job_stands(tmp_path: Path) -> None:
    event = make_event(KEY, kind=1, content="hello", tags=[("t", "x")])
    async with ScriptedRelay(accept) as relay, outbox_at(tmp_path, relay) as outbox:
        handle = await outbox.publish(event)
        assert handle.is_new
        assert repr(handle) == f"Handle(job {handle.id}, event {event['id'][:8]}…)"
        job = await handle.settled(PATIENCE)
        assert (job.id, job.event_id, job.pubkey) == (handle.id, event["id"], public_key(KEY))
        assert (job.kind, job.content, list(job.tags)) == (1, "hello", [["t", "x"]])
        assert (job.goal, job.policy.name) == (1, "quick")
        assert job.size == len(json.dumps(event, separators=(",", ":")))
        assert job.published_at is not None
        assert job.delivered == job.deliveries
        assert await handle.status() == job
        again = await outbox.publish(event)
        assert (again.id, again.is_new, again.state) == (handle.id, False, JobState.PUBLISHED)
    assert len(relay.events) == 1


@pytest.mark.req("C1", "D12")
async def test_published_means_the_goal_is_met(tmp_path: Path) -> None:
    gate = Gate(accept)
    async with (
        ScriptedRelay(accept) as one,
        ScriptedRelay(accept) as two,
        ScriptedRelay(gate) as three,
        outbox_at(tmp_path, one, two, three, goal=2) as outbox,
    ):
        early = await outbox.publish(make_event())
        job = await early.published(PATIENCE)
        assert len(job.delivered) == 2
        assert not job.is_finished
        late = await outbox.publish(make_event(), goal=3)
        with pytest.raises(TimeoutError):
            await late.published(0.05)
        gate.open()
        for job in await all_settled([early, late]):
            assert len(job.delivered) == 3


async def test_waiting_has_an_end(tmp_path: Path) -> None:
    async with ScriptedRelay(silent) as relay, outbox_at(tmp_path, relay, timeout=0.3) as outbox:
        handle = await outbox.publish(make_event(), policy=SLOW)
        for waiting in (handle.published(0.01), handle.settled(0.01), outbox.drained(0.01)):
            with pytest.raises(TimeoutError):
                await waiting
        assert outbox._waiting._watchers == {}


async def test_who_waits_for_a_job_that_ends_otherwise_is_told(tmp_path: Path) -> None:
    async with (
        ScriptedRelay(refuse("blocked: no")) as relay,
        outbox_at(tmp_path, relay) as outbox,
    ):
        handle = await outbox.publish(make_event())
        with pytest.raises(JobFailed, match="is failed: .*blocked: no"):
            await handle.published(PATIENCE)
        outbox.set_online(False)
        other = await outbox.publish(make_event())
        waiting = asyncio.create_task(other.published(PATIENCE))
        await other.cancel()
        with pytest.raises(JobFailed, match="is cancelled"):
            await waiting
        for call in (outbox.job(99), outbox.wait(99), outbox.wait_settled(99)):
            with pytest.raises(UnknownJob, match="no job 99"):
                await call


async def test_drained_waits_for_every_delivery(tmp_path: Path) -> None:
    gate = Gate(accept)
    async with (
        ScriptedRelay(accept) as one,
        ScriptedRelay(gate) as two,
        outbox_at(tmp_path, one, two) as outbox,
    ):
        assert (await outbox.drained(PATIENCE)).pending == 0
        handles = await outbox.publish_many(some_notes(5))
        await all_published(handles)
        draining = asyncio.create_task(outbox.drained(PATIENCE))
        await two.wait_events(5, PATIENCE)
        assert not draining.done()
        gate.open()
        status = await draining
    assert (status.pending, status.open_deliveries) == (0, 0)
    assert status.text == "0 items waiting to publish"


# Looking


@pytest.mark.req("A12", "B11")
async def test_the_queue_in_figures(tmp_path: Path) -> None:
    async with ScriptedRelay(refuse("error: no")) as relay, outbox_at(tmp_path, relay) as outbox:
        with outbox.watch() as notices:
            first = await outbox.publish(make_event(), policy=SLOW)
            await hear_delivery(notices, DeliveryState.WAITING, "error")
        status = await outbox.status()
        assert (status.pending, status.total_attempts) == (1, 1)
        assert status.text == "1 item waiting to publish"
        assert status.oldest == (await first.status()).accepted_at
        (waiting,) = await outbox.backlog()
        assert (waiting.url, waiting.waiting, waiting.tried) == (f"{relay.url}/", 1, 1)
        await (await outbox.publish(make_event(), policy=ONE_TRY)).settled(PATIENCE)
        at = datetime.now(UTC) + timedelta(days=1)
        await outbox.publish(make_event(), at=at)
        status = await outbox.status()
        assert (status.pending, status.failed, status.scheduled) == (1, 1, 1)
        (me,) = await outbox.workers()
        assert (me.pid, me.role) == (os.getpid(), "library")


async def test_jobs_can_be_listed_paged_and_found(tmp_path: Path) -> None:
    async with outbox_at(tmp_path, "ws://127.0.0.1:9", deliver=False) as outbox:
        handles = await outbox.publish_batch([*some_notes(4), make_event(KEY, kind=7)])
        numbers = [handle.id for handle in handles]
        assert [job.id for job in await outbox.jobs()] == numbers[::-1]
        page = await outbox.jobs(limit=2)
        further = await outbox.jobs(limit=2, before=page[-1].id)
        assert [job.id for job in [*page, *further]] == numbers[:0:-1]
        assert [job.id for job in await outbox.jobs(JobFilter(kind=7))] == numbers[-1:]
        mine = JobFilter(pubkey=public_key(KEY))
        assert [job.id for job in await outbox.jobs(mine)] == numbers[-1:]
        assert await outbox.find(str(numbers[0])) == numbers[0]
        for handle in handles:
            assert await outbox.find(handle.event_id.upper()) == handle.id
            assert await outbox.find(handle.event_id[:16]) == handle.id


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("99", "no job 99"),
        ("f" * 64, "starts with"),
        ("abc", "neither a job number"),
        ("note1xyz", "neither a job number"),
        ("", "neither a job number"),
        ("9" * 20, "starts with"),
        ("²", "neither a job number"),
    ],
)
async def test_what_names_no_job_is_said(tmp_path: Path, text: str, why: str) -> None:
    async with outbox_at(tmp_path, deliver=False) as outbox:
        with pytest.raises(UnknownJob, match=why):
            await outbox.find(text)


async def test_a_start_that_several_ids_share_names_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with outbox_at(tmp_path, deliver=False) as outbox:

        async def two(_: str) -> list[int]:
            return [1, 2]

        monkeypatch.setattr(outbox._store, "find", two)
        with pytest.raises(UnknownJob, match="several jobs"):
            await outbox.find("abcd")


# Notices


@pytest.mark.req("A12")
async def test_notices_tell_the_whole_road(tmp_path: Path) -> None:
    async with ScriptedRelay(accept) as relay, outbox_at(tmp_path, relay) as outbox:
        with outbox.watch() as notices:
            handle = await outbox.publish(make_event())
            accepted = await hear(notices, JobAccepted)
            assert (accepted.job, accepted.event_id) == (handle.id, handle.event_id)
        with outbox.watch() as notices:
            other = await outbox.publish(make_event())
            delivered = await hear(notices, DeliveryChanged, lambda n: n.job == other.id)
            assert (delivered.relay, delivered.state) == (f"{relay.url}/", DeliveryState.DELIVERED)
            assert delivered.next_at is None
        with outbox.watch() as notices:
            third = await outbox.publish(make_event())
            changed = await hear(notices, JobChanged, lambda n: n.job == third.id)
            assert (changed.state, changed.finished) == (JobState.PUBLISHED, True)


@pytest.mark.req("A12")
async def test_the_queue_tells_when_it_changes_and_when_it_is_empty(tmp_path: Path) -> None:
    gate = Gate(accept)
    async with ScriptedRelay(gate) as relay, outbox_at(tmp_path, relay) as outbox:
        with outbox.watch() as notices:
            now = await hear(notices, QueueStatusChanged)
            assert now.status.pending == 0, "who begins to watch is told how it stands"
            await outbox.publish_many(some_notes(3))
            waiting = await hear(notices, QueueStatusChanged, lambda n: n.status.pending == 3)
            assert waiting.status.text == "3 items waiting to publish"
            gate.open()
            complete = await hear(notices, QueueSyncComplete)
            assert complete.status.pending == 0
    assert (QUEUE_STATUS_CHANGED, QUEUE_SYNC_COMPLETE) == (
        "QUEUE_STATUS_CHANGED",
        "QUEUE_SYNC_COMPLETE",
    )


@pytest.mark.req("A12")
async def test_a_queue_that_empties_at_once_tells_it_too(tmp_path: Path) -> None:
    """However quickly a job is done: who waits for the end of the sync hears of it."""
    async with ScriptedRelay(accept) as relay, outbox_at(tmp_path, relay) as outbox:
        with outbox.watch() as notices:
            for _ in range(20):
                handle = await outbox.publish(make_event())
                await handle.published(PATIENCE)
                await hear(notices, QueueSyncComplete)


@pytest.mark.req("A12")
async def test_a_queue_that_was_never_seen_full_tells_its_end_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with ScriptedRelay(accept) as relay, outbox_at(tmp_path, relay) as outbox:
        empty = await outbox.status()

        async def always_empty() -> QueueStatus:
            return empty

        monkeypatch.setattr(outbox._store, "status", always_empty)
        with outbox.watch() as notices:
            await hear(notices, QueueStatusChanged)
            await outbox.publish(make_event())
            await hear(notices, QueueSyncComplete)
            at = datetime.now(UTC) + timedelta(days=1)
            await outbox.publish(make_event(), at=at)
            await hear(notices, JobAccepted)
            await one_pass(outbox._status)
            assert not [n for n in heard_so_far(notices) if isinstance(n, QueueSyncComplete)]


@pytest.mark.req("A12")
async def test_a_slow_listener_loses_the_oldest_and_holds_up_nothing(tmp_path: Path) -> None:
    async with ScriptedRelay(accept) as relay, outbox_at(tmp_path, relay) as outbox:
        with outbox.watch(backlog=10) as slow, outbox.watch(backlog=10_000) as quick:
            await all_published(await outbox.publish_many(some_notes(50)))
            missed = await hear(slow, Missed)
            assert missed.count > 40
            last = [await anext(slow) for _ in range(10)]
            heard = [await anext(quick) for _ in range(150)]
            assert not [notice for notice in heard if isinstance(notice, Missed)]
            assert set(last) - set(heard) <= set(last[-10:])


async def test_listeners_end_with_the_outbox(tmp_path: Path) -> None:
    async with outbox_at(tmp_path, "ws://127.0.0.1:9", deliver=False) as outbox:
        notices = outbox.watch()
        await outbox.publish(make_event())
    heard = [type(notice) async for notice in notices]
    assert JobAccepted in heard, "what was told before is still handed out"


# Two processes on one file


@asynccontextmanager
async def another_process(
    role: str, folder: Path, url: str, events: list[Event]
) -> AsyncIterator[tuple[list[int], asyncio.subprocess.Process]]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tests.deliver.other_process",
        role,
        str(folder / "outbox.db"),
        url,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(json.dumps(events).encode() + b"\n")
    async with asyncio.timeout(PATIENCE):
        numbers = json.loads(await process.stdout.readline())
        yield numbers, process
        process.stdin.close()
        assert await process.wait() == 0


@pytest.mark.req("A1", "G3", "G4")
async def test_what_another_process_hands_in_we_deliver(tmp_path: Path) -> None:
    events = some_notes(30)
    async with ScriptedRelay(accept) as relay, outbox_at(tmp_path, relay) as outbox:
        await (await outbox.publish(make_event())).published(PATIENCE)
        async with another_process("hand-in", tmp_path, relay.url, events) as (numbers, _):
            assert len(numbers) == 30
            for number in numbers:
                await outbox.wait(number, PATIENCE)
    assert len(relay.events) == 31, "each was sent once"


@pytest.mark.req("A1", "G3", "G4")
async def test_what_we_hand_in_another_process_delivers(tmp_path: Path) -> None:
    async with (
        ScriptedRelay(accept) as relay,
        outbox_at(tmp_path, relay, deliver=False) as outbox,
        another_process("deliver", tmp_path, relay.url, []) as (numbers, process),
    ):
        assert numbers == []
        handles = await outbox.publish_many(some_notes(30))
        jobs = await all_published(handles)
        assert {job.publish_attempts for job in jobs} == {1}
        (worker,) = await outbox.workers()
        assert worker.pid == process.pid
        await outbox.drained(PATIENCE)
        assert outbox.lanes() == []
    assert len(relay.events) == 30


@pytest.mark.req("G4")
async def test_two_that_deliver_share_the_work_and_send_nothing_twice(tmp_path: Path) -> None:
    async with (
        ScriptedRelay(accept) as one,
        ScriptedRelay(accept) as two,
        outbox_at(tmp_path, one, two) as outbox,
        another_process("deliver", tmp_path, one.url, some_notes(40)) as (numbers, _),
    ):
        handles = await outbox.publish_many(some_notes(40))
        await all_settled(handles)
        for number in numbers:
            await outbox.wait_settled(number, PATIENCE)
    assert len(one.events) == 80
    assert len(two.events) == 40


# Opening and closing


async def test_a_closed_outbox_says_so(tmp_path: Path) -> None:
    async with outbox_at(tmp_path, "ws://127.0.0.1:9") as outbox:
        handle = await outbox.publish(make_event())
    with pytest.raises(StoreError, match="is closed"):
        await outbox.publish(make_event())
    with pytest.raises(StoreError, match="is closed"):
        await handle.status()


async def test_what_cannot_be_opened_says_why(tmp_path: Path) -> None:
    with pytest.raises(StoreUnusable, match="folder exists"):
        async with Outbox.open(tmp_path / "nowhere" / "outbox.db"):
            pass
    (tmp_path / "text.db").write_text("this is no database" * 100)
    with pytest.raises(StoreUnusable):
        async with Outbox.open(tmp_path / "text.db"):
            pass
    with pytest.raises(BadSetting):
        async with Outbox.open(tmp_path / "o.db", relays=["ftp://x"]):
            pass
    with pytest.raises(BadSetting, match="window"):
        async with Outbox.open(tmp_path / "o.db", settings=Settings(window=0)):
            pass
    assert not (tmp_path / "o.db").exists()


async def test_a_body_that_fails_still_closes_the_outbox(tmp_path: Path) -> None:
    async with ScriptedRelay(accept) as relay:
        with pytest.raises(ZeroDivisionError):
            await _publish_and_fail(tmp_path, relay)
        async with outbox_at(tmp_path, relay) as outbox:
            (job,) = await outbox.jobs()
            await outbox.wait(job.id, PATIENCE)


async def _publish_and_fail(folder: Path, relay: ScriptedRelay) -> None:
    async with outbox_at(folder, relay) as outbox:
        await outbox.publish(make_event())
        raise ZeroDivisionError


async def test_a_start_that_fails_closes_the_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from postrich.store.sqlite import SqliteStore

    async def failing(*_: object) -> None:
        raise StoreError("no worker can be enlisted")

    monkeypatch.setattr(SqliteStore, "enlist", failing)
    with pytest.raises(StoreError, match="enlisted"):
        async with Outbox.open(tmp_path / "o.db"):
            pass
    monkeypatch.undo()
    async with Outbox.open(tmp_path / "o.db") as outbox:
        assert await outbox.jobs() == []


async def test_an_event_can_be_signed_without_being_kept(tmp_path: Path) -> None:
    async with outbox_at(
        tmp_path, "ws://127.0.0.1:9", signer=SecretSigner(KEY), deliver=False
    ) as outbox:
        event = await outbox.sign({"content": "hello"})
        assert event.pubkey == public_key(KEY)
        assert await outbox.sign(event) == event
        with pytest.raises(InvalidEvent):
            await outbox.sign("nonsense")
        assert await outbox.jobs() == []


@pytest.mark.req("B11")
async def test_attempts_are_logged_at_debug_and_errors_as_errors(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "postrich")
    script = Sequence([refuse("error: busy"), refuse("blocked: no")])
    async with (
        ScriptedRelay(script) as relay,
        outbox_at(tmp_path, relay, signer=SecretSigner(KEY)) as outbox,
    ):
        handle = await outbox.post("hello")
        await handle.settled(PATIENCE)
    lines = [r for r in caplog.records if f"job {handle.id}, " in r.getMessage()]
    texts = {(r.levelname, r.getMessage()) for r in lines}
    assert any(
        level == "DEBUG"
        and "phase publish" in text
        and "error: busy" in text
        and "attempts 1" in text
        for level, text in texts
    )
    assert any(level == "ERROR" and "blocked: no" in text for level, text in texts)
    assert any("phase sign" in text and "signed by" in text for _, text in texts)


# One event to some relays, without a store


@pytest.mark.req("C1")
async def test_publish_to_relays_tells_the_truth_of_each(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("postrich.rules.session.READ_BACK_WAIT", 0.2)
    scripts: dict[str, Script] = {
        "ok": Script(accept_saying("welcome")),
        "duplicate": Script(refuse("duplicate: have it")),
        "read-back": Script(store),
        "invalid": Script(refuse("invalid: no")),
        "pow": Script(refuse("pow: 20 bits")),
        "error": Script(refuse("error: busy")),
        "timeout": Script(silent, ignore_request),
        "closed": Script(drop),
        "http-503": Script(handshake=http_status(503)),
        "no handshake": Script(handshake=never_answer),
        "auth-required": require_auth("with"),
        "replaced": Script(refuse("replaced: newer")),
    }
    relays = {name: ScriptedRelay(script) for name, script in scripts.items()}
    for relay in relays.values():
        await relay.start()
    nowhere = ScriptedRelay(accept)
    urls = [relay.url for relay in relays.values()]
    event = parse_event(json.dumps(make_event(KEY)))
    result = await publish_to_relays(event, [*urls, nowhere.url], patience=0.3)
    found = {name: result.per_relay[f"{relay.url}/"] for name, relay in relays.items()}
    assert {name: answer.status for name, answer in found.items()} == {
        "ok": RelayStatus.OK,
        "duplicate": RelayStatus.OK,
        "read-back": RelayStatus.OK,
        "invalid": RelayStatus.REFUSED,
        "pow": RelayStatus.PARKED,
        "error": RelayStatus.ERROR,
        "timeout": RelayStatus.TIMEOUT,
        "closed": RelayStatus.UNKNOWN,
        "http-503": RelayStatus.ERROR,
        "no handshake": RelayStatus.TIMEOUT,
        "auth-required": RelayStatus.PARKED,
        "replaced": RelayStatus.SKIPPED,
    }
    assert found["invalid"].reason == "invalid: no"
    assert all(answer.reason for name, answer in found.items() if name != "ok")
    refused = result.per_relay[f"{nowhere.url}/"]
    assert (refused.status, refused.reason) == (RelayStatus.ERROR, "connection refused")
    assert result.any_success
    strict = await publish_to_relays(event, urls[:4], patience=0.3, threshold=4)
    assert not strict.any_success
    exact = await publish_to_relays(event, urls[:4], patience=0.3, threshold=3)
    assert exact.any_success
    for relay in relays.values():
        await relay.stop()


@pytest.mark.req("C1", "C3")
async def test_publish_to_relays_says_who_we_are_where_it_is_asked() -> None:
    event = parse_event(json.dumps(make_event(KEY)))
    async with ScriptedRelay(require_auth("with")) as relay:
        result = await publish_to_relays(event, [relay.url], signer=SecretSigner(KEY))
        assert result.any_success
        assert len(relay.auths) == 1
        stranger = await publish_to_relays(event, [relay.url], signer=SecretSigner.generate())
        (answer,) = stranger.per_relay.values()
        assert answer.status is RelayStatus.PARKED
        assert len(relay.auths) == 1, "another's key is no use"


@pytest.mark.req("C1", "C3")
async def test_publish_to_relays_when_auth_does_not_work_out() -> None:
    class Shy(Signer):
        pubkey = public_key(KEY)

        async def sign(self, draft: Draft) -> SignedEvent:
            raise SignerUnavailable("asleep")

    event = parse_event(json.dumps(make_event(KEY)))
    async with ScriptedRelay(require_auth("with")) as relay:
        (answer,) = (await publish_to_relays(event, [relay.url], signer=Shy())).per_relay.values()
        assert answer.status is RelayStatus.PARKED
        assert answer.reason == "AUTH was not signed: asleep"
    full = handshakes_in_turn(upgrade, http_status(503))
    async with ScriptedRelay(require_auth("with", handshake=full)) as relay:
        result = await publish_to_relays(event, [relay.url], signer=SecretSigner(KEY))
        (answer,) = result.per_relay.values()
        assert (answer.status, answer.code) == (RelayStatus.ERROR, "http-503")


@pytest.mark.req("C1", "A15")
async def test_publish_to_relays_refuses_what_must_not_go() -> None:
    event = parse_event(json.dumps(make_event(KEY)))
    forged = parse_event(json.dumps({**make_event(KEY), "sig": "0" * 128}))
    with pytest.raises(InvalidEvent, match="not the author's"):
        await publish_to_relays(forged, ["ws://127.0.0.1:9"])
    seal = parse_event(json.dumps(make_event(KEY, kind=13)))
    with pytest.raises(RefusedKind):
        await publish_to_relays(seal, ["ws://127.0.0.1:9"])
    with pytest.raises(BadSetting, match="no relay"):
        await publish_to_relays(event, [])
    with pytest.raises(BadSetting):
        await publish_to_relays(event, ["nonsense relay"])


# Time


@pytest.mark.req("F3", "G3")
async def test_at_its_hour_and_not_before(tmp_path: Path) -> None:
    async with ScriptedRelay(accept) as relay, outbox_at(tmp_path, relay) as outbox:
        at = datetime.now(UTC) + timedelta(seconds=0.3)
        later = await outbox.publish(make_event(content="later"), at=at)
        assert isinstance(later, Handle)
        await (await outbox.publish(make_event(content="now"))).published(PATIENCE)
        await later.published(PATIENCE)
        past = datetime.fromtimestamp(time.time() - 5, UTC)
        await (await outbox.publish(make_event(content="past"), at=past)).published(PATIENCE)
    assert [event["content"] for event in relay.events] == ["now", "later", "past"]
