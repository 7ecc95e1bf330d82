"""`queue list` and `queue show`: the queue as it stands. Changes nothing."""

from __future__ import annotations

from collections.abc import Sequence

from postrich.doors.cli.home import Home
from postrich.doors.cli.keys import note_of
from postrich.doors.cli.naming import find_job
from postrich.doors.cli.outset import misuse
from postrich.doors.cli.reasons import look_around
from postrich.doors.cli.roster import known_accounts
from postrich.doors.cli.showing import (
    console,
    job_document,
    job_sheet,
    jobs_table,
    say,
    write_json,
)
from postrich.doors.cli.words import STATES_MEANT
from postrich.errors import BadSetting
from postrich.model.job import JobFilter, JobState
from postrich.rules.trust import normalise_url


def jobs_meant(
    states: Sequence[str], relay: str | None, kind: int | None = None, open_only: bool = False
) -> JobFilter:
    """The filter that options describe."""
    return JobFilter(
        states=states_meant(states), kind=kind, relay=relay_meant(relay), open_only=open_only
    )


def states_meant(names: Sequence[str]) -> tuple[JobState, ...]:
    """States from the words that people use for them."""
    states: list[JobState] = []
    for name in names:
        if name not in STATES_MEANT:
            raise misuse(f"{name!r} is none of {', '.join(STATES_MEANT)}", "--state")
        states += STATES_MEANT[name]
    return tuple(dict.fromkeys(states))


def relay_meant(url: str | None) -> str | None:
    try:
        return None if url is None else normalise_url(url)
    except BadSetting as problem:
        raise misuse(str(problem), "--relay") from None


async def show_list(home: Home, which: JobFilter, limit: int, as_json: bool) -> int:
    """The jobs that a filter means, newest first."""
    async with home.looking() as outbox:
        jobs = await outbox.jobs(which, limit)
        status = await outbox.status()
        around = await look_around(outbox, known_accounts(home), jobs)
    if as_json:
        write_json({"text": status.text, "jobs": [job_document(job, around) for job in jobs]})
        return 0
    if jobs:
        screen = console()
        screen.print(jobs_table(jobs, around, screen.width))
    else:
        say(empty_sentence(which))
    return 0


def empty_sentence(which: JobFilter) -> str:
    """What to say where there is nothing to show."""
    if which == JobFilter():
        return "The queue is empty."
    return "Nothing is waiting." if which.open_only else "No job is like that."


async def show_job(home: Home, name: str, as_json: bool) -> int:
    """One job with every relay."""
    async with home.looking() as outbox:
        job = await outbox.job(await find_job(outbox, name))
        around = await look_around(outbox, known_accounts(home), [job])
    note = note_of(job.event_id)
    if as_json:
        write_json({"note": note} | job_document(job, around))
    else:
        console().print(job_sheet(job, note, around))
    return 0
