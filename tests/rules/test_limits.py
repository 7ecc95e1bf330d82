"""What relays say of themselves (NIP-11), read as a stranger's word, and what it means (C5, C6)."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from postrich.model.delivery import Outcome, Parcel, Verdict, event_frame
from postrich.model.event import make_draft, seal
from postrich.model.relay import Limitation, RelayInfo
from postrich.rules.limits import (
    SMALLEST_MESSAGE,
    Facts,
    committed_work,
    effective,
    facts_of,
    info_url,
    parse_info,
    refuses,
    required_pow,
    smaller,
    surely_takes,
)


@pytest.mark.req("C4")
@pytest.mark.parametrize(
    ("relay", "url"),
    [
        ("wss://relay.example.com", "https://relay.example.com"),
        ("wss://relay.example.com/nostr", "https://relay.example.com/nostr"),
        ("wss://relay.example.com/ws?v=1", "https://relay.example.com/ws?v=1"),
        ("ws://127.0.0.1:7000/", "http://127.0.0.1:7000/"),
        ("wss://[::1]:7000/a//b/", "https://[::1]:7000/a//b/"),
        ("ftp://relay.example.com/", None),
    ],
)
def test_the_address_changes_its_scheme_and_nothing_else(relay: str, url: str | None) -> None:
    assert info_url(relay) == url


@pytest.mark.req("C4")
def test_a_full_document() -> None:
    body = {
        "name": "a relay",
        "software": "somebody's",
        "supported_nips": [1, 11, "42", "7D", 42, None, -1, 13.0],
        "limitation": {
            "max_message_length": 16384,
            "min_pow_difficulty": 24,
            "auth_required": False,
            "restricted_writes": True,
            "created_at_upper_limit": 900,
            "something_new": 5,
        },
        "retention": [{"time": 3600}],
    }
    info = parse_info(msgspec.json.encode(body))
    assert info is not None
    assert (info.name, info.software, info.supported_nips) == (
        "a relay",
        "somebody's",
        (1, 11, 42, 13),
    )
    assert info.limitation == Limitation(
        max_message_length=16384,
        min_pow_difficulty=24,
        auth_required=False,
        restricted_writes=True,
        created_at_upper_limit=900,
    )


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b"5", b"null", b"\xff", b"[" * 5000])
def test_what_is_no_document(body: bytes) -> None:
    assert parse_info(body) is None


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(
    st.fixed_dictionaries(
        {},
        optional={
            "name": JUNK,
            "payments_url": JUNK,
            "supported_nips": JUNK,
            "limitation": JUNK
            | st.fixed_dictionaries(
                {},
                optional={name.name: JUNK for name in msgspec.structs.fields(Limitation)},
            ),
        },
    )
)
def test_whatever_comes_is_read_as_numbers_flags_and_short_texts(document: dict[str, Any]) -> None:
    info = parse_info(msgspec.json.encode(document))
    assert info is not None
    assert len(info.name) <= 500
    assert all(type(nip) is int and nip >= 0 for nip in info.supported_nips)
    for field in msgspec.structs.fields(Limitation):
        value = getattr(info.limitation, field.name)
        is_flag = field.name.endswith(("_required", "_writes"))
        assert value is None or (type(value) is (bool if is_flag else int))


@pytest.mark.req("A14")
def test_the_most_demanding_relay_decides_how_much_work_is_needed() -> None:
    def asks(bits: int | None) -> RelayInfo:
        return RelayInfo(limitation=Limitation(min_pow_difficulty=bits))

    assert required_pow([]) == 0
    assert required_pow([None, asks(None), asks(0)]) == 0
    assert required_pow([asks(12), None, asks(24), asks(8)]) == 24


# -- what a relay would refuse (C5) ---------------------------------------------------------------

NOW = 1_700_000_000_000
SECONDS = NOW // 1000
NOTE = Facts(message=1000, content=100, tags=5, created_at=SECONDS, work=0, expires=False)


def judged(facts: Facts = NOTE, **terms: Any) -> Verdict | None:
    """By a relay of those limits; `nips`, `trusted` and `longest` are not of them."""
    nips = terms.pop("nips", ())
    trusted, longest = terms.pop("trusted", True), terms.pop("longest", None)
    info = RelayInfo(supported_nips=nips, limitation=Limitation(**terms))
    return refuses(facts, info, NOW, trusted=trusted, longest=longest)


def changed(**facts: Any) -> Facts:
    return msgspec.structs.replace(NOTE, **facts)


@pytest.mark.req("C5")
@pytest.mark.parametrize("trusted", [True, False])
def test_a_relay_that_says_nothing_is_sent_everything(trusted: bool) -> None:
    assert judged(trusted=trusted) is None
    assert judged(changed(message=2**40, tags=10**6, content=10**7, created_at=0)) is None


@pytest.mark.req("C5")
@pytest.mark.parametrize(
    ("limit", "value", "fact", "code"),
    [
        ("max_message_length", 999, {}, "too-large"),
        ("max_event_tags", 4, {}, "too-large"),
        ("max_content_length", 99, {}, "too-large"),
        ("created_at_lower_limit", 60, {"created_at": SECONDS - 61}, "too-old"),
    ],
)
def test_what_is_over_a_limit_is_not_sent(
    limit: str, value: int, fact: dict[str, int], code: str
) -> None:
    verdict = judged(changed(**fact), **{limit: value})
    assert verdict is not None
    assert (verdict.outcome, verdict.code, verdict.burns) == (Outcome.SKIPPED, code, False)
    assert verdict.text.startswith("not sent: ")
    assert str(value) in verdict.text
    assert judged(changed(**fact), **{limit: value + 1}) is None, "on the limit is within it"


@pytest.mark.req("C5", "A14")
def test_too_little_work_waits_for_a_person_who_may_mine_more() -> None:
    verdict = judged(changed(work=19), min_pow_difficulty=20)
    assert verdict is not None
    assert (verdict.outcome, verdict.code, verdict.burns) == (Outcome.PARKED, "pow", False)
    assert "20" in verdict.text
    assert "19" in verdict.text
    assert judged(changed(work=20), min_pow_difficulty=20) is None


@pytest.mark.req("C5")
@pytest.mark.parametrize("ahead", [0, 3, 900])
def test_what_is_ahead_of_its_time_is_tried_later(ahead: int) -> None:
    verdict = judged(changed(created_at=SECONDS + ahead + 1), created_at_upper_limit=ahead)
    assert verdict is not None
    assert (verdict.outcome, verdict.code) == (Outcome.RETRY, "future")
    assert judged(changed(created_at=SECONDS + ahead), created_at_upper_limit=ahead) is None


@pytest.mark.req("C5")
@pytest.mark.parametrize(
    "limit",
    [
        *("max_message_length", "max_event_tags", "max_content_length"),
        *("created_at_lower_limit", "min_pow_difficulty"),
    ],
)
def test_a_limit_of_nothing_at_all_is_a_slip(limit: str) -> None:
    assert judged(NOTE, **{limit: 0}) is None


@pytest.mark.req("C5")
def test_who_wants_money_or_knows_its_writers_is_the_owners_choice_only() -> None:
    for limit, code in (("payment_required", "payment"), ("restricted_writes", "restricted")):
        assert judged(NOTE, trusted=True, **{limit: True}) is None
        assert judged(NOTE, trusted=False, **{limit: False}) is None
        verdict = judged(NOTE, trusted=False, **{limit: True})
        assert verdict is not None
        assert (verdict.outcome, verdict.code) == (Outcome.SKIPPED, code)


def test_where_to_pay_is_said() -> None:
    info = RelayInfo(
        payments_url="https://pay.example/", limitation=Limitation(payment_required=True)
    )
    verdict = refuses(NOTE, info, NOW, trusted=False)
    assert verdict is not None
    assert verdict.text.endswith("https://pay.example/")


@pytest.mark.req("C5")
def test_what_expires_goes_only_where_that_is_honoured() -> None:
    verdict = judged(changed(expires=True), nips=(1, 11))
    assert verdict is not None
    assert (verdict.outcome, verdict.code) == (Outcome.SKIPPED, "expiration")
    assert judged(changed(expires=True), nips=(1, 40)) is None
    assert judged(changed(expires=True), nips=()) is None, "it says nothing of what it can"
    assert judged(NOTE, nips=(1, 11)) is None


@pytest.mark.req("C5")
def test_what_limits_look_at() -> None:
    tags = (("expiration", "1800000000"), ("nonce", "1", "0"))
    facts = facts_of(make_draft("ab" * 32, 1_700_000_000, 1, tags, "grüße 🦩"), 321)
    assert facts == Facts(
        message=321, content=7, tags=2, created_at=1_700_000_000, work=0, expires=True
    )


@pytest.mark.req("C5", "A14")
def test_only_work_that_was_aimed_for_counts() -> None:
    twenty = "00000" + "f" * 59
    assert committed_work(twenty, ()) == 20
    assert committed_work(twenty, (("nonce", "1", "12"),)) == 12
    assert committed_work(twenty, (("nonce", "1", "30"),)) == 20


@pytest.mark.req("C4")
def test_the_fallback_values_are_those_of_the_specification() -> None:
    expected = Limitation(
        max_subscriptions=20,
        max_message_length=131072,
        max_limit=5000,
        default_limit=100,
        auth_required=False,
        payment_required=False,
        restricted_writes=False,
    )
    assert effective(None) == expected
    assert effective(RelayInfo()) == expected


@pytest.mark.req("C4")
def test_what_a_relay_says_comes_before_the_fallback_even_if_it_says_nothing_or_no() -> None:
    said = Limitation(max_subscriptions=0, max_limit=7, auth_required=True, max_event_tags=9)
    found = effective(RelayInfo(limitation=said))
    assert (found.max_subscriptions, found.max_limit, found.auth_required) == (0, 7, True)
    assert (found.max_event_tags, found.max_message_length) == (9, 131072)


# -- the size that a relay was found to take (C6) --------------------------------------------------


@pytest.mark.req("C6")
def test_each_refusal_halves_what_is_sent_down_to_sixteen_kilobytes() -> None:
    known: int | None = None
    seen = []
    for _ in range(5):
        known = smaller(100_000, known)
        seen.append(known)
    assert seen == [50_000, 25_000, 16_384, 16_384, 16_384]
    assert smaller(100, None) == SMALLEST_MESSAGE == 16 * 1024
    assert smaller(40_000, 100_000) == 20_000


@pytest.mark.req("C6")
def test_the_size_found_counts_beside_the_size_said() -> None:
    large = changed(message=30_000)
    assert judged(large, longest=30_000) is None
    for limits in ({"longest": 20_000}, {"longest": 20_000, "max_message_length": 65_536}):
        verdict = judged(large, **limits)
        assert verdict is not None
        assert verdict.code == "too-large"
        assert "20,000" in verdict.text
    assert judged(large, longest=65_536, max_message_length=20_000) is not None


# -- the short way ---------------------------------------------------------------------------------

SMALL = st.none() | st.integers(0, 400)


@pytest.mark.req("C5")
@given(
    content=st.text(max_size=80),
    tags=st.lists(
        st.lists(st.text(max_size=5) | st.just("expiration"), min_size=1, max_size=3), max_size=4
    ),
    age=st.integers(-100, 100),
    limits=st.fixed_dictionaries(
        {
            "max_message_length": SMALL,
            "max_content_length": SMALL,
            "max_event_tags": st.none() | st.integers(0, 4),
            "min_pow_difficulty": st.none() | st.integers(0, 2),
            "created_at_lower_limit": st.none() | st.integers(0, 100),
            "created_at_upper_limit": st.none() | st.integers(0, 100),
            "payment_required": st.none() | st.booleans(),
            "restricted_writes": st.none() | st.booleans(),
        }
    ),
    nips=st.sampled_from([(), (1,), (1, 40)]),
    longest=SMALL,
    trusted=st.booleans(),
    escaped=st.booleans(),
)
def test_what_passes_by_its_bytes_passes_the_closer_look_too(
    content: str,
    tags: list[list[str]],
    age: int,
    limits: dict[str, Any],
    nips: tuple[int, ...],
    longest: int | None,
    trusted: bool,
    escaped: bool,
) -> None:
    draft = make_draft("ab" * 32, SECONDS - age, 1, tags, content)
    fields = {**msgspec.json.decode(seal(draft, "0" * 128).raw)}
    frame = event_frame(json.dumps(fields, ensure_ascii=escaped).encode())
    parcel = Parcel(1, draft.id, draft.pubkey, draft.created_at, 1, 0, "", frame)
    info = RelayInfo(supported_nips=nips, limitation=Limitation(**limits))
    if surely_takes(parcel, info, NOW, trusted=trusted, longest=longest):
        facts = facts_of(draft, len(frame))
        assert refuses(facts, info, NOW, trusted=trusted, longest=longest) is None


@pytest.mark.req("C5")
def test_a_common_note_takes_the_short_way() -> None:
    draft = make_draft("ab" * 32, SECONDS, 1, [["p", "cd" * 32]], "hello")
    frame = event_frame(seal(draft, "0" * 128).raw)
    parcel = Parcel(1, draft.id, draft.pubkey, SECONDS, 1, 0, "", frame)
    usual = Limitation(
        max_message_length=65_536,
        max_content_length=8_192,
        max_event_tags=100,
        created_at_lower_limit=94_608_000,
        created_at_upper_limit=900,
        payment_required=True,
    )
    assert surely_takes(parcel, RelayInfo(limitation=usual), NOW, trusted=True)
    assert not surely_takes(parcel, RelayInfo(limitation=usual), NOW, trusted=False)
