"""The conversation with one relay, without the socket (C3, C9)."""

import itertools
import json
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from postrich.model.delivery import Flight, Outcome, Verdict
from postrich.rules.session import (
    AUTH_WAIT,
    CHALLENGE_WAIT,
    MAX_AUTH_ROUNDS,
    MAX_REMEMBERED,
    READ_BACK_WAIT,
    AuthRequest,
)
from tests.rules.flights import frame, make_flight, ok
from tests.rules.talk import ME, TIMEOUT, URL, Talk

DELIVERED, UNKNOWN, RETRY = Outcome.DELIVERED, Outcome.UNKNOWN, Outcome.RETRY
PARKED, REFUSED, AUTHENTICATE = Outcome.PARKED, Outcome.REFUSED, Outcome.AUTHENTICATE
ASKS = "auth-required: say who you are"
NO_SIGNER = Verdict(PARKED, "auth-required", "the key is locked")

# -- publish and OK ----------------------------------------------------------------------------


@pytest.mark.req("C9")
def test_events_go_out_at_once_and_oks_are_matched_by_id() -> None:
    talk = Talk()
    one, two, three = talk.publish(1, 2, 3)
    assert talk.session.outgoing == [f.parcel.frame for f in (one, two, three)]
    assert talk.session.load == 3
    talk.answer(three)
    talk.answer(one, False, "blocked: spam")
    talk.answer(two, True, "duplicate: have it")
    assert talk.results() == [
        (3, DELIVERED, "ok"),
        (1, REFUSED, "blocked"),
        (2, DELIVERED, "duplicate"),
    ]
    assert talk.session.load == 0


ID = f"{1:064x}"
OKS = {
    "compact": f'["OK","{ID}",true,""]',
    "spaced": f'["OK", "{ID}", true, ""]',
    "half spaced": f'["OK","{ID}", true, ""]',
    "wide": f' [ "OK" , "{ID}" , true , "" ] ',
    "without a message": f'["OK","{ID}",true]',
    "null message": f'["OK","{ID}",true,null]',
    "number": f'["OK","{ID}",true,5]',
    "more behind": f'["OK","{ID}",true,"",{{"more":1}}]',
    "saying something": f'["OK","{ID}",true,"broadcasted to 3 listeners"]',
}


@pytest.mark.req("C2", "C9")
@pytest.mark.parametrize("text", OKS.values(), ids=OKS.keys())
def test_an_ok_counts_however_it_is_written(text: str) -> None:
    talk = Talk()
    talk.publish(1, 2)
    talk.session.receive(text.encode(), talk.now)
    assert talk.results() == [(1, DELIVERED, "ok")]
    assert talk.session.heard


def test_a_second_ok_changes_nothing() -> None:
    talk = Talk()
    (one,) = talk.publish(1)
    talk.answer(one)
    talk.answer(one)
    talk.answer(one, False, "blocked: after all")
    assert talk.results() == [(1, DELIVERED, "ok")]


@pytest.mark.parametrize("accepted", [True, False])
def test_an_ok_for_what_we_never_sent_is_nobodys(accepted: bool) -> None:
    talk = Talk()
    talk.publish(1)
    talk.answer(make_flight(99), accepted, "blocked: who?")
    assert talk.results() == []
    assert talk.session.load == 1


@pytest.mark.req("C2")
@pytest.mark.parametrize("wrong_id", ["", "?", "0", "event", ID[:-1]])
def test_a_refusal_without_a_usable_id_is_about_the_only_event_in_flight(wrong_id: str) -> None:
    talk = Talk()
    talk.publish(1)
    talk.hear("OK", wrong_id, False, "invalid: bad event")
    assert talk.results() == [(1, REFUSED, "invalid")]


@pytest.mark.req("B10", "C2")
def test_a_refusal_without_a_usable_id_blames_nobody_where_it_could_be_another() -> None:
    talk = Talk()
    talk.publish(1, 2)
    talk.hear("OK", "", False, "invalid: bad event")
    assert talk.results() == []
    # … nor the second event, while the first one's answer is still out.
    talk = Talk()
    talk.publish(1)
    talk.wait(TIMEOUT)
    talk.publish(2)
    talk.hear("OK", "", False, "invalid: bad event")
    talk.hear("EOSE", "postrich-1")
    talk.hear("OK", "", False, "invalid: bad event")
    assert talk.results() == [(1, UNKNOWN, "timeout")]
    # Sent again and alone, it is the one.
    talk = Talk()
    talk.publish(1)
    talk.wait(TIMEOUT)
    talk.hear("EOSE", "postrich-1")
    talk.publish(1)
    talk.hear("OK", "", False, "invalid: bad event")
    assert talk.results() == [(1, UNKNOWN, "timeout"), (1, REFUSED, "invalid")]


