"""Null relays: the fastest possible other end of a publish benchmark.

Promises: every `["EVENT",{...}]` is answered `["OK","<id>",true,""]`, every `["REQ","<sub>",...]`
with `["EOSE","<sub>"]`, a ping with a pong; anything else is ignored. Nothing is verified or kept
but counts. One JSON line `{"urls": [...]}` is printed when all relays listen; they serve until
stdin ends, or SIGTERM or SIGINT comes; then one JSON line tells the totals of each relay:
`{"events": n, "distinct": n, "relays": [{"url": u, "events": n, "distinct": n}]}`
(`distinct` is null with `--no-distinct`). Every message must come in one frame.

How it is fast: an id is found by a byte search instead of a JSON parse, and all OKs for one read
of the socket leave as ready-made frames in one write.
"""

import argparse
import asyncio
import os
import signal
import threading
from collections.abc import Callable

import msgspec
import uvloop
from picows import (
    WSCloseCode,
    WSFrame,
    WSListener,
    WSMsgType,
    WSTransport,
    WSUpgradeRequest,
    ws_create_server,
)

ID_KEY = b'"id":"'  # quotes inside a JSON string are escaped, so these bytes are always the key
ID_SKIP = len(ID_KEY)
ID_SIZE = 64
EVENT_INITIAL = ord("E")  # of the verbs a client may send, only EVENT begins with it
OK_HEAD = b'["OK","'
OK_TAIL = b'",true,""]'
OK_SIZE = len(OK_HEAD) + ID_SIZE + len(OK_TAIL)
FRAME_HEAD = bytes((0x81, OK_SIZE))  # one final, unmasked text frame, shorter than 126 bytes
FRAME_SIZE = len(FRAME_HEAD) + OK_SIZE
BATCH_HEAD = FRAME_HEAD + OK_HEAD
BATCH_JOINT = OK_TAIL + BATCH_HEAD
READ_BUFFER = 256 * 1024


class RelayTotals(msgspec.Struct):
    """What one relay was sent, as it is printed."""

    url: str
    events: int
    distinct: int | None


class Totals(msgspec.Struct):
    """What all relays together were sent, as it is printed; ids are distinct per relay."""

    events: int
    distinct: int | None
    relays: list[RelayTotals]


class Tally:
    """Counts what one relay receives over all its connections."""

    def __init__(self, *, distinct: bool) -> None:
        self.events = 0
        self.ids: set[bytes] | None = set() if distinct else None

    def add(self, ids: list[bytes]) -> None:
        self.events += len(ids)
        if self.ids is not None:
            self.ids.update(ids)

    def totals(self, url: str) -> RelayTotals:
        return RelayTotals(url, self.events, None if self.ids is None else len(self.ids))


def ok_frames(ids: list[bytes]) -> bytes:
    """The OK answers to these event ids, each in its WebSocket frame, as one piece of bytes."""
    frames = BATCH_HEAD + BATCH_JOINT.join(ids) + OK_TAIL
    if len(frames) != FRAME_SIZE * len(ids):
        raise ValueError("an event id was not 64 characters long")
    return frames


class NullConnection(WSListener):
    """One client's connection to a null relay."""

    def __init__(self, tally: Tally, delay: float) -> None:
        self._tally = tally
        self._delay = delay
        self._ids: list[bytes] = []

    def on_ws_connected(self, transport: WSTransport) -> None:
        self._transport = transport
        self._write = transport.underlying_transport.write

    def on_ws_frame(self, transport: WSTransport, frame: WSFrame) -> None:
        message = frame.get_payload_as_bytes()
        at = message.find(ID_KEY) + ID_SKIP
        if at > ID_SKIP and message[2] == EVENT_INITIAL:
            self._ids.append(message[at : at + ID_SIZE])
        else:
            self._on_other(transport, frame, message)
        if frame.last_in_buffer and self._ids:
            self._flush()

    def _flush(self) -> None:
        """Answers the events collected since the last flush."""
        ids, self._ids = self._ids, []
        self._tally.add(ids)
        if self._delay:
            asyncio.get_running_loop().call_later(self._delay, self._write_late, ok_frames(ids))
        else:
            self._write(ok_frames(ids))

    def _write_late(self, frames: bytes) -> None:
        if not self._transport.is_disconnected:
            self._write(frames)

    def _on_other(self, transport: WSTransport, frame: WSFrame, message: bytes) -> None:
        """The slow road: control frames, and messages that are not a compactly written EVENT."""
        if frame.msg_type == WSMsgType.TEXT:
            self._on_text(transport, message)
        elif frame.msg_type == WSMsgType.PING:
            transport.send_pong(message)
        elif frame.msg_type == WSMsgType.CLOSE:
            transport.send_close(WSCloseCode.OK)
            transport.disconnect()

    def _on_text(self, transport: WSTransport, message: bytes) -> None:
        match msgspec.json.decode(message):
            case ["EVENT", {"id": str(event_id)}]:
                self._ids.append(event_id.encode())
            case ["REQ", str(subscription), *_]:
                transport.send(WSMsgType.TEXT, msgspec.json.encode(["EOSE", subscription]))


def connection_factory(tally: Tally, delay: float) -> Callable[[WSUpgradeRequest], WSListener]:
    return lambda _request: NullConnection(tally, delay)


async def open_relay(tally: Tally, delay: float) -> str:
    """Starts one null relay on a free loopback port and returns its URL."""
    server = await ws_create_server(
        connection_factory(tally, delay),
        "127.0.0.1",
        0,
        enable_auto_pong=False,  # else a ping that ends a read would hide `last_in_buffer`
        read_buffer_init_size=READ_BUFFER,
    )
    port: int = server.sockets[0].getsockname()[1]
    return f"ws://127.0.0.1:{port}"


async def until_told_to_stop() -> None:
    """Returns when stdin ends or a signal asks for the end."""
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for name in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(name, stop.set)

    def watch_stdin() -> None:
        while os.read(0, 4096):
            pass
        loop.call_soon_threadsafe(stop.set)

    threading.Thread(target=watch_stdin, daemon=True).start()
    await stop.wait()


def sum_up(tallies: dict[str, Tally]) -> Totals:
    relays = [tally.totals(url) for url, tally in tallies.items()]
    distinct = [relay.distinct for relay in relays if relay.distinct is not None]
    return Totals(
        events=sum(relay.events for relay in relays),
        distinct=sum(distinct) if distinct else None,
        relays=relays,
    )


def print_line(value: object) -> None:
    print(msgspec.json.encode(value).decode(), flush=True)


async def serve(ports: int, delay: float, *, distinct: bool) -> dict[str, Tally]:
    """Runs `ports` null relays until told to stop; returns their tallies by URL."""
    tallies: dict[str, Tally] = {}
    for _ in range(ports):
        tally = Tally(distinct=distinct)
        tallies[await open_relay(tally, delay)] = tally
    print_line({"urls": list(tallies)})
    await until_told_to_stop()
    return tallies


def main() -> None:
    parser = argparse.ArgumentParser(description="Relays that say OK to everything, fast.")
    parser.add_argument("--ports", type=int, default=3, help="how many relays (default: 3)")
    parser.add_argument("--delay-ms", type=float, default=0.0, help="wait before each OK")
    parser.add_argument("--no-distinct", action="store_true", help="do not count distinct ids")
    args = parser.parse_args()
    serving = serve(args.ports, args.delay_ms / 1000, distinct=not args.no_distinct)
    tallies = uvloop.run(serving)
    print_line(sum_up(tallies))  # only now: a closing loop may still answer events


if __name__ == "__main__":
    main()
