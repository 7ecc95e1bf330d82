"""`postrich post --event` with many events: bad lines are told, the rest goes on."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from tests.doors.shell import Shell
from tests.relays import RelayProcess
from tests.relays.events import Event, make_event
from tests.relays.reader import fetch_ids


def events(count: int) -> list[Event]:
    return [make_event(content=f"number {number}") for number in range(count)]


def json_lines(items: list[Event]) -> str:
    return "".join(json.dumps(item) + "\n" for item in items)


@pytest.mark.req("G2", "A17")
def test_bad_lines_are_reported_and_the_rest_goes_on(
    shell: Shell, relay: RelayProcess, tmp_path: Path
) -> None:
    good = events(60)
    forged = {**good[0], "content": "changed"}
    lines = json_lines(good[:30]) + "\nnot json\n" + json_lines([forged, *good[30:]])
    file = tmp_path / "events.jsonl"
    file.write_text(lines)
    result = shell.run("post", "--event", file)
    assert result.code == 1
    [first, second] = result.err.splitlines()
    assert first.startswith("line 32: not valid JSON")
    assert second == "line 33: id does not match the event's content"
    assert result.out == "62 events: 60 published, 2 refused\n"
    ids = {event["id"] for event in good}
    assert asyncio.run(fetch_ids(relay.url, {"ids": list(ids)})) == ids


@pytest.mark.req("G2")
def test_json_gives_one_line_for_each(shell: Shell) -> None:
    good = events(2)
    result = shell.run(
        "post", "--json", "--event", "-", stdin=json_lines(good[:1]) + "{}\n" + json_lines(good[1:])
    )
    assert result.code == 1
    first, second, third = result.lines
    assert first == {
        "line": 1,
        "job": 1,
        "event_id": good[0]["id"],
        "state": "published",
        "is_new": True,
    }
    assert second["line"] == 2
    assert second["error"] == "not an event: it names no pubkey"
    assert (third["line"], third["state"]) == (3, "published")


@pytest.mark.req("G2")
def test_all_published_is_0_and_repeats_are_counted_once(shell: Shell) -> None:
    some = events(3)
    result = shell.run("post", "--event", "-", stdin=json_lines([*some, some[0]]))
    assert (result.code, result.out) == (0, "4 events: 3 published, 1 repeated\n")


@pytest.mark.req("G2")
def test_what_waits_is_3(shell: Shell, dead_relay: str) -> None:
    arguments = ["post", "--no-wait", "--relay", dead_relay, "--event", "-"]
    result = shell.run(*arguments, stdin=json_lines(events(3)))
    assert (result.code, result.out) == (3, "3 events: 0 published, 3 queued\n")


@pytest.mark.req("G2")
def test_a_json_array_is_many_events_too(shell: Shell) -> None:
    body = json.dumps([*events(2), {"kind": 1}], indent=1)
    result = shell.run("post", "--event", "-", stdin=body)
    assert result.code == 1
    assert result.err.startswith("item 3: ")
    assert result.out == "3 events: 2 published, 1 refused\n"


@pytest.mark.req("G2", "A9")
def test_one_key_cannot_stand_for_many(shell: Shell) -> None:
    result = shell.run("post", "--key", "k", "--event", "-", stdin=json_lines(events(2)))
    assert result.code == 2
    assert "--key" in result.sentence
