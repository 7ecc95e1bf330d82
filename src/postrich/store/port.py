"""The store's port: what the engine asks of a database, as domain verbs.

Promises of every adapter: a verb returns only after its commit; a verb that takes a `Fence`
writes nothing once another worker holds that lease; nothing here decides what a reply means
or when to retry — SQL claims, rules judge. Every adapter passes the suite in `tests/store/`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import msgspec

from postrich.errors import CallerError
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
from postrich.model.hook import DueMessage, Hook, HookMessage, HookOutlook, MessageSettlement
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
from postrich.model.post import Grid, Kept, KeptAnswer, NewPost, Post, Revision
from postrich.model.relay import RelayHealth
from postrich.model.series import Occurrence, Occurring, Series, SeriesState, Template
from postrich.rules.hooks import HookPolicy
from postrich.rules.precedence import Cancellation


class Admission(msgspec.Struct, frozen=True):
    """What one accept did: its jobs, the older jobs that they ended, and where work is now."""

    accepted: list[Accepted]
    changes: list[JobChange]
    destinations: set[int]


class Scheduled(msgspec.Struct, frozen=True):
    """What became of each post of a schedule call, and what else that did."""

    answers: list[Kept | CallerError]
    admission: Admission


class Revised(msgspec.Struct, frozen=True):
    """The job that a changed post means now, and what that did."""

    job: int
    admission: Admission


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

    # -- schedule --------------------------------------------------------------------------

    async def schedule(
        self, posts: Sequence[NewPost], now: int, most: int | None = None
    ) -> Scheduled:
        """Keep posts under their names, each by itself, all in one commit (F5); at most `most`
        of one author wait for their hour (F4)."""

    async def revise(self, change: Revision, now: int) -> Revised:
        """Another hour or event for a post, or `TooLate`: from now on the old one never goes
        out (F5)."""

    async def call_off(self, jobs: Sequence[int], now: int) -> list[JobChange]:
        """Cancel jobs that were not sent on their way, or `TooLate`: none ever goes out."""

    async def sweep(self, now: int) -> int:
        """Make open jobs due that no loop would ever look at again, whatever left them so (F3);
        returns how many there were."""

    async def posts_called(self, name: str, pubkey: str | None = None) -> list[Post]:
        """The posts of that name; of one author at most one."""

    async def posts_of(self, pubkey: str, limit: int, before: int | None = None) -> list[Post]:
        """An author's posts, newest job first; `before` (a job) pages on."""

    async def names_of(self, jobs: Sequence[int]) -> dict[int, str]:
        """The names of the posts that jobs belong to."""

    async def ahead(self, pubkey: str) -> int:
        """How many posts of an author wait for their hour."""

    async def times_taken(self, pubkey: str, first: int, last: int) -> set[int]:
        """When an author's waiting posts are due, from one time to another."""

    async def grids(self, pubkey: str) -> list[Grid]:
        """An author's weekly grids."""

    async def keep_grid(self, grid: Grid) -> None:
        """Keep a weekly grid in place of any of the same name."""

    async def drop_grid(self, pubkey: str, name: str) -> bool:
        """Forget a weekly grid; False where there was none."""

    async def answer_of(self, caller: str, key: str) -> KeptAnswer | None:
        """What a request with that idempotency key was answered."""

    async def keep_answer(self, answer: KeptAnswer) -> None:
        """Keep an answer for a day, for when the request is sent again; the first one counts."""

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

    # -- hooks -----------------------------------------------------------------------------

    async def keep_hook(self, hook: Hook) -> None:
        """Keep a new hook: from now on what happens to its jobs is queued for it, in the very
        transaction in which it happens (F6)."""

    async def hooks(
        self, ids: Sequence[str] | None = None, pubkey: str | None = None
    ) -> list[Hook]:
        """Hooks by their ids, or of a public key (""), or all, the oldest first."""

    async def remove_hook(self, hook: str) -> None:
        """Forget a hook and its messages; `UnknownHook` where there is none."""

    async def disable_hook(self, hook: str, reason: str, now: int) -> Hook:
        """Queue nothing more for it; what waits has failed, and may be replayed."""

    async def enable_hook(self, hook: str) -> Hook:
        """Queue for it again what happens from now on."""

    async def rotate_hook(self, hook: str, key: str, now: int) -> Hook:
        """The next generation of its secret, derived from the master secret `key`."""

    async def say_to_hook(self, hook: str, message: str, kind: str, now: int) -> HookMessage:
        """Queue a message that tells of no job."""

    async def messages(
        self, hook: str, limit: int, before: int | None = None, message: str | None = None
    ) -> list[HookMessage]:
        """What a hook was or is to be told, newest first; `before` (a number) pages on."""

    async def replay_messages(
        self, hook: str, now: int, since: int = 0, message: str | None = None
    ) -> int:
        """Send again what failed since then, or one message whatever became of it; how many."""

    async def hook_outlook(self, key: str) -> HookOutlook:
        """What there is to do for hooks of this master secret."""

    async def messages_due(
        self, key: str, now: int, each: int, holding: Sequence[int] = ()
    ) -> list[DueMessage]:
        """What to send now, at most `each` of a hook and one of a job, but those in `holding`."""

    async def settle_messages(
        self, fence: Fence, results: Sequence[MessageSettlement], policy: HookPolicy, now: int
    ) -> list[Hook]:
        """Write what attempts came to; returns the hooks that were disabled by that."""

    # -- lifeline --------------------------------------------------------------------------

    async def expire(self, now: int, limit: int) -> list[JobChange]:
        """End what has outlived its lifetime."""

    async def archive(self, before: int, limit: int) -> int:
        """Move what finished before that time out of the hot tables."""

    async def prune(self, before: int, limit: int) -> int:
        """Forget history that is older. Event ids stay known."""

    # -- series ----------------------------------------------------------------------------

    async def keep_series(
        self,
        series: Series,
        signed: Sequence[tuple[int, NewJob]],
        now: int,
        most: int | None = None,
    ) -> Admission:
        """Keep a new series, and at once the jobs of occurrences that were signed beforehand.

        `most`: so many posts of its author may wait for their hour then.
        """

    async def series(self, name: str) -> Series:
        """The series of that name, or `UnknownSeries`."""

    async def series_page(self, pubkey: str | None, limit: int, after: str = "") -> list[Series]:
        """Series by their names, those after `after`; of one author or of all."""

    async def series_due(self, until: int, limit: int) -> list[Series]:
        """Active series whose next occurrence is then or before, the earliest first."""

    async def next_series(self) -> int | None:
        """When the next occurrence of any active series is."""

    async def occurrences(self, name: str, since: int, until: int, limit: int) -> list[Occurrence]:
        """What is kept of a series' occurrences between two times, both included."""

    async def occur(self, fence: Fence, occurring: Occurring, now: int) -> Admission | None:
        """Make or skip one occurrence, its job included, and move the series on: all at once.

        None: the series is not as it was seen, and nothing was done.
        """

    async def skip_occurrence(self, seen: Series, at: int, now: int) -> list[JobChange]:
        """This one shall not happen; a job that it has is cancelled."""

    async def edit_occurrence(self, seen: Series, at: int, template: Template) -> None:
        """This one says something else; refused once it is made."""

    async def move_series(
        self, seen: Series, state: SeriesState, next_at: int | None, passed: int, now: int
    ) -> list[JobChange]:
        """Pause, resume or end a series; unless it goes on, what is not due yet is cancelled."""

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
