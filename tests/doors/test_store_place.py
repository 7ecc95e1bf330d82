"""Where the outbox is kept: a file or a database, and no password in what anybody sees."""

from __future__ import annotations

import asyncio
import stat
import tomllib
from pathlib import Path
from typing import Any

import pytest

from postrich.store.queries import migrations
from tests.doors.shell import Result, Shell
from tests.relays import RelayProcess, free_port
from tests.store.servers import Admin, with_options

pytestmark = [pytest.mark.req("G4", "G2"), pytest.mark.postgres]

PASSWORD = "hunter%2F2"
NEWEST = max(migrations("postgres"))


def with_password(dsn: str) -> str:
    assert "postgres:@" in dsn
    return dsn.replace("postgres:@", f"postgres:{PASSWORD}@")


def findings(result: Result) -> dict[str, Any]:
    return {check["name"]: check for check in result.json["checks"]}


def test_init_makes_an_outbox_in_a_database(bare_shell: Shell, database: str) -> None:
    bare_shell.variables["POSTRICH_PASSPHRASE"] = "x"
    result = bare_shell.run("init", "--store", database)
    assert (result.code, result.err) == (0, "")
    assert "Your outbox is in postgresql://" in result.out
    settings = bare_shell.home / "postrich.toml"
    assert tomllib.loads(settings.read_text())["store"] == database
    assert stat.S_IMODE(settings.stat().st_mode) == 0o600
    assert not (bare_shell.home / "outbox.db").exists()
    assert bare_shell.run("status", "--json").json["pending"] == 0


def test_a_database_that_is_away_leaves_no_home(bare_shell: Shell) -> None:
    result = bare_shell.run("init", "--store", f"postgresql://127.0.0.1:{free_port()}/x")
    assert result.code == 1
    assert "cannot be reached now" in result.sentence
    assert not bare_shell.home.exists()


def test_posts_are_kept_and_published_there(shared_shell: Shell, relay: RelayProcess) -> None:
    assert shared_shell.run("post", "to a database").code == 0
    assert shared_shell.job(1)["state"] == "published"
    assert "to a database" in shared_shell.run("queue").out
    status = shared_shell.run("status", "--json").json
    assert status["store"].startswith("postgresql://")
    assert status["workers"] == 0
    assert "0 workers on postgresql://" in shared_shell.run("status").out


def test_the_environment_is_over_the_settings(
    shared_shell: Shell, database: str, tmp_path: Path
) -> None:
    other = str(tmp_path / "other.db")
    assert "`postrich migrate up`" in shared_shell.run("queue", POSTRICH_STORE=other).sentence
    made = shared_shell.run("migrate", "up", POSTRICH_STORE=other)
    assert made.out.startswith(f"Made an outbox at {other}")
    shared_shell.run("post", "--no-wait", "in the file", POSTRICH_STORE=other)
    assert "in the file" in shared_shell.run("queue", POSTRICH_STORE=other).out
    assert "in the file" not in shared_shell.run("queue").out


