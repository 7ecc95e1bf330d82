"""`postrich schedule add --every` and `schedule series`, at the command line."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tests.doors.shell import Shell

DAY = 86_400_000


def add(shell: Shell, *arguments: object) -> Any:
    result = shell.run("schedule", "add", "--json", "good morning", *arguments)
    assert result.code == 0, result.err
    return result.json


@pytest.mark.req("F5", "G2")
def test_a_series_is_kept_and_its_next_times_are_said(shell: Shell) -> None:
    arguments = ("--every", "every day 09:00", "--zone", "Europe/Berlin", "--id", "dawn")
    result = shell.run("schedule", "add", "good", "morning", *arguments, "--count", 3)
    assert result.code == 0, result.err
    first, *coming, last = result.out.splitlines()
    assert first == "✓ kept as dawn: every day 09:00 (Europe/Berlin)"
    assert [line.split(":")[0].strip() for line in coming] == ["next", "then", "then"]
    assert all("09:00 (Europe/Berlin), in " in line for line in coming)
    assert "be able to sign" in last
    found = shell.run("schedule", "series", "show", "dawn", "--json").json
    assert found["template"]["content"] == "good morning"
    assert len(found["occurrences"]) == 3
    told = shell.run("schedule", "series", "show", "dawn").out
    assert "happened 0 times; ends after 3 times" in told
    listed = shell.run("schedule", "series").out
    assert listed.startswith("dawn  active  every day 09:00 (Europe/Berlin), next ")
    assert "“good morning”" in listed


@pytest.mark.req("F5")
def test_a_series_is_skipped_paused_resumed_and_ended(shell: Shell) -> None:
    series = add(shell, "--every", "every day 12:00", "--zone", "UTC", "--id", "noon")
    first, second, third, *_ = [one["at"] for one in series["occurrences"]]
    assert shell.run("schedule", "series", "skip", "noon", "--json").json["skipped"] == first
    result = shell.run("schedule", "series", "skip", "noon", "--at", second)
    assert result.out.startswith("Skipped: ")
    coming = shell.run("schedule", "series", "show", "noon", "--json").json["occurrences"]
    assert [(one["at"], one["state"]) for one in coming[:3]] == [
        (first, "skipped"),
        (second, "skipped"),
        (third, "planned"),
    ]
    wrong = shell.run("schedule", "series", "skip", "noon", "--at", third + 60_000)
    assert (wrong.code, "does not happen at" in wrong.sentence) == (1, True)
    assert shell.run("schedule", "series", "pause", "noon").out == "The series noon is paused.\n"
    assert shell.run("schedule", "series", "pause", "noon").code == 1
    assert shell.run("schedule", "series", "resume", "noon").out.startswith(
        "The series noon is active; next "
    )
    assert shell.run("schedule", "series", "end", "noon", "--json").json["state"] == "ended"
    assert shell.run("schedule", "series").out == "No series is to come.\n"
    [ended] = shell.run("schedule", "series", "list", "--all", "--json").json["series"]
    assert (ended["id"], ended["state"]) == ("noon", "ended")
    gone = shell.run("schedule", "series", "skip", "noon")
    assert (gone.code, gone.sentence) == (1, "nothing of the series noon is to come")


@pytest.mark.req("F5")
def test_an_end_may_be_a_day(shell: Shell) -> None:
    day = time.strftime("%Y-%m-%d", time.gmtime(time.time() + 2 * 86_400))
    series = add(shell, "--every", "every day 22:00", "--zone", "UTC", "--until", day)
    last = series["occurrences"][-1]
    assert last["iso"] == f"{day}T22:00:00Z"
    assert last["at"] - series["occurrences"][-2]["at"] == DAY


@pytest.mark.req("G2")
@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("--every", "every day 09:00", "--at", "in 1 hours"), 2, "in place of --at"),
        (("--every", "every day 09:00", "--next-slot"), 2, "in place of --at"),
        (("--at", "in 1 hours", "--count", "3"), 2, "say --every with them"),
        (("--every", "now and then"), 1, "now and then"),
        (("--every", "every day 09:00", "--id", "a b"), 1, "a series' id is"),
        (("--every", "every day 09:00", "--until", "someday"), 2, "--until"),
    ],
)
def test_what_cannot_be_is_said(
    shell: Shell, arguments: tuple[str, ...], code: int, words: str
) -> None:
    result = shell.run("schedule", "add", "hello", *arguments)
    assert (result.code, words in result.sentence) == (code, True), result
    assert shell.run("schedule", "series").out == "No series is to come.\n"
    assert shell.run("schedule", "series", "show", "x").code == 1
