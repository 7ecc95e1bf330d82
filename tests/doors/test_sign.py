"""`postrich sign`, and notes that wait for who signs them (A5, A6)."""

from __future__ import annotations

import asyncio
import json
from signal import SIGINT
from typing import Any

import pytest

from postrich.doors.cli.home import Home
from postrich.doors.cli.roster import Roster, all_signers
from tests.bunkers import snstr_bunker
from tests.bunkers.behaviours import after, challenges, in_turn, says, silence
from tests.bunkers.behaviours import answer as answers
from tests.bunkers.scripted import ScriptedBunker
from tests.doors.shell import Result, Shell
from tests.doors.terminal import Terminal
from tests.relays import RelayProcess
from tests.relays.events import make_event
from tests.relays.reader import fetch_events

pytestmark = pytest.mark.req("A6", "G2")

PASSPHRASE = "correct horse"


@pytest.fixture
def home(bare_shell: Shell, relay: RelayProcess) -> Shell:
    """A home whose signers have two seconds."""
    assert bare_shell.run("init", "--no-key", "--relay", relay.url).code == 0
    give_signers(bare_shell, 2)
    return bare_shell


def give_signers(shell: Shell, seconds: int) -> None:
    file = shell.home / "postrich.toml"
    lines = [line for line in file.read_text().splitlines() if "sign_timeout" not in line]
    file.write_text("\n".join([f"sign_timeout = {seconds}", *lines]))


@pytest.fixture
def locked(home: Shell) -> Shell:
    """A home with a locked key, main."""
    assert home.run("account", "add", "--name", "main", POSTRICH_PASSPHRASE=PASSPHRASE).code == 0
    return home


async def connect(shell: Shell, uri: str, name: str) -> None:
    command = ["account", "connect", "--bunker", "--name", name]
    result = await shell.arun(*command, stdin=f"{uri}\n")
    assert result.code == 0, result.err


async def job(shell: Shell, number: int) -> Any:
    return (await shell.arun("queue", "show", "--json", number)).json


async def until_said(shell: Shell, number: int, trouble: str) -> None:
    """Return once the job says this of its signer."""
    while (found := await job(shell, number))["error"]["message"] != trouble:
        assert found["state"] == "pending-sign"


# -- a locked key ------------------------------------------------------------------------------


@pytest.mark.req("A16")
def test_a_note_of_a_locked_key_is_kept(locked: Shell, relay: RelayProcess) -> None:
    result = locked.run("post", "waits for its key")
    assert result.code == 3
    assert "… kept as job 1, not signed yet" in result.out
    assert "It waits for your key (main) to sign it: `postrich sign` asks" in result.out
    assert "the key of main is locked: set POSTRICH_PASSPHRASE" in result.err
    document = locked.run("post", "--json", "another").json
    assert (document["success"], document["queued"]) == (False, True)
    assert document["waits_for_what"]["what"] == "signer"
    lines = locked.run("queue").out.splitlines()
    assert "WAITS FOR" in lines[0]
    assert "your key (main)" in lines[1]
    assert max(map(len, lines)) <= 80


def test_sign_signs_what_waits(locked: Shell, relay: RelayProcess) -> None:
    for number in range(3):
        locked.run("post", f"note {number}")
    still = locked.run("sign")
    assert still.code == 3
    assert still.out == (
        "… 3 drafts wait for your key (main): it is locked, and POSTRICH_PASSPHRASE is not set\n"
    )
    signed = locked.run("sign", POSTRICH_PASSPHRASE=PASSPHRASE)
    assert (signed.code, signed.out) == (0, "✓ signed 3 drafts: 3 published\n")
    author = locked.job(1)["pubkey"]
    found = asyncio.run(fetch_events(relay.url, {"authors": [author]}))
    assert {event["content"] for event in found} == {"note 0", "note 1", "note 2"}
    assert locked.run("sign").out == "Nothing waits to be signed.\n"
    story = locked.run("why", "--json", 1).json["story"]
    assert story[0]["text"].endswith("; not signed yet")
    assert "signed by your key" in [line["text"] for line in story]


@pytest.mark.req("A16")
def test_sign_asks_only_for_keys_that_drafts_wait_for(locked: Shell) -> None:
    locked.run("account", "add", "--name", "idle", POSTRICH_PASSPHRASE="another")
    locked.run("post", "--as", "main", "x")
    with Terminal(locked, "sign") as terminal:
        terminal.answer("Passphrase of the key of main (empty: go on without it): ", PASSPHRASE)
        assert terminal.end() == 0
        assert "idle" not in terminal.shown
        assert "✓ signed 1 draft: 1 published" in terminal.shown
    locked.run("post", "--as", "idle", "x")
    with Terminal(locked, "sign") as terminal:
        terminal.answer("Passphrase of the key of idle (empty: go on without it): ", "")
        assert terminal.end() == 3
        assert "1 draft waits for your key (idle): its passphrase was not given" in terminal.shown


