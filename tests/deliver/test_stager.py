"""Drafts on their way to the relays: signed when a signer is there, sent when their hour comes."""

from __future__ import annotations

import asyncio
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from postrich import JobState, RetryPolicy, SecretSigner
from postrich.errors import (
    JobFailed,
    LeaseLost,
    SignerRejected,
    SignerTimeout,
    SignerUnavailable,
)
from postrich.model.event import Draft, Event
from postrich.model.job import Phase
from postrich.observe.notices import JobChanged
from postrich.sign.signer import Signer
from tests.deliver.outboxes import (
    PATIENCE,
    all_published,
    hear,
    outbox_at,
)
from tests.relays.events import is_valid, make_event, public_key
from tests.relays.scripted import ScriptedRelay
from tests.relays.scripts import accept

ALICE, BOB = os.urandom(32), os.urandom(32)


class Moody(Signer):
    """A signer that does what it was told to do, then signs."""

    def __init__(self, secret: bytes, *moods: Any) -> None:
        self._signer = SecretSigner(secret)
        self._moods = list(moods)
        self.asked = asyncio.Event()

    @property
    def pubkey(self) -> str:
        return self._signer.pubkey

    async def sign(self, draft: Draft) -> Event:
        self.asked.set()
        if self._moods:
            mood = self._moods.pop(0)
            if isinstance(mood, Exception):
                raise mood
            if isinstance(mood, asyncio.Event):
                await mood.wait()
            if isinstance(mood, Event):
                return mood
        return await self._signer.sign(draft)


@pytest.mark.req("A2", "A6", "G3")
async def test_a_draft_is_signed_as_it_is_and_published(tmp_path: Path) -> None:
    async with (
        ScriptedRelay(accept) as relay,
        outbox_at(tmp_path, relay, signer=SecretSigner(ALICE)) as outbox,
    ):
        tags = [["t", "ostrich"], ["nonce", "7", "2"]]
        draft = {"kind": 1, "content": "hello", "tags": tags, "created_at": 1_700_000_000}
        handle = await outbox.publish(draft)
        assert handle.state is JobState.PENDING_SIGN
        job = await handle.published(PATIENCE)
    (event,) = relay.events
    assert is_valid(event)
    assert event["id"] == handle.event_id == job.event_id
    assert event["tags"] == tags
    assert (event["created_at"], event["pubkey"]) == (1_700_000_000, public_key(ALICE))


@pytest.mark.req("A6")
async def test_a_draft_without_a_signer_waits_until_one_comes(tmp_path: Path) -> None:
    async with ScriptedRelay(accept) as relay, outbox_at(tmp_path, relay) as outbox:
        with outbox.watch() as notices:
            draft = {"pubkey": public_key(ALICE), "content": "patience"}
            handle = await outbox.publish(draft, policy="slow")
            await hear(notices, JobChanged, lambda n: n.job == handle.id)
        job = await handle.status()
        assert job.state is JobState.PENDING_SIGN
        assert job.error is not None
        assert (job.error.phase, job.error.code) == (Phase.SIGN, "SIGNER_UNAVAILABLE")
        assert job.sign_attempts == 1
        assert job.next_at is not None
        assert job.next_at > outbox._clock.now() + 1_000_000
        outbox.add_signer(SecretSigner(BOB))
        outbox.add_signer(SecretSigner(ALICE))
        job = await handle.published(PATIENCE)
        assert job.error is None
    assert relay.events[0]["pubkey"] == public_key(ALICE)


@pytest.mark.req("A6", "B8")
async def test_a_draft_goes_on_when_the_outbox_is_opened_with_its_key(tmp_path: Path) -> None:
    async with ScriptedRelay(accept) as relay:
        async with outbox_at(tmp_path, relay) as outbox:
            with outbox.watch() as notices:
                draft = {"pubkey": public_key(ALICE), "content": "patience"}
                handle = await outbox.publish(draft, policy="slow")
                await hear(notices, JobChanged, lambda n: n.job == handle.id)
        async with outbox_at(tmp_path, relay, signer=SecretSigner(ALICE)) as outbox:
            await outbox.wait(handle.id, PATIENCE)


