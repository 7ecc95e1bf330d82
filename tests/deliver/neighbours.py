"""A small network for tests of routing: people, their lists, and the indexer that knows them."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

from postrich import Outbox, SecretSigner
from postrich.model.delivery import Delivery
from postrich.model.job import Job
from tests.deliver.outboxes import outbox_at
from tests.relays.events import Event, make_event, public_key
from tests.relays.script import Script, answer_stored
from tests.relays.scripted import ScriptedRelay
from tests.relays.scripts import accept

ME, ALICE, BOB = os.urandom(32), os.urandom(32), os.urandom(32)
WRAP = 1059

Relay = ScriptedRelay | str


def url_of(relay: Relay) -> str:
    """A relay's URL in normal form."""
    url = relay if isinstance(relay, str) else relay.url
    return url if url.endswith("/") else f"{url}/"


def relay_list(
    secret: bytes,
    *,
    write: Iterable[Relay] = (),
    read: Iterable[Relay] = (),
    created_at: int | None = None,
) -> Event:
    """A kind 10002."""
    tags = [["r", url_of(relay), "write"] for relay in write]
    tags += [["r", url_of(relay), "read"] for relay in read]
    return make_event(secret, 10002, tags=tags, created_at=created_at)


def named_list(secret: bytes, kind: int, *relays: Relay, created_at: int | None = None) -> Event:
    """A list of `relay` tags, such as 10050 or 10006."""
    tags = [["relay", url_of(relay)] for relay in relays]
    return make_event(secret, kind, tags=tags, created_at=created_at)


def indexer_of(*lists: Event) -> ScriptedRelay:
    """A relay that knows these lists, and takes more."""
    relay = ScriptedRelay(Script(accept, answer_stored))
    relay.stored.update((event["id"], event) for event in lists)
    return relay


def routed(
    folder: Path, *own: Relay, indexer: Relay | None, **changes: Any
) -> AbstractAsyncContextManager[Outbox]:
    """An outbox that routes by lists, for somebody whose relays are on this machine."""
    indexers = () if indexer is None else (url_of(indexer),)
    chosen = {"autopilot": True, "trust_lists": True, "signer": SecretSigner(ME), **changes}
    return outbox_at(folder, *own, indexers=indexers, **chosen)


def note_to(*people: bytes, content: str = "hello", kind: int = 1) -> Event:
    tags = [["p", public_key(secret)] for secret in people]
    return make_event(ME, kind, content, tags)


def wrap_for(secret: bytes, content: str = "sealed") -> Event:
    """A gift wrap: by a key of its own, for somebody."""
    return make_event(os.urandom(32), WRAP, content, [["p", public_key(secret)]])


def at(job: Job, relay: Relay) -> Delivery:
    """The job's delivery at a relay."""
    [found] = [delivery for delivery in job.deliveries if delivery.relay == url_of(relay)]
    return found


def relays_of(job: Job) -> set[str]:
    return {delivery.relay for delivery in job.deliveries}


def asked(relay: ScriptedRelay) -> list[Any]:
    """The REQs for lists that a relay got; not those for profiles, which name domains (D6)."""
    requests = [frame for frame in relay.received if isinstance(frame, list) and frame[0] == "REQ"]
    return [frame for frame in requests if frame[2].get("kinds") != [0]]


def ids(events: Iterable[Event]) -> list[str]:
    return [event["id"] for event in events]
