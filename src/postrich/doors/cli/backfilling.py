"""`backfill`: past events of an account, copied to another relay (D11).

Promises: can be stopped at any moment and goes on where it was; copies each event once. What is
said to be there was said by the relay; what was refused or left behind is counted by reason.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from postrich.clock import SystemClock
from postrich.doors.cli.home import Home
from postrich.doors.cli.keys import npub_of
from postrich.doors.cli.outset import FAILED, PUBLISHED, QUEUED, misuse
from postrich.doors.cli.persons import Person, default_account, known_person, short_npub
from postrich.doors.cli.roster import all_signers
from postrich.doors.cli.showing import aside, console, doing, say, write_json
from postrich.doors.cli.standing import who_goes_on
from postrich.doors.cli.waiting import Vigil, following
from postrich.doors.cli.words import count, plain, relay_name
from postrich.errors import BadSetting, CallerError
from postrich.model.delivery import Delivery, DeliveryState
from postrich.model.job import Job, JobFilter, JobState
from postrich.outbox import Outbox
from postrich.route.backfill import Backfill, Copying, Tally
from postrich.rules.relay_lists import RELAYS, Status
from postrich.rules.trust import normalise_url
from postrich.sign.chooser import Means

PATIENCE = 60.0
CHUNK = 500
_SPAN = re.compile(r"(\d{1,6})([smhdwy])")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800, "y": 31_557_600}


@dataclass(frozen=True)
class Wish:
    """What is wanted, as typed."""

    relay: str
    author: str | None = None
    sources: tuple[str, ...] = ()
    since: str | None = None
    kinds: str | None = None
    rate: float = 20.0
    again: bool = False
    wait: bool = False


@dataclass
class Outcome:
    """What the relay has said, and has still to say."""

    new: int = 0
    known: int = 0
    waiting: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    others: int = 0

    def count(self, delivery: Delivery | None, began: int) -> None:
        if delivery is None:
            self.others += 1
        elif delivery.state is DeliveryState.DELIVERED:
            is_old = delivery.code == "duplicate" or (delivery.settled_at or began) < began
            self.known += is_old
            self.new += not is_old
        elif delivery.state is DeliveryState.WAITING:
            self.waiting += 1
        elif delivery.state in (DeliveryState.SUPERSEDED, DeliveryState.CANCELLED):
            self.others += 1
        else:
            self.refused[plain(delivery.detail or delivery.code or delivery.state.value)] += 1


# -- what is wanted ----------------------------------------------------------------------------


def since_meant(text: str | None, now: int) -> int | None:
    """Seconds from a date, a span back from now, or a Unix time."""
    if text is None:
        return None
    if span := _SPAN.fullmatch(text):
        return max(0, now // 1000 - int(span[1]) * _SECONDS[span[2]])
    if text.isascii() and text.isdigit() and len(text) < 12:
        return int(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise misuse(
            f"{text!r} is neither a date (2024-05-31), a span (30d, 12h) nor a Unix time", "--since"
        ) from None
    return max(0, int((moment if moment.tzinfo else moment.astimezone()).timestamp()))


def kinds_meant(text: str | None) -> tuple[int, ...]:
    """Kinds from a list with commas."""
    parts = [part.strip() for part in (text or "").split(",") if part.strip()]
    if not all(part.isascii() and part.isdigit() and int(part) < 65_536 for part in parts):
        raise misuse(f"{text!r} is not a list of kinds such as 1,6,30023", "--kinds")
    return tuple(sorted({int(part) for part in parts}))


def _urls(texts: tuple[str, ...], option: str) -> tuple[str, ...]:
    try:
        return tuple(dict.fromkeys(normalise_url(text) for text in texts))
    except BadSetting as problem:
        raise misuse(str(problem), option) from None


def _author(home: Home, name: str | None) -> Person:
    if name is not None:
        return known_person(home, name)
    account = default_account(home)
    return Person(account.pubkey, plain(account.name) or short_npub(account.pubkey), account)


async def _sources(outbox: Outbox, person: Person, relay: str) -> tuple[str, ...]:
    """The author's other write relays; for an account of ours, our own relays too."""
    with doing(f"looking for the relays of {person.called}"):
        lookup = (await outbox.lists_of(person.pubkey, [RELAYS]))[RELAYS]
    found = list(lookup.found.write) if lookup.found is not None else []
    own = list(outbox.settings.relays) if person.account is not None else []
    sources = tuple(url for url in dict.fromkeys([*own, *found]) if url != relay)
    if sources:
        return sources
    why = f"no write relay of {person.called} is known besides that one"
    if lookup.status is Status.UNKNOWN:
        why = f"the relay list of {person.called} could not be read ({plain(lookup.detail)})"
    raise CallerError(f"{why}: name where to read from with --from URL")


