"""`postrich migrate`: which schema there is, and upgrades that leave older workers in peace."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import apsw
import pytest

from postrich.deliver.fleet import this_machine
from postrich.store.postgres import migrating
from postrich.store.queries import migrations
from tests.doors.shell import Shell
from tests.store.servers import Admin

pytestmark = [pytest.mark.req("G4", "G2", "F10"), pytest.mark.postgres]

NEWEST = max(migrations("postgres"))
EXPAND = "-- step: expand\nCREATE TABLE added (n integer);"
CONTRACT = "-- step: contract\nDROP TABLE nudges;"


@pytest.fixture
def newer(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a Postrich that knows two migrations more."""
    known = {**migrations("postgres"), NEWEST + 1: EXPAND, NEWEST + 2: CONTRACT}
    monkeypatch.setattr(migrating, "migrations", lambda _: known)


async def carry_out(dsn: str, sql: str) -> None:
    async with Admin(dsn) as admin:
        await admin.link.execute(sql)


def test_a_database_from_nothing_to_the_newest(bare_shell: Shell, database: str) -> None:
    bare_shell.variables["POSTRICH_STORE"] = database
    assert "There is no outbox at" in bare_shell.run("migrate", "status").out
    assert "no outbox at" in bare_shell.run("status").sentence
    found = bare_shell.run("migrate", "status", "--json").json
    assert (found["version"], found["newest"]) == (0, NEWEST)
    assert found["pending"] == list(range(1, NEWEST + 1))
    made = bare_shell.run("migrate", "up", "--json").json
    assert (made["version"], made["pending"], made["applied"]) == (NEWEST, [], found["pending"])
    assert "Nothing is pending." in bare_shell.run("migrate").out
    assert "Nothing was to be applied" in bare_shell.run("migrate", "up").out


def test_a_file_that_is_behind(shell: Shell) -> None:
    newest = max(migrations("sqlite"))
    (shell.home / "outbox.db").unlink()
    _make_old(shell.home / "outbox.db")
    found = shell.run("migrate", "status", "--json").json
    assert (found["version"], found["pending"]) == (1, list(range(2, newest + 1)))
    assert "next: postrich migrate up" in shell.run("migrate", "status").out
    assert f"has schema {newest} now" in shell.run("migrate", "up").out
    assert shell.run("post", "works").code == 0


def _make_old(path: Path) -> None:
    link = apsw.Connection(str(path))
    link.execute(migrations("sqlite")[1])
    link.pragma("application_id", 0x506F7374)
    link.pragma("user_version", 1)
    link.close()


def test_a_store_of_a_newer_postrich(shared_shell: Shell, database: str) -> None:
    asyncio.run(carry_out(database, "UPDATE schema_version SET version = 99, min_version = 98"))
    for arguments in (["migrate", "status"], ["migrate", "up"]):
        result = shared_shell.run(*arguments)
        assert result.code == 1
        assert "upgrade Postrich" in result.out + result.err


def test_expand_first_and_contract_last(shared_shell: Shell, database: str, newer: None) -> None:
    shell = shared_shell
    before = shell.run("migrate", "status").out
    assert f"1 migration pending ({NEWEST + 1}); next: postrich migrate up" in before
    assert f"cannot work with ({NEWEST + 2})" in before
    assert "Software that knows schema 1 or newer works with it." in before
    result = shell.run("migrate", "up")
    assert f"Applied {NEWEST + 1}" in result.out
    assert "once all workers are upgraded: postrich migrate up --contract" in result.out
    result = shell.run("migrate", "up", "--contract", "--json").json
    assert (result["applied"], result["min_version"]) == ([NEWEST + 2], NEWEST + 2)


def test_an_older_worker_holds_a_contraction_up(
    shared_shell: Shell, database: str, newer: None
) -> None:
    shell = shared_shell
    now = round(time.time() * 1000)
    asyncio.run(
        carry_out(
            database,
            "INSERT INTO workers (owner, host, pid, role, started_at, seen_at, knows) VALUES "
            f"('old', 'elsewhere', 42, 'worker', {now}, {now}, {NEWEST}),"
            f"('long gone', 'elsewhere', 43, 'worker', 0, {now - 3_600_000}, 1),"
            f"('killed', '{this_machine()}', 4194304, 'worker', 0, {now}, 1),"
            f"('new', 'elsewhere', 45, 'worker', 0, {now}, {NEWEST + 2})",
        )
    )
    result = shell.run("migrate", "up", "--contract")
    assert result.code == 1
    assert "worker 42 on elsewhere; stop or upgrade them first" in result.sentence
    assert shell.run("migrate", "status", "--json").json["version"] == NEWEST
    assert shell.run("migrate", "up").code == 0
    asyncio.run(carry_out(database, "DELETE FROM workers WHERE owner = 'old'"))
    assert shell.run("migrate", "up", "--contract").code == 0


def test_a_worker_says_which_schema_it_knows(shared_shell: Shell, database: str) -> None:
    with shared_shell.start("worker") as worker:
        worker.wait_for("working")
        older = asyncio.run(migrating.older_workers(database, NEWEST))
        assert older == []
        [seen] = asyncio.run(migrating.older_workers(database, NEWEST + 1))
        assert seen.pid == worker.pid
        assert worker.stop().code == 0
