"""Whole stories of signing: bunkers nobody here wrote, real relays, and kills at the worst moment.

What a relay really holds is told by a reader that shares no code with Postrich.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from postrich import Handle, Job, JobState, Outbox, SecretSigner
from postrich.model.delivery import DeliveryState
from postrich.model.job import Phase
from postrich.observe.notices import JobChanged, SignerAsks
from postrich.sign.bunker import BunkerGrant, BunkerSigner, connect_bunker
from tests.bunkers import BunkerProcess, ndk_bunker, snstr_bunker
from tests.bunkers.behaviours import challenges
from tests.bunkers.scripted import ScriptedBunker
from tests.deliver import outboxes
from tests.deliver.outboxes import hear, hear_delivery, outbox_at
from tests.journeys.signing_worker import Known
from tests.relays import RelayProcess, local_relay
from tests.relays.events import Event, make_event, public_key
from tests.relays.reader import fetch_events

PATIENCE = 60.0
BOB = os.urandom(32)
KILLS = {"sqlite": 8, "postgres": 4}
DRAFTS = {"sqlite": 60, "postgres": 30}


@pytest.fixture(scope="module")
def relay() -> Iterator[RelayProcess]:
    with local_relay() as running:
        yield running


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("postrich.rules.nip46.SPACING", 0.01)
    monkeypatch.setattr("postrich.sign.rpc.QUIET", 0.5)
    monkeypatch.setattr("postrich.sign.rpc.PING_PAUSES", (0.5, 0.5))
    monkeypatch.setattr("postrich.sign.channel.PAUSES", (0.05, 0.2))


async def signer_at(bunker: BunkerProcess) -> BunkerSigner:
    client = SecretSigner.generate()
    return BunkerSigner(await connect_bunker(bunker.uri, client, within=PATIENCE), client)


def signer_of(bunker: ScriptedBunker, relay: RelayProcess) -> BunkerSigner:
    grant = BunkerGrant(bunker.user_pubkey, bunker.signer_pubkey, (relay.url,), "", True)
    return BunkerSigner(grant, SecretSigner.generate())


@asynccontextmanager
async def outbox_for(folder: Path, relay: RelayProcess, **options: Any) -> AsyncIterator[Outbox]:
    """An outbox that tries nothing twice by the clock while the test lasts."""
    async with outbox_at(folder, relay.url, **{"policy": "slow", **options}) as outbox:
        yield outbox


async def not_signed(handle: Handle, code: str) -> Job:
    """The job, once a signer has failed it for that reason."""
    async with asyncio.timeout(PATIENCE):
        while (job := await handle.status()).error is None:
            await asyncio.sleep(0.01)
    assert job.error is not None
    assert (job.error.phase, job.error.code) == (Phase.SIGN, code)
    assert job.next_at is None or job.next_at > time.time() * 1000 + 600_000
    return job


async def held(relay: RelayProcess, author: str) -> list[Event]:
    return await fetch_events(relay.url, {"authors": [author], "kinds": [1]}, within=PATIENCE)


# Bunkers


@pytest.mark.parametrize("launch", [snstr_bunker, ndk_bunker])
@pytest.mark.req("A2", "A4", "A6")
async def test_notes_are_signed_by_a_bunker_that_dies_and_comes_back(
    relay: RelayProcess, folder: Path, launch: Any
) -> None:
    async with launch([relay.url], secret="open-sesame") as bunker:
        signer = await signer_at(bunker)
        async with outbox_for(folder, relay, signer=signer) as outbox:
            first = await outbox.post("while it is there")
            await first.published(PATIENCE)
            await bunker.kill()
            second = await outbox.post("while it is dead")
            job = await not_signed(second, "SIGNER_UNAVAILABLE")
            assert job.error is not None
            assert "the bunker does not answer" in job.error.message
            await bunker.start()
            job = await second.published(PATIENCE)
            told = [c.detail for c in await outbox.story(second.id) if c.what == "signed"]
        notes = await held(relay, bunker.user_pubkey)
    assert {note["content"] for note in notes} == {"while it is there", "while it is dead"}
    assert {note["id"] for note in notes} == {first.event_id, second.event_id}
    assert told == ["by your bunker"]
    assert job.sign_attempts >= 1  # and the clock's turn was an hour away: it came, and we heard it


@pytest.mark.req("A1", "A5")
async def test_a_slow_bunker_delays_nobody_else(relay: RelayProcess, folder: Path) -> None:
    delays = {"sign_event": 600.0}
    async with snstr_bunker([relay.url], delays=delays) as bunker:
        signer = await signer_at(bunker)
        async with outbox_for(folder, relay, signer=signer) as outbox:
            slow = [await outbox.post(f"slow {number}") for number in range(20)]
            await bunker.wait_for("sign_event", 4, seconds=PATIENCE)
            outbox.add_signer(SecretSigner(BOB))
            quick = await outbox.publish({"pubkey": public_key(BOB), "content": "quick"})
            await quick.published(PATIENCE)
            signed = await outbox.publish(make_event(content="signed"))
            await signed.published(PATIENCE)
            assert {(await handle.status()).state for handle in slow} == {JobState.PENDING_SIGN}


@pytest.mark.req("A5", "A6")
async def test_a_person_approves_late_and_the_job_goes_on(
    relay: RelayProcess, folder: Path
) -> None:
    page = "https://bunker.example/approve"
    asks = {"sign_event": challenges(page)}
    async with (
        ScriptedBunker([relay.url], plays=asks) as bunker,
        outbox_for(folder, relay, signer=signer_of(bunker, relay), sign_timeout=2.0) as outbox,
    ):
        with outbox.watch() as notices:
            handle = await outbox.post("hello")
            assert (await hear(notices, SignerAsks)).url == page
            job = await not_signed(handle, "TIMEOUT")
            assert job.error is not None
            assert f"waits for you to approve at {page}" in job.error.message
            bunker.go()
            await hear(notices, JobChanged, lambda n: n.state is JobState.PUBLISHED)
        assert bunker.methods().count("sign_event") == 1
        assert (await handle.status()).sign_attempts == 1


@pytest.mark.req("A2", "A5")
async def test_a_bunker_that_changes_a_note_parks_it(relay: RelayProcess, folder: Path) -> None:
    """NDK's adds tags for hashtags: not what was asked for."""
    async with ndk_bunker([relay.url]) as bunker:
        signer = await signer_at(bunker)
        async with outbox_for(folder, relay, signer=signer) as outbox:
            job = await (await outbox.post("#nostr")).settled(PATIENCE)
            fine = await outbox.post("#nostr", tags=[["t", "nostr"]])
            await fine.published(PATIENCE)
        notes = await held(relay, bunker.user_pubkey)
    assert job.state is JobState.PARKED
    assert job.error is not None
    assert job.error.code == "SIGNER_FAULT"
    assert job.error.message == 'the signer changed tags: [] became [["t","nostr"]]'
    assert [note["id"] for note in notes] == [fine.event_id]


