"""The library's face, and the one place that wires everything.

    async with Outbox.open("outbox.db", relays=[...], signer=signer) as outbox:
        job = await outbox.post("hello")
        await job.published()

Promises: what `publish` returns is on disk; it never waits for a relay or a signer.
"""

from __future__ import annotations

import asyncio
import logging
import os
import uuid
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path

import msgspec

from postrich.accept import Intake, Options, Publishable, parcel_of
from postrich.clock import Clock, SystemClock
from postrich.config import Settings, check_settings
from postrich.deliver.calendar import Calendar
from postrich.deliver.crew import crew
from postrich.deliver.fleet import Fleet, this_worker
from postrich.deliver.hooks import Messenger
from postrich.deliver.lanes import Lane
from postrich.deliver.lifeline import Lifeline, StatusTeller
from postrich.deliver.loop import Loop
from postrich.deliver.shared import Shared
from postrich.deliver.signing import SigningDesk
from postrich.deliver.stager import Stager
from postrich.errors import BadSetting, CallerError, UnknownJob
from postrich.hooks import HookDesk
from postrich.model.delivery import Parcel, Target
from postrich.model.event import Draft, Event
from postrich.model.job import (
    Accepted,
    Chapter,
    Job,
    JobChange,
    JobFilter,
    JobState,
    NewJob,
    Priority,
    QueueStatus,
    RetryPolicy,
)
from postrich.model.relay import RelayHealth
from postrich.model.worker import Worker
from postrich.observe.metrics import Measured
from postrich.observe.notices import (
    JobAccepted,
    JobChanged,
    Notices,
    SignerAsks,
    SignerCame,
    Subscription,
)
from postrich.route.backfill import Backfill, Copying
from postrich.route.courtesy import Courtesy
from postrich.route.cursors import Cursors
from postrich.route.relay_lists import RelayLists
from postrich.route.router import Router
from postrich.rules.limits import required_pow
from postrich.rules.relay_lists import KINDS, Lookup
from postrich.rules.routing import Plan, with_pow_relay
from postrich.rules.trust import DialPolicy
from postrich.schedule import ScheduleDesk
from postrich.series import SeriesDesk
from postrich.sign.browser import BrowserSession, BrowserSigner
from postrich.sign.chooser import Means
from postrich.sign.hook_master import HookMaster
from postrich.sign.mine import MiningProgress, mine
from postrich.sign.signer import Signer, Signers
from postrich.store import open_store
from postrich.store.places import Place
from postrich.store.port import Admission, Backlog, Store
from postrich.waiting import WaitingRoom, read_job
from postrich.wire.relay_info import fetch_infos

logging.getLogger("postrich").addHandler(logging.NullHandler())

CHUNK = 256
CHUNKS_AT_ONCE = 8
#: Seconds: the lifeline passes at least every second.
HANGS = 30.0


class Handle:
    """A job that was handed in: ask it, wait for it, change your mind about it."""

    def __init__(self, outbox: Outbox, accepted: Accepted) -> None:
        self._outbox = outbox
        self.id = accepted.job
        self.event_id = accepted.event_id
        self.is_new = accepted.is_new
        self.state = accepted.state

    async def status(self) -> Job:
        """The job as it stands, every relay included."""
        return await self._outbox.job(self.id)

    async def published(self, within: float | None = None) -> Job:
        """Wait until the goal is met; `JobFailed` where it cannot be, `TimeoutError` after."""
        return await self._outbox.wait(self.id, within)

    async def settled(self, within: float | None = None) -> Job:
        """Wait until every relay has settled, however it ended."""
        return await self._outbox.wait_settled(self.id, within)

    async def retry(self) -> None:
        await self._outbox.retry(JobFilter(jobs=(self.id,)))

    async def cancel(self) -> None:
        await self._outbox.cancel(JobFilter(jobs=(self.id,)))

    async def delete(self) -> None:
        await self._outbox.delete(JobFilter(jobs=(self.id,)))

    def __repr__(self) -> str:
        return f"Handle(job {self.id}, event {self.event_id[:8]}…)"


