"""`post`: a note or one event, handed in and followed for a while.

Promises: what is said to be queued is on disk; a key is asked for only where something must be
signed, and signs before the note is handed in, so that no other process needs it. Where no key
can be opened, the note is kept as a draft, and what it waits for is said.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from postrich.accept import Options, Publishable
from postrich.doors.cli import bulk
from postrich.doors.cli.home import Home
from postrich.doors.cli.keys import note_of
from postrich.doors.cli.mining import bits_of, mined
from postrich.doors.cli.naming import find_jobs
from postrich.doors.cli.outset import QUEUED, misuse, run
from postrich.doors.cli.reasons import look_around
from postrich.doors.cli.roster import Roster, all_signers, known_accounts
from postrich.doors.cli.showing import aside, doing, job_document, say, write_json
from postrich.doors.cli.standing import is_worked_on, who_goes_on
from postrich.doors.cli.waiting import Vigil, exit_code, following
from postrich.doors.cli.waits import Around, What, waits_for_what
from postrich.doors.cli.words import count, plain, reached, relay_name
from postrich.errors import BadSetting, InvalidEvent
from postrich.model.delivery import DeliveryState
from postrich.model.job import Job, JobState, Priority
from postrich.outbox import Handle, Outbox
from postrich.rules.trust import normalise_url
from postrich.sign.signer import Signer

#: What must happen before a relay is spoken to.
BEFORE_RELAYS = (What.SIGNER, What.PERSON, What.JOB)
PRIORITIES = {priority.name.lower(): priority for priority in Priority}


@dataclass(frozen=True)
class Note:
    """What is to be written."""

    content: str
    kind: int
    tags: list[str]
    pow: str | None = None


@dataclass(frozen=True)
class Wishes:
    """How it shall be treated, as typed."""

    relays: list[str]
    priority: str
    policy: str | None
    goal: int | None
    after: list[str]
    key: str | None


@dataclass(frozen=True)
class Manner:
    """How long to follow it, and how to answer."""

    wait: float
    as_json: bool


# -- what to post ------------------------------------------------------------------------------


def event_alone() -> Exception:
    return misuse(
        "--event brings whole events: give no text, --file, --kind, --tag, --pow or --as with it"
    )


def read_text(words: list[str], file: Path | None, kind: int) -> str:
    """The note's text: from the arguments, a file or stdin."""
    if words and file:
        raise misuse("the text and --file exclude each other: give one of them")
    if file is not None:
        content = _decoded(file.read_bytes())
    elif words and words != ["-"]:
        content = " ".join(words)
    elif words or not sys.stdin.isatty():
        content = _decoded(sys.stdin.buffer.read())
    else:
        raise misuse("there is nothing to post: give the text, --file, --event, or pipe it in")
    if kind == 1 and not content.strip():
        raise InvalidEvent("an empty note is not posted")
    return content


def _decoded(body: bytes) -> str:
    try:
        return body.decode("utf-8").removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError:
        raise InvalidEvent("the text is not UTF-8") from None


def parse_tag(text: str) -> list[str]:
    """A tag from `name=value` or a JSON array of strings."""
    if text.startswith("["):
        try:
            return msgspec.json.decode(text, type=list[str])
        except (msgspec.DecodeError, UnicodeEncodeError):
            raise misuse(f"{text!r} is not a JSON array of strings", "--tag") from None
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise misuse(f"{text!r} is neither name=value nor a JSON array of strings", "--tag")
    return [name, value]


async def options_of(outbox: Outbox, wishes: Wishes) -> Options:
    """The wishes as the library takes them; what cannot be is a usage error."""
    priority = PRIORITIES.get(wishes.priority)
    if priority is None:
        raise misuse(f"{wishes.priority!r} is none of {', '.join(PRIORITIES)}", "--priority")
    with _meant_by("--policy"):
        if wishes.policy is not None:
            outbox.settings.policy_named(wishes.policy)
    with _meant_by("--relay"):
        relays = tuple(normalise_url(url) for url in wishes.relays)
    known = len(set(relays)) if relays else len(outbox.settings.relays)
    if wishes.goal is not None and known and wishes.goal > known:
        raise misuse(f"{wishes.goal} cannot be met by {count(known, 'relay')}", "--goal")
    return Options(
        relays=relays,
        policy=wishes.policy,
        goal=wishes.goal,
        priority=priority,
        after=await find_jobs(outbox, wishes.after),
        key=wishes.key,
    )


@contextlib.contextmanager
def _meant_by(option: str) -> Iterator[None]:
    try:
        yield
    except BadSetting as problem:
        raise misuse(str(problem), option) from None


# -- posting -----------------------------------------------------------------------------------