@pytest.mark.req("A16")
def test_a_wrong_passphrase_signs_nothing(locked: Shell) -> None:
    locked.run("post", "x")
    wrong = locked.run("sign", POSTRICH_PASSPHRASE="wrong")
    assert wrong.code == 1
    assert "POSTRICH_PASSPHRASE does not open the key of main" in wrong.sentence


def test_what_is_not_ours_is_named(home: Shell) -> None:
    draft = make_event(content="somebody else's")
    del draft["sig"]
    home.run("post", "--no-wait", "--event", "-", stdin=json.dumps(draft))
    result = home.run("sign", "--json")
    assert result.code == 3
    [waiting] = result.json["waiting"]
    assert (waiting["job"], waiting["waits_for_what"]["short"]) == (1, "a signer")
    assert home.run("sign", "--wait").out.startswith("… 1 draft waits for a signer")


@pytest.mark.parametrize("wait", ["soon", "-1", "nan", ""])
def test_usage_errors_exit_2(home: Shell, wait: str) -> None:
    assert home.run("sign", "--within", wait).code == 2
    assert home.run("sign", "surplus").code == 2


def test_without_a_home_nothing_is_made(bare_shell: Shell) -> None:
    result = bare_shell.run("sign")
    assert result.code == 1
    assert "`postrich init` makes one" in result.sentence
    assert not bare_shell.home.exists()


# -- bunkers -----------------------------------------------------------------------------------


@pytest.mark.req("A5", "B8")
async def test_a_note_waits_for_its_bunker_and_sign_brings_it_out(
    home: Shell, relay: RelayProcess
) -> None:
    async with snstr_bunker([relay.url], secret="open-sesame") as bunker:
        await connect(home, bunker.uri, "work")
        await bunker.kill()
        kept = await home.arun("post", "--wait", "0.5", "patience")
        assert kept.code == 3
        assert "It waits for your bunker (work) to sign it" in kept.out
        assert (await job(home, 1))["waits_for_what"]["what"] == "signer"
        assert "your bunker (work)" in (await home.arun("queue")).out
        given_up = await home.arun("sign")
        assert given_up.code == 3
        assert given_up.out.startswith("… 1 draft waits for your bunker (work): the bunker did not")
        give_signers(home, 20)
        with home.start("sign", "--wait") as signing:
            await until_said(home, 1, "the bunker does not answer")
            await bunker.start()
            result = await asyncio.to_thread(signing.end)
    assert (result.code, result.out) == (0, "✓ signed 1 draft: 1 published\n")
    story = (await home.arun("why", 1)).out
    assert "not signed: the bunker" in story
    assert "signed by your bunker" in story
    [event] = await fetch_events(relay.url, {"authors": [bunker.user_pubkey]})
    assert event["content"] == "patience"


async def test_ctrl_c_ends_sign_and_loses_nothing(home: Shell, relay: RelayProcess) -> None:
    plays = {"sign_event": in_turn(silence, answers)}
    async with ScriptedBunker([relay.url], plays=plays) as bunker:
        await connect(home, bunker.uri, "work")
        assert (await home.arun("post", "--no-wait", "x")).code == 3
        with home.start("sign", "--wait") as signing:
            await bunker.wait_for("sign_event")
            result: Result = await asyncio.to_thread(signing.stop, SIGINT)
        assert (result.code, result.out, result.err) == (130, "", "")
        assert (await job(home, 1))["state"] == "pending-sign"
        signed = await home.arun("sign", "--json")
    assert signed.code == 0
    assert signed.json == {
        "signed": [{"job": 1, "state": "published"}],
        "refused": [],
        "waiting": [],
    }


@pytest.mark.req("A5")
async def test_a_no_is_told_and_can_be_asked_again(home: Shell, relay: RelayProcess) -> None:
    plays = {"sign_event": in_turn(says(error="user rejected"), answers)}
    async with ScriptedBunker([relay.url], plays=plays) as bunker:
        await connect(home, bunker.uri, "work")
        assert (await home.arun("post", "--no-wait", "x")).code == 3
        refused = await home.arun("sign")
        assert refused.code == 1
        assert "✗ job 1 was not signed: the bunker said no: user rejected" in refused.out
        assert "you" in (await home.arun("queue")).out.splitlines()[1]
        wait = (await job(home, 1))["waits_for_what"]
        assert wait["what"] == "person"
        assert "`postrich queue retry 1`" in wait["text"]
        again = await home.arun("queue", "retry", 1)
    assert (again.code, again.out) == (0, "Retried 1 job: 1 published.\n")


