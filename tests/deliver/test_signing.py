"""The signing desk: whoever can sign does, nobody waits for others, and who comes is heard."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from postrich import Draft, Event, Handle, Job, JobState, Outbox, SecretSigner
from postrich.errors import SignerRejected, SignerUnavailable, StoreBusy
from postrich.model.delivery import DeliveryState
from postrich.model.job import Phase
from postrich.observe.notices import JobChanged, SignerAsks, SignerCame
from postrich.sign.browser import BrowserSession
from postrich.sign.chooser import Means
from postrich.sign.signer import Signer
from tests.deliver.outboxes import (
    PATIENCE,
    all_published,
    contents,
    hear,
    hear_delivery,
    one_pass,
    outbox_at,
    run_sql,
    until,
)
from tests.relays.events import make_event, public_key
from tests.relays.script import require_auth
from tests.relays.scripted import ScriptedRelay
from tests.relays.scripts import accept

ALICE, BOB = os.urandom(32), os.urandom(32)


class Willing(Signer):
    """A signer that is there or not, and waits until it is let."""

    means = Means.NIP46
    at_once = 4
    keeps_time = True

    def __init__(self, secret: bytes, *, held: bool = False) -> None:
        self._signer = SecretSigner(secret)
        self.let = asyncio.Event()
        if not held:
            self.let.set()
        self.there = True
        self.asked: list[str] = []
        self.came: Callable[[], None] = lambda: None

    @property
    def pubkey(self) -> str:
        return self._signer.pubkey

    @property
    def is_available(self) -> bool:
        return self.there

    @property
    def trouble(self) -> str:
        return "it sleeps"

    def start(self, on_came: Callable[[], None]) -> None:
        self.came = on_came

    def come(self) -> None:
        self.there = True
        self.came()

    async def sign(self, draft: Draft) -> Event:
        self.asked.append(draft.content)
        await self.let.wait()
        return await self._signer.sign(draft)


def by_extension(draft: Draft, secret: bytes = ALICE) -> dict[str, Any]:
    return make_event(secret, draft.kind, draft.content, draft.tags, draft.created_at)


@asynccontextmanager
async def outbox_and_relay(
    folder: Path, script: Any = accept, **options: Any
) -> AsyncIterator[tuple[Outbox, ScriptedRelay]]:
    """An outbox that by itself tries nothing twice while the test lasts, nor looks for work."""
    chosen = {"policy": "slow", "poll": 3600.0, **options}
    async with ScriptedRelay(script) as relay, outbox_at(folder, relay, **chosen) as outbox:
        yield outbox, relay


async def write(outbox: Outbox, content: str, secret: bytes = ALICE) -> Handle:
    return await outbox.publish({"pubkey": public_key(secret), "content": content})


async def unsigned(outbox: Outbox, handle: Handle, code: str) -> Job:
    """The job once a signer has failed it for that reason, and its next hour is far."""
    async with asyncio.timeout(PATIENCE):
        while (job := await handle.status()).error is None:
            await asyncio.sleep(0.005)
    assert job.error is not None
    assert (job.error.phase, job.error.code) == (Phase.SIGN, code)
    return job


async def offered(page: BrowserSession, count: int = 1) -> list[Draft]:
    async with asyncio.timeout(PATIENCE):
        while len(found := page.drafts()) < count:
            await page.changed.wait()
    return found


# Whose turn


@pytest.mark.req("A4", "A8")
async def test_each_account_is_signed_for_by_its_own(tmp_path: Path) -> None:
    async with outbox_and_relay(tmp_path, signer=SecretSigner(ALICE)) as (outbox, relay):
        outbox.add_signer(Willing(BOB))
        handles = [await write(outbox, str(n), (ALICE, BOB)[n % 2]) for n in range(20)]
        await all_published(handles)
        assert [signer.pubkey for signer in outbox.signers()] == [
            public_key(ALICE),
            public_key(BOB),
        ]
        told = [[c.detail for c in await outbox.story(h.id) if c.what == "signed"] for h in handles]
    assert told == [["by your key"], ["by your bunker"]] * 10
    authors = {event["content"]: event["pubkey"] for event in relay.events}
    assert authors == {str(n): public_key((ALICE, BOB)[n % 2]) for n in range(20)}


@pytest.mark.parametrize("at_once", [4, 256])
@pytest.mark.req("A1", "A5", "A8")
async def test_a_crowd_before_a_hanging_signer_holds_up_nobody_else(
    tmp_path: Path, at_once: int
) -> None:
    hanging = Willing(ALICE, held=True)
    hanging.at_once = at_once
    async with outbox_and_relay(tmp_path, signer=hanging) as (outbox, relay):
        crowd = await outbox.publish_many(
            [{"pubkey": public_key(ALICE), "content": str(n)} for n in range(300)]
        )
        await until(lambda: len(hanging.asked) == at_once)
        outbox.add_signer(SecretSigner(BOB))
        await all_published(
            [
                await write(outbox, "by Bob", BOB),
                await outbox.publish(make_event(content="signed before")),
                await outbox.publish(make_event(ALICE, content="signed elsewhere")),
            ]
        )
        assert len(hanging.asked) == at_once
        assert len(relay.events) == 3
        hanging.let.set()
        await all_published(crowd)
        assert sorted(hanging.asked, key=int) == [str(n) for n in range(300)]


# Who comes


@pytest.mark.req("A6", "A7")
async def test_a_signer_that_comes_takes_up_what_waits(tmp_path: Path) -> None:
    signer = Willing(ALICE)
    signer.there = False
    async with outbox_and_relay(tmp_path, signer=signer) as (outbox, _), asyncio.timeout(PATIENCE):
        handles = [await write(outbox, str(n)) for n in range(10)]
        for handle in handles:
            job = await unsigned(outbox, handle, "SIGNER_UNAVAILABLE")
            assert job.error is not None
            assert job.error.message == "it sleeps"
        with outbox.watch() as notices:
            signer.come()
            await hear(notices, SignerCame, lambda n: n.pubkey == public_key(ALICE))
        jobs = await all_published(handles)
    assert {job.sign_attempts for job in jobs} == {1}  # none by the clock
    assert len(signer.asked) == 10


@pytest.mark.req("A6")
async def test_one_that_comes_while_it_is_being_found_away_is_not_missed(tmp_path: Path) -> None:
    """As when a page is closed and opened anew before we have written that it was closed."""

    class Blinking(Willing):
        async def sign(self, draft: Draft) -> Event:
            self.asked.append(draft.content)
            if len(self.asked) == 1:
                self.come()
                await one_pass(outbox._desk)  # that it came is told before its failure is
                raise SignerUnavailable("gone for a moment")
            return await self._signer.sign(draft)

    async with outbox_and_relay(tmp_path) as (outbox, _):
        outbox.add_signer(Blinking(ALICE))
        job = await (await write(outbox, "hello")).published(PATIENCE)
    assert job.sign_attempts == 1


@pytest.mark.req("A6")
async def test_one_that_comes_while_the_store_is_busy_is_not_missed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    signer = Willing(ALICE)
    signer.there = False
    async with outbox_and_relay(tmp_path, signer=signer) as (outbox, _):
        handle = await write(outbox, "hello")
        await unsigned(outbox, handle, "SIGNER_UNAVAILABLE")
        signer_came = outbox._store.signer_came
        problems: list[Exception] = [StoreBusy("another process keeps it locked")]

        async def busy(*args: Any) -> Any:
            if problems:
                raise problems.pop()
            return await signer_came(*args)

        monkeypatch.setattr(outbox._store, "signer_came", busy)
        signer.come()
        await handle.published(PATIENCE)
    assert not problems


async def test_one_that_comes_does_not_take_back_a_no(tmp_path: Path) -> None:
    class Stubborn(Willing):
        async def sign(self, draft: Draft) -> Event:
            self.asked.append(draft.content)
            self.come()
            raise SignerRejected("no")

    signer = Stubborn(ALICE)
    async with outbox_and_relay(tmp_path, signer=signer) as (outbox, _):
        job = await (await write(outbox, "hello")).settled(PATIENCE)
        signer.come()
        await one_pass(outbox._desk)
        assert (job.state, len(signer.asked)) == (JobState.PARKED, 1)


@pytest.mark.req("A4", "A6")
async def test_who_is_away_leaves_it_to_another_way_to_sign(tmp_path: Path) -> None:
    bunker = Willing(ALICE)
    bunker.there = False
    async with outbox_and_relay(tmp_path, signer=bunker) as (outbox, _):
        handle = await write(outbox, "hello")
        await unsigned(outbox, handle, "SIGNER_UNAVAILABLE")
        outbox.add_signer(SecretSigner(ALICE))
        await handle.published(PATIENCE)
    assert bunker.asked == []


async def test_who_was_removed_signs_no_more(tmp_path: Path) -> None:
    signer = Willing(ALICE)
    async with outbox_and_relay(tmp_path, signer=signer) as (outbox, relay):
        outbox.remove_signer(signer)
        handle = await write(outbox, "hello")
        job = await unsigned(outbox, handle, "SIGNER_UNAVAILABLE")
        assert job.error is not None
        assert "is at hand" in job.error.message
        assert signer.asked == []
        outbox.add_signer(signer)
        await handle.published(PATIENCE)
        assert len(relay.events) == 1


async def test_a_page_to_approve_at_is_a_notice(tmp_path: Path) -> None:
    signer = Willing(ALICE)
    async with outbox_and_relay(tmp_path, signer=signer) as (outbox, _):
        with outbox.watch() as notices:
            signer.on_challenge("https://bunker.example")
            heard = await hear(notices, SignerAsks)
    assert heard == SignerAsks(public_key(ALICE), "https://bunker.example")


# Pages


@pytest.mark.req("A2", "A6")
async def test_a_page_that_opens_is_offered_what_waits(tmp_path: Path) -> None:
    async with outbox_and_relay(tmp_path) as (outbox, relay):
        hers, his = await write(outbox, "hers"), await write(outbox, "his", BOB)
        for handle in (hers, his):
            await unsigned(outbox, handle, "SIGNER_UNAVAILABLE")
        with outbox.open_page(public_key(ALICE)) as page:
            (draft,) = await offered(page)
            assert draft.content == "hers"
            page.take(draft.id, by_extension(draft))
            job = await hers.published(PATIENCE)
            (chapter,) = [c for c in await outbox.story(hers.id) if c.what == "signed"]
        assert chapter.detail == "by your browser"
        assert job.sign_attempts == 1
        assert (await his.status()).state is JobState.PENDING_SIGN
        assert contents(relay.events) == ["hers"]


@pytest.mark.parametrize("at_once", [False, True])
@pytest.mark.req("A5", "A6")
async def test_a_page_is_closed_and_another_goes_on(tmp_path: Path, at_once: bool) -> None:
    async with outbox_and_relay(tmp_path) as (outbox, _):
        page = outbox.open_page(public_key(ALICE))
        handle = await write(outbox, "hello")
        await offered(page)
        page.close()
        if not at_once:
            await unsigned(outbox, handle, "SIGNER_UNAVAILABLE")
        with outbox.open_page(public_key(ALICE)) as other:
            (draft,) = await offered(other)
            other.take(draft.id, by_extension(draft))
            job = await handle.published(PATIENCE)
        assert job.sign_attempts == 1
        assert len(outbox.signers()) == 1


@pytest.mark.req("A5")
async def test_a_no_in_the_browser_parks_the_job(tmp_path: Path) -> None:
    async with outbox_and_relay(tmp_path) as (outbox, _):
        with outbox.open_page(public_key(ALICE)) as page:
            handle = await write(outbox, "hello")
            (draft,) = await offered(page)
            page.refuse(draft.id, "not today")
            job = await handle.settled(PATIENCE)
            assert job.state is JobState.PARKED
            assert job.error is not None
            assert (job.error.code, job.error.message) == (
                "USER_REJECTED",
                "you said no in the browser: not today",
            )
            await handle.retry()
            (draft,) = await offered(page)
            page.take(draft.id, by_extension(draft))
            await handle.published(PATIENCE)


@pytest.mark.parametrize("leaves", [False, True])
@pytest.mark.req("A5", "A6")
async def test_a_late_signature_finishes_the_job(tmp_path: Path, leaves: bool) -> None:
    async with outbox_and_relay(tmp_path, sign_timeout=0.1) as (outbox, relay):
        with outbox.open_page(public_key(ALICE)) as page:
            handle = await write(outbox, "hello")
            await unsigned(outbox, handle, "TIMEOUT")
            (draft,) = page.drafts()
            page.take(draft.id, by_extension(draft))
            if leaves:
                page.close()
            job = await handle.published(PATIENCE)
        assert job.sign_attempts == 1
        assert len(relay.events) == 1


# Changes of mind, other processes


@pytest.mark.req("A3", "B6")
async def test_a_job_cancelled_while_its_signature_is_awaited_stays_so(tmp_path: Path) -> None:
    signer = Willing(ALICE, held=True)
    async with outbox_and_relay(tmp_path, signer=signer) as (outbox, relay):
        handle, other = await write(outbox, "unwanted"), await write(outbox, "wanted")
        await until(lambda: len(signer.asked) == 2)
        await handle.cancel()
        signer.let.set()
        await other.published(PATIENCE)
        await until(lambda: not any(outbox._desk._under_way.values()))
        job = await handle.status()
        assert (job.state, job.sign_attempts, job.error) == (JobState.CANCELLED, 0, None)
        assert contents(relay.events) == ["wanted"]


@pytest.mark.req("B8")
async def test_a_shutdown_while_a_signature_is_awaited_burns_nothing(tmp_path: Path) -> None:
    async with ScriptedRelay(accept) as relay:
        signer = Willing(ALICE, held=True)
        async with outbox_at(tmp_path, relay, signer=signer, policy="slow") as outbox:
            handle = await write(outbox, "hello")
            await until(lambda: bool(signer.asked))
        async with outbox_at(tmp_path, relay, signer=SecretSigner(ALICE)) as outbox:
            job = await outbox.wait(handle.id, PATIENCE)
    assert (job.sign_attempts, len(relay.events)) == (0, 1)


@pytest.mark.req("A6", "G4")
async def test_a_process_without_the_key_says_so_and_the_one_that_has_it_takes_over(
    tmp_path: Path,
) -> None:
    async with outbox_and_relay(tmp_path) as (keyless, relay):
        handle = await write(keyless, "hello")
        job = await unsigned(keyless, handle, "SIGNER_UNAVAILABLE")
        assert (job.state, job.sign_attempts) == (JobState.PENDING_SIGN, 1)
        async with outbox_at(tmp_path, relay, signer=SecretSigner(ALICE), policy="slow") as other:
            job = await other.wait(handle.id, PATIENCE)
    assert (job.sign_attempts, job.error) == (1, None)


@pytest.mark.req("G4")
async def test_a_process_without_the_key_leaves_a_fresh_draft_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("postrich.deliver.signing.GRACE_MS", 3_600_000)
    async with outbox_and_relay(tmp_path) as (keyless, relay):
        handle = await write(keyless, "hello")
        for _ in range(3):
            await one_pass(keyless._desk)
        job = await handle.status()
        assert (job.error, job.sign_attempts) == (None, 0)
        async with outbox_at(tmp_path, relay, signer=SecretSigner(ALICE)) as other:
            assert (await other.wait(handle.id, PATIENCE)).sign_attempts == 0


@pytest.mark.req("A8", "G4")
async def test_an_account_is_held_only_while_it_is_signed_for(tmp_path: Path) -> None:
    signer = Willing(ALICE, held=True)

    async def held() -> bool:
        found = await run_sql(tmp_path, "SELECT name FROM leases WHERE lease_until > 0")
        return (f"sign:{public_key(ALICE)}",) in found

    async with outbox_and_relay(tmp_path, signer=signer) as (outbox, _):
        handle = await write(outbox, "hello")
        await until(lambda: bool(signer.asked))
        assert await held()
        signer.let.set()
        await handle.published(PATIENCE)
        async with asyncio.timeout(PATIENCE):
            while await held():
                await asyncio.sleep(0.01)


# AUTH


@pytest.mark.req("A6", "C3")
async def test_an_auth_that_nobody_can_sign_now_waits_for_who_can(tmp_path: Path) -> None:
    signer = Willing(ALICE)
    signer.there = False
    async with outbox_and_relay(tmp_path, require_auth("with"), signer=signer) as (outbox, relay):
        with outbox.watch() as notices:
            handle = await outbox.publish(make_event(ALICE, content="hello"))
            heard = await hear_delivery(notices, DeliveryState.PARKED, "signer")
            assert "it sleeps" in heard.detail
            await hear(notices, JobChanged, lambda n: n.state is JobState.PARKED)
            signer.come()
            await hear(notices, JobChanged, lambda n: n.state is JobState.PUBLISHED)
        assert (await handle.status()).sign_attempts == 0
        assert {auth["pubkey"] for auth in relay.auths} == {public_key(ALICE)}


# Diagnostics


@pytest.mark.req("B11")
async def test_what_happens_at_the_desk_is_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "postrich.signing")
    signer = Willing(ALICE)
    signer.there = False
    async with outbox_and_relay(tmp_path, signer=signer) as (outbox, _):
        handle = await write(outbox, "hello")
        job = await unsigned(outbox, handle, "SIGNER_UNAVAILABLE")
        signer.come()
        await handle.published(PATIENCE)
        stranger = await write(outbox, "hello", BOB)
        await unsigned(outbox, stranger, "SIGNER_UNAVAILABLE")
    lines = [(r.levelno, r.getMessage()) for r in caplog.records if r.name == "postrich.signing"]
    first, second, third = lines
    away = f"attempts 1, next attempt {job.next_at}, signer nip46: SIGNER_UNAVAILABLE: it sleeps"
    assert first == (logging.DEBUG, f"job {handle.id}, phase sign, {away}")
    assert second == (
        logging.DEBUG,
        f"job {handle.id}, phase sign, attempts 2: signed by your bunker (nip46)",
    )
    assert third[1].startswith(f"job {stranger.id}, phase sign, attempts 1, next attempt ")
    assert ", signer none: SIGNER_UNAVAILABLE: no signer for" in third[1]


@pytest.mark.req("B7", "B11")
async def test_a_persons_no_is_an_error_in_the_log_without_secrets(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    class Leaky(Willing):
        async def sign(self, draft: Draft) -> Event:
            raise SignerRejected("no, by bunker://k?secret=hush")

    caplog.set_level(logging.DEBUG, "postrich.signing")
    async with outbox_and_relay(tmp_path, signer=Leaky(ALICE)) as (outbox, _):
        handle = await write(outbox, "hello")
        await handle.settled(PATIENCE)
    (record,) = [r for r in caplog.records if r.name == "postrich.signing"]
    assert record.levelno == logging.ERROR
    assert record.getMessage() == (
        f"job {handle.id}, phase sign, attempts 1, next attempt none, signer nip46: "
        "USER_REJECTED: no, by bunker://[redacted]"
    )
