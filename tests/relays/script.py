"""A whole conversation: what a scripted relay does at each kind of client frame.

`Script` joins one behaviour per frame kind, each replaceable; `require_auth` is the one script
where they depend on each other. Filters are judged here as NIP-01 says.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Literal

from tests.relays.conversation import Client, repeat_last
from tests.relays.events import Event
from tests.relays.framing import Frame, Opcode, frame_bytes
from tests.relays.handshakes import Handshake, upgrade
from tests.relays.scripts import Behaviour, accept

Filter = dict[str, Any]
Opening = Callable[[Client], Awaitable[None]]
Answer = Callable[[Client, str, list[Filter]], Awaitable[None]]
When = Literal["before", "with", "after", "never"]

AUTH_REQUIRED = "auth-required: we only take events from those we know"


async def say_nothing(client: Client) -> None:
    """The usual opening."""


async def accept_auth(client: Client, event: Event) -> None:
    """OK true to any AUTH event."""
    await client.send("OK", event["id"], True, "")


async def answer_stored(client: Client, subscription: str, filters: list[Filter]) -> None:
    """The stored events that match, newest first, then EOSE."""
    for event in select(list(client.ledger.stored.values()), filters):
        await client.send("EVENT", subscription, event)
    await client.send("EOSE", subscription)


async def ignore_request(client: Client, subscription: str, filters: list[Filter]) -> None:
    """Never answer a REQ."""


def closed(message: str) -> Answer:
    """Refuse every REQ with CLOSED and a text."""

    async def act(client: Client, subscription: str, filters: list[Filter]) -> None:
        await client.send("CLOSED", subscription, message)

    return act


def answers_in_turn(*answers: Answer) -> Answer:
    """The first for the first REQ, and so on; the last for ever."""
    steps = repeat_last(answers)

    async def act(client: Client, subscription: str, filters: list[Filter]) -> None:
        await next(steps)(client, subscription, filters)

    return act


@dataclass(frozen=True)
class Script:
    """What the relay does when a connection opens, and at each EVENT, AUTH and REQ."""

    on_event: Behaviour = accept
    on_request: Answer = answer_stored
    on_auth: Behaviour = accept_auth
    on_open: Opening = say_nothing
    handshake: Handshake = upgrade

    async def answer(self, client: Client, message: Any) -> None:
        match message:
            case ["EVENT", dict() as event, *_]:
                await self.on_event(client, event)
            case ["AUTH", dict() as event, *_]:
                await self.on_auth(client, event)
            case ["REQ", str() as subscription, *filters]:
                await self.on_request(client, subscription, filters)
            case ["CLOSE", *_]:
                pass
            case _:
                await client.send("NOTICE", "invalid client message")


def challenge_of(client: Client) -> str:
    """The challenge `require_auth` sends on a connection; each has its own."""
    return f"challenge-{client.number}"


def require_auth(
    when: When,
    then: Behaviour = accept,
    *,
    on_auth: Behaviour = accept_auth,
    reads: bool = False,
    handshake: Handshake = upgrade,
) -> Script:
    """Refuse events (and REQs, with `reads`) until an AUTH was seen on the connection.

    `when` says where the challenge comes: before anything, in one write with the refusal, after
    it, or never. Checks no AUTH event, only remembers it; from then on acts as `then`."""

    async def on_open(client: Client) -> None:
        if when == "before":
            await client.send("AUTH", challenge_of(client))

    async def on_event(client: Client, event: Event) -> None:
        if client.auths:
            await then(client, event)
        else:
            await _refuse(client, when, f'["OK","{event["id"]}",false,"{AUTH_REQUIRED}"]')

    async def on_request(client: Client, subscription: str, filters: list[Filter]) -> None:
        if client.auths or not reads:
            await answer_stored(client, subscription, filters)
        else:
            await _refuse(client, when, f'["CLOSED","{subscription}","{AUTH_REQUIRED}"]')

    return Script(on_event, on_request, on_auth, on_open, handshake)


async def _refuse(client: Client, when: When, refusal: str) -> None:
    challenge = f'["AUTH","{challenge_of(client)}"]'
    texts = {"with": [challenge, refusal], "after": [refusal, challenge]}.get(when, [refusal])
    frames = [frame_bytes(Frame(Opcode.TEXT, text.encode())) for text in texts]
    if when == "with":
        frames = [b"".join(frames)]
    for frame in frames:
        await client.write(frame)


def select(events: list[Event], filters: list[Filter]) -> list[Event]:
    """The events any filter asks for, newest first, each filter within its own limit."""
    newest = sorted(events, key=lambda event: (-event["created_at"], event["id"]))
    chosen: dict[str, Event] = {}
    for wanted in filters:
        found = [event for event in newest if matches(event, wanted)]
        chosen.update((event["id"], event) for event in found[: wanted.get("limit")])
    return [event for event in newest if event["id"] in chosen]


def matches(event: Event, wanted: Filter) -> bool:
    return all(_matches(event, name, value) for name, value in wanted.items())


def _matches(event: Event, name: str, value: Any) -> bool:
    if name.startswith("#"):
        return any(tag[0] == name[1:] and tag[1] in value for tag in event["tags"] if len(tag) > 1)
    match name:
        case "ids":
            return event["id"] in value
        case "authors":
            return event["pubkey"] in value
        case "kinds":
            return event["kind"] in value
        case "since":
            return bool(event["created_at"] >= value)
        case "until":
            return bool(event["created_at"] <= value)
        case _:
            return name == "limit"
