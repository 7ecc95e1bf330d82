"""A shell in a fresh home, and real relays for it."""

from __future__ import annotations

import asyncio
import re
import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.doors.shell import Shell
from tests.relays import RelayProcess, free_port, local_relay
from tests.store.servers import new_dsn


@pytest.fixture(scope="session")
def relay() -> Iterator[RelayProcess]:
    """A real relay for the whole session; every test has a key of its own."""
    with local_relay(refuse_contents=["unwelcome"]) as running:
        yield running


@pytest.fixture(scope="session")
def second_relay() -> Iterator[RelayProcess]:
    with local_relay() as running:
        yield running


@pytest.fixture
def dead_relay() -> str:
    """The URL of a relay that is not there."""
    return f"ws://127.0.0.1:{free_port()}/"


@pytest.fixture
def bare_shell(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Shell:
    """A home that is not there yet."""
    return Shell(tmp_path / "home", capsys, monkeypatch)


@pytest.fixture
def database(request: pytest.FixtureRequest) -> str:
    """The address of a PostgreSQL database without an outbox in it."""
    name = re.sub(r"\W", "", request.node.name)[-20:].lower()
    return asyncio.run(new_dsn(name))


@pytest.fixture
def shared_shell(bare_shell: Shell, relay: RelayProcess, database: str) -> Shell:
    """A home whose outbox is in a database that others may share."""
    bare_shell.variables["POSTRICH_NSEC"] = secrets.token_hex(32)
    arguments = ("--no-key", "--relay", relay.url, "--store", database)
    assert bare_shell.run("init", *arguments).code == 0
    return bare_shell


@pytest.fixture
def shell(bare_shell: Shell, relay: RelayProcess) -> Shell:
    """A home with one relay and, in the environment, a key."""
    bare_shell.variables["POSTRICH_NSEC"] = secrets.token_hex(32)
    assert bare_shell.run("init", "--no-key", "--relay", relay.url).code == 0
    return bare_shell
