"""`postrich queue`: looking at jobs, and changing one's mind about them."""

from __future__ import annotations

import json
from pathlib import Path
from signal import SIGINT

import pytest
from nostr_sdk import EventId, Nip19Event

from tests.doors.shell import Shell
from tests.relays import RelayProcess, local_relay
from tests.relays.events import make_event


@pytest.fixture
def waiting(shell: Shell, dead_relay: str) -> Shell:
    """A shell whose job 1 is published, 2 and 3 wait, 4 has failed."""
    shell.post("one")
    for text in ("two", "three"):
        shell.post("--no-wait", "--relay", dead_relay, "--kind", 7, text)
    shell.post("four is unwelcome")
    return shell


def numbers(shell: Shell, *arguments: object) -> list[int]:
    return [job["id"] for job in shell.run("queue", "--json", *arguments).json["jobs"]]


@pytest.mark.req("G2")
def test_an_empty_queue_says_so(shell: Shell) -> None:
    assert shell.run("queue").out == "The queue is empty.\n"
    assert shell.run("queue", "--open").out == "Nothing is waiting.\n"
    assert shell.run("queue", "--json").json == {"text": "0 items waiting to publish", "jobs": []}


@pytest.mark.req("G2")
def test_without_a_home_nothing_is_made(bare_shell: Shell) -> None:
    for command in ("queue", "status", "why", "queue show"):
        arguments = [*command.split(), *(["1"] if command in ("why", "queue show") else [])]
        result = bare_shell.run(*arguments)
        assert result.code == 1
        assert "`postrich init` makes one" in result.sentence
    assert not bare_shell.home.exists()


@pytest.mark.req("G2")
def test_the_list_fits_80_columns(waiting: Shell) -> None:
    waiting.post("a very long note " * 20)
    lines = waiting.run("queue").out.splitlines()
    assert len(lines) == 6
    assert max(map(len, lines)) <= 80
    assert "published" in lines[-1]
    assert "0/1" in lines[-2]
    assert waiting.run("queue", "list").out.splitlines()[0] == lines[0]


@pytest.mark.req("G2")
def test_filters(waiting: Shell, relay: RelayProcess, dead_relay: str) -> None:
    assert numbers(waiting) == [4, 3, 2, 1]
    assert numbers(waiting, "--state", "waiting") == [3, 2]
    assert numbers(waiting, "--state", "failed", "--state", "published") == [4, 1]
    assert numbers(waiting, "--relay", relay.url) == [4, 1]
    assert numbers(waiting, "--kind", 7) == [3, 2]
    assert numbers(waiting, "--open") == [3, 2]
    assert numbers(waiting, "--limit", 1) == [4]
    assert waiting.run("queue", "--state", "parked").out == "No job is like that.\n"


@pytest.mark.req("G2")
def test_jobs_go_by_many_names(waiting: Shell) -> None:
    event_id = waiting.job(2)["event_id"]
    names = [
        "2",
        event_id,
        event_id[:12],
        EventId.parse(event_id).to_bech32(),
        "nostr:" + EventId.parse(event_id).to_bech32(),
        Nip19Event(EventId.parse(event_id), None, None, []).to_bech32(),
    ]
    for name in names:
        assert waiting.run("queue", "show", "--json", name).json["id"] == 2
    shown = waiting.run("queue", "show", 2)
    assert "two" in shown.out
    assert "0 of 1 relay" in shown.out


@pytest.mark.req("G2")
@pytest.mark.parametrize("name", ["99", "abcd", "zz", "note1broken", "nevent1broken", "0" * 64])
def test_unknown_names_are_one_sentence(waiting: Shell, name: str) -> None:
    for command in (["why"], ["queue", "show"], ["queue", "retry"], ["queue", "delete"]):
        result = waiting.run(*command, name)
        assert result.code == 1
        assert result.sentence


