"""Who may do what (F9): NIP-98, the owner's token, admins; hosts, origins, proxies and CORS."""

from __future__ import annotations

import asyncio
import stat
from pathlib import Path
from typing import Any

import pytest

from postrich.config import HttpSettings, check_http
from postrich.doors.http.server import TOKEN_FILE, read_token
from postrich.errors import BadSetting
from postrich.sign.secret import SecretSigner
from tests.doors.http.clients import Client, authorization
from tests.doors.http.conftest import TOKEN, Opener, Service

pytestmark = pytest.mark.req("F9")

# -- NIP-98 --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"kind": 1}, "kind 27235"),
        ({"off": -300}, "off our clock"),
        ({"off": 300}, "off our clock"),
        ({"u": "http://127.0.0.1:1/api/schedule"}, "u tag"),
        ({"named": "GET"}, "not for POST"),
        ({"payload": "00" * 32}, "payload"),
        ({"event": {"sig": "00" * 64}}, "signature"),
        ({"event": {"content": "changed"}}, "no event"),
        ({"event": {"pubkey": "00" * 32}}, "no event"),
    ],
)
async def test_an_authorization_stands_for_this_request_only(
    service: Service, alice: Client, wrong: dict[str, Any], words: str
) -> None:
    answer = await alice.post("/api/schedule", alice.wish(), wrong=wrong)
    assert answer.status == 401
    assert words in answer.detail
    assert "Nostr" in answer.headers["WWW-Authenticate"]
    assert await service.outbox.jobs() == []


async def test_a_body_must_be_signed_too(service: Service, alice: Client) -> None:
    url = f"{service.base}/api/schedule"
    header = {"Authorization": authorization(alice.secret, "POST", url)}
    answer = await alice.post("/api/schedule", alice.wish(), headers=header)
    assert (answer.status, "payload" in answer.detail) == (401, True)


async def test_an_authorization_counts_once(service: Service, alice: Client) -> None:
    url = f"{service.base}/api/status"
    header = {"Authorization": authorization(alice.secret, "GET", url)}
    answers = await asyncio.gather(*(alice.get("/api/status", headers=header) for _ in range(5)))
    assert sorted(answer.status for answer in answers) == [200, 401, 401, 401, 401]


async def test_the_query_is_part_of_the_url(service: Service, alice: Client) -> None:
    url = f"{service.base}/api/schedule/status"
    header = {"Authorization": authorization(alice.secret, "GET", url)}
    answer = await alice.get("/api/schedule/status?limit=1", headers=header)
    assert answer.status == 401


@pytest.mark.parametrize(
    "header",
    ["", "Nostr", "Nostr !!!", "Nostr e30=", "Basic abc", "Bearer", "Nostr " + "A" * 20_000],
)
async def test_headers_that_say_nothing(service: Service, header: str) -> None:
    answer = await service.nobody.get("/api/status", headers={"Authorization": header})
    assert answer.status == 401
    assert "A" * 100 not in answer.text


PRIVATE = (
    ("POST", "/api/schedule"),
    ("POST", "/api/schedule/bulk"),
    ("POST", "/api/schedule/sweep"),
    ("GET", "/api/schedule/status"),
    ("GET", "/api/schedule/one"),
    ("PATCH", "/api/schedule/one"),
    ("DELETE", "/api/schedule/one"),
    ("GET", "/api/jobs"),
    ("GET", "/api/jobs/1"),
    ("POST", "/api/jobs/1/retry"),
    ("POST", "/api/jobs/1/cancel"),
    ("DELETE", "/api/jobs/1"),
    ("POST", "/api/jobs/bulk"),
    ("GET", "/api/drafts"),
    ("POST", "/api/drafts"),
    ("DELETE", "/api/drafts/1"),
    ("GET", "/api/sign"),
    ("POST", "/api/sign"),
    ("POST", "/api/schedule/import"),
    ("GET", "/api/schedule/export"),
    ("GET", "/api/slots"),
    ("PUT", "/api/slots/one"),
    ("DELETE", "/api/slots/one"),
    ("GET", "/api/slots/one/next"),
    ("GET", "/api/series"),
    ("POST", "/api/series"),
    ("GET", "/api/series/one"),
    ("DELETE", "/api/series/one"),
    ("POST", "/api/series/one/pause"),
    ("POST", "/api/series/one/resume"),
    ("GET", "/api/series/one/occurrences"),
    ("PUT", "/api/series/one/occurrences/2"),
    ("DELETE", "/api/series/one/occurrences/2"),
    ("GET", "/api/hooks"),
    ("POST", "/api/hooks"),
    ("GET", "/api/hooks/one"),
    ("DELETE", "/api/hooks/one"),
    ("POST", "/api/hooks/one/rotate"),
    ("POST", "/api/hooks/one/enable"),
    ("POST", "/api/hooks/one/disable"),
    ("POST", "/api/hooks/one/test"),
    ("POST", "/api/hooks/one/replay"),
    ("GET", "/api/hooks/one/messages"),
    ("GET", "/api/status"),
    ("GET", "/api/events"),
    ("POST", "/api/plan"),
)


