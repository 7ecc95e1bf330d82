"""SQLite connections as Postrich wants them, and the schema's upgrades.

A batch goes in as one JSON text and comes out as one JSON text: a whole batch is then a single
step inside SQLite, which runs without the interpreter's lock (docs/decisions/0002).
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import apsw
import msgspec

from postrich.errors import PostrichError, StoreBusy, StoreError, StoreFull, StoreUnusable
from postrich.store.queries import migrations, queries
from postrich.store.verbs.database import to_json

APPLICATION_ID = 0x506F7374  # "Post"
BUSY_MS = 15_000
PAUSE_MS = 20

T = TypeVar("T")


def _bound(value: Any) -> Any:
    """A value as SQLite takes it: blobs are read where they are (`carray`), other lists as JSON."""
    if value is None or isinstance(value, str | int | bytes):
        return value
    if isinstance(value, list) and value and isinstance(value[0], bytes):
        return apsw.carray(tuple(value))
    return to_json(value)


_decoders: dict[Any, msgspec.json.Decoder[Any]] = {}


def _decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    if kind not in _decoders:
        _decoders[kind] = msgspec.json.Decoder(kind)
    return _decoders[kind]


class Database:
    """One connection, used by one thread at a time."""

    def __init__(self, path: str, *, readonly: bool = False) -> None:
        flags = (
            apsw.SQLITE_OPEN_READONLY
            if readonly
            else (apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE)
        )
        with translated(path):
            self._link = apsw.Connection(path, flags=flags, statementcachesize=128)
            self._link.set_busy_timeout(BUSY_MS)
        self._sql = queries("sqlite")

    @property
    def link(self) -> apsw.Connection:
        """The connection itself, for what is no verb."""
        return self._link

    def script(self, sql: str) -> None:
        self._link.execute(sql)

    def pragma(self, name: str, value: Any = None) -> Any:
        return self._link.pragma(name, value) if value is not None else self._link.pragma(name)

    def run(self, verb: str, /, **values: Any) -> None:
        """Carry a verb out."""
        self._execute(verb, values)

    def scalar(self, verb: str, /, **values: Any) -> Any:
        """The verb's single value; None where there is no row."""
        return self._execute(verb, values).get

    def read(self, kind: type[T], verb: str, /, **values: Any) -> T:
        """The verb's JSON answer, decoded into `kind`."""
        found: T = _decoder(kind).decode(self.scalar(verb, **values))
        return found

    def _execute(self, verb: str, values: dict[str, Any]) -> apsw.Cursor:
        return self._link.execute(self._sql[verb], {k: _bound(v) for k, v in values.items()})

    def lock(self, _what: str, /, **_values: Any) -> bool:
        """Nothing to do: who writes has the whole file."""
        return False

    @property
    def is_writable(self) -> bool:
        return not self._link.readonly("main")

    @property
    def is_empty(self) -> bool:
        """Whether nobody has ever put anything into the file."""
        tables = self._link.execute("SELECT count(*) FROM sqlite_schema").get
        return not (tables or self.pragma("user_version") or self.pragma("application_id"))

    def changes(self) -> int:
        return self._link.changes()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All or nothing; takes the write lock at once, so that it never fails half-way for it."""
        self._link.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._link.execute("COMMIT")
        except BaseException:
            if self._link.in_transaction:
                self._link.execute("ROLLBACK")
            raise

    def close(self) -> None:
        self._link.close()


@contextmanager
def translated(path: str) -> Iterator[None]:
    """Database faults as errors of ours, one sentence each."""
    try:
        yield
    except PostrichError:
        raise
    except apsw.FullError:
        raise StoreFull(f"no space is left for {path}; free some and try again") from None
    except (apsw.BusyError, apsw.LockedError):
        raise StoreBusy(f"{path} is locked by another process; try again") from None
    except (apsw.NotADBError, apsw.CorruptError) as problem:
        raise StoreUnusable(f"{path} is not a usable outbox file: {problem}") from None
    except apsw.CantOpenError:
        raise StoreUnusable(_unopened(path)) from None
    except (apsw.ReadOnlyError, apsw.PermissionsError):
        raise StoreUnusable(f"{path} cannot be written; check its permissions") from None
    except apsw.Error as problem:
        raise StoreError(f"{path}: {problem}") from problem


def _unopened(path: str) -> str:
    return f"{path} cannot be opened; check that its folder exists and may be entered"


def open_writer(path: str) -> Database:
    """The writing connection: durable by default, schema up to date."""
    if path != ":memory:" and not os.path.isdir(Path(path).parent):  # noqa: PTH112 - never raises
        raise StoreUnusable(
            f"{path} cannot be opened; check that its folder exists and may be entered"
        )
    database = Database(path)
    try:
        with translated(path):
            check_file(database, path)
            use_wal(database)
            database.pragma("synchronous", "full")
            database.pragma("wal_autocheckpoint", 10_000)
            database.pragma("cache_size", -32_768)
            database.pragma("temp_store", "memory")
            upgrade(database)
    except BaseException:
        database.close()
        raise
    return database


def use_wal(database: Database) -> None:
    """Switching needs the file for oneself, and SQLite does not always wait for that: we do."""
    for _ in range(BUSY_MS // PAUSE_MS):
        try:
            database.pragma("journal_mode", "wal")
        except apsw.BusyError:
            time.sleep(PAUSE_MS / 1000)
        else:
            return
    database.pragma("journal_mode", "wal")


def open_reader(path: str) -> Database:
    """A reading connection; WAL lets it read while the writer writes."""
    database = Database(path, readonly=True)
    with translated(path):
        database.pragma("cache_size", -16_384)
        database.pragma("query_only", 1)
    return database


def check_file(database: Database, path: str) -> None:
    """Before anything is written: the file is new, or an outbox that this Postrich can read."""
    if not database.is_writable:
        raise StoreUnusable(f"{path} cannot be written; check its permissions")
    if database.is_empty:
        return
    if database.pragma("application_id") != APPLICATION_ID:
        raise StoreUnusable(f"{path} belongs to another program")
    version, newest = database.pragma("user_version"), max(migrations("sqlite"))
    if version > newest:
        raise StoreUnusable(
            f"{path} was made by a newer Postrich (schema {version}, this one knows {newest})"
        )


def version_of(path: Path) -> int:
    """The schema's version of a file that is there; changes nothing."""
    database = Database(str(path), readonly=True)
    try:
        with translated(str(path)):
            if database.is_empty:
                return 0
            if database.pragma("application_id") != APPLICATION_ID:
                raise StoreUnusable(f"{path} belongs to another program")
            version: int = database.pragma("user_version")
            return version
    finally:
        database.close()


def upgrade(database: Database) -> None:
    """Bring the schema to the newest version, with data kept (F10)."""
    steps = migrations("sqlite")
    newest = max(steps)
    if database.pragma("user_version") == newest:
        return
    with database.transaction():
        version = database.pragma("user_version")  # another process may have been first
        if version >= newest:
            return
        for number, sql in steps.items():
            if number > version:
                database.script(sql)
        database.pragma("application_id", APPLICATION_ID)
        database.pragma("user_version", newest)