def test_an_ok_without_a_usable_id_delivers_nothing() -> None:
    talk = Talk()
    talk.publish(1)
    talk.hear("OK", "?", True, "")
    assert talk.results() == []


# -- silence and read-back ---------------------------------------------------------------------


@pytest.mark.req("C9")
def test_silence_makes_us_ask_whether_the_relay_has_it() -> None:
    talk = Talk()
    one, _ = talk.publish(1, 2)
    talk.said()
    assert talk.wait(TIMEOUT - 1) == 1
    assert talk.said() == []
    talk.publish(3)
    talk.said()
    assert talk.wait(1) == READ_BACK_WAIT
    assert talk.said() == [["REQ", "postrich-1", {"ids": [f"{1:064x}", f"{2:064x}"]}]]
    talk.hear("EVENT", "postrich-1", {"id": one.event_id})
    talk.hear("EOSE", "postrich-1")
    assert talk.said() == [["CLOSE", "postrich-1"]]
    assert talk.results() == [(1, DELIVERED, "read-back"), (2, UNKNOWN, "timeout")]
    assert talk.session.load == 1


READ_ENDS: dict[str, tuple[list[Any], str]] = {
    "absent": (["EOSE", "postrich-1"], "the relay does not have it"),
    "absent, and more (NIP-67)": (["EOSE", "postrich-1", ["finish"]], "the relay does not have it"),
    "closed": (["CLOSED", "postrich-1", ASKS], f"would not say: {ASKS}"),
    "closed without a word": (["CLOSED", "postrich-1"], "would not say"),
    "closed with a number": (["CLOSED", "postrich-1", 5], "would not say"),
}


@pytest.mark.req("C9")
@pytest.mark.parametrize(("end", "says"), READ_ENDS.values(), ids=READ_ENDS.keys())
def test_what_was_not_found_is_unknown_with_the_reason(end: list[Any], says: str) -> None:
    talk = Talk()
    talk.publish(1)
    talk.wait(TIMEOUT)
    talk.hear(*end)
    ((_, verdict),) = talk.verdicts()
    assert (verdict.outcome, verdict.code) == (UNKNOWN, "timeout")
    assert says in verdict.text
    assert talk.session.load == 0


@pytest.mark.req("C9")
def test_a_relay_that_does_not_answer_the_read_either_is_unknown() -> None:
    talk = Talk()
    talk.publish(1)
    assert talk.wait(TIMEOUT) == READ_BACK_WAIT
    talk.said()
    assert talk.wait(READ_BACK_WAIT - 0.5) == 0.5
    assert talk.results() == []
    assert talk.wait(0.5) is None
    assert talk.said() == [["CLOSE", "postrich-1"]]
    assert talk.results() == [(1, UNKNOWN, "timeout")]


@pytest.mark.req("C9")
def test_an_ok_during_the_read_settles_it() -> None:
    talk = Talk()
    one, two = talk.publish(1, 2)
    talk.wait(TIMEOUT)
    talk.answer(two)
    talk.answer(one, False, "blocked: spam")
    assert talk.results() == [(2, DELIVERED, "ok"), (1, REFUSED, "blocked")]
    talk.said()
    assert talk.wait(0) is None
    assert talk.said() == [["CLOSE", "postrich-1"]]
    talk.hear("EOSE", "postrich-1")
    assert talk.results() == []


@pytest.mark.req("C9")
def test_a_late_ok_still_counts_and_costs_nothing_more() -> None:
    talk = Talk()
    (one,) = talk.publish(1)
    talk.wait(TIMEOUT)
    talk.wait(READ_BACK_WAIT)
    talk.wait(500)
    talk.answer(one)
    (_, silent), (flight, late) = talk.verdicts()
    assert (silent.outcome, silent.burns) == (UNKNOWN, True)
    assert (late.outcome, late.code, late.burns) == (DELIVERED, "late", False)
    assert flight is one
    talk.answer(one)
    assert talk.results() == []


@pytest.mark.req("C9")
@pytest.mark.parametrize("message", ["blocked: spam", "rate-limited: x", ASKS, ""])
def test_a_late_refusal_changes_nothing(message: str) -> None:
    talk = Talk(identity=ME)
    (one,) = talk.publish(1)
    talk.wait(TIMEOUT)
    talk.wait(READ_BACK_WAIT)
    talk.answer(one, False, message)
    assert talk.results() == [(1, UNKNOWN, "timeout")]


