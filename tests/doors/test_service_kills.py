"""`postrich serve` killed again and again in the middle of requests: every answer stays true (F1).

What was answered holds after the next start: posts, edits, cancels and whole files. What was under
way at the kill was done or not done, and nothing in between.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import time
from pathlib import Path
from signal import SIGKILL
from typing import Any

import aiohttp
import pytest

from tests.doors.shell import Shell
from tests.relays import free_port
from tests.relays.events import make_event, public_key

KILLS = 6
SECRET = os.urandom(32)
Fate = tuple[str, str]  # status and event id


class Ledger:
    """What each post may be: one thing where it was answered, several where it was not."""

    def __init__(self) -> None:
        self.posts: dict[str, set[Fate | None]] = {}

    def sure(self, name: str) -> Fate | None:
        fates = self.posts[name]
        return next(iter(fates)) if len(fates) == 1 else None


class Client:
    def __init__(self, base: str, token: str, ledger: Ledger, chance: random.Random) -> None:
        self.base, self.ledger, self.chance = base, ledger, chance
        self.headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        self.answered = 0

    async def work(self) -> None:
        """Until the server is gone."""
        deeds = (self.add, self.add, self.edit, self.cancel, self.file)
        async with aiohttp.ClientSession(headers=self.headers) as session:
            try:
                while True:
                    await self.chance.choice(deeds)(session)
            except (aiohttp.ClientError, ConnectionError):
                return

    async def ask(
        self, session: Any, method: str, path: str, body: Any, fates: dict[str, Fate]
    ) -> None:
        """Note what may be before asking, and what is after the answer."""
        for name, fate in fates.items():
            self.ledger.posts.setdefault(name, {None}).add(fate)
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        async with session.request(method, self.base + path, data=raw or None) as answer:
            text = await answer.text()
        assert answer.status in (200, 201), text
        self.answered += 1
        for name, fate in fates.items():
            self.ledger.posts[name] = {fate}

    def event(self) -> dict[str, Any]:
        return make_event(SECRET, content=os.urandom(6).hex(), created_at=int(time.time()) + 3000)

    def some(self) -> str | None:
        names = [n for n in self.ledger.posts if (f := self.ledger.sure(n)) and f[0] == "pending"]
        return self.chance.choice(names) if names else None

    async def add(self, session: Any) -> None:
        event, name = self.event(), os.urandom(6).hex()
        at = int((time.time() + 3600) * 1000)
        body = {"id": name, "nostrEvent": event, "scheduledAt": at}
        await self.ask(session, "POST", "/api/schedule", body, {name: ("pending", event["id"])})

    async def edit(self, session: Any) -> None:
        if name := self.some():
            event = self.event()
            fate = ("pending", event["id"])
            body = {"nostrEvent": event}
            await self.ask(session, "PATCH", f"/api/schedule/{name}", body, {name: fate})

    async def cancel(self, session: Any) -> None:
        if name := self.some():
            sure = self.ledger.sure(name)
            assert sure is not None
            fate = ("cancelled", sure[1])
            await self.ask(session, "DELETE", f"/api/schedule/{name}", b"", {name: fate})

    async def file(self, session: Any) -> None:
        rows, fates = [], {}
        for _ in range(20):
            event, name = self.event(), os.urandom(6).hex()
            rows.append({"id": name, "at": int(time.time()) + 3600, "event": event})
            fates[name] = ("pending", event["id"])
        body = b"".join(json.dumps(row).encode() + b"\n" for row in rows)
        await self.ask(session, "POST", "/api/schedule/import", body, fates)


@pytest.mark.req("F1", "F3", "F5")
def test_every_answer_stays_true_whenever_it_is_killed(shell: Shell) -> None:
    port = free_port()
    shell.variables["POSTRICH_LISTEN"] = f"127.0.0.1:{port}"
    base, chance, ledger = f"http://127.0.0.1:{port}", random.Random(7), Ledger()
    answered = 0
    for _ in range(KILLS):
        with shell.start("serve") as serving:
            serving.wait_for("listening")
            token = Path(shell.home / "http.token").read_text()
            clients = [Client(base, token, Ledger(), random.Random(chance.random())) for _ in "123"]
            asyncio.run(_until_killed(clients, serving, chance.uniform(0.2, 0.8)))
        for client in clients:
            ledger.posts |= client.ledger.posts
            answered += client.answered
    with shell.start("serve") as serving:
        serving.wait_for("listening")
        found = asyncio.run(_posts(base, token))
    assert answered > 10 * KILLS
    for name, fates in ledger.posts.items():
        assert found.get(name) in fates, name
    assert set(found) <= set(ledger.posts)


async def _until_killed(clients: list[Client], serving: Any, after: float) -> None:
    working = [asyncio.create_task(client.work()) for client in clients]
    await asyncio.sleep(after)
    serving.send(SIGKILL)
    async with asyncio.timeout(30):
        await asyncio.gather(*working)


async def _posts(base: str, token: str) -> dict[str, Fate]:
    """All posts there are, in pages."""
    found: dict[str, Fate] = {}
    cursor = ""
    async with aiohttp.ClientSession(headers={"Authorization": f"Bearer {token}"}) as session:
        while True:
            path = f"/api/schedule/status?pubkey={public_key(SECRET)}&limit=1000{cursor}"
            async with session.get(base + path) as answer:
                page = await answer.json()
            found |= {post["id"]: (post["status"], post["eventId"]) for post in page["posts"]}
            if page["next"] is None:
                return found
            cursor = f"&cursor={page['next']}"
