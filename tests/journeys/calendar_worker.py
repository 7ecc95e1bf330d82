"""A process that makes occurrences until it is killed; run by `test_series.py`.

    python -m tests.journeys.calendar_worker STORE START

Its wall clock goes a minute forward with every pass; where it stands when the process begins is
where the series is. Says `ready`, then nothing more, and never ends by itself.
"""

from __future__ import annotations

import asyncio
import sys

from postrich import Outbox, SecretSigner, Settings
from tests.deliver.test_calendar import WallClock

SECRET = bytes(range(1, 33))


async def work(store: str, start: int) -> None:
    clock = WallClock(start)
    settings = Settings(autopilot=False, series_lead=1.0)
    async with Outbox.open(
        store,
        relays=["wss://relay.example/"],
        signer=SecretSigner(SECRET),
        settings=settings,
        clock=clock,
        deliver=False,
    ) as outbox:
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        while True:
            await outbox._calendar.pass_once()
            series = await outbox.series.get("minutely")
            assert series.next_at is not None
            clock.at = max(clock.at, series.next_at - 500)


if __name__ == "__main__":
    asyncio.run(work(sys.argv[1], int(sys.argv[2])))
