"""Schedule: posts under their callers' names, their quotas and slots, and changing one's mind.

Promises: whether a post is kept is decided and written in one transaction, under its author's
lock; a post that was changed never goes out as it was.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from postrich.errors import (
    CallerError,
    Conflict,
    PostrichError,
    QuotaExceeded,
    SlotTaken,
    TooLate,
    UnknownJob,
)
from postrich.model.job import Accepted, JobChange, JobFilter, JobState
from postrich.model.post import Grid, Kept, KeptAnswer, Network, NewPost, Post, Revision
from postrich.store.port import Admission, Revised, Scheduled
from postrich.store.verbs import accepting
from postrich.store.verbs.database import Database
from postrich.store.verbs.moving import KnownUrls, changes_of, end_jobs, standings
from postrich.store.verbs.reading import show

#: What was not sent on its way yet: only that can be changed, or called off for certain.
AHEAD = (JobState.SCHEDULED, JobState.PENDING_SIGN)
_WAITING = (*AHEAD, JobState.PENDING_PUBLISH)
_KEEPS_ANSWERS_MS = 86_400_000


class Call(msgspec.Struct, frozen=True):
    """One schedule call; `most`: so many posts of one author may wait for their hour."""

    posts: Sequence[NewPost]
    now: int
    most: int | None = None


class Row(msgspec.Struct, frozen=True, array_like=True):
    """A post's name and what it means."""

    name: str
    pubkey: str
    job: int
    crosspost: str


class _Known(msgspec.Struct, frozen=True, array_like=True):
    event_id: str
    job: int
    state: JobState
    due_at: int | None


# -- keeping -----------------------------------------------------------------------------------


def schedule(
    database: Database, calls: Sequence[Call], known_urls: KnownUrls
) -> list[Scheduled | PostrichError]:
    """Carry out many schedule calls at once; each of their posts gets its own answer."""
    ledger = _Ledger(database, calls)
    verdicts = [[ledger.judge(post, call) for post in call.posts] for call in calls]
    fresh = [
        (call, post)
        for call, answers in zip(calls, verdicts, strict=True)
        for post, answer in zip(call.posts, answers, strict=True)
        if answer is None
    ]
    now = max((call.now for call in calls), default=0)
    [admission] = accepting.accept(
        database, [accepting.Item([post.job for _, post in fresh], now)], known_urls
    )
    if isinstance(admission, PostrichError):
        return [admission] * len(calls)
    kept = iter(admission.accepted)
    answers = [
        [
            Kept(post.name, next(kept)) if verdict is None else verdict
            for post, verdict in zip(call.posts, found, strict=True)
        ]
        for call, found in zip(calls, verdicts, strict=True)
    ]
    _name(database, calls, answers)
    told = Admission([], admission.changes, admission.destinations)
    nothing = Admission([], [], set())
    return [
        Scheduled(found, told if index == 0 else nothing) for index, found in enumerate(answers)
    ]


def _name(
    database: Database, calls: Sequence[Call], answers: Sequence[Sequence[Kept | CallerError]]
) -> None:
    rows = [
        (answer.name, post.job.content.pubkey, answer.accepted.job, "".join(post.crosspost))
        for call, found in zip(calls, answers, strict=True)
        for post, answer in zip(call.posts, found, strict=True)
        if isinstance(answer, Kept)
    ]
    if rows:
        database.run("posts_keep", rows=rows)


def _keyed(database: Database, posts: Iterable[NewPost]) -> dict[str, _Known]:
    """The jobs of idempotency keys that were used before."""
    keys = sorted({post.job.key for post in posts if post.job.key is not None})
    if not keys:
        return {}
    rows = database.read(list[tuple[str, str, int, JobState, int | None]], "known_keys", keys=keys)
    return {key: _Known(event, job, state, due) for key, event, job, state, due in rows}


