"""The bunkers do what they say, to a client that nobody here wrote: nostr_sdk's NostrConnect.

What they answer here is what the rest of the tests rely on; a new version that answers otherwise
fails here first. Texts are read with `asker`, which shows responses as they came.
"""

# nostr_sdk ships no type information.
# mypy: disable-error-code="import-untyped"

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from nostr_sdk import Keys, NostrConnect, NostrConnectUri, NostrSdkError, PublicKey, UnsignedEvent

from tests.bunkers import BunkerError, BunkerProcess, ndk_bunker, snstr_bunker
from tests.bunkers.asker import asker
from tests.bunkers.behaviours import (
    FALSE_EVENTS,
    NO_SWITCH,
    NOISE,
    REFUSALS,
    after,
    answer,
    as_stranger,
    both,
    challenges,
    in_turn,
    says,
    silence,
)
from tests.bunkers.makes import full, ndk, scripted, simple
from tests.bunkers.scripted import ScriptedBunker
from tests.relays import RelayProcess, free_port, local_relay
from tests.relays.events import is_valid, public_key
from tests.relays.process import ROOT
from tests.relays.speaker import ALICE

SECRET = "open-sesame"
SECONDS = 10.0
SOON = 1.0
ASKED = ["connect", "get_public_key", "sign_event"]
MENTION = "nostr:npub1sn0wdenkukak0d9dfczzeacvhkrgz92ak56egt7vdgzn8pv2wfqqhrjdv9"

Bunker = BunkerProcess | ScriptedBunker


@pytest.fixture(scope="module")
def relay() -> Iterator[RelayProcess]:
    with local_relay() as running:
        yield running


PROCESSES = [simple, full, ndk]


def client_of(uri: str, keys: Keys | None = None, seconds: float = SECONDS) -> NostrConnect:
    parsed = NostrConnectUri.parse(uri)
    return NostrConnect(parsed, keys or Keys.generate(), timedelta(seconds=seconds), None)


def draft(pubkey: str, content: str = "hello") -> dict[str, Any]:
    tags = [["t", "test"]]
    return {"pubkey": pubkey, "created_at": 5, "kind": 1, "tags": tags, "content": content}


async def sign(client: NostrConnect, pubkey: str, content: str = "hello") -> dict[str, Any]:
    unsigned = UnsignedEvent.from_json(json.dumps(draft(pubkey, content)))
    event: dict[str, Any] = json.loads((await client.sign_event_async(unsigned)).as_json())
    return event


def nostrconnect_uri(relay: RelayProcess, client: str) -> str:
    metadata = quote(json.dumps({"name": "test"}))
    return f"nostrconnect://{client}?relay={quote(relay.url)}&secret={SECRET}&metadata={metadata}"


# What every bunker does


@pytest.mark.parametrize("make", [simple, full, ndk, scripted])
async def test_a_client_gets_the_key_and_a_signature(relay: RelayProcess, make: Any) -> None:
    async with make(relay, secret=SECRET) as bunker:
        client = client_of(bunker.uri)
        assert (await client.get_public_key_async()).to_hex() == bunker.user_pubkey
        event = await sign(client, bunker.user_pubkey)
        assert is_valid(event)
        assert event.items() >= draft(bunker.user_pubkey).items()
        assert bunker.methods() == ASKED
        assert json.loads(bunker.requests[-1].params[0])["content"] == "hello"
        assert len({request.client for request in bunker.requests}) == 1


@pytest.mark.parametrize("make", PROCESSES)
async def test_a_bunker_killed_in_mid_request_comes_back_at_its_uri(
    relay: RelayProcess, make: Any
) -> None:
    keys = Keys.generate()
    async with make(relay, secret=SECRET, delays={"sign_event": 60}) as bunker:
        uri = bunker.uri
        async with asyncio.TaskGroup() as group:
            client = client_of(uri, keys, seconds=SOON)
            signing = group.create_task(fails(sign(client, bunker.user_pubkey)))
            await bunker.wait_for("sign_event")
            await bunker.kill()
        assert signing.result() == "timeout"
        assert not bunker.alive
        await bunker.start()
        assert bunker.uri == uri
        await bunker.change(delays={})
        event = await sign(client_of(uri, keys), bunker.user_pubkey)
        assert is_valid(event)
        assert bunker.methods()[-1] == "sign_event"


