"""A bunker of ours, for faults that real ones do not show on demand.

    async with ScriptedBunker([relay.url], plays={"sign_event": says(error="no")}) as bunker: ...

`plays` names a behaviour per method (see `behaviours`) and may be changed at any time; other
methods get the true answer. Promises to record every request once, in the order they came, to be
subscribed when `start` returns, and to fail the test when it cannot play. It talks over real
relays, with nostr_sdk's NIP-44.
"""

# nostr_sdk ships no type information.
# mypy: disable-error-code="import-untyped"

import asyncio
import json
import os
import time
from collections.abc import Coroutine, Iterable, Mapping
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qs, urlencode, urlsplit

from nostr_sdk import Nip44Version, PublicKey, SecretKey, nip44_decrypt, nip44_encrypt
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from tests.bunkers.behaviours import Behaviour, Exchange, answer, sign
from tests.bunkers.process import WAIT_SECONDS, BunkerError, Request
from tests.relays.events import Event, make_event, public_key

KIND = 24133
START_SECONDS = 10.0
RECONNECT_SECONDS = 0.1


class ScriptedBunker:
    """A signer on real relays; use `async with`, or `start` and `stop` for one that goes away.

    `user` signs the events and `signer` the responses: two keys, unless told otherwise.
    """

    def __init__(
        self,
        relays: Iterable[str],
        *,
        user: bytes | None = None,
        signer: bytes | None = None,
        secret: str | None = None,
        plays: Mapping[str, Behaviour] | None = None,
    ) -> None:
        self.user = user or os.urandom(32)
        self.signer = signer or os.urandom(32)
        self.secret = secret
        self.plays = dict(plays or {})
        self.requests: list[Request] = []
        self.approved = asyncio.Event()
        self._relays = list(relays)
        self._sockets: dict[str, ClientConnection] = {}
        self._seen: set[str] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._faults: list[BaseException] = []
        self._news = asyncio.Condition()

    @property
    def user_pubkey(self) -> str:
        return public_key(self.user)

    @property
    def signer_pubkey(self) -> str:
        return public_key(self.signer)

    @property
    def uri(self) -> str:
        query = [("relay", url) for url in self._relays]
        query += [("secret", self.secret)] if self.secret else []
        return f"bunker://{self.signer_pubkey}?{urlencode(query)}"

    def go(self) -> None:
        """The user agreed on the page that a challenge named."""
        self.approved.set()

    def methods(self) -> list[str]:
        return [request.method for request in self.requests]

    async def wait_for(
        self, method: str, count: int = 1, *, seconds: float = WAIT_SECONDS
    ) -> Request:
        """The `count`-th request for this method, once it has come."""
        try:
            async with asyncio.timeout(seconds), self._news:
                await self._news.wait_for(lambda: self.methods().count(method) >= count)
        except TimeoutError:
            raise BunkerError(f"no {count} × {method}: {self.methods()}") from None
        return [request for request in self.requests if request.method == method][count - 1]

    async def nostrconnect(self, uri: str, secret: str | None = None) -> None:
        """The user gave us a client's URI: connect to it, with its secret or another."""
        parts = urlsplit(uri)
        secret = secret or parse_qs(parts.query)["secret"][0]
        body = json.dumps({"id": os.urandom(8).hex(), "result": secret})
        await self.send(body, str(parts.hostname))

    async def start(self) -> None:
        for url in self._relays:
            self._spawn(self._stay(url))
        await self.reachable()

    async def reachable(self) -> None:
        """Return once it is subscribed everywhere, as it is again soon after a relay's restart."""
        async with asyncio.timeout(START_SECONDS), self._news:
            await self._news.wait_for(lambda: len(self._sockets) == len(self._relays))

    async def stop(self) -> None:
        """Gone, and with it what it was about to answer."""
        tasks, self._tasks = self._tasks, set()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._faults:
            raise BunkerError("the bunker could not play") from self._faults[0]

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.stop()

    async def send(
        self, body: str, client: str, key: bytes | None = None, *, encrypted: bool = True
    ) -> None:
        """Any text to a client, over every relay that is there."""
        key = key or self.signer
        if encrypted:
            ours, theirs = SecretKey.from_bytes(key), PublicKey.parse(client)
            body = nip44_encrypt(ours, theirs, body, Nip44Version.V2)
        event = make_event(key, KIND, body, [["p", client]])
        for socket in list(self._sockets.values()):
            await socket.send(json.dumps(["EVENT", event]))

    def true_answer(self, request: Request) -> dict[str, Any]:
        """What a good signer answers."""
        match request.method:
            case "connect":
                given = request.params[1] if len(request.params) > 1 else None
                if self.secret and given != self.secret:
                    return {"error": "invalid secret"}
                return {"result": "ack"}
            case "get_public_key":
                return {"result": self.user_pubkey}
            case "sign_event":
                return {"result": json.dumps(sign(self.user, json.loads(request.params[0])))}
            case "ping":
                return {"result": "pong"}
            case "switch_relays":
                return {"result": None}
            case "logout":
                return {"result": "ack"}
        return {"error": f"unknown method: {request.method}"}

    async def _stay(self, url: str) -> None:
        """Subscribed at a relay, again whenever it comes back."""
        while True:
            try:
                async with connect(url, max_size=None) as socket:
                    await self._serve(url, socket)
            except (OSError, ConnectionClosed):
                await asyncio.sleep(RECONNECT_SECONDS)
            finally:
                self._sockets.pop(url, None)

    async def _serve(self, url: str, socket: ClientConnection) -> None:
        wanted = {"kinds": [KIND], "#p": [self.signer_pubkey], "limit": 0}
        await socket.send(json.dumps(["REQ", "requests", wanted]))
        async for frame in socket:
            match json.loads(frame):
                case ["EOSE", *_]:
                    self._sockets[url] = socket
                case ["EVENT", _, event] if event["id"] not in self._seen:
                    self._seen.add(event["id"])
                    self._receive(event)
            async with self._news:
                self._news.notify_all()

    def _receive(self, event: Event) -> None:
        ours, theirs = SecretKey.from_bytes(self.signer), PublicKey.parse(event["pubkey"])
        body = json.loads(nip44_decrypt(ours, theirs, event["content"]))
        request = Request(
            body["method"], body["id"], event["pubkey"], body["params"], time.monotonic()
        )
        self.requests.append(request)
        behaviour = self.plays.get(request.method, answer)
        self._spawn(behaviour(Exchange(self, request)))

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._finished)

    def _finished(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (fault := task.exception()):
            self._faults.append(fault)
