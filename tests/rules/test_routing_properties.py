"""What holds of every plan, whatever people list (C7, D7, D10)."""

import random

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from postrich.model.delivery import Target
from postrich.model.event import Draft
from postrich.rules.relay_lists import MESSAGES, RELAYS, Lookup, Status
from postrich.rules.routing import Budgets, Known, Plan, plan
from tests.rules.people import ME, event, nip65, relay, relays, simple

NAMES = [f"r{number}" for number in range(14)]
CROWD = [f"{number:064x}" for number in range(1, 9)]
FEWER = settings(max_examples=60)
SOME = st.lists(st.sampled_from(NAMES), max_size=8, unique=True)


@st.composite
def worlds(draw: st.DrawFn) -> Known:
    lists: dict[tuple[str, int], Lookup] = {}
    for pubkey in [ME, *CROWD]:
        status = draw(st.sampled_from(list(Status)))
        if status is Status.FOUND:
            read, write = " ".join(draw(SOME)), " ".join(draw(SOME))
            lists[pubkey, RELAYS] = nip65(pubkey, write, read)
            lists[pubkey, MESSAGES] = simple(pubkey, MESSAGES, read)
        else:
            lists[pubkey, RELAYS] = lists[pubkey, MESSAGES] = Lookup(status)
    small = st.integers(1, 4)
    return Known(
        own=tuple(relays(" ".join(draw(SOME)))),
        indexers=(relay("idx"),) if draw(st.booleans()) else (),
        pow_relay=draw(st.sampled_from([None, relay("pow"), relay(NAMES[0])])),
        lists=lists,
        blocked=frozenset(relays(" ".join(draw(SOME)))),
        originals=tuple(relays(" ".join(draw(SOME)))),
        rank=draw(st.dictionaries(st.sampled_from(relays(" ".join(NAMES))), st.floats(0, 1))),
        budgets=Budgets(fanout=draw(small), per_author=draw(small), messages=draw(small)),
    )


EVENTS = st.builds(
    lambda kind, people, mined: event(
        kind, *(["p", pubkey] for pubkey in people), *([["nonce", "1", "8"]] if mined else [])
    ),
    st.sampled_from([0, 1, 3, 5, 7, 1059, 9321, 10002, 30023]),
    st.lists(st.sampled_from(CROWD), max_size=8),
    st.booleans(),
)


def overrides(known: Known) -> set[str]:
    found = known.look(ME, RELAYS).found
    return set(found.relays if found is not None else ())


def inboxes_of(made: Plan) -> dict[str, list[Target]]:
    """For each recipient the targets that were chosen as an inbox of theirs."""
    people: dict[str, list[Target]] = {}
    for target in made.targets:
        for pubkey in target.inbox_of:
            people.setdefault(pubkey, []).append(target)
    return people


@pytest.mark.req("C7", "D7", "D10")
@FEWER
@given(EVENTS, worlds())
def test_no_plan_breaks_its_promises(note: Draft, known: Known) -> None:
    made = plan(note, known)
    urls = [target.url for target in made.targets]
    assert len(set(urls)) == len(urls)
    assert all(target.reason for target in made.targets)
    assert all(out.reason for out in made.left_out)
    assert not {out.url for out in made.left_out} & set(urls)
    assert not (made.refusal and made.targets)
    assert made.targets or made.refusal or made.unresolved
    for target in made.targets:
        if target.url in known.blocked:
            assert target.mine
            assert target.url in overrides(known)
            assert not target.inbox_of
    assert plan(note, known) == made


@pytest.mark.req("C7")
@FEWER
@given(st.lists(st.sampled_from(CROWD), max_size=8), worlds())
def test_a_note_keeps_to_its_budget_and_reaches_all_of_ones_own(
    people: list[str], known: Known
) -> None:
    made = plan(event(1, *(["p", pubkey] for pubkey in people)), known)
    urls = {target.url for target in made.targets}
    allowed = {url for url in known.own if url not in known.blocked or url in overrides(known)}
    assert allowed <= urls
    bought = [target for target in made.targets if not target.mine]
    assert len(bought) <= known.budgets.fanout
    for pubkey in people:
        served = inboxes_of(made).get(pubkey, [])
        if any(not target.mine and target.inbox_of == (pubkey,) for target in served):
            assert len(served) <= known.budgets.per_author, "none is bought for who has enough"


@pytest.mark.req("C7")
@FEWER
@given(worlds())
def test_nobody_gets_a_second_relay_while_another_could_have_a_first(known: Known) -> None:
    made = plan(event(1, *(["p", pubkey] for pubkey in CROWD)), known)
    served = inboxes_of(made)
    blocked = known.blocked
    for pubkey in CROWD:
        found = known.look(pubkey, RELAYS).found
        open_relays = [url for url in (found.read if found else ()) if url not in blocked]
        if not open_relays or pubkey in served:
            continue
        for target in made.targets:  # each that was bought is somebody's first
            if not target.mine:
                assert any(len(served[reader]) == 1 for reader in target.inbox_of)


@pytest.mark.req("D3")
@FEWER
@given(st.sampled_from(CROWD), st.booleans(), worlds())
def test_a_wrap_goes_to_message_relays_of_its_recipient_or_nowhere(
    pubkey: str, mined: bool, known: Known
) -> None:
    tags = [["p", pubkey], *([["nonce", "1", "8"]] if mined else [])]
    made = plan(event(1059, *tags), known)
    found = known.look(pubkey, MESSAGES).found
    assert {target.url for target in made.targets} <= set(found.relays if found else ())
    assert len(made.targets) <= known.budgets.messages


@pytest.mark.req("D10")
@FEWER
@given(EVENTS, worlds(), st.randoms())
def test_the_order_in_which_lists_were_learnt_does_not_matter(
    note: Draft, known: Known, chance: random.Random
) -> None:
    keys = list(known.lists)
    chance.shuffle(keys)
    again = msgspec.structs.replace(known, lists={key: known.lists[key] for key in keys})
    assert plan(note, again) == plan(note, known)
