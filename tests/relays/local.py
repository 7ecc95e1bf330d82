"""Real relay 1: nostr-sdk's `LocalRelay` (Rust) as a process of its own.

    python -m tests.relays.local --port P [--auth write|read|both] [--min-pow N] ...

Prints `ready <url>` once it answers. Events live in memory, or with `--data DIR` in an LMDB
directory that outlives a restart. A process, so that tests can kill it and bring it back.
A filter gets at most 500 events, whatever limit it or the builder asks for.
"""

# nostr_sdk ships no type information.
# mypy: disable-error-code="import-untyped", allow-subclassing-any

import argparse
import asyncio
import signal

import nostr_sdk
from nostr_sdk import LocalRelayBuilder, LocalRelayBuilderNip42, LocalRelayBuilderNip42Mode

from tests.relays.leash import hold_leash, say_ready

MAX_SUBSCRIPTIONS = 500
# LocalRelay's own default is 60 events a minute on each connection: too few for most tests.
UNLIMITED = 1_000_000


class Refusals(nostr_sdk.WritePolicy):
    """Refuses given authors and given words; the relay puts `blocked: ` before the text."""

    def __init__(self, authors: list[str], words: list[str]) -> None:
        self._authors = frozenset(authors)
        self._words = words

    async def admit_event(
        self, event: nostr_sdk.Event, socket_addr: str
    ) -> nostr_sdk.WritePolicyResult:
        if event.author().to_hex() in self._authors:
            return nostr_sdk.WritePolicyResult.REJECT("author not welcome")
        if any(word in event.content() for word in self._words):
            return nostr_sdk.WritePolicyResult.REJECT("content not welcome")
        return nostr_sdk.WritePolicyResult.ACCEPT()


def parser() -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(description="nostr-sdk LocalRelay as a process")
    options.add_argument("--port", type=int, required=True)
    options.add_argument("--auth", choices=["write", "read", "both"])
    options.add_argument("--min-pow", type=int)
    options.add_argument("--events-per-minute", type=int, default=UNLIMITED)
    options.add_argument("--max-connections", type=int)
    options.add_argument("--refuse-author", action="append", default=[], metavar="HEX")
    options.add_argument("--refuse-content", action="append", default=[], metavar="TEXT")
    options.add_argument("--data", metavar="DIR", help="LMDB directory; memory without it")
    options.add_argument("--leash", action="store_true", help="end when stdin closes")
    return options


async def build(options: argparse.Namespace) -> nostr_sdk.LocalRelay:
    limit = nostr_sdk.RateLimit(
        max_reqs=MAX_SUBSCRIPTIONS, notes_per_minute=options.events_per_minute
    )
    builder = LocalRelayBuilder().addr("127.0.0.1").port(options.port)
    builder = builder.rate_limit(limit)
    if options.auth:
        mode = LocalRelayBuilderNip42Mode[options.auth.upper()]
        builder = builder.nip42(LocalRelayBuilderNip42(mode=mode))
    if options.min_pow:
        builder = builder.min_pow(options.min_pow)
    if options.max_connections:
        builder = builder.max_connections(options.max_connections)
    if options.refuse_author or options.refuse_content:
        builder = builder.write_policy(Refusals(options.refuse_author, options.refuse_content))
    if options.data:
        builder = builder.database(await nostr_sdk.NostrLmdb.open(options.data))
    return builder.build()


async def serve(options: argparse.Namespace) -> None:
    loop = asyncio.get_running_loop()
    # Rust calls the write policy from its own threads, which have no running loop.
    nostr_sdk.uniffi_set_event_loop(loop)
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    relay = await build(options)
    await relay.run()
    say_ready(str(await relay.url()))
    await stopped.wait()
    relay.shutdown()


def main() -> None:
    options = parser().parse_args()
    if options.leash:
        hold_leash()
    asyncio.run(serve(options))


if __name__ == "__main__":
    main()