@pytest.mark.req("A6", "C3")
async def test_a_sleeping_bunkers_auth_waits_for_its_waking(
    relay: RelayProcess, folder: Path
) -> None:
    """The note is signed; the relay wants to know who we are, and only the bunker can say."""
    bunker = ScriptedBunker([relay.url])
    note = make_event(bunker.user, content="hello")
    async with (
        local_relay(auth="write") as guarded,
        outbox_for(folder, guarded, signer=signer_of(bunker, relay)) as outbox,
    ):
        with outbox.watch() as notices:
            handle = await outbox.publish(note)
            await hear_delivery(notices, DeliveryState.PARKED, "signer")
            await hear(notices, JobChanged, lambda n: n.state is JobState.PARKED)
            async with bunker:
                await hear(notices, JobChanged, lambda n: n.state is JobState.PUBLISHED)
        assert (await handle.status()).deliveries[0].state is DeliveryState.DELIVERED
        assert [event["id"] for event in await held(guarded, bunker.user_pubkey)] == [note["id"]]


# Kills


def drafts_of(author: str, count: int) -> list[dict[str, Any]]:
    now = int(time.time())
    return [
        {
            "pubkey": author,
            "created_at": now - number,
            "kind": 1,
            "tags": [],
            "content": f"draft {number}",
        }
        for number in range(count)
    ]


class Workers:
    """Lives of one worker: each begins where the last one was killed."""

    def __init__(
        self, folder: Path, relay: RelayProcess, drafts: list[dict[str, Any]], **account: str
    ) -> None:
        self._folder = folder
        self._relay = relay
        self._handed = folder / "drafts.jsonl"
        self._handed.write_text("\n".join(map(json.dumps, drafts)))
        self._environment = {**os.environ, **account}

    async def start(self, *more: str) -> asyncio.subprocess.Process:
        store = await outboxes.place_in(self._folder)
        return await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "tests.journeys.signing_worker",
            *(str(store), self._relay.url, str(self._handed)),
            *more,
            stdout=asyncio.subprocess.PIPE,
            env=self._environment,
        )

    async def hold(self) -> list[str]:
        """A life that is killed between a signature and its storing; what it had signed."""
        worker = await self.start("--hold")
        assert worker.stdout is not None
        async with asyncio.timeout(PATIENCE):
            while not (line := (await worker.stdout.readline()).decode()).startswith("signed"):
                assert line, "the worker ended before it had signed"
        await kill(worker)
        return line.split()[1:]

    async def finish(self) -> list[Job]:
        """The last life, which ends by itself; all jobs as they stand then."""
        worker = await self.start()
        async with asyncio.timeout(PATIENCE):
            assert await worker.wait() == 0
        store = await outboxes.place_in(self._folder)
        async with Outbox.open(store, deliver=False) as outbox:
            return await outbox.jobs(limit=1000)