@pytest.mark.parametrize("make", PROCESSES)
async def test_a_paused_bunker_answers_when_it_wakes(relay: RelayProcess, make: Any) -> None:
    async with make(relay) as bunker, asyncio.TaskGroup() as group:
        client = client_of(bunker.uri)
        await client.get_public_key_async()
        bunker.pause()
        signing = group.create_task(sign(client, bunker.user_pubkey))
        with pytest.raises(BunkerError, match="no 1 × sign_event"):
            await bunker.wait_for("sign_event", seconds=0.3)
        bunker.resume()
        assert is_valid(await signing)


@pytest.mark.parametrize("launch", [snstr_bunker, ndk_bunker])
async def test_one_relay_of_two_may_be_down(relay: RelayProcess, launch: Any) -> None:
    relays = [relay.url, f"ws://127.0.0.1:{free_port()}"]
    async with launch(relays) as bunker, asker(bunker.uri) as client:
        assert (await client.connect())["result"] == "ack"


@pytest.mark.parametrize("make", [simple, ndk])
async def test_a_bunker_without_a_relay_says_so(make: Any) -> None:
    with local_relay() as gone:
        bunker = make(gone)
    with pytest.raises(BunkerError, match=r"ended:[\s\S]*(no relay of|Failed to connect)"):
        await bunker.start()
    assert not bunker.alive


async def fails(work: Any) -> str:
    """The text of the client library's error."""
    with pytest.raises(NostrSdkError) as caught:
        await work
    return str(caught.value).strip("'")


# Exact texts


def refused(text: str) -> dict[str, str]:
    return {"error": text}


def refused_by_ndk(text: str) -> dict[str, str]:
    return {"result": "error", "error": text}


def refused_in_full(code: str, message: str) -> dict[str, str]:
    return {"error": json.dumps({"code": code, "message": message}, separators=(",", ":"))}


DENIED = "Permission denied for signing events"
NO_METHOD = "METHOD_NOT_SUPPORTED"
NOT_AUTHORIZED = refused_by_ndk("Not authorized")

Answers = dict[str, dict[str, Any]]

#: What a client that has connected is told, where signing is refused.
ANSWERS: dict[Any, Answers] = {
    simple: {
        "sign_event": refused("Not authorized to sign kind 1 events"),
        "ping": {"result": "pong"},
        "switch_relays": refused("Unknown method: switch_relays"),
        "logout": refused("Unknown method: logout"),
    },
    full: {
        "sign_event": refused_in_full("PERMISSION_DENIED", DENIED),
        "ping": {"result": "pong"},
        "switch_relays": refused_in_full(NO_METHOD, "Method switch_relays is not supported"),
        "logout": refused_in_full(NO_METHOD, "Method logout is not supported"),
    },
    ndk: {
        "sign_event": NOT_AUTHORIZED,
        "ping": {"result": "pong"},
        "logout": NOT_AUTHORIZED,
    },
    scripted: {
        "sign_event": refused("no"),
        "switch_relays": {"result": None},
        "logout": {"result": "ack"},
        "get_relays": refused("unknown method: get_relays"),
    },
}

#: What a client is told that never connected: after a restart snstr forgets those who did.
STRANGERS: dict[Any, Answers] = {
    simple: {
        "get_public_key": refused("Unauthorized"),
        "ping": refused("Unauthorized"),
        "sign_event": refused("Unauthorized"),
    },
    full: {
        "ping": {"result": "pong"},
        "sign_event": refused_in_full("PERMISSION_DENIED", DENIED),
    },
    ndk: {"ping": NOT_AUTHORIZED, "sign_event": NOT_AUTHORIZED},
}

