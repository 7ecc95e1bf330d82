"""Flights and relay frames for the tests of rules."""

import json

from postrich.model.delivery import Flight, Parcel, event_frame

AUTHOR = "ab" * 32


def make_flight(number: int, *, priority: int = 1, size: int = 0) -> Flight:
    """A flight whose event id is its number, with a frame of at least `size` bytes."""
    event_id = f"{number:064x}"
    raw = json.dumps({"id": event_id, "content": ""}).encode()
    frame = event_frame(raw)
    return Flight(
        Parcel(
            job=number,
            event_id=event_id,
            pubkey=AUTHOR,
            created_at=1_700_000_000,
            priority=priority,
            expires_at=2**62,
            policy="interactive",
            frame=frame + b" " * (size - len(frame)),
        ),
        attempts=0,
    )


def frame(*parts: object) -> bytes:
    """One message of a relay."""
    return json.dumps(parts, separators=(",", ":")).encode()


def ok(flight: Flight, accepted: bool = True, message: object = "") -> bytes:
    return frame("OK", flight.event_id, accepted, message)
