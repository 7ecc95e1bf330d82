"""`postrich post --pow`: work before signing, shown while it goes on (A14)."""

from __future__ import annotations

import asyncio

import pytest

from postrich.doors.cli.mining import words_for
from postrich.rules.pow import difficulty_of
from postrich.sign.mine import MiningProgress
from tests.doors.shell import Shell
from tests.relays import RelayProcess, local_relay
from tests.relays.reader import fetch_events


@pytest.mark.req("A14", "A2")
def test_a_mined_note_shows_its_work(shell: Shell, relay: RelayProcess) -> None:
    result = shell.run("post", "--pow", "12", "--json", "--tag", "t=x", "worked for")
    assert result.code == 0
    [event] = asyncio.run(fetch_events(relay.url, {"ids": [result.json["event_id"]]}))
    assert difficulty_of(event["id"]) >= 12
    assert event["tags"][0] == ["t", "x"]
    assert event["tags"][1][::2] == ["nonce", "12"]


@pytest.mark.req("A14")
def test_a_relay_that_wants_no_work_gets_none(shell: Shell) -> None:
    result = shell.run("post", "--pow", "relays", "--json", "no need")
    assert result.code == 0
    assert result.json["tags"] == []


@pytest.mark.req("A14")
async def test_a_relay_that_wants_work_takes_a_mined_note(shell: Shell) -> None:
    async with local_relay(min_pow=10) as strict:
        refused = await shell.arun("post", "--relay", strict.url, "lazy")
        assert refused.code != 0
        taken = await shell.arun("post", "--relay", strict.url, "--pow", "10", "diligent")
        assert taken.code == 0


@pytest.mark.parametrize("bits", ["0", "65", "-1", "many", "", "1.5"])
def test_what_is_no_amount_of_work(shell: Shell, bits: str) -> None:
    result = shell.run("post", "--pow", bits, "x")
    assert result.code == 2
    assert "--pow" in result.err


def test_whole_events_cannot_be_mined(shell: Shell) -> None:
    result = shell.run("post", "--pow", "8", "--event", "x.json")
    assert result.code == 2
    assert "--pow" in result.err


def test_progress_in_words() -> None:
    said = words_for(MiningProgress(hashes=6_000_000, expected=2**30, seconds=2.0))
    assert "mining 30 bits for 2 s (usually 6 minutes), 3.0 million hashes a second" in said
    assert "usually 0 s" in words_for(MiningProgress(hashes=0, expected=2**20, seconds=0.0))
    slow = MiningProgress(hashes=1_000_000, expected=2**38, seconds=1.0)
    assert "3 days" in words_for(slow)
