"""Relays that strangers name: dialled only at addresses that were judged (C11)."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import socket
import ssl
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from postrich.errors import ForbiddenRelay, PostrichError
from postrich.rules.replies import fault_of
from postrich.rules.session import Session
from postrich.rules.trust import DialPolicy, normalise_url
from postrich.wire import connection as connection_module
from postrich.wire.connection import Connection
from postrich.wire.guard import check_url, guarded_connector, guarded_socket
from postrich.wire.relay_info import fetch_infos
from tests.deliver.outboxes import PATIENCE
from tests.relays.conversation import Client
from tests.relays.framing import Request
from tests.relays.handshakes import http_status
from tests.relays.process import free_port
from tests.relays.script import Script
from tests.relays.scripted import ScriptedRelay
from tests.relays.scripts import accept

pytestmark = pytest.mark.req("C11")

#: Relays of these tests speak plain WebSocket.
STRANGER = DialPolicy(plain=True)
PUBLIC, PUBLIC_6, OTHER = "93.184.215.14", "2606:2800:21f:cb07::1", "93.184.215.15"


class Internet:
    """A made-up DNS, and public addresses that lead to loopback: nothing leaves this machine."""

    def __init__(self) -> None:
        self.answers: dict[str, list[list[str]]] = {}
        self.asked: list[str] = []
        self.dialled: list[str] = []
        self.dead: set[str] = set()
        self.sockets: list[socket.socket] = []
        self._loop = asyncio.get_running_loop()
        self._connect = self._loop.sock_connect

    def resolves(self, host: str, *answers: list[str]) -> None:
        """What DNS says, answer by answer; the last one for ever."""
        self.answers[host] = list(answers)

    async def getaddrinfo(self, host: str, port: int, **_: Any) -> list[Any]:
        self.asked.append(host)
        answers = self.answers[host]
        found = answers.pop(0) if len(answers) > 1 else answers[0]
        return [_address(text, port) for text in found]

    async def sock_connect(self, sock: socket.socket, address: tuple[Any, ...]) -> None:
        host = str(address[0])
        self.dialled.append(host)
        self.sockets.append(sock)
        if host in self.dead:
            await asyncio.Event().wait()
        assert host in (PUBLIC, PUBLIC_6, OTHER), f"{host} must never be dialled"
        local = "127.0.0.1" if sock.family == socket.AF_INET else "::ffff:127.0.0.1"
        await self._connect(sock, (local, address[1]))


def _address(text: str, port: int) -> Any:
    where: tuple[Any, ...] = (text, port, 0, 0) if ":" in text else (text, port)
    family = socket.AF_INET6 if ":" in text else socket.AF_INET
    return (family, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", where)


@pytest.fixture
async def internet(monkeypatch: pytest.MonkeyPatch) -> Internet:
    made = Internet()
    loop = asyncio.get_running_loop()
    monkeypatch.setattr(loop, "getaddrinfo", made.getaddrinfo)
    monkeypatch.setattr(loop, "sock_connect", made.sock_connect)
    return made


@asynccontextmanager
async def dialled(url: str, guard: DialPolicy | None) -> AsyncIterator[Connection]:
    link = await Connection.dial(Session(url, 1.0), _ignore, None, PATIENCE, guard)
    try:
        yield link
    finally:
        await link.close()


def _ignore(_connection: Connection) -> None:
    """Nobody listens."""


async def refused(url: str, guard: DialPolicy = STRANGER) -> str:
    """The sentence that a dial is refused with."""
    with pytest.raises(ForbiddenRelay) as caught:
        async with dialled(url, guard):
            pass
    fault = fault_of(caught.value)
    assert (fault.code, fault.network) == ("forbidden", False)
    assert isinstance(caught.value, PostrichError)
    assert fault.text.endswith(": a stranger's list may not send us there")
    return fault.text.removesuffix(": a stranger's list may not send us there")


# -- what leads to this machine ----------------------------------------------------------------

LOOPBACKS = [
    *("127.0.0.1", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "localhost", "2130706433", "127.1"),
    *("0x7f000001", "0x7f.1", "0177.0.0.1", "127.0.0.1.", "0.0.0.0"),
]


@pytest.mark.parametrize("host", LOOPBACKS)
async def test_the_owner_may_name_this_machine_and_a_stranger_may_not(host: str) -> None:
    async with ScriptedRelay(accept) as relay:
        url = f"ws://{host}:{relay.port}/"
        async with dialled(normalise_url(url), None) as link:
            assert link.is_open
        assert await refused(url)
        assert relay.connections == 1


async def test_the_same_over_ipv6() -> None:
    relay = ScriptedRelay(accept)
    url = f"ws://[::1]:{relay.port}/"
    assert await refused(url) == "::1 is a loopback address"
    if not _has_ipv6():
        return
    server = await asyncio.start_server(relay._connected, "::1", relay.port)
    async with server, dialled(url, None) as link:
        assert link.is_open
    await relay.stop()


def _has_ipv6() -> bool:
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET6) as probe:
        probe.bind(("::1", 0))
        return True
    return False


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "127.1", "0x7f000001", "::1", "0"])
async def test_not_even_the_system_s_own_resolver_leads_here(host: str) -> None:
    """Also where nobody looked at the URL before."""
    with pytest.raises(ForbiddenRelay, match=rf"{host} resolves to .*, (a loopback|the unspec)"):
        await guarded_socket(host, 4848, STRANGER)


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        (["127.0.0.1"], "relay.example resolves to 127.0.0.1, a loopback address"),
        (["10.0.0.1", "::1"], "relay.example resolves to 10.0.0.1, a private address"),
        (["169.254.169.254"], "relay.example resolves to 169.254.169.254, a cloud's metadata"),
        (["::ffff:192.168.0.1"], "relay.example resolves to ::ffff:192.168.0.1, a private"),
        (["100.64.0.1"], "relay.example resolves to 100.64.0.1, an address inside a provider's"),
        (["fe80::1%lo"], "relay.example resolves to fe80::1%lo, a link-local address"),
    ],
)
async def test_a_name_may_not_lead_here_either(
    internet: Internet, answer: list[str], sentence: str
) -> None:
    internet.resolves("relay.example", answer)
    assert (await refused("ws://relay.example:4848/")).startswith(sentence)
    assert internet.asked == ["relay.example"]
    assert internet.dialled == []


@pytest.mark.parametrize(
    "url",
    [
        *("ws://printer.local:4848/", "ws://localhost:4848/", "ws://abc.onion/", "wss://127.1/"),
        *("ws://relay.example:22/", "ws://relay.example:6379/"),
    ],
)
async def test_what_can_be_told_by_the_url_is_not_asked_of_dns(
    internet: Internet, url: str
) -> None:
    assert await refused(url)
    assert internet.asked == []


async def test_plain_text_to_strangers_is_for_the_owner_to_allow(internet: Internet) -> None:
    internet.resolves("relay.example", [PUBLIC])
    url = "ws://relay.example:4848/"
    assert await refused(url, DialPolicy()) == "relay.example would be spoken to without encryption"
    assert internet.asked == []


async def test_the_port_is_judged_again_where_the_socket_is_made(internet: Internet) -> None:
    internet.resolves("relay.example", [PUBLIC])
    with pytest.raises(ForbiddenRelay, match="port 25"):
        await guarded_socket("relay.example", 25, STRANGER)
    assert internet.dialled == []


# -- what leads elsewhere ----------------------------------------------------------------------


async def test_a_stranger_s_relay_at_a_public_address_is_dialled_there(internet: Internet) -> None:
    internet.resolves("relay.example", [PUBLIC])
    async with ScriptedRelay(accept) as relay:
        async with dialled(f"ws://relay.example:{relay.port}/", STRANGER) as link:
            assert link.is_open
        await relay.wait_disconnected(PATIENCE)
    assert internet.asked == ["relay.example"]
    assert internet.dialled == [PUBLIC]


async def test_a_guarded_socket_is_ready_for_small_frames(internet: Internet) -> None:
    internet.resolves("other.example", [OTHER])
    async with ScriptedRelay(accept) as relay:
        with await guarded_socket("other.example", relay.port, STRANGER) as made:
            assert made.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
            assert made.gettimeout() == 0, "and never blocks"


async def test_a_second_answer_of_dns_is_not_asked_for(internet: Internet) -> None:
    """Rebinding: public when it is judged, loopback when it is used."""
    internet.resolves("relay.example", [PUBLIC], ["127.0.0.1"])
    async with ScriptedRelay(accept) as relay:
        async with dialled(f"ws://relay.example:{relay.port}/", STRANGER) as link:
            assert link.is_open
        assert internet.asked == ["relay.example"]
        assert internet.dialled == [PUBLIC]
        assert "127.0.0.1" in await refused(f"ws://relay.example:{relay.port}/"), "next time"
        assert internet.dialled == [PUBLIC]


async def test_who_hangs_up_at_once_is_not_resolved_again(
    internet: Internet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """picows connects a socket without a peer once more, by its host's name."""
    internet.resolves("relay.example", [PUBLIC], ["127.0.0.1"])

    loop = asyncio.get_running_loop()
    server = socket.create_server(("127.0.0.1", 0))

    async def connect_and_be_reset(sock: socket.socket, address: Any) -> None:
        await internet.sock_connect(sock, address)
        _reset_guest(server)
        with contextlib.suppress(OSError):
            while socket.socket.getpeername(sock):
                await asyncio.sleep(0)

    monkeypatch.setattr(loop, "sock_connect", connect_and_be_reset)
    with server, pytest.raises(Exception) as caught:
        async with dialled(f"ws://relay.example:{server.getsockname()[1]}/", STRANGER):
            pass
    assert fault_of(caught.value).code in ("unreachable", "handshake")
    assert internet.asked == ["relay.example"]
    assert internet.dialled == [PUBLIC]