@pytest.mark.req("C9")
def test_what_was_sent_again_has_one_outcome_even_if_both_are_answered() -> None:
    talk = Talk()
    (one,) = talk.publish(1)
    talk.wait(TIMEOUT)
    talk.wait(READ_BACK_WAIT)
    talk.publish(1)
    talk.answer(one)
    talk.answer(one)
    assert talk.results() == [(1, UNKNOWN, "timeout"), (1, DELIVERED, "ok")]


@pytest.mark.req("C9")
def test_a_long_silence_is_remembered_only_so_far() -> None:
    talk = Talk()
    flights = talk.publish(*range(1, MAX_REMEMBERED + 3))
    talk.wait(TIMEOUT)
    reads = talk.said()[len(flights) :]
    assert all(read[0] == "REQ" and len(read[2]["ids"]) <= 100 for read in reads)
    asked = [event_id for read in reads for event_id in read[2]["ids"]]
    assert asked == [flight.event_id for flight in flights]
    talk.wait(READ_BACK_WAIT)
    assert Counter(talk.results()).most_common(1)[0][1] == 1
    for flight in flights:
        talk.answer(flight)
    assert [job for job, _, _ in talk.results()] == [flight.job for flight in flights[2:]]


def test_news_of_subscriptions_that_are_not_ours_mean_nothing() -> None:
    talk = Talk()
    (one,) = talk.publish(1)
    talk.wait(TIMEOUT)
    talk.said()
    talk.hear("EVENT", "other", {"id": one.event_id})
    talk.hear("EVENT", "postrich-1", {"id": make_flight(9).event_id})
    talk.hear("EVENT", "postrich-1", {})
    talk.hear("EOSE", "other")
    talk.hear("CLOSED", "other", "error: x")
    assert talk.results() == []
    assert talk.said() == []
    assert talk.session.load == 1


# -- notices -----------------------------------------------------------------------------------


@pytest.mark.req("C2")
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("rate limited", [(1, RETRY, "rate-limited")]),
        ("message too large", [(1, REFUSED, "notice")]),
        ("could not parse command", [(1, REFUSED, "notice")]),
        ("welcome", []),
    ],
)
def test_a_notice_decides_only_for_the_one_event_in_flight(
    text: str, expected: list[tuple[int, Outcome, str]]
) -> None:
    talk = Talk()
    talk.publish(1)
    talk.hear("NOTICE", text)
    assert talk.results() == expected
    assert talk.session.throttled == (text == "rate limited")
    many = Talk()
    many.publish(1, 2)
    many.hear("NOTICE", text)
    assert many.results() == []
    assert many.session.throttled == (text == "rate limited")
    nobody = Talk()
    nobody.hear("NOTICE", text)
    assert not nobody.session.throttled


@pytest.mark.req("B10", "C2")
def test_a_notice_that_may_be_about_our_question_blames_no_event() -> None:
    talk = Talk()
    talk.publish(1)
    talk.wait(TIMEOUT)
    talk.publish(2)
    talk.hear("NOTICE", "could not parse command")
    assert talk.results() == []


@pytest.mark.req("C2")
def test_a_notice_is_kept_as_a_hint_for_what_stays_silent() -> None:
    talk = Talk()
    talk.publish(1, 2)
    talk.hear("NOTICE", "the database is slow today")
    talk.wait(TIMEOUT)
    talk.wait(READ_BACK_WAIT)
    assert all("database is slow" in verdict.text for _, verdict in talk.verdicts())
    # … and not for what came long after it.
    talk.publish(3)
    talk.wait(TIMEOUT)
    talk.wait(READ_BACK_WAIT)
    assert [verdict.text for _, verdict in talk.verdicts()] == ["no answer in 10 s"]


def test_an_answer_without_a_usable_id_is_kept_as_a_hint_too() -> None:
    talk = Talk()
    one, two, _ = talk.publish(1, 2, 3)
    talk.answer(one)
    talk.answer(one)
    talk.hear("OK", "?", False, "invalid: bad event")
    talk.answer(two)
    talk.wait(TIMEOUT)
    talk.wait(READ_BACK_WAIT)
    *_, (_, silent) = talk.verdicts()
    assert "refusal without a usable id: invalid: bad event" in silent.text


# -- AUTH --------------------------------------------------------------------------------------


@pytest.mark.req("C3")
@pytest.mark.parametrize("message", [ASKS, "restricted: permission denied"])
def test_an_anonymous_socket_never_authenticates(message: str) -> None:
    talk = Talk()
    talk.hear("AUTH", "challenge")
    (one,) = talk.publish(1)
    talk.answer(one, False, message)
    assert talk.results() == [(1, AUTHENTICATE, message.split(":")[0])]
    assert talk.asked_to_sign() is None
    assert [said[0] for said in talk.said()] == ["EVENT"]
    assert talk.session.load == 0


