"""`postrich serve`: one per home, graceful, and none the worse for a kill."""

from __future__ import annotations

import json
from signal import SIGINT, SIGKILL, SIGTERM

import pytest

from tests.doors.shell import Shell
from tests.relays import RelayProcess, local_relay
from tests.relays.events import make_event, public_key


@pytest.mark.req("G2", "B8")
def test_what_was_queued_is_published_by_serve(shell: Shell) -> None:
    with local_relay() as relay:
        relay.stop()
        assert shell.run("post", "--wait", "0.3", "--relay", relay.url, "patience").code == 3
        relay.start()
        with shell.start("serve") as serving:
            serving.wait_for("all published")
            assert shell.job(1)["state"] == "published"
            assert "is running" in shell.run("status").out
            result = serving.stop(SIGTERM)
    assert result.code == 0
    assert result.out == ""
    assert "stopped" in result.err
    assert "is not running" in shell.run("status").out


@pytest.mark.req("G2")
def test_post_hands_in_to_a_running_serve(shell: Shell) -> None:
    with shell.start("serve") as serving:
        serving.wait_for("serving")
        shell.post("opens the lane")
        serving.wait_for("serving", "account=")
        results = [shell.run("post", f"note {number}") for number in range(3)]
        assert [result.code for result in results] == [0, 0, 0]
        assert serving.stop(SIGINT).code == 0


@pytest.mark.req("G2", "A16")
def test_a_serve_without_a_key_says_so_and_does_not_hinder_who_has_one(
    shell: Shell, relay: RelayProcess
) -> None:
    draft = make_event(content="unsigned")
    del draft["sig"]
    with shell.start("serve", POSTRICH_NSEC="") as serving:
        serving.wait_for("nobody is here to sign", "drafts wait")
        shell.run("post", "--no-wait", "--event", "-", stdin=json.dumps(draft), POSTRICH_NSEC="")
        assert shell.run("post", "signed here").code == 0
        assert serving.stop().code == 0
    assert shell.job(1)["state"] == "pending-sign"


@pytest.mark.req("G2")
def test_a_second_serve_names_the_first_and_leaves(shell: Shell) -> None:
    with shell.start("serve") as first:
        first.wait_for("serving")
        second = shell.finish("serve")
        assert second.code == 1
        assert f"pid {first.pid}" in second.sentence
        assert shell.run("status", "--json").json["serve"] == {"running": True, "pid": first.pid}
        assert shell.run("post", "undisturbed").code == 0
        assert first.stop().code == 0


@pytest.mark.req("G2", "B8")
def test_after_a_kill_the_next_serve_starts_at_once(shell: Shell) -> None:
    with local_relay() as relay:
        relay.stop()
        with shell.start("serve") as first:
            first.wait_for("serving")
            shell.run("post", "--no-wait", "--relay", relay.url, "survives")
            first.wait_for("breaker open")
            first.stop(SIGKILL)
        assert shell.run("status", "--json").json["serve"]["running"] is False
        relay.start()
        with shell.start("serve") as second:
            second.wait_for("all published")
            assert second.stop().code == 0
    assert shell.job(1)["state"] == "published"


@pytest.mark.req("B11", "G2")
def test_the_log_is_json_on_request(shell: Shell) -> None:
    draft = {"kind": 1, "content": "an unwelcome note"}
    draft["pubkey"] = public_key(bytes.fromhex(shell.variables["POSTRICH_NSEC"]))
    with shell.start("serve", "--verbose", "--log-json") as serving:
        serving.wait_for('"serving"')
        shell.run("post", "--no-wait", "--event", "-", stdin=json.dumps(draft), POSTRICH_NSEC="")
        serving.wait_for("content not welcome", '"event": "attempt"')
        result = serving.stop()
    entries = [json.loads(line) for line in result.err.splitlines()]
    assert {"event", "level", "timestamp", "logger"} <= set.intersection(*map(set, entries))
    [error] = [entry for entry in entries if "content not welcome" in entry["event"]]
    assert error["level"] == "error"
    assert "job 1, phase publish" in error["event"]
    assert any(entry["level"] == "debug" for entry in entries)


@pytest.mark.req("G2", "A16")
def test_a_wrong_passphrase_stops_serve(bare_shell: Shell) -> None:
    bare_shell.run("init", POSTRICH_PASSPHRASE="right")
    result = bare_shell.finish("serve", POSTRICH_PASSPHRASE="wrong")
    assert result.code == 1
    assert result.sentence == "the passphrase is wrong: POSTRICH_PASSPHRASE does not open your key"


@pytest.mark.req("G2")
def test_the_demo_shows_the_whole_road(shell: Shell) -> None:
    with shell.start("serve", "--demo") as demo:
        demo.wait_for("accepted", "delivered  at alpha", "published", "unreachable", "retry in")
        demo.wait_for("is back", "#1  complete", "#2  complete", "#3  complete")
        result = demo.stop(SIGINT)
    assert result.code == 0
    assert result.err == ""
    assert "Goodbye: 3 accepted, 3 published, 3 delivered everywhere" in result.out
    assert "\x1b" not in result.out
    assert shell.run("queue", "--json").json["jobs"] == []
