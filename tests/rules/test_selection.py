"""Selection: whom to ask where (D8), and whose inbox gets an event (C7), under a budget."""

import json
import random
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ortools.sat.python import cp_model

from bench.selection import network
from postrich.errors import BadSetting
from postrich.rules.selection import (
    CONSIDERED,
    MOST_CONNECTIONS,
    MOST_FANOUT,
    PER_PERSON,
    Fanout,
    LeftOut,
    RelayPlan,
    Why,
    cover,
    share,
)
from postrich.rules.trust import normalise_url

REAL_LISTS = Path(__file__).parents[3] / "shared" / "data" / "nip65_lists.jsonl"
DEAD_SHARE = 0.486

Lists = Mapping[str, Collection[str]]

reads = pytest.mark.req("D8")
writes = pytest.mark.req("C7")


def copies(plan: RelayPlan) -> Counter[str]:
    """How many relays each author is asked on."""
    return Counter(name for names in plan.assignments.values() for name in names)


def inboxes(fanout: Fanout) -> Counter[str]:
    """How many inbox relays of each recipient get the event."""
    return Counter(name for names in fanout.chosen.values() for name in names)


def added(relays: Collection[str], own: Collection[str]) -> list[str]:
    return [relay for relay in relays if relay not in own]


def at_least(counts: Mapping[str, int], per_person: int) -> tuple[int, ...]:
    """How many have one relay, how many two, and so on."""
    return tuple(
        sum(count >= wanted for count in counts.values()) for wanted in range(1, per_person + 1)
    )


# --- reading: cases ---


@reads
def test_the_budgets_are_those_of_the_source_document() -> None:
    assert (MOST_CONNECTIONS, PER_PERSON, MOST_FANOUT) == (8, 2, 6)


@reads
def test_nobody_has_a_list() -> None:
    plan = cover({"bob": [], "ann": ()}, own=["b", "a"])
    assert plan == RelayPlan({}, fallback=("ann", "bob"), hubs=("a", "b"))
    assert plan.total == 2
    assert cover({}) == RelayPlan({}, (), ())


@reads
def test_all_on_the_same_relay() -> None:
    plan = cover({name: ["a"] for name in "321"})
    assert plan == RelayPlan({"a": ("1", "2", "3")}, (), ())
    assert plan.total == 1


@reads
def test_one_connection_goes_where_it_reaches_most() -> None:
    plan = cover({"1": ["a", "b"], "2": ["b"], "3": ["b", "c"], "4": ["c"]}, most=1)
    assert plan == RelayPlan({"b": ("1", "2", "3")}, fallback=("4",), hubs=())


@reads
def test_no_connection_at_all_leaves_the_hubs() -> None:
    plan = cover({"1": ["a", "own"], "2": ["a"]}, own=["own"], most=0)
    assert plan == RelayPlan({"own": ("1",)}, fallback=("2",), hubs=("own",))


@reads
def test_blocked_relays_are_never_dialled() -> None:
    plan = cover({"1": ["a", "bad"], "2": ["bad"]}, blocked={"bad", "unheard of"})
    assert plan == RelayPlan({"a": ("1",)}, fallback=("2",), hubs=())


@reads
@pytest.mark.req("D7")
def test_a_blocked_relay_of_ones_own_is_no_hub_for_others() -> None:
    plan = cover({"1": ["own", "a"], "2": ["own"]}, own=["own"], blocked=["own"])
    assert plan == RelayPlan({"a": ("1",)}, fallback=("2",), hubs=())


@reads
def test_the_set_is_as_small_as_it_can_be() -> None:
    lists = {"1": ["big", "x"], "2": ["big", "x"], "3": ["big", "y"], "4": ["big", "y"]}
    assert set(cover(lists, per_author=1).assignments) == {"big"}
    assert set(cover(lists).assignments) == {"big", "x", "y"}


@reads
def test_a_relay_that_later_ones_made_needless_is_dropped() -> None:
    lists = {"0": "ab", "1": "d", "2": "de", "3": "ad", "4": "b"}
    lists |= {"5": "be", "6": "ac", "7": "cf", "8": "cef", "9": "ab"}
    plan = cover(lists, per_author=1)
    assert plan.assignments == {"b": tuple("0459"), "c": tuple("678"), "d": tuple("123")}


