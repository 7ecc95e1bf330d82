"""The local key: signs at once.

Promises: an account's key leaves this module only encrypted (NIP-49), or into the operating
system's keyring (A16).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import coincurve

from postrich.errors import KeyProblem
from postrich.model.event import Draft, Event, seal
from postrich.rules.redact import redact
from postrich.sign.signer import Signer

KEYRING_SERVICE = "postrich"


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
        """The other key's message to us (NIP-44, formerly NIP-04); None where it is not one."""
        from nostr_sdk import NostrSdkError, PublicKey, SecretKey, nip04_decrypt, nip44_decrypt

        key = SecretKey.from_bytes(self._key.secret)
        decrypt = nip04_decrypt if "?iv=" in payload else nip44_decrypt
        try:
            return str(decrypt(key, PublicKey.parse(pubkey), payload))
        except NostrSdkError:
            return None

    def encrypted(self, passphrase: str) -> str:
        """The key as NIP-49 `ncryptsec1…`, for a key file."""
        from nostr_sdk import SecretKey

        return str(SecretKey.from_bytes(self._key.secret).encrypt(passphrase).to_bech32())

    def exposed(self) -> str:
        """The key in the clear, for a file of its owner's: only where it is no account's key."""
        return self._key.secret.hex()

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


# -- the operating system's keyring ---------------------------------------------------------------


def keep_in_keyring(signer: SecretSigner) -> None:
    """Give the key to the operating system's keyring."""
    secret = signer._key.secret.hex()  # noqa: SLF001 - this module's own
    with _keyring() as keyring:
        keyring.set_password(KEYRING_SERVICE, signer.pubkey, secret)


def find_in_keyring(pubkey: str) -> SecretSigner:
    """The key that the keyring holds for an account, or `KeyProblem`."""
    with _keyring() as keyring:
        found = keyring.get_password(KEYRING_SERVICE, pubkey)
    if found is None:
        raise KeyProblem(f"the keyring has no key of {pubkey[:8]}…: import it again")
    signer = parse_secret(found)
    if signer.pubkey != pubkey:
        raise KeyProblem(f"the keyring's key of {pubkey[:8]}… is another account's")
    return signer


def drop_from_keyring(pubkey: str) -> None:
    """Take the key out of the keyring, if it is there."""
    with _keyring() as keyring:
        if keyring.get_password(KEYRING_SERVICE, pubkey) is not None:
            keyring.delete_password(KEYRING_SERVICE, pubkey)


@contextmanager
def _keyring() -> Iterator[Any]:
    try:
        import keyring
        from keyring.errors import KeyringError
    except ImportError:
        raise KeyProblem(
            "there is no keyring support here: install it with `pip install 'postrich[keyring]'`"
        ) from None
    try:
        yield keyring
    except (KeyringError, RuntimeError, OSError) as problem:
        raise KeyProblem(f"the keyring cannot be used: {redact(str(problem))}") from None
