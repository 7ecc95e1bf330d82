"""Posts as files, and weekly grids, over HTTP (F5)."""

from __future__ import annotations

import asyncio
import csv
import io
import json
import time
from typing import Any

import pytest

from postrich import slots
from tests.doors.http.clients import Client
from tests.doors.http.conftest import Opener, Service

pytestmark = pytest.mark.req("F5")


def line(client: Client, text: str, after: float = 3600.0) -> dict[str, Any]:
    at = int(time.time() + after)
    return {"id": text, "at": at, "event": client.event(text, at)}


def jsonl(*rows: Any) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


async def bring(client: Client, body: bytes, query: str = "") -> Any:
    answer = await client.post(f"/api/schedule/import{query}", raw=body)
    assert answer.status == 200, answer.text
    return answer.body


async def test_json_lines_come_in_each_with_its_own_result(
    service: Service, alice: Client, bob: Client
) -> None:
    forged = line(alice, "forged")
    forged["event"]["sig"] = "00" * 64
    body = jsonl(line(alice, "a"), forged, line(bob, "bob's"), line(alice, "b"))
    body += b"nonsense\n" + jsonl({"at": "tomorrow", "content": "x"})
    found = await bring(alice, body)
    assert (found["scheduled"], found["known"], found["refused"]) == (2, 0, 4)
    told = {one["line"]: (one["id"], one["code"]) for one in found["refusals"]}
    assert told == {2: ("forged", 400), 3: ("bob's", 403), 5: ("", 400), 6: ("", 400)}
    again = await bring(alice, body)
    assert (again["scheduled"], again["known"], again["refused"]) == (0, 2, 4)


async def test_csv_comes_in(service: Service, alice: Client) -> None:
    file = io.StringIO()
    writer = csv.writer(file)
    writer.writerow(["id", "at", "content", "tags"])
    writer.writerow(["one", int(time.time()) + 3600, 'two\nlines, "quoted"', '[["t","x"]]'])
    found = await bring(alice, file.getvalue().encode(), "?format=csv")
    assert found["scheduled"] == 1
    post = (await alice.get("/api/schedule/one")).body
    job = (await alice.get(f"/api/jobs/{post['job']}")).body
    assert (job["content"], job["tags"]) == ('two\nlines, "quoted"', [["t", "x"]])
    assert job["state"] == "pending-sign"
    wrong = await alice.post("/api/schedule/import", raw=b"what,is,this\n1,2,3\n")
    assert (wrong.status, "not understood" in wrong.detail) == (400, True)


@pytest.mark.parametrize("form", ["jsonl", "csv"])
async def test_what_goes_out_comes_in_again(open_service: Opener, form: str) -> None:
    secret = b"e" * 32
    async with open_service() as service:
        alice = service.somebody(secret)
        for text in ("plain", 'awkward, "quoted"\nlines; ümläut 🦃'):
            await alice.schedule(text, id=f"id of {text[:5]}")
        await alice.post(
            "/api/drafts",
            {"content": "draft", "scheduledAt": int((time.time() + 99) * 1000), "id": "draft"},
        )
        await alice.schedule("gone", id="gone")
        await alice.delete("/api/schedule/gone")
        file = await alice.get(f"/api/schedule/export?format={form}")
        assert file.status == 200
        assert file.headers["Content-Disposition"].endswith(f'posts.{form}"')
        again = await bring(alice, file.text.encode())
        assert (again["known"], again["scheduled"], again["refused"]) == (3, 0, 0)
        for job in (await alice.get("/api/jobs")).body["jobs"]:
            if job["state"] != "cancelled":
                await alice.post(f"/api/jobs/{job['job']}/cancel")
            await alice.delete(f"/api/jobs/{job['job']}")
        anew = await bring(alice, file.text.encode())
        assert (anew["known"], anew["scheduled"], anew["refused"]) == (0, 3, 0)
        last = await alice.get(f"/api/schedule/export?format={form}")
        assert sorted(last.text.split("\n")) == sorted(file.text.split("\n"))


async def test_an_empty_schedule_goes_out(alice: Client) -> None:
    assert (await alice.get("/api/schedule/export")).text == ""
    assert (await alice.get("/api/schedule/export?format=csv")).text.startswith("id,at,")
    assert (await bring(alice, b""))["scheduled"] == 0


@pytest.mark.req("F9")
async def test_files_are_each_author_s_own(service: Service, alice: Client, bob: Client) -> None:
    await alice.schedule("hers", id="one")
    assert (await bob.get("/api/schedule/export")).text == ""
    assert (await bob.get(f"/api/schedule/export?pubkey={alice.pubkey}")).status == 403
    assert (await service.owner.get("/api/schedule/export")).status == 400
    hers = await service.owner.get(f"/api/schedule/export?pubkey={alice.pubkey}")
    assert json.loads(hers.text)["id"] == "one"


@pytest.mark.req("F4")
async def test_files_have_the_same_limits(open_service: Opener) -> None:
    async with open_service(pending=2) as service:
        alice = service.somebody()
        found = await bring(alice, jsonl(*(line(alice, f"{n}") for n in range(4))))
        assert (found["scheduled"], found["refused"]) == (2, 2)
        assert {one["code"] for one in found["refusals"]} == {429}


@pytest.mark.req("F4")
async def test_who_is_throttled_in_the_middle_learns_what_was_kept(open_service: Opener) -> None:
    async with open_service(rate=0.001, burst=12) as service:
        alice = service.somebody()
        bad = b"{}\n" * 1999
        found = await bring(alice, jsonl(line(alice, "first")) + bad)
        assert (found["scheduled"], found["refused"]) == (1, 1999)
        assert {one["code"] for one in found["refusals"]} == {400, 429}
        again = await alice.post("/api/schedule/import", raw=jsonl(line(alice, "more")))
        assert again.status == 429