async def post_note(
    home: Home, note: Note, name: str | None, wishes: Wishes, manner: Manner
) -> int:
    """Write, sign, hand in and follow a note; what cannot be signed now is kept as a draft."""
    fields = {"kind": note.kind, "content": note.content, "tags": [*map(parse_tag, note.tags)]}
    bits = None if note.pow is None else bits_of(note.pow)
    author = Roster(home).author(name)
    item: Publishable = fields | {"pubkey": author.account.pubkey}
    async with following(home, "post", author.signers(manner.wait)) as (outbox, vigil):
        options = await options_of(outbox, wishes)
        if bits is not None:
            item = await mined(outbox, item, bits, options)
        if author.key is not None:
            item = await outbox.sign(item, options)
        code = await _follow(home, outbox, vigil, item, options, manner)
    if code == QUEUED and author.trouble:
        aside(f"postrich: {author.trouble}")
    return code


def post_events(home: Home, source: str, wishes: Wishes, manner: Manner) -> int:
    """Hand in events from a file or stdin: one, or one per line."""
    items = bulk.read_items(source)
    if wishes.key is not None and items.single is None:
        raise misuse("one idempotency key cannot stand for many events", "--key")
    return run(_post_items(home, all_signers(home, manner.wait), items, wishes, manner))


async def _post_items(
    home: Home, signers: list[Signer], items: bulk.Items, wishes: Wishes, manner: Manner
) -> int:
    async with following(home, "post", signers) as (outbox, vigil):
        options = await options_of(outbox, wishes)
        if items.single is not None:
            bulk.check_author(items.single)
            return await _follow(home, outbox, vigil, items.single, options, manner)
        return await bulk.post_many(
            outbox, vigil, items, options, wait=manner.wait, as_json=manner.as_json
        )


async def _follow(
    home: Home,
    outbox: Outbox,
    vigil: Vigil,
    item: Publishable,
    options: Options,
    manner: Manner,
) -> int:
    """Hand one in, wait, and say how it went."""
    [handle] = await outbox.publish_batch([item], options)
    if manner.wait > 0 and await _may_move(outbox, handle):
        with doing(f"job {handle.id} is kept; delivering (Ctrl-C leaves it queued)"):
            await vigil.wait([handle.id], manner.wait)
    job = await handle.status()
    around = await look_around(outbox, known_accounts(home), [job])
    if manner.as_json:
        write_json(_document(handle, job, around))
    else:
        _report(handle, job, around, vigil.unreachable)
        if _is_left(job, around):
            who = await who_goes_on(outbox)
            say(f"  {who} goes on with it; `postrich why {job.id}` tells more.")
    return exit_code([job.state])


async def _may_move(outbox: Outbox, handle: Handle) -> bool:
    """Whether waiting makes sense: not for a draft that no process here can sign."""
    if handle.state is not JobState.PENDING_SIGN:
        return True
    pubkey = (await handle.status()).pubkey
    at_hand = any(signer.pubkey == pubkey for signer in outbox.signers())
    return at_hand or await is_worked_on(outbox, by_others=True)


def _document(handle: Handle, job: Job, around: Around) -> dict[str, Any]:
    code = exit_code([job.state])
    answer = {"success": code == 0, "queued": code == 3, "is_new": handle.is_new}
    return answer | {"note": note_of(job.event_id)} | job_document(job, around)


def _report(handle: Handle, job: Job, around: Around, unreachable: dict[str, str]) -> None:
    known = "" if handle.is_new else " (it was handed in before)"
    if job.state is JobState.PUBLISHED:
        say(f"✓ published as job {job.id}: {reached(job)}{known}", "green")
    elif exit_code([job.state]) == 1:
        say(f"✗ job {job.id} is {job.state}: {reached(job)}{known}", "red")
    elif job.state is JobState.PENDING_SIGN:
        say(f"… kept as job {job.id}, not signed yet{known}", "yellow")
    else:
        say(f"… queued as job {job.id}: {reached(job)} so far{known}", "yellow")
    say(f"  {note_of(job.event_id)}")
    wait = waits_for_what(job, around)
    if wait is not None and wait.what in BEFORE_RELAYS:
        say(f"  {wait.text}")
        return
    for delivery in job.deliveries:
        said = delivery.detail or unreachable.get(delivery.relay, "")
        if delivery.state is not DeliveryState.DELIVERED and said:
            say(f"  {relay_name(delivery.relay)}: {plain(said)}")


def _is_left(job: Job, around: Around) -> bool:
    """Whether relays are still to be reached, which others do when this process has ended."""
    wait = waits_for_what(job, around)
    return not job.is_finished and (wait is None or wait.what not in BEFORE_RELAYS)
