"""Many events at once: JSON Lines in, each line's fate out.

Promises: a bad line is reported with its number and reason, and the others go on; lines of a
file are read as they are needed.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn
from rich.text import Text

from postrich.accept import Options
from postrich.doors.cli.outset import FAILED
from postrich.doors.cli.showing import console, say, write_json
from postrich.doors.cli.waiting import Vigil, exit_code
from postrich.doors.cli.words import count, plain
from postrich.errors import InvalidEvent
from postrich.model.job import JobState
from postrich.outbox import Handle, Outbox

BATCH = 8192
NO_AUTHOR = "not an event: it names no pubkey"


@dataclass
class Items:
    """What was handed to us: one event, or numbered lines (or items of a JSON array)."""

    lines: Iterable[tuple[int, bytes]] = ()
    single: bytes | None = None
    total: int = 1
    unit: str = "line"


@dataclass
class Fates:
    """What became of each line."""

    kept: list[tuple[int, Handle]] = field(default_factory=list)
    refused: list[tuple[int, str]] = field(default_factory=list)


def read_items(source: str) -> Items:
    """Events from a file or, as `-`, from stdin; one JSON document, or one per line."""
    if source != "-":
        with Path(source).open("rb") as file:
            first = file.readline()
            if first.strip() and _is_document(first) and file.read(1):
                return Items(_lines_of_file(Path(source)), total=_count_lines(Path(source)))
    body = sys.stdin.buffer.read() if source == "-" else Path(source).read_bytes()
    if not body.strip():
        raise InvalidEvent("there is no event to post")
    if (members := _members(body)) is not None:
        return Items(list(enumerate(members, 1)), total=len(members), unit="item")
    lines = list(_numbered(body.splitlines()))
    if len(lines) == 1 or _is_document(body):
        return Items(single=body.strip())
    return Items(lines, total=len(lines))


def _is_document(body: bytes) -> bool:
    try:
        return isinstance(msgspec.json.decode(body), dict)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return False


def _members(body: bytes) -> list[bytes] | None:
    """The members of a JSON array, each as it stands there."""
    try:
        return [bytes(member) for member in msgspec.json.decode(body, type=list[msgspec.Raw])]
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None


def _numbered(lines: Iterable[bytes]) -> Iterator[tuple[int, bytes]]:
    return ((number, line.strip()) for number, line in enumerate(lines, 1) if line.strip())


def _lines_of_file(path: Path) -> Iterator[tuple[int, bytes]]:
    with path.open("rb") as file:
        yield from _numbered(file)


def _count_lines(path: Path) -> int:
    with path.open("rb") as file:
        return sum(1 for line in file if line.strip())


# -- posting -----------------------------------------------------------------------------------


async def post_many(
    outbox: Outbox, vigil: Vigil, items: Items, options: Options, *, wait: float, as_json: bool
) -> int:
    """Hand all lines in, follow them, and say how it went."""
    with progress_bar() as progress:
        fates = await _hand_in(outbox, items, options, progress)
        states = await _follow(vigil, fates, wait, progress)
    if as_json:
        _write_fates(fates, states)
    else:
        _report(fates, states)
    return FAILED if fates.refused else exit_code(list(states.values()))


def progress_bar() -> Progress:
    """How far it is, on stderr where that is a terminal."""
    screen = console(stderr=True)
    columns = (TextColumn("{task.description:<9}"), BarColumn(), MofNCompleteColumn())
    return Progress(*columns, console=screen, disable=not screen.is_terminal)


async def _hand_in(outbox: Outbox, items: Items, options: Options, progress: Progress) -> Fates:
    fates = Fates()
    task = progress.add_task("kept", total=items.total)
    lines = iter(items.lines)
    while batch := list(itertools.islice(lines, BATCH)):
        owned = [line for _, line in batch if names_author(line)]
        answers = iter(
            await outbox.publish_many(owned, options, lambda some: progress.advance(task, some))
        )
        for number, line in batch:
            answer = next(answers) if names_author(line) else InvalidEvent(NO_AUTHOR)
            if isinstance(answer, Handle):
                fates.kept.append((number, answer))
            else:
                reason = plain(str(answer))
                fates.refused.append((number, reason))
                progress.console.print(Text(f"{items.unit} {number}: {reason}"), soft_wrap=True)
    return fates


def check_author(body: bytes) -> None:
    """Refuse one event that says not whose it is."""
    if not names_author(body):
        raise InvalidEvent(NO_AUTHOR)


def names_author(body: bytes) -> bool:
    """Whether it says whose event it is: a stray `{}` must not become a note of ours."""
    return b'"pubkey"' in body or not _is_document(body)


async def _follow(
    vigil: Vigil, fates: Fates, wait: float, progress: Progress
) -> dict[int, JobState]:
    states = {handle.id: handle.state for _, handle in fates.kept}
    if wait > 0 and states:
        task: TaskID = progress.add_task("delivered", total=len(states))
        states |= await vigil.wait(list(states), wait, lambda some: progress.advance(task, some))
    return states


def _write_fates(fates: Fates, states: dict[int, JobState]) -> None:
    documents: dict[int, dict[str, Any]] = {
        number: {"line": number, "error": reason} for number, reason in fates.refused
    }
    for number, handle in fates.kept:
        documents[number] = {
            "line": number,
            "job": handle.id,
            "event_id": handle.event_id,
            "state": states[handle.id],
            "is_new": handle.is_new,
        }
    for _, document in sorted(documents.items()):
        write_json(document, indent=False)


def _report(fates: Fates, states: dict[int, JobState]) -> None:
    published = sum(state is JobState.PUBLISHED for state in states.values())
    ended = sum(exit_code([state]) == FAILED for state in states.values())
    parts = [f"{published:,} published"]
    if queued := len(states) - published - ended:
        parts.append(f"{queued:,} queued")
    if ended:
        parts.append(f"{ended:,} failed")
    if fates.refused:
        parts.append(f"{len(fates.refused):,} refused")
    if repeated := len(fates.kept) - len(states):
        parts.append(f"{repeated:,} repeated")
    say(f"{count(len(fates.kept) + len(fates.refused), 'event')}: {', '.join(parts)}")
