"""Who makes an HTTP request (NIP-98): reading and judging the event that says so.

The caller checks the signature (`is_signed`), which costs most, last. Refusals are
`NotAuthorised` with a sentence; the header is never repeated in one.
"""

from __future__ import annotations

import base64
import binascii
from hashlib import sha256

from postrich.errors import InvalidEvent, NotAuthorised
from postrich.model.event import Event, parse_event, tag_values

KIND = 27235
WINDOW = 60
LONGEST_HEADER = 16_384
_SCHEME = "nostr"


def read_authorization(header: str | None) -> Event:
    """The event of an `Authorization: Nostr <base64>` header; its id is true, its form too."""
    if not header:
        raise NotAuthorised("the request needs an Authorization header: Nostr <base64 of an event>")
    if len(header) > LONGEST_HEADER:
        raise NotAuthorised(f"the Authorization header is longer than {LONGEST_HEADER:,} bytes")
    scheme, _, text = header.strip().partition(" ")
    if scheme.lower() != _SCHEME:
        raise NotAuthorised("the Authorization header must have the form: Nostr <base64>")
    text = text.strip()
    try:
        body = base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except (binascii.Error, ValueError):
        raise NotAuthorised("the Authorization header holds no base64") from None
    try:
        return parse_event(body, LONGEST_HEADER)
    except InvalidEvent as problem:
        raise NotAuthorised(f"the Authorization header holds no event: {problem}") from None


def judge_authorization(event: Event, method: str, url: str, body: bytes, now: int) -> None:
    """Whether the event stands for this very request, now (seconds); its signature aside.

    `url` is the absolute one, with its query. Nothing of it may differ, but that an empty
    path may lack its slash; the case of the method does not matter. Whatever has a body
    must name its hash, so that nobody can put another in its place.
    """
    if event.kind != KIND:
        raise NotAuthorised(f"an authorization is of kind {KIND}, not {event.kind}")
    if abs(now - event.created_at) > WINDOW:
        raise NotAuthorised(
            f"the authorization's created_at is {abs(now - event.created_at):,} s off our clock; "
            f"{WINDOW} are allowed"
        )
    if _whole(_only(event, "u")) != _whole(url):
        raise NotAuthorised(f"the authorization's u tag is not this request's URL, {url}")
    if _only(event, "method").upper() != method.upper():
        raise NotAuthorised(f"the authorization is not for {method.upper()}")
    _judge_payload(event, body)


def _judge_payload(event: Event, body: bytes) -> None:
    named = tag_values(event.tags, "payload")
    if not named and not body:
        return
    if len(named) != 1:
        raise NotAuthorised("a request with a body needs one payload tag: the SHA-256 of the body")
    if named[0].lower() != sha256(body).hexdigest():
        raise NotAuthorised("the authorization's payload tag is not the SHA-256 of the body")


def _only(event: Event, name: str) -> str:
    values = tag_values(event.tags, name)
    if len(values) != 1:
        raise NotAuthorised(f"an authorization has one {name} tag; this one has {len(values)}")
    return values[0]


def _whole(url: str) -> str:
    """The URL with the slash of an empty path: `https://host` is `https://host/`."""
    start = url.find("//") + 2
    ends = [at for at in (url.find(mark, start) for mark in "/?#") if at >= 0]
    end = min(ends, default=len(url))
    return url if url[end : end + 1] == "/" else f"{url[:end]}/{url[end:]}"


class Replays:
    """Which authorizations were used, until each is out of its window anyway.

    Bounded: when it is full of what is still valid, new ones are refused rather than old ones
    forgotten, since a forgotten one could be used again.
    """

    def __init__(self, most: int = 300_000) -> None:
        self.most = most
        self._used: dict[int, set[str]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def use(self, event: Event, now: int) -> None:
        """Use an authorization that was judged and whose signature is good; once."""
        self._forget(now)
        used = self._used.setdefault(event.created_at, set())
        if event.id in used:
            raise NotAuthorised("this authorization was used before; sign a new one")
        if self._count >= self.most:
            raise NotAuthorised("too many authorizations came in the last minutes; try again soon")
        used.add(event.id)
        self._count += 1

    def _forget(self, now: int) -> None:
        for second in [second for second in self._used if second < now - WINDOW]:
            self._count -= len(self._used.pop(second))
