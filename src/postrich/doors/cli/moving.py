"""`move`: the whole outbox to another place, checked (G4).

Promises: only to an empty place, only while nobody works at either; all or nothing. The old place
stays as it is, and the settings too: the person is told which line to change.
"""

from __future__ import annotations

import os
from pathlib import Path

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn

from postrich.deliver.fleet import is_dead
from postrich.doors.cli.home import Home
from postrich.doors.cli.setting_up import toml_text, warn_of_password
from postrich.doors.cli.showing import console, say, write_json
from postrich.doors.cli.words import count
from postrich.store.moving_house import Moved, move_house
from postrich.store.places import Place, place_of
from postrich.store.port import WorkerInfo
from postrich.store.schema import LATELY_MS


async def move(home: Home, to: str, as_json: bool) -> int:
    """Answer `postrich move --to …`."""
    home.check()
    source, target = home.place(), place_of(to, Path.cwd())
    warn_of_password(target, to)
    with _Bars() as bars:
        moved = await move_house(source, target, is_busy, bars.advance)
    if as_json:
        write_json({"from": source.shown, "to": target.shown, "tables": moved})
    else:
        _report(source, target, moved)
    return 0


def is_busy(worker: WorkerInfo, now: int) -> bool:
    """Whether it may still be at work: it would go on at the old place."""
    return worker.seen_at > now - LATELY_MS and not is_dead(worker)


def _report(source: Place, target: Place, moved: list[Moved]) -> None:
    rows = {table.table: table.rows for table in moved}
    jobs = rows["jobs"] + rows["job_history"]
    total = sum(rows.values())
    say(
        f"Moved {count(jobs, 'job')} with all that belongs to them ({count(total, 'row')}) "
        f"to {target.shown}; read again and found the same."
    )
    if os.environ.get("POSTRICH_STORE"):
        say(f"Next: set POSTRICH_STORE to {_address(target)}")
    else:
        say("Next: put this line into postrich.toml, above all others but in place of any `store`:")
        say(f"  store = {toml_text(_address(target))}")
    say(f"Nothing was taken from {source.shown}: do not work on both; delete it when all is well.")


def _address(target: Place) -> str:
    """What opens the new place; a password is not repeated."""
    return target.without_password if target.is_postgres else str(target.path.absolute())


class _Bars:
    """A bar for each part of the work, at a terminal."""

    def __init__(self) -> None:
        screen = console(stderr=True)
        columns = (TextColumn("{task.description:<9}"), BarColumn(), MofNCompleteColumn())
        self._progress = Progress(*columns, console=screen, disable=not screen.is_terminal)
        self._tasks: dict[str, TaskID] = {}

    def advance(self, doing: str, rows: int, total: int) -> None:
        if doing not in self._tasks:
            self._tasks[doing] = self._progress.add_task(doing, total=total)
        self._progress.advance(self._tasks[doing], rows)

    def __enter__(self) -> _Bars:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()
