"""A PostgreSQL schema as one end of a move: one connection, one transaction.

Keys and addresses, which this adapter finds by their digests, are told and taken in full. A place
where an older Postrich kept some as digests only cannot be moved: it is said so.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from postrich.errors import StoreAway, StoreUnusable
from postrich.store.moving_house import SEQUENCES, STAYING, TABLES, Row, Table
from postrich.store.port import WorkerInfo
from postrich.store.postgres.address import parse_address
from postrich.store.postgres.dialect import statements
from postrich.store.postgres.faults import is_away, translated
from postrich.store.postgres.sessions import CONNECT_S, connect
from postrich.store.postgres.texts import storable
from postrich.store.verbs.listing import version_of

_LONG = 24 * 3600.0
_FREELY = """
SET LOCAL statement_timeout = 0;
SET LOCAL idle_in_transaction_session_timeout = 0;
SET LOCAL enable_seqscan = on;
"""
_OF_JOB = "(SELECT a.full_address FROM addresses AS a WHERE a.address = t.address)"
#: Where a column is not told as it is kept.
_TOLD = {
    ("idempotency", "key"): "full_key",
    ("addresses", "address"): "full_address",
    ("jobs", "address"): _OF_JOB,
    ("job_history", "address"): _OF_JOB,
}
_IN_FULL = """
SELECT (SELECT count(*) FROM idempotency WHERE full_key IS NULL)
  + (SELECT count(*) FROM addresses WHERE full_address IS NULL AND event_id IS NOT NULL)
"""
_NUMBERED = {"destinations": "id", "story": "id", "hook_messages": "number"}


@asynccontextmanager
async def open_end(dsn: str, *, writes: bool) -> AsyncIterator[DatabaseEnd]:
    """Hold the place: others may look, and nobody else writes."""
    address = parse_address(dsn)
    names = ", ".join([*(table.name for table in (SEQUENCES, *TABLES)), *STAYING])
    mode = "EXCLUSIVE" if writes else "SHARE"
    with translated(address.shown):
        connection = await connect(address)
    try:
        with translated(address.shown):
            await connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
            await connection.execute(f"{_FREELY} LOCK TABLE {names} IN {mode} MODE")
        end = DatabaseEnd(connection, address.shown)
        await end.check()
        yield end
    finally:
        await connection.close(timeout=CONNECT_S)  # what was not committed is taken back


class DatabaseEnd:
    """The tables of one schema."""

    def __init__(self, connection: Any, shown: str) -> None:
        self._connection = connection
        self._shown = shown

    async def check(self) -> None:
        if unknown := await self._value(_IN_FULL):
            raise StoreUnusable(
                f"{self._shown} has {unknown} keys or addresses of which an older Postrich kept "
                "the digest only: it cannot be moved"
            )

    async def time(self) -> int:
        [statement] = statements("time")
        return await self._value(statement.text)

    async def workers(self) -> list[WorkerInfo]:
        [statement] = statements("workers_all")
        with translated(self._shown):
            return [WorkerInfo(*row) for row in await self._connection.fetch(statement.text)]

    async def count(self, table: Table) -> int:
        return await self._value(f"SELECT count(*) FROM {table.name} AS t {_which(table)}")  # noqa: S608 - ours

    async def _value(self, query: str) -> int:
        with translated(self._shown):
            found: int = await self._connection.fetchval(query, timeout=_LONG)
        return found

    async def read(self, table: Table) -> AsyncIterator[list[Row]]:
        told = ", ".join(_TOLD.get((table.name, name), f"t.{name}") for name in table.columns)
        query = f"SELECT {told} FROM {table.name} AS t {_which(table)}"  # noqa: S608 - ours
        with translated(self._shown):
            cursor = await self._connection.cursor(query, timeout=_LONG)
            while rows := await cursor.fetch(table.batch, timeout=_LONG):
                yield [tuple(row) for row in rows]

    async def write(self, table: Table, rows: Sequence[Row]) -> None:
        columns, kept = _kept(table)
        with translated(self._shown):
            if table is SEQUENCES:
                await self._connection.execute("DELETE FROM sequences")
            await self._connection.copy_records_to_table(
                table.name, records=[kept(row) for row in rows], columns=columns, timeout=_LONG
            )

    async def commit(self) -> None:
        with translated(self._shown):
            for name, number in _NUMBERED.items():
                sequence = f"pg_get_serial_sequence('{name}', '{number}')"
                await self._connection.execute(
                    f"SELECT setval({sequence}, max({number})) FROM {name}"  # noqa: S608 - ours
                )
            await self._keep()

    async def _keep(self) -> None:
        try:
            await self._connection.execute("COMMIT", timeout=_LONG)
        except Exception as problem:
            if not is_away(problem):
                raise
            raise StoreAway(
                f"the connection to {self._shown} was lost during the last step: whether the move "
                "was kept is not known; move again, and it says so"
            ) from None


def _which(table: Table) -> str:
    """An address without an event was never more than asked about."""
    return "WHERE t.event_id IS NOT NULL" if table.name == "addresses" else ""


# -- rows as they are kept here ----------------------------------------------------------------


def _kept(table: Table) -> tuple[tuple[str, ...], Callable[[Row], Row]]:
    """The columns that are written, and how a row becomes them."""
    match table.name:
        case "idempotency":
            return (*table.columns, "full_key"), _with_digest
        case "addresses":
            return (*table.columns, "full_address"), _with_digest
        case "jobs" | "job_history":
            return table.columns, _job_of(table.columns.index("address"))
        case "lists":
            return (*table.columns, "created_at", "event_id"), _list
        case _:
            return table.columns, _plain


def _plain(row: Row) -> Row:
    return tuple(storable(value) for value in row)


def _digest(text: str) -> bytes:
    return hashlib.sha256(storable(text).encode()).digest()


def _with_digest(row: Row) -> Row:
    text, *rest = row
    return (_digest(text), *rest, storable(text))


def _job_of(place: int) -> Callable[[Row], Row]:
    def job(row: Row) -> Row:
        address = row[place]
        found = None if address is None else _digest(address)
        return (*_plain(row[:place]), found, *_plain(row[place + 1 :]))

    return job


def _list(row: Row) -> Row:
    return (*_plain(row), *version_of(row[3]))
