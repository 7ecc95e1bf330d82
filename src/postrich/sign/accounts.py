"""The accounts of a home: who they are, how each of them signs, and where its keys are.

Promises: `accounts.json` holds nothing secret; an account's key is in `keys/`, encrypted, or in
the operating system's keyring; the key by which a bunker knows us is in `keys/` too, readable
by its owner only. A file is replaced whole or not at all. The first account is the default.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from pathlib import Path
from typing import Literal

import msgspec

from postrich.clock import SystemClock
from postrich.errors import KeyProblem, SignerRejected
from postrich.sign.bunker import BunkerGrant, BunkerSigner
from postrich.sign.chooser import Means
from postrich.sign.rpc import Rpc
from postrich.sign.secret import (
    SecretSigner,
    drop_from_keyring,
    find_in_keyring,
    keep_in_keyring,
    parse_secret,
)

Place = Literal["file", "keyring"]


class Bunker(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is not secret about a connection to a bunker."""

    remote: str
    relays: tuple[str, ...]
    pings: bool = False


class Account(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Somebody who posts, by public key; `key` is where its key is, if we have it."""

    pubkey: str
    name: str = ""
    key: Place | None = None
    bunker: Bunker | None = None

    @property
    def means(self) -> list[Means]:
        """How this account can sign without a page."""
        found = [Means.SECRET] if self.key else []
        return found + ([Means.NIP46] if self.bunker else [])


class _Credentials(msgspec.Struct, frozen=True):
    """By what a bunker knows us."""

    client: str
    secret: str = ""


class Accounts:
    """The accounts in one folder."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "accounts.json"
        self._keys = folder / "keys"

    # -- looking -----------------------------------------------------------------------------

    def all(self) -> list[Account]:
        """Every account, the default one first."""
        if not self._file.is_file():
            return []
        try:
            return msgspec.json.decode(self._file.read_bytes(), type=list[Account])
        except (msgspec.DecodeError, UnicodeError, RecursionError) as problem:
            raise KeyProblem(f"{self._file} cannot be read: {problem}") from None

    @property
    def version(self) -> tuple[int, int]:
        """Differs after every change, of whichever process."""
        try:
            found = self._file.stat()
        except FileNotFoundError:
            return (0, 0)
        return (found.st_mtime_ns, found.st_ino)

    def find(self, text: str) -> Account:
        """The account that a person means: by name, npub, or the start of its public key."""
        from nostr_sdk import NostrSdkError, PublicKey

        wanted = text.strip()
        if wanted.startswith("npub1"):
            try:
                wanted = PublicKey.parse(wanted).to_hex()
            except NostrSdkError:
                raise KeyProblem(f"{text} is not a public key") from None
        everyone = self.all()
        found = [a for a in everyone if a.name and a.name == wanted]
        if not found and len(wanted) >= 4:
            found = [a for a in everyone if a.pubkey.startswith(wanted.lower())]
        if not found:
            raise KeyProblem(f"there is no account {text}: `postrich account list` shows them")
        if len(found) > 1:
            raise KeyProblem(f"several accounts begin with {text}: give more of it")
        return found[0]

    def key_file(self, pubkey: str) -> Path:
        """Where the account's own key is, if it is in a file."""
        return self._keys / f"{pubkey}.ncryptsec"

    def bunker_file(self, pubkey: str) -> Path:
        """Where the key is by which the account's bunker knows us."""
        return self._keys / f"{pubkey}.bunker"

    # -- changing ----------------------------------------------------------------------------

    def add_key(self, signer: SecretSigner, passphrase: str | None, name: str = "") -> Account:
        """Keep an account's key: encrypted by the passphrase, or without one in the keyring."""
        known = self._known(signer.pubkey, name)
        if known.key is not None:
            raise KeyProblem(f"the key of {signer.pubkey[:8]}… is kept here already")
        if passphrase is None:
            keep_in_keyring(signer)
        else:
            _write(self.key_file(signer.pubkey), signer.encrypted(passphrase), replace=False)
        place: Place = "keyring" if passphrase is None else "file"
        return self._put(msgspec.structs.replace(known, key=place))

    def add_bunker(self, grant: BunkerGrant, client: SecretSigner, name: str = "") -> Account:
        """Keep a connection to a bunker; it takes the place of the account's former one."""
        known = self._known(grant.pubkey, name)
        credentials = _Credentials(client.exposed(), grant.secret)
        _write(
            self.bunker_file(grant.pubkey), msgspec.json.encode(credentials).decode(), replace=True
        )
        bunker = Bunker(grant.remote, grant.relays, grant.pings)
        return self._put(msgspec.structs.replace(known, bunker=bunker))

    def make_default(self, account: Account) -> None:
        """From now on it posts when none is named."""
        others = [known for known in self.all() if known.pubkey != account.pubkey]
        self._save([account, *others])

    def remove(self, account: Account, means: Means | None = None) -> None:
        """Forget an account, or one way it signs, with the keys that belong to it."""
        left = account
        if means in (None, Means.SECRET):
            left = msgspec.structs.replace(left, key=None)
        if means in (None, Means.NIP46):
            left = msgspec.structs.replace(left, bunker=None)
        kept = [left if known.pubkey == left.pubkey else known for known in self.all()]
        self._save([known for known in kept if known.means])
        if account.key == "keyring" and left.key is None:
            drop_from_keyring(account.pubkey)
        if left.key is None:
            self.key_file(account.pubkey).unlink(missing_ok=True)
        if left.bunker is None:
            self.bunker_file(account.pubkey).unlink(missing_ok=True)

    # -- signers -----------------------------------------------------------------------------

    def unlock(self, account: Account, passphrase: str | None) -> SecretSigner:
        """The account's own key; `KeyProblem` where the passphrase is wrong or missing."""
        if account.key == "keyring":
            return find_in_keyring(account.pubkey)
        path = self.key_file(account.pubkey)
        try:
            text = path.read_text("ascii", "replace")
        except FileNotFoundError:
            raise KeyProblem(f"{path} is gone: import the key again") from None
        signer = parse_secret(text, passphrase)
        if signer.pubkey != account.pubkey:
            raise KeyProblem(f"{path} holds the key of another account")
        return signer

    def bunker_signer(self, account: Account) -> BunkerSigner:
        """The way to the account's bunker."""
        assert account.bunker is not None
        client, secret = self._client(account)
        bunker = account.bunker
        grant = BunkerGrant(account.pubkey, bunker.remote, bunker.relays, secret, bunker.pings)
        return BunkerSigner(grant, client)

    async def ask_bunker(self, account: Account, within: float) -> None:
        """Ask the account's bunker whether it is there; a `SignerError` says why it is not."""
        assert account.bunker is not None
        client, _ = self._client(account)
        rpc = Rpc(client, account.bunker.remote, account.bunker.relays, SystemClock())
        rpc.start()
        try:
            with contextlib.suppress(SignerRejected):  # who says no is there
                method = "ping" if account.bunker.pings else "get_public_key"
                await rpc.call(method, within=within)
        finally:
            await rpc.close()

    def _client(self, account: Account) -> tuple[SecretSigner, str]:
        path = self.bunker_file(account.pubkey)
        try:
            kept = msgspec.json.decode(path.read_bytes(), type=_Credentials)
            return parse_secret(kept.client), kept.secret
        except FileNotFoundError:
            raise KeyProblem(f"{path} is gone: connect to the bunker again") from None
        except (msgspec.DecodeError, UnicodeError, RecursionError, KeyProblem):
            raise KeyProblem(f"{path} is damaged: connect to the bunker again") from None

    # -- inside ------------------------------------------------------------------------------

    def _known(self, pubkey: str, name: str) -> Account:
        everyone = self.all()
        if name and any(a.name == name and a.pubkey != pubkey for a in everyone):
            raise KeyProblem(f"another account is called {name}")
        known = next((a for a in everyone if a.pubkey == pubkey), Account(pubkey))
        return msgspec.structs.replace(known, name=name or known.name)

    def _put(self, account: Account) -> Account:
        everyone = self.all()
        if account.pubkey in {known.pubkey for known in everyone}:
            everyone = [account if a.pubkey == account.pubkey else a for a in everyone]
        else:
            everyone.append(account)
        self._save(everyone)
        return account

    def _save(self, accounts: list[Account]) -> None:
        text = msgspec.json.format(msgspec.json.encode(accounts)).decode()
        _write(self._file, text, replace=True)


def _write(path: Path, text: str, *, replace: bool) -> None:
    """Write a file for its owner's eyes only, whole or not at all."""
    if not replace and path.exists():
        raise KeyProblem(f"{path} is there already; it is not overwritten")
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    half = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        handle = os.open(half, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "w") as file:
            file.write(text + "\n")
            file.flush()
            os.fsync(file.fileno())
        half.replace(path)
    finally:
        half.unlink(missing_ok=True)
