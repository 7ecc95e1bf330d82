"""What all routes have at hand: the outbox, who calls, and requests that are sent twice."""

from __future__ import annotations

import contextlib
import hashlib
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import msgspec
from litestar import Request, Response
from litestar.di import NamedDependency

from postrich.config import HttpSettings
from postrich.doors.http.callers import Caller, Reception
from postrich.doors.http.gate import url_of
from postrich.errors import Conflict, InvalidEvent, TooOften
from postrich.model.post import KeptAnswer
from postrich.outbox import Outbox

LONGEST_KEY = 255
#: Streams of notices that one pubkey, and all pubkeys together, may have open at once.
MOST_STREAMS = 10
MOST_STREAMS_OF_ALL = 500
STREAM_WAIT = 15.0


class Desk:
    """One server's desk."""

    def __init__(self, outbox: Outbox, settings: HttpSettings, token: str) -> None:
        self.outbox = outbox
        self.settings = settings
        self.reception = Reception(
            settings, outbox.clock, token, outbox.is_genuine, outbox.has_account
        )
        self._under_way: set[tuple[str, str]] = set()
        self._streams: Counter[str] = Counter()

    def check_streams(self, caller: Caller) -> None:
        """Refuse one stream more than a pubkey, or all of them together, may have open."""
        mine, all_of_them = self._streams[caller.name], self._streams.total()
        if caller.pubkey and (mine >= MOST_STREAMS or all_of_them >= MOST_STREAMS_OF_ALL):
            raise TooOften("too many streams of notices are open: close one", STREAM_WAIT)

    @contextlib.contextmanager
    def streaming(self, caller: Caller) -> Iterator[None]:
        """Counts a stream as long as it lasts."""
        self._streams[caller.name] += 1
        try:
            yield
        finally:
            self._streams[caller.name] -= 1
            self._streams += Counter()  # forgets who has none

    async def identify(self, request: Request[Any, Any, Any]) -> Caller:
        """Who makes a request."""
        header = request.headers.get("authorization")
        url = url_of(request.scope, self.settings)
        return await self.reception.identify(header, request.method, url, await request.body())

    async def once(
        self,
        request: Request[Any, Any, Any],
        caller: Caller,
        act: Callable[[], Awaitable[Response[Any]]],
        kept: Callable[[Any], Any] = lambda content: content,
    ) -> Response[Any]:
        """Carry a request out, but only once per `Idempotency-Key`: who sends it again gets the
        first answer. What was refused may be tried again under the same key.

        `kept`: what of the answer may be kept; a secret is shown once, and not stored.
        """
        key = request.headers.get("idempotency-key")
        if key is None:
            return await act()
        if not 0 < len(key) <= LONGEST_KEY:
            raise InvalidEvent(f"Idempotency-Key must have 1 to {LONGEST_KEY} characters")
        print_ = await _fingerprint(request)
        known = await self.outbox.schedule.answer_of(caller.name, key)
        if known is not None:
            return _replay(known, print_)
        mark = (caller.name, key)
        if mark in self._under_way:
            raise Conflict("a request with this Idempotency-Key is being carried out")
        self._under_way.add(mark)
        try:
            answer = await act()
            body = msgspec.json.encode(kept(answer.content)).decode()
            status = answer.status_code or 200
            now = self.outbox.now()
            await self.outbox.schedule.keep_answer(KeptAnswer(*mark, print_, status, body, now))
            return answer
        finally:
            self._under_way.discard(mark)


def _replay(kept: KeptAnswer, print_: str) -> Response[Any]:
    if kept.fingerprint != print_:
        raise Conflict("this Idempotency-Key was used for another request")
    return Response(
        msgspec.json.decode(kept.body),
        status_code=kept.status,
        headers={"Idempotent-Replayed": "true"},
    )


async def _fingerprint(request: Request[Any, Any, Any]) -> str:
    digest = hashlib.sha256(f"{request.method} {request.url.path}\n".encode())
    digest.update(await request.body())
    return digest.hexdigest()


#: How routes ask for what is at hand.
AtDesk = NamedDependency[Desk]
ByCaller = NamedDependency[Caller]


async def provide_caller(request: Request[Any, Any, Any], desk: AtDesk) -> Caller:
    """Who calls, for every route that must know."""
    return await desk.identify(request)