def test_a_path_on_the_command_line_is_meant_from_where_one_is(
    bare_shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert bare_shell.run("init", "--no-key", "--store", "mine ✓.db").code == 0
    assert (tmp_path / "mine ✓.db").is_file()
    assert bare_shell.run("status").code == 0
    moved = bare_shell.run("move", "--to", "theirs.db")
    assert f'store = "{tmp_path / "theirs.db"}"' in moved.out


def test_a_path_is_meant_from_the_home_on(shell: Shell) -> None:
    settings = shell.home / "postrich.toml"
    settings.write_text('store = "kept/here.db"\n' + settings.read_text())
    assert "folder exists" in shell.run("migrate", "up").sentence
    (shell.home / "kept").mkdir()
    assert shell.run("migrate", "up").code == 0
    assert (shell.home / "kept" / "here.db").is_file()


@pytest.mark.parametrize(
    ("store", "told"),
    [
        ("mysql://somewhere/x", "must be a file's path, or an address that begins postgresql://"),
        ("postgresql://me:se/cret@host/db", "write / ? # @ : as %2F"),
        ("postgresql://me:se#cret@host/db", "write / ? # @ : as %2F"),
        ("postgresql://me:se?cret@host/db", "write / ? # @ : as %2F"),
        ("postgresql://me:se?x=cret@host/db", "write / ? # @ : as %2F"),
        ("postgresql://me:secret@[host/db", "is not a postgresql:// URL"),
        ("postgresql://host/db?pool_size=none", "pool_size"),
    ],
)
def test_an_address_that_makes_no_sense(shell: Shell, store: str, told: str) -> None:
    result = shell.run("status", POSTRICH_STORE=store)
    assert result.code == 1
    assert told in result.sentence
    assert "cret" not in result.err
    found = findings(shell.run("doctor", "--json", POSTRICH_STORE=store))
    assert "cret" not in str(found)


def test_a_store_that_is_no_text(shell: Shell) -> None:
    (shell.home / "postrich.toml").write_text("store = 5\n")
    assert "`store` must be a text" in shell.run("status").sentence


def test_the_password_is_shown_nowhere(bare_shell: Shell, database: str, relay: object) -> None:
    """Not by any command, not in a log, and not to who lists processes."""
    new = str(bare_shell.home.parent / "new.db")
    bare_shell.variables["POSTRICH_STORE"] = with_password(database)
    bare_shell.variables["POSTRICH_NSEC"] = "11" * 32
    said = [bare_shell.run("init", "--no-key", "--relay", "ws://127.0.0.1:1")]
    assert "store =" in (bare_shell.home / "postrich.toml").read_text()
    commands = [
        *(["status"], ["status", "--json"], ["doctor"], ["doctor", "--json"], ["workers"]),
        *(["workers", "--json"], ["migrate"], ["migrate", "status", "--json"], ["migrate", "up"]),
        *(["post", "--no-wait", "x"], ["--debug", "why", "77"], ["move", "--to", new]),
    ]
    said += [bare_shell.run(*command) for command in commands]
    with bare_shell.start("worker", "--verbose") as worker:
        worker.wait_for("working")
        said.append(worker.stop())
    away = f"postgresql://me:{PASSWORD}@127.0.0.1:{free_port()}/x?password={PASSWORD}"
    said.append(bare_shell.run("--debug", "status", POSTRICH_STORE=away))
    said.append(bare_shell.run("doctor", POSTRICH_STORE=away))
    assert not any("hunter" in result.out + result.err for result in said)
    assert not any(b"hunter" in line for line in bare_shell.command_lines)
    assert "hunter" not in (bare_shell.home / "postrich.toml").read_text()


def test_a_password_on_the_command_line_is_warned_of(bare_shell: Shell, database: str) -> None:
    result = bare_shell.run("init", "--no-key", "--store", with_password(database))
    assert result.code == 0
    assert "other users of this machine can see" in result.sentence
    assert "~/.pgpass" in result.err
    assert "hunter" not in result.out + result.err
    moved = bare_shell.run("move", "--to", with_password(with_options(database, pool_size=4)))
    assert "other users of this machine can see" in moved.err
    assert "hunter" not in moved.out + moved.err


def test_the_doctor_looks_at_the_database(shared_shell: Shell) -> None:
    result = shared_shell.run("doctor", "--json")
    assert result.code == 0
    found = findings(result)
    assert "PostgreSQL 1" in found["store"]["text"]
    assert f"schema {NEWEST} of {NEWEST}" in found["store"]["text"]
    assert found["database clock"]["ok"]
    assert "space" not in found


def test_the_doctor_finds_a_password_that_others_can_read(
    shared_shell: Shell, database: str
) -> None:
    file = shared_shell.home / "postrich.toml"
    file.write_text(file.read_text().replace(database, with_password(database)))
    assert findings(shared_shell.run("doctor", "--json"))["settings"]["ok"]
    file.chmod(0o644)
    found = findings(shared_shell.run("doctor", "--json"))["settings"]
    assert found["advice"] == f"run `chmod 600 {file}`"


def test_the_doctor_finds_what_is_wrong_with_it(shared_shell: Shell, database: str) -> None:
    away = f"postgresql://127.0.0.1:{free_port()}/x"
    found = findings(shared_shell.run("doctor", "--json", POSTRICH_STORE=away))["store"]
    assert "cannot be reached" in found["text"]
    assert "start the database" in found["advice"]
    nothing = database.replace("schema=", "schema=un")
    found = findings(shared_shell.run("doctor", "--json", POSTRICH_STORE=nothing))["store"]
    assert found["text"].endswith("has no outbox yet")
    assert found["advice"] == "run `postrich migrate up`"
    asyncio.run(_make_newer(database))
    found = findings(shared_shell.run("doctor", "--json"))["store"]
    assert found["advice"] == "upgrade Postrich"


async def _make_newer(dsn: str) -> None:
    async with Admin(dsn) as admin:
        await admin.link.execute("UPDATE schema_version SET version = 99, min_version = 98")
