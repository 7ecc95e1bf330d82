"""`relays block` and `unblock`: a new version of the account's list of blocked relays (10006).

Promises: everything else in the list stays as it is, the encrypted part included; where the list
cannot be read as it is now, nothing is published, since that could undo what is in it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from postrich.accept import Publishable
from postrich.clock import SystemClock
from postrich.doors.cli.directory import NEVER
from postrich.doors.cli.home import Home
from postrich.doors.cli.keys import called, note_of
from postrich.doors.cli.outset import PUBLISHED, QUEUED
from postrich.doors.cli.relay_book import url_meant
from postrich.doors.cli.roster import Author, Roster
from postrich.doors.cli.showing import aside, doing, say, write_json
from postrich.doors.cli.standing import is_worked_on
from postrich.doors.cli.waiting import Vigil, exit_code, following
from postrich.doors.cli.words import ago, count, plain, reached, relay_name
from postrich.errors import BadSetting, CallerError
from postrich.model.event import Event
from postrich.model.job import Job, JobFilter, JobState
from postrich.outbox import Outbox
from postrich.rules.relay_lists import BLOCKED, Status
from postrich.rules.trust import normalise_url

Tags = list[list[str]]


@dataclass(frozen=True)
class Version:
    """A version of the list: what a new one is made from."""

    tags: Tags
    content: str = ""
    created_at: int = 0

    @property
    def urls(self) -> list[str]:
        return [url for tag in self.tags if (url := _url_in(tag))]


@dataclass(frozen=True)
class Wish:
    """What is wanted. `anyway`: also on a version that may be out of date."""

    url: str
    block: bool
    account: str | None = None
    anyway: bool = False
    wait: float = 0.0


def _url_in(tag: list[str]) -> str:
    try:
        return normalise_url(tag[1]) if tag[0] == "relay" and len(tag) > 1 else ""
    except BadSetting:
        return ""


def changed(version: Version, url: str, *, block: bool) -> Tags | None:
    """The tags of the next version; None where nothing is to be changed."""
    if block == (url in version.urls):
        return None
    if block:
        return [*version.tags, ["relay", url]]
    return [tag for tag in version.tags if _url_in(tag) != url]


async def change_block(home: Home, wish: Wish, as_json: bool) -> int:
    """Answer `relays block` and `relays unblock`; exit codes as those of `post`."""
    home.check()
    url = url_meant(wish.url)
    author = Roster(home).author(wish.account)
    async with following(home, "block", author.signers(wish.wait)) as (outbox, vigil):
        version = await _present_version(outbox, author, wish.anyway)
        tags = changed(version, url, block=wish.block)
        if tags is None:
            return _nothing_to_do(url, wish.block, version, as_json)
        fields = {
            "kind": BLOCKED,
            "pubkey": author.account.pubkey,
            "tags": tags,
            "content": version.content,
            "created_at": max(SystemClock().now() // 1000, version.created_at + 1),
        }
        job = await _publish(outbox, vigil, author, fields, wish.wait)
    if as_json:
        write_json(_document(url, wish.block, tags, job))
    else:
        _report(url, version, tags, job)
        if job.state is JobState.PENDING_SIGN and author.trouble:
            aside(f"postrich: {author.trouble}")
    return exit_code([job.state])


async def _present_version(outbox: Outbox, author: Author, anyway: bool) -> Version:
    """The newest version: of what relays have, and of what still waits here."""
    pubkey = author.account.pubkey
    lists = outbox.router.lists
    key = (pubkey, BLOCKED)
    with doing(f"reading the list of blocked relays of {called(author.account)}"):
        await lists.find([key], refresh=True)
    sighting = (await lists.recall([key])).get(key, NEVER)
    waiting = await _waiting_version(outbox, pubkey)
    is_certain = sighting.lookup.status is not Status.UNKNOWN and not sighting.lookup.detail
    if not (is_certain or anyway):
        known = "none is known here"
        if sighting.event is not None:
            known = f"the one known here is of {ago(sighting.at, SystemClock().now())}"
        raise CallerError(
            f"your list of blocked relays could not be read as it is now "
            f"({plain(sighting.lookup.detail)}), and {known}: a new version could undo what was "
            "changed elsewhere; try again when relays can be reached, or give --anyway"
        )
    found = _version_of(sighting.event)
    return waiting if waiting.created_at > found.created_at else found


async def _waiting_version(outbox: Outbox, pubkey: str) -> Version:
    """The newest version that was handed in here and is not published yet."""
    which = JobFilter(pubkey=pubkey, kind=BLOCKED, open_only=True)
    newest = max(await outbox.jobs(which, 100), key=lambda job: job.created_at, default=None)
    return _version_of(newest)


def _version_of(source: Event | Job | None) -> Version:
    if source is None:
        return Version([])
    return Version([list(tag) for tag in source.tags], source.content, source.created_at)


async def _publish(
    outbox: Outbox, vigil: Vigil, author: Author, fields: dict[str, Any], wait: float
) -> Job:
    item: Publishable = fields
    if author.key is not None:
        item = await outbox.sign(fields)
    [handle] = await outbox.publish_batch([item])
    if isinstance(item, Event):
        await outbox.router.lists.learn(item)  # it counts here at once
    if wait > 0 and (author.signers(wait) or await is_worked_on(outbox, by_others=True)):
        with doing(f"job {handle.id} is kept; delivering (Ctrl-C leaves it queued)"):
            await vigil.wait([handle.id], wait)
    return await handle.status()


# -- saying it ---------------------------------------------------------------------------------


def _nothing_to_do(url: str, block: bool, version: Version, as_json: bool) -> int:
    if as_json:
        blocked = version.urls
        write_json({"relay": url, "blocked": block, "changed": False, "list": blocked, "job": None})
    elif block:
        say(f"{relay_name(url)} is blocked already; nothing was published.")
    else:
        say(f"{relay_name(url)} is not on your list; nothing was published.")
        if version.content:
            say("The list has an encrypted part, which cannot be looked into from here.", "dim")
    return PUBLISHED


def _document(url: str, block: bool, tags: Tags, job: Job) -> dict[str, Any]:
    return {
        "relay": url,
        "blocked": block,
        "changed": True,
        "list": Version(tags).urls,
        "job": job.id,
        "event_id": job.event_id,
        "note": note_of(job.event_id),
        "state": job.state,
    }


def _report(url: str, version: Version, tags: Tags, job: Job) -> None:
    block = len(tags) > len(version.tags)
    deed = "blocked: nothing is sent to it or read from it" if block else "not blocked any more"
    say(f"{relay_name(url)} is {deed}.")
    what = "A new list (kind 10006)"
    if version.created_at:
        kept = min(len(tags), len(version.tags))
        private = " and the encrypted part" if version.content else ""
        others = f"the {count(kept, 'other tag')}{private} kept as before"
        what = f"A new version of your list (kind 10006), {others},"
    if exit_code([job.state]) == PUBLISHED:
        say(f"  {what} is published as job {job.id}: {reached(job)}.", "green")
    elif job.state is JobState.PENDING_SIGN:
        say(f"  {what} is kept as job {job.id}, not signed yet: `postrich sign` does.", "yellow")
    elif exit_code([job.state]) == QUEUED:
        say(f"  {what} is queued as job {job.id}; `postrich why {job.id}` tells more.", "yellow")
    else:
        say(f"  {what} was not published: `postrich why {job.id}` tells more.", "red")
