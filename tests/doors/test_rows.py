"""Scheduled posts as JSON Lines and CSV: what is written is read back, and no bytes are too bad."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from postrich.doors import rows
from postrich.doors.cells import Records
from postrich.doors.rows import BadRow, Format, Row, iso, moment, read_rows, write_rows
from postrich.errors import CallerError
from postrich.model.job import Priority
from postrich.model.post import Network
from postrich.schedule import Wish

AT = 1_780_210_800_000
EVENT = (
    b'{"id":"ab","pubkey":"cd","created_at":1,"kind":1,"tags":[],"content":"a\\"b, c","sig":"ef"}'
)

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
words = texts.filter(lambda text: text.strip() == text and text)
drafts = st.fixed_dictionaries(
    {"content": texts, "kind": st.integers(0, 65_535)},
    optional={
        "tags": st.lists(st.lists(texts, max_size=3), max_size=3),
        "pubkey": st.just("ab" * 32),
        "created_at": st.integers(0, 2**40),
    },
)
signed = st.builds(
    lambda content, indent: json.dumps({"content": content, "sig": "x"}, indent=indent).encode(),
    texts,
    st.sampled_from([None, 1]),
)
urls = st.sampled_from(["wss://a.example/", "wss://b.example/x,y", "ws://[::1]:7/"])
wishes = st.builds(
    Wish,
    item=drafts | signed,
    at=st.integers(100_000_000_000, 200_000_000_000_000),
    name=texts,
    relays=st.lists(urls, max_size=3).map(tuple),
    priority=st.sampled_from(Priority),
    crosspost=st.lists(st.sampled_from(Network), unique=True).map(tuple),
)


def parts(body: bytes, sizes: list[int]) -> Iterator[bytes]:
    """The body in pieces as a network might bring them."""
    for size in sizes:
        yield body[:size]
        body = body[size:]
    yield body


def plain(wish: Wish) -> Wish:
    """Empty content is the same as none."""
    if isinstance(wish.item, dict) and not wish.item.get("content", "x"):
        item = {name: value for name, value in wish.item.items() if name != "content"}
        return msgspec.structs.replace(wish, item=item)
    return wish


def read(body: str | bytes, kind: Format | None = None) -> list[Row | BadRow]:
    return list(read_rows([body.encode() if isinstance(body, str) else body], kind))


def only(body: str | bytes, kind: Format | None = None) -> Wish:
    [row] = read(body, kind)
    assert isinstance(row, Row), row
    return row.wish


def reason(body: str | bytes) -> str:
    [row] = read(body)
    assert isinstance(row, BadRow)
    return row.reason


# -- there and back ----------------------------------------------------------------------------


@pytest.mark.req("F5")
@given(
    st.lists(wishes, max_size=5),
    st.sampled_from(Format),
    st.lists(st.integers(0, 60), max_size=20),
    st.booleans(),
)
def test_what_is_written_is_read_back(
    some: list[Wish], kind: Format, sizes: list[int], bom: bool
) -> None:
    body = (b"\xef\xbb\xbf" if bom else b"") + b"".join(write_rows(some, kind))
    found = list(read_rows(parts(body, sizes), kind))
    assert [plain(row.wish) for row in found if isinstance(row, Row)] == [plain(w) for w in some]
    assert len(found) == len(some)


@pytest.mark.req("F5")
@given(st.lists(wishes, min_size=1, max_size=3), st.sampled_from(Format))
def test_the_first_character_tells_the_format(some: list[Wish], kind: Format) -> None:
    body = b"\n\n" + b"".join(write_rows(some, kind))
    assert list(read_rows([body])) == list(read_rows([body], kind))


@pytest.mark.req("F5")
@given(st.lists(wishes, min_size=1, max_size=3))
def test_semicolons_do_as_well(some: list[Wish]) -> None:
    """Excel writes them where the comma is the decimal point."""
    by_commas = b"".join(write_rows(some, Format.CSV)).decode()
    cells = [list(record) for _, record in Records(numbered(by_commas), 10**6)]
    quoted = [[f'"{cell.replace(chr(34), chr(34) * 2)}"' for cell in record] for record in cells]
    by_semicolons = "".join(";".join(record) + "\r\n" for record in quoted)
    expected = [row.wish for row in read(by_commas, Format.CSV) if isinstance(row, Row)]
    for body in (by_semicolons, "sep=;\r\n" + by_semicolons):
        found = [row.wish for row in read(body, Format.CSV) if isinstance(row, Row)]
        assert found == expected


def numbered(text: str) -> Iterator[tuple[int, str]]:
    return iter(list(enumerate([f"{line}\n" for line in text.split("\n")[:-1]], 1)))


@pytest.mark.req("F5")
@given(st.integers(100_000_000_000, 200_000_000_000_000))
def test_times_are_exact(at: int) -> None:
    assert moment(iso(at)) == moment(at) == moment(str(at)) == at


@pytest.mark.req("F5")
def test_times_without_a_zone_are_of_the_one_that_is_given() -> None:
    body = b"at,content\n2026-07-01 09:00,x\n2026-07-01T09:00+00:00,y\n"
    found = list(read_rows([body], zone="Europe/Berlin"))
    times = [iso(row.wish.at) for row in found if isinstance(row, Row)]
    assert times == ["2026-07-01T07:00:00Z", "2026-07-01T09:00:00Z"]
    assert [type(row) for row in read_rows([body])] == [BadRow, Row]


# -- whatever comes ----------------------------------------------------------------------------


@pytest.mark.req("F5")
@given(st.binary(max_size=300) | words.map(str.encode), st.sampled_from([*Format, None]))
def test_no_bytes_are_too_bad(body: bytes, kind: Format | None) -> None:
    with contextlib.suppress(CallerError):
        assert all(row.line >= 1 for row in read_rows([body], kind))


@pytest.mark.req("F5")
@given(st.text(alphabet='",;\n\r\ta[]{}:1', max_size=80))
def test_quotes_and_line_ends_in_any_order_are_no_trouble(text: str) -> None:
    for row in read(f"at,content,tags\n{text}", Format.CSV):
        assert isinstance(row, BadRow) or row.wish.at


def test_bad_rows_have_their_lines_and_the_others_go_on() -> None:
    body = f'content,at\n"two\nlines",{iso(AT)}\nthree,soon\n\nlast,{iso(AT)}\n'
    first, bad, last = read(body)
    assert isinstance(first, Row)
    assert isinstance(first.wish.item, dict)
    assert first.wish.item["content"] == "two\nlines"
    assert bad == BadRow(4, "at 'soon' is no time such as 2026-05-31T09:00+02:00")
    assert (last.line, isinstance(last, Row)) == (6, True)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ({"at": "2026-05-31T09:00", "content": "x"}, "must say its time zone"),
        ({"at": "2026-05-31T09:00Z"}, "neither content nor a signed event"),
        ({"content": "x"}, "missing required field `at`"),
        ({"at": 5.5, "content": "x"}, "not a row"),
        ({"at": AT, "content": "x", "when": 1}, "unknown field `when`"),
        ({"at": AT, "content": "x", "priority": "vip"}, "priority 'vip' is none of urgent"),
        ({"at": AT, "content": "x", "crosspost": ["fax"]}, "'fax'"),
        ({"at": AT, "content": "x", "event": {"id": ""}}, "content contradicts it"),
        ({"at": AT, "kind": "1"}, "not a row"),
        ("no object", "not a row"),
    ],
)
def test_what_is_wrong_with_a_json_row_is_said(line: Any, words: str) -> None:
    [row] = read(json.dumps(line), Format.JSONL)
    assert isinstance(row, BadRow)
    assert words in row.reason


@pytest.mark.parametrize(
    ("cells", "words"),
    [
        ("x,many,,,", "kind 'many' is not a whole number"),
        ("x,1,t=nostr,,", "tags are written as JSON"),
        (",,,,", "neither content nor a signed event"),
        ("x,1,,,,,too many", "has 8 cells, and there are 6 columns"),
        ("x,,,,{}", "content contradicts it"),
        (",,,,{not json", "not a row"),
    ],
)
def test_what_is_wrong_with_a_csv_row_is_said(cells: str, words: str) -> None:
    body = f"at,content,kind,tags,priority,event\n{iso(AT)},{cells}\n"
    if "{not" in cells:  # its form is for those who read events
        assert only(body).item == b"{not json"
    else:
        assert words in reason(body)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("at,colour\n", "the column 'colour' is not understood"),
        ("content,kind\n", "“at” among them"),
        ("at,at\n", "twice"),
        ("a;t\n".encode("utf-16"), "UTF-16"),
    ],
)
def test_a_file_that_is_not_understood_is_refused_whole(body: str | bytes, words: str) -> None:
    with pytest.raises(CallerError, match=words):
        read(body)


def test_an_open_quote_ends_the_reading() -> None:
    """Whatever follows may be text of the post: it must not become posts of its own."""
    body = f'at,content\n{iso(AT)},"open\n{iso(AT)},not a post\n'
    [row] = read(body)
    assert isinstance(row, BadRow)
    assert (row.line, "not closed" in row.reason) == (2, True)


def test_rows_that_are_too_long_are_not_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "MOST_BYTES", 100)
    good = json.dumps({"at": AT, "content": "x"}).encode() + b"\n"
    pieces = [good, *[b"x" * 60] * 50, b"\n", good]
    first, bad, last = read_rows(pieces)
    assert isinstance(bad, BadRow)
    assert (bad.line, "longer than" in bad.reason) == (2, True)
    assert [isinstance(row, Row) for row in (first, last)] == [True, True]
    lines = "line\n" * 40
    body = f'at,content\n{iso(AT)},"{lines}"\n'
    assert "not closed" in reason(body)
    [too_long] = read_rows([b"x" * 101])
    assert isinstance(too_long, BadRow)


def test_lines_that_are_no_text_are_reported() -> None:
    bad, good = read(b"at,content\n1,\xff\n" + f"{AT},x\n".encode())
    assert bad == BadRow(2, "not UTF-8 text, or too long")
    assert isinstance(good, Row)


def test_signed_bytes_stay_as_they_are() -> None:
    for body in (
        b'{"at": 1780210800, "event": ' + EVENT + b"}",
        json.dumps({"at": AT, "event": EVENT.decode()}),
        f'at,event\n{AT},"{EVENT.decode().replace(chr(34), chr(34) * 2)}"\n',
    ):
        wish = only(body)
        assert (wish.item, wish.at) == (EVENT, AT)
