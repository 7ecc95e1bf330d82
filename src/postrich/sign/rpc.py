"""Asking a bunker: requests and their answers over its relays (NIP-46).

Promises: requests are paced; an answer counts whenever it comes, and only once; a request that
a person is looking at is not sent again. Whether the bunker is awake is found out by pinging
it, where it is known to answer to that.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import secrets
from collections.abc import Callable

from postrich.clock import Clock
from postrich.errors import SignerTimeout, SignerUnavailable
from postrich.model.delivery import Outcome, Verdict
from postrich.model.event import Event, make_draft
from postrich.rules.nip46 import (
    KIND,
    Pace,
    Response,
    error_of,
    is_rate_limit,
    may_ask_again,
    parse_response,
    request_text,
)
from postrich.sign.channel import Channel
from postrich.sign.secret import SecretSigner

log = logging.getLogger("postrich.bunker")

OPEN_WITHIN = 5.0
LOOK_AGAIN = 0.25
QUIET = 3.0
SILENT_PINGS = 3
PING_PAUSES = (1.0, 15.0)
PING_OFTEN = 30
PING_GROWTH = 1.5
MAX_CALLS = 1000
#: What NIP-44 carries is 65,535 bytes, and the answer is longer than the request.
MAX_REQUEST = 64_000


class _Call:
    """One request, from the first time it is sent until its answer was taken.

    It has a name of its own each time: some bunkers drop a name that they have seen.
    """

    def __init__(self, method: str, params: tuple[str, ...]) -> None:
        self.names: list[str] = []
        self.method = method
        self.params = params
        self.answer: asyncio.Future[Response] = asyncio.get_running_loop().create_future()
        self.asks = 0
        self.last = 0.0
        self.life = 0
        self.challenge = ""
        self.waiters = 0
        self.letter = ""
        self.refusal = ""
        self.is_lost = False

    def text(self) -> str:
        """The request under a new name."""
        self.names.append(secrets.token_hex(8))
        return request_text(self.names[-1], self.method, self.params)


class Rpc:
    """The conversation with one bunker. Before `remote` is known, any signer may speak up."""

    def __init__(
        self,
        client: SecretSigner,
        remote: str | None,
        relays: tuple[str, ...],
        clock: Clock,
        *,
        pings: bool = False,
    ) -> None:
        self.remote = remote
        self.pings = pings
        self.on_awake: Callable[[], None] = lambda: None
        self.on_challenge: Callable[[str], None] = lambda _url: None
        self.on_stranger: Callable[[str, Response], None] = lambda _pubkey, _answer: None
        self.is_away = False
        self._client = client
        self._clock = clock
        self.channel = Channel(
            client, relays, clock, self._on_message, self._on_open, self._on_verdict
        )
        self._pace = Pace()
        self._calls: dict[str, _Call] = {}
        self._by_key: dict[str, _Call] = {}
        self._life = 0
        self._was_open = False
        self._reopened = False
        self._heard = asyncio.Event()
        self._watching: asyncio.Task[None] | None = None

    def start(self) -> None:
        self.channel.start()

    async def close(self) -> None:
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.gather(self._watching, return_exceptions=True)
        await self.channel.close()

    @property
    def _short(self) -> str:
        return (self.remote or "")[:8]

    @property
    def is_available(self) -> bool:
        return not self.is_away and (self.channel.is_open or self.channel.is_trying)

    @property
    def trouble(self) -> str:
        if not self.channel.is_open:
            return f"no relay of the bunker can be reached ({self.channel.trouble})"
        return "the bunker does not answer" if self.is_away else ""

    async def call(
        self, method: str, *params: str, within: float | None, key: str | None = None
    ) -> str:
        """Ask and wait. Calls with the same `key` are one request, however often it is made."""
        call = self._find(method, params, key)
        call.waiters += 1
        try:
            async with asyncio.timeout(within):
                await self._wait_for(call)
        except TimeoutError:
            if not call.answer.done():  # it may have come in the last moment
                raise SignerTimeout(self._silence(call, within)) from None
        finally:
            call.waiters -= 1
            if call.answer.done() or key is None:
                self._forget(call, key)
        answer = call.answer.result()
        if answer.error:
            raise error_of(answer.error)
        return answer.result

    async def _wait_for(self, call: _Call) -> None:
        """Ask, and ask anew where the bunker was away in between; silence raises doubts."""
        quiet = 0.0
        while not call.answer.done():
            await self._send(call)
            await asyncio.wait((call.answer,), timeout=LOOK_AGAIN)
            quiet += LOOK_AGAIN
            if quiet >= QUIET and not call.challenge:
                self.doubt()
                if self.is_away:
                    raise SignerUnavailable(self.trouble)

    def _silence(self, call: _Call, within: float | None) -> str:
        if call.challenge:
            return f"the bunker waits for you to approve at {call.challenge}"
        if call.refusal:
            return f"the bunker's relay did not take the request: {call.refusal}"
        return f"the bunker did not answer in {within:g} s"

    def _find(self, method: str, params: tuple[str, ...], key: str | None) -> _Call:
        if key is not None and key in self._by_key:
            return self._by_key[key]
        call = _Call(method, params)
        size = sum(len(param.encode()) for param in params)
        if size > MAX_REQUEST:
            raise SignerUnavailable(f"this is too long for a bunker: {size:,} of {MAX_REQUEST:,} B")
        if key is not None:
            self._by_key[key] = call
            if len(self._by_key) > MAX_CALLS:
                oldest = next(iter(self._by_key))
                self._forget(self._by_key[oldest], oldest)
        return call

    def _forget(self, call: _Call, key: str | None) -> None:
        for name in call.names:
            self._calls.pop(name, None)
        if key is not None and self._by_key.get(key) is call:
            del self._by_key[key]

    # -- speaking ----------------------------------------------------------------------------

    async def _send(self, call: _Call) -> None:
        """Send the request, unless its answer is there or must only be waited for."""
        now = self._clock.tick()
        if call.answer.done() or not may_ask_again(
            call.asks,
            call.last,
            now,
            was_lost=call.is_lost or call.life != self._life,
            challenged=bool(call.challenge),
        ):
            return
        before = call.asks, call.last, call.life, call.is_lost
        call.asks, call.last, call.life, call.is_lost = call.asks + 1, now, self._life, False
        try:
            await self._turn(call, now)
        except BaseException:  # it was not sent: whoever comes next may send it
            call.asks, call.last, call.life, call.is_lost = before
            raise
        if not call.answer.done():
            letter = await self._letter(call.text())
            self._calls[call.names[-1]] = call
            call.letter, call.refusal = letter.id, ""
            self.channel.send(letter)
            log.debug("bunker %s…: asked to %s", self._short, call.method)

    async def _turn(self, call: _Call, now: float) -> None:
        """Wait until the request may go out, unless its answer comes first."""
        await asyncio.wait((call.answer,), timeout=self._pace.reserve(now))
        try:
            async with asyncio.timeout(OPEN_WITHIN):
                await self.channel.opened.wait()
        except TimeoutError:
            raise SignerUnavailable(self.trouble or "the bunker's relays are slow") from None

    async def _letter(self, text: str) -> Event:
        assert self.remote is not None
        draft = make_draft(
            self._client.pubkey,
            self._clock.now() // 1000,
            KIND,
            (("p", self.remote),),
            self._client.encrypt_to(self.remote, text),
        )
        return await self._client.sign(draft)

    # -- hearing -----------------------------------------------------------------------------

    def _on_message(self, event: Event) -> None:
        if self.remote is not None and event.pubkey != self.remote:
            return
        text = self._client.decrypt_from(event.pubkey, event.content)
        answer = parse_response(text) if text is not None else None
        if answer is None:
            return
        if self.remote is None:
            self.on_stranger(event.pubkey, answer)
            return
        self._on_life()
        self._on_answer(answer)

    def _on_answer(self, answer: Response) -> None:
        call = self._calls.get(answer.id)
        if call is None and is_rate_limit(answer.error):
            self._on_too_fast()
        if call is None or call.answer.done():
            return
        if answer.is_challenge:
            if answer.challenge and answer.challenge != call.challenge:
                call.challenge = answer.challenge
                self.on_challenge(answer.challenge)
            return
        self._pace.on_answer()
        call.answer.set_result(answer)
        if not call.waiters:  # it comes late: whoever asks again finds it here
            self.on_awake()

    def _on_too_fast(self) -> None:
        """The bunker took none of a burst, and does not say which: the last one is meant."""
        self._pace.on_rate_limit(self._clock.tick())
        waiting = [call for call in self._calls.values() if call.asks and not call.answer.done()]
        if waiting:
            max(waiting, key=lambda call: call.last).is_lost = True

    def _on_verdict(self, letter: str, verdict: Verdict) -> None:
        """What a relay made of a request; one that takes it outweighs one that does not."""
        is_too_fast = verdict.code == "rate-limited"
        if is_too_fast:
            self._pace.on_rate_limit(self._clock.tick())
        call = next((call for call in self._calls.values() if call.letter == letter), None)
        if call is None:
            return
        if verdict.outcome is Outcome.DELIVERED:
            call.letter, call.refusal, call.is_lost = "", "", False
        else:
            call.refusal = verdict.text
            call.is_lost = is_too_fast

    # -- awake or not ------------------------------------------------------------------------

    def _on_open(self) -> None:
        if not self._was_open:
            self._was_open = True
            self.on_awake()
            return
        self._life += 1  # what was asked while the relays were away may have got lost
        self._reopened = True
        self.on_awake()
        self.doubt()

    def _on_life(self) -> None:
        self._heard.set()
        if self.is_away:
            self.is_away = False
            self._life += 1
            log.info("bunker %s… is awake again", self._short)
            self.on_awake()

    def doubt(self) -> None:
        """It was silent: find out whether it is there, and notice when it comes back."""
        if self._watching is None or self._watching.done():
            self._watching = asyncio.get_running_loop().create_task(self._watch())

    async def _watch(self) -> None:
        """Ping until anything comes from it; often at first, then seldom."""
        self._heard.clear()
        pause = PING_PAUSES[0]
        for silent in itertools.count():
            if silent >= SILENT_PINGS and self.pings and not self.is_away:
                self.is_away = True
                log.info("bunker %s… does not answer", self._short)
            if silent > PING_OFTEN:
                pause = min(PING_PAUSES[1], pause * PING_GROWTH)
            await self._ping()
            try:
                async with asyncio.timeout(pause):
                    await self._heard.wait()
            except TimeoutError:
                continue
            self._on_heard(after_silence=silent > 0)
            return

    def _on_heard(self, *, after_silence: bool) -> None:
        """Where it came back to its relays later than we did, it missed what we asked there."""
        if self._reopened and after_silence:
            self._life += 1
            self.on_awake()
        self._reopened = False

    async def _ping(self) -> None:
        if self.remote is not None and self.channel.is_open:
            text = request_text(secrets.token_hex(8), "ping", ())
            self.channel.send(await self._letter(text))