@pytest.mark.req("C3")
def test_without_a_challenge_restricted_is_final() -> None:
    for identity in (None, ME):
        talk = Talk(identity=identity)
        (one,) = talk.publish(1)
        talk.answer(one, False, "restricted: permission denied")
        assert talk.results() == [(1, REFUSED, "restricted")]


@pytest.mark.req("C3")
def test_a_challenge_before_anything_is_answered_first() -> None:
    talk = Talk(identity=ME)
    talk.hear("AUTH", "challenge")
    talk.publish(1, 2)
    assert talk.said() == []
    assert talk.session.load == 2
    assert talk.session.auth_wanted == AuthRequest("challenge", URL)
    auth = talk.sign()
    assert talk.said() == [["AUTH", {"id": auth}]]
    talk.hear("OK", auth, True, "successfully authenticated")
    assert talk.sent_events() == [1, 2]
    assert talk.results() == []


@pytest.mark.req("C3")
@pytest.mark.parametrize("message", [ASKS, "restricted: permission denied"])
def test_a_challenge_with_the_refusal_is_answered_and_the_event_resent(message: str) -> None:
    talk = Talk(identity=ME)
    one, two = talk.publish(1, 2)
    talk.said()
    talk.hear("AUTH", "challenge")
    talk.answer(one, False, message)
    talk.answer(two, False, message)
    auth = talk.sign()
    talk.wait(1)
    talk.hear("OK", auth, True, "")
    assert talk.sent_events() == [1, 2]
    talk.answer(one)
    talk.answer(two)
    assert talk.results() == [(1, DELIVERED, "ok"), (2, DELIVERED, "ok")]


@pytest.mark.req("C3")
def test_a_challenge_after_the_refusal_is_waited_for() -> None:
    talk = Talk(identity=ME)
    (one,) = talk.publish(1)
    talk.answer(one, False, ASKS)
    talk.said()
    talk.publish(2)
    assert talk.said() == []
    assert talk.asked_to_sign() is None
    assert talk.wait(1) == CHALLENGE_WAIT - 1
    talk.hear("AUTH", "late challenge")
    assert talk.session.auth_wanted == AuthRequest("late challenge", URL)
    talk.hear("OK", talk.sign(), True, "")
    assert talk.sent_events() == [1, 2]


@pytest.mark.req("C3")
def test_a_relay_that_asks_but_never_challenges_is_tried_again_later() -> None:
    talk = Talk(identity=ME)
    (one,) = talk.publish(1)
    talk.answer(one, False, ASKS)
    talk.publish(2)
    assert talk.wait(CHALLENGE_WAIT) is None
    assert talk.results() == [(1, RETRY, "auth"), (2, RETRY, "auth")]


@pytest.mark.req("A5", "C3")
def test_signing_time_is_not_the_relays() -> None:
    talk = Talk(identity=ME)
    (one,) = talk.publish(1)
    talk.hear("AUTH", "challenge")
    talk.answer(one, False, ASKS)
    assert talk.wait(600) is None
    talk.hear("OK", talk.sign(), True, "")
    talk.wait(TIMEOUT - 1)
    talk.answer(one)
    assert talk.results() == [(1, DELIVERED, "ok")]


@pytest.mark.req("C3")
def test_an_auth_that_is_taken_without_a_word_is_taken() -> None:
    talk = Talk(identity=ME)
    (one,) = talk.publish(1)
    talk.hear("AUTH", "challenge")
    talk.answer(one, False, ASKS)
    auth = talk.sign()
    talk.said()
    assert talk.wait(1) == AUTH_WAIT - 1
    assert talk.wait(AUTH_WAIT - 1) == TIMEOUT
    assert talk.sent_events() == [1]
    talk.hear("OK", auth, True, "")
    talk.answer(one)
    assert talk.results() == [(1, DELIVERED, "ok")]


@pytest.mark.req("C3")
@pytest.mark.parametrize(("url", "other"), [(URL, URL.rstrip("/")), (URL + "path", URL + "path/")])
def test_a_refused_auth_is_tried_once_more_with_the_other_slash(url: str, other: str) -> None:
    talk = Talk(identity=ME, url=url)
    (one,) = talk.publish(1)
    talk.hear("AUTH", "challenge")
    talk.answer(one, False, ASKS)
    assert talk.session.auth_wanted == AuthRequest("challenge", url)
    talk.hear("OK", talk.sign(), False, "invalid: wrong relay")
    assert talk.session.auth_wanted == AuthRequest("challenge", other)
    talk.hear("OK", talk.sign(), True, "")
    talk.answer(one)
    assert talk.results() == [(1, DELIVERED, "ok")]


