"""The relays at which we meet a bunker: a socket to each that stays, and is dialled again.

Promises: a message goes to every relay that is open, and one that comes over several is told
once; only events that are truly signed are told. Knows nothing of what the messages say.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable

import msgspec

from postrich.clock import Clock
from postrich.errors import InvalidEvent
from postrich.model.delivery import Flight, Parcel, Verdict, event_frame
from postrich.model.event import Event, is_signed, parse_event
from postrich.rules.nip46 import KIND
from postrich.rules.redact import redact
from postrich.rules.replies import fault_of
from postrich.rules.session import AuthRequest, Session
from postrich.sign.secret import SecretSigner
from postrich.wire.connection import Connection

log = logging.getLogger("postrich.bunker")

MAIL = "postrich-mail"
TIMEOUT = 10.0
LIVE_WITHIN = 3.0
PAUSES = (1.0, 30.0)
GROWTH = 1.5
BACK_THEN = 300
REMEMBERED = 512


class Channel:
    """Both directions of one conversation. `client` is the key that we speak with."""

    def __init__(
        self,
        client: SecretSigner,
        relays: Iterable[str],
        clock: Clock,
        on_message: Callable[[Event], None],
        on_open: Callable[[], None],
        on_verdict: Callable[[str, Verdict], None],
    ) -> None:
        self.client = client
        self.clock = clock
        self.opened = asyncio.Event()
        self._relays = tuple(relays)
        self._on_message = on_message
        self._on_open = on_open
        self.on_verdict = on_verdict
        self._links: dict[str, _Link] = {}
        self._seen: dict[str, None] = {}
        self._closing: set[asyncio.Task[None]] = set()

    @property
    def is_open(self) -> bool:
        return any(link.is_open for link in self._links.values())

    @property
    def is_trying(self) -> bool:
        """Whether some relay was not found wanting yet."""
        return any(not link.trouble for link in self._links.values())

    @property
    def trouble(self) -> str:
        """Why no relay is open, for people."""
        return "; ".join(
            f"{url}: {link.trouble or 'connecting'}" for url, link in self._links.items()
        )

    def start(self) -> None:
        for url in self._relays:
            self._links[url] = _Link(self, url)

    def use(self, relays: tuple[str, ...]) -> None:
        """Meet at other relays from now on."""
        self._relays = relays
        for url in [url for url in self._links if url not in relays]:
            closing = asyncio.get_running_loop().create_task(self._links.pop(url).close())
            self._closing.add(closing)
            closing.add_done_callback(self._closing.discard)
        for url in relays:
            if url not in self._links:
                self._links[url] = _Link(self, url)
        self.note_state()

    def send(self, event: Event) -> None:
        """Send it wherever a relay is open."""
        for link in self._links.values():
            link.send(event)

    def nudge(self) -> None:
        """Dial again now."""
        for link in self._links.values():
            link.nudged.set()

    async def close(self) -> None:
        for link in self._links.values():
            await link.close()
        self._links.clear()
        await asyncio.gather(*self._closing)

    def note_state(self) -> None:
        """Some link opened or ended."""
        was_open = self.opened.is_set()
        if not self.is_open:
            self.opened.clear()
        elif not was_open:
            self.opened.set()
            self._on_open()

    def take(self, fields: object) -> None:
        """An event came from a relay, which may lie."""
        try:
            event = parse_event(msgspec.json.encode(fields))
        except InvalidEvent:
            return
        if event.kind != KIND or event.id in self._seen or not is_signed(event):
            return
        self._seen[event.id] = None
        if len(self._seen) > REMEMBERED:
            del self._seen[next(iter(self._seen))]
        self._on_message(event)


class _Link:
    """One relay: dialled, subscribed, and dialled again when it is lost."""

    def __init__(self, channel: Channel, url: str) -> None:
        self.url = url
        self.trouble = ""
        self.is_open = False
        self.nudged = asyncio.Event()
        self._channel = channel
        self._connection: Connection | None = None
        self._news = asyncio.Event()
        self._task = asyncio.get_running_loop().create_task(self._keep(), name=f"bunker {url}")

    def send(self, event: Event) -> None:
        if self._connection is None or not self.is_open:
            return
        parcel = Parcel(
            0, event.id, event.pubkey, event.created_at, 0, 0, "", event_frame(event.raw)
        )
        self._connection.session.publish(Flight(parcel, 0), asyncio.get_running_loop().time())
        self._connection.flush()

    async def close(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _keep(self) -> None:
        pause = PAUSES[0]
        while True:
            try:
                if await self._converse():
                    pause = PAUSES[0]
            except Exception as problem:  # noqa: BLE001 - every fault of dialling is the relay's
                self.trouble = redact(fault_of(problem).text)
                log.debug("bunker's relay %s: %s", self.url, self.trouble)
            self._channel.note_state()
            self.nudged.clear()
            try:
                async with asyncio.timeout(pause * (0.8 + 0.4 * self._channel.clock.chance())):
                    await self.nudged.wait()
            except TimeoutError:
                pause = min(PAUSES[1], pause * GROWTH)

    async def _converse(self) -> bool:
        """From the dial to the loss of the socket; whether the relay listened for us at all."""
        client = self._channel.client
        session = Session(self.url, TIMEOUT, client.pubkey)
        link = await Connection.dial(session, self._on_progress, self._authenticate, TIMEOUT)
        self._connection = link
        try:
            since = self._channel.clock.now() // 1000 - BACK_THEN
            session.subscribe(MAIL, {"kinds": [KIND], "#p": [client.pubkey], "since": since})
            link.flush()
            was_live = await self._until_live(link)
            while link.is_open and MAIL not in session.subscriptions.closed:
                self._news.clear()
                await self._news.wait()
            self.trouble = session.subscriptions.closed.get(MAIL) or session.last_words or "closed"
        finally:
            self.is_open = False
            self._connection = None
            session.abandon()
            await link.close()
        return was_live

    async def _until_live(self, link: Connection) -> bool:
        """Until the relay has confirmed that it listens for us, or long enough."""
        asked = link.session.subscriptions
        try:
            async with asyncio.timeout(LIVE_WITHIN):
                while link.is_open and MAIL not in asked.live and MAIL not in asked.closed:
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError:
            pass  # some relays never say so
        if link.is_open and MAIL not in asked.closed:
            self.is_open = True
            self.trouble = ""
            self._channel.note_state()
        return self.is_open

    def _on_progress(self, link: Connection) -> None:
        session = link.session
        news, session.subscriptions.news = session.subscriptions.news, []
        for _, fields in news:
            self._channel.take(fields)
        outcomes, session.outcomes = session.outcomes, []
        for flight, verdict in outcomes:
            self._channel.on_verdict(flight.event_id, verdict)
        self._news.set()

    async def _authenticate(self, request: AuthRequest) -> Event:
        client = self._channel.client
        return await client.sign(request.draft(client.pubkey, self._channel.clock.now()))
