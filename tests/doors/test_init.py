"""`postrich init`: a home of one's own, and never over another one."""

from __future__ import annotations

import stat
import tomllib
from pathlib import Path

import pytest
from nostr_sdk import EncryptedSecretKey, Keys, SecretKey

from tests.doors.shell import Shell

PASSPHRASE = "correct horse battery staple"


@pytest.fixture
def locked(bare_shell: Shell) -> Shell:
    bare_shell.variables["POSTRICH_PASSPHRASE"] = PASSPHRASE
    return bare_shell


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def npub_in(home: Path) -> str:
    """The public key of the key file, by another hand than ours."""
    [file] = (home / "keys").iterdir()
    keys = Keys(EncryptedSecretKey.from_bech32(file.read_text().strip()).decrypt(PASSPHRASE))
    assert file.name == f"{keys.public_key().to_hex()}.ncryptsec"
    return str(keys.public_key().to_bech32())


@pytest.mark.req("G2", "A16")
def test_init_makes_settings_and_an_encrypted_key(locked: Shell) -> None:
    result = locked.run("init", "--relay", "wss://Nos.LOL", "--relay", "wss://relay.example/")
    assert result.code == 0
    assert result.err == ""
    settings = tomllib.loads((locked.home / "postrich.toml").read_text())
    assert settings["relays"] == ["wss://nos.lol/", "wss://relay.example/"]
    assert npub_in(locked.home) in result.out
    assert "Next: postrich post" in result.out
    assert mode_of(locked.home) == 0o700
    assert mode_of(locked.home / "keys") == 0o700
    assert [mode_of(file) for file in (locked.home / "keys").iterdir()] == [0o600]


def contents_of(home: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in home.rglob("*") if path.is_file()}


@pytest.mark.req("G2")
def test_init_never_overwrites(locked: Shell) -> None:
    assert locked.run("init").code == 0
    before = contents_of(locked.home)
    again = locked.run("init", "--relay", "wss://other.example")
    assert again.code == 1
    assert "is there already; nothing was changed" in again.sentence
    assert contents_of(locked.home) == before


@pytest.mark.req("G2", "A16")
@pytest.mark.parametrize("form", ["nsec", "hex", "ncryptsec"])
def test_a_key_of_ones_own_comes_by_stdin(locked: Shell, form: str) -> None:
    keys = Keys.generate()
    secret: SecretKey = keys.secret_key()
    text = {
        "nsec": lambda: secret.to_bech32(),
        "hex": lambda: secret.to_hex(),
        "ncryptsec": lambda: secret.encrypt(PASSPHRASE).to_bech32(),
    }[form]()
    result = locked.run("init", "--import", stdin=f"{text}\n")
    assert result.code == 0
    assert keys.public_key().to_bech32() in result.out
    assert npub_in(locked.home) == keys.public_key().to_bech32()


@pytest.mark.req("A16", "B7")
@pytest.mark.parametrize("text", ["nsec1notakey", "f" * 64, "secretwords", ""])
def test_a_bad_key_is_refused_without_repeating_it(locked: Shell, text: str) -> None:
    result = locked.run("init", "--import", stdin=f"{text}\n")
    assert result.code == 1
    assert not text or text not in result.sentence
    assert not locked.home.exists()


@pytest.mark.req("A16")
def test_without_a_terminal_the_passphrase_comes_from_the_environment(bare_shell: Shell) -> None:
    result = bare_shell.run("init")
    assert result.code == 1
    assert "POSTRICH_PASSPHRASE" in result.sentence
    assert not bare_shell.home.exists()


@pytest.mark.req("G2")
@pytest.mark.parametrize(
    "arguments",
    [
        ["--relay", "ftp://nowhere"],
        ["--relay", "a b"],
        ["--import", "--no-key"],
        ["--no-key", "--keyring"],
        ["--no-key", "--name", "main"],
        ["--name", "npub1somebody"],
        ["--name", " padded"],
        ["surplus"],
    ],
)
def test_what_cannot_be_meant_is_a_usage_error(locked: Shell, arguments: list[str]) -> None:
    result = locked.run("init", *arguments)
    assert result.code == 2
    assert "postrich init --help" in result.sentence
    assert not locked.home.exists()


@pytest.mark.req("G2")
def test_home_can_be_named_by_option(bare_shell: Shell, tmp_path: Path) -> None:
    other = tmp_path / "elsewhere"
    assert bare_shell.run("--home", other, "init", "--no-key").code == 0
    assert (other / "postrich.toml").is_file()
    assert not bare_shell.home.exists()
