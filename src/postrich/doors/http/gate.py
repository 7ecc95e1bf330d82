"""The gate before everything: which host was asked for, from where, and how often from there.

Promises: a personal server answers only to its own names (no DNS rebinding) and to pages of its
own or of allowed origins (no cross-site posting); `X-Forwarded-*` counts only from proxies that the
owner trusts. Looks at no body and knows no keys.
"""

from __future__ import annotations

import functools
import ipaddress
import math
from typing import TYPE_CHECKING

import msgspec
from litestar.enums import ScopeType

from postrich.clock import Clock
from postrich.config import HttpSettings
from postrich.doors.http.problems import MEDIA_TYPE, Problem
from postrich.rules.throttle import Throttle

if TYPE_CHECKING:
    from litestar.types import ASGIApp, Receive, Scope, Send

#: Monitors ask by address, and may: they learn nothing about anybody.
PROBES = ("/health", "/metrics")


class Gate:
    """Wraps the application."""

    def __init__(self, app: ASGIApp, settings: HttpSettings, clock: Clock) -> None:
        self._app = app
        self._settings = settings
        self._clock = clock
        self._proxies = [ipaddress.ip_network(text) for text in settings.trusted_proxies]
        self._throttle = Throttle(settings.address_rate, settings.address_burst)
        self._hosts = _own_hosts(settings)
        self._origins = _own_origins(settings)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != ScopeType.HTTP:
            await self._app(scope, receive, send)
            return
        headers = dict(scope["headers"])
        if sum(name == b"host" for name, _ in scope["headers"]) > 1:  # which one was meant?
            await _refuse(Problem("Bad Request", 400, "the request names two hosts"), send)
            return
        client = scope["client"] = self._client(scope, headers)
        problem = self._problem(scope["path"], headers)
        wait = 0.0 if problem else self._throttle.take(_network_of(client[0]), self._clock.tick())
        if problem is not None:
            await _refuse(problem, send)
        elif wait > 0:
            detail = f"come again in {wait:.1f} s"
            await _refuse(Problem("Too Many Requests", 429, detail, "too-often"), send, wait)
        else:
            await self._app(scope, receive, send)

    def _client(self, scope: Scope, headers: dict[bytes, bytes]) -> tuple[str, int]:
        """Who is at the other end: the last address that no trusted proxy has."""
        host, port = scope["client"] or ("", 0)
        hops = headers.get(b"x-forwarded-for", b"").decode("latin-1").split(",")
        for hop in reversed([hop.strip() for hop in hops if hop.strip()]):
            if not self._is_trusted(host):
                break
            host = hop
        return host, port

    def _is_trusted(self, host: str) -> bool:
        try:
            address = ipaddress.ip_address(host)
        except ValueError:
            return False
        return any(address in network for network in self._proxies)

    def _problem(self, path: str, headers: dict[bytes, bytes]) -> Problem | None:
        host = headers.get(b"host", b"").decode("latin-1").lower()
        if path not in PROBES and host not in self._hosts:
            return Problem("Misdirected Request", 421, f"this server is not {host or 'nameless'}")
        origin = headers.get(b"origin", b"").decode("latin-1").lower()
        allowed = self._settings.cors
        if origin and origin not in self._origins and not {origin, "*"} & set(allowed):
            detail = f"pages of {origin} may not use this server: see http.cors"
            return Problem("Forbidden", 403, detail, "origin")
        return None


@functools.lru_cache(4096)
def _network_of(host: str) -> str:
    """Who has one IPv6 address has a whole network of them."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host
    if address.version == 6 and address.ipv4_mapped is None:
        return str(ipaddress.ip_network((address, 64), strict=False))
    return host


def _own_hosts(settings: HttpSettings) -> set[str]:
    if settings.is_hosted:
        return {settings.public_url.partition("//")[2].lower()}
    names = {"localhost", "127.0.0.1", "[::1]", _bracketed(settings.host)}
    return {f"{name}:{settings.port}" for name in names} | (names if settings.port == 80 else set())


def _own_origins(settings: HttpSettings) -> set[str]:
    if settings.is_hosted:
        return {settings.public_url.lower()}
    return {f"http://{host}" for host in _own_hosts(settings)}


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host.lower()


def url_of(scope: Scope, settings: HttpSettings) -> str:
    """The absolute URL that the caller asked for: what a NIP-98 event must name."""
    raw = scope.get("raw_path") or scope["path"].encode()
    path = raw.partition(b"?")[0].decode("latin-1")
    query = scope["query_string"].decode("latin-1")
    base = settings.public_url
    if not base:
        host = next((value for name, value in scope["headers"] if name == b"host"), b"")
        base = f"http://{host.decode('latin-1')}"
    return f"{base}{path}?{query}" if query else f"{base}{path}"


async def _refuse(problem: Problem, send: Send, wait: float = 0.0) -> None:
    headers = [(b"content-type", MEDIA_TYPE.encode())]
    if wait > 0:
        headers.append((b"retry-after", str(math.ceil(wait)).encode()))
    body = msgspec.json.encode(problem)
    headers.append((b"content-length", str(len(body)).encode()))
    await send({"type": "http.response.start", "status": problem.status, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": False})
