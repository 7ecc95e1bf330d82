"""The conversation with one relay on one socket, without the socket.

Driven by frames and time: `publish`, `receive`, `tick`, `lost`. Afterwards `outgoing` holds
frames to send, `outcomes` what became of events, `auth_wanted` the challenge to be signed.
Promises: every published flight gets exactly one outcome, or two where an OK comes after the
relay was thought silent. Never blocks, never reads a clock, never signs.
"""

from __future__ import annotations

from typing import Any

import msgspec

from postrich.model.delivery import Flight, Outcome, Verdict
from postrich.model.event import Draft, make_draft
from postrich.rules.replies import (
    DELIVERED,
    Hint,
    Prefix,
    Reply,
    hint_of_notice,
    parse_reply,
    verdict_of_close,
    verdict_of_notice,
    verdict_of_ok,
    verdict_of_silence,
)
from postrich.rules.subscriptions import Subscriptions

MAX_AUTH_ROUNDS = 2
CHALLENGE_WAIT = 3.0
READ_BACK_WAIT = 5.0
AUTH_WAIT = 3.0
MAX_REMEMBERED = 4096
_IDS_PER_READ = 100

AUTH_KIND = 22242
_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode
_PLAIN_OK = 81  # the length of ["OK","<64 hex>",true,""]


