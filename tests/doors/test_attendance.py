"""The signers of a `serve`: everybody at the start, and whoever comes or goes meanwhile."""

from __future__ import annotations

import asyncio
import json

import pytest
from nostr_sdk import Keys

from tests.bunkers.behaviours import challenges
from tests.bunkers.scripted import ScriptedBunker
from tests.doors.shell import Shell
from tests.relays import RelayProcess

pytestmark = pytest.mark.req("A4", "A6", "A16", "G2")

PASSPHRASE = "correct horse"


@pytest.fixture
def home(bare_shell: Shell, relay: RelayProcess) -> Shell:
    """A home whose account main has a key."""
    bare_shell.variables["POSTRICH_PASSPHRASE"] = PASSPHRASE
    assert bare_shell.run("init", "--name", "main", "--relay", relay.url).code == 0
    return bare_shell


def leave_draft(shell: Shell, *arguments: str) -> int:
    """A note that its account must sign elsewhere; its job."""
    result = shell.run("post", "--json", "--no-wait", *arguments, "x", POSTRICH_PASSPHRASE="")
    assert (result.code, result.json["state"]) == (3, "pending-sign")
    number = result.json["id"]
    assert isinstance(number, int)
    return number


def until_published(shell: Shell, number: int) -> None:
    shell.until(lambda: str(shell.job(number)["state"]), "published")


def test_everybody_is_said_at_the_start(home: Shell) -> None:
    home.run("account", "add", "--name", "locked", POSTRICH_PASSPHRASE="another")
    keys = Keys.generate()
    home.variables["POSTRICH_NSEC"] = keys.secret_key().to_hex()
    with home.start("serve", "--log-json") as serving:
        serving.wait_for("drafts wait for your key")
        result = serving.stop()
    entries = [json.loads(line) for line in result.err.splitlines()]
    signing = [e["account"] for e in entries if e["event"] == "account"]
    accounts = home.run("account", "--json").json["accounts"]
    assert signing == [account["npub"] for account in accounts[:2]]
    [missing] = [e for e in entries if e["event"] == "drafts wait for your key"]
    assert (missing["name"], missing["level"]) == ("locked", "warning")
    assert missing["trouble"] == "POSTRICH_PASSPHRASE does not open it"


def test_a_draft_is_signed_by_the_serve_that_has_the_key(home: Shell) -> None:
    with home.start("serve") as serving:
        serving.wait_for("name=main")
        result = home.run("post", "signed by serve", POSTRICH_PASSPHRASE="")
        assert (result.code, result.err) == (0, "")
        assert serving.stop().code == 0
    assert "signed by your key" in home.run("why", 1).out


def test_an_account_that_is_added_signs_without_a_restart(home: Shell) -> None:
    with home.start("serve") as serving:
        serving.wait_for("name=main")
        assert home.run("account", "add", "--name", "second").code == 0
        number = leave_draft(home, "--as", "second")
        serving.wait_for("name=second")
        until_published(home, number)
        home.run("account", "add", "--name", "third", POSTRICH_PASSPHRASE="another")
        serving.wait_for("drafts wait for your key", "name=third", "is not known here")
        assert serving.stop().code == 0


def test_an_account_that_is_removed_signs_no_more(home: Shell) -> None:
    nsec = Keys.generate().secret_key().to_bech32()
    home.run("account", "import", "--name", "brief", stdin=nsec)
    with home.start("serve") as serving:
        serving.wait_for("name=brief")
        number = leave_draft(home, "--as", "brief")
        until_published(home, number)
        assert home.run("account", "remove", "brief", "--yes").code == 0
        serving.wait_for("no more by your key")
        home.run("account", "import", "--name", "again", stdin=nsec)
        serving.wait_for("name=again")
        assert serving.stop().code == 0


async def test_bunkers_come_and_go(home: Shell, relay: RelayProcess) -> None:
    connecting = ["account", "connect", "--bunker", "--name", "work"]
    async with ScriptedBunker([relay.url]) as bunker:
        with home.start("serve") as serving:
            await serving.await_for("name=main")
            await home.arun(*connecting, stdin=f"{bunker.uri}\n")
            await serving.await_for("by your bunker")
            assert (await home.arun("post", "--as", "work", "one")).code == 0
            clients = {request.client for request in bunker.requests}
            await home.arun(*connecting, stdin=f"{bunker.uri}\n")  # as another client
            said = serving.said
            await asyncio.to_thread(home.until, lambda: str(said().count("by your bunker")), "2")
            await home.arun("post", "--no-wait", "--as", "work", "two")
            await bunker.wait_for("sign_event", 2)
            asked = [r.client for r in bunker.requests if r.method == "sign_event"]
            assert asked[-1] not in clients
            await home.arun("account", "remove", "work", "--yes")
            await serving.await_for("no more by your bunker")
            assert (await asyncio.to_thread(serving.stop)).code == 0


@pytest.mark.req("A5")
async def test_an_approval_is_in_the_log(home: Shell, relay: RelayProcess) -> None:
    url = "https://bunker.example/approve/3"
    async with ScriptedBunker([relay.url]) as bunker:
        await home.arun("account", "connect", "--bunker", stdin=f"{bunker.uri}\n")
        bunker.plays["sign_event"] = challenges(url)
        with home.start("serve") as serving:
            await serving.await_for("by your bunker")
            await home.arun("post", "--no-wait", "--as", bunker.user_pubkey[:8], "approve me")
            await serving.await_for("your bunker asks you to approve", url)
            bunker.go()
            await serving.await_for("all published")
            assert (await asyncio.to_thread(serving.stop)).code == 0


def test_a_list_that_cannot_be_read_changes_nothing(home: Shell) -> None:
    file = home.home / "accounts.json"
    body = file.read_text()
    with home.start("serve") as serving:
        serving.wait_for("name=main")
        number = leave_draft(home)
        until_published(home, number)
        file.write_text("[{]")
        serving.wait_for("accounts.json cannot be read")
        file.write_text(body)
        number = leave_draft(home)
        until_published(home, number)
        assert "no more by" not in serving.stop().err
