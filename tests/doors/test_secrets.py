"""No secret leaves `keys/`: not by output, log, database, file or process list (A16, B7)."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import re
from pathlib import Path
from signal import SIGTERM

import pytest
from nostr_sdk import Keys, SecretKey

from tests.bunkers.behaviours import answer, challenges, in_turn, says
from tests.bunkers.scripted import ScriptedBunker
from tests.doors.shell import Result, Shell
from tests.doors.terminal import Terminal
from tests.relays import RelayProcess

pytestmark = pytest.mark.req("A16", "B7")

PASSPHRASE = "tortoise-lantern-4711"
WRONG = "hare-candle-1174"
BUNKER_SECRET = "gazelle-torch-2222"
COMMANDS = (
    ["post", "hello"],
    ["post", "--json", "an unwelcome note"],
    ["post", "--as", "work", "by the bunker"],
    ["post", "--as", "work", "--json", "refused by the bunker"],
    ["post", "--as", "work", "--wait", "1", "to be approved"],
    ["sign", "--within", "1"],
    ["sign", "--json", "--within", "1"],
    ["queue", "list"],
    ["queue", "--json"],
    ["queue", "show", "1"],
    ["queue", "retry", "--all", "--wait", "1"],
    ["why", "2"],
    ["why", "4"],
    ["status", "--json"],
    ["account", "list", "--check", "--json"],
    ["account", "default", "work"],
    ["doctor", "--json"],
    ["--debug", "why", "999"],
    ["--debug", "post", "--as", "nobody", "x"],
)


def children(pid: int) -> list[int]:
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return [int(word) for word in text.split()]


def forms(secret: str) -> list[bytes]:
    """A secret key in every form in which it could lie about."""
    raw = bytes.fromhex(secret)
    nsec = str(SecretKey.parse(secret).to_bech32())
    return [raw, secret.encode(), secret.upper().encode(), nsec.encode(), base64.b64encode(raw)]


def kept_in(home: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in home.rglob("*") if path.is_file()}


class Story:
    """A home in use, and everything that was to be seen of it."""

    def __init__(self, shell: Shell) -> None:
        self.shell = shell
        self.seen: list[bytes] = []

    def note(self, result: Result) -> Result:
        self.seen += [result.out.encode(), result.err.encode()]
        return result

    async def run(self, *arguments: str, stdin: str = "", **more: str) -> Result:
        return self.note(await self.shell.afinish(*arguments, stdin=stdin, **more))

    async def begin(self, relay: RelayProcess, bunker: ScriptedBunker, keys: Keys) -> None:
        """Every way in, and the ways in which it fails."""
        nsec = str(keys.secret_key().to_bech32())
        locked = str(keys.secret_key().encrypt(WRONG).to_bech32())
        assert (await self.run("init", "--relay", relay.url)).code == 0
        assert (await self.run("account", "import", stdin=locked)).code == 1
        assert (await self.run("account", "import", stdin=nsec[:-1])).code == 1
        assert (await self.run("account", "import", "--name", "main", stdin=nsec)).code == 0
        assert (await self.run("account", "import", stdin=nsec)).code == 1
        assert (await self.run("account", "default", "main")).code == 0
        connect = ["account", "connect", "--bunker", "--name", "work"]
        wrong = bunker.uri.replace(BUNKER_SECRET, WRONG)
        assert (await self.run("--debug", *connect, stdin=wrong)).code == 1
        assert (await self.run(*connect, stdin=f"x{bunker.uri}")).code == 1
        assert (await self.run(*connect, stdin=bunker.uri)).code == 0
        assert (await self.run("--debug", "post", "x", POSTRICH_PASSPHRASE=WRONG)).code == 1
        assert (await self.run("post", "--no-wait", "x", POSTRICH_PASSPHRASE="")).code == 3

    async def go_on(self) -> None:
        """Everything that one does from day to day, beside a talkative `serve`."""
        with self.shell.start("serve", "--verbose", "--log-json") as serving:
            await serving.await_for('"by your key"', '"by your bunker"')
            for command in COMMANDS:
                await self.run(*command)
            pids = (serving.pid, *children(serving.pid))
            self.seen += [Path(f"/proc/{pid}/cmdline").read_bytes() for pid in pids]
            self.seen += self.outside_keys()
            self.note(await asyncio.to_thread(serving.stop, SIGTERM))

    def outside_keys(self) -> list[bytes]:
        keys = self.shell.home / "keys"
        return [body for path, body in kept_in(self.shell.home).items() if path.parent != keys]


async def test_secrets_stay_where_they_are(bare_shell: Shell, relay: RelayProcess) -> None:
    shell, keys = bare_shell, Keys.generate()
    shell.variables["POSTRICH_PASSPHRASE"] = PASSPHRASE
    story = Story(shell)
    secret = str(keys.secret_key().to_hex())
    async with ScriptedBunker([relay.url], secret=BUNKER_SECRET) as bunker:
        bunker.plays["sign_event"] = in_turn(
            answer,
            says(error=f"denied: secret={BUNKER_SECRET}, key {keys.secret_key().to_bech32()}"),
            challenges("https://bunker.example/approve/1"),
        )
        await story.begin(relay, bunker, keys)
        await story.go_on()
        [credentials] = (shell.home / "keys").glob("*.bunker")
        client = json.loads(credentials.read_text())["client"]
        assert len([r for r in bunker.requests if r.method == "sign_event"]) >= 3
        story.note(await shell.afinish("account", "remove", "work", "--yes"))
    seen = [*story.seen, *shell.command_lines, *story.outside_keys()]
    needles = [word.encode() for word in (PASSPHRASE, WRONG, BUNKER_SECRET)]
    needles += [*forms(client), *forms(secret)]
    assert len(seen) > 2 * len(COMMANDS)
    for body in seen:
        assert [needle for needle in needles if needle in body] == []
        assert not re.search(rb"ncryptsec1[a-z0-9]{20}", body)
    for path, body in kept_in(shell.home).items():
        assert PASSPHRASE.encode() not in body
        assert not any(form in body for form in forms(secret)), path


def test_what_is_typed_at_a_terminal_is_not_shown(bare_shell: Shell, relay: RelayProcess) -> None:
    nsec = str(Keys.generate().secret_key().to_bech32())
    with Terminal(bare_shell, "init", "--import", "--relay", relay.url) as terminal:
        terminal.answer("Your secret key (nsec, hex or ncryptsec): ", nsec)
        terminal.answer("A passphrase for your key: ", PASSPHRASE)
        terminal.answer("The same again: ", PASSPHRASE)
        assert terminal.end() == 0
        assert nsec not in terminal.shown
        assert PASSPHRASE not in terminal.shown


def test_a_key_in_the_environment_is_written_nowhere(shell: Shell, relay: RelayProcess) -> None:
    secret = shell.variables["POSTRICH_NSEC"]
    done = shell.run("--debug", "post", "--json", "hello")
    assert done.code == 0
    assert os.fsencode(secret) not in os.fsencode(done.out + done.err)
    for body in kept_in(shell.home).values():
        assert not any(form in body for form in forms(secret))
