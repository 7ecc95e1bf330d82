"""`status`: what waits, who signs, how the relays are, and who delivers (A12)."""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec
from rich.table import Table
from rich.text import Text

from postrich.clock import SystemClock
from postrich.doors.cli.account_book import account_document, count_drafts, ways_of
from postrich.doors.cli.home import Home
from postrich.doors.cli.keys import called
from postrich.doors.cli.roster import known_accounts
from postrich.doors.cli.showing import console, say, status_lines, write_json
from postrich.doors.cli.words import ago, count, plain, relay_name, until
from postrich.model.job import QueueStatus
from postrich.model.relay import RelayHealth
from postrich.outbox import Outbox
from postrich.sign.accounts import Account
from postrich.store.port import Backlog

HEALTH_WORDS = {"closed": ("well", "green"), "half-open": ("being probed", "yellow")}


async def show_status(home: Home, as_json: bool) -> int:
    """Answer `postrich status`."""
    async with home.looking() as outbox:
        status = await outbox.status()
        backlog = {entry.url: entry for entry in await outbox.backlog()}
        health = {entry.url: entry for entry in await outbox.health()}
        urls = list(dict.fromkeys([*outbox.settings.relays, *backlog, *health]))
        drafts = await count_drafts(outbox)
        working = sum(worker.alive for worker in await outbox.workers())
    place = home.place()
    pid = home.serving_pid()
    accounts = known_accounts(home)
    if as_json:
        members = [account_document(home, account, drafts) for account in accounts]
        more = {"accounts": members, "store": place.shown, "workers": working}
        write_json(_document(status, urls, backlog, health, pid) | more)
        return 0
    now = SystemClock().now()
    for line in status_lines(status, now):
        say(line)
    say(_server_line(pid))
    if place.is_postgres:
        say(f"{count(working, 'worker')} on {place.shown}; see `postrich workers`.")
    if accounts:
        say("")
        console().print(_account_table(accounts, drafts))
    if urls:
        say("")
        console().print(_relay_table(urls, backlog, health, now))
    return 0


def _server_line(pid: int | None) -> str:
    if pid is None:
        return "`postrich serve` is not running."
    return f"`postrich serve` is running (pid {pid})."


def _document(
    status: QueueStatus,
    urls: list[str],
    backlog: dict[str, Backlog],
    health: dict[str, RelayHealth],
    pid: int | None,
) -> dict[str, Any]:
    relays = [
        {
            "url": url,
            "waiting": backlog[url].waiting if url in backlog else 0,
            "tried": backlog[url].tried if url in backlog else 0,
            "health": health.get(url),
        }
        for url in urls
    ]
    figures: dict[str, Any] = msgspec.to_builtins(status)
    serve = {"running": pid is not None, "pid": pid}
    return {"text": status.text} | figures | {"serve": serve, "relays": relays}


def _account_table(accounts: list[Account], drafts: Counter[str]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("ACCOUNT", no_wrap=True)
    table.add_column("DRAFTS", justify="right")
    table.add_column("SIGNS BY", overflow="fold")
    for account in accounts:
        ways = [way.removeprefix("signs by ") for way in ways_of(account)]
        table.add_row(called(account), f"{drafts[account.pubkey]:,}", "; ".join(ways))
    return table


def _relay_table(
    urls: list[str], backlog: dict[str, Backlog], health: dict[str, RelayHealth], now: int
) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("RELAY", overflow="fold")
    table.add_column("WAITING", justify="right")
    table.add_column("LATENCY", justify="right", no_wrap=True)
    table.add_column("HEALTH", overflow="fold")
    for url in urls:
        known = health.get(url)
        latency = known.latency_ms if known else None
        table.add_row(
            relay_name(url),
            f"{backlog[url].waiting:,}" if url in backlog else "0",
            "–" if latency is None else f"{latency:.0f} ms",
            health_text(known, now),
        )
    return table


def health_text(health: RelayHealth | None, now: int) -> Text:
    """A relay's health as last known."""
    if health is None:
        return Text("not used yet", "dim")
    if health.state == "open":
        text = f"unreachable since {ago(health.since, now)}: {plain(health.detail)}"
        if health.next_probe is not None and health.next_probe > now:
            text += f"; next probe {until(health.next_probe, now)}"
        return Text(text, "red")
    return Text(*HEALTH_WORDS.get(health.state, (plain(health.state), "")))


async def is_worked_on(outbox: Outbox, *, by_others: bool = False) -> bool:
    """Whether any process (any other than this one) works on this outbox now."""
    return any(
        worker.alive and not (by_others and worker.is_self) for worker in await outbox.workers()
    )


async def who_goes_on(outbox: Outbox) -> str:
    """The command that delivers what this process leaves: the one that runs, if any does."""
    roles = {w.role for w in await outbox.workers() if w.alive and not w.is_self}
    only_workers = "worker" in roles and "serve" not in roles
    return "`postrich worker`" if only_workers else "`postrich serve`"
