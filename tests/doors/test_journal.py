"""The log of `serve`: paced in a rush, and never with a secret in it."""

from __future__ import annotations

import json
import logging

import pytest
import structlog
from structlog.testing import capture_logs

from postrich.doors.cli import journal
from postrich.doors.cli.chronicle import LINES_PER_SECOND, Chronicle
from postrich.model.job import JobState
from postrich.observe.notices import JobChanged, NetworkChanged

SECRET = "nsec1vl029mgpspedva04g90vltkh6fvh240zqtv9k0t9af8935ke9laqsnlfe5"


class Still:
    """A clock that moves when told to."""

    def __init__(self) -> None:
        self.seconds = 100.0

    def now(self) -> int:
        return round(self.seconds * 1000)

    def tick(self) -> float:
        return self.seconds

    def follow(self, ahead: int) -> None:
        self.seconds += ahead / 1000

    def chance(self) -> float:
        return 0.5


@pytest.mark.req("B11")
def test_a_rush_of_jobs_is_summed_up() -> None:
    clock = Still()
    with capture_logs() as entries:
        chronicle = Chronicle(structlog.get_logger(), clock)
        for number in range(1000):
            chronicle.note(JobChanged(number, JobState.PUBLISHED, True))
        clock.seconds += 1
        chronicle.note(JobChanged(1000, JobState.FAILED, True))
        chronicle.note(NetworkChanged(False))
    assert [entry["event"] for entry in entries] == [
        *(["job"] * LINES_PER_SECOND),
        *("more jobs", "job", "network"),
    ]
    assert entries[LINES_PER_SECOND]["published"] == 1000 - LINES_PER_SECOND


@pytest.mark.req("B7", "A16")
def test_no_secret_reaches_a_line() -> None:
    problem = ValueError(f"cannot use {SECRET}")
    trouble = (ValueError, problem, None)
    message = f"key {SECRET} and wss://me:pass@relay.example"
    record = logging.LogRecord("postrich.x", logging.ERROR, "", 1, message, None, trouble)
    for as_json in (True, False):
        line = journal._formatter(as_json).format(record)
        assert SECRET not in line
        assert "me:pass" not in line
    entry = json.loads(journal._formatter(True).format(record))
    assert "ValueError" in entry["exception"]
    assert entry["level"] == "error"
