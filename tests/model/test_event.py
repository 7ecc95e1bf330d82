"""Events and drafts: true ids over all of Unicode, and nothing malformed gets in (A2, A15)."""

import json
from collections.abc import Sequence
from hashlib import sha256
from typing import Any

import pytest
from coincurve import PrivateKey
from hypothesis import given
from hypothesis import strategies as st

from postrich.errors import InvalidEvent, RefusedKind
from postrich.model.delivery import event_frame
from postrich.model.event import (
    MAX_CREATED_AT,
    MAX_EVENT_BYTES,
    MAX_KIND,
    NEVER_PUBLISHED,
    Draft,
    KindClass,
    address_of,
    check_signature,
    classify,
    event_id,
    expiration_of,
    is_signed,
    make_draft,
    parse_event,
    refuse_kind,
    seal,
    tag_value,
    tag_values,
)
from tests.relays import events

SECRET = bytes(31) + b"\x07"
AUTHOR = events.public_key(SECRET)
NOTE = events.make_event(SECRET, content="hello", tags=[["t", "test"]], created_at=1_700_000_000)

NIP13_SAMPLE = """{
  "id": "000006d8c378af1779d2feebc7603a125d99eca0ccf1085959b307f64e5dd358",
  "pubkey": "a48380f4cfcc1ad5378294fcac36439770f9c878dd880ffa94bb74ea54a6f243",
  "created_at": 1651794653,
  "kind": 1,
  "tags": [
    ["nonce", "776797", "20"]
  ],
  "content": "It's just me mining my own business",
  "sig": "284622fc0a3f4f1303455d5175f7ba962a3300d136085b9566801bc2e0699de0c7e31e44c81fb40ad9049173742e904713c3594a1da0fc5d2382a25c11aba977"
}"""  # noqa: E501 - as NIP-13 has it

text = st.text(st.characters(exclude_categories=["Cs"]))
tag_lists = st.lists(st.lists(text, min_size=1, max_size=4), max_size=4)
drafts = st.builds(
    make_draft,
    st.just(AUTHOR),
    st.integers(0, MAX_CREATED_AT),
    st.integers(0, MAX_KIND),
    tag_lists,
    text,
)


def reference_id(created_at: int, kind: int, tags: Sequence[Sequence[str]], content: str) -> str:
    body = [0, AUTHOR, created_at, kind, tags, content]
    plain = json.dumps(body, separators=(",", ":"), ensure_ascii=False)
    return sha256(plain.encode()).hexdigest()


def changed(**fields: Any) -> str:
    """The note with other fields, and the id that belongs to them."""
    event = {**NOTE, **fields}
    if "id" not in fields:
        event["id"] = events.event_id(event)
    return json.dumps(event)


def sign(draft: Draft) -> str:
    return PrivateKey(SECRET).sign_schnorr(bytes.fromhex(draft.id)).hex()


# -- ids -------------------------------------------------------------------------------------


@pytest.mark.req("A2")
@given(st.integers(0, MAX_CREATED_AT), st.integers(0, MAX_KIND), tag_lists, text)
def test_id_is_that_of_the_plain_serialisation(
    created_at: int, kind: int, tags: list[list[str]], content: str
) -> None:
    expected = reference_id(created_at, kind, tags, content)
    assert event_id(AUTHOR, created_at, kind, tags, content) == expected


@pytest.mark.req("A2")
def test_id_is_right_for_every_character_of_the_basic_plane() -> None:
    characters = [chr(c) for c in range(0x10000) if not 0xD800 <= c <= 0xDFFF]
    wrong = [
        hex(ord(c))
        for c in characters
        if event_id(AUTHOR, 1, 1, [], c) != reference_id(1, 1, [], c)
    ]
    assert wrong == []


@pytest.mark.req("A2")
def test_id_is_right_for_every_character_of_the_other_planes() -> None:
    rows = ["".join(map(chr, range(row, row + 0x800))) for row in range(0x10000, 0x110000, 0x800)]
    wrong = [
        hex(ord(row[0]))
        for row in rows
        if event_id(AUTHOR, 1, 1, [["t", row]], row) != reference_id(1, 1, [["t", row]], row)
    ]
    assert wrong == []


def test_the_mined_event_of_nip_13_is_true() -> None:
    event = parse_event(NIP13_SAMPLE)
    assert event.id.startswith("000006d8")
    assert is_signed(event)


# -- what is taken, and how it is kept ---------------------------------------------------------


