"""`postrich post`: notes and single events, their exit codes and their truth at the relay."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path

import pytest

from tests.doors.shell import Shell
from tests.relays import RelayProcess
from tests.relays.events import Event, make_event, public_key
from tests.relays.reader import fetch_events


def stored(relay: RelayProcess, event_id: str) -> Event | None:
    """The event as the relay has it."""
    found = asyncio.run(fetch_events(relay.url, {"ids": [event_id]}))
    return found[0] if found else None


def contents(shell: Shell, relay: RelayProcess) -> list[str]:
    """What the relay has of this shell's account."""
    author = public_key(bytes.fromhex(shell.variables["POSTRICH_NSEC"]))
    found = asyncio.run(fetch_events(relay.url, {"authors": [author]}))
    return [event["content"] for event in found]


@pytest.mark.req("G2")
def test_a_note_is_published(shell: Shell, relay: RelayProcess) -> None:
    result = shell.run("post", "hello", "world")
    assert result.code == 0
    assert "published as job 1: 1 of 1 relay" in result.out
    assert result.err == ""
    assert contents(shell, relay) == ["hello world"]


@pytest.mark.req("G2")
def test_the_json_answer_is_one_document(shell: Shell, relay: RelayProcess) -> None:
    result = shell.run(
        "post", "--json", "--kind", 30023, "--tag", "d=x", "--tag", '["t","a","b"]', ""
    )
    assert result.code == 0
    answer = result.json
    assert answer["success"] is True
    assert answer["queued"] is False
    assert answer["is_new"] is True
    assert answer["state"] == "published"
    assert answer["attempts"] == {"sign": 0, "publish": 1}
    assert [(d["relay"], d["state"]) for d in answer["deliveries"]] == [
        (f"{relay.url}/", "delivered")
    ]
    event = stored(relay, answer["event_id"])
    assert event is not None
    assert event["kind"] == 30023
    assert event["tags"] == [["d", "x"], ["t", "a", "b"]]


@pytest.mark.req("G2")
def test_text_comes_from_stdin_or_a_file(shell: Shell, relay: RelayProcess, tmp_path: Path) -> None:
    file = tmp_path / "note.txt"
    file.write_text("from a file\nof two lines\n")
    assert shell.run("post", stdin="piped ä\n").code == 0
    assert shell.run("post", "-", stdin="dashed").code == 0
    assert shell.run("post", "--file", file).code == 0
    assert set(contents(shell, relay)) == {"piped ä", "dashed", "from a file\nof two lines"}


@pytest.mark.req("G2")
def test_no_wait_answers_queued_and_the_note_is_kept(shell: Shell, dead_relay: str) -> None:
    result = shell.run("post", "--no-wait", "--relay", dead_relay, "later")
    assert result.code == 3
    assert "queued as job 1" in result.out
    assert shell.job(1)["content"] == "later"


@pytest.mark.req("G2", "B10")
def test_an_unreachable_relay_leaves_it_queued(shell: Shell, dead_relay: str) -> None:
    result = shell.run("post", "--wait", "0.3", "--relay", dead_relay, "not yet")
    assert result.code == 3
    assert "connection refused" in result.out
    assert shell.job(1)["attempts"]["publish"] == 0


@pytest.mark.req("G2")
def test_published_does_not_wait_for_the_unreachable(
    shell: Shell, relay: RelayProcess, dead_relay: str
) -> None:
    answer = shell.run("post", "--json", "--relay", relay.url, "--relay", dead_relay, "both")
    assert answer.code == 0
    states = {d["relay"]: d["state"] for d in answer.json["deliveries"]}
    assert states == {f"{relay.url}/": "delivered", dead_relay: "waiting"}
    assert answer.json["finished_at"] is None


@pytest.mark.req("G2")
def test_every_reachable_relay_gets_its_chance(
    shell: Shell, relay: RelayProcess, second_relay: RelayProcess
) -> None:
    answer = shell.post("--relay", relay.url, "--relay", second_relay.url, "twice")
    assert [d["state"] for d in answer["deliveries"]] == ["delivered", "delivered"]


@pytest.mark.req("G2")
def test_a_refused_note_has_failed(shell: Shell) -> None:
    result = shell.run("post", "an unwelcome word")
    assert result.code == 1
    assert "job 1 is failed" in result.out
    assert "content not welcome" in result.out


@pytest.mark.req("G2", "A9")
def test_the_same_key_twice_is_one_job(shell: Shell) -> None:
    first = shell.post("--key", "k", "once")
    again = shell.post("--key", "k", "once more")
    assert (first["is_new"], again["is_new"]) == (True, False)
    assert first["id"] == again["id"]


@pytest.mark.req("G2", "A10")
def test_options_reach_the_job(shell: Shell, relay: RelayProcess, dead_relay: str) -> None:
    first = shell.run("post", "--no-wait", "--json", "--relay", dead_relay, "first").json
    options = ["--priority", "urgent", "--policy", "capture", "--goal", 2, "--after", first["id"]]
    relays = ["--relay", relay.url, "--relay", dead_relay]
    job = shell.run("post", "--no-wait", "--json", *options, *relays, "second").json
    assert job["priority"] == 0
    assert job["policy"]["name"] == "capture"
    assert job["goal"] == 2
    assert job["waits_for"] == [first["id"]]


