"""Moving an outbox to another place, whichever adapters the two have (G4).

Promises: the target was empty, and has everything or nothing; it is kept only after it was read
again and found to be the same, table by table. Nobody writes to the source meanwhile, and nothing
is taken away from it. Who works there, and the leases, are of the old place and stay there.

A row is the same at both ends: numbers, texts, bytes and None, in the order of its table's columns;
how a dialect keeps them is its end's affair.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

import msgspec

from postrich.errors import BadSetting, StoreError, StoreUnusable
from postrich.store import driver_needed
from postrich.store.places import Place
from postrich.store.port import WorkerInfo
from postrich.store.schema import bring_up, schema_status

Row = tuple[Any, ...]


class Table(msgspec.Struct, frozen=True):
    """What every dialect keeps under this name. `batch`: how many rows are moved at once."""

    name: str
    columns: tuple[str, ...]
    batch: int = 2000


_JOB = (
    *("id", "event_id", "pubkey", "kind", "created_at", "address", "signed", "state", "priority"),
    *("goal", "goal_mine", "goal_inbox", "policy", "targets", "route", "route_attempts"),
    *("accepted_at", "due_at", "expires_at", "stage_at", "published_at", "finished_at"),
    *("sign_attempts", "error_code", "error_text", "size"),
)
_SERIES = (
    *("id", "pubkey", "recurrence", "zone", "template", "terms", "starts_at", "kept_at", "until"),
    *("count", "missed", "state", "made", "passed", "next_at", "last_at", "revision"),
)
_DELIVERY = (
    *("job", "destination", "state", "band", "next_at", "attempts", "settled_at", "code"),
    *("detail", "reason", "mine"),
)
_HOOK = (
    *("id", "pubkey", "url", "events", "state", "reason", "created_at", "key", "generation"),
    *("rotated_at", "failing_since", "failures", "answered_at", "answer_status", "answer_text"),
)
_MESSAGE = (
    *("number", "id", "hook", "job", "event_id", "pubkey", "kind", "state", "attempts", "next_at"),
    *("created_at", "settled_at", "status", "error"),
)

#: Where the next job's number is; a new outbox has it too.
SEQUENCES = Table("sequences", ("name", "next"))
#: Everything else that is kept.
TABLES = (
    Table("destinations", ("id", "url", "trusted")),
    Table("identities", ("event_id", "job", "ended")),
    Table("idempotency", ("key", "job")),
    Table("addresses", ("address", "created_at", "event_id")),
    Table("jobs", _JOB),
    Table("payloads", ("job", "body"), batch=64),
    Table("deliveries", _DELIVERY),
    Table("dependencies", ("job", "needs")),
    Table("story", ("id", "job", "at", "what", "destination", "attempt", "detail")),
    Table("nudges", ("destination",)),
    Table("relay_health", ("destination", "body")),
    Table("lists", ("pubkey", "kind", "looked_at", "body")),
    Table("inboxes", ("job", "pubkey", "destination")),
    Table("posts", ("id", "pubkey", "job", "crosspost")),
    Table("grids", ("pubkey", "name", "grid", "zone")),
    Table("answers", ("caller", "key", "fingerprint", "status", "body", "at")),
    Table("series", _SERIES, batch=200),
    Table("occurrences", ("series", "at", "state", "job", "template", "detail")),
    Table("job_history", _JOB),
    Table("delivery_history", _DELIVERY),
    # After the jobs, of which hooks would be told.
    Table("hooks", _HOOK),
    Table("hook_messages", _MESSAGE),
)
#: What says who works at a place: it is not moved.
STAYING = ("leases", "workers")


class End(Protocol):
    """One of the two places, held for the whole move within one transaction."""

    async def time(self) -> int:
        """The clock by which workers are heard of here."""

    async def workers(self) -> list[WorkerInfo]:
        """Who works here, as far as is known."""

    async def count(self, table: Table) -> int:
        """How many rows there are."""

    def read(self, table: Table) -> AsyncIterator[list[Row]]:
        """All rows, in batches and in any order."""

    async def write(self, table: Table, rows: Sequence[Row]) -> None:
        """Add rows."""

    async def commit(self) -> None:
        """Numbers go on after the largest; then keep everything. Without it nothing is kept."""


class Digest:
    """What a table holds, as a count and one number, whatever the order of its rows."""

    def __init__(self) -> None:
        self.rows = 0
        self._sum = 0

    def add(self, rows: Sequence[Row]) -> None:
        for row in rows:
            body = msgspec.msgpack.encode(row)
            self._sum += int.from_bytes(hashlib.sha256(body).digest())
        self._sum %= 1 << 256
        self.rows += len(rows)

    @property
    def text(self) -> str:
        return f"{self._sum:064x}"


class Moved(msgspec.Struct, frozen=True):
    """A table that both ends have alike."""

    table: str
    rows: int
    digest: str


#: Told what is being done, how many rows that was just now, and how many there are of it.
Progress = Callable[[str, int, int], None]
#: Whether a worker is at work at a place whose clock says so.
IsBusy = Callable[[WorkerInfo, int], bool]


async def move_house(
    source: Place, target: Place, is_busy: IsBusy, on_progress: Progress
) -> list[Moved]:
    """Copy everything, check it, keep it; raises `StoreError` and keeps nothing where it cannot."""
    if source == target:
        raise BadSetting(f"the outbox is at {source.shown} already")
    if (await schema_status(source)).version == 0:
        raise BadSetting(f"there is no outbox at {source.shown}")
    await bring_up(source)
    await bring_up(target)
    async with _end(target, writes=True) as there, _end(source, writes=False) as here:
        await _check_empty(there, target)
        for end, place in ((here, source), (there, target)):
            await _check_idle(end, place, is_busy)
        total = sum([await here.count(table) for table in (SEQUENCES, *TABLES)])
        found = await _copy(here, there, lambda rows: on_progress("copying", rows, total))
        await _verify(there, found, target, lambda rows: on_progress("checking", rows, total))
        await there.commit()
    return [Moved(name, digest.rows, digest.text) for name, digest in found.items()]


def _end(place: Place, *, writes: bool) -> AbstractAsyncContextManager[End]:
    if place.is_postgres:
        with driver_needed():
            from postrich.store.postgres.house import open_end as database_end
        return database_end(place.text, writes=writes)
    from postrich.store.sqlite.house import open_end as file_end

    return file_end(str(place.path), writes=writes)


async def _check_empty(end: End, place: Place) -> None:
    full = [table.name for table in TABLES if await end.count(table)]
    if full:
        raise StoreUnusable(
            f"{place.shown} is not empty ({', '.join(full)}); give a place without an outbox in it"
        )


async def _check_idle(end: End, place: Place, is_busy: IsBusy) -> None:
    now = await end.time()
    busy = [worker for worker in await end.workers() if is_busy(worker, now)]
    if busy:
        names = ", ".join(worker.whereabouts for worker in busy)
        raise StoreUnusable(f"still at work on {place.shown}: {names}; stop them, then move")


async def _copy(here: End, there: End, on_rows: Callable[[int], None]) -> dict[str, Digest]:
    found: dict[str, Digest] = {}
    for table in (SEQUENCES, *TABLES):
        digest = found[table.name] = Digest()
        async for rows in here.read(table):
            digest.add(rows)
            await there.write(table, rows)
            on_rows(len(rows))
    return found


async def _verify(
    end: End, expected: dict[str, Digest], place: Place, on_rows: Callable[[int], None]
) -> None:
    """Read the copy again, as whoever works there will."""
    for table in (SEQUENCES, *TABLES):
        digest = Digest()
        async for rows in end.read(table):
            digest.add(rows)
            on_rows(len(rows))
        wanted = expected[table.name]
        if (digest.rows, digest.text) != (wanted.rows, wanted.text):
            raise StoreError(
                f"the copy of {table.name} at {place.shown} is not the same ({digest.rows} rows "
                f"of {wanted.rows}); nothing was kept there, please report this"
            )
