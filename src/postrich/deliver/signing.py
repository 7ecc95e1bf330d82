"""The signing desk: drafts become events as soon as somebody can sign them.

Promises: a draft is signed as it is or not at all; a signer's trouble costs sign attempts of
that job only, and a slow one holds up no other account; when a signer comes, what waits for it
goes on at once (A6). Works under one lease per account, given up when nothing is under way:
another process may have the signer that this one lacks.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter

import msgspec

from postrich.deliver import loop
from postrich.deliver.fleet import Fleet
from postrich.deliver.loop import Loop
from postrich.deliver.shared import Shared
from postrich.errors import PostrichError, SignerError, SignerUnavailable
from postrich.model.delivery import Fence
from postrich.model.job import JobChange, JobError, Phase, Unsigned
from postrich.rules.backoff import compute_next_attempt
from postrich.rules.redact import redact
from postrich.sign.chooser import SPOKEN

log = logging.getLogger("postrich.signing")

BATCH = 256
#: How long a draft may be due before a process that cannot sign it says so: another one may.
GRACE_MS = 1000


class SigningDesk(Loop):
    """Signs the drafts of all accounts of this process, and says what nobody can sign."""

    name = "signing"

    def __init__(self, shared: Shared, fleet: Fleet, stager: Loop) -> None:
        super().__init__()
        self._shared = shared
        self._fleet = fleet
        self._stager = stager
        self._under_way: dict[str, dict[int, asyncio.Task[None]]] = {}
        self._fences: dict[str, Fence] = {}
        self._came: set[str] = set()
        self._comings: Counter[str] = Counter()

    def signer_came(self, pubkey: str) -> None:
        """The account can sign now."""
        self._came.add(pubkey)
        self._comings[pubkey] += 1
        self.wake()

    async def pass_once(self) -> float | None:
        await self._resume()
        pause = self._shared.settings.poll
        for pubkey, due in await self._shared.store.unsigned():
            now = self._shared.clock.now()
            ours = pubkey in self._shared.signers
            at = due if ours else due + GRACE_MS
            if at > now:
                pause = min(pause, (at - now) / 1000)
            elif await self._begin(pubkey, now, ours=ours):
                pause = 0.0
        await self._let_go()
        return pause

    async def finish(self) -> None:
        """A signature that is still awaited costs no attempt: it is asked for again (B8)."""
        tasks = [task for jobs in self._under_way.values() for task in jobs.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _resume(self) -> None:
        shared = self._shared
        while self._came:
            pubkey = self._came.pop()
            try:
                changes, destinations = await shared.store.signer_came(pubkey, shared.clock.now())
            except PostrichError:
                self._came.add(pubkey)  # the next pass tells it
                raise
            shared.on_changes(changes)
            if destinations:
                self._fleet.hint(destinations)

    async def _begin(self, pubkey: str, now: int, *, ours: bool) -> bool:
        """Begin what there is room for; False where the rest must wait for its turn."""
        jobs = self._under_way.setdefault(pubkey, {})
        room = (self._shared.signers.room(pubkey) if ours else BATCH) - len(jobs)
        if room <= 0:
            return False
        fence = await self._hold(pubkey, now)
        if fence is None:
            return False
        store = self._shared.store
        items = await store.drafts_due(pubkey, now, min(room, BATCH), list(jobs))
        for item in items:
            jobs[item.job] = asyncio.create_task(self._sign_aside(fence, item))
        return bool(items)

    async def _hold(self, pubkey: str, now: int) -> Fence | None:
        shared = self._shared
        until = now + round(shared.settings.lease * 1000)
        fence = await shared.store.take_lease(f"sign:{pubkey}", shared.owner, now, until)
        if fence is not None:
            self._fences[pubkey] = fence
        return fence

    async def _let_go(self) -> None:
        for pubkey, fence in list(self._fences.items()):
            if not self._under_way.get(pubkey):
                del self._fences[pubkey]
                await self._shared.store.drop_lease(fence)

    async def _sign_aside(self, fence: Fence, item: Unsigned) -> None:
        try:
            self._shared.on_changes(await self._sign(fence, item))
        except PostrichError as problem:  # it is still to be signed, by whoever holds the lease
            log.error("job %s, phase sign: %s", item.job, problem)
            await asyncio.sleep(loop.AFTER_FAULT)
        finally:
            del self._under_way[item.draft.pubkey][item.job]
            self.wake()

    async def _sign(self, fence: Fence, item: Unsigned) -> list[JobChange]:
        shared = self._shared
        comings = self._comings[item.draft.pubkey]
        try:
            event, means = await shared.signers.sign_by_whom(item.draft)
        except SignerError as problem:
            return await self._not_signed(fence, item, problem, comings)
        log.debug(
            "job %s, phase sign, attempts %s: signed by %s (%s)",
            item.job,
            item.sign_attempts + 1,
            SPOKEN[means],
            means,
        )
        changes = await shared.store.signed(
            fence, item.job, event, shared.clock.now(), f"by {SPOKEN[means]}"
        )
        self._stager.wake()
        return changes

    async def _not_signed(
        self, fence: Fence, item: Unsigned, problem: SignerError, comings: int
    ) -> list[JobChange]:
        shared = self._shared
        now = shared.clock.now()
        attempts = item.sign_attempts + 1
        next_at = self._next_attempt(item, problem, now)
        is_away = isinstance(problem, SignerUnavailable)
        if is_away and next_at is not None and self._comings[item.draft.pubkey] != comings:
            next_at = now  # it came while we heard that it is away
        log.log(
            logging.DEBUG if is_away else logging.ERROR,
            "job %s, phase sign, attempts %s, next attempt %s, signer %s: %s: %s",
            item.job,
            attempts,
            next_at or "none",
            ", ".join(shared.signers.of(item.draft.pubkey)) or "none",
            problem.code,
            redact(str(problem)),
        )
        error = JobError(Phase.SIGN, problem.code, str(problem))
        return await shared.store.not_signed(
            fence, item.job, error, next_at, problem.needs_person, now
        )

    def _next_attempt(self, item: Unsigned, problem: SignerError, now: int) -> int | None:
        """When to ask again; None where that is for a person, or past the job's lifetime."""
        if problem.needs_person:
            return None
        policy = msgspec.structs.replace(item.policy, max_attempts=None)  # a signer is waited for
        following = compute_next_attempt(
            item.sign_attempts + 1, policy, now, self._shared.clock.chance()
        )
        return following.at if following and following.at < item.expires_at else None
