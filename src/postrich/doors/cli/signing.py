"""`sign`: whoever can sign here is asked for what waits, until nothing waits any more.

Promises: asks for passphrases only of keys that drafts wait for; works beside a `serve`, and
loses nothing when it is stopped. What stays unsigned is named, with whom it waits for.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from rich.status import Status

from postrich.clock import SystemClock
from postrich.doors.cli.commands import WAIT
from postrich.doors.cli.home import Home
from postrich.doors.cli.keys import npub_of
from postrich.doors.cli.outset import FAILED, PUBLISHED, QUEUED
from postrich.doors.cli.reasons import look_around
from postrich.doors.cli.roster import Roster
from postrich.doors.cli.showing import doing, say, write_json
from postrich.doors.cli.waiting import Vigil, following
from postrich.doors.cli.waits import Around, waits_for_what
from postrich.doors.cli.words import count, plain
from postrich.model.job import Job, JobFilter, JobState, Phase
from postrich.outbox import Outbox

LOOKED_AT = 1000
#: Beyond the time that one signature may take.
MARGIN = 2.0


@dataclass
class Outcome:
    """What became of the drafts that waited."""

    signed: list[Job] = field(default_factory=list)
    waiting: list[Job] = field(default_factory=list)
    refused: list[Job] = field(default_factory=list)

    @property
    def code(self) -> int:
        if self.refused:
            return FAILED
        return QUEUED if self.waiting else PUBLISHED


async def sign(home: Home, wait: float | None, name: str | None, as_json: bool) -> int:
    """Answer `postrich sign`; without `wait` a signer has the time of one signature."""
    home.check()
    roster = Roster(home)
    accounts = [roster.find(name)] if name is not None else roster.everyone()
    pubkey = accounts[0].pubkey if name is not None else None
    async with home.looking() as outbox:
        authors = {job.pubkey for job in await _drafts(outbox, pubkey)}
    signers = roster.signers([a for a in accounts if a.pubkey in authors], may_ask=True)
    patience = home.settings().sign_timeout + MARGIN if wait is None else wait
    async with following(home, "sign", signers) as (outbox, vigil):
        seen = await _watch(outbox, vigil, pubkey, {s.pubkey for s in signers}, patience)
        outcome = await _outcome(outbox, vigil, seen, pubkey)
        around = await look_around(outbox, roster.everyone(), outcome.waiting)
    if as_json:
        write_json(_document(outcome, around))
    else:
        _report(outcome, around, roster.locksmith.shut)
    return outcome.code


async def _drafts(outbox: Outbox, pubkey: str | None) -> list[Job]:
    which = JobFilter(states=(JobState.PENDING_SIGN,), pubkey=pubkey)
    return await outbox.jobs(which, LOOKED_AT)


async def _watch(
    outbox: Outbox, vigil: Vigil, pubkey: str | None, authors: Collection[str], patience: float
) -> set[int]:
    """Until nobody who can sign here has anything to sign; the jobs that were seen to wait."""
    clock = SystemClock()
    deadline = clock.tick() + patience
    seen: set[int] = set()
    before = math.inf
    with doing("signing") as status:
        while True:
            waiting = [job for job in await _drafts(outbox, pubkey) if job.pubkey in authors]
            seen |= {job.id for job in waiting}
            if len(waiting) < before:
                deadline = clock.tick() + patience
            before = len(waiting)
            if not waiting or clock.tick() >= deadline:
                return seen
            _show(status, waiting, seen)
            await vigil.news(deadline)


def _show(status: Status | None, waiting: list[Job], seen: set[int]) -> None:
    if status is None:
        return
    done = len(seen) - len(waiting)
    trouble = next((job.error.message for job in waiting if job.error), "")
    said = f": {plain(trouble)}" if trouble else ""
    status.update(
        f"signed {done} of {count(len(seen), 'draft')}{said} (Ctrl-C: they go on waiting)"
    )


async def _outcome(outbox: Outbox, vigil: Vigil, seen: set[int], pubkey: str | None) -> Outcome:
    """Who was signed gets the chance to be published that `post` gives."""
    outcome = Outcome(waiting=await _drafts(outbox, pubkey))
    left = {job.id for job in outcome.waiting}
    done = sorted(seen - left)
    for job in await _named(outbox, done):
        if job.error is not None and job.error.phase is Phase.SIGN and job.is_finished:
            outcome.refused.append(job)
        elif job.state not in (JobState.CANCELLED, JobState.SUPERSEDED):
            outcome.signed.append(job)
    if outcome.signed:
        numbers = [job.id for job in outcome.signed]
        with doing("signed; delivering (Ctrl-C leaves it queued)"):
            await vigil.wait(numbers, WAIT)
        outcome.signed = await _named(outbox, numbers)
    return outcome


async def _named(outbox: Outbox, numbers: list[int]) -> list[Job]:
    if not numbers:
        return []
    return await outbox.jobs(JobFilter(jobs=tuple(numbers)), len(numbers))


# -- saying it ---------------------------------------------------------------------------------


def _report(outcome: Outcome, around: Around, shut: dict[str, str]) -> None:
    if not (outcome.signed or outcome.waiting or outcome.refused):
        say("Nothing waits to be signed.")
    if outcome.signed:
        published = sum(job.state is JobState.PUBLISHED for job in outcome.signed)
        queued = len(outcome.signed) - published
        rest = f", {queued:,} queued" if queued else ""
        say(
            f"✓ signed {count(len(outcome.signed), 'draft')}: {published:,} published{rest}",
            "green",
        )
    for job in outcome.refused:
        why = plain(job.error.message) if job.error else "no reason was given"
        say(f"✗ job {job.id} was not signed: {why}", "red")
        say(f"  `postrich queue retry {job.id}` asks again.")
    for pubkey, number in Counter(job.pubkey for job in outcome.waiting).items():
        newest = next(job for job in outcome.waiting if job.pubkey == pubkey)
        _report_waiting(newest, number, around, shut.get(pubkey, ""))


def _report_waiting(job: Job, number: int, around: Around, shut: str) -> None:
    wait = waits_for_what(job, around)
    assert wait is not None  # a draft waits for its signer
    verb = "waits" if number == 1 else "wait"
    trouble = shut or (plain(job.error.message) if job.error else "")
    because = f": {trouble}" if trouble else ""
    say(f"… {count(number, 'draft')} {verb} for {wait.short}{because}", "yellow")


def _document(outcome: Outcome, around: Around) -> dict[str, Any]:
    return {
        "signed": [{"job": job.id, "state": job.state} for job in outcome.signed],
        "refused": [{"job": job.id, "error": job.error} for job in outcome.refused],
        "waiting": [
            {
                "job": job.id,
                "npub": npub_of(job.pubkey),
                "error": job.error,
                "waits_for_what": waits_for_what(job, around),
            }
            for job in outcome.waiting
        ],
    }
