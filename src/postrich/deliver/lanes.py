"""A lane: the one worker of one relay. It claims, sends, hears, settles — pipelined.

Promises: no more in flight than the window allows; every claimed delivery is either settled or
simply still due; a relay that cannot be reached costs no delivery an attempt. What is in flight
exists only in memory: a crash needs no repair. Never reads a reply itself (rules do).
"""

from __future__ import annotations

import asyncio
import functools
import logging
from collections import deque
from collections.abc import Sequence

from postrich.deliver.loop import Done, Loop
from postrich.deliver.results import ResultsWriter
from postrich.deliver.shared import Shared
from postrich.errors import SignerError
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
from postrich.model.event import Event, make_draft
from postrich.model.job import Priority
from postrich.model.relay import RelayHealth
from postrich.observe.notices import RelayChanged
from postrich.rules import health
from postrich.rules.backoff import resolve_policy
from postrich.rules.budget import SMALL_BYTES, goes_metered, thrift_order
from postrich.rules.health import Breaker, BreakerState
from postrich.rules.lifecycle import Attempt, settle
from postrich.rules.pace import Pace, shares
from postrich.rules.replies import DELIVERED, Fault, fault_of
from postrich.rules.session import AuthRequest, Session
from postrich.wire.connection import Connection

log = logging.getLogger("postrich.lane")

CLAIM = 512
AUTH_KIND = 22242
MAX_IDENTITIES = 8
#: What waits here for longer is claimed anew: other processes cancel it, or bring what is urgent.
TRUE_FOR = 1.0
_EXPIRED = Verdict(Outcome.RETRY, "expired", "lifetime over", burns=False)


