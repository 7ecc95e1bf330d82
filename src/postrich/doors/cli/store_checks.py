"""The doctor's look at the store: is it there, whole, and of a schema that we know?

Promises: changes nothing, and says nothing of a password.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from postrich.doors.cli.account_checks import Check
from postrich.doors.cli.home import Home
from postrich.doors.cli.words import plain, span
from postrich.errors import PostrichError, StoreAway
from postrich.store import driver_needed
from postrich.store.places import Place
from postrich.store.schema import SchemaStatus, schema_status
from postrich.store.sqlite.connection import APPLICATION_ID, Database, translated

SPARSE_BYTES = 100 * 1024 * 1024
CLOCK_SLACK_MS = 5000
A_BACKUP = "put a backup in its place"


async def check_store(place: Place) -> list[Check]:
    """All there is to say about where the outbox is kept."""
    if place.is_postgres:
        return await _check_database(place)
    return [await _check_file(place), check_space(place.path)]


# -- a file ------------------------------------------------------------------------------------


async def _check_file(place: Place) -> Check:
    path = place.path
    if not path.is_file():
        return Check("store", False, f"{path} is not there", "run `postrich init`")
    try:
        problem = _look_into(path)
        found = await schema_status(place)
    except PostrichError as failure:
        return Check("store", False, plain(str(failure)), A_BACKUP)
    if problem:
        return Check("store", False, problem, A_BACKUP)
    size = path.stat().st_size / 1024
    return _newer(found) or Check("store", True, f"sound; {_schema(found)}, {size:,.0f} KiB")


def _look_into(path: Path) -> str:
    """What is wrong with the file; "" where nothing is."""
    database = Database(str(path), readonly=True)
    try:
        with translated(str(path)):
            if database.pragma("application_id") != APPLICATION_ID:
                return f"{path} belongs to another program"
            verdict = database.pragma("quick_check")
            return "" if verdict == "ok" else plain(str(verdict))
    finally:
        database.close()


def check_space(path: Path) -> Check:
    place = next(folder for folder in path.absolute().parents if folder.is_dir())
    free = shutil.disk_usage(place).free
    text = f"{free / 2**30:,.1f} GiB free"
    return Check("space", free >= SPARSE_BYTES, text, "free some space: a full disk keeps nothing")


# -- a database --------------------------------------------------------------------------------


async def _check_database(place: Place) -> list[Check]:
    try:
        with driver_needed():
            from postrich.store.postgres.asking import ask_server
        server = await ask_server(place.text)
        found = await schema_status(place)
    except StoreAway as failure:
        advice = "start the database, or correct `store`; notes cannot be taken meanwhile"
        return [Check("store", False, plain(str(failure)), advice)]
    except PostrichError as failure:
        return [Check("store", False, plain(str(failure)), f"correct `store` ({_WHERE_SET})")]
    name = f"{place.shown}, PostgreSQL {server.version}"
    if server.is_standby:
        advice = "give the address of the primary"
        return [Check("store", False, f"{name} is a standby, which keeps nothing", advice)]
    if found.version == 0:
        return [Check("store", False, f"{name} has no outbox yet", "run `postrich migrate up`")]
    store = _newer(found) or Check("store", True, f"{name}; {_schema(found)}")
    return [store, _clock(server.ahead)]


_WHERE_SET = "postrich.toml or POSTRICH_STORE"


def _clock(ahead: int) -> Check:
    """Workers go by the database's clock; relays refuse what comes from the future."""
    if abs(ahead) <= CLOCK_SLACK_MS:
        return Check("database clock", True, f"within {span(max(1000, abs(ahead)))} of ours")
    text = f"{span(abs(ahead))} {'ahead of' if ahead > 0 else 'behind'} ours"
    return Check("database clock", False, text, "set this machine's clock, or the database's")


# -- both --------------------------------------------------------------------------------------


def _schema(found: SchemaStatus) -> str:
    return f"schema {found.version} of {found.newest}"


def _newer(found: SchemaStatus) -> Check | None:
    if not found.is_newer:
        return None
    return Check("store", False, f"schema {found.version} is newer than ours", "upgrade Postrich")


def known_place(home: Home) -> Place | None:
    """Where the outbox is, as far as can be told: settings that cannot be read hide that."""
    try:
        return home.place()
    except PostrichError:
        own = Place(str(home.path / "outbox.db"))
        return own if own.path.is_file() else None
