"""A lane: the one worker of one relay. It claims, sends, hears, settles — pipelined.

Promises: no more in flight than the window allows; every claimed delivery is either settled or
simply still due; a relay that cannot be reached costs no delivery an attempt. What is in flight
exists only in memory: a crash needs no repair. Never reads a reply itself (rules do).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

import msgspec

from postrich.deliver.customs import Customs, is_protected
from postrich.deliver.links import Links
from postrich.deliver.loop import Done, Loop
from postrich.deliver.results import ResultsWriter
from postrich.deliver.shared import MARGIN, Shared
from postrich.deliver.tray import Tray
from postrich.model.delivery import (
    DeliveryState,
    Destination,
    Fence,
    Flight,
    Outcome,
    Parcel,
    Settlement,
    Verdict,
)
from postrich.model.relay import RelayHealth
from postrich.observe.notices import RelayChanged
from postrich.rules import health
from postrich.rules.backoff import resolve_policy
from postrich.rules.budget import goes_metered
from postrich.rules.health import Breaker, BreakerState
from postrich.rules.lifecycle import Attempt, settle
from postrich.rules.pace import Pace
from postrich.rules.replies import DELIVERED, Fault, fault_of, is_about_size
from postrich.rules.session import Session
from postrich.wire.connection import Connection

log = logging.getLogger("postrich.lane")

#: How soon to look again whether the lease is still held.
DOUBT = 0.25


class Lane(Loop):
    """The lane of one relay, held under a lease."""

    def __init__(
        self, shared: Shared, destination: Destination, fence: Fence, taken_at: float
    ) -> None:
        super().__init__()
        self.name = f"lane {destination.url}"
        self.destination = destination
        self.fence = fence
        self.taken_at = taken_at
        self.breaker = Breaker()
        self.pace = Pace(1 if shared.settings.serial else shared.settings.window)
        self.latency: float | None = None
        self.counts = {"oks": 0, "refusals": 0, "timeouts": 0}
        self._shared = shared
        self._results = ResultsWriter(shared, destination, fence, self._on_settled)
        self._tray = Tray(shared, destination.id)
        self._links = Links(shared, destination, self._on_progress, lambda: self._is_ours)
        self._customs = Customs(shared, destination)
        self.success: float | None = None
        self._news_at = 0
        self._is_forbidden = False
        self._starved_until = 0.0
        self._busy_at = shared.clock.tick()
        self._since = shared.clock.now()

    # -- the loop ----------------------------------------------------------------------------

    def hint(self) -> None:
        """There may be new work for this relay."""
        self._tray.more_due = True
        self.wake()

    def offer(self, parcels: Sequence[Parcel]) -> None:
        """New work straight from its commit: taken as it is, while nothing else waits here."""
        shared = self._shared
        if (
            not self._tray.has_room(len(parcels))
            or self.breaker.state is not BreakerState.CLOSED
            or shared.network.paused
            or shared.is_scarce
        ):
            self.hint()
            return
        self._busy_at = shared.clock.tick()
        self._tray.take(parcels, self._busy_at)
        if self._links.open:
            self._pump()
        self.wake()

    def trust(self) -> None:
        """The owner has named this relay: it may be anywhere, and is one of his own."""
        if not self.destination.trusted:
            self.destination = msgspec.structs.replace(self.destination, trusted=True)
            self._links.trusted = self._customs.trusted = True
            self._is_forbidden = False

    def forget(self, jobs: set[int]) -> None:
        """These jobs were cancelled or changed: what is not in flight must not be sent as it is."""
        self._tray.forget(jobs)

    def reclaim(self) -> None:
        """Other rules hold now: what is not in flight is claimed anew under them."""
        self._tray.put_back_all()
        self.wake()

    def lose(self) -> None:
        """Another worker has our lease: nothing more is sent or written."""
        self._results.lease_lost = True
        self.wake()

    @property
    def _is_ours(self) -> bool:
        """Whether the lease certainly holds: who was asleep for long does not know."""
        shared = self._shared
        kept_until = max(shared.kept_until, self.taken_at + shared.settings.lease - MARGIN)
        return shared.clock.tick() < kept_until and not self._results.lease_lost

    @property
    def claimed_at(self) -> float:
        return self._tray.claimed_at

    @property
    def is_idle(self) -> bool:
        return not (self._tray.held or self._tray.more_due)

    @property
    def is_resting(self) -> bool:
        """Nothing can be done for the relay now: its breaker is open."""
        return not self._tray.held and not health.may_dial(self.breaker, self._shared.clock.tick())

    async def pass_once(self) -> float | None:
        """Claim if there is room, dial if there is need, send what the window allows."""
        if self._results.lease_lost:
            raise Done
        if not self._is_ours:
            await self._hang_up()
            return DOUBT
        now = self._shared.clock.tick()
        wait = self._must_wait(now)
        if wait is not None:
            self._tray.put_back_all()
            if self._shared.network.paused:
                await self._hang_up()
            return wait
        if self._tray.is_stale:
            self._tray.put_back_all()
        if not self._results.is_full:
            await self._tray.refill()
        if not self._tray.held:
            return await self._rest(now)
        self._busy_at = now
        if not await self._dial_missing():
            return self._must_wait(self._shared.clock.tick())
        self._pump()
        return self._pause()

    async def finish(self) -> None:
        """Hand back what was not sent, hear out what is in flight for a moment, write it all."""
        self._tray.put_back_all()
        await self._hear_out()
        await self._hang_up()
        await self._results.drain()
        self._customs.leave()
        self._shared.network.left(self.destination.url)

    def ask_to_stop(self) -> None:
        super().ask_to_stop()
        self._links.leave()

    async def _hear_out(self) -> None:
        """An orderly end burns no attempt: answers that are on their way still count (B8)."""
        deadline = self._shared.clock.tick() + min(2.0, self._shared.settings.timeout)
        while self._links.load and self._shared.clock.tick() < deadline:
            self._woken.clear()
            try:
                async with asyncio.timeout(0.2):
                    await self._woken.wait()
            except TimeoutError:
                continue

    async def _hang_up(self) -> None:
        """Close the sockets; what is in flight there is simply still due."""
        self._tray.put_back(await self._links.hang_up())
        self._shared.gate.leave(self.destination.id)

    def _must_wait(self, now: float) -> float | None:
        """Seconds until anything may be tried, or None: go ahead."""
        if self._shared.network.paused:
            return self._shared.settings.sync
        if not health.may_dial(self.breaker, now):
            return self.breaker.until - now
        return None

    def _pause(self) -> float | None:
        now = self._shared.clock.tick()
        waits = [w - now for w in (self.pace.resume_at, self._starved_until) if w > now]
        return min(waits, default=None) if self._tray.waiting else None

    async def _rest(self, now: float) -> float | None:
        """Nothing to do: after a while close the sockets, and at last end."""
        idle = now - self._busy_at
        limit = self._shared.settings.idle
        if idle >= limit or self._is_forbidden:
            raise Done
        if idle >= limit / 2:
            await self._links.hang_up()
        return limit / 2

    def _on_settled(self, jobs: list[int]) -> None:
        self._tray.settled(jobs)
        self.wake()

    # -- the relay ---------------------------------------------------------------------------

    async def _dial_missing(self) -> bool:
        """Open the sockets that waiting events need; False where the relay cannot be reached."""
        self._tray.link_again()
        wanted: set[str | None] = {None}
        if self._links.identities:
            wanted = {self._links.identity_of(flight) for flight in self._tray.waiting}
        for identity in wanted - set(self._links.open):
            if not await self._dial(identity):
                self._tray.put_back_all()
                return False
        return True

    async def _dial(self, identity: str | None) -> bool:
        try:
            if not await self._links.dial(identity):
                return False
        except Exception as problem:  # noqa: BLE001 - every fault of dialling is the relay's
            fault = fault_of(problem)
            if fault.code == "forbidden":
                self._skip_all(fault)
            else:
                self._on_unreachable(fault)
            return False
        self._shared.network.reached(self.destination.url)
        await self._customs.learn()
        self._become(health.on_dial(self.breaker))
        return True

    def _skip_all(self, fault: Fault) -> None:
        """Strangers' lists may not send us there: nothing that waits for it ever goes."""
        verdict = Verdict(Outcome.SKIPPED, fault.code, fault.text, burns=False)
        self._is_forbidden = True
        for flight in self._tray.take_waiting():
            self._settle(flight, verdict)
        self._results.flush()

    def _on_unreachable(self, fault: Fault) -> None:
        self._note(0.0)
        shared = self._shared
        shared.network.unreached(self.destination.url, fault)
        self._become(
            health.on_fault(
                self.breaker,
                fault,
                shared.clock.tick(),
                shared.clock.chance(),
                shared.network.online,
            )
        )

    def _note(self, success: float) -> None:
        self.success = health.smooth(self.success, success)
        self._news_at = self._shared.clock.now()

    def _become(self, breaker: Breaker) -> None:
        was, self.breaker = self.breaker, breaker
        if was.state is breaker.state:
            return
        if not (was.failures and breaker.failures):  # a probe that fails ends no trouble
            self._since = self._shared.clock.now()
        detail = breaker.fault.text if breaker.fault else ""
        level = logging.ERROR if breaker.state is BreakerState.OPEN else logging.INFO
        log.log(level, "%s: breaker %s %s", self.destination.url, breaker.state, detail)
        self._shared.notices.publish(
            RelayChanged(self.destination.url, breaker.state.value, detail)
        )

    def network_back(self) -> None:
        """The network is back: probe now (A13)."""
        self._become(health.on_network_back(self.breaker, self._shared.clock.tick()))
        self.wake()

    # -- sending -----------------------------------------------------------------------------

    def _room(self) -> int:
        """How many events may be sent now. A half-open breaker admits one probe."""
        if self._results.is_full or self._stopping or not self._is_ours:
            return 0
        window = 1 if self.breaker.state is BreakerState.HALF_OPEN else int(self.pace.window)
        return window - self._links.load

    def _pump(self) -> None:
        """Send as much as the window, the budget and the pause allow. Never waits."""
        shared = self._shared
        now = shared.clock.tick()
        room = self._room()
        if room <= 0 or now < self.pace.resume_at:
            return
        wall = shared.clock.now()
        is_scarce = shared.is_scarce
        tray = self._tray
        has_rules = self._customs.has_rules
        while room > 0 and tray.waiting:
            flight = tray.waiting.popleft()
            if not self._may_introduce(flight):
                continue
            link = self._links.of(flight)
            if link is None:
                tray.unlinked.append(flight)
                continue
            if flight.parcel.expires_at <= wall:
                tray.put_back((flight,))  # the lifeline ends it, and knows what was tried
                continue
            if (
                not link.writable
                or not shared.gate.admits(flight.job)
                or (is_scarce and not self._affordable(flight, now))
            ):
                tray.waiting.appendleft(flight)
                break
            if has_rules and not self._passes_customs(flight, wall):
                continue
            shared.gate.enter(flight.job, self.destination.id)
            link.session.publish(flight, now)
            room -= 1
            if flight.protected and link.session.awaits_challenge:
                self._knock(link.session, flight)
        self._links.flush()
        self._results.flush()
        if tray.unlinked:
            self.wake()

    def _may_introduce(self, flight: Flight) -> bool:
        """Who writes says so first, where the relay wants that; who cannot is left to the relay,
        but for NIP-70: a protected event goes only where we have said that we are its author."""
        if self._customs.wants_auth:
            self._links.authenticate_as(flight)
        if flight.protected or not is_protected(flight.parcel.frame):
            return True
        flight.protected = True
        if self._links.authenticate_as(flight):
            return True
        verdict = self._links.why_not(flight, Verdict(Outcome.SKIPPED, "protected", "protected"))
        text = f"only its author may send it: {verdict.text}"
        self._settle(flight, Verdict(Outcome.SKIPPED, "protected", text, burns=False))
        return False

    def _knock(self, session: Session, flight: Flight) -> None:
        """Many relays ask who we are only when something is sent: the author's list will do."""
        found = self._shared.knock(flight.parcel.pubkey)
        if found is not None:
            session.greet(*found)

    def _passes_customs(self, flight: Flight, wall: int) -> bool:
        """Whether the relay would take it; where not, it is settled with the reason (C5)."""
        verdict = self._customs.judge(flight, wall)
        if verdict is not None:
            self._settle(flight, verdict)
        return verdict is None

    def _affordable(self, flight: Flight, now: float) -> bool:
        if self._shared.metered and not goes_metered(flight):
            return False
        wait = self._shared.budget.take(len(flight.parcel.frame), now)
        if wait:
            self._starved_until = now + wait
        return not wait

    # -- hearing -----------------------------------------------------------------------------

    def _on_progress(self, link: Connection) -> None:
        """A burst of frames was read, time passed, or the socket ended."""
        session = link.session
        if session.outcomes:
            self._take_outcomes(session)
        if session.throttled:
            session.throttled = False
            self.pace.on_rate_limit(self._shared.clock.tick(), self._shared.clock.chance())
        if not link.is_open:
            self._on_link_lost(link)
        self._results.flush()
        is_stale = self._tray.is_stale
        if self._tray.waiting and not is_stale:
            self._pump()
        if is_stale or self._tray.is_low or not self._is_ours:
            self.wake()

    def _take_outcomes(self, session: Session) -> None:
        outcomes, session.outcomes = session.outcomes, []
        delivered = self._results.delivered
        gate = self._shared.gate
        greets = self._shared.courtesy is not None
        answers = 0
        for flight, verdict in outcomes:
            if gate.serial:
                gate.leave(self.destination.id, flight.job)
            if verdict is DELIVERED and flight.attempts == 0:
                delivered.append(flight.job)
                answers += 1
                if greets:
                    self._greet(session, flight)
            else:
                answers += self._on_verdict(flight, verdict)
        if answers:
            self.counts["oks"] += answers
            self._note(1.0)
            self.pace.on_answers(answers)
            self._become(health.on_answer(self.breaker))
            flight, verdict = outcomes[-1]
            if verdict is DELIVERED:
                sample = (self._shared.clock.tick() - flight.sent_at) * 1000
                self.latency = health.smooth(self.latency, sample)
                self._shared.meters.answered(self.destination.url, sample / 1000)

    def _greet(self, session: Session, flight: Flight) -> None:
        """The relay takes events of this author: their relay list follows, if it is due (D5)."""
        assert self._shared.courtesy is not None
        found = self._shared.courtesy(flight.parcel.pubkey, self.destination.url, flight.event_id)
        if found is not None:
            session.greet(*found)

    def _on_verdict(self, flight: Flight, verdict: Verdict) -> int:
        """Everything but a first plain OK. Returns 1 where the relay is well."""
        now = self._shared.clock.tick()
        if verdict.code == "rate-limited":
            self.pace.on_rate_limit(now, self._shared.clock.chance())
        elif is_about_size(verdict):
            self._customs.too_large(flight)
        elif verdict.code == "timeout":
            self.counts["timeouts"] += 1
            self._note(0.0)
            self.pace.on_silence(now)
        if verdict.outcome is Outcome.AUTHENTICATE:
            if self._links.authenticate_as(flight):
                self._tray.unlinked += [flight, *self._links.recall(flight)]
                self.wake()
                return 1
            verdict = self._links.why_not(flight, verdict)
        self._settle(flight, verdict)
        if verdict.outcome in (Outcome.REFUSED, Outcome.PARKED):
            self.counts["refusals"] += 1
        return int(verdict.outcome not in (Outcome.UNKNOWN, Outcome.RETRY))

    def _settle(self, flight: Flight, verdict: Verdict) -> None:
        parcel = flight.parcel
        clock = self._shared.clock
        now = clock.now()
        attempt = Attempt(
            parcel.job,
            flight.attempts,
            resolve_policy(parcel.policy),
            parcel.expires_at,
            parcel.created_at,
        )
        settlement = settle(attempt, verdict, now, clock.chance(), self._resume_wall(now))
        flight.attempts = settlement.attempts
        self._results.others.append(settlement)
        self._log(settlement)

    def _resume_wall(self, now: int) -> int:
        resume = max(self.pace.resume_at, self.breaker.until)
        return now + max(0, round((resume - self._shared.clock.tick()) * 1000))

    def _log(self, settlement: Settlement) -> None:
        is_bad = settlement.state in (DeliveryState.FAILED, DeliveryState.REFUSED)
        log.log(
            logging.ERROR if is_bad else logging.DEBUG,
            "job %s, phase publish, relay %s: %s (%s) attempts %s, next attempt %s: %s",
            settlement.job,
            self.destination.url,
            settlement.state,
            settlement.code,
            settlement.attempts,
            settlement.next_at if settlement.state is DeliveryState.WAITING else "none",
            settlement.detail,
        )

    def _on_link_lost(self, link: Connection) -> None:
        if not self._links.lost(link) or self._stopping:  # told already, or closed by us
            return
        if link.session.dropped or not link.session.heard:
            self.pace.on_lost()
            self._on_unreachable(Fault("closed", link.session.last_words))
        self.wake()

    def recall(self, known: RelayHealth | None) -> None:
        """Go on from what was known of the relay before."""
        if known is not None:
            self.latency, self._news_at = known.latency_ms, known.seen_at
            self.success = known.success if known.seen_at else None
            self.counts = {
                "oks": known.oks,
                "refusals": known.refusals,
                "timeouts": known.timeouts,
            }

    # -- what others ask ---------------------------------------------------------------------

    def health(self) -> RelayHealth:
        breaker = self.breaker
        now = self._shared.clock.now()
        is_open = breaker.state is BreakerState.OPEN
        wait = max(0.0, breaker.until - self._shared.clock.tick())
        return RelayHealth(
            url=self.destination.url,
            state=breaker.state.value,
            since=self._since,
            next_probe=now + round(wait * 1000) if is_open else None,
            failures=breaker.failures,
            latency_ms=self.latency,
            oks=self.counts["oks"],
            refusals=self.counts["refusals"],
            timeouts=self.counts["timeouts"],
            detail=breaker.fault.text if breaker.fault else "",
            success=self.success or 0.0,
            seen_at=self._news_at,
        )
