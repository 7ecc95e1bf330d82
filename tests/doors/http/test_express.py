"""The express road answers as the route does: what is plain is told from what is special by
nothing but its speed."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.doors.http.clients import Answer, Client
from tests.doors.http.conftest import Opener, Service

pytestmark = pytest.mark.req("F1", "F2", "F9")

Spoil = Callable[[dict[str, Any]], object]


def spoilt(*path: str, value: Any) -> Spoil:
    def spoil(wish: dict[str, Any]) -> None:
        *inner, last = path
        for name in inner:
            wish = wish[name]
        wish[last] = value

    return spoil


CASES: dict[str, Spoil] = {
    "fine": lambda _: None,
    "no event": lambda wish: wish.pop("nostrEvent"),
    "no id": lambda wish: wish["nostrEvent"].pop("id"),
    "forged": spoilt("nostrEvent", "sig", value="00" * 64),
    "changed": spoilt("nostrEvent", "content", value="changed"),
    "pubkey": spoilt("nostrEvent", "pubkey", value="none"),
    "others'": spoilt("nostrEvent", "pubkey", value="00" * 32),
    "past": spoilt("scheduledAt", value=1_600_000_000_000),
    "text": spoilt("scheduledAt", value="tomorrow"),
    "unknown": spoilt("nonsense", value=1),
    "crosspost": spoilt("crossPostAP", value=True),
    "bad id": spoilt("id", value="a/b"),
    "bad relay": spoilt("relays", value=["ftp://x"]),
}


@pytest.mark.parametrize("case", CASES)
async def test_both_roads_answer_alike(service: Service, alice: Client, case: str) -> None:
    at = time.time() + 3600
    answers: list[Answer] = []
    for headers in ({}, {"Origin": service.base}):  # a page of our own is not plain
        wish = {
            "id": f"{len(answers)}",
            "nostrEvent": alice.event(f"{len(answers)}", at),
            "scheduledAt": int(at * 1000),
        }
        CASES[case](wish)
        answers.append(await alice.post("/api/schedule", wish, headers=headers))
    plain, special = answers
    assert (plain.status, parts_of(plain)) == (special.status, parts_of(special))
    assert plain.headers["Content-Type"] == special.headers["Content-Type"]


def parts_of(answer: Answer) -> Any:
    body = dict(answer.body)
    body.pop("id", None)
    return body


async def test_refusals_have_their_headers(open_service: Opener) -> None:
    async with open_service(pending=1) as service:
        alice = service.somebody()
        await alice.schedule("one", id="one")
        over = await alice.schedule("two", id="two")
        assert (over.status, int(over.headers["Retry-After"]) > 0) == (429, True)
        nobody = await service.nobody.post("/api/schedule", alice.wish("three"))
        assert (nobody.status, "Nostr" in nobody.headers["WWW-Authenticate"]) == (401, True)


async def test_bodies_in_pieces_and_without_a_length(service: Service, alice: Client) -> None:
    import json

    from tests.doors.http.clients import authorization

    body = json.dumps(alice.wish("in pieces", id="one")).encode()
    url = f"{service.base}/api/schedule"

    async def pieces() -> Any:
        for start in range(0, len(body), 100):
            yield body[start : start + 100]

    headers = {
        "Authorization": authorization(alice.secret, "POST", url, body),
        "Content-Type": "application/json",
    }
    async with service.session.post(url, data=pieces(), headers=headers) as answer:
        assert answer.status == 201, await answer.text()