def test_fields_are_read() -> None:
    event = parse_event(json.dumps(NOTE))
    assert (event.id, event.pubkey, event.sig) == (NOTE["id"], AUTHOR, NOTE["sig"])
    assert (event.kind, event.created_at, event.content) == (1, 1_700_000_000, "hello")
    assert [list(tag) for tag in event.tags] == [["t", "test"]]


KEPT = {
    "compact": json.dumps(NOTE, separators=(",", ":")),
    "indented": json.dumps(NOTE, indent=3),
    "space around": f" \r\n\t{json.dumps(NOTE)}\n ",
    "fields sorted": json.dumps(NOTE, sort_keys=True),
    "fields backwards": json.dumps(dict(reversed(NOTE.items()))),
    "needless escapes": json.dumps(NOTE).replace("hello", "\\u0068ell\\u006f"),
    "escaped slash": changed(content="a/b").replace("a/b", "a\\/b"),
    "escaped emoji": changed(content="🦤"),
    "raw emoji": json.dumps({**json.loads(changed(content="🦤"))}, ensure_ascii=False),
    "escaped field name": json.dumps(NOTE).replace('"kind"', '"k\\u0069nd"'),
}


@pytest.mark.req("A2")
@pytest.mark.parametrize("raw", KEPT.values(), ids=KEPT.keys())
def test_bytes_are_kept_as_they_came(raw: str) -> None:
    assert parse_event(raw).raw == raw.encode()
    assert parse_event(raw.encode()).raw == raw.encode()
    frame = event_frame(parse_event(raw).raw)
    assert frame == b'["EVENT",' + raw.encode() + b"]"
    assert json.loads(frame)[1] == json.loads(raw)


TAKEN: dict[str, dict[str, Any]] = {
    "no tags": {"tags": []},
    "empty content": {"content": ""},
    "empty tag value": {"tags": [["d", ""]]},
    "first second of the epoch": {"created_at": 0},
    "last second that all relays can read": {"created_at": MAX_CREATED_AT},
    "lowest kind": {"kind": 0},
    "highest kind": {"kind": MAX_KIND},
    "control characters": {"content": "\x00\x01\x1f\x7f\x85\u2028"},
    "kind that is never published": {"kind": 22242},
}


@pytest.mark.parametrize("fields", TAKEN.values(), ids=TAKEN.keys())
def test_edges_of_the_protocol_are_taken(fields: dict[str, Any]) -> None:
    event = parse_event(changed(**fields))
    for name, value in fields.items():
        assert getattr(event, name) == value


