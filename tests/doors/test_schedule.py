"""`postrich schedule`: posts for their hour, and second thoughts, at the command line."""

from __future__ import annotations

import asyncio
import json
import os
import time
from pathlib import Path

import pytest

from postrich.doors.cli import hours
from tests.doors.shell import Shell
from tests.relays import RelayProcess
from tests.relays.events import make_event, public_key
from tests.relays.reader import fetch_events

HOUR = 3_600_000
NOW = 1_780_210_800_000  # Sun 2026-05-31 07:00 UTC


def secret_of(shell: Shell) -> bytes:
    return bytes.fromhex(shell.variables["POSTRICH_NSEC"])


def add(shell: Shell, *arguments: object) -> dict[str, object]:
    result = shell.run("schedule", "add", "--json", *arguments)
    assert result.code == 0, result.err
    document: dict[str, object] = result.json
    return document


# -- hours in words ----------------------------------------------------------------------------


@pytest.mark.req("G2")
@pytest.mark.parametrize(
    ("ahead", "zone", "text"),
    [
        (14 * HOUR, "Europe/Berlin", "today 23:00 (Europe/Berlin), in 14 h"),
        (26 * HOUR, "UTC", "tomorrow 09:00 (UTC), in 1 day"),
        (5 * 24 * HOUR + 30_000, "UTC", "Fri 2026-06-05 07:00:30 (UTC), in 5 days"),
        (0, "Asia/Tokyo", "today 16:00 (Asia/Tokyo), now"),
    ],
)
def test_hours_are_told_in_words(ahead: int, zone: str, text: str) -> None:
    assert hours.hour_words(NOW + ahead, NOW, zone) == text


@pytest.mark.req("G2")
def test_the_person_s_own_zone_is_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    assert hours.own_zone() == "Asia/Tokyo"
    monkeypatch.setenv("TZ", "nonsense")
    link = tmp_path / "localtime"
    link.symlink_to("/usr/share/zoneinfo/Europe/Paris")
    monkeypatch.setattr(hours, "LOCALTIME", link)
    assert hours.own_zone() == "Europe/Paris"
    monkeypatch.setattr(hours, "LOCALTIME", tmp_path / "nothing")
    assert hours.own_zone() == "UTC"


# -- add ---------------------------------------------------------------------------------------


@pytest.mark.req("F5", "G2")
def test_a_note_is_signed_now_for_its_hour(shell: Shell) -> None:
    arguments = ("--at", "tomorrow 9:00", "--zone", "Europe/Berlin", "--id", "dawn")
    result = shell.run("schedule", "add", "good", "morning", *arguments)
    assert result.code == 0
    first, second = result.out.splitlines()
    assert first.startswith("✓ kept as dawn; it goes out tomorrow 09:00 (Europe/Berlin), in ")
    assert second == "  `postrich serve` must run then."
    found = shell.run("schedule", "show", "dawn", "--json").json
    assert (found["status"], found["state"]) == ("pending", "scheduled")
    assert found["content"] == "good morning"
    assert found["job"]["created_at"] * 1000 == found["scheduledAt"]
    assert found["pubkey"] == public_key(secret_of(shell))


@pytest.mark.req("F3", "F5")
def test_what_is_scheduled_goes_out_without_the_key(shell: Shell, relay: RelayProcess) -> None:
    post = add(shell, "soon", "--at", "in 1 seconds")
    key = shell.variables.pop("POSTRICH_NSEC")
    with shell.start("serve") as serve:
        serve.wait_for("published")
        serve.stop()
    shell.variables["POSTRICH_NSEC"] = key
    [event] = asyncio.run(fetch_events(relay.url, {"ids": [post["event_id"]]}))
    assert event["content"] == "soon"
    listed = shell.run("schedule", "list", "--json").json["posts"]
    assert listed == []
    [over] = shell.run("schedule", "list", "--all", "--json").json["posts"]
    assert over["status"] == "published"


