"""Accounts of a home: what is kept where, who may read it, and what damage looks like (A16)."""

from __future__ import annotations

import json
import os
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import keyring
import keyring.backends.fail
import pytest
from keyrings.alt.file import PlaintextKeyring  # type: ignore[import-untyped] # ships no types

from postrich import SecretSigner
from postrich.errors import KeyProblem, SignerUnavailable
from postrich.sign.accounts import Account, Accounts, Bunker
from postrich.sign.bunker import BunkerGrant
from postrich.sign.chooser import Means
from tests.bunkers.scripted import ScriptedBunker
from tests.relays import free_port, local_relay
from tests.relays.events import public_key

pytestmark = pytest.mark.req("A16")

SECRET = bytes.fromhex("7f7ff03d123792d6ac594bfa67bf6d0c0ab55b6b1fdb6249303fe861f1ccba9a")
ALICE, BOB, CLIENT = SecretSigner(SECRET), SecretSigner(b"\x02" * 32), SecretSigner(b"\x03" * 32)
NPUB = "npub10xlxvlhemja6c4dqv22uapctqupfhlxm9h8z3k2e72q4k9hcz7vqpkge6d"
GRANT = BunkerGrant(ALICE.pubkey, "ab" * 32, ("wss://relay.example/",), "hush", True)
WORD = "correct horse"

_encrypted: dict[tuple[str, str], str] = {}


@pytest.fixture(autouse=True)
def _quick_encryption(monkeypatch: pytest.MonkeyPatch) -> None:
    """NIP-49 is slow on purpose; how it encrypts is shown in test_secret."""
    slow = SecretSigner.encrypted

    def encrypted(self: SecretSigner, passphrase: str) -> str:
        name = (self.pubkey, passphrase)
        return _encrypted.get(name) or _encrypted.setdefault(name, slow(self, passphrase))

    monkeypatch.setattr(SecretSigner, "encrypted", encrypted)


@pytest.fixture
def accounts(tmp_path: Path) -> Accounts:
    return Accounts(tmp_path / "home")


@pytest.fixture
def ring(tmp_path: Path) -> Iterator[Path]:
    """A keyring in a file, in place of the operating system's."""
    before = keyring.get_keyring()
    backend = PlaintextKeyring()
    backend.file_path = str(tmp_path / "ring")
    keyring.set_keyring(backend)
    yield tmp_path / "ring"
    keyring.set_keyring(before)


