"""A SQLite file as one end of a move: one connection, one transaction."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import apsw

from postrich.clock import SystemClock
from postrich.store.moving_house import SEQUENCES, Row, Table
from postrich.store.port import WorkerInfo
from postrich.store.sqlite.connection import Database, open_writer, translated


@asynccontextmanager
async def open_end(path: str, *, writes: bool) -> AsyncIterator[FileEnd]:  # noqa: ARG001 - the source too is held against writers
    """Hold the file: others may look, and nobody else writes."""
    database = open_writer(path)
    try:
        with translated(path):
            database.script("BEGIN IMMEDIATE")
        yield FileEnd(database, path)
    finally:
        database.close()  # what was not committed is taken back


class FileEnd:
    """Its steps block: a move has this process to itself."""

    def __init__(self, database: Database, path: str) -> None:
        self._database = database
        self._path = path

    async def time(self) -> int:
        return SystemClock().now()

    async def workers(self) -> list[WorkerInfo]:
        with translated(self._path):
            return self._database.read(list[WorkerInfo], "workers_all")

    async def count(self, table: Table) -> int:
        with translated(self._path):
            [(number,)] = self._query(f"SELECT count(*) FROM {table.name}")  # noqa: S608 - ours
        return int(number)

    async def read(self, table: Table) -> AsyncIterator[list[Row]]:
        with translated(self._path):
            cursor = self._query(f"SELECT {', '.join(table.columns)} FROM {table.name}")  # noqa: S608
            while rows := list(itertools.islice(cursor, table.batch)):
                yield rows

    async def write(self, table: Table, rows: Sequence[Row]) -> None:
        places = ", ".join("?" * len(table.columns))
        how = "REPLACE" if table is SEQUENCES else "INSERT"
        columns = ", ".join(table.columns)
        text = f"{how} INTO {table.name} ({columns}) VALUES ({places})"
        with translated(self._path):
            self._database.link.executemany(text, rows)

    async def commit(self) -> None:
        """The file gives the number after the largest by itself."""
        with translated(self._path):
            if self._database.read(list[Any], "hooks_of", ids=None, pubkey=None):
                self._database.run("hooks_watch")
            self._database.script("COMMIT")

    def _query(self, sql: str) -> apsw.Cursor:
        return self._database.link.execute(sql)