MALFORMED: dict[str, tuple[str | bytes, str]] = {
    "nothing": ("", "JSON"),
    "no JSON": ("hello", "JSON"),
    "cut short": (json.dumps(NOTE)[:-1], "JSON"),
    "something behind it": (json.dumps(NOTE) + "]", "JSON"),
    "byte order mark": ("\ufeff" + json.dumps(NOTE), "JSON"),
    "raw line break in text": (json.dumps(NOTE).replace("hello", "hel\nlo"), "JSON"),
    "invalid UTF-8": (json.dumps(NOTE).encode().replace(b"hello", b"hel\xfflo"), "JSON"),
    "overlong UTF-8": (json.dumps(NOTE).encode().replace(b"hello", b"hel\xc0\x80lo"), "JSON"),
    "surrogate as UTF-8": (json.dumps(NOTE).replace("hello", "\ud83e"), "JSON"),
    "lone surrogate escaped": (json.dumps(NOTE).replace("hello", "\\ud83e"), "JSON"),
    "second half of a pair alone": (json.dumps(NOTE).replace("hello", "\\udda4 "), "JSON"),
    "deeply nested array": ("[" * 200_000, "event"),
    "deeply nested object": ('{"tags":' * 200_000, "event"),
    "deeply nested tags": (json.dumps(NOTE).replace('[["t"', "[" * 200_000 + '"t"'), "tags"),
    "array": (json.dumps([NOTE]), "object"),
    "null": ("null", "object"),
    "id missing": (json.dumps({k: v for k, v in NOTE.items() if k != "id"}), "id"),
    "sig missing": (json.dumps({k: v for k, v in NOTE.items() if k != "sig"}), "sig"),
    "content missing": (json.dumps({k: v for k, v in NOTE.items() if k != "content"}), "content"),
    "unknown field": (json.dumps({**NOTE, "seen_on": []}), "seen_on"),
    "field twice": (json.dumps(NOTE)[:-1] + ', "content": "hello"}', "twice"),
    "field twice, first differs": ('{"content": "x", ' + json.dumps(NOTE)[1:], "twice"),
    "field twice, compact": ('{"kind":1,' + KEPT["compact"][1:], "twice"),
    "id of another event": (changed(id="0" * 64), "id"),
    "content changed": (json.dumps({**NOTE, "content": "hallo"}), "id"),
    "id too short": (changed(id=NOTE["id"][:-1]), "id"),
    "id in upper case": (changed(id=NOTE["id"].upper()), "id"),
    "id with spaces": (changed(id=NOTE["id"][:-2] + "  "), "id"),
    "pubkey in upper case": (changed(pubkey=AUTHOR.upper()), "pubkey"),
    "pubkey as npub": (changed(pubkey="npub1" + AUTHOR[5:]), "pubkey"),
    "pubkey compressed": (changed(pubkey="02" + AUTHOR), "pubkey"),
    "sig in upper case": (changed(sig=NOTE["sig"].upper()), "sig"),
    "sig empty": (changed(sig=""), "sig"),
    "sig null": (changed(sig=None), "sig"),
    "kind too high": (changed(kind=MAX_KIND + 1), "kind"),
    "kind negative": (changed(kind=-1), "kind"),
    "kind as text": (changed(kind="1"), "kind"),
    "kind as float": (changed(kind=1.0), "kind"),
    "kind as bool": (changed(kind=True), "kind"),
    "kind null": (changed(kind=None), "kind"),
    "kind beyond 64 bits": (changed(kind=2**70), "kind"),
    "created_at negative": (changed(created_at=-1), "created_at"),
    "created_at beyond JavaScript": (changed(created_at=MAX_CREATED_AT + 1), "created_at"),
    "created_at as float": (changed(created_at=1_700_000_000.0), "created_at"),
    "created_at with exponent": (json.dumps(NOTE).replace("1700000000", "17e8"), "created_at"),
    "created_at as bool": (changed(created_at=False), "created_at"),
    "created_at as text": (changed(created_at="1700000000"), "created_at"),
    "content as number": (changed(content=5), "content"),
    "content null": (changed(content=None), "content"),
    "content as object": (changed(content={}), "content"),
    "tags null": (changed(tags=None), "tags"),
    "tags as object": (changed(tags={}), "tags"),
    "tag as text": (changed(tags=["t"]), "tags"),
    "tag without values": (changed(tags=[["t", "a"], []]), "tag"),
    "null in a tag": (changed(tags=[["e", None]]), "tags"),
    "number in a tag": (changed(tags=[["expiration", 1]]), "tags"),
    "list in a tag": (changed(tags=[["e", ["a"]]]), "tags"),
}


@pytest.mark.req("F2")
@pytest.mark.parametrize(("raw", "named"), MALFORMED.values(), ids=MALFORMED.keys())
def test_what_is_malformed_is_refused_with_its_reason(raw: str | bytes, named: str) -> None:
    with pytest.raises(InvalidEvent, match=named):
        parse_event(raw)


def test_size_is_limited_to_the_byte() -> None:
    raw = json.dumps(NOTE)
    assert parse_event(raw, max_bytes=len(raw)).id == NOTE["id"]
    with pytest.raises(InvalidEvent, match="limit"):
        parse_event(raw, max_bytes=len(raw) - 1)
    with pytest.raises(InvalidEvent, match="1,048,576"):
        parse_event(changed(content="x" * MAX_EVENT_BYTES))


@given(st.binary(max_size=200) | st.text(max_size=200))
def test_garbage_is_refused_and_never_breaks_anything(raw: bytes | str) -> None:
    with pytest.raises(InvalidEvent):
        parse_event(raw)


@given(st.data())
def test_no_changed_byte_passes_as_another_event(data: st.DataObject) -> None:
    raw = bytearray(json.dumps(NOTE).encode())
    place = data.draw(st.integers(0, len(raw) - 1))
    raw[place] = data.draw(st.integers(0, 255))
    try:
        event = parse_event(bytes(raw))
    except InvalidEvent:
        return
    original = parse_event(json.dumps(NOTE))
    same = (event.id, event.content, event.tags) == (original.id, original.content, original.tags)
    assert same
    assert is_signed(event) == (event.sig == original.sig)


# -- signatures --------------------------------------------------------------------------------


@pytest.mark.req("F2")
def test_a_true_signature_is_told_from_forged_ones() -> None:
    event = parse_event(json.dumps(NOTE))
    other = events.make_event(SECRET, content="other")
    flipped = NOTE["sig"][:-1] + ("0" if NOTE["sig"][-1] != "0" else "1")
    assert is_signed(event)
    for forged in (other["sig"], flipped, "0" * 128, "f" * 128):
        assert not is_signed(parse_event(changed(sig=forged)))


