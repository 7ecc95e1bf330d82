"""The stager: signs drafts and sends due jobs on their way to the lanes.

Promises: a draft is signed as it is or not at all; a signer's trouble costs sign attempts of
that job only, and a slow signer holds up nobody else's; jobs wait for those they depend on.
Works under one lease per store, which is given up when there is nothing to do: another process
may have the signer that this one lacks.
"""

from __future__ import annotations

import asyncio
import logging

import msgspec

from postrich.deliver import loop
from postrich.deliver.fleet import Fleet
from postrich.deliver.loop import Loop
from postrich.deliver.shared import Shared
from postrich.errors import PostrichError, SignerError, SignerRejected
from postrich.model.delivery import Fence
from postrich.model.event import Draft
from postrich.model.job import JobChange, JobError, JobFilter, JobState, Phase, StageItem
from postrich.rules.backoff import compute_next_attempt
from postrich.rules.redact import redact

log = logging.getLogger("postrich.stager")

BATCH = 256
LEASE = "stage"


class Stager(Loop):
    """Moves jobs from `pending-sign` and `scheduled` towards the lanes."""

    name = "stager"

    def __init__(self, shared: Shared, fleet: Fleet) -> None:
        super().__init__()
        self._shared = shared
        self._fleet = fleet
        self._fence: Fence | None = None
        self._signing: dict[int, asyncio.Task[None]] = {}
        self._came: set[str] = set()

    def signer_came(self, pubkey: str) -> None:
        """The account can sign now: what waits for that goes on at once (A6)."""
        self._came.add(pubkey)
        self.wake()

    async def pass_once(self) -> float | None:
        shared = self._shared
        now = shared.clock.now()
        while self._came:
            waiting = JobFilter(states=(JobState.PENDING_SIGN,), pubkey=self._came.pop())
            shared.on_changes(await shared.store.retry(waiting, now))
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
        """A signature that is still awaited costs no attempt: it is asked for again (B8)."""
        for task in self._signing.values():
            task.cancel()
        await asyncio.gather(*self._signing.values(), return_exceptions=True)

    async def _let_go(self) -> None:
        if self._fence is not None and not self._signing:
            fence, self._fence = self._fence, None
            await self._shared.store.drop_lease(fence)

    def _until(self, due: int | None, now: int) -> float:
        pause = self._shared.settings.poll
        return pause if due is None else min(pause, max(0.0, (due - now) / 1000))

    async def _stage(self, fence: Fence, now: int) -> bool:
        """Send on what is ready, begin to sign the rest; False where all of it is under way."""
        items = await self._shared.store.stage_due(now, BATCH)
        fresh = [item for item in items if item.job not in self._signing]
        for item in fresh:
            if item.state is JobState.PENDING_SIGN:
                signing = asyncio.create_task(self._sign_aside(fence, item))
                self._signing[item.job] = signing
        ready = [item for item in fresh if item.state is not JobState.PENDING_SIGN]
        if ready:
            routed, destinations = await self._shared.store.route(fence, ready, now)
            self._fleet.hint(destinations)
            self._shared.on_changes(routed)
        return bool(fresh)

    async def _sign_aside(self, fence: Fence, item: StageItem) -> None:
        try:
            self._shared.on_changes(await self._sign(fence, item))
        except PostrichError as problem:  # it is still to be signed, by whoever holds the lease
            log.error("job %s, phase sign: %s", item.job, problem)
            await asyncio.sleep(loop.AFTER_FAULT)
        finally:
            del self._signing[item.job]
            self.wake()

    async def _sign(self, fence: Fence, item: StageItem) -> list[JobChange]:
        shared = self._shared
        draft = msgspec.json.decode(item.body, type=Draft)
        try:
            event = await shared.signers.sign(draft)
        except SignerError as problem:
            return await self._not_signed(fence, item, problem)
        log.debug("job %s, phase sign: signed by %s…", item.job, draft.pubkey[:8])
        return await shared.store.signed(fence, item.job, event, shared.clock.now())

    async def _not_signed(
        self, fence: Fence, item: StageItem, problem: SignerError
    ) -> list[JobChange]:
        shared = self._shared
        now = shared.clock.now()
        attempts = item.sign_attempts + 1
        park = isinstance(problem, SignerRejected)
        policy = msgspec.structs.replace(item.policy, max_attempts=None)  # a signer is waited for
        following = compute_next_attempt(attempts, policy, now, shared.clock.chance())
        next_at = following.at if following and not park else None
        if next_at is not None and next_at >= item.expires_at:
            next_at = None
        log.debug(
            "job %s, phase sign, attempts %s, next attempt %s: %s",
            item.job,
            attempts,
            next_at or "none",
            redact(str(problem)),
        )
        error = JobError(Phase.SIGN, problem.code, str(problem))
        return await shared.store.not_signed(fence, item.job, error, next_at, park, now)
