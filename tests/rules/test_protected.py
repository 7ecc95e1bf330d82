"""Protected events (NIP-70) and greetings in the conversation with a relay (D4, D5)."""

import pytest

from postrich.model.delivery import Flight, Outcome, Verdict
from postrich.rules.replies import is_about_size
from postrich.rules.session import AUTH_WAIT, CHALLENGE_WAIT
from tests.rules.flights import make_flight
from tests.rules.talk import ME, Talk

DELIVERED, SKIPPED, REFUSED = Outcome.DELIVERED, Outcome.SKIPPED, Outcome.REFUSED
PARKED, RETRY, UNKNOWN = Outcome.PARKED, Outcome.RETRY, Outcome.UNKNOWN


def protected(talk: Talk, number: int = 1) -> Flight:
    flight = make_flight(number)
    flight.protected = True
    talk.session.publish(flight, talk.now)
    return flight


# -- protected events ----------------------------------------------------------------------------

pytestmark = pytest.mark.req("D4", "D5")


def test_a_protected_event_goes_out_only_after_auth() -> None:
    talk = Talk(identity=ME)
    flight = protected(talk)
    assert talk.said() == [], "nothing is said before the relay knows us"
    talk.hear("AUTH", "challenge")
    talk.hear("OK", talk.sign(), True, "")
    assert talk.sent_events() == [1]
    talk.answer(flight)
    assert talk.results() == [(1, DELIVERED, "ok")]
    protected(talk, 2)
    assert talk.sent_events() == [2], "it knows us by now"


def test_a_challenge_that_came_before_is_answered_at_once() -> None:
    talk = Talk(identity=ME)
    talk.hear("AUTH", "challenge")
    talk.hear("OK", talk.sign(), True, "")
    talk.said()
    protected(talk)
    assert talk.sent_events() == [1]


def test_a_relay_that_never_asks_who_we_are_is_skipped() -> None:
    talk = Talk(identity=ME)
    protected(talk)
    talk.wait(CHALLENGE_WAIT)
    assert talk.results() == [(1, SKIPPED, "protected")]
    assert talk.sent_events() == []


def test_a_relay_that_does_not_take_our_auth_is_skipped_and_not_asked_again() -> None:
    talk = Talk(identity=ME)
    protected(talk)
    talk.hear("AUTH", "challenge")
    for _ in range(2):
        talk.hear("OK", talk.sign(), False, "restricted: not you")
    [(flight, verdict)] = talk.verdicts()
    assert (flight.job, verdict.outcome, verdict.code) == (1, SKIPPED, "protected")
    assert "not you" in verdict.text
    protected(talk, 2)
    assert talk.results() == [(2, SKIPPED, "protected")]
    assert talk.asked_to_sign() is None, "two rounds are enough"
    assert talk.sent_events() == []


def test_silence_about_our_auth_is_no_yes() -> None:
    """Other events may go: some relays take an AUTH without a word."""
    talk = Talk(identity=ME)
    protected(talk)
    talk.publish(2)
    talk.hear("AUTH", "challenge")
    talk.sign()
    talk.wait(AUTH_WAIT)
    assert talk.results() == [(1, SKIPPED, "protected")]
    assert talk.sent_events() == [2]
    protected(talk, 3)
    assert talk.sent_events() == []
    talk.hear("OK", talk.sign(), True, "")
    assert talk.sent_events() == [3]


def test_a_new_challenge_means_that_the_relay_forgot_us() -> None:
    talk = Talk(identity=ME)
    talk.hear("AUTH", "one")
    talk.hear("OK", talk.sign(), True, "")
    talk.hear("AUTH", "two")
    talk.said()
    protected(talk)
    assert talk.sent_events() == []
    talk.hear("OK", talk.sign(), True, "")
    assert talk.sent_events() == [1]


@pytest.mark.parametrize("code", ["signer", "auth-required"])
def test_who_only_lacks_a_signature_waits_for_it(code: str) -> None:
    talk = Talk(identity=ME)
    protected(talk)
    talk.hear("AUTH", "challenge")
    talk.session.cannot_authenticate(Verdict(PARKED, code, "the key is locked"))
    assert talk.results() == [(1, PARKED, code)]


def test_a_socket_that_is_lost_before_auth_decides_nothing() -> None:
    talk = Talk(identity=ME)
    protected(talk)
    talk.session.lost(1006, "")
    assert talk.results() == [(1, RETRY, "closed")]


# -- greetings -----------------------------------------------------------------------------------

LIST_ID = "f" * 64


def greeted() -> Talk:
    talk = Talk()
    talk.session.greet(LIST_ID, b'["EVENT",{}]')
    talk.publish(1)
    return talk


def test_what_becomes_of_a_greeting_is_nobodys_concern() -> None:
    talk = greeted()
    assert len(talk.said()) == 2
    assert talk.session.load == 1
    talk.hear("OK", LIST_ID, False, "blocked: no lists here")
    assert talk.results() == []
    talk.hear("OK", f"{1:064x}", True, "")
    assert talk.results() == [(1, DELIVERED, "ok")]


@pytest.mark.parametrize("text", ["message too large", "could not parse", "bad msg"])
def test_a_notice_may_mean_the_greeting_and_blames_nobody(text: str) -> None:
    talk = greeted()
    talk.hear("NOTICE", text)
    assert talk.results() == []
    talk.hear("OK", LIST_ID, True, "")
    talk.hear("NOTICE", text)
    assert talk.results() == [(1, REFUSED, "notice")], "the greeting was answered"


def test_a_socket_that_ends_over_a_greeting_costs_no_attempt() -> None:
    talk = greeted()
    talk.session.lost(1009, "message too big")
    [(_, verdict)] = talk.verdicts()
    assert (verdict.outcome, verdict.burns) == (UNKNOWN, False)


# -- refusals for size -----------------------------------------------------------------------------


@pytest.mark.req("C6")
@pytest.mark.parametrize(
    ("verdict", "expected"),
    [
        (Verdict(REFUSED, "too-large", ""), True),
        (Verdict(REFUSED, "invalid", "invalid: event too large"), True),
        (Verdict(RETRY, "error", "error: max message size exceeded"), True),
        (Verdict(REFUSED, "notice", "message too big"), True),
        (Verdict(REFUSED, "blocked", "blocked: spam"), False),
        (Verdict(DELIVERED, "ok", "almost too large"), False),
        (Verdict(UNKNOWN, "timeout", "no answer; the relay said: too large"), False),
    ],
)
def test_which_refusals_are_about_size(verdict: Verdict, expected: bool) -> None:
    assert is_about_size(verdict) is expected


def test_who_says_nothing_is_not_asked_so_we_say_something_harmless() -> None:
    talk = Talk(identity=ME)
    assert not talk.session.awaits_challenge
    protected(talk)
    assert talk.session.awaits_challenge
    for _ in range(2):
        talk.session.greet(LIST_ID, b'["EVENT",{}]')
    assert talk.said() == [["EVENT", {}]], "once"
    talk.hear("AUTH", "challenge")
    talk.hear("OK", LIST_ID, False, "auth-required: who are you?")
    talk.hear("OK", talk.sign(), True, "")
    assert talk.sent_events() == [1]
