"""`queue --watch`: the queue as it changes, until Ctrl-C.

On a terminal the picture stays in place; elsewhere a new one is printed when something changed.
"""

from __future__ import annotations

import asyncio

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from postrich.doors.cli.home import Home
from postrich.doors.cli.queueing import empty_sentence
from postrich.doors.cli.reasons import look_around
from postrich.doors.cli.roster import known_accounts
from postrich.doors.cli.showing import console, jobs_table, status_lines
from postrich.doors.cli.waits import Around
from postrich.model.job import Job, JobFilter, QueueStatus
from postrich.sign.accounts import Account

PERIOD = 0.5

Picture = tuple[list[Job], QueueStatus, list[Account]]


async def watch(home: Home, which: JobFilter, limit: int) -> int:
    """Show the queue again and again. Ends only by Ctrl-C."""
    screen = console()
    async with home.looking() as outbox:
        with Live(console=screen, auto_refresh=False, transient=True) as live:
            last: Picture | None = None
            while True:
                jobs, accounts = await outbox.jobs(which, limit), known_accounts(home)
                picture = (jobs, await outbox.status(), accounts)
                if screen.is_terminal or picture != last:
                    around = await look_around(outbox, accounts, jobs)
                    drawn = _draw(picture, around, which, screen.width)
                    _show(screen, live, drawn)
                    last = picture
                await asyncio.sleep(PERIOD)


def _show(screen: Console, live: Live, drawn: RenderableType) -> None:
    if screen.is_terminal:
        live.update(drawn, refresh=True)
    else:
        screen.print(drawn)


def _draw(picture: Picture, around: Around, which: JobFilter, width: int) -> RenderableType:
    jobs, status, _ = picture
    table = jobs_table(jobs, around, width) if jobs else Text(empty_sentence(which))
    headline = Text(" · ".join(status_lines(status, around.now)), style="bold")
    return Group(headline, Text(), table)
