"""`why`: the whole story of a job in time order, what it waits for, and the evidence.

Promises: says only what the store knows. Reads; never changes anything.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from postrich.doors.cli.home import Home
from postrich.doors.cli.keys import note_of
from postrich.doors.cli.naming import find_job
from postrich.doors.cli.reasons import look_around, waits_of
from postrich.doors.cli.roster import known_accounts
from postrich.doors.cli.showing import (
    DELIVERY_STYLES,
    STATE_STYLES,
    console,
    job_document,
    say,
    write_json,
)
from postrich.doors.cli.waits import Around
from postrich.doors.cli.words import (
    ago,
    clock_time,
    count,
    plain,
    reached,
    relay_name,
    snippet,
    span,
    state_word,
    when,
)
from postrich.model.delivery import Delivery, DeliveryState
from postrich.model.job import Chapter, Job, JobState


@dataclass(frozen=True)
class Line:
    """One happening, in words."""

    at: int
    text: str
    relay: str | None = None
    style: str = ""


async def tell(home: Home, name: str, as_json: bool) -> int:
    """Answer `postrich why JOB`."""
    async with home.looking() as outbox:
        job = await outbox.job(await find_job(outbox, name))
        lines = lines_of(job, await outbox.story(job.id))
        around = await look_around(outbox, known_accounts(home), [job])
        waits = await waits_of(outbox, job, around)
    if as_json:
        write_json(_document(job, lines, waits, around))
    else:
        _print(job, lines, waits, around.now)
    return 0


def lines_of(job: Job, chapters: list[Chapter]) -> list[Line]:
    """The story in time order: what was noted, and the plain road that needs no note."""
    lines = [Line(job.accepted_at, _accepted(job, chapters))]
    lines += [_line_of_chapter(chapter) for chapter in chapters]
    noted = {(chapter.relay, chapter.at) for chapter in chapters}
    lines += [
        Line(delivery.settled_at, _settled(delivery), delivery.relay, _style(delivery))
        for delivery in job.deliveries
        if delivery.settled_at is not None
        and (delivery.relay, delivery.settled_at) not in noted
        and (None, delivery.settled_at) not in noted
    ]
    if job.published_at is not None:
        lines.append(
            Line(job.published_at, f"published: the goal of {job.goal} is met", None, "green")
        )
    return _gathered(sorted(lines, key=lambda line: line.at))


def _gathered(lines: list[Line]) -> list[Line]:
    """The same thing again and again is one line: a signer may be away for days."""
    found: list[Line] = []
    for (text, relay), same in itertools.groupby(lines, lambda line: (line.text, line.relay)):
        first, *others = same
        times = f" ({len(others) + 1} times)" if others else ""
        found.append(Line(first.at, text + times, relay, first.style))
    return found


def _accepted(job: Job, chapters: list[Chapter]) -> str:
    text = (
        f"accepted: kind {job.kind}, {count(job.size, 'byte')}, for "
        f"{count(len(job.deliveries), 'relay')}, retry policy {job.policy.name}, "
        f"given up after {span(job.expires_at - (job.due_at or job.accepted_at))}"
    )
    was_draft = job.sign_attempts or any(chapter.what == "signed" for chapter in chapters)
    if was_draft or job.state is JobState.PENDING_SIGN:
        return f"{text}; not signed yet"
    is_on_its_way = job.state in _SIGNED or job.publish_attempts
    return f"{text}; signed" if is_on_its_way else text


_SIGNED = (JobState.SCHEDULED, JobState.PENDING_PUBLISH, JobState.PUBLISHED)
_ACTS = {
    "expired": "gave up",
    "not-signed": "not signed",
    "resumed": "went on",
}


def _line_of_chapter(chapter: Chapter) -> Line:
    detail = plain(chapter.detail)
    if chapter.relay is None:
        what = _ACTS.get(chapter.what, plain(chapter.what))
        if chapter.what == "signed":
            return Line(chapter.at, f"signed {detail}".strip(), None, "green")
        if chapter.what == "not-signed":
            code, _, detail = detail.partition(": ")
            return Line(chapter.at, f"{what}: {detail} ({code})", None, "yellow")
        return Line(chapter.at, f"{what}: {detail}" if detail else what)
    attempt = f"attempt {chapter.attempt}: " if chapter.attempt else ""
    said = f"{plain(chapter.what)} — {detail}" if detail else plain(chapter.what)
    style = "green" if chapter.what in ("ok", "duplicate") else "yellow"
    return Line(chapter.at, attempt + said, chapter.relay, style)


def _settled(delivery: Delivery) -> str:
    said = plain(delivery.detail)
    if delivery.state is DeliveryState.DELIVERED:
        text = f"attempt {delivery.attempts}: delivered, the relay said OK"
    else:
        text = delivery.state.value
    return f"{text} — {said}" if said else text


def _style(delivery: Delivery) -> str:
    return DELIVERY_STYLES.get(delivery.state, "")


# -- showing -----------------------------------------------------------------------------------


def _document(job: Job, lines: list[Line], waits: list[str], around: Around) -> dict[str, Any]:
    return {
        "note": note_of(job.event_id),
        "job": job_document(job, around),
        "story": [{"at": line.at, "relay": line.relay, "text": line.text} for line in lines],
        "waits": waits,
        "evidence": [
            {"relay": d.relay, "at": d.settled_at, "code": d.code, "said": d.detail}
            for d in job.delivered
        ],
    }


def _print(job: Job, lines: list[Line], waits: list[str], now: int) -> None:
    head = Text(f"Job {job.id} is ")
    head.append(state_word(job.state), STATE_STYLES.get(job.state, ""))
    head.append(f": {reached(job)}, goal {job.goal}")
    console().print(head, soft_wrap=True)
    say(f"“{snippet(job.content, 70)}”")
    say(note_of(job.event_id), "dim")
    say("")
    console().print(_timeline(lines, now))
    if waits:
        say("\nNow:")
        for sentence in waits:
            say(f"  {sentence}", "yellow")
    if job.delivered:
        say("\nEvidence:")
        for delivery in job.delivered:
            say(f"  {_evidence(delivery, now)}", "green")


def _timeline(lines: list[Line], now: int) -> RenderableType:
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for line in lines:
        place = f"{relay_name(line.relay)}: " if line.relay else ""
        told = Text(place + line.text, line.style)
        table.add_row(clock_time(line.at, now), ago(line.at, now), told)
    return table


def _evidence(delivery: Delivery, now: int) -> str:
    at = when(delivery.settled_at, now) if delivery.settled_at is not None else "once"
    said = f": “{plain(delivery.detail)}”" if delivery.detail else ""
    answer = "duplicate" if delivery.code == "duplicate" else "OK"
    return f"✓ {relay_name(delivery.relay)} answered {answer} {at}{said}"
