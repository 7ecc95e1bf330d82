"""Finding people's relay lists: whom we believe, what we remember, and how little we ask (D1)."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from postrich.config import Settings, check_settings
from postrich.errors import StoreError
from postrich.model.event import parse_event
from postrich.route.relay_lists import MAX_HINTED, RelayLists
from postrich.rules.dialling import DialBudget
from postrich.rules.relay_lists import MAX_ENTRIES, MESSAGES, RELAYS, Lookup, Status
from postrich.store.port import KeptList
from postrich.store.sqlite import SqliteStore
from tests.deliver.neighbours import Relay, asked, indexer_of, named_list, relay_list, url_of
from tests.deliver.outboxes import JumpingClock
from tests.relays.conversation import Client
from tests.relays.events import Event, make_event, public_key
from tests.relays.handshakes import http_status, never_answer
from tests.relays.script import (
    Answer,
    Filter,
    Script,
    answer_stored,
    closed,
    ignore_request,
    require_auth,
)
from tests.relays.scripted import ScriptedRelay

ALICE, BOB = os.urandom(32), os.urandom(32)
HERS, HIS = (public_key(ALICE), RELAYS), (public_key(BOB), RELAYS)
A, B = "wss://a.example/", "wss://b.example/"
NONE, UNKNOWN, FOUND = Status.NONE, Status.UNKNOWN, Status.FOUND

pytestmark = pytest.mark.req("D1")


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("postrich.route.asking.SEARCH_WITHIN", 0.5)
    monkeypatch.setattr("postrich.route.asking.AFTER_FIRST", 0.1)


class Finder:
    """A resolver, its store and its clock."""

    def __init__(self, store: SqliteStore, settings: Settings) -> None:
        self.store = store
        self.clock = JumpingClock()
        self.budget = DialBudget(settings.budgets.new_per_minute)
        self.lists = RelayLists(store, settings, self.clock, self.budget)
        self.changes = 0
        self.lists.on_changed = self._on_changed

    def _on_changed(self) -> None:
        self.changes += 1

    async def find(self, secret: bytes, kind: int = RELAYS, **more: Any) -> Lookup:
        key = (public_key(secret), kind)
        return (await self.lists.find([key], **more))[key]


@asynccontextmanager
async def finder(
    folder: Path, *indexers: Relay, relays: tuple[str, ...] = (), **changes: Any
) -> AsyncIterator[Finder]:
    store = await SqliteStore.open(str(folder / "outbox.db"))
    changes = {"trust_lists": True, **changes}
    settings = Settings(relays=relays, indexers=tuple(map(url_of, indexers)), **changes)
    found = Finder(store, check_settings(settings))
    try:
        yield found
    finally:
        await found.lists.close()
        await store.close()


def a_list(url: str = A, secret: bytes = ALICE, created_at: int | None = None) -> Event:
    return relay_list(secret, write=[url], read=[url], created_at=created_at)


def relays_in(lookup: Lookup) -> tuple[str, ...]:
    assert lookup.found is not None
    return lookup.found.relays


# -- found, none, could not look -------------------------------------------------------------------


async def test_found(tmp_path: Path) -> None:
    async with indexer_of(a_list(), a_list(B, BOB)) as indexer, finder(tmp_path, indexer) as finds:
        lookup = await finds.find(ALICE)
    assert lookup.status is FOUND
    assert relays_in(lookup) == (A,)


@pytest.mark.req("D3")
async def test_none_is_said_when_an_indexer_told_all_it_has(tmp_path: Path) -> None:
    async with indexer_of(a_list(B, BOB)) as indexer, finder(tmp_path, indexer) as finds:
        assert await finds.find(ALICE) == Lookup(NONE)


@pytest.mark.req("D3")
async def test_without_indexers_ones_own_relays_can_say_it(tmp_path: Path) -> None:
    async with indexer_of() as own, finder(tmp_path, relays=(own.url,)) as finds:
        assert (await finds.find(ALICE)).status is NONE
        own.stored["x"] = a_list()
        assert (await finds.find(ALICE, refresh=True)).status is FOUND


@pytest.mark.req("D3")
async def test_with_indexers_ones_own_relays_can_only_find(tmp_path: Path) -> None:
    dead = ScriptedRelay(Script())
    async with indexer_of(a_list()) as own, finder(tmp_path, dead, relays=(own.url,)) as finds:
        assert (await finds.find(ALICE)).status is FOUND
        assert (await finds.find(BOB)).status is UNKNOWN


async def test_nobody_to_ask(tmp_path: Path) -> None:
    async with finder(tmp_path) as finds:
        assert await finds.find(ALICE) == Lookup(UNKNOWN, detail="no relay is known to ask")


async def endless(client: Client, subscription: str, filters: list[Filter]) -> None:
    """Never says that this is all."""
    number = 0
    while True:
        number += 1
        await client.send("EVENT", subscription, a_list(secret=BOB, created_at=number))
        await asyncio.sleep(0)


def dropping(client: Client, subscription: str, filters: list[Filter]) -> Any:
    client.drop()
    return asyncio.sleep(0)


TROUBLE: dict[str, tuple[Script, str]] = {
    "says nothing": (Script(on_request=ignore_request), "no answer in time"),
    "never shakes hands": (Script(handshake=never_answer), "no answer in time"),
    "is no relay": (Script(handshake=http_status(404)), "404"),
    "closes": (Script(on_request=closed("blocked: not for you")), "not for you"),
    "closes without a word": (Script(on_request=closed("")), "the relay would not say"),
    "wants auth": (require_auth("with", reads=True), "auth-required"),
    "never stops": (Script(on_request=endless), "it would not stop"),
    "drops": (Script(on_request=dropping), "connection closed"),
}


@pytest.mark.req("D3")
@pytest.mark.parametrize(("script", "said"), TROUBLE.values(), ids=TROUBLE.keys())
async def test_a_relay_in_trouble_is_not_one_that_has_none(
    tmp_path: Path, script: Script, said: str
) -> None:
    async with ScriptedRelay(script) as indexer, finder(tmp_path, indexer) as finds:
        lookup = await finds.find(ALICE)
    assert (lookup.status, lookup.found) == (UNKNOWN, None)
    assert said in lookup.detail
    assert url_of(indexer) in lookup.detail


@pytest.mark.req("D3")
async def test_one_that_answers_is_enough_and_the_slow_are_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("postrich.route.asking.SEARCH_WITHIN", 60.0)
    async with (
        ScriptedRelay(Script(on_request=ignore_request)) as silent,
        indexer_of(a_list()) as indexer,
        finder(tmp_path, silent, indexer) as finds,
    ):
        assert (await finds.find(ALICE)).status is FOUND
        assert (await finds.find(BOB)).status is NONE


async def test_what_came_before_the_trouble_counts(tmp_path: Path) -> None:
    async def half(client: Client, subscription: str, filters: list[Filter]) -> None:
        await client.send("EVENT", subscription, a_list())

    async with (
        ScriptedRelay(Script(on_request=half)) as indexer,
        finder(tmp_path, indexer) as finds,
    ):
        assert (await finds.find(ALICE)).status is FOUND


# -- whom we believe -------------------------------------------------------------------------------


def forged(event: Event, **changes: Any) -> Event:
    return {**event, **changes}


def telling(*events: Event) -> Answer:
    """Sends these whatever is asked for."""

    async def act(client: Client, subscription: str, filters: list[Filter]) -> None:
        for event in events:
            await client.send("EVENT", subscription, event)
        await client.send("EOSE", subscription)

    return act


OTHERS = a_list(secret=BOB)
LIES: dict[str, Any] = {
    "another's signature": forged(a_list(), sig=OTHERS["sig"]),
    "another's list under her name": forged(OTHERS, pubkey=public_key(ALICE)),
    "another's list": OTHERS,
    "another kind": make_event(ALICE, 10003, tags=[["r", A]]),
    "changed tags": forged(a_list(), tags=[["r", B]]),
    "a pubkey that is a list": forged(a_list(), pubkey=["x"]),
    "a kind that is a list": forged(a_list(), kind=[RELAYS]),
    "no fields": {},
    "too many fields": {**a_list(), "more": 1},
    "huge": forged(a_list(), content="x" * 1_100_000),
}


@pytest.mark.parametrize("lie", LIES.values(), ids=LIES.keys())
async def test_only_a_true_list_of_the_right_person_counts(tmp_path: Path, lie: Event) -> None:
    async with (
        ScriptedRelay(Script(on_request=telling(lie))) as liar,
        finder(tmp_path, liar) as finds,
    ):
        assert (await finds.find(ALICE)).status is NONE
    async with (
        ScriptedRelay(Script(on_request=telling(lie, a_list(A)))) as liar,
        finder(tmp_path, liar) as finds,
    ):
        assert relays_in(await finds.find(ALICE, refresh=True)) == (A,)


async def test_a_forged_newer_list_does_not_hide_the_true_one(tmp_path: Path) -> None:
    newer = forged(a_list(B, created_at=2_000_000_000), sig=OTHERS["sig"])
    async with (
        ScriptedRelay(Script(on_request=telling(newer, a_list(A)))) as liar,
        finder(tmp_path, liar) as finds,
    ):
        assert relays_in(await finds.find(ALICE)) == (A,)


async def test_of_many_answers_the_newest_counts(tmp_path: Path) -> None:
    old, new = a_list(A, created_at=1_700_000_000), a_list(B, created_at=1_700_000_001)
    async with (
        ScriptedRelay(Script(on_request=telling(new, old))) as one,
        indexer_of(old) as two,
        finder(tmp_path, one, two) as finds,
    ):
        assert relays_in(await finds.find(ALICE)) == (B,)


@pytest.mark.req("C7", "C11")
async def test_a_hostile_list_is_cut_and_cleaned(tmp_path: Path) -> None:
    garbage = [["r", "not a url"], ["r"], ["r", "javascript:alert(1)"]]
    many = [["r", f"wss://r{number}.example"] for number in range(1000)]
    event = make_event(ALICE, RELAYS, tags=garbage + many)
    async with indexer_of(event) as indexer, finder(tmp_path, indexer) as finds:
        found = relays_in(await finds.find(ALICE))
    assert len(found) == MAX_ENTRIES - len(garbage)


# -- what is remembered ----------------------------------------------------------------------------


async def test_what_is_fresh_is_not_asked_for_again(tmp_path: Path) -> None:
    async with indexer_of(a_list()) as indexer, finder(tmp_path, indexer) as finds:
        assert finds.lists.remembered([HERS]) is None
        await finds.find(ALICE)
        await finds.find(BOB)
        count = len(asked(indexer))
        for _ in range(3):
            await finds.find(ALICE)
            await finds.find(BOB)
        assert len(asked(indexer)) == count
        known = finds.lists.remembered([HERS, HIS])
        assert known is not None
        assert [known[HERS].status, known[HIS].status] == [FOUND, NONE]


@pytest.mark.parametrize(
    ("secret", "fresh", "stale"),
    [(ALICE, 6 * 3600 - 1, 2), (BOB, 3600 - 1, 2)],
    ids=["found", "none"],
)
async def test_what_is_old_is_asked_for_again(
    tmp_path: Path, secret: bytes, fresh: int, stale: int
) -> None:
    async with indexer_of(a_list()) as indexer, finder(tmp_path, indexer) as finds:
        await finds.find(secret)
        finds.clock.wall_ahead += fresh
        await finds.find(secret)
        assert len(asked(indexer)) == 1
        finds.clock.wall_ahead += stale
        assert finds.lists.remembered([(public_key(secret), RELAYS)]) is None
        await finds.find(secret)
        assert len(asked(indexer)) == 2


async def test_a_clock_that_was_put_back_makes_nothing_fresh_for_ever(tmp_path: Path) -> None:
    async with indexer_of(a_list()) as indexer, finder(tmp_path, indexer) as finds:
        finds.clock.wall_ahead = 365 * 86_400
        await finds.find(ALICE)
        finds.clock.wall_ahead = 0
        await finds.find(ALICE)
    assert len(asked(indexer)) == 2


async def test_who_could_not_be_asked_is_asked_again_soon(tmp_path: Path) -> None:
    indexer = indexer_of(a_list())
    async with finder(tmp_path, indexer) as finds:
        assert (await finds.find(ALICE)).status is UNKNOWN
        async with indexer:
            assert (await finds.find(ALICE)).status is UNKNOWN, "a moment ago it was in vain"
            finds.clock.wall_ahead += 10
            assert (await finds.find(ALICE)).status is FOUND


@pytest.mark.req("B6")
async def test_a_person_may_want_another_look_at_once(tmp_path: Path) -> None:
    async with indexer_of() as indexer, finder(tmp_path, indexer) as finds:
        assert (await finds.find(ALICE)).status is NONE
        indexer.stored["x"] = a_list()
        assert (await finds.find(ALICE)).status is NONE
        finds.lists.doubt()
        assert (await finds.find(ALICE)).status is FOUND
        count = len(asked(indexer))
        finds.lists.doubt()
        await finds.find(ALICE)
        assert len(asked(indexer)) == count, "what was found is not in doubt"


async def test_what_is_known_is_not_forgotten_when_relays_lose_it(tmp_path: Path) -> None:
    async with indexer_of(a_list()) as indexer, finder(tmp_path, indexer) as finds:
        await finds.find(ALICE)
        indexer.stored.clear()
        finds.clock.wall_ahead += 7 * 3600
        assert relays_in(await finds.find(ALICE)) == (A,)
        assert finds.lists.remembered([HERS]) is not None
        assert finds.changes == 0


async def test_a_list_that_cannot_be_refreshed_is_used_and_looked_for_now_and_then(
    tmp_path: Path,
) -> None:
    indexer = indexer_of(a_list())
    async with finder(tmp_path, indexer) as finds:
        async with indexer:
            await finds.find(ALICE)
        finds.clock.wall_ahead += 7 * 3600
        assert relays_in(await finds.find(ALICE)) == (A,)
        assert finds.lists.remembered([HERS]) is not None, "not again at every note"
        finds.clock.wall_ahead += 11
        assert finds.lists.remembered([HERS]) is None


async def test_an_older_list_replaces_nothing(tmp_path: Path) -> None:
    older = a_list(B, created_at=1_700_000_000)
    async with (
        indexer_of(a_list(A, created_at=1_700_000_001)) as indexer,
        finder(tmp_path, indexer) as finds,
    ):
        await finds.find(ALICE)
        indexer.stored.clear()
        indexer.stored["x"] = older
        assert relays_in(await finds.find(ALICE, refresh=True)) == (A,)
        await finds.lists.learn(parse_event(_raw(older)))
        assert relays_in(await finds.find(ALICE)) == (A,)
        assert finds.changes == 0


@pytest.mark.req("D11")
async def test_a_newer_list_changes_memory_and_store_and_is_told(tmp_path: Path) -> None:
    newer = a_list(B, created_at=1_700_000_001)
    async with indexer_of(a_list(A, created_at=1_700_000_000)) as indexer:
        async with finder(tmp_path, indexer) as finds:
            await finds.find(ALICE)
            assert finds.changes == 0, "the first is no change"
            indexer.stored["x"] = newer
            assert relays_in(await finds.find(ALICE, refresh=True)) == (B,)
            assert finds.changes == 1
            kept = finds.lists.kept_event(HERS)
            assert kept is not None
            assert kept.id == newer["id"]
            assert finds.lists.names(public_key(ALICE), B)
            assert not finds.lists.names(public_key(ALICE), A)
            await finds.find(ALICE, refresh=True)
            assert finds.changes == 1
        async with finder(tmp_path) as finds:
            assert relays_in(await finds.find(ALICE)) == (B,), "from the store"


def _raw(event: Event) -> bytes:
    return json.dumps(event).encode()


async def test_a_list_that_is_met_is_kept(tmp_path: Path) -> None:
    async with finder(tmp_path) as finds:
        await finds.lists.learn(parse_event(_raw(a_list(A))))
        await finds.lists.learn(parse_event(_raw(make_event(ALICE, 1))))
        assert relays_in(await finds.find(ALICE)) == (A,)
    async with finder(tmp_path) as finds:
        known = await finds.lists.recall([HERS, HIS])
        assert list(known) == [HERS]
        assert relays_in(known[HERS].lookup) == (A,)


async def test_memory_outlives_the_process(tmp_path: Path) -> None:
    async with indexer_of(a_list()) as indexer:
        async with finder(tmp_path, indexer) as finds:
            await finds.find(ALICE)
            await finds.find(BOB)
        count = len(asked(indexer))
        async with finder(tmp_path, indexer) as finds:
            assert (await finds.find(ALICE)).status is FOUND
            assert (await finds.find(BOB)).status is NONE
        assert len(asked(indexer)) == count


async def test_what_could_not_be_looked_up_is_not_kept(tmp_path: Path) -> None:
    async with finder(tmp_path, ScriptedRelay(Script())) as finds:
        await finds.find(ALICE)
        assert await finds.store.lists([HERS]) == []


async def test_memory_has_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("postrich.route.relay_lists.MAX_REMEMBERED", 3)
    people = [(f"{number:064x}", RELAYS) for number in range(1, 11)]
    async with indexer_of() as indexer, finder(tmp_path, indexer) as finds:
        found = await finds.lists.find(people)
        assert {lookup.status for lookup in found.values()} <= {NONE, UNKNOWN}
        assert len(found) == 10
        assert len(finds.lists._known) == 3


# -- asking little ---------------------------------------------------------------------------------


async def test_three_hundred_people_are_one_question(tmp_path: Path) -> None:
    people = [(f"{number:064x}", RELAYS) for number in range(1, 300)]
    async with indexer_of(a_list()) as indexer, finder(tmp_path, indexer) as finds:
        found = await finds.lists.find([HERS, *people])
        assert found[HERS].status is FOUND
        assert {lookup.status for key, lookup in found.items() if key != HERS} == {NONE}
    [(_, _, *filters)] = asked(indexer)
    assert [len(wanted["authors"]) for wanted in filters] == [100, 100, 100]
    assert all(wanted["kinds"] == [RELAYS] and wanted["limit"] >= 100 for wanted in filters)


async def test_who_is_asked_about_different_lists_is_asked_for_no_others(tmp_path: Path) -> None:
    me = public_key(BOB)
    keys = [(me, 10006), (me, RELAYS), HERS, (public_key(ALICE), MESSAGES), (f"{1:064x}", RELAYS)]
    async with indexer_of() as indexer, finder(tmp_path, indexer) as finds:
        await finds.lists.find(keys)
    [(_, _, *filters)] = asked(indexer)
    pairs = {
        (author, kind)
        for wanted in filters
        for author in wanted["authors"]
        for kind in wanted["kinds"]
    }
    assert pairs == set(keys)


async def test_thousands_of_people_are_asked_for_in_messages_that_relays_take(
    tmp_path: Path,
) -> None:
    people = [(f"{number:064x}", RELAYS) for number in range(1, 6001)]
    async with indexer_of(a_list()) as indexer, finder(tmp_path, indexer) as finds:
        found = await finds.lists.find([HERS, *people])
    assert found[HERS].status is FOUND
    assert sum(lookup.status is NONE for lookup in found.values()) == 6000
    assert max(len(json.dumps(frame)) for frame in asked(indexer)) < 65_536
    assert indexer.connections == 1


async def test_who_asks_for_the_same_at_once_shares_the_answer(tmp_path: Path) -> None:
    async with indexer_of(a_list()) as indexer, finder(tmp_path, indexer) as finds:
        found = await asyncio.gather(*(finds.find(ALICE) for _ in range(50)))
        assert {lookup.status for lookup in found} == {FOUND}
    assert len(asked(indexer)) == 1


async def test_who_asks_while_a_search_is_under_way_joins_it(tmp_path: Path) -> None:
    answer = asyncio.Event()

    async def slow(client: Client, subscription: str, filters: list[Filter]) -> None:
        await answer.wait()
        await answer_stored(client, subscription, filters)

    async with ScriptedRelay(Script(on_request=slow)) as indexer:
        indexer.stored["x"] = a_list()
        async with finder(tmp_path, indexer) as finds:
            first = asyncio.create_task(finds.find(ALICE))
            await indexer.wait_until(lambda: bool(asked(indexer)))
            second = asyncio.create_task(finds.find(ALICE))
            await asyncio.sleep(0.05)
            answer.set()
            assert (await first).status is (await second).status is FOUND
    assert len(asked(indexer)) == 1


async def test_who_gives_up_takes_nobody_along(tmp_path: Path) -> None:
    async with (
        ScriptedRelay(Script(on_request=ignore_request)) as indexer,
        finder(tmp_path, indexer) as finds,
    ):
        impatient = asyncio.create_task(finds.find(ALICE))
        patient = asyncio.create_task(finds.find(ALICE))
        await indexer.wait_until(lambda: bool(asked(indexer)))
        impatient.cancel()
        with pytest.raises(asyncio.CancelledError):
            await impatient
        assert (await patient).status is UNKNOWN


async def test_a_store_in_trouble_does_not_hide_what_was_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with indexer_of(a_list()) as indexer, finder(tmp_path, indexer) as finds:

        async def full(found: list[KeptList]) -> None:
            raise StoreError("no space is left")

        monkeypatch.setattr(finds.store, "keep_lists", full)
        assert (await finds.find(ALICE)).status is FOUND
        await finds.lists.learn(parse_event(_raw(a_list(B, created_at=2_000_000_000))))
    assert caplog.text.count("no space is left") == 2


# -- hints -----------------------------------------------------------------------------------------


async def test_a_hint_is_asked_for_who_is_not_found_otherwise(tmp_path: Path) -> None:
    async with (
        indexer_of(a_list()) as indexer,
        indexer_of(a_list(B, BOB)) as hinted,
        finder(tmp_path, indexer) as finds,
    ):
        hints = {public_key(person): [url_of(hinted)] for person in (ALICE, BOB)}
        assert (await finds.find(ALICE, hints=hints)).status is FOUND
        assert hinted.connections == 0, "she is known"
        assert relays_in(await finds.find(BOB, hints=hints)) == (B,)
        [(_, _, wanted)] = asked(hinted)
        assert wanted["authors"] == [public_key(BOB)]


@pytest.mark.req("D3")
async def test_a_hint_that_knows_nothing_proves_nothing(tmp_path: Path) -> None:
    async with (
        indexer_of() as hinted,
        finder(tmp_path, ScriptedRelay(Script())) as finds,
    ):
        hints = {public_key(ALICE): [url_of(hinted)]}
        assert (await finds.find(ALICE, hints=hints)).status is UNKNOWN
        assert len(asked(hinted)) == 1


@pytest.mark.req("C11")
async def test_hints_are_asked_only_where_strangers_may_send_us(tmp_path: Path) -> None:
    async with (
        indexer_of(a_list()) as hinted,
        indexer_of() as indexer,
        finder(tmp_path, indexer, trust_lists=False) as finds,
    ):
        hints = {public_key(ALICE): [url_of(hinted), "wss://10.0.0.1/"]}
        assert (await finds.find(ALICE, hints=hints)).status is NONE
    assert hinted.connections == 0


@pytest.mark.req("D7")
async def test_blocked_relays_are_not_asked(tmp_path: Path) -> None:
    me = os.urandom(32)
    async with indexer_of(a_list()) as hinted, indexer_of() as indexer:
        blocked = named_list(me, 10006, hinted)
        indexer.stored[blocked["id"]] = blocked
        async with finder(tmp_path, indexer) as finds:
            await finds.find(me, 10006)
            hints = {public_key(ALICE): [url_of(hinted)]}
            assert (await finds.find(ALICE, hints=hints)).status is NONE
            assert hinted.connections == 0
            indexer.stored["x"] = relay_list(me, write=[hinted])
            await finds.find(me, refresh=True)
            assert (await finds.find(ALICE, hints=hints, refresh=True)).status is FOUND


@pytest.mark.req("C7", "C8")
async def test_a_note_that_hints_at_a_hundred_relays_has_few_of_them_dialled(
    tmp_path: Path,
) -> None:
    people = [f"{number:064x}" for number in range(1, 101)]
    hints = {p: [f"ws://127.0.0.1:{n + 1}/"] for n, p in enumerate(people)}
    more = {p: [f"ws://127.0.0.1:{n + 201}/"] for n, p in enumerate(people)}
    async with indexer_of() as indexer, finder(tmp_path, indexer) as finds:
        await finds.lists.find([(pubkey, RELAYS) for pubkey in people], hints)
        assert len(finds.budget._granted) == MAX_HINTED == 8
        await finds.lists.find([(pubkey, MESSAGES) for pubkey in people], more)
        assert len(finds.budget._granted) == 8, "the rest is for messages"
        finds.lists.asking._dialling = DialBudget(1000)
        await finds.lists.find([(pubkey, 10019) for pubkey in people], more)
        granted = finds.lists.asking._dialling._granted
        assert len(granted) == MAX_HINTED, "however large the budget is"
