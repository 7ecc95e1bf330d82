"""Passphrases at a terminal: asked for when needed, twice when new, and never shown."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.doors.shell import Shell
from tests.doors.terminal import Terminal
from tests.relays import RelayProcess
from tests.relays.events import make_event

PASSPHRASE = "open sesame 42"


@pytest.mark.req("A16", "G2")
def test_init_asks_twice_and_post_asks_once(bare_shell: Shell, relay: RelayProcess) -> None:
    with Terminal(bare_shell, "init", "--relay", relay.url) as terminal:
        terminal.answer("A passphrase for your key: ", PASSPHRASE)
        terminal.answer("The same again: ", PASSPHRASE)
        assert terminal.end() == 0
        assert "You are npub1" in terminal.shown
        assert PASSPHRASE not in terminal.shown
    with Terminal(bare_shell, "post", "asked at a terminal") as terminal:
        terminal.answer("Passphrase of your key: ", PASSPHRASE)
        assert terminal.end() == 0
        assert "published as job 1" in terminal.shown
        assert PASSPHRASE not in terminal.shown


@pytest.mark.req("A16")
def test_two_passphrases_must_be_the_same(bare_shell: Shell) -> None:
    with Terminal(bare_shell, "init") as terminal:
        terminal.answer("A passphrase for your key: ", "one")
        terminal.answer("The same again: ", "another")
        assert terminal.end() == 1
        assert "the two passphrases differ" in terminal.shown
    assert not bare_shell.home.exists()


@pytest.mark.req("A16")
def test_ctrl_c_at_a_prompt_is_quiet(bare_shell: Shell) -> None:
    with Terminal(bare_shell, "init") as terminal:
        terminal.expect("A passphrase for your key: ")
        terminal.press(b"\x03")
        assert terminal.end() == 130
        assert "Traceback" not in terminal.shown


@pytest.mark.req("G2")
def test_at_a_terminal_nothing_piped_is_a_usage_error(shell: Shell) -> None:
    with Terminal(shell, "post") as terminal:
        assert terminal.end() == 2
        assert "there is nothing to post" in terminal.shown


@pytest.mark.req("G2")
def test_progress_is_shown_at_a_terminal(shell: Shell, tmp_path: Path) -> None:
    file = tmp_path / "events.jsonl"
    file.write_text("".join(json.dumps(make_event(content=str(n))) + "\n" for n in range(30)))
    with Terminal(shell, "post", "--event", file) as terminal:
        assert terminal.end() == 0
        assert "kept" in terminal.shown
        assert "30/30" in terminal.shown
        assert "30 events: 30 published" in terminal.shown


@pytest.mark.req("G2", "A16")
def test_serve_goes_on_without_a_passphrase(bare_shell: Shell) -> None:
    bare_shell.run("init", POSTRICH_PASSPHRASE=PASSPHRASE)
    with Terminal(bare_shell, "serve") as terminal:
        terminal.answer("(empty: go on without it): ", "")
        terminal.expect("drafts wait")
        terminal.press(b"\x03")
        assert terminal.end() == 0
