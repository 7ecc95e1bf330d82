"""`queue retry`, `cancel` and `delete`: by name, or in bulk by what jobs have in common.

Promises: bulk means what was said (`--all` or a filter), never what was left out; what cannot
be undone is asked for first.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass

from postrich.doors.cli.home import Home
from postrich.doors.cli.naming import find_jobs
from postrich.doors.cli.outset import misuse
from postrich.doors.cli.queueing import relay_meant, states_meant
from postrich.doors.cli.roster import all_signers
from postrich.doors.cli.showing import say, write_json
from postrich.doors.cli.waiting import exit_code, following
from postrich.doors.cli.words import count
from postrich.errors import CallerError
from postrich.model.job import JobFilter, JobState
from postrich.outbox import Outbox
from postrich.rules.lifecycle import DELETABLE

COUNTED = 1000


@dataclass(frozen=True)
class Choice:
    """Which jobs, as typed."""

    jobs: list[str]
    everything: bool
    states: list[str]
    relay: str | None

    @property
    def is_bulk(self) -> bool:
        return not self.jobs

    def check(self) -> None:
        """Either names or a description; nothing is not everything."""
        described = self.everything or self.states or self.relay
        if self.jobs and described:
            raise misuse("name jobs, or describe them with --all, --state or --relay; not both")
        if not (self.jobs or described):
            raise misuse("name jobs, or describe them with --all, --state or --relay")

    async def resolve(self, outbox: Outbox) -> JobFilter:
        if self.jobs:
            return JobFilter(jobs=await find_jobs(outbox, self.jobs))
        return JobFilter(states=states_meant(self.states), relay=relay_meant(self.relay))


async def retry(home: Home, choice: Choice, wait: float, as_json: bool) -> int:
    """Try again now, and follow it for a while; exit codes as those of `post`."""
    choice.check()
    home.check()
    async with following(home, "retry", all_signers(home, wait)) as (outbox, vigil):
        jobs = await outbox.retry(await choice.resolve(outbox))
        states = await vigil.wait(jobs, wait)
    if as_json:
        write_json({"retried": jobs, "states": {str(job): states[job] for job in jobs}})
    else:
        _report_retry(jobs, states)
    return exit_code(list(states.values()))


def _report_retry(jobs: list[int], states: dict[int, JobState]) -> None:
    if not jobs:
        say("Nothing to retry.")
        return
    published = sum(state is JobState.PUBLISHED for state in states.values())
    say(f"Retried {count(len(jobs), 'job')}: {published:,} published.")
    if len(jobs) == 1 and not published:
        say(f"`postrich why {jobs[0]}` tells what it waits for.")


async def cancel(home: Home, choice: Choice, as_json: bool) -> int:
    """Stop jobs."""
    choice.check()
    async with home.looking() as outbox:
        jobs = await outbox.cancel(await choice.resolve(outbox))
    _report("cancelled", jobs, as_json)
    return 0


async def delete(home: Home, choice: Choice, yes: bool, as_json: bool) -> int:
    """Remove jobs; in bulk only after a yes."""
    choice.check()
    async with home.looking() as outbox:
        which = await choice.resolve(outbox)
        if choice.is_bulk and not yes:
            await _confirm(outbox, which)
        jobs = await outbox.delete(which)
    _report("deleted", jobs, as_json)
    return 0


async def _confirm(outbox: Outbox, which: JobFilter) -> None:
    wanted = tuple(state for state in (which.states or JobState) if state in DELETABLE)
    if not wanted:
        return
    found = await outbox.jobs(JobFilter(states=wanted, relay=which.relay), COUNTED)
    if not found:
        return
    number = count(len(found), "job") if len(found) < COUNTED else f"{COUNTED:,} jobs or more"
    sys.stderr.write(f"Delete {number} and their stories for good? [y/N] ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise CallerError("nothing was deleted: that needs a yes, or --yes")


def _report(deed: str, jobs: list[int], as_json: bool) -> None:
    if as_json:
        write_json({deed: jobs})
    elif jobs:
        say(f"{deed.capitalize()} {count(len(jobs), 'job')}.")
    else:
        say(f"Nothing was {deed}.")
