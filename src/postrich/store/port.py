"""The store's port: what the engine asks of a database, as domain verbs.

Promises of every adapter: a verb returns only after its commit; a verb that takes a `Fence`
writes nothing once another worker holds that lease; nothing here decides what a reply means
or when to retry — SQL claims, rules judge. Every adapter passes the suite in `tests/store/`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import msgspec

from postrich.model.delivery import (
    NO_FLOORS,
    Claimed,
    Destination,
    Fence,
    Floors,
    Parcel,
    Settlement,
)
from postrich.model.event import Event
from postrich.model.job import (
    Accepted,
    Chapter,
    Job,
    JobChange,
    JobError,
    JobFilter,
    NewJob,
    QueueStatus,
    Routed,
    StageItem,
    Unsigned,
)
from postrich.model.relay import RelayHealth
from postrich.rules.precedence import Cancellation


class Admission(msgspec.Struct, frozen=True):
    """What one accept did: its jobs, the older jobs that they ended, and where work is now."""

    accepted: list[Accepted]
    changes: list[JobChange]
    destinations: set[int]


class Work(msgspec.Struct, frozen=True):
    """A destination with open deliveries, and when the earliest is due.

    `nudged`: a person wants it tried now, whatever its breaker says (B6).
    `messages`: direct messages wait for it, if it is a stranger's relay (C8).
    """

    destination: Destination
    earliest: int
    nudged: bool = False
    messages: bool = False


class Results(msgspec.Struct, frozen=True):
    """What a lane learnt: plain OKs by job number, and everything else in full."""

    fence: Fence
    destination: int
    delivered: Sequence[int]
    others: Sequence[Settlement]


class WorkerInfo(msgspec.Struct, frozen=True, array_like=True):
    """A process that works on this store. `host`: its machine's name, and after a space what
    tells apart those of the same name."""

    owner: str
    host: str
    pid: int
    role: str
    started_at: int
    seen_at: int

    @property
    def whereabouts(self) -> str:
        """For people."""
        return f"{self.role} {self.pid} on {self.machine}"

    @property
    def machine(self) -> str:
        return self.host.partition(" ")[0]


class LeaseInfo(msgspec.Struct, frozen=True, array_like=True):
    """What one worker holds, and until when without renewing it."""

    name: str
    owner: str
    epoch: int
    until: int


class Backlog(msgspec.Struct, frozen=True, array_like=True):
    """What waits for one relay."""

    url: str
    waiting: int
    tried: int


class KeptList(msgspec.Struct, frozen=True, array_like=True):
    """A relay list as it was signed; without a body: somebody looked, and there was none."""

    pubkey: str
    kind: int
    looked_at: int
    body: str | None = None


class Store(Protocol):
    """Everything that is kept. All times are wall-clock milliseconds given by the caller."""

    async def close(self) -> None:
        """Commit what was handed in, then let the database go."""

    # -- accept ----------------------------------------------------------------------------

    async def accept(self, jobs: Sequence[NewJob], now: int) -> Admission:
        """Keep all of these jobs or none. An event that is known keeps its one job (A9)."""

    async def newest_version(self, address: str) -> int | None:
        """`created_at` of the newest version of a replaceable event ever accepted (A11)."""

    # -- leases ----------------------------------------------------------------------------

    async def enlist(self, worker: WorkerInfo) -> None:
        """Say that a worker is alive."""

    async def dismiss(self, owner: str) -> None:
        """A worker left or died: its leases are free at once."""

    async def workers(self) -> list[WorkerInfo]:
        """Who works here, as far as is known."""

    async def take_lease(self, name: str, owner: str, now: int, until: int) -> Fence | None:
        """Hold `name` until `until`, or None where another worker holds it."""

    async def renew_leases(self, owner: str, until: int) -> list[str]:
        """Hold everything that this owner holds for longer; returns the names of it."""

    async def leases(self) -> list[LeaseInfo]:
        """Who holds what; some may have lapsed."""

    async def relay_urls(self, destinations: Sequence[int]) -> dict[int, str]:
        """The URLs of destinations by their numbers, as leases name them; unknown are left out."""

    async def drop_lease(self, fence: Fence) -> None:
        """Give one lease up."""

    # -- lanes -----------------------------------------------------------------------------

    async def work(self) -> list[Work]:
        """Which destinations have open deliveries."""

    async def probing(self, destinations: Sequence[int]) -> None:
        """Nudged destinations are being tried: the wish is granted."""

    async def claim(
        self,
        destination: int,
        now: int,
        fresh: int,
        retried: int,
        holding: Sequence[int],
        small: int | None = None,
        after: Floors = NO_FLOORS,
    ) -> list[Claimed]:
        """Due deliveries, leaving out those in `holding`, and in each band those that do not come
        after its floor. Writes nothing."""

    async def parcels(self, jobs: Sequence[int]) -> list[Parcel]:
        """What lanes need of these jobs."""

    async def settle(self, results: Results, now: int) -> list[JobChange]:
        """Write what a lane learnt, and move the jobs that it decides."""

    async def note_health(self, reports: Sequence[tuple[int, RelayHealth]]) -> None:
        """Keep what lanes know of their relays."""

    # -- signing ---------------------------------------------------------------------------

    async def unsigned(self) -> list[tuple[str, int]]:
        """The accounts with drafts to sign, and when the earliest of each is due."""

    async def drafts_due(
        self, pubkey: str, now: int, limit: int, holding: Sequence[int] = ()
    ) -> list[Unsigned]:
        """Drafts of an account to be signed now, leaving out those in `holding`."""

    async def signer_came(self, pubkey: str, now: int) -> tuple[list[JobChange], set[int]]:
        """The account can sign: its drafts are due, and deliveries that a relay wanted AUTH
        for (A6). Returns also the destinations that have work again."""

    async def signed(
        self, fence: Fence, job: int, event: Event, now: int, by: str = ""
    ) -> list[JobChange]:
        """Keep the signed bytes of a draft; from now on they are the event."""

    async def not_signed(
        self, fence: Fence, job: int, error: JobError, next_at: int | None, park: bool, now: int
    ) -> list[JobChange]:
        """Count a sign attempt; without `next_at` the job waits for a person or has failed."""

    # -- stager ----------------------------------------------------------------------------

    async def stage_due(self, now: int, limit: int, holding: Sequence[int] = ()) -> list[StageItem]:
        """Signed jobs to send on their way, the earliest first (A8), but those in `holding`."""

    async def next_stage(self) -> int | None:
        """When the stager is needed next."""

    async def route(
        self, fence: Fence, jobs: Sequence[Routed], now: int
    ) -> tuple[list[JobChange], set[int]]:
        """Make the deliveries of due jobs; returns also the destinations that have work now.

        A job that was routed before gets what is new to it; nothing of it is taken away (D11).
        """

    async def not_routed(
        self, fence: Fence, job: int, error: JobError, next_at: int | None, now: int
    ) -> list[JobChange]:
        """Nowhere to go: look again at `next_at`; without it the job waits for a person."""

    # -- relay lists -----------------------------------------------------------------------

    async def lists(self, keys: Sequence[tuple[str, int]]) -> list[KeptList]:
        """What is known of these lists, by (pubkey, kind); those never looked for are left out."""

    async def keep_lists(self, found: Sequence[KeptList]) -> None:
        """Keep what a search found; one that found nothing takes nothing away."""

    async def reroute(self, pubkeys: Sequence[str], now: int) -> None:
        """Their lists changed: open jobs that depend on them are routed again (D11)."""

    async def where_sent(self, request: Cancellation) -> list[str]:
        """The relays that were sent what this deletion or vanish request takes back."""

    # -- lifeline --------------------------------------------------------------------------

    async def expire(self, now: int, limit: int) -> list[JobChange]:
        """End what has outlived its lifetime."""

    async def archive(self, before: int, limit: int) -> int:
        """Move what finished before that time out of the hot tables."""

    async def prune(self, before: int, limit: int) -> int:
        """Forget history that is older. Event ids stay known."""

    # -- people ----------------------------------------------------------------------------

    async def retry(self, which: JobFilter, now: int) -> list[JobChange]:
        """Try again now, whatever the backoff says (B6)."""

    async def cancel(self, which: JobFilter, now: int) -> list[JobChange]:
        """Stop what is not published yet; the rows stay for their story."""

    async def delete(self, which: JobFilter) -> list[int]:
        """Remove finished jobs with all that belongs to them (B6)."""

    async def jobs(self, which: JobFilter, limit: int, before: int | None = None) -> list[Job]:
        """Jobs with their deliveries, newest first; `before` pages on."""

    async def find(self, event_id_prefix: str) -> list[int]:
        """Jobs whose event id begins so, at most three."""

    async def story(self, job: int) -> list[Chapter]:
        """What happened to a job beyond the plain road."""

    async def status(self) -> QueueStatus:
        """The queue in figures (A12)."""

    async def backlog(self) -> list[Backlog]:
        """What waits for each relay."""

    async def health(self) -> list[RelayHealth]:
        """What is known of each relay."""

    async def changed(self) -> int:
        """A number that differs whenever another process may have written."""

    def listen(self, on_hint: Callable[[], None]) -> None:
        """Call `on_hint` when another process may have changed something: look again then.

        A hint, never the truth: it may not come, or come for nothing.
        """

    async def time(self) -> int | None:
        """The database's own wall clock; None where it is this machine's."""
