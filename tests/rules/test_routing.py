"""Which relays must have an event, each with its reason (D10)."""

import pytest

from postrich.errors import BadSetting
from postrich.model.delivery import Target
from postrich.rules.routing import MINED, NAMED, OWN, plan, with_pow_relay

pytestmark = pytest.mark.req("D10")


def test_named_relays_come_before_ones_own() -> None:
    assert plan(["wss://a.example"], ["wss://b.example"]) == (Target("wss://a.example/", NAMED),)
    assert plan([], ["wss://b.example"]) == (Target("wss://b.example/", OWN),)


def test_one_relay_is_one_target_in_the_order_given() -> None:
    named = ["wss://b.example", "a.example", "WSS://B.example:443/", "wss://a.example/path"]
    assert [target.url for target in plan(named, [])] == [
        "wss://b.example/",
        "wss://a.example/",
        "wss://a.example/path",
    ]


def test_iterators_are_taken_too() -> None:
    assert plan(iter(()), iter(["a.example"])) == (Target("wss://a.example/", OWN),)


def test_no_relay_at_all_is_refused_with_what_to_do() -> None:
    with pytest.raises(BadSetting, match="name one for this event or configure your own"):
        plan([], [])


def test_a_bad_url_is_named() -> None:
    with pytest.raises(BadSetting, match="ftp"):
        plan(["ftp://a.example"], [])


@pytest.mark.req("A14")
def test_mined_events_always_go_to_the_relay_for_proof_of_work_too() -> None:
    targets = plan(["wss://a.example/"], [])
    mined = (("t", "x"), ("nonce", "7", "20"))
    pow_relay = "wss://pow.example/"
    assert with_pow_relay(targets, mined, pow_relay) == (*targets, Target(pow_relay, MINED))
    assert with_pow_relay(targets, (("t", "x"),), pow_relay) == targets
    assert with_pow_relay(targets, mined, None) == targets
    assert with_pow_relay(targets, mined, "wss://a.example/") == targets
