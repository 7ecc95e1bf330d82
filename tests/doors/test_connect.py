"""`postrich account connect`: an account whose key stays in a bunker, whoever invites whom."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from signal import SIGINT
from typing import Any

import pytest

from tests.bunkers import ndk_bunker, snstr_bunker
from tests.bunkers.behaviours import after, answer, challenges
from tests.bunkers.scripted import ScriptedBunker
from tests.doors.shell import Running, Shell
from tests.doors.terminal import Terminal
from tests.relays import RelayProcess, local_relay

pytestmark = pytest.mark.req("A16", "G2")

SECRET = "tortoise-lantern"


@pytest.fixture
def home(bare_shell: Shell, relay: RelayProcess) -> Shell:
    """A home with a relay and nobody in it."""
    assert bare_shell.run("init", "--no-key", "--relay", relay.url).code == 0
    return bare_shell


async def accounts(shell: Shell, *arguments: object) -> list[Any]:
    found = (await shell.arun("account", "list", "--json", *arguments)).json["accounts"]
    assert isinstance(found, list)
    return found


async def connect(shell: Shell, uri: str, *arguments: object) -> Any:
    return await shell.arun("account", "connect", "--bunker", *arguments, stdin=f"{uri}\n")


async def invitation(running: Running) -> str:
    """The address that is shown, once we listen."""
    await running.await_for("Listening at", "&name=Postrich")
    found = re.search(r"nostrconnect://\S+", running.said())
    assert found is not None
    return found[0]


# -- the bunker's address ----------------------------------------------------------------------


@pytest.mark.req("A4")
async def test_a_bunkers_address_is_taken_from_stdin(home: Shell, relay: RelayProcess) -> None:
    async with snstr_bunker([relay.url], secret=SECRET) as bunker:
        result = await connect(home, bunker.uri, "--name", "work")
        assert (result.code, result.err) == (0, "")
        assert "✓ connected: you have the account npub1" in result.out
        assert 'Next: postrich post "hello"' in result.out
        [account] = await accounts(home, "--check")
        assert account["pubkey"] == bunker.user_pubkey
        assert (account["name"], account["default"], account["key"]) == ("work", True, None)
        assert account["bunker"]["relays"] == [f"{relay.url}/"]
        assert account["check"] == {"ok": True, "trouble": ""}
        posted = await home.arun("post", "--json", "signed elsewhere")
        assert (posted.code, posted.json["pubkey"]) == (0, bunker.user_pubkey)
        assert "signed by your bunker" in (await home.arun("why", 1)).out
    told = (await home.arun("account", "--check")).out
    assert "signs by its bunker, met at ws://127.0.0.1" in told
    assert "the bunker did not answer" in told
    checkup = await home.arun("doctor")
    assert checkup.code == 1
    assert "✗ bunker of work: the bunker did not answer" in checkup.out


async def test_at_a_terminal_the_address_is_not_shown(home: Shell, relay: RelayProcess) -> None:
    async with ScriptedBunker([relay.url], secret=SECRET) as bunker:

        def type_it() -> str:
            with Terminal(home, "account", "connect", "--bunker") as terminal:
                terminal.answer("Your bunker's address (bunker://…): ", bunker.uri)
                assert terminal.end() == 0
                return terminal.shown

        shown = await asyncio.to_thread(type_it)
    assert "✓ connected" in shown
    assert SECRET not in shown


@pytest.mark.req("B7")
@pytest.mark.parametrize("option", [[], ["--bunker"]])
def test_an_address_among_the_arguments_is_refused(home: Shell, option: list[str]) -> None:
    uri = f"bunker://{'ab' * 32}?relay=ws%3A%2F%2F127.0.0.1%3A1&secret={SECRET}"
    result = home.run("account", "connect", *option, uri)
    assert result.code == 2
    assert "holds a secret, and others can see arguments" in result.sentence
    assert SECRET not in result.err
    assert not (home.home / "keys").exists()


@pytest.mark.req("B7")
@pytest.mark.parametrize(
    ("uri", "reason"),
    [
        ("", "no address came"),
        (f"nostrconnect://{'ab' * 32}?secret={SECRET}", "begins with bunker://"),
        (f"bunker://abc?relay=ws://127.0.0.1:1&secret={SECRET}", "64 hex characters"),
        (f"bunker://{'ab' * 32}?secret={SECRET}", "names no relay"),
        (f"bunker://{'ab' * 32}?relay=ftp://x&secret={SECRET}", "relay"),
    ],
)
def test_a_wrong_address_is_said_without_repeating_it(home: Shell, uri: str, reason: str) -> None:
    result = home.run("account", "connect", "--bunker", stdin=f"{uri}\n")
    assert result.code == 1
    assert reason in result.sentence
    assert SECRET not in result.err


@pytest.mark.req("A5", "B7")
async def test_a_bunkers_no_is_one_sentence(home: Shell, relay: RelayProcess) -> None:
    async with snstr_bunker([relay.url], secret=SECRET) as bunker:
        result = await connect(home, bunker.uri.replace(SECRET, "another-word"))
    assert result.code == 1
    assert result.sentence.startswith("not connected: the bunker said no")
    assert "another-word" not in result.err
    assert await accounts(home) == []


@pytest.mark.req("A5")
def test_a_silent_bunker_and_an_unreachable_relay(
    home: Shell, relay: RelayProcess, dead_relay: str
) -> None:
    silent = f"bunker://{'ab' * 32}?relay={relay.url}"
    result = home.run("account", "connect", "--bunker", "--wait", "1", stdin=silent)
    assert result.code == 1
    assert result.sentence == "not connected: the bunker did not answer in 1 s"
    away = f"bunker://{'ab' * 32}?relay={dead_relay}"
    result = home.run("account", "connect", "--bunker", stdin=away)
    assert result.code == 1
    assert "no relay of the bunker can be reached" in result.sentence
    assert "connection refused" in result.sentence


@pytest.mark.req("A5")
async def test_an_approval_is_asked_for_and_waited_for(home: Shell, relay: RelayProcess) -> None:
    plays = {"connect": challenges("https://bunker.example/approve/7")}
    async with ScriptedBunker([relay.url], plays=plays) as bunker:
        command = ["account", "connect", "--bunker", "--json"]
        with home.start(*command, stdin=f"{bunker.uri}\n") as connecting:
            await connecting.await_for(
                "Your bunker wants you to approve at https://bunker.example/approve/7"
            )
            bunker.go()
            result = await asyncio.to_thread(connecting.end)
    assert result.code == 0
    assert result.json["pubkey"] == bunker.user_pubkey


# -- our invitation ----------------------------------------------------------------------------


@pytest.mark.req("A4")
async def test_a_signer_accepts_our_invitation(home: Shell, relay: RelayProcess) -> None:
    async with ndk_bunker([f"{relay.url}/"]) as bunker:
        with home.start("account", "connect", "--name", "phone") as connecting:
            await bunker.nostrconnect(await invitation(connecting))
            result = await asyncio.to_thread(connecting.end)
        assert result.code == 0
        assert result.out.startswith("nostrconnect://")
        assert "█" not in result.out
        assert "✓ connected" in result.out
        posted = await home.arun("post", "--json", "by phone")
        assert (posted.code, posted.json["pubkey"]) == (0, bunker.user_pubkey)


async def test_the_invitation_is_a_code_at_a_terminal(home: Shell, relay: RelayProcess) -> None:
    async with ScriptedBunker([f"{relay.url}/"]) as bunker:
        with Terminal(home, "account", "connect", TERM="xterm") as terminal:
            await asyncio.to_thread(terminal.expect, "left; Ctrl-C gives up")
            assert "Listening at" in terminal.shown
            found = re.search(r"nostrconnect://\S+", terminal.shown)
            assert found is not None
            drawn = [line for line in terminal.shown.splitlines() if {"▀", "▄", "█"} & set(line)]
            assert len(drawn) > 20
            await bunker.nostrconnect(found[0])
            assert await asyncio.to_thread(terminal.end) == 0
            assert "✓ connected" in terminal.shown
        narrow = {"TERM": "xterm", "COLUMNS": "40"}
        with Terminal(home, "account", "connect", "--wait", 1, **narrow) as terminal:
            assert await asyncio.to_thread(terminal.end) == 1
            assert "nostrconnect://" in terminal.shown
            assert not {"▀", "▄", "█"} & set(terminal.shown)


async def test_whoever_does_not_know_the_secret_is_not_listened_to(
    home: Shell, relay: RelayProcess
) -> None:
    async with (
        ScriptedBunker([f"{relay.url}/"]) as stranger,
        ScriptedBunker([f"{relay.url}/"]) as bunker,
    ):
        with home.start("account", "connect", "--json") as connecting:
            uri = await invitation(connecting)
            await stranger.nostrconnect(uri, "a guess")
            await bunker.nostrconnect(uri)
            result = await asyncio.to_thread(connecting.end)
    assert result.json["pubkey"] == bunker.user_pubkey


def test_an_invitation_that_nobody_accepts_ends(home: Shell, dead_relay: str) -> None:
    result = home.run("account", "connect", "--wait", "1")
    assert result.code == 1
    assert "no signer accepted within 1 s" in result.err
    away = home.run("account", "connect", "--relay", dead_relay, "--wait", "1")
    assert away.code == 1
    assert "connection refused" in away.sentence
    assert away.out == ""


def test_without_relays_there_is_nowhere_to_meet(bare_shell: Shell) -> None:
    result = bare_shell.run("account", "connect")
    assert result.code == 1
    assert "name one with --relay" in result.sentence
    for arguments in (["--relay", "ftp://x"], ["--bunker", "--relay", "wss://x.example"]):
        assert bare_shell.run("account", "connect", *arguments).code == 2


def test_ctrl_c_leaves_nothing(home: Shell) -> None:
    with home.start("account", "connect") as connecting:
        connecting.wait_for("Listening at")
        assert connecting.stop(SIGINT).code == 130
    assert not (home.home / "keys").exists()


# -- afterwards --------------------------------------------------------------------------------


async def test_a_name_that_is_taken_does_not_undo_the_connection(
    home: Shell, relay: RelayProcess
) -> None:
    made = await home.arun("account", "add", "--name", "main", POSTRICH_PASSPHRASE="x")
    assert made.code == 0
    async with ScriptedBunker([relay.url]) as bunker:
        result = await connect(home, bunker.uri, "--name", "main", "--default")
    assert result.code == 0
    assert "another account is called main: this one is kept without a name" in result.err
    first, second = await accounts(home)
    assert (first["pubkey"], first["name"]) == (bunker.user_pubkey, "")
    assert second["name"] == "main"


async def test_removing_logs_out(home: Shell, relay: RelayProcess) -> None:
    async with ScriptedBunker([relay.url]) as bunker:
        await connect(home, bunker.uri, "--name", "work")
        refused = await home.arun("account", "remove", "work")
        assert refused.code == 1
        assert "it would end the connection of work to its bunker" in refused.sentence
        removed = await home.arun("account", "remove", "work", "--yes")
        assert (removed.code, removed.out) == (0, "work is removed.\n")
        assert bunker.methods()[-1] == "logout"
    assert list((home.home / "keys").iterdir()) == []


@pytest.mark.req("A4")
async def test_an_account_may_have_both_and_lose_either(home: Shell, relay: RelayProcess) -> None:
    """The key comes first, the bunker where it is locked."""
    async with ScriptedBunker([relay.url]) as bunker:
        await connect(home, bunker.uri, "--name", "mine")
        key = bunker.user.hex()
        await home.arun("account", "import", stdin=key, POSTRICH_PASSPHRASE="x")
        assert len(await accounts(home)) == 1
        by_key = await home.arun("post", "--json", "one", POSTRICH_PASSPHRASE="x")
        assert (by_key.code, "sign_event" in bunker.methods()) == (0, False)
        by_bunker = await home.arun("post", "--json", "two")
        assert (by_bunker.code, bunker.methods().count("sign_event")) == (0, 1)
        lost = await home.arun("account", "remove", "mine", "--only", "nip46", "--yes")
        assert lost.out == "mine signs by its key alone now.\n"
        assert (await home.arun("post", "--no-wait", "three")).code == 3
    [left] = (home.home / "keys").iterdir()
    assert left.suffix == ".ncryptsec"


async def test_a_relay_away_for_a_moment_does_not_end_the_connection(
    home: Shell, tmp_path: Path
) -> None:
    with local_relay() as relay:
        plays = {"sign_event": after(0.1, answer)}
        async with ScriptedBunker([relay.url], plays=plays) as bunker:
            await connect(home, bunker.uri)
            await relay.arestart()
            await bunker.reachable()
            posted = await home.arun("post", "--relay", relay.url, "after a restart")
            assert posted.code == 0
