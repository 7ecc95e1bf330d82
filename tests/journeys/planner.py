"""A process that accepts events whose relays must be looked up, run by tests and killed by them.

    python -m tests.journeys.planner STORE OWN INDEXER

Reads a line of JSON events from stdin, prints its job numbers once they are kept, and works on.
"""

from __future__ import annotations

import asyncio
import json
import sys

from postrich import Outbox, Settings
from postrich.accept import Options


async def work(store: str, own: str, indexer: str) -> None:
    events = json.loads(await asyncio.to_thread(sys.stdin.readline))
    settings = Settings(relays=(own,), indexers=(indexer,), trust_lists=True, relay_info=False)
    async with Outbox.open(store, settings=settings) as outbox:
        handles = await outbox.publish_batch(events, Options())
        sys.stdout.write(json.dumps([handle.id for handle in handles]) + "\n")
        sys.stdout.flush()
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(work(*sys.argv[1:]))