@pytest.mark.req("F2", "F5")
def test_a_signed_event_is_scheduled_as_it_is(shell: Shell, tmp_path: Path) -> None:
    event = make_event(os.urandom(32), content="signed elsewhere")
    file = tmp_path / "event.json"
    file.write_text(json.dumps(event))
    at = int(time.time()) + 3600
    post = add(shell, "--event", file, "--at", at, "--id", "theirs")
    assert (post["event_id"], post["scheduledAt"]) == (event["id"], at * 1000)
    again = add(shell, "--event", file, "--at", at, "--id", "theirs")
    assert not again["is_new"]
    assert [p["id"] for p in shell.run("schedule", "list", "--json").json["posts"]] == ["theirs"]
    forged = shell.run(
        *("schedule", "add", "--event", "-", "--at", "in 1 hours"),
        stdin=json.dumps({**event, "content": "changed"}),
    )
    assert (forged.code, forged.sentence) == (1, "id does not match the event's content")


@pytest.mark.req("F5", "G2")
def test_without_a_key_the_draft_waits(shell: Shell, tmp_path: Path) -> None:
    pubkey = public_key(os.urandom(32))
    draft = json.dumps({"pubkey": pubkey, "kind": 1, "content": "draft", "tags": []})
    result = shell.run("schedule", "add", "--event", "-", "--at", "in 3 hours", stdin=draft)
    assert result.code == 0
    assert "it is not signed yet" in result.out
    [post] = shell.run("schedule", "list", "--json").json["posts"]
    assert (post["state"], post["pubkey"]) == ("pending-sign", pubkey)


@pytest.mark.req("F5", "A6")
def test_a_draft_of_an_account_at_hand_is_signed(shell: Shell) -> None:
    pubkey = public_key(secret_of(shell))
    draft = json.dumps({"pubkey": pubkey, "kind": 1, "content": "draft"})
    result = shell.run(
        *("schedule", "add", "--event", "-", "--at", "in 3 hours", "--json"), stdin=draft
    )
    assert (result.json["state"], result.json["content"]) == ("scheduled", "draft")


@pytest.mark.req("F5", "A16")
def test_a_locked_key_refuses_no_post(bare_shell: Shell, relay: RelayProcess) -> None:
    right = {"POSTRICH_PASSPHRASE": "open sesame 42"}
    assert bare_shell.run("init", "--relay", relay.url, **right).code == 0
    add_it = ("schedule", "add", "later", "--at", "in 3 hours", "--id", "x")
    kept = bare_shell.run(*add_it)
    assert kept.code == 0
    assert "it is not signed yet" in kept.out
    assert kept.sentence.startswith("your key is locked")
    edited = bare_shell.run("schedule", "edit", "x", "--at", "in 5 hours", "--json").json
    assert edited["state"] == "pending-sign"
    signed = bare_shell.run("schedule", "edit", "x", "--text", "now signed", "--json", **right).json
    assert (signed["state"], signed["content"]) == ("scheduled", "now signed")


@pytest.mark.req("G2")
@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("hello",), 2, "say when"),
        (("hello", "--at", "in 1 hours", "--slot", "main"), 2, "say when"),
        (("hello", "--slot", "a", "--next-slot"), 2, "exclude each other"),
        (("hello", "--at", "sometime"), 2, "is no time that is understood"),
        (("hello", "--at", "2001-01-01 09:00"), 2, "is in the past"),
        (("hello", "--at", "in 1 hours", "--zone", "Mars/North"), 2, "is no time zone"),
        (("hello", "--at", "in 1 hours", "--priority", "vip"), 2, "'vip' is none of"),
        (("hello", "--at", "in 1 hours", "--relay", "ftp://nowhere"), 2, "--relay"),
        (("hello", "--at", "in 1 hours", "--id", "a/b"), 1, "id may not contain"),
        (("hello", "--event", "-", "--at", "in 1 hours"), 2, "brings a whole event"),
        (("hello", "--next-slot"), 1, "there is no weekly grid"),
        (("hello", "--slot", "main"), 1, "no weekly grid 'main'"),
    ],
)
def test_what_cannot_be_is_said_and_nothing_kept(
    shell: Shell, arguments: tuple[str, ...], code: int, words: str
) -> None:
    result = shell.run("schedule", "add", *arguments)
    assert result.code == code, result
    assert words in result.sentence
    assert shell.run("schedule", "list").out == "Nothing is scheduled.\n"


