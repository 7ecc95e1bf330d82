"""Bursts are ordinary frames: another implementation reads them back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from websockets.frames import Frame, Opcode
from websockets.server import ServerProtocol

from postrich.wire.framing import BURST, LONGEST, is_burst, pack


def read_frames(data: bytes) -> list[bytes]:
    """The messages in what a client wrote, by the `websockets` library's own server side."""
    protocol = ServerProtocol(max_size=None)
    protocol.state = protocol.state.OPEN
    protocol.reader.feed_data(b"")
    protocol.parser = protocol.parse()
    next(protocol.parser)
    protocol.receive_data(data)
    frames = [event for event in protocol.events_received() if isinstance(event, Frame)]
    assert all(frame.opcode is Opcode.TEXT for frame in frames)
    return [bytes(frame.data) for frame in frames]


@given(st.lists(st.binary(max_size=300), min_size=1, max_size=12))
def test_another_implementation_reads_the_same_messages(messages: list[bytes]) -> None:
    assert read_frames(pack(messages)) == messages


@pytest.mark.parametrize("size", [0, 1, 2, 3, 4, 5, 125, 126, 127, 128, 4096, 65_534, LONGEST])
def test_every_length_is_framed_as_the_protocol_says(size: int) -> None:
    message = bytes(index % 251 for index in range(size))
    assert read_frames(pack([message, b"after"])) == [message, b"after"]


def test_every_frame_has_a_mask_of_its_own() -> None:
    packed = pack([b"same"] * 64)
    frames = [packed[at : at + 10] for at in range(0, len(packed), 10)]
    assert len(set(frames)) == 64


def test_only_bursts_of_ordinary_messages_are_written_together() -> None:
    assert is_burst([b"x"] * BURST)
    assert not is_burst([b"x"] * (BURST - 1))
    assert not is_burst([b"x"] * BURST + [bytes(LONGEST + 1)])
