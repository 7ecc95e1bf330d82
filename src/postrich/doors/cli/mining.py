"""Proof of work at the command line: `post --pow`.

Promises: nothing is kept before the work is done; Ctrl-C ends the work and leaves nothing.
"""

from __future__ import annotations

from postrich.accept import Options, Publishable
from postrich.doors.cli.outset import misuse
from postrich.doors.cli.showing import doing
from postrich.model.event import Draft
from postrich.outbox import Outbox
from postrich.sign.mine import HOPELESS, MiningProgress

ASK_RELAYS = "relays"


def bits_of(text: str) -> int:
    """`--pow`: bits of work, or `relays` for as many as they ask for (0)."""
    if text == ASK_RELAYS:
        return 0
    if text.isascii() and text.isdigit() and 1 <= int(text) <= HOPELESS:
        return int(text)
    raise misuse(f"{text!r} is neither 1 to {HOPELESS} bits nor `{ASK_RELAYS}`", "--pow")


async def mined(outbox: Outbox, item: Publishable, bits: int, options: Options) -> Draft:
    """The draft with its work, which is shown while it goes on."""
    with doing("asking the relays how much work they want") as status:

        def show(progress: MiningProgress) -> None:
            if status is not None:
                status.update(words_for(progress))

        return await outbox.mine(item, bits, options, show)


def words_for(progress: MiningProgress) -> str:
    """How far it is. Luck decides, so it says what to expect and not what is left."""
    bits = progress.expected.bit_length() - 1
    usual = progress.expected / progress.rate if progress.rate else 0.0
    return (
        f"mining {bits} bits for {progress.seconds:.0f} s (usually {_duration(usual)}), "
        f"{progress.rate / 1e6:.1f} million hashes a second (Ctrl-C: nothing is posted)"
    )


def _duration(seconds: float) -> str:
    for unit, size in (("days", 86_400), ("hours", 3_600), ("minutes", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"