@pytest.mark.req("F2")
def test_a_signature_of_somebody_else_is_forged() -> None:
    stranger = events.public_key(bytes(31) + b"\x08")
    claimed = {**NOTE, "pubkey": stranger}
    claimed["id"] = events.event_id(claimed)
    key = PrivateKey(SECRET)
    claimed["sig"] = key.sign_schnorr(bytes.fromhex(claimed["id"])).hex()
    assert not is_signed(parse_event(json.dumps(claimed)))


@pytest.mark.parametrize("pubkey", ["0" * 64, "f" * 64, "0" * 63 + "5"])
def test_a_pubkey_that_is_no_point_of_the_curve_signs_nothing(pubkey: str) -> None:
    assert not is_signed(parse_event(changed(pubkey=pubkey)))
    assert not check_signature(bytes.fromhex(pubkey), bytes(32), bytes(64))


# -- drafts ------------------------------------------------------------------------------------


@pytest.mark.req("A2")
@given(drafts)
def test_a_signed_draft_keeps_every_field_and_its_id(draft: Draft) -> None:
    event = seal(draft, sign(draft))
    assert event.id == draft.id
    assert (event.pubkey, event.created_at, event.kind) == (AUTHOR, draft.created_at, draft.kind)
    assert event.content == draft.content
    assert [tuple(tag) for tag in event.tags] == [tuple(tag) for tag in draft.tags]
    assert parse_event(event.raw) == event
    assert events.is_valid(json.loads(event.raw))


@pytest.mark.req("A2")
def test_a_draft_does_not_change_with_what_it_was_made_of() -> None:
    tags = [["nonce", "776797", "20"]]
    draft = make_draft(AUTHOR, 1, 1, tags, "mined")
    before = draft.id
    tags[0][1] = "0"
    tags.append(["t", "late"])
    assert draft.id == before
    with pytest.raises(AttributeError):
        draft.content = "other"  # type: ignore[misc]


