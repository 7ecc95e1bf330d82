"""`schedule list` and `schedule show`: what is to come, in one's own time. Changes nothing."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
from rich.table import Table
from rich.text import Text

from postrich.doors.cli.home import Home
from postrich.doors.cli.hours import away_words, day_words, hour_words
from postrich.doors.cli.keys import called, note_of
from postrich.doors.cli.naming import find_job
from postrich.doors.cli.reasons import look_around
from postrich.doors.cli.roster import Roster, known_accounts
from postrich.doors.cli.showing import (
    STATE_STYLES,
    console,
    job_document,
    job_sheet,
    say,
    write_json,
)
from postrich.doors.cli.words import snippet, state_word
from postrich.doors.rows import iso
from postrich.errors import UnknownJob
from postrich.model.job import JobFilter, JobState
from postrich.model.post import Post
from postrich.outbox import Outbox
from postrich.rules.scheduling import status_word

PAGE = 500
AHEAD = (JobState.SCHEDULED, JobState.PENDING_SIGN)
_ID_WIDTH = 20


async def authors(home: Home, outbox: Outbox, account: str | None) -> list[str]:
    """Whose posts are meant: one account's, or those of everybody who has any ahead."""
    if account is not None:
        return [Roster(home).find(account).pubkey]
    ours = [known.pubkey for known in known_accounts(home)]
    ahead = await outbox.jobs(JobFilter(states=AHEAD), PAGE)
    return list(dict.fromkeys([*ours, *(job.pubkey for job in ahead)]))


async def posts_of(outbox: Outbox, pubkeys: Iterable[str], everything: bool) -> list[Post]:
    """Posts by their hour, the next one first; finished ones only where all are wanted."""
    found: list[Post] = []
    for pubkey in pubkeys:
        before: int | None = None
        while page := await outbox.schedule.posts(pubkey, PAGE, before):
            found += page
            before = page[-1].job.id
    wanted = [post for post in found if everything or not post.job.is_finished]
    return sorted(wanted, key=lambda post: (post.job.due_at or 0, post.job.id))


async def find_post(home: Home, outbox: Outbox, name: str, account: str | None = None) -> Post:
    """The post that a person means: by its id, or as its job can be named."""
    pubkey = Roster(home).find(account).pubkey if account is not None else None
    try:
        return await outbox.schedule.get(name, pubkey)
    except UnknownJob:
        try:
            job = await outbox.job(await find_job(outbox, name))
        except UnknownJob:
            raise UnknownJob(f"no scheduled post has the id {name!r}") from None
    return await outbox.schedule.of_job(job)


async def show_list(
    home: Home, account: str | None, zone: str, everything: bool, as_json: bool
) -> int:
    """Answer `schedule list`."""
    async with home.looking() as outbox:
        found = await posts_of(outbox, await authors(home, outbox, account), everything)
        now = outbox.now()
    if as_json:
        write_json({"posts": [post_document(post) for post in found]})
        return 0
    if not found:
        say("Nothing is scheduled." if not everything else "Nothing was ever scheduled.")
        return 0
    names = {known.pubkey: called(known) for known in known_accounts(home)}
    screen = console()
    several = len({post.job.pubkey for post in found}) > 1
    screen.print(_table(found, now, zone, names if several else {}, screen.width))
    say(f"Times are those of {zone}.")
    return 0


def _table(found: list[Post], now: int, zone: str, names: dict[str, str], width: int) -> Table:
    rows = [_cells(post, now, zone, names) for post in found]
    heads = ("ID", "WHEN", "AWAY", "STATE", *(("ACCOUNT",) if names else ()))
    widths = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
    rest = max(8, width - sum(widths) - 2 * len(widths))
    table = Table.grid(padding=(0, 2, 0, 0))
    for _ in (*heads, "NOTE"):
        table.add_column(no_wrap=True)
    table.add_row(*heads, "NOTE", style="dim")
    for post, cells in zip(found, rows, strict=True):
        styled = [*cells]
        note = Text(snippet(post.job.content, rest))
        note.truncate(rest, overflow="ellipsis")
        state = Text(styled[3], STATE_STYLES.get(post.job.state, ""))
        table.add_row(*styled[:3], state, *styled[4:], note)
    return table


def _cells(post: Post, now: int, zone: str, names: dict[str, str]) -> tuple[str, ...]:
    job = post.job
    at = job.due_at or job.accepted_at
    away = away_words(at, now) or "–"
    account = (names.get(job.pubkey, f"{job.pubkey[:8]}…"),) if names else ()
    name = snippet(post.name, _ID_WIDTH)
    return (name, day_words(at, now, zone), away, state_word(job.state), *account)


async def show_post(home: Home, name: str, account: str | None, zone: str, as_json: bool) -> int:
    """Answer `schedule show`."""
    async with home.looking() as outbox:
        post = await find_post(home, outbox, name, account)
        around = await look_around(outbox, known_accounts(home), [post.job])
    if as_json:
        write_json(post_document(post) | {"job": job_document(post.job, around)})
        return 0
    at = post.job.due_at or post.job.accepted_at
    say(f"{snippet(post.name, 200)}: {hour_words(at, around.now, zone)}")
    console().print(job_sheet(post.job, note_of(post.job.event_id), around))
    return 0


def post_document(post: Post) -> dict[str, Any]:
    """A post for programs, in the words of the API."""
    job = post.job
    at = job.due_at or job.accepted_at
    return {
        "id": post.name,
        "status": status_word(job.state),
        "state": job.state,
        "scheduledAt": at,
        "at": iso(at),
        "job": job.id,
        "event_id": job.event_id,
        "pubkey": job.pubkey,
        "kind": job.kind,
        "content": job.content,
        "tags": msgspec.to_builtins(job.tags),
        "crosspost": list(post.crosspost),
        "error": msgspec.to_builtins(job.error),
    }
