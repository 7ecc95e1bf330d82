"""The SQLite store: the port's verbs, each handed to the writer thread or to a reader."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import msgspec

from postrich.errors import StoreError
from postrich.model.delivery import NO_FLOORS, Claimed, Fence, Floors, Parcel
from postrich.model.event import Event
from postrich.model.hook import DueMessage, Hook, HookMessage, HookOutlook, MessageSettlement
from postrich.model.job import (
    Chapter,
    Job,
    JobChange,
    JobError,
    JobFilter,
    NewJob,
    QueueStatus,
    Routed,
    StageItem,
    Unsigned,
)
from postrich.model.relay import RelayHealth
from postrich.model.series import Occurrence, Occurring, Series, SeriesState, Template
from postrich.rules.hooks import HookPolicy
from postrich.rules.precedence import Cancellation
from postrich.store.port import (
    Admission,
    Backlog,
    KeptList,
    LeaseInfo,
    Results,
    Scheduled,
    Work,
    WorkerInfo,
)
from postrich.store.schedule_verbs import ScheduleVerbs, never
from postrich.store.sqlite import settling
from postrich.store.sqlite.connection import Database, open_reader, open_writer, translated
from postrich.store.sqlite.writer import Writer
from postrich.store.verbs import (
    accepting,
    hooking,
    listing,
    managing,
    moving,
    reading,
    recurring,
    scheduling,
    signing,
    staging,
)
from postrich.store.verbs.database import to_json
from postrich.store.verbs.settling import Item as Settle

READERS = 2
T = TypeVar("T")


class SqliteStore(ScheduleVerbs):
    """One outbox file. Use `await SqliteStore.open(path)`; needs a running event loop."""

    def __init__(self, path: str, database: Database) -> None:
        self.path = path
        self._known_urls: moving.KnownUrls = {}
        self._writer = Writer(
            database,
            path,
            {
                "accept": lambda db, items: list(accepting.accept(db, items, self._known_urls)),
                "schedule": lambda db, calls: list(
                    scheduling.schedule(db, calls, self._known_urls)
                ),
                "settle": lambda db, items: list(settling.settle(db, items)),
            },
            on_rollback=self._known_urls.clear,
        )
        self._readers = ThreadPoolExecutor(READERS, thread_name_prefix="postrich-reader")
        self._local = threading.local()
        self._open_readers: list[Database] = []
        self._watch: Database | None = None
        self._watching = threading.Lock()
        self._closed = False

    @classmethod
    async def open(cls, path: str) -> SqliteStore:
        """Open or create the file and bring its schema up to date."""
        return cls(path, await asyncio.to_thread(open_writer, path))

    async def close(self) -> None:
        self._closed = True
        self._writer.close()
        await asyncio.to_thread(self._finish)

    def _finish(self) -> None:
        self._readers.shutdown(wait=True)
        for reader in self._open_readers:
            reader.close()
        self._writer.join()

    async def _read(self, query: Callable[[Database], T]) -> T:
        if self._closed:
            raise StoreError(f"{self.path} is closed")
        return await asyncio.get_running_loop().run_in_executor(
            self._readers, self._read_here, query
        )

    def _read_here(self, query: Callable[[Database], T]) -> T:
        database: Database | None = getattr(self._local, "database", None)
        if database is None:
            database = self._local.database = open_reader(self.path)
            self._open_readers.append(database)
        with translated(self.path):
            return query(database)

    async def _write(
        self,
        action: Callable[[Database], T],
        hints: Callable[[T], bool] = never,  # noqa: ARG002 - who shares a file polls `changed`
        numbers: int = 0,  # noqa: ARG002 - they are taken within the transaction
    ) -> T:
        answer: T = await self._writer.submit(action)
        return answer

    async def _schedule(self, call: scheduling.Call) -> Scheduled:
        answer: Scheduled = await self._writer.submit(call, "schedule")
        return answer

    def _urls_of(self, _: Database) -> moving.KnownUrls:
        return self._known_urls

    # -- accept ----------------------------------------------------------------------------

    async def accept(self, jobs: Sequence[NewJob], now: int) -> Admission:
        answer: Admission = await self._writer.submit(accepting.Item(jobs, now), "accept")
        return answer

    async def newest_version(self, address: str) -> int | None:
        found = await self._read(lambda db: db.scalar("address_of", address=address))
        return None if found is None else int(found[0])

    # -- leases ----------------------------------------------------------------------------

    async def enlist(self, worker: WorkerInfo) -> None:
        await self._write(lambda db: db.run("worker_note", **msgspec.structs.asdict(worker)))

    async def dismiss(self, owner: str) -> None:
        await self._write(lambda db: db.run("worker_leave", owner=owner))

    async def workers(self) -> list[WorkerInfo]:
        return await self._read(lambda db: db.read(list[WorkerInfo], "workers_all"))

    async def take_lease(self, name: str, owner: str, now: int, until: int) -> Fence | None:
        epoch = await self._write(
            lambda db: db.scalar("lease_take", name=name, owner=owner, now=now, until=until)
        )
        return None if epoch is None else Fence(name, owner, epoch)

    async def renew_leases(self, owner: str, until: int) -> list[str]:
        def renew(db: Database) -> list[LeaseInfo]:
            db.run("lease_renew", owner=owner, until=until)
            return db.read(list[LeaseInfo], "leases_all")

        return [lease.name for lease in await self._write(renew) if lease.owner == owner]

    async def leases(self) -> list[LeaseInfo]:
        return await self._read(lambda db: db.read(list[LeaseInfo], "leases_all"))

    async def relay_urls(self, destinations: Sequence[int]) -> dict[int, str]:
        return dict(
            await self._read(
                lambda db: db.read(
                    list[tuple[int, str]], "destinations_named", numbers=list(destinations)
                )
            )
        )

    async def drop_lease(self, fence: Fence) -> None:
        await self._write(lambda db: db.run("lease_drop", owner=fence.owner, name=fence.name))

    # -- lanes -----------------------------------------------------------------------------

    async def work(self) -> list[Work]:
        return await self._read(reading.work)

    async def probing(self, destinations: Sequence[int]) -> None:
        await self._write(lambda db: db.run("nudges_done", destinations=destinations))

    async def claim(
        self,
        destination: int,
        now: int,
        fresh: int,
        retried: int,
        holding: Sequence[int],
        small: int | None = None,
        after: Floors = NO_FLOORS,
    ) -> list[Claimed]:
        limits = {"fresh": fresh, "retried": retried, "holding": holding, "small": small}
        return await self._read(
            lambda db: reading.claim(db, after, destination=destination, now=now, **limits)
        )

    async def parcels(self, jobs: Sequence[int]) -> list[Parcel]:
        return await self._read(lambda db: reading.parcels(db, jobs))

    async def settle(self, results: Results, now: int) -> list[JobChange]:
        answer: list[JobChange] = await self._writer.submit(Settle(results, now), "settle")
        return answer

    async def note_health(self, reports: Sequence[tuple[int, RelayHealth]]) -> None:
        rows = [(number, to_json(health)) for number, health in reports]
        await self._write(lambda db: db.run("health_note", rows=rows))

    # -- signing ---------------------------------------------------------------------------

    async def unsigned(self) -> list[tuple[str, int]]:
        return await self._read(lambda db: db.read(list[tuple[str, int]], "unsigned"))

    async def drafts_due(
        self, pubkey: str, now: int, limit: int, holding: Sequence[int] = ()
    ) -> list[Unsigned]:
        return await self._read(lambda db: signing.drafts_due(db, pubkey, now, limit, holding))

    async def signer_came(self, pubkey: str, now: int) -> tuple[list[JobChange], set[int]]:
        return await self._write(lambda db: signing.signer_came(db, pubkey, now))

    async def signed(
        self, fence: Fence, job: int, event: Event, now: int, by: str = ""
    ) -> list[JobChange]:
        return await self._write(lambda db: signing.signed(db, fence, job, event, now, by))

    async def not_signed(
        self, fence: Fence, job: int, error: JobError, next_at: int | None, park: bool, now: int
    ) -> list[JobChange]:
        return await self._write(
            lambda db: signing.not_signed(db, fence, job, error, next_at, park, now)
        )

    # -- stager ----------------------------------------------------------------------------

    async def stage_due(self, now: int, limit: int, holding: Sequence[int] = ()) -> list[StageItem]:
        return await self._read(lambda db: staging.stage_due(db, now, limit, holding))

    async def next_stage(self) -> int | None:
        found: int | None = await self._read(lambda db: db.scalar("next_stage"))
        return found

    async def route(
        self, fence: Fence, jobs: Sequence[Routed], now: int
    ) -> tuple[list[JobChange], set[int]]:
        return await self._write(lambda db: staging.route(db, fence, jobs, now, self._known_urls))

    async def not_routed(
        self, fence: Fence, job: int, error: JobError, next_at: int | None, now: int
    ) -> list[JobChange]:
        return await self._write(lambda db: staging.not_routed(db, fence, job, error, next_at, now))

    # -- lists -----------------------------------------------------------------------------

    async def lists(self, keys: Sequence[tuple[str, int]]) -> list[KeptList]:
        return await self._read(lambda db: listing.lists(db, keys))

    async def keep_lists(self, found: Sequence[KeptList]) -> None:
        await self._write(lambda db: listing.keep(db, found))

    async def reroute(self, pubkeys: Sequence[str], now: int) -> None:
        await self._write(lambda db: listing.reroute(db, pubkeys, now))

    async def where_sent(self, request: Cancellation) -> list[str]:
        return await self._read(lambda db: listing.where_sent(db, request))

    # -- hooks -----------------------------------------------------------------------------

    async def keep_hook(self, hook: Hook) -> None:
        await self._write(lambda db: hooking.keep(db, hook))

    async def hooks(
        self, ids: Sequence[str] | None = None, pubkey: str | None = None
    ) -> list[Hook]:
        return await self._read(lambda db: hooking.hooks(db, ids, pubkey))

    async def remove_hook(self, hook: str) -> None:
        await self._write(lambda db: hooking.remove(db, hook))

    async def disable_hook(self, hook: str, reason: str, now: int) -> Hook:
        return await self._write(lambda db: hooking.disable(db, hook, reason, now))

    async def enable_hook(self, hook: str) -> Hook:
        return await self._write(lambda db: hooking.enable(db, hook))

    async def rotate_hook(self, hook: str, key: str, now: int) -> Hook:
        return await self._write(lambda db: hooking.rotate(db, hook, key, now))

    async def say_to_hook(self, hook: str, message: str, kind: str, now: int) -> HookMessage:
        return await self._write(lambda db: hooking.say(db, hook, message, kind, now))

    async def messages(
        self, hook: str, limit: int, before: int | None = None, message: str | None = None
    ) -> list[HookMessage]:
        return await self._read(lambda db: hooking.messages(db, hook, limit, before, message))

    async def replay_messages(
        self, hook: str, now: int, since: int = 0, message: str | None = None
    ) -> int:
        return await self._write(lambda db: hooking.replay(db, hook, now, since, message))

    async def hook_outlook(self, key: str) -> HookOutlook:
        return await self._read(lambda db: hooking.outlook(db, key))

    async def messages_due(
        self, key: str, now: int, each: int, holding: Sequence[int] = ()
    ) -> list[DueMessage]:
        return await self._read(lambda db: hooking.due(db, key, now, each, holding))

    async def settle_messages(
        self, fence: Fence, results: Sequence[MessageSettlement], policy: HookPolicy, now: int
    ) -> list[Hook]:
        return await self._write(lambda db: hooking.settle(db, fence, results, policy, now))

    # -- lifeline --------------------------------------------------------------------------

    async def expire(self, now: int, limit: int) -> list[JobChange]:
        return await self._write(lambda db: managing.expire(db, now, limit))

    async def archive(self, before: int, limit: int) -> int:
        return await self._write(lambda db: managing.archive(db, before, limit))

    async def prune(self, before: int, limit: int) -> int:
        return await self._write(lambda db: managing.prune(db, before, limit))

    # -- series ----------------------------------------------------------------------------

    async def keep_series(
        self,
        series: Series,
        signed: Sequence[tuple[int, NewJob]],
        now: int,
        most: int | None = None,
    ) -> Admission:
        return await self._write(
            lambda db: recurring.keep(db, series, signed, now, self._known_urls, most)
        )

    async def series(self, name: str) -> Series:
        return await self._read(lambda db: recurring.named(db, name))

    async def series_page(self, pubkey: str | None, limit: int, after: str = "") -> list[Series]:
        return await self._read(lambda db: recurring.page(db, pubkey, limit, after))

    async def series_due(self, until: int, limit: int) -> list[Series]:
        return await self._read(lambda db: recurring.due(db, until, limit))

    async def next_series(self) -> int | None:
        found: int | None = await self._read(lambda db: db.scalar("series_next"))
        return found

    async def occurrences(self, name: str, since: int, until: int, limit: int) -> list[Occurrence]:
        return await self._read(lambda db: recurring.occurrences(db, name, since, until, limit))

    async def occur(self, fence: Fence, occurring: Occurring, now: int) -> Admission | None:
        return await self._write(
            lambda db: recurring.occur(db, fence, occurring, now, self._known_urls)
        )

    async def skip_occurrence(self, seen: Series, at: int, now: int) -> list[JobChange]:
        return await self._write(lambda db: recurring.skip(db, seen, at, now))

    async def edit_occurrence(self, seen: Series, at: int, template: Template) -> None:
        await self._write(lambda db: recurring.edit(db, seen, at, template))

    async def move_series(
        self, seen: Series, state: SeriesState, next_at: int | None, passed: int, now: int
    ) -> list[JobChange]:
        return await self._write(lambda db: recurring.move(db, seen, state, next_at, passed, now))

    # -- people ----------------------------------------------------------------------------

    async def retry(self, which: JobFilter, now: int) -> list[JobChange]:
        return await self._write(lambda db: managing.retry(db, which, now))

    async def cancel(self, which: JobFilter, now: int) -> list[JobChange]:
        return await self._write(lambda db: managing.cancel(db, which, now))

    async def delete(self, which: JobFilter) -> list[int]:
        return await self._write(lambda db: managing.delete(db, which))

    async def jobs(self, which: JobFilter, limit: int, before: int | None = None) -> list[Job]:
        return await self._read(lambda db: reading.show(db, which, limit, before))

    async def find(self, event_id_prefix: str) -> list[int]:
        return await self._read(lambda db: reading.find(db, event_id_prefix))

    async def story(self, job: int) -> list[Chapter]:
        return await self._read(lambda db: db.read(list[Chapter], "story_of", job=job))

    async def status(self) -> QueueStatus:
        return await self._read(reading.status)

    async def backlog(self) -> list[Backlog]:
        return await self._read(lambda db: db.read(list[Backlog], "backlog"))

    async def health(self) -> list[RelayHealth]:
        return await self._read(lambda db: db.read(list[RelayHealth], "health_all"))

    async def changed(self) -> int:
        return await self._read(lambda _: self._data_version())

    def listen(self, on_hint: Callable[[], None]) -> None:
        """There are no hints between processes that share a file: `changed` is polled."""

    async def time(self) -> int | None:
        return None

    def _data_version(self) -> int:
        """Always of the same connection: each counts for itself what the others wrote."""
        with self._watching:
            if self._watch is None:
                self._watch = open_reader(self.path)
                self._open_readers.append(self._watch)
            version: int = self._watch.pragma("data_version")
        return version
