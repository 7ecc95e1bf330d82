"""`doctor`: is everything there that delivering needs? Each check says what to do next.

Promises: changes nothing, asks for no passphrase, and one failing check never hides another.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from postrich.config import Settings
from postrich.doors.cli.account_checks import Check, check_accounts
from postrich.doors.cli.home import Home
from postrich.doors.cli.probing import probe
from postrich.doors.cli.showing import say, write_json
from postrich.doors.cli.words import plain, relay_name
from postrich.errors import BadSetting, PostrichError
from postrich.store.queries import migrations
from postrich.store.sqlite.connection import APPLICATION_ID, Database, translated

SPARSE_BYTES = 100 * 1024 * 1024
BORN = 2025
CLOCK_SLACK = 5.0


async def examine(home: Home, as_json: bool) -> int:
    """Answer `postrich doctor`: 1 where anything is wrong."""
    settings, checks = check_settings(home)
    for check in (check_home, check_store, check_clock, check_space):
        checks.append(_safely(check, home))
    checks += await check_accounts(home)
    if settings is not None:
        checks += await asyncio.gather(*(check_relay(url, settings) for url in settings.relays))
    if as_json:
        write_json({"ok": all(check.ok for check in checks), "checks": checks})
    else:
        for found in checks:
            _print(found)
    return 0 if all(check.ok for check in checks) else 1


def _safely(check: Callable[[Home], Check], home: Home) -> Check:
    name = check.__name__.removeprefix("check_")
    try:
        return check(home)
    except OSError as problem:
        return Check(name, False, f"{problem.filename or home.path}: {problem.strerror}")


def _print(check: Check) -> None:
    say(f"{'✓' if check.ok else '✗'} {check.name}: {check.text}", "green" if check.ok else "red")
    if not check.ok and check.advice:
        say(f"  → {check.advice}")


# -- the checks --------------------------------------------------------------------------------


def check_settings(home: Home) -> tuple[Settings | None, list[Check]]:
    try:
        settings = home.settings()
    except BadSetting as problem:
        return None, [Check("settings", False, plain(str(problem)), "correct the file")]
    if not settings.relays:
        advice = f"add some to {home.settings_file}, or set POSTRICH_RELAYS"
        return settings, [Check("settings", False, "no relays are configured", advice)]
    count = len(settings.relays)
    return settings, [Check("settings", True, f"read; {count} relay(s), goal {settings.goal}")]


def check_home(home: Home) -> Check:
    if not home.path.is_dir():
        return Check("home", False, f"{home.path} is not there", "run `postrich init`")
    if not os.access(home.path, os.R_OK | os.W_OK | os.X_OK):
        return Check("home", False, f"{home.path} is not ours", "correct its owner or permissions")
    return Check("home", True, str(home.path))


def check_store(home: Home) -> Check:
    if not home.store.is_file():
        return Check("store", False, f"{home.store} is not there", "run `postrich init`")
    try:
        version, problem = look_into(home.store)
    except PostrichError as failure:
        return Check("store", False, plain(str(failure)), "put a backup in its place")
    newest = max(migrations("sqlite"))
    if problem:
        return Check("store", False, problem, "put a backup in its place")
    if version > newest:
        return Check("store", False, f"schema {version} is newer than ours", "upgrade Postrich")
    size = home.store.stat().st_size / 1024
    return Check("store", True, f"sound; schema {version} of {newest}, {size:,.0f} KiB")


def look_into(path: Path) -> tuple[int, str]:
    """The schema's version, and what is wrong with the file ("" where nothing is)."""
    database = Database(str(path), readonly=True)
    try:
        with translated(str(path)):
            if database.pragma("application_id") != APPLICATION_ID:
                return 0, f"{path} belongs to another program"
            verdict = database.pragma("quick_check")
            return database.pragma("user_version"), "" if verdict == "ok" else plain(str(verdict))
    finally:
        database.close()


def check_clock(home: Home) -> Check:
    """Relays refuse events from the future, and every backoff is written as a time."""
    now = time.time()
    shown = datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    advice = "set the machine's clock"
    if datetime.fromtimestamp(now, UTC).year < BORN:
        return Check("clock", False, f"it says {shown}, which is long ago", advice)
    where = home.path if home.path.is_dir() else None
    with tempfile.NamedTemporaryFile(dir=where) as file:
        apart = abs(Path(file.name).stat().st_mtime - now)
    if apart > CLOCK_SLACK:
        return Check("clock", False, f"{apart:.0f} s apart from the file system's", advice)
    return Check("clock", True, shown)


def check_space(home: Home) -> Check:
    place = next(path for path in (home.path, *home.path.absolute().parents) if path.is_dir())
    free = shutil.disk_usage(place).free
    text = f"{free / 2**30:,.1f} GiB free"
    return Check("space", free >= SPARSE_BYTES, text, "free some space: a full disk keeps nothing")


async def check_relay(url: str, settings: Settings) -> Check:
    found = await probe(url, settings.connect_timeout)
    name = f"relay {relay_name(url)}"
    if found.fault is not None:
        return Check(
            name, False, found.fault, "check the URL and the network; notes wait meanwhile"
        )
    return Check(
        name, True, f"connected in {found.dial_ms:.0f} ms, answered in {found.answer_ms:.0f} ms"
    )
