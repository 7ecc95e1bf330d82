"""Passphrases: from the environment, a file of one's own, or a person; a wrong one is named."""

from __future__ import annotations

from pathlib import Path

import pytest
from nostr_sdk import Keys

from tests.doors.shell import Shell
from tests.doors.terminal import Terminal
from tests.relays import RelayProcess

pytestmark = pytest.mark.req("A16")

RIGHT = "open sesame 42"
OTHER = "quite another one"


@pytest.fixture
def locked(bare_shell: Shell, relay: RelayProcess) -> Shell:
    """A home with one locked key."""
    made = bare_shell.run("init", "--relay", relay.url, POSTRICH_PASSPHRASE=RIGHT)
    assert made.code == 0
    return bare_shell


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "passphrase"
    path.write_text(f"{RIGHT}\r\nthe second line is nobody's business\n")
    path.chmod(0o600)
    return path


def add(shell: Shell, name: str, passphrase: str) -> None:
    assert shell.run("account", "add", "--name", name, POSTRICH_PASSPHRASE=passphrase).code == 0


# -- beforehand --------------------------------------------------------------------------------


def test_a_file_opens_the_key_by_its_first_line(locked: Shell, file: Path) -> None:
    assert locked.run("post", "by file", POSTRICH_PASSPHRASE_FILE=str(file)).code == 0


def test_a_file_encrypts_a_new_key(bare_shell: Shell, relay: RelayProcess, file: Path) -> None:
    bare_shell.run("init", "--relay", relay.url, POSTRICH_PASSPHRASE_FILE=str(file))
    assert bare_shell.run("post", "x", POSTRICH_PASSPHRASE=RIGHT).code == 0


def test_the_environment_goes_before_the_file(locked: Shell, file: Path) -> None:
    file.write_text(OTHER)
    more = {"POSTRICH_PASSPHRASE": RIGHT, "POSTRICH_PASSPHRASE_FILE": str(file)}
    assert locked.run("post", "x", **more).code == 0


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (lambda path: path.chmod(0o640), "which others can read; run `chmod 600 "),
        (lambda path: path.chmod(0o604), "which others can read; run `chmod 600 "),
        (lambda path: path.unlink(), "which cannot be read (No such file or directory)"),
        (lambda path: path.write_text(""), "whose first line is empty"),
        (lambda path: path.write_text(f"\n{RIGHT}\n"), "whose first line is empty"),
        (lambda path: path.write_bytes(b"\xff\n"), "which is not UTF-8"),
        (lambda path: path.write_text(OTHER), "POSTRICH_PASSPHRASE_FILE does not open your key"),
    ],
)
def test_a_bad_file_is_an_error_that_says_why(
    locked: Shell, file: Path, spoil: object, reason: str
) -> None:
    assert callable(spoil)
    spoil(file)
    for command in (["post", "x"], ["serve"]):
        result = locked.finish(*command, POSTRICH_PASSPHRASE_FILE=str(file))
        assert result.code == 1
        assert reason in result.sentence
        assert "POSTRICH_PASSPHRASE_FILE" in result.sentence
    assert locked.run("queue").out == "The queue is empty.\n"
    assert locked.run("doctor", POSTRICH_PASSPHRASE_FILE=str(file)).code == 1


def test_systemds_credentials_are_taken(locked: Shell, file: Path) -> None:
    """Their access list looks like a group that may read."""
    file.chmod(0o440)
    folder = str(file.parent)
    more = {"POSTRICH_PASSPHRASE_FILE": str(file), "CREDENTIALS_DIRECTORY": folder}
    assert locked.run("post", "x", **more).code == 0


def test_an_encrypted_key_in_the_environment(shell: Shell) -> None:
    keys = Keys.generate()
    shell.variables["POSTRICH_NSEC"] = str(keys.secret_key().encrypt(RIGHT).to_bech32())
    job = shell.run("post", "--json", "x", POSTRICH_PASSPHRASE=RIGHT).json
    assert (job["state"], job["pubkey"]) == ("published", keys.public_key().to_hex())
    wrong = shell.run("post", "x", POSTRICH_PASSPHRASE=OTHER)
    assert "POSTRICH_PASSPHRASE does not open the key in POSTRICH_NSEC" in wrong.sentence
    assert "the key in POSTRICH_NSEC is locked" in shell.run("post", "x").sentence
    assert shell.run("queue").code == 0
    cut = shell.run("post", "x", POSTRICH_NSEC=shell.variables["POSTRICH_NSEC"][:-2])
    assert "holds no whole ncryptsec" in cut.sentence


# -- at a terminal -----------------------------------------------------------------------------


