"""`postrich doctor`: finds what is wrong, says what to do, and harms nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import apsw
import pytest

from tests.doors.shell import Result, Shell
from tests.relays import RelayProcess
from tests.relays.conversation import Client
from tests.relays.script import Script
from tests.relays.scripted import ScriptedRelay
from tests.relays.scripts import accept


async def say_nothing(client: Client, subscription: str, filters: list[Any]) -> None:
    """Hear a REQ, and that is all."""


async def hang_up(client: Client, subscription: str, filters: list[Any]) -> None:
    client.drop()


def findings(result: Result) -> dict[str, Any]:
    return {check["name"]: check for check in result.json["checks"]}


@pytest.mark.req("G2")
def test_all_is_well(shell: Shell, relay: RelayProcess) -> None:
    result = shell.run("doctor")
    assert result.code == 0
    assert "✗" not in result.out
    answer = shell.run("doctor", "--json")
    assert answer.json["ok"] is True
    assert set(findings(answer)) == {
        *("settings", "home", "store", "clock", "space", "key in POSTRICH_NSEC"),
        f"relay {relay.url}",
    }


@pytest.mark.req("G2")
def test_each_fault_is_found_beside_the_others(shell: Shell, dead_relay: str) -> None:
    del shell.variables["POSTRICH_NSEC"]
    shell.variables["POSTRICH_RELAYS"] = dead_relay
    shell.run("account", "add", "--name", "main", POSTRICH_PASSPHRASE="x")
    [key] = (shell.home / "keys").iterdir()
    key.chmod(0o644)
    (shell.home / "outbox.db").write_bytes(b"this is no database" * 100)
    result = shell.run("doctor", "--json")
    assert result.code == 1
    bad = {name for name, check in findings(result).items() if not check["ok"]}
    assert bad == {"store", "key of main", f"relay {dead_relay.rstrip('/')}"}
    assert all(check["advice"] for name, check in findings(result).items() if name in bad)
    told = shell.run("doctor")
    assert told.code == 1
    assert f"→ run `chmod 600 {key}`" in told.out


@pytest.mark.req("G2")
def test_a_home_that_is_not_there(bare_shell: Shell) -> None:
    result = bare_shell.run("doctor", "--json")
    assert result.code == 1
    bad = {name for name, check in findings(result).items() if not check["ok"]}
    assert bad == {"settings", "home", "store", "accounts"}
    assert not bare_shell.home.exists()


@pytest.mark.req("G2")
def test_a_damaged_page_is_found(shell: Shell) -> None:
    for number in range(3):
        shell.post(f"note {number}")
    path: Path = shell.home / "outbox.db"
    body = bytearray(path.read_bytes())
    for start in range(4096, len(body), 4096):
        body[start : start + 64] = b"\xff" * 64
    path.write_bytes(bytes(body))
    result = shell.run("doctor", "--json")
    assert findings(result)["store"]["ok"] is False


@pytest.mark.req("G2")
def test_foreign_files_are_found(shell: Shell) -> None:
    del shell.variables["POSTRICH_NSEC"]
    link = apsw.Connection(str(shell.home / "other.db"))
    link.execute("CREATE TABLE t (x)")
    link.close()
    (shell.home / "other.db").replace(shell.home / "outbox.db")
    shell.run("account", "add", "--name", "main", POSTRICH_PASSPHRASE="x")
    [key] = (shell.home / "keys").iterdir()
    key.write_text("nsec1somethingsecret")
    (shell.home / "postrich.toml").write_text("relays = [\n")
    result = shell.run("doctor", "--json")
    found = findings(result)
    assert "belongs to another program" in found["store"]["text"]
    assert "holds no whole ncryptsec" in found["key of main"]["text"]
    assert "cannot be read" in found["settings"]["text"]
    assert "somethingsecret" not in result.out


@pytest.mark.req("G2")
def test_a_newer_schema_is_named(shell: Shell) -> None:
    link = apsw.Connection(str(shell.home / "outbox.db"))
    link.pragma("user_version", 999)
    link.close()
    found = findings(shell.run("doctor", "--json"))["store"]
    assert (found["ok"], found["advice"]) == (False, "upgrade Postrich")
    assert "newer Postrich" in shell.run("queue").sentence


@pytest.mark.req("G2")
async def test_a_relay_that_answers_nothing_is_found(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    from postrich.doors.cli import probing

    monkeypatch.setattr(probing, "ANSWER_WITHIN", 0.2)
    async with ScriptedRelay(accept) as relay:
        finding = await probing.probe(relay.url, 5.0)
        assert finding.fault is None

    async with ScriptedRelay(Script(on_request=say_nothing)) as relay:
        finding = await probing.probe(relay.url, 5.0)
    assert finding.fault == "connected, but no answer in 0.2 s"
    async with ScriptedRelay(Script(on_request=hang_up)) as relay:
        finding = await probing.probe(relay.url, 5.0)
    assert finding.fault == "connected, but hung up without an answer"
