"""Which relays must have an event, each with its reason (D2–D4, D7, D9, D10, C7)."""

import pytest

from postrich.errors import BadSetting
from postrich.model.delivery import Target
from postrich.rules.relay_lists import (
    BLOCKED,
    DRAFTS,
    GROUPS,
    MESSAGES,
    NUTZAPS,
    RELAYS,
    UNKNOWN,
    Lookup,
)
from postrich.rules.routing import (
    INDEX,
    MAX_RECIPIENTS,
    MINED,
    NAMED,
    ORIGINAL,
    OWN,
    PRIVATE,
    UNFINISHED,
    WRITE,
    Budgets,
    Plan,
    fixed_plan,
    hints_of,
    kin_of,
    needs,
    plan,
    recipients_of,
    with_pow_relay,
)
from tests.rules.people import (
    ALICE,
    BOB,
    CAROL,
    ME,
    NONE,
    event,
    going,
    knowing,
    left,
    listed,
    nip65,
    relay,
    relays,
    simple,
    where,
)

# -- without lists --------------------------------------------------------------------------------


@pytest.mark.req("D10")
def test_named_relays_come_before_ones_own() -> None:
    named, own = ["wss://a.example"], ["wss://b.example"]
    assert fixed_plan(named, own) == (Target("wss://a.example/", NAMED),)
    assert fixed_plan([], own) == (Target("wss://b.example/", OWN, mine=True),)


@pytest.mark.req("D10")
def test_one_relay_is_one_target_in_the_order_given() -> None:
    named = ["wss://b.example", "a.example", "WSS://B.example:443/", "wss://a.example/path"]
    assert [target.url for target in fixed_plan(named, [])] == [
        "wss://b.example/",
        "wss://a.example/",
        "wss://a.example/path",
    ]


def test_iterators_are_taken_too() -> None:
    found = fixed_plan(iter(()), iter(["a.example"]))
    assert found == (Target("wss://a.example/", OWN, mine=True),)


@pytest.mark.req("D10")
def test_no_relay_at_all_is_refused_with_what_to_do() -> None:
    with pytest.raises(BadSetting, match="name one for this event or configure your own"):
        fixed_plan([], [])


@pytest.mark.req("D10")
def test_a_bad_url_is_named() -> None:
    with pytest.raises(BadSetting, match="ftp"):
        fixed_plan(["ftp://a.example"], [])


@pytest.mark.req("A14")
def test_a_mined_event_goes_to_the_relay_for_mined_events_too() -> None:
    one = (Target(relay("a"), NAMED),)
    mined = (("nonce", "1", "20"),)
    assert with_pow_relay(one, mined, relay("p")) == (*one, Target(relay("p"), MINED))
    assert with_pow_relay(one, mined, None) == one
    assert with_pow_relay(one, (), relay("p")) == one
    assert with_pow_relay(one, mined, relay("a")) == one


# -- by event class -------------------------------------------------------------------------------

WORLD = knowing(
    {
        (ME, RELAYS): nip65(ME, write="w1 w2", read="mine-only-to-read"),
        (ALICE, RELAYS): nip65(ALICE, write="aw", read="ar1 ar2"),
        (BOB, RELAYS): nip65(BOB, write="bw", read="br1"),
        (ALICE, MESSAGES): simple(ALICE, MESSAGES, "adm1 adm2"),
        (ME, MESSAGES): simple(ME, MESSAGES, "mydm"),
        (ALICE, NUTZAPS): simple(ALICE, NUTZAPS, "anz"),
        (ME, GROUPS): NONE,
    },
    own=(relay("own"),),
    indexers=(relay("idx"),),
    pow_relay=relay("pow"),
    originals=(relay("gone"),),
)
TO_ALICE, TO_BOB = ["p", ALICE], ["p", BOB]
NOTE = "own w1 w2"

