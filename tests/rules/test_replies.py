"""What relays say and what it means (C2): every form known from the wild, in one table."""

import errno
import socket
import ssl

import picows
import pytest
from hypothesis import given
from hypothesis import strategies as st

from postrich.errors import ForbiddenRelay
from postrich.model.delivery import Outcome, Verdict
from postrich.rules.replies import (
    MAX_READ,
    SILENCE_LIMIT,
    UNEXPLAINED_LIMIT,
    Hint,
    Prefix,
    fault_of,
    hint_of_notice,
    parse_reply,
    verdict_of_close,
    verdict_of_notice,
    verdict_of_ok,
    verdict_of_silence,
)

DELIVERED, SUPERSEDED = Outcome.DELIVERED, Outcome.SUPERSEDED
RETRY, AUTHENTICATE, UNKNOWN = Outcome.RETRY, Outcome.AUTHENTICATE, Outcome.UNKNOWN
PARKED, REFUSED = Outcome.PARKED, Outcome.REFUSED

# -- prefixes ----------------------------------------------------------------------------------

PREFIXES: list[tuple[object, Prefix, str]] = [
    ("auth-required: we only serve friends", Prefix.AUTH_REQUIRED, "we only serve friends"),
    ("restricted: not allowed", Prefix.RESTRICTED, "not allowed"),
    ("duplicate: already have this event", Prefix.DUPLICATE, "already have this event"),
    ("pow: difficulty 10<20", Prefix.POW, "difficulty 10<20"),
    ("blocked: you are banned", Prefix.BLOCKED, "you are banned"),
    ("rate-limited: slow down", Prefix.RATE_LIMITED, "slow down"),
    ("invalid: bad signature", Prefix.INVALID, "bad signature"),
    ("error: disk is full", Prefix.ERROR, "disk is full"),
    ("mute: no one was listening", Prefix.MUTE, "no one was listening"),
    ("replaced: have newer event", Prefix.REPLACED, "have newer event"),
    ("deleted: user requested deletion", Prefix.DELETED, "user requested deletion"),
    ("rejected: created_at is too late", Prefix.REJECTED, "created_at is too late"),
    # Spaces, and none.
    ("duplicate:", Prefix.DUPLICATE, ""),
    ("duplicate:exists", Prefix.DUPLICATE, "exists"),
    ("  blocked:   spam", Prefix.BLOCKED, "spam"),
    ("error: two\nlines: here", Prefix.ERROR, "two\nlines: here"),
    # One word deeper, where the first one is vague.
    ("blocked: auth-required: say who you are", Prefix.AUTH_REQUIRED, "say who you are"),
    ("error: rate-limited: too much", Prefix.RATE_LIMITED, "too much"),
    ("restricted: auth-required: log in", Prefix.AUTH_REQUIRED, "log in"),
    ("rejected: pow: 20 bits", Prefix.POW, "20 bits"),
    ("policy: blocked: spam", Prefix.BLOCKED, "spam"),
    ("blocked: reason: unclear", Prefix.BLOCKED, "reason: unclear"),
    # … and not where it is clear.
    ("duplicate: blocked: whatever", Prefix.DUPLICATE, "blocked: whatever"),
    (
        "rate-limited: blocked: you noted too much",
        Prefix.RATE_LIMITED,
        "blocked: you noted too much",
    ),
    ("auth-required: restricted: log in", Prefix.AUTH_REQUIRED, "restricted: log in"),
    # What nobody standardised keeps all of its text.
    ("unsupported: kind", Prefix.UNKNOWN, "unsupported: kind"),
    ("bad req: too small", Prefix.UNKNOWN, "bad req: too small"),
    ("Write error: no space", Prefix.UNKNOWN, "Write error: no space"),
    ("unknown: word", Prefix.UNKNOWN, "unknown: word"),
    ("broadcasted to 5 listeners", Prefix.UNKNOWN, "broadcasted to 5 listeners"),
    (": empty", Prefix.UNKNOWN, ": empty"),
    ("", Prefix.UNKNOWN, ""),
    # What is no text says nothing.
    (None, Prefix.UNKNOWN, ""),
    (5, Prefix.UNKNOWN, ""),
    (True, Prefix.UNKNOWN, ""),
    (["blocked: x"], Prefix.UNKNOWN, ""),
    ({"reason": "blocked: x"}, Prefix.UNKNOWN, ""),
]


