"""How answers look: consoles, tables for 80 columns, JSON documents.

Promises: stdout gets the answer and nothing else; with `--json` that is JSON and nothing else.
"""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Iterator
from typing import Any

import msgspec
from rich.console import Console, Group, RenderableType
from rich.status import Status
from rich.table import Table
from rich.text import Text

from postrich.doors.cli.waits import Around, waits_for_what
from postrich.doors.cli.words import (
    ago,
    clock_time,
    count,
    plain,
    reached,
    relay_name,
    snippet,
    state_word,
    until,
    when,
)
from postrich.model.delivery import Delivery, DeliveryState
from postrich.model.job import Job, JobState, QueueStatus

STATE_STYLES = {
    JobState.PUBLISHED: "green",
    JobState.FAILED: "red",
    JobState.PARKED: "magenta",
    JobState.PENDING_SIGN: "yellow",
    JobState.PENDING_PUBLISH: "yellow",
    JobState.SCHEDULED: "cyan",
}
DELIVERY_STYLES = {
    DeliveryState.DELIVERED: "green",
    DeliveryState.WAITING: "yellow",
    DeliveryState.REFUSED: "red",
    DeliveryState.FAILED: "red",
    DeliveryState.PARKED: "magenta",
}


def console(stderr: bool = False) -> Console:
    """Where answers (or, on stderr, progress) are printed; nothing in them is markup."""
    return Console(stderr=stderr, markup=False, highlight=False, emoji=False)


def say(text: str, style: str | None = None) -> None:
    """One line of an answer, as long as it is."""
    console().print(Text(text, style=style or ""), soft_wrap=True)


def write_json(document: Any, *, indent: bool = True) -> None:
    """One JSON document on a line of its own; indented where a person looks at it alone."""
    body = msgspec.json.encode(document)
    if indent and sys.stdout.isatty():
        body = msgspec.json.format(body, indent=2)
    sys.stdout.write(body.decode() + "\n")
    sys.stdout.flush()


@functools.cache
def _margin() -> Console:
    """One for all that is said beside the answer, so that lines do not disturb the progress."""
    return console(stderr=True)


def aside(text: str) -> None:
    """One line that is no part of the answer, such as what a person must do meanwhile."""
    _margin().print(Text(text), soft_wrap=True)


@contextlib.contextmanager
def doing(text: str) -> Iterator[Status | None]:
    """Show at a terminal that something is going on; elsewhere say nothing."""
    if not _margin().is_terminal:
        yield None
        return
    with _margin().status(text) as status:
        yield status


def job_document(job: Job, around: Around) -> dict[str, Any]:
    """A job for programs: every field, times in milliseconds, counters per phase (A7)."""
    document: dict[str, Any] = msgspec.to_builtins(job)
    document["attempts"] = {"sign": job.sign_attempts, "publish": job.publish_attempts}
    del document["sign_attempts"]
    document["waits_for_what"] = msgspec.to_builtins(waits_for_what(job, around))
    return document


# -- the list ----------------------------------------------------------------------------------


_COLUMNS = ("JOB", "STATE", "SINCE", "KIND", "RELAYS", "WAITS FOR")
_GAP = 2
_WAIT_WIDTH = 26


def jobs_table(jobs: list[Job], around: Around, width: int) -> RenderableType:
    """Jobs, one line each; the note gets what the other columns leave of the width."""
    rows = [_cells(job, around) for job in jobs]
    widths = [max(map(len, column)) for column in zip(_COLUMNS, *rows, strict=True)]
    rest = max(8, width - sum(widths) - _GAP * len(widths))
    table = Table.grid(padding=(0, _GAP, 0, 0))
    for name in (*_COLUMNS, "NOTE"):
        table.add_column(justify="right" if name in ("JOB", "KIND") else "left", no_wrap=True)
    table.add_row(*_COLUMNS, "NOTE", style="dim")
    for job, cells in zip(jobs, rows, strict=True):
        state = Text(cells[1], STATE_STYLES.get(job.state, ""))
        note = Text(snippet(job.content, rest))
        note.truncate(rest, overflow="ellipsis")  # by cells: some characters take two
        table.add_row(cells[0], state, *cells[2:], note)
    return table