class _Ledger:
    """What is known of the authors, names and events of one transaction, as it fills up."""

    def __init__(self, database: Database, calls: Sequence[Call]) -> None:
        posts = [post for call in calls for post in call.posts]
        authors = sorted({post.job.content.pubkey for post in posts})
        database.lock("authors", pubkeys=authors)
        keys = sorted({(post.name, post.job.content.pubkey) for post in posts})
        named = database.read(list[Row], "posts_named", keys=keys)
        self._jobs = {(row.name, row.pubkey): row.job for row in named}
        ids = sorted({post.job.content.id for post in posts})
        known = database.read(list[_Known], "known_events", ids=ids)
        self._events = {event.event_id: event for event in known}
        self._keyed = _keyed(database, posts)
        jobs = [event.job for event in (*known, *self._keyed.values())]
        self._called = names_of(database, jobs) if jobs else {}
        self._waiting = dict.fromkeys(authors, 0)
        self._first: dict[str, int | None] = {}
        self._count(database, [call for call in calls if call.most is not None])
        self._names: set[tuple[str, str]] = set()
        self._taken = self._times_taken(database, [post for post in posts if post.alone])

    def _count(self, database: Database, calls: Sequence[Call]) -> None:
        """How many wait of those who have a limit: of others that may be a million."""
        limited = sorted({post.job.content.pubkey for call in calls for post in call.posts})
        if limited:
            counts = database.read(list[tuple[str, int, int | None]], "ahead_of", pubkeys=limited)
            self._waiting |= {author: count for author, count, _ in counts}
            self._first = {author: first for author, _, first in counts}

    @staticmethod
    def _times_taken(database: Database, posts: Iterable[NewPost]) -> set[tuple[str, int]]:
        taken: set[tuple[str, int]] = set()
        for post in posts:
            author, due = post.job.content.pubkey, post.job.due_at
            found = database.read(list[int], "times_taken", pubkey=author, first=due, last=due)
            taken.update((author, at) for at in found)
        return taken

    def judge(self, post: NewPost, call: Call) -> Kept | CallerError | None:
        """What is known of a post already or speaks against it; None: it is to be kept."""
        first = self._keyed.get(post.job.key or "")
        if first is not None:  # the same request once more, whatever else it says
            name = self._called.get(first.job, post.name)
            return Kept(name, Accepted(first.job, first.event_id, first.state, is_new=False))
        key = (post.name, post.job.content.pubkey)
        if key in self._names:
            return Conflict(f"the id {post.name!r} is given twice in this request")
        named = self._jobs.get(key)
        event = self._events.get(post.job.content.id)
        if named is not None and (event is None or event.job != named):
            return Conflict(f"the id {post.name!r} already names another post; edit that one")
        answer = _again(post, event) if event else self._room_for(post, call)
        if answer is not None and not isinstance(answer, Kept):
            return answer
        if event is not None and named is None:
            if event.job in self._called:
                called = self._called[event.job]
                return Conflict(f"this event is scheduled already, under the id {called!r}")
            self._called[event.job] = post.name
        self._names.add(key)
        return answer

    def _room_for(self, post: NewPost, call: Call) -> CallerError | None:
        author, due = post.job.content.pubkey, post.job.due_at
        if call.most is not None and self._waiting[author] >= call.most:
            first = self._first[author] or call.now
            wait = max(1, (first - call.now) // 1000 + 1)
            return QuotaExceeded(
                f"{self._waiting[author]} posts of this pubkey wait for their hour, and"
                f" {call.most} may: cancel one, or wait until one went out",
                wait,
            )
        if post.alone and due is not None:
            if (author, due) in self._taken:
                return SlotTaken("another post has that slot")
            self._taken.add((author, due))
        self._waiting[author] += 1
        self._events[post.job.content.id] = _Known(post.job.content.id, 0, JobState.SCHEDULED, due)
        return None


def _again(post: NewPost, event: _Known) -> Kept | CallerError | None:
    """The same event once more: its own post again, or a wish that contradicts the first.

    None: it brings the signature that its draft waits for, and is handed in once more.
    """
    if not event.job:
        return Conflict("the same event is given twice in this request")
    if event.state not in _WAITING:
        return Conflict(
            f"this event is {event.state} already, as job {event.job}: sign a new one, or delete"
            " that job first"
        )
    if event.due_at != post.job.due_at:
        return Conflict(
            f"this event is scheduled for another time, as job {event.job}: edit that one"
        )
    if event.state is JobState.PENDING_SIGN and post.job.is_signed:
        return None
    return Kept(post.name, Accepted(event.job, event.event_id, event.state, is_new=False))


# -- changing one's mind -----------------------------------------------------------------------


def revise(database: Database, change: Revision, now: int, known_urls: KnownUrls) -> Revised:
    """Another hour, or another event in its place; refused once it was sent on its way."""
    _check_ahead(database, change.job)
    if change.new is None:
        database.run(
            "reschedule", job=change.job, due_at=change.due_at, expires_at=change.expires_at
        )
        _tell(database, change.job, "rescheduled", f"due {change.due_at}", now)
        return Revised(change.job, Admission([], changes_of(database, [change.job]), set()))
    return _replace(database, change, now, known_urls)


def _replace(database: Database, change: Revision, now: int, known_urls: KnownUrls) -> Revised:
    assert change.new is not None
    found = database.read(list[_Known], "known_events", ids=[change.new.content.id])
    if found:
        raise Conflict(f"this event was handed in before, as job {found[0].job}")
    ended = end_jobs(database, [change.job], JobState.SUPERSEDED, "edited", now)
    [admission] = accepting.accept(database, [accepting.Item([change.new], now)], known_urls)
    assert isinstance(admission, Admission)
    [accepted] = admission.accepted
    database.run("posts_moved", old=change.job, new=accepted.job)
    _tell(database, accepted.job, "edited", f"in place of job {change.job}", now)
    moves = [*ended, *admission.changes]
    return Revised(accepted.job, Admission(admission.accepted, moves, admission.destinations))


def call_off(database: Database, jobs: Sequence[int], now: int) -> list[JobChange]:
    """Cancel what was not sent on its way yet, so that none of it ever goes out."""
    for job in jobs:
        _check_ahead(database, job)
    return end_jobs(database, jobs, JobState.CANCELLED, "by hand", now)


def sweep(database: Database, now: int) -> int:
    """Find open jobs that no loop would ever look at again; returns how many there were."""
    database.run("sweep", now=now)
    return database.changes()


def _check_ahead(database: Database, job: int) -> None:
    found = standings(database, [job])
    if not found:
        raise UnknownJob(f"there is no job {job}")
    if found[0].state is JobState.PENDING_PUBLISH:
        raise TooLate(f"job {job} is being published already")
    if found[0].state not in AHEAD:
        raise TooLate(f"job {job} is {found[0].state} already")


def _tell(database: Database, job: int, what: str, detail: str, now: int) -> None:
    database.run("note_story", jobs=[job], what=what, detail=detail, now=now)


# -- looking -----------------------------------------------------------------------------------


def posts_called(database: Database, name: str, pubkey: str | None) -> list[Post]:
    if pubkey is None:
        rows = database.read(list[Row], "posts_called", id=name)
    else:
        rows = database.read(list[Row], "posts_named", keys=[(name, pubkey)])
    return _posts(database, rows)


def posts_of(database: Database, pubkey: str, limit: int, before: int | None) -> list[Post]:
    values = {"pubkey": pubkey, "limit": limit, "before": before}
    return _posts(database, database.read(list[Row], "posts_list", **values))


def names_of(database: Database, jobs: Sequence[int]) -> dict[int, str]:
    rows = database.read(list[Row], "posts_of_jobs", jobs=jobs)
    return {row.job: row.name for row in rows}


def _posts(database: Database, rows: Sequence[Row]) -> list[Post]:
    if not rows:
        return []
    jobs = tuple({row.job for row in rows})
    shown = {job.id: job for job in show(database, JobFilter(jobs=jobs), len(jobs))}
    return [
        Post(row.name, shown[row.job], _networks(row.crosspost)) for row in rows if row.job in shown
    ]


def _networks(letters: str) -> tuple[Network, ...]:
    return tuple(network for network in Network if network in letters)


def ahead(database: Database, pubkey: str) -> int:
    [(_, count, _)] = database.read(list[tuple[str, int, int | None]], "ahead_of", pubkeys=[pubkey])
    return count


def times_taken(database: Database, pubkey: str, first: int, last: int) -> set[int]:
    values = {"pubkey": pubkey, "first": first, "last": last}
    return set(database.read(list[int], "times_taken", **values))


def grids(database: Database, pubkey: str) -> list[Grid]:
    return database.read(list[Grid], "grids_of", pubkey=pubkey)


def keep_grid(database: Database, grid: Grid) -> None:
    database.run("grid_keep", **msgspec.structs.asdict(grid))


def drop_grid(database: Database, pubkey: str, name: str) -> bool:
    database.run("grid_drop", pubkey=pubkey, name=name)
    return database.changes() > 0


def answer_of(database: Database, caller: str, key: str) -> KeptAnswer | None:
    found = database.read(list[KeptAnswer], "answer_of", caller=caller, key=key)
    return found[0] if found else None


def keep_answer(database: Database, answer: KeptAnswer) -> None:
    """Keep an answer; those of days ago are forgotten on the way."""
    database.run("answer_keep", **msgspec.structs.asdict(answer))
    database.run("answers_old", before=answer.at - _KEEPS_ANSWERS_MS, limit=10)