CLASSES = {
    "a note": (1, [], NOTE),
    "a note with a hashtag": (1, [["t", "ostrich"]], NOTE),
    "a mention": (1, [TO_ALICE], f"{NOTE} ar1 ar2"),
    "a reply to two": (1, [["e", "e" * 64, "", "root"], TO_ALICE, TO_BOB], f"{NOTE} ar1 br1 ar2"),
    "a reaction": (7, [["e", "e" * 64], TO_ALICE], f"{NOTE} ar1 ar2"),
    "a repost": (6, [["e", "e" * 64, relay("x")], TO_BOB], f"{NOTE} br1"),
    "a generic repost": (16, [["e", "e" * 64], TO_BOB, ["k", "30023"]], f"{NOTE} br1"),
    "a comment": (1111, [["P", ALICE], TO_BOB], f"{NOTE} ar1 br1 ar2"),
    "an article with a mention": (30023, [["d", "x"], TO_BOB], f"{NOTE} br1"),
    "to oneself only": (1, [["p", ME]], NOTE),
    "to somebody without a list": (1, [["p", CAROL]], NOTE),
    "a p tag that is no key": (1, [["p", "alice"], ["p"], ["p", "A1" * 32]], NOTE),
    "a profile": (0, [], f"{NOTE} idx"),
    "follows are not spoken to": (3, [TO_ALICE, TO_BOB], f"{NOTE} idx"),
    "nor are the muted": (10000, [TO_ALICE], NOTE),
    "nor those in a set": (30000, [["d", "friends"], TO_ALICE], NOTE),
    "a relay list goes where it says": (10002, [["r", "new.example"]], f"{NOTE} new idx"),
    "message relays": (10050, [["relay", "new.example"]], f"{NOTE} idx"),
    "a deletion": (5, [["e", "e" * 64], TO_ALICE], f"{NOTE} gone"),
    "vanishing everywhere": (62, [["relay", "ALL_RELAYS"]], f"{NOTE} gone"),
    "vanishing from some": (62, [["relay", "x.example"], ["relay", "not one"]], "x"),
    "a gift wrap": (1059, [TO_ALICE], "adm1 adm2"),
    "an ephemeral wrap": (21059, [TO_ALICE], "adm1 adm2"),
    "the sender's own copy": (1059, [["p", ME]], "mydm"),
    "a nutzap": (9321, [TO_ALICE], f"{NOTE} anz"),
    "a group's event": (9, [["h", "pizza", "wss://group.example"], TO_ALICE], "group"),
    "a mined note": (1, [["nonce", "1", "20"]], f"{NOTE} pow"),
    "a mined mention": (1, [["nonce", "1", "20"], TO_BOB], f"{NOTE} pow br1"),
    "a mined wrap": (1059, [["nonce", "1", "20"], TO_ALICE], "adm1 adm2"),
    "a mined group's event": (9, [["h", "x", "g.example"], ["nonce", "1", "20"]], "g"),
}


@pytest.mark.req("D2", "D3", "D9")
@pytest.mark.parametrize(("kind", "tags", "expected"), CLASSES.values(), ids=CLASSES.keys())
def test_where_each_class_of_event_goes(kind: int, tags: list[list[str]], expected: str) -> None:
    found = where(kind, *tags, known=WORLD)
    assert sorted(found.split()) == sorted(expected.split())
    assert found.split()[: len(NOTE.split())] == expected.split()[: len(NOTE.split())]


def reasons(made: Plan) -> dict[str, str]:
    return dict(zip(going(made), (target.reason for target in made.targets), strict=True))


@pytest.mark.req("D10")
def test_every_relay_has_its_reason() -> None:
    found = reasons(plan(event(1, TO_ALICE, ["nonce", "1", "20"]), WORLD))
    assert found == {
        "own": OWN,
        "w1": WRITE,
        "w2": WRITE,
        "pow": MINED,
        "ar1": "inbox of a1a1a1a1…",
        "ar2": "inbox of a1a1a1a1…",
    }
    assert reasons(plan(event(0), WORLD))["idx"] == INDEX
    assert reasons(plan(event(5, ["e", "e" * 64]), WORLD))["gone"] == ORIGINAL
    assert reasons(plan(event(1059, TO_ALICE), WORLD))["adm1"] == "message relay of a1a1a1a1…"


@pytest.mark.req("D10")
def test_a_relay_that_many_read_names_some_of_them() -> None:
    crowd = [f"{number:064x}" for number in range(1, 6)]
    lists = {(pubkey, RELAYS): nip65(pubkey, read="hub") for pubkey in crowd}
    made = plan(event(1, *(["p", pubkey] for pubkey in crowd)), knowing(lists))
    [hub] = made.targets
    assert hub.reason == "inbox of 00000000…, 00000000…, 00000000… and 2 more"
    assert hub.inbox_of == tuple(crowd)


@pytest.mark.req("D12")
def test_who_reads_at_a_relay_of_mine_is_noted_there() -> None:
    lists = {(ALICE, RELAYS): nip65(ALICE, read="own ar")}
    made = plan(event(1, TO_ALICE), knowing(lists, own=(relay("own"),)))
    own, inbox = made.targets
    assert (own.reason, own.mine, own.inbox_of) == (OWN, True, (ALICE,))
    assert (inbox.mine, inbox.inbox_of) == (False, (ALICE,))


