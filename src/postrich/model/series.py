"""Recurring posts: a series, and each time that it happens. Times are milliseconds."""

from __future__ import annotations

import enum

import msgspec

from postrich.model.job import NewJob, Priority


class SeriesState(enum.StrEnum):
    ACTIVE = "active"
    PAUSED = "paused"
    ENDED = "ended"


class OccurrenceState(enum.StrEnum):
    PLANNED = "planned"
    MADE = "made"
    SKIPPED = "skipped"


class Missed(enum.StrEnum):
    """What is done about occurrences whose hour passed while nobody was at work."""

    SKIP = "skip"
    POST = "post"


class Template(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What each occurrence says; who says it is the series', and when is its own."""

    kind: int = 1
    tags: tuple[tuple[str, ...], ...] = ()
    content: str = ""


class Terms(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How the jobs of a series are treated; None means the outbox's own settings."""

    relays: tuple[str, ...] = ()
    policy: str | None = None
    goal: int | None = None
    priority: Priority = Priority.NORMAL
    autopilot: bool | None = None
    goal_mine: int = 0
    goal_inbox: int = 0


class Series(msgspec.Struct, frozen=True):
    """A series as its owner sees it. Without a template its events were signed beforehand.

    `passed`: occurrences that are behind it, made or not; `made`: those that have a job.
    `next_at`: the next that is to be made; `last_at`: the last one that was.
    `revision` rises with every change, so that nobody acts on what is old.
    """

    id: str
    pubkey: str
    recurrence: str
    zone: str
    template: Template | None
    terms: Terms
    starts_at: int
    kept_at: int
    until: int | None = None
    count: int | None = None
    missed: Missed = Missed.SKIP
    state: SeriesState = SeriesState.ACTIVE
    made: int = 0
    passed: int = 0
    next_at: int | None = None
    last_at: int | None = None
    revision: int = 1

    @property
    def is_signed(self) -> bool:
        return self.template is None

    def state_at(self, now: int) -> SeriesState:
        """A signed series ends by itself, with its last event."""
        is_over = self.is_signed and self.last_at is not None and self.last_at <= now
        return SeriesState.ENDED if is_over else self.state


class Occurrence(msgspec.Struct, frozen=True):
    """One time that a series happens. `template`: what was edited for this one alone."""

    series: str
    at: int
    state: OccurrenceState = OccurrenceState.PLANNED
    job: int | None = None
    template: Template | None = None
    detail: str = ""


def post_name(series: str, at: int) -> str:
    """What the scheduled post of an occurrence is called."""
    return f"{series}.{at}"


class Step(msgspec.Struct, frozen=True):
    """What is to be done about a series now: one occurrence, and when to look again.

    `passed`: how many occurrences are behind it then that were not before.
    """

    at: int
    make: bool
    passed: int
    following: int | None


class Occurring(msgspec.Struct, frozen=True):
    """A step that is to be carried out, with the job that it makes; `revision`: what was seen."""

    series: str
    revision: int
    step: Step
    job: NewJob | None
    detail: str = ""
