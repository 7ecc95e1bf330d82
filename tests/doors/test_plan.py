"""`postrich plan`: where an event goes and why, before anything is sent."""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import Iterator

import pytest

from tests.doors.shell import Shell
from tests.doors.world import Person, describing, settle_in
from tests.relays import RelayProcess, local_relay, nostr_relay
from tests.relays.events import make_event, public_key
from tests.relays.reader import fetch_ids


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


@pytest.fixture
def bob(index: RelayProcess) -> Person:
    return Person(secrets.token_bytes(32), index.url)


def urls(answer: dict[str, object]) -> list[str]:
    relays = answer["relays"]
    assert isinstance(relays, list)
    return [entry["url"].rstrip("/") for entry in relays]


@pytest.mark.req("D2", "D10", "G2")
def test_every_relay_has_its_reason_and_nothing_is_kept(
    bare_shell: Shell, me: Person, bob: Person, relay: RelayProcess, second_relay: RelayProcess
) -> None:
    bob.publish(10002, [["r", second_relay.url, "read"]])
    answer = bare_shell.run("plan", "--json", "hello", "--tag", f"p={bob.pubkey}")
    assert answer.code == 0
    mine, theirs = answer.json["relays"]
    assert (mine["url"], mine["why"], mine["mine"]) == (f"{relay.url}/", "your relay", True)
    assert theirs["url"] == f"{second_relay.url}/"
    assert theirs["why"] == f"inbox of {bob.pubkey[:8]}…"
    assert theirs["inbox_of"] == [bob.pubkey]
    assert theirs["health"] is None
    assert bare_shell.run("queue").out == "The queue is empty.\n"
    shown = bare_shell.run("plan", "hello", "--tag", f"p={bob.pubkey}")
    assert "this event goes to 2 relays" in shown.out
    assert f"inbox of {bob.pubkey[:8]}…" in shown.out
    assert "not used yet" in shown.out
    assert max(map(len, shown.out.splitlines())) <= 80


@pytest.mark.req("D10")
async def test_a_plan_sends_nothing(
    bare_shell: Shell, me: Person, bob: Person, relay: RelayProcess
) -> None:
    before = await fetch_ids(relay.url, {"authors": [me.pubkey]})
    assert bare_shell.finish("plan", "hello", "--tag", f"p={bob.pubkey}").code == 0
    assert await fetch_ids(relay.url, {"authors": [me.pubkey]}) == before == set()


@pytest.mark.req("D7", "D10", "C7")
def test_what_is_left_out_says_why(
    bare_shell: Shell, me: Person, bob: Person, second_relay: RelayProcess
) -> None:
    others = [f"wss://relay{n}.example" for n in range(3)]
    bob.publish(10002, [["r", url] for url in (second_relay.url, *others)])
    me.publish(10006, [["relay", second_relay.url]])
    answer = bare_shell.run("plan", "--json", "hello", "--tag", f"p={bob.pubkey}").json
    left = {entry["url"].rstrip("/"): entry["why"] for entry in answer["left_out"]}
    assert left[second_relay.url] == "you have blocked it (kind 10006)"
    assert len(left) == 2
    shown = bare_shell.run("plan", "hello", "--tag", f"p={bob.pubkey}").out
    _, _, left_out = shown.partition("Left out:\n")
    assert f"  {second_relay.url}: you have blocked it" in left_out


@pytest.mark.req("D3", "D10")
def test_why_it_goes_nowhere_and_what_could_not_be_looked_up(
    bare_shell: Shell, me: Person, bob: Person, dead_relay: str
) -> None:
    wrap = ["plan", "--kind", 1059, "sealed", "--tag", f"p={bob.pubkey}"]
    nowhere = bare_shell.run(*wrap)
    assert nowhere.code == 1
    assert "goes nowhere" in nowhere.out
    assert "no message relays (kind 10050)" in nowhere.out
    bare_shell.variables["POSTRICH_INDEXERS"] = dead_relay
    bare_shell.variables["POSTRICH_RELAYS"] = dead_relay
    stranger = public_key(secrets.token_bytes(32))
    unknown = bare_shell.run("plan", "--kind", 1059, "sealed", "--tag", f"p={stranger}")
    assert unknown.code == 3
    assert "waits until relay lists can be read" in unknown.out
    note = bare_shell.run("plan", "hi", "--json", "--tag", f"p={stranger}")
    assert note.code == 0
    assert stranger in note.json["unresolved"]
    assert (
        "Could not look up the relay list of npub1"
        in bare_shell.run("plan", "hi", "--tag", f"p={stranger}").out
    )


