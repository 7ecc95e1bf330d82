"""The stager: signs drafts and sends due jobs on their way to the lanes.

Promises: a draft is signed as it is or not at all; a signer's trouble costs sign attempts of
that job only; jobs wait for those they depend on. Held under one lease per store.
"""

from __future__ import annotations

import asyncio
import logging

import msgspec

from postrich.deliver.fleet import Fleet
from postrich.deliver.loop import Loop
from postrich.deliver.shared import Shared
from postrich.errors import SignerError, SignerRejected
from postrich.model.delivery import Fence
from postrich.model.event import Draft
from postrich.model.job import JobChange, JobError, JobState, Phase, StageItem
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

    async def pass_once(self) -> float | None:
        shared = self._shared
        now = shared.clock.now()
        due = await shared.store.next_stage()
        if due is None or due > now:
            return self._until(due, now)
        until = now + round(shared.settings.lease * 1000)
        fence = await shared.store.take_lease(LEASE, shared.owner, now, until)
        if fence is None:
            return shared.settings.poll
        await self._stage(fence, now)
        return self._until(await shared.store.next_stage(), shared.clock.now())

    def _until(self, due: int | None, now: int) -> float:
        pause = self._shared.settings.poll
        return pause if due is None else min(pause, max(0.0, (due - now) / 1000))

    async def _stage(self, fence: Fence, now: int) -> None:
        items = await self._shared.store.stage_due(now, BATCH)
        unsigned = [item for item in items if item.state is JobState.PENDING_SIGN]
        changes: list[JobChange] = []
        for outcome in await asyncio.gather(*(self._sign(fence, item) for item in unsigned)):
            changes += outcome
        ready = [item for item in items if item.state is not JobState.PENDING_SIGN]
        if ready:
            routed, destinations = await self._shared.store.route(fence, ready, now)
            changes += routed
            self._fleet.hint(destinations)
        self._shared.on_changes(changes)

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
        following = compute_next_attempt(attempts, item.policy, now, shared.clock.chance())
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
