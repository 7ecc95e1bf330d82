"""No secret leaves the key file: not by output, log, database, file or process list (A16, B7)."""

from __future__ import annotations

import os
from pathlib import Path
from signal import SIGTERM

import pytest
from nostr_sdk import Keys

from tests.doors.shell import Shell
from tests.relays import RelayProcess

PASSPHRASE = "tortoise-lantern-4711"
COMMANDS = (
    ["post", "hello"],
    ["post", "--json", "an unwelcome note"],
    ["queue", "list"],
    ["queue", "show", "1"],
    ["why", "2"],
    ["status", "--json"],
    ["doctor"],
    ["--debug", "why", "999"],
)


def command_line(pid: int) -> bytes:
    return Path(f"/proc/{pid}/cmdline").read_bytes()


def children(pid: int) -> list[int]:
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return [int(word) for word in text.split()]


@pytest.mark.req("A16", "B7")
def test_secrets_stay_where_they_are(bare_shell: Shell, relay: RelayProcess) -> None:
    shell = bare_shell
    keys = Keys.generate()
    nsec, secret = str(keys.secret_key().to_bech32()), str(keys.secret_key().to_hex())
    shell.variables["POSTRICH_PASSPHRASE"] = PASSPHRASE
    seen = shell.run("init", "--import", "--relay", relay.url, stdin=nsec)
    assert seen.code == 0
    printed = [seen.out, seen.err]
    with shell.start("serve", "--verbose") as serving:
        serving.wait_for("account=")
        for command in COMMANDS:
            done = shell.run(*command)
            printed += [done.out, done.err]
        lines = [command_line(pid) for pid in (serving.pid, *children(serving.pid))]
        log = serving.stop(SIGTERM)
    printed += [log.out, log.err]
    kept = [path.read_bytes() for path in shell.home.rglob("*") if path.is_file()]
    assert kept
    raw = bytes.fromhex(secret)
    for body in (*map(str.encode, printed), *lines, *kept):
        for needle in (nsec.encode(), secret.encode(), raw, PASSPHRASE.encode()):
            assert needle not in body
        assert b"ncryptsec1" not in body or body == (shell.home / "key.ncryptsec").read_bytes()


@pytest.mark.req("A16")
def test_a_key_in_the_environment_is_written_nowhere(shell: Shell, relay: RelayProcess) -> None:
    secret = shell.variables["POSTRICH_NSEC"]
    done = shell.run("--debug", "post", "--json", "hello")
    assert done.code == 0
    assert os.fsencode(secret) not in os.fsencode(done.out + done.err)
    for path in shell.home.rglob("*"):
        assert secret.encode() not in path.read_bytes()
        assert bytes.fromhex(secret) not in path.read_bytes()
