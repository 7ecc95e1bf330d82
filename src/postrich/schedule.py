"""The schedule: posts under names of one's own, for their hour; edited or called off until then.

Promises: what `put` returned as kept is on disk, and goes out at its hour, never before; after
`edit` or `cancel` returned, the old version never goes out.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

import msgspec

from postrich.accept import Intake, Options, Publishable
from postrich.clock import Clock
from postrich.errors import CallerError, Conflict, UnknownJob
from postrich.model.delivery import event_in
from postrich.model.event import Event
from postrich.model.job import Job, JobChange, JobState, NewJob, Priority
from postrich.model.post import Kept, KeptAnswer, Network, NewPost, Post, Revision
from postrich.rules.routing import NAMED
from postrich.rules.scheduling import check_created_at, check_hour, check_name, check_new_hour
from postrich.slots import SlotDesk, Slotted
from postrich.store.port import Admission, Store

#: The retry policy of scheduled posts (S2: 1, 5 and 15 minutes).
POLICY = "scheduled"


class Wish(msgspec.Struct, frozen=True, kw_only=True):
    """Something to be scheduled: an event or draft, its hour, and how to treat it.

    Without a name it is known by its event's id. `alone`: only if nothing else is due then.
    """

    item: Publishable
    at: int
    name: str = ""
    relays: tuple[str, ...] = ()
    policy: str | None = None
    priority: Priority = Priority.NORMAL
    goal: int | None = None
    crosspost: tuple[Network, ...] = ()
    alone: bool = False
    key: str | None = None


class Edited(msgspec.Struct, frozen=True):
    """The post as it is now, and what its owner should know."""

    post: Post
    warning: str = ""


class ScheduleDesk:
    """The schedule of one outbox."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        intake: Intake,
        on_kept: Callable[[Admission, Sequence[NewJob]], None],
        on_changed: Callable[[list[JobChange]], object],
    ) -> None:
        self._store = store
        self._clock = clock
        self._intake = intake
        self._on_kept = on_kept
        self._on_changed = on_changed
        self.slots = SlotDesk(store, clock)

    async def put(
        self, wishes: Sequence[Wish], most: int | None = None
    ) -> list[Kept | CallerError]:
        """Keep all that can be kept, in one commit; each gets its own answer (F5).

        `most`: so many posts of one author may wait for their hour (F4).
        """
        checked = await self.check(wishes)
        posts = [post for post in checked if isinstance(post, NewPost)]
        scheduled = await self._store.schedule(posts, self._clock.now(), most)
        kept = [answer for answer in scheduled.answers if isinstance(answer, Kept)]
        accepted = [answer.accepted for answer in kept]
        told = msgspec.structs.replace(scheduled.admission, accepted=accepted)
        by_answer = [
            post.job
            for post, answer in zip(posts, scheduled.answers, strict=True)
            if isinstance(answer, Kept)
        ]
        self._on_kept(told, by_answer)
        answers = iter(scheduled.answers)
        return [next(answers) if isinstance(post, NewPost) else post for post in checked]

    async def check(self, wishes: Sequence[Wish]) -> list[NewPost | CallerError]:
        """What each wish would be kept as, or what speaks against it; keeps nothing."""
        now = self._clock.now()
        jobs = await self._intake.admit_each([(wish.item, _options(wish)) for wish in wishes])
        return [_check(wish, job, now) for wish, job in zip(wishes, jobs, strict=True)]

    async def put_in_slot(
        self,
        wish: Wish,
        pubkey: str,
        grid: str,
        *,
        prepare: Callable[[Wish], Awaitable[Wish]] | None = None,
        most: int | None = None,
    ) -> Slotted | CallerError:
        """Keep a post in the next free slot of an author's grid, whatever hour it names.

        `prepare` makes the wish ready for its hour, such as by signing it.
        """

        async def keep(at: int) -> Kept | CallerError:
            here = msgspec.structs.replace(wish, at=at, alone=True)
            [answer] = await self.put([await prepare(here) if prepare else here], most)
            return answer

        return await self.slots.take(pubkey, grid, keep)

    async def get(self, name: str, pubkey: str | None = None) -> Post:
        """The post of that name; of whichever author, where none is named."""
        found = await self._store.posts_called(name, pubkey)
        if not found:
            raise UnknownJob(f"no scheduled post has the id {name!r}")
        if len(found) > 1:
            raise Conflict(f"several authors have a post with the id {name!r}: say whose")
        return found[0]

    async def of_job(self, job: Job) -> Post:
        """The post that means this job now."""
        name = (await self._store.names_of([job.id])).get(job.id)
        if name is None:
            raise UnknownJob(f"job {job.id} is no scheduled post")
        return await self.get(name, job.pubkey)

    async def posts(self, pubkey: str, limit: int = 100, before: int | None = None) -> list[Post]:
        """An author's posts, newest first; `before` (a job) pages on."""
        return await self._store.posts_of(pubkey, limit, before)

    async def signed_bytes(self, posts: Sequence[Post]) -> dict[int, bytes]:
        """The events of posts that are signed and not finished for long, by their jobs."""
        signed = [post.job.id for post in posts if post.job.state is not JobState.PENDING_SIGN]
        parcels = await self._store.parcels(signed) if signed else []
        return {parcel.job: event_in(parcel.frame) for parcel in parcels}

    async def edit(
        self, post: Post, *, at: int | None = None, item: Publishable | None = None
    ) -> Edited:
        """Another hour, or another event in its place; `TooLate` once it is on its way.

        A signed event keeps its signature with a new hour, unless it would be from the future
        then. A draft takes the new hour as its own time, and is signed anew.
        """
        now = self._clock.now()
        job = post.job
        due = check_hour(at, now) if at is not None else (job.due_at or now)
        if item is None and job.state is JobState.PENDING_SIGN:
            item = {
                "pubkey": job.pubkey,
                "kind": job.kind,
                "tags": job.tags,
                "content": job.content,
            }
        if item is None:
            warning = check_new_hour(job.created_at, due)
            life = round(job.policy.lifetime * 1000)
            revision = Revision(job.id, due, due + life)
        else:
            new = await self._replacement(job, item, due)
            warning = ""
            revision = Revision(job.id, due, new.expires_at, new)
        await self._revise(revision)
        return Edited(await self.get(post.name, job.pubkey), warning)

    async def _replacement(self, job: Job, item: Publishable, due: int) -> NewJob:
        relays = tuple(d.relay for d in job.deliveries if d.reason == NAMED)
        options = Options(
            relays=relays,
            at=due,
            policy=job.policy,
            goal=job.goal,
            priority=Priority(job.priority),
        )
        [new] = await self._intake.admit([item], options)
        if isinstance(new, CallerError):
            raise new
        if new.content.pubkey != job.pubkey:
            raise Conflict("the new event is by another author: a post stays its author's")
        check_created_at(new.content.created_at, due)
        return new

    async def _revise(self, revision: Revision) -> None:
        revised = await self._store.revise(revision, self._clock.now())
        admission = revised.admission
        self._on_changed(admission.changes)
        if revision.new is not None:
            self._on_kept(msgspec.structs.replace(admission, changes=[]), [revision.new])

    async def cancel(self, posts: Sequence[Post]) -> None:
        """Call posts off for certain; `TooLate` where one is on its way, and none is then."""
        jobs = [post.job.id for post in posts]
        self._on_changed(await self._store.call_off(jobs, self._clock.now()))

    async def names(self, jobs: Sequence[int]) -> dict[int, str]:
        """The names of the posts that jobs belong to."""
        return await self._store.names_of(jobs) if jobs else {}

    async def waiting(self, pubkey: str) -> int:
        """How many posts of an author wait for their hour."""
        return await self._store.ahead(pubkey)

    async def answer_of(self, caller: str, key: str) -> KeptAnswer | None:
        """What a request with that idempotency key was answered within the last day."""
        return await self._store.answer_of(caller, key)

    async def keep_answer(self, answer: KeptAnswer) -> None:
        """Keep an answer for when the request is sent again."""
        await self._store.keep_answer(answer)

    async def sweep(self) -> int:
        """Look at once for what is due, and for what no loop would look at (F3)."""
        found = await self._store.sweep(self._clock.now())
        self._on_changed([])
        return found


def _options(wish: Wish) -> Options:
    return Options(
        relays=wish.relays,
        at=wish.at,
        policy=wish.policy or POLICY,
        goal=wish.goal,
        priority=wish.priority,
        key=wish.key,
    )


def _check(wish: Wish, job: NewJob | CallerError, now: int) -> NewPost | CallerError:
    if isinstance(job, CallerError):
        return job
    try:
        check_hour(wish.at, now)
        if isinstance(job.content, Event):
            check_created_at(job.content.created_at, wish.at)
        name = check_name(wish.name or job.content.id)
    except CallerError as refusal:
        return refusal
    return NewPost(name, job, wish.crosspost, wish.alone)
