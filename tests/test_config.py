"""Settings: read from a file and the environment; what cannot work is refused by its name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from postrich import RetryPolicy, Settings
from postrich.config import check_settings, read_settings
from postrich.errors import BadSetting

TOML = """
relays = ["wss://Relay.Example", "relay.example:443"]
policy = "patient"
timeout = 7
auth = "never"
serial = true
bytes_per_minute = 100000

[policies.patient]
delays = [1, 60.5]
max_attempts = 3

[policies.named]
name = "another name"
delays = [5]
"""


def write(folder: Path, text: str | bytes) -> Path:
    path = folder / "postrich.toml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


@pytest.mark.req("B1", "C1")
def test_settings_come_from_the_file(tmp_path: Path) -> None:
    settings = read_settings(write(tmp_path, TOML), {})
    assert settings.relays == ("wss://relay.example/",), "one relay is one relay"
    assert settings.timeout == 7
    assert settings.auth == "never"
    assert settings.serial
    patient = settings.policy_named("patient")
    assert patient == RetryPolicy("patient", delays=(1, 60.5), max_attempts=3)
    assert settings.policy_named("named").name == "another name"
    assert settings.policy_named("interactive").lifetime == 3 * 86_400


def test_without_a_file_the_defaults_hold(tmp_path: Path) -> None:
    settings = read_settings(tmp_path / "none.toml", {})
    assert settings == check_settings(Settings())
    assert settings.timeout == 10
    assert settings.policy == "interactive"
    assert settings.goal == 1


def test_the_environment_names_relays_over_the_file(tmp_path: Path) -> None:
    environment = {"POSTRICH_RELAYS": "  wss://one.example\n wss://two.example/x "}
    settings = read_settings(write(tmp_path, TOML), environment)
    assert settings.relays == ("wss://one.example/", "wss://two.example/x")
    blank = read_settings(write(tmp_path, TOML), {"POSTRICH_RELAYS": "  "})
    assert blank.relays == ("wss://relay.example/",)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("relays = [", "cannot be read"),
        (b"relays = ['\xff']", "cannot be read"),
        ("colour = 'red'", "colour"),
        ("timeout = 'long'", "timeout"),
        ("relays = 'wss://x'", "relays"),
        ("auth = 'sometimes'", "auth"),
        ("timeout = 0", "timeout must be more than 0"),
        ("policies = 5", "policies"),
        ("policies.mine = 5", "policies"),
        ("policies.mine.delays = []", "delays must name at least one wait"),
        ("policies.mine.colour = 'red'", "colour"),
        ("policy = 'mine'", "'mine' is none of"),
        ("relays = ['ftp://x']", "relay URL"),
    ],
)
def test_what_cannot_work_is_refused_by_its_name(
    tmp_path: Path, text: str | bytes, why: str
) -> None:
    with pytest.raises(BadSetting, match=why):
        read_settings(write(tmp_path, text), {})


@pytest.mark.parametrize(
    "name",
    [
        "goal",
        "timeout",
        "connect_timeout",
        "sign_timeout",
        "window",
        "lanes",
        "poll",
        "sync",
        "lease",
        "idle",
        "max_event_bytes",
        "history_days",
        "series_lead",
        "bytes_per_minute",
    ],
)
@pytest.mark.parametrize("value", [0, -1])
def test_numbers_that_must_be_positive(name: str, value: int) -> None:
    changes: dict[str, Any] = {name: value}
    with pytest.raises(BadSetting, match=f"{name} must be more than 0"):
        check_settings(Settings(**changes))


def test_an_age_may_be_zero_but_not_less() -> None:
    assert check_settings(Settings(archive_after=0)).archive_after == 0
    with pytest.raises(BadSetting, match="archive_after"):
        check_settings(Settings(archive_after=-1))


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_numbers_that_are_none_are_refused(value: float) -> None:
    with pytest.raises(BadSetting, match="timeout"):
        check_settings(Settings(timeout=value))


def test_policies_given_in_code_are_checked_too() -> None:
    bad = RetryPolicy("bad", delays=(1,), lifetime=0)
    with pytest.raises(BadSetting, match="lifetime"):
        check_settings(Settings(policies={"bad": bad}))
