"""`workers`: who works on the outbox, and what each holds (G4). Looks; changes nothing."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
from rich.table import Table
from rich.text import Text

from postrich.doors.cli.home import Home
from postrich.doors.cli.keys import called, npub_of
from postrich.doors.cli.roster import known_accounts
from postrich.doors.cli.showing import console, say, write_json
from postrich.doors.cli.words import ago, count, plain, relay_name
from postrich.model.worker import Hold, Worker

DUTIES = {"stage": "sends on what is due", "hooks": "tells hooks"}


async def show_workers(home: Home, as_json: bool) -> int:
    """Answer `postrich workers`."""
    async with home.looking() as outbox:
        workers = await outbox.workers()
        now = outbox.now()
    if as_json:
        store = home.place().shown
        write_json({"store": store, "now": now, "workers": [_document(w) for w in workers]})
        return 0
    if not workers:
        say("Nobody works here: start `postrich serve` or `postrich worker`.")
        return 0
    names = {account.pubkey: called(account) for account in known_accounts(home)}
    console().print(_table(workers, names, now))
    if gone := sum(not worker.alive for worker in workers):
        say(f"{count(gone, 'worker')} gone: what they held is taken over by the others.")
    return 0


def _document(worker: Worker) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.to_builtins(worker)
    del found["is_self"]
    return found


def _table(workers: list[Worker], names: dict[str, str], now: int) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in ("HOST", "PID", "ROLE", "SINCE", "HEARD OF"):
        table.add_column(name, justify="right" if name == "PID" else "left", no_wrap=True)
    table.add_column("HOLDS", overflow="fold")
    for worker in workers:
        heard = ago(worker.seen_at, now)
        table.add_row(
            plain(worker.host),
            str(worker.pid),
            plain(worker.role),
            ago(worker.started_at, now),
            Text(heard) if worker.alive else Text(f"{heard}, gone", "red"),
            holdings(worker.holds, names),
        )
    return table


def holdings(holds: Iterable[Hold], names: dict[str, str]) -> str:
    """What a worker holds, in words; what it has not renewed in time is marked."""
    told = [_told(hold, names) + (" (lapsed)" if hold.lapsed else "") for hold in holds]
    return ", ".join(told) or "–"


def _told(hold: Hold, names: dict[str, str]) -> str:
    if hold.duty == "relay":
        return relay_name(hold.name)
    if hold.duty == "sign":
        return f"signs for {names.get(hold.name) or npub_of(hold.name)[:12] + '…'}"
    return DUTIES.get(hold.duty) or plain(f"{hold.duty} {hold.name}").strip()
