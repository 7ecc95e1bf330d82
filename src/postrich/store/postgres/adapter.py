"""The PostgreSQL store: the port's verbs, each a transaction on a connection of the pool.

Keys and addresses are kept by their SHA-256, since they may be longer than an index takes; NULs
in texts are `texts`' affair. The order of locks: keys and event ids, addresses, leases, jobs by
number, deliveries. What a verb reads of a job before it writes is locked first (`Database.lock`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import msgspec

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
from postrich.store.postgres import settling
from postrich.store.postgres.address import Address, parse_address
from postrich.store.postgres.database import Database
from postrich.store.postgres.hints import Hints
from postrich.store.postgres.migrating import prepare
from postrich.store.postgres.sessions import Sessions
from postrich.store.postgres.writer import GroupWriter
from postrich.store.queries import migrations
from postrich.store.schedule_verbs import ScheduleVerbs, always, never
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

#: Groups of results that are written at once: one works while the other is on its way to disk.
AT_ONCE = 2

T = TypeVar("T")


def _any_change(answers: Sequence[settling.Answer]) -> bool:
    return any(answer for answer in answers if isinstance(answer, list))


class PostgresStore(ScheduleVerbs):
    """One outbox in a PostgreSQL database. Use `await PostgresStore.open(dsn)`."""

    def __init__(self, address: Address) -> None:
        self.path = address.shown
        self._hints = Hints(address)
        self._sessions = Sessions(address, self._hints.commit_text)
        self._hints.use(self._sessions.tell)
        self._accepts = GroupWriter(self._accept_group, address.shown)
        self._schedules = GroupWriter(self._schedule_group, address.shown)
        self._settles = GroupWriter(self._settle_group, address.shown, AT_ONCE)

    @classmethod
    async def open(cls, dsn: str) -> PostgresStore:
        """Connect, and bring the schema to where this Postrich can work with it."""
        address = parse_address(dsn)
        await prepare(address)
        store = cls(address)
        await store._sessions.open()
        return store

    async def close(self) -> None:
        await self._accepts.close()
        await self._schedules.close()
        await self._settles.close()
        await self._hints.close()
        await self._sessions.close()

    async def _read(self, query: Callable[[Database], T]) -> T:
        return await self._sessions.read(query)

    async def _write(
        self, action: Callable[[Database], T], hints: Callable[[T], bool] = never, numbers: int = 0
    ) -> T:
        return await self._sessions.write(action, hints, numbers)

    async def _accept_group(self, items: Sequence[accepting.Item]) -> list[Any]:
        return await self._sessions.write(
            lambda db: list(accepting.accept(db, items, db.known_urls)),
            always,
            numbers=sum(len(item.jobs) for item in items),
        )

    async def _schedule_group(self, calls: Sequence[scheduling.Call]) -> list[Any]:
        return await self._sessions.write(
            lambda db: list(scheduling.schedule(db, calls, db.known_urls)),
            always,
            numbers=sum(len(call.posts) for call in calls),
        )

    async def _schedule(self, call: scheduling.Call) -> Scheduled:
        answer: Scheduled = await self._schedules.submit(call)
        return answer

    def _urls_of(self, database: Database) -> moving.KnownUrls:
        return database.known_urls

    async def _settle_group(self, items: Sequence[Settle]) -> list[Any]:
        return await self._sessions.write(lambda db: settling.settle(db, items), _any_change)

    # -- accept ----------------------------------------------------------------------------

    async def accept(self, jobs: Sequence[NewJob], now: int) -> Admission:
        answer: Admission = await self._accepts.submit(accepting.Item(jobs, now))
        return answer

    async def newest_version(self, address: str) -> int | None:
        found = await self._read(lambda db: db.scalar("address_of", address=address))
        return None if found is None else int(found[0])

    # -- leases ----------------------------------------------------------------------------

    async def enlist(self, worker: WorkerInfo) -> None:
        values = {**msgspec.structs.asdict(worker), "knows": max(migrations("postgres"))}
        await self._write(lambda db: db.run("worker_note", **values))

    async def dismiss(self, owner: str) -> None:
        await self._write(lambda db: db.run("worker_leave", owner=owner), always)

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
        values = {"owner": fence.owner, "name": fence.name}
        await self._write(lambda db: db.run("lease_drop", **values), always)

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
        answer: list[JobChange] = await self._settles.submit(Settle(results, now))
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
        return await self._write(lambda db: signing.signer_came(db, pubkey, now), always)

    async def signed(
        self, fence: Fence, job: int, event: Event, now: int, by: str = ""
    ) -> list[JobChange]:
        return await self._write(lambda db: signing.signed(db, fence, job, event, now, by), any)

    async def not_signed(
        self, fence: Fence, job: int, error: JobError, next_at: int | None, park: bool, now: int
    ) -> list[JobChange]:
        return await self._write(
            lambda db: signing.not_signed(db, fence, job, error, next_at, park, now), any
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
        return await self._write(
            lambda db: staging.route(db, fence, jobs, now, db.known_urls), always
        )

    async def not_routed(
        self, fence: Fence, job: int, error: JobError, next_at: int | None, now: int
    ) -> list[JobChange]:
        return await self._write(
            lambda db: staging.not_routed(db, fence, job, error, next_at, now), any
        )

    # -- lists -----------------------------------------------------------------------------

    async def lists(self, keys: Sequence[tuple[str, int]]) -> list[KeptList]:
        return await self._read(lambda db: listing.lists(db, keys))

    async def keep_lists(self, found: Sequence[KeptList]) -> None:
        await self._write(lambda db: listing.keep(db, found))

    async def reroute(self, pubkeys: Sequence[str], now: int) -> None:
        await self._write(lambda db: listing.reroute(db, pubkeys, now), always)

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
        return await self._write(lambda db: managing.expire(db, now, limit), any)

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
            lambda db: recurring.keep(db, series, signed, now, db.known_urls, most),
            always,
            numbers=len(signed),
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
            lambda db: recurring.occur(db, fence, occurring, now, db.known_urls),
            always,
            numbers=int(occurring.job is not None),
        )

    async def skip_occurrence(self, seen: Series, at: int, now: int) -> list[JobChange]:
        return await self._write(lambda db: recurring.skip(db, seen, at, now), always)

    async def edit_occurrence(self, seen: Series, at: int, template: Template) -> None:
        await self._write(lambda db: recurring.edit(db, seen, at, template), always)

    async def move_series(
        self, seen: Series, state: SeriesState, next_at: int | None, passed: int, now: int
    ) -> list[JobChange]:
        return await self._write(
            lambda db: recurring.move(db, seen, state, next_at, passed, now), always
        )

    # -- people ----------------------------------------------------------------------------

    async def retry(self, which: JobFilter, now: int) -> list[JobChange]:
        return await self._write(lambda db: managing.retry(db, which, now), any)

    async def cancel(self, which: JobFilter, now: int) -> list[JobChange]:
        return await self._write(lambda db: managing.cancel(db, which, now), any)

    async def delete(self, which: JobFilter) -> list[int]:
        return await self._write(lambda db: managing.delete(db, which), any)

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
        found: int = await self._read(lambda db: db.scalar("changed"))
        return found

    def listen(self, on_hint: Callable[[], None]) -> None:
        self._hints.listen(on_hint)

    async def time(self) -> int | None:
        found: int = await self._read(lambda db: db.scalar("time"))
        return found
