"""The schema's upgrades, safe while several processes start at once and while old ones still run.

Each migration file is one of two steps. `expand` only adds, so that the version before still works
with it: whoever starts first applies it. `contract` takes away what only old versions use: it is
applied by `upgrade` alone, once no old version runs. `min_version` in the database is the oldest
schema whose software may still work there.
"""

from __future__ import annotations

import re
from typing import Any

import asyncpg
import msgspec

from postrich.errors import StoreUnusable
from postrich.store.port import WorkerInfo
from postrich.store.postgres.address import Address, parse_address
from postrich.store.postgres.faults import translated
from postrich.store.postgres.sessions import connect
from postrich.store.queries import migrations
from postrich.store.schema import LATELY_MS

_STEP = re.compile(r"\A-- step: (expand|contract)(?: (\d+))?\n")
_RACES = (
    asyncpg.UniqueViolationError,
    asyncpg.DuplicateTableError,
    asyncpg.DuplicateSchemaError,
)
_TURNS = 5
_WAIT = "SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = '120s'"


#: Since this schema workers say which one they know.
_SAYS_WHAT_IT_KNOWS = 2
_OLDER = """
SELECT owner, host, pid, role, started_at, seen_at FROM workers
WHERE {knows} < $1::integer AND seen_at > extract(epoch FROM clock_timestamp()) * 1000 - $2::integer
ORDER BY started_at
"""


class Step(msgspec.Struct, frozen=True):
    """One migration. `leaves`: the oldest schema whose software works with it, where that rises."""

    number: int
    sql: str
    leaves: int | None


class SchemaStatus(msgspec.Struct, frozen=True):
    """Which schema a database has, the oldest that may work with it, and what is to be done."""

    version: int
    min_version: int
    newest: int
    pending: tuple[int, ...]
    contracting: tuple[int, ...]


def steps() -> list[Step]:
    return [read_step(number, sql) for number, sql in migrations("postgres").items()]


def read_step(number: int, sql: str) -> Step:
    """A migration's kind is its first line: `-- step: expand`, or `-- step: contract 3`, which
    leaves only software that knows schema 3."""
    found = _STEP.match(sql)
    if found is None:
        raise ValueError(f"migration {number} does not say which step it is")
    if found[1] == "expand":
        return Step(number, sql, None)
    return Step(number, sql, int(found[2] or number))


async def status(dsn: str) -> SchemaStatus:
    """What a database has; changes nothing."""
    address = parse_address(dsn)
    with translated(address.shown):
        connection = await connect(address, readonly=True)
        try:
            version, least = await _versions(connection, address)
        finally:
            await connection.close()
    return _status(version, least)


def _status(version: int, least: int) -> SchemaStatus:
    todo = [step for step in steps() if step.number > version]
    return SchemaStatus(
        version,
        least,
        max(migrations("postgres")),
        tuple(step.number for step in todo),
        tuple(step.number for step in todo if step.leaves is not None),
    )


async def upgrade(dsn: str, *, contract: bool = True) -> SchemaStatus:
    """Apply everything; contracting steps too, where no older version runs any more."""
    address = parse_address(dsn)
    await prepare(address, contract=contract)
    return await status(dsn)


async def older_workers(dsn: str, schema: int) -> list[WorkerInfo]:
    """Workers that were heard of lately, and do not say that they know this schema."""
    address = parse_address(dsn)
    with translated(address.shown):
        connection = await connect(address, readonly=True)
        try:
            version, _ = await _versions(connection, address)
            if version == 0:
                return []
            knows = "knows" if version >= _SAYS_WHAT_IT_KNOWS else "0"
            rows = await connection.fetch(_OLDER.format(knows=knows), schema, LATELY_MS)
        finally:
            await connection.close()
    return [WorkerInfo(*row) for row in rows]


async def prepare(address: Address, *, contract: bool = False) -> None:
    """Bring the schema to where this software can work with it, or say why it cannot be."""
    with translated(address.shown):
        connection = await connect(address)
        try:
            if connection.get_settings().server_encoding != "UTF8":
                raise StoreUnusable(f"{address.shown} does not keep its texts as UTF-8")
            if await _is_ready(connection, address, contract):
                return
            await _create(connection, address)
            async with connection.transaction():
                await connection.execute(_WAIT)
                await connection.execute("LOCK TABLE schema_version IN ACCESS EXCLUSIVE MODE")
                if not await _is_ready(connection, address, contract):
                    await _apply(connection, address, contract)
        finally:
            await connection.close()


async def _is_ready(connection: Any, address: Address, contract: bool) -> bool:
    version, least = await _versions(connection, address)
    known = max(migrations("postgres"))
    if version > known and least > known:
        raise StoreUnusable(
            f"{address.shown} was made by a newer Postrich (schema {version}, this one knows "
            f"{known})"
        )
    return version > 0 and not _todo(version, contract)


async def _versions(connection: Any, address: Address) -> tuple[int, int]:
    """(0, 0) where there is nothing of ours yet."""
    table = f"{address.schema}.schema_version"
    if await connection.fetchval("SELECT to_regclass($1)", table) is None:
        return 0, 0
    row = await connection.fetchrow("SELECT version, min_version FROM schema_version")
    return (0, 0) if row is None else (row["version"], row["min_version"])


def _todo(version: int, contract: bool) -> list[Step]:
    """What is to be applied: up to the first contracting step, unless nobody can be hurt."""
    todo: list[Step] = []
    for step in steps():
        if step.number > version:
            if step.leaves is not None and not contract and version > 0:
                break
            todo.append(step)
    return todo


async def _create(connection: Any, address: Address) -> None:
    """The schema and its version's table; several may try that at once."""
    for turn in range(1, _TURNS + 1):
        try:
            async with connection.transaction():
                await connection.execute(f"CREATE SCHEMA IF NOT EXISTS {address.schema}")
                await connection.execute(
                    "CREATE TABLE IF NOT EXISTS schema_version ("
                    "version integer NOT NULL, min_version integer NOT NULL)"
                )
        except _RACES:
            if turn == _TURNS:
                raise
        else:
            return


async def _apply(connection: Any, address: Address, contract: bool) -> None:
    version, least = await _versions(connection, address)
    for step in _todo(version, contract):
        await connection.execute(step.sql)
        version, least = step.number, least if step.leaves is None else step.leaves
    await connection.execute("DELETE FROM schema_version")
    await connection.execute("INSERT INTO schema_version VALUES ($1, $2)", version, max(least, 1))
