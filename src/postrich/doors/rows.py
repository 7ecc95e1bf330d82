"""Scheduled posts as lines of text, JSON Lines or CSV, in and out. Pure; every door uses it.

    at                         id      content        kind  tags            relays       …
    2026-05-31T09:00:00+02:00  hello   Good morning   1     [["t","dawn"]]  wss://a/ wss://b/
    2026-06-01T07:00:00Z       signed         (and in the column `event` its JSON, as it was signed)

Promises: what `write_rows` wrote, `read_rows` reads back as it was, signed bytes included; a bad
row is an answer with its line's number and never the end of the others; no more than
`MOST_BYTES` of a file are held at once. A file whose columns are not understood is refused whole.
"""

from __future__ import annotations

import enum
import itertools
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from postrich.doors.cells import NotClosed, Records, is_excel_hint, line_of_cells
from postrich.errors import CallerError
from postrich.model.job import JobState, Priority
from postrich.model.post import Network, Post
from postrich.rules.routing import NAMED
from postrich.rules.zones import moment_of, zone_named
from postrich.schedule import Wish

#: The longest row: the largest event there may be, with every quote of it doubled.
MOST_BYTES = 4 * 1_048_576
COLUMNS = (
    *("id", "at", "content", "kind", "tags", "relays", "priority", "crosspost"),
    *("pubkey", "created_at", "event"),
)
_DRAFT = ("content", "kind", "tags", "pubkey", "created_at")
_PRIORITIES = {priority.name.lower(): priority for priority in Priority}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
#: Numbers from here on are milliseconds: as seconds they would be past the year 5000.
_MILLISECONDS_FROM = 100_000_000_000


class Format(enum.StrEnum):
    """How rows are written."""

    JSONL = "jsonl"
    CSV = "csv"


class Row(msgspec.Struct, frozen=True):
    """A row that was understood; whether it can be scheduled is for others to say."""

    line: int
    wish: Wish


class BadRow(msgspec.Struct, frozen=True):
    """A row that was not understood, and why."""

    line: int
    reason: str