class Outbox:
    """A durable outbox: one store, one engine. Open it with `async with Outbox.open(…)`."""

    def __init__(
        self,
        store: Store,
        settings: Settings,
        clock: Clock,
        role: str,
        home: Path | None = None,
    ) -> None:
        self.settings = settings
        self.notices = Notices()
        self._store = store
        self._clock = clock
        self._signers = Signers(settings.sign_timeout)
        self._shared = Shared(
            store=store,
            clock=clock,
            settings=settings,
            notices=self.notices,
            signers=self._signers,
            owner=uuid.uuid4().hex,
            on_changes=self._on_changes,
        )
        self.meters = self._shared.meters
        self._waiting = WaitingRoom(store, self._shared.owner, settings.poll)
        self._lists = RelayLists(store, settings, clock, self._shared.dialling)
        self.router = Router(settings, self._lists, store, self._signers, clock)
        self._lists.on_changed = self._on_lists
        self._lists.hidden_tags = self._signers.hidden_tags
        self._shared.lists_relay = self._lists.names
        courtesy = Courtesy(self._lists, clock)
        self._shared.knock = courtesy.knock_for
        if settings.autopilot:
            self._shared.courtesy = courtesy.frame_for
        self._intake = Intake(
            settings, clock, self._signers, store, self._shared.network, self.router
        )
        self._fleet = Fleet(self._shared)
        self._stager = Stager(self._shared, self._fleet, self.router)
        self._desk = SigningDesk(self._shared, self._fleet, self._stager)
        self._signers.on_came = self._on_signer
        self._signers.on_challenge = lambda who, url: self.notices.publish(SignerAsks(who, url))
        self._shared.network.on_back.append(self._signers.nudge)
        self._lifeline = Lifeline(self._shared, self._fleet, role)
        self.series = SeriesDesk(
            store, clock, self._intake, self._on_accepted, self._changed_by_hand
        )
        self._calendar = Calendar(self._shared, self.series.make_job, self._on_accepted)
        self._status = StatusTeller(self._shared)
        master = HookMaster(home)
        self._messenger = Messenger(self._shared, master)
        self.hooks = HookDesk(store, settings, clock, master, self._messenger)
        self._role = role
        self._loops: tuple[Loop, ...] = (
            *(self._lifeline, self._messenger),
            *(self._fleet, self._stager, self._desk, self._calendar),
        )
        self.schedule = ScheduleDesk(
            store, clock, self._intake, self._on_accepted, self._changed_by_hand
        )

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        path: str | os.PathLike[str],
        *,
        relays: Iterable[str] = (),
        signer: Signer | None = None,
        settings: Settings | None = None,
        clock: Clock | None = None,
        deliver: bool = True,
        role: str = "library",
        home: Path | None = None,
    ) -> AsyncIterator[Outbox]:
        """Open or make the outbox at `path`; `deliver=False` only looks and hands in.

        `path` is that of a SQLite file, or a `postgresql://…` address. `home`: the folder with the
        secret of its hooks, where that is not the file's.
        """
        chosen = settings or Settings()
        if relays:
            chosen = msgspec.structs.replace(chosen, relays=tuple(relays))
        chosen = check_settings(chosen)
        store = await open_store(path)
        outbox = cls(store, chosen, clock or SystemClock(), role, home or _folder_of(path))
        if signer is not None:
            outbox.add_signer(signer)
        try:
            await outbox._start(deliver)
            yield outbox
        finally:
            await outbox._stop()

    async def _start(self, deliver: bool) -> None:
        self._waiting.delivers = deliver
        await self._lifeline.follow_time()
        self._store.listen(self._on_hint)
        self._status.start()
        if deliver:
            now = self._clock.now()
            await self._store.enlist(this_worker(self._shared.owner, self._role, now, now))
            for loop in self._loops:
                loop.start()

    async def _stop(self) -> None:
        for loop in (*reversed(self._loops), self._status):
            await loop.stop()
        await self._signers.close()
        await self.router.close()
        await self._lists.close()
        await self._shared.infos.close()
        await self._intake.close()
        self.notices.close()
        await self._store.close()

    def add_signer(self, signer: Signer) -> None:
        """A signer is at hand: drafts of its account that wait for it go on (A6).

        It belongs to the outbox now, which closes it at its own end.
        """
        self._signers.add(signer)

    def remove_signer(self, signer: Signer) -> None:
        """That signer is asked no more; what waits for it goes on waiting."""
        self._signers.remove(signer)

    def open_page(self, pubkey: str) -> BrowserSession:
        """A page that signs for this account was opened; close it when it is gone (NIP-07)."""
        found = self._signers.of(pubkey).get(Means.NIP07)
        signer = found if isinstance(found, BrowserSigner) else BrowserSigner(pubkey)
        if signer is not found:
            self._signers.add(signer)
        return signer.open()

    @property
    def trouble(self) -> str:
        """Why nothing is claimed now, for people: the store cannot be used. "": all is well."""
        return self._lifeline.trouble

    def troubles(self) -> list[str]:
        """Why nothing is claimed, signed or sent on its way now; empty: all is well (F8)."""
        found = [loop.trouble for loop in self._loops if loop.trouble]
        found += [f"the {loop.name} has stopped" for loop in self._loops if loop.has_ended]
        silent = asyncio.get_running_loop().time() - self._lifeline.passed_at
        if self._waiting.delivers and not found and silent > HANGS:
            found.append(f"the engine did nothing for {silent:.0f} s")
        return list(dict.fromkeys(found))

    async def measure(self) -> Measured:
        """The queue, its relays and its workers in figures (F8)."""
        return Measured(
            await self.status(),
            await self.backlog(),
            await self.health(),
            len(await self.workers()),
            len(self._fleet.lanes),
            self._clock.now(),
        )

    def signers(self) -> list[Signer]:
        """Who is asked to sign, and whether each is available."""
        return list(self._signers)

    def _on_hint(self) -> None:
        """Another process changed something: look, rather than wait for the next look."""
        self._waiting.stir()
        if self._waiting.delivers:
            self._fleet.hint()
            self._stager.wake()
            self._desk.wake()
            self._calendar.wake()

    def _on_lists(self) -> None:
        """Somebody's relay list changed: what depends on it is planned anew."""
        self.router.forget()
        self._stager.wake()

    async def plan(self, item: Publishable, options: Options | None = None) -> Plan:
        """Where an item would go, and why; nothing is kept or sent (D10)."""
        options = options or Options()
        content = await self.content(item)
        if not self._intake.is_auto(options):
            named = self._intake.targets(options)
            return Plan(with_pow_relay(named, content.tags, self.settings.pow_relay))
        return await self.router.plan(content)

    async def content(self, item: Publishable) -> Draft | Event:
        """What an item describes, complete; raises what is wrong with it. Keeps nothing."""
        return await self._intake.content(item)

    def has_account(self, pubkey: str) -> bool:
        """Whether somebody here signs for this account, at hand or away."""
        return any(signer.pubkey == pubkey for signer in self._signers)

    async def is_genuine(self, event: Event) -> bool:
        """Whether an event bears its author's signature."""
        return await self._intake.is_genuine(event)

    async def lists_of(
        self, pubkey: str, kinds: Iterable[int] = KINDS, *, refresh: bool = False
    ) -> dict[int, Lookup]:
        """Somebody's relay lists, looked for where they are not known (or always)."""
        found = await self._lists.find([(pubkey, kind) for kind in kinds], refresh=refresh)
        return {kind: lookup for (_, kind), lookup in found.items()}

    def _on_signer(self, pubkey: str) -> None:
        self._lists.read_again(pubkey)
        self._desk.signer_came(pubkey)
        self.notices.publish(SignerCame(pubkey))

    # -- handing in --------------------------------------------------------------------------

    async def publish(
        self,
        item: Publishable,
        *,
        relays: Iterable[str] = (),
        at: datetime | None = None,
        policy: RetryPolicy | str | None = None,
        goal: int | None = None,
        priority: Priority = Priority.NORMAL,
        after: Iterable[Handle | int] = (),
        key: str | None = None,
        autopilot: bool | None = None,
        goal_mine: int = 0,
        goal_inbox: int = 0,
    ) -> Handle:
        """Keep an event or draft and deliver it. Returns once it is on disk."""
        if at is not None and at.tzinfo is None:
            raise BadSetting("`at` must say its time zone")
        options = Options(
            relays=tuple(relays),
            at=None if at is None else round(at.timestamp() * 1000),
            policy=policy,
            goal=goal,
            priority=priority,
            after=tuple(job.id if isinstance(job, Handle) else job for job in after),
            key=key,
            autopilot=autopilot,
            goal_mine=goal_mine,
            goal_inbox=goal_inbox,
        )
        return (await self.publish_batch([item], options))[0]

    async def post(
        self,
        content: str,
        *,
        kind: int = 1,
        tags: Sequence[Sequence[str]] = (),
        relays: Iterable[str] = (),
    ) -> Handle:
        """Write a note as the outbox's own account, and publish it."""
        return await self.publish({"kind": kind, "content": content, "tags": tags}, relays=relays)

    async def sign(self, item: Publishable, options: Options | None = None) -> Event:
        """A draft made complete and signed now by a signer at hand; keeps nothing.

        For callers that hold the key while another process does the delivering.
        """
        (found,) = await self._intake.admit([item], options or Options())
        if isinstance(found, CallerError):
            raise found
        content = found.content
        return content if isinstance(content, Event) else await self._signers.sign(content)

    async def mine(
        self,
        item: Publishable,
        difficulty: int = 0,
        options: Options | None = None,
        on_progress: Callable[[MiningProgress], None] | None = None,
    ) -> Draft:
        """A draft with proof of work (NIP-13): so much, or more where its relays ask for more.

        Mining runs on other cores at the lowest priority; cancel the call to end it. From
        then on the nonce belongs to the draft and is never touched.
        """
        draft = await self._intake.draft(item)
        targets = (await self.plan(draft, options)).targets
        guards = {t.url: self.settings.guard(trusted=not t.stranger) for t in targets}
        infos = await fetch_infos(guards, guards.get)
        needed = max(difficulty, required_pow(infos.values()))
        return await mine(draft, needed, on_progress=on_progress) if needed else draft

    async def publish_batch(
        self, items: Sequence[Publishable], options: Options | None = None
    ) -> list[Handle]:
        """Related events, accepted all or none (A17)."""
        options = options or Options()
        jobs: list[NewJob] = []
        for found in await self._intake.admit(items, options):
            if isinstance(found, CallerError):
                raise found
            jobs.append(found)
        return await self._keep(jobs)

    async def publish_many(
        self,
        items: Sequence[Publishable],
        options: Options | None = None,
        on_progress: Callable[[int], None] | None = None,
    ) -> list[Handle | CallerError]:
        """Many independent events at full speed; each gets its handle or its refusal."""
        options = options or Options()
        chunks = [items[start : start + CHUNK] for start in range(0, len(items), CHUNK)]
        slots = asyncio.Semaphore(CHUNKS_AT_ONCE)

        async def keep(chunk: Sequence[Publishable]) -> list[Handle | CallerError]:
            async with slots:
                answers = await self._keep_chunk(chunk, options)
            if on_progress is not None:
                on_progress(len(chunk))
            return answers

        kept = await asyncio.gather(*map(keep, chunks))
        return [answer for chunk in kept for answer in chunk]

    def backfill(self, wanted: Copying, folder: Path) -> Backfill:
        """Copies somebody's past events to a relay (D11); run it. `folder` keeps how far it is."""
        options = Options(relays=(wanted.relay,), policy="offline", priority=Priority.BULK)

        async def hand_in(events: Sequence[Event]) -> list[Handle | CallerError]:
            return await self.publish_many(events, options)

        def guard_of(url: str) -> DialPolicy | None:
            return self.settings.guard(trusted=url in wanted.trusted)

        return Backfill(wanted, Cursors(folder), hand_in, guard_of, self._clock)

    async def _keep_chunk(
        self, chunk: Sequence[Publishable], options: Options
    ) -> list[Handle | CallerError]:
        found = await self._intake.admit(chunk, options)
        handles = iter(await self._keep([job for job in found if isinstance(job, NewJob)]))
        return [next(handles) if isinstance(job, NewJob) else job for job in found]

    async def _keep(self, jobs: Sequence[NewJob]) -> list[Handle]:
        if not jobs:
            return []
        admission = await self._store.accept(jobs, self._clock.now())
        self._on_accepted(admission, jobs)
        await self._learn_lists(admission, jobs)
        return [Handle(self, accepted) for accepted in admission.accepted]

    async def _learn_lists(self, admission: Admission, jobs: Sequence[NewJob]) -> None:
        """Relay lists that go out now are true from now on (D1); later ones when they are due."""
        for accepted, job in zip(admission.accepted, jobs, strict=True):
            event = job.content
            goes_now = accepted.state is JobState.PENDING_PUBLISH and job.targets
            if event.kind in KINDS and isinstance(event, Event) and goes_now:
                await self._lists.learn(event)

    def _on_accepted(self, admission: Admission, jobs: Sequence[NewJob]) -> None:
        if self._waiting.delivers:
            self._send_on(admission, jobs)
        if admission.changes:
            self._fleet.forget({change.job for change in admission.changes})
            self._on_changes(admission.changes)
        self._count(admission, jobs)
        if self.notices.is_watched:
            for accepted in admission.accepted:
                if accepted.is_new:
                    notice = JobAccepted(accepted.job, accepted.event_id, accepted.state)
                    self.notices.publish(notice)
        self._status.changed(more=any(job.due_at is None for job in jobs))

    def _count(self, admission: Admission, jobs: Sequence[NewJob]) -> None:
        new = [
            job for accepted, job in zip(admission.accepted, jobs, strict=True) if accepted.is_new
        ]
        self.meters.accepted(len(new), sum(job.due_at is not None for job in new))

    def _send_on(self, admission: Admission, jobs: Sequence[NewJob]) -> None:
        """The next step: what was routed goes to the lanes, the rest to the stager."""
        routes: dict[int, tuple[tuple[Target, ...], list[Parcel]]] = {}
        for accepted, job in zip(admission.accepted, jobs, strict=True):
            is_going = accepted.is_new and accepted.state is JobState.PENDING_PUBLISH
            if is_going and isinstance(job.content, Event) and job.targets and not job.after:
                _, parcels = routes.setdefault(id(job.targets), (job.targets, []))
                parcels.append(parcel_of(accepted.job, job))
        for targets, parcels in routes.values():
            self._shared.parcels.add(parcels)
            self._fleet.offer(targets, parcels)
        if sum(len(parcels) for _, parcels in routes.values()) < len(jobs):
            self._fleet.hint(admission.destinations)
            self._stager.wake()
            self._desk.wake()

    # -- waiting -----------------------------------------------------------------------------

    async def wait(self, job: int, within: float | None = None) -> Job:
        """Wait until the job is published; `JobFailed` where that will not happen by itself."""
        return await self._waiting.published(job, within)

    async def wait_settled(self, job: int, within: float | None = None) -> Job:
        """Wait until nothing more will happen to the job by itself."""
        return await self._waiting.settled(job, within)

    async def drained(self, within: float | None = None) -> QueueStatus:
        """Wait until nothing is pending and no delivery is open."""
        return await self._waiting.drained(within)

    def _on_changes(self, changes: list[JobChange]) -> None:
        if not changes:
            return
        self._waiting.tell(changes)
        self.meters.changed(changes)
        if self.notices.is_watched:
            for change in changes:
                self.notices.publish(JobChanged(change.job, change.state, change.finished))
        if any(change.state is JobState.PUBLISHED for change in changes):
            self._stager.wake()
        self._status.changed()

    # -- looking -----------------------------------------------------------------------------

    def watch(self, backlog: int = 1000) -> Subscription:
        """Notices of everything that happens, as an async iterator; close it when done."""
        subscription = self.notices.subscribe(backlog)
        self._status.changed()
        return subscription

    async def status(self) -> QueueStatus:
        return await self._store.status()

    async def job(self, job: int) -> Job:
        return await read_job(self._store, job)

    async def jobs(
        self, which: JobFilter | None = None, limit: int = 100, before: int | None = None
    ) -> list[Job]:
        """Jobs, newest first; `before` pages on."""
        return await self._store.jobs(which or JobFilter(), limit, before)

    async def find(self, text: str) -> int:
        """A job's number from what a person typed: the number, or the start of an event id."""
        if text.isascii() and text.isdigit() and len(text) < 16:
            return (await self.job(int(text))).id
        if not (4 <= len(text) <= 64) or any(c not in "0123456789abcdef" for c in text.lower()):
            raise UnknownJob(f"{text!r} is neither a job number nor the start of an event id")
        found = await self._store.find(text.lower())
        if not found:
            raise UnknownJob(f"no job has an event id that starts with {text}")
        if len(found) > 1:
            raise UnknownJob(f"several jobs have event ids that start with {text}; give more of it")
        return found[0]

    def lanes(self) -> list[Lane]:
        """The lanes of this process, with what they know of their relays."""
        return list(self._fleet.lanes.values())

    async def story(self, job: int) -> list[Chapter]:
        return await self._store.story(job)

    async def backlog(self) -> list[Backlog]:
        return await self._store.backlog()

    async def health(self) -> list[RelayHealth]:
        return await self._store.health()

    @property
    def clock(self) -> Clock:
        return self._clock

    def now(self) -> int:
        """The time that counts here, in milliseconds: the database's, where it has one."""
        return self._clock.now()

    async def workers(self) -> list[Worker]:
        """Who works on this outbox, here and on other machines, and what each holds (G4)."""
        return await crew(self._shared)

    # -- changing one's mind -------------------------------------------------------------------

    async def retry(self, which: JobFilter) -> list[int]:
        """Try again now, whatever the backoff (B6)."""
        self._lists.doubt()
        changes = await self._store.retry(which, self._clock.now())
        return self._changed_by_hand(changes)

    async def cancel(self, which: JobFilter) -> list[int]:
        """Stop what is not published yet."""
        changes = await self._store.cancel(which, self._clock.now())
        return self._changed_by_hand(changes)

    async def delete(self, which: JobFilter) -> list[int]:
        """Remove finished jobs and all that belongs to them."""
        deleted = await self._store.delete(which)
        self._fleet.forget(set(deleted))
        self._status.changed()
        return deleted

    def _changed_by_hand(self, changes: list[JobChange]) -> list[int]:
        jobs = [change.job for change in changes]
        self._fleet.forget(set(jobs))
        self._on_changes(changes)
        self._fleet.hint()
        self._stager.wake()
        self._desk.wake()
        self._calendar.wake()
        return jobs

    # -- the network -------------------------------------------------------------------------

    @property
    def online(self) -> bool:
        return self._shared.network.online

    def set_online(self, online: bool | None) -> None:
        """The application knows whether there is a network; None: find out by yourself."""
        self._shared.network.force(online)
        self._fleet.wake_lanes()
        self._fleet.hint()

    def set_metered(self, metered: bool) -> None:
        """While metered, only urgent and small events go out (A17)."""
        self._shared.metered = metered
        self._fleet.reclaim()


def _folder_of(path: str | os.PathLike[str]) -> Path | None:
    """Where a file's outbox has what belongs to it; a database has no such place."""
    place = Place(os.fspath(path))
    return None if place.is_postgres else place.path.parent