def _reset_guest(server: socket.socket) -> None:
    guest, _ = server.accept()
    guest.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    guest.close()


async def test_of_several_addresses_only_the_good_ones_are_dialled(internet: Internet) -> None:
    internet.resolves("mixed.example", ["127.0.0.1", "::1", PUBLIC, "10.0.0.1"])
    async with (
        ScriptedRelay(accept) as relay,
        dialled(f"ws://mixed.example:{relay.port}/", STRANGER) as link,
    ):
        assert link.is_open
    assert internet.dialled == [PUBLIC]


async def test_an_address_that_does_not_answer_holds_nobody_up(internet: Internet) -> None:
    internet.resolves("relay.example", [PUBLIC_6, OTHER, PUBLIC])
    internet.dead = {PUBLIC_6, OTHER}
    async with (
        ScriptedRelay(accept) as relay,
        dialled(f"ws://relay.example:{relay.port}/", STRANGER) as link,
    ):
        assert link.is_open
    assert internet.dialled == [PUBLIC_6, OTHER, PUBLIC]
    assert [sock.fileno() for sock in internet.sockets[:2]] == [-1, -1], "closed, both"


async def test_nobody_there_is_told_as_for_every_relay(internet: Internet) -> None:
    internet.resolves("relay.example", [PUBLIC, OTHER])
    with pytest.raises(OSError, match="refused|Connect") as caught:
        async with dialled(f"ws://relay.example:{free_port()}/", STRANGER):
            pass
    fault = fault_of(caught.value)
    assert fault.code in ("refused", "unreachable")
    assert not fault.network


