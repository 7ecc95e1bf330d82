"""`schedule import` and `schedule export`: posts as JSON Lines or CSV.

Promises: each line has its own answer, and a bad one never stops the others; running an import
again, or on after it was cut off, changes nothing that it did; what was exported is imported
as it was, signatures included.
"""

from __future__ import annotations

import itertools
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import msgspec
from rich.progress import Progress
from rich.text import Text

from postrich.accept import Options
from postrich.doors.cli.bulk import progress_bar
from postrich.doors.cli.home import Home
from postrich.doors.cli.outset import FAILED, misuse
from postrich.doors.cli.roster import Author, Roster
from postrich.doors.cli.schedule_book import AHEAD, authors, posts_of
from postrich.doors.cli.showing import aside, say, write_json
from postrich.doors.cli.standing import is_worked_on
from postrich.doors.cli.words import count, plain
from postrich.doors.rows import BadRow, Format, Row, iso, read_rows, wish_of, write_rows
from postrich.errors import CallerError, Conflict, UnknownJob
from postrich.model.post import Kept, NewPost
from postrich.outbox import Outbox
from postrich.rules.scheduling import PastHour
from postrich.schedule import Wish

BATCH = 500
CHUNK = 256 * 1024
WORDS = {"kept": "kept", "there": "there already", "fine": "would be kept", "refused": "refused"}


@dataclass(frozen=True)
class Fate:
    """What became of one line."""

    line: int
    status: str
    id: str = ""
    at: str = ""
    error: str = ""


@dataclass
class Penmen:
    """Who signs rows that are not signed: the accounts here, each opened once."""

    outbox: Outbox
    roster: Roster
    account: str | None
    _known: dict[str, Author | None] = field(default_factory=dict)

    def default(self) -> str:
        return self.roster.find(self.account).pubkey

    def of(self, pubkey: str) -> Author | None:
        if pubkey not in self._known:
            ours = any(account.pubkey == pubkey for account in self.roster.everyone())
            author = self.roster.author(pubkey) if ours else None
            if author is not None and author.key is not None:
                self.outbox.add_signer(author.key)
            self._known[pubkey] = author
        return self._known[pubkey]

    def troubles(self) -> list[str]:
        return [author.trouble for author in self._known.values() if author and author.trouble]


def format_meant(name: str | None, path: str | None) -> Format | None:
    """The format by its name, or by the file's; None: nobody said."""
    if name is not None:
        if name not in list(Format):
            raise misuse(f"{name!r} is none of {', '.join(Format)}", "--format")
        return Format(name)
    return Format.CSV if path is not None and path.lower().endswith(".csv") else None


# -- import ------------------------------------------------------------------------------------


async def import_posts(
    home: Home,
    source: str,
    kind: Format | None,
    account: str | None,
    *,
    zone: str | None,
    dry_run: bool,
    as_json: bool,
) -> int:
    """Answer `schedule import`."""
    fates: list[Fate] = []
    async with home.looking() as outbox:
        penmen = Penmen(outbox, Roster(home), account)
        rows = read_rows(_chunks(source), kind, zone)
        with progress_bar() as progress:
            task = progress.add_task("read", total=None)
            while batch := list(itertools.islice(rows, BATCH)):
                some = await _take(outbox, penmen, batch, dry_run)
                progress.advance(task, len(some))
                fates += some
                _tell(some, as_json, progress)
        runs = await is_worked_on(outbox)
    for trouble in penmen.troubles():
        aside(f"postrich: {trouble}")
    if not as_json:
        _report(fates, runs or dry_run)
    return FAILED if any(fate.status == "refused" for fate in fates) else 0


def _chunks(source: str) -> Iterator[bytes]:
    if source == "-":
        yield from iter(lambda: sys.stdin.buffer.read(CHUNK), b"")
        return
    with Path(source).open("rb") as file:
        yield from iter(lambda: file.read(CHUNK), b"")


