"""Copying past events: whole, once, in spite of sources that lie, stall or never end."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.client import connect

from postrich import Outbox, Settings
from postrich.errors import CallerError
from postrich.model.job import JobState
from postrich.route import backfill as copying_module
from postrich.route.backfill import Backfill, Copying, Tally
from postrich.route.cursors import Cursor, Cursors, Key
from tests.deliver.outboxes import JumpingClock
from tests.relays import RelayProcess, local_relay, nostr_relay
from tests.relays.conversation import Client
from tests.relays.events import Event as Fields
from tests.relays.events import make_event, public_key
from tests.relays.reader import fetch_ids
from tests.relays.script import Answer, Script, answer_stored, answers_in_turn, closed, select
from tests.relays.scripted import ScriptedRelay
from tests.relays.scripts import accept

SECRET = bytes(range(1, 33))
AUTHOR = public_key(SECRET)
MINE = {"authors": [AUTHOR]}
#: Recent enough for every relay, and long enough ago for all that tests put after it.
START = int(time.time()) - 30 * 86_400


def notes(number: int, *, apart: int = 60, at: int = START) -> list[Fields]:
    return [make_event(SECRET, 1, f"note {n}", (), at + n * apart) for n in range(number)]


def ids(events: Iterable[Fields]) -> set[str]:
    return {event["id"] for event in events}


async def put(relay: RelayProcess, events: Iterable[Fields]) -> None:
    """Store events by hand, without the code under test."""
    waiting = 0
    async with connect(relay.url) as socket:
        for event in events:
            await socket.send(json.dumps(["EVENT", event]))
            waiting += 1
        for _ in range(waiting):
            answer = json.loads(await socket.recv())
            assert answer[2], answer


@asynccontextmanager
async def outbox_in(folder: Path) -> AsyncIterator[Outbox]:
    async with Outbox.open(folder / "outbox.db", settings=Settings(autopilot=False)) as outbox:
        yield outbox


async def copy(
    folder: Path, target: str, *sources: str, again: bool = False, **wishes: Any
) -> Tally:
    """Copy, and wait until the target has answered for everything."""
    async with outbox_in(folder) as outbox:
        tally = await backfill_of(outbox, folder, target, *sources, **wishes).run(again=again)
        await outbox.drained(30)
    return tally


def backfill_of(
    outbox: Outbox, folder: Path, target: str, *sources: str, **wishes: Any
) -> Backfill:
    trusted = frozenset(f"{url}/" for url in sources)
    options: dict[str, Any] = {"rate": 100_000.0, "trusted": trusted} | wishes
    wanted = Copying(AUTHOR, f"{target}/", tuple(f"{url}/" for url in sources), **options)
    return outbox.backfill(wanted, folder / "backfill")


# -- real relays -------------------------------------------------------------------------------


@pytest.mark.req("D11")
async def test_two_thousand_events_are_copied_whole(tmp_path: Path) -> None:
    events = notes(2000, apart=7)
    async with local_relay() as old, local_relay() as new:
        await put(old, events)
        tally = await copy(tmp_path, new.url, old.url)
        assert await fetch_ids(new.url, MINE, within=30) == ids(events)
    assert (tally.found, tally.new, len(tally.jobs)) == (2000, 2000, 2000)
    troubles = (tally.forged, tally.refused, tally.stayed, tally.troubles, tally.gaps)
    assert not any(troubles)


@pytest.mark.req("D11")
@pytest.mark.parametrize("make_relay", [local_relay, nostr_relay])
async def test_hundreds_in_one_second_are_copied_whole(tmp_path: Path, make_relay: Any) -> None:
    events = [*notes(200), *notes(450, apart=0, at=START + 100_000), *notes(9, at=START + 200_000)]
    events += notes(300, apart=0, at=START + 100_001)
    async with make_relay() as old, local_relay() as new:
        await put(old, events)
        tally = await copy(tmp_path, new.url, old.url)
        assert await fetch_ids(new.url, MINE, within=30) == ids(events)
    assert (tally.found, tally.gaps) == (len(ids(events)), {})


@pytest.mark.req("D11", "A9")
async def test_several_sources_give_each_event_once_and_a_second_run_only_what_is_new(
    tmp_path: Path,
) -> None:
    events = notes(300)
    async with local_relay() as one, local_relay() as two, local_relay() as new:
        await put(one, events[:200])
        await put(two, events[100:])
        first = await copy(tmp_path, new.url, one.url, two.url)
        assert (first.found, first.new) == (300, 300)
        later = make_event(SECRET, 1, "later", (), events[-1]["created_at"] + 60)
        await put(two, [later])
        second = await copy(tmp_path, new.url, one.url, two.url)
        assert second.found == 3  # the newest of each source comes once more
        assert second.new == 1
        whole = await copy(tmp_path, new.url, one.url, two.url, again=True)
        assert (whole.found, whole.new) == (301, 0)
        assert await fetch_ids(new.url, MINE) == ids([*events, later])


@pytest.mark.req("D11", "A11")
async def test_what_was_taken_back_stays_away_and_its_deletion_comes(tmp_path: Path) -> None:
    events = notes(20)
    deletion = make_event(SECRET, 5, "", [["e", events[3]["id"]]], START + 50_000)
    ephemeral = make_event(SECRET, 20_001, "", (), START + 1)
    expired = make_event(SECRET, 1, "", [["expiration", str(START + 10)]], START)
    protected = make_event(SECRET, 1, "", [["-"]], START + 5)
    async with (
        ScriptedRelay(accept) as old,
        ScriptedRelay(accept) as new,
    ):
        held = [*events, deletion, ephemeral, expired, protected]
        old.stored.update((event["id"], event) for event in held)
        tally = await copy(tmp_path, new.url, old.url)
        arrived = [event["id"] for event in new.events]
    assert set(arrived) == ids([*events, deletion]) - {events[3]["id"]}
    assert sorted(tally.stayed) == [
        "ephemeral",
        "expired",
        "protected: only its author may publish it",
        "taken back by its author",
    ]


@pytest.mark.req("D11")
async def test_kinds_and_a_beginning_can_be_chosen(tmp_path: Path) -> None:
    events = notes(50)
    reactions = [make_event(SECRET, 7, "+", (), START + n * 60 + 1) for n in range(50)]
    async with local_relay() as old, local_relay() as new:
        await put(old, [*events, *reactions])
        since = events[30]["created_at"]
        tally = await copy(tmp_path, new.url, old.url, kinds=(1,), since=since, since_text="x")
        assert await fetch_ids(new.url, MINE) == ids(events[30:])
        assert tally.found == 20
        await copy(tmp_path, new.url, old.url, kinds=(1,))  # another choice has its own cursor
        assert await fetch_ids(new.url, MINE) == ids(events)


# -- stopped and resumed -----------------------------------------------------------------------


@pytest.mark.req("D11", "B8")
async def test_one_that_was_cut_off_goes_on_where_it_was(tmp_path: Path) -> None:
    events = notes(1200)
    async with local_relay() as old, local_relay() as new:
        await put(old, events)
        async with outbox_in(tmp_path) as outbox:
            work = backfill_of(outbox, tmp_path, new.url, old.url, rate=400.0)
            task = asyncio.create_task(work.run())
            halfway = asyncio.Event()
            work.on_progress = lambda tally: halfway.set() if tally.new >= 800 else None
            await asyncio.wait_for(halfway.wait(), 30)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        later = make_event(SECRET, 1, "meanwhile", (), events[-1]["created_at"] + 60)
        await put(old, [later])
        tally = await copy(tmp_path, new.url, old.url)
        assert tally.resumed
        assert tally.found <= 1200 - 500 + 3  # the pages that were done are not read again
        assert await fetch_ids(new.url, MINE, within=30) == ids([*events, later])
        assert (await copy(tmp_path, new.url, old.url)).found == 1


@pytest.mark.req("D11")
def test_a_cursor_that_cannot_be_read_is_none(tmp_path: Path) -> None:
    cursors, key = Cursors(tmp_path), Key(AUTHOR, "wss://a/", "wss://b/")
    assert cursors.load(key) == Cursor()
    cursors.save(key, Cursor(5, 3, 9))
    assert cursors.load(key) == Cursor(5, 3, 9)
    assert cursors.load(Key(AUTHOR, "wss://a/", "wss://b/", (1,))) == Cursor()
    [file] = tmp_path.iterdir()
    file.write_bytes(file.read_bytes().replace(AUTHOR.encode(), b"0" * 64))
    assert cursors.load(key) == Cursor()
    file.write_bytes(b"{")
    assert cursors.load(key) == Cursor()


@pytest.mark.req("D11")
async def test_a_date_in_the_future_hides_nothing(tmp_path: Path) -> None:
    async with ScriptedRelay(accept) as old, ScriptedRelay(accept) as new:
        ahead = make_event(SECRET, 1, "from 2100", (), 4_102_444_800)
        old.stored[ahead["id"]] = ahead
        await copy(tmp_path, new.url, old.url)
        late = make_event(SECRET, 1, "now")
        old.stored[late["id"]] = late
        clock_moves_on = await copy(tmp_path, new.url, old.url)
        assert late["id"] in new.stored
    assert clock_moves_on.new == 1


# -- sources that lie --------------------------------------------------------------------------


def forged(number: int) -> list[Fields]:
    """Events of the author with true ids, which the author never signed."""
    return [event | {"sig": "ab" * 64} for event in notes(number, at=START + 1)]


def always(events: list[Fields]) -> Answer:
    """The same page, whatever was asked for."""

    async def act(client: Client, subscription: str, filters: list[dict[str, Any]]) -> None:
        for event in events:
            await client.send("EVENT", subscription, event)
        await client.send("EOSE", subscription)

    return act


def endless() -> Answer:
    """Ever new events with true ids and false signatures, at exactly the time asked for."""
    made = 0

    async def act(client: Client, subscription: str, filters: list[dict[str, Any]]) -> None:
        nonlocal made
        until = filters[0].get("until", START)
        for _ in range(20):
            made += 1
            event = make_event(SECRET, 1, f"endless {made}", (), until)
            await client.send("EVENT", subscription, event | {"sig": "cd" * 64})
        await client.send("EOSE", subscription)

    return act


async def never_stops(client: Client, subscription: str, filters: list[dict[str, Any]]) -> None:
    """Events without end and no EOSE."""
    for event in forged(100) * 200:
        await client.send("EVENT", subscription, event)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copying_module, "ANSWER_WITHIN", 1.0)
    monkeypatch.setattr(copying_module, "PAUSE", 0.01)


@pytest.mark.req("D11", "C11")
async def test_forgeries_and_other_authors_are_not_copied(tmp_path: Path) -> None:
    mine = notes(5)
    stranger = make_event(None, 1, "not mine", (), START)
    damaged = notes(1, at=START + 3)[0] | {"content": "changed"}
    extra = notes(1, at=START + 4)[0] | {"more": 1}
    lies = [*forged(7), stranger, damaged, extra]
    async with (
        ScriptedRelay(Script(on_request=always([*mine, *lies]))) as old,
        ScriptedRelay(accept) as new,
    ):
        tally = await copy(tmp_path, new.url, old.url)
        assert set(new.stored) == ids(mine)
    assert tally.found == 5
    assert tally.forged >= 9


@pytest.mark.req("D11")
@pytest.mark.parametrize("page", [notes(3), notes(600), notes(600, apart=0)])
async def test_the_same_page_for_ever_has_an_end(tmp_path: Path, page: list[Fields]) -> None:
    async with (
        ScriptedRelay(Script(on_request=always(page))) as old,
        ScriptedRelay(accept) as new,
    ):
        tally = await copy(tmp_path, new.url, old.url)
        assert set(new.stored) == ids(page)
        asked = sum(frame[0] == "REQ" for frame in old.received)
    assert tally.found == len(page)
    assert asked < 20


@pytest.mark.req("D11")
async def test_ever_new_forgeries_have_an_end(tmp_path: Path) -> None:
    async with (
        ScriptedRelay(Script(on_request=endless())) as old,
        ScriptedRelay(accept) as new,
    ):
        tally = await copy(tmp_path, new.url, old.url)
        assert not new.stored
    assert tally.found == 0
    assert tally.forged > 0


@pytest.mark.req("D11")
@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (closed("auth-required: who are you?"), "auth-required"),
        (never_stops, "would not stop"),
    ],
)
async def test_a_source_in_trouble_costs_only_its_own(
    tmp_path: Path, answer: Answer, said: str
) -> None:
    events = notes(10)
    async with (
        ScriptedRelay(Script(on_request=answer)) as bad,
        ScriptedRelay(accept) as good,
        ScriptedRelay(accept) as new,
    ):
        good.stored.update((event["id"], event) for event in events)
        tally = await copy(tmp_path, new.url, bad.url, good.url)
        assert set(new.stored) == ids(events)
    assert said in tally.troubles[f"{bad.url}/"]
    assert list(tally.troubles) == [f"{bad.url}/"]


@pytest.mark.req("D11", "B8")
@pytest.mark.usefixtures("impatient")
async def test_a_source_that_fails_in_the_middle_is_gone_on_with(tmp_path: Path) -> None:
    events = notes(700)
    async with ScriptedRelay(accept) as new, ScriptedRelay(accept) as old:
        old.stored.update((event["id"], event) for event in events)
        # Deletions: one page, empty. Events: one page, then trouble for as often as it is asked.
        old.script = Script(
            on_request=answers_in_turn(answer_stored, answer_stored, closed("error: tired"))
        )
        first = await copy(tmp_path, new.url, old.url)
        assert first.found == 500
        assert "tired" in first.troubles[f"{old.url}/"]
        old.script = Script()
        second = await copy(tmp_path, new.url, old.url)
        assert second.resumed
        assert second.found < 700
        assert set(new.stored) == ids(events)


@pytest.mark.req("D11")
async def test_a_second_that_a_source_cuts_short_is_named(tmp_path: Path) -> None:
    events = [*notes(3), *notes(700, apart=0, at=START + 5000)]

    async def at_most_500(client: Client, subscription: str, filters: list[dict[str, Any]]) -> None:
        for event in select(list(client.ledger.stored.values()), filters)[:500]:
            await client.send("EVENT", subscription, event)
        await client.send("EOSE", subscription)

    async with (
        ScriptedRelay(Script(on_request=at_most_500)) as old,
        ScriptedRelay(accept) as new,
    ):
        old.stored.update((event["id"], event) for event in events)
        tally = await copy(tmp_path, new.url, old.url)
        assert ids(events[:3]) <= set(new.stored)
        assert len(new.stored) == 503
    assert tally.gaps == {f"{old.url}/": [START + 5000]}


# -- speed and refusals ------------------------------------------------------------------------


@pytest.mark.req("D11")
async def test_the_rate_is_kept_and_refusals_are_counted(tmp_path: Path) -> None:
    clock = JumpingClock()
    handed: list[float] = []

    class Job:
        id = 1
        is_new = True
        state = JobState.SUPERSEDED

    async def hand_in(events: Any) -> list[Any]:
        handed.extend([clock.tick()] * len(events))
        return [CallerError("too large") if e.content == "note 0" else Job() for e in events]

    async with ScriptedRelay(accept) as old:
        for event in notes(60):
            old.stored[event["id"]] = event
        wanted = Copying(AUTHOR, "wss://new.example/", (f"{old.url}/",), rate=20.0)
        cursors = Cursors(tmp_path)
        work = Backfill(wanted, cursors, hand_in, lambda _url: None, clock)
        tally = await work.run()
    assert len(handed) == 60
    assert handed[-1] - handed[0] >= 1.9
    assert dict(tally.refused) == {"too large": 1}
    assert (tally.superseded, tally.jobs) == (59, {1})


@pytest.mark.req("C11", "D11")
@pytest.mark.usefixtures("impatient")
async def test_a_list_does_not_lead_inside(tmp_path: Path) -> None:
    async with ScriptedRelay(accept) as inside:
        async with outbox_in(tmp_path) as outbox:
            wanted = Copying(AUTHOR, "wss://new.example/", (f"{inside.url}/",))
            tally = await outbox.backfill(wanted, tmp_path / "backfill").run()
        assert inside.connections == 0
    assert "stranger's list" in tally.troubles[f"{inside.url}/"]
