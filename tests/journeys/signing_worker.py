"""A process that signs drafts and publishes them, made to be killed (see test_signers).

    python -m tests.journeys.signing_worker STORE RELAY DRAFTS [--hold]

The account is a key in POSTRICH_NSEC, or a bunker in POSTRICH_BUNKER. With `--hold` it says
`signed <id> <sig>` after each signature and goes no further: what is signed is not stored yet.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import msgspec

from postrich import Draft, Event, Outbox, RetryPolicy, SecretSigner, Settings, parse_secret
from postrich.accept import Options
from postrich.rules import nip46
from postrich.sign.bunker import BunkerGrant, BunkerSigner
from postrich.sign.signer import Signer

QUICK = RetryPolicy("quick", delays=(0.05,), jitter=(0.5, 1.5))


class Known(msgspec.Struct):
    """A bunker that knows this process by its key."""

    grant: BunkerGrant
    key: str


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


async def hold(event: Event) -> Event:
    say(f"signed {event.id} {event.sig}")
    await asyncio.Event().wait()
    return event


class HoldingKey(SecretSigner):
    keeps_time = True

    async def sign(self, draft: Draft) -> Event:
        return await hold(await super().sign(draft))


class HoldingBunker(BunkerSigner):
    async def sign(self, draft: Draft) -> Event:
        return await hold(await super().sign(draft))


def find_signer(*, holds: bool) -> Signer:
    known = os.environ.get("POSTRICH_BUNKER")
    if known is None:
        secret = bytes.fromhex(os.environ["POSTRICH_NSEC"])
        return HoldingKey(secret) if holds else SecretSigner(secret)
    bunker = msgspec.json.decode(known, type=Known)
    made = HoldingBunker if holds else BunkerSigner
    return made(bunker.grant, parse_secret(bunker.key))


async def work(store: str, relay: str, drafts: Path, *, holds: bool) -> None:
    nip46.SPACING = 0.01
    options = Options(policy=QUICK)
    async with Outbox.open(
        store, relays=[relay], signer=find_signer(holds=holds), settings=Settings(timeout=5.0)
    ) as outbox:
        say("ready")
        await outbox.publish_batch(drafts.read_bytes().splitlines(), options)
        await outbox.drained()


if __name__ == "__main__":
    asyncio.run(work(sys.argv[1], sys.argv[2], Path(sys.argv[3]), holds="--hold" in sys.argv[4:]))