@pytest.mark.req("C3")
def test_an_auth_that_is_refused_twice_parks_what_needs_it() -> None:
    talk = Talk(identity=ME)
    one, _ = talk.publish(1, 2)
    talk.hear("AUTH", "challenge")
    talk.answer(one, False, ASKS)
    talk.publish(3)
    talk.hear("OK", talk.sign(), False, "invalid: wrong relay")
    talk.hear("OK", talk.sign(), False, "restricted: you are nobody")
    (flight, verdict), (held, same) = talk.verdicts()
    assert (flight.job, held.job) == (1, 3)
    assert verdict == same == Verdict(PARKED, "auth-refused", verdict.text)
    assert "you are nobody" in verdict.text
    assert talk.asked_to_sign() is None


@pytest.mark.req("C3")
def test_after_a_refused_auth_others_may_go_without_and_we_do_not_ask_again() -> None:
    talk = Talk(identity=ME)
    talk.hear("AUTH", "challenge")
    for _ in range(MAX_AUTH_ROUNDS):
        talk.hear("OK", talk.sign(), False, "error: no")
    for number in range(1, 5):
        (flight,) = talk.publish(number)
        talk.hear("AUTH", f"challenge {number}")
        talk.answer(flight, False, ASKS)
    assert talk.results() == [(number, PARKED, "auth-refused") for number in range(1, 5)]
    (free,) = talk.publish(5)
    talk.answer(free)
    assert talk.results() == [(5, DELIVERED, "ok")]
    assert talk.asked_to_sign() is None


@pytest.mark.req("C3")
def test_a_demand_that_names_no_event_is_meant_for_all_of_them() -> None:
    talk = Talk()
    talk.hear("AUTH", "challenge")
    one, _ = talk.publish(1, 2)
    talk.hear("OK", "", False, "restricted: permission denied")
    assert talk.results() == [(1, AUTHENTICATE, "restricted"), (2, AUTHENTICATE, "restricted")]
    talk.answer(one)  # it was not about this one
    assert talk.results() == [(1, DELIVERED, "late")]


@pytest.mark.req("C3")
def test_a_refusal_from_before_the_auth_is_answered_by_sending_again() -> None:
    talk = Talk(identity=ME)
    (one,) = talk.publish(1)  # on its way before the challenge came
    talk.hear("AUTH", "challenge")
    auth = talk.sign()
    talk.said()
    talk.now += 1
    talk.hear("OK", auth, True, "")
    talk.answer(one, False, ASKS)
    assert talk.sent_events() == [1]
    assert talk.asked_to_sign() is None
    talk.answer(one)
    assert talk.results() == [(1, DELIVERED, "ok")]


@pytest.mark.req("C3")
def test_restricted_after_auth_is_final() -> None:
    talk = Talk(identity=ME)
    (one,) = talk.publish(1)
    talk.hear("AUTH", "challenge")
    talk.answer(one, False, ASKS)
    talk.hear("OK", talk.sign(), True, "")
    talk.hear("AUTH", "challenge")  # some repeat themselves with every refusal
    talk.answer(one, False, "restricted: members only")
    assert talk.results() == [(1, PARKED, "restricted")]
    (two,) = talk.publish(2)
    talk.answer(two, False, "restricted: not you")
    assert talk.results() == [(2, REFUSED, "restricted")]
    assert talk.asked_to_sign() is None


@pytest.mark.req("C3")
def test_a_new_challenge_opens_the_question_again() -> None:
    talk = Talk(identity=ME)
    talk.hear("AUTH", "first")
    talk.hear("OK", talk.sign(), True, "")
    talk.hear("AUTH", "second")
    assert talk.asked_to_sign() is None  # it is enough to know it
    (one,) = talk.publish(1)
    talk.answer(one, False, "restricted: who are you now?")
    assert talk.session.auth_wanted == AuthRequest("second", URL)
    talk.hear("OK", talk.sign(), True, "")
    talk.answer(one)
    assert talk.results() == [(1, DELIVERED, "ok")]


@pytest.mark.req("B9", "C3")
def test_an_event_goes_through_two_auth_rounds_at_most() -> None:
    talk = Talk(identity=ME)
    (one,) = talk.publish(1)
    talk.hear("AUTH", "challenge")
    for _ in range(MAX_AUTH_ROUNDS):
        talk.answer(one, False, ASKS)
        talk.hear("OK", talk.sign(), True, "")
    assert talk.sent_events() == [1, 1, 1]
    talk.answer(one, False, ASKS)
    ((_, verdict),) = talk.verdicts()
    assert (verdict.outcome, verdict.code) == (REFUSED, "auth-required")
    assert verdict.text == f"even after AUTH: {ASKS}"
    assert talk.asked_to_sign() is None


