"""Outboxes for tests: quick settings, notices to wait for, and a look into the engine."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import apsw

from postrich import Handle, Outbox, RetryPolicy, Settings
from postrich.clock import Clock, SystemClock
from postrich.deliver.lanes import Lane
from postrich.deliver.loop import Loop
from postrich.model.delivery import Delivery, DeliveryState
from postrich.model.job import Job
from postrich.observe.notices import DeliveryChanged, Notice, RelayChanged, Subscription
from postrich.sign.signer import Signer
from tests.relays.events import Event, make_event
from tests.relays.scripted import ScriptedRelay

#: How long a test waits for what must happen: long enough for a machine that is busy elsewhere.
PATIENCE = 30.0

#: Tries again almost at once, for ever.
QUICK = RetryPolicy("quick", delays=(0.02,), lifetime=600.0)
#: Tries again when the test is long over.
SLOW = RetryPolicy("slow", delays=(3600.0,), lifetime=86_400.0)

#: Where tests keep their outboxes, sqlite or postgres; some journeys choose for themselves.
STORE = os.environ.get("POSTRICH_TEST_STORE", "sqlite")
_schemas: dict[Path, str] = {}

N = TypeVar("N")


class SteadyClock(SystemClock):
    """The machine's time without chance: every jitter is at its shortest."""

    def chance(self) -> float:
        return 0.0


class JumpingClock(SteadyClock):
    """A clock whose times a test can put forward: the monotonic one, and that on the wall.

    It is right whatever a database says, whose clock would have gone forward as well.
    """

    def __init__(self) -> None:
        super().__init__()
        self.ahead = 0.0
        self.wall_ahead = 0.0

    def now(self) -> int:
        return super().now() + round(self.wall_ahead * 1000)

    def tick(self) -> float:
        return time.monotonic() + self.ahead

    def follow(self, ahead: int) -> None:
        pass


async def place_in(folder: Path) -> Path | str:
    """The folder's outbox: a file in it, or a schema of a PostgreSQL that stands for it."""
    if STORE == "sqlite":
        return folder / "outbox.db"
    if folder not in _schemas:
        from tests.store.servers import new_dsn

        _schemas[folder] = await new_dsn(f"folder{len(_schemas)}")
    return _schemas[folder]


@asynccontextmanager
async def outbox_at(
    folder: Path,
    *relays: ScriptedRelay | str,
    signer: Signer | None = None,
    clock: Clock | None = None,
    deliver: bool = True,
    **changes: Any,
) -> AsyncIterator[Outbox]:
    """An outbox in `folder` for these relays, whose timeouts suit a test."""
    chosen: dict[str, Any] = {
        "timeout": 20.0,
        "poll": 0.02,
        "policies": {"quick": QUICK, "slow": SLOW},
        "policy": "quick",
        "autopilot": False,
        "relay_info": False,
        **changes,
    }
    urls = [relay if isinstance(relay, str) else relay.url for relay in relays]
    async with Outbox.open(
        await place_in(folder),
        relays=urls,
        signer=signer,
        settings=Settings(**chosen),
        clock=clock or SteadyClock(),
        deliver=deliver,
    ) as outbox:
        yield outbox


def some_notes(count: int, secret: bytes | None = None, start: str = "note") -> list[Event]:
    """Events of one author, told apart by their content."""
    key = secret or os.urandom(32)
    return [make_event(key, content=f"{start} {number}") for number in range(count)]


def contents(events: Iterable[Event]) -> list[str]:
    return [event["content"] for event in events]


async def all_published(handles: Iterable[Any]) -> list[Job]:
    return [await handle.published(PATIENCE) for handle in handles]


async def all_settled(handles: Iterable[Any]) -> list[Job]:
    return [await handle.settled(PATIENCE) for handle in handles]


async def the_delivery(handle: Handle) -> Delivery:
    """The job's only delivery, as it stands."""
    (delivery,) = (await handle.status()).deliveries
    return delivery


async def hear(
    notices: Subscription,
    kind: type[N],
    wanted: Callable[[N], bool] = lambda _: True,
) -> N:
    """The next notice of that kind that is wanted; those before it are passed over."""
    async with asyncio.timeout(PATIENCE):
        async for notice in notices:
            if isinstance(notice, kind) and wanted(notice):
                return notice
    raise AssertionError(f"the outbox closed before a {kind.__name__} was heard")


async def hear_delivery(
    notices: Subscription, state: DeliveryState, code: str = ""
) -> DeliveryChanged:
    return await hear(notices, DeliveryChanged, lambda n: n.state is state and code in ("", n.code))


async def hear_breaker(notices: Subscription, state: str) -> RelayChanged:
    return await hear(notices, RelayChanged, lambda n: n.state == state)


def heard_so_far(notices: Subscription) -> list[Notice]:
    """What is waiting to be read, taken away."""
    found = list(notices._waiting)
    notices._waiting.clear()
    return found


def lane_of(outbox: Outbox, relay: ScriptedRelay | str) -> Lane:
    """The lane that works for a relay now."""
    url = relay if isinstance(relay, str) else relay.url
    lanes = {lane.destination.url: lane for lane in outbox.lanes()}
    return lanes[f"{url}/"]


async def run_sql(folder: Path, statement: str) -> list[tuple[Any, ...]]:
    """What no verb does, done to the outbox in that folder; the rows that it returns."""
    place = await place_in(folder)
    if isinstance(place, str):
        from tests.store.servers import Admin

        async with Admin(place) as admin:
            return [tuple(row) for row in await admin.link.fetch(statement)]
    database = apsw.Connection(str(place))
    try:
        database.set_busy_timeout(10_000)
        return list(database.execute(statement))
    finally:
        database.close()


async def steal_leases(folder: Path) -> None:
    """Another worker takes every lane, as after a pause of ours that outlasted the lease."""
    await run_sql(
        folder,
        "UPDATE leases SET owner = 'another', epoch = epoch + 1, lease_until = 9000000000000000",
    )


async def until(condition: Callable[[], bool]) -> None:
    """Wait for what no notice tells."""
    async with asyncio.timeout(PATIENCE):
        while not condition():
            await asyncio.sleep(0.002)


async def one_pass(loop: Loop) -> None:
    """Let the loop do a whole pass that begins after this call."""
    done = asyncio.Event()
    pass_once = loop.pass_once

    async def watched() -> float | None:
        try:
            return await pass_once()
        finally:
            done.set()

    loop.pass_once = watched  # type: ignore[method-assign]
    loop.wake()
    async with asyncio.timeout(PATIENCE):
        await done.wait()
    loop.pass_once = pass_once  # type: ignore[method-assign]


async def lane_for(outbox: Outbox, relay: ScriptedRelay) -> Lane:
    """The lane of a relay, once there is one."""
    await until(lambda: any(lane.destination.url == f"{relay.url}/" for lane in outbox.lanes()))
    return lane_of(outbox, relay)
