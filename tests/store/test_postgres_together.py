"""Several processes on one PostgreSQL: one job per event, no goal missed, no lease outlived.

Each store here is what another process would be: it has its own connections and its own memory.
"""

from __future__ import annotations

import asyncio
import random
import signal
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from postrich.errors import CallerError, LeaseLost
from postrich.model.delivery import DeliveryState
from postrich.model.job import JobFilter, JobState, NewJob
from postrich.store.port import Store
from postrich.store.postgres import PostgresStore
from tests.store.auditing import audit
from tests.store.making import (
    ALICE,
    BLUE,
    CREATED,
    DAY,
    EVERYTHING,
    GREEN,
    HOUR,
    NOW,
    RED,
    Hand,
    again,
    draft,
    drafts,
    ended,
    hand_in,
    lane,
    late_ok,
    note,
    routed,
    signature_of,
    snapshot,
    stage,
    state_of,
    wish,
)
from tests.store.processes import run_python
from tests.store.servers import Admin, empty_dsn

pytestmark = pytest.mark.req("G4")

RELAYS = (RED, BLUE, GREEN)


@pytest.fixture
async def dsn() -> str:
    return await empty_dsn()


@pytest.fixture
async def stores(dsn: str) -> AsyncIterator[list[PostgresStore]]:
    stores = [await PostgresStore.open(dsn) for _ in range(3)]
    yield stores
    await audit(stores[0])
    for store in stores:
        await store.close()


@pytest.fixture
async def admin(dsn: str) -> AsyncIterator[Admin]:
    async with Admin(dsn) as admin:
        yield admin


# -- accept ---------------------------------------------------------------------------------


@pytest.mark.req("A9")
async def test_the_same_events_in_any_order_get_one_job_each(stores: list[PostgresStore]) -> None:
    texts = [f"note {n}" for n in range(40)]

    async def accept_all(store: PostgresStore, seed: int) -> dict[str, int]:
        mine = random.Random(seed).sample(texts, len(texts))
        parts = [mine[start : start + 10] for start in range(0, len(mine), 10)]
        answers = await asyncio.gather(
            *(store.accept([wish(text, *RELAYS) for text in part], NOW) for part in parts)
        )
        return {a.event_id: a.job for answer in answers for a in answer.accepted}

    found = await asyncio.gather(*(accept_all(store, n) for n, store in enumerate(stores)))
    assert found[0] == found[1] == found[2]
    assert len(await stores[0].jobs(EVERYTHING, 1000)) == len(texts)


@pytest.mark.req("A9")
async def test_the_same_key_for_different_events_gets_one_job(stores: list[PostgresStore]) -> None:
    for n in range(30):
        numbers = await asyncio.gather(
            *(hand_in(store, f"{n} of {i}", key=f"key {n}") for i, store in enumerate(stores))
        )
        assert len(set(numbers)) == 1
    assert len(await stores[0].jobs(EVERYTHING, 1000)) == 30


@pytest.mark.req("A11")
async def test_one_version_is_the_newest_whoever_brings_it(stores: list[PostgresStore]) -> None:
    for n in range(30):
        versions = [
            note(f"v{v}", kind=30023, tags=[("d", str(n))], at=CREATED + v) for v in range(3)
        ]
        order = random.Random(n).sample(versions, 3)
        numbers = await asyncio.gather(
            *(hand_in(store, event) for store, event in zip(stores, order, strict=True))
        )
        states = {
            event.content: await state_of(stores[0], number)
            for event, number in zip(order, numbers, strict=True)
        }
        assert states == {
            "v0": JobState.SUPERSEDED,
            "v1": JobState.SUPERSEDED,
            "v2": JobState.PENDING_PUBLISH,
        }


# -- settle ---------------------------------------------------------------------------------


@pytest.mark.req("D12", "A8")
async def test_a_goal_that_two_lanes_meet_at_once_is_never_missed(
    stores: list[PostgresStore],
) -> None:
    batches = 150
    for n in range(batches):
        jobs = [wish(f"{n}.{i}", RED, BLUE, goal=2) for i in range(20)]
        numbers = [a.job for a in (await stores[0].accept(jobs, NOW)).accepted]
        red, blue = await lane(stores[0], RED, "one"), await lane(stores[1], BLUE, "two")
        random.Random(n).shuffle(numbers)
        told = await asyncio.gather(
            *(red.deliver(*numbers[start::2]) for start in (0, 1)),
            *(blue.deliver(*reversed(numbers[start::2])) for start in (0, 1)),
        )
        published = [c.job for changes in told for c in changes if c.state is JobState.PUBLISHED]
        assert sorted(published) == sorted(numbers)  # each told once, by whoever came second
    shown = await stores[2].jobs(JobFilter(states=(JobState.PUBLISHED,)), 10_000)
    assert len(shown) == batches * 20