@reads
def test_relays_are_exchanged_where_the_greedy_choice_was_a_mistake() -> None:
    lists = {"1": "ab", "2": "ab", "3": "ac", "4": "ac", "5": "b", "6": "c"}
    plan = cover(lists, most=2, per_author=1)
    assert plan.assignments == {"c": ("3", "4", "6"), "b": ("1", "2", "5")}
    assert plan.fallback == ()


@reads
def test_one_exchange_may_lead_to_another() -> None:
    lists = {"0": "d", "1": "b", "2": "ad", "3": "ae", "4": "bc"}
    lists |= {"5": "abc", "6": "e", "7": "acd", "8": "cd"}
    plan = cover(lists, most=3, per_author=1)
    assert set(plan.assignments) == {"b", "d", "e"}
    assert plan.fallback == ()


@reads
def test_a_relay_that_was_exchanged_away_may_come_back() -> None:
    lists = {"0": "b", "1": "cd", "2": "b", "3": "c", "4": "a", "5": "ab", "6": "ac"}
    plan = cover(lists, most=3, per_author=1)
    assert set(plan.assignments) == {"a", "b", "c"}
    assert plan.fallback == ()


@reads
def test_hubs_cost_nothing_and_come_first() -> None:
    lists = {"1": ["h1", "h2", "a"], "2": ["h1", "a"], "3": ["a", "b"]}
    plan = cover(lists, own=["h2", "h1", "h3"], most=1)
    assert plan.assignments == {"h1": ("1", "2"), "h2": ("1",), "a": ("2", "3")}
    assert plan.hubs == ("h1", "h2", "h3")
    assert plan.total == 4
    assert plan.fallback == ()


@reads
def test_a_first_relay_for_one_comes_before_second_ones_for_many() -> None:
    lists = {"1": ["a", "b"], "2": ["a", "b"], "3": ["a", "b"], "4": ["c"]}
    assert set(cover(lists, most=2).assignments) == {"a", "c"}
    assert set(cover(lists, most=3).assignments) == {"a", "b", "c"}


@reads
@pytest.mark.req("C10")
def test_ties_go_to_the_popular_then_the_healthy_then_by_url() -> None:
    popular = {"1": ["a", "b"], "2": ["b", "own"]}
    assert cover(popular, own=["own"], most=1, per_author=1).assignments["b"] == ("1",)
    even = {"1": ["a", "b", "c"]}
    assert list(cover(even, most=1).assignments) == ["a"]
    assert list(cover(even, most=1, health={"a": 0.4}).assignments) == ["b"]
    assert list(cover(even, most=1, health={"c": 0.9}).assignments) == ["c"]
    assert list(cover(even, most=1, health={"b": 0.5, "c": 0.5}).assignments) == ["a"]


@reads
@pytest.mark.req("C10")
def test_of_the_relays_that_could_serve_an_author_the_healthy_and_the_small_do() -> None:
    lists = {"1": "abc", "2": "a", "3": "b", "4": "c", "5": "a"}
    assert copies(cover(lists)) == {"1": 2, "2": 1, "3": 1, "4": 1, "5": 1}
    assert "1" not in cover(lists).assignments["a"]
    assert "1" not in cover(lists, health={"c": 0.1}).assignments["c"]


@reads
def test_a_relay_named_twice_counts_once() -> None:
    plan = cover({"1": ["a", "a", "a"], "2": ["b"], "3": ["b"]}, most=1)
    assert plan.assignments == {"b": ("2", "3")}


@reads
@pytest.mark.req("C7")
def test_a_hostile_list_of_thirty_relays_brings_no_more_than_any_other() -> None:
    hostile = [f"wss://{number}.hostile.example/" for number in range(30)]
    plan = cover({"bad": hostile})
    assert copies(plan) == {"bad": 2}
    assert plan.total == 2
    friends = {f"friend {number}": ["a", "b", "c"] for number in range(5)}
    plan = cover({"bad": [*hostile, "c"], **friends})
    assert len(added(plan.assignments, "abc")) <= 1
    assert max(copies(plan).values()) == 2