@pytest.mark.req("C2")
@pytest.mark.parametrize(("message", "prefix", "text"), PREFIXES)
def test_a_reason_is_read_into_its_word(message: object, prefix: Prefix, text: str) -> None:
    reply = parse_reply(message)
    assert (reply.prefix, reply.text) == (prefix, text)
    assert reply.raw == (message if isinstance(message, str) else "")


@pytest.mark.req("C2")
def test_every_prefix_has_an_example_here() -> None:
    assert {prefix for _, prefix, _ in PREFIXES} == set(Prefix)


# -- OK ----------------------------------------------------------------------------------------

#: message of a refusal, outcome, code.
REFUSALS: list[tuple[object, Outcome, str]] = [
    # Duplicates are delivered, whatever the boolean (SERVERS: nostr-relay; nostream).
    ("duplicate: exists", DELIVERED, "duplicate"),
    ("duplicate:", DELIVERED, "duplicate"),
    ("duplicate: already have this event", DELIVERED, "duplicate"),
    ("rejected: event already exists", DELIVERED, "duplicate"),
    ("Duplicate: event", DELIVERED, "duplicate"),
    ("duplicate event", DELIVERED, "duplicate"),
    ("duplicate", DELIVERED, "duplicate"),
    ("already have this event", DELIVERED, "duplicate"),
    ("error: duplicate: have it", DELIVERED, "duplicate"),
    # … but nothing is called delivered that only sounds like it.
    ("invalid: duplicate tags", REFUSED, "invalid"),
    ("invalid: tag p is duplicate", REFUSED, "invalid"),
    ("rejected: name already exists", REFUSED, "rejected"),
    ("invalid: event already expired", REFUSED, "invalid"),
    ("rejected: already have a newer version", REFUSED, "rejected"),
    # Newer versions and deletions (strfry, khatru).
    ("replaced: have newer event", SUPERSEDED, "replaced"),
    ("deleted: user requested deletion", REFUSED, "deleted"),
    ("blocked: this event has been deleted", REFUSED, "blocked"),
    # AUTH.
    ("auth-required: event author must authenticate", AUTHENTICATE, "auth-required"),
    ("blocked: auth-required: protected event", AUTHENTICATE, "auth-required"),
    ("restricted: permission denied", REFUSED, "restricted"),
    ("restricted: not on the list", REFUSED, "restricted"),
    ("blocked: event marked as protected", REFUSED, "blocked"),
    # Pace.
    ("rate-limited: you are noting too much", RETRY, "rate-limited"),
    ("rate-limited:", RETRY, "rate-limited"),
    ("rate limited", RETRY, "rate-limited"),
    ("Rate-Limited: later", RETRY, "rate-limited"),
    ("you are posting too fast", RETRY, "rate-limited"),
    ("too many requests", RETRY, "rate-limited"),
    ("invalid: too many events, slow down", RETRY, "rate-limited"),
    # … but an event with too many tags will have them tomorrow too (strfry, nostr-relay).
    ("invalid: too many tags: 2001", REFUSED, "invalid"),
    ("rejected: too many 'p' tags: 300. limit: 100", REFUSED, "rejected"),
    # Work.
    ("pow: difficulty 10<20", PARKED, "pow"),
    ("pow: 28 bits needed. (2)", PARKED, "pow"),
    ("rejected: 8 PoW required. Found: 2", PARKED, "pow"),
    ("invalid: insufficient proof of work", PARKED, "pow"),
    ("PoW required", PARKED, "pow"),
    # Money: until a person acts.
    ("blocked: pubkey not admitted", PARKED, "blocked"),
    ("blocked: insufficient balance", PARKED, "blocked"),
    ("restricted: not an active paid member", PARKED, "restricted"),
    ("restricted: payment required, 1000 sats", PARKED, "restricted"),
    ("rejected: you need to pay the admission fee", PARKED, "rejected"),
    ("payment-required: pay the invoice", PARKED, "unknown"),
    ("blocked: payload too large", REFUSED, "blocked"),
    # Dates.
    ("invalid: 1700009999 is in the future", RETRY, "future"),
    ("invalid: created_at too far in the future", RETRY, "future"),
    ("rejected: created_at is more than 900 seconds in the future", RETRY, "future"),
    ("rejected: created_at is too late", RETRY, "future"),
    ("event is too far ahead", RETRY, "future"),
    ("invalid: created_at is too old", REFUSED, "invalid"),
    ("invalid: 1 is too old", REFUSED, "invalid"),
    ("invalid: event expired", REFUSED, "invalid"),
    ("invalid: kind not yet supported", REFUSED, "invalid"),
    # The event's fault for good.
    ("invalid: bad signature", REFUSED, "invalid"),
    ("invalid: event too large", REFUSED, "invalid"),
    ("invalid: kind=4 not allowed", REFUSED, "invalid"),
    ("rejected: pubkey not allowed", REFUSED, "rejected"),
    ("blocked: spam", REFUSED, "blocked"),
    ("mute: no one was listening for this", REFUSED, "mute"),
    # The relay's fault.
    ("error: could not connect to the database", RETRY, "error"),
    # What explains nothing: tried again, but not for ever.
    ("", RETRY, "unexplained"),
    (None, RETRY, "unexplained"),
    (7, RETRY, "unexplained"),
    (["blocked: x"], RETRY, "unexplained"),
    ("Write error: MDB_MAP_FULL", RETRY, "unexplained"),
    ("no", RETRY, "unexplained"),
    ("unsupported: kind 30023", RETRY, "unexplained"),
    ("no duplicate allowed", RETRY, "unexplained"),
]


