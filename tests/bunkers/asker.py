"""A plain NIP-46 client: one request, and every response as it came.

Promises nothing clever: no retries, no judgement. Shows what a bunker really says, where a
client library would turn it into an exception.
"""

# nostr_sdk ships no type information.
# mypy: disable-error-code="import-untyped"

import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import parse_qs, urlsplit

from nostr_sdk import (
    Nip44Version,
    NostrSdkError,
    PublicKey,
    SecretKey,
    nip44_decrypt,
    nip44_encrypt,
)

from tests.relays.events import Event, make_event, public_key
from tests.relays.speaker import Speaker, speaker

KIND = 24133


class Asker:
    """Asks the bunker of a URI, as the owner of a key."""

    def __init__(self, uri: str, key: bytes, client: Speaker) -> None:
        self.signer = urlsplit(uri).hostname or ""
        self.secret = parse_qs(urlsplit(uri).query).get("secret", [""])[0]
        self.pubkey = public_key(key)
        self._key = key
        self._client = client

    async def ask(self, method: str, *params: str, identity: str | None = None) -> Any:
        """The first response to this request, whole."""
        await self.request(method, *params, identity=identity)
        return await self.response()

    async def connect(self) -> Any:
        return await self.ask("connect", self.signer, self.secret)

    async def request(self, method: str, *params: str, identity: str | None = None) -> None:
        identity = identity or os.urandom(8).hex()
        body = json.dumps({"id": identity, "method": method, "params": params})
        content = nip44_encrypt(*self._keys(self.signer), body, Nip44Version.V2)
        await self._client.say("EVENT", make_event(self._key, KIND, content, [["p", self.signer]]))

    async def response(self) -> Any:
        """The next response, decrypted where it can be."""
        event = await self.event()
        try:
            return json.loads(nip44_decrypt(*self._keys(event["pubkey"]), event["content"]))
        except (NostrSdkError, ValueError):
            return event["content"]

    async def event(self) -> Event:
        """The next event that is meant for us."""
        while True:
            match await self._client.hear():
                case ["EVENT", _, event]:
                    return dict(event)

    def _keys(self, other: str) -> tuple[SecretKey, PublicKey]:
        return SecretKey.from_bytes(self._key), PublicKey.parse(other)


@asynccontextmanager
async def asker(uri: str, key: bytes | None = None) -> AsyncIterator[Asker]:
    """A client on the first relay of a bunker:// URI, listening before it asks."""
    key = key or os.urandom(32)
    async with speaker(parse_qs(urlsplit(uri).query)["relay"][0]) as client:
        wanted = {"kinds": [KIND], "#p": [public_key(key)], "limit": 0}
        await client.say("REQ", "responses", wanted)
        assert (await client.hear())[0] == "EOSE"
        yield Asker(uri, key, client)