async def _copying(outbox: Outbox, wish: Wish, person: Person) -> Copying:
    (relay,) = _urls((wish.relay,), "RELAY")
    named = _urls(wish.sources, "--from")
    if relay in named:
        raise misuse(f"{relay_name(relay)} cannot be copied to itself", "--from")
    settings = outbox.settings
    can_sign = any(signer.pubkey == person.pubkey for signer in outbox.signers())
    account = person.account
    can_sign = can_sign or (account is not None and Means.NIP46 in account.means)
    return Copying(
        author=person.pubkey,
        relay=relay,
        sources=named or await _sources(outbox, person, relay),
        trusted=frozenset((*named, *settings.relays)),
        since=since_meant(wish.since, SystemClock().now()),
        since_text=wish.since or "",
        kinds=kinds_meant(wish.kinds),
        rate=wish.rate,
        may_protect=can_sign and settings.auth != "never",
    )


# -- doing it ----------------------------------------------------------------------------------


async def backfill(home: Home, wish: Wish, as_json: bool) -> int:
    """Answer `postrich backfill`: 0 all is there, 3 something is left to do, 1 some was refused."""
    home.check()
    began = SystemClock().now()
    person = _author(home, wish.author)
    async with following(home, "backfill", all_signers(home, PATIENCE if wish.wait else 0.0)) as (
        outbox,
        vigil,
    ):
        copying = await _copying(outbox, wish, person)
        work = outbox.backfill(copying, home.path / "backfill")
        with _progress() as progress:
            tally = await _copy(work, progress, wish.again)
            if tally.resumed:
                tally.jobs |= await _left_over(outbox, copying)
            if wish.wait:
                await _wait(outbox, vigil, copying.relay, tally, progress)
        outcome = await _outcome(outbox, copying.relay, tally, began)
        who = await who_goes_on(outbox)
    if as_json:
        write_json(_document(person, copying, tally, outcome))
    else:
        _report(person, copying, tally, outcome, who)
    if tally.troubles or outcome.waiting:
        return QUEUED
    return FAILED if outcome.refused or tally.refused else PUBLISHED


def _progress() -> Progress:
    screen = console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(bar_width=20), MofNCompleteColumn())
    return Progress(*columns, console=screen, disable=not screen.is_terminal)


async def _copy(work: Backfill, progress: Progress, again: bool) -> Tally:
    if not progress.disable:
        aside("Ctrl-C is safe: the same command goes on where it was.")
    task = progress.add_task("reading", total=None)

    def show(tally: Tally) -> None:
        back = f" back to {_day(tally.back_to)}" if tally.back_to is not None else ""
        done = len(tally.jobs) + tally.stayed.total() + tally.refused.total()
        progress.update(task, description=f"kept{back}", total=tally.found, completed=done)

    work.on_progress = show
    return await work.run(again=again)


async def _left_over(outbox: Outbox, copying: Copying) -> set[int]:
    """What was kept for the relay before this run was cut off, and is still under way."""
    which = JobFilter(pubkey=copying.author, relay=copying.relay, open_only=True)
    found: set[int] = set()
    while page := await outbox.jobs(which, CHUNK, min(found, default=None)):
        found |= {job.id for job in page}
    return found


