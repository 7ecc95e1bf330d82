"""Repositories and polls, which name the relays for their answers (D9; NIP-34, NIP-88)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from postrich.rules.references import (
    ABOUT_CODE,
    POLL,
    REPOSITORY,
    Reference,
    reference_of,
    relays_named,
)
from postrich.rules.relay_lists import RELAYS
from postrich.rules.routing import Budgets, plan
from tests.rules.people import ALICE, ME, event, going, knowing, left, nip65, relay, relays

pytestmark = pytest.mark.req("D9")

REPO = f"{REPOSITORY}:{ALICE}:nostr"
ID = "e" * 64


@pytest.mark.parametrize("kind", ABOUT_CODE)
def test_what_is_about_code_names_its_repository(kind: int) -> None:
    found = reference_of(event(kind, ["p", ALICE], ["a", REPO, "hint.example"]))
    assert found == Reference(REPOSITORY, ALICE, "nostr", hints=(relay("hint"),))


def test_a_vote_names_its_poll() -> None:
    assert reference_of(event(1018, ["e", ID])) == Reference(POLL, event_id=ID)
    assert reference_of(event(1018, ["e", ID, "no url"])) == Reference(POLL, event_id=ID)


@pytest.mark.parametrize(
    ("kind", "tag"),
    [
        (1, ["a", REPO]),
        (1617, ["a"]),
        (1617, ["a", f"30618:{ALICE}:nostr"]),
        (1617, ["a", f"{REPOSITORY}:alice:nostr"]),
        (1617, ["e", ID]),
        (1018, ["e", "nonsense"]),
        (1018, ["e"]),
        (1, ["e", ID]),
    ],
)
def test_what_refers_to_neither(kind: int, tag: list[str]) -> None:
    assert reference_of(event(kind, tag)) is None


@given(st.lists(st.lists(st.text(max_size=80), min_size=1, max_size=4), max_size=5))
def test_no_tags_are_too_strange(tags: list[list[str]]) -> None:
    for kind in (1617, 1018):
        reference_of(event(kind, *tags))
    relays_named(Reference(REPOSITORY), tags)
    relays_named(Reference(POLL), tags)


def test_the_relays_that_they_name() -> None:
    tags = [["relays", "wss://a.example", "no url", "b.example"], ["relay", "wss://c.example"]]
    assert relays_named(Reference(REPOSITORY), tags) == tuple(relays("a b"))
    assert relays_named(Reference(POLL), tags) == (relay("c"),)


LISTS = {(ME, RELAYS): nip65(ME, write="w"), (ALICE, RELAYS): nip65(ALICE, read="ar")}


def test_an_answer_goes_there_too() -> None:
    patch = event(1617, ["a", REPO], ["p", ALICE])
    made = plan(patch, knowing(LISTS, referred=tuple(relays("r1 r2 w"))))
    assert going(made) == ["w", "r1", "r2", "ar"]
    assert made.targets[1].reason == "relay of its repository"
    assert made.targets[1].stranger
    vote = plan(event(1018, ["e", ID]), knowing(LISTS, referred=(relay("p"),)))
    assert going(vote) == ["w", "p"]
    assert vote.targets[1].reason == "relay of its poll"


@pytest.mark.req("C7", "D7")
def test_a_repository_with_many_relays_or_blocked_ones_is_bounded() -> None:
    many = tuple(relays(" ".join(f"r{n}" for n in range(10))))
    known = knowing(
        LISTS, referred=many, budgets=Budgets(fanout=3), blocked=frozenset(relays("r1"))
    )
    made = plan(event(1617, ["a", REPO]), known)
    assert going(made) == ["w", "r0", "r2"]
    assert left(made)["r1"].startswith("you have blocked it")
    assert "budget" in left(made)["r9"]


@pytest.mark.req("D11")
def test_what_could_not_be_looked_up_may_follow() -> None:
    made = plan(event(1617, ["a", REPO]), knowing(LISTS, referred=None))
    assert (going(made), made.unresolved) == (["w"], (ALICE,))
    vote = plan(event(1018, ["e", ID]), knowing(LISTS, referred=None))
    assert vote.unresolved == (ID,)
    assert plan(event(1), knowing(LISTS, referred=None)).unresolved == ()