@pytest.mark.parametrize("addresses", [[OTHER], [OTHER, PUBLIC]])
async def test_a_dial_that_is_given_up_closes_its_sockets(
    internet: Internet, addresses: list[str]
) -> None:
    internet.resolves("relay.example", addresses)
    internet.dead = set(addresses)
    dialling = asyncio.create_task(guarded_socket("relay.example", 4848, STRANGER))
    async with asyncio.timeout(PATIENCE):
        while len(internet.sockets) < len(addresses):
            await asyncio.sleep(0.01)
    dialling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await dialling
    assert [sock.fileno() for sock in internet.sockets] == [-1] * len(addresses)


async def test_a_dial_that_takes_too_long_is_a_time_out(internet: Internet) -> None:
    internet.resolves("relay.example", [OTHER])
    internet.dead = {OTHER}
    with pytest.raises(TimeoutError) as caught:
        await Connection.dial(
            Session("ws://relay.example:4848/", 1.0), _ignore, None, 0.1, STRANGER
        )
    assert fault_of(caught.value).code == "timeout"
    assert internet.sockets[0].fileno() == -1


async def test_a_redirect_is_not_followed(internet: Internet) -> None:
    internet.resolves("relay.example", [PUBLIC])
    async with ScriptedRelay(accept) as inner:
        moved = http_status(302, {"Location": f"{inner.url}/"})
        async with ScriptedRelay(Script(handshake=moved)) as relay:
            with pytest.raises(Exception) as caught:
                async with dialled(f"ws://relay.example:{relay.port}/", STRANGER):
                    pass
        assert inner.connections == 0
    assert fault_of(caught.value).code == "http-302"