async def _wait(outbox: Outbox, vigil: Vigil, relay: str, tally: Tally, progress: Progress) -> None:
    """Until the relay has answered for every event, or says nothing more for a minute."""
    clock = SystemClock()
    task = progress.add_task("answered by the relay", total=len(tally.jobs))
    waiting = sorted(tally.jobs)
    deadline = clock.tick() + PATIENCE
    while waiting and clock.tick() < deadline:
        progress.update(task, completed=len(tally.jobs) - len(waiting))
        settled = {
            job.id for job in await _jobs(outbox, waiting[:CHUNK]) if not _is_waiting(job, relay)
        }
        if settled:
            waiting = [number for number in waiting if number not in settled]
            deadline = clock.tick() + PATIENCE
        else:
            await vigil.news(deadline)


def _is_waiting(job: Job, relay: str) -> bool:
    if job.state in (JobState.SUPERSEDED, JobState.CANCELLED):
        return False
    found = _delivery_at(job, relay)
    return found is not None and found.state is DeliveryState.WAITING


def _delivery_at(job: Job, relay: str) -> Delivery | None:
    return next((d for d in job.deliveries if d.relay == relay), None)


async def _jobs(outbox: Outbox, numbers: list[int]) -> list[Job]:
    return await outbox.jobs(JobFilter(jobs=tuple(numbers)), len(numbers)) if numbers else []


async def _outcome(outbox: Outbox, relay: str, tally: Tally, began: int) -> Outcome:
    outcome = Outcome()
    numbers = sorted(tally.jobs)
    for start in range(0, len(numbers), CHUNK):
        chunk = numbers[start : start + CHUNK]
        found = await _jobs(outbox, chunk)
        for job in found:
            outcome.count(_delivery_at(job, relay), began)
        outcome.known += len(chunk) - len(found)  # known for so long that its story is gone
    return outcome


# -- saying it ---------------------------------------------------------------------------------


def _day(seconds: int) -> str:
    try:
        return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d}"
    except (OverflowError, ValueError, OSError):
        return "a time beyond the calendar"


def _document(person: Person, copying: Copying, tally: Tally, outcome: Outcome) -> dict[str, Any]:
    return {
        "author": person.pubkey,
        "npub": npub_of(person.pubkey),
        "relay": copying.relay,
        "sources": list(copying.sources),
        "resumed": tally.resumed,
        "found": tally.found,
        "new": outcome.new,
        "known": outcome.known,
        "waiting": outcome.waiting,
        "older_versions": outcome.others,
        "refused": dict(outcome.refused + tally.refused),
        "left_behind": dict(tally.stayed),
        "forged": tally.forged,
        "troubles": tally.troubles,
        "gaps": tally.gaps,
    }


def _report(person: Person, copying: Copying, tally: Tally, outcome: Outcome, who: str) -> None:
    name = relay_name(copying.relay)
    went_on = " (went on where it was)" if tally.resumed else ""
    say(f"Found {count(tally.found, 'event')} of {person.called}{went_on}.")
    if tally.found:
        say(f"  {outcome.new:,} new at {name}, {outcome.known:,} there already", "green")
    if outcome.waiting:
        say(f"  {outcome.waiting:,} queued: {who} goes on delivering", "yellow")
    if outcome.others:
        say(f"  {outcome.others:,} not sent: a newer version is known, or it was cancelled", "dim")
    for reason, number in (outcome.refused + tally.refused).most_common():
        say(f"  {number:,} refused: {plain(reason)}", "red")
    for reason, number in tally.stayed.most_common():
        say(f"  {number:,} left behind: {reason}", "dim")
    if tally.forged:
        say(f"  {tally.forged:,} forged or damaged, and not copied", "red")
    for source, seconds in tally.gaps.items():
        say(f"{relay_name(source)} may have more of {_moments(seconds)} than it gives.", "yellow")
    for source, trouble in tally.troubles.items():
        say(
            f"{relay_name(source)} could not be read to its end ({plain(trouble)}): "
            "run the same again later, and it goes on there.",
            "yellow",
        )


def _moments(seconds: list[int]) -> str:
    first = datetime.fromtimestamp(seconds[0], UTC)
    more = f" and {count(len(seconds) - 1, 'other second')}" if len(seconds) > 1 else ""
    return f"{first:%Y-%m-%d %H:%M:%S} UTC{more}"
