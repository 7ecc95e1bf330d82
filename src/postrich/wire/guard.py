"""The only way to a relay that a stranger named: no address is dialled that was not judged (C11).

Promises: a host is resolved once, and the socket goes to one of the very addresses that
`rules/trust` let pass, so that a second answer of DNS changes nothing. TLS still asks for the
host's name. Redirects are not followed by those who dial (nor would they get past this).

Where a host has good and bad addresses, the good ones are dialled: a bad one is never touched,
so to refuse the host would protect nothing, and would lose relays with one stray record.
"""

from __future__ import annotations

import asyncio
import functools
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from postrich.errors import ForbiddenRelay
from postrich.rules.trust import (
    DialPolicy,
    is_onion,
    normalise_url,
    refuse_address,
    refuse_port,
    refuse_third_party,
)

if TYPE_CHECKING:
    import aiohttp

#: By what policy a relay is dialled; None: it is the owner's own, and may be anywhere.
GuardOf = Callable[[str], DialPolicy | None]

HEAD_START = 0.25  # of one address before the next is tried beside it (RFC 8305)

WHY_NOT = "a stranger's list may not send us there"

_Address = tuple[Any, Any, int, str, tuple[Any, ...]]  # as `getaddrinfo` gives them


def check_url(url: str, policy: DialPolicy) -> None:
    """Raise `ForbiddenRelay` for what can be told without DNS."""
    if reason := refuse_third_party(url, policy):
        raise _forbidden(reason)


def way_to(url: str, policy: DialPolicy | None) -> dict[str, Any]:
    """What picows must be told to dial this URL by this policy."""
    if policy is None:
        return {}
    check_url(url, policy)
    host = urlsplit(normalise_url(url)).hostname or ""
    if is_onion(host):  # Tor resolves it, and has no way into our network
        return {"proxy": policy.onion}

    async def connect(parsed: Any) -> socket.socket:
        return await guarded_socket(parsed.host, parsed.port, policy)

    return {"socket_factory": connect}


async def guarded_socket(host: str, port: int, policy: DialPolicy) -> socket.socket:
    """A socket that is connected to an allowed address of the host, whichever answers first."""
    from aiohappyeyeballs import start_connection

    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    allowed = [address for address in found if _refusal(address, policy) is None]
    if not allowed:
        raise _forbidden(f"{host} resolves to {_refusal(found[0], policy)}")
    return await start_connection(allowed, happy_eyeballs_delay=HEAD_START, socket_factory=_Dialled)


def guarded_connector(policy: DialPolicy | None) -> aiohttp.TCPConnector:
    """How HTTP requests connect by this policy; None: anywhere.

    Every address is judged when its socket is made: also one that stood in the URL, which no
    resolver sees, or that a redirect led to. The URL itself is for `check_url`.
    """
    import aiohttp

    if policy is None:
        return aiohttp.TCPConnector()
    return aiohttp.TCPConnector(
        resolver=aiohttp.ThreadedResolver(),  # the system's, as for relays
        socket_factory=functools.partial(_allowed_socket, policy),
    )


def _allowed_socket(policy: DialPolicy, address: _Address) -> socket.socket:
    if reason := _refusal(address, policy):
        raise _forbidden(f"the host is at {reason}")
    return _Dialled(address)


class _Dialled(socket.socket):
    """A socket to one address for life.

    picows asks a socket for its peer, and where there is none connects it again, by name: who
    hangs up at the right moment would have his host resolved a second time.
    """

    def __init__(self, address: _Address) -> None:
        family, kind, protocol, _, self._peer = address
        super().__init__(family, kind, protocol)
        self.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def getpeername(self) -> tuple[Any, ...]:
        return self._peer


def _refusal(address: _Address, policy: DialPolicy) -> str | None:
    """What is wrong with an address of `getaddrinfo`, after its text; None: it may be dialled."""
    text, port = address[4][:2]
    reason = refuse_address(text) or refuse_port(port, policy)
    return None if reason is None else f"{text}, {reason}"


def _forbidden(reason: str) -> ForbiddenRelay:
    return ForbiddenRelay(f"{reason}: {WHY_NOT}")
