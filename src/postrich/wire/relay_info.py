"""Fetching what relays say of themselves (NIP-11).

Promises: never raises and never takes longer than its timeout; a document that is too large,
redirected or unreadable is no document. It is an optimisation: without it, all goes on.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable

from postrich.model.relay import RelayInfo
from postrich.rules.limits import MAX_DOCUMENT, info_url, parse_info
from postrich.rules.replies import Fault
from postrich.rules.trust import DialPolicy
from postrich.wire.guard import GuardOf
from postrich.wire.http import exchange

log = logging.getLogger("postrich.wire")

TIMEOUT = 5.0
AT_ONCE = 4
_HEADERS = {"Accept": "application/nostr+json"}


async def fetch_infos(
    relays: Iterable[str], guard_of: GuardOf | None = None
) -> dict[str, RelayInfo | None]:
    """What each of these relays says of itself, four at a time (C4).

    `guard_of`: which of them a stranger named. None: all are the owner's own.
    """
    slots = asyncio.Semaphore(AT_ONCE)

    async def one(relay: str) -> tuple[str, RelayInfo | None]:
        async with slots:
            return relay, await _fetch(relay, None if guard_of is None else guard_of(relay))

    return dict(await asyncio.gather(*map(one, relays)))


async def _fetch(relay: str, guard: DialPolicy | None) -> RelayInfo | None:
    url = info_url(relay)
    if url is None:
        return None
    answer = await exchange(url, guard=guard, within=TIMEOUT, read=MAX_DOCUMENT, headers=_HEADERS)
    if isinstance(answer, Fault):
        log.debug("%s: no description: %s", relay, answer.code)
        return None
    return parse_info(answer.body) if answer.status == 200 and answer.body is not None else None
