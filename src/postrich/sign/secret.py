"""The local key: signs at once. Its bytes never leave this module except encrypted (A16)."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import coincurve

from postrich.errors import KeyProblem
from postrich.model.event import Draft, Event, seal
from postrich.sign.signer import Signer


class SecretSigner(Signer):
    """Signs with a key in memory. Its text form shows only the public key."""

    def __init__(self, secret: bytes) -> None:
        try:
            self._key = coincurve.PrivateKey(secret)
        except ValueError:
            raise KeyProblem("this is not a usable secret key") from None
        self._pubkey = self._key.public_key_xonly.format().hex()

    @classmethod
    def generate(cls) -> SecretSigner:
        """A new key from the operating system's randomness."""
        return cls(os.urandom(32))

    @property
    def pubkey(self) -> str:
        return self._pubkey

    async def sign(self, draft: Draft) -> Event:
        return seal(draft, self._key.sign_schnorr(bytes.fromhex(draft.id)).hex())

    def encrypt_to(self, pubkey: str, text: str) -> str:
        """A message that only the other key can read (NIP-44)."""
        from nostr_sdk import Nip44Version, PublicKey, SecretKey, nip44_encrypt

        key = SecretKey.from_bytes(self._key.secret)
        return str(nip44_encrypt(key, PublicKey.parse(pubkey), text, Nip44Version.V2))

    def decrypt_from(self, pubkey: str, payload: str) -> str | None:
        """The other key's message to us; None where it is not one."""
        from nostr_sdk import NostrSdkError, PublicKey, SecretKey, nip44_decrypt

        key = SecretKey.from_bytes(self._key.secret)
        try:
            return str(nip44_decrypt(key, PublicKey.parse(pubkey), payload))
        except NostrSdkError:
            return None

    def encrypted(self, passphrase: str) -> str:
        """The key as NIP-49 `ncryptsec1…`, for a key file."""
        from nostr_sdk import SecretKey

        return str(SecretKey.from_bytes(self._key.secret).encrypt(passphrase).to_bech32())

    def __repr__(self) -> str:
        return f"SecretSigner({self._pubkey[:8]}…)"


def parse_secret(text: str, passphrase: str | None = None) -> SecretSigner:
    """A signer from nsec, 64 hex characters, or ncryptsec with its passphrase."""
    text = text.strip()
    if text.startswith("ncryptsec1"):
        return _decrypt(text, passphrase)
    if len(text) == 64:
        try:
            return SecretSigner(bytes.fromhex(text))
        except ValueError:
            pass
    elif text.startswith("nsec1"):
        from nostr_sdk import NostrSdkError, SecretKey

        try:
            return SecretSigner(bytes.fromhex(SecretKey.parse(text).to_hex()))
        except NostrSdkError:
            pass
    raise KeyProblem("a secret key must be nsec1…, ncryptsec1… or 64 hex characters")


def _decrypt(text: str, passphrase: str | None) -> SecretSigner:
    from nostr_sdk import EncryptedSecretKey, NostrSdkError

    if passphrase is None:
        raise KeyProblem("the key is encrypted: give its passphrase")
    try:
        locked = EncryptedSecretKey.from_bech32(text)
    except NostrSdkError:
        raise KeyProblem("the encrypted key is damaged") from None
    try:
        return SecretSigner(bytes.fromhex(locked.decrypt(passphrase).to_hex()))
    except NostrSdkError:
        raise KeyProblem("the passphrase is wrong") from None


def write_key_file(path: Path, signer: SecretSigner, passphrase: str) -> None:
    """Keep the key encrypted, readable by its owner only; never overwrites."""
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise KeyProblem(f"{path} is there already; it is not overwritten") from None
    with os.fdopen(handle, "w") as file:
        file.write(signer.encrypted(passphrase) + "\n")
        file.flush()
        os.fsync(file.fileno())


def find_signer(environment: Mapping[str, str], key_file: Path) -> SecretSigner | None:
    """The key from `POSTRICH_NSEC`, else from the key file; None where there is neither.

    The key file is unlocked by `POSTRICH_PASSPHRASE`; `KeyProblem` where that is missing.
    """
    if nsec := environment.get("POSTRICH_NSEC"):
        return parse_secret(nsec, environment.get("POSTRICH_PASSPHRASE"))
    if not key_file.is_file():
        return None
    return parse_secret(key_file.read_text("utf-8"), environment.get("POSTRICH_PASSPHRASE"))