@pytest.mark.parametrize(("method", "path"), PRIVATE)
async def test_nobody_sees_or_changes_anything(service: Service, method: str, path: str) -> None:
    answer = await service.nobody.send(method, path)
    assert answer.status in (400, 401), answer.text  # a body that is none is seen first
    assert answer.status == 401 or method in ("POST", "PATCH", "PUT")


async def test_every_route_is_on_that_list(service: Service) -> None:
    """A new route must say who may call it."""
    document = (await service.nobody.get("/docs/openapi.json")).body
    public = {("GET", "/health"), ("GET", "/metrics")}
    routes = {
        (method.upper(), path)
        for path, methods in document["paths"].items()
        for method in methods
        if method in ("get", "post", "patch", "put", "delete")
    } - public
    places = {"/1": "/{number}", "/2": "/{at}", "/one": "/{name}"}
    known = set()
    for method, path in PRIVATE:
        for place, name in places.items():
            path = path.replace(place, name)
        known.add((method, path))
    assert {(m, p.rstrip("/")) for m, p in routes} == known


# -- whose ---------------------------------------------------------------------------------------


async def test_a_pubkey_sees_and_changes_only_its_own(
    service: Service, alice: Client, bob: Client
) -> None:
    await alice.schedule("hers", id="one")
    [job] = await service.outbox.jobs()
    assert (await bob.get("/api/schedule/one")).status == 404
    assert (await bob.get(f"/api/schedule/one?pubkey={alice.pubkey}")).status == 403
    assert (await bob.get(f"/api/schedule/status?pubkey={alice.pubkey}")).status == 403
    assert (await bob.delete("/api/schedule/one")).status == 404
    assert (await bob.get(f"/api/jobs/{job.id}")).status == 404
    for deed in ("retry", "cancel"):
        assert (await bob.post(f"/api/jobs/{job.id}/{deed}")).status == 404
    assert (await bob.delete(f"/api/jobs/{job.id}")).status == 404
    bulk = {"action": "cancel", "jobs": [job.id]}
    assert (await bob.post("/api/jobs/bulk", bulk)).status == 404
    everything = {"action": "cancel", "states": ["scheduled"]}
    assert (await bob.post("/api/jobs/bulk", everything)).body["jobs"] == []
    assert (await bob.get("/api/jobs")).body["jobs"] == []
    assert (await bob.get(f"/api/jobs?pubkey={alice.pubkey}")).status == 403
    assert (await bob.post("/api/drafts", {"content": "x", "pubkey": alice.pubkey})).status == 403
    assert (await bob.get(f"/api/sign?pubkey={alice.pubkey}")).status in (401, 403)
    assert (await alice.get("/api/schedule/one")).body["status"] == "pending"


async def test_bodies_are_not_taken_from_others(
    service: Service, alice: Client, bob: Client
) -> None:
    answer = await bob.post("/api/schedule", alice.wish())
    assert (answer.status, "author" in answer.detail) == (403, True)
    many = await bob.post("/api/schedule/bulk", {"posts": [alice.wish(), bob.wish("mine")]})
    assert [result["status"] for result in many.body["results"]] == ["refused", "scheduled"]


