"""`/metrics` after known stories (F8), and `/health` when something is wrong."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from postrich import RetryPolicy
from postrich.errors import StoreFull
from tests.deliver.outboxes import PATIENCE, QUICK
from tests.doors.http.conftest import Opener, Service
from tests.relays.scripted import ScriptedRelay
from tests.relays.scripts import rate_limited, refuse

pytestmark = pytest.mark.req("F8")

FOUR = RetryPolicy("scheduled", delays=(0.02,), max_attempts=4, lifetime=600)
POLICIES = {"quick": QUICK, "scheduled": FOUR}


async def figures(service: Service) -> dict[str, float]:
    """Name and labels → value."""
    answer = await service.owner.get("/metrics")
    assert answer.status == 200
    assert answer.headers["Content-Type"].startswith("text/plain; version=")
    found: dict[str, float] = {}
    for family in text_string_to_metric_families(answer.text):
        for sample in family.samples:
            labels = ",".join(v for k, v in sorted(sample.labels.items()) if k != "le")
            key = f"{sample.name}{{{labels}}}" if labels else sample.name
            if "le" not in sample.labels:
                found[key] = sample.value
    return found


async def after(service: Service, name: str, value: float) -> dict[str, float]:
    """The figures once that one is as expected."""
    async with asyncio.timeout(PATIENCE):
        while True:
            found = await figures(service)
            if found.get(name) == value:
                return found
            await asyncio.sleep(0.05)


async def test_posts_that_go_out(service: Service) -> None:
    alice = service.somebody()
    for n in range(3):
        await alice.schedule(f"{n}", after=0.2, id=f"{n}")
    await alice.schedule("later", id="later")
    await alice.schedule("gone", id="gone")
    await alice.delete("/api/schedule/gone")
    found = await after(service, "postrich_ended_total{published}", 3)
    assert found["postrich_scheduled_total"] == 5  # of today
    assert found["postrich_accepted_total"] == 5
    assert found["postrich_ended_total{cancelled}"] == 1
    assert found["postrich_ended_total{failed}"] == 0
    assert found["postrich_deliveries_total{delivered}"] == 3
    assert found["postrich_deliveries_total{retry}"] == 0
    assert found["postrich_alarm_lateness_seconds_count"] == 3
    assert 0 <= found["postrich_alarm_lateness_seconds_sum"] < 30
    assert found["postrich_jobs{scheduled}"] == 1
    assert found["postrich_jobs{pending}"] == 0
    assert found["postrich_workers"] == 1
    assert found["postrich_lanes"] == 1
    relay = service.relay.url + "/"
    assert found[f"postrich_relay_latency_seconds_count{{{relay}}}"] >= 1
    assert found.get(f"postrich_relay_breaker_open{{{relay}}}", 0) == 0


async def test_posts_that_fail_and_are_retried(tmp_path: Path) -> None:
    async with (
        ScriptedRelay(rate_limited(2)) as relay,
        Service.at(tmp_path, relay, {}, policies=POLICIES) as service,
    ):
        await service.somebody().schedule("slow", after=0.1)
        found = await after(service, "postrich_ended_total{published}", 1)
        assert found["postrich_deliveries_total{retry}"] == 2  # average: 2 retries a post
    other = tmp_path / "other"
    other.mkdir()
    async with (
        ScriptedRelay(refuse("blocked: no")) as relay,
        Service.at(other, relay, {}) as service,
    ):
        await service.somebody().schedule("refused", after=0.1)
        found = await after(service, "postrich_ended_total{failed}", 1)
        assert found["postrich_deliveries_total{refused}"] == 1
        assert found["postrich_jobs{failed}"] == 1


async def test_what_waits_for_which_relay(tmp_path: Path) -> None:
    async with ScriptedRelay(refuse("x")) as relay:
        url = relay.url + "/"
    async with Service.at(tmp_path, relay, {}) as service:
        await service.somebody().schedule("unreachable", after=-1)
        found = await after(service, f"postrich_waiting{{{url}}}", 1)
        assert found["postrich_jobs{pending}"] == 1
        assert found["postrich_oldest_waiting_seconds"] >= 0
        await after(service, f"postrich_relay_breaker_open{{{url}}}", 1)


async def test_figures_are_not_for_everybody(open_service: Opener) -> None:
    async with open_service(trusted_proxies=("127.0.0.1",)) as service:
        far = {"X-Forwarded-For": "9.9.9.9"}
        assert (await service.nobody.get("/metrics", headers=far)).status == 401
        alice = service.somebody()
        assert (await alice.get("/metrics", headers=far)).status == 403
        assert (await service.owner.get("/metrics", headers=far)).status == 200


async def test_behind_an_unknown_proxy_nobody_is_near(open_service: Opener) -> None:
    async with open_service(public_url="https://posts.example.com") as service:
        assert (await service.nobody.get("/metrics")).status == 401
        assert (await service.owner.get("/metrics")).status == 200
    proxy = {"public_url": "https://posts.example.com", "trusted_proxies": ("127.0.0.1",)}
    async with open_service(**proxy) as service:
        assert (await service.nobody.get("/metrics")).status == 200


async def test_health_while_all_is_well(service: Service) -> None:
    answer = await service.nobody.get("/health", headers={"Host": "10.0.0.1"})
    assert (answer.status, answer.body) == (200, {"status": "ok", "trouble": []})


@pytest.mark.req("G4")
async def test_health_when_the_disk_is_full(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = service.outbox._store
    real = store.enlist

    async def full(_: object) -> None:
        raise StoreFull("the disk is full")

    monkeypatch.setattr(store, "enlist", full)
    await becomes(service, 503, "the disk is full")
    monkeypatch.setattr(store, "enlist", real)
    await becomes(service, 200)


async def becomes(service: Service, status: int, trouble: str = "") -> None:
    async with asyncio.timeout(PATIENCE):
        while (answer := await service.nobody.get("/health")).status != status:
            await asyncio.sleep(0.05)
    assert trouble in "".join(answer.body["trouble"])


async def test_health_when_nothing_is_claimed_any_more(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("postrich.outbox.HANGS", -1.0)
    await becomes(service, 503, "did nothing")
    monkeypatch.undo()
    await service.outbox._stager.stop()
    await becomes(service, 503, "the stager has stopped")
