"""What relays say of themselves (NIP-11), read as a stranger's word."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from postrich.model.relay import Limitation, RelayInfo
from postrich.rules.limits import info_url, parse_info, required_pow


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
