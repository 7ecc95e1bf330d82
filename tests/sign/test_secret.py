"""Local keys: every form they are given in, kept encrypted, and never told to anybody (A16)."""

from __future__ import annotations

import logging
from pathlib import Path

import nostr_sdk
import pytest

from postrich import SecretSigner, make_draft, parse_secret
from postrich.errors import KeyProblem
from postrich.model.event import is_signed
from tests.deliver.outboxes import PATIENCE, outbox_at
from tests.relays.events import public_key
from tests.relays.script import require_auth
from tests.relays.scripted import ScriptedRelay
from tests.relays.scripts import refuse

pytestmark = pytest.mark.req("A16")

SECRET = bytes.fromhex("7f7ff03d123792d6ac594bfa67bf6d0c0ab55b6b1fdb6249303fe861f1ccba9a")
NSEC = "nsec10allq0gjx7fddtzef0ax00mdps9t2kmtrldkyjfs8l5xruwvh2dq0lhhkp"  # NIP-19's own example
HEX = SECRET.hex()
ORDER = "fffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141"


@pytest.fixture(scope="module")
def locked() -> str:
    """The key as ncryptsec, by the SDK rather than by us."""
    return str(nostr_sdk.SecretKey.parse(NSEC).encrypt("correct horse").to_bech32())


@pytest.mark.parametrize("text", [NSEC, HEX, HEX.upper(), f"  {NSEC}\n", f"\t{HEX}\r\n"])
def test_every_form_of_a_key_is_the_same_key(text: str) -> None:
    assert parse_secret(text).pubkey == public_key(SECRET)


async def test_it_signs_what_it_is_given() -> None:
    signer = parse_secret(NSEC)
    draft = make_draft(signer.pubkey, 5, 1, [["t", "x"]], "hello")
    event = await signer.sign(draft)
    assert event.id == draft.id
    assert is_signed(event)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "hello",
        HEX[:-1],
        HEX + "00",
        "zz" * 32,
        NSEC[:-1] + "q",
        NSEC[:20],
        "0" * 64,
        ORDER,
        "f" * 64,
        "npub1sn0wdenkukak0d9dfczzeacvhkrgz92ak56egt7vdgzn8pv2wfqqhrjdv9",
    ],
)
def test_what_is_no_key_is_refused_without_repeating_it(text: str) -> None:
    with pytest.raises(KeyProblem) as caught:
        parse_secret(text)
    assert text == "" or text not in str(caught.value)


def test_keys_are_made_from_randomness() -> None:
    assert SecretSigner.generate().pubkey != SecretSigner.generate().pubkey


def test_an_encrypted_key_needs_its_passphrase(locked: str) -> None:
    assert parse_secret(locked, "correct horse").pubkey == public_key(SECRET)
    with pytest.raises(KeyProblem, match="give its passphrase"):
        parse_secret(locked)
    with pytest.raises(KeyProblem, match="passphrase is wrong"):
        parse_secret(locked, "battery staple")
    for damaged in (locked[:-1], locked[:-4] + "qqqq", "ncryptsec1", locked[:60]):
        with pytest.raises(KeyProblem, match="damaged"):
            parse_secret(damaged, "correct horse")


def test_our_encryption_is_read_by_others() -> None:
    text = parse_secret(HEX).encrypted("correct horse")
    assert text.startswith("ncryptsec1")
    theirs = nostr_sdk.EncryptedSecretKey.from_bech32(text).decrypt("correct horse")
    assert theirs.to_hex() == HEX


def test_messages_between_two_keys_are_read_by_them_alone() -> None:
    ours, theirs, stranger = (SecretSigner.generate() for _ in range(3))
    letter = ours.encrypt_to(theirs.pubkey, "hello 🦤")
    assert "hello" not in letter
    assert theirs.decrypt_from(ours.pubkey, letter) == "hello 🦤"
    assert ours.decrypt_from(theirs.pubkey, letter) == "hello 🦤"
    assert stranger.decrypt_from(ours.pubkey, letter) is None
    for junk in ("", "pong", "Ag" + "A" * 150, letter[:-4], letter + "AAAA"):
        assert theirs.decrypt_from(ours.pubkey, junk) is None
    assert theirs.decrypt_from("0" * 64, letter) is None


def test_a_signer_shows_only_its_public_key() -> None:
    signer = parse_secret(NSEC)
    for text in (repr(signer), str(signer), f"{signer}", f"{[signer]!r}"):
        assert public_key(SECRET)[:8] in text
        assert HEX not in text
        assert NSEC not in text
    assert HEX not in repr(vars(signer))


async def test_keys_are_never_logged_nor_in_the_database(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A whole road with AUTH and a refusal, at the most talkative level, that repeats the key."""
    caplog.set_level(logging.DEBUG)
    leaky = require_auth("with", then=refuse(f"error: was that {NSEC} or secret={HEX}?"))
    async with (
        ScriptedRelay(leaky) as relay,
        outbox_at(tmp_path, relay, signer=parse_secret(NSEC), policy="slow") as outbox,
    ):
        handle = await outbox.post("hello")
        await relay.wait_events(2, PATIENCE)
        async with outbox_at(tmp_path, relay, deliver=False) as other:
            while not (await other.job(handle.id)).publish_attempts:
                pass
    texts = [path.read_bytes() for path in tmp_path.iterdir()]
    texts.append(caplog.text.encode())
    assert len(texts) >= 2
    for text in texts:
        assert NSEC.encode() not in text
        assert HEX.encode() not in text.lower()
        assert SECRET not in text