# -- TLS ---------------------------------------------------------------------------------------


@pytest.fixture
def trusting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, ssl.SSLContext]:
    """Servers' contexts by the name in their certificate; we trust who issued them."""
    contexts = {name: _certify(name, tmp_path) for name in ("relay.example", "other.example")}
    ours = ssl.create_default_context()
    for name in contexts:
        ours.load_verify_locations(tmp_path / f"{name}.pem")
    monkeypatch.setattr(connection_module, "_tls", lambda: ours)
    return contexts


def _certify(name: str, folder: Path) -> ssl.SSLContext:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder(subject, subject, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    path = folder / f"{name}.pem"
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    path.write_bytes(private + certificate.public_bytes(serialization.Encoding.PEM))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(path)
    return context


@asynccontextmanager
async def behind_tls(context: ssl.SSLContext) -> AsyncIterator[ScriptedRelay]:
    relay = ScriptedRelay(accept)
    server = await asyncio.start_server(relay._connected, "127.0.0.1", relay.port, ssl=context)
    async with server:
        yield relay
        await relay.stop()


async def test_tls_asks_for_the_name_though_an_address_was_dialled(
    internet: Internet, trusting: dict[str, ssl.SSLContext]
) -> None:
    internet.resolves("relay.example", [PUBLIC])
    asked: list[str | None] = []
    context = trusting["relay.example"]
    context.sni_callback = lambda _socket, name, _context: asked.append(name)
    async with (
        behind_tls(context) as relay,
        dialled(f"wss://relay.example:{relay.port}/", DialPolicy()) as link,
    ):
        assert link.is_open
    assert asked == ["relay.example"]
    assert internet.asked == ["relay.example"]


async def test_a_certificate_for_another_name_is_refused(
    internet: Internet, trusting: dict[str, ssl.SSLContext]
) -> None:
    internet.resolves("relay.example", [PUBLIC])
    async with behind_tls(trusting["other.example"]) as relay:
        with pytest.raises(ssl.SSLError) as caught:
            async with dialled(f"wss://relay.example:{relay.port}/", DialPolicy()):
                pass
    assert fault_of(caught.value).code == "tls"


# -- Tor ---------------------------------------------------------------------------------------


class Socks:
    """A SOCKS5 proxy that knows one place, and notes what it is asked for."""

    def __init__(self, port: int) -> None:
        self.asked: list[bytes] = []
        self._target = port

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        _, methods = await reader.readexactly(2)
        await reader.readexactly(methods)
        writer.write(b"\x05\x00")
        *_, kind, length = await reader.readexactly(5)
        assert kind == 3, "the name, not an address, goes to Tor"
        self.asked.append(await reader.readexactly(length))
        await reader.readexactly(2)
        inner, outer = await asyncio.open_connection("127.0.0.1", self._target)
        writer.write(b"\x05\x00\x00\x01\x7f\x00\x00\x01\x00\x00")
        await asyncio.gather(_pour(reader, outer), _pour(inner, writer))


async def _pour(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError):
        while data := await reader.read(65536):
            writer.write(data)
    writer.close()


@pytest.mark.parametrize("url", ["ws://abcdef.onion/", "ws://ABCDEF.onion./"])
async def test_an_onion_is_reached_by_tor_alone(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    loop = asyncio.get_running_loop()
    resolve, resolved = loop.getaddrinfo, []

    async def note(host: Any, *rest: Any, **more: Any) -> Any:
        resolved.append(host)
        return await resolve(host, *rest, **more)

    monkeypatch.setattr(loop, "getaddrinfo", note)
    async with ScriptedRelay(accept) as relay:
        tor = Socks(relay.port)
        async with await asyncio.start_server(tor.serve, "127.0.0.1", 0) as server:
            proxy = f"socks5://127.0.0.1:{server.sockets[0].getsockname()[1]}"
            async with dialled(url, DialPolicy(onion=proxy)) as link:
                assert link.is_open
    assert [name.rstrip(b".") for name in tor.asked] == [b"abcdef.onion"]
    assert not any("onion" in str(host) for host in resolved)


# -- HTTP --------------------------------------------------------------------------------------


async def _describe(client: Client, request: Request) -> bool:
    return await http_status(200, {}, '{"name": "found"}')(client, request)


@pytest.mark.parametrize("host", [*LOOPBACKS, "localhost"])
async def test_a_stranger_s_description_is_not_fetched_here(host: str) -> None:
    async with ScriptedRelay(Script(handshake=_describe)) as relay:
        url = f"ws://{host}:{relay.port}/"
        assert await fetch_infos([url], lambda _url: STRANGER) == {url: None}
        assert relay.connections == 0


async def test_own_and_foreign_descriptions_are_told_apart(internet: Internet) -> None:
    internet.resolves("relay.example", [PUBLIC], ["127.0.0.1"])
    internet.resolves("evil.example", ["127.0.0.1", "::1"])
    async with ScriptedRelay(Script(handshake=_describe)) as relay:
        good, bad = (f"ws://{name}.example:{relay.port}/" for name in ("relay", "evil"))
        infos = await fetch_infos([good, bad], lambda _url: STRANGER)
        assert [info and info.name for info in infos.values()] == ["found", None]
        assert relay.connections == 1
    assert sorted(internet.asked) == ["evil.example", "relay.example"]
    assert internet.dialled == [PUBLIC]


async def test_the_owner_s_own_relay_describes_itself_from_anywhere() -> None:
    async with ScriptedRelay(Script(handshake=_describe)) as relay:
        own, foreign = f"{relay.url}/", f"{relay.url}/foreign"
        infos = await fetch_infos([own, foreign], lambda url: STRANGER if url == foreign else None)
    assert [info and info.name for info in infos.values()] == ["found", None]


async def test_an_onion_is_not_asked_of_dns_for_its_description(internet: Internet) -> None:
    tor = DialPolicy(onion="socks5://127.0.0.1:9050")
    url = "ws://abcdef.onion/"
    assert await fetch_infos([url], lambda _url: tor) == {url: None}
    assert internet.asked == []


async def get(url: str) -> None:
    """Fetch it with nothing but the connector in the way."""
    connector = guarded_connector(STRANGER)
    async with aiohttp.ClientSession(connector=connector) as client, client.get(url):
        pass


@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]", "[::ffff:127.0.0.1]", "localhost"])
async def test_the_connector_alone_lets_no_address_pass(host: str) -> None:
    """Also those in the URL, which aiohttp does not resolve."""
    async with ScriptedRelay(Script(handshake=_describe)) as relay:
        with pytest.raises(aiohttp.ClientConnectorError) as caught:
            await get(f"http://{host}:{relay.port}/")
        assert relay.connections == 0
    assert isinstance(caught.value.os_error, ForbiddenRelay)
    assert "1, a loopback address: a stranger's list" in str(caught.value.os_error)


async def test_the_connector_alone_stops_a_redirect(internet: Internet) -> None:
    internet.resolves("relay.example", [PUBLIC])
    async with ScriptedRelay(Script(handshake=_describe)) as inner:
        moved = http_status(302, {"Location": f"http://127.0.0.1:{inner.port}/"})
        async with ScriptedRelay(Script(handshake=moved)) as relay:
            with pytest.raises(aiohttp.ClientConnectorError) as caught:
                await get(f"http://relay.example:{relay.port}/")
        assert inner.connections == 0
    assert isinstance(caught.value.os_error, ForbiddenRelay)


async def test_a_web_address_is_judged_like_a_relay_s() -> None:
    """For what is fetched from people's domains, such as their names (NIP-05)."""
    check_url("https://example.com/.well-known/nostr.json?name=bob", DialPolicy())
    for url in ("https://127.0.0.1/", "http://example.com/", "https://intranet/"):
        with pytest.raises(ForbiddenRelay):
            check_url(url, DialPolicy())
