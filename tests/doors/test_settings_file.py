"""Changing `relays` in postrich.toml: one list changes, everything else stays byte for byte."""

from __future__ import annotations

import threading
import tomllib
from pathlib import Path

import pytest

from postrich.doors.cli.settings_file import change_relays, with_relays
from postrich.errors import BadSetting

A, B, C = "wss://a.example/", "wss://b.example/", "wss://c.example/"

SEVERAL_LINES = f"""\
# before  relays = ["no"]
goal = 1  # goals
relays = [
  "{A}",  # home
  # a remark
  '{B}'  # no comma
]
# after
[policies.patient]
relays = ["not", "ours"]
"""


@pytest.mark.req("G2")
@pytest.mark.parametrize(
    ("before", "relays", "after"),
    [
        ("", [A], f'relays = ["{A}"]\n'),
        ("goal = 1", [A], f'goal = 1\nrelays = ["{A}"]\n'),
        ("[budgets]\nfanout = 3\n", [A], f'relays = ["{A}"]\n\n[budgets]\nfanout = 3\n'),
        ("relays = []\n", [A, B], f'relays = ["{A}", "{B}"]\n'),
        (f'relays = ["{A}"]  # mine\n', [A, B], f'relays = ["{A}", "{B}"]  # mine\n'),
        (f'relays = ["{A}",]\n', [A, B], f'relays = ["{A}", "{B}"]\n'),
        (f'relays = ["{A}", "{B}"]\n', [B], f'relays = ["{B}"]\n'),
        (f'relays = ["{A}", "{B}"]\n', [], "relays = []\n"),
        (f'"relays" = ["{A}"]\n', [A, B], f'"relays" = ["{A}", "{B}"]\n'),
        ('relays = ["WSS://A.example"]\n', [A, B], f'relays = ["WSS://A.example", "{B}"]\n'),
        (f'relays = [\n  "{A}",\n]\n', [A, B], f'relays = [\n  "{A}",\n  "{B}",\n]\n'),
        (f'relays = [\n    "{A}"\n]\n', [A, B], f'relays = [\n    "{A}",\n    "{B}",\n]\n'),
        (f'relays = [\n  "{A}"]\n', [A, B], f'relays = [\n  "{A}",\n  "{B}",\n]\n'),
        ("relays = [\n]\n", [A], f'relays = [\n  "{A}",\n]\n'),
        (
            f'relays = [\r\n  "{A}",\r\n]\r\n',
            [A, B],
            f'relays = [\r\n  "{A}",\r\n  "{B}",\r\n]\r\n',
        ),
        (f'relays = [\n  "{A}",\n  "{B}",\n]\n', [B], f'relays = [\n  "{B}",\n]\n'),
        (
            'x = """\nrelays = [ """\nrelays = []\n',
            [A],
            f'x = """\nrelays = [ """\nrelays = ["{A}"]\n',
        ),
    ],
)
def test_one_list_changes(before: str, relays: list[str], after: str) -> None:
    assert with_relays(before, relays) == after


@pytest.mark.req("G2")
def test_comments_and_tables_stay() -> None:
    added = with_relays(SEVERAL_LINES, [A, B, C])
    assert added == SEVERAL_LINES.replace(
        f"'{B}'  # no comma\n", f"'{B}',  # no comma\n  \"{C}\",\n"
    )
    removed = with_relays(SEVERAL_LINES, [B])
    assert removed == SEVERAL_LINES.replace(f'  "{A}",  # home\n', "")
    table = tomllib.loads(with_relays(SEVERAL_LINES, []))
    assert table["relays"] == []
    assert table["policies"] == {"patient": {"relays": ["not", "ours"]}}


@pytest.mark.req("G2")
@pytest.mark.parametrize(
    "text",
    [
        'relays = ["""wss://a.example/""", ["x"]]\n',
        "relays.x = 1\n",
    ],
)
def test_what_cannot_be_changed_safely_says_what_line_to_write(text: str) -> None:
    with pytest.raises(BadSetting, match="yourself: relays = "):
        with_relays(text, [A])


@pytest.mark.req("G2")
@pytest.mark.parametrize(
    ("text", "said"),
    [("relays = 7", "not a list of URLs"), ("relays = [7]", "not a list"), ("=", "cannot be read")],
)
def test_a_file_that_is_wrong_stays_as_it_is(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "postrich.toml"
    file.write_text(text)
    with pytest.raises(BadSetting, match=said):
        change_relays(file, lambda known: [*known, A])
    assert file.read_text() == text


@pytest.mark.req("G2")
def test_the_file_keeps_its_mode_and_its_link(tmp_path: Path) -> None:
    real = tmp_path / "elsewhere" / "real.toml"
    real.parent.mkdir()
    real.write_text("goal = 1\n")
    real.chmod(0o600)
    link = tmp_path / "postrich.toml"
    link.symlink_to(real)
    assert change_relays(link, lambda known: [*known, A]) == [A]
    assert link.is_symlink()
    assert real.read_text() == f'goal = 1\nrelays = ["{A}"]\n'
    assert real.stat().st_mode & 0o777 == 0o600
    assert list(real.parent.iterdir()) == [real]


@pytest.mark.req("G2")
def test_a_file_is_made_where_there_is_none(tmp_path: Path) -> None:
    file = tmp_path / "postrich.toml"
    assert change_relays(file, lambda known: known) == []
    assert not file.exists()
    change_relays(file, lambda known: [*known, A])
    assert file.read_text() == f'relays = ["{A}"]\n'


@pytest.mark.req("G2")
def test_two_who_change_it_at_once_lose_nothing(tmp_path: Path) -> None:
    file = tmp_path / "postrich.toml"
    urls = [f"wss://r{number}.example/" for number in range(20)]

    def add(url: str) -> None:
        change_relays(file, lambda known: [*known, url])

    threads = [threading.Thread(target=add, args=(url,)) for url in urls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(tomllib.loads(file.read_text())["relays"]) == sorted(urls)