async def test_admins_see_and_change_everybody_s(open_service: Opener) -> None:
    secret = b"x" * 32
    admin = Client(None, "", secret).pubkey  # type: ignore[arg-type]
    async with open_service(admins=(admin,)) as service:
        alice, bob, chief = service.somebody(), service.somebody(), service.somebody(secret)
        for client in (alice, bob):
            await client.schedule(f"by {client.pubkey}", id="one")
        assert len((await chief.get("/api/jobs")).body["jobs"]) == 2
        both = await chief.get("/api/schedule/one")
        assert (both.status, "say whose" in both.detail) == (409, True)
        assert (await chief.get(f"/api/schedule/one?pubkey={bob.pubkey}")).status == 200
        assert (await chief.delete(f"/api/schedule/one?pubkey={bob.pubkey}")).status == 200
        assert (await bob.get("/api/schedule/one")).body["status"] == "cancelled"
        assert (await alice.get("/api/schedule/one")).body["status"] == "pending"


# -- the owner -----------------------------------------------------------------------------------


async def test_the_owner_s_token_opens_everything(service: Service, alice: Client) -> None:
    await alice.schedule("hers", id="one")
    assert (await service.owner.get("/api/schedule/one")).status == 200
    assert (await service.owner.get("/api/status")).body["queue"]["scheduled"] == 1


@pytest.mark.parametrize("token", ["", "wrong", TOKEN[:-1], TOKEN + "x", TOKEN.upper()])
async def test_another_token_opens_nothing(service: Service, token: str) -> None:
    header = {"Authorization": f"Bearer {token}"}
    answer = await service.nobody.get("/api/status", headers=header)
    assert answer.status == 401
    assert TOKEN not in answer.text


def test_the_token_is_made_once_for_its_owner_s_eyes(tmp_path: Path) -> None:
    token = read_token(tmp_path)
    assert len(token) > 40
    assert read_token(tmp_path) == token
    assert stat.S_IMODE((tmp_path / TOKEN_FILE).stat().st_mode) == 0o600
    (tmp_path / TOKEN_FILE).write_text("short")
    with pytest.raises(BadSetting, match="holds no token"):
        read_token(tmp_path)


# -- hosts, origins, proxies ---------------------------------------------------------------------


async def test_another_name_for_this_address_is_refused(open_service: Opener) -> None:
    """DNS rebinding: a page's own name, made to point here."""
    async with open_service(public_url="") as service:
        port = service.base.rpartition(":")[2]
        for host in ("evil.example", f"evil.example:{port}", "127.0.0.1", "127.0.0.1:1"):
            answer = await service.owner.get("/api/status", headers={"Host": host})
            assert answer.status == 421, host
        fine = await service.owner.get("/api/status", headers={"Host": f"localhost:{port}"})
        assert fine.status == 200


async def test_a_personal_service_is_its_owner_s(open_service: Opener) -> None:
    secret = b"p" * 32
    async with open_service(public_url="") as service:
        alice, owner = service.somebody(), service.somebody(secret)
        answer = await alice.get("/api/status")
        assert (answer.status, "personal" in answer.detail) == (403, True)
        assert (await alice.schedule("no")).status == 403
        assert (await owner.get("/api/status")).status == 403
        service.outbox.add_signer(SecretSigner(secret))
        assert (await owner.get("/api/status")).status == 200
        assert (await service.owner.get("/api/status")).status == 200
        assert (await service.nobody.get("/metrics")).status == 200


async def test_of_two_hosts_none_is_believed(service: Service, alice: Client) -> None:
    """One would be checked, and the other be what an authorization was signed for."""
    host = service.base.removeprefix("http://")
    reader, writer = await asyncio.open_connection(*host.split(":"))
    signed = authorization(alice.secret, "GET", "http://evil.example/api/status")
    lines = ("GET /api/status HTTP/1.1", "Host: evil.example", f"Host: {host}")
    more = (f"Authorization: {signed}", "Connection: close", "", "")
    writer.write("\r\n".join((*lines, *more)).encode())
    assert (await reader.read()).startswith(b"HTTP/1.1 400 ")
    writer.close()
    await writer.wait_closed()


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://127.0.0.1:1"])
async def test_other_pages_may_not_post(service: Service, origin: str) -> None:
    answer = await service.owner.post("/api/drafts", {"content": "x"}, headers={"Origin": origin})
    assert (answer.status, "http.cors" in answer.detail) == (403, True)
    assert "Access-Control-Allow-Origin" not in answer.headers
    asked = await service.nobody.send(
        "OPTIONS",
        "/api/drafts",
        headers={"Origin": origin, "Access-Control-Request-Method": "POST"},
    )
    assert asked.status == 403


