"""Jobs as people name them: a number, the start of an event id, note1…, nevent1…."""

from __future__ import annotations

from collections.abc import Iterable

from postrich.errors import UnknownJob
from postrich.outbox import Outbox


async def find_job(outbox: Outbox, text: str) -> int:
    """The job meant, or `UnknownJob`."""
    return await outbox.find(_event_id(text.strip().removeprefix("nostr:")))


async def find_jobs(outbox: Outbox, texts: Iterable[str]) -> tuple[int, ...]:
    """The jobs meant, each once, in the order given."""
    found = [await find_job(outbox, text) for text in texts]
    return tuple(dict.fromkeys(found))


def _event_id(text: str) -> str:
    """The hex id in a bech32 name; anything else as it is."""
    if not text.startswith(("note1", "nevent1")):
        return text
    from nostr_sdk import EventId, Nip19Event, NostrSdkError

    try:
        if text.startswith("note1"):
            return str(EventId.parse(text).to_hex())
        return str(Nip19Event.from_bech32(text).event_id().to_hex())
    except NostrSdkError:
        raise UnknownJob(f"{text!r} is not a whole event name") from None