@pytest.mark.parametrize(
    ("problem", "code", "words"),
    [
        (SignerUnavailable("asleep"), "SIGNER_UNAVAILABLE", "asleep"),
        (SignerTimeout("too slow"), "TIMEOUT", "too slow"),
        (OSError("bunker://k?secret=s is away"), "SIGNER_UNAVAILABLE", "bunker://[redacted]"),
    ],
)
@pytest.mark.req("A5", "A7", "B7")
async def test_a_signer_in_trouble_is_asked_again(
    tmp_path: Path, problem: Exception, code: str, words: str
) -> None:
    signer = Moody(ALICE, problem)
    async with ScriptedRelay(accept) as relay, outbox_at(tmp_path, relay, signer=signer) as outbox:
        with outbox.watch() as notices:
            handle = await outbox.post("hello")
            await hear(notices, JobChanged, lambda n: n.state is JobState.PENDING_SIGN)
        job = await handle.published(PATIENCE)
        (line,) = [c for c in await outbox.story(handle.id) if c.what == "not-signed"]
    assert job.sign_attempts == 1
    assert job.publish_attempts == 1
    assert line.detail.startswith(code)
    assert words in line.detail
    assert "secret=s" not in line.detail


@pytest.mark.req("A5")
async def test_a_signer_that_does_not_answer_in_time_is_asked_again(tmp_path: Path) -> None:
    """However few tries the policy allows: those are for relays, a signer is waited for."""
    once = RetryPolicy("one try", delays=(0.01,), max_attempts=1, lifetime=600.0)
    signer = Moody(ALICE, asyncio.Event(), asyncio.Event())
    async with (
        ScriptedRelay(accept) as relay,
        outbox_at(tmp_path, relay, signer=signer, sign_timeout=0.05) as outbox,
    ):
        handle = await outbox.publish({"content": "hello"}, policy=once)
        job = await handle.published(PATIENCE)
        story = [c.detail for c in await outbox.story(handle.id) if c.what == "not-signed"]
    assert story == ["TIMEOUT: the signer did not answer in 0.05 s"] * 2
    assert (job.sign_attempts, job.publish_attempts) == (2, 1)


@pytest.mark.req("A5", "A7", "B9")
async def test_a_job_whose_signer_never_comes_ends_with_its_lifetime(tmp_path: Path) -> None:
    brief = RetryPolicy("brief", delays=(0.05,), lifetime=1.8)
    async with (
        ScriptedRelay(accept) as relay,
        outbox_at(tmp_path, relay, lease=0.6) as outbox,
    ):
        handle = await outbox.publish({"pubkey": public_key(BOB), "content": "x"}, policy=brief)
        with pytest.raises(JobFailed, match="no signer for"):
            await handle.published(PATIENCE)
        job = await handle.status()
    assert job.state is JobState.FAILED
    assert job.error is not None
    assert job.error.phase is Phase.SIGN
    assert not relay.events


@pytest.mark.req("A5")
async def test_a_person_who_says_no_parks_the_job_until_asked_again(tmp_path: Path) -> None:
    signer = Moody(ALICE, SignerRejected("not this one"))
    async with ScriptedRelay(accept) as relay, outbox_at(tmp_path, relay, signer=signer) as outbox:
        handle = await outbox.post("hello")
        job = await handle.settled(PATIENCE)
        assert job.state is JobState.PARKED
        assert job.error is not None
        assert job.error.code == "USER_REJECTED"
        await handle.retry()
        await handle.published(PATIENCE)


@pytest.mark.req("A2")
async def test_a_signer_that_changes_the_draft_is_not_believed(tmp_path: Path) -> None:
    other = await SecretSigner(ALICE).sign(Draft(public_key(ALICE), 5, 1, (), "another text"))
    signer = Moody(ALICE, other)
    async with ScriptedRelay(accept) as relay, outbox_at(tmp_path, relay, signer=signer) as outbox:
        handle = await outbox.post("my text")
        job = await handle.settled(PATIENCE)
        assert job.state is JobState.PARKED
        assert job.error is not None
        assert (job.error.phase, job.error.code) == (Phase.SIGN, "SIGNER_FAULT")
        await handle.retry()
        job = await handle.published(PATIENCE)
    assert job.sign_attempts == 1
    assert [event["content"] for event in relay.events] == ["my text"]


