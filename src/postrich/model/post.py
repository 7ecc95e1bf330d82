"""Scheduled posts: jobs under names of their callers' own, and slots they may be queued into."""

from __future__ import annotations

import enum

import msgspec

from postrich.model.job import Accepted, Job, NewJob


class Network(enum.StrEnum):
    """Where else a post may go once Nostr has it. A destination is not always a relay."""

    ACTIVITYPUB = "ap"
    ATPROTO = "at"


class NewPost(msgspec.Struct, frozen=True):
    """A job that is scheduled under a name.

    `alone`: only where no other post of the author is due at that very time (a slot).
    """

    name: str
    job: NewJob
    crosspost: tuple[Network, ...] = ()
    alone: bool = False


class Post(msgspec.Struct, frozen=True):
    """A scheduled post as its owner sees it: its name, and the job it means now."""

    name: str
    job: Job
    crosspost: tuple[Network, ...] = ()


class Kept(msgspec.Struct, frozen=True):
    """A post was kept, or was there already."""

    name: str
    accepted: Accepted


class Revision(msgspec.Struct, frozen=True):
    """A change of a post that was not sent on its way yet.

    Without `new` only its hour changes, and what is signed stays as it is.
    """

    job: int
    due_at: int
    expires_at: int
    new: NewJob | None = None


class Grid(msgspec.Struct, frozen=True, array_like=True):
    """A weekly grid of an author's own: posts are queued into its next free slot."""

    pubkey: str
    name: str
    grid: str
    zone: str


class KeptAnswer(msgspec.Struct, frozen=True, array_like=True):
    """What a request with an idempotency key was answered."""

    caller: str
    key: str
    fingerprint: str
    status: int
    body: str
    at: int