@pytest.mark.req("C11")
def test_only_what_the_owner_named_is_trusted() -> None:
    made = plan(event(0, TO_ALICE, ["nonce", "1", "1"]), WORLD)
    strangers = {target.url for target in made.targets if target.stranger}
    assert strangers == set(relays("w1 w2 ar1 ar2"))
    for kind, tag in ((1059, TO_ALICE), (9, ["h", "g", "g.example"]), (62, ["relay", "x.example"])):
        assert all(target.stranger for target in plan(event(kind, tag), WORLD).targets)


@pytest.mark.req("C11")
@pytest.mark.parametrize(
    ("kind", "tag"),
    [(1059, TO_ALICE), (9, ["h", "g", "own.example"]), (62, ["relay", "own.example"])],
)
def test_what_the_owner_named_is_trusted_wherever_it_is_named_again(
    kind: int, tag: list[str]
) -> None:
    lists = {(ALICE, MESSAGES): simple(ALICE, MESSAGES, "own")}
    [target] = plan(event(kind, tag), knowing(lists, own=(relay("own"),))).targets
    assert (target.url, target.stranger) == (relay("own"), False)


# -- drafts (NIP-37) -------------------------------------------------------------------------------


@pytest.mark.req("D9")
@pytest.mark.parametrize("kind", UNFINISHED)
def test_drafts_go_to_ones_private_relays_alone(kind: int) -> None:
    lists = {(ME, RELAYS): nip65(ME, write="w"), (ME, DRAFTS): simple(ME, DRAFTS, "d1 d2")}
    made = plan(event(kind, TO_ALICE), knowing(lists, own=(relay("own"),)))
    assert going(made) == ["d1", "d2"]
    assert {target.reason for target in made.targets} == {PRIVATE}
    assert all(target.mine for target in made.targets)
    assert (ME, DRAFTS) in needs(event(kind))
    assert (ALICE, RELAYS) not in needs(event(kind, TO_ALICE))


@pytest.mark.req("D9")
@pytest.mark.parametrize("found", [NONE, simple(ME, DRAFTS, ""), UNKNOWN])
def test_without_private_relays_they_go_where_all_else_is(found: Lookup) -> None:
    lists = {(ME, RELAYS): nip65(ME, write="w"), (ME, DRAFTS): found}
    assert going(plan(event(31234), knowing(lists, own=(relay("own"),)))) == ["own", "w"]


@pytest.mark.req("D9")
def test_the_list_of_private_relays_goes_to_ones_write_relays() -> None:
    known = knowing({(ME, RELAYS): nip65(ME, write="w")}, indexers=(relay("idx"),))
    assert going(plan(event(DRAFTS), known)) == ["w"]


# -- gift wraps (D3) ------------------------------------------------------------------------------

WRAPS = {
    "none published": (NONE, [], "has published no message relays"),
    "a list without relays": (simple(ALICE, MESSAGES, ""), [], "no message relays"),
    "could not look": (UNKNOWN, [ALICE], ""),
}


@pytest.mark.req("D3")
@pytest.mark.parametrize(("found", "unresolved", "said"), WRAPS.values(), ids=WRAPS.keys())
def test_a_wrap_without_message_relays_goes_nowhere(
    found: Lookup, unresolved: list[str], said: str
) -> None:
    lists = {(ALICE, MESSAGES): found, (ALICE, RELAYS): nip65(ALICE, read="ar", write="aw")}
    known = knowing(lists, own=(relay("own"),), pow_relay=relay("pow"))
    made = plan(event(1059, TO_ALICE, ["nonce", "1", "20"]), known)
    assert made.targets == ()
    assert list(made.unresolved) == unresolved
    assert said in made.refusal
    assert bool(made.refusal) == (not unresolved)


@pytest.mark.req("D3", "D7")
def test_a_wrap_whose_every_relay_is_blocked_goes_nowhere() -> None:
    lists = {
        (ALICE, MESSAGES): simple(ALICE, MESSAGES, "bad worse"),
        (ME, RELAYS): nip65(ME, write="bad"),
    }
    blocked = frozenset(relays("bad worse"))
    made = plan(event(1059, TO_ALICE), knowing(lists, blocked=blocked))
    assert made.targets == ()
    assert "may be gone to" in made.refusal
    assert set(left(made)) == {"bad", "worse"}


