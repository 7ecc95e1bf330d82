"""`schedule add`, `edit`, `cancel` and `sweep`: posts for their hour, and second thoughts.

Promises: what is said to be kept is on disk. Whoever has the key here signs now, with the hour as
`created_at`, so that nobody needs it at that hour; without it the draft waits for its signer.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import msgspec

from postrich.accept import Options, Publishable
from postrich.doors.cli import bulk
from postrich.doors.cli.home import Home
from postrich.doors.cli.hours import hour_words, read_hour
from postrich.doors.cli.outset import misuse
from postrich.doors.cli.posting import Note, Wishes, options_of, parse_tag
from postrich.doors.cli.roster import Author, Roster
from postrich.doors.cli.schedule_book import find_post, post_document
from postrich.doors.cli.showing import aside, say, write_json
from postrich.doors.cli.standing import is_worked_on
from postrich.doors.cli.words import count, snippet
from postrich.errors import CallerError, UnknownGrid
from postrich.model.event import Draft
from postrich.model.job import JobState
from postrich.model.post import Post
from postrich.outbox import Outbox
from postrich.schedule import Wish
from postrich.slots import Slotted


@dataclass(frozen=True)
class Hour:
    """When, as typed: a time, or the next free slot of a weekly grid ("" means the only one)."""

    at: str | None
    slot: str | None
    zone: str

    def check(self) -> None:
        if (self.at is None) == (self.slot is None):
            raise misuse("say when: with --at, or with --slot or --next-slot")


@dataclass(frozen=True)
class Poster:
    """Whose post it is; `key` is open where it can be signed now."""

    pubkey: str
    author: Author | None = None

    @property
    def trouble(self) -> str:
        return self.author.trouble if self.author is not None else ""


# -- add ---------------------------------------------------------------------------------------


async def add_note(
    home: Home,
    note: Note,
    account: str | None,
    hour: Hour,
    name: str,
    wishes: Wishes,
    as_json: bool,
) -> int:
    """Answer `schedule add TEXT`."""
    hour.check()
    author = Roster(home).author(account)
    fields = {
        "kind": note.kind,
        "content": note.content,
        "tags": [*map(parse_tag, note.tags)],
        "pubkey": author.account.pubkey,
    }
    return await _add(
        home, fields, Poster(author.account.pubkey, author), hour, name, wishes, as_json
    )


async def add_event(
    home: Home, source: str, hour: Hour, name: str, wishes: Wishes, as_json: bool
) -> int:
    """Answer `schedule add --event FILE`."""
    hour.check()
    items = bulk.read_items(source)
    if items.single is None:
        raise misuse("one event is scheduled at a time; for many use `schedule import`", "--event")
    bulk.check_author(items.single)
    async with home.looking() as outbox:
        content = await outbox.content(items.single)
    author = _author_of(home, content.pubkey) if isinstance(content, Draft) else None
    poster = Poster(content.pubkey, author)
    return await _add(home, items.single, poster, hour, name, wishes, as_json)


async def _add(
    home: Home,
    item: Publishable,
    poster: Poster,
    hour: Hour,
    name: str,
    wishes: Wishes,
    as_json: bool,
) -> int:
    async with _with_key(home, poster) as outbox:
        options = await options_of(outbox, wishes)
        wish = Wish(
            item=item,
            at=0,
            name=name,
            relays=options.relays,
            policy=wishes.policy,
            priority=options.priority,
            goal=wishes.goal,
        )
        post, is_new = await _keep(outbox, wish, poster, hour)
        runs = await is_worked_on(outbox)
        now = outbox.now()
    if as_json:
        write_json(post_document(post) | {"is_new": is_new, "serve": runs})
    else:
        _report_kept(post, "kept" if is_new else "was kept before", hour.zone, now, runs)
        if post.job.state is JobState.PENDING_SIGN and poster.trouble:
            aside(f"postrich: {poster.trouble}")
    return 0


@contextlib.asynccontextmanager
async def _with_key(home: Home, poster: Poster) -> AsyncIterator[Outbox]:
    async with home.looking() as outbox:
        if poster.author is not None and poster.author.key is not None:
            outbox.add_signer(poster.author.key)
        yield outbox


async def _keep(outbox: Outbox, wish: Wish, poster: Poster, hour: Hour) -> tuple[Post, bool]:
    async def prepare(here: Wish) -> Wish:
        return msgspec.structs.replace(here, item=await signed(outbox, here, poster.author))

    if hour.at is not None:
        at = read_hour(hour.at, outbox.now(), hour.zone)
        [answer] = await outbox.schedule.put([await prepare(msgspec.structs.replace(wish, at=at))])
        if isinstance(answer, CallerError):
            raise answer
        kept = answer
    else:
        grid = await _grid_meant(outbox, poster.pubkey, hour.slot or "")
        found = await outbox.schedule.put_in_slot(wish, poster.pubkey, grid, prepare=prepare)
        if not isinstance(found, Slotted):
            raise found
        kept = found.kept
    return await outbox.schedule.get(kept.name, poster.pubkey), kept.accepted.is_new


async def signed(outbox: Outbox, wish: Wish, author: Author | None) -> Publishable:
    """What a wish is about, signed with its hour where the key is here."""
    if author is None or author.key is None:
        return wish.item
    return await outbox.sign(wish.item, Options(relays=wish.relays, at=wish.at))


async def _grid_meant(outbox: Outbox, pubkey: str, name: str) -> str:
    """The grid that is named, or the only one there is."""
    if name:
        return name
    grids = await outbox.schedule.slots.grids(pubkey)
    if not grids:
        raise UnknownGrid(
            'there is no weekly grid: `postrich schedule slots set main "…"` makes one'
        )
    if len(grids) > 1:
        names = ", ".join(grid.name for grid in grids)
        raise misuse(f"there are several grids ({names}): name one with --slot", "--next-slot")
    return grids[0].name


def _report_kept(post: Post, deed: str, zone: str, now: int, runs: bool) -> None:
    job = post.job
    when = hour_words(job.due_at or now, now, zone)
    say(f"✓ {deed} as {snippet(post.name, 200)}; it goes out {when}", "green")
    if job.state is JobState.PENDING_SIGN:
        say("  it is not signed yet: `postrich sign` does that, or `postrich serve` when it can.")
    if not runs:
        say("  `postrich serve` must run then.")


# -- second thoughts ---------------------------------------------------------------------------


async def edit(
    home: Home,
    name: str,
    account: str | None,
    *,
    at: str | None,
    text: str | None,
    event: str | None,
    zone: str,
    as_json: bool,
) -> int:
    """Answer `schedule edit`."""
    if at is None and text is None and event is None:
        raise misuse("say what changes: --at, --text or --event")
    if text is not None and event is not None:
        raise misuse("--text and --event exclude each other: give one of them")
    async with home.looking() as outbox:
        post = await find_post(home, outbox, name, account)
        due = None if at is None else read_hour(at, outbox.now(), zone)
        item: Publishable | None = bulk.read_items(event).single if event is not None else None
        if event is not None and item is None:
            raise misuse("a post is one event", "--event")
        if event is None:
            item = await _rewritten(home, outbox, post, text, due)
        edited = await outbox.schedule.edit(post, at=due, item=item)
        runs, now = await is_worked_on(outbox), outbox.now()
    if as_json:
        write_json(post_document(edited.post) | {"warning": edited.warning, "serve": runs})
        return 0
    _report_kept(edited.post, "changed; kept", zone, now, runs)
    if edited.warning:
        say(f"  {edited.warning}", "yellow")
    return 0


async def _rewritten(
    home: Home, outbox: Outbox, post: Post, text: str | None, due: int | None
) -> Publishable | None:
    """The post with another text or hour, signed where the key is here; None: as it is signed.

    An event that was signed for its hour follows it; any other keeps its own time.
    """
    job = post.job
    is_of_its_hour = job.due_at is not None and job.created_at == job.due_at // 1000
    if text is None and not (is_of_its_hour and job.state is JobState.SCHEDULED):
        return None
    author = _author_of(home, job.pubkey)
    can_sign = author is not None and author.key is not None
    if text is None and not can_sign:
        return None
    content = job.content if text is None else text
    fields = {"pubkey": job.pubkey, "kind": job.kind, "tags": job.tags, "content": content}
    if author is None or author.key is None:
        return fields
    outbox.add_signer(author.key)
    return await outbox.sign(fields, Options(at=due if due is not None else job.due_at))


def _author_of(home: Home, pubkey: str) -> Author | None:
    roster = Roster(home)
    ours = any(account.pubkey == pubkey for account in roster.everyone())
    return roster.author(pubkey) if ours else None


async def cancel(home: Home, names: list[str], account: str | None, as_json: bool) -> int:
    """Answer `schedule cancel`: all of them, or none."""
    async with home.looking() as outbox:
        found = [await find_post(home, outbox, name, account) for name in names]
        posts = list({post.job.id: post for post in found}.values())
        await outbox.schedule.cancel(posts)
    if as_json:
        write_json({"cancelled": [post.name for post in posts]})
    else:
        say(f"Cancelled {count(len(posts), 'post')}: none of it goes out.")
    return 0


async def sweep(home: Home, as_json: bool) -> int:
    """Answer `schedule sweep`."""
    async with home.looking() as outbox:
        found = await outbox.schedule.sweep()
        runs = await is_worked_on(outbox)
    answer: dict[str, Any] = {"found": found, "serve": runs}
    if as_json:
        write_json(answer)
    elif found:
        say(f"{count(found, 'post')} had been lost sight of: due now.")
    else:
        say("Every post is in sight of the alarm.")
    if not (as_json or runs):
        say("`postrich serve` is not running: nothing goes out before it does.")
    return 0