@pytest.mark.req("C2")
@pytest.mark.parametrize(("message", "outcome", "code"), REFUSALS)
def test_a_refusal_means(message: object, outcome: Outcome, code: str) -> None:
    verdict = verdict_of_ok(False, message)
    assert (verdict.outcome, verdict.code) == (outcome, code)


@pytest.mark.req("C2", "B7")
def test_a_refusal_keeps_the_relays_own_words() -> None:
    assert verdict_of_ok(False, "blocked: spam").text == "blocked: spam"
    assert verdict_of_ok(False, "blocked: pow: 8").text == "blocked: pow: 8"
    assert verdict_of_ok(False, "odd").text == "odd"
    assert verdict_of_ok(False, None).text == "refused without a reason"
    assert verdict_of_ok(False, "blocked: mail me@relay.example").text == "blocked: mail [e-mail]"


@pytest.mark.req("B10")
@pytest.mark.parametrize(("message", "outcome", "code"), REFUSALS)
def test_only_a_rate_limit_costs_no_attempt(message: object, outcome: Outcome, code: str) -> None:
    assert verdict_of_ok(False, message).burns == (code != "rate-limited")


@pytest.mark.req("B9")
@pytest.mark.parametrize(("message", "outcome", "code"), REFUSALS)
def test_only_the_unexplained_has_a_limit_of_its_own(
    message: object, outcome: Outcome, code: str
) -> None:
    limit = UNEXPLAINED_LIMIT if code == "unexplained" else None
    assert verdict_of_ok(False, message).limit == limit


@pytest.mark.req("C2")
@pytest.mark.parametrize(
    ("message", "code"),
    [
        ("", "ok"),
        (None, "ok"),
        ("duplicate: already have this event", "duplicate"),
        ("duplicate:", "duplicate"),
        ("pow: difficulty 25>=24", "ok"),
        ("broadcasted to 3 listeners", "ok"),
        ("info: welcome", "ok"),
        ("blocked: but stored", "ok"),
        ("auth-required: next time", "ok"),
        (0, "ok"),
        (3, "ok"),
        ({"stored": True}, "ok"),
    ],
)
def test_an_ok_is_delivered_whatever_it_says(message: object, code: str) -> None:
    verdict = verdict_of_ok(True, message)
    assert (verdict.outcome, verdict.code) == (DELIVERED, code)
    assert verdict.text == ("" if not message else str(message))