@reads
def test_only_the_most_popular_relays_of_a_list_are_considered() -> None:
    lists = {"long": [f"r{number}" for number in range(20)]}
    lists |= {f"{number} {fan}": [f"r{number}"] for number in range(19) for fan in range(2)}
    served = [
        relay for relay, names in cover(lists, most=20).assignments.items() if "long" in names
    ]
    assert set(served) < set(sorted(f"r{number}" for number in range(19))[:CONSIDERED])
    wide = cover(lists, most=20, per_author=CONSIDERED + 2)
    assert copies(wide)["long"] == CONSIDERED + 2


@reads
@pytest.mark.parametrize(("people", "relays"), [(500, 300), (2_000, 800)])
def test_large_follow_graphs_stay_within_the_budget(people: int, relays: int) -> None:
    lists = network(3, people, relays)
    own = ["wss://relay0.example/", "wss://relay7.example/"]
    plan = cover(lists, own=own)
    assert len(added(plan.assignments, own)) == 8
    assert plan.total == 10
    assert set(copies(plan)) | set(plan.fallback) == set(lists)
    known = sum(bool(urls) for urls in lists.values())
    assert len(copies(plan)) > 0.8 * known


@reads
@pytest.mark.parametrize(("most", "per_author"), [(-1, 2), (8, 0)])
def test_impossible_budgets_are_refused(most: int, per_author: int) -> None:
    with pytest.raises(BadSetting, match="relays"):
        cover({"1": ["a"]}, most=most, per_author=per_author)
    with pytest.raises(BadSetting, match="relays"):
        share([], {"1": ["a"]}, most=most, per_recipient=per_author)


# --- reading: properties ---

RELAYS = [f"wss://{letter}.example/" for letter in "abcdefghij"]
relay_sets = st.sets(st.sampled_from(RELAYS), max_size=4)
people_lists = st.dictionaries(
    st.sampled_from([f"p{number}" for number in range(12)]),
    st.lists(st.sampled_from(RELAYS), max_size=CONSIDERED),
    max_size=12,
)
budgets = st.integers(0, 5)
per_person = st.integers(1, 3)
health_figures = st.dictionaries(st.sampled_from(RELAYS), st.floats(0, 1))


@reads
@given(people_lists, relay_sets, relay_sets, budgets, per_person, health_figures)
def test_a_plan_keeps_every_promise(
    lists: dict[str, list[str]],
    own: set[str],
    blocked: set[str],
    most: int,
    per_author: int,
    health: dict[str, float],
) -> None:
    plan = cover(lists, own=own, blocked=blocked, most=most, per_author=per_author, health=health)
    counts = copies(plan)
    assert len(added(plan.assignments, own)) <= most
    assert all(count <= per_author for count in counts.values())
    assert not blocked & {*plan.assignments, *plan.hubs}
    assert set(plan.hubs) == own - blocked
    assert plan.total == len(plan.assignments.keys() | own - blocked)
    for relay, names in plan.assignments.items():
        assert names
        assert list(names) == sorted(set(names))
        assert all(relay in lists[name] for name in names)
    assert set(plan.fallback) == lists.keys() - counts.keys()
    assert list(plan.fallback) == sorted(plan.fallback)
    for name, urls in lists.items():
        free = len(own & set(urls) - blocked)
        assert counts[name] >= min(free, per_author)


@reads
@given(people_lists, relay_sets, budgets, per_person, health_figures, st.randoms())
def test_the_order_of_the_lists_does_not_matter(
    lists: dict[str, list[str]],
    own: set[str],
    most: int,
    per_author: int,
    health: dict[str, float],
    chance: random.Random,
) -> None:
    shuffled = {
        name: chance.sample(lists[name], len(lists[name]))
        for name in chance.sample(sorted(lists), len(lists))
    }
    plans = [
        cover(given_lists, own=hubs, most=most, per_author=per_author, health=health)
        for given_lists, hubs in ((lists, sorted(own)), (shuffled, sorted(own, reverse=True)))
    ]
    assert plans[0] == plans[1]
    assert list(plans[0].assignments) == list(plans[1].assignments)


