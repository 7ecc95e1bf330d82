"""`serve`: the engine, until SIGINT or SIGTERM.

Promises: one per home; an orderly end burns no attempt; without a key it serves signed events
and says that drafts wait.
"""

from __future__ import annotations

import asyncio
import signal

import structlog

from postrich.doors.cli.chronicle import Chronicle
from postrich.doors.cli.home import Home
from postrich.doors.cli.journal import open_journal
from postrich.doors.cli.keys import npub_of, unlock_if_possible
from postrich.doors.cli.outset import run
from postrich.outbox import Outbox
from postrich.sign.secret import SecretSigner

log: structlog.stdlib.BoundLogger = structlog.get_logger("postrich.serve")


def serve(home: Home, verbose: bool, log_json: bool) -> int:
    """Answer `postrich serve`."""
    with home.serve_lock():
        signer = unlock_if_possible(home, may_ask=True)
        open_journal(verbose, log_json)
        return run(_serve(home, signer))


async def _serve(home: Home, signer: SecretSigner | None) -> int:
    stopped = stop_signal()
    async with home.working("serve", signer) as outbox:
        writing = asyncio.create_task(Chronicle(log).keep(outbox.watch()))
        await _greet(home, outbox, signer)
        await stopped.wait()
        log.info("stopping", queue=(await outbox.status()).text)
    await writing  # it ends with the outbox, and so hears of its last deliveries
    log.info("stopped")
    return 0


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


async def _greet(home: Home, outbox: Outbox, signer: SecretSigner | None) -> None:
    status = await outbox.status()
    log.info("serving", home=str(home.path), relays=len(outbox.settings.relays), queue=status.text)
    if signer is not None:
        log.info("signing", account=npub_of(signer.pubkey))
    else:
        log.warning("no key is at hand: signed events are served, drafts wait")
