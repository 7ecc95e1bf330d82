"""`postrich why` and `postrich status`: the truth in sentences."""

from __future__ import annotations

import asyncio
import json
import re

import pytest

from tests.doors.shell import Shell
from tests.relays import RelayProcess
from tests.relays.events import event_id, make_event
from tests.relays.scripted import ScriptedRelay
from tests.relays.scripts import Sequence, accept, accept_saying, refuse


@pytest.mark.req("G2")
def test_a_delivered_job_shows_its_evidence(shell: Shell, relay: RelayProcess) -> None:
    shell.post("all is well")
    told = shell.run("why", 1)
    assert told.code == 0
    for text in ("Job 1 is published", "accepted: kind 1", "said OK", "the goal of 1 is met"):
        assert text in " ".join(told.out.split())
    assert "answered OK" in told.out
    assert "Now:" not in told.out
    answer = shell.run("why", "--json", 1).json
    assert [entry["relay"] for entry in answer["evidence"]] == [f"{relay.url}/"]
    assert answer["waits"] == []
    assert answer["job"]["id"] == 1


@pytest.mark.req("G2")
def test_an_unreachable_relay_is_the_reason(shell: Shell, dead_relay: str) -> None:
    shell.post("--no-wait", "--relay", dead_relay, "waits")
    with shell.start("serve") as serving:
        serving.wait_for("breaker open")
        told = shell.until(lambda: shell.run("why", 1).out, "next probe in")
        assert serving.stop().code == 0
    assert "unreachable since" in told
    assert "connection refused" in told
    assert "Nobody delivers" not in told
    assert "Nobody delivers now: run `postrich serve`." in shell.run("why", 1).out
    assert max(map(len, told.splitlines()[:6])) <= 80


@pytest.mark.req("G2", "A7")
async def test_every_attempt_is_told_in_order(shell: Shell) -> None:
    answers = Sequence([refuse("error: disk on fire"), accept_saying("thank you")])
    async with ScriptedRelay(answers) as relay:
        await asyncio.to_thread(
            shell.finish, "post", "--wait", "8", "--policy", "capture", "--relay", relay.url, "hi"
        )
        assert len(relay.events) == 2
    story = (await asyncio.to_thread(shell.finish, "why", "--json", 1)).json
    texts = [line["text"] for line in story["story"]]
    assert texts[0].startswith("accepted")
    assert texts[1] == "attempt 1: error — error: disk on fire"
    assert texts[2] == "attempt 2: ok — thank you"
    assert texts[3].startswith("published")
    assert [entry["said"] for entry in story["evidence"]] == ["thank you"]


@pytest.mark.req("G2")
async def test_a_backoff_is_told_with_its_hour(shell: Shell) -> None:
    async with ScriptedRelay(Sequence([refuse("error: not today"), accept])) as relay:
        arguments = ["post", "--wait", "0.5", "--policy", "scheduled", "--relay", relay.url, "hi"]
        result = await asyncio.to_thread(shell.finish, *arguments)
    assert result.code == 3
    told = await asyncio.to_thread(shell.finish, "why", 1)
    assert re.search(r"attempt 2 follows in (5\d s|1 min) \(\d\d:", told.out)
    assert "after “error: not today”" in told.out


@pytest.mark.req("G2", "A10")
def test_a_dependency_is_the_reason(shell: Shell, dead_relay: str) -> None:
    shell.post("--no-wait", "--relay", dead_relay, "first")
    shell.run("post", "--wait", "0.3", "--after", 1, "second")
    assert shell.run("why", "--json", 2).json["waits"][0] == (
        "It waits for job 1, which is signed-pending-publish."
    )
    shell.run("queue", "cancel", 1)
    assert "queue retry 2" in shell.run("why", 2).out


@pytest.mark.req("G2", "A6")
def test_an_unsigned_draft_waits_for_its_signature(shell: Shell) -> None:
    del shell.variables["POSTRICH_NSEC"]
    draft = make_event(content="unsigned")
    del draft["sig"]
    result = shell.run("post", "--wait", "0.3", "--event", "-", stdin=json.dumps(draft))
    assert result.code == 3
    [reason, *_] = shell.run("why", "--json", event_id(draft)).json["waits"]
    assert reason.startswith(f"It waits for a signer of {draft['pubkey'][:8]}… to sign it")


@pytest.mark.req("A12", "G2")
def test_status_counts_what_waits(shell: Shell, dead_relay: str) -> None:
    assert shell.run("status").out.startswith("Nothing is waiting.\n")
    shell.post("--no-wait", "--relay", dead_relay, "one")
    assert shell.run("status").out.startswith("1 item waiting to publish\n")
    shell.post("--no-wait", "--relay", dead_relay, "two")
    told = shell.run("status")
    assert told.out.startswith("2 items waiting to publish\n")
    assert "oldest: " in told.out
    assert "tried 0 times" in told.out
    assert "`postrich serve` is not running." in told.out
    assert max(map(len, told.out.splitlines())) <= 80


@pytest.mark.req("A12", "G2")
def test_status_for_programs(shell: Shell, relay: RelayProcess, dead_relay: str) -> None:
    shell.post("--no-wait", "--relay", dead_relay, "one")
    with shell.start("serve") as serving:
        serving.wait_for("breaker open")
        shell.run("post", "two")
        shell.until(lambda: shell.run("status").out, "well", "unreachable")
        assert serving.stop().code == 0
    answer = shell.run("status", "--json").json
    assert answer["text"] == "1 item waiting to publish"
    assert (answer["pending"], answer["open_deliveries"], answer["failed"]) == (1, 1, 0)
    assert isinstance(answer["oldest"], int)
    assert answer["serve"] == {"running": False, "pid": None}
    relays = {entry["url"]: entry for entry in answer["relays"]}
    assert relays[dead_relay]["waiting"] == 1
    assert relays[dead_relay]["health"]["state"] == "open"
    assert relays[f"{relay.url}/"]["waiting"] == 0
    assert relays[f"{relay.url}/"]["health"]["state"] == "closed"


@pytest.mark.req("A12")
def test_status_tells_open_relays_of_published_notes(
    shell: Shell, relay: RelayProcess, dead_relay: str
) -> None:
    shell.post("--relay", relay.url, "--relay", dead_relay, "half")
    assert shell.run("status").out.startswith("Nothing waits to be published; further relays")
