"""`postrich account`: who posts here, where each key is, and who is the default."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from nostr_sdk import Keys

from tests.doors.shell import Shell
from tests.doors.terminal import Terminal
from tests.relays import RelayProcess
from tests.relays.events import make_event

pytestmark = pytest.mark.req("A16", "G2")

PASSPHRASE = "correct horse"


@pytest.fixture
def home(bare_shell: Shell, relay: RelayProcess) -> Shell:
    """A home with the accounts main and second, whose keys have the same passphrase."""
    bare_shell.variables["POSTRICH_PASSPHRASE"] = PASSPHRASE
    assert bare_shell.run("init", "--name", "main", "--relay", relay.url).code == 0
    assert bare_shell.run("account", "add", "--name", "second").code == 0
    return bare_shell


@pytest.fixture
def keyring(tmp_path: Path, bare_shell: Shell) -> Shell:
    """A shell with a keyring of its own: real processes only, since it is chosen once."""
    bare_shell.variables["PYTHON_KEYRING_BACKEND"] = "keyrings.alt.file.PlaintextKeyring"
    bare_shell.variables["XDG_DATA_HOME"] = str(tmp_path / "data")
    return bare_shell


def accounts(shell: Shell, *arguments: object) -> list[Any]:
    found: list[Any] = shell.run("account", "list", "--json", *arguments).json["accounts"]
    return found


def names(shell: Shell) -> list[str]:
    return [account["name"] for account in accounts(shell)]


def draft_of(shell: Shell, name: str) -> None:
    """Leave a draft that waits for the account."""
    result = shell.run("post", "--no-wait", "--as", name, "x", POSTRICH_PASSPHRASE="")
    assert result.code == 3


# -- looking -----------------------------------------------------------------------------------


def test_the_list_tells_who_and_how(home: Shell) -> None:
    draft_of(home, "second")
    main, second = accounts(home)
    assert (main["name"], main["default"], main["key"]) == ("main", True, "file")
    assert (second["name"], second["default"], second["drafts"]) == ("second", False, 1)
    assert (main["bunker"], main["drafts"]) == (None, 0)
    told = home.run("account").out
    assert told == home.run("account", "list").out
    assert told.splitlines() == [
        "main (default)",
        f"  {main['npub']}",
        "  signs by its key, in an encrypted file",
        "second",
        f"  {second['npub']}",
        "  signs by its key, in an encrypted file",
        "  1 draft waits for its signature",
    ]


def test_nobody_is_there_yet(bare_shell: Shell) -> None:
    assert "There is no account yet" in bare_shell.run("account").out
    assert accounts(bare_shell) == []
    assert not bare_shell.home.exists()


@pytest.mark.req("A4")
def test_the_environments_account_comes_first(home: Shell) -> None:
    keys = Keys.generate()
    home.variables["POSTRICH_NSEC"] = keys.secret_key().to_hex()
    first, *others = accounts(home)
    assert first["npub"] == keys.public_key().to_bech32()
    assert (first["default"], first["key"]) == (True, "environment")
    assert [other["default"] for other in others] == [False, False]
    assert "signs by its key in POSTRICH_NSEC" in home.run("account").out
    assert home.post("x")["pubkey"] == keys.public_key().to_hex()
    assert home.post("--as", "second", "x")["pubkey"] == others[1]["pubkey"]
    assert home.post("--as", first["npub"], "x")["pubkey"] == first["pubkey"]


def test_a_bad_key_in_the_environment_hides_nothing(home: Shell) -> None:
    for text in ("nonsense", "nsec1broken"):
        assert names(home) == ["main", "second"]
        refused = home.run("post", "x", POSTRICH_NSEC=text)
        assert refused.code == 1
        assert refused.sentence.startswith("POSTRICH_NSEC: a secret key must be")
        assert text not in refused.err
        assert home.run("queue", POSTRICH_NSEC=text).code == 0
        told = home.run("account", POSTRICH_NSEC=text).out
        assert "POSTRICH_NSEC is set, but locked or no key" in told
        assert home.run("doctor", POSTRICH_NSEC=text).code == 1


def test_status_and_doctor_know_the_accounts(home: Shell) -> None:
    draft_of(home, "second")
    told = home.run("status").out
    assert "second" in told
    assert "its key, in an encrypted file" in told
    assert [a["drafts"] for a in home.run("status", "--json").json["accounts"]] == [0, 1]
    checks = {check["name"]: check for check in home.run("doctor", "--json").json["checks"]}
    assert "POSTRICH_PASSPHRASE opens it" in checks["key of main"]["text"]
    locked = home.run("doctor", POSTRICH_PASSPHRASE="")
    assert locked.code == 0
    assert "key of second: encrypted, yours alone; locked until" in locked.out
    wrong = home.run("doctor", POSTRICH_PASSPHRASE="wrong")
    assert wrong.code == 1
    assert "✗ key of main: POSTRICH_PASSPHRASE does not open it" in wrong.out


def test_a_damaged_list_of_accounts_is_named(home: Shell) -> None:
    (home.home / "accounts.json").write_text("[{]")
    for command in (["account"], ["post", "x"], ["serve"], ["sign"]):
        result = home.finish(*command)
        assert result.code == 1
        assert "accounts.json cannot be read" in result.sentence
    assert "✗ accounts" in home.run("doctor").out


# -- adding ------------------------------------------------------------------------------------


def test_both_accounts_post(home: Shell) -> None:
    main, second = accounts(home)
    assert home.post("as the default")["pubkey"] == main["pubkey"]
    for name in ("second", second["npub"], second["pubkey"], second["pubkey"][:12]):
        job = home.post("--as", name, f"as {name}")
        assert (job["pubkey"], job["state"]) == (second["pubkey"], "published")
    for name in ("nobody", "npub1broken", "f"):
        assert home.run("post", "--as", name, "x").code == 1


@pytest.mark.parametrize("form", ["nsec", "hex", "ncryptsec"])
def test_a_key_is_imported_by_stdin(home: Shell, form: str) -> None:
    keys = Keys.generate()
    secret = keys.secret_key()
    text = {
        "nsec": secret.to_bech32(),
        "hex": secret.to_hex(),
        "ncryptsec": secret.encrypt(PASSPHRASE).to_bech32(),
    }[form]
    result = home.run("account", "import", "--name", "mine", "--default", stdin=f"{text}\n")
    assert result.code == 0
    assert keys.public_key().to_bech32() in result.out
    assert "Next: postrich post" in result.out
    assert names(home) == ["mine", "main", "second"]
    assert home.post("x")["pubkey"] == keys.public_key().to_hex()
    again = home.run("account", "import", stdin=f"{text}\n")
    assert "is kept here already" in again.sentence
    assert text not in again.err


def test_an_encrypted_key_keeps_its_passphrase_which_is_checked(home: Shell) -> None:
    text = Keys.generate().secret_key().encrypt("its own").to_bech32()
    wrong = home.run("account", "import", stdin=text)
    assert wrong.code == 1
    assert "POSTRICH_PASSPHRASE does not open this key" in wrong.sentence
    assert home.run("account", "import", stdin=text, POSTRICH_PASSPHRASE="its own").code == 0
    assert home.run("account", "import", stdin="ncryptsec1broken").code == 1
    assert home.run("account", "import", stdin="").sentence == "no key came"
    assert len(accounts(home)) == 3


def test_a_key_typed_at_a_terminal_is_not_shown(home: Shell) -> None:
    keys = Keys.generate()
    nsec = str(keys.secret_key().to_bech32())
    with Terminal(home, "account", "import") as terminal:
        terminal.answer("Your secret key (nsec, hex or ncryptsec): ", nsec)
        assert terminal.end() == 0
        assert nsec not in terminal.shown


def test_programs_get_the_account_as_json(home: Shell) -> None:
    made = home.run("account", "add", "--name", "third", "--json").json
    assert made["npub"].startswith("npub1")
    assert (made["name"], made["default"], made["key"]) == ("third", False, "file")
    assert home.run("account", "default", "third", "--json").json["default"] is True
    gone = home.run("account", "remove", "third", "--yes", "--json").json
    assert gone == {"removed": made["pubkey"], "means": ["secret"], "drafts": 0}


@pytest.mark.parametrize(
    "arguments",
    [
        ["add", "--name", "x" * 41],
        ["add", "--name", "nsec1vl029mgpspedva04g90vltkh6fvh240zqtv9k0t9af8935ke9laqsnlfe5"],
        ["add", "--name", "nsec1short"],
        ["add", "--name", "bunker://abc"],
        ["add", "--name", "ab" * 32],
        ["add", "--name", "two\nlines"],
        ["import", "surplus"],
        ["remove"],
        ["remove", "main", "--only", "nip07", "--yes"],
        ["--json", "add"],
        ["default"],
        ["nonsense"],
    ],
)
def test_usage_errors_exit_2(home: Shell, arguments: list[str]) -> None:
    result = home.run("account", *arguments)
    assert result.code == 2
    assert "--help`" in result.sentence
    assert "nsec1vl029" not in result.err
    assert names(home) == ["main", "second"]


def test_a_name_is_one_accounts(home: Shell) -> None:
    taken = home.run("account", "add", "--name", "main")
    assert (taken.code, taken.sentence) == (1, "another account is called main")
    assert names(home) == ["main", "second"]


def test_without_a_passphrase_no_key_is_made(home: Shell) -> None:
    result = home.run("account", "add", POSTRICH_PASSPHRASE="")
    assert result.code == 1
    assert "--keyring" in result.sentence
    assert names(home) == ["main", "second"]


def test_the_default_can_be_changed(home: Shell) -> None:
    told = home.run("account", "default", "second")
    assert told.out == "From now on second posts, unless told otherwise.\n"
    assert names(home) == ["second", "main"]
    assert home.post("x")["pubkey"] == accounts(home)[0]["pubkey"]
    assert home.run("account", "default", "nobody").code == 1


# -- the keyring -------------------------------------------------------------------------------


def test_a_key_in_the_keyring_needs_no_passphrase(keyring: Shell, relay: RelayProcess) -> None:
    made = keyring.finish("init", "--keyring", "--name", "main", "--relay", relay.url)
    assert made.code == 0
    assert "in the keyring of this machine" in made.out
    assert not (keyring.home / "keys").exists()
    posted = keyring.finish("post", "by keyring")
    assert posted.code == 0
    assert "signs by its key, in the keyring" in keyring.finish("account").out
    assert "key of main: in the keyring" in keyring.finish("doctor").out
    with keyring.start("serve") as serving:
        serving.wait_for("name=main", "by your key")
        assert serving.stop().code == 0
    removed = keyring.finish("account", "remove", "main", "--yes")
    assert removed.code == 0
    assert keyring.finish("account", "list", "--json").json["accounts"] == []


def test_without_its_keyring_the_note_is_kept(keyring: Shell, relay: RelayProcess) -> None:
    keyring.finish("init", "--keyring", "--relay", relay.url)
    none = "keyring.backends.fail.Keyring"
    result = keyring.finish("post", "later", PYTHON_KEYRING_BACKEND=none)
    assert result.code == 3
    assert "kept as job 1, not signed yet" in result.out
    assert "the keyring cannot be used" in result.err
    assert keyring.finish("doctor", PYTHON_KEYRING_BACKEND=none).code == 1
    signed = keyring.finish("sign")
    assert (signed.code, signed.out) == (0, "✓ signed 1 draft: 1 published\n")


def test_a_keyring_that_cannot_be_used_keeps_no_account(keyring: Shell) -> None:
    keyring.variables["PYTHON_KEYRING_BACKEND"] = "keyring.backends.fail.Keyring"
    for command in (["init", "--keyring"], ["account", "add", "--keyring"]):
        result = keyring.finish(*command)
        assert result.code == 1
        assert "the keyring cannot be used" in result.sentence
    assert keyring.finish("account", "list", "--json").json["accounts"] == []
    assert keyring.finish("init", "--no-key").code == 0


# -- removing ----------------------------------------------------------------------------------


def test_removing_needs_a_yes(home: Shell) -> None:
    refused = home.run("account", "remove", "main")
    assert refused.code == 1
    assert "needs --yes" in refused.sentence
    assert "the only copy that Postrich knows" in refused.sentence
    with Terminal(home, "account", "remove", "main") as terminal:
        terminal.answer("lost for good. Go on? [y/N] ", "n")
        assert terminal.end() == 1
    assert names(home) == ["main", "second"]
    with Terminal(home, "account", "remove", "main") as terminal:
        terminal.answer("Go on? [y/N] ", "y")
        assert terminal.end() == 0
    assert names(home) == ["second"]
    assert len(list((home.home / "keys").iterdir())) == 1


@pytest.mark.req("A6")
def test_drafts_outlive_their_account(home: Shell) -> None:
    keys = Keys.generate()
    nsec = str(keys.secret_key().to_bech32())
    home.run("account", "import", "--name", "brief", stdin=nsec)
    draft_of(home, "brief")
    told = home.run("account", "remove", "brief", "--yes").out
    assert told.splitlines()[0] == "brief is removed."
    assert "1 draft of it still waits to be signed" in told
    assert home.job(1)["waits_for_what"]["short"] == "a signer"
    waiting = home.run("sign", "--json")
    assert waiting.code == 3
    assert [entry["job"] for entry in waiting.json["waiting"]] == [1]
    home.run("account", "import", stdin=nsec)
    assert home.run("sign").out == "✓ signed 1 draft: 1 published\n"


def test_only_what_there_is_can_be_removed(home: Shell) -> None:
    result = home.run("account", "remove", "main", "--only", "nip46", "--yes")
    assert result.sentence == "main does not sign by a bunker"
    assert home.run("account", "remove", "nobody", "--yes").code == 1
    assert home.run("account", "remove", "main", "--only", "secret", "--yes").code == 0
    assert names(home) == ["second"]


def test_a_draft_in_a_file_is_signed_by_its_account(home: Shell) -> None:
    """`post --event` takes drafts too: whoever is at hand signs them."""
    pubkey = accounts(home)[1]["pubkey"]
    draft = make_event(content="written elsewhere") | {"pubkey": pubkey}
    fields = {name: draft[name] for name in ("pubkey", "kind", "tags", "content", "created_at")}
    result = home.run("post", "--json", "--event", "-", stdin=json.dumps(fields))
    assert (result.code, result.json["pubkey"]) == (0, pubkey)