#: What is said to a secret that is not the one.
WRONG_SECRETS: dict[Any, dict[str, Any]] = {
    simple: refused("Invalid secret"),
    full: refused_in_full("INVALID_SECRET", "Invalid secret provided"),
    ndk: refused_by_ndk("Invalid token"),
    scripted: refused("invalid secret"),
}


async def told(bunker: Bunker, method: str, *, connected: bool) -> dict[str, Any]:
    """A response without its id."""
    async with asker(bunker.uri) as client:
        if connected:
            assert (await client.connect())["result"] in {"ack", SECRET}
        params = [json.dumps(draft(bunker.user_pubkey))] if method == "sign_event" else []
        response: dict[str, Any] = await client.ask(method, *params)
        assert response.pop("id")
        return response


@pytest.mark.parametrize("make", ANSWERS)
async def test_what_a_client_is_told(relay: RelayProcess, make: Any) -> None:
    plays = {"plays": {"sign_event": says(error="no")}}
    options: dict[str, Any] = plays if make is scripted else {"refuse": ["sign_event"]}
    async with make(relay, secret=SECRET, **options) as bunker:
        heard = {method: await told(bunker, method, connected=True) for method in ANSWERS[make]}
        assert heard == ANSWERS[make]


@pytest.mark.parametrize("make", STRANGERS)
async def test_what_a_stranger_is_told(relay: RelayProcess, make: Any) -> None:
    options: dict[str, Any] = {"known": []} if make is ndk else {}
    async with make(relay, secret=SECRET, **options) as bunker:
        heard = {method: await told(bunker, method, connected=False) for method in STRANGERS[make]}
        assert heard == STRANGERS[make]


@pytest.mark.parametrize("make", WRONG_SECRETS)
async def test_what_a_wrong_secret_is_told(relay: RelayProcess, make: Any) -> None:
    async with make(relay, secret=SECRET) as bunker, asker(bunker.uri) as client:
        heard = await client.ask("connect", client.signer, "not-the-secret")
        assert {**WRONG_SECRETS[make], "id": heard["id"]} == heard


async def test_a_policy_can_change_while_a_bunker_runs(relay: RelayProcess) -> None:
    async with simple(relay, refuse=["sign_event"]) as bunker:
        client = client_of(bunker.uri)
        assert "Not authorized" in await fails(sign(client, bunker.user_pubkey))
        await bunker.change(refuse=[])
        assert "Not authorized" in await fails(sign(client, bunker.user_pubkey))
        # snstr took the permission away; a client that connects anew has it.
        assert is_valid(await sign(client_of(bunker.uri), bunker.user_pubkey))


# What only some do


async def test_snstr_echoes_the_secret_and_takes_it_again_and_again(relay: RelayProcess) -> None:
    async with simple(relay, secret=SECRET) as bunker:
        for _ in range(2):
            async with asker(bunker.uri) as client:
                assert (await client.connect())["result"] == SECRET


async def test_ndk_adds_tags_to_what_it_signs(relay: RelayProcess) -> None:
    """Why a client must compare what comes back with what it sent."""
    async with ndk(relay) as bunker:
        event = await sign(client_of(bunker.uri), bunker.user_pubkey, f"#nostr {MENTION}")
        mentioned = PublicKey.parse(MENTION.removeprefix("nostr:")).to_hex()
        assert event["tags"] == [["t", "test"], ["p", mentioned], ["t", "nostr"]]


async def test_ndk_lists_its_relays(relay: RelayProcess) -> None:
    async with ndk(relay) as bunker:
        response = await told(bunker, "switch_relays", connected=True)
        assert json.loads(response["result"]) == [relay.url]


async def test_ndk_knows_its_friends_after_a_restart(relay: RelayProcess) -> None:
    async with ndk(relay, secret=SECRET, known=[public_key(ALICE)]) as bunker:
        for _ in range(2):
            async with asker(bunker.uri, ALICE) as client:
                assert (await client.ask("ping"))["result"] == "pong"
            await bunker.restart()


