"""What a scripted bunker can do with one request, and the faults that come of it.

A behaviour is a function of an `Exchange`; the tables at the end name the faults, for tests that go
through them all. Promises that each behaviour does one thing; `both`, `in_turn` and `after` put
them together.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tests.bunkers.process import Request
from tests.relays.events import Event, make_event

if TYPE_CHECKING:
    from tests.bunkers.scripted import ScriptedBunker

STRANGER = b"\x07" * 32
HUGE = "x" * 40_000  # encrypted, near the 65,536 bytes that LocalRelay lets through


@dataclass(frozen=True)
class Exchange:
    """One request, and the ways to answer it."""

    bunker: ScriptedBunker
    request: Request

    def truth(self) -> dict[str, Any]:
        """What a good signer would answer."""
        return self.bunker.true_answer(self.request)

    async def say(
        self, fields: Mapping[str, Any], *, identity: str | None = None, key: bytes | None = None
    ) -> None:
        body = json.dumps({"id": identity or self.request.id, **fields})
        await self.bunker.send(body, self.request.client, key)


Behaviour = Callable[[Exchange], Coroutine[Any, Any, None]]


async def answer(exchange: Exchange) -> None:
    await exchange.say(exchange.truth())


async def silence(exchange: Exchange) -> None:
    """The request is seen and never answered."""


async def as_stranger(exchange: Exchange) -> None:
    """The true answer, but written and signed by another key."""
    await exchange.say(exchange.truth(), key=STRANGER)


async def to_another_id(exchange: Exchange) -> None:
    """An answer to a request that nobody made."""
    await exchange.say(exchange.truth(), identity="0" * 16)


def says(**fields: Any) -> Behaviour:
    """A response of exactly these fields beside its id: any JSON, however wrong."""

    async def behave(exchange: Exchange) -> None:
        await exchange.say(fields)

    return behave


def sends(body: str, *, encrypted: bool = True) -> Behaviour:
    """Any text in place of a response, encrypted or as it stands."""

    async def behave(exchange: Exchange) -> None:
        await exchange.bunker.send(body, exchange.request.client, encrypted=encrypted)

    return behave


def signs(
    *, key: bytes | None = None, added_tags: Iterable[list[str]] = (), **fields: Any
) -> Behaviour:
    """A truly signed event that is not the draft: fields changed, tags added, another author."""

    async def behave(exchange: Exchange) -> None:
        draft = json.loads(exchange.request.params[0]) | fields
        draft["tags"] = [*draft["tags"], *added_tags]
        event = sign(key or exchange.bunker.user, draft)
        await exchange.say({"result": json.dumps(event)})

    return behave


def forges(**fields: Any) -> Behaviour:
    """The draft, signed, with fields changed afterwards: a false id or signature."""

    async def behave(exchange: Exchange) -> None:
        event = json.loads(exchange.truth()["result"]) | fields
        await exchange.say({"result": json.dumps(event)})

    return behave


def after(seconds: float, then: Behaviour = answer) -> Behaviour:
    async def behave(exchange: Exchange) -> None:
        await asyncio.sleep(seconds)
        await then(exchange)

    return behave


def challenges(url: str, then: Behaviour = answer) -> Behaviour:
    """Sends the user to a page; answers the same request once `go` was called."""

    async def behave(exchange: Exchange) -> None:
        await exchange.say({"result": "auth_url", "error": url})
        await exchange.bunker.approved.wait()
        await then(exchange)

    return behave


def both(*behaviours: Behaviour) -> Behaviour:
    """One after the other for the same request: noise and then the answer, an answer twice."""

    async def behave(exchange: Exchange) -> None:
        for behaviour in behaviours:
            await behaviour(exchange)

    return behave


def in_turn(*behaviours: Behaviour) -> Behaviour:
    """One for each request; the last one stays."""
    left = list(behaviours)

    async def behave(exchange: Exchange) -> None:
        await (left.pop(0) if len(left) > 1 else left[0])(exchange)

    return behave


def sign(key: bytes, draft: Mapping[str, Any]) -> Event:
    """The draft as an event of this key, whoever it says it is by."""
    return make_event(key, draft["kind"], draft["content"], draft["tags"], draft["created_at"])


#: Answers to sign_event that a client must not take for the signed draft.
FALSE_EVENTS: dict[str, Behaviour] = {
    "other content": signs(content="other"),
    "other time": signs(created_at=1_600_000_000),
    "other kind": signs(kind=30_023),
    "added tag": signs(added_tags=[["t", "added"]]),
    "other author": signs(key=STRANGER),
    "wrong id": forges(id="0" * 64),
    "bad signature": forges(sig="0" * 128),
    "signature missing": forges(sig=None),
    "not JSON": says(result="signed!"),
    "empty": says(result=""),
    "null": says(result=None),
    "number": says(result=7),
    "object": says(result={"id": "0" * 64}),
    "list": says(result="[]"),
    "huge": says(result=HUGE),
    "neither result nor error": says(),
}

#: Refusals in the forms that signers give them.
REFUSALS: dict[str, Behaviour] = {
    "text": says(error="user rejected"),
    "text beside a result": says(result="error", error="Not authorized"),
    "text beside null": says(result=None, error="denied"),
    "JSON text": says(error='{"code":"PERMISSION_DENIED","message":"Permission denied"}'),
    "object": says(error={"code": -32000, "message": "denied"}),
    "number": says(error=403),
    "empty": says(error=""),
}

#: What is no answer at all: a client goes on waiting, and takes the true answer after it.
NOISE: dict[str, Behaviour] = {
    "plain text": sends("pong", encrypted=False),
    "garbage ciphertext": sends("Ag" + "A" * 150, encrypted=False),
    "not JSON": sends("pong"),
    "not an object": sends("[1, 2]"),
    "no id": sends('{"result": "pong"}'),
    "a number for an id": sends('{"id": 1, "result": "pong"}'),
    "another request's id": to_another_id,
    "a stranger": as_stranger,
}

#: Answers to switch_relays that leave a client where it is.
NO_SWITCH: dict[str, Behaviour] = {
    "null": says(result=None),
    "null as text": says(result="null"),
    "empty": says(result=""),
    "error": says(error="unknown method: switch_relays"),
    "no relays": says(result="[]"),
    "not relays": says(result='["ftp://example.com", 7, ""]'),
    "not a list": says(result='{"relays": []}'),
}
