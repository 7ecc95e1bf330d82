"""When the author's relay list goes along (D5), and plans that need no search."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from postrich.model.event import parse_event
from postrich.route.courtesy import Courtesy
from postrich.route.relay_lists import RelayLists
from postrich.route.router import Router
from postrich.sign.signer import Signers
from tests.deliver.neighbours import ALICE, ME, asked, indexer_of, note_to, relay_list, url_of
from tests.relays.events import Event, make_event, public_key
from tests.route.test_relay_lists import Finder, finder

A, B = "wss://a.example/", "wss://b.example/"
NOTE = "e" * 64


def signed(event: Event) -> bytes:
    return json.dumps(event).encode()


async def courtesy_of(finds: Finder, event: Event) -> Courtesy:
    await finds.lists.learn(parse_event(signed(event)))
    return Courtesy(finds.lists, finds.clock)


@pytest.mark.req("D5")
async def test_a_list_goes_once_to_each_relay_and_again_after_a_day(tmp_path: Path) -> None:
    async with finder(tmp_path) as finds:
        mine = relay_list(ME, write=[A], created_at=1_700_000_000)
        courtesy = await courtesy_of(finds, mine)
        me = public_key(ME)
        first = courtesy.frame_for(me, A, NOTE)
        assert first is not None
        assert (first[0], json.loads(first[1])) == (mine["id"], ["EVENT", mine])
        assert courtesy.frame_for(me, A, NOTE) is None
        assert courtesy.frame_for(me, B, NOTE) is not None
        finds.clock.ahead += 24 * 3600 - 1
        assert courtesy.frame_for(me, A, NOTE) is None
        finds.clock.ahead += 1
        assert courtesy.frame_for(me, A, NOTE) is not None
        newer = relay_list(ME, write=[B])
        await finds.lists.learn(parse_event(signed(newer)))
        found = courtesy.frame_for(me, A, NOTE)
        assert found is not None
        assert found[0] == newer["id"]


@pytest.mark.req("D5")
async def test_who_has_no_list_or_sends_it_himself_needs_no_courtesy(tmp_path: Path) -> None:
    async with finder(tmp_path) as finds:
        mine = relay_list(ME, write=[A])
        courtesy = await courtesy_of(finds, mine)
        assert courtesy.frame_for(public_key(ALICE), A, NOTE) is None
        assert courtesy.knock_for(public_key(ALICE)) is None
        assert courtesy.frame_for(public_key(ME), A, mine["id"]) is None
        assert courtesy.frame_for(public_key(ME), A, NOTE) is not None


async def test_memory_of_courtesies_has_an_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("postrich.route.courtesy.MAX_REMEMBERED", 2)
    async with finder(tmp_path) as finds:
        courtesy = await courtesy_of(finds, relay_list(ME, write=[A]))
        for number in range(5):
            assert courtesy.frame_for(public_key(ME), f"wss://r{number}.example/", NOTE)
        assert len(courtesy._sent) == 2


# -- the router ------------------------------------------------------------------------------------


def router(finds: Finder, lists: RelayLists) -> Router:
    return Router(lists._settings, lists, finds.store, Signers(1.0), finds.clock)


@pytest.mark.req("D1", "D10")
async def test_a_plan_is_made_at_once_when_all_is_known(tmp_path: Path) -> None:
    lists = relay_list(ME, write=[A]), relay_list(ALICE, read=[B])
    async with indexer_of(*lists) as indexer, finder(tmp_path, indexer) as finds:
        plans = router(finds, finds.lists)
        event = parse_event(signed(note_to(ALICE)))
        assert plans.plan_now(event) is None
        assert (await plans.plan_meanwhile(event)).targets == ()
        made = await plans.plan(event)
        assert {target.url for target in made.targets} == {A, B}
        count = len(asked(indexer))
        assert plans.plan_now(event) == made == await plans.plan_meanwhile(event)
        assert len(asked(indexer)) == count
        deletion = parse_event(signed(make_event(ME, 5, tags=[["e", NOTE]])))
        assert plans.plan_now(deletion) is None, "where originals went is in the store"


@pytest.mark.req("D1")
async def test_one_plan_serves_all_plain_notes_until_a_list_changes(tmp_path: Path) -> None:
    async with (
        indexer_of(relay_list(ME, write=[A], created_at=1)) as indexer,
        finder(tmp_path, indexer) as finds,
    ):
        plans = router(finds, finds.lists)
        one, two = (parse_event(signed(make_event(ME, content=text))) for text in "12")
        await plans.plan(one)
        first = plans.plan_now(one)
        assert plans.plan_now(two) is first
        finds.lists.on_changed = plans.forget
        await finds.lists.learn(parse_event(signed(relay_list(ME, write=[B]))))
        later = plans.plan_now(two)
        assert later is not None
        assert [target.url for target in later.targets] == [B]
        finds.clock.wall_ahead += 10
        assert plans.plan_now(one) is not later
        assert plans.plan_now(one) == later


@pytest.mark.req("D7")
async def test_relays_that_any_account_blocked_are_left_out(tmp_path: Path) -> None:
    blocked = make_event(ALICE, 10006, tags=[["relay", A]])
    async with (
        indexer_of(relay_list(ME, write=[A, B]), blocked) as indexer,
        finder(tmp_path, indexer) as finds,
    ):
        plans = router(finds, finds.lists)
        plans.owners = frozenset({public_key(ALICE)})
        event = parse_event(signed(make_event(ME)))
        made = await plans.plan(event)
        assert url_of(A) in {target.url for target in made.targets}, "it is on one's own list"
        other = parse_event(signed(make_event(ME, tags=[["p", public_key(ALICE)]])))
        found = relay_list(ALICE, read=[A])
        indexer.stored[found["id"]] = found
        plan = await plans.plan(other)
        assert all(not target.inbox_of for target in plan.targets)
