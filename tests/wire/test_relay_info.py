"""Fetching what relays say of themselves, from servers of every kind."""

import asyncio

import pytest
from aiohttp import web

from postrich.rules.limits import MAX_DOCUMENT
from postrich.wire import relay_info
from postrich.wire.relay_info import AT_ONCE, fetch_infos
from tests.relays import nostr_relay
from tests.relays.process import free_port
from tests.wire.serving import serving


@pytest.mark.req("C4")
async def test_a_real_relay_describes_itself() -> None:
    async with nostr_relay() as relay:
        info = (await fetch_infos([relay.url]))[relay.url]
    assert info is not None
    assert 11 in info.supported_nips


@pytest.mark.req("C4")
async def test_it_is_asked_for_as_the_nip_says() -> None:
    async def describe(request: web.Request) -> web.Response:
        told = f"{request.headers['Accept']} {request.path_qs}"
        return web.json_response({"name": told})

    async with serving(describe) as url:
        info = (await fetch_infos([f"{url}ws?v=1"]))[f"{url}ws?v=1"]
    assert info is not None
    assert info.name == "application/nostr+json /ws?v=1"


async def _missing(_request: web.Request) -> web.Response:
    return web.Response(status=404, text="{}")


async def _page(_request: web.Request) -> web.Response:
    return web.Response(text="<html>welcome</html>", content_type="text/html")


async def _moved(request: web.Request) -> web.Response:
    if request.path == "/elsewhere":
        return web.json_response({"name": "elsewhere"})
    raise web.HTTPFound("/elsewhere")


async def _huge(_request: web.Request) -> web.Response:
    return web.Response(body=b'{"name":"' + b"x" * MAX_DOCUMENT + b'"}')


@pytest.mark.req("C4")
@pytest.mark.parametrize("handler", [_missing, _page, _moved, _huge])
async def test_what_is_no_description(handler: object) -> None:
    async with serving(handler) as url:
        assert await fetch_infos([url]) == {url: None}


async def test_a_document_in_pieces_is_read_whole() -> None:
    async def trickle(request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse()
        await answer.prepare(request)
        for piece in (b'{"na', b'me":"in ', b'pieces"}'):
            await answer.write(piece)
            await asyncio.sleep(0.02)
        return answer

    async with serving(trickle) as url:
        info = (await fetch_infos([url]))[url]
    assert info is not None
    assert info.name == "in pieces"


@pytest.mark.req("C4")
async def test_nobody_there_and_nothing_to_ask() -> None:
    nowhere = f"ws://127.0.0.1:{free_port()}/"
    assert await fetch_infos([nowhere, "ftp://x/", "ws://host.invalid/"]) == {
        nowhere: None,
        "ftp://x/": None,
        "ws://host.invalid/": None,
    }


@pytest.mark.req("C4")
async def test_who_does_not_answer_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    assert relay_info.TIMEOUT == 5.0
    monkeypatch.setattr(relay_info, "TIMEOUT", 0.2)
    leave = asyncio.Event()

    async def silent(_request: web.Request) -> web.Response:
        await leave.wait()
        return web.json_response({})

    async with serving(silent) as url:
        assert await fetch_infos([url]) == {url: None}
        leave.set()


@pytest.mark.req("C4")
async def test_four_are_asked_at_once() -> None:
    asked = most = 0

    async def slow(_request: web.Request) -> web.Response:
        nonlocal asked, most
        asked += 1
        most = max(most, asked)
        await asyncio.sleep(0.05)
        asked -= 1
        return web.json_response({"name": "x"})

    async with serving(slow) as url:
        infos = await fetch_infos([f"{url}{n}" for n in range(12)])
    assert all(infos.values())
    assert most == AT_ONCE == 4