@pytest.mark.req("F4")
async def test_a_row_names_so_many_relays_and_its_id_is_not_repeated_at_length(
    alice: Client,
) -> None:
    many = {**line(alice, "many"), "relays": [f"wss://r{n}.example/" for n in range(101)]}
    long = {**line(alice, "long"), "id": "x" * 100_000}
    found = await bring(alice, jsonl(many, long))
    assert (found["scheduled"], found["refused"]) == (0, 2)
    assert "100 relays" in found["refusals"][0]["detail"]
    assert len(found["refusals"][1]["id"]) == 200


@pytest.mark.req("A10", "F4")
async def test_nobody_makes_their_own_posts_more_urgent(service: Service, alice: Client) -> None:
    row = {**line(alice, "urgent"), "priority": "urgent"}
    await bring(alice, jsonl(row))
    [job] = (await alice.get("/api/jobs")).body["jobs"]
    assert job["priority"] == 1


# -- weekly grids --------------------------------------------------------------------------------

WEEK = {"grid": "mon,wed,fri 09:00 18:00; sat 10:30", "zone": "Europe/Berlin"}


async def test_the_next_free_slots_of_a_grid(service: Service, alice: Client) -> None:
    kept = await alice.send("PUT", "/api/slots/week", WEEK)
    assert kept.body == {"name": "week", **WEEK}
    assert (await alice.get("/api/slots")).body["grids"] == [{"name": "week", **WEEK}]
    slots = (await alice.get("/api/slots/week/next?count=3")).body["slots"]
    event = alice.event("in a slot", slots[0] / 1000)
    wish = {"nostrEvent": event, "scheduledAt": slots[0], "id": "one", "alone": True}
    assert (await alice.post("/api/schedule", wish)).status == 201
    rest = (await alice.get("/api/slots/week/next?count=2")).body["slots"]
    assert rest == slots[1:]
    late = {**wish, "nostrEvent": alice.event("late", slots[0] / 1000), "id": "two"}
    answer = await alice.post("/api/schedule", late)
    assert (answer.status, "slot" in answer.detail) == (409, True)
    assert (await alice.delete("/api/slots/week")).body["status"] == "removed"
    assert (await alice.get("/api/slots/week/next")).status == 404
    assert (await alice.delete("/api/slots/week")).status == 404


async def test_drafts_are_queued_into_the_next_free_slot(service: Service, alice: Client) -> None:
    await alice.send("PUT", "/api/slots/week", WEEK)
    slots = (await alice.get("/api/slots/week/next?count=5")).body["slots"]
    answers = await asyncio.gather(
        *(alice.post("/api/drafts", {"content": f"{n}", "slot": "week"}) for n in range(5))
    )
    assert sorted(answer.body["scheduledAt"] for answer in answers) == slots
    unknown = await alice.post("/api/drafts", {"content": "x", "slot": "none"})
    assert unknown.status == 404
    both = {"content": "x", "slot": "week", "scheduledAt": slots[0]}
    assert (await alice.post("/api/drafts", both)).status == 400


@pytest.mark.req("F9")
async def test_grids_are_each_author_s_own(alice: Client, bob: Client) -> None:
    await alice.send("PUT", "/api/slots/week", WEEK)
    assert (await bob.get("/api/slots")).body["grids"] == []
    assert (await bob.get("/api/slots/week/next")).status == 404
    assert (await bob.get(f"/api/slots?pubkey={alice.pubkey}")).status == 403


@pytest.mark.req("F4")
async def test_so_many_grids_and_no_more(
    alice: Client, bob: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slots, "MOST_GRIDS", 2)
    kept = [(await alice.send("PUT", f"/api/slots/{n}", WEEK)).status for n in range(3)]
    assert kept == [200, 200, 400]
    assert (await alice.send("PUT", "/api/slots/1", WEEK)).status == 200
    assert (await bob.send("PUT", "/api/slots/2", WEEK)).status == 200


@pytest.mark.parametrize(
    "grid",
    [
        {},
        {"grid": ""},
        {"grid": "someday 09:00"},
        {"grid": "mon 25:00"},
        {"grid": "mon 09:00", "zone": "Middle/Earth"},
        {"grid": "x" * 3000},
    ],
)
async def test_grids_that_cannot_be(alice: Client, grid: dict[str, Any]) -> None:
    answer = await alice.send("PUT", "/api/slots/week", grid)
    assert answer.status == 400
    assert answer.detail


async def test_a_slot_is_kept_though_its_answer_was_lost(service: Service, alice: Client) -> None:
    await alice.send("PUT", "/api/slots/week", WEEK)
    key = {"Idempotency-Key": "one"}
    draft = {"content": "x", "slot": "week"}
    first = (await alice.post("/api/drafts", draft, headers=key)).body
    await forget_answers(service)
    again = (await alice.post("/api/drafts", draft, headers=key)).body
    assert again == first
    assert len((await alice.get("/api/jobs")).body["jobs"]) == 1


async def forget_answers(service: Service) -> None:
    """As if the process had died before it kept its answer."""
    await service.outbox._store._write(lambda db: db.link.execute("DELETE FROM answers"))  # type: ignore[attr-defined]


@pytest.mark.req("F4")
async def test_drafts_without_an_hour_count_as_waiting(open_service: Opener) -> None:
    async with open_service(pending=2) as service:
        alice = service.somebody()
        answers = [await alice.post("/api/drafts", {"content": f"{n}"}) for n in range(3)]
        assert [answer.status for answer in answers] == [201, 201, 429]