@pytest.mark.req("A10")
async def test_who_waits_for_two_is_woken_by_the_second(stores: list[PostgresStore]) -> None:
    for n in range(40):
        first = await hand_in(stores[0], f"first {n}", RED)
        second = await hand_in(stores[0], f"second {n}", BLUE)
        red, blue = await lane(stores[0], RED, "one"), await lane(stores[1], BLUE, "two")
        early = await hand_in(stores[2], f"early {n}", GREEN, after=(first, second))
        late = hand_in(stores[2], f"late {n}", GREEN, after=(first, second))
        number, *_ = await asyncio.gather(late, red.deliver(first), blue.deliver(second))
        due = await stores[2].stage_due(NOW, 100)
        assert early in {item.job for item in due}
        await stores[2].route(await stage(stores[2]), routed(due), NOW)
        green = await lane(stores[2], GREEN, "three")
        assert set(await green.jobs()) == {early, number}
        await green.deliver(early, number)


@pytest.mark.req("A8", "B8")
async def test_a_lease_that_is_taken_meanwhile_refuses_the_results(
    stores: list[PostgresStore], admin: Admin
) -> None:
    number = await hand_in(stores[0], "hello", RED)
    red = await lane(stores[0], RED, "one")
    before = await snapshot(stores[0])
    async with admin.link.transaction():
        await admin.link.execute("UPDATE leases SET owner = 'two', epoch = epoch + 1")
        settling = asyncio.ensure_future(red.deliver(number))
        await admin.see_waiting()
    with pytest.raises(LeaseLost, match="another worker"):
        await settling
    assert await snapshot(stores[0]) == before


@pytest.mark.req("A8")
async def test_a_lease_is_not_taken_while_its_results_are_written(
    stores: list[PostgresStore], admin: Admin
) -> None:
    number = await hand_in(stores[0], "hello", RED)
    red = await lane(stores[0], RED, "one")
    async with admin.link.transaction():
        await admin.link.execute("SELECT 1 FROM jobs FOR UPDATE")
        settling = asyncio.ensure_future(red.deliver(number))
        await admin.see_waiting()
        later = NOW + 2 * HOUR
        taking = asyncio.ensure_future(
            stores[1].take_lease(red.fence.name, "two", later, later + HOUR)
        )
        await admin.see_waiting(2)
        assert not taking.done()
    await settling
    assert await taking is not None
    assert await state_of(stores[1], number) is JobState.PUBLISHED


SETTLE_SLOWLY = """
import asyncio, sys
from postrich.errors import LeaseLost
from postrich.store.postgres import PostgresStore, sessions
from tests.store.making import RED, lane

sessions.SETTINGS["idle_in_transaction_session_timeout"] = "500ms"

async def main():
    store = await PostgresStore.open(sys.argv[1])
    red = await lane(store, RED, "stopped")
    try:
        await red.deliver(int(sys.argv[2]))
    except LeaseLost:
        print("refused", flush=True)
    await store.close()

asyncio.run(main())
"""


@pytest.mark.req("A8", "B8")
async def test_a_worker_that_was_stopped_half_way_writes_nothing(
    stores: list[PostgresStore], admin: Admin, dsn: str
) -> None:
    """It holds its lease and waits for a job when it is stopped; then its lane is taken."""
    number = await hand_in(stores[0], "hello", RED)
    async with admin.link.transaction():
        await admin.link.execute("SELECT 1 FROM jobs FOR UPDATE")
        process = run_python(SETTLE_SLOWLY, dsn, number)
        await admin.see_waiting()
        process.send_signal(signal.SIGSTOP)
    [work] = await stores[1].work()
    later, name = NOW + 2 * HOUR, f"relay:{work.destination.id}"
    before = await snapshot(stores[1])
    fence = await stores[1].take_lease(name, "heir", later, later + HOUR)
    assert fence is not None
    process.send_signal(signal.SIGCONT)
    told, trouble = await asyncio.to_thread(process.communicate)
    assert told == "refused\n", trouble
    assert await snapshot(stores[1]) == before
    await Hand(stores[1], work.destination, fence).deliver(number)
    assert await state_of(stores[0], number) is JobState.PUBLISHED


# -- everything at once -----------------------------------------------------------------------


