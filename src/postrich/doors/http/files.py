"""`/api/schedule/import` and `/api/schedule/export`: posts as JSON Lines or CSV (F5).

What the rows are: `doors/rows.py`. Each row has its own result; a thousand at a time are kept in
one commit. Unsigned rows are drafts: they wait for their signer.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from itertools import islice
from typing import Any

import msgspec
from litestar import MediaType, Request, get, post
from litestar.params import FromQuery
from litestar.response import Stream

from postrich.doors.http.bodies import MOST_ITEMS, MOST_RELAYS
from postrich.doors.http.callers import Caller
from postrich.doors.http.desk import AtDesk, ByCaller, Desk
from postrich.doors.http.posts import refuse_crosspost
from postrich.doors.http.problems import problem_of
from postrich.doors.rows import BadRow, Format, Row, read_rows, wish_of, write_rows
from postrich.errors import CallerError, InvalidEvent, TooOften
from postrich.model.event import parse_event
from postrich.model.post import Kept
from postrich.rules.scheduling import LONGEST_NAME, status_word
from postrich.schedule import Wish

CHUNK = 65_536
MOST_TOLD = 1000
FILES = {Format.JSONL: "application/x-ndjson", Format.CSV: "text/csv; charset=utf-8"}


class LineRefused(msgspec.Struct, frozen=True):
    """Why a line was not kept."""

    line: int
    id: str
    code: int
    detail: str


class Imported(msgspec.Struct, frozen=True):
    """`known`: rows that were there already. The first thousand refusals are listed."""

    scheduled: int
    known: int
    refused: int
    refusals: list[LineRefused]


@post(
    "/api/schedule/import",
    summary="Posts as JSON Lines or CSV; each line has its own result",
    tags=["schedule"],
    status_code=200,
)
async def import_posts(
    request: Request[Any, Any, Any],
    caller: ByCaller,
    desk: AtDesk,
    format: FromQuery[Format | None] = None,  # noqa: A002 - the parameter's name
) -> Imported:
    body = await request.body()
    rows = read_rows((body[n : n + CHUNK] for n in range(0, len(body), CHUNK)), format)
    tally = _Tally()
    while batch := list(islice(rows, MOST_ITEMS)):
        try:
            desk.reception.spend(caller, len(batch) / 100)
        except TooOften as refusal:
            if tally.is_empty:
                raise
            tally.refuse(batch, refusal)  # what was kept before is still to be told
            continue
        await _keep(desk, caller, batch, tally)
    return Imported(tally.scheduled, tally.known, tally.refused, tally.told)


class _Tally:
    def __init__(self) -> None:
        self.scheduled = self.known = self.refused = 0
        self.told: list[LineRefused] = []

    @property
    def is_empty(self) -> bool:
        return not (self.scheduled or self.known or self.refused)

    def refuse(self, batch: list[Row | BadRow], refusal: CallerError) -> None:
        for row in batch:
            self.note(row.line, row.wish.name if isinstance(row, Row) else "", refusal)

    def note(self, line: int, name: str, answer: Kept | CallerError) -> None:
        if isinstance(answer, CallerError):
            self.refused += 1
            if len(self.told) < MOST_TOLD:
                problem = problem_of(answer)
                known = (line, name[:LONGEST_NAME])
                self.told.append(LineRefused(*known, problem.status, problem.detail))
        elif answer.accepted.is_new:
            self.scheduled += 1
        else:
            self.known += 1


async def _keep(desk: Desk, caller: Caller, batch: list[Row | BadRow], tally: _Tally) -> None:
    good: list[tuple[int, Wish]] = []
    for row in batch:
        if isinstance(row, BadRow):
            tally.note(row.line, "", CallerError(row.reason))
            continue
        try:
            good.append((row.line, _allowed(row.wish, caller)))
        except CallerError as refusal:
            tally.note(row.line, row.wish.name, refusal)
    answers = await desk.outbox.schedule.put([wish for _, wish in good], caller.most)
    for (line, wish), answer in zip(good, answers, strict=True):
        tally.note(line, wish.name, answer)


def _allowed(wish: Wish, caller: Caller) -> Wish:
    """The wish, if it is by who sends it; nobody can make their own posts more urgent."""
    refuse_crosspost(wish.crosspost)
    if len(wish.relays) > MOST_RELAYS:
        raise InvalidEvent(f"a post may name {MOST_RELAYS} relays")
    item = wish.item
    if isinstance(item, dict):
        if (author := item.get("pubkey") or caller.pubkey) is None:
            raise InvalidEvent("an unsigned row must say its pubkey")
        caller.check_author(author)
        item = {**item, "pubkey": author}
    else:
        assert isinstance(item, bytes)
        caller.check_author(parse_event(item).pubkey)
    priority = wish.priority if caller.is_admin else max(wish.priority, caller.tier.priority)
    return msgspec.structs.replace(wish, item=item, priority=priority)


@get(
    "/api/schedule/export",
    summary="An author's posts that are still to come, as JSON Lines or CSV",
    tags=["schedule"],
    media_type=MediaType.TEXT,
)
async def export_posts(
    caller: ByCaller,
    desk: AtDesk,
    pubkey: FromQuery[str | None] = None,
    format: FromQuery[Format] = Format.JSONL,  # noqa: A002 - the parameter's name
) -> Stream:
    lines = _lines(desk, caller.author(pubkey), format)
    name = f'attachment; filename="posts.{format}"'
    return Stream(lines, headers={"Content-Type": FILES[format], "Content-Disposition": name})


async def _lines(desk: Desk, pubkey: str, kind: Format) -> AsyncIterator[bytes]:
    schedule = desk.outbox.schedule
    before: int | None = None
    is_first = True
    while found := await schedule.posts(pubkey, MOST_ITEMS, before):
        before = found[-1].job.id
        ahead = [one for one in found if status_word(one.job.state) == "pending"]
        events = await schedule.signed_bytes(ahead)
        wishes = (wish_of(one, events.get(one.job.id)) for one in ahead)
        lines: Iterator[bytes] = write_rows(wishes, kind)
        if kind is Format.CSV and not is_first:
            next(lines)  # the columns' names come once
        is_first = False
        for line in lines:
            yield line
    if is_first and kind is Format.CSV:
        for line in write_rows((), kind):
            yield line
