"""What a scripted relay says: behaviours for one event, and ways to put them together.

A behaviour is `async (client, event) -> None`; a bare name such as `accept` is one, a call such
as `refuse("blocked: no")` makes one. `store` alone decides what a later REQ finds.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable

from tests.relays.conversation import Client, repeat_last
from tests.relays.events import Event
from tests.relays.framing import Frame, Opcode, frame_bytes

Behaviour = Callable[[Client, Event], Awaitable[None]]

ID = object()
"""In `reply`, stands for the id of the event being answered."""

HUGE = 10_000_000


class Sequence:
    """The first for the first event, and so on; the last for ever. Counts over all connections."""

    def __init__(self, behaviours: Iterable[Behaviour]) -> None:
        self._behaviours = repeat_last(behaviours)

    async def __call__(self, client: Client, event: Event) -> None:
        await next(self._behaviours)(client, event)


class Gate:
    """Answers as `behaviour` does, but only once `open()` was called."""

    def __init__(self, behaviour: Behaviour) -> None:
        self._behaviour = behaviour
        self._opened = asyncio.Event()

    def open(self) -> None:
        self._opened.set()

    async def __call__(self, client: Client, event: Event) -> None:
        client.spawn(self._answer(client, event))

    async def _answer(self, client: Client, event: Event) -> None:
        await self._opened.wait()
        await self._behaviour(client, event)


def all_of(*behaviours: Behaviour) -> Behaviour:
    """One after the other, such as `all_of(store, drop)`: taken, but nobody said so."""

    async def act(client: Client, event: Event) -> None:
        for behaviour in behaviours:
            await behaviour(client, event)

    return act


def choose(choice: Callable[[Event], Behaviour]) -> Behaviour:
    """A behaviour picked by looking at the event."""

    async def act(client: Client, event: Event) -> None:
        await choice(event)(client, event)

    return act


async def store(client: Client, event: Event) -> None:
    """Keep the event, say nothing."""
    client.ledger.stored[event["id"]] = event
    client.ledger.changed()


async def silent(client: Client, event: Event) -> None:
    """Neither keep nor say anything."""


async def accept(client: Client, event: Event) -> None:
    """Store and say OK; a known event is a `duplicate:`, also OK true."""
    known = event["id"] in client.ledger.stored
    await store(client, event)
    await client.send("OK", event["id"], True, "duplicate: already have it" if known else "")


async def drop(client: Client, event: Event) -> None:
    """Reset the TCP connection."""
    client.drop()


async def drop_mid_frame(client: Client, event: Event) -> None:
    """End the TCP connection after half of an OK."""
    whole = frame_bytes(Frame(Opcode.TEXT, f'["OK","{event["id"]}",true,""]'.encode()))
    await client.write(whole[: len(whole) // 2])
    client.drop(reset=False)


async def hang(client: Client, event: Event) -> None:
    """Never read from this connection again; pings go unanswered, its buffers fill up."""
    await asyncio.Event().wait()


def reply(*parts: object) -> Behaviour:
    """Any relay message, such as `reply("OK", ID, True)`; stores nothing."""

    async def act(client: Client, event: Event) -> None:
        await client.send(*(event["id"] if part is ID else part for part in parts))

    return act


def refuse(message: str) -> Behaviour:
    """OK false with any text."""
    return reply("OK", ID, False, message)


def accept_saying(message: object, *extra: object) -> Behaviour:
    """Store and say OK true with a message of any type, and further elements."""
    return all_of(store, reply("OK", ID, True, message, *extra))


def answer_as(event_id: object, accepted: bool = True, message: str = "") -> Behaviour:
    """OK for another id than the event's: `""`, `"?"`, `None` or a wrong one."""
    return reply("OK", event_id, accepted, message)


def notice(text: str) -> Behaviour:
    """NOTICE instead of OK."""
    return reply("NOTICE", text)


def close(code: int = 1000, reason: str = "") -> Behaviour:
    """A WebSocket close instead of an OK. A reason over 123 bytes breaks the protocol."""

    async def act(client: Client, event: Event) -> None:
        await client.close(code, reason)

    return act


def close_after(
    count: int, code: int = 1000, reason: str = "", behaviour: Behaviour = accept
) -> Behaviour:
    """Answer `count` events of each connection, then close it."""

    async def act(client: Client, event: Event) -> None:
        await behaviour(client, event)
        if len(client.events) >= count:
            await client.close(code, reason)

    return act


def late(seconds: float, behaviour: Behaviour = accept) -> Behaviour:
    """The behaviour after a delay, while other events go on. Prefer `Gate` where it serves."""

    async def wait(client: Client, event: Event) -> None:
        await asyncio.sleep(seconds)
        await behaviour(client, event)

    async def act(client: Client, event: Event) -> None:
        client.spawn(wait(client, event))

    return act


def rate_limited(count: int, then: Behaviour = accept) -> Behaviour:
    """Refuse the first `count` events as too many."""
    return Sequence([refuse("rate-limited: slow down")] * count + [then])


def text(raw: str | bytes) -> Behaviour:
    """A text frame as given: not JSON, not UTF-8, not anything."""

    async def act(client: Client, event: Event) -> None:
        await client.send_text(raw)

    return act


def huge_text(size: int = HUGE) -> Behaviour:
    """A well-formed NOTICE of `size` characters."""
    return notice("x" * size)


def binary(data: bytes | None = None) -> Behaviour:
    """A binary frame; without data, the bytes of a correct OK true."""

    async def act(client: Client, event: Event) -> None:
        answer = f'["OK","{event["id"]}",true,""]'.encode()
        await client.send_frame(Frame(Opcode.BINARY, answer if data is None else data))

    return act


async def accept_fragmented(client: Client, event: Event) -> None:
    """Store; the OK comes in three fragments with a ping among them, as RFC 6455 allows."""
    await store(client, event)
    answer = f'["OK","{event["id"]}",true,"in three parts"]'.encode()
    await client.send_frame(Frame(Opcode.TEXT, answer[:20], final=False))
    await client.send_frame(Frame(Opcode.CONTINUATION, answer[20:50], final=False))
    await client.send_frame(Frame(Opcode.PING, b"between"))
    await client.send_frame(Frame(Opcode.CONTINUATION, answer[50:]))


accept_twice = all_of(accept, reply("OK", ID, True, ""))
accept_extra = accept_saying("", {"more": 1}, "elements")
accept_without_message = all_of(store, reply("OK", ID, True))
accept_null_message = accept_saying(None)
accept_number_message = accept_saying(7)
empty_id = answer_as("", accepted=False, message="invalid: Bad signature")
question_mark_id = answer_as("?", accepted=False, message="invalid: unparseable")
wrong_id = answer_as("f" * 64)
invalid_utf8 = text(b'["NOTICE","\xff\xfe"]')
malformed = text('["OK", "unfinished')
not_a_list = text('{"OK": true}')
long_close_reason = close(1008, "r" * 1000)