class Crowd:
    """One of several who do whatever they like to the same few jobs."""

    def __init__(self, store: Store, seed: int) -> None:
        self.store = store
        self.random = random.Random(seed)
        self.owner = f"worker {seed}"

    async def run(self, steps: int) -> None:
        deeds: list[Callable[[], Awaitable[object]]] = [
            *(self.accept,) * 4,
            *(self.settle,) * 6,
            *(self.stage, self.sign, self.retry, self.cancel, self.delete, self.tidy, self.expire),
        ]
        for _ in range(steps):
            try:
                await self.random.choice(deeds)()
            except (CallerError, LeaseLost):
                continue  # somebody was faster

    async def accept(self) -> None:
        await self.store.accept([self._job() for _ in range(self.random.randint(1, 5))], NOW)

    def _job(self) -> NewJob:
        n = self.random.randrange(60)
        kind = self.random.choice((1, 1, 1, 0, 5))
        tags = [("e", note(f"event {self.random.randrange(60)}").id)] if kind == 5 else []
        make = self.random.choice((note, note, draft))
        content = make(f"event {n}", kind=kind, at=CREATED + n, tags=tags)
        relays = self.random.sample(RELAYS, self.random.randint(1, 3))
        after = (self.random.randint(1, 60),) if self.random.random() < 0.2 else ()
        goal, key = self.random.choice((1, 2)), self.random.choice((None, f"key {n}"))
        return wish(content, *relays, goal=goal, key=key, after=after)

    async def settle(self) -> None:
        works = await self.store.work()
        if not works:
            return
        destination = self.random.choice(works).destination
        fence = await self.store.take_lease(f"relay:{destination.id}", self.owner, NOW, NOW)
        if fence is None:
            return
        hand = Hand(self.store, destination, fence)
        jobs = await hand.jobs(NOW + DAY)
        self.random.shuffle(jobs)
        choices = (again, late_ok, lambda job: ended(job, DeliveryState.REFUSED))
        others = [self.random.choice(choices)(job) for job in jobs[:3]]
        await asyncio.gather(hand.deliver(*jobs[3:8]), hand.report(*others))

    async def stage(self) -> None:
        fence = await self.store.take_lease("stage", self.owner, NOW, NOW)
        if fence is not None:
            await self.store.route(fence, routed(await self.store.stage_due(NOW, 20)), NOW)

    async def sign(self) -> None:
        fence = await self.store.take_lease("sign", self.owner, NOW, NOW)
        await self.store.signer_came(ALICE, NOW)
        for item in await drafts(self.store):
            if fence is not None:
                await self.store.signed(fence, item.job, signature_of(item.draft), NOW)

    async def retry(self) -> None:
        await self.store.retry(JobFilter(states=(self._state(),)), NOW)

    async def cancel(self) -> None:
        await self.store.cancel(JobFilter(jobs=(self.random.randint(1, 60),)), NOW)

    async def delete(self) -> None:
        await self.store.delete(JobFilter(states=(self._state(),), kind=1))

    def _state(self) -> JobState:
        return self.random.choice((JobState.FAILED, JobState.CANCELLED, JobState.PARKED))

    async def tidy(self) -> None:
        await self.store.archive(NOW, 5)
        await self.store.prune(NOW, 1)

    async def expire(self) -> None:
        await self.store.expire(NOW + 4 * DAY, 2)


@pytest.mark.req("A1", "A3", "A8", "A9")
@pytest.mark.parametrize("seed", range(4))
async def test_a_crowd_ends_with_a_sound_store(stores: list[PostgresStore], seed: int) -> None:
    """No verb fails but for a person's or a lease's reason: no deadlock comes through."""
    crowds = [Crowd(store, 10 * seed + n) for n, store in enumerate(stores) for _ in range(2)]
    await asyncio.gather(*(crowd.run(60) for crowd in crowds))
    jobs = await audit(stores[0])
    assert len({job.event_id for job in jobs}) == len(jobs)


WRITE_TOO = """
import asyncio, sys
from postrich.store.postgres import PostgresStore
from tests.store.making import BLUE, NOW, RED, hand_in, lane, wish

async def main():
    store = await PostgresStore.open(sys.argv[1])
    print("ready", flush=True)
    for n in range(60):
        await store.accept([wish(f"theirs {n}", BLUE), wish(f"shared {n}", RED, BLUE)], NOW)
    hand = await lane(store, BLUE, "them")
    while claimed := await hand.jobs():
        await hand.deliver(*claimed)
    await store.close()

asyncio.run(main())
"""


@pytest.mark.req("A1", "A9")
async def test_two_processes_write_at_once(stores: list[PostgresStore], dsn: str) -> None:
    store = stores[0]
    process = run_python(WRITE_TOO, dsn)
    assert process.stdout is not None
    assert await asyncio.to_thread(process.stdout.readline) == "ready\n"
    for n in range(60):
        await store.accept([wish(f"ours {n}", RED), wish(f"shared {n}", RED, BLUE)], NOW)
    hand = await lane(store, RED, "us")
    while process.poll() is None or await hand.jobs():
        await hand.deliver(*await hand.jobs())
    _, trouble = await asyncio.to_thread(process.communicate)
    assert process.returncode == 0, trouble
    texts = [job.content for job in await store.jobs(EVERYTHING, 1000)]
    assert sorted(texts) == sorted(
        f"{whose} {n}" for whose in ("ours", "theirs", "shared") for n in range(60)
    )