async def test_our_own_pages_may(service: Service) -> None:
    headers = {"Origin": service.base}
    assert (await service.owner.get("/api/status", headers=headers)).status == 200


async def test_pages_that_the_owner_allows(open_service: Opener) -> None:
    async with open_service(cors=("https://app.example",)) as service:
        headers = {"Origin": "https://app.example"}
        answer = await service.owner.get("/api/status", headers=headers)
        assert answer.status == 200
        assert answer.headers["Access-Control-Allow-Origin"] == "https://app.example"
        asked = await service.nobody.send(
            "OPTIONS",
            "/api/schedule",
            headers={
                **headers,
                "Access-Control-Request-Method": "POST",
                "Access-Control-Request-Headers": "authorization,content-type,idempotency-key",
            },
        )
        assert asked.status == 204
        assert "POST" in asked.headers["Access-Control-Allow-Methods"]
        other = await service.owner.get("/api/status", headers={"Origin": "https://evil.example"})
        assert other.status == 403


async def test_a_hosted_service_answers_to_its_public_name(open_service: Opener) -> None:
    async with open_service(public_url="https://posts.example") as service:
        alice = service.somebody()
        assert service.name == "https://posts.example"
        host = {"Host": "posts.example"}
        url = "https://posts.example/api/status"
        signed = {**host, "Authorization": authorization(alice.secret, "GET", url)}
        assert (await alice.get("/api/status", headers=signed)).status == 200
        assert (await alice.get("/api/status")).status == 421


async def test_forwarded_addresses_count_only_from_trusted_proxies(open_service: Opener) -> None:
    limits = {"address_rate": 0.1, "address_burst": 2}
    for trusted, expected in (((), 429), (("127.0.0.1",), 401)):
        async with open_service(trusted_proxies=trusted, **limits) as service:
            answers = [
                await service.nobody.get(
                    "/api/status", headers={"X-Forwarded-For": f"1.1.1.1, 9.9.9.{n}"}
                )
                for n in range(4)
            ]
            assert answers[-1].status == expected
            lying = [
                await service.nobody.get(
                    "/api/status", headers={"X-Forwarded-For": f"8.8.8.{n}, 7.7.7.7"}
                )
                for n in range(4)
            ]
            assert lying[-1].status == 429  # what the caller wrote itself counts for nothing


async def test_networks_of_addresses_count_as_one(open_service: Opener) -> None:
    limits = {"address_rate": 0.1, "address_burst": 2, "trusted_proxies": ("127.0.0.0/8",)}
    async with open_service(**limits) as service:
        answers = [
            await service.nobody.get("/api/status", headers={"X-Forwarded-For": f"2001:db8::{n}"})
            for n in range(4)
        ]
        assert answers[-1].status == 429


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"listen": "0.0.0.0:80"}, "loopback"),
        ({"listen": "192.168.1.2:80"}, "loopback"),
        ({"listen": "127.0.0.1"}, "http.listen"),
        ({"listen": "127.0.0.1:99999"}, "http.listen"),
        ({"public_url": "posts.example"}, "public_url"),
        ({"public_url": "https://posts.example/path"}, "public_url"),
        ({"cors": ("app.example",)}, "cors"),
        ({"admins": ("npub1",)}, "pubkey"),
        ({"trusted_proxies": ("nowhere",)}, "trusted_proxies"),
        ({"pending": 0}, "pending"),
        ({"rate": 0.0}, "rate"),
    ],
)
def test_settings_that_cannot_be(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(BadSetting, match=words):
        check_http(HttpSettings(**changes))


def test_settings_that_can_be() -> None:
    for listen in ("127.0.0.1:0", "[::1]:7678", "localhost:80"):
        check_http(HttpSettings(listen=listen))
    check_http(HttpSettings(listen="0.0.0.0:80", public_url="https://posts.example"))
