"""What relays said of themselves, remembered for as long as the specification says (C4)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from postrich.model.relay import RelayInfo
from postrich.rules.trust import STRANGERS
from postrich.wire.info_cache import RelayInfos
from tests.deliver.outboxes import PATIENCE, JumpingClock, until
from tests.relays.conversation import Client
from tests.relays.framing import Request
from tests.relays.handshakes import Handshake, http_status, informing
from tests.relays.script import Script
from tests.relays.scripted import ScriptedRelay

pytestmark = pytest.mark.req("C4")

HOUR = 3600.0


class Cache:
    """The cache under test, a relay, and how often it was asked."""

    def __init__(self, handshake: Handshake) -> None:
        self.clock = JumpingClock()
        self.infos = RelayInfos(self.clock)
        self.fetched = 0
        self._handshake = handshake
        self.relay = ScriptedRelay(Script(handshake=self._count))

    async def _count(self, client: Client, request: Request) -> bool:
        self.fetched += 1
        return await self._handshake(client, request)

    async def use(self, *, own: bool = True) -> RelayInfo | None:
        """A lane comes; returns what is known once the fetch is done."""
        async with asyncio.timeout(PATIENCE):
            await self.infos.use(self.relay.url, None, own=own)
        return self.infos.of(self.relay.url)

    def leave(self) -> None:
        self.infos.leave(self.relay.url)


@asynccontextmanager
async def cache(handshake: Handshake | None = None) -> AsyncIterator[Cache]:
    found = Cache(handshake or informing({"name": "a relay"}))
    async with found.relay:
        yield found
        await found.infos.close()


async def test_a_description_is_fetched_once_for_all_who_use_the_relay() -> None:
    async with cache() as known:
        assert known.infos.of(known.relay.url) is None
        info = await known.use()
        assert info is not None
        assert info.name == "a relay"
        await known.use()
        assert known.fetched == 1


@pytest.mark.parametrize("used", [True, False], ids=["in use", "left"])
async def test_of_ones_own_relays_it_is_kept_for_six_hours(used: bool) -> None:
    async with cache() as known:
        await known.use()
        if not used:
            known.leave()
        known.clock.ahead += 6 * HOUR - 60
        assert await known.use() is not None
        assert known.fetched == 1
        known.clock.ahead += 60
        await known.use()
        assert known.fetched == 2


async def test_of_others_it_is_kept_for_ten_minutes_after_they_were_left() -> None:
    async with cache() as known:
        await known.use(own=False)
        known.clock.ahead += HOUR
        await known.use(own=False)
        assert known.fetched == 1, "it is in use"
        known.leave()
        known.leave()
        known.clock.ahead += 599
        await known.use(own=False)
        assert known.fetched == 1
        known.leave()
        known.clock.ahead += 600
        await known.use(own=False)
        assert known.fetched == 2


async def test_what_is_not_used_any_more_is_forgotten() -> None:
    async with cache() as known, cache() as other:
        await known.use(own=False)
        known.leave()
        known.clock.ahead += 600
        await known.infos.use(other.relay.url, None, own=False)
        assert known.infos.of(known.relay.url) is None


async def test_who_dials_anew_asks_again_only_for_what_is_old() -> None:
    async with cache() as known:
        url = known.relay.url
        await known.use()
        await known.infos.refresh(url, None, own=True)
        assert known.fetched == 1
        known.clock.ahead += 6 * HOUR
        await known.infos.refresh(url, None, own=True)
        assert known.fetched == 2
        known.leave()
        known.clock.ahead += 1000
        await known.use()
        assert known.fetched == 2, "it is one's own, and used once all the while"


async def test_a_failed_fetch_is_not_repeated() -> None:
    async with cache(http_status(500)) as known:
        for _ in range(3):
            assert await known.use() is None
        assert known.fetched == 1


@pytest.mark.req("C11")
async def test_strangers_are_asked_by_the_guard() -> None:
    async with cache() as known:
        await known.infos.use(known.relay.url, STRANGERS, own=False)
        assert known.infos.of(known.relay.url) is None
        assert known.relay.connections == 0


async def test_four_are_asked_at_once() -> None:
    asked, answer = 0, asyncio.Event()
    most = 0

    async def slow(client: Client, request: Request) -> bool:
        nonlocal asked, most
        asked += 1
        most = max(most, asked)
        await answer.wait()
        asked -= 1
        return await informing({"name": "slow"})(client, request)

    infos = RelayInfos(JumpingClock())
    relay = ScriptedRelay(Script(handshake=slow))
    async with relay:
        tasks = [infos.use(f"{relay.url}/{number}", None, own=True) for number in range(9)]
        await until(lambda: asked == 4)
        answer.set()
        await asyncio.wait(tasks)
        assert all(infos.of(f"{relay.url}/{number}") for number in range(9))
        assert most == 4
        await infos.close()


async def test_to_leave_what_was_never_used_is_nothing() -> None:
    async with cache() as known:
        known.leave()
        await known.use()
        assert known.fetched == 1