class AuthRequest(msgspec.Struct, frozen=True):
    """A challenge to be signed as a kind 22242 event for exactly this relay URL."""

    challenge: str
    relay: str

    def draft(self, pubkey: str, now: int) -> Draft:
        """What the account signs to say who it is; `now` in milliseconds."""
        tags = (("relay", self.relay), ("challenge", self.challenge))
        return make_draft(pubkey, now // 1000, AUTH_KIND, tags)


class Session:
    """One socket's conversation. `identity` is the key it may AUTH as; None never AUTHs."""

    def __init__(self, url: str, timeout: float, identity: str | None = None) -> None:
        self.url = url
        self.timeout = timeout
        self.identity = identity
        self.outgoing: list[bytes] = []
        self.outcomes: list[tuple[Flight, Verdict]] = []
        self.auth_wanted: AuthRequest | None = None
        self.throttled = False
        self.heard = False
        self.strange_frames = 0
        self.dropped = 0
        self.last_words = ""
        self.in_flight: dict[str, Flight] = {}
        self.subscriptions = Subscriptions()
        self._late: dict[str, Flight] = {}
        self._greetings: set[str] = set()
        self._reading: dict[str, dict[str, Flight]] = {}
        self._reading_since: dict[str, float] = {}
        self._reads = 0
        self._auth = _Auth()
        self._hint = ""

    @property
    def load(self) -> int:
        """Events that still await their outcome."""
        reading = sum(map(len, self._reading.values())) if self._reading else 0
        return len(self.in_flight) + len(self._auth.held) + reading

    @property
    def awaits_challenge(self) -> bool:
        """Whether events wait here for the relay to ask who we are."""
        return self._auth.awaits_challenge

    @property
    def is_waiting(self) -> bool:
        """Whether time may bring something about."""
        return self._auth.under_way or self.load > 0

    @property
    def is_challenged(self) -> bool:
        """Whether the relay has asked who we are."""
        return self._auth.challenge is not None

    # -- what we say ---------------------------------------------------------------------

    def publish(self, flight: Flight, now: float) -> None:
        """Send an event, or hold it while an AUTH is under way."""
        if self._auth.under_way or (flight.protected and not self._auth.certain):
            self._hold(flight, now)
            return
        if self._late:
            self._late.pop(flight.event_id, None)
        if not (self.in_flight or self._reading):
            self._hint = ""
        flight.sent_at = now
        self.in_flight[flight.event_id] = flight
        self.outgoing.append(flight.parcel.frame)

    def _hold(self, flight: Flight, now: float) -> None:
        if flight.protected and self._auth.refusal is not None:
            self.outcomes.append((flight, _unprotected(self._auth.refusal)))
            return
        self._auth.held.append(flight)
        self._begin_auth(now)

    def greet(self, event_id: str, frame: bytes) -> None:
        """Send an event whose fate is nobody's concern; no answer to it is blamed on another."""
        if event_id not in self._greetings:
            self._greetings.add(event_id)
            self.outgoing.append(frame)

    def recall(self, pubkey: str) -> list[Flight]:
        """The author's events that still wait here: they will be refused until the relay knows
        who sends them, and are sent elsewhere. An OK that comes after all still counts."""
        recalled = [f for f in self.in_flight.values() if f.parcel.pubkey == pubkey]
        for flight in recalled:
            del self.in_flight[flight.event_id]
            self._remember(flight)
        return recalled

    def subscribe(self, name: str, *filters: dict[str, Any]) -> None:
        """Ask for what is there and what comes; it is found in `subscriptions.news`."""
        self.outgoing.append(self.subscriptions.open(name, filters))

    def authenticate(self, event_id: str, event_json: bytes, now: float) -> None:
        """The signer answered: send the AUTH event and wait for its OK."""
        self._auth.event_id = event_id
        self._auth.since = now
        self.outgoing.append(b'["AUTH",' + event_json + b"]")

    def cannot_authenticate(self, verdict: Verdict) -> None:
        """There is no signature to be had: what waits for it gets that verdict."""
        self._auth.reset()
        self._auth.rounds = 0
        self.auth_wanted = None
        self._release(verdict)
        self.subscriptions.give_up(verdict.text)

    # -- what the relay says ---------------------------------------------------------------

    def receive(self, data: bytes, now: float) -> None:
        """One text frame. The plain OK, nine frames of ten, takes the short way."""
        self.heard = True
        if len(data) == _PLAIN_OK and data.startswith(b'["OK","') and data.endswith(b'",true,""]'):
            flight = self.in_flight.pop(data[7:71].decode("latin-1"), None)
            if flight is not None:
                self.outcomes.append((flight, DELIVERED))
                return
        self._receive_any(data, now)

    def _receive_any(self, data: bytes, now: float) -> None:
        try:
            frame = _decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            self.strange_frames += 1
            return
        if not isinstance(frame, list) or not frame:
            self.strange_frames += 1
            return
        match frame:
            case ["OK", str(event_id), bool(accepted), *rest]:
                self._on_ok(event_id, accepted, rest[0] if rest else "", now)
            case ["AUTH", str(challenge), *_]:
                self._on_challenge(challenge)
            case ["EVENT", str(subscription), dict(event), *_]:
                self._on_event(subscription, event)
            case ["EOSE", str(subscription), *_]:
                self._on_end_of_stored(subscription)
            case ["CLOSED", str(subscription), *rest]:
                self._on_closed(subscription, parse_reply(rest[0] if rest else ""), now)
            case ["NOTICE", str(text), *_]:
                self._on_notice(text)
            case _:
                self.strange_frames += 1

    def _on_ok(self, event_id: str, accepted: bool, message: Any, now: float) -> None:
        if event_id == self._auth.event_id:
            self._on_auth_answer(accepted, message, now)
            return
        flight = self._take(event_id)
        if flight is None and event_id in self._greetings:
            self._greetings.remove(event_id)
            return
        if flight is None and event_id in self._late:
            self._on_late(self._late.pop(event_id), accepted, message)
            return
        if flight is None:
            flight = self._only_flight(event_id, accepted)
        if flight is None:
            if len(event_id) != 64:
                self._on_nameless(accepted, message, now)
            return
        was_unknown = self._auth.may_help or flight.sent_at < self._auth.done_at
        verdict = verdict_of_ok(accepted, message, may_authenticate=was_unknown)
        if verdict.outcome is Outcome.AUTHENTICATE:
            self._on_auth_required(flight, verdict, now)
        else:
            self.outcomes.append((flight, verdict))

    def _on_event(self, subscription: str, event: dict[str, Any]) -> None:
        if not self.subscriptions.on_event(subscription, event):
            self._on_read(subscription, event)

    def _on_end_of_stored(self, subscription: str) -> None:
        if not self.subscriptions.on_end_of_stored(subscription):
            self._end_read(subscription, "the relay does not have it")

    def _on_closed(self, subscription: str, reply: Reply, now: float) -> None:
        if subscription not in self.subscriptions:
            self._end_read(subscription, f"the relay would not say: {reply.raw}")
            return
        can_say = self.identity is not None and self._auth.refusal is None
        wants_auth = can_say and reply.prefix is Prefix.AUTH_REQUIRED
        if self.subscriptions.on_closed(subscription, reply.raw, wants_auth=wants_auth):
            if self._auth.done:  # it was closed before we had said who we are
                self.outgoing += self.subscriptions.after_auth()
            else:
                self._begin_auth(now)

    def _take(self, event_id: str) -> Flight | None:
        """The flight that an OK is about, even while it is being asked for."""
        flight = self.in_flight.pop(event_id, None)
        if flight is None:
            for wanted in self._reading.values():
                flight = wanted.pop(event_id, None)
                if flight is not None:
                    return flight
        return flight

    def _on_late(self, flight: Flight, accepted: bool, message: Any) -> None:
        """An OK after we gave up counts as delivered; its attempt was counted already (C9)."""
        verdict = verdict_of_ok(accepted, message)
        if verdict.outcome is Outcome.DELIVERED:
            text = verdict.text or "the OK came late"
            self.outcomes.append((flight, Verdict(Outcome.DELIVERED, "late", text, burns=False)))

    def _only_flight(self, event_id: str, accepted: bool) -> Flight | None:
        """Some relays refuse with an empty or constant id: that is the only event in flight."""
        if accepted or len(event_id) == 64 or not self._is_alone:
            return None
        return self.in_flight.popitem()[1]

    def _on_nameless(self, accepted: bool, message: Any, now: float) -> None:
        """An answer that names none of several events blames nobody. But where it asks who we
        are, all of them are told that: an OK that still comes for one counts as a late one."""
        self._hint = f"{'OK' if accepted else 'refusal'} without a usable id: {message}"
        asked = list(self.in_flight.values())
        if self._auth.done:  # it may still speak of those that were sent before
            asked = [flight for flight in asked if flight.sent_at < self._auth.done_at]
        may_help = self._auth.may_help or bool(self._auth.done and asked)
        verdict = verdict_of_ok(accepted, message, may_authenticate=may_help)
        if verdict.outcome is Outcome.AUTHENTICATE:
            for flight in asked:
                del self.in_flight[flight.event_id]
                self._remember(flight)
                self._on_auth_required(flight, verdict, now)

    def _on_notice(self, text: str) -> None:
        if not self.in_flight:
            return
        self._hint = text
        hint = hint_of_notice(text)
        self.throttled = self.throttled or hint is Hint.SLOW_DOWN
        verdict = verdict_of_notice(text, hint)
        if verdict is not None and self._is_alone:
            self.outcomes.append((self.in_flight.popitem()[1], verdict))

    @property
    def _is_alone(self) -> bool:
        """Whether one event is all that the relay can be speaking of: blame needs certainty."""
        others = self._late or self._reading or self._auth.event_id or self._greetings
        return len(self.in_flight) == 1 and not others

    # -- AUTH (NIP-42) ---------------------------------------------------------------------

    def _on_challenge(self, challenge: str) -> None:
        auth = self._auth
        is_first = auth.challenge is None
        auth.done = auth.done and challenge == auth.challenge
        auth.certain = auth.certain and auth.done
        auth.challenge = challenge
        if auth.awaits_challenge or (is_first and self.identity is not None):
            self._ask()

    def _on_auth_required(self, flight: Flight, verdict: Verdict, now: float) -> None:
        if self.identity is None:
            self.outcomes.append((flight, verdict))
            return
        if self._auth.refusal is not None:
            self.outcomes.append((flight, self._auth.refusal))
            return
        if self._auth.done and flight.sent_at < self._auth.done_at:
            self.publish(flight, now)  # it was refused before we had said who we are
            return
        if flight.auth_rounds >= MAX_AUTH_ROUNDS:
            self.outcomes.append((flight, _refused_after_auth(verdict)))
            return
        flight.auth_rounds += 1
        self._auth.held.append(flight)
        self._begin_auth(now)

    def _begin_auth(self, now: float) -> None:
        if self._auth.under_way:
            return
        if self._auth.challenge is None:
            self._auth.awaits_challenge = True
            self._auth.since = now
        else:
            self._ask()

    def _ask(self) -> None:
        auth = self._auth
        assert auth.challenge is not None
        auth.rounds += 1
        auth.awaits_challenge = False
        auth.pending = True
        relay = self.url if auth.rounds == 1 else _other_slash(self.url)
        self.auth_wanted = AuthRequest(auth.challenge, relay)

    def _on_auth_answer(self, accepted: bool, message: Any, now: float) -> None:
        auth = self._auth
        if accepted:
            auth.certain = True
            self._authenticated(now)
            return
        auth.reset()
        if auth.rounds < MAX_AUTH_ROUNDS:
            self._ask()
            return
        verdict = verdict_of_ok(False, message)
        text = f"AUTH refused: {verdict.text}"
        auth.refusal = Verdict(Outcome.PARKED, "auth-refused", text)
        self._release(auth.refusal)
        self.subscriptions.give_up(text)

    def _authenticated(self, now: float) -> None:
        auth = self._auth
        auth.reset()
        auth.done = True
        auth.done_at = now
        auth.rounds = 0
        held, auth.held = auth.held, []
        for flight in held:
            self.publish(flight, now)
        self.outgoing += self.subscriptions.after_auth()

    def _skip_protected(self, reason: str) -> None:
        """Whether the relay knows us is not certain: then what is protected stays here (NIP-70)."""
        held = self._auth.held
        self._auth.held = [flight for flight in held if not flight.protected]
        verdict = _unprotected(Verdict(Outcome.RETRY, "auth", reason))
        self.outcomes.extend((flight, verdict) for flight in held if flight.protected)

    def _release(self, verdict: Verdict) -> None:
        held, self._auth.held = self._auth.held, []
        self.outcomes.extend(
            (flight, _unprotected(verdict) if flight.protected else verdict) for flight in held
        )

    # -- time ------------------------------------------------------------------------------

    def tick(self, now: float) -> float | None:
        """Do what is due; returns when to be called next, or None while nothing waits."""
        self._time_out_flights(now)
        self._time_out_reads(now)
        self._time_out_auth(now)
        return self._next_deadline()

    def _time_out_flights(self, now: float) -> None:
        silent: list[Flight] = []
        for flight in self.in_flight.values():
            if now - flight.sent_at < self.timeout:
                break
            silent.append(flight)
        for flight in silent:
            del self.in_flight[flight.event_id]
        for start in range(0, len(silent), _IDS_PER_READ):
            self._read_back(silent[start : start + _IDS_PER_READ], now)

    def _read_back(self, flights: list[Flight], now: float) -> None:
        """Ask the relay whether it has them: silence about an event is not its absence."""
        self._reads += 1
        name = f"postrich-{self._reads}"
        self._reading[name] = {flight.event_id: flight for flight in flights}
        self._reading_since[name] = now
        self.outgoing.append(_encode(["REQ", name, {"ids": list(self._reading[name])}]))

    def _on_read(self, subscription: str, event: dict[str, Any]) -> None:
        flight = self._reading.get(subscription, {}).pop(str(event.get("id")), None)
        if flight is not None:
            verdict = Verdict(Outcome.DELIVERED, "read-back", "no OK came, but the relay has it")
            self.outcomes.append((flight, verdict))

    def _end_read(self, subscription: str, note: str) -> None:
        absent = self._reading.pop(subscription, None)
        if absent is None:
            return
        del self._reading_since[subscription]
        self.outgoing.append(_encode(["CLOSE", subscription]))
        hint = "; ".join(part for part in (self._hint, note) if part)
        verdict = verdict_of_silence(self.timeout, hint)
        for flight in absent.values():
            self._remember(flight)
            self.outcomes.append((flight, verdict))

    def _remember(self, flight: Flight) -> None:
        self._late[flight.event_id] = flight
        if len(self._late) > MAX_REMEMBERED:
            del self._late[next(iter(self._late))]

    def _time_out_reads(self, now: float) -> None:
        for name, since in list(self._reading_since.items()):
            if now - since >= READ_BACK_WAIT or not self._reading[name]:
                self._end_read(name, "")

    def _time_out_auth(self, now: float) -> None:
        auth = self._auth
        if auth.awaits_challenge and now - auth.since >= CHALLENGE_WAIT:
            self._skip_protected("the relay does not ask who we are")
            self.cannot_authenticate(
                Verdict(Outcome.RETRY, "auth", "the relay asks for AUTH but sends no challenge")
            )
        elif auth.event_id is not None and now - auth.since >= AUTH_WAIT:
            self._skip_protected("the relay did not answer the AUTH")
            self._authenticated(now)  # some relays take an AUTH without a word

    def _next_deadline(self) -> float | None:
        deadlines = [since + READ_BACK_WAIT for since in self._reading_since.values()]
        if self.in_flight:
            deadlines.append(next(iter(self.in_flight.values())).sent_at + self.timeout)
        if self._auth.awaits_challenge:
            deadlines.append(self._auth.since + CHALLENGE_WAIT)
        elif self._auth.event_id is not None:
            deadlines.append(self._auth.since + AUTH_WAIT)
        return min(deadlines, default=None)

    # -- the end ---------------------------------------------------------------------------

    def lost(self, code: int, reason: str) -> None:
        """The socket is gone: everything that still waited gets its verdict."""
        waiting = list(self.in_flight.values())
        for wanted in self._reading.values():
            waiting.extend(wanted.values())
        alone = len(waiting) == 1 and not self._greetings
        verdict = verdict_of_close(code, reason or self._hint, alone=alone)
        self.dropped = len(waiting) + len(self._auth.held)
        self.last_words = verdict.text
        self.outcomes.extend((flight, verdict) for flight in waiting)
        self.in_flight.clear()
        self._reading.clear()
        self._reading_since.clear()
        self._auth.reset()
        self.auth_wanted = None
        self._release(
            Verdict(Outcome.RETRY, "closed", f"connection closed ({code}) during AUTH", burns=False)
        )

    def abandon(self) -> list[Flight]:
        """We leave: what is in flight gets no verdict, so it is simply still due (B8)."""
        waiting = [*self.in_flight.values(), *self._auth.held]
        for wanted in self._reading.values():
            waiting.extend(wanted.values())
        self.in_flight.clear()
        self._late.clear()
        self._reading.clear()
        self._reading_since.clear()
        self._auth.held.clear()
        self.outgoing.clear()
        return waiting


class _Auth:
    """Where the AUTH of one socket stands."""

    def __init__(self) -> None:
        self.challenge: str | None = None
        self.done = False
        self.certain = False  # the relay has said that it knows us
        self.done_at = float("-inf")
        self.rounds = 0
        self.refusal: Verdict | None = None
        self.held: list[Flight] = []
        self.awaits_challenge = False
        self.pending = False
        self.event_id: str | None = None
        self.since = 0.0

    @property
    def under_way(self) -> bool:
        return self.pending or self.awaits_challenge

    @property
    def may_help(self) -> bool:
        """The relay has asked who we are, and does not know yet."""
        return self.under_way or (self.challenge is not None and not self.done)

    def reset(self) -> None:
        self.pending = False
        self.awaits_challenge = False
        self.event_id = None


def _unprotected(verdict: Verdict) -> Verdict:
    """A protected event goes nowhere without AUTH (NIP-70). A lost socket is another matter,
    and so is a signer who may still come."""
    if not verdict.burns or verdict.code in ("signer", "auth-required"):
        return verdict
    return Verdict(Outcome.SKIPPED, "protected", f"only its author may send it: {verdict.text}")


def _refused_after_auth(verdict: Verdict) -> Verdict:
    return Verdict(Outcome.REFUSED, verdict.code, f"even after AUTH: {verdict.text}")


def _other_slash(url: str) -> str:
    return url.removesuffix("/") if url.endswith("/") else url + "/"