# -- looking -----------------------------------------------------------------------------------


@pytest.mark.req("F5", "G2")
def test_the_list_begins_with_what_is_next(shell: Shell) -> None:
    add(shell, "second", "--at", "in 3 days", "--id", "b")
    add(shell, "first", "--at", "in 2 hours", "--id", "a")
    result = shell.run("schedule")
    head, one, two, last = result.out.splitlines()
    assert head.split() == ["ID", "WHEN", "AWAY", "STATE", "NOTE"]
    assert one.split()[0] == "a"
    assert "in 2 h" in one
    assert two.split()[0] == "b"
    assert last.startswith("Times are those of ")
    mine = shell.run("schedule", "list", "--account", public_key(secret_of(shell)), "--json").json
    assert [post["id"] for post in mine["posts"]] == ["a", "b"]


@pytest.mark.req("F5", "G2")
def test_a_post_is_found_by_its_id_job_or_event(shell: Shell) -> None:
    post = add(shell, "hello", "--at", "in 2 hours", "--id", "name")
    assert "in 2 h" in shell.run("schedule", "list").out
    for name in ("name", post["job"], str(post["event_id"])[:10]):
        result = shell.run("schedule", "show", name, "--zone", "UTC")
        assert result.code == 0
        assert result.out.startswith("name: ")
        assert "hello" in result.out
    assert shell.run("schedule", "show", "other").sentence == "no scheduled post has the id 'other'"
    shell.run("post", "--no-wait", "now")
    assert "job 2 is no scheduled post" in shell.run("schedule", "show", 2).sentence


# -- second thoughts ---------------------------------------------------------------------------


@pytest.mark.req("F5")
def test_another_hour_or_text_is_signed_anew_where_the_key_is_here(shell: Shell) -> None:
    first = add(shell, "hello", "--at", "in 2 hours", "--id", "name", "--tag", "t=x")
    later = shell.run("schedule", "edit", "name", "--at", "in 5 hours", "--json").json
    assert later["event_id"] != first["event_id"]
    assert later["warning"] == ""
    found = shell.run("schedule", "show", "name", "--json").json
    assert found["job"]["created_at"] == later["scheduledAt"] // 1000
    result = shell.run("schedule", "edit", "name", "--text", "hello again", "--zone", "UTC")
    assert result.out.startswith("✓ changed; kept as name; it goes out ")
    found = shell.run("schedule", "show", "name", "--json").json
    assert (found["content"], found["tags"]) == ("hello again", [["t", "x"]])
    assert (found["state"], found["scheduledAt"]) == ("scheduled", later["scheduledAt"])


@pytest.mark.req("F5")
def test_a_signed_event_keeps_its_signature_with_another_hour(shell: Shell, tmp_path: Path) -> None:
    secret = os.urandom(32)
    event = make_event(secret, content="one")
    add_result = shell.run(
        *("schedule", "add", "--event", "-", "--at", "in 1 hours", "--id", "x"),
        stdin=json.dumps(event),
    )
    assert add_result.code == 0
    edited = shell.run("schedule", "edit", "x", "--at", "in 9 hours", "--json").json
    assert edited["event_id"] == event["id"]
    assert "the signature is kept" in edited["warning"]
    new = make_event(secret, content="two")
    file = tmp_path / "new.json"
    file.write_text(json.dumps(new))
    edited = shell.run("schedule", "edit", "x", "--event", file, "--json").json
    assert (edited["event_id"], edited["content"]) == (new["id"], "two")
    unsigned = shell.run("schedule", "edit", "x", "--text", "three", "--json").json
    assert (unsigned["content"], unsigned["state"]) == ("three", "pending-sign")


