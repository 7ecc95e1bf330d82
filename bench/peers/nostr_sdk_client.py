"""The peer nostr-sdk: how fast its Python Client gets events to relays that say OK.

    python nostr_sdk_client.py <events.jsonl> <url1,url2,...> [concurrency=256]

Promises: every event goes to every relay, at most `concurrency` send_event calls are in flight,
and the clock runs only while sending: events are parsed and sockets open before it starts.
Prints one JSON line {"seconds", "oks", "failed"}; oks + failed = events x relays.
"""

import asyncio
import json
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from time import perf_counter

import uvloop
from nostr_sdk import (  # type: ignore[import-untyped, unused-ignore]
    Client,
    Event,
    NostrSdkError,
    RelayUrl,
)

DEFAULT_CONCURRENCY = 256
CONNECT_PATIENCE = timedelta(seconds=10)


def read_events(path: Path) -> list[Event]:
    return [Event.from_json(line) for line in path.read_text().split("\n") if line]


async def open_client(urls: list[str]) -> Client:
    client = Client()
    for url in urls:
        await client.add_relay(RelayUrl.parse(url))
    await client.connect(and_wait=CONNECT_PATIENCE)
    return client


async def send_some(client: Client, events: Iterator[Event]) -> int:
    """Sends from the shared events until none is left; returns how many OKs came."""
    oks = 0
    for event in events:
        try:
            oks += len((await client.send_event(event)).success)
        except NostrSdkError:
            continue  # nobody took it: counted as failed by the caller
    return oks


async def send_all(client: Client, events: list[Event], concurrency: int) -> int:
    """Sends all events, `concurrency` at a time; returns how many OKs came."""
    shared = iter(events)
    senders = (send_some(client, shared) for _ in range(concurrency))
    return sum(await asyncio.gather(*senders))


async def measure(path: Path, urls: list[str], concurrency: int) -> None:
    events = read_events(path)
    client = await open_client(urls)
    start = perf_counter()
    oks = await send_all(client, events, concurrency)
    seconds = perf_counter() - start
    print(json.dumps({"seconds": seconds, "oks": oks, "failed": len(events) * len(urls) - oks}))
    await client.shutdown()


def main() -> None:
    path, urls, *rest = sys.argv[1:]
    concurrency = int(rest[0]) if rest else DEFAULT_CONCURRENCY
    uvloop.run(measure(Path(path), urls.split(","), concurrency))


if __name__ == "__main__":
    main()
