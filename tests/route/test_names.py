"""Whom no indexer knows is looked for where their own domain says (D6), and nowhere else."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web

from postrich.route import nip05 as asking
from postrich.rules.nip05 import DEMOTED_FOR_MS
from postrich.rules.relay_lists import MESSAGES, RELAYS, Status
from tests.deliver.neighbours import indexer_of, named_list, url_of
from tests.relays.events import Event, make_event, public_key
from tests.relays.scripted import ScriptedRelay
from tests.route.test_nip05 import domain
from tests.route.test_relay_lists import ALICE, BOB, Finder, a_list, finder, relays_in

pytestmark = pytest.mark.req("D6")


@pytest.fixture(autouse=True)
def _without_certificates(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "SCHEME", "http")
    monkeypatch.setattr("postrich.route.asking.SEARCH_WITHIN", 2.0)
    monkeypatch.setattr("postrich.route.asking.AFTER_FIRST", 0.1)


class Domain:
    """A domain that says of one name whose it is, and where they are found."""

    def __init__(self, secret: bytes, *relays: ScriptedRelay) -> None:
        key = public_key(secret)
        self.document = {"names": {"name": key}, "relays": {key: [url_of(r) for r in relays]}}
        self.asked = 0

    async def answer(self, _request: web.Request) -> web.StreamResponse:
        self.asked += 1
        return web.json_response(self.document)


def profile(secret: bytes, place: str) -> Event:
    return make_event(secret, 0, json.dumps({"nip05": f"name@{place}"}))


@asynccontextmanager
async def world(
    folder: Path, known: Domain, *stored: Event, claims: bytes = ALICE
) -> AsyncIterator[tuple[Finder, ScriptedRelay]]:
    """An indexer that knows a profile but no list, and the domain which that profile claims."""
    async with (
        domain(known.answer) as place,
        indexer_of(profile(claims, place), *stored) as index,
        finder(folder, index) as finds,
    ):
        yield finds, index


async def test_a_list_is_found_where_the_domain_says(tmp_path: Path) -> None:
    async with indexer_of(a_list(), named_list(ALICE, MESSAGES, "wss://dm.example")) as home:
        known = Domain(ALICE, home)
        async with world(tmp_path, known) as (finds, _):
            lookup = await finds.find(ALICE)
            assert relays_in(lookup) == ("wss://a.example/",)
            assert relays_in(await finds.find(ALICE, MESSAGES)) == ("wss://dm.example/",)
    assert known.asked == 1, "a domain is asked once an hour"


async def test_what_is_found_elsewhere_needs_no_domain(tmp_path: Path) -> None:
    known = Domain(ALICE)
    async with world(tmp_path, known, a_list()) as (finds, _):
        assert (await finds.find(ALICE)).status is Status.FOUND
    assert known.asked == 0


async def test_other_lists_are_not_looked_for_there(tmp_path: Path) -> None:
    known = Domain(ALICE)
    async with world(tmp_path, known) as (finds, _):
        assert (await finds.find(ALICE, 10006)).status is Status.NONE
    assert known.asked == 0


@pytest.mark.req("D3")
async def test_who_could_not_be_looked_up_is_not_asked_for_at_domains(tmp_path: Path) -> None:
    """Only where a list is truly absent: an indexer that is away proves nothing."""
    known = Domain(ALICE)
    async with world(tmp_path, known) as (finds, index):
        await index.stop()
        assert (await finds.find(ALICE)).status is Status.UNKNOWN
    assert known.asked == 0


async def test_a_name_that_is_only_claimed_leads_nowhere(tmp_path: Path) -> None:
    async with indexer_of(a_list(secret=BOB)) as home:
        known = Domain(ALICE, home)
        async with world(tmp_path, known, claims=BOB) as (finds, _):
            assert (await finds.find(BOB)).status is Status.NONE
    assert known.asked == 1
    assert home.connections == 0


async def test_a_hint_that_leads_nowhere_three_times_is_left_alone_for_a_day(
    tmp_path: Path,
) -> None:
    async with indexer_of() as home, world(tmp_path, Domain(ALICE, home)) as (finds, _):
        visits = []
        for _ in range(4):
            assert (await finds.find(ALICE, refresh=True)).status is Status.NONE
            visits.append(sum(frame[0] == "REQ" for frame in home.received))
        assert visits == [1, 2, 3, 3]
        finds.clock.wall_ahead = DEMOTED_FOR_MS / 1000 + 1
        await finds.find(ALICE, RELAYS)
        assert sum(frame[0] == "REQ" for frame in home.received) == 4


async def test_a_domain_that_is_away_holds_up_nothing(tmp_path: Path) -> None:
    async with indexer_of(profile(ALICE, "127.0.0.1:9")) as index, finder(tmp_path, index) as finds:
        assert (await finds.find(ALICE)).status is Status.NONE