async def kill(worker: asyncio.subprocess.Process) -> None:
    if worker.returncode is None:
        worker.send_signal(signal.SIGKILL)
    await worker.wait()


async def begun(bunker: BunkerProcess, before: int, worker: asyncio.subprocess.Process) -> None:
    """Wait until the bunker was asked for more, or the worker has nothing more to ask."""
    async with asyncio.timeout(PATIENCE):
        while bunker.methods().count("sign_event") == before and worker.returncode is None:
            await asyncio.sleep(0.005)


async def known_at(bunker: BunkerProcess) -> str:
    client = SecretSigner.generate()
    grant = await connect_bunker(bunker.uri, client, within=PATIENCE)
    return msgspec.json.encode(Known(grant, client.exposed())).decode()


@pytest.mark.req("A2", "B8")
async def test_killed_between_signing_and_storing_it_signs_again(
    relay: RelayProcess, folder: Path
) -> None:
    secret = os.urandom(32)
    author = public_key(secret)
    workers = Workers(folder, relay, drafts_of(author, 1), POSTRICH_NSEC=secret.hex())
    lives = [await workers.hold() for _ in range(2)]
    assert await held(relay, author) == []
    (job,) = await workers.finish()
    (note,) = await held(relay, author)
    assert {event_id for event_id, _ in lives} == {job.event_id} == {note["id"]}
    assert len({sig for _, sig in lives} | {note["sig"]}) == 3  # three true signatures of one id
    assert (job.state, job.sign_attempts, job.publish_attempts) == (JobState.PUBLISHED, 0, 1)


@pytest.mark.req("A2", "B8")
async def test_the_same_with_a_bunker_that_is_simply_asked_again(
    relay: RelayProcess, folder: Path
) -> None:
    async with snstr_bunker([relay.url], secret="open-sesame") as bunker:
        known = await known_at(bunker)
        drafts = drafts_of(bunker.user_pubkey, 1)
        workers = Workers(folder, relay, drafts, POSTRICH_BUNKER=known)
        event_id, _ = await workers.hold()
        (job,) = await workers.finish()
        (note,) = await held(relay, bunker.user_pubkey)
    assert event_id == job.event_id == note["id"]
    assert (job.state, job.sign_attempts, job.publish_attempts) == (JobState.PUBLISHED, 0, 1)
    assert bunker.methods().count("sign_event") == 2
    assert bunker.methods().count("connect") == 1


@pytest.mark.req("A1", "A2", "A9", "B8")
async def test_nothing_is_lost_or_doubled_by_kills_while_a_bunker_signs(
    relay: RelayProcess, folder: Path
) -> None:
    chance = random.Random(int(os.environ.get("POSTRICH_SEED", "20260705")))
    kills, count = KILLS[outboxes.STORE], DRAFTS[outboxes.STORE]
    async with snstr_bunker([relay.url], secret="open-sesame") as bunker:
        known = await known_at(bunker)
        drafts = drafts_of(bunker.user_pubkey, count)
        workers = Workers(folder, relay, drafts, POSTRICH_BUNKER=known)
        signed = []
        for _ in range(kills):
            worker = await workers.start()
            assert worker.stdout is not None
            await worker.stdout.readline()
            before = bunker.methods().count("sign_event")
            if chance.random() < 0.7:
                await begun(bunker, before, worker)
            await asyncio.sleep(chance.uniform(0.0, 0.1))  # the random point, not a wait
            await kill(worker)
            signed.append(bunker.methods().count("sign_event") - before)
        jobs = await workers.finish()
        notes = await held(relay, bunker.user_pubkey)
    assert sum(count > 0 for count in signed) >= 2, "too few kills hit a worker that was signing"
    assert {job.state for job in jobs} == {JobState.PUBLISHED}
    assert sorted(job.content for job in jobs) == sorted(draft["content"] for draft in drafts)
    assert {note["id"] for note in notes} == {job.event_id for job in jobs}
    assert len(notes) == len(jobs) == count
    # Whatever was signed when a kill came was signed again, at most four at a time.
    assert count <= bunker.methods().count("sign_event") <= count + 4 * kills
    assert bunker.methods().count("connect") == 1
