"""Asking domains for names, with a real HTTP server on loopback."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from postrich.config import Settings
from postrich.route import nip05 as asking
from postrich.route.nip05 import Nip05
from postrich.rules.nip05 import DEMOTED_FOR_MS, HINT_FOR_MS, MAX_DOCUMENT, Address
from postrich.rules.relay_lists import Lookup, RelayList, Status
from tests.deliver.outboxes import JumpingClock
from tests.relays.process import free_port

KEY = "ab" * 32
HINTED = "wss://hint.example/"
NONE = Lookup(Status.NONE)
FOUND = Lookup(Status.FOUND, RelayList(KEY, 10002, 1, "00" * 32))

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Domain:
    """A domain that knows one name, and counts who asks."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.asked.append(request.path_qs)
        return web.json_response({"names": {"bob": KEY, "_": KEY}, "relays": {KEY: [HINTED]}})


@asynccontextmanager
async def domain(handler: Handler) -> AsyncIterator[str]:
    app = web.Application()
    app.router.add_get("/{tail:.*}", handler)
    runner = web.AppRunner(app)
    await runner.setup()
    port = free_port()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    try:
        yield f"localhost:{port}"
    finally:
        await runner.cleanup()


def names(clock: JumpingClock | None = None, *, trust_lists: bool = True) -> Nip05:
    return Nip05(Settings(trust_lists=trust_lists), clock or JumpingClock(), "http")


@pytest.mark.req("D1", "D6")
async def test_a_domain_is_asked_once_an_hour() -> None:
    known, clock = Domain(), JumpingClock()
    async with domain(known.answer) as place:
        resolver = names(clock)
        for _ in range(3):
            found = await resolver.resolve(Address("bob", place))
            assert found.identity is not None
            assert (found.identity.pubkey, found.identity.relays) == (KEY, (HINTED,))
        assert known.asked == ["/.well-known/nostr.json?name=bob"]
        await resolver.resolve(Address("_", place))
        clock.wall_ahead = HINT_FOR_MS / 1000
        await resolver.resolve(Address("bob", place))
        await resolver.resolve(Address("bob", place), refresh=True)
    assert len(known.asked) == 4


@pytest.mark.req("D6")
async def test_hints_serve_an_hour_without_a_list_and_not_after_three_misses() -> None:
    clock = JumpingClock()
    async with domain(Domain().answer) as place:
        resolver = names(clock)
        assert resolver.hints(KEY, NONE) == ()
        resolver.hit(KEY)
        resolver.missed(KEY)
        await resolver.resolve(Address("bob", place))
        assert resolver.hints(KEY, NONE) == (HINTED,)
        assert resolver.hints(KEY, FOUND) == ()
        for _ in range(2):
            resolver.missed(KEY)
        resolver.hit(KEY)
        for _ in range(2):
            resolver.missed(KEY)
        assert resolver.hints(KEY, NONE) == (HINTED,)
        resolver.missed(KEY)
        assert resolver.hints(KEY, NONE) == ()
        clock.wall_ahead = DEMOTED_FOR_MS / 1000 + 1
        await resolver.resolve(Address("bob", place))
        assert resolver.hints(KEY, NONE) == (HINTED,)


@pytest.mark.req("D6", "C11")
@pytest.mark.parametrize("place", ["127.0.0.1:9", "localhost:9", "10.0.0.1", "[::1]"])
async def test_no_name_leads_inside(place: str) -> None:
    resolver = Nip05(Settings(), JumpingClock())
    found = await resolver.resolve(Address("bob", place))
    assert found.identity is None
    assert "strangers" in found.trouble or "stranger's" in found.trouble


@pytest.mark.req("D6")
async def test_without_encryption_nobody_is_asked() -> None:
    known = Domain()
    async with domain(known.answer) as place:
        guarded = names(trust_lists=False)
        assert (await guarded.resolve(Address("bob", place))).identity is None
        plain = Nip05(Settings(trust_lists=True), JumpingClock())  # HTTPS, to one who has none
        found = await plain.resolve(Address("bob", place))
        assert "could not be asked" in found.trouble
    assert known.asked == []


@pytest.mark.req("D6", "C11")
async def test_redirects_are_not_followed() -> None:
    known = Domain()

    async def elsewhere(request: web.Request) -> web.StreamResponse:
        raise web.HTTPFound(f"http://{request.query['to']}/.well-known/nostr.json?name=bob")

    async with domain(known.answer) as target, domain(elsewhere) as place:
        found = await names().resolve(Address(f"bob&to={target}", place))
    assert found.identity is None
    assert "sends elsewhere" in found.trouble
    assert known.asked == []


async def _missing(_request: web.Request) -> web.StreamResponse:
    raise web.HTTPNotFound


async def _endless(request: web.Request) -> web.StreamResponse:
    answer = web.StreamResponse()
    await answer.prepare(request)
    for _ in range(MAX_DOCUMENT // 65_536 + 64):
        await answer.write(b" " * 65_536)
    return answer


async def _rubbish(_request: web.Request) -> web.StreamResponse:
    return web.Response(body=b"<html>")


@pytest.mark.req("D6")
@pytest.mark.parametrize(
    ("handler", "reason"),
    [(_missing, "answered 404"), (_endless, "sent more than"), (_rubbish, "no JSON document")],
)
async def test_what_is_no_document_is_said(handler: Handler, reason: str) -> None:
    async with domain(handler) as place:
        found = await names().resolve(Address("bob", place))
    assert found.identity is None
    assert reason in found.trouble


@pytest.mark.req("D6")
async def test_a_domain_that_says_nothing_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(asking, "TIMEOUT", 0.2)
    leaving = asyncio.Event()

    async def silent(_request: web.Request) -> web.StreamResponse:
        await leaving.wait()
        return web.Response()

    async with domain(silent) as place:
        found = await names().resolve(Address("bob", place))
        leaving.set()
    assert "could not be asked" in found.trouble


@pytest.mark.req("D6")
async def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "MAX_REMEMBERED", 2)

    async def anybody(request: web.Request) -> web.StreamResponse:
        key = request.query["name"] * 64
        return web.json_response({"names": {request.query["name"]: key}, "relays": {key: [HINTED]}})

    async with domain(anybody) as place:
        resolver = names()
        for name in "abc":
            assert (await resolver.resolve(Address(name, place))).identity is not None
    assert [resolver.hints(name * 64, NONE) for name in "abc"] == [(), (HINTED,), (HINTED,)]