@pytest.mark.req("A5", "C3")
def test_a_signer_that_is_away_parks_what_waits_and_is_never_the_relays_refusal() -> None:
    talk = Talk(identity=ME)
    talk.hear("AUTH", "challenge")
    for number in range(1, 6):
        (flight,) = talk.publish(number)
        if number > 1:
            talk.answer(flight, False, ASKS)
        assert talk.asked_to_sign() == AuthRequest("challenge", URL)
        talk.session.cannot_authenticate(NO_SIGNER)
        assert talk.verdicts() == [(flight, NO_SIGNER)]
    # Unlocked at last:
    (six,) = talk.publish(6)
    talk.answer(six, False, ASKS)
    talk.hear("OK", talk.sign(), True, "")
    talk.answer(six)
    assert talk.results() == [(6, DELIVERED, "ok")]


@pytest.mark.req("B10", "C3")
def test_while_auth_is_out_an_answer_without_an_id_blames_no_event() -> None:
    talk = Talk(identity=ME)
    talk.publish(1)
    talk.hear("AUTH", "challenge")
    talk.sign()
    talk.hear("OK", "", False, "invalid: bad AUTH")
    talk.hear("NOTICE", "could not parse command")
    assert talk.results() == []


# -- what is not the protocol ------------------------------------------------------------------

STRANGE = {
    "nothing": b"",
    "no JSON": b"hello",
    "binary": bytes(range(256)),
    "invalid UTF-8": b'["NOTICE","\xff"]',
    "deep arrays": b"[" * 100_000,
    "deep objects": b'{"a":' * 100_000,
    "number": b"5",
    "null": b"null",
    "object": b'{"OK":true}',
    "empty array": b"[]",
    "empty arrays": b"[[]]",
    "unknown word": b'["HELLO","world"]',
    "lower case": f'["ok","{ID}",true,""]'.encode(),
    "OK cut short": f'["OK","{ID}",true,""'.encode(),
    "OK without a boolean": f'["OK","{ID}"]'.encode(),
    "OK as text": f'["OK","{ID}","true",""]'.encode(),
    "OK as number": f'["OK","{ID}",1,""]'.encode(),
    "OK of a number": b'["OK",1,true,""]',
    "OK of null": b'["OK",null,true,""]',
    "AUTH without a challenge": b'["AUTH"]',
    "AUTH of a number": b'["AUTH",5]',
    "EVENT without an event": b'["EVENT","postrich-1"]',
    "EVENT of text": b'["EVENT","postrich-1","{}"]',
    "EOSE of nothing": b'["EOSE"]',
    "CLOSED of null": b'["CLOSED",null,"error: x"]',
    "NOTICE of nothing": b'["NOTICE"]',
    "NOTICE of an object": b'["NOTICE",{}]',
}


@pytest.mark.req("C9")
@pytest.mark.parametrize("data", STRANGE.values(), ids=STRANGE.keys())
def test_strange_frames_are_counted_and_decide_nothing(data: bytes) -> None:
    talk = Talk(identity=ME)
    (one,) = talk.publish(1)
    talk.session.receive(data, talk.now)
    assert talk.session.strange_frames == 1
    assert talk.results() == []
    talk.answer(one)
    assert talk.results() == [(1, DELIVERED, "ok")]


# -- the end -----------------------------------------------------------------------------------


@pytest.mark.req("B10", "C9")
def test_a_lost_socket_blames_the_one_event_that_was_alone() -> None:
    talk = Talk()
    talk.publish(1)
    talk.session.lost(1006, "")
    ((_, verdict),) = talk.verdicts()
    assert (verdict.outcome, verdict.code, verdict.burns) == (UNKNOWN, "closed", True)
    assert talk.session.dropped == 1
    assert talk.session.load == 0


@pytest.mark.req("B10", "C9")
def test_a_lost_socket_blames_none_of_many() -> None:
    talk = Talk()
    talk.publish(1, 2)
    talk.wait(TIMEOUT)
    talk.publish(3)
    talk.session.lost(1009, "too big")
    verdicts = talk.verdicts()
    assert sorted(flight.job for flight, _ in verdicts) == [1, 2, 3]
    assert {(verdict.outcome, verdict.burns) for _, verdict in verdicts} == {(UNKNOWN, False)}
    assert (talk.session.dropped, talk.session.load) == (3, 0)
    assert talk.wait(100) is None


def test_a_frame_that_was_too_large_for_the_relay_is_refused_if_it_was_alone() -> None:
    talk = Talk()
    talk.publish(1)
    talk.session.lost(1009, "message too big")
    assert talk.results() == [(1, REFUSED, "too-large")]


