"""Relay lists as people publish them: read as a stranger's word (D1)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from postrich.rules.relay_lists import (
    BLOCKED,
    GROUPS,
    MAX_ENTRIES,
    MAX_REFUSED,
    MESSAGES,
    NUTZAPS,
    RELAYS,
    RelayList,
    parse_list,
    read_hidden,
    replaces,
)
from postrich.rules.trust import normalise_url

ALICE = "a1" * 32
A, B, C = "wss://a.example/", "wss://b.example/", "wss://c.example/"


def read(kind: int, *tags: list[str]) -> RelayList:
    return parse_list(ALICE, kind, 1_700_000_000, "e" * 64, tags)


MARKED = {
    "no marker is both": ([["r", A]], (A,), (A,)),
    "read only": ([["r", A, "read"]], (A,), ()),
    "write only": ([["r", A, "write"]], (), (A,)),
    "an empty marker is none": ([["r", A, ""]], (A,), (A,)),
    "an unknown marker is none": ([["r", A, "both"]], (A,), (A,)),
    "twice, once each, is both": ([["r", A, "read"], ["r", A, "write"]], (A,), (A,)),
    "twice in two spellings": ([["r", "a.example", "read"], ["r", A, "write"]], (A,), (A,)),
    "in its own order": ([["r", B], ["r", A, "write"], ["r", C, "read"]], (B, C), (B, A)),
    "other tags say nothing": ([["relay", A], ["x", B], ["r", C]], (C,), (C,)),
}


@pytest.mark.req("D1")
@pytest.mark.parametrize(("tags", "reads", "writes"), MARKED.values(), ids=MARKED.keys())
def test_who_reads_and_who_writes_where(
    tags: list[list[str]], reads: tuple[str, ...], writes: tuple[str, ...]
) -> None:
    found = read(RELAYS, *tags)
    assert (found.read, found.write) == (reads, writes)


@pytest.mark.req("D1")
def test_all_of_its_relays_each_once() -> None:
    found = read(RELAYS, ["r", A, "read"], ["r", B, "write"], ["r", C])
    assert found.relays == (B, C, A)
    assert (found.pubkey, found.kind, found.event_id) == (ALICE, RELAYS, "e" * 64)


@pytest.mark.req("D1", "D3", "D7")
@pytest.mark.parametrize("kind", [MESSAGES, BLOCKED, NUTZAPS, 10007, 10012, 10086])
def test_other_lists_have_relay_tags_and_know_no_markers(kind: int) -> None:
    found = read(kind, ["relay", A, "read"], ["r", B], ["relay", C])
    assert found.relays == found.read == found.write == (A, C)


@pytest.mark.req("D9")
def test_groups_are_found_by_their_id() -> None:
    found = read(GROUPS, ["group", "pizza", A, "Pizza lovers"], ["group", "chess", B], ["r", C])
    assert found.groups == (("pizza", A), ("chess", B))
    assert found.relays == (A, B)


GARBAGE = [
    "",
    "   ",
    "nonsense here",
    "ftp://a.example",
    "wss://a.example,wss://b.example",
    "wss://",
]


@pytest.mark.req("C11")
@pytest.mark.parametrize("text", GARBAGE)
def test_what_is_no_url_is_kept_with_its_reason(text: str) -> None:
    found = read(RELAYS, ["r", text], ["r", A])
    assert found.relays == (A,)
    [(said, reason)] = found.refused
    assert said == text
    assert reason


@pytest.mark.parametrize(
    ("kind", "tag"),
    [(RELAYS, ["r"]), (MESSAGES, ["relay"]), (GROUPS, ["group"]), (GROUPS, ["group", "pizza"])],
)
def test_a_tag_without_its_value_names_nothing(kind: int, tag: list[str]) -> None:
    found = read(kind, tag)
    assert (found.relays, found.groups) == ((), ())
    assert len(found.refused) == 1


@pytest.mark.req("C7")
@pytest.mark.parametrize(("listed", "kept"), [(30, 30), (1000, MAX_ENTRIES)])
def test_a_list_of_a_thousand_relays_is_cut(listed: int, kept: int) -> None:
    found = read(RELAYS, *(["r", f"wss://r{number}.example"] for number in range(listed)))
    assert len(found.relays) == kept
    assert found.relays[0] == "wss://r0.example/"


def test_not_all_garbage_is_kept() -> None:
    found = read(RELAYS, *(["r", f"not {number}"] for number in range(50)))
    assert len(found.refused) == MAX_REFUSED


@pytest.mark.req("D1", "C11")
@given(
    st.sampled_from([RELAYS, BLOCKED, GROUPS, MESSAGES]),
    st.lists(
        st.lists(
            st.sampled_from(["r", "relay", "group", "read", "write", A, "a.example", "x y", ""])
            | st.text(max_size=20),
            min_size=1,
            max_size=4,
        ),
        max_size=20,
    ),
)
def test_whatever_is_listed_comes_out_in_normal_form(kind: int, tags: list[list[str]]) -> None:
    found = read(kind, *tags)
    for url in (*found.read, *found.write, *(url for _, url in found.groups)):
        assert normalise_url(url) == url
    assert len(set(found.relays)) == len(found.relays) <= MAX_ENTRIES
    if kind != RELAYS:
        assert found.read == found.write


def version(created_at: int, event_id: str) -> RelayList:
    return RelayList(ALICE, RELAYS, created_at, event_id)


@pytest.mark.req("D1")
def test_only_a_newer_list_replaces_one_that_is_known() -> None:
    known = version(100, "bb")
    assert replaces(version(1, "zz"), None)
    assert replaces(version(101, "ff"), known)
    assert replaces(version(100, "aa"), known), "of the same second the lower id counts"
    assert not replaces(version(100, "cc"), known)
    assert not replaces(version(99, "aa"), known)
    assert not replaces(known, known)


@pytest.mark.req("D1", "D7")
def test_hidden_tags_are_read_or_nothing() -> None:
    assert read_hidden('[["relay","wss://a.example"],[],["x"]]') == [
        ["relay", "wss://a.example"],
        ["x"],
    ]
    for text in ("", "no json", "{}", "[1]", '[["relay",1]]', "null", "\ud800"):
        assert read_hidden(text) == []
