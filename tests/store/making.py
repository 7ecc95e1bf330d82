"""What the store's tests are made of: cheap events, jobs, a lane's and a stager's hand.

Promises: everything goes through the port, time is a plain number, and no signature is real
(the store keeps bytes, it does not check them).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from postrich.model.delivery import (
    NO_FLOORS,
    Delivery,
    DeliveryState,
    Destination,
    Fence,
    Floors,
    Settlement,
    Target,
)
from postrich.model.event import Draft, Event, make_draft, seal
from postrich.model.hook import Hook, HookEvent, HookState
from postrich.model.job import (
    Job,
    JobChange,
    JobError,
    JobFilter,
    JobState,
    NewJob,
    Phase,
    RetryPolicy,
    Routed,
    StageItem,
    Unsigned,
)
from postrich.rules.backoff import PRESETS
from postrich.store.port import Results, Store

NOW = 1_700_000_000_000
SECOND = 1_000
HOUR = 3_600 * SECOND
DAY = 24 * HOUR
CREATED = NOW // 1000

ALICE = "a1" * 32
BOB = "b0" * 32
RED = "wss://red.example/"
BLUE = "wss://blue.example/"
GREEN = "wss://green.example/"

INTERACTIVE = PRESETS["interactive"]
CAPTURE = PRESETS["capture"]
EVERYTHING = JobFilter()

Tags = Sequence[Sequence[str]]


def draft(
    text: str = "hello", *, author: str = ALICE, at: int = CREATED, kind: int = 1, tags: Tags = ()
) -> Draft:
    return make_draft(author, at, kind, tags, text)


def note(
    text: str = "hello", *, author: str = ALICE, at: int = CREATED, kind: int = 1, tags: Tags = ()
) -> Event:
    return signature_of(draft(text, author=author, at=at, kind=kind, tags=tags))


def signature_of(content: Draft) -> Event:
    """The event that a signer would make of a draft."""
    return seal(content, "5e" * 64)


def wish(
    content: Draft | Event | str,
    *relays: str,
    policy: RetryPolicy = INTERACTIVE,
    expires_at: int = NOW + 3 * DAY,
    **more: Any,
) -> NewJob:
    """A job as a door hands it in, for the red relay unless told otherwise."""
    body = note(content) if isinstance(content, str) else content
    targets = tuple(Target(url, "your write relay") for url in relays or (RED,))
    return NewJob(body, targets, policy, expires_at, **more)


async def hand_in(store: Store, content: Draft | Event | str, *relays: str, **more: Any) -> int:
    """Accept one job; returns its number."""
    now = more.pop("now", NOW)
    admission = await store.accept([wish(content, *relays, **more)], now)
    return admission.accepted[0].job


async def look(store: Store, number: int) -> Job:
    [job] = await store.jobs(JobFilter(jobs=(number,)), 1)
    return job


async def state_of(store: Store, number: int) -> JobState:
    return (await look(store, number)).state


def where(job: Job, url: str) -> Delivery:
    [delivery] = [delivery for delivery in job.deliveries if delivery.relay == url]
    return delivery


def named(*numbers: int) -> JobFilter:
    return JobFilter(jobs=numbers)


class Hand:
    """A lane as the store sees one: a lease on a relay, claims and results."""

    def __init__(self, store: Store, destination: Destination, fence: Fence) -> None:
        self.store = store
        self.destination = destination
        self.fence = fence

    async def claim(
        self,
        now: int = NOW,
        fresh: int = 100,
        retried: int = 100,
        holding: Sequence[int] = (),
        small: int | None = None,
        after: Floors = NO_FLOORS,
    ) -> list[tuple[int, int]]:
        """What is due, as (job, attempts)."""
        place = self.destination.id
        claimed = await self.store.claim(place, now, fresh, retried, holding, small, after)
        return [(due.job, due.attempts) for due in claimed]

    async def jobs(self, now: int = NOW) -> list[int]:
        return [job for job, _ in await self.claim(now)]

    async def deliver(self, *jobs: int, now: int = NOW) -> list[JobChange]:
        """Plain OKs."""
        return await self.store.settle(Results(self.fence, self.destination.id, jobs, ()), now)

    async def report(self, *others: Settlement, now: int = NOW) -> list[JobChange]:
        """Everything else."""
        return await self.store.settle(Results(self.fence, self.destination.id, (), others), now)


async def lane(store: Store, url: str = RED, owner: str = "worker") -> Hand:
    """The lane of a relay that has open deliveries."""
    [work] = [work for work in await store.work() if work.destination.url == url]
    fence = await store.take_lease(f"relay:{work.destination.id}", owner, NOW, NOW + HOUR)
    assert fence is not None
    return Hand(store, work.destination, fence)


def ended(
    job: int,
    state: DeliveryState,
    attempts: int = 1,
    *,
    code: str = "error",
    detail: str = "no",
    burnt: bool = True,
) -> Settlement:
    """A result that settles a delivery."""
    return Settlement(job, state, attempts, NOW, code, detail, burnt)


def again(
    job: int,
    attempts: int = 1,
    *,
    at: int = NOW + 5 * SECOND,
    code: str = "timeout",
    detail: str = "no answer",
    burnt: bool = True,
) -> Settlement:
    """A result after which the delivery waits for another attempt."""
    return Settlement(job, DeliveryState.WAITING, attempts, at, code, detail, burnt)


def late_ok(job: int, attempts: int = 1) -> Settlement:
    """An OK for an attempt that was given up, and counted, before."""
    return ended(job, DeliveryState.DELIVERED, attempts, code="late", detail="", burnt=False)


async def stage(store: Store, owner: str = "worker") -> Fence:
    fence = await store.take_lease("stage", owner, NOW, NOW + HOUR)
    assert fence is not None
    return fence


async def route_all(store: Store, now: int = NOW) -> list[JobChange]:
    """What the stager does with signed jobs that are due."""
    due = await store.stage_due(now, 100)
    changes, _ = await store.route(await stage(store), routed(due), now)
    return changes


def routed(items: Sequence[StageItem]) -> list[Routed]:
    """Each to where it was meant to go."""
    return [Routed(item, item.targets) for item in items]


async def desk(store: Store, owner: str = "worker") -> Fence:
    fence = await store.take_lease("sign:somebody", owner, NOW, NOW + HOUR)
    assert fence is not None
    return fence


async def drafts(store: Store, now: int = NOW, limit: int = 100) -> list[Unsigned]:
    """What the signing desk is given, of all accounts."""
    found = [await store.drafts_due(pubkey, now, limit) for pubkey, _ in await store.unsigned()]
    return [item for items in found for item in items]


async def publish(store: Store, number: int, now: int = NOW) -> None:
    """Let every relay of a job take it, stager included."""
    if await store.stage_due(now, 100):
        await route_all(store, now)
    for delivery in (await look(store, number)).deliveries:
        if delivery.state is DeliveryState.WAITING:
            await (await lane(store, delivery.relay)).deliver(number, now=now)


async def fail(store: Store, number: int, now: int = NOW) -> None:
    """Let every relay of a job refuse it."""
    for delivery in (await look(store, number)).deliveries:
        hand = await lane(store, delivery.relay)
        await hand.report(ended(number, DeliveryState.REFUSED, code="blocked"), now=now)


async def park(store: Store, number: int, now: int = NOW) -> None:
    """Let every relay of a job ask for something that only a person can give."""
    for delivery in (await look(store, number)).deliveries:
        hand = await lane(store, delivery.relay)
        await hand.report(ended(number, DeliveryState.PARKED, code="restricted"), now=now)


async def cannot_sign(
    store: Store, number: int, *, park: bool = False, next_at: int | None = None, now: int = NOW
) -> list[JobChange]:
    """Let the signer say no, for good unless `next_at` says when to ask again."""
    error = JobError(Phase.SIGN, "USER_REJECTED" if park else "TIMEOUT", "the signer said no")
    return await store.not_signed(await desk(store), number, error, next_at, park, now)


async def snapshot(store: Store) -> bytes:
    """All that can be seen of the store, to show that a verb wrote nothing."""
    jobs = await store.jobs(EVERYTHING, 1000)
    stories = [await store.story(job.id) for job in jobs]
    return msgspec.json.encode((jobs, stories, await store.status(), await store.backlog()))


KEY = "0123456789abcdef"


async def keep_hook(
    store: Store, name: str = "hook_a", *events: HookEvent, pubkey: str = "", key: str = KEY
) -> Hook:
    """A hook for these events, or for all of them."""
    url = f"https://{name.replace('_', '-')}.example/"
    hook = Hook(name, pubkey, url, events or tuple(HookEvent), HookState.ACTIVE, NOW, key)
    await store.keep_hook(hook)
    return hook
