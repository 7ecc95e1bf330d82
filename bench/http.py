"""The scheduling service: `python -m bench http`; `bench.http serve FOLDER` and `ask` are its ends.

Each request is what a stranger's client sends: a signed event for an hour of its own, authorised by
another signed event for that very request (NIP-98). The answer comes after the commit. The server
is one process, as `postrich serve` is; the client is another, whose requests are made beforehand,
so that on two cores it takes little of the second.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence

import msgspec
import uvloop

from bench.corpus import Author
from bench.figures import Figure
from bench.partners import CACHE, HERE
from postrich.config import HttpSettings, Settings
from postrich.doors.cli.outset import tune
from postrich.doors.http.server import serving
from postrich.outbox import Outbox

ROUNDS = 6
REQUESTS = 4_000
CONNECTIONS = 64
BULKS = 12
IN_BULK = 1_000
FREE = HttpSettings(
    pending=10_000_000,
    rate=1e9,
    burst=10**9,
    address_rate=1e9,
    address_burst=10**9,
)


def _hosted() -> HttpSettings:
    """For anybody, on a port that is free."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        listen = f"127.0.0.1:{probe.getsockname()[1]}"
    return msgspec.structs.replace(FREE, listen=listen, public_url=f"http://{listen}")


async def serve(folder: str) -> None:
    """The service, until stdin ends; it says where it is."""
    settings = Settings(relays=("ws://127.0.0.1:1/",), autopilot=False)
    async with (
        Outbox.open(f"{folder}/outbox.db", settings=settings, role="serve") as outbox,
        serving(outbox, _hosted(), "") as address,
    ):
        print(address, flush=True)
        await asyncio.to_thread(sys.stdin.read)


def _request(author: Author, url: str, body: bytes) -> bytes:
    """A POST with its authorization, ready to be sent."""
    tags = [["u", url], ["method", "POST"], ["payload", hashlib.sha256(body).hexdigest()]]
    proof = author.sign(int(time.time()), tags, "", 27_235)
    header = base64.b64encode(msgspec.json.encode(proof))
    host, _, path = url.removeprefix("http://").partition("/")
    return (
        b"POST /%b HTTP/1.1\r\nHost: %b\r\nContent-Type: application/json\r\n"
        b"Authorization: Nostr %b\r\nContent-Length: %d\r\n\r\n%b"
    ) % (path.encode(), host.encode(), header, len(body), body)


def _wish(author: Author, number: int, at: int) -> dict[str, object]:
    event = author.sign(at, [["t", "nostr"]], f"scheduled note {number}, " + "x" * 150)
    return {"id": f"n{number}-{at}", "nostrEvent": event, "scheduledAt": at * 1000}


def _singles(base: str, seed: int) -> list[bytes]:
    authors = [Author(seed, number) for number in range(50)]
    at = int(time.time()) + 86_400
    url = f"{base}/api/schedule"
    return [
        _request(authors[n % 50], url, msgspec.json.encode(_wish(authors[n % 50], n, at + n)))
        for n in range(REQUESTS)
    ]


def _bulks(base: str, seed: int) -> list[bytes]:
    url = f"{base}/api/schedule/bulk"
    at = int(time.time()) + 86_400
    found = []
    for number in range(BULKS):
        author = Author(seed, 1000 + number)
        posts = [_wish(author, n, at + n) for n in range(IN_BULK)]
        found.append(_request(author, url, msgspec.json.encode({"posts": posts})))
    return found


async def _converse(base: str, requests: Sequence[bytes], status: bytes) -> None:
    host, _, port = base.removeprefix("http://").partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    for request in requests:
        writer.write(request)
        head = await reader.readuntil(b"\r\n\r\n")
        start = head.lower().index(b"content-length: ") + 16
        body = await reader.readexactly(int(head[start : head.index(b"\r\n", start)]))
        refused = b'"refused":' in body and b'"refused":0' not in body
        if refused or not head.startswith(b"HTTP/1.1 " + status):
            raise SystemExit(f"{head.decode()}{body[:500].decode()}")
    writer.close()


async def _time(base: str, requests: Sequence[bytes], lines: int, status: bytes) -> float:
    shares = [requests[n::lines] for n in range(lines)]
    started = time.perf_counter()
    await asyncio.gather(*(_converse(base, share, status) for share in shares))
    return time.perf_counter() - started


async def ask(base: str, seed: int) -> dict[str, float]:
    singles = _singles(base, seed)
    one = REQUESTS / await _time(base, singles, CONNECTIONS, b"201")
    bulks = _bulks(base, seed)
    many = BULKS * IN_BULK / await _time(base, bulks, 2, b"200")
    return {"single": one, "bulk": many}


def measure_http() -> list[Figure]:
    """Requests a second, and events a second in bulk."""
    best = {"single": 0.0, "bulk": 0.0}
    for seed in range(ROUNDS):
        with tempfile.TemporaryDirectory(dir=CACHE) as folder:
            for name, rate in _round(folder, seed).items():
                best[name] = max(best[name], rate)
    single, bulk = best["single"], best["bulk"]
    return [
        Figure("POST /api/schedule: NIP-98, durable", single, "requests/s", {}, "≥ 2,000"),
        Figure("POST /api/schedule/bulk", bulk, "events/s", {}, "≥ 10,000"),
    ]


def _round(folder: str, seed: int) -> dict[str, float]:
    command = [sys.executable, "-m", "bench.http"]
    pipe = subprocess.PIPE
    server = subprocess.Popen(
        [*command, "serve", folder], cwd=HERE.parent, stdin=pipe, stdout=pipe, text=True
    )
    assert server.stdout is not None
    try:
        base = server.stdout.readline().strip()
        done = subprocess.run(
            [*command, "ask", base, str(seed)], cwd=HERE.parent, check=True, stdout=pipe
        )
        return msgspec.json.decode(done.stdout, type=dict[str, float])
    finally:
        server.communicate()


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        tune()
        uvloop.run(serve(sys.argv[2]))
    else:
        print(msgspec.json.encode(uvloop.run(ask(sys.argv[2], int(sys.argv[3])))).decode())
