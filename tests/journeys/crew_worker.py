"""One of several workers on the same PostgreSQL; run by `crew.py`.

    python -m tests.journeys.crew_worker DSN LEASE SKEW URL…

Delivers until SIGTERM. LEASE is in seconds; its wall clock is SKEW milliseconds wrong. The first
line on stdout is `ready OWNER`; relays are told OWNER as the User-Agent. The log goes to stderr.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import os
import signal
import sys
from typing import Any

import picows

from postrich import Outbox, Settings, parse_secret
from postrich.clock import SystemClock
from postrich.store.postgres import sessions
from tests.relays.leash import hold_leash


class WrongClock(SystemClock):
    """A machine whose time nobody set."""

    def __init__(self, skew: int) -> None:
        super().__init__()
        self._skew = skew

    def now(self) -> int:
        return super().now() + self._skew


class NamedOutbox(Outbox):
    """Tells relays who it is."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.owner = self._shared.owner
        headers = {"User-Agent": self.owner}
        picows.ws_connect = functools.partial(picows.ws_connect, extra_headers=headers)


def shorten_waits(lease: float) -> None:
    """As ten seconds are to the usual lease: who was stopped half way holds no lock for longer."""
    idle = f"{round(lease * 1000 * 10 / 15)}ms"
    sessions.SETTINGS["idle_in_transaction_session_timeout"] = idle


async def work(dsn: str, lease: float, skew: int, urls: list[str]) -> None:
    shorten_waits(lease)
    sessions.SETTINGS["application_name"] = f"crew-{os.getpid()}"
    asked_to_end = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, asked_to_end.set)
    settings = Settings(
        timeout=5.0, lease=lease, poll=0.1, autopilot=False, relay_info=False, indexers=()
    )
    signer = parse_secret(os.environ["POSTRICH_NSEC"])
    clock = WrongClock(skew)
    async with NamedOutbox.open(
        dsn, relays=urls, signer=signer, settings=settings, clock=clock, role="serve"
    ) as outbox:
        assert isinstance(outbox, NamedOutbox)
        sys.stdout.write(f"ready {outbox.owner}\n")
        sys.stdout.flush()
        await asked_to_end.wait()


if __name__ == "__main__":
    hold_leash()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(message)s")
    asyncio.run(work(sys.argv[1], float(sys.argv[2]), int(sys.argv[3]), sys.argv[4:]))
