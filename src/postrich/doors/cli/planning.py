"""`plan`: where an event would go, and why; what is known of each relay; what was left out.

Promises: sends nothing, keeps no job, opens no key. What could not be looked up is said to be so.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
from rich.table import Table
from rich.text import Text

from postrich.accept import Options, Publishable
from postrich.clock import SystemClock
from postrich.doors.cli import bulk
from postrich.doors.cli.home import Home
from postrich.doors.cli.naming import find_job
from postrich.doors.cli.outset import FAILED, PUBLISHED, QUEUED, misuse
from postrich.doors.cli.persons import default_account, known_person, short_npub
from postrich.doors.cli.posting import Note, parse_tag
from postrich.doors.cli.relay_words import by_url, health_document, health_words, limits_in_words
from postrich.doors.cli.roster import known_accounts
from postrich.doors.cli.showing import DELIVERY_STYLES, console, doing, say, write_json
from postrich.doors.cli.words import count, plain, relay_name
from postrich.errors import BadSetting, CallerError
from postrich.model.delivery import Delivery, Target, event_frame
from postrich.model.event import Draft, Event, refuse_kind, seal
from postrich.model.job import Job
from postrich.model.relay import RelayHealth, RelayInfo
from postrich.outbox import Outbox
from postrich.rules.limits import Facts, facts_of, refuses
from postrich.rules.routing import NAMED, Plan
from postrich.rules.trust import normalise_url
from postrich.wire.relay_info import fetch_infos

UNSIGNED = "0" * 128
PROTECTED_NOTE = "It is protected (NIP-70): a relay takes it only after you said who you are."


@dataclass(frozen=True)
class Wish:
    """What is to be planned for: a note, a signed event's source, or a job, and how."""

    note: Note | None = None
    source: str | None = None
    job: str | None = None
    account: str | None = None
    relays: tuple[str, ...] = ()
    check: bool = False


@dataclass(frozen=True)
class Outlook:
    """A plan with all that is known of its relays."""

    event: Draft | Event
    plan: Plan
    now: int
    health: Mapping[str, RelayHealth]
    infos: Mapping[str, RelayInfo | None] | None = None
    job: Job | None = None

    @property
    def deliveries(self) -> dict[str, Delivery]:
        return {d.relay: d for d in self.job.deliveries} if self.job is not None else {}

    @property
    def facts(self) -> Facts:
        event = self.event if isinstance(self.event, Event) else seal(self.event, UNSIGNED)
        return facts_of(event, len(event_frame(event.raw)))

    @property
    def is_protected(self) -> bool:
        return any(list(tag) == ["-"] for tag in self.event.tags)

    def objection(self, target: Target) -> str:
        """Why the relay would not take it, by its own word; "" where it says nothing against."""
        info = (self.infos or {}).get(target.url)
        if info is None:
            return ""
        verdict = refuses(self.facts, info, self.now, trusted=not target.stranger)
        return "" if verdict is None else verdict.text.removeprefix("not sent: ")


async def show_plan(home: Home, wish: Wish, as_json: bool) -> int:
    """Answer `postrich plan`; exit code 1 where it would go nowhere."""
    outlook = await _look(home, wish)
    if as_json:
        write_json(_document(outlook))
    else:
        _print(outlook)
    if outlook.plan.targets:
        return PUBLISHED
    return FAILED if outlook.plan.refusal else QUEUED


async def _look(home: Home, wish: Wish) -> Outlook:
    async with home.looking() as outbox:
        outbox.router.owners = frozenset(account.pubkey for account in known_accounts(home))
        job = await outbox.job(await find_job(outbox, wish.job)) if wish.job else None
        item = _event_of(job) if job is not None else _item(home, wish)
        options = Options(relays=_named_for(job) if job is not None else _relays(wish))
        with doing("looking up relay lists"):
            content = await outbox.content(item)
            refuse_kind(content.kind)
            plan = await outbox.plan(content, options)
        infos = await _infos(outbox, plan) if wish.check else None
        health = by_url(await outbox.health())
    return Outlook(content, plan, SystemClock().now(), health, infos, job)


def _relays(wish: Wish) -> tuple[str, ...]:
    try:
        return tuple(normalise_url(url) for url in wish.relays)
    except BadSetting as problem:
        raise misuse(str(problem), "--relay") from None


def _item(home: Home, wish: Wish) -> Publishable:
    if wish.source is not None:
        items = bulk.read_items(wish.source)
        if items.single is None:
            raise CallerError("a plan is for one event: give a file with one")
        bulk.check_author(items.single)
        return items.single
    assert wish.note is not None
    note = wish.note
    chosen = known_person(home, wish.account) if wish.account else default_account(home)
    fields = {"kind": note.kind, "content": note.content, "tags": [*map(parse_tag, note.tags)]}
    return fields | {"pubkey": chosen.pubkey}


