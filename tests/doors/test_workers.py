"""`postrich worker` and `postrich workers`: many work on one outbox, and each holds its share."""

from __future__ import annotations

import os
import time
from contextlib import ExitStack
from pathlib import Path
from signal import SIGINT, SIGKILL, SIGTERM
from typing import Any

import pytest

from tests.doors.shell import WAIT_SECONDS, Shell
from tests.relays import RelayProcess, local_relay
from tests.relays.events import public_key
from tests.store.servers import start_server

pytestmark = [pytest.mark.req("G4", "G2"), pytest.mark.postgres]


def workers_of(shell: Shell) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = shell.run("workers", "--json").json["workers"]
    return found


def held(worker: dict[str, Any], duty: str = "relay") -> set[str]:
    return {hold["name"] for hold in worker["holds"] if hold["duty"] == duty}


def until(shell: Shell, fits: Any) -> list[dict[str, Any]]:
    """Look again and again until the workers are as they should be."""
    deadline = time.monotonic() + WAIT_SECONDS
    while not fits(seen := workers_of(shell)):
        assert time.monotonic() < deadline, f"never came: {seen}"
    return seen


def test_nobody_works_here(shell: Shell) -> None:
    result = shell.run("workers")
    assert result.out == "Nobody works here: start `postrich serve` or `postrich worker`.\n"
    assert workers_of(shell) == []


def test_a_worker_delivers_and_leaves_in_an_orderly_way(
    shared_shell: Shell, relay: RelayProcess
) -> None:
    shell = shared_shell
    with shell.start("worker") as worker:
        worker.wait_for("working", "postgresql://")
        shell.run("post", "--no-wait", "handed in")
        shell.until(lambda: shell.job(1)["state"], "published")
        [shown] = until(shell, lambda seen: seen and held(seen[0]))
        assert (shown["pid"], shown["role"], shown["alive"]) == (worker.pid, "worker", True)
        assert held(shown) == {f"{relay.url}/"}
        told = shell.run("workers").out
        assert str(worker.pid) in told
        assert relay.url.removeprefix("wss://") in told.replace("\n", "").replace(" ", "")
        result = worker.stop(SIGTERM)
    assert result.code == 0
    assert "stopped" in result.err
    assert workers_of(shell) == []


def test_who_goes_on_is_named_by_what_runs(shared_shell: Shell, dead_relay: str) -> None:
    shell = shared_shell
    post = ("post", "--no-wait", "--relay", dead_relay)
    assert "`postrich serve` goes on with it" in shell.run(*post, "to nobody yet").out
    with shell.start("worker") as worker:
        worker.wait_for("working")
        assert "`postrich worker` goes on with it" in shell.run(*post, "to the worker").out
        with shell.start("serve") as serving:
            serving.wait_for("serving")
            assert "`postrich serve` goes on with it" in shell.run(*post, "to either").out
            assert serving.stop().code == 0
        assert worker.stop().code == 0


def test_workers_of_one_home_share_the_relays(shared_shell: Shell) -> None:
    """Each holds some lanes; what a killed one held goes on with the others."""
    shell = shared_shell
    with ExitStack() as stack:
        relays = [stack.enter_context(local_relay()) for _ in range(4)]
        running = [stack.enter_context(shell.start("worker")) for _ in range(2)]
        for worker in running:
            worker.wait_for("working")
        urls = [part for relay in relays for part in ("--relay", relay.url)]
        lanes = sorted(f"{relay.url}/" for relay in relays)

        def are_shared(seen: list[dict[str, Any]]) -> bool:
            """A lane that was given up is taken again only where there is work for it."""
            shell.finish("post", "--no-wait", *urls, "to all")
            return sorted(u for w in seen for u in held(w)) == lanes and all(map(held, seen))

        seen = until(shell, are_shared)
        assert [len(held(worker)) for worker in seen] == [2, 2]
        assert {worker["pid"] for worker in seen} == {worker.pid for worker in running}
        running[0].send(SIGKILL)
        running[0].end()
        assert shell.run("post", "--wait", "20", *urls, "--goal", 4, "to all again").code == 0
        seen = until(shell, lambda seen: [worker["pid"] for worker in seen] == [running[1].pid])
        assert running[1].stop().code == 0
    assert shell.run("status", "--json").json["failed"] == 0


