"""The stager: sends signed jobs on their way to the lanes when their hour has come.

Promises: nothing leaves before its time; jobs wait for those they depend on; a job whose relays
must be looked up holds up nobody else, and goes at once where it can (D11). Works under one
lease per store, which is given up when there is nothing to do.
"""

from __future__ import annotations

import asyncio
import logging

import msgspec

from postrich.deliver import loop
from postrich.deliver.fleet import Fleet
from postrich.deliver.loop import Loop
from postrich.deliver.shared import Shared
from postrich.errors import PostrichError
from postrich.model.delivery import Fence, Target
from postrich.model.event import Event, parse_event
from postrich.model.job import JobChange, JobError, JobState, Phase, Routed, StageItem
from postrich.route.router import Router
from postrich.rules.backoff import compute_next_attempt
from postrich.rules.relay_lists import KINDS
from postrich.rules.routing import NAMED, Plan

log = logging.getLogger("postrich.stager")

BATCH = 256
PLANS_AT_ONCE = 64
LEASE = "stage"
#: Relays that are known wait no longer for lists that are looked for.
MEANWHILE = 0.25


class Stager(Loop):
    """Moves jobs from `scheduled` and `signed-pending-publish` to the lanes."""

    name = "stager"

    def __init__(self, shared: Shared, fleet: Fleet, router: Router) -> None:
        super().__init__()
        self._shared = shared
        self._fleet = fleet
        self._router = router
        self._fence: Fence | None = None
        self._planning: dict[int, asyncio.Task[None]] = {}

    async def pass_once(self) -> float | None:
        shared = self._shared
        now = shared.clock.now()
        due = await shared.store.next_stage()
        if due is None or due > now:
            await self._let_go()
            return self._until(due, now)
        until = now + round(shared.settings.lease * 1000)
        self._fence = await shared.store.take_lease(LEASE, shared.owner, now, until)
        if self._fence is None or not await self._stage(self._fence, now):
            return shared.settings.poll
        return self._until(await shared.store.next_stage(), shared.clock.now())

    async def finish(self) -> None:
        """What was being planned is simply still due."""
        for task in self._planning.values():
            task.cancel()
        await asyncio.gather(*self._planning.values(), return_exceptions=True)

    async def _let_go(self) -> None:
        if self._fence is not None and not self._planning:
            fence, self._fence = self._fence, None
            await self._shared.store.drop_lease(fence)

    def _until(self, due: int | None, now: int) -> float:
        pause = self._shared.settings.poll
        return pause if due is None else min(pause, max(0.0, (due - now) / 1000))

    async def _stage(self, fence: Fence, now: int) -> bool:
        """Send on what has its targets, plan the rest aside; False where all is under way."""
        items = await self._shared.store.stage_due(now, BATCH, list(self._planning))
        routes = [(item, self._known_route(item)) for item in items]
        ready = [Routed(item, targets) for item, targets in routes if targets is not None]
        if ready:
            await self._route(fence, ready)
        begun = 0
        for item, targets in routes:
            if targets is None and len(self._planning) < PLANS_AT_ONCE:
                self._planning[item.job] = asyncio.create_task(self._plan_aside(fence, item))
                begun += 1
        return bool(ready) or begun > 0

    def _known_route(self, item: StageItem) -> tuple[Target, ...] | None:
        """Where a job goes, if nobody must be asked; None: it is planned aside."""
        if item.event is None:
            return item.targets
        event = _event_of(item)
        plan = self._router.plan_now(event) if event.kind not in KINDS else None
        if plan is None or plan.unresolved or not plan.targets:
            return None
        return _with_named(plan, item)

    async def _route(self, fence: Fence, jobs: list[Routed]) -> None:
        shared = self._shared
        now = shared.clock.now()
        routed, destinations = await shared.store.route(fence, jobs, now)
        self._note_lateness(jobs, now)
        self._fleet.hint(destinations)
        shared.on_changes(routed)

    def _note_lateness(self, jobs: list[Routed], now: int) -> None:
        """How well the alarm keeps its hours (F3); of jobs that go for the first time."""
        for routed in jobs:
            item = routed.item
            if item.due_at is not None and item.state is JobState.SCHEDULED:
                self._shared.meters.rang(now - item.due_at)

    async def _plan_aside(self, fence: Fence, item: StageItem) -> None:
        try:
            await self._plan_and_route(fence, item)
        except PostrichError as problem:  # it is still to be routed, by whoever holds the lease
            log.error("job %s, phase route: %s", item.job, problem)
            await asyncio.sleep(loop.AFTER_FAULT)
        except Exception:
            log.exception("job %s, phase route: unexpected fault", item.job)
            await asyncio.sleep(loop.AFTER_FAULT)
        finally:
            del self._planning[item.job]
            self.wake()

    async def _plan_and_route(self, fence: Fence, item: StageItem) -> None:
        event = _event_of(item)
        plan = await self._plan(fence, item, event)
        targets = _with_named(plan, item)
        if targets:
            again = self._again(item) if plan.unresolved else None
            await self._route(fence, [Routed(item, targets, again)])
        else:
            self._shared.on_changes(await self._not_routed(fence, item, plan))
        if event.kind in KINDS:  # after that, so that it goes to the old relays and the new
            await self._router.lists.learn(event)

    async def _plan(self, fence: Fence, item: StageItem, event: Event) -> Plan:
        """The plan; while lists are looked for, the event goes to where it goes in any case."""
        planning = asyncio.create_task(self._router.plan(event))
        try:
            done, _ = await asyncio.wait((planning,), timeout=MEANWHILE)
            if not done:
                known = await self._router.plan_meanwhile(event)
                if known.targets:
                    now = self._shared.clock.now()
                    await self._route(fence, [Routed(item, known.targets, now)])
            return await planning
        finally:
            planning.cancel()

    async def _not_routed(self, fence: Fence, item: StageItem, plan: Plan) -> list[JobChange]:
        """Nowhere to go for good, or nowhere as long as the lists cannot be looked up."""
        shared = self._shared
        if plan.refusal:
            error = JobError(Phase.PUBLISH, "NO_ROUTE", plan.refusal)
            next_at = None
        else:
            whom = ", ".join(f"{pubkey[:8]}…" for pubkey in plan.unresolved[:3])
            error = JobError(
                Phase.PUBLISH, "LISTS_UNAVAILABLE", f"the relay list of {whom} could not be read"
            )
            next_at = self._again(item)
        log.debug("job %s, phase route, next attempt %s: %s", item.job, next_at, error.message)
        return await shared.store.not_routed(fence, item.job, error, next_at, shared.clock.now())

    def _again(self, item: StageItem) -> int | None:
        """When to look for the lists again: by the job's policy, for as long as it lives."""
        clock = self._shared.clock
        policy = msgspec.structs.replace(item.policy, max_attempts=None)
        following = compute_next_attempt(
            item.route_attempts + 1, policy, clock.now(), clock.chance()
        )
        at = following.at if following else None
        return at if at is not None and at < item.expires_at else None


def _event_of(item: StageItem) -> Event:
    assert item.event is not None
    body = item.event.encode()
    return parse_event(body, len(body))


def _with_named(plan: Plan, item: StageItem) -> tuple[Target, ...]:
    """The plan's targets, and relays that were named when the event was handed in again (A9)."""
    planned = {target.url for target in plan.targets}
    named = [t for t in item.targets if t.reason == NAMED and t.url not in planned]
    return (*plan.targets, *named) if named else plan.targets
