"""An independent reader: what does a relay really hold?

Promises to page past a relay's limit and to fail aloud rather than return less than there is.
Speaks plain NIP-01 and NIP-42 by the `websockets` library, nothing of the code under test.
"""

import asyncio
import itertools
import json
import math
from typing import Any

from websockets.asyncio.client import ClientConnection, connect

from tests.relays.events import Event, make_auth

Filter = dict[str, Any]

# As many as LocalRelay gives at most.
PAGE = 500
IDS_PER_REQUEST = 100
MAX_FRAME_BYTES = 64 * 2**20


class ReadError(Exception):
    """The relay did not answer the REQ; the message is its own."""


class PageError(Exception):
    """One second holds more matching events than a page, so paging cannot get past it."""


async def fetch_ids(
    url: str, wanted: Filter, *, secret: bytes | None = None, within: float = 10.0
) -> set[str]:
    """The ids of all events of a relay that match the filter."""
    events = await fetch_events(url, wanted, secret=secret, within=within)
    return {event["id"] for event in events}


async def fetch_events(
    url: str,
    wanted: Filter,
    *,
    secret: bytes | None = None,
    within: float = 10.0,
    page: int = PAGE,
) -> list[Event]:
    """All events of a relay that match the filter, newest first, each once.

    With a secret, a NIP-42 challenge is answered by that key. An `ids` filter is asked in
    batches and always complete. Others are asked page by page: more than `page` events in one
    second raise `PageError`, and a relay whose own limit is below `page` may hide such events."""
    async with asyncio.timeout(within), connect(url, max_size=MAX_FRAME_BYTES) as socket:
        session = _Session(socket, url, secret)
        found: dict[str, Event] = {}
        if "ids" in wanted:
            await _fetch_batches(session, wanted, found)
        else:
            await _fetch_pages(session, wanted, page, found)
    return sorted(found.values(), key=lambda event: (-event["created_at"], event["id"]))


async def _fetch_batches(session: "_Session", wanted: Filter, found: dict[str, Event]) -> None:
    ids = list(wanted["ids"])
    for start in range(0, len(ids), IDS_PER_REQUEST):
        batch = ids[start : start + IDS_PER_REQUEST]
        events = await session.request({**wanted, "ids": batch, "limit": len(batch)})
        found.update((event["id"], event) for event in events)


async def _fetch_pages(
    session: "_Session", wanted: Filter, page: int, found: dict[str, Event]
) -> None:
    bounded = {**wanted, "limit": page}
    last: float = wanted.get("until", math.inf)
    while True:
        events = await session.request(bounded)
        fresh = [event for event in events if event["id"] not in found]
        found.update((event["id"], event) for event in fresh)
        if not events or (not fresh and len(events) < page):
            return
        bounded["until"] = min(last, _next_bound(events, bool(fresh), page))


def _next_bound(events: list[Event], progress: bool, page: int) -> int:
    # nostr-relay reads `until` as exclusive, others as inclusive: asking for one second more
    # serves both, and what comes twice is dropped. Only where that second fills the page the
    # inclusive bound is tried, which an exclusive relay never needs.
    seconds: list[int] = [event["created_at"] for event in events]
    oldest = min(seconds)
    if progress:
        return oldest + 1
    if max(seconds) == oldest:
        raise PageError(f"more than {page} events at {oldest}")
    return oldest


class _Session:
    """One connection: a REQ at a time, asked again after each AUTH."""

    def __init__(self, socket: ClientConnection, url: str, secret: bytes | None) -> None:
        self._socket = socket
        self._url = url
        self._secret = secret
        self._names = (f"read-{number}" for number in itertools.count())
        self._name = ""
        # Before that, a refusal is not final: the challenge may come after it.
        self._final = secret is None

    async def request(self, wanted: Filter) -> list[Event]:
        await self._ask(wanted)
        events: list[Event] = []
        while True:
            match json.loads(await self._socket.recv()):
                case ["EVENT", self._name, dict() as event]:
                    events.append(event)
                case ["EOSE", self._name, *_]:
                    await self._say("CLOSE", self._name)
                    return events
                case ["AUTH", str() as challenge] if self._secret is not None:
                    await self._say("AUTH", make_auth(self._secret, self._url, challenge))
                    self._final = True
                    await self._ask(wanted)
                case ["CLOSED", self._name, text] | ["NOTICE", text] if self._final:
                    raise ReadError(text)
                case ["OK", _, False, text]:
                    raise ReadError(f"AUTH refused: {text}")

    async def _ask(self, wanted: Filter) -> None:
        self._name = next(self._names)
        await self._say("REQ", self._name, wanted)

    async def _say(self, *parts: object) -> None:
        await self._socket.send(json.dumps(parts))
