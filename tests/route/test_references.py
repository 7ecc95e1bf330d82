"""Finding repositories and polls on real sockets: whom we believe, and how little we ask (D9)."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from postrich.route.references import References
from postrich.rules.references import POLL, REPOSITORY, Reference
from tests.deliver.neighbours import indexer_of, url_of
from tests.relays.events import Event, make_event, public_key
from tests.relays.script import Script, ignore_request
from tests.relays.scripted import ScriptedRelay
from tests.route.test_relay_lists import finder

pytestmark = pytest.mark.req("D9")

ALICE = os.urandom(32)
REPO = Reference(REPOSITORY, public_key(ALICE), "nostr")
GIT, GIT2 = "wss://git.example/", "wss://git2.example/"


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("postrich.route.asking.SEARCH_WITHIN", 1.0)
    monkeypatch.setattr("postrich.route.asking.AFTER_FIRST", 0.1)


def repository(url: str = GIT, name: str = "nostr", created_at: int | None = None) -> Event:
    tags = [["d", name], ["relays", url]]
    return make_event(ALICE, REPOSITORY, tags=tags, created_at=created_at)


def requests(relay: ScriptedRelay) -> int:
    return sum(frame[0] == "REQ" for frame in relay.received)


async def test_the_newest_announcement_counts(tmp_path: Path) -> None:
    old, new = repository(GIT, created_at=1_700_000_000), repository(GIT2)
    forged = {**repository("wss://evil.example", created_at=2_000_000_000), "sig": "0" * 128}
    other = repository("wss://other.example", "other")
    async with (
        indexer_of(old, new, forged, other) as own,
        finder(tmp_path, relays=(own.url,)) as finds,
    ):
        known = References(finds.lists.asking, finds.clock)
        assert await known.find(REPO, ()) == (GIT2,)
        assert await known.find(REPO, ()) == (GIT2,)
    assert requests(own) == 1, "it is remembered"


async def test_a_poll_is_found_by_its_id_where_its_vote_says(tmp_path: Path) -> None:
    poll = make_event(ALICE, POLL, tags=[["relay", GIT]])
    async with indexer_of(poll) as home, indexer_of() as own:
        wanted = Reference(POLL, event_id=poll["id"], hints=(url_of(home),))
        async with finder(tmp_path, relays=(own.url,)) as finds:
            assert await References(finds.lists.asking, finds.clock).find(wanted, ()) == (GIT,)


async def test_none_is_not_the_same_as_not_having_looked(tmp_path: Path) -> None:
    async with indexer_of() as own, finder(tmp_path, relays=(own.url,)) as finds:
        known = References(finds.lists.asking, finds.clock)
        assert await known.find(REPO, ()) == ()
        own.stored["x"] = repository()
        assert await known.find(REPO, ()) == ()
        finds.clock.wall_ahead = 601
        assert await known.find(REPO, ()) == (GIT,)
    async with finder(tmp_path, ScriptedRelay(Script())) as finds:
        known = References(finds.lists.asking, finds.clock)
        assert await known.find(REPO, ()) is None


async def test_many_who_want_the_same_ask_once(tmp_path: Path) -> None:
    async with indexer_of(repository()) as own, finder(tmp_path, relays=(own.url,)) as finds:
        known = References(finds.lists.asking, finds.clock)
        found = await asyncio.gather(*(known.find(REPO, ()) for _ in range(20)))
        assert set(found) == {(GIT,)}
        await known.close()
    assert requests(own) == 1


@pytest.mark.req("C11")
async def test_strangers_lead_us_nowhere_inside(tmp_path: Path) -> None:
    async with (
        indexer_of(repository()) as inside,
        indexer_of() as own,
        finder(tmp_path, relays=(own.url,), trust_lists=False) as finds,
    ):
        known = References(finds.lists.asking, finds.clock)
        assert await known.find(REPO, (url_of(inside),)) == ()
    assert inside.connections == 0


async def test_memory_has_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("postrich.route.references.MAX_REMEMBERED", 2)
    async with indexer_of() as own, finder(tmp_path, relays=(own.url,)) as finds:
        known = References(finds.lists.asking, finds.clock)
        for number in range(5):
            await known.find(Reference(POLL, event_id=f"{number:064x}"), ())
        assert len(known._known) == 2


async def test_closing_ends_what_is_looked_for(tmp_path: Path) -> None:
    deaf = Script(on_request=ignore_request)
    async with ScriptedRelay(deaf) as silent, finder(tmp_path, relays=(silent.url,)) as finds:
        known = References(finds.lists.asking, finds.clock)
        looking = asyncio.create_task(known.find(REPO, ()))
        await asyncio.sleep(0.05)
        await known.close()
        with pytest.raises(asyncio.CancelledError):
            await looking
