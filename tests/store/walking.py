"""A random walk over the port: every step is a verb, and after every step the ledger looks."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable

from postrich.errors import IllegalMove, LeaseLost, UnknownJob
from postrich.model.delivery import DeliveryState, Fence, Settlement
from postrich.model.event import Draft, Event
from postrich.model.job import (
    Job,
    JobChange,
    JobError,
    JobFilter,
    JobState,
    NewJob,
    Phase,
    Priority,
)
from postrich.rules.lifecycle import (
    CANCELLABLE,
    DELETABLE,
    REOPENED,
    RETRIABLE,
)
from postrich.store.port import Results, Store
from tests.store.auditing import audit
from tests.store.ledger import Ledger, is_routed
from tests.store.making import (
    ALICE,
    BLUE,
    BOB,
    CAPTURE,
    CREATED,
    DAY,
    GREEN,
    HOUR,
    INTERACTIVE,
    NOW,
    RED,
    SECOND,
    draft,
    drafts,
    named,
    note,
    routed,
    signature_of,
    wish,
)

RELAYS = (RED, BLUE, GREEN)
D = DeliveryState
Verb = Callable[[], Awaitable[None]]


class Walk:
    """One walk: a store, a seed, a clock that the walk itself turns."""

    def __init__(self, reopen: Callable[[], Awaitable[Store]], seed: int) -> None:
        self._reopen = reopen
        self.random = random.Random(seed)
        self.ledger = Ledger()
        self.now = NOW
        self.number = 0
        self.destinations: dict[str, int] = {}
        self.store: Store
        self.verbs: dict[Verb, int] = {
            self.accept_new: 10,
            self.accept_again: 4,
            self.accept_for_nobody: 1,
            self.settle: 14,
            self.settle_late: 3,
            self.settle_without_lease: 1,
            self.stage: 6,
            self.retry: 3,
            self.cancel: 2,
            self.delete: 2,
            self.tidy: 2,
            self.wait: 4,
            self.restart: 1,
        }

    async def run(self, steps: int) -> None:
        self.store = await self._reopen()
        weights = list(self.verbs.values())
        for _ in range(steps):
            [verb] = self.random.choices(list(self.verbs), weights)
            await verb()
            self.ledger.look(await audit(self.store))
            await self._note_destinations()

    async def _note_destinations(self) -> None:
        for work in await self.store.work():
            number = self.destinations.setdefault(work.destination.url, work.destination.id)
            assert number == work.destination.id

    # -- accept -----------------------------------------------------------------------------

    async def accept_new(self) -> None:
        batch = [self._new_job() for _ in range(self.random.randint(1, 4))]
        await self._accept(batch)

    async def accept_again(self) -> None:
        if not self.ledger.contents:
            return
        number = self._any_job()
        content = self.ledger.contents[number]
        if isinstance(content, Draft) and self.random.random() < 0.5:
            content = signature_of(content)
        await self._accept([wish(content, *self._relays(), expires_at=self.now + DAY)])

    async def accept_for_nobody(self) -> None:
        """A need that does not exist: refused, with nothing kept."""
        batch = [self._new_job(), wish(f"orphan {self.number}", after=(10**9,))]
        try:
            await self.store.accept(batch, self.now)
        except UnknownJob:
            return
        raise AssertionError("a job that waits for nobody was taken")

    async def _accept(self, batch: list[NewJob]) -> None:
        admission = await self.store.accept(batch, self.now)
        ledger = self.ledger
        ledger.tell(admission.changes)
        for accepted, job in zip(admission.accepted, batch, strict=True):
            known = {content.id for content in ledger.contents.values()}
            assert accepted.event_id == job.content.id
            assert accepted.is_new == (accepted.event_id not in known)
            if accepted.is_new:
                ledger.contents[accepted.job] = job.content
                ledger.kept.add(accepted.job)
            elif accepted.job in ledger.kept:  # it may have been signed or reopened: ask
                [found] = await self.store.jobs(named(accepted.job), 1)
                assert accepted.state is found.state
                ledger.tell([JobChange(found.id, found.state, found.is_finished)])

    def _new_job(self) -> NewJob:
        chance = self.random.random
        content: Draft | Event = self._content()
        if chance() < 0.3:
            content = draft(
                content.content,
                author=content.pubkey,
                at=content.created_at,
                kind=content.kind,
                tags=content.tags,
            )
        kept = sorted(self.ledger.kept)
        needs = self.random.sample(kept, min(len(kept), self.random.choice((0, 0, 0, 1, 2))))
        return wish(
            content,
            *self._relays(),
            policy=self.random.choice((INTERACTIVE, CAPTURE)),
            expires_at=self.now + self.random.choice((HOUR, DAY)),
            due_at=self.now + self.random.choice((-HOUR, SECOND, HOUR)) if chance() < 0.3 else None,
            priority=self.random.choice(list(Priority)),
            goal=self.random.choice((1, 1, 1, 2)),
            after=tuple(needs),
        )

    def _content(self) -> Event:
        """Mostly notes; sometimes a version of a profile, a deletion or a vanish request."""
        self.number += 1
        author = self.random.choice((ALICE, ALICE, BOB))
        kind = self.random.choices((1, 0, 5, 62), (12, 4, 2, 1))[0]
        tags: list[tuple[str, str]] = []
        if kind == 5:
            tags = [("e", content.id) for content in self._some_contents()]
            tags.append(("a", f"0:{author}:"))
        elif kind == 62:
            tags = [("relay", self.random.choice((*RELAYS, "ALL_RELAYS")))]
        at = CREATED + self.random.randint(0, 50)
        return note(f"event {self.number}", author=author, at=at, kind=kind, tags=tags)

    def _some_contents(self) -> list[Draft | Event]:
        known = [self.ledger.contents[number] for number in sorted(self.ledger.contents)]
        return self.random.sample(known, min(len(known), 2))

    def _relays(self) -> list[str]:
        return self.random.sample(RELAYS, self.random.randint(1, 3))

    def _any_job(self) -> int:
        return self.random.choice(sorted(self.ledger.contents))

    # -- lanes ------------------------------------------------------------------------------

    async def settle(self) -> None:
        """What a lane does: claim, then tell what became of it."""
        if not self.destinations:
            return
        relay = self.random.choice(sorted(self.destinations))
        claimed = await self.store.claim(self.destinations[relay], self.now, 5, 5, [])
        for job, attempts, *_ in claimed:
            assert attempts == self.ledger.attempts.get((job, relay), 0)
        await self._settle(relay, [due.job for due in claimed])

    async def settle_late(self) -> None:
        """Answers for jobs that may have been given up, finished, deleted or archived."""
        if self.destinations and self.ledger.contents:
            relay = self.random.choice(sorted(self.destinations))
            await self._settle(relay, sorted({self._any_job() for _ in range(3)}))

    async def _settle(self, relay: str, jobs: list[int]) -> None:
        delivered = [job for job in jobs if self.random.random() < 0.4]
        others = [self._result(job, relay) for job in jobs if job not in delivered]
        hot = await self._hot(relay)
        fence = await self._lease(f"relay:{relay}")
        results = Results(fence, self.destinations[relay], delivered, others)
        self.ledger.tell(await self.store.settle(results, self.now))
        for job in delivered:
            if job in hot and hot[job] is not D.DELIVERED:
                self._count(job, relay)
        for other in others:
            if other.job in hot and other.burnt:
                self._count(other.job, relay)

    async def _hot(self, relay: str) -> dict[int, DeliveryState]:
        """Deliveries there that can still be told of: not planned, not archived."""
        parcels = {p.job for p in await self.store.parcels(sorted(self.ledger.kept))}
        return {
            job.id: delivery.state
            for job in self.ledger.seen.values()
            for delivery in job.deliveries
            if delivery.relay == relay and job.id in parcels and is_routed(job)
        }

    def _result(self, job: int, relay: str) -> Settlement:
        before = self.ledger.attempts.get((job, relay), 0)
        state = self.random.choices(list(D), [8 if s is D.WAITING else 1 for s in D])[0]
        burnt = self.random.random() < 0.8
        at = self.now + self.random.choice((0, SECOND, HOUR))
        code = "timeout" if state is D.WAITING else "why"
        return Settlement(job, state, before + burnt, at, code, "because", burnt)

    def _count(self, job: int, relay: str) -> None:
        key = (job, relay)
        self.ledger.attempts[key] = self.ledger.attempts.get(key, 0) + 1

    async def settle_without_lease(self) -> None:
        if not self.destinations or not self.ledger.contents:
            return
        relay = self.random.choice(sorted(self.destinations))
        jobs = [self._any_job()]
        stale = Fence(f"relay:{relay}", "nobody", 1)
        results = Results(stale, self.destinations[relay], jobs, [self._result(jobs[0], relay)])
        try:
            await self.store.settle(results, self.now)
        except LeaseLost:
            return
        raise AssertionError("results were written without a lease")

    async def _lease(self, name: str) -> Fence:
        fence = await self.store.take_lease(name, "worker", self.now, self.now + HOUR)
        assert fence is not None
        return fence

    # -- stager -----------------------------------------------------------------------------

    async def stage(self) -> None:
        await self._sign()
        fence = await self._lease("stage")
        ready = await self.store.stage_due(self.now, 10)
        changes, _ = await self.store.route(fence, routed(ready), self.now)
        self.ledger.tell(changes)

    async def _sign(self) -> None:
        if self.random.random() < 0.3:
            for pubkey, _ in await self.store.unsigned():
                self.ledger.tell((await self.store.signer_came(pubkey, self.now))[0])
        fence = await self._lease("sign:somebody")
        for item in await drafts(self.store, self.now, 10):
            content = self.ledger.contents[item.job]
            assert isinstance(content, Draft)
            assert content.id == item.draft.id
            if self.random.random() < 0.6:
                event = signature_of(content)
                self.ledger.tell(await self.store.signed(fence, item.job, event, self.now))
                continue
            next_at = self.random.choice((None, self.now + SECOND))
            error = JobError(Phase.SIGN, "TIMEOUT", "away")
            park = self.random.random() < 0.5
            self.ledger.tell(
                await self.store.not_signed(fence, item.job, error, next_at, park, self.now)
            )

    # -- people -----------------------------------------------------------------------------

    async def retry(self) -> None:
        which = self._which()
        reset = [
            (job.id, delivery.relay)
            for job in self._meant(which)
            if job.state in RETRIABLE and job.policy.retry_resets
            for delivery in job.deliveries
            if delivery.state in REOPENED
        ]
        self.ledger.retried = True
        if await self._act(which, RETRIABLE, self.store.retry):
            for key in reset:
                self.ledger.attempts.pop(key, None)

    async def cancel(self) -> None:
        await self._act(self._which(), CANCELLABLE, self.store.cancel)

    async def _act(
        self,
        which: JobFilter,
        allowed: frozenset[JobState],
        act: Callable[[JobFilter, int], Awaitable[list[JobChange]]],
    ) -> bool:
        """Whether it was done; refused exactly where the table says so."""
        legal = self._is_legal(which, allowed)
        try:
            self.ledger.tell(await act(which, self.now))
        except (IllegalMove, UnknownJob):
            assert not legal
            return False
        assert legal
        return True

    async def delete(self) -> None:
        which = JobFilter(states=(JobState.CANCELLED,))
        if self.random.random() < 0.8 and self.ledger.contents:
            which = named(self._any_job())
        legal = self._is_legal(which, DELETABLE)
        try:
            gone = await self.store.delete(which)
        except (IllegalMove, UnknownJob):
            assert not legal
            return
        assert legal
        for number in gone:
            self.ledger.kept.remove(number)
            del self.ledger.contents[number]

    def _which(self) -> JobFilter:
        if self.random.random() < 0.3 or not self.ledger.contents:
            return JobFilter(states=(self.random.choice(list(JobState)),), pubkey=ALICE)
        return named(self._any_job())

    def _meant(self, which: JobFilter) -> list[Job]:
        return [
            job
            for job in self.ledger.seen.values()
            if (not which.jobs or job.id in which.jobs)
            and (not which.states or job.state in which.states)
            and (which.pubkey is None or job.pubkey == which.pubkey)
        ]

    def _is_legal(self, which: JobFilter, allowed: frozenset[JobState]) -> bool:
        meant = {job.id: job.state for job in self._meant(which)}
        return all(number in meant and meant[number] in allowed for number in which.jobs)

    # -- time -------------------------------------------------------------------------------

    async def wait(self) -> None:
        self.now += self.random.choice((1, SECOND, 10 * SECOND, HOUR))
        self.ledger.tell(await self.store.expire(self.now, self.random.randint(1, 20)))

    async def tidy(self) -> None:
        """Archive and prune a little; what is pruned is forgotten but stays known."""
        await self.store.archive(self.now - self.random.choice((0, HOUR)), 3)
        before = set(self.ledger.kept)
        pruned = await self.store.prune(self.now - HOUR, 1)
        shown = {job.id for job in await self.store.jobs(JobFilter(), 100_000)}
        gone = before - shown
        assert len(gone) == pruned
        for number in gone:
            assert self.ledger.seen[number].is_finished
        self.ledger.kept -= gone

    async def restart(self) -> None:
        self.store = await self._reopen()
