"""`queue --watch`: the queue as it changes, until Ctrl-C.

On a terminal the picture stays in place; elsewhere a new one is printed when something changed.
"""

from __future__ import annotations

import asyncio

from rich.console import Group, RenderableType
from rich.live import Live
from rich.text import Text

from postrich.clock import SystemClock
from postrich.doors.cli.home import Home
from postrich.doors.cli.queueing import empty_sentence
from postrich.doors.cli.showing import console, jobs_table, status_lines
from postrich.model.job import Job, JobFilter, QueueStatus

PERIOD = 0.5

Picture = tuple[list[Job], QueueStatus]


async def watch(home: Home, which: JobFilter, limit: int) -> int:
    """Show the queue again and again. Ends only by Ctrl-C."""
    screen = console()
    async with home.looking() as outbox:
        with Live(console=screen, auto_refresh=False, transient=True) as live:
            last: Picture | None = None
            while True:
                picture = (await outbox.jobs(which, limit), await outbox.status())
                if screen.is_terminal:
                    live.update(_draw(picture, which, screen.width), refresh=True)
                elif picture != last:
                    screen.print(_draw(picture, which, screen.width))
                    last = picture
                await asyncio.sleep(PERIOD)


def _draw(picture: Picture, which: JobFilter, width: int) -> RenderableType:
    jobs, status = picture
    now = SystemClock().now()
    table = jobs_table(jobs, now, width) if jobs else Text(empty_sentence(which))
    headline = Text(" · ".join(status_lines(status, now)), style="bold")
    return Group(headline, Text(), table)