def _cells(job: Job, around: Around) -> tuple[str, ...]:
    return (
        str(job.id),
        state_word(job.state),
        ago(job.accepted_at, around.now),
        str(job.kind),
        f"{len(job.delivered)}/{len(job.deliveries)}",
        wait_word(job, around),
    )


def wait_word(job: Job, around: Around) -> str:
    """What the job waits for, and when something happens to it next."""
    wait = waits_for_what(job, around)
    if wait is None:
        return "–"
    is_ahead = job.next_at is not None and job.next_at > around.now and not job.is_finished
    following = f", {until(job.next_at or 0, around.now)}" if is_ahead else ""
    return snippet(wait.short, _WAIT_WIDTH - len(following)) + following


def status_lines(status: QueueStatus, now: int) -> list[str]:
    """The queue in sentences (A12)."""
    lines = [status.text if status.pending else _nothing(status)]
    if status.scheduled:
        lines.append(f"{count(status.scheduled, 'job')} scheduled for later")
    if status.pending or status.open_deliveries:
        lines.append(
            f"{count(status.open_deliveries, 'delivery')} open, "
            f"tried {count(status.total_attempts, 'time')} so far"
        )
    if status.oldest is not None:
        lines.append(f"oldest: {when(status.oldest, now)}")
    if status.parked:
        lines.append(f"{count(status.parked, 'job')} parked: somebody must act")
    if status.failed:
        lines.append(f"{count(status.failed, 'job')} failed: retry or delete")
    return lines


def _nothing(status: QueueStatus) -> str:
    if status.open_deliveries:
        return "Nothing waits to be published; further relays are still being served."
    return "Nothing is waiting."


# -- one job -----------------------------------------------------------------------------------


def job_sheet(job: Job, note: str, around: Around) -> RenderableType:
    """Everything about one job."""
    now = around.now
    facts = Table.grid(padding=(0, 2))
    facts.add_column(style="dim", no_wrap=True)
    facts.add_column(overflow="fold")
    for name, value in _facts(job, note, now):
        facts.add_row(name, value)
    if (wait := waits_for_what(job, around)) is not None:
        facts.add_row("now", Text(wait.text, "yellow"))
    return Group(facts, Text(), deliveries_table(job.deliveries, now))


def _facts(job: Job, note: str, now: int) -> list[tuple[str, Text]]:
    found = [
        ("job", Text(str(job.id))),
        ("state", Text(state_word(job.state), STATE_STYLES.get(job.state, ""))),
        ("relays", Text(f"{reached(job)}, goal {job.goal}")),
        ("event", Text(note)),
        ("kind", Text(f"{job.kind}, {job.size:,} bytes")),
        ("accepted", Text(when(job.accepted_at, now))),
    ]
    for name, at in (("due", job.due_at), ("published", job.published_at)):
        if at is not None:
            found.append((name, Text(when(at, now))))
    if not job.is_finished:
        found.append(("gives up", Text(when(job.expires_at, now))))
    if job.error is not None:
        found.append(("error", Text(f"{job.error.code}: {plain(job.error.message)}", "red")))
    found += [("tag", Text(plain(" ".join(tag)))) for tag in job.tags]
    found.append(("content", Text(plain(job.content))))
    return found


def deliveries_table(deliveries: tuple[Delivery, ...], now: int) -> Table:
    """Every relay of a job."""
    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in ("RELAY", "STATE", "TRIES", "WHEN", "WHAT IT SAID"):
        table.add_column(name, justify="right" if name == "TRIES" else "left", overflow="fold")
    for delivery in deliveries:
        table.add_row(
            relay_name(delivery.relay),
            Text(delivery.state.value, DELIVERY_STYLES.get(delivery.state, "")),
            str(delivery.attempts),
            _delivery_time(delivery, now),
            Text(plain(delivery.detail or delivery.code or "")),
        )
    return table


def _delivery_time(delivery: Delivery, now: int) -> str:
    if delivery.settled_at is not None:
        return clock_time(delivery.settled_at, now)
    return "" if delivery.next_at is None else until(delivery.next_at, now)
