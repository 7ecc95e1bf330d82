"""`schedule import` and `schedule export`: each line its own answer, there and back, twice."""

from __future__ import annotations

import csv
import io
import json
import os
import secrets
import time
from pathlib import Path
from typing import Any

import pytest

from postrich.doors.rows import iso
from tests.deliver.outboxes import run_sql
from tests.doors.shell import Shell
from tests.relays.events import make_event, public_key

SOON = (int(time.time()) // 3600 + 2) * 3_600_000


def posts(shell: Shell) -> list[Any]:
    found: list[Any] = shell.run("schedule", "list", "--json").json["posts"]
    return found


def lines_of(*rows: dict[str, Any]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def csv_of(*rows: dict[str, Any]) -> str:
    target = io.StringIO()
    writer = csv.DictWriter(target, fieldnames=list(rows[0]), delimiter=";")
    writer.writeheader()
    writer.writerows(rows)
    return target.getvalue()


@pytest.mark.req("F5", "G2")
def test_each_line_has_its_own_answer_and_again_changes_nothing(
    shell: Shell, tmp_path: Path
) -> None:
    event = make_event(content="signed elsewhere")
    file = tmp_path / "posts.jsonl"
    file.write_text(
        lines_of(
            {"id": "a", "at": iso(SOON), "content": "ours"},
            {"at": iso(SOON + 1000), "event": event},
            {"at": "yesterday", "content": "no time"},
            {"at": iso(SOON - 10**9), "content": "too late"},
            {"at": iso(SOON), "content": "another", "id": "a"},
        )
    )
    result = shell.run("schedule", "import", file)
    assert result.code == 1
    assert result.out.splitlines() == [
        "5 posts: 2 kept, 3 refused",
        "`postrich serve` must run when they are due.",
    ]
    assert result.err.splitlines() == [
        "line 3: at 'yesterday' is no time such as 2026-05-31T09:00+02:00",
        "line 4: scheduledAt is in the past",
        "line 5: the id 'a' is given twice in this request",
    ]
    before = posts(shell)
    assert [(post["id"], post["state"]) for post in before] == [
        ("a", "scheduled"),
        (event["id"], "scheduled"),
    ]
    assert before[0]["scheduledAt"] == SOON
    again = shell.run("schedule", "import", file, "--json")
    assert again.code == 1
    assert [line["status"] for line in again.lines] == ["there", "there", *["refused"] * 3]
    assert again.lines[0] == {"line": 1, "status": "there", "id": "a", "at": iso(SOON)}
    assert posts(shell) == before


@pytest.mark.req("F5")
def test_what_went_out_meanwhile_or_was_called_off_is_not_scheduled_again(
    shell: Shell, tmp_path: Path
) -> None:
    at = int(time.time() * 1000) + 1500
    file = tmp_path / "posts.csv"
    file.write_text(
        csv_of({"at": iso(at), "content": "soon"}, {"at": iso(SOON), "content": "called off"})
    )
    assert shell.run("schedule", "import", file).code == 0
    shell.run("schedule", "cancel", posts(shell)[1]["id"])
    with shell.start("serve") as serve:
        serve.wait_for("published")
        serve.stop()
    jobs = shell.run("queue", "list", "--json").json["jobs"]
    result = shell.run("schedule", "import", file)
    assert (result.code, result.out) == (0, "2 posts: 2 there already\n")
    assert shell.run("queue", "list", "--json").json["jobs"] == jobs


@pytest.mark.req("F5", "G2")
def test_a_dry_run_keeps_nothing(shell: Shell) -> None:
    rows = csv_of(
        {"id": "a", "at": iso(SOON), "content": "one\ntwo; three", "kind": "1"},
        {"id": "", "at": iso(SOON), "content": "", "kind": ""},
        {"id": "c", "at": iso(SOON), "content": "x", "kind": "22242"},
    )
    result = shell.run("schedule", "import", "-", "--dry-run", stdin="\ufeff" + rows)
    assert result.out == "3 posts: 1 would be kept, 2 refused\n"
    assert posts(shell) == []
    first = shell.run("schedule", "import", "-", stdin=rows)
    assert (first.code, first.out.splitlines()[0]) == (1, "3 posts: 1 kept, 2 refused")
    assert posts(shell)[0]["content"] == "one\ntwo; three"
    statuses = shell.run("schedule", "import", "-", "--dry-run", "--json", stdin=rows).lines
    assert [line["status"] for line in statuses] == ["there", "refused", "refused"]
    other = rows.replace("one", "seven")
    [line, *_] = shell.run("schedule", "import", "-", "--dry-run", "--json", stdin=other).lines
    assert "already names another post" in line["error"]


@pytest.mark.req("F5")
@pytest.mark.parametrize("kind", ["jsonl", "csv"])
async def test_what_is_exported_is_imported_as_it_was(
    shell: Shell, tmp_path: Path, kind: str
) -> None:
    stranger = public_key(os.urandom(32))
    rows = lines_of(
        {"id": "ours", "at": iso(SOON + 5), "content": 'a "quoted"\r\nnote', "tags": [["t", "x"]]},
        {"at": iso(SOON), "event": make_event(content="signed, elsewhere; ünïcode")},
        {"at": iso(SOON), "content": "a draft", "pubkey": stranger, "kind": 30023,
         "tags": [["d", "1"]], "relays": ["wss://a.example/", "wss://b.example/"],
         "priority": "urgent"},
    )  # fmt: skip
    kept = await shell.arun("schedule", "import", "-", "--json", stdin=rows)
    assert (kept.code, len(kept.lines)) == (0, 3), kept
    file = tmp_path / f"posts.{kind}"
    said = await shell.arun("schedule", "export", file)
    assert said.out == f"Wrote 3 posts to {file}.\n"
    printed = await shell.arun("schedule", "export", "--format", kind)
    assert printed.out.encode() == file.read_bytes()
    wanted = await shell.arun("schedule", "list", "--json")
    query = "SELECT CAST(body AS TEXT) FROM payloads ORDER BY 1"
    bodies = await run_sql(shell.home, query)

    shell.home = tmp_path / "elsewhere"
    shell.variables["POSTRICH_NSEC"] = secrets.token_hex(32)  # whoever imports needs no key
    assert (await shell.arun("init", "--no-key", "--relay", "wss://c.example")).code == 0
    result = await shell.arun("schedule", "import", file)
    assert (result.code, result.out.splitlines()[0]) == (0, "3 posts: 3 kept")
    found = await shell.arun("schedule", "list", "--json")
    assert sorted(map(what_matters, found.json["posts"])) == sorted(
        map(what_matters, wanted.json["posts"])
    )
    assert await run_sql(shell.home, query) == bodies
    again = await shell.arun("schedule", "export", "--format", kind)
    assert sorted(again.out.splitlines()) == sorted(printed.out.splitlines())


def what_matters(post: dict[str, Any]) -> str:
    return json.dumps({name: value for name, value in post.items() if name != "job"})


@pytest.mark.req("G2")
@pytest.mark.parametrize(
    ("body", "arguments", "code", "words"),
    [
        ("at,colour\n", (), 1, "the column 'colour' is not understood"),
        ("at,content\n", ("--format", "xml"), 2, "'xml' is none of jsonl, csv"),
    ],
)
def test_a_file_that_is_not_understood_is_refused(
    shell: Shell, body: str, arguments: tuple[str, ...], code: int, words: str
) -> None:
    result = shell.run("schedule", "import", "-", *arguments, stdin=body)
    assert (result.code, words in result.sentence) == (code, True)


@pytest.mark.req("F5", "G2")
def test_a_spreadsheet_means_the_clocks_of_one_s_own_zone(shell: Shell) -> None:
    next_year = time.gmtime().tm_year + 1
    body = f"at;content\n{next_year}-07-01 09:00;x\n"
    refused = shell.run("schedule", "import", "-", stdin=body)
    assert (refused.code, "must say its time zone" in refused.err) == (1, True)
    kept = shell.run("schedule", "import", "-", "--zone", "Europe/Berlin", stdin=body)
    assert kept.code == 0
    assert posts(shell)[0]["at"].endswith("-07-01T07:00:00Z")
    wrong = shell.run("schedule", "import", "-", "--zone", "Nowhere/Else", stdin=body)
    assert (wrong.code, "is no time zone" in wrong.sentence) == (2, True)


@pytest.mark.req("G2")
def test_files_that_are_not_there_or_empty(shell: Shell, tmp_path: Path) -> None:
    missing = shell.run("schedule", "import", tmp_path / "none.csv")
    assert (missing.code, "No such file" in missing.sentence) == (1, True)
    assert shell.run("schedule", "import", "-").out == "0 posts: nothing to do\n"
    assert shell.run("schedule", "export").out == ""