@pytest.mark.req("B6", "G2")
def test_retry_acts_at_once_and_reports_like_post(shell: Shell, relay: RelayProcess) -> None:
    with local_relay() as other:
        other.stop()
        answer = shell.post("--no-wait", "--relay", other.url, "again")
        waiting = shell.run("queue", "retry", "--no-wait", answer["id"])
        assert (waiting.code, waiting.out.splitlines()[0]) == (3, "Retried 1 job: 0 published.")
        other.start()
        result = shell.run("queue", "retry", "--json", answer["id"])
    assert (result.code, result.json) == (0, {"retried": [1], "states": {"1": "published"}})


@pytest.mark.req("B6", "G2")
def test_a_failed_job_can_be_retried_cancelled_and_deleted(waiting: Shell) -> None:
    assert waiting.run("queue", "retry", 4).code == 1
    story = waiting.run("why", "--json", 4).json["story"]
    assert sum("content not welcome" in line["text"] for line in story) == 2
    assert waiting.run("queue", "cancel", 4, 2).out == "Cancelled 2 jobs.\n"
    assert waiting.run("queue", "delete", 4, "2", "--json").json == {"deleted": [4, 2]}
    assert numbers(waiting) == [3, 1]


@pytest.mark.req("B6")
def test_what_a_state_forbids_is_said(waiting: Shell) -> None:
    assert "cannot be cancelled" in waiting.run("queue", "cancel", 1).sentence
    assert "cannot be deleted" in waiting.run("queue", "delete", 2).sentence
    assert numbers(waiting) == [4, 3, 2, 1]


@pytest.mark.req("B6", "G2")
def test_bulk_deeds(waiting: Shell, dead_relay: str) -> None:
    assert waiting.run("queue", "cancel", "--relay", dead_relay).out == "Cancelled 2 jobs.\n"
    assert waiting.run("queue", "cancel", "--relay", dead_relay).out == "Nothing was cancelled.\n"
    assert waiting.run("queue", "retry", "--state", "scheduled").out == "Nothing to retry.\n"
    assert waiting.run("queue", "retry", "--state", "failed", "--no-wait").code == 3
    deleted = waiting.run("queue", "delete", "--state", "cancelled", "--yes")
    assert deleted.out == "Deleted 2 jobs.\n"


@pytest.mark.req("B6", "G2")
def test_bulk_delete_asks_first(waiting: Shell) -> None:
    for answer in ("", "n\n", "what?\n"):
        result = waiting.run("queue", "delete", "--all", stdin=answer)
        assert result.code == 1
        assert "Delete 2 jobs and their stories for good?" in result.err
        assert "nothing was deleted" in result.err
    assert numbers(waiting) == [4, 3, 2, 1]
    assert waiting.run("queue", "delete", "--all", stdin="y\n").out == "Deleted 2 jobs.\n"
    assert numbers(waiting) == [3, 2]


@pytest.mark.req("G2")
@pytest.mark.parametrize(
    "arguments",
    [
        ["delete"],
        ["retry", "1", "--all"],
        ["cancel", "--state", "nonesuch"],
        ["--state", "nonesuch"],
        ["--relay", "ftp://nowhere"],
        ["--json", "show", "1"],
        ["--watch", "--json"],
        ["show"],
        ["--limit", "0"],
    ],
)
def test_usage_errors_exit_2(waiting: Shell, arguments: list[str]) -> None:
    result = waiting.run("queue", *arguments)
    assert result.code == 2
    assert result.sentence
    assert numbers(waiting) == [4, 3, 2, 1]


@pytest.mark.req("G2")
def test_watch_shows_changes_until_ctrl_c(shell: Shell, tmp_path: Path) -> None:
    with shell.start("queue", "--watch") as watching:
        watching.wait_for("The queue is empty.")
        event = make_event(content="seen while watching")
        shell.run("post", "--event", "-", stdin=json.dumps(event))
        watching.wait_for("published", "seen while watching")
        result = watching.stop(SIGINT)
    assert result.code == 130
    assert result.err == ""