@pytest.mark.parametrize("make", [ndk, scripted])
async def test_a_signer_answers_a_nostrconnect_uri(relay: RelayProcess, make: Any) -> None:
    keys = Keys.generate()
    uri = nostrconnect_uri(relay, keys.public_key().to_hex())
    async with make(relay) as bunker, asyncio.TaskGroup() as group:
        asking = group.create_task(client_of(uri, keys).get_public_key_async())
        while not asking.done():  # until the client listens: nothing shows when it begins to
            await bunker.nostrconnect(uri)
            await asyncio.wait([asking], timeout=0.2)
        assert asking.result().to_hex() == bunker.user_pubkey


async def test_snstr_cannot_be_given_a_nostrconnect_uri(relay: RelayProcess) -> None:
    async with simple(relay) as bunker:
        with pytest.raises(BunkerError, match="told to nostrconnect"):
            await bunker.nostrconnect(nostrconnect_uri(relay, "0" * 64))


async def test_ndk_sends_to_a_page_and_answers_once_approved(relay: RelayProcess) -> None:
    url = "https://bunker.example/approve"
    async with ndk(relay, auth_url=url) as bunker, asker(bunker.uri) as client:
        first = await client.connect()
        assert (first["result"], first["error"]) == ("auth_url", url)
        await bunker.approve()
        assert await client.response() == {"id": first["id"], "result": "ack"}


async def test_snstr_challenges_in_a_form_of_its_own(relay: RelayProcess) -> None:
    url = "https://bunker.example/approve"
    async with full(relay, auth_url=url) as bunker, asker(bunker.uri) as client:
        first = await client.connect()
        assert first["result"] == "auth_required"
        assert first["auth_url"].startswith(f"{url}?challenge=")
        await bunker.approve(client.pubkey)
        assert (await client.connect())["result"] == "ack"


async def test_full_snstr_drops_a_request_id_it_has_seen(relay: RelayProcess) -> None:
    async with full(relay) as bunker, asker(bunker.uri) as client:
        await client.connect()
        assert (await client.ask("ping", identity="same"))["id"] == "same"
        await client.request("ping", identity="same")
        assert (await client.ask("ping", identity="other"))["id"] == "other"


async def test_full_snstr_limits_a_burst_without_naming_the_request(relay: RelayProcess) -> None:
    async with full(relay, burst=1) as bunker, asker(bunker.uri) as client:
        await client.connect()
        limited = {"id": "unknown", "error": "Rate limit exceeded Retry after 10 seconds."}
        assert await client.ask("ping") == limited


# Scripted


@pytest.mark.parametrize("fault", FALSE_EVENTS)
async def test_false_events_are_false(relay: RelayProcess, fault: str) -> None:
    async with scripted(relay, plays={"sign_event": FALSE_EVENTS[fault]}) as bunker:
        response = await told(bunker, "sign_event", connected=True)
        assert response.keys() <= {"result"}
        assert not is_the_draft(response.get("result"), draft(bunker.user_pubkey))


def is_the_draft(result: object, wanted: dict[str, Any]) -> bool:
    try:
        event = json.loads(str(result))
        return event.items() >= wanted.items() and is_valid(event)
    except (ValueError, AttributeError, TypeError):
        return False


@pytest.mark.parametrize("form", REFUSALS)
async def test_refusals_carry_an_error(relay: RelayProcess, form: str) -> None:
    async with scripted(relay, plays={"sign_event": REFUSALS[form]}) as bunker:
        assert "error" in await told(bunker, "sign_event", connected=True)


@pytest.mark.parametrize("noise", NOISE)
async def test_noise_comes_before_the_answer(relay: RelayProcess, noise: str) -> None:
    plays = {"get_public_key": both(NOISE[noise], answer)}
    async with scripted(relay, plays=plays) as bunker, asker(bunker.uri) as client:
        heard = await client.ask("get_public_key", identity="mine")
        true = {"id": "mine", "result": bunker.user_pubkey}
        assert heard != true or noise == "a stranger"
        assert await client.response() == true


