"""What a signer's answer is worth: it is the draft, field by field, or it is refused (A2)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from coincurve import PrivateKey
from hypothesis import given
from hypothesis import strategies as st

from postrich.errors import SignerFault
from postrich.model.event import Draft, is_signed, make_draft, seal
from postrich.rules.signing import MAX_ANSWER, read_answer, take_signature, template_of
from tests.relays.events import is_valid, make_event, public_key

pytestmark = pytest.mark.req("A2")

ALICE, BOB = b"\x01" * 32, b"\x02" * 32
TAGS = [["t", "x"], ["nonce", "1", "2"], ["alone"]]
CONTENT = 'a "quote", \\ and \n, 🦤 and \u2028'
DRAFT = make_draft(public_key(ALICE), 1_700_000_000, 1, TAGS, CONTENT)


def answer(**changes: Any) -> dict[str, Any]:
    """The truly signed draft, as an independent signer makes it, with fields changed after."""
    return {**make_event(ALICE, 1, CONTENT, TAGS, 1_700_000_000), **changes}


def without(name: str) -> dict[str, Any]:
    return {key: value for key, value in answer().items() if key != name}


def test_a_signer_is_given_what_it_must_sign_and_nothing_else() -> None:
    assert template_of(DRAFT) == {
        "kind": 1,
        "created_at": 1_700_000_000,
        "tags": TAGS,
        "content": CONTENT,
    }


def test_the_true_signature_is_taken() -> None:
    theirs = answer()
    event = take_signature(DRAFT, theirs)
    assert is_signed(event)
    assert event.raw == seal(DRAFT, theirs["sig"]).raw
    assert is_valid(json.loads(event.raw))


def test_the_bytes_that_are_kept_are_ours() -> None:
    """More fields, another order: whatever is not the signature is left behind."""
    theirs = {"extra": "x", "relays": [1], **dict(reversed(answer().items()))}
    event = take_signature(DRAFT, theirs)
    assert event.raw == seal(DRAFT, theirs["sig"]).raw
    assert b"extra" not in event.raw


@pytest.mark.parametrize("name", ["pubkey", "created_at", "kind", "tags", "content"])
def test_what_is_left_out_is_named(name: str) -> None:
    with pytest.raises(SignerFault, match=f"left out {name}$"):
        take_signature(DRAFT, without(name))


CHANGES: list[tuple[str, Any]] = [
    ("pubkey", public_key(BOB)),
    ("pubkey", public_key(ALICE).upper()),
    ("pubkey", ""),
    ("pubkey", None),
    ("pubkey", 10**40),
    ("created_at", 1_700_000_001),
    ("created_at", 1_700_000_000.0),
    ("created_at", "1700000000"),
    ("created_at", None),
    ("created_at", True),
    ("kind", 2),
    ("kind", True),
    ("kind", 1.0),
    ("kind", "1"),
    ("kind", [1]),
    ("tags", []),
    ("tags", [*TAGS, ["client", "Bunker"]]),
    ("tags", list(reversed(TAGS))),
    ("tags", TAGS[:-1]),
    ("tags", [["t", "x "], *TAGS[1:]]),
    ("tags", [["t", None], *TAGS[1:]]),
    ("tags", json.dumps(TAGS)),
    ("tags", {}),
    ("tags", None),
    ("tags", "\ud800"),
    ("content", CONTENT + " "),
    ("content", ""),
    ("content", None),
    ("content", 7),
    ("content", [CONTENT]),
    ("content", CONTENT.encode()),
    ("content", object()),
    ("content", "e\u0301" + "x" * 100_000),
]


@pytest.mark.parametrize(("name", "value"), CHANGES)
def test_what_was_changed_is_named(name: str, value: Any) -> None:
    with pytest.raises(SignerFault, match=f"changed {name}: .+ became ") as caught:
        take_signature(DRAFT, answer(**{name: value}))
    assert len(str(caught.value)) < 200


def test_a_change_is_shown_on_both_sides() -> None:
    with pytest.raises(SignerFault, match=r"changed kind: 1 became 30023$"):
        take_signature(DRAFT, answer(kind=30_023))


def test_a_signed_change_is_a_change_too() -> None:
    """The answer is a true event of the account: it is still not the one we asked for."""
    other = make_event(ALICE, 1, CONTENT, [*TAGS, ["t", "added"]], 1_700_000_000)
    with pytest.raises(SignerFault, match="changed tags"):
        take_signature(DRAFT, other)


@pytest.mark.parametrize(
    "event_id", [None, "", "0" * 64, 7, ["x"], answer()["id"].upper(), answer()["id"][:-1]]
)
def test_another_id_is_refused(event_id: Any) -> None:
    with pytest.raises(SignerFault, match="id is not the id of the event"):
        take_signature(DRAFT, answer(id=event_id))
    with pytest.raises(SignerFault, match="id is not the id of the event"):
        take_signature(DRAFT, without("id"))


@pytest.mark.parametrize("sig", [None, "", "0" * 127, "z" * 128, "A" * 128, 7, ["0"], b"0" * 128])
def test_what_has_not_the_form_of_a_signature_is_refused(sig: Any) -> None:
    with pytest.raises(SignerFault, match="has not the form of one"):
        take_signature(DRAFT, answer(sig=sig))


def test_a_missing_signature_is_refused() -> None:
    with pytest.raises(SignerFault, match="has not the form of one"):
        take_signature(DRAFT, without("sig"))


def _by(secret: bytes, digest: str) -> str:
    return str(PrivateKey(secret).sign_schnorr(bytes.fromhex(digest)).hex())


def _damaged(sig: str) -> str:
    return sig[:-1] + ("1" if sig[-1] == "0" else "0")


@pytest.mark.parametrize(
    "sig",
    [
        "0" * 128,
        "f" * 128,
        _by(BOB, DRAFT.id),
        _by(ALICE, "0" * 64),
        _damaged(_by(ALICE, DRAFT.id)),
    ],
    ids=["zeros", "ones", "other key", "other event", "damaged"],
)
def test_a_signature_that_is_not_the_accounts_is_refused(sig: str) -> None:
    with pytest.raises(SignerFault, match="is not the account's"):
        take_signature(DRAFT, answer(sig=sig))


_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
_DRAFTS = st.builds(
    lambda at, kind, tags, content: make_draft(public_key(ALICE), at, kind, tags, content),
    st.integers(0, 2**40),
    st.integers(0, 65_535),
    st.lists(st.lists(_TEXT, min_size=1, max_size=3), max_size=3),
    _TEXT,
)


@given(_DRAFTS)
def test_any_draft_comes_back_as_it_was_given(draft: Draft) -> None:
    theirs = json.dumps({"sig": _by(ALICE, draft.id), "id": draft.id, **_fields(draft)})
    event = take_signature(draft, read_answer(theirs))
    assert is_signed(event)
    assert event.id == draft.id
    fields = json.loads(event.raw)
    assert {name: fields[name] for name in _fields(draft)} == _fields(draft)


@given(_DRAFTS, _DRAFTS)
def test_one_drafts_signature_is_never_taken_for_another(one: Draft, other: Draft) -> None:
    signed = {**_fields(other), "id": other.id, "sig": _by(ALICE, other.id)}
    if one.id == other.id:
        assert take_signature(one, signed).id == one.id
    else:
        with pytest.raises(SignerFault):
            take_signature(one, signed)


def _fields(draft: Draft) -> dict[str, Any]:
    return {**template_of(draft), "pubkey": draft.pubkey}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "signed!",
        "null",
        "7",
        "[]",
        '"x"',
        "[{}]",
        "{",
        b"\xff{}",
        '{"a": "\ud800"}',
        "[" * 100_000,
        '{"a":"' + "x" * MAX_ANSWER + '"}',
    ],
)
def test_what_is_no_event_is_refused(text: str | bytes) -> None:
    with pytest.raises(SignerFault, match="is not an event"):
        read_answer(text)


def test_an_object_is_read_as_it_is() -> None:
    assert read_answer('{"kind": 1, "more": [2]}') == {"kind": 1, "more": [2]}
    assert read_answer(b"{}") == {}
    with pytest.raises(SignerFault, match="left out pubkey"):
        take_signature(DRAFT, read_answer("{}"))
