"""`doctor`: is everything there that delivering needs? Each check says what to do next.

Promises: changes nothing, asks for no passphrase, and one failing check never hides another.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from postrich.config import Settings
from postrich.doors.cli.account_checks import Check, check_accounts
from postrich.doors.cli.home import Home
from postrich.doors.cli.keys import OTHERS
from postrich.doors.cli.probing import probe
from postrich.doors.cli.showing import say, write_json
from postrich.doors.cli.store_checks import check_store, known_place
from postrich.doors.cli.words import plain, relay_name
from postrich.errors import BadSetting
from postrich.store.places import place_of

BORN = 2025
CLOCK_SLACK = 5.0


async def examine(home: Home, as_json: bool) -> int:
    """Answer `postrich doctor`: 1 where anything is wrong."""
    settings, checks = check_settings(home)
    checks += [_safely(check, home) for check in (check_home, check_clock)]
    checks += await check_where_it_is_kept(home)
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
        place = place_of(settings.store, home.path)
    except BadSetting as problem:
        return None, [Check("settings", False, plain(str(problem)), "correct the file")]
    if not settings.relays:
        advice = f"add some to {home.settings_file}, or set POSTRICH_RELAYS"
        return settings, [Check("settings", False, "no relays are configured", advice)]
    if place.has_password and is_open_to_others(home.settings_file):
        text = f"{home.settings_file} may hold a password, and others can read it"
        return settings, [Check("settings", False, text, f"run `chmod 600 {home.settings_file}`")]
    count = len(settings.relays)
    return settings, [Check("settings", True, f"read; {count} relay(s), goal {settings.goal}")]


def is_open_to_others(path: Path) -> bool:
    return path.is_file() and bool(path.stat().st_mode & OTHERS)


def check_home(home: Home) -> Check:
    if not home.path.is_dir():
        return Check("home", False, f"{home.path} is not there", "run `postrich init`")
    if not os.access(home.path, os.R_OK | os.W_OK | os.X_OK):
        return Check("home", False, f"{home.path} is not ours", "correct its owner or permissions")
    return Check("home", True, str(home.path))


async def check_where_it_is_kept(home: Home) -> list[Check]:
    place = known_place(home)
    if place is None:
        return [Check("store", False, "the settings do not say where it is", "correct them first")]
    try:
        return await check_store(place)
    except OSError as problem:
        return [Check("store", False, f"{problem.filename or place.shown}: {problem.strerror}")]


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
