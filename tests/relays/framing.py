"""The WebSocket wire, as far as a scripted relay needs it (RFC 6455, server side).

Promises to read what a correct client sends, and to write any frame, legal or not: breaking the
protocol on purpose is why this is not a library's framing.
"""

import asyncio
import base64
import hashlib
from dataclasses import dataclass, field
from enum import IntEnum

GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


class Opcode(IntEnum):
    CONTINUATION = 0x0
    TEXT = 0x1
    BINARY = 0x2
    CLOSE = 0x8
    PING = 0x9
    PONG = 0xA


@dataclass(frozen=True)
class Frame:
    opcode: int
    payload: bytes
    final: bool = True


@dataclass(frozen=True)
class Request:
    """The HTTP request that opens a connection; header names are lowercase."""

    path: str
    headers: dict[str, str] = field(default_factory=dict)

    @property
    def is_upgrade(self) -> bool:
        return "sec-websocket-key" in self.headers


async def read_request(reader: asyncio.StreamReader) -> Request:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    first, *lines = head.strip().split("\r\n")
    pairs = (line.partition(":") for line in lines)
    headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
    return Request(first.split(" ")[1], headers)


def upgrade_response(request: Request) -> bytes:
    key = request.headers["sec-websocket-key"].encode()
    accept = base64.b64encode(hashlib.sha1(key + GUID).digest()).decode()
    return (
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        f"Sec-WebSocket-Accept: {accept}\r\n\r\n"
    ).encode()


def http_response(status: int, headers: dict[str, str], body: bytes) -> bytes:
    lines = [f"HTTP/1.1 {status} Scripted", *(f"{name}: {headers[name]}" for name in headers)]
    lines += [f"Content-Length: {len(body)}", "Connection: close"]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


async def read_frame(reader: asyncio.StreamReader) -> Frame:
    first, second = await reader.readexactly(2)
    size = second & 0x7F
    if size == 126:
        size = int.from_bytes(await reader.readexactly(2), "big")
    elif size == 127:
        size = int.from_bytes(await reader.readexactly(8), "big")
    mask = await reader.readexactly(4) if second & 0x80 else b"\0\0\0\0"
    payload = await reader.readexactly(size)
    return Frame(first & 0x0F, _unmasked(payload, mask), bool(first & 0x80))


async def read_message(reader: asyncio.StreamReader) -> Frame:
    """The next control frame, or the next data message put together from its fragments.

    A control frame between fragments is not expected from our clients and not supported."""
    frame = await read_frame(reader)
    payload = bytearray(frame.payload)
    final = frame.final
    while not final:
        more = await read_frame(reader)
        payload += more.payload
        final = more.final
    return Frame(frame.opcode, bytes(payload))


def frame_bytes(frame: Frame) -> bytes:
    """The frame as it goes out: unmasked, and not checked for sense."""
    size = len(frame.payload)
    head = bytearray([frame.opcode | (0x80 if frame.final else 0)])
    if size < 126:
        head.append(size)
    elif size < 65536:
        head += bytes([126]) + size.to_bytes(2, "big")
    else:
        head += bytes([127]) + size.to_bytes(8, "big")
    return bytes(head) + frame.payload


def _unmasked(payload: bytes, mask: bytes) -> bytes:
    size = len(payload)
    repeated = (mask * (size // 4 + 1))[:size]
    mixed = int.from_bytes(payload, "big") ^ int.from_bytes(repeated, "big")
    return mixed.to_bytes(size, "big")
