"""`serve --demo`: the outbox at work on this machine, with three real relays.

Promises: real relays, real deliveries, real notices; a throwaway key and a temporary home, both
gone at the end. One relay's plug is pulled again and again, so that there is something to see.
"""

from __future__ import annotations

import asyncio
import itertools
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

from nostr_sdk import LocalRelayBuilder

from postrich.config import Settings
from postrich.doors.cli.narrator import Narrator
from postrich.doors.cli.plug import Plug
from postrich.doors.cli.serving import stop_signal
from postrich.doors.cli.showing import say
from postrich.observe.notices import Subscription
from postrich.outbox import Outbox
from postrich.sign.secret import SecretSigner

NAMES = ("alpha", "bravo", "charlie")
FIRST_PULLED = 3.0
PLUGGED, PULLED = 12.0, 9.0
POST_EVERY = 10.0
LOOK_EVERY = 0.5

NOTES = (
    "Good morning, Nostr",
    "An ostrich walks into a relay",
    "This note will get there, plug or no plug",
    "Store first, then send",
    "Published means: relays said so",
    "Nothing is lost when charlie is away",
)


async def run_demo() -> int:
    """Show it until Ctrl-C."""
    stopped = stop_signal()
    async with _relays() as plugs:
        urls = {plug.url: name for plug, name in zip(plugs, NAMES, strict=True)}
        settings = Settings(relays=tuple(urls), goal=2, autopilot=False)
        signer = SecretSigner.generate()
        with tempfile.TemporaryDirectory(prefix="postrich-demo-") as folder:
            path = Path(folder) / "outbox.db"
            async with Outbox.open(path, settings=settings, signer=signer, role="demo") as outbox:
                narrator = Narrator(outbox, urls)
                narrator.banner(_banner(urls))
                await _play(outbox, narrator, plugs[-1], stopped)
                waiting = (await outbox.status()).open_deliveries
    say(f"\nGoodbye: {narrator.summary}; {waiting} deliveries were still to come.")
    return 0


def _banner(urls: dict[str, str]) -> list[str]:
    return [
        "Postrich at work",
        "Three real relays run on this machine, each behind a port of its own:",
        *(f"  {name:<8} {url}" for url, name in urls.items()),
        "charlie's plug is pulled every now and then. A note is published once two relays",
        f"have it; the third gets it as soon as it is back. One comes every {POST_EVERY:g} s.",
        "The key is a toy, and all of it is gone when you stop it with Ctrl-C.",
        "",
    ]


@asynccontextmanager
async def _relays() -> AsyncIterator[list[Plug]]:
    relays = [LocalRelayBuilder().addr("127.0.0.1").build() for _ in NAMES]
    plugs: list[Plug] = []
    try:
        for relay in relays:
            await relay.run()
            plug = Plug(urlsplit(str(await relay.url())).port or 0)
            await plug.put_in()
            plugs.append(plug)
        await plugs[-1].pull()
        yield plugs
    finally:
        for plug in plugs:
            await plug.pull()
        for relay in relays:
            relay.shutdown()


async def _play(outbox: Outbox, narrator: Narrator, plug: Plug, stopped: asyncio.Event) -> None:
    """Everything that goes on at once, until it is stopped or a part of it fails."""
    with outbox.watch() as notices:
        parts = [
            asyncio.create_task(part)
            for part in (
                _narrate(narrator, notices),
                _look(narrator),
                _post(outbox),
                _flicker(plug),
            )
        ]
        stop = asyncio.create_task(stopped.wait())
        done, _ = await asyncio.wait([*parts, stop], return_when=asyncio.FIRST_COMPLETED)
        for task in (*parts, stop):
            task.cancel()
        await asyncio.gather(*parts, stop, return_exceptions=True)
        for task in done:
            task.result()


async def _narrate(narrator: Narrator, notices: Subscription) -> None:
    async for notice in notices:
        await narrator.tell(notice)


async def _look(narrator: Narrator) -> None:
    while True:
        await narrator.look_at_health()
        await asyncio.sleep(LOOK_EVERY)


async def _post(outbox: Outbox) -> None:
    for text in NOTES[:3]:
        await outbox.post(text)
    for number, text in enumerate(itertools.cycle(NOTES), 4):
        await asyncio.sleep(POST_EVERY)
        await outbox.post(f"{text} ({number})")


async def _flicker(plug: Plug) -> None:
    """Away at first, then back and away in turns."""
    await asyncio.sleep(FIRST_PULLED)
    while True:
        await plug.put_in()
        await asyncio.sleep(PLUGGED)
        await plug.pull()
        await asyncio.sleep(PULLED)
