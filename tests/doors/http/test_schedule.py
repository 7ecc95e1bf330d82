"""`/api/schedule` as in the document (F1, F2), edits (F5), limits (F4), the alarm (F3)."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from typing import Any

import pytest

from postrich.model.job import JobFilter, Priority
from postrich.schedule import Wish
from tests.deliver.outboxes import PATIENCE
from tests.doors.http.clients import Answer, Client
from tests.doors.http.conftest import Opener, Service
from tests.relays.events import make_event

NOBODY = "00" * 32


async def stored(service: Service) -> int:
    return len(await service.outbox.jobs(JobFilter(), 1000))


# -- the document's requests ---------------------------------------------------------------------


@pytest.mark.req("F1")
async def test_the_document_s_story(service: Service, alice: Client) -> None:
    answer = await alice.schedule("hello", after=1.0, id="schedule-id")
    assert answer.status == 201
    assert answer.body == {"status": "scheduled", "id": "schedule-id"}
    assert answer.headers["Location"] == "/api/schedule/schedule-id"
    one = (await alice.get("/api/schedule/schedule-id")).body
    assert one["status"] == "pending"
    assert one["publishedAt"] is None
    listed = (await alice.get(f"/api/schedule/status?pubkey={alice.pubkey}")).body
    assert [post["id"] for post in listed["posts"]] == ["schedule-id"]
    await service.relay.wait_events(1, PATIENCE)
    await published(alice, "schedule-id")
    one = (await alice.get("/api/schedule/schedule-id")).body
    assert one["status"] == "published"
    assert one["publishedAt"].endswith("Z")
    assert [relay["state"] for relay in one["relays"]] == ["delivered"]
    assert service.relay.events[0]["id"] == one["eventId"]


async def published(client: Client, name: str) -> None:
    async with asyncio.timeout(PATIENCE):
        while (await client.get(f"/api/schedule/{name}")).body["status"] != "published":
            await asyncio.sleep(0.02)


@pytest.mark.req("F1")
async def test_a_post_has_the_document_s_fields(alice: Client) -> None:
    wish = alice.wish("hello", id="one")
    await alice.post("/api/schedule", wish)
    one = (await alice.get("/api/schedule/one")).body
    expected = {
        "id": "one",
        "nostrPubkey": alice.pubkey,
        "scheduledAt": wish["scheduledAt"],
        "status": "pending",
        "crossPostAP": False,
        "crossPostAT": False,
        "retryCount": 0,
        "errorMessage": None,
        "publishedAt": None,
        "eventId": wish["nostrEvent"]["id"],
        "state": "scheduled",
    }
    assert {name: one[name] for name in expected} == expected


@pytest.mark.req("F1")
async def test_cancelling_marks_and_keeps(service: Service, alice: Client) -> None:
    await alice.schedule("hello", id="one")
    answer = await alice.delete("/api/schedule/one")
    assert (answer.status, answer.body) == (200, {"status": "cancelled", "id": "one"})
    assert (await alice.get("/api/schedule/one")).body["status"] == "cancelled"
    assert (await alice.delete("/api/schedule/one")).status == 409


@pytest.mark.req("F1")
async def test_the_same_request_again_changes_nothing(service: Service, alice: Client) -> None:
    wish = alice.wish("hello", id="one")
    assert (await alice.post("/api/schedule", wish)).status == 201
    again = await alice.post("/api/schedule", wish)
    assert (again.status, again.body) == (200, {"status": "scheduled", "id": "one"})
    assert await stored(service) == 1


@pytest.mark.req("F1")
async def test_without_an_id_the_event_s_is_taken(alice: Client) -> None:
    wish = alice.wish("hello")
    del wish["id"]
    assert (await alice.post("/api/schedule", wish)).body["id"] == wish["nostrEvent"]["id"]


@pytest.mark.req("F1")
async def test_ids_may_be_any_text_of_one_line(alice: Client) -> None:
    for name in ("id with spaces", "ümläut-🦃", "a%2Fb", "...", "ids" * 60):
        answer = await alice.schedule(f"about {name}", id=name)
        assert answer.status == 201, answer.text
        assert (await alice.get(answer.headers["Location"])).body["id"] == name


@pytest.mark.req("F1")
async def test_sweeping_is_for_admins(service: Service, alice: Client) -> None:
    assert (await alice.post("/api/schedule/sweep")).status == 403
    assert (await service.owner.post("/api/schedule/sweep")).body == {"status": "swept", "found": 0}


# -- the document's errors -----------------------------------------------------------------------


async def refused(service: Service, answer: Answer, status: int, *words: str) -> None:
    """It was refused with that sentence, and nothing was stored."""
    assert answer.status == status, answer.text
    for word in words:
        assert word in answer.detail
    assert await stored(service) == 0


@pytest.mark.req("F2")
@pytest.mark.parametrize("pubkey", ["", "abc", "G" * 64, "A" * 64, "0" * 65])
async def test_invalid_pubkey_format(service: Service, alice: Client, pubkey: str) -> None:
    wish = alice.wish()
    wish["nostrEvent"]["pubkey"] = pubkey
    await refused(service, await alice.post("/api/schedule", wish), 400, "Invalid pubkey format")
    answer = await alice.get(f"/api/schedule/status?pubkey={pubkey}x")
    await refused(service, answer, 400, "Invalid pubkey format")


@pytest.mark.req("F2")
@pytest.mark.parametrize("field", ["nostrEvent", "scheduledAt"])
async def test_missing_required_fields(service: Service, alice: Client, field: str) -> None:
    wish = alice.wish()
    del wish[field]
    answer = await alice.post("/api/schedule", wish)
    await refused(service, answer, 400, "Missing required fields", field)


@pytest.mark.req("F2")
@pytest.mark.parametrize("field", ["pubkey", "created_at", "kind", "tags", "content"])
async def test_missing_fields_of_the_event(service: Service, alice: Client, field: str) -> None:
    wish = alice.wish()
    del wish["nostrEvent"][field]
    answer = await alice.post("/api/schedule", wish)
    await refused(service, answer, 400, "Missing required fields", field)


@pytest.mark.req("F2")
async def test_scheduled_in_the_past(service: Service, alice: Client) -> None:
    wish = alice.wish(after=-120)
    answer = await alice.post("/api/schedule", wish)
    await refused(service, answer, 400, "scheduledAt is in the past")


@pytest.mark.req("F2")
async def test_seconds_for_milliseconds(service: Service, alice: Client) -> None:
    wish = alice.wish()
    wish["scheduledAt"] //= 1000
    await refused(service, await alice.post("/api/schedule", wish), 400, "milliseconds")


@pytest.mark.req("F2")
async def test_a_clock_that_is_a_little_off_does_no_harm(service: Service, alice: Client) -> None:
    assert (await alice.schedule("now", after=-5)).status == 201
    await service.relay.wait_events(1, PATIENCE)


@pytest.mark.req("F2")
@pytest.mark.parametrize("field", ["id", "sig"])
async def test_an_event_that_is_not_signed(service: Service, alice: Client, field: str) -> None:
    wish = alice.wish()
    del wish["nostrEvent"][field]
    answer = await alice.post("/api/schedule", wish)
    await refused(service, answer, 400, "Event not pre-signed")


@pytest.mark.req("F2")
async def test_a_forged_signature(service: Service, alice: Client) -> None:
    wish = alice.wish()
    wish["nostrEvent"]["sig"] = alice.event("other")["sig"]
    await refused(service, await alice.post("/api/schedule", wish), 400, "signature")


@pytest.mark.req("F2")
async def test_a_content_that_was_changed(service: Service, alice: Client) -> None:
    wish = alice.wish()
    wish["nostrEvent"]["content"] = "changed"
    await refused(service, await alice.post("/api/schedule", wish), 400, "id")


@pytest.mark.req("F2", "A15")
@pytest.mark.parametrize("kind", [13, 14, 9734, 22242, 27235, 20001])
async def test_kinds_that_cannot_be_scheduled(service: Service, alice: Client, kind: int) -> None:
    at = time.time() + 3600
    wish = {**alice.wish(), "nostrEvent": alice.event("hello", at, kind=kind)}
    await refused(service, await alice.post("/api/schedule", wish), 400, f"kind {kind}")


@pytest.mark.req("F2")
async def test_events_from_the_future(service: Service, alice: Client) -> None:
    wish = alice.wish(after=3600)
    wish["nostrEvent"] = alice.event("hello", time.time() + 7200)
    await refused(service, await alice.post("/api/schedule", wish), 400, "from the future")


@pytest.mark.req("F2")
async def test_events_that_are_too_large(open_service: Opener) -> None:
    async with open_service({"max_event_bytes": 5000}, max_body=20_000) as service:
        alice = service.somebody()
        answer = await alice.schedule("x" * 6000, id="one")
        await refused(service, answer, 400, "bytes")
        answer = await alice.schedule("x" * 30_000, id="one")
        await refused(service, answer, 413)


@pytest.mark.req("F2")
@pytest.mark.parametrize(
    "raw", [b"", b"{", b"[]", b"null", b"\xff\xfe", b'{"a": NaN}', b'"text"', b"[" * 50_000]
)
async def test_bodies_that_are_no_json_object(service: Service, alice: Client, raw: bytes) -> None:
    answer = await alice.post("/api/schedule", raw=raw)
    await refused(service, answer, 400)


@pytest.mark.req("F2")
async def test_unknown_fields_are_refused(service: Service, alice: Client) -> None:
    answer = await alice.post("/api/schedule", {**alice.wish(), "shceduledAt": 1})
    await refused(service, answer, 400, "shceduledAt")


@pytest.mark.req("F7")
@pytest.mark.parametrize(
    ("flag", "network"), [("crossPostAP", "ActivityPub"), ("crossPostAT", "ATProto")]
)
async def test_cross_posts_need_a_connected_account(
    service: Service, alice: Client, flag: str, network: str
) -> None:
    answer = await alice.post("/api/schedule", {**alice.wish(), flag: True})
    await refused(service, answer, 400, f"no {network} account connected")


@pytest.mark.req("F1", "F9")
async def test_ids_that_nobody_has(service: Service, alice: Client) -> None:
    for method in ("GET", "DELETE"):
        answer = await alice.send(method, "/api/schedule/nothing")
        await refused(service, answer, 404, "no scheduled post")
    answer = await alice.patch("/api/schedule/nothing", {"scheduledAt": int(time.time() * 1000)})
    await refused(service, answer, 404, "no scheduled post")


@pytest.mark.req("F1")
@pytest.mark.parametrize("name", ["status", "sweep", "bulk", "..", "a/b", "a?b", "x" * 201, "a\nb"])
async def test_ids_that_cannot_be(service: Service, alice: Client, name: str) -> None:
    await refused(service, await alice.schedule("hello", id=name), 400, "id")


async def test_paths_and_methods_that_are_not_there(service: Service, alice: Client) -> None:
    await refused(service, await alice.get("/api/nothing"), 404)
    await refused(service, await alice.send("PUT", "/api/schedule"), 405)


# -- edits ---------------------------------------------------------------------------------------


def ms(after: float) -> int:
    return int((time.time() + after) * 1000)


@pytest.mark.req("F5")
async def test_a_new_hour_keeps_the_signature(service: Service, alice: Client) -> None:
    wish = alice.wish("hello", after=3600, id="one")
    await alice.post("/api/schedule", wish)
    later = wish["scheduledAt"] + 60_000
    answer = await alice.patch("/api/schedule/one", {"scheduledAt": later})
    assert answer.status == 200
    assert answer.body["post"]["scheduledAt"] == later
    assert answer.body["post"]["eventId"] == wish["nostrEvent"]["id"]
    assert "warning" not in answer.body


@pytest.mark.req("F5")
async def test_a_much_later_hour_is_warned_of(alice: Client) -> None:
    await alice.schedule("hello", after=3600, id="one")
    answer = await alice.patch("/api/schedule/one", {"scheduledAt": ms(90_000)})
    assert "created_at" in answer.body["warning"]


@pytest.mark.req("F5")
async def test_an_earlier_hour_needs_a_new_event(service: Service, alice: Client) -> None:
    await alice.schedule("hello", after=3600, id="one")
    answer = await alice.patch("/api/schedule/one", {"scheduledAt": ms(0.5)})
    assert answer.status == 409
    assert "new signed event" in answer.detail
    new = {"scheduledAt": ms(0.5), "nostrEvent": alice.event("hello", time.time() + 0.5)}
    assert (await alice.patch("/api/schedule/one", new)).status == 200
    events = await service.relay.wait_events(1, PATIENCE)
    assert events[0]["id"] == new["nostrEvent"]["id"]  # type: ignore[index]


@pytest.mark.req("F5")
async def test_new_content_is_a_new_event(service: Service, alice: Client) -> None:
    await alice.schedule("old", after=2, id="one")
    new = alice.event("new", time.time() + 1)
    answer = await alice.patch("/api/schedule/one", {"nostrEvent": new})
    assert answer.body["post"]["eventId"] == new["id"]
    events = await service.relay.wait_events(1, PATIENCE)
    assert [event["content"] for event in events] == ["new"]
    assert len((await alice.get("/api/schedule/status")).body["posts"]) == 1


@pytest.mark.req("F5")
async def test_new_content_is_meant_for_as_many_relays(service: Service, alice: Client) -> None:
    at = int(time.time()) + 3600
    body = json.dumps(alice.event("old", at)).encode()
    relays = (service.relay.url, "wss://other.example/")
    wish = Wish(
        item=body, at=at * 1000, name="one", relays=relays, goal=2, priority=Priority.URGENT
    )
    await service.outbox.schedule.put([wish])
    edited = await alice.patch("/api/schedule/one", {"nostrEvent": alice.event("new", at)})
    job = (await alice.get(f"/api/jobs/{edited.body['post']['job']}")).body
    assert (job["goal"], job["priority"]) == (2, Priority.URGENT)
    assert len(job["relays"]) == 2


@pytest.mark.req("F5")
async def test_edits_that_cannot_be(service: Service, alice: Client, bob: Client) -> None:
    await alice.schedule("hello", id="one")
    assert "Missing" in (await alice.patch("/api/schedule/one", {})).detail
    others = await alice.patch("/api/schedule/one", {"nostrEvent": bob.event("hi")})
    assert (others.status, "another author" in others.detail) == (409, True)
    forged = {**alice.event("forged"), "sig": "00" * 64}
    assert (await alice.patch("/api/schedule/one", {"nostrEvent": forged})).status == 400
    past = await alice.patch("/api/schedule/one", {"scheduledAt": ms(-7200)})
    assert (past.status, past.detail) == (400, "scheduledAt is in the past")
    assert (await bob.patch("/api/schedule/one", {"scheduledAt": ms(7200)})).status == 404
    assert (await alice.get("/api/schedule/one")).body["status"] == "pending"


@pytest.mark.req("F5")
async def test_what_was_published_is_neither_edited_nor_cancelled(
    service: Service, alice: Client
) -> None:
    await alice.schedule("hello", after=0.1, id="one")
    await service.relay.wait_events(1, PATIENCE)
    await published(alice, "one")
    late = await alice.patch("/api/schedule/one", {"scheduledAt": ms(60)})
    assert (late.status, "published already" in late.detail) == (409, True)
    assert (await alice.delete("/api/schedule/one")).status == 409


@pytest.mark.req("F5")
async def test_two_clients_that_edit_at_once(service: Service, alice: Client) -> None:
    """Each gets an answer that stays true: the last one that was told 200 is what goes out."""
    await alice.schedule("first", after=3, id="one")
    events = [alice.event(f"edit {n}", time.time() + 1) for n in range(20)]
    answers = await asyncio.gather(
        *(alice.patch("/api/schedule/one", {"nostrEvent": event}) for event in events)
    )
    won = {a.body["post"]["eventId"] for a in answers if a.status == 200}
    assert won
    assert {answer.status for answer in answers} <= {200, 409}
    now = (await alice.get("/api/schedule/one")).body["eventId"]
    assert now in won
    sent = await service.relay.wait_events(1, PATIENCE)
    await published(alice, "one")
    assert [event["id"] for event in sent] == [now]


# -- bulk ----------------------------------------------------------------------------------------


@pytest.mark.req("F5")
async def test_each_of_a_bulk_has_its_own_result(service: Service, alice: Client) -> None:
    forged = alice.wish("forged")
    forged["nostrEvent"]["sig"] = "00" * 64
    late = alice.wish("late", after=-600, id="late" * 1000)
    posts = [alice.wish("a"), forged, late, alice.wish("b")]
    answer = await alice.post("/api/schedule/bulk", {"posts": posts})
    assert answer.status == 200
    assert (answer.body["scheduled"], answer.body["refused"]) == (2, 2)
    results = answer.body["results"]
    assert [result["status"] for result in results] == [
        "scheduled",
        "refused",
        "refused",
        "scheduled",
    ]
    assert [result["id"] for result in results] == ["a", "forged", "late" * 50, "b"]
    assert "signature" in results[1]["detail"]
    assert results[2]["code"] == 400
    assert await stored(service) == 2


@pytest.mark.req("F5")
async def test_a_bulk_of_a_thousand_and_no_more(service: Service) -> None:
    posts = [service.somebody().wish(f"{n}") for n in range(20)]
    many = await service.owner.post("/api/schedule/bulk", {"posts": posts * 51})
    assert many.status == 400
    none = await service.owner.post("/api/schedule/bulk", {"posts": []})
    assert none.status == 400
    assert await stored(service) == 0
    answer = await service.owner.post("/api/schedule/bulk", {"posts": posts})
    assert answer.body["scheduled"] == 20


# -- limits --------------------------------------------------------------------------------------


@pytest.mark.req("F4")
async def test_so_many_posts_may_wait(open_service: Opener) -> None:
    async with open_service(pending=3) as service:
        alice, bob = service.somebody(), service.somebody()
        posts = [alice.wish(f"{n}") for n in range(5)]
        answer = await alice.post("/api/schedule/bulk", {"posts": posts})
        assert (answer.body["scheduled"], answer.body["refused"]) == (3, 2)
        assert answer.body["results"][4]["code"] == 429
        over = await alice.schedule("more")
        assert over.status == 429
        assert 0 < int(over.headers["Retry-After"]) <= 3601
        assert (await bob.schedule("bob's")).status == 201
        await alice.delete("/api/schedule/0")
        assert (await alice.schedule("more")).status == 201
        mine = (await alice.get("/api/status")).body["mine"]
        assert mine == {"pubkey": alice.pubkey, "scheduled": 3, "limit": 3}


@pytest.mark.req("F4", "A10")
async def test_tiers_have_limits_and_priorities_of_their_own(
    open_service: Opener, tmp_path: Path
) -> None:
    secret = b"v" * 32
    vip = Client(None, "", secret).pubkey  # type: ignore[arg-type]
    tiers: dict[str, Any] = {"vip": {"pubkeys": (vip,), "pending": 5, "priority": 0}}
    async with open_service(pending=1, tiers=convert(tiers)) as service:
        alice, star = service.somebody(), service.somebody(secret)
        for n in range(5):
            assert (await star.schedule(f"{n}", id=f"{n}")).status == 201
        assert (await star.schedule("more")).status == 429
        assert (await alice.schedule("one")).status == 201
        assert (await alice.schedule("two")).status == 429
        jobs = (await service.owner.get("/api/jobs")).body["jobs"]
        assert {(job["pubkey"] == vip, job["priority"]) for job in jobs} == {(True, 0), (False, 1)}


def convert(tiers: dict[str, Any]) -> Any:
    import msgspec

    from postrich.config import Tier

    return msgspec.convert(tiers, dict[str, Tier])


@pytest.mark.req("F4")
async def test_requests_are_throttled_by_key(open_service: Opener) -> None:
    async with open_service(rate=0.5, burst=3) as service:
        alice, bob = service.somebody(), service.somebody()
        answers = [await alice.get("/api/status") for _ in range(5)]
        assert [answer.status for answer in answers] == [200, 200, 200, 429, 429]
        assert int(answers[-1].headers["Retry-After"]) >= 1
        assert (await bob.get("/api/status")).status == 200
        assert (await service.owner.get("/api/status")).status == 200


@pytest.mark.req("F4")
async def test_requests_are_throttled_by_address(open_service: Opener) -> None:
    async with open_service(address_rate=0.01, address_burst=3) as service:
        answers = [await service.nobody.get("/api/status") for _ in range(5)]
        assert [answer.status for answer in answers] == [401, 401, 401, 429, 429]
        assert 1 < int(answers[-1].headers["Retry-After"]) <= 100


# -- idempotency ---------------------------------------------------------------------------------


@pytest.mark.req("F1")
async def test_a_request_with_a_key_is_carried_out_once(service: Service, alice: Client) -> None:
    key = {"Idempotency-Key": "one"}
    wish = alice.wish("hello")
    first = await alice.post("/api/schedule", wish, headers=key)
    again = await alice.post("/api/schedule", wish, headers=key)
    assert (again.status, again.body) == (first.status, first.body)
    assert again.headers["Idempotent-Replayed"] == "true"
    other = await alice.post("/api/schedule", alice.wish("other"), headers=key)
    assert (other.status, "another request" in other.detail) == (409, True)
    assert await stored(service) == 1


@pytest.mark.req("F1", "F9")
async def test_keys_are_each_caller_s_own(service: Service, alice: Client, bob: Client) -> None:
    key = {"Idempotency-Key": "one"}
    for client in (alice, bob):
        assert (await client.post("/api/schedule", client.wish(), headers=key)).status == 201


@pytest.mark.req("F1")
async def test_what_was_refused_may_be_tried_again(service: Service, alice: Client) -> None:
    key = {"Idempotency-Key": "one"}
    wish = alice.wish()
    assert (await alice.post("/api/schedule", {**wish, "id": "a/b"}, headers=key)).status == 400
    assert (await alice.post("/api/schedule", wish, headers=key)).status == 201
    long = await alice.post("/api/schedule", wish, headers={"Idempotency-Key": "k" * 300})
    assert long.status == 400


@pytest.mark.req("F1")
async def test_a_draft_with_a_key_is_one_draft(service: Service, alice: Client) -> None:
    key = {"Idempotency-Key": "one"}
    for _ in range(3):
        answer = await alice.post("/api/drafts", {"content": "hello"}, headers=key)
        assert answer.status == 201
    assert await stored(service) == 1


# -- restart -------------------------------------------------------------------------------------


@pytest.mark.req("F3", "F1")
async def test_what_was_answered_survives_a_restart(open_service: Opener) -> None:
    secret = b"a" * 32
    async with open_service() as service:
        alice = service.somebody(secret)
        await alice.schedule("soon", after=1.5, id="soon")
        await alice.schedule("later", id="later")
        await alice.schedule("gone", after=1.5, id="gone")
        await alice.delete("/api/schedule/gone")
    async with open_service() as service:
        alice = service.somebody(secret)
        events = await service.relay.wait_events(1, PATIENCE)
        await published(alice, "soon")
        assert [event["content"] for event in events] == ["soon"]
        posts = (await alice.get("/api/schedule/status")).body["posts"]
        assert {post["id"]: post["status"] for post in posts} == {
            "soon": "published",
            "later": "pending",
            "gone": "cancelled",
        }


@pytest.mark.req("F1")
async def test_posts_in_pages(alice: Client) -> None:
    await alice.post("/api/schedule/bulk", {"posts": [alice.wish(f"{n}") for n in range(5)]})
    first = (await alice.get("/api/schedule/status?limit=3")).body
    rest = (await alice.get(f"/api/schedule/status?limit=3&cursor={first['next']}")).body
    names = [post["id"] for page in (first, rest) for post in page["posts"]]
    assert names == ["4", "3", "2", "1", "0"]
    assert rest["next"] is None
    for query in ("limit=0", "limit=1001", "limit=x", "cursor=0", "cursor=-1"):
        assert (await alice.get(f"/api/schedule/status?{query}")).status == 400


async def test_signed_by_somebody_else(service: Service, alice: Client) -> None:
    wish = {**alice.wish(), "nostrEvent": make_event(content="theirs")}
    await refused(service, await alice.post("/api/schedule", wish), 403, "author")
