"""Standing subscriptions on one socket, without the socket."""

import pytest

from postrich.model.delivery import Outcome, Verdict
from postrich.rules.session import AUTH_WAIT, CHALLENGE_WAIT
from postrich.rules.subscriptions import MAX_AUTH_ROUNDS, Subscriptions
from tests.rules.talk import ME, Talk

ASKS = "auth-required: say who you are"


def test_what_is_asked_for_comes_as_news_and_is_live_after_its_eose() -> None:
    talk = Talk()
    talk.session.subscribe("mail", {"kinds": [24133]}, {"ids": ["x"]})
    assert talk.said() == [["REQ", "mail", {"kinds": [24133]}, {"ids": ["x"]}]]
    talk.hear("EVENT", "mail", {"id": "1"})
    assert not talk.session.subscriptions.live
    talk.hear("EOSE", "mail")
    talk.hear("EVENT", "mail", {"id": "2"})
    talk.hear("EVENT", "other", {"id": "3"})
    talk.hear("EOSE", "other")
    assert talk.session.subscriptions.news == [("mail", {"id": "1"}), ("mail", {"id": "2"})]
    assert talk.session.subscriptions.live == {"mail"}
    assert not talk.session.is_waiting


def test_a_read_back_goes_on_beside_it() -> None:
    talk = Talk()
    talk.session.subscribe("mail", {"kinds": [1]})
    (flight,) = talk.publish(1)
    talk.wait(talk.session.timeout)
    name = next(frame[1] for frame in talk.said() if frame[0] == "REQ" and frame[1] != "mail")
    talk.hear("EVENT", name, {"id": flight.event_id})
    assert talk.results() == [(1, Outcome.DELIVERED, "read-back")]
    assert not talk.session.subscriptions.news


def test_closed_for_good() -> None:
    talk = Talk()
    talk.session.subscribe("mail", {})
    talk.hear("EOSE", "mail")
    talk.hear("CLOSED", "mail", "error: shutting down")
    assert talk.session.subscriptions.closed == {"mail": "error: shutting down"}
    assert not talk.session.subscriptions.live
    talk.session.subscribe("mail", {})
    assert not talk.session.subscriptions.closed


def test_who_may_not_say_its_name_is_not_asked_again() -> None:
    talk = Talk()
    talk.session.subscribe("mail", {})
    talk.hear("AUTH", "abc")
    talk.hear("CLOSED", "mail", ASKS)
    assert talk.session.subscriptions.closed == {"mail": ASKS}
    assert talk.session.auth_wanted is None


@pytest.mark.req("C3")
@pytest.mark.parametrize("challenge_first", [True, False])
def test_after_auth_it_is_asked_again(challenge_first: bool) -> None:
    talk = Talk(identity=ME)
    talk.session.subscribe("mail", {})
    talk.said()
    if challenge_first:
        talk.hear("AUTH", "abc")
        talk.hear("CLOSED", "mail", ASKS)
    else:
        talk.hear("CLOSED", "mail", ASKS)
        assert talk.session.is_waiting
        talk.hear("AUTH", "abc")
    assert talk.session.auth_wanted is not None
    talk.session.authenticate("a" * 64, b"{}", talk.now)
    assert talk.session.is_waiting
    talk.said()
    talk.hear("OK", "a" * 64, True, "")
    assert talk.said() == [["REQ", "mail", {}]]
    assert not talk.session.subscriptions.closed
    assert not talk.session.is_waiting


@pytest.mark.req("C3")
def test_closed_while_the_auth_was_on_its_way() -> None:
    talk = Talk(identity=ME)
    talk.session.subscribe("mail", {})
    talk.hear("AUTH", "abc")
    talk.session.auth_wanted = None
    talk.session.authenticate("a" * 64, b"{}", talk.now)
    talk.hear("OK", "a" * 64, True, "")
    talk.said()
    for _ in range(MAX_AUTH_ROUNDS):
        talk.hear("CLOSED", "mail", ASKS)
        assert talk.said() == [["REQ", "mail", {}]]
        assert talk.session.auth_wanted is None
    talk.hear("CLOSED", "mail", ASKS)
    assert talk.session.subscriptions.closed == {"mail": ASKS}


def test_no_challenge_no_signature_no_subscription() -> None:
    talk = Talk(identity=ME)
    talk.session.subscribe("mail", {})
    talk.hear("CLOSED", "mail", ASKS)
    talk.wait(CHALLENGE_WAIT)
    assert "no challenge" in talk.session.subscriptions.closed["mail"]
    talk.session.subscribe("mail", {})
    talk.hear("CLOSED", "mail", ASKS)
    talk.session.cannot_authenticate(Verdict(Outcome.PARKED, "signer", "the key is locked"))
    assert talk.session.subscriptions.closed == {"mail": "the key is locked"}


def test_a_refused_auth_closes_it() -> None:
    talk = Talk(identity=ME)
    talk.session.subscribe("mail", {})
    talk.hear("CLOSED", "mail", ASKS)
    talk.hear("AUTH", "abc")
    for name in ("a" * 64, "b" * 64):
        talk.session.authenticate(name, b"{}", talk.now)
        talk.hear("OK", name, False, "restricted: not you")
    assert "restricted: not you" in talk.session.subscriptions.closed["mail"]
    talk.session.subscribe("mail", {})
    talk.hear("CLOSED", "mail", ASKS)
    assert talk.session.subscriptions.closed == {"mail": ASKS}


def test_silence_after_auth_counts_as_yes_for_it_too() -> None:
    talk = Talk(identity=ME)
    talk.session.subscribe("mail", {})
    talk.hear("CLOSED", "mail", ASKS)
    talk.hear("AUTH", "abc")
    talk.session.authenticate("a" * 64, b"{}", talk.now)
    talk.said()
    talk.wait(AUTH_WAIT)
    assert talk.said() == [["REQ", "mail", {}]]


def test_closing_says_so_once() -> None:
    questions = Subscriptions()
    questions.open("mail", ({},))
    assert questions.close("mail") == b'["CLOSE","mail"]'
    assert questions.close("mail") is None
    questions.open("mail", ({},))
    questions.on_closed("mail", "no", wants_auth=False)
    assert questions.close("mail") is None
    assert not questions.on_event("mail", {})
    assert not questions.on_end_of_stored("mail")