def test_a_person_has_three_tries(locked: Shell) -> None:
    with Terminal(locked, "post", "third time lucky") as terminal:
        for _ in range(2):
            terminal.answer("Passphrase of your key: ", "wrong")
            terminal.expect("the passphrase is wrong: try again")
        terminal.answer("Passphrase of your key: ", RIGHT)
        assert terminal.end() == 0
        assert RIGHT not in terminal.shown
    with Terminal(locked, "post", "never") as terminal:
        for _ in range(3):
            terminal.answer("Passphrase of your key: ", "wrong")
            terminal.expect("the passphrase is wrong")
        assert terminal.end() == 1
    assert [job["content"] for job in locked.run("queue", "--json").json["jobs"]] == [
        "third time lucky"
    ]


def test_no_answer_is_no_passphrase(locked: Shell) -> None:
    with Terminal(locked, "post", "x") as terminal:
        terminal.answer("Passphrase of your key: ", "")
        assert terminal.end() == 1
        assert "no passphrase came" in terminal.shown


def test_a_wrong_one_from_the_environment_is_not_asked_for_again(locked: Shell) -> None:
    with Terminal(locked, "post", "x", POSTRICH_PASSPHRASE=OTHER) as terminal:
        assert terminal.end() == 1
        assert "Passphrase of" not in terminal.shown
        assert "POSTRICH_PASSPHRASE does not open your key" in terminal.shown


def test_piped_text_leaves_the_terminal_to_the_passphrase(locked: Shell) -> None:
    with Terminal(locked, "post", piped="piped at a terminal") as terminal:
        terminal.answer("Passphrase of your key: ", RIGHT)
        assert terminal.end() == 0
    assert locked.job(1)["content"] == "piped at a terminal"


def test_an_encrypted_key_is_imported_with_its_own_passphrase(shell: Shell) -> None:
    """As `postrich account import < key.ncryptsec` at a terminal."""
    keys = Keys.generate()
    locked = str(keys.secret_key().encrypt(OTHER).to_bech32())
    with Terminal(shell, "account", "import", piped=f"{locked}\n") as terminal:
        terminal.answer("Passphrase of this key: ", RIGHT)
        terminal.expect("the passphrase is wrong: try again")
        terminal.answer("Passphrase of this key: ", OTHER)
        assert terminal.end() == 0
        assert keys.public_key().to_bech32() in terminal.shown
    posted = shell.run("post", "x", POSTRICH_NSEC="", POSTRICH_PASSPHRASE=OTHER)
    assert posted.code == 0


# -- several keys ------------------------------------------------------------------------------


@pytest.mark.req("A4")
def test_each_key_has_its_own_passphrase(locked: Shell) -> None:
    add(locked, "second", OTHER)
    assert locked.run("post", "--as", "second", "x", POSTRICH_PASSPHRASE=OTHER).code == 0
    wrong = locked.run("post", "--as", "second", "x", POSTRICH_PASSPHRASE=RIGHT)
    assert wrong.sentence.endswith("POSTRICH_PASSPHRASE does not open the key of second")
    with locked.start("serve", POSTRICH_PASSPHRASE=RIGHT) as serving:
        serving.wait_for("signs='by your key'", "drafts wait for your key", "name=second")
        serving.wait_for("POSTRICH_PASSPHRASE does not open it")
        assert serving.stop().code == 0
    neither = locked.finish("serve", POSTRICH_PASSPHRASE="neither")
    assert neither.code == 1
    assert "nor the key of second" in neither.sentence


def test_serve_tries_one_passphrase_on_all_keys_before_it_asks_again(locked: Shell) -> None:
    add(locked, "same", RIGHT)
    add(locked, "second", OTHER)
    with Terminal(locked, "serve") as terminal:
        terminal.answer("(empty: go on without it): ", RIGHT)
        terminal.answer("Passphrase of the key of second (empty", OTHER)
        terminal.expect("name=second")
        assert "key of same (empty" not in terminal.shown
        assert terminal.shown.count("by your key") >= 3
        terminal.press(b"\x03")
        assert terminal.end() == 0


def test_a_lost_or_damaged_key_file_is_not_asked_about(locked: Shell) -> None:
    [path] = (locked.home / "keys").iterdir()
    body = path.read_text()
    path.write_text(body[:60])
    with Terminal(locked, "post", "x") as terminal:
        assert terminal.end() == 1
        assert "holds no whole ncryptsec" in terminal.shown
    path.unlink()
    with Terminal(locked, "post", "x") as terminal:
        assert terminal.end() == 1
        assert "is gone: import the key again" in terminal.shown
    with locked.start("serve") as serving:
        serving.wait_for("drafts wait for your key", "is gone")
        assert serving.stop().code == 0