def everything(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


# Keys in files


def test_nobody_is_there_at_first(accounts: Accounts, tmp_path: Path) -> None:
    assert accounts.all() == []
    assert accounts.version == (0, 0)
    assert not (tmp_path / "home").exists()


def test_a_key_is_kept_encrypted_and_its_owners_alone(accounts: Accounts, tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        account = accounts.add_key(ALICE, WORD, "alice")
    finally:
        os.umask(old)
    assert account == Account(ALICE.pubkey, "alice", "file")
    assert account.means == [Means.SECRET]
    assert accounts.all() == [account]
    home = tmp_path / "home"
    assert mode(home / "keys") == 0o700
    assert mode(accounts.key_file(ALICE.pubkey)) == 0o600
    assert mode(home / "accounts.json") == 0o600
    kept = everything(home)
    assert set(kept) == {"accounts.json", f"{ALICE.pubkey}.ncryptsec"}
    for body in kept.values():
        assert SECRET.hex().encode() not in body
        assert SECRET not in body
        assert WORD.encode() not in body
    assert json.loads(kept["accounts.json"]) == [
        {"pubkey": ALICE.pubkey, "name": "alice", "key": "file"}
    ]


def test_the_key_comes_back_by_its_passphrase(accounts: Accounts) -> None:
    account = accounts.add_key(ALICE, WORD)
    assert accounts.unlock(account, WORD).pubkey == ALICE.pubkey
    with pytest.raises(KeyProblem, match="passphrase is wrong"):
        accounts.unlock(account, "battery staple")
    with pytest.raises(KeyProblem, match="give its passphrase"):
        accounts.unlock(account, None)


def test_a_key_is_not_overwritten(accounts: Accounts) -> None:
    accounts.add_key(ALICE, WORD)
    before = accounts.key_file(ALICE.pubkey).read_bytes()
    with pytest.raises(KeyProblem, match="is kept here already"):
        accounts.add_key(ALICE, "another")
    accounts.key_file(BOB.pubkey).write_text("something of Bob's")
    with pytest.raises(KeyProblem, match="not overwritten"):
        accounts.add_key(BOB, WORD)
    assert accounts.key_file(ALICE.pubkey).read_bytes() == before
    assert accounts.key_file(BOB.pubkey).read_text() == "something of Bob's"
    assert [account.pubkey for account in accounts.all()] == [ALICE.pubkey]


def test_a_key_file_that_is_gone_or_anothers_is_told(accounts: Accounts) -> None:
    account = accounts.add_key(ALICE, WORD)
    path = accounts.key_file(ALICE.pubkey)
    path.write_text(BOB.encrypted(WORD))
    with pytest.raises(KeyProblem, match="holds the key of another account"):
        accounts.unlock(account, WORD)
    for damage in (b"", b"\xff\xfe", path.read_bytes()[:40], b"hello"):
        path.write_bytes(damage)
        with pytest.raises(KeyProblem):
            accounts.unlock(account, WORD)
    path.unlink()
    with pytest.raises(KeyProblem, match="is gone: import the key again"):
        accounts.unlock(account, WORD)


# Keys in the keyring


def test_a_key_may_be_kept_in_the_keyring(accounts: Accounts, tmp_path: Path, ring: Path) -> None:
    account = accounts.add_key(ALICE, None)
    assert account.key == "keyring"
    assert ring.exists()
    assert set(everything(tmp_path / "home")) == {"accounts.json"}
    assert accounts.unlock(account, None).pubkey == ALICE.pubkey
    accounts.remove(account)
    assert accounts.all() == []
    with pytest.raises(KeyProblem, match="the keyring has no key of"):
        accounts.unlock(account, None)
    accounts.remove(account)  # what is not there need not be taken out


@pytest.mark.usefixtures("ring")
def test_the_keyrings_key_must_be_the_accounts(accounts: Accounts) -> None:
    account = accounts.add_key(ALICE, None)
    for kept, words in ((b"\x02" * 32, "is another account's"), (b"no", "a secret key must be")):
        keyring.set_password("postrich", ALICE.pubkey, kept.hex())
        with pytest.raises(KeyProblem, match=words):
            accounts.unlock(account, None)


def test_a_machine_without_a_keyring_is_told_so(
    accounts: Accounts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "keyring", None)
    with pytest.raises(KeyProblem, match="install it with"):
        accounts.add_key(ALICE, None)
    assert accounts.all() == []


@pytest.mark.usefixtures("ring")
def test_a_keyring_that_fails_is_a_problem_of_keys(accounts: Accounts) -> None:
    keyring.set_keyring(keyring.backends.fail.Keyring())  # type: ignore[no-untyped-call] # same
    with pytest.raises(KeyProblem, match="the keyring cannot be used"):
        accounts.add_key(ALICE, None)
    assert accounts.all() == []


# Bunkers


def test_a_bunker_is_kept_and_what_is_secret_about_it_apart(
    accounts: Accounts, tmp_path: Path
) -> None:
    account = accounts.add_bunker(GRANT, CLIENT, "alice")
    assert account.means == [Means.NIP46]
    assert account.bunker == Bunker(GRANT.remote, GRANT.relays, True)
    kept = everything(tmp_path / "home")
    assert b"hush" not in kept["accounts.json"]
    assert (b"\x03" * 32).hex().encode() not in kept["accounts.json"]
    assert mode(accounts.bunker_file(ALICE.pubkey)) == 0o600
    signer = accounts.bunker_signer(account)
    assert signer.grant == GRANT
    assert signer._client.pubkey == CLIENT.pubkey
    assert not signer.is_available
    assert signer.trouble == "the bunker is not connected to"


def test_a_new_connection_takes_the_former_ones_place(accounts: Accounts) -> None:
    accounts.add_key(ALICE, WORD, "alice")
    accounts.add_bunker(GRANT, CLIENT)
    other = BunkerGrant(ALICE.pubkey, "cd" * 32, ("wss://other.example/",))
    account = accounts.add_bunker(other, BOB)
    assert accounts.all() == [account]
    assert (account.name, account.means) == ("alice", [Means.SECRET, Means.NIP46])
    signer = accounts.bunker_signer(account)
    assert signer.grant == other
    assert signer._client.pubkey == BOB.pubkey


@pytest.mark.parametrize(
    "damage",
    [b"", b"{", b"\xff", b"[]", b'{"client": 7}', b'{"client": "xyz"}', b"[" * 100_000],
)
def test_a_damaged_bunker_file_is_told_without_its_content(
    accounts: Accounts, damage: bytes
) -> None:
    account = accounts.add_bunker(GRANT, CLIENT)
    accounts.bunker_file(ALICE.pubkey).write_bytes(damage)
    with pytest.raises(KeyProblem, match=r"\.bunker is damaged: connect to the bunker again"):
        accounts.bunker_signer(account)


def test_a_bunker_file_that_is_gone_is_told(accounts: Accounts) -> None:
    account = accounts.add_bunker(GRANT, CLIENT)
    accounts.bunker_file(ALICE.pubkey).unlink()
    with pytest.raises(KeyProblem, match="is gone: connect to the bunker again"):
        accounts.bunker_signer(account)


@pytest.mark.parametrize("pings", [True, False])
async def test_a_bunker_can_be_asked_whether_it_is_there(
    accounts: Accounts, monkeypatch: pytest.MonkeyPatch, pings: bool
) -> None:
    async with local_relay() as relay, ScriptedBunker([relay.url]) as bunker:
        grant = BunkerGrant(public_key(bunker.user), bunker.signer_pubkey, (relay.url,), "", pings)
        account = accounts.add_bunker(grant, CLIENT)
        await accounts.ask_bunker(account, 10.0)
        assert bunker.methods() == ["ping" if pings else "get_public_key"]
    monkeypatch.setattr("postrich.sign.rpc.OPEN_WITHIN", 0.3)
    gone = BunkerGrant(ALICE.pubkey, "ab" * 32, (f"ws://127.0.0.1:{free_port()}",))
    with pytest.raises(SignerUnavailable, match="no relay of the bunker can be reached"):
        await accounts.ask_bunker(accounts.add_bunker(gone, CLIENT), 10.0)


# Finding, ordering, removing


def test_the_first_account_is_the_default_until_another_is_made_it(accounts: Accounts) -> None:
    alice = accounts.add_key(ALICE, WORD, "alice")
    bob = accounts.add_key(BOB, WORD, "bob")
    assert accounts.all() == [alice, bob]
    accounts.make_default(bob)
    assert accounts.all() == [bob, alice]
    accounts.add_bunker(GRANT, CLIENT)
    assert [account.name for account in accounts.all()] == ["bob", "alice"]


@pytest.mark.parametrize(
    "text",
    ["alice", " alice ", ALICE.pubkey, ALICE.pubkey[:4], ALICE.pubkey[:20].upper()],
)
def test_an_account_is_found_by_name_or_key(accounts: Accounts, text: str) -> None:
    accounts.add_key(BOB, WORD, "bob")
    alice = accounts.add_key(ALICE, WORD, "alice")
    assert accounts.find(text) == alice


def test_an_account_is_found_by_its_npub(accounts: Accounts) -> None:
    from nostr_sdk import PublicKey

    alice = accounts.add_key(ALICE, WORD)
    assert accounts.find(PublicKey.parse(ALICE.pubkey).to_bech32()) == alice
    with pytest.raises(KeyProblem, match="is not a public key"):
        accounts.find("npub1nonsense")


@pytest.mark.parametrize("text", ["", "x", ALICE.pubkey[:3], "carol", "Alice", NPUB, "ffff"])
def test_who_is_not_here_is_not_found(accounts: Accounts, text: str) -> None:
    accounts.add_key(ALICE, WORD, "alice")
    with pytest.raises(KeyProblem):
        accounts.find(text)


def test_too_little_of_a_key_is_not_enough(accounts: Accounts, tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    twins = [{"pubkey": "abcd" + digit * 60, "key": "file"} for digit in "01"]
    (tmp_path / "home" / "accounts.json").write_text(json.dumps(twins))
    with pytest.raises(KeyProblem, match="several accounts begin with abcd"):
        accounts.find("abcd")
    assert accounts.find("abcd0").pubkey == twins[0]["pubkey"]


def test_a_name_belongs_to_one_account(accounts: Accounts) -> None:
    accounts.add_key(ALICE, WORD, "me")
    with pytest.raises(KeyProblem, match="another account is called me"):
        accounts.add_key(BOB, WORD, "me")
    assert not accounts.key_file(BOB.pubkey).exists()
    accounts.add_bunker(GRANT, CLIENT, "me")
    accounts.add_bunker(GRANT, CLIENT, "I")
    assert [account.name for account in accounts.all()] == ["I"]


def test_a_name_is_found_before_a_key(accounts: Accounts) -> None:
    accounts.add_key(ALICE, WORD)
    bob = accounts.add_key(BOB, WORD, ALICE.pubkey[:8])
    assert accounts.find(ALICE.pubkey[:8]) == bob


def test_one_way_to_sign_may_be_forgotten_and_then_the_account(accounts: Accounts) -> None:
    bob = accounts.add_key(BOB, WORD)
    accounts.add_key(ALICE, WORD)
    account = accounts.add_bunker(GRANT, CLIENT)
    accounts.remove(account, Means.SECRET)
    assert not accounts.key_file(ALICE.pubkey).exists()
    assert accounts.bunker_file(ALICE.pubkey).exists()
    left = accounts.find(ALICE.pubkey)
    assert left.means == [Means.NIP46]
    accounts.remove(left, Means.NIP46)
    assert not accounts.bunker_file(ALICE.pubkey).exists()
    assert accounts.all() == [bob]
    assert accounts.key_file(BOB.pubkey).exists()


def test_an_account_is_forgotten_with_all_its_keys(accounts: Accounts, tmp_path: Path) -> None:
    accounts.add_key(ALICE, WORD)
    accounts.remove(accounts.add_bunker(GRANT, CLIENT))
    assert set(everything(tmp_path / "home")) == {"accounts.json"}
    assert accounts.all() == []
    accounts.add_key(ALICE, WORD)  # and may come back


# Files


@pytest.mark.parametrize(
    "damage",
    [
        b"",
        b"{",
        b"{}",
        b"[7]",
        b'[{"pubkey": 7}]',
        b'[{"name": "x"}]',
        b'[{"pubkey": "x", "nsec": "y"}]',
        b'[{"pubkey": "x", "key": "pocket"}]',
        b'[{"pubkey": "\xff"}]',
        b"[" * 100_000,
    ],
)
def test_a_damaged_list_is_told_and_not_replaced(
    accounts: Accounts, tmp_path: Path, damage: bytes
) -> None:
    (tmp_path / "home").mkdir()
    file = tmp_path / "home" / "accounts.json"
    file.write_bytes(damage)
    with pytest.raises(KeyProblem, match="cannot be read"):
        accounts.all()
    with pytest.raises(KeyProblem, match="cannot be read"):
        accounts.add_key(ALICE, WORD)
    with pytest.raises(KeyProblem, match="cannot be read"):
        accounts.add_bunker(GRANT, CLIENT)
    assert everything(tmp_path / "home") == {"accounts.json": damage}


@pytest.mark.parametrize("step", ["os.fsync", "pathlib.Path.replace"])
def test_a_file_is_replaced_whole_or_not_at_all(
    accounts: Accounts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    accounts.add_bunker(GRANT, CLIENT)
    before = everything(tmp_path / "home")

    def fail(*_: Any) -> None:
        raise OSError("the disk is full")

    monkeypatch.setattr(step, fail)
    for change in (
        lambda: accounts.add_bunker(GRANT, BOB, "new"),
        lambda: accounts.make_default(Account(BOB.pubkey)),
        lambda: accounts.add_key(BOB, WORD),
    ):
        with pytest.raises(OSError, match="disk is full"):
            change()
    assert everything(tmp_path / "home") == before


def test_every_change_is_seen_by_other_processes(accounts: Accounts, tmp_path: Path) -> None:
    other = Accounts(tmp_path / "home")
    seen = [other.version]
    alice = accounts.add_key(ALICE, WORD)
    seen.append(other.version)
    accounts.add_bunker(GRANT, CLIENT)
    seen.append(other.version)
    accounts.remove(alice)
    seen.append(other.version)
    assert len(set(seen)) == 4
    assert other.all() == []
