"""One WebSocket to one relay: carries frames between picows and `rules/session.py`.

Promises: whatever a relay sends — binary, broken UTF-8, endless fragments, nothing — ends in
the session or in a closed socket, never in an exception that reaches a lane.
Never decides what a frame means.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import ssl
from collections.abc import Awaitable, Callable
from typing import Any

import picows

from postrich.model.delivery import Outcome, Verdict
from postrich.model.event import Event
from postrich.rules.session import AuthRequest, Session
from postrich.rules.trust import DialPolicy
from postrich.wire.framing import is_burst, pack
from postrich.wire.guard import way_to

CONNECT_TIMEOUT = 10.0
CLOSE_TIMEOUT = 1.0
MAX_FRAME = 2 * 1024 * 1024
PING_AFTER = 30.0
PONG_WITHIN = 15.0
LOOK_AGAIN = 1.0
NO_STATUS = 1005
ABNORMAL = 1006

# picows complains here of what relays do wrong; that becomes a verdict instead of a log line.
_log = logging.getLogger("postrich.wire.picows")
_log.propagate = False
_log.addHandler(logging.NullHandler())
logging.getLogger("aiofastnet").setLevel(logging.ERROR)  # its warnings say the same

#: Signs a challenge, or says what becomes of the events that wait for it.
Authenticator = Callable[[AuthRequest], Awaitable[Event | Verdict]]


@functools.cache
def _tls() -> ssl.SSLContext:
    return ssl.create_default_context()


class Connection(picows.WSListener):
    """A socket and its session. `on_progress` is called after every burst of news."""

    def __init__(
        self,
        session: Session,
        on_progress: Callable[[Connection], None],
        authenticator: Authenticator | None = None,
        may_speak: Callable[[], bool] = lambda: True,
    ) -> None:
        super().__init__()
        self.session = session
        self.writable = True
        self.is_open = False
        self._on_progress = on_progress
        self._authenticator = authenticator
        self._may_speak = may_speak
        self._loop = asyncio.get_running_loop()
        self._transport: Any = None
        self._burst = False
        self._fragments: bytearray | None = None
        self._close_code = ABNORMAL
        self._close_reason = ""
        self._timer: asyncio.TimerHandle | None = None
        self._signing: asyncio.Task[None] | None = None
        self._watch: asyncio.Task[None] | None = None

    @classmethod
    async def dial(
        cls,
        session: Session,
        on_progress: Callable[[Connection], None],
        authenticator: Authenticator | None = None,
        within: float = CONNECT_TIMEOUT,
        guard: DialPolicy | None = None,
        may_speak: Callable[[], bool] = lambda: True,
    ) -> Connection:
        """Open the socket; raises whatever went wrong (`rules.replies.fault_of` reads it).

        `may_speak`: while it says no, nothing is sent, whatever the session wants to say.
        `guard`: where strangers may send us, for a relay that one of them named. None: it is
        the owner's own, and may be anywhere.
        """
        connection = cls(session, on_progress, authenticator, may_speak)
        async with asyncio.timeout(within):
            transport, _ = await picows.ws_connect(
                lambda: connection,
                session.url,
                ssl_context=_tls() if session.url.startswith("wss:") else None,
                websocket_handshake_timeout=within,
                max_frame_size=MAX_FRAME,
                max_redirects=0,
                enable_auto_ping=True,
                auto_ping_idle_timeout=PING_AFTER,
                auto_ping_reply_timeout=PONG_WITHIN,
                logger_name=_log,
                **way_to(session.url, guard),
            )
        if not connection.is_open:  # picows reports an end in mid-handshake as success
            raise ConnectionResetError("the relay hung up during the handshake")
        connection._watch = connection._loop.create_task(_outlive(transport))
        return connection

    def flush(self) -> None:
        """Send what the session wants to say, sign what it wants signed, watch its clock."""
        session = self.session
        if session.outgoing and self.is_open and self._may_speak():
            if is_burst(session.outgoing):
                self._transport.underlying_transport.write(pack(session.outgoing))
            else:
                for message in session.outgoing:
                    self._transport.send(picows.WSMsgType.TEXT, message)
            session.outgoing.clear()
        if session.auth_wanted is not None:
            self._sign(session.auth_wanted)
            session.auth_wanted = None
        if self._timer is None and session.is_waiting:
            self._arm()

    async def close(self) -> None:
        """Say goodbye and end the socket; the session is told through `on_progress`."""
        if self._signing is not None:
            self._signing.cancel()
        if self.is_open:
            self._transport.send_close(picows.WSCloseCode.OK, b"")
            self._transport.disconnect(graceful=True)
            await self._outlived()
            self._transport.disconnect(graceful=False)
        await self._outlived()
        self._end()

    async def _outlived(self) -> None:
        """Wait until the socket is really closed, but not for long."""
        if self._watch is not None:
            await asyncio.wait((self._watch,), timeout=CLOSE_TIMEOUT)

    # -- picows calls these ------------------------------------------------------------------

    def on_ws_connected(self, transport: Any) -> None:
        self._transport = transport
        self.is_open = True

    def on_ws_frame(self, _transport: Any, frame: Any) -> None:
        kind = frame.msg_type
        if kind == picows.WSMsgType.TEXT and frame.fin:
            self.session.receive(frame.get_payload_as_bytes(), self._loop.time())
        elif kind == picows.WSMsgType.CLOSE:
            self._on_close(frame)
        elif kind in (picows.WSMsgType.TEXT, picows.WSMsgType.CONTINUATION):
            self._on_fragment(frame)
        elif kind == picows.WSMsgType.BINARY:
            self.session.strange_frames += 1
        if not self._burst:  # picows keeps pings to itself: its last_in_buffer may never come
            self._burst = True
            self._loop.call_soon(self._on_burst_end)

    def on_ws_disconnected(self, _transport: Any) -> None:
        if not self.is_open:
            return
        self.is_open = False
        self.session.lost(self._close_code, self._close_reason or self._our_words())
        self._end()
        self._on_progress(self)

    def pause_writing(self) -> None:
        self.writable = False

    def resume_writing(self) -> None:
        self.writable = True
        self._progress()

    # -- inside ------------------------------------------------------------------------------

    def _on_burst_end(self) -> None:
        self._burst = False
        self._progress()

    def _progress(self) -> None:
        self._on_progress(self)
        self.flush()

    def _on_close(self, frame: Any) -> None:
        if self._transport.is_close_frame_sent:
            return  # the answer to ours: its code is our own, and no word on an event
        payload = frame.get_payload_as_bytes()
        self._close_code = int.from_bytes(payload[:2], "big") if len(payload) > 1 else NO_STATUS
        self._close_reason = payload[2:].decode("utf-8", "replace")
        self._transport.send_close(picows.WSCloseCode.OK, b"")
        self._transport.disconnect()

    def _our_words(self) -> str:
        """Why picows ended the socket, where it did."""
        ours = self._transport.close_handshake
        return str(ours.sent.reason) if ours is not None and ours.sent is not None else ""

    def _on_fragment(self, frame: Any) -> None:
        if frame.msg_type == picows.WSMsgType.TEXT:
            self._fragments = bytearray()
        if self._fragments is None:
            self.session.strange_frames += 1
            return
        self._fragments += frame.get_payload_as_bytes()
        if len(self._fragments) > MAX_FRAME:
            self._close_reason = "the relay's message is too large"
            self._transport.disconnect(graceful=False)
        elif frame.fin:
            message, self._fragments = bytes(self._fragments), None
            self.session.receive(message, self._loop.time())

    def _arm(self) -> None:
        now = self._loop.time()
        deadline = self.session.tick(now)
        if deadline is not None:  # an earlier one may come up before that: look again soon
            soon = now + min(LOOK_AGAIN, self.session.timeout)
            self._timer = self._loop.call_at(min(deadline, soon), self._on_time)

    def _on_time(self) -> None:
        self._timer = None
        self.session.tick(self._loop.time())
        self._progress()

    def _sign(self, request: AuthRequest) -> None:
        if self._authenticator is None:
            verdict = Verdict(Outcome.PARKED, "auth-required", "no signer can AUTH to this relay")
            self.session.cannot_authenticate(verdict)
            self._on_progress(self)
            return
        self._signing = self._loop.create_task(self._authenticate(self._authenticator, request))

    async def _authenticate(self, authenticator: Authenticator, request: AuthRequest) -> None:
        answer = await authenticator(request)
        if isinstance(answer, Verdict):
            self.session.cannot_authenticate(answer)
        else:
            self.session.authenticate(answer.id, answer.raw, self._loop.time())
        self._progress()

    def _end(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


async def _outlive(transport: picows.WSTransport) -> None:
    """Take note of the socket's end, whose reason the session has from the close itself."""
    try:
        await transport.wait_disconnected()
    except Exception as problem:  # noqa: BLE001 - a relay's protocol error is no fault of ours
        _log.debug("socket ended: %s", problem)
