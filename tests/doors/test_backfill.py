"""`postrich backfill`: past events at a new relay, also after a kill in the middle."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Iterator
from pathlib import Path
from signal import SIGINT, SIGKILL
from typing import Any

import pytest

from tests.doors.shell import Shell
from tests.doors.world import Person, put, settle_in
from tests.relays import RelayProcess, local_relay
from tests.relays.conversation import Client
from tests.relays.events import Event, make_event
from tests.relays.reader import fetch_ids
from tests.relays.script import Script, select
from tests.relays.scripted import ScriptedRelay
from tests.relays.scripts import accept

START = int(time.time()) - 30 * 86_400


@pytest.fixture(scope="module")
def index() -> Iterator[RelayProcess]:
    with local_relay() as running:
        yield running


@pytest.fixture
def old() -> Iterator[RelayProcess]:
    with local_relay() as running:
        yield running


@pytest.fixture
def new() -> Iterator[RelayProcess]:
    with local_relay(refuse_contents=["unwelcome"]) as running:
        yield running


@pytest.fixture
def me(bare_shell: Shell, index: RelayProcess, old: RelayProcess, new: RelayProcess) -> Person:
    """Somebody whose write relays are the old and the new one."""
    person = Person(secrets.token_bytes(32), index.url)
    settle_in(bare_shell, index, secret=person.secret)
    person.publish(
        10002, [["r", old.url], ["r", new.url, "write"], ["r", "wss://x.example", "read"]]
    )
    return person


def notes(person: Person, number: int, at: int = START) -> list[Event]:
    return [make_event(person.secret, 1, f"note {n}", (), at + n * 60) for n in range(number)]


async def held(relay: RelayProcess, person: Person) -> set[str]:
    return await fetch_ids(relay.url, {"authors": [person.pubkey], "kinds": [1, 5]}, within=30)


def ids(events: list[Event]) -> set[str]:
    return {event["id"] for event in events}


@pytest.mark.req("D11", "G2")
async def test_the_write_relays_of_the_account_are_read(
    bare_shell: Shell, me: Person, old: RelayProcess, new: RelayProcess
) -> None:
    events = notes(me, 30)
    gone = make_event(me.secret, 1, "gone", (), START)
    deletion = make_event(me.secret, 5, "", [["e", gone["id"]]], START + 1)
    bad = make_event(me.secret, 1, "unwelcome", (), START + 2)
    put(old.url, [*events, deletion, bad])
    put(new.url, events[:5])
    first = bare_shell.finish("backfill", new.url, "--rate", 1000, "--wait")
    assert first.code == 1, first
    assert "Found 32 events of npub1" in first.out
    assert "27 new" not in first.out
    assert f"26 new at {new.url}, 5 there already" in first.out
    assert "1 refused: blocked: content not welcome" in first.out
    assert await held(new, me) == ids([*events, deletion])
    second = bare_shell.finish("backfill", new.url, "--wait", "--json")
    assert (second.json["sources"], second.json["new"]) == ([f"{old.url}/"], 0)
    assert second.json["found"] <= 2


@pytest.mark.req("D11", "B8")
async def test_killed_in_the_middle_it_goes_on(
    bare_shell: Shell, me: Person, old: RelayProcess, new: RelayProcess
) -> None:
    events = notes(me, 2000)
    put(old.url, events)
    folder = bare_shell.home / "backfill"
    with bare_shell.start("backfill", new.url, "--rate", 250) as running:
        _until(lambda: any(folder.glob("*.json")))
        while not await held(new, me):
            await asyncio.sleep(0.02)
        running.stop(SIGKILL)
    assert 0 < len(await held(new, me)) < 2000
    resumed = bare_shell.finish("backfill", new.url, "--rate", 5000, "--wait", "--json")
    assert resumed.code == 0, resumed
    assert resumed.json["resumed"]
    assert resumed.json["found"] < 2000
    assert await held(new, me) == ids(events)
    assert not list(folder.glob(".*"))


def _until(condition: object) -> None:
    deadline = time.monotonic() + 30
    assert callable(condition)
    while not condition():
        assert time.monotonic() < deadline, "it never came"
        time.sleep(0.01)


@pytest.mark.req("D11", "G2")
def test_ctrl_c_is_no_disaster(
    bare_shell: Shell, me: Person, old: RelayProcess, new: RelayProcess
) -> None:
    put(old.url, notes(me, 700))
    folder = bare_shell.home / "backfill"
    with bare_shell.start("backfill", new.url, "--rate", 250) as running:
        _until(lambda: any(folder.glob("*.json")))
        stopped = running.stop(SIGINT)
    assert stopped.code == 130
    assert "Traceback" not in stopped.err
    assert bare_shell.finish("backfill", new.url, "--rate", 5000, "--wait").code == 0


@pytest.mark.req("D11", "A13")
def test_what_the_relay_does_not_take_now_is_queued(
    bare_shell: Shell, me: Person, old: RelayProcess, dead_relay: str
) -> None:
    put(old.url, notes(me, 3))
    queued = bare_shell.run("backfill", dead_relay, "--from", old.url)
    assert queued.code == 3
    assert "3 queued: `postrich serve` goes on delivering" in queued.out
    jobs = bare_shell.run("queue", "--json").json["jobs"]
    assert {job["priority"] for job in jobs} == {3}
    assert {job["policy"]["name"] for job in jobs} == {"offline"}


@pytest.mark.req("D11")
async def test_somebody_elses_events_from_named_relays(
    bare_shell: Shell, me: Person, index: RelayProcess, old: RelayProcess, new: RelayProcess
) -> None:
    bob = Person(secrets.token_bytes(32), index.url)
    events = notes(bob, 10)
    put(old.url, [*events, make_event(bob.secret, 7, "+", (), START)])
    arguments = ["--author", bob.pubkey, "--from", old.url, "--kinds", "1", "--since", START + 61]
    result = bare_shell.finish("backfill", new.url, "--wait", *arguments)
    assert result.code == 0, result
    assert await held(new, bob) == ids(events[2:])


@pytest.mark.req("D11")
async def test_what_a_source_did_wrong_is_told(bare_shell: Shell, me: Person) -> None:
    crowd = [make_event(me.secret, 1, f"{n}", (), START) for n in range(30)]
    forged = make_event(me.secret, 1, "forged", (), START + 1) | {"sig": "ab" * 64}
    versions = [make_event(me.secret, 0, f"{n}", (), START + 10 + n) for n in range(2)]

    async def a_few(client: Client, subscription: str, filters: list[dict[str, Any]]) -> None:
        for event in select([*crowd, forged, *versions], filters)[:15]:
            await client.send("EVENT", subscription, event)
        await client.send("EOSE", subscription)

    async with ScriptedRelay(Script(on_request=a_few)) as liar, ScriptedRelay(accept) as target:
        arguments = ["backfill", target.url, "--from", liar.url, "--rate", 1000, "--wait"]
        result = await asyncio.to_thread(bare_shell.finish, *arguments)
    assert result.code == 0, result
    assert "forged or damaged, and not copied" in result.out
    assert "1 not sent: a newer version is known" in result.out
    assert f"{liar.url} may have more of 20" in result.out


@pytest.mark.req("D11", "G2")
def test_what_cannot_be_done_is_one_sentence(
    bare_shell: Shell, me: Person, new: RelayProcess, index: RelayProcess, dead_relay: str
) -> None:
    stranger = Person(secrets.token_bytes(32), index.url)
    for arguments, code, said in (
        ([new.url, "--author", stranger.pubkey], 1, "name where to read from with --from"),
        ([new.url, "--author", "nobody"], 1, "nobody is known as"),
        ([new.url, "--since", "soon"], 2, "--since"),
        ([new.url, "--kinds", "a,b"], 2, "--kinds"),
        ([new.url, "--from", new.url], 2, "cannot be copied to itself"),
        ([new.url, "--rate", "0"], 2, "--rate"),
        (["not a url"], 2, "RELAY"),
    ):
        result = bare_shell.run("backfill", *arguments)
        assert (result.code, said in result.sentence) == (code, True), result
    silent = bare_shell.run("backfill", new.url, "--from", dead_relay)
    assert silent.code == 3
    assert "could not be read to its end (connection refused)" in silent.out
    bare_shell.variables["POSTRICH_INDEXERS"] = dead_relay
    lost = bare_shell.run("backfill", new.url, "--author", secrets.token_bytes(32).hex())
    assert lost.code == 1


@pytest.mark.req("G2")
def test_times_are_read_as_people_write_them(tmp_path: Path) -> None:
    from postrich.doors.cli.backfilling import kinds_meant, since_meant

    now = 1_700_000_000_000
    assert since_meant(None, now) is None
    assert since_meant("30d", now) == 1_700_000_000 - 30 * 86_400
    assert since_meant("1690000000", now) == 1_690_000_000
    assert since_meant("2023-01-01T00:00:00+00:00", now) == 1_672_531_200
    assert since_meant("2023-01-01", now) is not None
    assert kinds_meant(" 7, 1,1 ") == (1, 7)
    assert kinds_meant(None) == ()
