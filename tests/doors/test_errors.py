"""Whatever happens ends in a sentence and a code; help is there for everything."""

from __future__ import annotations

import subprocess
import sys
from signal import SIGINT

import pytest

import postrich
from tests.doors.shell import Shell

COMMANDS = [
    "init",
    "post",
    "sign",
    "status",
    "why",
    "plan",
    "lists",
    "backfill",
    "serve",
    "worker",
    "workers",
    "move",
    "doctor",
    "version",
    "queue",
    "account",
]
DEEDS = {
    "queue": ["list", "show", "retry", "cancel", "delete"],
    "account": ["list", "add", "import", "connect", "remove", "default"],
    "migrate": ["status", "up"],
    "relays": ["list", "show", "add", "remove", "block", "unblock"],
}


@pytest.mark.req("G2")
def test_version(bare_shell: Shell) -> None:
    for arguments in (["--version"], ["version"]):
        result = bare_shell.run(*arguments)
        assert (result.code, result.out) == (0, f"postrich {postrich.__version__}\n")


@pytest.mark.req("G2")
def test_everything_has_help(bare_shell: Shell) -> None:
    for arguments in ([], ["--help"], ["-h"]):
        result = bare_shell.run(*arguments)
        assert result.code == 0
        assert all(f"\n  {command} " in result.out for command in [*COMMANDS, *DEEDS])
    deeds = [[group] for group in DEEDS]
    deeds += [[group, deed] for group, names in DEEDS.items() for deed in names]
    for command in [*([name] for name in COMMANDS), *deeds]:
        result = bare_shell.run(*command, "--help")
        assert result.code == 0
        assert f"Usage: postrich {' '.join(command)}" in result.out


@pytest.mark.req("G2")
def test_help_loads_nothing_but_typer(bare_shell: Shell) -> None:
    heavy = "rich,msgspec,nostr_sdk,picows,apsw,structlog,asyncio,coincurve,uvloop,tomllib,asyncpg"
    program = (
        "import sys\n"
        "from postrich.doors.cli.app import carry_out\n"
        "code = carry_out(['--help'])\n"
        f"sys.exit(code or ','.join(n for n in {heavy.split(',')!r} if n in sys.modules) or 0)"
    )
    clean = {name: v for name, v in bare_shell.environment().items() if "COV" not in name}
    done = subprocess.run(
        [sys.executable, "-c", program], env=clean, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.req("G2")
@pytest.mark.parametrize("arguments", [["nonsense"], ["--nonsense"], ["why"], ["why", "1", "2"]])
def test_usage_errors_exit_2(bare_shell: Shell, arguments: list[str]) -> None:
    result = bare_shell.run(*arguments)
    assert result.code == 2
    assert "--help`" in result.sentence


@pytest.mark.req("G2", "B7")
def test_the_unexpected_is_a_sentence_and_debug_tells_more(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fall_over(*_: object) -> int:
        raise RuntimeError("nsec1qqqqqqqqqqqqqqqq fell over")

    monkeypatch.setattr("postrich.doors.cli.standing.show_status", fall_over)
    result = shell.run("status")
    assert result.code == 1
    assert result.sentence == (
        "unexpected RuntimeError: [nsec] fell over; run `postrich --debug …` for details"
    )
    for told in (shell.run("--debug", "status"), shell.run("status", POSTRICH_DEBUG="1")):
        assert told.code == 1
        assert "Traceback" in told.err
        assert "nsec1" not in told.err


@pytest.mark.req("G2", "B7")
def test_a_secret_in_the_wrong_place_is_not_repeated(shell: Shell) -> None:
    secret = "nsec1vl029mgpspedva04g90vltkh6fvh240zqtv9k0t9af8935ke9laqsnlfe5"
    for arguments in (["why", secret], [secret], ["post", "--policy", secret, "x"]):
        assert secret not in shell.run(*arguments).err


@pytest.mark.req("G2")
def test_ctrl_c_is_quiet_and_leaves_it_queued(shell: Shell, dead_relay: str) -> None:
    with shell.start("post", "--wait", "60", "--relay", dead_relay, "interrupted") as posting:
        shell.until(lambda: shell.run("queue").out, "interrupted")
        result = posting.stop(SIGINT)
    assert (result.code, result.out, result.err) == (130, "", "")
    assert shell.job(1)["state"] == "signed-pending-publish"


@pytest.mark.req("G2")
def test_a_reader_that_leaves_early_is_no_error(shell: Shell) -> None:
    shell.post("x")
    command = f"{sys.executable} -m postrich queue show 1 --json | true"
    done = subprocess.run(
        ["bash", "-c", command], env=shell.environment(), capture_output=True, text=True
    )
    assert done.stderr == ""