DRAFT: dict[str, Any] = {
    "pubkey": AUTHOR,
    "created_at": 1,
    "kind": 1,
    "tags": [["t", "a"]],
    "content": "",
}
BAD_DRAFTS: dict[str, tuple[dict[str, Any], str]] = {
    "pubkey short": ({"pubkey": AUTHOR[:-1]}, "pubkey"),
    "pubkey in upper case": ({"pubkey": AUTHOR.upper()}, "pubkey"),
    "pubkey none": ({"pubkey": None}, "pubkey"),
    "pubkey no hex": ({"pubkey": "x" * 64}, "pubkey"),
    "kind too high": ({"kind": MAX_KIND + 1}, "kind"),
    "kind negative": ({"kind": -1}, "kind"),
    "kind bool": ({"kind": True}, "kind"),
    "kind text": ({"kind": "1"}, "kind"),
    "created_at float": ({"created_at": 1.0}, "created_at"),
    "created_at negative": ({"created_at": -1}, "created_at"),
    "created_at in the far future": ({"created_at": MAX_CREATED_AT + 1}, "created_at"),
    "content none": ({"content": None}, "content"),
    "content bytes": ({"content": b"hello"}, "content"),
    "tags none": ({"tags": None}, "tags"),
    "tags text": ({"tags": "t"}, "tags"),
    "tags of text": ({"tags": ["abc"]}, "tags"),
    "tags of numbers": ({"tags": [5]}, "tags"),
    "tag of a number": ({"tags": [["t", 5]]}, "tags"),
    "tag of none": ({"tags": [["e", None]]}, "tags"),
    "tag of bytes": ({"tags": [b"t"]}, "tags"),
    "tag without values": ({"tags": [[]]}, "tag"),
    "lone surrogate in content": ({"content": "\ud83e"}, "surrogate"),
    "lone surrogate in a tag": ({"tags": [["t", "\udda4"]]}, "surrogate"),
    "too large to be sent": ({"content": "x" * MAX_EVENT_BYTES}, "limit"),
    "too large when escaped": ({"content": "\x01" * (MAX_EVENT_BYTES // 4)}, "limit"),
}


@pytest.mark.parametrize(("fields", "named"), BAD_DRAFTS.values(), ids=BAD_DRAFTS.keys())
def test_a_draft_that_could_never_be_an_event_is_refused(
    fields: dict[str, Any], named: str
) -> None:
    assert make_draft(**DRAFT).id
    with pytest.raises(InvalidEvent, match=named):
        make_draft(**{**DRAFT, **fields})


def test_the_largest_draft_is_the_largest_event() -> None:
    overhead = len(seal(make_draft(AUTHOR, 1), "0" * 128).raw)
    largest = make_draft(AUTHOR, 1, content="x" * (MAX_EVENT_BYTES - overhead))
    assert len(parse_event(seal(largest, sign(largest)).raw).raw) == MAX_EVENT_BYTES
    with pytest.raises(InvalidEvent, match="limit"):
        make_draft(AUTHOR, 1, content="x" * (MAX_EVENT_BYTES - overhead + 1))


@pytest.mark.parametrize("sig", ["", "0" * 127, "G" * 128, "A" * 128])
def test_a_draft_is_not_sealed_with_what_is_no_signature(sig: str) -> None:
    with pytest.raises(InvalidEvent, match="sig"):
        seal(make_draft(AUTHOR, 1), sig)


# -- kinds, addresses, tags --------------------------------------------------------------------

CLASSES = [
    (KindClass.REPLACEABLE, [0, 3, 10_000, 10_002, 10_050, 19_999]),
    (KindClass.EPHEMERAL, [20_000, 22_242, 24_133, 29_999]),
    (KindClass.ADDRESSABLE, [30_000, 30_023, 31_234, 39_999]),
    (KindClass.REGULAR, [1, 2, 4, 5, 7, 40, 41, 44, 1000, 1059, 9735, 9999]),
    # NIP-01 leaves these unclassified.
    (KindClass.REGULAR, [45, 62, 64, 78, 443, 818, 999, 40_000, 65_535]),
]


@pytest.mark.parametrize(
    ("expected", "kind"), [(expected, kind) for expected, kinds in CLASSES for kind in kinds]
)
def test_kinds_have_their_class(expected: KindClass, kind: int) -> None:
    assert classify(kind) is expected


@pytest.mark.req("A15")
def test_kinds_that_must_never_be_published_are_refused() -> None:
    assert set(NEVER_PUBLISHED) == {13, 14, 15, 9734, 22242, 24242, 27235}
    for kind in NEVER_PUBLISHED:
        with pytest.raises(RefusedKind, match=f"kind {kind} is .*never published"):
            refuse_kind(kind)
    for kind in (0, 1, 3, 5, 12, 16, 62, 1059, 9735, 10_002, 21_059, 24_133, 30_023):
        refuse_kind(kind)


ADDRESSES = [
    (1, [["d", "x"]], None),
    (20_001, [["d", "x"]], None),
    (0, [], f"0:{AUTHOR}:"),
    (3, [["d", "ignored"]], f"3:{AUTHOR}:"),
    (10_002, [], f"10002:{AUTHOR}:"),
    (30_023, [["d", "my-article"]], f"30023:{AUTHOR}:my-article"),
    (30_023, [["t", "a"], ["d", "first"], ["d", "second"]], f"30023:{AUTHOR}:first"),
    (30_023, [["d", "a:b"]], f"30023:{AUTHOR}:a:b"),
    (30_023, [["d", ""]], f"30023:{AUTHOR}:"),
    (30_023, [["d"]], f"30023:{AUTHOR}:"),
    (30_023, [], f"30023:{AUTHOR}:"),
]


@pytest.mark.req("A11")
@pytest.mark.parametrize(("kind", "tags", "address"), ADDRESSES)
def test_what_is_replaced_has_an_address(
    kind: int, tags: list[list[str]], address: str | None
) -> None:
    assert address_of(kind, AUTHOR, tags) == address


def test_tags_are_found_by_name() -> None:
    tags = [["-"], ["p", "a", "wss://hint"], ["e", "b"], ["p"], ["p", "c"]]
    assert tag_values(tags, "p") == ["a", "c"]
    assert tag_value(tags, "p") == "a"
    assert tag_value(tags, "-") is None
    assert tag_values(tags, "x") == []


@pytest.mark.parametrize(
    ("tags", "expected"),
    [
        ([], None),
        ([["expiration", "1700000000"]], 1_700_000_000),
        ([["expiration", "0"]], 0),
        ([["expiration", ""]], None),
        ([["expiration"]], None),
        ([["expiration", "soon"]], None),
        ([["expiration", "-5"]], None),
        ([["expiration", "1e9"]], None),
        ([["expiration", "١٢٣"]], None),
        ([["expiration", "9" * 17]], None),
        ([["expiration", "9" * 5000]], None),
    ],
)
def test_expiration_is_read_where_it_can_be(tags: list[list[str]], expected: int | None) -> None:
    assert expiration_of(tags) == expected