@pytest.mark.req("C7", "D3")
def test_a_wrap_goes_to_three_message_relays_at_most() -> None:
    lists = {(ALICE, MESSAGES): simple(ALICE, MESSAGES, "d1 d2 d3 d4 d5")}
    made = plan(event(1059, TO_ALICE), knowing(lists, own=(relay("own"),)))
    assert len(made.targets) == 3
    assert len(made.left_out) == 2


@pytest.mark.req("D3")
def test_a_wrap_without_a_recipient_is_refused() -> None:
    for tags in ((), (["p", "nobody"],), (["p"],)):
        assert "must name its recipient" in plan(event(1059, *tags), WORLD).refusal


# -- groups, joining, vanishing -------------------------------------------------------------------


def group_list(*groups: tuple[str, str]) -> Lookup:
    return listed(ME, GROUPS, [["group", name, relay(at)] for name, at in groups])


@pytest.mark.req("D9")
def test_a_group_is_found_by_its_tag_then_by_ones_list() -> None:
    known = knowing({(ME, GROUPS): group_list(("pizza", "p"), ("chess", "c"))})
    assert where(9, ["h", "chess"], known=known) == "c"
    assert where(9, ["h", "chess", "wss://tag.example"], known=known) == "tag"
    assert where(9, ["h", "chess", "not a url"], known=known) == "c"
    assert "group go is not known" in plan(event(9, ["h", "go"]), known).refusal


@pytest.mark.req("D9", "D3")
def test_a_group_whose_list_could_not_be_looked_up_waits() -> None:
    known = knowing({(ME, GROUPS): UNKNOWN}, own=(relay("own"),))
    made = plan(event(9, ["h", "pizza"], ["nonce", "1", "20"]), known)
    assert (made.targets, made.unresolved, made.refusal) == ((), (ME,), "")
    assert "not known" in plan(event(9, ["h", "pizza"]), knowing(own=(relay("own"),))).refusal


def test_an_h_tag_without_a_value_is_no_group() -> None:
    assert where(1, ["h"], known=WORLD) == NOTE


@pytest.mark.req("D9")
@pytest.mark.parametrize("kind", [28934, 28936])
def test_who_joins_or_leaves_a_relay_must_name_it(kind: int) -> None:
    assert "must name its relay" in plan(event(kind), WORLD).refusal


@pytest.mark.req("D9")
def test_a_request_to_vanish_from_nowhere_is_refused() -> None:
    for tags in ((), (["relay", "not one"],)):
        made = plan(event(62, *tags), WORLD)
        assert made.targets == ()
        assert "no relay is known" in made.refusal


# -- what is not known ----------------------------------------------------------------------------


@pytest.mark.req("D2", "D11")
def test_lists_that_could_not_be_read_hold_up_nothing_that_is_known() -> None:
    lists = {
        (ME, RELAYS): nip65(ME, write="w1"),
        (ALICE, RELAYS): UNKNOWN,
        (BOB, RELAYS): nip65(BOB, read="br"),
    }
    made = plan(event(1, TO_ALICE, TO_BOB), knowing(lists, own=(relay("own"),)))
    assert going(made) == ["own", "w1", "br"]
    assert made.unresolved == (ALICE,)


@pytest.mark.req("D2")
def test_without_the_authors_list_own_relays_come_first_and_the_rest_follows() -> None:
    lists = {(ME, RELAYS): UNKNOWN}
    asks = {"own": (relay("own"),), "indexers": (relay("idx"),)}
    assert plan(event(1), knowing(lists, **asks)).unresolved == (ME,)
    assert going(plan(event(1), knowing(lists, **asks))) == ["own"]
    alone = plan(event(1), knowing(lists, own=(relay("own"),)))
    assert alone.unresolved == (), "there is nobody to ask but who did not answer"
    assert plan(event(1), knowing(lists)) == Plan(unresolved=(ME,))


@pytest.mark.req("D2", "D10")
def test_nowhere_to_go_says_what_to_do() -> None:
    assert "configure your own" in plan(event(1), knowing()).refusal
    readable = knowing({(ME, RELAYS): nip65(ME, read="only-to-read")})
    assert "configure your own" in plan(event(1), readable).refusal


# -- blocked relays (D7, decision 14) -------------------------------------------------------------


