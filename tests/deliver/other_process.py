"""Another process on the same outbox, run by tests.

    python -m tests.deliver.other_process hand-in|deliver STORE URL

Reads a line of JSON events from stdin: `hand-in` keeps them and prints its job numbers; `deliver`
(which gets an empty list) says `ready` and works until stdin ends.
"""

from __future__ import annotations

import asyncio
import json
import sys

from postrich import Handle, Outbox, Settings


async def work(role: str, store: str, url: str) -> None:
    events = json.loads(await asyncio.to_thread(sys.stdin.readline))
    settings = Settings(poll=0.02, indexers=())
    async with Outbox.open(
        store, relays=[url], settings=settings, deliver=role == "deliver"
    ) as outbox:
        handles = await outbox.publish_many(events)
        numbers = [handle.id for handle in handles if isinstance(handle, Handle)]
        sys.stdout.write(json.dumps(numbers) + "\n")
        sys.stdout.flush()
        if role == "deliver":
            await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(work(*sys.argv[1:]))