def _event_of(job: Job) -> Draft:
    return Draft(job.pubkey, job.created_at, job.kind, job.tags, job.content)


def _named_for(job: Job) -> tuple[str, ...]:
    """The relays that were named when the job was handed in; none where lists decide."""
    return tuple(d.relay for d in job.deliveries if d.reason == NAMED)


async def _infos(outbox: Outbox, plan: Plan) -> dict[str, RelayInfo | None]:
    strangers = {target.url for target in plan.targets if target.stranger}
    with doing(f"asking {count(len(plan.targets), 'relay')} what they take"):
        return await fetch_infos(
            (target.url for target in plan.targets),
            lambda url: outbox.settings.guard(trusted=url not in strangers),
        )


# -- for programs ------------------------------------------------------------------------------


def _document(outlook: Outlook) -> dict[str, Any]:
    plan = outlook.plan
    return {
        "event_id": outlook.event.id,
        "pubkey": outlook.event.pubkey,
        "kind": outlook.event.kind,
        "size": outlook.facts.message,
        "job": outlook.job.id if outlook.job is not None else None,
        "relays": [_target_document(outlook, target) for target in plan.targets],
        "left_out": [{"url": left.url, "why": left.reason} for left in plan.left_out],
        "unresolved": list(plan.unresolved),
        "refusal": plan.refusal,
        "protected": outlook.is_protected,
        "deliveries": [msgspec.to_builtins(d) for d in outlook.deliveries.values()],
    }


def _target_document(outlook: Outlook, target: Target) -> dict[str, Any]:
    document: dict[str, Any] = {
        "url": target.url,
        "why": target.reason,
        "mine": target.mine,
        "inbox_of": list(target.inbox_of),
        "stranger": target.stranger,
        "health": health_document(outlook.health.get(target.url)),
    }
    if outlook.infos is not None:
        info = outlook.infos.get(target.url)
        document["info"] = msgspec.to_builtins(info)
        document["objection"] = outlook.objection(target)
    return document


# -- for people --------------------------------------------------------------------------------


def _print(outlook: Outlook) -> None:
    plan = outlook.plan
    what = f"job {outlook.job.id}" if outlook.job is not None else "this event"
    size = outlook.facts.message
    if plan.targets:
        number = count(len(plan.targets), "relay")
        say(f"Kind {outlook.event.kind}, {size:,} bytes: {what} goes to {number}.")
        console().print(_table(outlook))
    elif plan.refusal:
        say(f"Kind {outlook.event.kind}: {what} goes nowhere: {plain(plan.refusal)}.", "red")
    else:
        say(f"Kind {outlook.event.kind}: {what} waits until relay lists can be read.", "yellow")
    if outlook.is_protected and plan.targets:
        say(PROTECTED_NOTE, "yellow")
    _print_left_out(outlook)
    for pubkey in plan.unresolved:
        say(f"Could not look up the relay list of {short_npub(pubkey)}: more may follow.", "yellow")
    if outlook.infos is None and plan.targets:
        say("`--check` asks the relays what they take.", "dim")


def _table(outlook: Outlook) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("RELAY", overflow="fold")
    table.add_column("WHY", overflow="fold")
    if outlook.job is not None:
        table.add_column("NOW", overflow="fold")
    table.add_column("HEALTH", overflow="fold")
    if outlook.infos is not None:
        table.add_column("TAKES IT", overflow="fold")
    for target in outlook.plan.targets:
        cells: list[str | Text] = [relay_name(target.url), plain(target.reason)]
        if outlook.job is not None:
            cells.append(_standing(outlook.deliveries.get(target.url)))
        cells.append(health_words(outlook.health.get(target.url), outlook.now))
        if outlook.infos is not None:
            cells.append(_takes_it(outlook, target))
        table.add_row(*cells)
    return table


def _standing(delivery: Delivery | None) -> Text:
    if delivery is None:
        return Text("to be added", "yellow")
    return Text(delivery.state.value, DELIVERY_STYLES.get(delivery.state, ""))


def _takes_it(outlook: Outlook, target: Target) -> Text:
    info = (outlook.infos or {}).get(target.url)
    if info is None:
        return Text("it does not say", "dim")
    if said := outlook.objection(target):
        return Text(f"no: {plain(said)}", "red")
    wanted = [words for words in limits_in_words(info.limitation) if words.startswith("wants")]
    return Text("; ".join(["yes", *wanted]), "green")


def _print_left_out(outlook: Outlook) -> None:
    if outlook.plan.left_out:
        say("Left out:")
        for left in outlook.plan.left_out:
            say(f"  {relay_name(left.url)}: {plain(left.reason)}")
    planned = {target.url for target in outlook.plan.targets}
    others = [d for d in outlook.deliveries.values() if d.relay not in planned]
    if others:
        say("Not in the plan any more, but kept as it is:")
        for delivery in others:
            say(f"  {relay_name(delivery.relay)}: {delivery.state.value}, {plain(delivery.reason)}")
