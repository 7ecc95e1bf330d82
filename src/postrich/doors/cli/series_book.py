"""`schedule add --every` and `schedule series`: posts that come again and again.

Promises: what is answered is on disk; times are said in the series' own zone, whose clocks it
keeps. Each occurrence is signed within the hour before, by whoever can sign then.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import msgspec

from postrich.doors.cli.home import Home
from postrich.doors.cli.hours import day_words, hour_words, read_hour
from postrich.doors.cli.outset import misuse
from postrich.doors.cli.posting import Note, Wishes, options_of, parse_tag
from postrich.doors.cli.roster import Roster
from postrich.doors.cli.showing import say, write_json
from postrich.doors.cli.standing import is_worked_on
from postrich.doors.cli.words import count, plain, snippet
from postrich.doors.rows import iso
from postrich.errors import IllegalMove
from postrich.model.series import Occurrence, OccurrenceState, Series, SeriesState, Template, Terms
from postrich.outbox import Outbox

PAGE = 500
SHOWN = 5
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)


@dataclass(frozen=True)
class Rhythm:
    """When a series happens, as typed."""

    every: str
    until: str | None
    count: int | None
    zone: str


async def add_series(
    home: Home,
    note: Note,
    account: str | None,
    rhythm: Rhythm,
    name: str,
    wishes: Wishes,
    as_json: bool,
) -> int:
    """Answer `schedule add … --every`."""
    pubkey = Roster(home).find(account).pubkey
    tags = tuple(tuple(parse_tag(tag)) for tag in note.tags)
    async with home.looking() as outbox:
        options = await options_of(outbox, wishes)
        terms = Terms(options.relays, wishes.policy, wishes.goal, options.priority)
        series = await outbox.series.keep(
            recurrence=rhythm.every,
            template=Template(note.kind, tags, note.content),
            zone=rhythm.zone,
            pubkey=pubkey,
            id=name or None,
            terms=terms,
            until=_until(rhythm, outbox.now()),
            count=rhythm.count,
        )
        coming = await _coming(outbox, series)
        runs, now = await is_worked_on(outbox), outbox.now()
    if as_json:
        write_json(series_document(series, coming) | {"serve": runs})
        return 0
    say(f"✓ kept as {series.id}: {plain(series.recurrence)} ({series.zone})", "green")
    _say_coming(coming, series, now)
    say(
        "  Each is signed within the hour before: `postrich serve` must run then, and be able to"
        " sign."
    )
    return 0


def _until(rhythm: Rhythm, now: int) -> int | None:
    """The end; a day alone means all of it."""
    if rhythm.until is None:
        return None
    text = rhythm.until.strip()
    whole_day = f"{text} 23:59" if _DATE.fullmatch(text) else text
    return read_hour(whole_day, now, rhythm.zone, "--until")


async def _coming(outbox: Outbox, series: Series) -> list[Occurrence]:
    found = await outbox.series.occurrences(series.id, limit=SHOWN)
    return [one for one in found if one.state is not OccurrenceState.SKIPPED]


def _say_coming(coming: list[Occurrence], series: Series, now: int) -> None:
    for number, one in enumerate(coming):
        when = hour_words(one.at, now, series.zone)
        say(f"  {'next' if number == 0 else 'then'}: {when}")


# -- looking -----------------------------------------------------------------------------------


async def show_list(home: Home, account: str | None, everything: bool, as_json: bool) -> int:
    """Answer `schedule series`."""
    pubkey = Roster(home).find(account).pubkey if account is not None else None
    async with home.looking() as outbox:
        found: list[Series] = []
        while page := await outbox.series.page(pubkey, PAGE, found[-1].id if found else ""):
            found += page
        shown = [one for one in found if everything or one.state is not SeriesState.ENDED]
        now = outbox.now()
    if as_json:
        write_json({"series": [series_document(one) for one in shown]})
        return 0
    if not shown:
        say("There is no series." if everything else "No series is to come.")
    for one in shown:
        text = snippet(one.template.content, 40) if one.template is not None else "(signed)"
        following = ""
        if one.state is SeriesState.ACTIVE and one.next_at is not None:
            following = f", next {day_words(one.next_at, now, one.zone)}"
        rhythm = f"{plain(one.recurrence)} ({one.zone})"
        say(f"{one.id}  {one.state}  {rhythm}{following}  “{text}”")
    return 0


async def show_series(home: Home, name: str, as_json: bool) -> int:
    """Answer `schedule series show`."""
    async with home.looking() as outbox:
        series = await outbox.series.get(name)
        coming = await outbox.series.occurrences(name, limit=SHOWN)
        now = outbox.now()
    if as_json:
        write_json(series_document(series, coming))
        return 0
    say(f"{series.id}: {plain(series.recurrence)} ({series.zone}), {series.state}")
    if series.template is not None:
        say(f"  “{snippet(series.template.content, 200)}”")
    ends = [f"after {count(series.count, 'time')}"] if series.count is not None else []
    if series.until is not None:
        ends.append(day_words(series.until, now, series.zone))
    say(f"  happened {count(series.passed, 'time')}; ends {' or '.join(ends) or 'never'}")
    for one in coming:
        job = f" (job {one.job})" if one.job is not None else ""
        say(f"  {one.state}: {hour_words(one.at, now, series.zone)}{job}")
    return 0


def series_document(series: Series, coming: list[Occurrence] | None = None) -> dict[str, Any]:
    """A series for programs."""
    document: dict[str, Any] = msgspec.to_builtins(series)
    if coming is not None:
        found = [{**msgspec.to_builtins(one), "iso": iso(one.at)} for one in coming]
        document["occurrences"] = found
    return document


# -- second thoughts ---------------------------------------------------------------------------


async def move(home: Home, name: str, deed: str, as_json: bool) -> int:
    """Answer `schedule series pause`, `resume` and `end`."""
    async with home.looking() as outbox:
        desk = outbox.series
        series = await {"pause": desk.pause, "resume": desk.resume, "end": desk.end}[deed](name)
        now = outbox.now()
    if as_json:
        write_json(series_document(series))
        return 0
    following = ""
    if series.state is SeriesState.ACTIVE and series.next_at is not None:
        following = f"; next {hour_words(series.next_at, now, series.zone)}"
    say(f"The series {series.id} is {series.state}{following}.")
    return 0


async def skip(home: Home, name: str, at: str | None, zone: str | None, as_json: bool) -> int:
    """Answer `schedule series skip`: the occurrence named, or the next one."""
    async with home.looking() as outbox:
        series = await outbox.series.get(name)
        now = outbox.now()
        if at is not None:
            moment = read_hour(at, now, zone or series.zone)
        else:
            coming = await _coming(outbox, series)
            if not coming:
                raise IllegalMove(f"nothing of the series {name} is to come")
            moment = coming[0].at
        await outbox.series.skip(name, moment)
    if as_json:
        write_json({"skipped": moment, "at": iso(moment)})
    else:
        say(f"Skipped: {hour_words(moment, now, series.zone)}.")
    return 0


def check_alone(at: str | None, slot: str | None, event: str | None) -> None:
    """A series has a rhythm and no single hour."""
    if at is not None or slot is not None:
        raise misuse("--every is in place of --at, --slot and --next-slot")
    if event is not None:
        raise misuse("a series is written here: a signed event happens once", "--every")
