"""`postrich lists`: what people published, what of it is no use, and what nobody could tell."""

from __future__ import annotations

import secrets
import ssl
import subprocess
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from nostr_sdk import Keys, Nip19Profile, PublicKey, RelayUrl

from tests.doors.shell import Shell
from tests.doors.world import Person, settle_in
from tests.relays import RelayProcess, local_relay
from tests.relays.events import public_key


@pytest.fixture(scope="module")
def index() -> Iterator[RelayProcess]:
    with local_relay() as running:
        yield running


@pytest.fixture
def home(bare_shell: Shell, index: RelayProcess) -> Shell:
    settle_in(bare_shell, index, secret=secrets.token_bytes(32))
    return bare_shell


@pytest.fixture
def bob(index: RelayProcess) -> Person:
    return Person(secrets.token_bytes(32), index.url)


def by_kind(shell: Shell, name: str, *more: str) -> dict[int, dict[str, object]]:
    answer = shell.run("lists", "--json", name, *more).json
    return {entry["kind"]: entry for entry in answer["lists"]}


@pytest.mark.req("D1", "G2")
def test_lists_with_their_age_and_what_was_refused(home: Shell, bob: Person) -> None:
    tags = [
        ["r", "wss://both.example"],
        ["r", "wss://read.example", "read"],
        ["r", "wss://write.example", "write"],
        ["r", "wss://user@"],
        ["r"],
    ]
    bob.publish(10002, tags, at=int(time.time()) - 3 * 86_400)
    bob.publish(10050, [["relay", "wss://messages.example"]])
    bob.publish(10006, [], "encrypted")
    bob.publish(10009, [["group", "cats", "wss://groups.example"]])
    shown = home.run("lists", bob.pubkey)
    assert shown.code == 0
    for text in (
        "published 3 days ago",
        "both.example  read and write",
        "read.example  read\n",
        "write.example  write\n",
        "wss://user@: not used: ",
        "(empty): not used: ",
        "  messages.example\n",
        "groups.example  group cats",
        "it is empty",
        "an encrypted part, which only its owner can read",
        "None published (looked ",
        "search relays (10007)",
    ):
        assert text in shown.out, text
    found = by_kind(home, bob.pubkey)
    assert found[10002]["status"] == "found"
    assert found[10007]["status"] == "none published"
    assert found[10006]["encrypted"] is True


@pytest.mark.req("D1", "D3")
def test_none_published_is_not_could_not_look(home: Shell, bob: Person, dead_relay: str) -> None:
    assert "None published (looked just now): relays (10002)" in home.run("lists", bob.pubkey).out
    home.variables["POSTRICH_INDEXERS"] = dead_relay
    other = public_key(secrets.token_bytes(32))
    unknown = home.run("lists", other)
    assert unknown.code == 3
    assert "Could not look for: relays (10002)" in unknown.out
    assert "connection refused" in unknown.out
    assert "None published" not in unknown.out
    assert by_kind(home, other)[10002]["status"] == "could not look"


@pytest.mark.req("D1")
def test_what_is_known_is_kept_until_it_is_refreshed(
    home: Shell, bob: Person, dead_relay: str
) -> None:
    bob.publish(10002, [["r", "wss://first.example"]], at=int(time.time()) - 10)
    assert "first.example" in home.run("lists", bob.pubkey).out
    bob.publish(10002, [["r", "wss://second.example"]])
    assert "first.example" in home.run("lists", bob.pubkey).out
    refreshed = home.run("lists", bob.pubkey, "--refresh").out
    assert "second.example" in refreshed
    assert "first.example" not in refreshed
    home.variables["POSTRICH_INDEXERS"] = dead_relay
    offline = home.run("lists", bob.pubkey, "--refresh").out
    assert "second.example" in offline
    assert "could not look again: " in offline


@pytest.mark.req("D1", "G2")
def test_people_go_by_many_names(home: Shell, bob: Person, index: RelayProcess) -> None:
    key = PublicKey.parse(bob.pubkey)
    profile = Nip19Profile(key, [RelayUrl.parse(index.url)]).to_bech32()
    for name in (bob.pubkey, key.to_bech32(), f"nostr:{key.to_bech32()}", profile):
        assert home.run("lists", "--json", name).json["pubkey"] == bob.pubkey
    with_hint = home.run("lists", profile).out
    assert f"said to be found at {index.url}" in with_hint
    assert home.run("account", "add", "--name", "cat", POSTRICH_PASSPHRASE="x").code == 0
    assert home.run("lists", "--json", "cat").json["name"] == "cat"


@pytest.mark.req("G2", "B7")
@pytest.mark.parametrize("name", ["nobody", "npub1broken", "ab" * 31, "zz" * 32, "nprofile1x"])
def test_who_is_nobody_is_told_so(home: Shell, name: str) -> None:
    result = home.run("lists", name)
    assert result.code == 1
    assert "give an npub" in result.sentence


@pytest.mark.req("A16", "B7")
def test_a_secret_key_is_not_repeated(home: Shell) -> None:
    secret = Keys.generate().secret_key().to_bech32()
    result = home.run("lists", secret)
    assert "secret key" in result.sentence
    assert secret not in result.err


# -- names at domains --------------------------------------------------------------------------


class _Names(BaseHTTPRequestHandler):
    body = b"{}"

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(self.body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def domain(tmp_path: Path, bob: Person, home: Shell) -> Iterator[str]:
    """A domain with a certificate that the shell believes, where bob has a name."""
    certificate = tmp_path / "certificate.pem"
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 1"
    command += " -subj /CN=localhost -addext subjectAltName=DNS:localhost"
    command += f" -keyout {certificate}.key -out {certificate}"
    subprocess.run(command.split(), check=True, capture_output=True)
    names = f'{{"names":{{"bob":"{bob.pubkey}"}},"relays":{{"{bob.pubkey}":["{bob.index}"]}}}}'
    handler = type("Bobs", (_Names,), {"body": names.encode()})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, f"{certificate}.key")
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    home.variables["SSL_CERT_FILE"] = str(certificate)
    try:
        yield f"localhost:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.req("D6", "G2")
def test_a_name_at_a_domain_is_asked_for(home: Shell, bob: Person, domain: str) -> None:
    bob.publish(10002, [["r", "wss://bobs.example"]])
    found = home.finish("lists", f"bob@{domain}")
    assert found.code == 0, found
    assert "bobs.example" in found.out
    assert "(a hint: nothing is sent there for it)" in found.out
    nobody = home.finish("lists", f"eve@{domain}")
    assert "knows nobody of the name eve; give an npub instead" in nobody.sentence
    assert home.finish("lists", "e e@localhost").code == 2


@pytest.mark.req("D6", "C11")
def test_a_name_does_not_lead_inside(home: Shell, domain: str) -> None:
    file = home.home / "postrich.toml"
    file.write_text(file.read_text().replace("trust_lists = true\n", ""))
    refused = home.finish("lists", f"bob@{domain}")
    assert refused.code == 1
    assert "a name of a local network" in refused.sentence
