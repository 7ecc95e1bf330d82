"""One HTTP exchange: the only way in which Postrich asks or tells anybody over HTTP.

Promises: no proxy, no redirect, no cookie; no address is dialled that the guard did not judge; it
takes no longer than its time in all and reads no more than it was told to. Trouble is a value.
"""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit

import msgspec

from postrich.rules.replies import Fault, fault_of
from postrich.rules.trust import DialPolicy
from postrich.wire.guard import check_url, guarded_connector


class HttpAnswer(msgspec.Struct, frozen=True):
    """What a server said; `body` is None where it was longer than was to be read."""

    status: int
    headers: Mapping[str, str]
    body: bytes | None = b""


async def exchange(
    url: str,
    *,
    guard: DialPolicy | None,
    within: float,
    read: int = 0,
    headers: Mapping[str, str] | None = None,
    body: bytes | None = None,
) -> HttpAnswer | Fault:
    """GET a URL, or POST a body to it. `read`: how many bytes of an answer of 200 are wanted."""
    import aiohttp

    method = "GET" if body is None else "POST"
    try:
        if guard is not None:  # aiohttp knows no way to Tor
            check_url(_place(url), msgspec.structs.replace(guard, onion=None))
        async with (
            aiohttp.ClientSession(
                connector=guarded_connector(guard),
                timeout=aiohttp.ClientTimeout(total=within),
                cookie_jar=aiohttp.DummyCookieJar(),
                headers=headers,
            ) as client,
            client.request(method, url, data=body, allow_redirects=False) as answer,
        ):
            found = await _read(answer, read) if read and answer.status == 200 else b""
            return HttpAnswer(answer.status, answer.headers, found)
    except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as problem:
        inner = getattr(problem, "os_error", None)  # what aiohttp has wrapped says more
        return fault_of(inner if isinstance(inner, OSError) else problem)


def _place(url: str) -> str:
    """What of a URL says where it leads."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}/"


async def _read(answer: object, most: int) -> bytes | None:
    """All that the server says, None where that is too much."""
    import aiohttp

    assert isinstance(answer, aiohttp.ClientResponse)
    body = b""
    while more := await answer.content.read(most + 1 - len(body)):
        body += more
        if len(body) > most:
            return None
    return body