@reads
@given(people_lists, relay_sets, per_person)
def test_more_connections_never_serve_fewer(
    lists: dict[str, list[str]], own: set[str], per_author: int
) -> None:
    served = [
        at_least(copies(cover(lists, own=own, most=most, per_author=per_author)), per_author)
        for most in range(len(RELAYS) + 1)
    ]
    assert served == sorted(served)
    fully = Counter({name: min(len(set(urls)), per_author) for name, urls in lists.items()})
    assert served[-1] == at_least(fully, per_author)


@reads
@given(people_lists, relay_sets, budgets)
def test_no_relay_is_needless_and_no_single_exchange_reaches_more(
    lists: dict[str, list[str]], own: set[str], most: int
) -> None:
    plan = cover(lists, own=own, most=most)
    chosen = {*plan.assignments, *own}
    reached = reach(lists, chosen)
    for relay in added(plan.assignments, own):
        assert reach(lists, chosen - {relay}) < reached
        for other in RELAYS:
            assert reach(lists, chosen - {relay} | {other}) <= reached


def reach(lists: Lists, chosen: set[str]) -> tuple[int, ...]:
    """How many have one, and how many two, of these relays on their list."""
    return at_least({name: len(chosen & set(urls)) for name, urls in lists.items()}, PER_PERSON)


@reads
@given(people_lists, relay_sets, health_figures)
def test_the_first_pick_is_the_one_that_looking_at_all_would_find(
    lists: dict[str, list[str]], own: set[str], health: dict[str, float]
) -> None:
    plan = cover(lists, own=own, most=1, health=health)

    def preference(relay: str) -> tuple[Any, ...]:
        gains = reach(lists, {*own, relay})
        votes = sum(relay in urls for urls in lists.values())
        return (*(-count for count in gains), -votes, -health.get(relay, 0.5), relay)

    best = min(added(RELAYS, own), key=preference)
    useful = reach(lists, {*own, best}) > reach(lists, own)
    assert added(plan.assignments, own) == ([best] if useful else [])


# --- reading: against the optimum ---


def most_reachable(lists: Lists, most: int) -> float:
    """A proven bound on how many authors any `most` relays can reach."""
    model = cp_model.CpModel()
    taken = {url: model.new_bool_var(url) for url in sorted(set().union(*lists.values()))}
    reached = []
    for name, urls in lists.items():
        reached.append(model.new_bool_var(name))
        model.add_bool_or([taken[url] for url in set(urls)]).only_enforce_if(reached[-1])
    model.add(sum(taken.values()) <= most)
    model.maximize(sum(reached))
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.linearization_level = 2
    solver.parameters.max_time_in_seconds = 20
    solver.solve(model)
    return solver.best_objective_bound


def without(lists: Lists, blocked: set[str]) -> dict[str, list[str]]:
    return {name: [url for url in urls if url not in blocked] for name, urls in lists.items()}


@reads
@pytest.mark.parametrize(("people", "relays", "circles"), [(300, 200, 6), (400, 120, 30)])
@pytest.mark.parametrize("seed", range(6))
def test_generated_networks_are_covered_within_1_percent_of_the_optimum(
    people: int, relays: int, circles: int, seed: int
) -> None:
    lists = network(seed, people, relays, circles)
    chance = random.Random(seed)
    dead = {f"wss://relay{n}.example/" for n in range(relays) if chance.random() < DEAD_SHARE}
    for blocked, most in product((set(), dead), (3, 8)):
        plan = cover(lists, blocked=blocked, most=most)
        bound = most_reachable(without(lists, blocked), most)
        assert len(copies(plan)) >= 0.99 * bound


def real_lists() -> dict[str, list[str]]:
    """The write relays of real kind-10002 events, where these are at hand; else made-up ones."""
    if not REAL_LISTS.exists():
        return without(network(9, 100, 150), set())
    lists: dict[str, list[str]] = {}
    for line in REAL_LISTS.read_text("utf-8").splitlines():
        event = json.loads(line)
        lists[event["pubkey"]] = write_relays(event["tags"])
    return lists