@pytest.mark.req("A5")
async def test_an_approval_is_shown_while_it_is_waited_for(
    home: Shell, relay: RelayProcess
) -> None:
    url = "https://bunker.example/approve/9"
    async with ScriptedBunker([relay.url]) as bunker:
        await connect(home, bunker.uri, "work")
        bunker.plays["sign_event"] = challenges(url)
        with home.start("post", "approve me") as posting:
            await posting.await_for(f"Your bunker wants you to approve at {url}")
            bunker.go()
            result = await asyncio.to_thread(posting.end)
        assert result.code == 0
        assert result.err.count(url) == 1
        bunker.approved.clear()
        kept = await home.arun("post", "--wait", "3", "not approved")
        assert kept.code == 3
        assert f"the bunker waits for you to approve at {url}" in kept.out
        assert url in (await home.arun("why", 2)).out
        asked = len(bunker.requests)
        signing = await home.arun("sign", "--within", "3")
        assert signing.code == 3
        note = {"kind": 1, "pubkey": bunker.user_pubkey, "tags": [], "content": "a third"}
        both = await home.arun("post", "--wait", "3", "--event", "-", stdin=json.dumps(note))
        assert both.err.count(url) == 1
        assert bunker.methods()[asked:].count("sign_event") >= 3


@pytest.mark.req("A4")
async def test_sign_works_beside_a_serve_that_holds_another_account(
    locked: Shell, relay: RelayProcess
) -> None:
    async with ScriptedBunker([relay.url], plays={"sign_event": after(0.2)}) as bunker:
        await connect(locked, bunker.uri, "work")
        with locked.start("serve") as serving:
            await serving.await_for("name=work", "by your bunker", "drafts wait for your key")
            assert (await locked.arun("post", "--no-wait", "--as", "main", "one")).code == 3
            by_bunker = await locked.arun("post", "--as", "work", "two")
            assert by_bunker.code == 0
            signed = await locked.arun("sign", POSTRICH_PASSPHRASE=PASSPHRASE)
            assert (signed.code, signed.out) == (0, "✓ signed 1 draft: 1 published\n")
            assert (await asyncio.to_thread(serving.stop)).code == 0
    assert bunker.methods().count("sign_event") == 1


async def test_only_the_account_that_is_named_is_asked(locked: Shell, relay: RelayProcess) -> None:
    async with ScriptedBunker([relay.url]) as bunker:
        await connect(locked, bunker.uri, "work")
        for name in ("main", "work"):
            await locked.arun("post", "--no-wait", "--as", name, "x")
        signed = await locked.arun("sign", "--as", "main", "--json", POSTRICH_PASSPHRASE=PASSPHRASE)
        assert (signed.code, [entry["job"] for entry in signed.json["signed"]]) == (0, [1])
        assert "sign_event" not in bunker.methods()
        assert (await locked.arun("sign", "--as", "nobody")).code == 1
        rest = await locked.arun("sign")
    assert (rest.code, rest.out) == (0, "✓ signed 1 draft: 1 published\n")


@pytest.mark.req("A5")
async def test_a_bunker_is_asked_only_by_who_waits_for_its_answer(
    home: Shell, relay: RelayProcess
) -> None:
    """It may show the request to a person, whose answer would then be lost."""
    async with ScriptedBunker([relay.url]) as bunker:
        await connect(home, bunker.uri, "work")
    here = Home(home.home)
    author = Roster(here).author("work")
    assert (author.signers(0), author.signers(1)) == ([], [author.bunker])
    assert [len(all_signers(here, wait)) for wait in (0, 1)] == [0, 1]


async def test_many_drafts_are_signed_within_one_patience_each(
    home: Shell, relay: RelayProcess
) -> None:
    """Each signature starts the clock anew: eight of them take longer than one may."""
    async with ScriptedBunker([relay.url]) as bunker:
        await connect(home, bunker.uri, "work")
        note = {"kind": 1, "pubkey": bunker.user_pubkey, "tags": []}
        lines = [json.dumps(note | {"content": f"note {number}"}) for number in range(8)]
        await home.arun("post", "--no-wait", "--event", "-", stdin="\n".join(lines))
        assert "sign_event" not in bunker.methods()
        bunker.plays["sign_event"] = after(1.5)
        signed = await home.arun("sign")
    assert (signed.code, signed.out) == (0, "✓ signed 8 drafts: 8 published\n")
