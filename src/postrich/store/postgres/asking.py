"""What a PostgreSQL server says of itself; changes nothing."""

from __future__ import annotations

import msgspec

from postrich.clock import SystemClock
from postrich.store.postgres.address import parse_address
from postrich.store.postgres.faults import translated
from postrich.store.postgres.sessions import connect

_QUESTION = """
SELECT current_setting('server_version'), pg_is_in_recovery(),
  (extract(epoch FROM clock_timestamp()) * 1000)::bigint
"""


class Server(msgspec.Struct, frozen=True):
    """A server that answered. `ahead`: by so many milliseconds its clock is ahead of ours."""

    version: str
    is_standby: bool
    ahead: int


async def ask_server(dsn: str) -> Server:
    """Which server it is, and what its clock says; raises `StoreError` where it is not there."""
    address = parse_address(dsn)
    clock = SystemClock()
    with translated(address.shown):
        connection = await connect(address, readonly=True)
        try:
            before = clock.now()
            version, is_standby, time = await connection.fetchrow(_QUESTION)
            return Server(version.split()[0], is_standby, time - (before + clock.now()) // 2)
        finally:
            await connection.close()
