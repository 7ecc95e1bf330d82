"""A process that delivers and tells hooks until it is killed; run by `test_hooks.py`.

    python -m tests.journeys.hook_worker STORE ITEMS URL

Hands in every line of ITEMS, also those that it handed in before.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from postrich import Outbox, Settings
from postrich.rules.hooks import HookPolicy

CHUNK = 5
OPEN = HookPolicy(allow_private=True, allow_http=True)


async def work(store: str, items: Path, url: str) -> None:
    settings = Settings(timeout=2.0, indexers=(), autopilot=False, poll=0.02, hooks=OPEN)
    lines = items.read_bytes().splitlines()
    async with Outbox.open(store, relays=[url], settings=settings) as outbox:
        for start in range(0, len(lines), CHUNK):
            await outbox.publish_batch(lines[start : start + CHUNK])
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(work(sys.argv[1], Path(sys.argv[2]), sys.argv[3]))
