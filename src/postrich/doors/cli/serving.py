"""`serve` and `worker`: the engine, until SIGINT or SIGTERM; `serve` with the HTTP service.

Promises: one `serve` per home, any number of workers beside it, which the store's leases keep
apart; an orderly end burns no attempt; whoever can sign is attached, also who comes later, and what
stays locked is said: its drafts wait, signed events are served.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec
import structlog

from postrich.config import check_http
from postrich.doors.cli.attendance import Attendance
from postrich.doors.cli.chronicle import Chronicle
from postrich.doors.cli.home import Home
from postrich.doors.cli.journal import open_journal
from postrich.doors.cli.outset import run
from postrich.doors.cli.roster import Roster
from postrich.errors import StoreError
from postrich.outbox import Outbox

log: structlog.stdlib.BoundLogger = structlog.get_logger("postrich.serve")


def serve(home: Home, verbose: bool, log_json: bool, listen: str | None) -> int:
    """Answer `postrich serve`; `listen`: where, if not as set; None: no HTTP."""
    with home.serve_lock():
        return _engine(home, "serve", verbose, log_json, listen)


def work(home: Home, verbose: bool, log_json: bool) -> int:
    """Answer `postrich worker`."""
    return _engine(home, "worker", verbose, log_json)


def _engine(home: Home, role: str, verbose: bool, log_json: bool, listen: str | None = None) -> int:
    roster = Roster(home)
    roster.open_keys(roster.everyone(), may_ask=True)
    open_journal(verbose, log_json)
    return run(_deliver(home, role, roster, listen))


@asynccontextmanager
async def _http(home: Home, outbox: Outbox, listen: str | None) -> AsyncIterator[None]:
    """The HTTP service beside the engine, if there is to be one."""
    if listen is None:
        yield
        return
    from postrich.doors.http.server import TOKEN_FILE, read_token, serving

    settings = outbox.settings.http
    if listen:
        settings = check_http(msgspec.structs.replace(settings, listen=listen))
    async with serving(outbox, settings, read_token(home.path)) as address:
        where = {"token": str(home.path / TOKEN_FILE)} if not settings.is_hosted else {}
        log.info("listening", address=address, docs=f"{address}/docs", **where)
        yield


async def _deliver(home: Home, role: str, roster: Roster, listen: str | None) -> int:
    stopped = stop_signal()
    async with home.working(role) as outbox, _http(home, outbox, listen):
        writing = asyncio.create_task(Chronicle(log).keep(outbox.watch()))
        attendance = Attendance(outbox, roster, log)
        await _greet(home, role, outbox, attendance)
        attending = asyncio.create_task(attendance.keep())
        await stopped.wait()
        attending.cancel()
        await asyncio.gather(attending, return_exceptions=True)
        log.info("stopping", queue=await _queue(outbox))
    await writing  # it ends with the outbox, and so hears of its last deliveries
    log.info("stopped")
    return 0


async def _queue(outbox: Outbox) -> str:
    """How it is left; a database that is away does not hold the end up."""
    try:
        return (await outbox.status()).text
    except StoreError as problem:
        return f"not known: {problem}"


def stop_signal() -> asyncio.Event:
    """Set by the first SIGINT or SIGTERM; the second one is not held up by us."""
    loop = asyncio.get_running_loop()
    stopped = asyncio.Event()

    def stop() -> None:
        stopped.set()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)
            signal.signal(number, signal.default_int_handler)

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop)
    return stopped


async def _greet(home: Home, role: str, outbox: Outbox, attendance: Attendance) -> None:
    status = await outbox.status()
    relays = len(outbox.settings.relays)
    store = {"store": home.place().shown} if home.place().is_postgres else {}
    doing = "serving" if role == "serve" else "working"
    log.info(doing, home=str(home.path), **store, relays=relays, queue=status.text)
    await attendance.look()
    if attendance.is_empty:
        log.warning("nobody is here to sign: signed events are served, drafts wait")
