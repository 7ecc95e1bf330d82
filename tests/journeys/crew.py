"""Several workers on one PostgreSQL, the relays they speak to, and who hands in.

Workers are real processes that die with the test. Relays note when they heard what from whom.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import msgspec

from postrich import Outbox, RetryPolicy, Settings
from postrich.errors import StoreError
from tests.relays.conversation import Client
from tests.relays.events import Event, make_event, public_key
from tests.relays.framing import Request
from tests.relays.handshakes import upgrade
from tests.relays.script import Script
from tests.relays.scripted import ScriptedRelay
from tests.relays.scripts import Behaviour, accept

PATIENCE = 60.0
LEASE = 3.0
SECRET = bytes(range(2, 34))
QUICK = RetryPolicy("quick", delays=(0.05,), jitter=(0.5, 1.5))


def wall() -> int:
    """Now, by the clock that this process shares with its PostgreSQL; milliseconds."""
    return time.time_ns() // 1_000_000


class Heard(NamedTuple):
    """A relay got an event at that time, from that worker."""

    at: int
    owner: str
    event_id: str


class WatchedRelay(ScriptedRelay):
    """A relay that answers as `behaviour` does and notes who said what."""

    def __init__(self, behaviour: Behaviour = accept) -> None:
        super().__init__(Script(on_event=self._on_event, handshake=self._meet))
        self.heard: list[Heard] = []
        self._behaviour = behaviour
        self._owners: dict[int, str] = {}

    @property
    def name(self) -> str:
        """Its URL in normal form."""
        return f"{self.url}/"

    async def _meet(self, client: Client, request: Request) -> bool:
        self._owners[client.number] = request.headers.get("user-agent", "")
        return await upgrade(client, request)

    async def _on_event(self, client: Client, event: Event) -> None:
        self.heard.append(Heard(wall(), self._owners[client.number], event["id"]))
        await self._behaviour(client, event)


@asynccontextmanager
async def watched_relays(*behaviours: Behaviour) -> AsyncIterator[list[WatchedRelay]]:
    async with AsyncExitStack() as stack:
        yield [await stack.enter_async_context(WatchedRelay(one)) for one in behaviours]


class Worker:
    """One process of the crew."""

    def __init__(self, process: asyncio.subprocess.Process, log: Path) -> None:
        self.process = process
        self.owner = ""
        self._log = log

    @property
    def name(self) -> str:
        """As which the database knows it."""
        return f"crew-{self.process.pid}"

    @property
    def log(self) -> str:
        return self._log.read_text()

    @property
    def is_running(self) -> bool:
        return self.process.returncode is None

    async def ready(self) -> None:
        assert self.process.stdout is not None
        async with asyncio.timeout(PATIENCE):
            line = (await self.process.stdout.readline()).decode().split()
        assert line[:1] == ["ready"], self.log
        self.owner = line[1]

    async def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        await self.process.wait()

    def pause(self) -> None:
        self.process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    async def end(self) -> None:
        """In an orderly way."""
        if not self.owner:
            await self.ready()
        self.process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(PATIENCE):
            assert await self.process.wait() == 0, self.log


class Crew:
    """The workers of one test: `hire` them; who is left at the end is asked to go."""

    def __init__(self, dsn: str, relays: list[WatchedRelay], folder: Path, lease: float) -> None:
        self.dsn = dsn
        self.lease = lease
        self._urls = [relay.url for relay in relays]
        self._folder = folder
        self.everybody: list[Worker] = []

    @property
    def running(self) -> list[Worker]:
        return [worker for worker in self.everybody if worker.is_running]

    async def hire(self, skew: int = 0) -> Worker:
        """Start a worker whose clock is so many milliseconds wrong."""
        log = self._folder / f"worker-{len(self.everybody)}.log"
        with log.open("wb") as stderr:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "tests.journeys.crew_worker",
                self.dsn,
                str(self.lease),
                str(skew),
                *self._urls,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=stderr,
                env={**os.environ, "POSTRICH_NSEC": SECRET.hex()},
            )
        worker = Worker(process, log)
        self.everybody.append(worker)
        return worker

    async def hire_all(self, *skews: int) -> list[Worker]:
        """Start workers with such clocks, and wait until they work."""
        workers = [await self.hire(skew) for skew in skews]
        for worker in workers:
            await worker.ready()
        return workers

    async def go_home(self) -> None:
        await asyncio.gather(*(worker.end() for worker in self.running))


@asynccontextmanager
async def crew_of(
    dsn: str, relays: list[WatchedRelay], folder: Path, lease: float = LEASE
) -> AsyncIterator[Crew]:
    """A crew that leaves no process behind."""
    crew = Crew(dsn, relays, folder, lease)
    try:
        yield crew
        await crew.go_home()
    finally:
        for worker in crew.running:
            await worker.kill()


class Given(msgspec.Struct):
    """An item that the outbox accepted."""

    content: str
    due_at: int | None
    after: int | None


class Feeder:
    """Hands in signed events and drafts, some for later, some that wait for another."""

    def __init__(self, outbox: Outbox, chance: random.Random) -> None:
        self.given: dict[int, Given] = {}
        self._outbox = outbox
        self._chance = chance
        self._count = 0
        self._enough = asyncio.Event()
        self._feeding: asyncio.Task[None] | None = None

    def start(self, pause: float = 0.1) -> None:
        """A handful at a time, until `finish`."""
        self._feeding = asyncio.create_task(self._feed(pause))

    async def finish(self) -> None:
        """A last handful, so that every relay is spoken to once more; then wait for all of it."""
        assert self._feeding is not None
        self._enough.set()
        await self._feeding
        await self.hand_in_some()
        await self.all_settled()

    async def _feed(self, pause: float) -> None:
        while not self._enough.is_set():
            await self.hand_in_some()
            await asyncio.sleep(pause)

    async def hand_in_some(self) -> None:
        first = await self._hand_in(self._signed())
        await self._hand_in(self._draft())
        await self._hand_in(self._signed(), after=first)
        await self._hand_in(self._draft(), after=first)
        later = wall() + self._chance.randrange(500, 2000)
        await self._hand_in(self._signed(), due_at=later)
        await self._hand_in(self._draft(), due_at=later)

    def _draft(self) -> Event:
        self._count += 1
        draft = {"pubkey": public_key(SECRET), "created_at": int(time.time()), "kind": 1}
        return {**draft, "tags": [], "content": f"item {self._count}"}

    def _signed(self) -> Event:
        draft = self._draft()
        return make_event(SECRET, content=draft["content"], created_at=draft["created_at"])

    async def _hand_in(
        self, item: Event, after: int | None = None, due_at: int | None = None
    ) -> int:
        """Again and again until it is accepted, as a caller would while the database is away."""
        waits_for = () if after is None else (after,)
        async with asyncio.timeout(PATIENCE):
            while True:
                try:
                    handle = await self._outbox.publish(
                        item, at=_moment(due_at), after=waits_for, policy=QUICK
                    )
                except StoreError:
                    await asyncio.sleep(0.1)
                    continue
                self.given[handle.id] = Given(item["content"], due_at, after)
                return handle.id

    async def all_settled(self) -> None:
        """Wait until nothing that was handed in is open."""

        async def is_over() -> bool:
            status = await self._outbox.status()
            return not (status.pending or status.scheduled or status.open_deliveries)

        await until(is_over)


def _moment(at: int | None) -> datetime | None:
    return None if at is None else datetime.fromtimestamp(at / 1000, UTC)


@asynccontextmanager
async def feeder_at(dsn: str, relays: list[WatchedRelay], seed: int = 7) -> AsyncIterator[Feeder]:
    settings = Settings(poll=0.1, autopilot=False, indexers=())
    urls = [relay.url for relay in relays]
    async with Outbox.open(dsn, relays=urls, settings=settings, deliver=False) as outbox:
        yield Feeder(outbox, random.Random(seed))


async def until(condition: Callable[[], Awaitable[bool]], within: float = PATIENCE) -> None:
    """Wait for what nobody tells; what the store cannot say for the moment is asked again."""
    async with asyncio.timeout(within):
        while True:
            try:
                if await condition():
                    return
            except StoreError:
                pass
            await asyncio.sleep(0.05)
