"""Times, counts and strangers' texts, as people read them."""

from __future__ import annotations

import pytest

from postrich.doors.cli import words

NOW = 1_800_000_000_000
SECOND, MINUTE, HOUR, DAY = 1000, 60_000, 3_600_000, 86_400_000


@pytest.mark.req("G2")
@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [
        (0, "0 s"),
        (400, "0.4 s"),
        (1000, "1 s"),
        (1440, "1.4 s"),
        (12_300, "12 s"),
        (59 * SECOND, "59 s"),
        (3 * MINUTE + 5000, "3 min"),
        (2 * HOUR, "2 h"),
        (DAY, "1 day"),
        (3 * DAY, "3 days"),
    ],
)
def test_spans(milliseconds: int, text: str) -> None:
    assert words.span(milliseconds) == text


@pytest.mark.req("G2")
def test_past_and_future() -> None:
    assert words.ago(NOW - 3 * MINUTE, NOW) == "3 min ago"
    assert words.ago(NOW - 5400, NOW) == "5 s ago"
    assert words.ago(NOW - 100, NOW) == "just now"
    assert words.ago(NOW + HOUR, NOW) == "in 1 h"
    assert words.until(NOW + 12 * SECOND, NOW) == "in 12 s"
    assert words.until(NOW - 1, NOW) == "now"
    assert words.when(NOW - 2 * DAY, NOW).startswith("2 days ago (20")


@pytest.mark.req("G2")
def test_counts_and_names() -> None:
    assert words.count(1, "delivery") == "1 delivery"
    assert words.count(0, "delivery") == "0 deliveries"
    assert words.count(2, "relay") == "2 relays"
    assert words.count(12_000, "job") == "12,000 jobs"
    assert words.relay_name("wss://nos.lol/") == "nos.lol"
    assert words.relay_name("ws://127.0.0.1:1/path") == "ws://127.0.0.1:1/path"


@pytest.mark.req("B7")
def test_a_strangers_text_stays_on_its_line() -> None:
    assert words.plain("a\nb\x1b[1m\r\u202ec\u2028d") == "a b [1m cd".replace("cd", "c d")
    assert words.snippet("long " * 100, 10) == "long long…"
    assert words.snippet("short", 10) == "short"