@pytest.mark.req("G2")
def test_a_signed_event_needs_no_key(shell: Shell, relay: RelayProcess, tmp_path: Path) -> None:
    del shell.variables["POSTRICH_NSEC"]
    event = make_event(content="signed elsewhere")
    file = tmp_path / "event.json"
    file.write_text(json.dumps(event, indent=2))
    assert shell.run("post", "--event", file).code == 0
    assert stored(relay, event["id"]) == event
    again = shell.run("post", "--event", "-", "--json", stdin=json.dumps(event))
    assert again.code == 0
    assert again.json["is_new"] is False


@pytest.mark.req("G2", "A11")
def test_versions_of_one_second_stay_in_order(shell: Shell) -> None:
    times = [shell.post("--kind", 0, f'{{"name":"{n}"}}')["created_at"] for n in range(3)]
    assert times[0] < times[1] < times[2]


@pytest.mark.req("G2", "B7")
def test_a_hostile_note_cannot_act_on_the_terminal(shell: Shell) -> None:
    event = make_event(content="\x1b[2Jgone\x07 \u202etxet")
    shell.run("post", "--event", "-", stdin=json.dumps(event))
    for command in (["queue"], ["queue", "show", "1"], ["why", "1"]):
        out = shell.run(*command).out
        assert "[2Jgone" in out
        assert not {"\x1b", "\x07", "\u202e"} & set(out)


def forged() -> Event:
    """An event with another one's signature."""
    return {**make_event(content="mine"), "sig": make_event(content="other")["sig"]}


@pytest.mark.req("G2")
@pytest.mark.parametrize(
    ("arguments", "stdin", "reason"),
    [
        (["--event", "-"], json.dumps(forged()), "signature is not the author's"),
        (["--event", "-"], "{", "not valid JSON"),
        (["--event", "-"], "{}", "names no pubkey"),
        (["--event", "-"], "", "no event to post"),
        (["--event", "/nowhere.json"], "", "No such file"),
        (["--file", "/nowhere.txt"], "", "No such file"),
        ([], "  \n", "empty note"),
        ([], b"\xff", "not UTF-8"),
        (["--after", "77", "x"], "", "no job 77"),
        (["--kind", "13", "x"], "", "never published"),
        (["--tag", "[]", "x"], "", "at least one value"),
    ],
)
def test_what_cannot_be_posted_is_said_in_a_sentence(
    shell: Shell, arguments: list[str], stdin: str | bytes, reason: str
) -> None:
    result = shell.run("post", *arguments, stdin=stdin)
    assert result.code == 1
    assert reason in result.sentence
    assert result.out == ""
    assert shell.run("queue", "--json").json["jobs"] == []


@pytest.mark.req("G2")
@pytest.mark.parametrize(
    "arguments",
    [
        ["--priority", "soon", "x"],
        ["--policy", "nonesuch", "x"],
        ["--goal", "0", "x"],
        ["--goal", "9", "x"],
        ["--tag", "noequals", "x"],
        ["--tag", "[1]", "x"],
        ["--relay", "ftp://x", "x"],
        ["--kind", "70000", "x"],
        ["--event", "-", "text"],
        ["--event", "-", "--tag", "a=b"],
        ["--file", "f", "text"],
        ["--wait", "-1", "x"],
        ["--nonsense"],
    ],
)
def test_usage_errors_exit_2(shell: Shell, arguments: list[str]) -> None:
    result = shell.run("post", *arguments)
    assert result.code == 2
    assert "see `postrich post --help`" in result.sentence
    assert result.out == ""


@pytest.mark.req("G2", "A16")
def test_without_key_or_relays_it_says_what_to_do(bare_shell: Shell, relay: RelayProcess) -> None:
    assert "`postrich init` makes one" in bare_shell.run("post", "x").sentence
    bare_shell.variables["POSTRICH_NSEC"] = os.urandom(32).hex()
    no_relay = bare_shell.run("post", "x")
    assert no_relay.code == 1
    assert "no relay is known" in no_relay.sentence
    bare_shell.variables["POSTRICH_RELAYS"] = relay.url
    assert bare_shell.run("post", "x").code == 0


@pytest.mark.req("A16")
def test_a_wrong_passphrase_is_said(bare_shell: Shell, relay: RelayProcess) -> None:
    bare_shell.run("init", "--relay", relay.url, POSTRICH_PASSPHRASE="right")
    wrong = bare_shell.run("post", "x", POSTRICH_PASSPHRASE="wrong-words")
    assert wrong.code == 1
    assert wrong.sentence == "the passphrase is wrong: POSTRICH_PASSPHRASE does not open your key"
    assert bare_shell.run("queue").out == "The queue is empty.\n"


def test_a_damaged_settings_file_is_named(shell: Shell) -> None:
    (shell.home / "postrich.toml").write_text("relays = 7\n")
    for command in (["post", "x"], ["queue"], ["status"]):
        result = shell.run(*command)
        assert result.code == 1
        assert "postrich.toml" in result.sentence