async def test_a_stranger_signs_as_a_stranger(relay: RelayProcess) -> None:
    async with scripted(relay, plays={"ping": as_stranger}) as bunker, asker(bunker.uri) as client:
        await client.request("ping")
        assert (await client.event())["pubkey"] not in {bunker.signer_pubkey, bunker.user_pubkey}


@pytest.mark.parametrize("form", NO_SWITCH)
async def test_answers_to_switch_relays(relay: RelayProcess, form: str) -> None:
    async with scripted(relay, plays={"switch_relays": NO_SWITCH[form]}) as bunker:
        assert await told(bunker, "switch_relays", connected=True)


async def test_behaviours_in_turn_and_after_a_while(relay: RelayProcess) -> None:
    plays = {"ping": in_turn(silence, says(error="not now"), after(0.05))}
    async with scripted(relay, plays=plays) as bunker, asker(bunker.uri) as client:
        await client.request("ping")
        assert (await client.ask("ping"))["error"] == "not now"
        for _ in range(2):
            assert (await client.ask("ping"))["result"] == "pong"
        assert bunker.methods() == ["ping"] * 4
        times = [request.at for request in bunker.requests]
        assert times == sorted(times)


async def test_a_challenge_waits_for_the_user(relay: RelayProcess) -> None:
    plays = {"connect": challenges("https://bunker.example")}
    async with scripted(relay, plays=plays) as bunker, asker(bunker.uri) as client:
        first = await client.connect()
        assert first["result"] == "auth_url"
        bunker.go()
        assert await client.response() == {"id": first["id"], "result": "ack"}


async def test_a_scripted_bunker_survives_its_relay_and_can_go_away() -> None:
    with local_relay() as relay:
        async with scripted(relay) as bunker:
            await relay.arestart()
            await bunker.reachable()
            client = client_of(bunker.uri)
            assert (await client.get_public_key_async()).to_hex() == bunker.user_pubkey
            await bunker.stop()
            assert await fails(client_of(bunker.uri, seconds=SOON).get_public_key_async())
            await bunker.start()
            assert (await client.get_public_key_async()).to_hex() == bunker.user_pubkey


async def test_a_scripted_bunker_that_cannot_play_fails_the_test(relay: RelayProcess) -> None:
    bunker = scripted(relay, plays={"ping": FALSE_EVENTS["other content"]})
    await bunker.start()
    async with asker(bunker.uri) as client:
        await client.request("ping")
        await bunker.wait_for("ping")
    with pytest.raises(BunkerError, match="could not play"):
        await bunker.stop()


# No process is left behind, and none is missed in silence

LAUNCHER = """
import asyncio, sys
from tests.bunkers import ndk_bunker

async def main():
    async with ndk_bunker([sys.argv[1]]) as bunker:
        if sys.argv[2] == "paused":
            bunker.pause()
        print(bunker.pid, flush=True)
        await asyncio.sleep(60)

asyncio.run(main())
"""


@pytest.mark.parametrize("state", ["running", "paused"])
def test_a_bunker_ends_with_its_launcher(relay: RelayProcess, state: str) -> None:
    command = [sys.executable, "-c", LAUNCHER, relay.url, state]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as launcher:
        assert launcher.stdout is not None
        pid = int(launcher.stdout.readline())
        os.kill(pid, 0)
        launcher.send_signal(signal.SIGKILL)
    deadline = time.monotonic() + SECONDS
    while is_running(pid):
        assert time.monotonic() < deadline, "the bunker outlived its launcher"
        time.sleep(0.05)


def is_running(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


async def test_a_missing_node_is_a_skip_with_a_reason(
    relay: RelayProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    bunker = simple(relay)
    monkeypatch.setenv("PATH", "")
    with pytest.raises(pytest.skip.Exception, match="no node"):
        await bunker.start()