@pytest.mark.req("D7")
def test_a_blocked_relay_is_not_gone_to_for_anybody() -> None:
    lists = {
        (ME, RELAYS): nip65(ME, write="w"),
        (ALICE, RELAYS): nip65(ALICE, read="bad ar"),
    }
    blocked = frozenset(relays("bad idx pow gone own"))
    known = knowing(
        lists,
        own=(relay("own"),),
        indexers=(relay("idx"),),
        pow_relay=relay("pow"),
        originals=(relay("gone"),),
        blocked=blocked,
    )
    note = plan(event(1, TO_ALICE, ["nonce", "1", "20"]), known)
    assert going(note) == ["w", "ar"]
    assert set(left(note)) == {"own", "pow", "bad"}
    assert set(left(note).values()) == {"you have blocked it (kind 10006)"}
    assert going(plan(event(0), known)) == ["w"]
    assert going(plan(event(5, ["e", "e" * 64]), known)) == ["w"]


@pytest.mark.req("D7")
@pytest.mark.parametrize("marker", ["write", "read"])
def test_a_blocked_relay_of_ones_own_list_is_used_for_oneself_only(marker: str) -> None:
    """In both lists: the user may write to it; nobody else's inbox is served there."""
    lists = {
        (ME, RELAYS): nip65(ME, **{marker: "odd"}),
        (ALICE, RELAYS): nip65(ALICE, read="odd"),
        (ALICE, MESSAGES): simple(ALICE, MESSAGES, "odd"),
    }
    known = knowing(lists, own=(relay("odd"), relay("own")), blocked=frozenset(relays("odd")))
    made = plan(event(1, TO_ALICE), known)
    assert going(made) == ["odd", "own"]
    assert made.targets[0].inbox_of == (), "it does not count as an inbox"
    assert "may be gone to" in plan(event(1059, TO_ALICE), known).refusal
    assert "may be gone to" in plan(event(9, ["h", "g", "odd.example"]), known).refusal


@pytest.mark.req("D7")
def test_settings_alone_do_not_override_ones_own_block() -> None:
    known = knowing(own=(relay("odd"),), blocked=frozenset(relays("odd")))
    made = plan(event(1), known)
    assert made.targets == ()
    assert "wss://odd.example/: you have blocked it" in made.refusal


@pytest.mark.req("D7")
def test_the_list_of_somebody_else_overrides_nothing() -> None:
    lists = {(ALICE, RELAYS): nip65(ALICE, write="odd", read="odd")}
    known = knowing(lists, own=(relay("own"),), blocked=frozenset(relays("odd")))
    assert going(plan(event(1, TO_ALICE), known)) == ["own"]


# -- budgets and health ---------------------------------------------------------------------------


@pytest.mark.req("C7")
def test_a_list_of_thirty_relays_gets_two() -> None:
    names = " ".join(f"h{number}" for number in range(30))
    lists = {(ALICE, RELAYS): nip65(ALICE, read=names)}
    made = plan(event(1, TO_ALICE), knowing(lists, own=(relay("own"),)))
    assert len(made.targets) == 3
    assert len(made.left_out) == 28
    assert set(left(made).values()) == {"its readers are reached at other relays"}


@pytest.mark.req("C7")
def test_ten_people_share_six_relays_and_nobody_gets_a_second_before_all_have_one() -> None:
    crowd = [f"{number:064x}" for number in range(1, 11)]
    lists = {(p, RELAYS): nip65(p, read=f"a{n} b{n}") for n, p in enumerate(crowd)}
    made = plan(event(1, *(["p", pubkey] for pubkey in crowd)), knowing(lists, own=(relay("own"),)))
    inboxes = [target for target in made.targets if not target.mine]
    assert len(inboxes) == 6
    assert len({target.inbox_of for target in inboxes}) == 6
    assert set(left(made).values()) == {"the budget for others' relays is used up"}


@pytest.mark.req("C7")
def test_budgets_are_settings() -> None:
    names = " ".join(f"h{number}" for number in range(9))
    lists = {
        (ALICE, RELAYS): nip65(ALICE, read=names),
        (ALICE, MESSAGES): simple(ALICE, MESSAGES, names),
    }
    known = knowing(lists, budgets=Budgets(fanout=4, per_author=5, messages=1))
    assert len(plan(event(1, TO_ALICE), known).targets) == 4
    assert len(plan(event(1059, TO_ALICE), known).targets) == 1