async def _take(
    outbox: Outbox, penmen: Penmen, batch: Sequence[Row | BadRow], dry_run: bool
) -> list[Fate]:
    """Keep what can be kept of a batch, in one commit."""
    ready: list[tuple[int, Wish | CallerError]] = []
    for row in batch:
        if isinstance(row, BadRow):
            ready.append((row.line, CallerError(row.reason)))
        else:
            ready.append((row.line, await _ready(outbox, penmen, row.wish, dry_run)))
    wishes = [wish for _, wish in ready if isinstance(wish, Wish)]
    answers: Iterator[Kept | NewPost | CallerError]
    if dry_run:
        answers = iter(await outbox.schedule.check(wishes))
    else:
        answers = iter(await outbox.schedule.put(wishes))
    return [
        await _fate(outbox, line, wish, next(answers))
        if isinstance(wish, Wish)
        else Fate(line, "refused", error=plain(str(wish)))
        for line, wish in ready
    ]


async def _ready(outbox: Outbox, penmen: Penmen, wish: Wish, dry_run: bool) -> Wish | CallerError:
    """A draft gets its author, its hour as its time, and where the key is here its signature."""
    if not isinstance(wish.item, Mapping):
        return wish
    try:
        fields = {"created_at": wish.at // 1000, **wish.item}
        fields["pubkey"] = fields.get("pubkey") or penmen.default()
        if dry_run or (author := penmen.of(fields["pubkey"])) is None or author.key is None:
            return msgspec.structs.replace(wish, item=fields)
        event = await outbox.sign(fields, Options(relays=wish.relays, at=wish.at))
    except CallerError as refusal:
        return refusal
    return msgspec.structs.replace(wish, item=event)


async def _fate(
    outbox: Outbox, line: int, wish: Wish, answer: Kept | NewPost | CallerError
) -> Fate:
    at = iso(wish.at)
    if isinstance(answer, Kept):
        return Fate(line, "kept" if answer.accepted.is_new else "there", answer.name, at)
    if isinstance(answer, NewPost | PastHour | Conflict):
        try:
            content = await outbox.content(wish.item)
            name = wish.name or content.id
            known = (await outbox.schedule.get(name, content.pubkey)).job
        except UnknownJob:
            pass
        else:
            if known.event_id == content.id and known.due_at == wish.at:
                return Fate(line, "there", name, at)
            if isinstance(answer, NewPost):
                answer = Conflict(f"the id {name!r} already names another post; edit that one")
    if isinstance(answer, NewPost):
        return Fate(line, "fine", answer.name, at)
    return Fate(line, "refused", wish.name, at, plain(str(answer)))


def _tell(fates: list[Fate], as_json: bool, progress: Progress) -> None:
    for fate in fates:
        if as_json:
            found: dict[str, Any] = asdict(fate)
            write_json({name: value for name, value in found.items() if value}, indent=False)
        elif fate.error:
            text = Text(f"line {fate.line}: {fate.error}")
            progress.console.print(text, soft_wrap=True)


def _report(fates: list[Fate], runs: bool) -> None:
    counts = Counter(fate.status for fate in fates)
    parts = [f"{counts[status]:,} {word}" for status, word in WORDS.items() if counts[status]]
    say(f"{count(len(fates), 'post')}: {', '.join(parts) or 'nothing to do'}")
    if counts["kept"] and not runs:
        say("`postrich serve` must run when they are due.")


# -- export ------------------------------------------------------------------------------------


async def export_posts(
    home: Home, target: str | None, kind: Format | None, account: str | None
) -> int:
    """Answer `schedule export`: all that is ahead, the next first."""
    async with home.looking() as outbox:
        found = await posts_of(outbox, await authors(home, outbox, account), False)
        ahead = [post for post in found if post.job.state in AHEAD]
        events: dict[int, bytes] = {}
        for start in range(0, len(ahead), BATCH):
            events |= await outbox.schedule.signed_bytes(ahead[start : start + BATCH])
    wishes = (wish_of(post, events.get(post.job.id)) for post in ahead)
    lines = write_rows(wishes, kind or Format.JSONL)
    if target is None or target == "-":
        for line in lines:
            sys.stdout.write(line.decode())
        sys.stdout.flush()
        return 0
    path = Path(target)
    draft = path.with_name(f".{path.name}.part")
    with draft.open("wb") as file:
        file.writelines(lines)
    draft.replace(path)
    say(f"Wrote {count(len(ahead), 'post')} to {path}.")
    return 0