class _Line(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A row as JSON has it."""

    at: str | int
    id: str = ""
    content: str | None = None
    kind: int | None = None
    tags: list[list[str]] | None = None
    relays: list[str] = []
    priority: str = ""
    crosspost: list[Network] = []
    pubkey: str | None = None
    created_at: int | None = None
    event: msgspec.Raw = msgspec.Raw(b"")


# -- reading -----------------------------------------------------------------------------------


def read_rows(
    chunks: Iterable[bytes], kind: Format | None = None, zone: str | None = None
) -> Iterator[Row | BadRow]:
    """The rows of a file that comes in pieces; blank lines are passed over.

    Without `kind` the first character tells. `zone`: whose clocks are meant by times that do not
    say it themselves; without it those are refused. Raises `CallerError` where no row can be
    trusted.
    """
    lines = _lines(chunks)
    first = next((line for line in lines if line[1] is None or line[1].strip()), None)
    if first is None:
        return
    start = (first[1] or b"").lstrip()
    if start[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise CallerError("the file is UTF-16: save it as UTF-8 (in Excel: “CSV UTF-8”)")
    kind = kind or (Format.JSONL if start[:1] == b"{" else Format.CSV)
    whole = itertools.chain([first], lines)
    yield from _json_rows(whole, zone) if kind is Format.JSONL else _csv_rows(whole, zone)


_Numbered = tuple[int, bytes | None]


def _lines(chunks: Iterable[bytes]) -> Iterator[_Numbered]:
    """Lines with their numbers and endings, without a BOM; None: one that is too long."""
    number, held, is_over = 1, b"", False
    for chunk in chunks:
        *whole, rest = (held + chunk).split(b"\n")
        for line in whole:
            is_long = is_over or len(line) > MOST_BYTES
            yield number, None if is_long else _without_bom(number, line) + b"\n"
            number, is_over = number + 1, False
        is_over = is_over or len(rest) > MOST_BYTES
        held = b"" if is_over else rest
    if is_over or held:
        yield number, None if is_over else _without_bom(number, held)


def _without_bom(number: int, line: bytes) -> bytes:
    return line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line


_TOO_LONG = f"longer than {MOST_BYTES:,} bytes"


def _json_rows(lines: Iterable[_Numbered], zone: str | None) -> Iterator[Row | BadRow]:
    for number, line in lines:
        if line is None:
            yield BadRow(number, _TOO_LONG)
        elif line.strip():
            yield _row(number, line, zone)


def _row(number: int, line: bytes | Mapping[str, Any], zone: str | None) -> Row | BadRow:
    try:
        if isinstance(line, bytes):
            found = msgspec.json.decode(line, type=_Line)
        else:
            found = msgspec.convert(line, _Line)
        return Row(number, _wish(found, zone))
    except CallerError as refusal:
        return BadRow(number, str(refusal))
    except (msgspec.DecodeError, UnicodeError, RecursionError) as problem:
        return BadRow(number, f"not a row: {problem}")


def _wish(line: _Line, zone: str | None) -> Wish:
    if line.priority and line.priority not in _PRIORITIES:
        raise CallerError(f"priority {line.priority!r} is none of {', '.join(_PRIORITIES)}")
    return Wish(
        item=_item(line),
        at=moment(line.at, zone),
        name=line.id,
        relays=tuple(line.relays),
        priority=_PRIORITIES[line.priority or "normal"],
        crosspost=tuple(line.crosspost),
    )


def _item(line: _Line) -> bytes | dict[str, Any]:
    draft = {name: getattr(line, name) for name in _DRAFT if getattr(line, name) is not None}
    event = bytes(line.event).strip()
    if not event or event == b"null":
        if not draft.keys() & {"content", "kind", "tags"}:
            raise CallerError("the row has neither content nor a signed event")
        return draft
    if draft:
        raise CallerError(f"a signed event is complete: the row's {min(draft)} contradicts it")
    return msgspec.json.decode(event, type=str).encode() if event[:1] == b'"' else event


def moment(at: str | int, zone: str | None = None) -> int:
    """Milliseconds from an ISO time, in its own zone or in this one, or from a number."""
    text = str(at).strip()
    if text.isascii() and text.isdigit() and len(text) <= 15:
        return int(text) if int(text) >= _MILLISECONDS_FROM else int(text) * 1000
    try:
        found = datetime.fromisoformat(text)
        if found.tzinfo is None and zone is not None:
            return moment_of(found, zone_named(zone))
        if found.tzinfo is None:
            raise CallerError(f"at {text!r} must say its time zone, such as 2026-05-31T09:00+02:00")
        return (found - _EPOCH) // _MILLISECOND
    except (ValueError, OverflowError):
        raise CallerError(f"at {text[:50]!r} is no time such as 2026-05-31T09:00+02:00") from None


# -- CSV ---------------------------------------------------------------------------------------


def _csv_rows(lines: Iterable[_Numbered], zone: str | None) -> Iterator[Row | BadRow]:
    records = Records(_texts(lines), MOST_BYTES)
    columns: list[str] | None = None
    try:
        for number, cells in records:
            if isinstance(cells, str):
                yield BadRow(number, cells)
            elif columns is None:
                columns = None if is_excel_hint(cells) else _columns(cells)
            elif any(cells):
                yield _csv_row(number, columns, cells, zone)
    except NotClosed as problem:
        yield BadRow(problem.line, str(problem))


def _texts(lines: Iterable[_Numbered]) -> Iterator[tuple[int, str | None]]:
    """Lines as text; None: one that is too long or not UTF-8."""
    for number, line in lines:
        try:
            yield number, None if line is None else line.decode()
        except UnicodeDecodeError:
            yield number, None


def _columns(cells: list[str]) -> list[str]:
    columns = [cell.strip().lower() for cell in cells]
    while columns and not columns[-1]:
        columns.pop()
    for column in columns:
        if column not in COLUMNS:
            known = ", ".join(COLUMNS)
            raise CallerError(f"the column {column[:50]!r} is not understood; there are {known}")
    if len(set(columns)) < len(columns):
        raise CallerError("a column is there twice")
    if "at" not in columns:
        raise CallerError("the first line must name the columns, and “at” among them")
    return columns


def _csv_row(number: int, columns: list[str], cells: list[str], zone: str | None) -> Row | BadRow:
    if any(cells[len(columns) :]):
        return BadRow(number, f"has {len(cells)} cells, and there are {len(columns)} columns")
    fields: dict[str, Any] = {
        column: cell for column, cell in zip(columns, cells, strict=False) if cell
    }
    try:
        for column in ("kind", "created_at"):
            if column in fields:
                fields[column] = _whole(column, fields[column])
        for column in ("relays", "crosspost"):
            fields[column] = fields.get(column, "").split()
        if "tags" in fields:
            fields["tags"] = _tags(fields["tags"])
        if "event" in fields:
            fields["event"] = msgspec.Raw(fields["event"].encode())
    except CallerError as refusal:
        return BadRow(number, str(refusal))
    return _row(number, fields, zone)


def _whole(column: str, cell: str) -> int:
    text = cell.strip()
    if not (text.isascii() and text.isdigit() and len(text) <= 15):
        raise CallerError(f"{column} {text[:50]!r} is not a whole number")
    return int(text)


def _tags(cell: str) -> list[list[str]]:
    try:
        return msgspec.json.decode(cell, type=list[list[str]])
    except (msgspec.DecodeError, RecursionError):
        raise CallerError('tags are written as JSON, such as [["t","nostr"]]') from None


# -- writing -----------------------------------------------------------------------------------


def wish_of(post: Post, signed: bytes | None) -> Wish:
    """A post as it could be handed in again; `signed`: its event's bytes, if it has them."""
    job = post.job
    item: bytes | dict[str, Any]
    if signed is not None and job.state is not JobState.PENDING_SIGN:
        item = signed
    else:
        item = {
            "content": job.content,
            "kind": job.kind,
            "tags": [list(tag) for tag in job.tags],
            "pubkey": job.pubkey,
            "created_at": job.created_at,
        }
    return Wish(
        item=item,
        at=job.due_at if job.due_at is not None else job.accepted_at,
        name=post.name,
        relays=tuple(d.relay for d in job.deliveries if d.reason == NAMED),
        priority=Priority(job.priority),
        crosspost=post.crosspost,
    )


def write_rows(wishes: Iterable[Wish], kind: Format) -> Iterator[bytes]:
    """Wishes as lines; their items are a signed event's bytes, or a draft's fields."""
    if kind is Format.JSONL:
        for wish in wishes:
            yield msgspec.json.encode(_json_fields(wish)) + b"\n"
        return
    yield line_of_cells(COLUMNS)
    for wish in wishes:
        fields = _csv_fields(wish)
        yield line_of_cells([fields.get(column, "") for column in COLUMNS])


def _json_fields(wish: Wish) -> dict[str, Any]:
    fields = _common(wish)
    if isinstance(wish.item, bytes):
        is_one_line = wish.item.translate(None, b"\r\n") == wish.item
        fields["event"] = msgspec.Raw(wish.item) if is_one_line else wish.item.decode()
    else:
        assert isinstance(wish.item, Mapping)
        fields.update(wish.item)
    return fields


def _csv_fields(wish: Wish) -> dict[str, str]:
    fields = _common(wish)
    if isinstance(wish.item, bytes):
        fields["event"] = wish.item.decode()
    else:
        assert isinstance(wish.item, Mapping)
        fields.update(wish.item)
        if "tags" in fields:
            fields["tags"] = msgspec.json.encode(fields["tags"]).decode()
    for column in ("relays", "crosspost"):
        fields[column] = " ".join(fields.get(column, ()))
    return {column: str(cell) for column, cell in fields.items()}


def _common(wish: Wish) -> dict[str, Any]:
    fields: dict[str, Any] = {"id": wish.name} if wish.name else {}
    fields["at"] = iso(wish.at)
    if wish.relays:
        fields["relays"] = list(wish.relays)
    if wish.priority is not Priority.NORMAL:
        fields["priority"] = wish.priority.name.lower()
    if wish.crosspost:
        fields["crosspost"] = list(wish.crosspost)
    return fields


def iso(at: int) -> str:
    """Milliseconds as an ISO time in UTC, exact."""
    text = (_EPOCH + at * _MILLISECOND).replace(tzinfo=None).isoformat(timespec="milliseconds")
    return f"{text.removesuffix('.000')}Z"
