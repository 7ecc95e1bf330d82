"""A look at one relay: can it be reached, and does it answer? Publishes nothing."""

from __future__ import annotations

import asyncio
import ssl
import time
from dataclasses import dataclass

import picows

from postrich.rules.replies import fault_of

ANSWER_WITHIN = 5.0
_QUESTION = b'["REQ","postrich-doctor",{"kinds":[1],"limit":1}]'


@dataclass(frozen=True)
class Finding:
    """How long it took, or why not."""

    dial_ms: float = 0.0
    answer_ms: float = 0.0
    fault: str | None = None


class _Listener(picows.WSListener):
    """Notes when the relay said its first word."""

    def __init__(self) -> None:
        super().__init__()
        self.answered = asyncio.get_running_loop().create_future()

    def on_ws_frame(self, _transport: picows.WSTransport, frame: picows.WSFrame) -> None:
        if frame.msg_type == picows.WSMsgType.TEXT and not self.answered.done():
            self.answered.set_result(time.monotonic())

    def on_ws_disconnected(self, _transport: picows.WSTransport) -> None:
        if not self.answered.done():
            self.answered.set_result(None)


async def probe(url: str, within: float) -> Finding:
    """Dial, ask for one note, wait for any word."""
    started = time.monotonic()
    try:
        async with asyncio.timeout(within):
            transport, listener = await picows.ws_connect(
                _Listener,
                url,
                ssl_context=ssl.create_default_context() if url.startswith("wss:") else None,
                max_redirects=0,
            )
    except Exception as problem:  # noqa: BLE001 - every fault of dialling is the relay's
        return Finding(fault=fault_of(problem).text)
    assert isinstance(listener, _Listener)
    connected = time.monotonic()
    try:
        return await _ask(transport, listener, started, connected)
    finally:
        transport.disconnect(graceful=False)


async def _ask(
    transport: picows.WSTransport, listener: _Listener, started: float, connected: float
) -> Finding:
    transport.send(picows.WSMsgType.TEXT, _QUESTION)
    try:
        async with asyncio.timeout(ANSWER_WITHIN):
            answered: float | None = await listener.answered
    except TimeoutError:
        return Finding(fault=f"connected, but no answer in {ANSWER_WITHIN:g} s")
    if answered is None:
        return Finding(fault="connected, but hung up without an answer")
    return Finding((connected - started) * 1000, (answered - connected) * 1000)