def test_a_worker_that_was_killed_is_marked(shared_shell: Shell) -> None:
    with shared_shell.start("worker") as worker:
        worker.wait_for("working")
        shared_shell.run("post", "--no-wait", "opens a lane")
        until(shared_shell, lambda seen: seen and held(seen[0]))
        worker.stop(SIGKILL)
    [gone] = workers_of(shared_shell)
    assert gone["alive"] is False
    told = shared_shell.run("workers").out
    assert "gone" in told
    assert "1 worker gone: what they held is taken over by the others." in told
    assert shared_shell.run("status", "--json").json["workers"] == 0


def test_workers_and_a_serve_share_a_file(shell: Shell, relay: RelayProcess) -> None:
    with shell.start("serve") as serving, shell.start("worker") as worker:
        serving.wait_for("serving")
        worker.wait_for("working")
        assert shell.run("post", "--wait", "20", "to whoever comes first").code == 0
        roles = {seen["role"] for seen in workers_of(shell)}
        assert roles == {"serve", "worker"}
        assert serving.stop().code == 0
        assert shell.run("post", "--wait", "20", "to the one that is left").code == 0
        assert worker.stop().code == 0


def test_several_homes_serve_one_database(
    shared_shell: Shell, database: str, tmp_path: Any, relay: RelayProcess
) -> None:
    first = shared_shell
    second = Shell(tmp_path / "second", first.capture, first.patch, dict(first.variables))
    arguments = ("--no-key", "--relay", relay.url, "--store", database)
    assert second.run("init", *arguments).code == 0
    with first.start("serve") as one, second.start("serve") as two:
        one.wait_for("serving")
        two.wait_for("serving")
        assert "already works in" in second.finish("serve").sentence
        assert second.run("post", "--wait", "20", "from the second").code == 0
        assert len(workers_of(first)) == 2
        assert [one.stop().code, two.stop().code] == [0, 0]
    assert "from the second" in first.run("queue").out


def test_a_worker_outlives_a_database_that_goes_away(shared_shell: Shell) -> None:
    """It tries again by itself; told to stop meanwhile, it ends in an orderly way."""
    shell = shared_shell
    server = start_server("away")
    shell.variables["POSTRICH_STORE"] = server.get_uri()
    assert shell.run("migrate", "up").code == 0
    with shell.start("worker") as worker, shell.start("worker") as impatient:
        worker.wait_for("working")
        impatient.wait_for("working")
        _shut_down(server)
        assert "cannot be reached now" in shell.run("post", "too early").sentence
        impatient.wait_for("cannot be reached now")
        ended = impatient.stop()
        assert (ended.code, "not known" in ended.err) == (0, True)
        server.start()
        assert shell.run("post", "--wait", "25", "in time").code == 0
        assert worker.stop().code == 0


def _shut_down(server: Any) -> None:
    """As an administrator does it, not waiting for who is connected."""
    note = Path(server.pgdata) / "postmaster.pid"
    os.kill(int(note.read_text().split()[0]), SIGINT)
    deadline = time.monotonic() + WAIT_SECONDS
    while note.exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_worker_signs_with_what_is_at_hand(shared_shell: Shell) -> None:
    shell = shared_shell
    pubkey = public_key(bytes.fromhex(shell.variables["POSTRICH_NSEC"]))
    draft = (
        f'{{"kind":1,"content":"sign me","pubkey":"{pubkey}","tags":[],"created_at":1700000000}}'
    )
    shell.run("post", "--no-wait", "--event", "-", stdin=draft, POSTRICH_NSEC="")
    assert shell.job(1)["state"] == "pending-sign"
    with shell.start("worker") as worker:
        shell.until(lambda: shell.job(1)["state"], "published")
        until(shell, lambda seen: held(seen[0], "sign") <= {pubkey})
        assert worker.stop().code == 0