@pytest.mark.req("B10", "C3")
def test_what_waits_for_auth_when_the_socket_is_lost_costs_nothing() -> None:
    talk = Talk(identity=ME)
    (one,) = talk.publish(1)
    talk.hear("AUTH", "challenge")
    talk.answer(one, False, ASKS)
    talk.session.lost(1006, "")
    ((_, verdict),) = talk.verdicts()
    assert (verdict.outcome, verdict.code, verdict.burns) == (RETRY, "closed", False)
    assert talk.asked_to_sign() is None
    assert (talk.session.dropped, talk.session.load) == (1, 0)


def test_last_words_say_why_the_socket_ended() -> None:
    talk = Talk()
    talk.publish(1, 2)
    talk.hear("NOTICE", "going down for repairs")
    talk.session.lost(1001, "")
    assert talk.session.last_words == "connection closed (1001) going down for repairs"
    quiet = Talk()
    quiet.session.lost(1000, "bye")
    assert (quiet.session.dropped, quiet.results()) == (0, [])
    assert quiet.session.last_words == "connection closed (1000) bye"


@pytest.mark.req("B8")
def test_what_we_abandon_has_no_verdict_so_that_it_is_still_due() -> None:
    talk = Talk(identity=ME)
    one, _, three = talk.publish(1, 2, 3)
    talk.wait(TIMEOUT)
    talk.hear("EVENT", "postrich-1", {"id": three.event_id})
    talk.publish(4)
    talk.hear("AUTH", "challenge")
    talk.publish(5)
    talk.verdicts()
    abandoned = talk.session.abandon()
    assert sorted(flight.job for flight in abandoned) == [1, 2, 4, 5]
    assert talk.session.load == 0
    assert talk.said() == []
    talk.answer(one)
    talk.session.lost(1000, "")
    assert talk.results() == []
    assert talk.wait(100) is None


# -- any interleaving --------------------------------------------------------------------------

numbers = st.integers(1, 6)
messages = st.sampled_from(
    ["", ASKS, "restricted: no", "duplicate:", "blocked: x", "rate-limited: x", "error: x", None, 5]
)
subscriptions = st.integers(1, 4).map("postrich-{}".format) | st.just("other")
steps = st.one_of(
    st.tuples(st.just("publish"), numbers),
    st.tuples(st.just("ok"), numbers, st.booleans(), messages),
    st.tuples(st.just("stray ok"), st.sampled_from(["", "?", "f" * 64]), st.booleans(), messages),
    st.tuples(st.just("auth ok"), st.booleans(), messages),
    st.tuples(st.just("challenge"), st.sampled_from(["one", "two"])),
    st.tuples(st.just("signer"), st.booleans()),
    st.tuples(st.just("found"), subscriptions, numbers),
    st.tuples(st.just("eose"), subscriptions),
    st.tuples(st.just("closed"), subscriptions, messages),
    st.tuples(st.just("notice"), st.sampled_from(["rate limited", "too large", "hello"])),
    st.tuples(st.just("garbage"), st.binary(max_size=20)),
    st.tuples(st.just("wait"), st.sampled_from([0.0, 1.0, 3.0, 5.0, 10.0])),
)


class Story:
    """Plays any steps and keeps what was published and what became of it."""

    def __init__(self, identity: str | None) -> None:
        self.talk = Talk(identity=identity)
        self.published: list[Flight] = []
        self.history: list[tuple[Flight, Verdict]] = []
        self.open: set[int] = set()
        self.settled: set[int] = set()
        self.auth_id = "a" * 64
        self.said: list[list[Any]] = []

    def play(self, step: tuple[Any, ...]) -> None:
        talk, what, rest = self.talk, step[0], step[1:]
        frames: dict[str, Callable[[], bytes]] = {
            "ok": lambda: ok(make_flight(rest[0]), rest[1], rest[2]),
            "stray ok": lambda: frame("OK", *rest),
            "auth ok": lambda: frame("OK", self.auth_id, *rest),
            "challenge": lambda: frame("AUTH", *rest),
            "found": lambda: frame("EVENT", rest[0], {"id": make_flight(rest[1]).event_id}),
            "eose": lambda: frame("EOSE", *rest),
            "closed": lambda: frame("CLOSED", *rest),
            "notice": lambda: frame("NOTICE", *rest),
            "garbage": lambda: rest[0],
        }
        if what in frames:
            talk.session.receive(frames[what](), talk.now)
        elif what == "wait":
            talk.wait(rest[0])
        elif what == "publish":
            self._publish(rest[0])
        elif talk.session.auth_wanted is not None:
            self._sign(rest[0])
        self.look()

    def _publish(self, number: int) -> None:
        """As a lane does: an event again only after its last flight came back unsettled."""
        if number not in self.open | self.settled:
            self.published += self.talk.publish(number)
            self.open.add(number)

    def _sign(self, can: bool) -> None:
        if can:
            self.auth_id = self.talk.sign()
        else:
            self.talk.asked_to_sign()
            self.talk.session.cannot_authenticate(NO_SIGNER)

    def look(self) -> None:
        for flight, verdict in self.talk.verdicts():
            self.history.append((flight, verdict))
            self.open.discard(flight.job)
            if verdict.outcome not in (UNKNOWN, RETRY, AUTHENTICATE):
                self.settled.add(flight.job)
        self.said += self.talk.said()

    def verdicts_on(self, flight: Flight) -> list[Verdict]:
        return [verdict for other, verdict in self.history if other is flight]