@pytest.mark.req("F5", "G2")
def test_posts_are_called_off_all_or_none(shell: Shell) -> None:
    for name in ("a", "b", "c"):
        add(shell, name, "--at", "in 2 hours", "--id", name)
    result = shell.run("schedule", "cancel", "a", "b")
    assert result.out == "Cancelled 2 posts: none of it goes out.\n"
    again = shell.run("schedule", "cancel", "c", "a")
    assert (again.code, "cancelled already" in again.sentence) == (1, True)
    [left] = shell.run("schedule", "list", "--json").json["posts"]
    assert left["id"] == "c"
    assert shell.run("schedule", "cancel", "c", "--json").json == {"cancelled": ["c"]}
    late = shell.run("schedule", "edit", "c", "--text", "x")
    assert (late.code, "cancelled already" in late.sentence) == (1, True)


@pytest.mark.req("G2")
@pytest.mark.parametrize(
    ("arguments", "words"),
    [(("a",), "say what changes"), (("a", "--text", "x", "--event", "-"), "exclude each other")],
)
def test_an_edit_says_what_changes(shell: Shell, arguments: tuple[str, ...], words: str) -> None:
    result = shell.run("schedule", "edit", *arguments)
    assert (result.code, words in result.sentence) == (2, True)


@pytest.mark.req("F3", "G2")
def test_the_sweep_says_what_it_found(shell: Shell) -> None:
    add(shell, "x", "--at", "in 2 hours")
    assert shell.run("schedule", "sweep").out.startswith("Every post is in sight of the alarm.\n")
    assert shell.run("schedule", "sweep", "--json").json == {"found": 0, "serve": False}


# -- slots -------------------------------------------------------------------------------------


@pytest.mark.req("F5", "G2")
def test_posts_go_into_the_next_free_slots(shell: Shell) -> None:
    made = shell.run("schedule", "slots", "set", "main", "day 09:00 18:00", "--zone", "UTC")
    assert made.code == 0
    assert made.out.startswith("✓ kept the grid main: day 09:00 18:00 (UTC)\n  free: ")
    free = shell.run("schedule", "slots", "next", "main", "--count", 3, "--json").json["free"]
    one = add(shell, "one", "--next-slot")
    two = add(shell, "two", "--slot", "main")
    assert [one["scheduledAt"], two["scheduledAt"]] == free[:2]
    job = shell.run("schedule", "show", two["id"], "--json").json["job"]
    assert (job["state"], job["created_at"] * 1000) == ("scheduled", free[1])
    [grid] = shell.run("schedule", "slots", "list", "--json").json["grids"]
    assert grid["free"][0] == free[2]
    assert len(shell.run("schedule", "slots", "next", "main").out.splitlines()) == 5
    shell.run("schedule", "slots", "set", "other", "sat 10:00")
    assert "several grids" in shell.run("schedule", "add", "x", "--next-slot").sentence
    assert shell.run("schedule", "slots", "remove", "main").code == 0
    assert shell.run("schedule", "slots", "remove", "main").code == 1
    assert [g["name"] for g in shell.run("schedule", "slots", "list", "--json").json["grids"]] == [
        "other"
    ]


@pytest.mark.req("G2")
def test_a_grid_that_means_nothing_is_refused(shell: Shell) -> None:
    result = shell.run("schedule", "slots", "set", "main", "someday")
    assert (result.code, "is not understood" in result.sentence) == (1, True)
    assert "There is no weekly grid." in shell.run("schedule", "slots").out