@pytest.mark.req("C10")
def test_the_dead_are_passed_over_while_somebody_lives() -> None:
    lists = {(ALICE, RELAYS): nip65(ALICE, read="dead1 alive dead2")}
    rank = dict.fromkeys(relays("dead1 dead2"), 0.0)
    made = plan(event(1, TO_ALICE), knowing(lists, rank=rank))
    assert going(made) == ["alive"]
    assert left(made) == {"dead1": "it is dead", "dead2": "it is dead"}
    rank[relay("alive")] = 0.0
    assert len(plan(event(1, TO_ALICE), knowing(lists, rank=rank)).targets) == 2


@pytest.mark.req("C10")
def test_better_relays_are_chosen_first() -> None:
    lists = {(ALICE, MESSAGES): simple(ALICE, MESSAGES, "bad good unknown")}
    rank = {relay("bad"): 0.1, relay("good"): 0.9}
    budgets = Budgets(messages=2)
    made = plan(event(1059, TO_ALICE), knowing(lists, rank=rank, budgets=budgets))
    assert going(made) == ["good", "unknown"]


@pytest.mark.req("C10")
def test_ones_own_relays_are_gone_to_even_if_they_are_dead() -> None:
    known = knowing(own=(relay("own"),), rank={relay("own"): 0.0})
    assert where(1, known=known) == "own"


# -- what must be known first ---------------------------------------------------------------------


@pytest.mark.req("D1")
def test_whose_lists_are_needed() -> None:
    mine = [(ME, RELAYS), (ME, BLOCKED)]
    assert list(needs(event(1))) == mine
    assert list(needs(event(1, TO_ALICE, ["P", BOB]))) == [*mine, (ALICE, RELAYS), (BOB, RELAYS)]
    assert list(needs(event(9321, TO_ALICE))) == [*mine, (ALICE, NUTZAPS)]
    assert list(needs(event(9, ["h", "pizza"], TO_ALICE))) == [*mine, (ME, GROUPS)]
    for kind in (5, 62, 28934, 28936, 3, 10000):
        assert list(needs(event(kind, TO_ALICE))) == mine
    assert list(needs(event(1059, TO_ALICE))) == [(ALICE, MESSAGES)], "nothing tells on the sender"
    assert needs(event(1059)) == ()


@pytest.mark.req("C7")
def test_a_note_to_a_thousand_people_looks_up_a_hundred() -> None:
    crowd = [["p", f"{number:064x}"] for number in range(1, 1001)]
    assert len(recipients_of(event(1, *crowd))) == MAX_RECIPIENTS == 100
    assert len(needs(event(1, *crowd))) == 102


def test_people_are_counted_once_and_never_the_author() -> None:
    assert recipients_of(event(1, TO_ALICE, ["p", ME], TO_ALICE, ["P", ALICE])) == (ALICE,)


@pytest.mark.req("D1")
def test_hints_are_where_people_say_that_they_are_found() -> None:
    tags = [
        ["p", ALICE, "a.example"],
        ["p", ALICE, "wss://b.example/"],
        ["P", BOB, "nonsense here"],
        ["p", CAROL],
        ["p", "nobody", "x.example"],
        ["e", "e" * 64, "wss://e.example"],
        ["p"],
    ]
    assert hints_of(event(1, *tags)) == {ALICE: (relay("a"), relay("b"))}


KIN: dict[str, tuple[int, list[list[str]], tuple[str, ...] | None]] = {
    "a note": (1, [], (ME,)),
    "a note with a hashtag": (1, [["t", "x"], ["e", "e" * 64]], (ME,)),
    "an article": (30023, [["d", "x"]], (ME,)),
    "a reply": (1, [["p", ALICE], ["e", "e" * 64]], (ME, ALICE)),
    "a comment": (1111, [["P", ALICE], ["p", BOB]], (ME, BOB, ALICE)),
    "a list of people": (30000, [["p", ALICE]], (ME,)),
    **{f"tag {name}": (1, [[name, ALICE]], None) for name in ("h", "nonce")},
    **{
        f"kind {kind}": (kind, [], None)
        for kind in (0, 3, 5, 62, 1018, 1059, 1617, 9321, 10002, 10050, 28934, 31234)
    },
}


@pytest.mark.parametrize(("kind", "tags", "kin"), KIN.values(), ids=KIN.keys())
def test_which_events_have_the_same_plan(
    kind: int, tags: list[list[str]], kin: tuple[str, ...] | None
) -> None:
    assert kin_of(event(kind, *tags)) == kin
    if kin is not None:
        other = event(1, *(["p", pubkey] for pubkey in kin[1:]), content="something else")
        assert kin_of(other) == kin
        assert plan(event(kind, *tags), WORLD) == plan(other, WORLD)