@pytest.mark.req("C3", "C9")
@settings(max_examples=500)
@given(st.sampled_from([None, ME]), st.lists(steps, max_size=60))
def test_whatever_a_relay_does_every_event_has_its_outcome(
    identity: str | None, played: list[tuple[Any, ...]]
) -> None:
    story = Story(identity)
    for step in played:
        story.play(step)
        assert story.talk.session.load == len(story.open)
    story.talk.session.lost(1006, "")
    story.look()
    assert story.talk.session.load == 0
    for flight in story.published:
        first, *more = story.verdicts_on(flight)
        codes = [verdict.code for verdict in more]
        assert codes == [] or (codes == ["late"] and first.outcome is UNKNOWN)
        assert first.outcome is not AUTHENTICATE or identity is None
    sent = Counter(said[1]["id"] for said in story.said if said[0] == "EVENT")
    flights = Counter(flight.event_id for flight in story.published)
    for event_id, times in sent.items():
        assert times <= flights[event_id] * (1 + MAX_AUTH_ROUNDS)
    assert identity is not None or all(said[0] != "AUTH" for said in story.said)


@pytest.mark.req("C9")
@settings(max_examples=200)
@given(st.sampled_from([None, ME]), st.lists(steps, max_size=40))
def test_left_alone_every_conversation_comes_to_rest(
    identity: str | None, played: list[tuple[Any, ...]]
) -> None:
    story = Story(identity)
    for step in played:
        story.play(step)
    if story.talk.session.auth_wanted is not None or story.talk.session._auth.pending:
        story.talk.asked_to_sign()
        story.talk.session.cannot_authenticate(NO_SIGNER)
    for _ in itertools.repeat(None, 10):
        due = story.talk.session.tick(story.talk.now)
        if due is None:
            break
        story.talk.now = max(story.talk.now, due)
    story.look()
    assert due is None
    assert story.talk.session.load == 0


@given(st.lists(st.binary(max_size=80) | st.text(max_size=80).map(str.encode), max_size=5))
def test_no_bytes_ever_raise(garbage: list[bytes]) -> None:
    talk = Talk(identity=ME)
    talk.publish(1)
    for data in garbage:
        talk.session.receive(data, talk.now)
        talk.session.receive(json.dumps(["OK", data.decode("latin-1"), True]).encode(), talk.now)
    assert talk.session.load == 1


@pytest.mark.req("C3", "C9")
def test_recalled_events_are_sent_elsewhere_and_a_late_ok_still_counts() -> None:
    talk = Talk()
    one, two = talk.publish(1, 2)
    assert talk.session.recall("nobody") == []
    assert talk.session.recall(one.parcel.pubkey) == [one, two]
    assert talk.session.load == 0
    talk.answer(two)
    assert talk.results() == [(2, DELIVERED, "late")]


@pytest.mark.req("C3")
def test_a_refusal_without_an_id_that_comes_after_auth_is_about_what_was_sent_before_it() -> None:
    talk = Talk(identity=ME)
    early = talk.publish(1, 2)
    talk.hear("AUTH", "abc")
    talk.sign()
    talk.wait(AUTH_WAIT)  # no word, as from some: it counts as done
    talk.said()
    late = talk.publish(3, 4)
    talk.said()
    talk.hear("OK", "", False, "restricted: permission denied")
    assert talk.sent_events() == [1, 2]
    for flight in (*early, *late):
        talk.answer(flight)
    assert [job for job, outcome, _ in talk.results() if outcome is DELIVERED] == [1, 2, 3, 4]
    (alone,) = talk.publish(5)
    talk.publish(6)
    talk.hear("OK", "", False, "restricted: permission denied")
    talk.said()
    assert alone.event_id in talk.session.in_flight