def write_relays(tags: Sequence[Sequence[str]]) -> list[str]:
    urls = []
    for tag in tags:
        if tag[:1] == ["r"] and len(tag) > 1 and tag[2:3] != ["read"]:
            try:
                urls.append(normalise_url(tag[1]))
            except BadSetting:
                continue
    return urls


@reads
@pytest.mark.parametrize("most", [1, 2, 3, 5, 8])
def test_real_lists_are_covered_as_well_as_they_can_be(most: int) -> None:
    lists = real_lists()
    assert len(copies(cover(lists, most=most))) >= 0.99 * most_reachable(lists, most)
    dead = set(sorted(set().union(*lists.values()))[::2])
    plan = cover(lists, blocked=dead, most=most)
    assert len(copies(plan)) >= 0.99 * most_reachable(without(lists, dead), most)


# --- writing: cases ---


@writes
def test_own_relays_are_all_kept_whatever_the_budget() -> None:
    own = [f"own{number}" for number in range(9)]
    fanout = share(own, {"ann": ["a"]}, most=1)
    assert list(fanout.chosen) == [*own, "a"]
    assert share(own, {"ann": ["a"]}, most=0).unreached == ("ann",)
    assert list(share(["b", "a", "b"], {}).chosen) == ["b", "a"]


@writes
def test_everybody_gets_a_first_relay_before_anybody_gets_a_second() -> None:
    lists = {"ann": ["a1", "a2"], "bob": ["b1", "b2"], "cat": ["c1", "c2"]}
    assert inboxes(share([], lists, most=3)) == {"ann": 1, "bob": 1, "cat": 1}
    assert inboxes(share([], lists, most=4)) == {"ann": 2, "bob": 1, "cat": 1}
    assert inboxes(share([], lists, most=9)) == {"ann": 2, "bob": 2, "cat": 2}


@writes
def test_a_relay_that_serves_several_takes_one_place() -> None:
    lists = {"ann": ["a", "shared"], "bob": ["b", "shared"], "cat": ["c"]}
    fanout = share([], lists, most=2)
    assert fanout.chosen == {"shared": ("ann", "bob"), "c": ("cat",)}
    assert fanout.left_out == {
        "a": LeftOut(("ann",), Why.BUDGET),
        "b": LeftOut(("bob",), Why.BUDGET),
    }
    assert fanout.unreached == ()


@writes
def test_own_relays_that_are_somebodys_inbox_count_as_such() -> None:
    lists = {"ann": ["own1", "own2", "a"], "bob": ["own1", "b1", "b2"]}
    fanout = share(["own2", "own1"], lists, most=1)
    assert fanout.chosen == {"own2": ("ann",), "own1": ("ann", "bob"), "b1": ("bob",)}
    assert fanout.left_out == {
        "a": LeftOut(("ann",), Why.ENOUGH_OTHERS),
        "b2": LeftOut(("bob",), Why.ENOUGH_OTHERS),
    }


@writes
def test_who_gets_nothing_is_named_and_what_was_left_out_says_why() -> None:
    lists = {"ann": ["a"], "bob": ["b"], "nil": []}
    fanout = share(["own"], lists, most=1)
    assert fanout.chosen == {"own": (), "a": ("ann",)}
    assert fanout.left_out == {"b": LeftOut(("bob",), Why.BUDGET)}
    assert fanout.unreached == ("bob", "nil")
    assert [str(why) for why in Why] == ["budget", "enough others", "blocked"]


@writes
@pytest.mark.req("D7")
def test_a_blocked_relay_is_nobodys_inbox_but_may_be_ones_own() -> None:
    lists = {"ann": ["bad", "own"], "bob": ["bad", "b"]}
    fanout = share(["own"], lists, blocked=["own", "bad", "unheard of"])
    assert fanout.chosen == {"own": (), "b": ("bob",)}
    assert fanout.left_out == {"bad": LeftOut(("ann", "bob"), Why.BLOCKED)}
    assert fanout.unreached == ("ann",)


@writes
def test_a_place_that_became_needless_goes_to_who_has_none() -> None:
    lists = {"1": "ab", "2": "ab", "3": "ac", "4": "ac", "5": "b", "6": "c", "7": "d"}
    fanout = share([], lists, most=3, per_recipient=1)
    assert set(fanout.chosen) == {"b", "c", "d"}
    assert fanout.unreached == ()


