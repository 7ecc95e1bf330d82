"""A conversation with a relay that the test plays, in its own time."""

import json
from typing import Any

from postrich.model.delivery import Flight, Outcome, Verdict
from postrich.rules.session import AuthRequest, Session
from tests.rules.flights import frame, make_flight, ok

URL = "wss://relay.example/"
TIMEOUT = 10.0
ME = "ab" * 32


class Talk:
    """A session, the clock it is told, and the outcomes it gave."""

    def __init__(self, *, identity: str | None = None, url: str = URL) -> None:
        self.session = Session(url, TIMEOUT, identity)
        self.now = 1000.0
        self.auths = 0

    def publish(self, *numbers: int) -> list[Flight]:
        flights = [make_flight(number) for number in numbers]
        for flight in flights:
            self.session.publish(flight, self.now)
        return flights

    def hear(self, *parts: object) -> None:
        self.session.receive(frame(*parts), self.now)

    def answer(self, flight: Flight, accepted: bool = True, message: object = "") -> None:
        self.session.receive(ok(flight, accepted, message), self.now)

    def wait(self, seconds: float) -> float | None:
        """Time passes; returns how long until the session wants to be called again."""
        self.now += seconds
        due = self.session.tick(self.now)
        return None if due is None else due - self.now

    def said(self) -> list[list[Any]]:
        """What went out since the last look."""
        out, self.session.outgoing = self.session.outgoing, []
        return [json.loads(data) for data in out]

    def sent_events(self) -> list[int]:
        return [int(said[1]["id"], 16) for said in self.said() if said[0] == "EVENT"]

    def results(self) -> list[tuple[int, Outcome, str]]:
        """What became of events since the last look: job, outcome, code."""
        return [(flight.job, verdict.outcome, verdict.code) for flight, verdict in self.verdicts()]

    def verdicts(self) -> list[tuple[Flight, Verdict]]:
        out, self.session.outcomes = self.session.outcomes, []
        return out

    def asked_to_sign(self) -> AuthRequest | None:
        """The challenge that must be signed now; the asking is taken."""
        wanted, self.session.auth_wanted = self.session.auth_wanted, None
        return wanted

    def sign(self) -> str:
        """The signer signs what was asked for; returns the id of the AUTH event sent."""
        assert self.asked_to_sign() is not None
        self.auths += 1
        event_id = f"{self.auths:0>64x}".replace("0", "a", 1)
        self.session.authenticate(event_id, json.dumps({"id": event_id}).encode(), self.now)
        return event_id
