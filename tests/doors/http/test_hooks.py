"""`/api/hooks` over HTTP (F6); what hooks are told is in `tests/deliver/test_hooks.py`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from postrich.rules.hooks import HookPolicy
from tests.deliver.hook_server import HookServer
from tests.deliver.outboxes import PATIENCE
from tests.doors.http.clients import Client
from tests.doors.http.conftest import Opener, Service

pytestmark = pytest.mark.req("F6")


@pytest.fixture(autouse=True)
def _master(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POSTRICH_HOOKS_SECRET", "whsec_" + "QUJD" * 11)


@pytest.fixture
async def service(open_service: Opener) -> AsyncIterator[Service]:
    near = {"hooks": HookPolicy(allow_private=True, allow_http=True)}
    async with open_service(near) as service:
        yield service


async def test_a_hook_is_told_of_posts(service: Service, alice: Client) -> None:
    async with HookServer() as server:
        made = await alice.post("/api/hooks", {"url": server.url})
        assert made.status == 201, made.text
        secret = made.body["secret"]
        await alice.schedule("hello", after=0.2, id="one")
        async with asyncio.timeout(PATIENCE):
            while len(server.told) < 3:
                await asyncio.sleep(0.02)
        for told in server.told:
            told.check(secret)
        assert {told.type for told in server.told} == {"scheduled", "published", "delivered"}
        name = made.body["id"]
        messages = (await alice.get(f"/api/hooks/{name}/messages")).body["messages"]
        assert {message["state"] for message in messages} == {"sent"}


async def test_the_secret_is_shown_once_and_stored_nowhere(service: Service, alice: Client) -> None:
    key = {"Idempotency-Key": "one"}
    body = {"url": "https://hooks.example/x", "events": ["published"]}
    made = await alice.post("/api/hooks", body, headers=key)
    secret = made.body["secret"]
    assert secret.startswith("whsec_")
    again = await alice.post("/api/hooks", body, headers=key)
    assert again.body["id"] == made.body["id"]
    assert secret not in again.text
    name = made.body["id"]
    assert secret not in (await alice.get("/api/hooks")).text
    assert secret not in (await alice.get(f"/api/hooks/{name}")).text
    rotated = await alice.post(f"/api/hooks/{name}/rotate")
    assert rotated.body["secret"] not in ("", secret)


async def test_a_hook_s_life(service: Service, alice: Client) -> None:
    name = (await alice.post("/api/hooks", {"url": "https://hooks.example/x"})).body["id"]
    assert [h["id"] for h in (await alice.get("/api/hooks")).body["hooks"]] == [name]
    assert (await alice.post(f"/api/hooks/{name}/disable")).body["state"] == "disabled"
    assert (await alice.post(f"/api/hooks/{name}/test")).status == 409
    assert (await alice.post(f"/api/hooks/{name}/enable")).body["state"] == "active"
    ping = await alice.post(f"/api/hooks/{name}/test")
    assert (ping.status, ping.body["type"]) == (202, "ping")
    replayed = await alice.post(f"/api/hooks/{name}/replay", {"message": ping.body["id"]})
    assert (replayed.status, replayed.body["status"]) == (202, "queued")
    assert (await alice.delete(f"/api/hooks/{name}")).body["status"] == "removed"
    assert (await alice.get(f"/api/hooks/{name}")).status == 404


@pytest.mark.req("F9")
async def test_hooks_are_their_owner_s(service: Service, alice: Client, bob: Client) -> None:
    name = (await alice.post("/api/hooks", {"url": "https://hooks.example/x"})).body["id"]
    for method, path, body in (
        ("GET", "", None),
        ("DELETE", "", None),
        ("POST", "/rotate", None),
        ("POST", "/enable", None),
        ("POST", "/disable", None),
        ("POST", "/test", None),
        ("POST", "/replay", {}),
        ("GET", "/messages", None),
    ):
        assert (await bob.send(method, f"/api/hooks/{name}{path}", body)).status == 404
    assert (await bob.get("/api/hooks")).body["hooks"] == []
    other = {"url": "https://hooks.example/x", "pubkey": alice.pubkey}
    assert (await bob.post("/api/hooks", other)).status == 403
    everybody = await bob.post("/api/hooks", {"url": "https://a.example", "everybody": True})
    assert everybody.status == 403
    chief = await service.owner.post("/api/hooks", {"url": "https://a.example", "everybody": True})
    assert chief.body["pubkey"] == ""


@pytest.mark.parametrize(
    "hook",
    [
        {},
        {"url": "ftp://hooks.example"},
        {"url": "https://user:secret@hooks.example"},
        {"url": "x" * 3000},
        {"url": "https://hooks.example", "events": ["everything"]},
        {"url": "https://hooks.example", "nonsense": 1},
    ],
)
async def test_hooks_that_cannot_be(alice: Client, hook: dict[str, Any]) -> None:
    answer = await alice.post("/api/hooks", hook)
    assert answer.status == 400
    assert "secret@" not in answer.text