@writes
@pytest.mark.req("C10")
def test_the_healthier_inbox_is_preferred() -> None:
    lists = {"ann": ["a", "b", "c"]}
    fanout = share([], lists, most=1, health={"a": 0.2, "b": 0.9})
    assert list(fanout.chosen) == ["b"]


@writes
def test_a_hostile_inbox_list_gets_no_more_than_others() -> None:
    lists = {"bad": [f"h{number}" for number in range(30)], "ann": ["a1", "a2"]}
    assert inboxes(share(["own"], lists)) == {"bad": 2, "ann": 2}
    assert inboxes(share(["own"], lists, most=2)) == {"bad": 1, "ann": 1}


# --- writing: properties ---

inbox_lists = st.dictionaries(
    st.sampled_from([f"p{number}" for number in range(8)]),
    st.lists(st.sampled_from(RELAYS)),
    max_size=8,
)


@writes
@given(inbox_lists, relay_sets, relay_sets, budgets, per_person, health_figures)
def test_a_fanout_keeps_every_promise(
    lists: dict[str, list[str]],
    own: set[str],
    blocked: set[str],
    most: int,
    per_recipient: int,
    health: dict[str, float],
) -> None:
    fanout = share(
        sorted(own),
        lists,
        blocked=blocked,
        most=most,
        per_recipient=per_recipient,
        health=health,
    )
    counts = inboxes(fanout)
    extra = added(fanout.chosen, own)
    assert list(fanout.chosen)[: len(own)] == sorted(own)
    assert len(extra) <= most
    assert not blocked & set(extra)
    assert all(fanout.chosen[relay] for relay in extra)
    for relay, names in fanout.chosen.items():
        assert names == (() if relay in blocked else listing(lists, relay))
    for name in lists:
        for_them_alone = [relay for relay in extra if fanout.chosen[relay] == (name,)]
        assert len(for_them_alone) <= per_recipient
    assert fanout.unreached == tuple(sorted(name for name in lists if not counts[name]))
    assert fanout.left_out.keys() == set().union(*lists.values()) - fanout.chosen.keys()
    for relay, left in fanout.left_out.items():
        assert left.recipients == listing(lists, relay)
        assert (left.why is Why.BLOCKED) == (relay in blocked)
        if relay not in blocked:
            enough = all(counts[name] >= per_recipient for name in left.recipients)
            assert left.why is (Why.ENOUGH_OTHERS if enough else Why.BUDGET)
            assert enough or len(extra) == most


def listing(lists: Lists, relay: str) -> tuple[str, ...]:
    """Who has this relay on their list."""
    return tuple(sorted(name for name, urls in lists.items() if relay in urls))


@writes
@given(inbox_lists, relay_sets, budgets, per_person)
def test_nobody_gets_one_more_while_another_could_still_get_as_many(
    lists: dict[str, list[str]], own: set[str], most: int, per_recipient: int
) -> None:
    fanout = share(sorted(own), lists, most=most, per_recipient=per_recipient)
    counts = inboxes(fanout)
    poor = [
        counts[name]
        for left in fanout.left_out.values()
        for name in left.recipients
        if counts[name] < per_recipient
    ]
    for relay in added(fanout.chosen, own):
        poorest_served = min(counts[name] for name in fanout.chosen[relay])
        assert all(poorest_served <= count + 1 for count in poor)


@writes
@given(inbox_lists, relay_sets, per_person, st.randoms())
def test_a_larger_budget_never_serves_fewer_and_order_does_not_matter(
    lists: dict[str, list[str]], own: set[str], per_recipient: int, chance: random.Random
) -> None:
    shuffled = {name: lists[name][::-1] for name in chance.sample(sorted(lists), len(lists))}
    served = []
    for most in range(len(RELAYS) + 1):
        fanout = share(sorted(own), lists, most=most, per_recipient=per_recipient)
        again = share(sorted(own), shuffled, most=most, per_recipient=per_recipient)
        assert again == fanout
        assert list(again.chosen) == list(fanout.chosen)
        served.append(at_least(inboxes(fanout), per_recipient))
    assert served == sorted(served)
