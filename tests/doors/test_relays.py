"""`postrich relays`: what is known of relays, changing the settings, blocking by list."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Iterator
from signal import SIGTERM

import pytest

from tests.doors.shell import Shell
from tests.doors.world import Person, describing, settle_in
from tests.relays import RelayProcess, local_relay
from tests.relays.reader import fetch_events


@pytest.fixture(scope="module")
def index() -> Iterator[RelayProcess]:
    with local_relay() as running:
        yield running


@pytest.fixture
def me(bare_shell: Shell, index: RelayProcess, relay: RelayProcess) -> Person:
    """The owner of a home with one relay."""
    person = Person(secrets.token_bytes(32), index.url)
    settle_in(bare_shell, index, relay.url, secret=person.secret)
    return person


def places(shell: Shell, *arguments: str) -> dict[str, list[str]]:
    answer = shell.run("relays", "list", "--json", *arguments).json
    return {entry["url"].rstrip("/"): entry["places"] for entry in answer["relays"]}


# -- looking -----------------------------------------------------------------------------------


@pytest.mark.req("C10", "G2")
def test_all_relays_with_where_they_are_named(
    bare_shell: Shell, me: Person, index: RelayProcess, relay: RelayProcess, dead_relay: str
) -> None:
    me.publish(10002, [["r", relay.url, "write"], ["r", "wss://read.example", "read"]])
    me.publish(10006, [["relay", "wss://bad.example"]])
    me.publish(10050, [["relay", "wss://messages.example"]])
    assert places(bare_shell) == {relay.url: ["yours"], index.url: ["indexer"]}
    assert "not looked up yet: --refresh does" in bare_shell.run("relays").out
    bare_shell.post("--no-wait", "--relay", dead_relay, "hello")
    assert places(bare_shell, "--refresh") == {
        relay.url: ["yours", "your list: write"],
        "wss://read.example": ["your list: read"],
        "wss://bad.example": ["blocked"],
        "wss://messages.example": ["your messages"],
        index.url: ["indexer"],
        dead_relay.rstrip("/"): ["used before"],
    }
    shown = bare_shell.run("relays")
    assert shown.out.splitlines()[0].split() == ["RELAY", "NAMED", "WAITING", "TRIED", "HEALTH"]
    assert "Your relay lists were looked up" in shown.out
    assert max(map(len, shown.out.splitlines())) <= 80


@pytest.mark.req("C10", "G2")
def test_health_and_backlog_are_shown(
    bare_shell: Shell, me: Person, relay: RelayProcess, dead_relay: str
) -> None:
    bare_shell.post("hello")
    bare_shell.post("--wait", 1, "--relay", dead_relay, "nobody hears")
    answer = bare_shell.run("relays", "--json").json
    entries = {entry["url"].rstrip("/"): entry for entry in answer["relays"]}
    alive, dead = entries[relay.url], entries[dead_relay.rstrip("/")]
    assert (alive["waiting"], dead["waiting"]) == (0, 1)
    assert (alive["health"]["reachable"], dead["health"]["reachable"]) == (True, False)
    shown = bare_shell.run("relays").out
    assert "took 100%" in shown
    assert "unreachable" in shown
    one = bare_shell.run("relays", "show", dead_relay)
    assert one.code == 3
    assert "1 event waits for it" in one.out
    assert "tells nothing of itself" in one.out


@pytest.mark.req("C10")
async def test_show_tells_what_a_relay_says_of_itself(bare_shell: Shell, me: Person) -> None:
    document = {
        "name": "A \x1b[31mrelay",
        "description": "for\nyou",
        "software": "strict",
        "version": "1",
        "supported_nips": [1, 11],
        "payments_url": "https://pay.example",
        "limitation": {
            "max_message_length": 65_536,
            "payment_required": True,
            "created_at_lower_limit": 86_400,
            "created_at_upper_limit": 900,
        },
    }
    async with describing(document) as url:
        shown = await asyncio.to_thread(bare_shell.finish, "relays", "show", url)
        asked = await asyncio.to_thread(bare_shell.finish, "relays", "show", "--json", url)
    assert shown.code == 0
    words = " ".join(shown.out.split())
    for text in (
        "messages up to 65,536 bytes",
        "wants to be paid",
        "nothing older than 1 day",
        "nothing 15 min ahead of time",
        "https://pay.example",
        "for you",
        "nowhere here",
        "not used yet",
        "nothing waits for it",
    ):
        assert text in words
    assert "\x1b" not in shown.out
    assert asked.json["info"]["limitation"]["max_message_length"] == 65_536


@pytest.mark.req("C10", "G2")
def test_without_relays_the_next_step_is_said(bare_shell: Shell) -> None:
    bare_shell.variables["POSTRICH_INDEXERS"] = ""
    assert bare_shell.run("init", "--no-key").code == 0
    assert bare_shell.run("relays").out.startswith("No relay is known yet: `postrich relays add")


# -- the settings ------------------------------------------------------------------------------


@pytest.mark.req("G2")
def test_add_and_remove_change_the_settings(
    bare_shell: Shell, me: Person, relay: RelayProcess
) -> None:
    file = bare_shell.home / "postrich.toml"
    before = file.read_text()
    added = bare_shell.run("relays", "add", "NEW.example")
    assert (added.code, added.out) == (0, "new.example is one of yours now.\n")
    assert file.read_text() == before.replace(
        f'  "{relay.url}/",\n', f'  "{relay.url}/",\n  "wss://new.example/",\n'
    )
    assert "already" in bare_shell.run("relays", "add", "wss://new.example/").out
    assert places(bare_shell)["wss://new.example"] == ["yours"]
    removed = bare_shell.run("relays", "remove", "wss://new.example", "--json")
    assert removed.json == {
        "relay": "wss://new.example/",
        "relays": [f"{relay.url}/"],
        "changed": True,
    }
    assert file.read_text() == before
    again = bare_shell.run("relays", "remove", "wss://new.example")
    assert (again.code, "is not among" in again.sentence) == (1, True)


@pytest.mark.req("G2")
def test_what_else_must_be_done_is_said(bare_shell: Shell, me: Person, relay: RelayProcess) -> None:
    with bare_shell.start("serve") as server:
        server.wait_for("serving")
        assert "Start `postrich serve` anew" in bare_shell.run("relays", "add", "x.example").out
        server.stop(SIGTERM)
    bare_shell.variables["POSTRICH_RELAYS"] = relay.url
    assert "POSTRICH_RELAYS is set" in bare_shell.run("relays", "add", "y.example").out
    assert "POSTRICH_RELAYS is set" in bare_shell.run("relays").out
    for url in ("x.example", "y.example"):
        bare_shell.run("relays", "remove", url)
    assert "no relay left" in bare_shell.run("relays", "remove", relay.url).out


@pytest.mark.req("G2")
def test_a_file_that_is_not_changed_safely_says_what_to_write(
    bare_shell: Shell, me: Person
) -> None:
    file = bare_shell.home / "postrich.toml"
    file.write_text('relays = ["a.example", ["b.example"]]\n')
    assert "not a list of URLs" in bare_shell.run("relays", "add", "c.example").sentence
    for arguments in (["add", "not a url"], ["--json", "add", "x.example"], ["show", ""]):
        assert bare_shell.run("relays", *arguments).code == 2


# -- blocking ----------------------------------------------------------------------------------


@pytest.mark.req("D7", "G2")
async def test_blocking_publishes_a_new_version_and_keeps_the_rest(
    bare_shell: Shell, me: Person, relay: RelayProcess, index: RelayProcess
) -> None:
    tags = [["relay", "wss://old.example"], ["relay", "no url at all"], ["alt", "x"]]
    ahead = int(time.time()) + 100
    me.publish(10006, tags, "encrypted?iv=", ahead)
    blocked = bare_shell.finish("relays", "block", "wss://bad.example")
    assert blocked.code == 0, blocked
    assert "bad.example is blocked: nothing is sent to it or read from it." in blocked.out
    assert "the 3 other tags and the encrypted part kept as before" in blocked.out
    [newest, *_] = await fetch_events(relay.url, {"authors": [me.pubkey], "kinds": [10006]})
    assert newest["tags"] == [*tags, ["relay", "wss://bad.example/"]]
    assert newest["content"] == "encrypted?iv="
    assert newest["created_at"] > ahead
    again = bare_shell.finish("relays", "block", "bad.example")
    assert "blocked already; nothing was published" in again.out
    freed = bare_shell.finish("relays", "unblock", "old.example", "--json")
    assert freed.json["list"] == ["wss://bad.example/"]
    [newest, *_] = await fetch_events(relay.url, {"authors": [me.pubkey], "kinds": [10006]})
    assert newest["tags"] == [*tags[1:], ["relay", "wss://bad.example/"]]


@pytest.mark.req("D7", "A11")
def test_two_blocks_in_a_row_both_count_before_any_relay_has_them(
    bare_shell: Shell, me: Person, index: RelayProcess, dead_relay: str
) -> None:
    bare_shell.variables["POSTRICH_RELAYS"] = dead_relay
    for url in ("one.example", "two.example"):
        assert bare_shell.run("relays", "block", "--no-wait", url).code == 3
    third = bare_shell.run("relays", "block", "--no-wait", "--json", "three.example")
    assert third.json["list"] == [f"wss://{name}.example/" for name in ("one", "two", "three")]
    [job] = bare_shell.run("queue", "--json", "--open").json["jobs"]
    assert [tag[1] for tag in job["tags"]] == third.json["list"]


@pytest.mark.req("D7")
def test_a_list_that_cannot_be_read_is_not_replaced(
    bare_shell: Shell, me: Person, dead_relay: str
) -> None:
    bare_shell.variables |= {"POSTRICH_RELAYS": dead_relay, "POSTRICH_INDEXERS": dead_relay}
    refused = bare_shell.run("relays", "block", "bad.example")
    assert refused.code == 1
    assert "could not be read as it is now" in refused.sentence
    assert "--anyway" in refused.sentence
    assert bare_shell.run("queue").out == "The queue is empty.\n"
    anyway = bare_shell.run("relays", "block", "--anyway", "--no-wait", "bad.example")
    assert (anyway.code, "is queued as job 1" in anyway.out) == (3, True)


@pytest.mark.req("D7", "G2")
def test_blocking_needs_an_account(bare_shell: Shell, me: Person) -> None:
    assert "not on your list" in bare_shell.run("relays", "unblock", "x.example").out
    del bare_shell.variables["POSTRICH_NSEC"]
    result = bare_shell.run("relays", "block", "bad.example")
    assert (result.code, "there is no account" in result.sentence) == (1, True)


@pytest.mark.req("D7", "A6")
def test_without_a_key_at_hand_the_new_list_waits_for_one(
    bare_shell: Shell, me: Person, relay: RelayProcess
) -> None:
    del bare_shell.variables["POSTRICH_NSEC"]
    passphrase = {"POSTRICH_PASSPHRASE": "open"}
    assert bare_shell.run("account", "add", "--name", "me", **passphrase).code == 0
    result = bare_shell.run("relays", "block", "bad.example")
    assert result.code == 3
    assert "is kept as job 1, not signed yet" in result.out
    assert "is locked" in result.err