@pytest.mark.req("A1", "A5")
async def test_a_slow_signer_holds_up_nobody_else(tmp_path: Path) -> None:
    awake = asyncio.Event()
    slow = Moody(ALICE, awake)
    async with ScriptedRelay(accept) as relay, outbox_at(tmp_path, relay, signer=slow) as outbox:
        outbox.add_signer(SecretSigner(BOB))
        first = await outbox.post("by the slow one")
        await slow.asked.wait()
        second = await outbox.publish({"pubkey": public_key(BOB), "content": "by the quick one"})
        await second.published(PATIENCE)
        soon = datetime.now(UTC) + timedelta(milliseconds=50)
        await (await outbox.publish(make_event(), at=soon)).published(PATIENCE)
        assert (await first.status()).state is JobState.PENDING_SIGN
        awake.set()
        await first.published(PATIENCE)


@pytest.mark.req("A5", "G4")
async def test_a_process_without_the_key_leaves_drafts_to_the_one_that_has_it(
    tmp_path: Path,
) -> None:
    async with ScriptedRelay(accept) as relay, outbox_at(tmp_path, relay) as keyless:
        stranger = await keyless.publish({"pubkey": public_key(BOB), "content": "x"}, policy="slow")
        async with outbox_at(tmp_path, relay, signer=SecretSigner(ALICE)) as outbox:
            await all_published([await outbox.post(f"note {n}") for n in range(5)])
        assert (await stranger.status()).state is JobState.PENDING_SIGN


@pytest.mark.req("B8")
async def test_a_stage_lease_that_is_lost_loses_no_draft(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with (
        ScriptedRelay(accept) as relay,
        outbox_at(tmp_path, relay, signer=SecretSigner(ALICE)) as outbox,
    ):
        signed = outbox._store.signed
        problems: list[Exception] = [LeaseLost("another worker holds stage now")]

        async def failing(*args: Any) -> Any:
            if problems:
                raise problems.pop()
            return await signed(*args)

        monkeypatch.setattr(outbox._store, "signed", failing)
        job = await (await outbox.post("hello")).published(PATIENCE)
    assert not problems
    assert job.publish_attempts == 1


@pytest.mark.req("A1", "F3")
async def test_a_scheduled_event_is_not_sent_before_its_hour(tmp_path: Path) -> None:
    async with ScriptedRelay(accept) as relay, outbox_at(tmp_path, relay) as outbox:
        at = datetime.now(UTC) + timedelta(seconds=0.4)
        handle = await outbox.publish(make_event(), at=at)
        assert handle.state is JobState.SCHEDULED
        job = await handle.published(PATIENCE)
    assert job.published_at is not None
    assert job.published_at >= at.timestamp() * 1000


@pytest.mark.req("A6", "F3")
async def test_a_scheduled_draft_is_signed_now_and_sent_later(tmp_path: Path) -> None:
    async with (
        ScriptedRelay(accept) as relay,
        outbox_at(tmp_path, relay, signer=SecretSigner(ALICE)) as outbox,
    ):
        at = datetime.now(UTC) + timedelta(days=1)
        with outbox.watch() as notices:
            handle = await outbox.publish({"content": "tomorrow"}, at=at)
            await hear(notices, JobChanged, lambda n: n.state is JobState.SCHEDULED)
        assert (await outbox.status()).scheduled == 1
        job = await handle.status()
        assert job.due_at == round(at.timestamp() * 1000)
        assert job.deliveries[0].reason == "your relay"
        await handle.cancel()
        assert (await handle.status()).state is JobState.CANCELLED
        await (await outbox.post("now")).published(PATIENCE)
    assert len(relay.events) == 1


@pytest.mark.req("F3")
async def test_what_came_due_while_nobody_worked_is_sent_at_the_next_start(tmp_path: Path) -> None:
    async with ScriptedRelay(accept) as relay:
        async with outbox_at(tmp_path, relay, deliver=False) as outbox:
            at = datetime.now(UTC) + timedelta(milliseconds=1)
            handle = await outbox.publish(make_event(), at=at)
        async with outbox_at(tmp_path, relay) as outbox:
            await outbox.wait(handle.id, PATIENCE)