@pytest.mark.req("C3")
def test_restricted_may_mean_say_who_you_are_while_a_challenge_is_open() -> None:
    verdict = verdict_of_ok(False, "restricted: permission denied", may_authenticate=True)
    assert verdict.outcome is AUTHENTICATE
    for message in ("blocked: no", "invalid: no", "restricted: pow: 8"):
        assert verdict_of_ok(False, message, may_authenticate=True).outcome is not AUTHENTICATE


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=5,
)
words = st.sampled_from([*Prefix, "already exists", "too many", "future", "pay", "\n", ":", " "])
wild_texts = st.lists(words | st.text(max_size=5), max_size=6).map("".join)


@pytest.mark.req("C2")
@given(st.booleans(), json_values | wild_texts, st.booleans())
def test_whatever_a_relay_says_is_understood_somehow(
    accepted: bool, message: object, may_authenticate: bool
) -> None:
    verdict = verdict_of_ok(accepted, message, may_authenticate=may_authenticate)
    assert not accepted or verdict.outcome is DELIVERED
    assert len(verdict.text) <= 500
    assert "\n" not in verdict.text


@pytest.mark.req("C2")
@pytest.mark.parametrize("bait", ["created_at", "exceed ", "a:", "blocked: ", "x ", "max "])
def test_a_megabyte_of_bait_does_not_hold_us_up(bait: str) -> None:
    message = bait * (2_000_000 // len(bait))
    for text in ("invalid: " + message, message):
        assert len(verdict_of_ok(False, text).text) <= 500
    assert len(verdict_of_ok(True, message).text) <= 500
    verdict_of_notice(message, hint_of_notice(message))  # a quadratic search would never end
    assert len(parse_reply(message).raw) == MAX_READ


# -- silence, closed sockets, notices ----------------------------------------------------------


@pytest.mark.req("C9")
def test_silence_is_unknown_not_failure() -> None:
    verdict = verdict_of_silence(10.0)
    assert (verdict.outcome, verdict.code, verdict.limit) == (UNKNOWN, "timeout", SILENCE_LIMIT)
    assert verdict.burns
    assert verdict.text == "no answer in 10 s"
    hinted = verdict_of_silence(2.5, "slow today")
    assert hinted.text == "no answer in 2.5 s; the relay said: slow today"


CLOSES: list[tuple[int, str, bool, Outcome, str, bool]] = [
    # code, reason, alone: outcome, code, burns
    (1006, "", True, UNKNOWN, "closed", True),
    (1006, "", False, UNKNOWN, "closed", False),
    (1000, "bye", True, UNKNOWN, "closed", True),
    (1001, "restarting", False, UNKNOWN, "closed", False),
    (1009, "message too big", True, REFUSED, "too-large", True),
    (1009, "message too big", False, UNKNOWN, "closed", False),
    (1013, "try again later", True, RETRY, "rate-limited", False),
    (1013, "", False, RETRY, "rate-limited", False),
    (1008, "rate limit exceeded", True, RETRY, "rate-limited", False),
    (1008, "too many messages", False, RETRY, "rate-limited", False),
    (1008, "too many connections", False, RETRY, "rate-limited", False),
    (1008, "policy", True, UNKNOWN, "closed", True),
    (1011, "internal error", False, UNKNOWN, "closed", False),
    (4000, "", True, UNKNOWN, "closed", True),
]


@pytest.mark.req("B10", "C9")
@pytest.mark.parametrize(("number", "reason", "alone", "outcome", "code", "burns"), CLOSES)
def test_a_closed_socket_blames_only_who_was_alone(
    number: int, reason: str, alone: bool, outcome: Outcome, code: str, burns: bool
) -> None:
    verdict = verdict_of_close(number, reason, alone=alone)
    assert (verdict.outcome, verdict.code, verdict.burns) == (outcome, code, burns)
    assert str(number) in verdict.text
    assert reason in verdict.text
    assert (verdict.limit == SILENCE_LIMIT) == (outcome is UNKNOWN and alone)


NOTICES = [
    ("rate limited", Hint.SLOW_DOWN),
    ("you are sending too many messages", Hint.SLOW_DOWN),
    ("slow down", Hint.SLOW_DOWN),
    ("throttled", Hint.SLOW_DOWN),
    ("message too large", Hint.REFUSAL),
    ("event exceeded max size", Hint.REFUSAL),
    ("maximum event size is 65536", Hint.REFUSAL),
    ("could not parse command", Hint.REFUSAL),
    ("ERROR: bad msg: invalid message", Hint.REFUSAL),
    ("invalid JSON", Hint.REFUSAL),
    ("malformed event", Hint.REFUSAL),
    ("welcome to relay.example", Hint.OTHER),
    ("too many concurrent REQs", Hint.OTHER),
    ("this is the maximum relay", Hint.OTHER),
    ("", Hint.OTHER),
]


@pytest.mark.req("C2")
@pytest.mark.parametrize(("text", "hint"), NOTICES)
def test_a_notice_is_a_hint(text: str, hint: Hint) -> None:
    assert hint_of_notice(text) is hint
    verdict = verdict_of_notice(text, hint)
    expected = {
        Hint.SLOW_DOWN: Verdict(RETRY, "rate-limited", text, burns=False),
        Hint.REFUSAL: Verdict(REFUSED, "notice", text),
        Hint.OTHER: None,
    }
    assert verdict == expected[hint]


# -- faults of dialling ------------------------------------------------------------------------


class BadCertificate(ssl.SSLCertVerificationError):
    """A library's own subclass."""


TWO_ADDRESSES = (
    "Multiple exceptions: [Errno 101] Connect call failed ('2001:db8::1', 443, 0, 0), "
    "[Errno {}] Connect call failed ('192.0.2.1', 443)"
)
FAULTS: list[tuple[BaseException, str, bool]] = [
    # problem, code, perhaps it is our own network
    (socket.gaierror(-2, "Name or service not known"), "dns", True),
    (TimeoutError(), "timeout", True),
    (TimeoutError(errno.ETIMEDOUT, "Connection timed out"), "timeout", True),
    (ConnectionRefusedError(errno.ECONNREFUSED, "Connect call failed"), "refused", False),
    (ssl.SSLError(1, "wrong version number"), "tls", False),
    (BadCertificate("certificate has expired"), "tls", False),
    (OSError(errno.ENETUNREACH, "Network is unreachable"), "unreachable", True),
    (OSError(errno.EHOSTUNREACH, "No route to host"), "unreachable", True),
    (OSError(errno.ENETDOWN, "Network is down"), "unreachable", True),
    (OSError(TWO_ADDRESSES.format(113)), "unreachable", True),
    (OSError(TWO_ADDRESSES.format(111)), "unreachable", False),
    (OSError("odd"), "unreachable", False),
    (ConnectionResetError(errno.ECONNRESET, "reset by peer"), "unreachable", False),
    (picows.WSInvalidStatusError("server rejected WebSocket: HTTP 503"), "http-503", False),
    (picows.WSHandshakeError("HTTP 1.1 answer 404 Not Found"), "http-404", False),
    (picows.WSInvalidMessageError("not HTTP"), "handshake", False),
    (picows.WSError("closed"), "handshake", False),
    (ValueError("label too long"), "fault", False),
    (RuntimeError(), "fault", False),
]


@pytest.mark.req("A13", "C10")
@pytest.mark.parametrize(("problem", "code", "network"), FAULTS)
def test_a_failed_dial_has_a_name(problem: BaseException, code: str, network: bool) -> None:
    fault = fault_of(problem)
    assert (fault.code, fault.network) == (code, network)
    assert fault.text


@pytest.mark.req("B7")
def test_a_faults_text_holds_no_credentials() -> None:
    fault = fault_of(OSError("cannot reach wss://me:hunter2@relay.example/"))
    assert fault.text == "cannot be reached: cannot reach wss://relay.example/"


@pytest.mark.req("C11")
def test_a_relay_that_may_not_be_dialled_is_no_relay_in_trouble() -> None:
    fault = fault_of(ForbiddenRelay("it leads inside"))
    assert (fault.code, fault.text, fault.network) == ("forbidden", "it leads inside", False)
