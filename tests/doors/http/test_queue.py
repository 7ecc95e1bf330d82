"""Jobs, drafts, pages that sign, plans, notices: all of the queue over HTTP (G2, A6, A12, B6)."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from postrich.doors.http import desk, drafts
from postrich.errors import StoreAway
from postrich.sign.secret import SecretSigner
from tests.deliver.outboxes import PATIENCE
from tests.doors.http.clients import Client, authorization
from tests.doors.http.conftest import Opener, Service
from tests.relays.events import make_event
from tests.relays.scripted import ScriptedRelay
from tests.relays.scripts import accept, choose, refuse


async def until(client: Client, path: str, **expected: Any) -> Any:
    """What is there once it is as expected."""
    async with asyncio.timeout(PATIENCE):
        while True:
            body = (await client.get(path)).body
            if all(body.get(name) == value for name, value in expected.items()):
                return body
            await asyncio.sleep(0.02)


# -- jobs ----------------------------------------------------------------------------------------


@pytest.mark.req("G2")
async def test_jobs_in_pages_and_by_filters(service: Service, alice: Client) -> None:
    await alice.post("/api/schedule/bulk", {"posts": [alice.wish(f"{n}") for n in range(5)]})
    await alice.delete("/api/schedule/2")
    first = (await alice.get("/api/jobs?limit=2")).body
    assert [job["name"] for job in first["jobs"]] == ["4", "3"]
    rest = (await alice.get(f"/api/jobs?limit=50&cursor={first['next']}")).body
    assert [job["name"] for job in rest["jobs"]] == ["2", "1", "0"]
    assert rest["next"] is None
    names = [
        [job["name"] for job in (await alice.get(f"/api/jobs?{query}")).body["jobs"]]
        for query in (
            "state=cancelled",
            "state=cancelled&state=scheduled&limit=3",
            "kind=7",
            "relay=wss://nowhere.example/",
            f"relay={service.relay.url}",
            "open=true",
        )
    ]
    assert names == [["2"], ["4", "3", "2"], [], [], [], ["4", "3", "1", "0"]]
    for query in ("state=nothing", "limit=0", "kind=-1", "kind=99999999999999999999", "cursor=x"):
        assert (await alice.get(f"/api/jobs?{query}")).status == 400


@pytest.mark.req("G2", "B6")
async def test_a_job_s_whole_road(tmp_path: Path) -> None:
    refusing = {"now": True}
    moods = choose(lambda _: refuse("blocked: not today") if refusing["now"] else accept)
    async with ScriptedRelay(moods) as relay, Service.at(tmp_path, relay, {}) as service:
        await walk(service.somebody(), refusing)


async def walk(alice: Client, refusing: dict[str, bool]) -> None:
    await alice.schedule("hello", after=0.1, id="one")
    job = (await alice.get("/api/schedule/one")).body["job"]
    failed = await until(alice, f"/api/jobs/{job}", state="failed")
    assert "not today" in failed["error"]["message"]
    assert failed["attempts"]["publish"] == 1
    refusing["now"] = False
    assert (await alice.post(f"/api/jobs/{job}/retry")).body == {"status": "retried", "jobs": [job]}
    done = await until(alice, f"/api/jobs/{job}", state="published")
    assert "retried" in [chapter["what"] for chapter in done["story"]]
    assert (await alice.post(f"/api/jobs/{job}/cancel")).status == 409
    assert (await alice.delete(f"/api/jobs/{job}")).body == {"status": "deleted", "jobs": [job]}
    assert (await alice.get(f"/api/jobs/{job}")).status == 404


@pytest.mark.req("B6")
async def test_one_action_for_many(alice: Client) -> None:
    await alice.post("/api/schedule/bulk", {"posts": [alice.wish(f"{n}") for n in range(4)]})
    jobs = [job["job"] for job in (await alice.get("/api/jobs")).body["jobs"]]
    some = await alice.post("/api/jobs/bulk", {"action": "cancel", "jobs": jobs[:2]})
    assert sorted(some.body["jobs"]) == sorted(jobs[:2])
    rest = await alice.post("/api/jobs/bulk", {"action": "cancel", "states": ["scheduled"]})
    assert sorted(rest.body["jobs"]) == sorted(jobs[2:])
    gone = await alice.post("/api/jobs/bulk", {"action": "delete", "states": ["cancelled"]})
    assert len(gone.body["jobs"]) == 4
    assert (await alice.post("/api/jobs/bulk", {"action": "delete"})).status == 400
    assert (await alice.post("/api/jobs/bulk", {"action": "explode", "jobs": [1]})).status == 400
    assert (await alice.post("/api/jobs/bulk", {"action": "retry", "jobs": [2**80]})).status == 400


# -- drafts --------------------------------------------------------------------------------------


@pytest.mark.req("A6", "G2")
async def test_a_draft_waits_for_its_page(service: Service, alice: Client) -> None:
    kept = await alice.post("/api/drafts", {"content": "sign me"})
    assert kept.status == 201
    assert kept.body["status"] == "pending-sign"
    assert [d["job"] for d in (await alice.get("/api/drafts")).body["jobs"]] == [kept.body["job"]]
    offered = (await alice.get("/api/sign?wait=20")).body
    [draft] = offered["drafts"]
    assert (draft["content"], draft["pubkey"]) == ("sign me", alice.pubkey)
    signed = make_event(
        alice.secret, content=draft["content"], tags=draft["tags"], created_at=draft["created_at"]
    )
    assert signed["id"] == draft["id"] == kept.body["eventId"]
    answer = await alice.post("/api/sign", {"id": draft["id"], "event": signed})
    assert answer.body == {"status": "signed", "id": draft["id"]}
    await until(alice, f"/api/jobs/{kept.body['job']}", state="published")
    assert [event["id"] for event in service.relay.events] == [signed["id"]]


@pytest.mark.req("A6")
async def test_signatures_that_are_not_the_draft_s(service: Service, alice: Client) -> None:
    await alice.post("/api/drafts", {"content": "sign me"})
    [draft] = (await alice.get("/api/sign?wait=20")).body["drafts"]
    other = make_event(alice.secret, content="something else")
    wrong = await alice.post("/api/sign", {"id": draft["id"], "event": other})
    assert wrong.status == 409
    assert "content" in wrong.detail or "differ" in wrong.detail
    unknown = await alice.post("/api/sign", {"id": "00" * 32, "event": other})
    assert unknown.status == 409
    assert (await alice.post("/api/sign", {"id": draft["id"]})).status == 400
    refused = await alice.post("/api/sign", {"id": draft["id"], "refusal": "not this one"})
    assert refused.body["status"] == "refused"
    [job] = (await alice.get("/api/jobs")).body["jobs"]
    parked = await until(alice, f"/api/jobs/{job['job']}", state="parked")
    assert "not this one" in parked["error"]["message"]


@pytest.mark.req("F9", "A6")
async def test_a_page_is_offered_its_own_drafts_only(
    service: Service, alice: Client, bob: Client
) -> None:
    await alice.post("/api/drafts", {"content": "hers"})
    await alice.get("/api/sign")
    assert (await bob.get("/api/sign?wait=0.2")).body["drafts"] == []
    [draft] = (await alice.get("/api/sign?wait=20")).body["drafts"]
    stolen = await bob.post("/api/sign", {"id": draft["id"], "refusal": "no"})
    assert stolen.status == 409
    assert (await service.owner.get(f"/api/sign?pubkey={alice.pubkey}")).status == 200
    assert (await service.owner.get("/api/sign")).status == 400


@pytest.mark.req("A6")
async def test_a_page_that_stops_asking_is_gone(
    service: Service, alice: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drafts, "GONE_AFTER", 0.05)
    await alice.get("/api/sign")
    async with asyncio.timeout(PATIENCE):
        while any(signer.is_available for signer in service.outbox.signers()):
            await asyncio.sleep(0.01)


@pytest.mark.req("F5", "A6")
async def test_a_scheduled_draft_is_of_its_hour(service: Service) -> None:
    signer = SecretSigner(b"s" * 32)
    service.outbox.add_signer(signer)
    alice = service.somebody(b"s" * 32)
    at = int((time.time() + 1.5) * 1000)
    kept = await alice.post("/api/drafts", {"content": "later", "scheduledAt": at, "id": "one"})
    assert kept.status == 201
    [event] = await service.relay.wait_events(1, PATIENCE)
    assert event["created_at"] == at // 1000
    assert (await alice.get("/api/schedule/one")).body["eventId"] == event["id"]


@pytest.mark.req("F5")
async def test_a_scheduled_draft_moves_with_its_hour(service: Service, alice: Client) -> None:
    at = int((time.time() + 3600) * 1000)
    await alice.post("/api/drafts", {"content": "later", "scheduledAt": at, "id": "one"})
    edited = await alice.patch("/api/schedule/one", {"scheduledAt": at + 60_000})
    assert edited.status == 200
    job = (await alice.get(f"/api/jobs/{edited.body['post']['job']}")).body
    assert job["createdAt"] == (at + 60_000) // 1000
    assert job["state"] == "pending-sign"
    assert len((await alice.get("/api/drafts")).body["jobs"]) == 1


@pytest.mark.req("G2")
async def test_a_draft_can_be_taken_back(alice: Client) -> None:
    job = (await alice.post("/api/drafts", {"content": "no"})).body["job"]
    assert (await alice.delete(f"/api/drafts/{job}")).body["jobs"] == [job]
    assert (await alice.delete(f"/api/drafts/{job}")).status == 404


@pytest.mark.parametrize(
    "draft",
    [
        {},
        {"content": 1},
        {"content": "x", "kind": 22242},
        {"content": "x", "kind": -1},
        {"content": "x", "tags": [1]},
        {"content": "x", "tags": "no"},
        {"content": "x", "relays": ["ftp://no"]},
        {"content": "x", "relays": ["wss://a.example"] * 101},
        {"content": "x", "unknown": 1},
        {"content": "x", "scheduledAt": 1},
        {"content": "x", "created_at": -1},
    ],
)
async def test_drafts_that_cannot_be(
    service: Service, alice: Client, draft: dict[str, Any]
) -> None:
    answer = await alice.post("/api/drafts", draft)
    assert answer.status == 400
    assert answer.detail
    assert await service.outbox.jobs() == []


# -- looking -------------------------------------------------------------------------------------


@pytest.mark.req("A12", "F9")
async def test_the_queue_in_figures(service: Service, alice: Client) -> None:
    await alice.schedule("later", id="later")
    await alice.post("/api/drafts", {"content": "unsigned"})
    whole = (await service.owner.get("/api/status")).body
    assert (whole["queue"]["scheduled"], whole["queue"]["pending"]) == (1, 1)
    assert whole["queue"]["text"] == "1 item waiting to publish"
    assert (whole["online"], whole["trouble"], whole["mine"]) == (True, "", None)
    hers = (await alice.get("/api/status")).body
    assert (hers["queue"], hers["trouble"]) == (None, None)
    assert hers["mine"] == {"pubkey": alice.pubkey, "scheduled": 2, "limit": 100}
    assert abs(hers["time"] - time.time() * 1000) < 60_000


@pytest.mark.req("F9")
async def test_where_the_store_is_concerns_its_owner_only(
    service: Service, alice: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def gone(*_: object) -> None:
        raise StoreAway("postgresql://inside.example is away")

    monkeypatch.setattr(service.outbox._store, "posts_of", gone)
    answer = await alice.get("/api/schedule/status")
    assert (answer.status, "inside" in answer.text) == (503, False)
    assert answer.headers["Retry-After"] == "5"


@pytest.mark.req("D10")
async def test_a_plan_tells_where_and_why(service: Service, alice: Client) -> None:
    plan = (await alice.post("/api/plan", {"content": "hello"})).body
    assert [target["relay"] for target in plan["targets"]] == [service.relay.url + "/"]
    assert plan["targets"][0]["reason"]
    named = await alice.post("/api/plan", {"relays": ["wss://named.example"]})
    assert [t["relay"] for t in named.body["targets"]] == ["wss://named.example/"]
    assert await service.outbox.jobs() == []


async def notices(client: Client, service: Service) -> AsyncIterator[tuple[str, Any]]:
    """Server-sent events as they come."""
    url = f"{service.base}/api/events"
    header = {"Authorization": authorization(client.secret, "GET", url)} if client.secret else {}
    if not client.secret:
        header = {"Authorization": "Bearer " + client._token}
    async with service.session.get(url, headers=header) as answer:
        assert answer.status == 200
        assert answer.headers["Content-Type"].startswith("text/event-stream")
        kind = ""
        async for line in answer.content:
            text = line.decode().strip()
            if text.startswith("event:"):
                kind = text[6:].strip()
            elif text.startswith("data:"):
                yield kind, json.loads(text[5:])


@pytest.mark.req("A12", "F9")
async def test_notices_are_of_one_s_own_jobs(service: Service, alice: Client, bob: Client) -> None:
    heard: list[tuple[str, Any]] = []

    async def listen() -> None:
        async for kind, body in notices(alice, service):
            heard.append((kind, body))
            if kind == "JOB_CHANGED" and body["state"] == "published" and body["finished"]:
                return

    listening = asyncio.create_task(listen())
    await asyncio.sleep(0.2)
    await bob.schedule("bob's", after=0.05, id="one")
    await service.relay.wait_events(1, PATIENCE)
    await alice.schedule("hers", after=0.05, id="one")
    await asyncio.wait_for(listening, PATIENCE)
    job = (await alice.get("/api/schedule/one")).body["job"]
    assert {body.get("job") for _, body in heard} == {job}
    assert "DELIVERY_CHANGED" in {kind for kind, _ in heard}


@pytest.mark.req("A12")
async def test_the_owner_hears_everything(service: Service, alice: Client) -> None:
    async def listen() -> set[str]:
        kinds = set()
        async for kind, _ in notices(service.owner, service):
            kinds.add(kind)
            if kind == "QUEUE_SYNC_COMPLETE":
                return kinds
        return kinds

    listening = asyncio.create_task(listen())
    await asyncio.sleep(0.2)
    await alice.schedule("hers", after=0.05)
    heard = await asyncio.wait_for(listening, PATIENCE)
    assert {"JOB_ACCEPTED", "JOB_CHANGED", "QUEUE_STATUS_CHANGED"} <= heard


@pytest.mark.req("A12")
async def test_a_stream_of_notices_does_not_hold_up_the_end(open_service: Opener) -> None:
    async with open_service() as service:
        listening = asyncio.ensure_future(anext(notices(service.owner, service)))
        await asyncio.sleep(0.2)
    listening.cancel()
    await asyncio.gather(listening, return_exceptions=True)


@pytest.mark.req("F4")
async def test_so_many_streams_may_be_open(
    service: Service, alice: Client, bob: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(desk, "MOST_STREAMS", 2)
    url = f"{service.base}/api/events"

    async def opened(client: Client) -> aiohttp.ClientResponse:
        signed = authorization(client.secret, "GET", url)
        return await service.session.get(url, headers={"Authorization": signed})

    async def until(status: int) -> aiohttp.ClientResponse:
        async with asyncio.timeout(PATIENCE):
            while (answer := await opened(alice)).status != status:
                answer.close()
                await asyncio.sleep(0.02)
        return answer

    streams = [await opened(alice), await opened(alice)]
    refused = await until(429)
    assert int(refused.headers["Retry-After"]) >= 1
    streams.append(await opened(bob))
    assert [stream.status for stream in streams] == [200, 200, 200]
    streams.pop(0).close()
    await alice.schedule("something that happens")
    streams.append(await until(200))
    for stream in (*streams, refused):
        stream.close()