@pytest.mark.req("D10", "C10")
def test_a_job_is_planned_with_what_became_of_it(
    bare_shell: Shell, me: Person, relay: RelayProcess, dead_relay: str
) -> None:
    bare_shell.post("hello")
    bare_shell.post("--no-wait", "--relay", dead_relay, "there")
    first = bare_shell.run("plan", "--job", 1)
    assert "job 1 goes to 1 relay" in first.out
    assert "delivered" in first.out
    assert "took 100%" in first.out
    named = bare_shell.run("plan", "--job", 2, "--json").json
    assert urls(named) == [dead_relay.rstrip("/")]
    assert named["relays"][0]["why"] == "named for this event"
    health = bare_shell.run("plan", "--job", 1, "--json").json["relays"][0]["health"]
    assert (health["reachable"], health["taken"]) == (True, 1.0)


@pytest.mark.req("D11", "D10")
def test_a_job_shows_what_a_new_list_adds(
    bare_shell: Shell, me: Person, second_relay: RelayProcess
) -> None:
    bare_shell.post("hello")
    me.publish(10002, [["r", second_relay.url]])
    bare_shell.run("relays", "--refresh")
    shown = bare_shell.run("plan", "--job", 1).out
    assert "to be added" in shown
    assert "delivered" in shown


@pytest.mark.req("D10")
def test_an_event_is_planned_from_a_file_and_from_stdin(
    bare_shell: Shell, me: Person, relay: RelayProcess, dead_relay: str
) -> None:
    event = make_event(None, 1, "by somebody else")
    file = bare_shell.home / "event.json"
    file.write_text(json.dumps(event))
    for arguments, body in ((["--event", file], ""), (["--event", "-"], json.dumps(event))):
        answer = bare_shell.run("plan", "--json", *arguments, stdin=body).json
        assert (answer["event_id"], urls(answer)) == (event["id"], [relay.url])
    named = bare_shell.run("plan", "--json", "--event", file, "--relay", dead_relay).json
    assert urls(named) == [dead_relay.rstrip("/")]


@pytest.mark.req("C5", "D10")
def test_check_asks_what_a_relay_takes(bare_shell: Shell, me: Person) -> None:
    with nostr_relay(max_event_size=4096) as strict:
        relay = ["--relay", strict.url, "--check"]
        fits = bare_shell.run("plan", "short", *relay)
        assert "yes" in fits.out
        entry = bare_shell.run("plan", "x" * 9000, "--json", *relay).json["relays"][0]
        assert entry["info"]["software"]
        limit = entry["info"]["limitation"]["max_message_length"]
        assert (limit is None or limit >= 9000) or "bytes; it takes" in entry["objection"]


@pytest.mark.req("C5", "D10")
async def test_an_objection_of_the_relay_is_shown(bare_shell: Shell, me: Person) -> None:
    limits = {"max_content_length": 10, "min_pow_difficulty": 8, "auth_required": True}
    async with describing({"name": "strict", "limitation": limits}) as url:
        asked = ["plan", "--check", "--relay", url]
        long = await asyncio.to_thread(bare_shell.finish, *asked, "far too long a text")
        short = await asyncio.to_thread(bare_shell.finish, *asked, "--json", "short")
    assert "no: 19 characters; it takes 10" in " ".join(long.out.split())
    assert "wants 8 bits of work" in short.json["relays"][0]["objection"]


@pytest.mark.req("D4", "D10")
def test_a_protected_event_says_so(bare_shell: Shell, me: Person) -> None:
    assert "protected (NIP-70)" in bare_shell.run("plan", "mine", "--tag", '["-"]').out


@pytest.mark.req("G2")
@pytest.mark.parametrize(
    "arguments",
    [
        ["hello", "--job", "1"],
        ["--event", "-", "--job", "1"],
        ["--kind", "7", "--event", "-"],
        ["--job", "1", "--relay", "wss://x.example"],
        ["hello", "--relay", "not a url"],
    ],
)
def test_what_makes_no_sense_is_a_usage_error(
    bare_shell: Shell, me: Person, arguments: list[str]
) -> None:
    result = bare_shell.run("plan", *arguments)
    assert result.code == 2
    assert "--help`" in result.sentence


@pytest.mark.req("G2", "A15")
def test_what_cannot_be_planned_is_one_sentence(
    bare_shell: Shell, me: Person, tmp_path_factory: pytest.TempPathFactory
) -> None:
    lines = tmp_path_factory.mktemp("many") / "many.jsonl"
    lines.write_text("\n".join(json.dumps(make_event()) for _ in range(2)))
    assert "one event" in bare_shell.run("plan", "--event", lines).sentence
    assert "never published" in bare_shell.run("plan", "--kind", 13, "seal").sentence
    assert bare_shell.run("plan", "--job", 99).sentence
    assert "an account's name" in bare_shell.run("plan", "hi", "--as", "nobody").sentence
    del bare_shell.variables["POSTRICH_NSEC"]
    assert "`postrich init` makes one" in bare_shell.run("plan", "hi").sentence