class Lane(Loop):
    """The lane of one relay, held under a lease."""

    def __init__(self, shared: Shared, destination: Destination, fence: Fence) -> None:
        super().__init__()
        self.name = f"lane {destination.url}"
        self.destination = destination
        self.fence = fence
        self.breaker = Breaker()
        self.pace = Pace(1 if shared.settings.serial else shared.settings.window)
        self.latency: float | None = None
        self.counts = {"oks": 0, "refusals": 0, "timeouts": 0}
        self._shared = shared
        self._results = ResultsWriter(shared, destination, fence, self._on_settled)
        self._buffer: deque[Flight] = deque()
        self._held: set[int] = set()
        self._links: dict[str | None, Connection] = {}
        self._unlinked: list[Flight] = []
        self._identities: set[str] = set()
        self._more_due = True
        self._meanwhile: set[int] | None = None
        self._dialling: asyncio.Task[Connection] | None = None
        self._starved_until = 0.0
        self.claimed_at = 0.0
        self._busy_at = shared.clock.tick()
        self._since = shared.clock.now()

    # -- the loop ----------------------------------------------------------------------------

    def hint(self) -> None:
        """There may be new work for this relay."""
        self._more_due = True
        self.wake()

    def offer(self, parcels: Sequence[Parcel]) -> None:
        """New work straight from its commit: taken as it is, while nothing else waits here."""
        shared = self._shared
        if (
            self._more_due
            or len(self._buffer) + len(parcels) > 2 * CLAIM
            or self.breaker.state is not BreakerState.CLOSED
            or shared.network.paused
            or shared.is_scarce
        ):
            self.hint()
            return
        now = shared.clock.tick()
        jobs = [parcel.job for parcel in parcels]
        self._held.update(jobs)
        if self._meanwhile is not None:
            self._meanwhile.update(jobs)
        for parcel in parcels:
            if parcel.priority == Priority.URGENT:
                self._buffer.appendleft(Flight(parcel, 0, now))
            else:
                self._buffer.append(Flight(parcel, 0, now))
        self._busy_at = now
        if self._links:
            self._pump()
        self.wake()

    def forget(self, jobs: set[int]) -> None:
        """These jobs were cancelled or changed: what is not in flight must not be sent as it is."""
        if self._meanwhile is not None:
            self._meanwhile |= jobs
            self._more_due = True
        stale = [f for f in (*self._buffer, *self._unlinked) if f.job in jobs]
        if stale:
            self._put_back(stale)
            self._buffer = deque(flight for flight in self._buffer if flight.job not in jobs)
            self._unlinked = [flight for flight in self._unlinked if flight.job not in jobs]

    def reclaim(self) -> None:
        """Other rules hold now: what is not in flight is claimed anew under them."""
        self._put_back_all()
        self.wake()

    @property
    def is_idle(self) -> bool:
        return not (self._held or self._more_due)

    @property
    def is_resting(self) -> bool:
        """Nothing can be done for the relay now: its breaker is open."""
        return not self._held and not health.may_dial(self.breaker, self._shared.clock.tick())

    @property
    def _is_stale(self) -> bool:
        """Whether what waits here was claimed too long ago to be sent unseen."""
        if not self._buffer:
            return False
        taken_at = self.claimed_at if self._shared.is_scarce else self._buffer[0].taken_at
        return self._shared.clock.tick() - taken_at > TRUE_FOR

    async def pass_once(self) -> float | None:
        """Claim if there is room, dial if there is need, send what the window allows."""
        if self._results.lease_lost:
            raise Done
        now = self._shared.clock.tick()
        wait = self._must_wait(now)
        if wait is not None:
            self._put_back_all()
            if self._shared.network.paused:
                await self._hang_up()
            return wait
        if self._is_stale:
            self._put_back_all()
        await self._refill()
        if not self._held:
            return await self._rest(now)
        self._busy_at = now
        if not await self._dial_missing():
            return self._must_wait(self._shared.clock.tick())
        self._pump()
        return self._pause()

    async def finish(self) -> None:
        """Hand back what was not sent, hear out what is in flight for a moment, write it all."""
        self._put_back_all()
        await self._hear_out()
        await self._hang_up()
        await self._results.drain()
        self._shared.network.left(self.destination.url)

    def ask_to_stop(self) -> None:
        super().ask_to_stop()
        if self._dialling is not None:
            self._dialling.cancel()

    async def _hear_out(self) -> None:
        """An orderly end burns no attempt: answers that are on their way still count (B8)."""
        deadline = self._shared.clock.tick() + min(2.0, self._shared.settings.timeout)
        while self._load() and self._shared.clock.tick() < deadline:
            self._woken.clear()
            try:
                async with asyncio.timeout(0.2):
                    await self._woken.wait()
            except TimeoutError:
                continue

    async def _hang_up(self) -> None:
        """Close the sockets; what is in flight there is simply still due, and no attempt burnt."""
        links, self._links = self._links, {}
        for link in links.values():
            self._put_back(link.session.abandon())
        self._shared.gate.leave(self.destination.id)
        for link in links.values():
            await link.close()

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
        return min(waits, default=None) if self._buffer else None

    async def _rest(self, now: float) -> float | None:
        """Nothing to do: after a while close the sockets, and at last end."""
        idle = now - self._busy_at
        limit = self._shared.settings.idle
        if idle >= limit:
            raise Done
        if idle >= limit / 2:
            for identity in list(self._links):
                await self._links.pop(identity).close()
        return limit / 2

    # -- claiming ----------------------------------------------------------------------------

    async def _refill(self) -> None:
        room = CLAIM - len(self._buffer)
        if not self._more_due or room < CLAIM // 2 or self._results.is_full:
            return
        self._more_due = False
        self._meanwhile = set()
        try:
            flights = await self._claim(*shares(room))
        finally:
            self._meanwhile = None
        self._held.update(flight.job for flight in flights)
        self._buffer.extend(flights)
        if self._shared.is_scarce:
            self._buffer = deque(sorted(self._buffer, key=self._thrift))

    async def _claim(self, fresh: int, retried: int) -> list[Flight]:
        """Due deliveries, but none that changed hands while we asked."""
        shared = self._shared
        now = shared.clock.now()
        self.claimed_at = shared.clock.tick()
        small = SMALL_BYTES if shared.metered else None
        claimed = await shared.store.claim(
            self.destination.id, now, fresh, retried, list(self._held), small
        )
        if len(claimed) >= fresh or len(claimed) >= retried:
            self._more_due = True
        if not claimed:
            return []
        parcels = await shared.parcels.get([job for job, _ in claimed], now)
        if small != (SMALL_BYTES if shared.metered else None):
            self._more_due = True
            return []
        meanwhile, taken_at = self._meanwhile or (), self.claimed_at
        return [
            Flight(parcels[job], attempts, taken_at)
            for job, attempts in claimed
            if job in parcels and job not in meanwhile
        ]

    def _thrift(self, flight: Flight) -> tuple[bool, tuple[int, int]]:
        return (self._shared.metered and not goes_metered(flight), thrift_order(flight))

    def _put_back(self, flights: list[Flight]) -> None:
        """Not sent, so still due: the store needs not be told."""
        self._held.difference_update(flight.job for flight in flights)
        self._more_due = True

    def _put_back_all(self) -> None:
        self._put_back([*self._buffer, *self._unlinked])
        self._buffer.clear()
        self._unlinked.clear()

    def _on_settled(self, jobs: list[int]) -> None:
        self._held.difference_update(jobs)
        if self._meanwhile is not None:
            self._meanwhile.update(jobs)
        self.wake()

    # -- sockets -----------------------------------------------------------------------------

    async def _dial_missing(self) -> bool:
        """Open the sockets that waiting events need; False where the relay cannot be reached."""
        self._buffer.extendleft(reversed(self._unlinked))
        self._unlinked.clear()
        wanted: set[str | None] = {None}
        if self._identities:
            wanted = {self._identity_of(flight) for flight in self._buffer}
        for identity in wanted - set(self._links):
            if not await self._dial(identity):
                self._put_back_all()
                return False
        return True

    async def _dial(self, identity: str | None) -> bool:
        shared = self._shared
        if len(self._links) > MAX_IDENTITIES:
            await self._close_one()
        session = Session(self.destination.url, shared.settings.timeout, identity)
        authenticator = functools.partial(self._authenticate, identity) if identity else None
        self._dialling = asyncio.get_running_loop().create_task(
            Connection.dial(
                session, self._on_progress, authenticator, shared.settings.connect_timeout
            )
        )
        try:
            link = await self._dialling
        except asyncio.CancelledError:
            if not self._stopping:
                raise
            return False
        except Exception as problem:  # noqa: BLE001 - every fault of dialling is the relay's
            self._on_unreachable(fault_of(problem))
            return False
        finally:
            self._dialling = None
        self._links[identity] = link
        shared.network.reached(self.destination.url)
        self._become(health.on_dial(self.breaker))
        return True

    async def _close_one(self) -> None:
        for identity, link in list(self._links.items()):
            if not link.session.load:
                await self._links.pop(identity).close()
                return

    def _identity_of(self, flight: Flight) -> str | None:
        pubkey = flight.parcel.pubkey
        return pubkey if pubkey in self._identities else None

    def _on_unreachable(self, fault: Fault) -> None:
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

    def _load(self) -> int:
        return sum(link.session.load for link in self._links.values())

    def _room(self) -> int:
        """How many events may be sent now. A half-open breaker admits one probe."""
        if self._results.is_full or self._stopping:
            return 0
        window = 1 if self.breaker.state is BreakerState.HALF_OPEN else int(self.pace.window)
        return window - self._load()

    def _pump(self) -> None:
        """Send as much as the window, the budget and the pause allow. Never waits."""
        shared = self._shared
        now = shared.clock.tick()
        room = self._room()
        if room <= 0 or now < self.pace.resume_at:
            return
        wall = shared.clock.now()
        is_scarce = shared.is_scarce
        while room > 0 and self._buffer:
            flight = self._buffer.popleft()
            link = self._links.get(self._identity_of(flight))
            if link is None:
                self._unlinked.append(flight)
                continue
            if flight.parcel.expires_at <= wall:
                self._settle(flight, _EXPIRED)
                continue
            if (
                not link.writable
                or not shared.gate.admits(flight.job)
                or (is_scarce and not self._affordable(flight, now))
            ):
                self._buffer.appendleft(flight)
                break
            shared.gate.enter(flight.job, self.destination.id)
            link.session.publish(flight, now)
            room -= 1
        for link in self._links.values():
            link.flush()
        if self._unlinked:
            self.wake()

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
        is_stale = self._is_stale
        if self._buffer and not is_stale:
            self._pump()
        if is_stale or (len(self._buffer) < CLAIM // 2 and self._more_due):
            self.wake()

    def _take_outcomes(self, session: Session) -> None:
        outcomes, session.outcomes = session.outcomes, []
        delivered = self._results.delivered
        gate = self._shared.gate
        answers = 0
        for flight, verdict in outcomes:
            if gate.serial:
                gate.leave(self.destination.id, flight.job)
            if verdict is DELIVERED and flight.attempts == 0:
                delivered.append(flight.job)
                answers += 1
            else:
                answers += self._on_verdict(flight, verdict)
        if answers:
            self.counts["oks"] += answers
            self.pace.on_answers(answers)
            self._become(health.on_answer(self.breaker))
            flight, verdict = outcomes[-1]
            if verdict is DELIVERED:
                sample = (self._shared.clock.tick() - flight.sent_at) * 1000
                self.latency = health.smooth(self.latency, sample)

    def _on_verdict(self, flight: Flight, verdict: Verdict) -> int:
        """Everything but a first plain OK. Returns 1 where the relay is well."""
        now = self._shared.clock.tick()
        if verdict.code == "rate-limited":
            self.pace.on_rate_limit(now, self._shared.clock.chance())
        elif verdict.code == "timeout":
            self.counts["timeouts"] += 1
            self.pace.on_silence(now)
        if verdict.outcome is Outcome.AUTHENTICATE:
            if self._authenticates(flight):
                self._identities.add(flight.parcel.pubkey)
                self._unlinked.append(flight)
                self.wake()
                return 1
            verdict = self._why_not_authenticated(flight, verdict)
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
        known = [identity for identity, found in self._links.items() if found is link]
        if not known:  # told already, or closed by us
            return
        for identity in known:
            del self._links[identity]
        if self._stopping:
            return
        if link.session.dropped or not link.session.heard:
            self.pace.on_lost()
            self._on_unreachable(Fault("closed", link.session.last_words))
        self.wake()

    # -- AUTH --------------------------------------------------------------------------------

    def _authenticates(self, flight: Flight) -> bool:
        """Whether we say who we are to this relay: by policy, and only where we can (C3)."""
        return self._shared.settings.auth != "never" and (
            flight.parcel.pubkey in self._shared.signers
        )

    def _why_not_authenticated(self, flight: Flight, verdict: Verdict) -> Verdict:
        reason = "your settings forbid it"
        if self._shared.settings.auth != "never":
            reason = f"no key of {flight.parcel.pubkey[:8]}… is at hand"
        return Verdict(Outcome.PARKED, "auth-required", f"{verdict.text} — but {reason}")

    async def _authenticate(self, identity: str, request: AuthRequest) -> Event | Verdict:
        tags = (("relay", request.relay), ("challenge", request.challenge))
        draft = make_draft(identity, self._shared.clock.now() // 1000, AUTH_KIND, tags)
        try:
            return await self._shared.signers.sign(draft)
        except SignerError as problem:
            return Verdict(Outcome.PARKED, "auth-required", f"AUTH was not signed: {problem}")

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
        )
