"""Callers of the HTTP service: requests signed as NIP-98 says, made without the project's code."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import time
from typing import Any

import aiohttp

from tests.relays.events import Event, make_event, public_key

Fields = dict[str, Any]


def authorization(secret: bytes, method: str, url: str, body: bytes = b"", **changes: Any) -> str:
    """The header that says who makes this very request; `changes` make it a wrong one."""
    tags = [["u", changes.get("u", url)], ["method", changes.get("named", method)]]
    if body or "payload" in changes:
        tags.append(["payload", changes.get("payload", hashlib.sha256(body).hexdigest())])
    event = make_event(
        secret,
        kind=changes.get("kind", 27235),
        tags=changes.get("tags", tags),
        created_at=int(time.time()) + changes.get("off", 0),
        content=os.urandom(4).hex(),
    )
    event.update(changes.get("event", {}))
    return "Nostr " + base64.b64encode(json.dumps(event).encode()).decode()


class Answer:
    """What came back."""

    def __init__(self, status: int, headers: Any, text: str) -> None:
        self.status = status
        self.headers = headers
        self.text = text

    @property
    def body(self) -> Any:
        return json.loads(self.text)

    @property
    def detail(self) -> str:
        """What a problem says; it must be one."""
        assert self.headers["Content-Type"] == "application/problem+json", self.text
        assert self.body["status"] == self.status
        return str(self.body["detail"])


class Client:
    """One caller: with a key of its own, the owner's token, or nothing to show."""

    def __init__(
        self,
        session: aiohttp.ClientSession,
        base: str,
        secret: bytes | None = None,
        token: str = "",
    ) -> None:
        self._session = session
        self.base = base
        self.secret = secret or b""
        self._token = token

    @property
    def pubkey(self) -> str:
        return public_key(self.secret)

    async def send(
        self,
        method: str,
        path: str,
        data: Any = None,
        *,
        raw: bytes | None = None,
        headers: dict[str, str] | None = None,
        wrong: Fields | None = None,
    ) -> Answer:
        body = raw if raw is not None else b"" if data is None else json.dumps(data).encode()
        sent = {"Content-Type": "application/json"} if body else {}
        if self._token:
            sent["Authorization"] = f"Bearer {self._token}"
        elif self.secret:
            url = self.base + path
            sent["Authorization"] = authorization(self.secret, method, url, body, **(wrong or {}))
        sent |= headers or {}
        async with self._session.request(
            method, self.base + path, data=body or None, headers=sent, allow_redirects=False
        ) as found:
            return Answer(found.status, found.headers, await found.text())

    async def get(self, path: str, **more: Any) -> Answer:
        return await self.send("GET", path, **more)

    async def post(self, path: str, data: Any = None, **more: Any) -> Answer:
        return await self.send("POST", path, data, **more)

    async def patch(self, path: str, data: Any = None, **more: Any) -> Answer:
        return await self.send("PATCH", path, data, **more)

    async def delete(self, path: str, **more: Any) -> Answer:
        return await self.send("DELETE", path, **more)

    # -- the document's requests -----------------------------------------------------------------

    def event(self, content: str = "hello", at: float | None = None, **more: Any) -> Event:
        """A signed event of this caller's, for that moment (seconds)."""
        created = int(time.time() if at is None else at)
        return make_event(self.secret, content=content, created_at=created, **more)

    def wish(self, content: str = "hello", after: float = 3600.0, **more: Any) -> Fields:
        """The body of `POST /api/schedule` as in the document."""
        at = time.time() + after
        return {
            "id": more.pop("id", content),
            "nostrEvent": self.event(content, at),
            "scheduledAt": int(at * 1000),
            **more,
        }

    async def schedule(self, content: str = "hello", after: float = 3600.0, **more: Any) -> Answer:
        return await self.post("/api/schedule", self.wish(content, after, **more))
