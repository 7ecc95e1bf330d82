"""What goes over HTTP, both ways. Unknown fields are refused; names are those of the document."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

import msgspec
from msgspec import Meta

from postrich.model.job import Chapter, Job, JobState
from postrich.model.post import Network, Post
from postrich.rules.scheduling import status_word

Pubkey = Annotated[str, Meta(description="64 lower-case hex digits")]
Milliseconds = Annotated[int, Meta(description="milliseconds since 1970 (UTC)")]
Tags = list[list[str]]

MOST_ITEMS = 1000
MOST_RELAYS = 100


class SignedEvent(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A signed Nostr event (NIP-01), as it will be sent."""

    pubkey: Pubkey
    created_at: int
    kind: int
    tags: Tags
    content: str
    id: str = ""
    sig: str = ""


class SchedulePost(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A post for its hour. `id` is the caller's own name for it; without one it is the event's.

    `alone`: only if no other post of the author is due at that time: a slot of a weekly grid.
    """

    nostrEvent: SignedEvent  # noqa: N815 - the document's names
    scheduledAt: Milliseconds  # noqa: N815
    id: str = ""
    crossPostAP: bool = False  # noqa: N815
    crossPostAT: bool = False  # noqa: N815
    relays: Annotated[list[str], Meta(max_length=MOST_RELAYS)] = []
    alone: bool = False


class EditPost(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What to change: another hour, another event, or both."""

    scheduledAt: Milliseconds | None = None  # noqa: N815
    nostrEvent: SignedEvent | None = None  # noqa: N815


class BulkPosts(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Many posts at once; each gets its own result, all are kept in one commit."""

    posts: Annotated[list[SchedulePost], Meta(min_length=1, max_length=MOST_ITEMS)]


class PostKept(msgspec.Struct, frozen=True):
    """The document's answer."""

    status: str
    id: str


class BulkResult(msgspec.Struct, frozen=True, omit_defaults=True):
    """What became of one post of a bulk, in the order in which they were sent."""

    status: str
    id: str = ""
    code: int = 201
    detail: str = ""


class BulkResults(msgspec.Struct, frozen=True):
    scheduled: int
    refused: int
    results: list[BulkResult]


class RelayView(msgspec.Struct, frozen=True):
    """A job at one relay: its state, and the evidence."""

    relay: str
    reason: str
    state: str
    attempts: int
    nextAttempt: int | None  # noqa: N815
    code: str | None
    detail: str
    settledAt: int | None  # noqa: N815


class PostView(msgspec.Struct, frozen=True):
    """A scheduled post: the document's fields, then ours."""

    id: str
    nostrPubkey: str  # noqa: N815
    scheduledAt: int | None  # noqa: N815
    status: str
    crossPostAP: bool  # noqa: N815
    crossPostAT: bool  # noqa: N815
    retryCount: int  # noqa: N815
    errorMessage: str | None  # noqa: N815
    createdAt: str  # noqa: N815
    publishedAt: str | None  # noqa: N815
    job: int
    eventId: str  # noqa: N815
    state: JobState
    relays: list[RelayView]


class PostEdited(msgspec.Struct, frozen=True, omit_defaults=True):
    """The post as it is now; `warning`: what its owner should know."""

    status: str
    id: str
    post: PostView
    warning: str = ""


class PostList(msgspec.Struct, frozen=True):
    """`next`: hand it in as `cursor` for the next page; null at the end."""

    pubkey: str
    posts: list[PostView]
    next: int | None = None


class JobView(msgspec.Struct, frozen=True, omit_defaults=True):
    """A job: one event on its road, every relay included."""

    job: int
    eventId: str  # noqa: N815
    pubkey: str
    kind: int
    createdAt: int  # noqa: N815
    state: JobState
    priority: int
    goal: int
    acceptedAt: int  # noqa: N815
    scheduledAt: int | None  # noqa: N815
    expiresAt: int  # noqa: N815
    publishedAt: int | None  # noqa: N815
    finishedAt: int | None  # noqa: N815
    attempts: dict[str, int]
    nextAttempt: int | None  # noqa: N815
    content: str
    tags: Tags
    relays: list[RelayView]
    name: str | None = None
    error: dict[str, str] | None = None
    story: list[Chapter] | None = None


class JobList(msgspec.Struct, frozen=True):
    jobs: list[JobView]
    next: int | None = None


class Changed(msgspec.Struct, frozen=True):
    """The jobs that an action changed."""

    status: str
    jobs: list[int]


class SweepDone(msgspec.Struct, frozen=True):
    """`found`: how many jobs nobody would have looked at."""

    status: str
    found: int


def post_view(post: Post) -> PostView:
    job = post.job
    return PostView(
        id=post.name,
        nostrPubkey=job.pubkey,
        scheduledAt=job.due_at,
        status=status_word(job.state),
        crossPostAP=Network.ACTIVITYPUB in post.crosspost,
        crossPostAT=Network.ATPROTO in post.crosspost,
        retryCount=max((max(0, d.attempts - 1) for d in job.deliveries), default=0),
        errorMessage=job.error.message if job.error else None,
        createdAt=_iso(job.accepted_at),
        publishedAt=None if job.published_at is None else _iso(job.published_at),
        job=job.id,
        eventId=job.event_id,
        state=job.state,
        relays=relay_views(job),
    )


def job_view(job: Job, name: str | None = None, story: list[Chapter] | None = None) -> JobView:
    return JobView(
        job=job.id,
        eventId=job.event_id,
        pubkey=job.pubkey,
        kind=job.kind,
        createdAt=job.created_at,
        state=job.state,
        priority=job.priority,
        goal=job.goal,
        acceptedAt=job.accepted_at,
        scheduledAt=job.due_at,
        expiresAt=job.expires_at,
        publishedAt=job.published_at,
        finishedAt=job.finished_at,
        attempts={"sign": job.sign_attempts, "publish": job.publish_attempts},
        nextAttempt=job.next_at,
        content=job.content,
        tags=[list(tag) for tag in job.tags],
        relays=relay_views(job),
        name=name,
        error=_error(job),
        story=story,
    )


def relay_views(job: Job) -> list[RelayView]:
    return [
        RelayView(d.relay, d.reason, d.state, d.attempts, d.next_at, d.code, d.detail, d.settled_at)
        for d in job.deliveries
    ]


def _error(job: Job) -> dict[str, str] | None:
    if job.error is None:
        return None
    return {"phase": job.error.phase, "code": job.error.code, "message": job.error.message}


def _iso(ms: int) -> str:
    moment = datetime.fromtimestamp(ms / 1000, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def body_of(event: SignedEvent) -> bytes:
    """An event as it is checked and sent."""
    return msgspec.json.encode(event)
