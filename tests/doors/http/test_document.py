"""The OpenAPI document: nothing that it allows, and nothing that it forbids, is a 5xx.

`schemathesis` makes requests from the document, valid and invalid, and checks every answer
against it.
"""

from __future__ import annotations

import asyncio
import sys

import pytest

from tests.doors.http.clients import Client
from tests.doors.http.conftest import TOKEN, Opener, Service

pytestmark = pytest.mark.req("F1", "F2")

CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_schema_conformance",
    "response_headers_conformance",
)


@pytest.mark.timeout(300)
async def test_no_request_is_our_fault(open_service: Opener) -> None:
    async with open_service(address_rate=10_000.0, address_burst=100_000) as service:
        for n in range(3):
            await service.somebody().schedule(f"{n}", id=f"{n}")
        status, said = await schemathesis(service)
        assert status == 0, said
        assert "Tested" in said


@pytest.mark.parametrize("number", [2**63, 10**30])
async def test_numbers_that_no_store_can_hold(alice: Client, number: int) -> None:
    series = {"recurrence": "every day 09:00", "template": {"content": "x"}, "until": number}
    for answer in (
        await alice.get(f"/api/schedule/status?cursor={number}"),
        await alice.get(f"/api/jobs?cursor={number}"),
        await alice.get(f"/api/drafts?cursor={number}"),
        await alice.delete(f"/api/drafts/{number}"),
        await alice.post("/api/series", series),
    ):
        assert answer.status == 400, answer.text


async def schemathesis(service: Service) -> tuple[int, str]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "schemathesis.cli",
        "run",
        f"{service.base}/docs/openapi.json",
        "--header",
        f"Authorization: Bearer {TOKEN}",
        "--max-examples=8",
        "--seed=1",
        "--exclude-path=/api/events",  # it does not end
        "--exclude-path=/api/sign",  # it waits
        f"--checks={','.join(CHECKS)}",
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    said, _ = await process.communicate()
    return process.returncode or 0, said.decode(errors="replace")


async def test_the_document_names_every_field_of_the_schedule(service: Service) -> None:
    document = (await service.nobody.get("/docs/openapi.json")).body
    post = document["components"]["schemas"]["SchedulePost"]
    names = {"id", "nostrEvent", "scheduledAt", "crossPostAP", "crossPostAT"}
    assert names <= set(post["properties"])
    assert set(post["required"]) == {"nostrEvent", "scheduledAt"}
    assert {"nostr", "token"} <= set(document["components"]["securitySchemes"])


async def test_the_document_tells_what_code_does_not(service: Service) -> None:
    paths = (await service.nobody.get("/docs/openapi.json")).body["paths"]
    answers = paths["/api/schedule"]["post"]["responses"]
    assert answers["200"]["content"] == answers["201"]["content"]
    assert "421" in answers
    health = paths["/health"]["get"]
    assert health["responses"]["503"]["content"] == health["responses"]["200"]["content"]
    assert health["security"] == paths["/metrics"]["get"]["security"] == []


async def test_the_document_can_be_read_in_a_browser(service: Service) -> None:
    answer = await service.nobody.get("/docs")
    assert answer.status == 200
    assert answer.headers["Content-Type"].startswith("text/html")
    assert "Postrich" in answer.text


async def test_errors_have_one_form(service: Service, alice: Client) -> None:
    for answer in (
        await alice.get("/nowhere"),
        await alice.get("/api/jobs/0"),
        await alice.get("/api/jobs/none"),
        await alice.post("/api/schedule", {}),
        await service.nobody.get("/api/status"),
    ):
        assert answer.detail
        assert answer.body["title"]
