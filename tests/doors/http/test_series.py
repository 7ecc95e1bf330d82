"""`/api/series`: recurring posts over HTTP (F5)."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from postrich.errors import StoreBusy
from postrich.model.job import JobState
from postrich.schedule import ScheduleDesk
from postrich.sign.secret import SecretSigner
from tests.deliver.outboxes import PATIENCE
from tests.doors.http.clients import Client
from tests.doors.http.conftest import Opener, Service

pytestmark = pytest.mark.req("F5")

MINUTE = 60_000
DAILY: dict[str, Any] = {
    "recurrence": "every weekday 09:00",
    "zone": "Europe/Berlin",
    "template": {"content": "good morning"},
}


async def make(client: Client, **more: Any) -> Any:
    answer = await client.post("/api/series", {**DAILY, **more})
    assert answer.status == 201, answer.text
    return answer.body


async def test_a_series_and_what_is_to_come(alice: Client) -> None:
    series = await make(alice, count=3)
    assert (series["state"], series["pubkey"], series["made"]) == ("active", alice.pubkey, 0)
    shown = (await alice.get(f"/api/series/{series['id']}")).body
    assert shown["template"]["content"] == "good morning"
    coming = (await alice.get(f"/api/series/{series['id']}/occurrences")).body["occurrences"]
    assert len(coming) == 3
    assert coming[0]["at"] == series["nextAt"]
    listed = (await alice.get("/api/series")).body["series"]
    assert [one["id"] for one in listed] == [series["id"]]


async def test_one_occurrence_is_skipped_and_one_edited(alice: Client) -> None:
    name = (await make(alice, count=3))["id"]
    path = f"/api/series/{name}/occurrences"
    first, second, _ = [one["at"] for one in (await alice.get(path)).body["occurrences"]]
    assert (await alice.delete(f"{path}/{first}")).body == {"status": "skipped", "at": first}
    edited = await alice.send("PUT", f"{path}/{second}", {"content": "another morning"})
    assert edited.body == {"status": "edited", "at": second}
    found = {one["at"]: one for one in (await alice.get(path)).body["occurrences"]}
    assert found[first]["state"] == "skipped"
    assert found[second]["words"]["content"] == "another morning"
    assert (await alice.delete(f"{path}/{first + 1}")).status == 404
    assert (await alice.delete(f"{path}/1")).status == 409


async def test_pause_resume_end(alice: Client) -> None:
    name = (await make(alice))["id"]
    assert (await alice.post(f"/api/series/{name}/pause")).body["state"] == "paused"
    assert (await alice.post(f"/api/series/{name}/pause")).status == 409
    assert (await alice.post(f"/api/series/{name}/resume")).body["state"] == "active"
    assert (await alice.delete(f"/api/series/{name}")).body["state"] == "ended"
    assert (await alice.post(f"/api/series/{name}/resume")).status == 409


async def test_each_occurrence_is_signed_and_goes_out(open_service: Opener) -> None:
    secret = b"r" * 32
    async with open_service() as service:
        service.outbox.add_signer(SecretSigner(secret))
        alice = service.somebody(secret)
        start = int(time.time() * 1000) + 1500
        await make(alice, recurrence="every minute", startsAt=start, count=1)
        jobs = await jobs_made(service)
        assert [job.content for job in jobs] == ["good morning"]
        assert jobs[0].state in (JobState.SCHEDULED, JobState.PENDING_SIGN)


async def jobs_made(service: Service) -> list[Any]:
    async with asyncio.timeout(PATIENCE):
        while not (found := await service.outbox.jobs()):
            await asyncio.sleep(0.05)
    return found


async def test_events_that_were_signed_beforehand(service: Service, alice: Client) -> None:
    start = (int(time.time()) // 60 + 2) * 60
    times = [start, start + 3600, start + 7200]
    events = [alice.event(f"at {at}", at) for at in times]
    body = {"recurrence": "every hour", "startsAt": start * 1000, "count": 3, "events": events}
    answer = await alice.post("/api/series", body)
    assert answer.status == 201, answer.text
    jobs = (await alice.get("/api/jobs")).body["jobs"]
    assert sorted(job["scheduledAt"] for job in jobs) == [at * 1000 for at in times]
    wrong = await alice.post("/api/series", {**body, "events": events[:2]})
    assert (wrong.status, "one for each" in wrong.detail) == (400, True)
    forged = [{**event, "sig": "00" * 64} for event in events]
    assert (await alice.post("/api/series", {**body, "events": forged})).status == 400
    assert len(await service.outbox.jobs()) == 3


@pytest.mark.req("F9")
async def test_series_are_their_owner_s(service: Service, alice: Client, bob: Client) -> None:
    name = (await make(alice))["id"]
    for method, path in (
        ("GET", ""),
        ("DELETE", ""),
        ("POST", "/pause"),
        ("POST", "/resume"),
        ("GET", "/occurrences"),
        ("DELETE", "/occurrences/1"),
    ):
        assert (await bob.send(method, f"/api/series/{name}{path}")).status == 404
    assert (await bob.get("/api/series")).body["series"] == []
    other = await bob.post("/api/series", {**DAILY, "pubkey": alice.pubkey})
    assert other.status == 403
    events = await bob.post("/api/series", {"recurrence": "every hour", "events": [alice.event()]})
    assert events.status == 403
    assert (await service.owner.get(f"/api/series/{name}")).status == 200


@pytest.mark.parametrize(
    "change",
    [
        {"recurrence": "every blue moon"},
        {"recurrence": "0 0 30 2 *"},
        {"recurrence": "x" * 300},
        {"zone": "Middle/Earth"},
        {"template": None},
        {"count": 0},
        {"count": 10**9},
        {"until": 1},
        {"startsAt": -1},
        {"missed": "cry"},
        {"template": {"content": "x", "kind": 22242}},
        {"relays": ["ftp://x"]},
        {"nonsense": 1},
    ],
)
async def test_series_that_cannot_be(
    service: Service, alice: Client, change: dict[str, Any]
) -> None:
    answer = await alice.post("/api/series", {**DAILY, **change})
    assert answer.status == 400
    assert answer.detail
    assert (await alice.get("/api/series")).body["series"] == []


@pytest.mark.req("F4")
async def test_so_many_series_may_be(
    alice: Client, bob: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("postrich.doors.http.series.MOST_AT_WORK", 2)
    names = [(await make(alice, template={"content": f"{n}"}))["id"] for n in range(2)]
    over = await alice.post("/api/series", DAILY)
    assert (over.status, "Retry-After" in over.headers) == (429, True)
    await make(bob)
    await alice.post(f"/api/series/{names[0]}/pause")
    assert (await alice.post("/api/series", DAILY)).status == 429
    await alice.delete(f"/api/series/{names[0]}")
    await make(alice)


async def test_a_series_with_a_key_is_one_series(alice: Client) -> None:
    key = {"Idempotency-Key": "daily"}
    names = {(await alice.post("/api/series", DAILY, headers=key)).body["id"] for _ in range(3)}
    assert len(names) == 1


async def test_an_occurrence_that_is_made_is_a_post_like_others(
    service: Service, alice: Client
) -> None:
    start = int(time.time() * 1000) + 600_000
    series = await make(alice, recurrence="every hour", startsAt=start, count=2)
    await jobs_made(service)
    name = f"{series['id']}.{series['nextAt']}"
    post = (await alice.get(f"/api/schedule/{name}")).body
    assert post["scheduledAt"] == series["nextAt"]
    path = f"/api/series/{series['id']}/occurrences"
    refused = await alice.send("PUT", f"{path}/{series['nextAt']}", {"content": "other"})
    assert (refused.status, name in refused.detail) == (409, True)
    moved = await alice.patch(f"/api/schedule/{name}", {"scheduledAt": series["nextAt"] + 60_000})
    assert moved.status == 200
    [first, _] = (await alice.get(path)).body["occurrences"]
    assert first["job"] == moved.body["post"]["job"]
    assert (await alice.delete(f"/api/series/{series['id']}")).body["state"] == "ended"
    assert (await alice.get(f"/api/schedule/{name}")).body["status"] == "cancelled"


async def test_a_series_that_was_kept_and_not_answered_is_not_made_twice(
    alice: Client, bob: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: object) -> None:
        raise StoreBusy("the power went out before the answer was kept")

    key = {"Idempotency-Key": "one"}
    with monkeypatch.context() as broken:
        broken.setattr(ScheduleDesk, "keep_answer", fail)
        assert (await alice.post("/api/series", DAILY, headers=key)).status == 503
    again = await alice.post("/api/series", DAILY, headers=key)
    assert again.status == 201
    listed = (await alice.get("/api/series")).body["series"]
    assert [one["id"] for one in listed] == [again.body["id"]]
    assert (await bob.post("/api/series", DAILY, headers=key)).body["id"] != again.body["id"]
