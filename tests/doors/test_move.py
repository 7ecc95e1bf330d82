"""`postrich move`: the outbox goes to another place whole, or not at all."""

from __future__ import annotations

import asyncio
import json
import tomllib
from pathlib import Path
from signal import SIGKILL

import pytest

from postrich.store import open_store
from tests.doors.shell import Shell
from tests.relays import RelayProcess
from tests.store.auditing import audit
from tests.store.furnishing import furnish
from tests.store.making import note, wish
from tests.store.servers import Admin

pytestmark = [pytest.mark.req("G4", "G2"), pytest.mark.postgres]


async def fill(place: str, *, many: int = 0) -> None:
    store = await open_store(place)
    await furnish(store)
    for start in range(0, many, 500):
        jobs = [wish(note(f"{start + number} {'x' * 500}")) for number in range(500)]
        await store.accept(jobs, 1_700_000_000_000)
    await store.close()


async def count_jobs(place: str) -> int:
    store = await open_store(place)
    jobs = await audit(store)
    await store.close()
    return len(jobs)


async def see_held(dsn: str, delay: float) -> None:
    """Wait until a move holds that database, and a little longer."""
    async with Admin(dsn) as admin, asyncio.timeout(20):
        query = (
            "SELECT count(*) FROM pg_locks WHERE relation = to_regclass('jobs') AND granted "
            "AND mode IN ('ShareLock', 'ExclusiveLock')"
        )
        while not await admin.link.fetchval(query):
            await asyncio.sleep(0.002)
        await asyncio.sleep(delay)


def test_to_a_database_and_back(shell: Shell, database: str, tmp_path: Path) -> None:
    asyncio.run(fill(str(shell.home / "outbox.db")))
    queue = shell.run("queue", "--json").out
    result = shell.run("move", "--to", database)
    assert (result.code, result.err) == (0, "")
    assert "read again and found the same" in result.out
    [line] = [line.strip() for line in result.out.splitlines() if line.startswith("  store")]
    settings = shell.home / "postrich.toml"
    settings.write_text(f"{line}\n{settings.read_text()}")
    assert tomllib.loads(line) == {"store": database}
    assert shell.run("status", "--json").json["store"].startswith("postgresql://")
    assert _states(shell.run("queue", "--json").out) == _states(queue)
    back = shell.run("move", "--to", tmp_path / "back.db", "--json")
    assert back.code == 0
    assert back.json["to"] == str(tmp_path / "back.db")
    rows = {table["table"]: table["rows"] for table in back.json["tables"]}
    assert rows["jobs"] > 0
    shell.variables["POSTRICH_STORE"] = str(tmp_path / "back.db")
    assert _states(shell.run("queue", "--json").out) == _states(queue)
    assert shell.run("post", "goes on").code == 0


def _states(text: str) -> dict[int, str]:
    return {job["id"]: job["state"] for job in json.loads(text)["jobs"]}


def test_not_while_somebody_works_there(shell: Shell, database: str) -> None:
    with shell.start("serve") as serving:
        serving.wait_for("serving")
        result = shell.run("move", "--to", database)
        assert result.code == 1
        assert (
            f"still at work on {shell.home / 'outbox.db'}: serve {serving.pid}" in result.sentence
        )
        assert serving.stop().code == 0
    assert shell.run("move", "--to", database).code == 0


def test_not_to_where_something_is(shared_shell: Shell, database: str) -> None:
    shared_shell.post("here first")
    other = {"POSTRICH_STORE": str(shared_shell.home / "outbox.db")}
    assert shared_shell.run("migrate", "up", **other).code == 0
    result = shared_shell.run("move", "--to", database, **other)
    assert result.code == 1
    assert "is not empty" in result.sentence
    assert "already" in shared_shell.run("move", "--to", database).sentence


def test_without_an_outbox_there_is_nothing_to_move(bare_shell: Shell, database: str) -> None:
    assert "there is no outbox" in bare_shell.run("move", "--to", database).sentence
    assert bare_shell.run("move").code == 2


@pytest.mark.parametrize("direction", ["to a database", "to a file"])
def test_a_move_that_is_killed_leaves_nothing(
    shell: Shell, database: str, tmp_path: Path, direction: str
) -> None:
    """At whatever moment: the target is empty, or has everything; then it can be moved again."""
    source, target = str(tmp_path / "here.db"), database
    if direction == "to a file":
        source, target = database, str(tmp_path / "there.db")
    asyncio.run(fill(source, many=5000))
    everything = asyncio.run(count_jobs(source))
    shell.variables["POSTRICH_STORE"] = source
    found = set()
    for delay in (0.0, 0.02, 0.1, 0.3):
        with shell.start("move", "--to", target) as moving:
            asyncio.run(see_held(database, delay))
            moving.stop(SIGKILL)
        found.add(count := asyncio.run(count_jobs(target)))
        if count:
            break
    assert found <= {0, everything}
    assert 0 in found
    if everything not in found:
        assert shell.run("move", "--to", target).code == 0
        assert asyncio.run(count_jobs(target)) == everything
    assert asyncio.run(count_jobs(source)) == everything


def test_a_progress_bar_at_a_terminal(shell: Shell, relay: RelayProcess, tmp_path: Path) -> None:
    shell.post("one")
    result = shell.run("move", "--to", tmp_path / "new.db", FORCE_COLOR="1", TTY_INTERACTIVE="1")
    assert result.code == 0
    assert "copying" in result.err
    assert "checking" in result.err
